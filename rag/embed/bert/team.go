package bert

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// A team runs one function on several threads, in steps that each need the results of the step
// before. A step is divided into parts, and a thread that is late finds fewer of them, or none: on
// a busy machine nobody waits for a thread that has no processor, except for a part it has begun.
type team struct {
	size  int
	steps []step
}

// A step counts the parts that were begun and finished.
type step struct{ begun, finished atomic.Int32 }

// do runs f on all threads, for at most most steps.
func (t *team) do(most int, f func(w *worker)) {
	if t.size > 1 {
		t.steps = make([]step, most)
	}
	var wg sync.WaitGroup
	for range t.size - 1 {
		wg.Go(func() { f(&worker{team: t}) })
	}
	f(&worker{team: t})
	wg.Wait()
}

// A worker is one thread of a team.
type worker struct {
	team *team
	next int // step
}

// step calls f for parts of 0 to n, from..to, until all parts are done by some thread. There are
// at most parts of them for each thread; a team of one has a single part.
func (w *worker) step(n, parts int, f func(from, to int)) {
	if w.team.size == 1 {
		f(0, n)
		return
	}
	s := &w.team.steps[w.next]
	w.next++
	parts = min(n, parts*w.team.size)
	for {
		i := int(s.begun.Add(1)) - 1
		if i >= parts {
			break
		}
		f(i*n/parts, (i+1)*n/parts)
		s.finished.Add(1)
	}
	// A step takes some microseconds, and so does a thread to fall asleep and wake up.
	const spins = 2000
	for i := 0; int(s.finished.Load()) < parts; i++ {
		if i > spins {
			runtime.Gosched()
		}
	}
}
