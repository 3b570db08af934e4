package levels

import "math"

// A Level is a setting that was measured, with a lower estimate of its recall.
type Level struct {
	// As in Setting.
	EF             int
	StopRatio      float32
	Within, Spread float32
	Second         Stage

	MeanNodes  float32 // expansions: the mean over the kinds of queries
	UsualNodes float32 // and of queries like the rows; 0 in files of earlier versions
	Recall     float32
	Whole      float32   // recall without the stopping ratio, of a level of one stage
	Measured   *Measured // nil in files of version 2
}

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
		UsualNodes: l.expansions(k) * times, Within: l.Within, Spread: l.Spread, Second: l.Second}
	if s.Second.EF > 0 {
		s.Second.EF = max(k, s.Second.EF)
	}
	if times == 1 {
		s.measured = l.Measured
	}
	return s
}

// expansions returns how many nodes a search for k rows usually expands. Files of earlier versions
// have only the mean over all kinds. Hard queries raise it, the more the farther searches go: three
// trials in ten were unlike the rows, and the hardest went ten times as far as most.
func (l *Level) expansions(k int) float64 {
	nodes := float64(l.MeanNodes)
	switch {
	case l.UsualNodes > 0:
		return float64(l.UsualNodes)
	case l.StopRatio == 0: // every search expands the whole beam
		return nodes
	}
	return min(nodes, max(1.4*math.Pow(nodes, 0.8), 1.5*float64(k)))
}
