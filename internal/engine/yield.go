package engine

import (
	"context"
	"runtime"
	"sync"
)

// Background work gives way to calls: it offers its processor every fraction of a millisecond, so
// that a search or a write that waits for one does not wait for the scheduler to take it away,
// which takes ten. And it works on one goroutine while calls take much of the time.

type yieldKey struct{}

// givingWay returns a context whose work gives way to calls.
func (e *Engine) givingWay(ctx context.Context) context.Context {
	return context.WithValue(ctx, yieldKey{}, &yielder{active: e.active.Load})
}

// yielderOf returns the yielder of a context from givingWay, or nil.
func yielderOf(ctx context.Context) *yielder {
	y, _ := ctx.Value(yieldKey{}).(*yielder)
	return y
}

// A yielder watches the calls of a database whenever background work offers its processor. A nil
// yielder never gives way.
type yielder struct {
	active func() int64 // calls that run

	mu   sync.Mutex
	all  int // looks in this round
	met  int // of these, looks that met a call
	busy bool
}

const (
	yieldRound = 64 // looks after which the yielder decides again: some milliseconds
	busyShare  = 4  // calls take much of the time if one look in this many meets one
)

// yield offers the processor.
func (y *yielder) yield() {
	if y == nil {
		return
	}
	runtime.Gosched()
	met := 0
	if y.active() > 0 {
		met = 1
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	y.met += met
	if y.all++; y.all == yieldRound {
		y.busy = y.met*busyShare >= y.all
		y.all, y.met = 0, 0
	}
}

// alone reports whether workers other than the first should leave the work to it.
func (y *yielder) alone() bool {
	if y == nil {
		return false
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.busy
}
