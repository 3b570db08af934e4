package graph

import (
	"cmp"
	"slices"

	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// Setting returns the cheapest setting that was measured to give the recall in searches for k
// results. Recall is a mean over queries of one kind, whether they resemble the rows or not: every
// kind gets it. filtered is for searches under a filter. ok is false if no setting reached it.
func (g *Graph) Setting(recall float64, k int, filtered bool) (s Setting, ok bool) {
	i, times := g.column(k)
	if i == 1 && k*k < calibrated[i] { // 2 or 3 results are nearer to 1 than to 10
		return g.settingUpTo(i, recall, k, filtered)
	}
	return g.settingOf(i, recall, k, filtered || times > 1)
}

// SettingUpTo is Setting for searches with a threshold, whose answers have up to k results. It goes
// as far as the settings for fewer results. A search that finds 95 % of 100 rows can find less of
// the best one: among texts, 92 % of the best rows of midpoints.
func (g *Graph) SettingUpTo(recall float64, k int, filtered bool) (s Setting, ok bool) {
	i, times := g.column(k)
	return g.settingUpTo(i, recall, k, filtered || times > 1)
}

// settingUpTo is SettingUpTo for k results of a column.
func (g *Graph) settingUpTo(column int, recall float64, k int, single bool) (s Setting, ok bool) {
	if column > 1 {
		return g.settingWithFew(column, recall, k)
	}
	one, fine := g.settingOf(0, recall, k, single)
	s, ok = g.settingOf(column, recall, k, single)
	switch {
	case !ok || !fine:
		return Setting{}, false
	case one.nodes > s.nodes: // the same searches: the wider setting is right for both
		return one, true
	}
	return s, true
}

// settingWithFew returns a setting of one stage for k results of a column that goes as far as those
// for 1 and 10.
func (g *Graph) settingWithFew(column int, recall float64, k int) (s Setting, ok bool) {
	s, ok = g.settingOf(column, recall, k, true)
	for i := 0; ok && calibrated[i] <= few; i++ {
		var fewer Setting
		if fewer, ok = g.settingOf(i, recall, k, true); !ok {
			return Setting{}, false
		}
		s.EF, s.nodes = max(s.EF, fewer.EF), max(s.nodes, fewer.nodes)
		if s.FewRatio = max(s.FewRatio, fewer.StopRatio); fewer.StopRatio == 0 {
			s.StopRatio = 0
		}
		if s.measured != nil && fewer.measured != nil {
			s.measured = s.measured.worse(fewer.measured)
		}
	}
	if s.StopRatio == 0 { // it expands the whole beam
		s.FewRatio = 0
	}
	return s, ok
}

// worse returns what the worse of two settings found.
func (m *measured) worse(than *measured) *measured {
	w := &measured{poor: max(m.poor, than.poor)}
	for i := range w.recall {
		w.recall[i] = min(m.recall[i], than.recall[i])
	}
	return w
}

// settingOf returns the cheapest setting of a column with the recall, for k results; single: one of
// one stage.
func (g *Graph) settingOf(column int, recall float64, k int, single bool) (s Setting, ok bool) {
	times := max(1, float64(k)/float64(calibrated[g.columns()-1]))
	// No interpolation: where a whole cluster comes into view, recall rises in a step.
	for _, l := range g.levels[column] { // the cheapest first
		if float64(l.recall) >= recall && (l.within == 0 || !single) {
			return l.setting(k, times), true
		}
	}
	return Setting{}, false
}

// Covers reports whether searches for k rows have the recall of Setting under a filter that allows
// this many rows and is independent of them. Their k best rows lie among more of all rows. For Dot
// these can be so short, beside the longest, that codes cannot tell their products apart. So a
// setting must give the recall in searches for nearly that many rows, too.
func (g *Graph) Covers(recall float64, k, allowed int) bool {
	const slack = 2 // more rows than that are scored
	if g.head.ident.Metric != fileformat.Dot {
		return true
	}
	among := int(float64(k) * float64(g.Len()) / float64(max(1, allowed)) / slack)
	if among <= k {
		return true
	}
	_, ok := g.Setting(recall, among, true)
	return ok && among <= calibrated[g.columns()-1]
}

// A wholeBeam is a beam width with the recall of searches that expand the whole beam.
type wholeBeam struct {
	ef     int
	recall float32
}

// wholeBeams returns the beams of some levels, narrowest first: each has a higher recall than all
// narrower ones.
func wholeBeams(levels []level) []wholeBeam {
	var all, kept []wholeBeam
	for _, l := range levels {
		all = append(all, wholeBeam{l.ef, l.whole})
	}
	slices.SortFunc(all, func(a, b wholeBeam) int { return cmp.Or(a.ef-b.ef, cmp.Compare(b.recall, a.recall)) })
	recall := float32(0)
	for _, b := range all {
		if b.recall > recall {
			kept, recall = append(kept, b), b.recall
		}
	}
	return kept
}

// setLevels sets the levels of a column of the calibration.
func (g *Graph) setLevels(column int, levels []level) {
	g.levels[column], g.whole[column] = levels, wholeBeams(levels)
}

// Recall returns the measured recall of searches for k results with a beam width of at most ef, of
// one stage and without early stopping. It is 0 if nothing is known.
func (g *Graph) Recall(ef, k int) float64 {
	i, times := g.column(k)
	if ef < k {
		return 0
	}
	recall := float32(0)
	for _, b := range g.whole[i] {
		if float64(b.ef)*times > float64(ef) {
			break
		}
		recall = b.recall
	}
	return float64(recall)
}

// margin returns the factor on the squared code distance of the k-th row within which further rows
// are worth scoring; 0: there is no such bound.
func (g *Graph) margin(k int) float32 {
	i, _ := g.column(k)
	m := g.head.margins[i]
	if i > 0 && k < calibrated[i] && m > 0 { // the nearer rows are, the less codes tell
		if m = max(m, g.head.margins[i-1]); g.head.margins[i-1] == 0 {
			m = 0
		}
	}
	return m
}
