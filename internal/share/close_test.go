package share

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// closing returns a follower of a leader that the test plays, at the other end, while Close waits
// for a call that runs. closed gets the error of Close.
func closing(t *testing.T, run func(m *Member)) (m *Member, l *link, other *net.UnixConn, closed chan error) {
	t.Helper()
	if !engine.CanShare {
		t.Skip("processes do not share here")
	}
	opts := engine.Options{HeadSize: 1 << 20, Workers: 1, Logger: slog.New(slog.DiscardHandler)}
	e, err := engine.Open(engine.Memory, opts) // as good as a follower: the link counts
	if err != nil {
		t.Fatal(err)
	}
	m = &Member{engine: e, opts: opts, looks: make(chan struct{}, 1), barriers: newRounds(),
		changed: make(chan struct{}), retry: make(chan struct{}, 1)}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	socket, other := connected(t)
	l = newLink(socket)
	l.sender.Go(engine.SocketName, l.out.send)
	m.mu.Lock()
	m.begin(l)
	m.mu.Unlock()
	if err := e.Begin(); err != nil {
		t.Fatal(err)
	}
	run(m)
	closed = make(chan error, 1)
	go func() { closed <- m.Close() }()
	for e.Begin() == nil { // until it refuses calls
		e.End()
		runtime.Gosched()
	}
	return m, l, other, closed
}

// TestCloseWaitsForAnswers: a follower that closes takes in what its leader sends until its calls
// have ended, with the answers to their writes, and says that it leaves then.
func TestCloseWaitsForAnswers(t *testing.T) {
	m, l, other, closed := closing(t, func(*Member) {})
	answered := make(chan error, 1)
	go func() {
		defer m.engine.End()
		ops := []engine.Op{{Kind: engine.OpDelete, Collection: "c", ID: "a"}}
		_, done, err := m.Forward(t.Context(), ops, 1, nil)
		if !done {
			err = errors.Join(err, errNoLeader)
		}
		answered <- err
	}()
	in := newReader(other, false)
	for _, msg := range []Message{
		Records{First: 1, Records: [][]byte{batch(t)}, Replaced: [][]byte{nil}}, Frozen{LSN: 1}, Root{Tx: 7, Applied: 1}} {
		if _, err := other.Write(frame(t, msg)); err != nil {
			t.Error(err)
		}
	}
	var got []string
	for {
		msg, err := in.next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			break
		}
		switch msg := msg.(type) {
		case WriteOps:
			got = append(got, "write")
			if _, err := other.Write(frame(t, Result{Request: msg.Request})); err != nil {
				t.Error(err)
			}
		case Release:
			if msg.Tx != 7 {
				t.Errorf("releases %d", msg.Tx)
			}
		case Bye:
			got = append(got, "bye")
		default:
			t.Errorf("sent %+v", msg)
		}
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if len(got) != 2 || got[1] != "bye" || l.err == nil {
		t.Error("sent", got)
	}
}

// batch returns the record of a batch that defines a collection.
func batch(t *testing.T) []byte {
	t.Helper()
	parts, err := engine.EncodeRecord(engine.Batch{First: 1, Ops: []engine.Op{{Kind: engine.OpDefine, Coll: 1,
		Def: &engine.Definition{ID: 1, Name: "c", Schema: engine.Schema{Metric: fileformat.L2}}}}})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(parts...)
}

// TestCloseWaitsForDecisions: a write that decides while its process closes sees the batches that
// come after Close has begun, and is done.
func TestCloseWaitsForDecisions(t *testing.T) {
	m, _, other, closed := closing(t, func(*Member) {})
	answered := make(chan error, 1)
	ops := []engine.Op{{Kind: engine.OpDelete, Collection: "c", ID: "a"}}
	go func() {
		defer m.engine.End()
		_, done, err := m.Forward(t.Context(), nil, 0, func() ([]engine.Op, error) {
			return ops, m.engine.CatchUp() // as the engine does
		})
		if !done {
			err = errors.Join(err, errNoLeader)
		}
		answered <- err
	}()
	in := newReader(other, false)
	asked, err := in.next()
	question, exclusive := asked.(Exclusive)
	if !exclusive {
		t.Fatalf("sent %+v, %v", asked, err)
	}
	for _, msg := range []Message{Records{First: 1, Records: [][]byte{batch(t)}, Replaced: [][]byte{nil}},
		Grant{Request: question.Request, LSN: 1}} {
		if _, err := other.Write(frame(t, msg)); err != nil {
			t.Fatal(err)
		}
	}
	answer, err := in.next()
	if d, decided := answer.(Decided); !decided || d.Err || len(d.Ops) != 1 {
		t.Errorf("sent %+v, %v", answer, err)
	}
	if _, err := other.Write(frame(t, Result{Request: question.Request})); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// TestCloseAfterTheLastCall: what comes between the end of the last call and the end of the
// connection does not end that before the leader is told, and nothing piles up.
func TestCloseAfterTheLastCall(t *testing.T) {
	m, l, other, closed := closing(t, func(*Member) {})
	m.engine.End()
	if err := <-closed; err != nil { // nobody reads any more
		t.Error(err)
	}
	large := make([]byte, 1<<20)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for n := range uint64(64) {
		msg := Records{First: n + 1, Records: [][]byte{large}, Replaced: [][]byte{nil}}
		if err := m.handle(l, msg); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 16<<20 {
		t.Errorf("keeps %d MiB", kept>>20)
	}
	for _, msg := range []Message{Frozen{LSN: 64}, Root{Tx: 7, Applied: 64}} {
		if err := m.handle(l, msg); err != nil {
			t.Errorf("%T: %v", msg, err)
		}
	}
	in := newReader(other, false)
	if msg, err := in.next(); msg != (Bye{}) {
		t.Errorf("sent %+v, %v", msg, err)
	}
}

// TestCloseEndsCompact: Close does not wait for a compaction, which takes long.
func TestCloseEndsCompact(t *testing.T) {
	compacted := make(chan error, 1)
	_, _, other, closed := closing(t, func(m *Member) {
		go func() {
			defer m.engine.End()
			_, _, err := m.Call(t.Context(), CallCompact)
			compacted <- err
		}()
		for begun := false; !begun; runtime.Gosched() {
			l := m.link.Load()
			l.mu.Lock()
			begun = len(l.pending) > 0
			l.mu.Unlock()
		}
	})
	if err := <-compacted; !errors.Is(err, engine.ErrClosed) {
		t.Error(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	in := newReader(other, false)
	for _, want := range []Message{Call{Request: 1, Kind: CallCompact}, Cancel{Request: 1}, Bye{}} {
		if msg, err := in.next(); msg != want {
			t.Errorf("sent %+v, %v; want %+v", msg, err, want)
		}
	}
}

// TestCloseBesideASilentLeader: Close does not wait for ever for an answer, and a write that waits
// for it ends.
func TestCloseBesideASilentLeader(t *testing.T) {
	defer SetOpenTime(SetOpenTime(time.Millisecond))
	_, _, _, closed := closing(t, func(m *Member) {
		go func() {
			defer m.engine.End()
			_, _, _ = m.Forward(t.Context(), []engine.Op{{Kind: engine.OpDelete, Collection: "c", ID: "a"}}, 1, nil)
		}()
		for begun := false; !begun; runtime.Gosched() {
			l := m.link.Load()
			l.mu.Lock()
			begun = len(l.pending) > 0
			l.mu.Unlock()
		}
	})
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
