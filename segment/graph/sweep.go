package graph

import (
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/internal/synthetic"
)

// Parameters of a sweep.
const (
	firstEF     = 10
	lastEF      = 1500   // for 1,000 results and for many rows more: see widths
	lastShare   = 100    // of many rows, one in this many
	largestEF   = 6000   // but not more than this,
	deepestEF   = 10_000 // or than this for the columns of more than 100 results
	perDecade   = 12     // beam widths per factor of ten
	denseEF     = 3500   // above it, only every other width is measured, because wide walks take long
	enough      = 0.998  // recall at which a sweep ends
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
	score   scoreFunc
	deep    bool // of many results

	efs        []int // the widths to measure
	step       int   // widths of a round
	more       int   // ratios to measure beyond those that made a difference
	from, last int   // indexes of the ratios to measure; len(stopRatios) stands for no ratio

	turn  int // rounds before
	tried [len(calibrated)][]level
	best  [len(calibrated)]float32 // recall of levels that are worth while
	least float32                  // recall without a ratio in the column that has least
	vain  int                      // rounds that brought only levels that are not worth while
}

func (b *builder) newSweep(trials []trial, columns []int, score scoreFunc) *sweep {
	s := &sweep{builder: b, trials: trials, columns: columns, score: score, deep: columns[0] >= always,
		efs:  b.widths(calibrated[columns[len(columns)-1]]),
		last: len(stopRatios)}
	if most := b.widestWalk(trials, columns); most > 0 {
		s.efs = slices.DeleteFunc(s.efs, func(ef int) bool { return ef > most })
	}
	if b.sifts {
		s.trials = oneIn(tryEvery, trials, func(k synthetic.Kind) bool { return !s.deep || !b.easy[k] })
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
		_, usual := b.usualScan(trials, c)
		if usual == 0 {
			return 0
		}
		most = max(most, widerThanScan*int(usual), 2*calibrated[c], leastWidest)
	}
	return most
}

// widths returns the beam widths to measure for k results.
func (b *builder) widths(k int) (efs []int) {
	most := largestEF
	if k > calibrated[always-1] {
		most = deepestEF
	}
	step := 1
	if b.rough() && k > calibrated[always-1] { // a walk for each width, and few trials
		step = 2
	}
	for i := 0; ; i += step {
		ef := int(firstEF * math.Pow(10, float64(i)/perDecade))
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
		if slices.ContainsFunc(s.columns, func(c int) bool { return highest(s.tried[c]) > s.best[c] }) {
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
		var levels []level
		for i, ef := range efs {
			levels = s.outcomes(s.trials, c, i, ef, s.last)
			s.tried[c] = append(s.tried[c], levels[s.from:]...)
			recall, over := s.better(levels[s.from:], c, s.best[c])
			gain, dear, s.best[c] = gain || recall > s.best[c], dear || over, recall
		}
		whole := levels[s.last].recall
		s.least = min(s.least, whole)
		at := slices.IndexFunc(levels, func(l level) bool { return 1-whole >= stepKept*(1-l.recall) })
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
func (s *sweep) promising(skipped []int, efs int) bool {
	all := outcome{}
	for _, c := range s.columns {
		all.found[c] = 1
	}
	idle := map[*trial]bool{}
	for _, i := range skipped {
		idle[&s.trials[i]] = true
	}
	for _, c := range s.columns {
		best := highest(s.tried[c])
		for i := range efs {
			for j := range s.last + 1 {
				l := levelOf(s.trials, c, Setting{}, func(t *trial) *outcome {
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
			was := t.end(0, j)
			ends[j].beyond, ends[j].dist, ends[j].spread = was.beyond, was.dist, was.spread
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

// affordable reports whether any level of these columns can be worth while. Where estimates order
// the beam, an expansion finds one row, so searches for k rows expand k at least.
func (s *sweep) affordable() bool {
	return !s.rough() || slices.ContainsFunc(s.columns, func(c int) bool {
		k := calibrated[c]
		return s.worth(&level{ef: k, stopRatio: stopRatios[0], nodes: float32(k)}, c)
	})
}
