package graph

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/simd"
)

// Parameters of the calibration.
const (
	sampled   = 800 // rows
	firstEF   = 10
	lastEF    = 1500
	perDecade = 12     // efforts from one to ten times as much
	enough    = 0.9995 // of recall
	finer     = 0.94   // of what is missed with a level, the next one misses at most so much
)

// reaches are those that are tried, the longest last.
var stopRatios = [...]float32{1.01, 1.02, 1.03, 1.04, 1.05, 1.065, 1.08, 1.1, 1.12, 1.15, 1.18, 1.22, 1.27, 1.35, 1.5, 1.75, 2}

// An outcome is what a walk has found when it ends.
type outcome struct {
	nodes int // expanded
	found [len(calibrated)]float32
}

// A trial is a row that is searched for.
type trial struct {
	row   uint32
	query *Query
	vec   []float32
	norm  float64
	point []float32      // with the extra element
	truth []neighbour    // the best rows but itself, as many as the largest of calibrated
	worst float32        // the largest squared distance in truth
	ranks map[uint32]int // of these rows, from 0

	whole  []outcome                // where walks end that keep so many rows in view
	ended  [len(stopRatios)]outcome // where a reach ends them, if they come so far
	margin [len(calibrated)]float32 // that was needed
}

// A ranked row is one with its true score for a trial: which rows a search should find is decided
// by scores, and equal ones alone are ties. Distances of points are rounded.
type neighbour struct {
	row   uint32
	score float64
	dist  float32 // squared, of the points
}

// A scoring gives the true score of a row for a trial.
type scoreFunc func(t *trial, row uint32) (float64, error)

// score returns the true score of x for the vector of a trial, with the bits that a search of a
// collection gives it.
func (g *Graph) score(t *trial, x []float32) float64 {
	switch g.head.ident.Metric {
	case codes.Dot:
		return simd.Dot64(t.vec, x)
	case codes.L2:
		return -simd.L264(t.vec, x)
	}
	norm := math.Sqrt(simd.Dot64(x, x))
	if norm == 0 || t.norm == 0 {
		return 0
	}
	return max(-1, min(1, simd.Dot64(t.vec, x)/(norm*t.norm)))
}

// calibrate measures the recall of searches for some of the rows, each without itself: a row that
// has no twin is left out of the walk, so that the walk does not pass through it.
func (b *builder) calibrate(rows codes.Source) error {
	trials, err := b.trials(rows)
	if err != nil {
		return err
	}
	var mu sync.Mutex // rows may not be called by two goroutines at once
	score := func(t *trial, row uint32) (float64, error) {
		mu.Lock()
		defer mu.Unlock()
		x, err := rows(int(row), int(row)+1)
		if err != nil {
			return 0, err
		}
		return b.score(t, x), nil
	}
	for _, columns := range [...][]int{{0, 1}, {2}} { // each of one rank, so that the same walks serve all
		if err := b.tabulate(trials, columns, score); err != nil {
			return err
		}
	}
	for c := range calibrated {
		most := float32(0)
		for i := range trials {
			most = max(most, trials[i].margin[c])
		}
		if most <= maxFactor {
			b.head.margins[c] = most
		}
	}
	return nil
}

// trials picks rows and finds what is best for each.
func (b *builder) trials(rows codes.Source) ([]trial, error) {
	n, dim := b.Len(), b.Dim()
	r := rand.New(rand.NewPCG(b.head.seed, 2))
	picks := r.Perm(n)[:min(n, sampled)]
	slices.Sort(picks)
	trials := make([]trial, len(picks))
	for i, row := range picks {
		x, err := rows(row, row+1)
		if err != nil {
			return nil, err
		}
		t := &trials[i]
		*t = trial{row: uint32(row), query: b.QueryRow(x, row), vec: slices.Clone(x), point: make([]float32, dim+1)}
		t.norm = math.Sqrt(simd.Dot64(x, x))
		t.point[dim] = b.space.point(t.point[:dim], x, true)
	}
	longest := 0.0 // of the points
	points := make([]float32, 0, readBytes/4/dim*(dim+1)+dim+1)
	err := read(b.ctx, &b.head.ident, rows, func(lo int, x []float32) error {
		points = points[:len(x)/dim*(dim+1)]
		err := b.each(len(x)/dim, func(_ *workerScratch, i int) error {
			p := points[i*(dim+1):][:dim+1]
			p[dim] = b.space.point(p[:dim], x[i*dim:][:dim], false)
			return nil
		})
		if err != nil {
			return err
		}
		for p := points; len(p) > 0; p = p[dim+1:] {
			longest = max(longest, simd.Dot64(p[:dim+1], p[:dim+1]))
		}
		blur := b.blur(math.Sqrt(longest))
		return b.each(len(trials), func(w *workerScratch, i int) error {
			t := &trials[i]
			w.scores = slices.Grow(w.scores[:0], len(x)/dim)[:len(x)/dim]
			simd.L2Rows(w.scores, t.point, points)
			far := b.beyond(t, blur)
			for j, d := range w.scores {
				if row := uint32(lo + j); row != t.row && !(d > far) && t.offer(neighbour{row, b.score(t, x[j*dim:][:dim]), d}) {
					far = b.beyond(t, blur)
				}
			}
			return nil
		})
	})
	for i := range trials {
		t := &trials[i]
		t.ranks = make(map[uint32]int, len(t.truth))
		for rank, e := range t.truth {
			t.ranks[e.row] = rank
		}
	}
	return trials, err
}

// blur returns by how much rounding may change the distance of two points up to this long.
func (b *builder) blur(longest float64) float64 {
	blur := 2 * longest * 0x1p-24 // each element of both
	if b.head.ident.Metric == codes.Dot {
		blur += 2e-6 * b.head.maxNorm / b.head.unit // of the extra elements: see space.point
	}
	return blur
}

// beyond returns a squared distance beyond which no row is among the best for a trial: farther than
// the worst of these by more than rounding changes.
func (b *builder) beyond(t *trial, blur float64) float32 {
	if len(t.truth) < calibrated[len(calibrated)-1] {
		return math.MaxFloat32
	}
	relative := 1.01*simd.ErrorBound(b.Dim()+1) + 0x1p-40 // of sums, and of scores
	d := math.Sqrt(float64(t.worst)*(1+2*relative)) + 2*blur
	return float32(min(d*d*(1+2*relative), math.MaxFloat32))
}

// offer puts a row where it belongs in the truth of a trial, if it does, and reports that. Of equal
// scores the lower row is the better one.
func (t *trial) offer(n neighbour) bool {
	most := calibrated[len(calibrated)-1]
	if len(t.truth) == most && n.score <= t.truth[most-1].score { // rows are offered in ascending order
		return false
	}
	at, _ := slices.BinarySearchFunc(t.truth, n.score, func(e neighbour, score float64) int {
		if e.score >= score {
			return -1
		}
		return 1
	})
	if len(t.truth) == most {
		t.truth = t.truth[:most-1]
	}
	t.truth = slices.Insert(t.truth, at, n)
	t.worst = 0
	for _, e := range t.truth {
		t.worst = max(t.worst, e.dist)
	}
	return true
}

// tabulate makes the tables of these columns.
func (b *builder) tabulate(trials []trial, columns []int, score scoreFunc) error {
	k := calibrated[columns[len(columns)-1]]
	var efs []int
	for i := 0; ; i++ {
		ef := int(firstEF * math.Pow(10, float64(i)/perDecade))
		if ef > lastEF || len(efs) > 0 && efs[len(efs)-1] >= b.Len() {
			break
		}
		if ef >= k {
			efs = append(efs, ef)
		}
	}
	step := 8 // a walk passes through all that a shorter one would, but easy rows need no long ones
	if b.head.layout == quick {
		step = 1 // of the estimates of a row the first counts that is of use, which depends on what is in view
	}
	var tried [len(calibrated)][]level
	for least := float32(0); len(efs) > 0 && least < enough; {
		round := efs[:min(step, len(efs))]
		efs = efs[len(round):]
		err := b.each(len(trials), func(w *workerScratch, i int) error { return trials[i].walk(columns, round, w, score) })
		if err != nil {
			return err
		}
		least = 1
		for _, c := range columns {
			whole := float32(0)
			for i, ef := range round {
				levels := outcomes(trials, c, i, ef)
				whole = levels[0].recall
				tried[c] = append(tried[c], levels...)
			}
			least = min(least, whole)
		}
	}
	for _, c := range columns {
		b.levels[c] = b.pick(tried[c])
	}
	return nil
}

// outcomes returns what was measured for a column with an effort, that of the i-th view, without a
// reach and with each.
func outcomes(trials []trial, column, i, ef int) (all []level) {
	for j := range len(stopRatios) + 1 {
		l := level{ef: ef}
		if j > 0 {
			l.stopRatio = stopRatios[j-1]
		}
		var sum, squares, nodes float64
		for t := range trials {
			o := &trials[t].whole[i]
			if j > 0 && trials[t].ended[j-1].nodes < o.nodes {
				o = &trials[t].ended[j-1]
			}
			f := float64(o.found[column])
			sum += f
			squares += float64(f * f)
			nodes += float64(o.nodes)
		}
		n := float64(len(trials))
		mean := sum / n
		deviation := math.Sqrt(max(0, squares/n-float64(mean*mean)) / n) // of the mean
		l.nodes, l.recall = float32(nodes/n), float32(max(0, mean-deviation))
		l.whole = l.recall
		if j > 0 {
			l.whole = all[0].recall
		}
		all = append(all, l)
	}
	return all
}

// cost returns what a walk costs, in expanded nodes. To put a row where it belongs in view costs a
// share of one, and while the walk comes nearer that happens to about twice as many as there is
// room for in view, unless there are no more.
func (g *Graph) cost(l *level) float32 {
	share := float32(160)
	if g.head.layout == quick {
		share = 40
	}
	return l.nodes + min(degree*l.nodes, 2*float32(l.ef))/share
}

// pick returns those levels that nothing cheaper is as good as, the cheapest first, but for such as
// are next to the same.
func (g *Graph) pick(all []level) (chosen []level) {
	slices.SortStableFunc(all, func(a, b level) int {
		return cmp.Or(cmp.Compare(g.cost(&a), g.cost(&b)), cmp.Compare(b.recall, a.recall))
	})
	best := float32(0)
	for _, l := range all {
		best = max(best, l.recall)
	}
	missed := float32(2) // with the last one that was chosen
	for _, l := range all {
		if m := 1 - l.recall; len(chosen) < maxLevels && m < missed && (m <= finer*missed || l.recall == best) {
			chosen, missed = append(chosen, l), m
		}
	}
	return chosen
}

// walk searches for a trial, and notes what a walk has found that ends with so many rows in view,
// or with each reach.
func (t *trial) walk(columns, efs []int, w *workerScratch, score scoreFunc) error {
	k, q, buf := calibrated[columns[len(columns)-1]], t.query, &w.buf
	if err := q.start(k, Setting{EF: efs[len(efs)-1]}, nil, buf); err != nil {
		return err
	}
	buf.ef = 0 // only where walks start from
	if err := q.walk(nil, buf); err != nil {
		return err
	}
	t.whole = t.whole[:0]
	for j := range t.ended {
		t.ended[j].nodes = math.MaxInt
	}
	var o outcome
	for stopped := 0; len(t.whole) < len(efs); {
		buf.ef, buf.stopRatio = efs[len(t.whole)], 0
		if stopped < len(stopRatios) {
			buf.stopRatio = stopRatios[stopped]
		}
		if err := q.goOn(buf); err != nil {
			return err
		}
		o.nodes = buf.stats.Expanded
		for _, c := range columns {
			if o.found[c] == 1 { // and will be
				continue
			}
			if err := q.collect(calibrated[c], nil, buf); err != nil {
				return err
			}
			var err error
			if o.found[c], err = t.count(c, w, score); err != nil {
				return err
			}
		}
		if buf.pool.next < min(buf.ef, len(buf.pool.rows)) { // the next one is in view
			t.ended[stopped] = o
			stopped++
		} else {
			t.whole = append(t.whole, o)
		}
	}
	return nil
}

// count returns what share of the k best rows is among those that a search would score. Rows of the
// score of the last of them count, too. It notes the margin: codes can mistake one row for nearer
// than another only if their distances differ by less than codes err.
func (t *trial) count(column int, w *workerScratch, score scoreFunc) (float32, error) {
	k := calibrated[column]
	truth := t.truth[:min(k, len(t.truth))]
	if len(truth) == 0 {
		return 1, nil
	}
	least := truth[len(truth)-1].score
	ties := len(t.truth) == calibrated[len(calibrated)-1] && t.truth[len(t.truth)-1].score == least // beyond those that are known
	hits := 0
	low, high := float32(math.MaxFloat32), float32(0) // distances by codes, as shares of true ones
	for i, row := range w.buf.rows {
		at, known := t.ranks[row]
		if known && w.buf.dists[i] > 0 {
			share := w.buf.dists[i] / t.truth[at].dist
			low, high = min(low, share), max(high, share)
		}
		found := known && t.truth[at].score == least || known && at < k
		if !known && ties && row != t.row && hits < len(truth) {
			s, err := score(t, row)
			if err != nil {
				return 0, err
			}
			found = s == least
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
