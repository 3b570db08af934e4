package graph

import (
	"math"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
	"github.com/vecbolt/vecbolt/simd"
)

// A search of two stages begins with a narrow beam, which is enough for easy queries. For hard ones
// it goes on: with a scan of the sketches of all rows, or in graphs without sketches with a wider
// beam or an exact scan. Two figures tell hard queries: the distance of the rows found, and their
// spread. Noise, sparse vectors and outliers are far from all rows. A mean of two rows has
// neighbours near both, but a narrow beam finds those near one, and these are much nearer to each
// other than to the query.
//
// A third figure is the place of the query itself: see extent. Some hard queries look easy by all.
// So the calibration measures the recall of every kind of queries with both stages.
//
// In the quick layout a wider beam begins again: a narrow one refuses, by estimates, rows that a
// wider one wants.

// A spreadBuffer is memory of Query.spread.
type spreadBuffer struct {
	nearest simd.CodedVector
	ids     [levels.SpreadRows]uint32
	dists   [levels.SpreadRows]float32
}

// spread returns the mean squared distance of the nearest row found to the next ones, in parts of
// their mean squared distance to the query. It is about one where rows are all around the query,
// and more in clusters.
func (q *Query) spread(buf *Buffer) float32 {
	found := q.found(buf).rows
	n := min(levels.SpreadRows, len(found))
	if n < 2 {
		return 0
	}
	nearest, ids, dists := &buf.spread.nearest, buf.spread.ids[:n-1], buf.spread.dists[:n-1]
	far, apart := 0.0, 0.0
	for i, e := range found[1:n] {
		ids[i] = e.ID &^ simd.Marked
		far += float64(e.Dist)
	}
	q.g.load(nearest, found[0].ID&^simd.Marked)
	q.g.measureL2(dists, nearest, ids)
	for _, d := range dists {
		apart += float64(d)
	}
	if far == 0 { // the rows are the query
		return math.MaxFloat32
	}
	return float32(min(apart/far, math.MaxFloat32))
}

// easy reports whether a search may end with its first stage.
func (q *Query) easy(s *levels.Setting, buf *Buffer) (bool, error) {
	dist, ok := q.found(buf).within(buf.rank)
	if !(ok && dist <= s.Within && (s.Spread == 0 || q.spread(buf) >= s.Spread)) {
		return false, nil
	}
	out, err := q.outlying(buf)
	return !out, err
}

// needsSecondStage reports whether a second stage should follow a search that had none, because it
// is under a filter or has one stage.
func (q *Query) needsSecondStage(s *levels.Setting, allowed bitset.Set, buf *Buffer) (bool, error) {
	switch {
	case s.Within == 0 && s.Spread == 0:
		return false, nil
	case s.Within == 0:
		if q.spread(buf) < s.Spread {
			return true, nil
		}
		return q.outlying(buf)
	case allowed == nil || buf.scanned:
		return false, nil
	}
	easy, err := q.easy(s, buf)
	return !easy, err
}
