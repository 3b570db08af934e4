package graph

import (
	"cmp"
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// A Filter says how many rows the filter of a search allows, as far as settings depend on it.
type Filter uint8

const (
	NoFilter Filter = iota

	// MildFilter allows at least half of the rows. The nearest allowed rows are then about as far
	// from the query as the nearest rows, so the bounds on distance and spread hold.
	MildFilter

	// AnyFilter may allow few rows. A walk has one stage.
	AnyFilter
)

// mild is the least share of the rows that a mild filter allows. With a third, recall fell short.
const mild = 0.5

// FilterOf returns the kind of a filter that allows this many rows.
func (g *Graph) FilterOf(allowed int) Filter {
	if float64(allowed) >= mild*float64(g.Len()) {
		return MildFilter
	}
	return AnyFilter
}

// serves reports whether the setting of a level is for searches under a filter. Under a mild one, a
// level may have two stages if the second is a scan of the sketches, which an error asks for: see
// ErrBetween.
func (l *level) serves(f Filter) bool {
	switch {
	case f == NoFilter, l.within == 0, l.within == atAnyDistance:
		return true
	case f == AnyFilter:
		return false
	}
	return l.beyond.EF == 0 && l.beyond.Deviations > 0
}

// Setting returns the cheapest setting that was measured to give the recall in searches for k
// results. Recall is a mean over queries of one kind, whether they resemble the rows or not: every
// kind gets it. ok is false if no setting reached it.
func (g *Graph) Setting(recall float64, k int, f Filter) (s Setting, ok bool) {
	i, _ := g.column(k)
	if i == 1 && k*k < calibrated[i] { // 2 or 3 results are nearer to 1 than to 10
		return g.settingUpTo(i, recall, k, f)
	}
	return g.settingOf(i, recall, k, f)
}

// SettingUpTo is Setting for searches with a threshold, whose answers have up to k results. It goes
// as far as the settings for fewer results. A search that finds 95 % of 100 rows can find less of
// the best one: among texts, 92 % of the best rows of midpoints.
func (g *Graph) SettingUpTo(recall float64, k int, f Filter) (s Setting, ok bool) {
	i, _ := g.column(k)
	return g.settingUpTo(i, recall, k, f)
}

// ScanSetting returns the cheapest setting that scans the sketches of all rows and was measured to
// give the recall in searches for up to k results. It is for searches under a filter, because what
// a scan misses does not depend on it. A filter brings the k best rows nearer together, and then a
// scan may miss every row whose estimate is wrong by more than its deviations. These must not be
// too many either. ok is false if there is no such setting.
func (g *Graph) ScanSetting(recall float64, k int) (s Setting, ok bool) {
	column, times := g.column(k)
	if times > 1 {
		return Setting{}, false
	}
	least := float32(0) // deviations
	for i, levels := range g.levels[:column+1] {
		at := slices.IndexFunc(levels, func(l level) bool {
			s := l.setting(k, 1)
			return s.Scans() && s.Beyond.Deviations >= least && float64(l.recall) >= recall &&
				s.Beyond.passes() >= recall
		})
		if at < 0 {
			return Setting{}, false
		}
		s = levels[at].setting(k, 1)
		if least = s.Beyond.Deviations; i < column {
			s.measured = nil
		}
	}
	return s, true
}

// passes returns the share of the rows at the bound of a scan of sketches that pass it: the errors
// of estimates are normally distributed.
func (s Stage) passes() float64 { return 1 - float64(math.Erfc(float64(s.Deviations)/math.Sqrt2)/2) }

// settingUpTo is SettingUpTo for k results of a column.
func (g *Graph) settingUpTo(column int, recall float64, k int, f Filter) (s Setting, ok bool) {
	if column > 1 { // rows of one rank tell whether a query is easy
		f = AnyFilter
	}
	if s, ok = g.settingOf(column, recall, k, f); !ok {
		return Setting{}, false
	}
	for i := 0; i < column && calibrated[i] <= few; i++ {
		fewer, ok := g.settingOf(i, recall, k, f)
		if !ok {
			return Setting{}, false
		}
		if column > 1 { // its stopping ratio refers to another row
			if fewer.StopRatio == 0 {
				s.StopRatio = 0
			}
			s.FewRatio, fewer.StopRatio = max(s.FewRatio, fewer.StopRatio), s.StopRatio
		}
		s = s.and(fewer)
	}
	if s.StopRatio == 0 { // it expands the whole beam
		s.FewRatio = 0
	}
	return s, true
}

// and returns a setting that goes as far as both for every query. Their ratios refer to the same
// row.
func (s Setting) and(t Setting) Setting {
	first, nodes, whole := s.stage().and(t.stage()), max(s.nodes, t.nodes), s.Scans() && t.Scans()
	switch { // a whole scan has no first stage that counts
	case whole:
	case s.Scans():
		first, nodes = t.stage(), s.nodes+t.nodes
	case t.Scans():
		first, nodes = s.stage(), s.nodes+t.nodes
	}
	s.Spread = max(s.Spread, t.Spread)
	if s.Within > 0 || t.Within > 0 {
		s.Beyond = s.last().and(t.last()).after(first)
		if s.Within == 0 || t.Within > 0 && t.Within < s.Within {
			s.Within = t.Within
		}
		if s.Scans() && !whole {
			s.Within = walkThenScan
		}
	}
	s.EF, s.StopRatio, s.nodes = first.EF, first.StopRatio, nodes
	if s.StopRatio == 0 && !whole {
		s.nodes = max(s.nodes, float64(s.EF))
	}
	if s.measured != nil && t.measured != nil {
		s.measured = s.measured.worse(t.measured)
	}
	return s
}

// last returns the stage that ends the search for a hard query.
func (s Setting) last() Stage {
	if s.Within == 0 {
		return s.stage()
	}
	return s.Beyond
}

// and returns a stage that goes as far as both.
func (s Stage) and(t Stage) Stage {
	if s == (Stage{}) || t == (Stage{}) { // a scan
		return Stage{}
	}
	both := Stage{max(s.EF, t.EF), wider(s.StopRatio, t.StopRatio), max(s.Deviations, t.Deviations)}
	switch { // one of them does not walk
	case s.EF == 0:
		both.StopRatio = t.StopRatio
	case t.EF == 0:
		both.StopRatio = s.StopRatio
	}
	return both
}

// after returns a second stage that goes as far as s and as the first one did. It walks only if
// that is farther.
func (s Stage) after(first Stage) Stage {
	if s.EF == 0 {
		return s
	}
	s.EF, s.StopRatio = max(s.EF, first.EF), wider(s.StopRatio, first.StopRatio)
	if s.Deviations > 0 && s.EF == first.EF && s.StopRatio == first.StopRatio {
		s.EF, s.StopRatio = 0, 0
	}
	return s
}

// wider returns the stopping ratio that ends a search later; 0 does not end it.
func wider(a, b float32) float32 {
	if a == 0 || b == 0 {
		return 0
	}
	return max(a, b)
}

// worse returns what the worse of two settings found.
func (m *measured) worse(than *measured) *measured {
	w := &measured{poor: max(m.poor, than.poor)}
	for i := range w.recall {
		w.recall[i] = min(m.recall[i], than.recall[i])
	}
	return w
}

// settingOf returns the cheapest setting of a column with the recall, for k results.
func (g *Graph) settingOf(column int, recall float64, k int, f Filter) (s Setting, ok bool) {
	times := max(1, float64(k)/float64(calibrated[g.columns()-1]))
	if times > 1 {
		f = AnyFilter
	}
	var scan Setting
	scans := false
	if f == MildFilter {
		scan, scans = g.ScanSetting(recall, k)
	}
	// No interpolation: where a whole cluster comes into view, recall rises in a step.
	for _, l := range g.levels[column] { // the cheapest first
		if float64(l.recall) < recall {
			continue
		}
		s := l.setting(k, times)
		if f == MildFilter && s.Scans() { // see ScanSetting
			if scans && s.Beyond.Deviations >= scan.Beyond.Deviations {
				f = AnyFilter // two stages cost more from here on
			}
			continue
		}
		if !l.serves(f) {
			continue
		}
		if f == AnyFilter || f == MildFilter && l.within == atAnyDistance { // it serves as one of one stage
			s.Within, s.Beyond = 0, Stage{}
		}
		if times > 1 {
			s.Spread = 0 // no scan could follow: see ScanSetting
		}
		return s, true
	}
	return Setting{}, false
}

// Covers reports whether searches for k rows have the recall of Setting under a filter that allows
// this many rows and is independent of them. The k best allowed rows are then among more of the
// best of all rows. For Dot these can be so short, beside the longest, that codes cannot tell their
// products apart. So a setting must give the recall in searches for nearly that many rows, too.
func (g *Graph) Covers(recall float64, k, allowed int) bool {
	const slack = 2 // more rows than that are scored
	if g.head.ident.Metric != fileformat.Dot {
		return true
	}
	among := int(float64(k) * float64(g.Len()) / float64(max(1, allowed)) / slack)
	if among <= k {
		return true
	}
	_, walks := g.Setting(recall, among, AnyFilter)
	_, scans := g.ScanSetting(recall, among)
	return (walks || scans) && among <= calibrated[g.columns()-1]
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
