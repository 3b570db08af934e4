package engine

import (
	"context"
	"testing"
)

// Background work takes one goroutine as long as calls take a quarter of the time.
func TestYielder(t *testing.T) {
	calls := int64(0)
	y := &yielder{active: func() int64 { return calls }}
	round := func(met int, want bool) {
		t.Helper()
		for i := range yieldRound {
			if calls = 0; i < met {
				calls = 2
			}
			y.yield()
		}
		if y.alone() != want {
			t.Errorf("alone %v after %d of %d looks met a call", y.alone(), met, yieldRound)
		}
	}
	round(0, false)
	round(yieldRound/busyShare-1, false)
	round(yieldRound/busyShare, true)
	for range yieldRound - 1 { // not a whole round
		y.yield()
	}
	if !y.alone() {
		t.Error("a round ended early")
	}
	y.yield()
	round(yieldRound, true)
	round(0, false)

	var none *yielder
	if none.yield(); none.alone() {
		t.Error("work without a yielder gives way")
	}
	if yielderOf(context.Background()) != nil {
		t.Error("a context without a yielder has one")
	}
	e := &Engine{}
	e.active.Add(1)
	if y := yielderOf(e.givingWay(t.Context())); y == nil || y.active() != 1 {
		t.Error("a yielder does not see the calls of its database")
	}
}
