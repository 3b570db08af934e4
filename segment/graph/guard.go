package graph

import (
	"errors"
	"math"
	"math/bits"
	"slices"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
	"github.com/vecbolt/vecbolt/simd"
)

// A guard detects filters that are correlated with the query and exclude its neighbourhood. The
// calibration measures searches for the nearest rows. A filter that is independent of the query
// makes a search like one of these, in a graph of fewer rows. But if the filter excludes the
// nearest rows, a search is like one for many more rows, and needs more expansions.
type guard struct {
	want     int // rows wanted; 0: no guard
	passed   int // how many excluded rows may be nearer than the last row wanted
	excluded int // rows that the filter excludes
	most     int // limit of expansions

	horizon float32 // see Graph.horizon
	short   bool    // the query is shorter than any in the calibration
}

// ErrFar is returned where the recall of the setting does not hold, because the filter excludes the
// neighbourhood of the query, or because more of the nearest rows are dead than a search without a
// filter can pass over.
var ErrFar = errors.New("the rows near the query are not allowed")

// ErrBetween is returned where a second stage should follow and does not: under a filter, or after
// a search of one stage. The rows found are far from the query, or closer together than in nearly
// all searches: the query may lie between groups of rows, and a walk finds only one of them. Or the
// query is beyond the extent of the rows. It needs no guard.
var ErrBetween = errors.New("the rows found are far from the query, or close together")

// ErrBeyondHorizon is returned where the recall of the setting does not hold, because the query is
// farther from the rows than any in the calibration, or nearer to zero.
var ErrBeyondHorizon = errors.New("the query is beyond the horizon of the calibration")

// Parameters of guards.
const (
	samples    = 64  // excluded rows that are compared with the results
	confirming = 4   // times as many other rows confirm what a sample says
	tolerated  = 4   // one more excluded row is tolerated per this many rows wanted
	deviations = 3   // standard deviations above the mean number of excluded rows
	firstLook  = 32  // expansions after which a search is judged; until the next look they grow by half
	slack      = 3   // multiple of the beam width, for the limit of expansions
	slackQuick = 1.6 // the same where the beam is ordered by estimates, which are rough
)

// Guard makes searches for k rows with setting s return an error where the calibration does not
// apply: ErrFar under filters that exclude the near rows (see Longer), and ErrBeyondHorizon.
// allowed is the number of rows that the filter allows.
func (q *Query) Guard(k int, s levels.Setting, allowed int) {
	share := min(1, float64(max(1, allowed))/float64(q.g.Len()))
	// If the filter is independent of the query, the excluded rows before the k-th allowed one
	// follow the negative binomial distribution: failures before the k-th success.
	mean := float64(k) * (1 - share) / share
	deviation := math.Sqrt(float64(k)*(1-share)) / share
	far := float64(slack)
	if q.g.rough() {
		far = slackQuick
	}
	count := func(v float64) int { return int(min(v, math.MaxInt32)) }
	q.guard = guard{
		want:     k,
		passed:   k/tolerated + count(math.Ceil(mean+float64(deviations*deviation))),
		excluded: max(0, q.g.Len()-allowed),
		most:     16 + count(far*float64(s.EF)/share),
	}
	among := k
	if q.g.head.ident.Metric == fileformat.Dot {
		among = int(float64(k) / share)
	}
	q.guard.horizon = q.g.horizon(k, among)
	q.guard.short = q.length < float64(q.g.head.minLength)
}

// Longer returns, after a search for k rows has returned ErrFar, how many more rows to search for
// and with which setting, so that the rows wanted are found with the recall: they are the nearest
// of the larger result, and few excluded rows lie among them. ok is false if these are too many
// rows, or if the number of excluded rows nearby is unknown.
func (g *Graph) Longer(recall float64, k int, f levels.Filter, stats Stats) (more int, s levels.Setting, ok bool) {
	more = max(k, tolerated*stats.Passed)
	if stats.Passed == 0 || recall <= 0 || more > levels.Results[g.Columns()-1] {
		return 0, levels.Setting{}, false
	}
	s, ok = g.Setting(recall, more, f)
	return more, s, ok
}

// checkFilterEarly returns ErrFar if the search should end now, because it is in a region that the
// filter excludes. To know that early costs little and saves much: an exact scan is still to come.
func (q *Query) checkFilterEarly(allowed bitset.Set, b *Buffer) error {
	g := &q.guard
	switch {
	case g.want == 0 || b.stats.Expanded < min(b.look, g.most):
		return nil
	case b.stats.Expanded >= g.most:
		return ErrFar
	}
	b.look += b.look / 2
	if !b.settled() {
		return nil
	}
	last, found := float32(math.MaxFloat32), 0
	for _, e := range q.found(b).rows {
		in, _, err := q.count(e.ID&^simd.Marked, allowed)
		if err != nil {
			return err
		}
		if found += in; found >= g.want {
			last = e.Dist
			break
		}
	}
	err := q.judge(last, allowed, b)
	if errors.Is(err, ErrFar) { // the search has seen only some of the excluded rows nearby
		if _, err := q.excludesNearest(last, samples, 0, allowed, b); err != nil {
			return err
		}
	}
	return err
}

// settled reports whether a search has arrived near the query: the later half of the expansions
// found no nearer node.
func (b *Buffer) settled() bool {
	nearest := 0
	for i := range b.expanded {
		if b.expanded[i].Dist < b.expanded[nearest].Dist {
			nearest = i
		}
	}
	return nearest < (len(b.expanded)+1)/2
}

// horizon returns the squared distance beyond which the k-th row must not be for a promise; 0:
// there is no bound. among is its number without a filter, if the filter is independent of the
// query.
func (g *Graph) horizon(k, among int) float32 {
	for _, k := range []int{among, k} {
		if i, times := g.Column(k); times == 1 && g.head.horizons[i] > 0 {
			return g.head.horizons[i]
		}
	}
	return 0
}

// checkHorizon returns ErrBeyondHorizon if the query is too far from all rows for a promise, or too
// short. b holds the rows found.
//
// A filter that excludes most rows moves the last row wanted beyond the horizon of queries that are
// not far. So under a filter all rows that the search has met count, the excluded ones too. With
// Dot the last row matters itself: the codes cannot tell short rows apart.
func (q *Query) checkHorizon(allowed bitset.Set, b *Buffer) error {
	g := &q.guard
	if g.short {
		return ErrBeyondHorizon
	}
	if g.horizon == 0 || g.want == 0 || len(b.dists) < g.want || b.dists[g.want-1] <= g.horizon {
		return nil
	}
	if allowed == nil || q.g.head.ident.Metric == fileformat.Dot {
		return ErrBeyondHorizon
	}
	if b.scanned {
		if near, err := q.anyWithin(g.horizon, g.want, allowed, b); err != nil || near {
			return err
		}
		return ErrBeyondHorizon
	}
	met := [][]simd.Neighbour{b.expanded}
	if !q.g.rough() { // there the heap has estimates
		met = append(met, b.heap)
	}
	within := 0
	for _, nodes := range met {
		for _, e := range nodes {
			if e.Dist > g.horizon {
				continue
			}
			in, excluded, err := q.count(e.ID, allowed)
			if err != nil {
				return err
			}
			if within += in + excluded; within >= g.want {
				return nil
			}
		}
	}
	return ErrBeyondHorizon
}

// checkFilter tests, after a search, whether the filter excludes rows nearer than the last row
// wanted. It counts them in the expanded nodes and in a sample of all excluded rows, because a
// search that got lost far from the query has expanded none of them.
func (q *Query) checkFilter(allowed bitset.Set, b *Buffer) error {
	if q.guard.want == 0 || len(b.dists) < q.guard.want {
		return nil
	}
	last := b.dists[q.guard.want-1]
	if err := q.judge(last, allowed, b); err != nil {
		return err
	}
	excludes, err := q.excludesNearest(last, samples, 0, allowed, b)
	if excludes && q.guard.excluded > samples {
		// One row of a small sample is no proof: of 1000 searches under filters that are
		// independent of the query, a dozen find one.
		excludes, err = q.excludesNearest(last, confirming*samples, 0.5, allowed, b)
	}
	if err == nil && excludes {
		err = ErrFar
	}
	return err
}

// excludesNearest reports whether the filter excludes the rows nearest to the query: whether, in a
// sample of n excluded rows, more are nearer than last than under a filter that is independent of
// the query. offset belongs to the sample: see Buffer.sample.
func (q *Query) excludesNearest(last float32, n int, offset float64, allowed bitset.Set, b *Buffer) (bool, error) {
	g, excluded := q.g, q.guard.excluded
	ids := b.sample(allowed, g.Len(), excluded, n, offset)
	if len(ids) == 0 {
		return false, nil
	}
	if err := g.touchRecords(ids); err != nil {
		return false, err
	}
	b.others = slices.Grow(b.others[:0], len(ids))[:len(ids)]
	g.measureL2(b.others, &q.point, ids)
	nearer := 0
	for i, d := range b.others {
		if d < last && ids[i] != q.without {
			nearer++
		}
	}
	part := float64(len(ids)) / float64(excluded)
	b.stats.Passed = max(b.stats.Passed, int(float64(nearer)/part))
	mean := float64(len(ids)*q.guard.want) / float64(max(1, g.Len()-excluded))
	most := float64(part * float64(q.guard.passed))
	if part < 1 {
		most += float64(deviations * math.Sqrt(mean))
	}
	return float64(nearer) > most, nil
}

// sample returns n excluded rows at equal intervals, all of them if they are few. excluded is their
// number. The first row is offset intervals after the first excluded row.
func (b *Buffer) sample(allowed bitset.Set, rows, excluded, n int, offset float64) []uint32 {
	b.ids = b.ids[:0]
	if excluded == 0 {
		return b.ids
	}
	step := max(1, float64(excluded)/float64(n))
	next, seen := offset*step, 0 // index of the next excluded row to take; number of excluded rows seen
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

// judge counts the excluded rows of the expanded nodes nearer than last, and returns ErrFar if they
// are too many.
func (q *Query) judge(last float32, allowed bitset.Set, b *Buffer) error {
	n := 0
	for _, e := range b.expanded {
		if e.Dist < last {
			_, excluded, err := q.count(e.ID, allowed)
			if err != nil {
				return err
			}
			n += excluded
		}
	}
	if b.stats.Passed = n; n > q.guard.passed {
		return ErrFar
	}
	return nil
}

// count returns how many rows of a node, the duplicates included, are allowed and how many are
// excluded.
func (q *Query) count(node uint32, allowed bitset.Set) (in, excluded int, err error) {
	for row := node; row != none; {
		switch {
		case row == q.without:
		case allowed.Has(int(row)):
			in++
		default:
			excluded++
		}
		if row, err = q.g.duplicate(row); err != nil {
			return 0, 0, err
		}
	}
	return in, excluded, nil
}

// Covers reports whether searches for k rows have the recall of Setting under a filter that allows
// this many rows and is independent of them. The k best allowed rows are then among more of the
// best of all rows. For Dot these can be so short, beside the longest, that codes cannot tell their
// products apart. So a setting must give the recall in searches for nearly that many rows, too.
func (g *Graph) Covers(recall float64, k, allowed int) bool {
	const slack = 2 // more rows than that are scored
	if g.head.ident.Metric != fileformat.Dot {
		return true
	}
	among := int(float64(k) * float64(g.Len()) / float64(max(1, allowed)) / slack)
	if among <= k {
		return true
	}
	_, walks := g.Setting(recall, among, levels.AnyFilter)
	_, scans := g.ScanSetting(recall, among)
	return (walks || scans) && among <= levels.Results[g.Columns()-1]
}
