package graph

import (
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/internal/synthetic"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
)

// Parameters of a sweep.
const (
	lastEF      = 1500   // for 1,000 results and for many rows more: see widths
	lastShare   = 100    // of many rows, one in this many
	largestEF   = 6000   // but not more than this,
	deepestEF   = 10_000 // or than this for the columns of more than 100 results
	perDecade   = 12     // beam widths per factor of ten
	denseEF     = 3500   // above it, only every other width is measured, because wide walks take long
	nearly      = 0.9    // recall below which one search measures all wider beams
	mostVain    = 3      // rounds that bring only levels not worth while, after which it ends too
	moreRatios  = 2      // stopping ratios to measure for each ef beyond those that made a difference
	fewerRatios = 4      // and below, where easy trials are inferred
	leastEasy   = 12     // a kind with fewer easy trials has all of them walked
	sampleEvery = 4      // otherwise one in this many

	widerThanScan = 2   // times the expansions that cost as much as a scan of sketches: no beam is wider,
	leastWidest   = 100 // but this wide at least
)

// stopRatios are the stopping ratios tried during calibration, in ascending order.
var stopRatios = [...]float32{1.01, 1.02, 1.03, 1.04, 1.05, 1.065, 1.08, 1.1, 1.12, 1.15, 1.18, 1.22,
	1.27, 1.35, 1.5, 1.75, 2}

// A sweep tries settings for columns whose searches are the same, in rounds: each has wider beams
// than the one before, until all rows are found or wider beams are not worth while.
type sweep struct {
	*builder
	trials  []trial
	columns []int
	choose  [levels.Columns]*levels.Chooser // among the levels of these columns
	score   scoreFunc
	deep    bool // of many results

	efs        []int // the widths to measure
	step       int   // widths of a round
	more       int   // ratios to measure beyond those that made a difference
	from, last int   // indexes of the ratios to measure; len(stopRatios) stands for no ratio

	turn  int // rounds before
	tried [levels.Columns][]levels.Candidate
	best  [levels.Columns]float32 // recall of levels that are worth while
	least float32                 // recall without a ratio in the column that has least
	vain  int                     // rounds that brought only levels that are not worth while
}

func (b *builder) newSweep(trials []trial, columns []int, score scoreFunc) *sweep {
	s := &sweep{builder: b, trials: trials, columns: columns, score: score, deep: columns[0] >= levels.BaseColumns,
		efs:  b.widths(levels.Results[columns[len(columns)-1]]),
		last: len(stopRatios)}
	if most := b.widestWalk(trials, columns); most > 0 {
		s.efs = slices.DeleteFunc(s.efs, func(ef int) bool { return ef > most })
	}
	if b.sifts {
		s.trials = oneIn(tryEvery, trials, func(k synthetic.Kind) bool { return !s.deep || !b.easy[k] })
	}
	for _, c := range columns {
		s.choose[c] = b.chooser(s.trials, c)
	}
	switch { // wide beams contain narrow ones, but easy rows need none
	case b.rough(): // the first useful estimate of a row counts, and the beam decides which is useful
		s.step, s.more = 1, moreRatios
	case s.deep:
		s.step, s.more = 1, 6*moreRatios
	default:
		s.step, s.more = 8, 8*moreRatios
	}
	return s
}

// widestWalk returns the widest beam that can be worth while beside a scan of the sketches, 0
// without sketches. Most walks with a stopping ratio expand a part of their beam.
func (b *builder) widestWalk(trials []trial, columns []int) (most int) {
	for _, c := range columns {
		_, usual := b.chooser(trials, c).UsualScan()
		if usual == 0 {
			return 0
		}
		most = max(most, widerThanScan*int(usual), 2*levels.Results[c], leastWidest)
	}
	return most
}

// widths returns the beam widths to measure for k results.
func (b *builder) widths(k int) (efs []int) {
	most := largestEF
	if k > levels.Results[levels.BaseColumns-1] {
		most = deepestEF
	}
	step := 1
	if b.rough() && k > levels.Results[levels.BaseColumns-1] { // a walk for each width, and few trials
		step = 2
	}
	for i := 0; ; i += step {
		ef := int(levels.FirstEF * math.Pow(10, float64(i)/perDecade))
		if ef > max(lastEF, min(b.Len()/lastShare, most), 4*k) || len(efs) > 0 && efs[len(efs)-1] >= b.Len() {
			return efs
		}
		if ef >= k {
			efs = append(efs, ef)
		}
		if ef > denseEF {
			step = 2
		}
	}
}

// round searches with the next beam widths.
func (s *sweep) round() error {
	efs := s.efs[:min(s.step, len(s.efs))]
	s.efs = s.efs[len(efs):]
	missed, complete := byCompleteness(s.trials, s.columns)
	if err := s.walk(missed, efs); err != nil {
		return err
	}
	// Walks of the others tell only what the levels of this round cost. That matters if one of
	// these can be better than all before.
	if len(missed) > 0 && len(complete) > 0 && !s.promising(complete, len(efs)) {
		if slices.ContainsFunc(s.columns, func(c int) bool { return levels.Highest(s.tried[c]) > s.best[c] }) {
			s.vain++
		}
		return nil
	}
	hard, sample, easy := s.draw(complete)
	if len(easy) == 0 {
		s.from = 0
	}
	before := tallyOf(s.trials, sample)
	if err := s.walk(append(hard, sample...), efs); err != nil {
		return err
	}
	infer(s.trials, sample, easy, before, s.last)
	s.measure(efs)
	return nil
}

// walk searches for some of the trials.
func (s *sweep) walk(which, efs []int) error {
	return s.each(len(which), func(w *workerScratch, i int) error {
		return s.trials[which[i]].walk(s.columns, efs, s.last, s.planned, w, s.score)
	})
}

// measure adds the levels of a round, whose trials were walked, and chooses what the next one does.
func (s *sweep) measure(efs []int) {
	s.least = 1
	gain, dear := false, false // see better
	useful, narrow := 0, len(stopRatios)
	for _, c := range s.columns {
		var last []levels.Candidate
		for i, ef := range efs {
			last = s.outcomes(c, i, ef)
			s.tried[c] = append(s.tried[c], last[s.from:]...)
			recall, over := s.better(last[s.from:], c)
			gain, dear, s.best[c] = gain || recall > s.best[c], dear || over, recall
		}
		whole := last[s.last].Recall
		s.least = min(s.least, whole)
		at := slices.IndexFunc(last, func(l levels.Candidate) bool { return 1-whole >= levels.Step*(1-l.Recall) })
		useful, narrow = max(useful, at), min(narrow, at)
	}
	s.from = max(0, narrow-fewerRatios)
	s.last = min(len(stopRatios), useful+s.more)
	if !s.rough() && (s.deep || s.least < nearly) {
		s.step = len(s.efs)
	}
	switch {
	case gain:
		s.vain = 0
	case dear && !s.affordable():
		s.vain = mostVain
	case dear:
		s.vain++
	}
}

// outcomes returns the measured levels of a column for the i-th ef of a round and each stopping
// ratio up to the last.
func (s *sweep) outcomes(column, i, ef int) (all []levels.Candidate) {
	for j := range s.last + 1 {
		setting := levels.Setting{EF: ef}
		if j < len(stopRatios) {
			setting.StopRatio = stopRatios[j]
		}
		all = append(all, s.choose[column].Measure(setting, func(t int) levels.Sample {
			return s.trials[t].end(i, j).sample(column)
		}))
	}
	for j := range all {
		all[j].Whole = all[s.last].Recall // at least
	}
	return all
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

// promising reports whether a round can have a level of higher recall than all that were tried, if
// the trials that were not walked in it find everything.
func (s *sweep) promising(skipped []int, efs int) bool {
	all := outcome{}
	for _, c := range s.columns {
		all.found[c] = 1
	}
	idle := make([]bool, len(s.trials))
	for _, i := range skipped {
		idle[i] = true
	}
	for _, c := range s.columns {
		best := levels.Highest(s.tried[c])
		for i := range efs {
			for j := range s.last + 1 {
				recall := s.choose[c].Recall(func(t int) levels.Sample {
					if idle[t] {
						return all.sample(c)
					}
					return s.trials[t].end(i, j).sample(c)
				})
				if recall > best {
					return true
				}
			}
		}
	}
	return false
}

// draw divides the trials that found everything with a narrower beam. The hard ones missed rows
// with the stopping ratio s.from. Of the rest, sample are walked, and the outcomes of the easy ones
// are inferred from these. Where each width needs a walk of its own, easy trials would take most of
// the time, and tell only how far such searches go. Trials take turns in the sample, and where it
// misses a row, no trial of the kind is easy afterwards.
func (s *sweep) draw(complete []int) (hard, sample, easy []int) {
	if !s.rough() || s.from == 0 {
		return complete, nil, nil
	}
	var n, seen [synthetic.Kinds]int
	isEasy := func(i int) bool { return s.trials[i].end(0, s.from).complete(s.columns) }
	for _, i := range complete {
		if isEasy(i) {
			n[s.trials[i].kind]++
		}
	}
	for _, i := range complete {
		k := s.trials[i].kind
		if n[k] < leastEasy || !isEasy(i) {
			hard = append(hard, i)
			continue
		}
		if seen[k]++; (seen[k]+s.turn)%sampleEvery == 0 {
			sample = append(sample, i)
		} else {
			easy = append(easy, i)
		}
	}
	return hard, sample, easy
}

// A tally has sums of outcomes, by kind and by stopping ratio.
type tally [synthetic.Kinds][len(stopRatios) + 1]struct {
	n, nodes float64
	found    [levels.Columns]float64
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
			was := t.end(0, j)
			ends[j].exact, ends[j].dist, ends[j].spread = was.exact, was.dist, was.spread
		}
		t.whole = append(t.whole[:0], ends[last])
		for j := range t.ended {
			if t.ended[j].nodes = math.MaxInt; j < last {
				t.ended[j] = ends[j]
			}
		}
	}
}

// better returns the highest recall of those levels of a column that are worth while, the best so
// far if none is higher. dear says that others have a higher recall than the best so far.
func (s *sweep) better(tried []levels.Candidate, column int) (recall float32, dear bool) {
	best := s.best[column]
	recall = best
	for i := range tried {
		switch l := &tried[i].Level; {
		case l.Recall <= best:
		case s.choose[column].Worth(l):
			recall = max(recall, l.Recall)
		default:
			dear = true
		}
	}
	return recall, dear
}

// affordable reports whether any level of these columns can be worth while. Where estimates order
// the beam, an expansion finds one row, so searches for k rows expand k at least.
func (s *sweep) affordable() bool {
	return !s.rough() || slices.ContainsFunc(s.columns, func(c int) bool {
		k := levels.Results[c]
		return s.choose[c].Worth(&levels.Level{EF: k, StopRatio: stopRatios[0], MeanNodes: float32(k)})
	})
}
