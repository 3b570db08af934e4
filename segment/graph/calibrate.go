package graph

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment/codes"
)

// Parameters of the calibration.
const (
	firstEF     = 10
	lastEF      = 1500  // for 1,000 results and for many rows more: see widths
	lastShare   = 100   // of many rows, one in this many
	largestEF   = 4000  // but not more than this
	middleEvery = 5     // two trials in five have 100 results; prime to the cycles of query
	deepEvery   = 7     // one in seven has 1,000; likewise
	midwayEvery = 5     // of midpoints one in five: the few that find little were in none of 13
	perDecade   = 12    // beam widths per factor of ten
	mostErrors  = 1.5   // standard errors by which a level promises less than a kind found
	fewest      = 5     // trials within the horizon from which a kind counts
	enough      = 0.998 // recall at which the calibration stops
	nearly      = 0.9   // recall below which one search measures all wider beams
	finer       = 0.94  // each level misses at most this share of the previous one's miss
	coarser     = 0.85  // the same for levels to confirm
	coarsest    = 0.7   // and for 100 results and more
	tryEvery    = 3     // if levels are confirmed, one trial in three of a kind chooses them
	horizonEF   = 1000  // beam width of the searches that find the horizons
	hidden      = 0.1   // share of rows that these miss beyond the horizon
	tail        = 50    // one query in this many is farther than where the horizon is extrapolated from
	farther     = 1.05  // horizon of metrics other than Dot, in squared distances of the farthest trial
	mostBeyond  = 0.3   // share of queries beyond the horizon from which a graph is of no use
	shareOfRows = 0.7   // weight of the queries like the rows in the mean cost of a search
	worthScan   = 0.8   // share of the price of a scan up to which a search is worth while
	mostVain    = 3     // rounds that improve on it only beyond that, after which the calibration stops
	moreRatios  = 2     // stopping ratios to measure for each ef beyond those that made a difference
	fewerRatios = 4     // and below, where easy trials are inferred
	leastEasy   = 12    // a kind with fewer easy trials has all of them walked
	sampleEvery = 4     // otherwise one in this many
)

// A kind of trial is measured by itself: a level promises the recall that every kind gets. A level
// keeps the means of the first five.
type kind int

const (
	likeRows    kind = iota // rows
	meansOfFew              // means of three to six rows
	meansOfMany             // means of ten rows
	perturbed               // rows moved away from others or at random
	sparse                  // rows with most elements erased
	midpoints               // means of two rows, so half of the near rows are far from the others
	central                 // means of thirty rows: near the mean of all
	anywhere                // all directions alike, even those that the rows hardly use
	popular                 // sparse rows that keep the element in which rows are largest
	opposite                // rows times -1; not for L2, which has no opposite directions
	kinds
	kept = midpoints // kinds of which a level keeps the mean
)

// sampled are the numbers of trials of each kind. A search for one row finds all or nothing, so the
// kind that finds it least often has more.
var sampled = [kinds]int{likeRows: 240, meansOfFew: 90, meansOfMany: 90, perturbed: 90, sparse: 90,
	midpoints: 240, central: 90, anywhere: 90, opposite: 90, popular: 90}

// stopRatios are the stopping ratios tried during calibration, in ascending order.
var stopRatios = [...]float32{1.01, 1.02, 1.03, 1.04, 1.05, 1.065, 1.08, 1.1, 1.12, 1.15, 1.18, 1.22,
	1.27, 1.35, 1.5, 1.75, 2}

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
	point []float32      // including the extra element
	most  int            // rows of truth
	truth []neighbour    // the best other rows; while rows are offered, up to twice as many
	full  bool           // there are at least most other rows, and least and worst are known
	least float64        // no row of truth scores less
	worst float32        // the largest squared distance in truth
	ranks map[uint32]int // rank of each row of truth, from 0

	others map[uint32]bool // rows that are not of truth: whether they score as the last one of truth

	whole  []outcome                // outcome for each beam width, with the last stopping ratio
	ended  [len(stopRatios)]outcome // outcome for each smaller ratio that has ended the search so far
	margin [len(calibrated)]float32 // margin that would have been enough

	deep [len(calibrated)]sight // what a wide search finds, by column
}

// A sight is what a search found, and the squared distance of the last row wanted.
type sight struct {
	seen        bool
	found, dist float32
}

// A scoreFunc returns the true score of a row for a trial.
type scoreFunc func(t *trial, row uint32) (float64, error)

// calibrate measures the recall of searches for a sample of the rows, and for out-of-distribution
// queries that are made of rows. A search for a row leaves out that row, and bridges it if it has
// no duplicates, so that the search does not pass through it.
func (b *builder) calibrate(rows codes.Source) error {
	trials, err := b.trials(rows)
	if err != nil {
		return err
	}
	var mu sync.Mutex // rows must not be called concurrently
	score := func(t *trial, row uint32) (float64, error) {
		mu.Lock()
		defer mu.Unlock()
		x, err := rows(int(row), int(row)+1)
		if err != nil {
			return 0, err
		}
		return b.score(t, x, b.norm(x)), nil
	}
	if b.head.ident.Metric == fileformat.Dot {
		if err := b.findHorizons(trials, score); err != nil {
			return err
		}
	} else {
		b.setHorizons(trials)
	}
	var margins [len(calibrated)]float32
	for _, columns := range [...][]int{{0, 1}, {2}, {3}, {4}} { // columns with the same rank share their searches
		if k := calibrated[columns[0]]; columns[0] >= always && b.Len() < rowsPerHit*k {
			break
		}
		if err := b.tabulate(trials, columns, score, &margins); err != nil {
			return err
		}
		for _, c := range columns {
			if b.hopeless[c] {
				b.levels[c] = nil
			}
		}
	}
	for c, most := range margins {
		if most <= maxFactor {
			b.head.margins[c] = most
		}
	}
	return nil
}

// widths returns the beam widths to measure for k results.
func (b *builder) widths(k int) (efs []int) {
	for i := 0; ; i++ {
		ef := int(firstEF * math.Pow(10, float64(i)/perDecade))
		if ef > max(lastEF, min(b.Len()/lastShare, largestEF), 4*k) || len(efs) > 0 && efs[len(efs)-1] >= b.Len() {
			return efs
		}
		if ef >= k {
			efs = append(efs, ef)
		}
	}
}

// tabulate measures the levels of these columns, and the margins.
func (b *builder) tabulate(all []trial, columns []int, score scoreFunc, margins *[len(calibrated)]float32) error {
	k := calibrated[columns[len(columns)-1]]
	trials := slices.DeleteFunc(slices.Clone(all), func(t trial) bool { return t.most < k || b.outside(&t, columns) })
	deep, staged := columns[0] >= always, slices.ContainsFunc(columns, b.stages)
	some := trials // to try settings with
	if b.sifts && columns[0] <= 1 {
		some = oneIn(tryEvery, trials)
	}
	efs := b.widths(k)
	step, more := 8, 8*moreRatios // efs per search: wide ones contain narrow ones, but easy rows need none
	switch {
	case b.rough(): // the first useful estimate of a row counts, and the beam decides which is useful
		step, more = 1, moreRatios
	case deep:
		step, more = 1, 6*moreRatios
	}
	var tried [len(calibrated)][]level
	var best [len(calibrated)]float32 // recall of levels that are worth while
	from, last := 0, len(stopRatios)  // the ratios to measure; the last one of all: searches without
	for turn, least, vain := 0, float32(0), 0; len(efs) > 0 && least < enough && vain < mostVain; turn++ {
		round := efs[:min(step, len(efs))]
		efs = efs[len(round):]
		walk := func(which []int) error {
			return b.each(len(which), func(w *workerScratch, i int) error {
				return some[which[i]].walk(columns, round, last, staged, w, score)
			})
		}
		missed, complete := byCompleteness(some, columns)
		if err := walk(missed); err != nil {
			return err
		}
		// Walks of the others tell only what the levels of this round cost. That matters if one of
		// these can be better than all before.
		if len(missed) > 0 && len(complete) > 0 && !promising(some, complete, columns, len(round), last, &tried) {
			if slices.ContainsFunc(columns, func(c int) bool { return highest(tried[c]) > best[c] }) {
				vain++
			}
			continue
		}
		hard, sample, easy := b.draw(some, complete, columns, from, turn)
		if len(easy) == 0 {
			from = 0
		}
		before := tallyOf(some, sample)
		if err := walk(append(hard, sample...)); err != nil {
			return err
		}
		infer(some, sample, easy, before, last)
		least = 1
		gain, dear := false, false // see better
		useful, narrow := 0, len(stopRatios)
		for _, c := range columns {
			var levels []level
			for i, ef := range round {
				levels = b.outcomes(some, c, i, ef, last)
				tried[c] = append(tried[c], levels[from:]...)
				recall, over := b.better(levels[from:], c, best[c])
				gain, dear, best[c] = gain || recall > best[c], dear || over, recall
			}
			whole := levels[last].recall
			least = min(least, whole)
			at := slices.IndexFunc(levels, func(l level) bool { return 1-whole >= finer*(1-l.recall) })
			useful, narrow = max(useful, at), min(narrow, at)
		}
		from = max(0, narrow-fewerRatios)
		last = min(len(stopRatios), useful+more)
		if !b.rough() && (deep || least < nearly) {
			step = len(efs)
		}
		switch {
		case gain:
			vain = 0
		case dear && !b.affordable(columns):
			vain = mostVain
		case dear:
			vain++
		}
	}
	if b.sifts {
		if err := b.confirm(trials, columns, score, &tried); err != nil {
			return err
		}
	}
	for _, c := range columns {
		var err error
		if b.levels[c], err = b.keep(trials, c, tried[c]); err != nil {
			return err
		}
		for i := range trials {
			margins[c] = max(margins[c], trials[i].margin[c])
		}
	}
	return nil
}

// byCompleteness returns the trials whose last search missed rows of these columns, and the others.
func byCompleteness(trials []trial, columns []int) (missing, complete []int) {
	for i := range trials {
		if n := len(trials[i].whole); n > 0 && trials[i].whole[n-1].complete(columns) {
			complete = append(complete, i)
		} else {
			missing = append(missing, i)
		}
	}
	return missing, complete
}

// highest returns the highest recall of some levels.
func highest(levels []level) (recall float32) {
	for _, l := range levels {
		recall = max(recall, l.recall)
	}
	return recall
}

// promising reports whether a round can have a level of higher recall than all that were tried, if
// the trials that were not walked in it find everything.
func promising(trials []trial, skipped, columns []int, efs, last int, tried *[len(calibrated)][]level) bool {
	all := outcome{}
	for _, c := range columns {
		all.found[c] = 1
	}
	idle := map[*trial]bool{}
	for _, i := range skipped {
		idle[&trials[i]] = true
	}
	for _, c := range columns {
		best := highest(tried[c])
		for i := range efs {
			for j := range last + 1 {
				l := levelOf(trials, c, Setting{}, func(t *trial) *outcome {
					if idle[t] {
						return &all
					}
					return t.end(i, j)
				})
				if l.recall > best {
					return true
				}
			}
		}
	}
	return false
}

// draw divides the trials that found everything with a narrower beam: hard ones did not with the
// ratio from, and of the others, sample are to be walked and easy to be inferred. Where each width
// needs a walk of its own, easy trials would take most of the time, and tell only how far such
// searches go. Trials take turns in the sample, and where it misses a row, no trial of the kind is
// easy afterwards.
func (b *builder) draw(trials []trial, complete, columns []int, from, turn int) (hard, sample, easy []int) {
	if !b.rough() || from == 0 {
		return complete, nil, nil
	}
	var n, seen [kinds]int
	isEasy := func(i int) bool { return trials[i].end(0, from).complete(columns) }
	for _, i := range complete {
		if isEasy(i) {
			n[trials[i].kind]++
		}
	}
	for _, i := range complete {
		k := trials[i].kind
		if n[k] < leastEasy || !isEasy(i) {
			hard = append(hard, i)
			continue
		}
		if seen[k]++; (seen[k]+turn)%sampleEvery == 0 {
			sample = append(sample, i)
		} else {
			easy = append(easy, i)
		}
	}
	return hard, sample, easy
}

// A tally has sums of outcomes, by kind and by stopping ratio.
type tally [kinds][len(stopRatios) + 1]struct {
	n, nodes float64
	found    [len(calibrated)]float64
}

func tallyOf(trials []trial, which []int) *tally {
	var sums tally
	for _, i := range which {
		t := &trials[i]
		for j := range sums[t.kind] {
			s, o := &sums[t.kind][j], t.end(0, j)
			s.n++
			s.nodes += float64(o.nodes)
			for c, f := range o.found {
				s.found[c] += float64(f)
			}
		}
	}
	return &sums
}

// infer sets the outcomes of easy trials by a sample of the same kind: they go as much farther
// than with the narrower beam, and find the same share of the rows.
func infer(trials []trial, sample, easy []int, before *tally, last int) {
	now := tallyOf(trials, sample)
	for _, i := range easy {
		t := &trials[i]
		var ends [len(stopRatios) + 1]outcome
		for j := range ends {
			s, old := &now[t.kind][j], &before[t.kind][j]
			ends[j].nodes = int(math.Round(float64(t.end(0, j).nodes) * s.nodes / old.nodes))
			for c, f := range s.found {
				ends[j].found[c] = float32(f / s.n)
			}
			ends[j].dist, ends[j].spread = t.end(0, j).dist, t.end(0, j).spread
		}
		t.whole = append(t.whole[:0], ends[last])
		for j := range t.ended {
			if t.ended[j].nodes = math.MaxInt; j < last {
				t.ended[j] = ends[j]
			}
		}
	}
}

// better returns the highest recall of those levels of a column that are worth while, best if none
// is higher. dear says that others have a higher recall than best.
func (b *builder) better(levels []level, column int, best float32) (recall float32, dear bool) {
	recall = best
	for i := range levels {
		switch l := &levels[i]; {
		case l.recall <= best:
		case b.worth(l, column):
			recall = max(recall, l.recall)
		default:
			dear = true
		}
	}
	return recall, dear
}

// worth reports whether searches with a level of a column cost clearly less than scans of the
// codes: those for the most rows that the column is for, or for the fewest.
func (b *builder) worth(l *level, column int) bool {
	if !b.planned {
		return true
	}
	least := 1
	if column > 0 {
		least = calibrated[column-1] + 1
	}
	n := b.Len()
	for _, k := range [...]int{calibrated[column], least} {
		s := l.setting(k, 1)
		if b.Price(b.Work(s, n), k, false) < worthScan*b.scanPrice(k) {
			return true
		}
	}
	return false
}

// scanPrice returns the price of a scan of the codes for k rows.
func (g *Graph) scanPrice(k int) float64 {
	each, _ := codes.RowPrice(g.Dim(), true)
	return each*float64(g.Len()) + codes.BestPrice(g.Len(), k, g.Dim())
}

// affordable reports whether any level of these columns can be worth while. Where estimates order
// the beam, an expansion finds one row, so searches for k rows expand k at least.
func (b *builder) affordable(columns []int) bool {
	return !b.rough() || slices.ContainsFunc(columns, func(c int) bool {
		k := calibrated[c]
		return b.worth(&level{ef: k, stopRatio: stopRatios[0], nodes: float32(k)}, c)
	})
}

// oneIn returns every n-th trial of each kind.
func oneIn(n int, trials []trial) (some []trial) {
	var seen [kinds]int
	for _, t := range trials {
		if seen[t.kind]++; seen[t.kind]%n == 1 {
			some = append(some, t)
		}
	}
	return some
}

// confirm replaces the levels that were tried by fewer ones, measured by searches with exactly
// their settings. In graphs that sift, these read other records than a search that is continued
// with one setting after the other: what a narrow beam or a small ratio has refused is not met
// again.
func (b *builder) confirm(trials []trial, columns []int, score scoreFunc, tried *[len(calibrated)][]level) error {
	share := float32(coarser)
	if columns[0] > 1 {
		share = coarsest
	}
	var settings []Setting
	for _, c := range columns {
		for _, l := range b.pick(tried[c], share) {
			if s := (Setting{EF: l.ef, StopRatio: l.stopRatio}); !slices.Contains(settings, s) {
				settings = append(settings, s)
			}
		}
		tried[c] = nil
	}
	slices.SortFunc(settings, func(x, y Setting) int { // without a stopping ratio first
		return cmp.Or(cmp.Compare(x.StopRatio, y.StopRatio), cmp.Compare(x.EF, y.EF))
	})
	for _, s := range settings {
		if err := b.try(trials, columns, s, score, tried); err != nil {
			return err
		}
	}
	return nil
}

// try searches with a setting for all trials, and appends the level of each column to tried.
func (b *builder) try(trials []trial, columns []int, s Setting, score scoreFunc,
	tried *[len(calibrated)][]level) error {
	k := calibrated[columns[len(columns)-1]]
	err := b.each(len(trials), func(w *workerScratch, i int) error {
		t := &trials[i]
		_, stats, err := t.query.Find(k, s, nil, &w.buf)
		if err != nil {
			return err
		}
		o := outcome{nodes: stats.Expanded}
		for _, c := range columns {
			if err := t.query.collect(calibrated[c], nil, &w.buf); err != nil {
				return err
			}
			if o.found[c], err = t.count(c, w, score); err != nil {
				return err
			}
			if t.beyond(c, &w.buf) { // the answer would be exact
				o.found[c] = 1
			}
			o.dist[c] = t.dist(c, &w.buf)
		}
		if slices.ContainsFunc(columns, b.stages) {
			o.spread = t.query.spread(&w.buf)
		}
		t.whole = append(t.whole[:0], o)
		return nil
	})
	if err != nil {
		return err
	}
	for _, c := range columns {
		l := b.sampledLevelOf(trials, c, s, func(t *trial) *outcome { return &t.whole[0] })
		l.whole = l.recall // at least, without the ratio
		for _, other := range tried[c] {
			if other.ef == s.EF && other.stopRatio == 0 {
				l.whole = other.recall
			}
		}
		tried[c] = append(tried[c], l)
	}
	return nil
}

// outcomes returns the measured levels of a column for the i-th ef of a round and each stopping
// ratio up to the last.
func (b *builder) outcomes(trials []trial, column, i, ef, last int) (all []level) {
	for j := range last + 1 {
		s := Setting{EF: ef}
		if j < len(stopRatios) {
			s.StopRatio = stopRatios[j]
		}
		all = append(all, b.sampledLevelOf(trials, column, s, func(t *trial) *outcome { return t.end(i, j) }))
	}
	for j := range all {
		all[j].whole = all[last].recall // at least
	}
	return all
}

// sampledLevelOf is levelOf with samples, if searches of the column may have two stages.
func (b *builder) sampledLevelOf(trials []trial, column int, s Setting, of func(t *trial) *outcome) level {
	l := levelOf(trials, column, s, of)
	if b.stages(column) {
		l.samples = samplesOf(trials, column, of)
	}
	return l
}

// levelOf returns the level of a column and a setting, except the recall without a stopping ratio.
func levelOf(trials []trial, column int, s Setting, of func(t *trial) *outcome) level {
	var sums [kinds]moments
	for i := range trials {
		o := of(&trials[i])
		sums[trials[i].kind].add(float64(o.found[column]), float64(o.nodes), 1)
	}
	l := level{ef: s.EF, stopRatio: s.StopRatio, measured: measuredOf(&sums)}
	l.expect(&sums)
	return l
}

// measuredOf returns what a level keeps of the sums over its trials.
func measuredOf(sums *[kinds]moments) *measured {
	m := &measured{}
	for k := range sums {
		s := &sums[k]
		if s.n == 0 {
			continue
		}
		if kind(k) < kept {
			m.recall[k] = float32(min(1, s.sum/s.n))
		}
		m.poor = max(m.poor, float32(s.poor/s.n))
	}
	return m
}

// moments are sums over trials of one kind.
type moments struct{ n, sum, squares, nodes, poor float64 }

// add adds a trial a number of times, -1 to remove it.
func (m *moments) add(found, nodes, times float64) {
	m.n += times
	if found < 0.5 {
		m.poor += times
	}
	m.sum += float64(times * found)
	m.squares += float64(times * float64(found*found))
	m.nodes += float64(times * nodes)
}

// least returns the mean less a few standard errors.
func (m *moments) least() float64 {
	mean := m.sum / m.n
	deviation := math.Sqrt(max(0, m.squares/m.n-float64(mean*mean)) / m.n)
	return max(0, mean-mostErrors*deviation)
}

// expect sets the mean numbers of expansions of a search, and the recall that queries of every kind
// get at least.
func (l *level) expect(sums *[kinds]moments) {
	worst := sums[likeRows].least()
	usual := sums[likeRows].nodes / sums[likeRows].n
	others, n := 0.0, 0.0
	for k := likeRows + 1; k < kinds; k++ {
		if m := &sums[k]; m.n >= fewest {
			worst = min(worst, m.least())
			others, n = others+m.nodes/m.n, n+1
		}
	}
	if n == 0 {
		others, n = usual, 1
	}
	l.nodes = float32(float64(shareOfRows*usual) + float64((1-shareOfRows)*others/n))
	l.usual, l.recall = float32(usual), float32(worst)
}

// cost returns the cost of a search in expansions. Inserting a row into the beam costs a fraction
// (1/share) of an expansion. A converging search inserts about 2·ef rows, or all rows that it meets
// if they are fewer.
func (g *Graph) cost(l *level) float32 {
	share := float32(160)
	if g.rough() {
		share = 40
	}
	return l.nodes + min(degree*l.nodes, 2*float32(l.ef))/share
}

// pick returns the Pareto-optimal levels, cheapest first: each has a higher recall than all cheaper
// ones. It skips levels that are hardly better than the one before: that miss more than a share of
// what that misses.
func (g *Graph) pick(all []level, share float32) (chosen []level) {
	g.sortByCost(all)
	best := float32(0)
	for _, l := range all {
		best = max(best, l.recall)
	}
	missed := float32(2) // by the last level chosen
	for _, l := range all {
		if m := 1 - l.recall; len(chosen) < maxLevels && m < missed && (m <= share*missed || l.recall == best) {
			chosen, missed = append(chosen, l), m
		}
	}
	return chosen
}

func (g *Graph) sortByCost(levels []level) {
	slices.SortStableFunc(levels, func(a, b level) int {
		return cmp.Or(cmp.Compare(g.cost(&a), g.cost(&b)), cmp.Compare(b.recall, a.recall))
	})
}

// walk searches for a trial and records the outcome for each ef with the last stopping ratio, and
// with each smaller one. One search gives all of them, because a search with a larger limit
// continues a search with a smaller one. staged is whether searches may have two stages.
func (t *trial) walk(columns, efs []int, last int, staged bool, w *workerScratch, score scoreFunc) error {
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
		if staged && !same {
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

// setHorizons sets the horizons of a graph whose metric is not Dot: farther than from all trials
// that are made of rows. In many dimensions, noise is beyond them, and so hard that no setting
// would be left for the others.
func (b *builder) setHorizons(trials []trial) {
	for i := range trials {
		t := &trials[i]
		for c, k := range calibrated {
			if k <= len(t.truth) && t.kind < anywhere {
				b.head.horizons[c] = max(b.head.horizons[c], farther*t.truth[k-1].dist)
			}
		}
	}
}

// outside reports whether the true rows of a trial are beyond the horizon in all of these columns.
// Its answers are exact then, and the widest search is not worth its time. For Dot, horizons depend
// on what searches find.
func (b *builder) outside(t *trial, columns []int) bool {
	for _, c := range columns {
		k, horizon := calibrated[c], b.head.horizons[c]
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
	columns := always
	for columns < len(calibrated) && b.Len() >= rowsPerHit*calibrated[columns] {
		columns++
	}
	err := b.each(len(trials), func(w *workerScratch, i int) error {
		t := &trials[i]
		k := min(t.most, calibrated[columns-1])
		if err := t.query.attempt(k, Setting{EF: max(horizonEF, 2*k)}, nil, &w.buf); err != nil {
			return err
		}
		for c := 0; c < columns && calibrated[c] <= k; c++ {
			if err := t.query.collect(calibrated[c], nil, &w.buf); err != nil {
				return err
			}
			found, err := t.count(c, w, score)
			if err != nil {
				return err
			}
			if n := len(w.buf.dists); n > 0 {
				t.deep[c] = sight{true, found, w.buf.dists[min(n, calibrated[c])-1]}
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

// horizon returns the horizon of a column by what wide searches found. It is hopeless if so many
// queries are beyond the horizon that scans without searches are better.
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

// count returns the share of the k best rows that a search would score. Rows with the same score as
// the last of these count too. It also updates the margin of the column: codes can put one row
// before another wrongly only if their distances differ by less than the error of the codes.
func (t *trial) count(column int, w *workerScratch, score scoreFunc) (float32, error) {
	k := calibrated[column]
	truth := t.truth[:min(k, len(t.truth))]
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
		found := known && t.truth[at].score == least || known && at < k
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
