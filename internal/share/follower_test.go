package share

import (
	"bytes"
	"context"
	"errors"
	"io"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// TestReceive: a leader that ends while a process joins it is looked for again, and no reason to
// give up.
func TestReceive(t *testing.T) {
	root := frame(t, Root{Tx: 7, Applied: 3})
	for name, c := range map[string]struct {
		sent []byte
		want error
	}{
		"a message":        {root, nil},
		"closes":           {frame(t, Bye{}), errNoLeader},
		"ends":             {nil, errNoLeader},
		"ends in a header": {root[:headerSize-1], errNoLeader},
		"ends in a frame":  {root[:len(root)-1], errNoLeader},
		"steps down":       {frame(t, Refused{Err: errNotLeader}), errNotLeader},
		"refuses":          {frame(t, Refused{Err: engine.ErrLocked}), engine.ErrLocked},
		"damaged":          {append(bytes.Clone(root[:len(root)-1]), root[len(root)-1]^1), fileformat.ErrChecksum},
	} {
		t.Run(name, func(t *testing.T) {
			l := &link{in: newReader(bytes.NewReader(c.sent), true)}
			m, err := l.receive()
			if !errors.Is(err, c.want) || (m == nil) != (c.want != nil) {
				t.Fatal(m, err)
			}
		})
	}
}

// TestPassing: a call that reads leaves a root and a grant to the background, which handles them
// next, before what came behind them.
func TestPassing(t *testing.T) {
	for _, long := range []Message{Root{Tx: 7, Applied: 3}, Grant{Request: 5}} {
		l := &link{in: newReader(bytes.NewReader(append(frame(t, long), frame(t, Bye{})...)), true),
			attention: make(chan struct{}, 1), ended: make(chan struct{})}
		if new(Member).pass(l) || len(l.attention) != 1 {
			t.Errorf("%T: handled, or the background is not asked", long)
		}
		for _, want := range []Message{long, Bye{}} {
			if msg, err := l.next(); !reflect.DeepEqual(msg, want) || err != nil {
				t.Errorf("%T: next is %+v, %v; want %+v", long, msg, err, want)
			}
		}
	}
}

// TestReleaseOverItsLink: a root is released over the connection that it came over, and not over
// the next one to the same leader, where another root has its number.
func TestReleaseOverItsLink(t *testing.T) {
	if !engine.CanShare {
		t.Skip("processes do not share here")
	}
	socket, _ := connected(t)
	before, l := newLink(socket), newLink(socket)
	m := new(Member)
	m.link.Store(l)
	for _, from := range []*link{before, l} {
		m.Left(from.root(7, 1))
		if want := from == l; want != (len(l.out.frames) == 1) {
			t.Errorf("%d frames, released %v", len(l.out.frames), want)
		}
	}
}

// TestFullQueue: a request waits while the queue has no room for it, until its context ends or the
// connection does.
func TestFullQueue(t *testing.T) {
	if !engine.CanShare {
		t.Skip("processes do not share here")
	}
	socket, other := connected(t)
	l := newLink(socket)
	l.single = false // nobody else reads
	l.out.bytes = maxQueued
	request := func(ctx context.Context) (again bool, err error) {
		return new(Member).request(ctx, l, 1, Call{Request: 1, Kind: CallBarrier}, &pending{})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if again, err := request(ended); again || !errors.Is(err, context.Canceled) || len(l.pending) > 0 {
		t.Error(again, err, l.pending)
	}
	waits := make(chan error)
	start := func() {
		go func() {
			again, err := request(t.Context())
			if again {
				err = errNoLeader
			}
			waits <- err
		}()
		for begun := false; !begun; runtime.Gosched() {
			l.out.mu.Lock()
			begun = l.out.room != nil
			l.out.mu.Unlock()
		}
	}
	start()
	l.out.mu.Lock()
	l.out.bytes = 0
	l.out.makeRoom()
	l.out.mu.Unlock()
	if msg, err := newReader(other, false).next(); !reflect.DeepEqual(msg, Call{Request: 1, Kind: CallBarrier}) {
		t.Error(msg, err)
	}
	if _, err := other.Write(frame(t, Result{Request: 1})); err != nil {
		t.Fatal(err)
	}
	if err := <-waits; err != nil {
		t.Error(err)
	}
	l.out.bytes = maxQueued
	start()
	l.out.close()
	if err := <-waits; err != errNoLeader || len(l.pending) > 0 {
		t.Error(err, l.pending)
	}
	if n, err := other.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// ending is a context that has ended. When a call asks why, something else happens first.
type ending struct {
	context.Context
	first func()
}

func (e ending) Err() error {
	e.first()
	return e.Context.Err()
}

// TestAnswerAtTheEnd: a request whose result comes together with the end of its context has that
// result. It may have been written, so the error of the context would be wrong.
func TestAnswerAtTheEnd(t *testing.T) {
	if !engine.CanShare {
		t.Skip("processes do not share here")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	answer := func(err error) func(l *link) {
		return func(l *link) { l.finish(Result{Request: 1, Err: err}) }
	}
	for name, c := range map[string]struct {
		first func(l *link)
		sent  bool
		again bool
		want  []error // nil: no error
	}{
		"written":            {answer(nil), true, false, nil},
		"refused":            {answer(engine.ErrExists), true, false, []error{engine.ErrExists}},
		"not begun":          {answer(errNotLeader), true, true, nil},
		"lost":               {func(l *link) { _ = l.close() }, true, false, []error{errUnanswered}},
		"lost before it was": {func(l *link) { _ = l.close() }, false, true, nil},
		"sent":               {func(*link) {}, true, false, []error{engine.ErrUnknown, context.Canceled}},
		"not sent":           {func(*link) {}, false, false, []error{context.Canceled}},
	} {
		t.Run(name, func(t *testing.T) {
			socket, _ := connected(t)
			l := newLink(socket)
			l.turn <- struct{}{} // the background reads
			ctx := ending{ended, func() { c.first(l) }}
			again, err := new(Member).request(ctx, l, 1, Call{Request: 1, Kind: CallBarrier}, &pending{sent: c.sent})
			if again != c.again || (err == nil) != (c.want == nil) {
				t.Fatal(again, err)
			}
			for _, want := range c.want {
				if !errors.Is(err, want) {
					t.Errorf("%v, want %v", err, want)
				}
			}
			if known := !errors.Is(errors.Join(c.want...), engine.ErrUnknown); known && errors.Is(err, engine.ErrUnknown) {
				t.Error(err)
			}
		})
	}
}

// TestAskedByDecision: a question that waits for a decision which waits for the question ends some
// time later.
func TestAskedByDecision(t *testing.T) {
	if !engine.CanShare {
		t.Skip("processes do not share here")
	}
	for name, c := range map[string]struct {
		ran  time.Duration
		asks bool
		want error
	}{
		"a late decision":        {lateTime + time.Second, true, errDeciding},
		"a write":                {lateTime + time.Second, false, context.DeadlineExceeded},
		"a decision in its time": {-time.Hour, true, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			socket, _ := connected(t)
			l := newLink(socket)
			l.turn <- struct{}{} // the decision has it
			l.deciding.Store(ticks(time.Now().Add(-c.ran)))
			ctx := t.Context()
			if c.want != errDeciding {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 3*patience)
				defer cancel()
			}
			again, err := new(Member).request(ctx, l, 1, Call{Request: 1, Kind: CallBarrier}, &pending{asks: c.asks})
			if again || !errors.Is(err, c.want) {
				t.Error(again, err)
			}
		})
	}
}

// TestDecidedTooLate: a request that is given up while it decides sends no ops. Its caller has been
// told that nothing is written.
func TestDecidedTooLate(t *testing.T) {
	if !engine.CanShare {
		t.Skip("processes do not share here")
	}
	for _, late := range []bool{false, true} {
		socket, other := connected(t)
		l := newLink(socket)
		l.pending[1] = &pending{id: 1, decide: func() ([]engine.Op, error) {
			if late {
				if dropped, sent := l.drop(1); !dropped || sent {
					t.Error("it is not pending, or was sent:", dropped, sent)
				}
			}
			return []engine.Op{{Kind: engine.OpDelete, Collection: "c", ID: "a"}}, nil
		}}
		new(Member).decide(l, Grant{Request: 1})
		msg, err := newReader(other, true).next()
		if d, ok := msg.(Decided); err != nil || !ok || d.Err != late || (len(d.Ops) == 0) != late {
			t.Errorf("late=%v: sent %+v, %v", late, msg, err)
		}
	}
}

// TestBeats: a follower says that it still decides until it has decided.
func TestBeats(t *testing.T) {
	if !engine.CanShare {
		t.Skip("processes do not share here")
	}
	decide, beat := SetDecideTimes(decideTime, time.Millisecond)
	defer SetDecideTimes(decide, beat)
	socket, other := connected(t)
	in := newReader(other, true)
	next := func() Message {
		m, err := in.next()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	l := newLink(socket)
	l.pending[1] = &pending{id: 1, decide: func() ([]engine.Op, error) {
		for range 3 {
			if m := next(); m != (Deciding{}) {
				t.Errorf("sent %+v", m)
			}
		}
		return nil, nil
	}}
	new(Member).decide(l, Grant{Request: 1})
	m := next()
	for ; m == (Deciding{}); m = next() {
	}
	if _, ok := m.(Decided); !ok {
		t.Errorf("sent %+v", m)
	}
}
