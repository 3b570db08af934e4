package nearest

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// helpers are goroutines that share the work of the one that starts them. They take pieces of it
// from a common counter, so the work gets done without them: a helper that no processor had time to
// run is not waited for.
type helpers struct {
	spawn   func(fn func()) // nil: by a vfs.Group; for tests
	group   vfs.Group
	running sync.WaitGroup
	left    atomic.Int64 // helpers that have not returned from work
	states  []*atomic.Int32

	mu   sync.Mutex
	errs []error
}

// States of a helper.
const (
	waiting = iota // for a processor
	entered        // it works
	dropped        // it must not begin
)

// start starts a helper.
func (h *helpers) start(work func() error) {
	state := new(atomic.Int32)
	h.states = append(h.states, state)
	h.running.Add(1)
	h.left.Add(1)
	run := func() {
		if !state.CompareAndSwap(waiting, entered) {
			return // nothing of the search may be read any more
		}
		defer h.running.Done()
		defer h.left.Add(-1)
		if err := vfs.Catch(engine.SegDir, work); err != nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.errs = append(h.errs, err)
		}
	}
	if h.spawn != nil {
		h.spawn(run)
		return
	}
	h.group.Go(engine.SegDir, func() error {
		run()
		return nil
	})
}

// drop keeps helpers that have not begun from doing so.
func (h *helpers) drop() {
	for _, state := range h.states {
		if state.CompareAndSwap(waiting, dropped) {
			h.left.Add(-1)
			h.running.Done()
		}
	}
}

// wait drops helpers that have not begun, waits for the others and returns their errors.
func (h *helpers) wait() error {
	h.drop()
	h.running.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return errors.Join(h.errs...)
}
