package bert

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// TestTeam draws steps and checks that each calls every index once, after the step before is done.
func TestTeam(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		threads := rapid.IntRange(1, 5).Draw(t, "threads")
		type step struct{ n, parts int }
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
			return step{rapid.IntRange(0, 40).Draw(t, "n"), rapid.IntRange(1, 20).Draw(t, "parts")}
		}), 1, 20).Draw(t, "steps")
		slow := rapid.IntRange(0, 3).Draw(t, "slow")
		calls := make([][]int, len(steps)) // written without locks: the race detector checks the order
		for i, s := range steps {
			calls[i] = make([]int, s.n)
		}
		var early atomic.Int32
		run(threads, func(w *worker) {
			for i, s := range steps {
				w.do(s.n, s.parts, func(from, to int) {
					if i > 0 {
						for _, c := range calls[i-1] {
							if c != 1 {
								early.Add(1)
							}
						}
					}
					for j := from; j < to; j++ {
						calls[i][j]++
						for range slow * (j % 7) {
							runtime.Gosched()
						}
					}
				})
			}
		})
		for i, step := range calls {
			for j, c := range step {
				if c != 1 {
					t.Fatalf("step %d called %d %d times", i, j, c)
				}
			}
		}
		if n := early.Load(); n > 0 {
			t.Fatalf("steps began before the one before was done: %d", n)
		}
	})
}

// TestTeamDoesNotWait runs steps while one of two threads is late: it begins when all is done.
func TestTeamDoesNotWait(t *testing.T) {
	var first sync.Once
	done, late := make(chan struct{}), make(chan struct{})
	sum := 0
	run(2, func(w *worker) {
		if w.index == 1 {
			defer close(late)
			<-done
		}
		for i := range 3 {
			w.do(10, 4, func(from, to int) { sum += (to - from) * (i + 1) })
		}
		first.Do(func() { close(done) })
	})
	<-late
	if sum != 60 {
		t.Errorf("the parts add up to %d, want 60", sum)
	}
}

// TestTeamSleeps has a thread wait for a part that takes long.
func TestTeamSleeps(t *testing.T) {
	begun := make(chan struct{})
	var asleep *team
	sum := 0
	run(2, func(w *worker) {
		w.do(2, 1, func(from, _ int) {
			if from == 0 {
				begun <- struct{}{}
				asleep = w.team
				for asleep.waiting.Load() == 0 {
					runtime.Gosched()
				}
				return
			}
			<-begun
		})
		w.do(1, 1, func(int, int) { sum++ })
	})
	if sum != 1 {
		t.Errorf("the step after ran %d times", sum)
	}
}
