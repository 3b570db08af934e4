package graph

import (
	"math"
	"slices"
)

// A kind of trial is measured by itself: a level promises the recall that every kind gets. A level
// keeps the means of the first five.
type kind int

const (
	likeRows        kind = iota // rows
	meansOfFew                  // means of three to six rows
	meansOfMany                 // means of ten rows
	perturbed                   // rows with noise half as long as the distance of two rows
	sparse                      // rows with most components erased
	midpoints                   // means of two rows in crowded places
	lonelyMidpoints             // the same in places with few rows
	mixedMidpoints              // means of a row in a crowded place and one in a place with few
	central                     // means of thirty rows: near the mean of all
	extrapolated                // rows moved away from other rows
	noisy                       // rows with noise as long as the distance of two rows
	nearCrowded                 // between a row in a crowded place and one with few rows around it, nearer to the first
	nearLonely                  // the same, nearer to the second
	nearby                      // means of rows near each other, as of a group or of examples
	insidePopulous              // between two rows of a region that has many
	meansPopulous               // means of five rows of such a region
	betweenPopulous             // between two rows of such regions
	nearPopulous                // between a row of such a region and any other, nearer to the first
	insideLonely                // between two rows of a region where rows are far apart
	meansLonely                 // means of five rows of such a region
	betweenTight                // between two rows in places where rows are nearest to each other
	meansDense                  // means of five rows of a dense region of many dimensions
	betweenDense                // between two rows of such a region
	awayDense                   // rows of such a region moved away from others of it
	alike                       // means of rows alike in what differs most
	anywhere                    // all directions alike, even those that the rows hardly use; for L2 as long as a row
	weakDirections              // rows without the directions in which rows differ most; not for Dot
	midDirections               // rows without the few in which most of their length lies; not for Dot
	withoutFirst                // rows without their first principal components, if these are strong; only for Cosine
	popular                     // sparse rows that keep the component in which rows are largest
	single                      // as long as a row, along one axis; only where many components are zero
	filled                      // rows without the components that are often zero; only where many are zero
	partlyFilled                // the same, but one of these components is kept
	opposite                    // rows times -1; not for L2, which has no opposite directions
	longMeans                   // means of a thousand rows, made as long as a row; only for L2, where lengths count
	largeAlone                  // rows with only the few components that have most of their length; only for L2
	kinds
	kept = midpoints // kinds whose mean a level keeps
)

// sampled are the numbers of trials of each kind. A search for one row finds all or nothing, so the
// kind that finds it least often has more.
var sampled = [kinds]int{likeRows: 240, meansOfFew: 90, meansOfMany: 90, perturbed: 90, sparse: 90,
	midpoints: 160, lonelyMidpoints: 90, mixedMidpoints: 160, central: 90, extrapolated: 90, noisy: 90,
	nearCrowded: 90, nearLonely: 90, nearby: 90, insidePopulous: 90, meansPopulous: 90, betweenPopulous: 90,
	nearPopulous: 90, insideLonely: 90, meansLonely: 90, betweenTight: 90, meansDense: 90, betweenDense: 90,
	awayDense: 90, alike: 90, anywhere: 90, weakDirections: 90, midDirections: 90, withoutFirst: 90, popular: 90,
	single: 90, filled: 90, partlyFilled: 90, opposite: 90, longMeans: 90, largeAlone: 90}

// An outcome is the state of a search at the point where a setting would end it.
type outcome struct {
	nodes  int // expansions
	found  [len(calibrated)]float32
	beyond [len(calibrated)]bool    // all are found because the answer would be exact
	dist   [len(calibrated)]float32 // of the row of the column's rank
	spread float32                  // of the rows found, if searches may have two stages
}

// complete reports whether all rows of these columns were found, so that searches that go on find
// them too.
func (o *outcome) complete(columns []int) bool {
	for _, c := range columns {
		if o.found[c] < 1 || o.beyond[c] {
			return false
		}
	}
	return true
}

// A trial is a query of the calibration.
type trial struct {
	kind  kind
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
	margin    [len(calibrated)]float32 // margin that would have been enough

	deep [len(calibrated)]sight // what a wide search finds, by column

	scanned [len(calibrated)][len(sketchDeviations)]sample // by scans of the sketches, without the walk before
	walked  float32                                        // expansions of that walk
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
	k, q, buf := calibrated[columns[len(columns)-1]], t.query, &w.buf
	if err := q.startWith(k, Stage{EF: efs[len(efs)-1]}, nil, 0, buf); err != nil {
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
			if o.found[c] == 1 && !o.beyond[c] { // and stays so
				continue
			}
			if err := q.collect(calibrated[c], nil, buf); err != nil {
				return err
			}
			var err error
			if o.found[c], err = t.count(c, w, score); err != nil {
				return err
			}
			if o.beyond[c] = t.beyond(c, buf); o.beyond[c] {
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

// beyond reports whether the last row found is beyond the horizon.
func (t *trial) beyond(column int, buf *Buffer) bool {
	k, horizon := calibrated[column], t.query.g.head.horizons[column]
	return horizon > 0 && len(buf.dists) >= k && buf.dists[k-1] > horizon
}

// dist returns the distance that decides about a second stage: see Setting.Within.
func (t *trial) dist(column int, buf *Buffer) float32 {
	if dist, ok := t.query.found(buf).within(t.query.g.rank(calibrated[column])); ok {
		return dist
	}
	return math.MaxFloat32
}

// wanted returns the rows that a search for a column should find. For one result these are all with
// the best score: searches for two and three results go as far as it does, and want both parents of
// a midpoint.
func (t *trial) wanted(column int) []neighbour {
	n := min(calibrated[column], len(t.truth))
	if calibrated[column] == 1 {
		for n < min(few, len(t.truth)) && t.truth[n].score == t.truth[0].score {
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
