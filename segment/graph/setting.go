package graph

import (
	"encoding/binary"
	"fmt"
	"math"
)

// A Setting says how far walks go.
type Setting struct {
	// Effort is how many of the nearest rows a walk keeps in view. It ends when it has expanded all
	// of them: looked at their neighbours.
	EF int

	// Reach, if it is not 0, ends walks sooner: at the first row that is farther than Reach times
	// the squared distance of the 10th row in view, in searches for up to 10; of the 100th in those
	// for up to 100, and of the last one wanted beyond. Most queries need not expand all that is in
	// view; those that do have many rows at nearly the same distance. After Al-Jazzazi et al.,
	// "Distance adaptive beam search for provably accurate graph-based nearest neighbor search",
	// 2025.
	StopRatio float32

	nodes float64 // that a walk expands, in the mean, if all rows may be returned; 0: as many as it keeps in view
}

// String says it in words: "effort 100, reach 1.12".
func (s Setting) String() string {
	if s.StopRatio == 0 {
		return fmt.Sprintf("effort %d", s.EF)
	}
	return fmt.Sprintf("effort %d, reach %.4g", s.EF, s.StopRatio)
}

// Times returns the setting of walks that go so many times as far.
func (s Setting) Times(n float64) Setting {
	s.EF = int(math.Ceil(float64(s.EF) * n))
	s.nodes *= n
	if s.StopRatio > 0 {
		s.StopRatio = 1 + (s.StopRatio-1)*float32(n)
	}
	return s
}

// expanded returns how many nodes a walk expands, in the mean, if all rows may be returned.
func (s *Setting) expanded() float64 {
	if s.nodes > 0 {
		return s.nodes
	}
	return float64(s.EF)
}

// calibrated are the numbers of results that recall is measured for.
var calibrated = [3]int{1, 10, 100}

// rank returns the rank of the row that a reach is measured by in searches for k results.
func rank(k int) int {
	for _, c := range calibrated[1:] {
		if k <= c {
			return c
		}
	}
	return k
}

// column returns which of calibrated tells of searches for k results, and how many times the effort
// they take.
func column(k int) (i int, times float64) {
	for i, c := range calibrated {
		if k <= c {
			return i, 1
		}
	}
	last := len(calibrated) - 1
	return last, float64(k) / float64(calibrated[last])
}

// A level is a line of the calibration: a setting, and what recall searches with it have at least.
type level struct {
	ef        int
	stopRatio float32
	nodes     float32
	recall    float32
	whole     float32 // the recall without the reach
}

func (l *level) setting(k int, times float64) Setting {
	return Setting{EF: max(k, int(math.Ceil(float64(l.ef)*times))), StopRatio: l.stopRatio, nodes: float64(l.nodes) * times}
}

func decodeLevel(b []byte) (level, error) {
	f32 := func(at int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b[at:])) }
	l := level{int(binary.LittleEndian.Uint32(b)), f32(4), f32(8), f32(12), f32(16)}
	if l.ef < 1 || l.ef > math.MaxInt32 || !isFactor(l.stopRatio) || !(l.nodes >= 0) || l.nodes > math.MaxInt32 {
		return level{}, fmt.Errorf("effort %d, reach %g, %g nodes", l.ef, l.stopRatio, l.nodes)
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

// Setting returns that of the shortest walks that were measured to give the recall, a mean over
// queries that are like the rows, in searches for k results; or false if none did.
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

// Recall returns the recall that searches for k results were measured to give that keep so many
// rows in view, or fewer, and have no reach. It is 0 if nothing is known.
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

// margin returns how many times the squared distance of the k-th row, by codes, another one may
// have to be worth scoring; 0: any.
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
