package graph

import (
	"encoding/binary"
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
	// farther, the search goes on with Beyond. Queries far from all rows need wider searches than
	// others. So do queries between two groups of rows, because a narrow search finds only one of
	// the groups: the search also goes on if the spread of the rows found is below Spread. And it
	// goes on for queries beyond the extent of the rows, whatever it found. In graphs of the quick
	// layout a wider beam begins again. Under a filter, or if Within is 0, a search returns
	// ErrBetween where it would go on: see ScanSetting.
	Within float32
	Spread float32
	Beyond Stage

	nodes    float64   // mean number of expansions for queries like the rows, unfiltered; 0: as many as EF
	measured *measured // nil: the setting was not measured
}

// A Stage is a beam width and a stopping ratio, as in a Setting. The zero value stands for an exact
// scan, which is left to the caller: the search returns ErrBeyondHorizon.
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
	return s.Within == alwaysBeyond && s.Beyond.EF == 0 && s.Beyond.Deviations > 0
}

// stage returns the first stage of a search.
func (s Setting) stage() Stage { return Stage{EF: s.EF, StopRatio: s.StopRatio} }

// String returns the setting as "ef 20, stop ratio 1.08", or as "ef 20, stop ratio 1.08 (far from
// all rows: ef 100, stop ratio 1.12)", or "(far from all rows, or between groups: ...)", or
// "(between groups: ...)", or as "ef 200, stop ratio 1.03 or 1.27 of the 10th row", or as "a scan
// of sketches, 2 deviations", or as "ef 20, then a scan of sketches, 2 deviations".
func (s Setting) String() string {
	switch {
	case s.FewRatio > 0:
		return fmt.Sprintf("%v or %.4g of the 10th row", s.stage(), s.FewRatio)
	case s.Within == 0 && s.Spread > 0:
		return fmt.Sprintf("%v (between groups: a scan)", s.stage())
	case s.Within == 0:
		return s.stage().String()
	case s.Scans():
		return s.Beyond.String()
	case s.Within == walkThenScan && s.Beyond.EF == 0:
		return Stage{s.EF, s.StopRatio, s.Beyond.Deviations}.String()
	case s.Within == atAnyDistance:
		return fmt.Sprintf("%v (between groups: %v)", s.stage(), s.Beyond)
	case s.Spread == 0:
		return fmt.Sprintf("%v (far from all rows: %v)", s.stage(), s.Beyond)
	}
	return fmt.Sprintf("%v (far from all rows, or between groups: %v)", s.stage(), s.Beyond)
}

// Times returns a setting for searches that go n times as far.
func (s Setting) Times(n float64) Setting {
	s.measured = nil
	if !s.Scans() { // which looks at all rows anyway; with more deviations hardly more of them pass
		s.nodes *= n
	}
	first := s.stage().times(n)
	s.EF, s.StopRatio = first.EF, first.StopRatio
	if s.FewRatio > 0 {
		s.FewRatio = 1 + float32((s.FewRatio-1)*float32(n))
	}
	s.Beyond = s.Beyond.times(n)
	return s
}

// usual returns the number of expansions of a search for a query like the rows, without a filter.
func (s *Setting) usual() float64 {
	if s.nodes == 0 {
		return float64(s.EF)
	}
	return s.nodes
}

// calibrated are the result counts k with a measured recall. Graphs of few rows, and files of
// version 2, have only the first three.
var calibrated = [...]int{1, 10, 100, 300, 1000}

const (
	always     = 3 // columns that every calibration has
	rowsPerHit = 3 // a further column is measured if the graph has at least k times as many rows

	few = 10 // rank that Setting.FewRatio refers to
)

// columns returns how many columns of calibrated have levels.
func (g *Graph) columns() int {
	n := always
	for n < len(calibrated) && len(g.levels[n]) > 0 {
		n++
	}
	return n
}

// rank returns the rank of the row that a stopping ratio refers to in searches for k results.
func (g *Graph) rank(k int) int {
	for _, c := range calibrated[1:g.columns()] {
		if k <= c {
			return c
		}
	}
	return k
}

// column returns the index in calibrated that applies to searches for k results, and the factor by
// which their ef must be raised.
func (g *Graph) column(k int) (i int, times float64) {
	n := g.columns()
	for i, c := range calibrated[:n] {
		if k <= c {
			return i, 1
		}
	}
	return n - 1, float64(k) / float64(calibrated[n-1])
}

// A level is a measured setting of the calibration with a lower estimate of its recall.
type level struct {
	ef        int
	stopRatio float32
	nodes     float32 // mean number of expansions
	usual     float32 // the same of queries like the rows; 0 in files of earlier versions
	recall    float32
	whole     float32 // recall without the stopping ratio, of a level of one stage
	within    float32
	spread    float32
	beyond    Stage
	measured  *measured

	// During the calibration:
	samples   []sample                  // by trial, of a level of one stage
	recalls   *[synthetic.Kinds]float32 // means, of a level of one stage; 1 of a kind with few trials
	pair      *pair                     // the stages
	unbounded float32                   // of two stages: what trials would miss without the bound on the distance
}

// kept kinds of queries have means in the file of a graph.
const kept = synthetic.Midpoints

// measured is what searches of a level found, by the kind of query.
type measured struct {
	recall [kept]float32 // means
	poor   float32       // share of queries that found less than half, in the kind that has most
}

func (l *level) setting(k int, times float64) Setting {
	s := Setting{EF: max(k, int(math.Ceil(float64(l.ef)*times))), StopRatio: l.stopRatio,
		nodes: l.expansions(k) * times, Within: l.within, Spread: l.spread, Beyond: l.beyond}
	if s.Beyond.EF > 0 {
		s.Beyond.EF = max(k, s.Beyond.EF)
	}
	if times == 1 {
		s.measured = l.measured
	}
	return s
}

// expansions returns how many nodes a search for k rows usually expands. Where that is not known it
// follows from the mean, which is higher, the more so the farther searches go: three trials in ten
// are unlike the rows, and the hardest go ten times as far as most.
func (l *level) expansions(k int) float64 {
	nodes := float64(l.nodes)
	switch {
	case l.usual > 0:
		return float64(l.usual)
	case l.stopRatio == 0: // every search expands the whole beam
		return nodes
	}
	return min(nodes, max(1.4*math.Pow(nodes, 0.8), 1.5*float64(k)))
}

// Usual returns the mean recall that was measured with the setting for queries that resemble the
// rows; 0 if it is not known.
func (s Setting) Usual() float64 {
	if s.measured == nil {
		return 0
	}
	return float64(s.measured.recall[synthetic.LikeRows])
}

// Poor returns which share of queries found less than half of the rows wanted, in the kind of
// queries that has most of these; 0 if it is not known.
func (s Setting) Poor() float64 {
	if s.measured == nil {
		return 0
	}
	return float64(s.measured.poor)
}

// decodeLevel reads a level, of an earlier version if it is shorter.
func decodeLevel(b []byte) (level, error) {
	f32 := func(at int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b[at:])) }
	l := level{ef: int(binary.LittleEndian.Uint32(b)), stopRatio: f32(4), nodes: f32(8), recall: f32(12),
		whole: f32(16)}
	if len(b) > oldLevelSize {
		l.measured = &measured{poor: f32(oldLevelSize + 4*int(kept))}
		for i := range l.measured.recall {
			l.measured.recall[i] = f32(oldLevelSize + 4*i)
		}
		for _, v := range append(l.measured.recall[:], l.measured.poor) {
			if !(v >= 0 && v <= 1) {
				return level{}, fmt.Errorf("a share of %g", v)
			}
		}
	}
	if len(b) >= noSpreadSize {
		l.usual, l.within = f32(noStageSize), f32(noStageSize+4)
		l.beyond = Stage{EF: int(binary.LittleEndian.Uint32(b[noStageSize+8:])), StopRatio: f32(noStageSize + 12)}
		if !(l.usual >= 0 && l.usual <= math.MaxInt32) || !(l.within >= 0 && l.within <= math.MaxFloat32) ||
			l.beyond.EF > math.MaxInt32 || !isFactor(l.beyond.StopRatio) {
			return level{}, fmt.Errorf("%g nodes, within %g, beyond it ef %d, stopping ratio %g", l.usual, l.within,
				l.beyond.EF, l.beyond.StopRatio)
		}
	}
	if len(b) >= noSketchSize {
		if l.spread = f32(noSpreadSize); !(l.spread >= 0 && l.spread <= math.MaxFloat32) {
			return level{}, fmt.Errorf("spread %g", l.spread)
		}
	}
	if len(b) == levelSize {
		if d := f32(noSketchSize); d >= 0 && d <= maxFactor {
			l.beyond.Deviations = d
		} else {
			return level{}, fmt.Errorf("%g deviations", d)
		}
	}
	if l.ef < 1 || l.ef > math.MaxInt32 || !isFactor(l.stopRatio) || !(l.nodes >= 0) || l.nodes > math.MaxInt32 {
		return level{}, fmt.Errorf("ef %d, stopping ratio %g, %g nodes", l.ef, l.stopRatio, l.nodes)
	}
	return l, nil
}

func encodeLevels(tables *[len(calibrated)][]level) []uint32 {
	var words []uint32
	for _, table := range tables {
		for _, l := range table {
			words = append(words, uint32(l.ef))
			values := append([]float32{l.stopRatio, l.nodes, l.recall, l.whole}, l.measured.recall[:]...)
			for _, v := range append(values, l.measured.poor) {
				words = append(words, math.Float32bits(v))
			}
			words = append(words, math.Float32bits(l.usual), math.Float32bits(l.within), uint32(l.beyond.EF),
				math.Float32bits(l.beyond.StopRatio), math.Float32bits(l.spread), math.Float32bits(l.beyond.Deviations))
		}
	}
	return words
}
