// Package topk collects the candidates of a top-k search whose scores are
// known only within bounds.
//
// A Collector is offered rows with a lower and an upper bound of their true
// score. It keeps each row that can still be among the k best and drops the
// others, so that after the last offer the true top k, ties included, is
// among the candidates, however loose the bounds were. The caller then
// computes true scores for the few that are left.
package topk

import (
	"math"
	"slices"
	"sync/atomic"
)

// A Candidate is a row that can still be among the k best.
type Candidate struct {
	Upper float64 // no true score is above it
	Part  int32
	Row   int32
}

// A Collector is for one goroutine. Merge combines several.
type Collector struct {
	k          int
	least      float64        // candidates below it are never wanted
	shared     *atomic.Uint64 // bits of the best floor of a group; nil: alone
	lowers     []float64      // min-heap of the k best lower bounds
	candidates []Candidate
	prune      int // length of candidates at which to drop hopeless ones
}

// New returns a Collector for the k best rows (k > 0) whose true score is at
// least least; -Inf takes every score.
func New(k int, least float64) *Collector {
	return &Collector{k: k, least: least, prune: max(4*k, 256)}
}

// Group returns n Collectors for the rows that n goroutines share. Each drops rows below the floor
// of any other.
func Group(n, k int, least float64) []*Collector {
	group := make([]*Collector, n)
	var shared *atomic.Uint64
	if n > 1 {
		shared = new(atomic.Uint64)
		shared.Store(math.Float64bits(least))
	}
	for i := range group {
		group[i] = New(k, least)
		group[i].shared = shared
	}
	return group
}

// Floor is the least score that a row must attain to matter: the k-th best lower bound so far, or
// the least wanted score while there are fewer than k. In a group it is the highest floor.
func (c *Collector) Floor() float64 {
	floor := c.least
	if len(c.lowers) >= c.k {
		floor = max(floor, c.lowers[0])
	}
	if c.shared != nil {
		floor = max(floor, math.Float64frombits(c.shared.Load()))
	}
	return floor
}

// raise publishes a new floor to the group.
func (c *Collector) raise() {
	if c.shared == nil || len(c.lowers) < c.k {
		return
	}
	for {
		old := c.shared.Load()
		if !(c.lowers[0] > math.Float64frombits(old)) || c.shared.CompareAndSwap(old, math.Float64bits(c.lowers[0])) {
			return
		}
	}
}

// Offer presents a row whose true score lies in [lower, upper]. It reports
// whether the row was kept.
func (c *Collector) Offer(lower, upper float64, part, row int32) bool {
	if upper < c.Floor() {
		return false
	}
	c.push(lower)
	c.raise()
	if len(c.candidates) >= c.prune {
		c.candidates = hopeful(c.candidates, c.Floor())
		c.prune = max(c.prune, 2*len(c.candidates))
	}
	c.candidates = append(c.candidates, Candidate{Upper: upper, Part: part, Row: row})
	return true
}

// push puts a lower bound on the heap if it is among the k best.
func (c *Collector) push(lower float64) {
	h := c.lowers
	if len(h) < c.k {
		h = append(h, lower)
		for i := len(h) - 1; i > 0; {
			p := (i - 1) / 2
			if h[p] <= h[i] {
				break
			}
			h[p], h[i] = h[i], h[p]
			i = p
		}
		c.lowers = h
		return
	}
	if lower <= h[0] {
		return
	}
	h[0] = lower
	for i := 0; ; {
		least := 2*i + 1
		if least >= len(h) {
			return
		}
		if r := least + 1; r < len(h) && h[r] < h[least] {
			least = r
		}
		if h[i] <= h[least] {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

// Merge returns the candidates of all collectors, which must have the same k,
// that can still be among the k best of all, in no particular order. The
// collectors must not be used afterwards.
func Merge(collectors ...*Collector) []Candidate {
	if len(collectors) == 0 {
		return nil
	}
	all := collectors[0]
	floor := all.Floor()
	for _, c := range collectors[1:] {
		for _, lower := range c.lowers {
			all.push(lower)
		}
		floor = max(floor, c.Floor(), all.Floor())
	}
	candidates := hopeful(all.candidates, floor)
	for _, c := range collectors[1:] {
		candidates = append(candidates, hopeful(c.candidates, floor)...)
	}
	return candidates
}

func hopeful(candidates []Candidate, floor float64) []Candidate {
	if math.IsInf(floor, -1) {
		return candidates
	}
	return slices.DeleteFunc(candidates, func(c Candidate) bool { return c.Upper < floor })
}
