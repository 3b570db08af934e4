package share

import (
	"net"
	"sync"
)

// maxQueued is how many bytes wait for a process that does not read. Beyond them the connection is
// closed, and the process joins again: the leader waits for no follower.
const maxQueued = 256 << 20

// A queue holds the frames that wait to be sent on one connection. Adding a frame never waits.
type queue struct {
	mu     sync.Mutex
	more   *sync.Cond
	frames [][]byte
	bytes  int
	closed bool // no frame is added any more
}

func newQueue() *queue {
	q := &queue{}
	q.more = sync.NewCond(&q.mu)
	return q
}

// add appends a frame; false if the queue is closed or full.
func (q *queue) add(frame []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.bytes+len(frame) > maxQueued && q.bytes > 0 {
		return false
	}
	q.frames = append(q.frames, frame)
	q.bytes += len(frame)
	q.more.Broadcast()
	return true
}

// close ends the queue after the frames that are in it.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.more.Broadcast()
}

// send writes frames until the queue is closed and empty or the connection fails.
func (q *queue) send(conn net.Conn) error {
	defer q.close()
	for {
		q.mu.Lock()
		for len(q.frames) == 0 && !q.closed {
			q.more.Wait()
		}
		frames := q.frames
		q.frames, q.bytes = nil, 0
		q.mu.Unlock()
		if len(frames) == 0 {
			return nil
		}
		buffers := net.Buffers(frames)
		if _, err := buffers.WriteTo(conn); err != nil {
			return err
		}
	}
}
