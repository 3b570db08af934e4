package levels

import (
	"fmt"
	"math"

	"github.com/vecbolt/vecbolt/internal/synthetic"
)

// A Setting limits how far a search goes.
type Setting struct {
	// EF is the beam width, as in HNSW. The search ends when it has expanded all EF rows of the
	// beam.
	EF int

	// StopRatio, if it is not 0, ends searches sooner: at the first candidate that is farther than
	// StopRatio times the squared distance of a reference row. That is the 10th nearest so far in
	// searches for up to 10 rows, the 100th in searches for up to 100, likewise the 300th and the
	// 1,000th, and the k-th beyond. Most queries need not expand the whole beam; those that need it
	// have many rows at nearly the same distance. After Al-Jazzazi et al., "Distance adaptive beam
	// search for provably accurate graph-based nearest neighbor search", 2025.
	StopRatio float32

	// FewRatio, if it is not 0, keeps a search with a stopping ratio from ending while the next
	// candidate is nearer than FewRatio times the squared distance of the 10th nearest so far.
	FewRatio float32

	// Within, if it is not 0, is a squared distance: if the row to which StopRatio refers is
	// farther, the search goes on with Second. Queries far from all rows need wider searches than
	// others. So do queries between two groups of rows, because a narrow search finds only one of
	// the groups: the search also goes on if the spread of the rows found is below Spread. And it
	// goes on for queries beyond the extent of the rows, whatever it found. In graphs of the quick
	// layout a wider beam begins again. Under a filter, or if Within is 0, a search returns
	// graph.ErrBetween where it would go on: see Table.ScanSetting.
	Within float32
	Spread float32
	Second Stage

	// UsualNodes is the mean number of expansions for queries like the rows, without a filter; 0
	// stands for EF.
	UsualNodes float64

	measured *Measured // nil: the setting was not measured
}

const (
	// AlwaysBeyond is a value of Setting.Within that is less than every distance other than 0, so
	// that all searches have both stages. If the second is a scan of the sketches, the first is
	// left out: see Setting.Scans.
	AlwaysBeyond = math.SmallestNonzeroFloat32

	// WalkThenScan is such a value too, and keeps the first stage before a scan.
	WalkThenScan = 2 * AlwaysBeyond

	// AtAnyDistance is a value of Setting.Within: the spread alone decides. Such a level states the
	// figures of its first stage, so it serves as one of one stage, too.
	AtAnyDistance = math.MaxFloat32

	SpreadRows = 10 // the spread is of this many rows; of more results it tells too little
)

// A Stage is a beam width and a stopping ratio, as in a Setting. The zero value stands for an exact
// scan, which is left to the caller: the search returns graph.ErrBeyondHorizon.
type Stage struct {
	EF        int
	StopRatio float32

	// Deviations, if it is not 0, ends the stage with a scan of the sketches of all rows. It reads
	// the records of those that may be among the best, if their estimated distances are too large
	// by this many standard deviations at most. A stage without EF is such a scan alone.
	Deviations float32
}

// String returns the stage as "ef 100, stop ratio 1.12" or as "a scan of sketches, 1.5 deviations".
func (s Stage) String() string {
	var text string
	switch {
	case s == Stage{}:
		return "a scan"
	case s.EF == 0:
	case s.StopRatio == 0:
		text = fmt.Sprintf("ef %d", s.EF)
	default:
		text = fmt.Sprintf("ef %d, stop ratio %.4g", s.EF, s.StopRatio)
	}
	if s.Deviations == 0 {
		return text
	}
	if text != "" {
		text += ", then "
	}
	return text + fmt.Sprintf("a scan of sketches, %.4g deviations", s.Deviations)
}

// times returns a stage that goes n times as far.
func (s Stage) times(n float64) Stage {
	s.EF = int(math.Ceil(float64(s.EF) * n))
	if s.StopRatio > 0 {
		s.StopRatio = 1 + float32((s.StopRatio-1)*float32(n))
	}
	s.Deviations *= float32(n)
	return s
}

// Scans reports whether searches with s scan all sketches, whatever their first stage finds.
func (s Setting) Scans() bool {
	return s.Within == AlwaysBeyond && s.Second.EF == 0 && s.Second.Deviations > 0
}

// First returns the first stage of a search.
func (s Setting) First() Stage { return Stage{EF: s.EF, StopRatio: s.StopRatio} }

// String returns the setting as "ef 20, stop ratio 1.08", or as "ef 20, stop ratio 1.08 (far from
// all rows: ef 100, stop ratio 1.12)", or "(far from all rows, or between groups: ...)", or
// "(between groups: ...)", or as "ef 200, stop ratio 1.03 or 1.27 of the 10th row", or as "a scan
// of sketches, 2 deviations", or as "ef 20, then a scan of sketches, 2 deviations".
func (s Setting) String() string {
	switch {
	case s.FewRatio > 0:
		return fmt.Sprintf("%v or %.4g of the 10th row", s.First(), s.FewRatio)
	case s.Within == 0 && s.Spread > 0:
		return fmt.Sprintf("%v (between groups: a scan)", s.First())
	case s.Within == 0:
		return s.First().String()
	case s.Scans():
		return s.Second.String()
	case s.Within == WalkThenScan && s.Second.EF == 0:
		return Stage{s.EF, s.StopRatio, s.Second.Deviations}.String()
	case s.Within == AtAnyDistance:
		return fmt.Sprintf("%v (between groups: %v)", s.First(), s.Second)
	case s.Spread == 0:
		return fmt.Sprintf("%v (far from all rows: %v)", s.First(), s.Second)
	}
	return fmt.Sprintf("%v (far from all rows, or between groups: %v)", s.First(), s.Second)
}

// Times returns a setting for searches that go n times as far.
func (s Setting) Times(n float64) Setting {
	s.measured = nil
	if !s.Scans() { // which looks at all rows anyway; with more deviations hardly more of them pass
		s.UsualNodes *= n
	}
	first := s.First().times(n)
	s.EF, s.StopRatio = first.EF, first.StopRatio
	if s.FewRatio > 0 {
		s.FewRatio = 1 + float32((s.FewRatio-1)*float32(n))
	}
	s.Second = s.Second.times(n)
	return s
}

// Expansions returns how many nodes a search for a query like the rows expands, without a filter.
func (s Setting) Expansions() float64 {
	if s.UsualNodes == 0 {
		return float64(s.EF)
	}
	return s.UsualNodes
}

// UsualRecall returns the mean recall that was measured with the setting for queries that resemble
// the rows; 0 if it is not known.
func (s Setting) UsualRecall() float64 {
	if s.measured == nil {
		return 0
	}
	return float64(s.measured.Recall[synthetic.LikeRows])
}

// Poor returns which share of queries found less than half of the rows wanted, in the kind of
// queries that has most of these; 0 if it is not known.
func (s Setting) Poor() float64 {
	if s.measured == nil {
		return 0
	}
	return float64(s.measured.Poor)
}

// passes returns the share of the rows at the bound of a scan of sketches that pass it: the errors
// of estimates are normally distributed.
func (s Stage) passes() float64 { return 1 - float64(math.Erfc(float64(s.Deviations)/math.Sqrt2)/2) }

// and returns a setting that goes as far as both for every query. Their ratios refer to the same
// row.
func (s Setting) and(t Setting) Setting {
	first, nodes, whole := s.First().and(t.First()), max(s.UsualNodes, t.UsualNodes), s.Scans() && t.Scans()
	switch { // a whole scan has no first stage that counts
	case whole:
	case s.Scans():
		first, nodes = t.First(), s.UsualNodes+t.UsualNodes
	case t.Scans():
		first, nodes = s.First(), s.UsualNodes+t.UsualNodes
	}
	s.Spread = max(s.Spread, t.Spread)
	if s.Within > 0 || t.Within > 0 {
		s.Second = s.last().and(t.last()).after(first)
		if s.Within == 0 || t.Within > 0 && t.Within < s.Within {
			s.Within = t.Within
		}
		if s.Scans() && !whole {
			s.Within = WalkThenScan
		}
	}
	s.EF, s.StopRatio, s.UsualNodes = first.EF, first.StopRatio, nodes
	if s.StopRatio == 0 && !whole {
		s.UsualNodes = max(s.UsualNodes, float64(s.EF))
	}
	if s.measured != nil && t.measured != nil {
		s.measured = s.measured.worse(t.measured)
	}
	return s
}

// last returns the stage that ends the search for a hard query.
func (s Setting) last() Stage {
	if s.Within == 0 {
		return s.First()
	}
	return s.Second
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
