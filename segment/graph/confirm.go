package graph

import (
	"cmp"
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/internal/synthetic"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
)

// A confirmation is what a trial finds with a setting to confirm.
type confirmation struct {
	outcome
	easy   bool // the trial has found everything with a narrower setting
	walked bool // otherwise the outcome is inferred
}

// confirm replaces the levels of a sweep by fewer ones, and measures each by searches with exactly
// its setting. A sweep continues one search through all settings. In graphs that sift, such a
// search reads other records than one with a single setting: it does not meet again what a narrow
// beam or a small ratio has refused.
//
// A trial that has found everything also finds it with wider settings, except about one in ten
// thousand. So it is walked with only one in sampleEvery of these; the trials of a kind take turns.
// If one of them misses a row with a setting, all are walked with that setting.
func (b *builder) confirm(trials []trial, columns []int, score scoreFunc,
	tried *[levels.Columns][]levels.Candidate) error {
	settings := b.toConfirm(trials, columns, tried)
	turns, seen := make([]int, len(trials)), [synthetic.Kinds]int{}
	for i := range trials {
		t := &trials[i]
		t.confirmed = make([]confirmation, len(settings))
		turns[i] = seen[t.kind]
		seen[t.kind]++
	}
	// Searches for a trial read the same records, so they follow each other.
	walk := func(skip func(t *trial, i, j int) bool) error {
		return b.each(len(trials), func(w *workerScratch, i int) error {
			t := &trials[i]
			for j, s := range settings {
				c := &t.confirmed[j]
				if c.walked || skip(t, i, j) {
					continue
				}
				b.rest(w)
				if err := t.try(columns, s, w, score, &c.outcome); err != nil {
					return err
				}
				c.walked = true
			}
			return nil
		})
	}
	err := walk(func(t *trial, i, j int) bool {
		easy := t.reference(settings, j, columns) != nil
		t.confirmed[j].easy = easy
		return easy && (turns[i]+j)%sampleEvery != 0
	})
	if err != nil {
		return err
	}
	samples := easySamples(trials, columns, len(settings))
	err = walk(func(t *trial, _, j int) bool {
		return samples[j][t.kind].tells()
	})
	if err != nil {
		return err
	}
	samples = easySamples(trials, columns, len(settings))
	for i := range trials {
		trials[i].inferConfirmed(settings, columns, samples)
	}
	for _, c := range columns {
		tried[c] = b.confirmedLevels(trials, c, settings)
	}
	return nil
}

// confirmedLevels returns the levels of a column with the settings that were confirmed.
func (b *builder) confirmedLevels(trials []trial, column int, settings []levels.Setting) (all []levels.Candidate) {
	c := b.chooser(trials, column)
	for j, s := range settings {
		all = append(all, c.Measure(s, func(t int) levels.Sample { return trials[t].confirmed[j].sample(column) }))
	}
	for j := range all {
		l := &all[j]
		l.Whole = l.Recall // at least, without the ratio
		for _, other := range all {
			if other.EF == l.EF && other.StopRatio == 0 {
				l.Whole = other.Recall
			}
		}
	}
	return all
}

// leastSample is how many easy trials of a kind stand for the others, at least.
const leastSample = leastEasy / sampleEvery

// toConfirm returns the settings of these columns to confirm, each after all that are narrower.
func (b *builder) toConfirm(trials []trial, columns []int,
	tried *[levels.Columns][]levels.Candidate) (settings []levels.Setting) {
	for _, c := range columns {
		for _, s := range b.chooser(trials, c).ToConfirm(tried[c]) {
			if !slices.Contains(settings, s) {
				settings = append(settings, s)
			}
		}
	}
	slices.SortFunc(settings, func(x, y levels.Setting) int {
		return cmp.Or(cmp.Compare(ratio(x), ratio(y)), cmp.Compare(x.EF, y.EF))
	})
	return settings
}

// ratio returns the stopping ratio, infinity for none.
func ratio(s levels.Setting) float64 {
	if s.StopRatio == 0 {
		return math.Inf(1)
	}
	return float64(s.StopRatio)
}

// reference returns the outcome of the last walk with a setting narrower than the j-th that has
// found everything, or nil.
func (t *trial) reference(settings []levels.Setting, j int, columns []int) *outcome {
	for i := j - 1; i >= 0; i-- { // no ratio before is larger
		if c := &t.confirmed[i]; c.walked && settings[i].EF <= settings[j].EF && c.complete(columns) {
			return &c.outcome
		}
	}
	return nil
}

// An easySample sums walks of easy trials of one kind with one setting.
type easySample struct {
	n, missed int
	nodes     float64
}

// tells reports whether other easy trials of the kind find everything, too.
func (s *easySample) tells() bool { return s.n >= leastSample && s.missed == 0 }

// mean returns the mean expansions.
func (s *easySample) mean() float64 { return s.nodes / float64(s.n) }

// easySamples returns the sums by setting and kind.
func easySamples(trials []trial, columns []int, settings int) [][synthetic.Kinds]easySample {
	all := make([][synthetic.Kinds]easySample, settings)
	for i := range trials {
		for j := range trials[i].confirmed {
			if c := &trials[i].confirmed[j]; c.easy && c.walked {
				s := &all[j][trials[i].kind]
				s.n++
				s.nodes += float64(c.nodes)
				if !c.complete(columns) {
					s.missed++
				}
			}
		}
	}
	return all
}

// inferConfirmed sets the outcomes for the settings with which an easy trial was not walked. It
// finds the rows that it found with a narrower one. The expansions are the mean of the sample of
// its kind. Trials differ, so this is scaled by how the trial compares with the sample where both
// were walked.
func (t *trial) inferConfirmed(settings []levels.Setting, columns []int, samples [][synthetic.Kinds]easySample) {
	own, sample := 0.0, 0.0
	for j := range t.confirmed {
		if c := &t.confirmed[j]; c.easy && c.walked {
			own += float64(c.nodes)
			sample += samples[j][t.kind].mean()
		}
	}
	share := 1.0
	if sample > 0 {
		share = own / sample
	}
	for j := range t.confirmed {
		if c := &t.confirmed[j]; !c.walked {
			c.outcome = *t.reference(settings, j, columns)
			c.nodes = max(c.nodes, int(math.Round(float64(share*samples[j][t.kind].mean()))))
		}
	}
}

// try searches with a setting and records the outcome.
func (t *trial) try(columns []int, s levels.Setting, w *workerScratch, score scoreFunc, o *outcome) error {
	_, stats, err := t.query.Find(levels.Results[columns[len(columns)-1]], s, nil, &w.buf)
	if err != nil {
		return err
	}
	o.nodes = stats.Expanded
	for _, c := range columns {
		if err := t.query.collect(levels.Results[c], nil, &w.buf); err != nil {
			return err
		}
		if o.found[c], err = t.count(c, w, score); err != nil {
			return err
		}
		if o.exact[c] = t.isExact(c, &w.buf); o.exact[c] {
			o.found[c] = 1
		}
		o.dist[c] = t.dist(c, &w.buf)
	}
	o.spread = t.query.spread(&w.buf)
	return nil
}
