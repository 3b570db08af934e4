package levels

import (
	"cmp"
	"slices"
)

// Results are the numbers of results with a measured recall, each a column of a table. Graphs of
// few rows, and files of version 2, have only the first three.
var Results = [...]int{1, 10, 100, 300, 1000}

const (
	Columns     = len(Results)
	BaseColumns = 3  // columns that every calibration has
	Few         = 10 // rank that Setting.FewRatio refers to

	perHit = 3 // a further column is measured if the graph has at least k times as many rows
)

// ColumnsFor returns how many columns are measured for a graph of this many rows.
func ColumnsFor(rows int) int {
	n := BaseColumns
	for n < Columns && rows >= perHit*Results[n] {
		n++
	}
	return n
}

// A Table has the levels of a graph by column, the cheapest first. The zero value has none.
type Table struct {
	levels [Columns][]Level
	whole  [Columns][]wholeBeam // of levels, for searches that are given their beam
}

// NewTable returns a table with these levels.
func NewTable(levels [Columns][]Level) Table {
	t := Table{levels: levels}
	for i := range levels {
		t.whole[i] = wholeBeams(levels[i])
	}
	return t
}

// Levels returns the levels of a column, the cheapest first. They must not be changed.
func (t *Table) Levels(column int) []Level { return t.levels[column] }

// Columns returns how many columns have levels.
func (t *Table) Columns() int {
	n := BaseColumns
	for n < Columns && len(t.levels[n]) > 0 {
		n++
	}
	return n
}

// Rank returns the rank of the row that a stopping ratio refers to in searches for k results.
func (t *Table) Rank(k int) int {
	for _, r := range Results[1:t.Columns()] {
		if k <= r {
			return r
		}
	}
	return k
}

// Column returns the column that applies to searches for k results, and the factor by which their
// ef must be raised.
func (t *Table) Column(k int) (i int, times float64) {
	n := t.Columns()
	for i, r := range Results[:n] {
		if k <= r {
			return i, 1
		}
	}
	return n - 1, float64(k) / float64(Results[n-1])
}

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

// FilterOf returns the kind of a filter that allows some of the rows of a graph.
func FilterOf(allowed, rows int) Filter {
	if float64(allowed) >= mild*float64(rows) {
		return MildFilter
	}
	return AnyFilter
}

// serves reports whether the setting of a level is for searches under a filter. Under a mild one, a
// level may have two stages if the second is a scan of the sketches, which an error asks for: see
// graph.ErrBetween.
func (l *Level) serves(f Filter) bool {
	switch {
	case f == NoFilter, l.Within == 0, l.Within == AtAnyDistance:
		return true
	case f == AnyFilter:
		return false
	}
	return l.Second.EF == 0 && l.Second.Deviations > 0
}

// Setting returns the cheapest setting that was measured to give the recall in searches for k
// results. Recall is a mean over queries of one kind, whether they resemble the rows or not: every
// kind gets it. ok is false if no setting reached it.
func (t *Table) Setting(recall float64, k int, f Filter) (s Setting, ok bool) {
	i, _ := t.Column(k)
	if i == 1 && k*k < Results[i] { // 2 or 3 results are nearer to 1 than to 10
		return t.settingUpTo(i, recall, k, f)
	}
	return t.settingOf(i, recall, k, f)
}

// SettingUpTo is Setting for searches with a threshold, whose answers have up to k results. It goes
// as far as the settings for fewer results. A search that finds 95 % of 100 rows can find less of
// the best one: among texts, 92 % of the best rows of midpoints.
func (t *Table) SettingUpTo(recall float64, k int, f Filter) (s Setting, ok bool) {
	i, _ := t.Column(k)
	return t.settingUpTo(i, recall, k, f)
}

// ScanSetting returns the cheapest setting that scans the sketches of all rows and was measured to
// give the recall in searches for up to k results. It is for searches under a filter, because what
// a scan misses does not depend on it. A filter brings the k best rows nearer together, and then a
// scan may miss every row whose estimate is wrong by more than its deviations. These must not be
// too many either. ok is false if there is no such setting.
func (t *Table) ScanSetting(recall float64, k int) (s Setting, ok bool) {
	column, times := t.Column(k)
	if times > 1 {
		return Setting{}, false
	}
	least := float32(0) // deviations
	for i, levels := range t.levels[:column+1] {
		at := slices.IndexFunc(levels, func(l Level) bool {
			s := l.Setting(k, 1)
			return s.Scans() && s.Second.Deviations >= least && float64(l.Recall) >= recall &&
				s.Second.passes() >= recall
		})
		if at < 0 {
			return Setting{}, false
		}
		s = levels[at].Setting(k, 1)
		if least = s.Second.Deviations; i < column {
			s.measured = nil
		}
	}
	return s, true
}

// settingUpTo is SettingUpTo for k results of a column.
func (t *Table) settingUpTo(column int, recall float64, k int, f Filter) (s Setting, ok bool) {
	if column > 1 { // rows of one rank tell whether a query is easy
		f = AnyFilter
	}
	if s, ok = t.settingOf(column, recall, k, f); !ok {
		return Setting{}, false
	}
	for i := 0; i < column && Results[i] <= Few; i++ {
		fewer, ok := t.settingOf(i, recall, k, f)
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

// settingOf returns the cheapest setting of a column with the recall, for k results.
func (t *Table) settingOf(column int, recall float64, k int, f Filter) (s Setting, ok bool) {
	times := max(1, float64(k)/float64(Results[t.Columns()-1]))
	if times > 1 {
		f = AnyFilter
	}
	var scan Setting
	scans := false
	if f == MildFilter {
		scan, scans = t.ScanSetting(recall, k)
	}
	// No interpolation: where a whole cluster comes into view, recall rises in a step.
	for _, l := range t.levels[column] { // the cheapest first
		if float64(l.Recall) < recall {
			continue
		}
		s := l.Setting(k, times)
		if f == MildFilter && s.Scans() { // see ScanSetting
			if scans && s.Second.Deviations >= scan.Second.Deviations {
				f = AnyFilter // two stages cost more from here on
			}
			continue
		}
		if !l.serves(f) {
			continue
		}
		if f == AnyFilter || f == MildFilter && l.Within == AtAnyDistance { // it serves as one of one stage
			s.Within, s.Second = 0, Stage{}
		}
		if times > 1 {
			s.Spread = 0 // no scan could follow: see ScanSetting
		}
		return s, true
	}
	return Setting{}, false
}

// A wholeBeam is a beam width with the recall of searches that expand the whole beam.
type wholeBeam struct {
	ef     int
	recall float32
}

// wholeBeams returns the beams of some levels, narrowest first: each has a higher recall than all
// narrower ones.
func wholeBeams(levels []Level) []wholeBeam {
	var all, kept []wholeBeam
	for _, l := range levels {
		all = append(all, wholeBeam{l.EF, l.Whole})
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

// Recall returns the measured recall of searches for k results with a beam width of at most ef, of
// one stage and without early stopping. It is 0 if nothing is known.
func (t *Table) Recall(ef, k int) float64 {
	i, times := t.Column(k)
	if ef < k {
		return 0
	}
	recall := float32(0)
	for _, b := range t.whole[i] {
		if float64(b.ef)*times > float64(ef) {
			break
		}
		recall = b.recall
	}
	return float64(recall)
}
