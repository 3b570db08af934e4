package share

import (
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/vecbolt/vecbolt/internal/engine"
)

// A looped is a loop with two followers that send bytes.
type looped struct {
	send   [2]func()
	served chan int      // the follower of each byte that was handled
	commit chan struct{} // commits wait until it is closed
}

func newLooped(t *testing.T, single bool) *looped {
	t.Helper()
	if !engine.CanShare {
		t.Skip("processes cannot share databases here")
	}
	x := &looped{served: make(chan int, 1), commit: make(chan struct{})}
	p, err := newLoop(single, func(f *session) {
		var b [1]byte
		if _, f.failed = f.socket.read(b[:], 0); f.failed == nil {
			x.served <- int(f.number)
		}
	}, func() { <-x.commit })
	if err != nil {
		t.Fatal(err)
	}
	var connections sync.WaitGroup
	t.Cleanup(func() { // after the other ends are closed
		connections.Wait()
		if err := p.end(); err != nil {
			t.Error(err)
		}
	})
	for i := range x.send {
		socket, other := connected(t)
		f := &session{number: uint64(i), socket: socket, in: newReader(nil, false), quiet: make(chan struct{}, 1)}
		x.send[i] = func() {
			if _, err := other.Write([]byte{1}); err != nil {
				t.Error(err)
			}
		}
		connections.Go(func() {
			for f.failed == nil {
				p.add(f)
				<-f.quiet
			}
		})
		t.Cleanup(func() { other.Close() })
	}
	return x
}

// TestLoop: each byte is handled, soon after the one before or when the follower has left the loop.
func TestLoop(t *testing.T) {
	for _, single := range []bool{false, true} {
		t.Run(fmt.Sprint(single), func(t *testing.T) {
			x := newLooped(t, single)
			close(x.commit)
			rng := rand.New(rand.NewPCG(3, 4))
			for n := range 2000 {
				i := rng.IntN(2)
				x.send[i]()
				if got := <-x.served; got != i {
					t.Fatalf("byte %d of follower %d is served for %d", n, i, got)
				}
			}
		})
	}
}

// TestOwnWrites: a loop commits a write of its own process while it has followers, and leaves it to
// the caller otherwise.
func TestOwnWrites(t *testing.T) {
	commits := make(chan struct{})
	p, err := newLoop(false, func(f *session) { f.failed = io.EOF }, func() { commits <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	if p.submitted(true) {
		t.Error("a loop without followers commits an own write")
	}
	if !p.submitted(false) {
		t.Error("a write of a follower is left to the caller")
	}
	<-commits
	socket, other := connected(t)
	f := &session{socket: socket, in: newReader(nil, false), quiet: make(chan struct{}, 1)}
	f.requests = map[uint64]*request{1: {}} // so that it stays
	p.add(f)
	if !p.submitted(true) {
		t.Error("a loop with a follower leaves an own write to the caller")
	}
	<-commits
	other.Close()
	for left := false; !left; {
		select {
		case <-commits:
		case <-f.quiet:
			left = true
		}
	}
	ended := make(chan error)
	go func() { ended <- p.end() }()
	for err = io.EOF; err == io.EOF; {
		select {
		case <-commits:
		case err = <-ended:
		}
	}
	if err != nil {
		t.Error(err)
	}
	if p.submitted(true) || p.submitted(false) {
		t.Error("a loop that has ended commits a write")
	}
}

// TestLoopStalls: what one follower sends is handled while the writes of another one are committed,
// however long that takes.
func TestLoopStalls(t *testing.T) {
	x := newLooped(t, false)
	for n := range 3 {
		x.send[n%2]()
		if got := <-x.served; got != n%2 {
			t.Errorf("served follower %d", got)
		}
	}
	close(x.commit)
}

// TestLoopFull: what a follower has sent while it was full is handled once it is not, even if
// nothing else arrives.
func TestLoopFull(t *testing.T) {
	if !engine.CanShare {
		t.Skip("processes cannot share databases here")
	}
	socket, other := connected(t)
	in := newReader(&source{socket: socket}, false)
	f := &session{socket: socket, in: in, quiet: make(chan struct{}, 1)}
	const messages, turns = 3, 1000
	handled, waited, ended := 0, 0, make(chan error, 1)
	p, err := newLoop(false, func(f *session) {
		m, err := f.in.next()
		if f.failed = err; err != nil {
			ended <- err
			return
		}
		if want := (Release{Tx: uint64(handled)}); m != want {
			t.Errorf("message %d: %v", handled, m)
		}
		if handled, waited = handled+1, 0; handled == messages {
			other.Close()
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.requests = map[uint64]*request{}
		for id := range uint64(MaxRequests) {
			f.requests[id] = &request{}
		}
	}, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		clear(f.requests)
		if waited++; f.failed == nil && 0 < handled && handled < messages && waited > turns {
			f.failed = fmt.Errorf("message %d was not handled in %d turns", handled, turns)
			ended <- f.failed
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var frames []byte
	for n := range uint64(messages) {
		if frames, err = Append(frames, Release{Tx: n}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := other.Write(frames); err != nil {
		t.Fatal(err)
	}
	for left := false; !left; {
		p.add(f)
		<-f.quiet
		left = f.failed != nil
	}
	if err := <-ended; err != io.EOF {
		t.Error(err)
	}
	if err := p.end(); err != nil {
		t.Error(err)
	}
}
