package share

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// TestLeaderEndsBeforeHello: a process whose Hello comes after the end of the leader is told to
// look for the next one, and does not hold up the end.
func TestLeaderEndsBeforeHello(t *testing.T) {
	if !engine.CanShare {
		t.Skip("processes do not share here")
	}
	for name, accepted := range map[string]bool{"accepted": true, "not accepted": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, err := lead(dir, Process{})
			if err != nil {
				t.Fatal(err)
			}
			conn, err := dial(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if accepted { // as is the one before it, whose answer comes
				other, err := dial(dir)
				if err != nil {
					t.Fatal(err)
				}
				defer other.Close()
				if _, err := other.Write([]byte("no frame, but as long as a header of one")); err != nil {
					t.Fatal(err)
				}
				if m, err := Read(other); err != nil {
					t.Fatal(m, err)
				}
			}
			if err := s.abandon(); err != nil {
				t.Fatal(err)
			}
			l := &link{in: newReader(conn, true)}
			m, err := l.receive()
			if !errors.Is(err, errNotLeader) && !errors.Is(err, errNoLeader) {
				t.Fatal(m, err)
			}
		})
	}
}

// TestHelloToFormerLeader: a process that joins a leader which has just lost the lead is told to
// look for the next one.
func TestHelloToFormerLeader(t *testing.T) {
	if !engine.CanShare {
		t.Skip("processes do not share here")
	}
	dir := t.TempDir()
	e, err := engine.NewFollower(dir, engine.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := lead(dir, Process{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(s.abandon(), e.Close()); err != nil {
			t.Error(err)
		}
	}()
	s.serve(e)
	conn, err := dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	hello, err := Append(nil, Hello{Version: Version, Writer: [16]byte{1}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(hello); err != nil {
		t.Fatal(err)
	}
	l := &link{in: newReader(conn, true)}
	if m, err := l.receive(); !errors.Is(err, errNotLeader) {
		t.Fatal(m, err)
	}
}

// TestLongRecovery: a leader that recovers the database for longer than the pause between two looks
// for lost processes looks for them afterwards.
func TestLongRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := engine.NewFollower(t.TempDir(), engine.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		s := &leader{ready: make(chan struct{}), looks: make(chan struct{}, 1), ctx: ctx, roots: map[uint64]*pinned{}}
		s.group.Go(engine.SocketName, s.findLost)
		time.Sleep(2 * lastLook)
		synctest.Wait()
		s.serve(e)
		s.mu.Lock()
		s.lost = []*lost{{roots: []uint64{1}}}
		s.lookForLost()
		s.mu.Unlock()
		synctest.Wait()
		if looked := len(s.looks) == 0; !looked {
			t.Error("the leader does not look for lost processes")
		}
		cancel()
		if err := errors.Join(s.group.Wait(), e.Close()); err != nil {
			t.Error(err)
		}
	})
}

// TestDecisionTakesLong: a leader waits for the decision of a follower while the follower says that
// it still decides, and decideTime longer.
func TestDecisionTakesLong(t *testing.T) {
	if !engine.CanShare {
		t.Skip("processes do not share here")
	}
	for name, decides := range map[string]bool{"decides": true, "falls silent": false} {
		t.Run(name, func(t *testing.T) {
			socket, _ := connected(t)
			synctest.Test(t, func(t *testing.T) {
				s, r := new(leader), &request{decided: make(chan Decided, 1)}
				f := &session{socket: socket, out: newQueue(socket), beat: make(chan struct{}, 1),
					requests: map[uint64]*request{1: r}}
				var ended atomic.Bool
				go func() {
					ops, err := s.decide(t.Context(), f, 1, 0, r)
					if decides != (err == nil && len(ops) == 1) {
						t.Error(ops, err)
					}
					ended.Store(true)
				}()
				for range 5 {
					time.Sleep(decideTime - 1)
					if err := s.handle(f, Deciding{}); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				if decides {
					if err := s.handle(f, Decided{Request: 1, Ops: make([]engine.Op, 1)}); err != nil {
						t.Fatal(err)
					}
				} else {
					time.Sleep(decideTime - 1)
				}
				synctest.Wait()
				if ended.Load() != decides {
					t.Error("too soon, or late")
				}
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				if !ended.Load() {
					t.Error("the leader still waits")
				}
			})
		})
	}
}

// TestRequestsAreBoundedByBytes: a leader works on requests of a follower until their messages have
// maxQueued bytes, and reads on when they are answered. One request is let in whatever its size.
func TestRequestsAreBoundedByBytes(t *testing.T) {
	if !engine.CanShare {
		t.Skip("processes do not share here")
	}
	defer SetMaxQueued(SetMaxQueued(maxQueued))
	e, err := engine.Open(engine.Memory, engine.Options{HeadSize: 1 << 20, Workers: 1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.Define(t.Context(), "docs", engine.Schema{Metric: fileformat.L2}, nil, false); err != nil {
		t.Fatal(err)
	}
	const requests = 6
	var frames []byte
	size := 0 // of a message
	for id := range uint64(requests) {
		text := strings.Repeat("x", 1000)
		p := engine.Op{Kind: engine.OpPut, Collection: "docs", ID: "a", Patch: &engine.Patch{Text: &text}}
		if id == 0 {
			doc, err := document.Append(nil, &document.Document{ID: "a", Text: text})
			if err != nil {
				t.Fatal(err)
			}
			p.Doc, p.Patch = doc, nil
		}
		before := len(frames)
		if frames, err = Append(frames, WriteOps{Request: id, Ops: []engine.Op{p}}); err != nil {
			t.Fatal(err)
		}
		size = max(size, len(frames)-before-headerSize)
	}
	for limit, want := range map[int]int{1: 1, size + 1: 2, requests * size: requests} {
		SetMaxQueued(limit)
		socket, other := connected(t)
		if _, err := other.Write(frames); err != nil {
			t.Fatal(err)
		}
		s := &leader{engine: e}
		f := &session{socket: socket, in: newReader(&source{socket: socket}, false), out: newQueue(socket),
			writer: [16]byte{byte(want)}, requests: map[uint64]*request{}}
		for done := 0; done < requests; {
			s.serveOne(f)
			n := min(want, requests-done)
			if len(f.requests) != n || f.failed != nil {
				t.Fatalf("%d bytes of messages of %d: works on %d requests after %d, want %d; %v",
					limit, size, len(f.requests), done, n, f.failed)
			}
			e.CommitSubmitted()
			for range n {
				m, err := Read(other)
				if r, ok := m.(Result); !ok || err != nil || r.Err != nil || r.Request != uint64(done) {
					t.Fatal(m, err)
				}
				done++
			}
		}
		if f.bytes != 0 {
			t.Errorf("%d bytes are left", f.bytes)
		}
	}
}
