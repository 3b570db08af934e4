package share

import (
	"sync"
	"time"
)

const (
	// maxQueued is how many bytes wait for a process that does not read. Beyond them the connection
	// is closed, and the process joins again: the leader waits for no follower.
	maxQueued = 256 << 20
	// gatherTime is how long a frame of addLater waits at most. While many processes write, each
	// one wakes for its own results, not for every commit.
	gatherTime = 4 * time.Millisecond
)

// A queue holds the frames that wait to be sent on one connection, in order. Adding a frame never
// waits.
type queue struct {
	socket *socket
	wake   chan struct{} // for the sender; has room for one

	mu      sync.Mutex
	frames  [][]byte
	since   time.Time // when the first of them was added
	bytes   int       // of all frames that are not sent
	sent    time.Time // when frames were taken last
	writing bool      // somebody writes the frames before them
	now     bool      // who writes them is to write these as well
	stuck   [][]byte  // frames that the socket did not take, for the sender, which is the one who writes
	closed  bool      // no frame is added any more
	err     error     // why the connection takes nothing any more
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
	if q.closed || q.bytes+len(frame) > maxQueued && q.bytes > 0 {
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
		q.frames, q.now, q.sent = nil, false, time.Now()
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
		q.count()
	}
	if q.writing = false; q.closed {
		q.signal() // the sender has not ended while this one wrote
	}
}

// count counts the bytes of the frames that wait. mu is held.
func (q *queue) count() {
	q.bytes = 0
	for _, frame := range q.frames {
		q.bytes += len(frame)
	}
}

// fail ends the queue at once. mu is held.
func (q *queue) fail(err error) {
	q.err, q.closed, q.frames = err, true, nil
	q.signal()
}

// close ends the queue after the frames that are in it.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
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
			q.count()
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
