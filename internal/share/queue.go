package share

import (
	"context"
	"sync"
	"time"
)

// maxQueued bounds the bytes of the frames that wait in a queue, so that a process that does not
// read cannot fill the memory of the leader. Frames that are being sent do not count, and one
// larger frame may wait alone. A leader closes the connection when a queue is full, because it
// waits for no follower; the follower joins again. Requests of a follower wait for room. The leader
// reads no more of them while it works on this many bytes. Tests change it.
var maxQueued = 256 << 20

// gatherTime is how long a frame of addLater waits at most. While many processes write, each one
// wakes for its own results, not for every commit.
const gatherTime = 4 * time.Millisecond

// A queue holds the frames that wait to be sent on one connection, in order. Adding a frame never
// waits.
type queue struct {
	socket *socket
	wake   chan struct{} // for the sender; has room for one

	mu      sync.Mutex
	frames  [][]byte
	since   time.Time // when the first of them was added
	bytes   int       // of frames
	sent    time.Time // when frames were taken last
	writing bool      // somebody writes the frames before them
	now     bool      // who writes them is to write these as well
	stuck   [][]byte  // frames that the socket did not take, for the sender, which is the one who writes
	closed  bool      // no frame is added any more
	err     error     // why the connection takes nothing any more

	room chan struct{} // closed when there may be room again; nil if nobody waits for that
}

func newQueue(s *socket) *queue { return &queue{socket: s, wake: make(chan struct{}, 1)} }

// add appends a frame and sends all, as far as the socket takes them at once: to wake another
// goroutine costs more. false says that the queue is closed or full.
func (q *queue) add(frame []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.append(frame) {
		return false
	}
	q.write()
	return true
}

// addWithRoom is add for a frame that waits while the queue is full. false, without an error of
// ctx, says that it is closed.
func (q *queue) addWithRoom(ctx context.Context, frame []byte) (added bool, err error) {
	for {
		q.mu.Lock()
		if added = q.append(frame); added {
			q.write()
		}
		if added || q.closed {
			q.mu.Unlock()
			return added, nil
		}
		if q.room == nil {
			q.room = make(chan struct{})
		}
		room := q.room
		q.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// addLater appends a frame that goes out with the next one of add, or by flush.
func (q *queue) addLater(frame []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.append(frame)
}

// addSoon appends a frame and leaves sending to another goroutine, for callers that hold a lock.
func (q *queue) addSoon(frame []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.append(frame) {
		return false
	}
	q.now = true
	q.signal()
	return true
}

// append appends a frame. mu is held.
func (q *queue) append(frame []byte) bool {
	if q.closed || q.bytes > 0 && q.bytes+len(frame) > maxQueued {
		return false
	}
	if len(q.frames) == 0 {
		q.since = time.Now()
	}
	q.frames = append(q.frames, frame)
	q.bytes += len(frame)
	return true
}

// flush sends the frames that have waited long enough, and returns the time until it should be
// called again; 0 if none wait.
func (q *queue) flush(now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.frames) == 0 {
		return 0
	}
	due := q.since
	if q.sent.Before(due) { // at once while few frames are sent
		due = q.sent
	}
	wait := due.Add(gatherTime).Sub(now)
	switch {
	case wait > 0:
		return wait
	case q.writing:
		return gatherTime
	}
	q.write()
	return 0
}

// write writes all frames unless somebody writes already, who will do so. mu is held.
func (q *queue) write() {
	if q.writing {
		q.now = true
		return
	}
	q.writing = true
	for q.now = true; q.now && q.err == nil && len(q.frames) > 0; {
		frames := q.frames
		q.frames, q.bytes, q.now, q.sent = nil, 0, false, time.Now()
		q.makeRoom()
		q.mu.Unlock()
		rest, err := q.socket.writeSome(frames)
		q.mu.Lock()
		switch {
		case err != nil:
			q.fail(err)
		case len(rest) > 0:
			q.stuck = rest
			q.signal()
			return
		}
	}
	if q.writing = false; q.closed {
		q.signal() // the sender has not ended while this one wrote
	}
}

// makeRoom wakes the requests that wait for room. mu is held.
func (q *queue) makeRoom() {
	if q.room != nil {
		close(q.room)
		q.room = nil
	}
}

// fail ends the queue at once. mu is held.
func (q *queue) fail(err error) {
	q.err, q.closed, q.frames = err, true, nil
	q.makeRoom()
	q.signal()
}

// close ends the queue after the frames that are in it.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.makeRoom()
	q.write()
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default: // the sender has not seen the one before
	}
}

// send writes the frames that nobody else does, until the queue is closed and empty or the
// connection fails.
func (q *queue) send() error {
	for range q.wake {
		q.mu.Lock()
		frames := q.stuck
		q.mu.Unlock()
		rest, err := frames, error(nil)
		for len(rest) > 0 && err == nil {
			if err = q.socket.parkWrite(); err == nil {
				rest, err = q.socket.writeSome(rest)
			}
		}
		q.mu.Lock()
		if len(frames) > 0 {
			q.stuck, q.writing = nil, false
		}
		if err != nil {
			q.fail(err)
		}
		if q.now || q.closed {
			q.write()
		}
		err, ended := q.err, q.closed && !q.writing
		q.mu.Unlock()
		if err != nil || ended {
			return err
		}
	}
	return nil
}
