package graph

import (
	"cmp"
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/synthetic"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
	"github.com/vecbolt/vecbolt/simd"
)

// Parameters of the horizons.
const (
	horizonEF  = 1000 // beam width of the searches that find the horizons
	hidden     = 0.1  // share of rows that these miss beyond the horizon
	tail       = 50   // one query in this many is farther than where the horizon is extrapolated from
	farther    = 1.05 // horizon of metrics other than Dot, in squared distances of the farthest trial
	mostBeyond = 0.3  // share of queries beyond the horizon from which a graph is of no use
)

// setHorizons sets the horizons of a graph whose metric is not Dot: as far as the farthest of the
// trials that are made of rows, and somewhat farther than those that are rows, because searches
// find rows beyond the true ones. They are somewhat farther, too, if a kind of the other trials
// has enough there to be measured. In many dimensions, noise is beyond them, and so hard that no
// setting would be left for the others. For L2, a query shorter than all of these trials is beyond
// them, too. Nearly equal distances of rows to a query near zero are less than codes can tell.
func (b *builder) setHorizons(trials []trial) {
	shortest := math.Inf(1)
	for i := range trials {
		t := &trials[i]
		if t.kind >= synthetic.Anywhere {
			continue
		}
		if square := simd.Dot64(t.vec, t.vec); square < shortest { // not NaN
			shortest = square
		}
		margin := float32(1)
		if t.kind == synthetic.LikeRows {
			margin = farther
		}
		for c, k := range levels.Results {
			if k <= len(t.truth) {
				b.head.horizons[c] = max(b.head.horizons[c], margin*t.truth[k-1].dist)
			}
		}
	}
	for c, k := range levels.Results {
		farthest, some := b.head.horizons[c], [synthetic.Kinds]int{}
		for i := range trials {
			if t := &trials[i]; k <= len(t.truth) {
				if dist := t.truth[k-1].dist; dist > farthest && dist <= farther*farthest {
					some[t.kind]++
				}
			}
		}
		if slices.Max(some[:]) >= levels.Fewest {
			b.head.horizons[c] *= farther
		}
	}
	if b.head.ident.Metric == fileformat.L2 {
		b.head.minLength = float32(min(math.Sqrt(shortest/farther), math.MaxFloat32))
	}
}

// outside reports whether the true rows of a trial are beyond the horizon in all of these columns.
// Its answers are exact then, and the widest search is not worth its time. For Dot, horizons depend
// on what searches find.
func (b *builder) outside(t *trial, columns []int) bool {
	for _, c := range columns {
		k, horizon := levels.Results[c], b.head.horizons[c]
		if b.head.ident.Metric == fileformat.Dot || len(t.truth) < k || t.truth[k-1].dist <= horizon {
			return false
		}
	}
	return true
}

// findHorizons sets the horizons of a graph for Dot. Among vectors of unequal lengths, a query that
// points away from nearly all long rows has its best rows among countless short ones: all products
// are nearly zero, and the links of the short rows do not lead to the few better ones. However
// wide, a search finds little. So searches whose last row is beyond the horizon promise nothing.
// Beyond it are the queries of which wide searches miss one row in ten, and whatever is clearly
// farther than all queries of the calibration.
func (b *builder) findHorizons(trials []trial, score scoreFunc) error {
	columns := levels.ColumnsFor(b.Len())
	err := b.each(len(trials), func(w *workerScratch, i int) error {
		t := &trials[i]
		k := min(t.most, levels.Results[columns-1])
		if err := t.query.attempt(k, levels.Setting{EF: max(horizonEF, 2*k)}, nil, &w.buf); err != nil {
			return err
		}
		for c := 0; c < columns && levels.Results[c] <= k; c++ {
			if err := t.query.collect(levels.Results[c], nil, &w.buf); err != nil {
				return err
			}
			found, err := t.count(c, w, score)
			if err != nil {
				return err
			}
			if n := len(w.buf.dists); n > 0 {
				t.deep[c] = sight{true, found, w.buf.dists[min(n, levels.Results[c])-1]}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for c := range columns {
		b.head.horizons[c], b.hopeless[c] = horizon(trials, c)
	}
	return nil
}

// horizon computes the horizon of a column from the results of wide searches. The column is
// hopeless if so many queries are beyond its horizon that scans without searches are cheaper.
func horizon(trials []trial, column int) (dist float32, hopeless bool) {
	var all []sight
	for i := range trials {
		if s := trials[i].deep[column]; s.seen {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(x, y sight) int { // the farthest first
		return cmp.Or(cmp.Compare(y.dist, x.dist), cmp.Compare(x.found, y.found))
	})
	missed, most, beyond := 0.0, 0.0, 0 // rows missed, less those that are tolerated
	for i, s := range all {
		if missed += 1 - float64(s.found) - hidden; missed > most {
			most, beyond = missed, i+1
		}
	}
	switch {
	case float64(beyond) >= mostBeyond*float64(len(all)):
		return 0, true
	case beyond == 0: // a little more: the farthest query of a sample is not the farthest of all
		return all[0].dist + (all[0].dist - all[len(all)/tail].dist), false
	}
	return all[beyond].dist, false
}
