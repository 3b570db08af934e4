package levels

import (
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/internal/synthetic"
)

// Parameters of recall.
const (
	mostErrors = 1.5 // a level promises the measured recall less this many standard errors
	Fewest     = 5   // trials within the horizon from which a kind counts

	// Enough is the recall at which nothing more needs to be tried.
	Enough = 0.998

	// A kind is easy if it misses at most easyShare of what each level may that promises at least
	// easyFrom: see EasyKinds.
	easyFrom  = 0.5
	easyShare = 0.5

	shareOfRows = 0.9 // weight of the queries like the rows in the mean cost of a search
)

// A Sample says how a trial ended with a setting.
type Sample struct {
	Found  float32 // share of the rows wanted
	Nodes  float32 // expansions
	Exact  bool    // the answer would be exact
	Dist   float32 // that decides about a second stage: see Setting.Within
	Spread float32 // see Setting.Spread
}

// A Scan is a scan of the sketches that trials have measured.
type Scan struct {
	Deviations float32
	Samples    []Sample  // by trial, without the walk before the scan
	Walked     []float32 // expansions of that walk, by trial
}

// Deviations are the numbers of standard deviations of the scans that trials measure.
var Deviations = [...]float32{1, 1.5, 2, 2.5, 3, 4}

// A Candidate is a level with the samples of its trials.
type Candidate struct {
	Level

	samples   []Sample                  // by trial, of a level of one stage that can be one of two
	recalls   *[synthetic.Kinds]float32 // means, of a level of one stage; 1 of a kind with few trials
	pair      *pair                     // the stages
	unbounded float32                   // of two stages: what trials would miss without the bound on the distance
}

// Measure returns the level of a setting of one stage, without Whole. found returns the sample of a
// trial.
func (c *Chooser) Measure(s Setting, found func(trial int) Sample) Candidate {
	samples := make([]Sample, len(c.Kinds))
	var sums [synthetic.Kinds]moments
	for t, kind := range c.Kinds {
		samples[t] = found(t)
		sums[kind].add(samples[t], 1)
	}
	l := Candidate{Level: Level{EF: s.EF, StopRatio: s.StopRatio, Measured: measuredOf(&sums)}}
	l.expect(&sums)
	l.recalls = new([synthetic.Kinds]float32)
	for k := range sums {
		if l.recalls[k] = 1; sums[k].n >= Fewest {
			l.recalls[k] = float32(sums[k].recall())
		}
	}
	if c.Planned {
		l.samples = samples
	}
	return l
}

// Recall returns the recall of the level that Measure would return.
func (c *Chooser) Recall(found func(trial int) Sample) float32 {
	var sums [synthetic.Kinds]moments
	for t, kind := range c.Kinds {
		sums[kind].add(found(t), 1)
	}
	var l Level
	l.expect(&sums)
	return l.Recall
}

// level returns the level of a scan that does not depend on a walk: see Table.ScanSetting.
func (c *Chooser) level(s *Scan) Candidate {
	var sums [synthetic.Kinds]moments
	for t, kind := range c.Kinds {
		one := s.Samples[t]
		one.Nodes += s.Walked[t]
		sums[kind].add(one, 1)
	}
	l := Level{EF: FirstEF, Within: AlwaysBeyond, Second: Stage{Deviations: s.Deviations}, Measured: measuredOf(&sums)}
	l.expect(&sums)
	return Candidate{Level: l}
}

// EasyKinds returns the kinds of trials that are far from deciding what any of these levels
// promises: they miss much less than the kind that does. If no level tells, no kind is easy.
func EasyKinds(levels []Candidate) (easy [synthetic.Kinds]bool) {
	some := slices.DeleteFunc(slices.Clone(levels), func(l Candidate) bool {
		return l.Recall < easyFrom || l.Recall >= Enough
	})
	for k := synthetic.LikeRows + 1; k < synthetic.Kinds; k++ {
		easy[k] = len(some) > 0 && !slices.ContainsFunc(some, func(l Candidate) bool {
			return 1-l.recalls[k] > easyShare*(1-l.Recall)
		})
	}
	return easy
}

// measuredOf returns what a level keeps of the sums over its trials.
func measuredOf(sums *[synthetic.Kinds]moments) *Measured {
	m := &Measured{}
	for k := range sums {
		s := &sums[k]
		if synthetic.Kind(k) < Kept && s.n > 0 {
			m.Recall[k] = float32(min(1, s.recall()))
		}
		if s.n >= Fewest {
			m.Poor = max(m.Poor, float32(s.poor/s.counted()))
		}
	}
	return m
}

// moments are sums over trials of one kind. Only answers that are not exact have a recall: a few
// poor ones would hide among many exact ones.
type moments struct {
	n, nodes                   float64
	walked, sum, squares, poor float64 // of trials whose answer would not be exact
}

// add adds a trial a number of times, -1 to remove it.
func (m *moments) add(s Sample, times float64) {
	m.n += times
	m.nodes += float64(times * float64(s.Nodes))
	if s.Exact {
		return
	}
	found := float64(s.Found)
	m.walked += times
	m.sum += float64(times * found)
	m.squares += float64(times * float64(found*found))
	if found < 0.5 {
		m.poor += times
	}
}

// counted returns how many trials the recall is the mean of: those whose answer is not exact, and
// exact ones up to Fewest, so that one poor answer among many exact ones does not decide.
func (m *moments) counted() float64 { return max(m.walked, min(Fewest, m.n)) }

// recall returns the mean recall.
func (m *moments) recall() float64 { return 1 + (m.sum-m.walked)/m.counted() }

// least returns the mean recall less a few standard errors.
func (m *moments) least() float64 {
	n, exact := m.counted(), m.counted()-m.walked
	mean := m.recall()
	deviation := math.Sqrt(max(0, (m.squares+exact)/n-float64(mean*mean)) / n)
	return max(0, mean-float64(mostErrors*deviation))
}

// expect sets the mean numbers of expansions of a search, and the recall that queries of every kind
// get at least.
func (l *Level) expect(sums *[synthetic.Kinds]moments) {
	worst := sums[synthetic.LikeRows].least()
	usual := sums[synthetic.LikeRows].nodes / sums[synthetic.LikeRows].n
	others, n := 0.0, 0.0
	for k := synthetic.LikeRows + 1; k < synthetic.Kinds; k++ {
		if m := &sums[k]; m.n >= Fewest {
			worst = min(worst, m.least())
			others, n = others+m.nodes/m.n, n+1
		}
	}
	if n == 0 {
		others, n = usual, 1
	}
	l.MeanNodes = float32(float64(shareOfRows*usual) + float64((1-shareOfRows)*others/n))
	l.UsualNodes, l.Recall = float32(usual), float32(worst)
}
