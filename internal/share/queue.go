package share

import (
	"net"
	"sync"
	"time"
)

const (
	// maxQueued is how many bytes wait for a process that does not read. Beyond them the connection
	// is closed, and the process joins again: the leader waits for no follower.
	maxQueued = 256 << 20
	// gatherTime is how long a frame of addLater waits at most, counted from the frames before it.
	// While many processes write, each one wakes for its own results, not for every commit.
	gatherTime = 4 * time.Millisecond
)

// A queue holds the frames that wait to be sent on one connection, in order. Adding a frame never
// waits.
type queue struct {
	conn *net.UnixConn
	wake chan struct{} // for the sender; has room for one

	mu      sync.Mutex
	frames  [][]byte
	bytes   int
	now     bool      // one of them is not to wait
	writing bool      // somebody writes the frames before them
	sent    time.Time // when frames were taken last
	closed  bool      // no frame is added any more
}

func newQueue(conn *net.UnixConn) *queue {
	return &queue{conn: conn, wake: make(chan struct{}, 1)}
}

// add appends a frame and has all sent. It writes itself, as far as the socket takes them at once,
// unless somebody writes already: to wake another goroutine costs more. false says that the queue
// is closed or full.
func (q *queue) add(frame []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.append(frame) {
		return false
	}
	q.now = true
	if q.writing {
		return true
	}
	frames := q.take()
	q.mu.Unlock()
	rest := writeSome(q.conn, frames)
	q.mu.Lock()
	q.writing = false
	if len(rest) > 0 {
		q.frames, q.now = append(rest, q.frames...), true
		for _, frame := range rest {
			q.bytes += len(frame)
		}
	}
	if len(q.frames) > 0 || q.closed {
		q.signal()
	}
	return true
}

// addLater appends a frame that goes out with the next one of add, or gatherTime after the frames
// before it.
func (q *queue) addLater(frame []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := len(q.frames) == 0
	if !q.append(frame) {
		return false
	}
	if first && !q.writing {
		q.signal()
	}
	return true
}

// append appends a frame. mu is held.
func (q *queue) append(frame []byte) bool {
	if q.closed || q.bytes+len(frame) > maxQueued && q.bytes > 0 {
		return false
	}
	q.frames = append(q.frames, frame)
	q.bytes += len(frame)
	return true
}

// take takes the frames to write them. mu is held.
func (q *queue) take() [][]byte {
	frames := q.frames
	q.frames, q.bytes, q.now = nil, 0, false
	q.writing, q.sent = true, time.Now()
	return frames
}

// close ends the queue after the frames that are in it.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default: // the sender has not seen the one before
	}
}

// next returns the frames that the sender is to write; or none, and how long it waits for a signal
// at most, 0 for as long as it takes. more is false once the queue is closed and empty.
func (q *queue) next() (frames [][]byte, wait time.Duration, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.writing {
		return nil, 0, true // a signal follows if there is more to do
	}
	if len(q.frames) == 0 {
		return nil, 0, !q.closed
	}
	if wait := gatherTime - time.Since(q.sent); wait > 0 && !q.now && !q.closed {
		return nil, wait, true
	}
	return q.take(), 0, true
}

// send writes frames until the queue is closed and empty or the connection fails.
func (q *queue) send() error {
	defer q.close()
	timer := time.NewTimer(gatherTime)
	defer timer.Stop()
	for {
		frames, wait, more := q.next()
		switch {
		case !more:
			return nil
		case len(frames) > 0:
			buffers := net.Buffers(frames)
			if _, err := buffers.WriteTo(q.conn); err != nil {
				return err
			}
			q.mu.Lock()
			q.writing = false
			q.mu.Unlock()
		case wait > 0:
			timer.Reset(wait)
			select {
			case <-q.wake:
			case <-timer.C:
			}
		default:
			<-q.wake
		}
	}
}
