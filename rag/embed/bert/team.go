package bert

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// A team runs one function on several threads, which can wait for each other. One text takes some
// milliseconds with dozens of steps, so that waiting must take less than a microsecond: threads
// spin.
type team struct {
	size    int
	arrived atomic.Int32
	round   atomic.Int32
}

// do runs f on all threads.
func (t *team) do(f func(thread int)) {
	var wg sync.WaitGroup
	for i := 1; i < t.size; i++ {
		wg.Go(func() { f(i) })
	}
	f(0)
	wg.Wait()
}

// wait returns when all threads have called it equally often.
func (t *team) wait() {
	if t.size == 1 {
		return
	}
	round := t.round.Load()
	if int(t.arrived.Add(1)) == t.size {
		t.arrived.Store(0)
		t.round.Add(1)
		return
	}
	const spins = 2000
	for i := 0; t.round.Load() == round; i++ {
		if i > spins { // a thread has no processor
			runtime.Gosched()
		}
	}
}
