package graph

import (
	"errors"
	"math"
	"math/bits"
	"slices"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/simd"
)

// A guard notices filters that go with the query: that exclude what is near to it. The calibration
// is of searches for the nearest rows. A search under a filter that has nothing to do with the
// query is like one of them, in a graph of fewer rows. One for what is left beyond excluded rows is
// like a search for many more rows, which takes a longer walk.
type guard struct {
	want     int // rows that are wanted; 0: there is no guard
	passed   int // nodes, not allowed, that may be nearer than the last row wanted
	excluded int // rows that the filter does not let through
	look     int // after so many expanded nodes a walk looks how many were passed
	most     int // nodes that a search may expand
}

// ErrFar is returned when a search has found that its filter excludes what is near to the query, so
// that what the calibration says of its setting does not hold.
var ErrFar = errors.New("what is near is not allowed")

// Parameters of guards.
const (
	samples    = 64  // excluded rows that are compared with what was found
	tolerated  = 4   // one node more than expected may be passed for so many rows that are wanted
	deviations = 3   // of the number of passed nodes, above its mean
	slack      = 3   // times as far as the calibration says a walk goes before it looks, or gives up
	slackQuick = 1.6 // the same in the quick layout, where estimates are rough
)

// Guard makes searches under a filter, for k rows with a setting, return ErrFar where the
// calibration says nothing about them: see Longer. allowed is how many rows the filter lets
// through.
func (q *Query) Guard(k int, s Setting, allowed int) {
	share := min(1, float64(max(1, allowed))/float64(q.g.Len()))
	// Before the k-th allowed row as many others are passed as there are failures before the k-th
	// success, if the filter has nothing to do with the query.
	mean := float64(k) * (1 - share) / share
	deviation := math.Sqrt(float64(k)*(1-share)) / share
	far := float64(slack)
	if q.g.head.layout == quick {
		far = slackQuick
	}
	count := func(v float64) int { return int(min(v, math.MaxInt32)) }
	q.guard = guard{
		want:     k,
		passed:   k/tolerated + count(math.Ceil(mean+deviations*deviation)),
		excluded: max(0, q.g.Len()-allowed),
		look:     16 + count(far*s.expanded()/share),
		most:     16 + count(far*float64(s.EF)/share),
	}
}

// Longer returns, after a search for k rows has returned ErrFar, for how many more of them and with
// which setting to search instead, so that the rows that are wanted are found with the recall: they
// are then the nearest of those searched for, and few are passed beside these. It returns false if
// the calibration says nothing of so many, or if it is unknown how many were passed.
func (g *Graph) Longer(recall float64, k int, stats Stats) (more int, s Setting, ok bool) {
	more = max(k, tolerated*stats.Passed)
	if stats.Passed == 0 || recall <= 0 || more > calibrated[len(calibrated)-1] {
		return 0, Setting{}, false
	}
	s, ok = g.Setting(recall, more)
	return more, s, ok
}

// halt returns ErrFar if a walk that has expanded so many nodes is to end, because it is in a
// region that the filter excludes.
func (q *Query) halt(b *Buffer) error {
	switch g := &q.guard; {
	case g.want == 0 || b.stats.Expanded < min(g.look, g.most):
		return nil
	case b.stats.Expanded == g.look:
		last := float32(math.MaxFloat32)
		if found := q.found(b).rows; len(found) >= g.want {
			last = found[g.want-1].Dist
		}
		return q.judge(last, b)
	case b.stats.Expanded >= g.most:
		return ErrFar
	}
	return nil
}

// check looks, after a walk, whether the filter excludes what is nearer than the last row wanted:
// among the nodes that were expanded, and among some of the rows that are not allowed. A walk that
// was lost far from the query has met none of them.
func (q *Query) check(allowed bitset.Set, b *Buffer) error {
	if q.guard.want == 0 || len(b.dists) < q.guard.want {
		return nil
	}
	last := b.dists[q.guard.want-1]
	if err := q.judge(last, b); err != nil {
		return err
	}
	g := q.g
	excluded := q.guard.excluded
	ids := b.sample(allowed, g.Len(), excluded)
	if len(ids) == 0 {
		return nil
	}
	if err := g.touchRecords(ids); err != nil {
		return err
	}
	b.others = slices.Grow(b.others[:0], len(ids))[:len(ids)]
	simd.GatherL2(b.others, &q.point, g.records, ids)
	n := 0
	for i, d := range b.others {
		if d < last && ids[i] != q.without {
			n++
		}
	}
	part := float64(len(ids)) / float64(excluded)
	b.stats.Passed = max(b.stats.Passed, int(float64(n)/part))
	mean := float64(len(ids)*q.guard.want) / float64(max(1, g.Len()-excluded))
	most := part * float64(q.guard.passed)
	if part < 1 {
		most += deviations * math.Sqrt(mean)
	}
	if float64(n) > most {
		return ErrFar
	}
	return nil
}

// sample returns some of the rows that are not allowed, at equal intervals, of so many that there
// are; all of them if they are few.
func (b *Buffer) sample(allowed bitset.Set, rows, excluded int) []uint32 {
	b.ids = b.ids[:0]
	if excluded == 0 {
		return b.ids
	}
	step := max(1, float64(excluded)/samples)
	next, seen := 0.0, 0 // the excluded row to take, and how many there were
	for i, word := range allowed {
		word = ^word
		if i == rows/64 {
			word &= 1<<(rows%64) - 1
		}
		here := bits.OnesCount64(word)
		for at := seen; int(next) < seen+here; at++ {
			if at == int(next) {
				b.ids = append(b.ids, uint32(i*64+bits.TrailingZeros64(word)))
				next += step
			}
			word &= word - 1
		}
		seen += here
	}
	return b.ids
}

// judge counts the nodes nearer than last that were passed.
func (q *Query) judge(last float32, b *Buffer) error {
	n := 0
	for _, d := range b.expanded {
		if d < last {
			n++
		}
	}
	for _, e := range q.found(b).rows {
		if e.Dist >= last {
			break
		}
		n--
	}
	if b.stats.Passed = max(0, n); n > q.guard.passed {
		return ErrFar
	}
	return nil
}
