package share

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// A session is the connection of a leader to one follower.
type session struct {
	number  uint64 // in order of arrival
	pid     int    // see checkPeer
	process Process
	writer  [16]byte
	sync    bool          // its writes are synced before they are answered
	ended   chan struct{} // closed when no request of it is worked on any more
	socket  *socket
	source  *source
	in      *reader
	out     *queue

	heard  atomic.Int64  // ticks when something was received or answered last
	failed error         // why the connection has ended; of the loop while it has the follower
	leaves bool          // it reads nothing any more; likewise
	quiet  chan struct{} // has an element when the loop gives the follower back

	working vfs.Group      // on requests
	writes  sync.WaitGroup // requests that the engine has

	deciding atomic.Bool   // its Decided is awaited
	beat     chan struct{} // has an element when the follower has said that it still decides

	// Guarded by leader.mu.
	roots  []uint64 // that it may read
	joined bool     // it has got the state at which it joined
	later  [][]byte // frames to send after that

	mu       sync.Mutex
	requests map[uint64]*request // that are being worked on
	bytes    int                 // of their messages
}

// busy reports whether a request is being worked on.
func (f *session) busy() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests) > 0
}

// full reports whether a follower has to wait before it sends more requests. A request alone never
// waits, whatever its size, nor does a follower that decides: all of its requests wait for its
// Decided, which comes behind others.
func (f *session) full() bool {
	if f.deciding.Load() {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests) >= MaxRequests || f.bytes >= maxQueued
}

// unserved reports whether something has arrived that was left while the follower was full. It is
// for the loop while it has the follower.
func (f *session) unserved() bool { return f.in.ready() && !f.full() }

// A request of a follower.
type request struct {
	cancel  context.CancelFunc
	decided chan Decided
	bytes   int // of its message
}

// send queues a message.
func (f *session) send(m Message) bool {
	frame, err := Append(nil, m)
	if err != nil {
		f.socket.cut()
		return false
	}
	return f.add(frame)
}

// add queues a frame. A follower that does not read is cut off.
func (f *session) add(frame []byte) bool { return f.keepUp(f.out.add(frame)) }

// keepUp cuts a follower off whose queue takes no frame.
func (f *session) keepUp(added bool) bool {
	if !added {
		f.socket.cut()
	}
	return added
}

// begin notes that a request is worked on, which is the message that was read last.
func (f *session) begin(id uint64, r *request) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.requests[id] != nil {
		return fmt.Errorf("request %d comes again", id)
	}
	r.bytes = f.in.size
	f.requests[id] = r
	f.bytes += r.bytes
	return nil
}

// end notes that a request is not worked on any more.
func (f *session) end(id uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.requests[id]; r != nil {
		f.bytes -= r.bytes
		delete(f.requests, id)
	}
}

// id tells a write of a follower from all others.
func (f *session) id(number uint64) engine.RequestID {
	return engine.RequestID{Writer: f.writer, Number: number}
}

// withRequest calls fn with a request that is being worked on.
func (f *session) withRequest(id uint64, fn func(*request)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.requests[id]; r != nil {
		fn(r)
	}
}

func (f *session) cancelRequests() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.requests {
		r.cancel()
	}
}
