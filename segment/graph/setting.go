package graph

import (
	"encoding/binary"
	"fmt"
	"math"
)

// A Setting limits how far a search goes.
type Setting struct {
	// EF is the beam width, as in HNSW. The search ends when it has expanded all EF rows of the
	// beam.
	EF int

	// StopRatio, if it is not 0, ends searches sooner: at the first candidate that is farther than
	// StopRatio times the squared distance of a reference row. That is the 10th nearest so far in
	// searches for up to 10 rows, the 100th in searches for up to 100, and the k-th beyond. Most
	// queries need not expand the whole beam; those that need it have many rows at nearly the same
	// distance. After Al-Jazzazi et al., "Distance adaptive beam search for provably accurate
	// graph-based nearest neighbor search", 2025.
	StopRatio float32

	nodes float64 // mean number of expansions of an unfiltered search; 0: as many as EF
}

// String returns the setting as "ef 100, stop ratio 1.12".
func (s Setting) String() string {
	if s.StopRatio == 0 {
		return fmt.Sprintf("ef %d", s.EF)
	}
	return fmt.Sprintf("ef %d, stop ratio %.4g", s.EF, s.StopRatio)
}

// Times returns a setting for searches that go n times as far.
func (s Setting) Times(n float64) Setting {
	s.EF = int(math.Ceil(float64(s.EF) * n))
	s.nodes *= n
	if s.StopRatio > 0 {
		s.StopRatio = 1 + (s.StopRatio-1)*float32(n)
	}
	return s
}

// expanded returns the mean number of expansions of an unfiltered search.
func (s *Setting) expanded() float64 {
	if s.nodes > 0 {
		return s.nodes
	}
	return float64(s.EF)
}

// calibrated are the result counts k with a measured recall.
var calibrated = [3]int{1, 10, 100}

// rank returns the rank of the row that a stopping ratio refers to in searches for k results.
func rank(k int) int {
	for _, c := range calibrated[1:] {
		if k <= c {
			return c
		}
	}
	return k
}

// column returns the index in calibrated that applies to searches for k results, and the factor by
// which their ef must be raised.
func column(k int) (i int, times float64) {
	for i, c := range calibrated {
		if k <= c {
			return i, 1
		}
	}
	last := len(calibrated) - 1
	return last, float64(k) / float64(calibrated[last])
}

// A level is a measured setting of the calibration with a lower estimate of its recall.
type level struct {
	ef        int
	stopRatio float32
	nodes     float32
	recall    float32
	whole     float32 // recall without the stopping ratio
}

func (l *level) setting(k int, times float64) Setting {
	return Setting{EF: max(k, int(math.Ceil(float64(l.ef)*times))), StopRatio: l.stopRatio,
		nodes: float64(l.nodes) * times}
}

func decodeLevel(b []byte) (level, error) {
	f32 := func(at int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b[at:])) }
	l := level{int(binary.LittleEndian.Uint32(b)), f32(4), f32(8), f32(12), f32(16)}
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
			for _, v := range [...]float32{l.stopRatio, l.nodes, l.recall, l.whole} {
				words = append(words, math.Float32bits(v))
			}
		}
	}
	return words
}

// Setting returns the cheapest setting that was measured to give the recall in searches for k
// results. Recall is a mean over queries of one kind, whether they resemble the rows or not: every
// kind gets it. ok is false if no setting reached it.
func (g *Graph) Setting(recall float64, k int) (s Setting, ok bool) {
	// No interpolation: where a whole cluster comes into view, recall rises in a step.
	i, times := column(k)
	for _, l := range g.levels[i] {
		if float64(l.recall) >= recall {
			return l.setting(k, times), true
		}
	}
	return Setting{}, false
}

// Recall returns the measured recall of searches for k results with a beam width of at most ef and
// without early stopping. It is 0 if nothing is known.
func (g *Graph) Recall(ef, k int) float64 {
	i, times := column(k)
	recall := float32(0)
	for _, l := range g.levels[i] {
		if l.whole > recall && l.setting(k, times).EF <= ef {
			recall = l.whole
		}
	}
	return float64(recall)
}

// margin returns the factor on the squared code distance of the k-th row within which further rows
// are worth scoring; 0: there is no such bound.
func (g *Graph) margin(k int) float32 {
	i, _ := column(k)
	m := g.head.margins[i]
	if i > 0 && k < calibrated[i] && m > 0 { // the nearer rows are, the less codes tell
		if m = max(m, g.head.margins[i-1]); g.head.margins[i-1] == 0 {
			m = 0
		}
	}
	return m
}
