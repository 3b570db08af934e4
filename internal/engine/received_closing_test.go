package engine

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// TestReceivedWhileClosing: a follower that closes goes on to take what its leader sends, for the
// calls that run, and keeps nothing once the last one has ended.
func TestReceivedWhileClosing(t *testing.T) {
	p := newPair(t)
	r := &p.follower.shared.received
	p.put(map[string]string{"a": "old"})
	if err := errors.Join(p.receive(), p.follower.Begin()); err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(p.follower.End)
	defer end() // Close waits for it
	idle := p.follower.Refuse()
	if err := p.follower.Begin(); !errors.Is(err, ErrClosed) {
		t.Fatal("a call begins:", err)
	}
	if err := p.follower.CatchUp(); err != nil {
		t.Fatal(err)
	}
	if got, want := p.follower.cur.LSN, p.leader.cur.LSN; got != want {
		t.Fatalf("has batch %d of %d", got, want)
	}
	if err := p.leader.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := p.follower.Freeze(p.tap.frozen); err != nil {
		t.Fatal(err)
	}
	if err := p.follower.AdoptNext(p.tap.root); err != nil {
		t.Fatal(err)
	}
	if r.applied != p.tap.root.Applied {
		t.Fatalf("has the root of batch %d, not %d", r.applied, p.tap.root.Applied)
	}

	large := strings.Repeat("x", maxReceived/3)
	fill := func(want error) {
		t.Helper()
		for i := range 10 {
			p.put(map[string]string{fmt.Sprint(i): large})
			if err := p.receive(); err != nil && !errors.Is(err, want) {
				t.Fatal(err)
			}
			if r.bytes > maxReceived || cap(r.memory) > 2*maxReceived {
				t.Fatalf("keeps %d bytes in memory for %d", r.bytes, cap(r.memory))
			}
		}
	}
	fill(nil)
	if err := p.follower.CatchUp(); err != nil {
		t.Fatal(err)
	}
	last := p.follower.cur.LSN

	// A step goes on when the last call ends. Another one does not begin beside it.
	if err := p.follower.beginStep(); err != nil {
		t.Fatal(err)
	}
	end()
	if err := p.follower.beginStep(); err == nil {
		p.follower.endStep()
		t.Error("a step begins when no call runs")
	}
	select {
	case <-idle:
		t.Error("a step runs, and nobody would wait for it")
	default:
	}
	p.follower.endStep()
	<-idle
	fill(ErrClosed)
	for what, err := range map[string]error{"batches": p.follower.CatchUp(), "a root": p.follower.AdoptNext(p.tap.root)} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("takes %s: %v", what, err)
		}
	}
	if len(r.records) > 0 || r.memory != nil || p.follower.cur.LSN != last {
		t.Errorf("keeps %d batches, and has batch %d; the last call saw %d", len(r.records), p.follower.cur.LSN, last)
	}
}
