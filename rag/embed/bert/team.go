package bert

import (
	"sync"
	"sync/atomic"
)

// A team runs one function on several threads, in steps that each need the results of the step
// before. A step is divided into parts. Each thread has a range of them, and helps with those of
// the others when its own are begun: a thread that is late finds fewer, or none. So on a busy
// machine nobody waits for a thread that has no processor, except for a part that it has begun.
type team struct {
	shares   []share      // of threads
	finished atomic.Int64 // parts, of all steps

	waiting atomic.Int32 // threads asleep
	mu      sync.Mutex
	woken   sync.Cond
}

// A share counts the parts of a thread's range that are begun: the number of the step in the upper
// half, the parts of this step in the lower.
type share struct {
	begun atomic.Uint64
	_     [56]byte // a cache line each
}

// take begins one of n parts of a step, or reports that none is left.
func (s *share) take(step uint32, n int) (part int, ok bool) {
	for {
		old := s.begun.Load()
		begun := 0
		switch at := uint32(old >> 32); {
		case at > step:
			return 0, false
		case at == step:
			begun = int(uint32(old))
		}
		if begun >= n {
			return 0, false
		}
		if s.begun.CompareAndSwap(old, uint64(step)<<32|uint64(begun+1)) {
			return begun, true
		}
	}
}

// run runs f on some threads, and returns when the steps are done. A thread that was late may still
// go through f then, but begins no part any more.
func run(threads int, f func(w *worker)) {
	t := &team{shares: make([]share, threads)}
	t.woken.L = &t.mu
	for i := 1; i < threads; i++ {
		go f(&worker{team: t, index: i})
	}
	f(&worker{team: t})
}

// A worker is one thread of a team.
type worker struct {
	team  *team
	index int
	step  uint32 // number of the last step
	parts int64  // of all steps up to it
}

// do calls f for parts of 0 to n-1, from..to, until all parts are done by some thread. There are at
// most parts of them for each thread; a team of one has a single part.
func (w *worker) do(n, parts int, f func(from, to int)) {
	t := w.team
	threads := len(t.shares)
	if threads == 1 {
		f(0, n)
		return
	}
	parts = min(n, parts*threads)
	w.step++
	w.parts += int64(parts)
	for i := range threads {
		of := (w.index + i) % threads
		first := of * parts / threads
		most := (of+1)*parts/threads - first
		for {
			part, ok := t.shares[of].take(w.step, most)
			if !ok {
				break
			}
			part += first
			f(part*n/parts, (part+1)*n/parts)
			if t.finished.Add(1) == w.parts && t.waiting.Load() > 0 {
				t.mu.Lock()
				t.woken.Broadcast()
				t.mu.Unlock()
			}
		}
	}
	// A part takes some microseconds, and so does a thread to fall asleep and wake up. One that
	// takes longer has lost its processor, which it may get back if this one is free.
	const spins = 1 << 14
	for range spins {
		if t.finished.Load() >= w.parts {
			return
		}
	}
	t.mu.Lock()
	t.waiting.Add(1)
	for t.finished.Load() < w.parts {
		t.woken.Wait()
	}
	t.waiting.Add(-1)
	t.mu.Unlock()
}
