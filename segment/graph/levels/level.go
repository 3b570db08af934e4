package levels

import (
	"math"

	"github.com/vecbolt/vecbolt/internal/synthetic"
)

// A Level is a setting that was measured, with a lower estimate of its recall.
type Level struct {
	EF        int
	StopRatio float32
	Nodes     float32 // mean number of expansions
	Usual     float32 // the same of queries like the rows; 0 in files of earlier versions
	Recall    float32
	Whole     float32   // recall without the stopping ratio, of a level of one stage
	Within    float32   // as in Setting, and the two below
	Spread    float32   //
	Beyond    Stage     //
	Measured  *Measured // nil in files of version 2
}

// Kept kinds of queries have means in the file of a graph.
const Kept = synthetic.Midpoints

// Measured has the figures of a level by the kind of query.
type Measured struct {
	Recall [Kept]float32 // means
	Poor   float32       // share of queries that found less than half, in the kind that has most
}

// worse returns the worse figures of two settings.
func (m *Measured) worse(than *Measured) *Measured {
	w := &Measured{Poor: max(m.Poor, than.Poor)}
	for i := range w.Recall {
		w.Recall[i] = min(m.Recall[i], than.Recall[i])
	}
	return w
}

// Setting returns the setting for searches for k results that go so many times as far.
func (l *Level) Setting(k int, times float64) Setting {
	s := Setting{EF: max(k, int(math.Ceil(float64(l.EF)*times))), StopRatio: l.StopRatio,
		Nodes: l.expansions(k) * times, Within: l.Within, Spread: l.Spread, Beyond: l.Beyond}
	if s.Beyond.EF > 0 {
		s.Beyond.EF = max(k, s.Beyond.EF)
	}
	if times == 1 {
		s.measured = l.Measured
	}
	return s
}

// expansions returns how many nodes a search for k rows usually expands. Where that is not known it
// follows from the mean, which is higher, the more so the farther searches go: three trials in ten
// are unlike the rows, and the hardest go ten times as far as most.
func (l *Level) expansions(k int) float64 {
	nodes := float64(l.Nodes)
	switch {
	case l.Usual > 0:
		return float64(l.Usual)
	case l.StopRatio == 0: // every search expands the whole beam
		return nodes
	}
	return min(nodes, max(1.4*math.Pow(nodes, 0.8), 1.5*float64(k)))
}
