package share

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"

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
		"steps down":       {frame(t, Refused{Err: ErrNotLeader}), ErrNotLeader},
		"refuses":          {frame(t, Refused{Err: engine.ErrLocked}), engine.ErrLocked},
		"damaged":          {append(bytes.Clone(root[:len(root)-1]), root[len(root)-1]^1), fileformat.ErrChecksum},
	} {
		t.Run(name, func(t *testing.T) {
			l := &link{in: NewReader(bytes.NewReader(c.sent), true)}
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
		l := &link{in: NewReader(bytes.NewReader(append(frame(t, long), frame(t, Bye{})...)), true),
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

// TestFullQueue: a request that the queue has no room for ends the connection. The caller waits for
// the next one, which would not come otherwise.
func TestFullQueue(t *testing.T) {
	if !engine.CanShare {
		t.Skip("processes do not share here")
	}
	socket, other := connected(t)
	l := newLink(socket)
	l.out.bytes = maxQueued
	again, err := new(Member).request(t.Context(), l, 1, Call{Request: 1, Kind: CallBarrier}, &pending{})
	if !again || err != nil || len(l.pending) > 0 {
		t.Error(again, err, l.pending)
	}
	if n, err := other.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("%d bytes, %v", n, err)
	}
}
