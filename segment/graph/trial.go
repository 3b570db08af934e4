package graph

import (
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/internal/synthetic"
	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
)

// An outcome is the state of a search at the point where a setting would end it.
type outcome struct {
	nodes  int // expansions
	found  [levels.Columns]float32
	exact  [levels.Columns]bool    // all are found because the answer would be exact
	dist   [levels.Columns]float32 // of the row of the column's rank
	spread float32                 // of the rows found, if searches may have two stages
}

// sample returns the sample of the outcome for a column.
func (o *outcome) sample(column int) levels.Sample {
	return levels.Sample{Found: o.found[column], Nodes: float32(o.nodes), Exact: o.exact[column], Dist: o.dist[column],
		Spread: o.spread}
}

// complete reports whether all rows of these columns were found, so that searches that go on find
// them too.
func (o *outcome) complete(columns []int) bool {
	for _, c := range columns {
		if o.found[c] < 1 || o.exact[c] {
			return false
		}
	}
	return true
}

// A trial is a query of the calibration.
type trial struct {
	kind  synthetic.Kind
	row   uint32 // the row that is left out, or none
	query *Query
	vec   []float32
	norm  float64
	point []float32      // including the extra component
	most  int            // rows of truth
	cut   float64        // rows of a lower score are not offered; -Inf: there is no bound
	truth []neighbour    // the best other rows; while rows are offered, up to twice as many
	full  bool           // there are at least most other rows, and least is known
	least float64        // no row of truth scores less
	ranks map[uint32]int // rank of each row of truth, from 0

	others map[uint32]bool // rows that are not of truth: whether they score as the last one of truth

	whole     []outcome                // outcome for each beam width, with the last stopping ratio
	ended     [len(stopRatios)]outcome // outcome for each smaller ratio that has ended the search so far
	confirmed []confirmation           // by setting
	margin    [levels.Columns]float32  // margin that would have been enough

	deep [levels.Columns]sight // what a wide search finds, by column

	scanned [levels.Columns][len(levels.Deviations)]levels.Sample // by scans of the sketches, without the walk before
	walked  float32                                               // expansions of that walk
}

// queries returns trials that have queries only.
func (b *builder) queries(rows codes.Source) (all []trial, err error) {
	from := synthetic.Rows{Metric: b.head.ident.Metric, Len: b.Len(), Dim: b.Dim(), Read: rows, Seed: b.head.seed,
		Results: [...]int{levels.Results[levels.BaseColumns-2], levels.Results[levels.BaseColumns-1],
			levels.Results[levels.Columns-1]},
		Most: b.most,
		Each: func(n int, f func(i int) error) error {
			return b.each(n, func(_ *workerScratch, i int) error { return f(i) })
		}}
	made, err := from.Queries(b.ctx)
	for _, q := range made {
		t := trial{kind: q.Kind, row: none, vec: q.Vec, most: q.Results}
		if q.Row >= 0 {
			t.row = uint32(q.Row)
		}
		all = append(all, t)
	}
	return all, err
}

// A sight is the share of rows that a search found, and the squared distance of the last one
// wanted.
type sight struct {
	seen        bool
	found, dist float32
}

// A scoreFunc returns the true score of a row for a trial.
type scoreFunc func(t *trial, row uint32) (float64, error)

// walk searches for a trial and records the outcome for each ef with the last stopping ratio, and
// with each smaller one. One search gives all of them, because a search with a larger limit
// continues a search with a smaller one. planned is whether searches may have two stages.
func (t *trial) walk(columns, efs []int, last int, planned bool, w *workerScratch, score scoreFunc) error {
	k, q, buf := levels.Results[columns[len(columns)-1]], t.query, &w.buf
	if err := q.startWith(k, levels.Stage{EF: efs[len(efs)-1]}, nil, 0, buf); err != nil {
		return err
	}
	buf.ef = 0 // first only the entry points
	if err := q.walk(nil, buf); err != nil {
		return err
	}
	t.whole = t.whole[:0]
	for j := range t.ended {
		t.ended[j].nodes = math.MaxInt
	}
	var o outcome
	for stopped, at := 0, 0; len(t.whole) < len(efs); {
		buf.ef, buf.stopRatio = efs[len(t.whole)], 0
		if stopped < len(stopRatios) {
			buf.stopRatio = stopRatios[stopped]
		}
		if err := q.goOn(buf); err != nil {
			return err
		}
		same := o.nodes == buf.stats.Expanded && at == len(t.whole)
		o.nodes, at = buf.stats.Expanded, len(t.whole)
		for _, c := range columns {
			if same {
				break
			}
			if o.found[c] == 1 && !o.exact[c] { // and stays so
				continue
			}
			if err := q.collect(levels.Results[c], nil, buf); err != nil {
				return err
			}
			var err error
			if o.found[c], err = t.count(c, w, score); err != nil {
				return err
			}
			if o.exact[c] = t.isExact(c, buf); o.exact[c] {
				o.found[c] = 1
			}
			o.dist[c] = t.dist(c, buf)
		}
		if planned && !same {
			o.spread = q.spread(buf)
		}
		if early := buf.pool.next < min(buf.ef, len(buf.pool.rows)); !early {
			t.whole = append(t.whole, o)
		} else if stopped < last {
			t.ended[stopped] = o
			stopped++
			if stopped == len(stopRatios) && o.complete(columns) { // it would expand the rest of the beam
				for _, ef := range efs[len(t.whole):] {
					o.nodes = max(o.nodes, min(ef, q.g.Len()))
					t.whole = append(t.whole, o)
				}
			}
		} else { // with every larger ef too
			t.whole = append(t.whole, slices.Repeat([]outcome{o}, len(efs)-len(t.whole))...)
		}
	}
	return nil
}

// end returns where the j-th stopping ratio, or if it is larger than the last, the i-th beam width
// of a round ended the walk.
func (t *trial) end(i, j int) *outcome {
	if j < len(stopRatios) && t.ended[j].nodes < t.whole[i].nodes {
		return &t.ended[j]
	}
	return &t.whole[i]
}

// isExact reports whether the last row found is isExact the horizon.
func (t *trial) isExact(column int, buf *Buffer) bool {
	k, horizon := levels.Results[column], t.query.g.head.horizons[column]
	return horizon > 0 && len(buf.dists) >= k && buf.dists[k-1] > horizon
}

// dist returns the distance that decides about a second stage: see levels.Setting.Within.
func (t *trial) dist(column int, buf *Buffer) float32 {
	if dist, ok := t.query.found(buf).within(t.query.g.Rank(levels.Results[column])); ok {
		return dist
	}
	return math.MaxFloat32
}

// wanted returns the rows that a search for a column should find. For one result these are all with
// the best score: searches for two and three results go as far as it does, and want both parents of
// a midpoint.
func (t *trial) wanted(column int) []neighbour {
	n := min(levels.Results[column], len(t.truth))
	if levels.Results[column] == 1 {
		for n < min(levels.Few, len(t.truth)) && t.truth[n].score == t.truth[0].score {
			n++
		}
	}
	return t.truth[:n]
}

// count returns the share of the rows wanted that a search would score. Rows with the same score as
// the last of these count too. It also updates the margin of the column: codes can put one row
// before another wrongly only if their distances differ by less than the error of the codes.
func (t *trial) count(column int, w *workerScratch, score scoreFunc) (float32, error) {
	truth := t.wanted(column)
	if len(truth) == 0 {
		return 1, nil
	}
	least := truth[len(truth)-1].score
	ties := t.full && t.least == least // maybe others too
	hits := 0
	low, high := float32(math.MaxFloat32), float32(0) // code distances relative to true ones
	for i, row := range w.buf.rows {
		at, known := t.ranks[row]
		if known && w.buf.dists[i] > 0 {
			share := w.buf.dists[i] / t.truth[at].dist
			low, high = min(low, share), max(high, share)
		}
		found := known && t.truth[at].score == least || known && at < len(truth)
		if !known && ties && row != t.row && hits < len(truth) {
			tied, seen := t.others[row]
			if !seen {
				s, err := score(t, row)
				if err != nil {
					return 0, err
				}
				tied = s == least
				t.others[row] = tied
			}
			found = tied
		}
		if found {
			hits++
		}
	}
	if high > 0 {
		t.margin[column] = max(t.margin[column], high/low)
	}
	return float32(min(hits, len(truth))) / float32(len(truth)), nil
}
