package levels

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Numbers of the file format of graphs, which has the levels: see docs/format/graph.md.
const (
	Size           = 68 // bytes of a level
	SizeNoSketches = 64 // in versions 6 and 7
	SizeNoSpread   = 60 // in version 5
	SizeNoStages   = 44 // in versions 3 and 4
	SizeOldest     = 20 // in version 2
	Kept           = 5  // kinds of queries with a mean of their own: the first ones

	Most      = 128 // levels of a column
	MaxFactor = 100 // of stopping ratios and margins
)

// IsFactor reports whether v is valid as a stopping ratio or margin; 0 means no bound.
func IsFactor(v float32) bool { return v == 0 || v >= 1 && v <= MaxFactor }

// Decode reads a level, of an earlier version if it is shorter: b has one of the sizes.
func Decode(b []byte) (Level, error) {
	f32 := func(at int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b[at:])) }
	l := Level{EF: int(binary.LittleEndian.Uint32(b)), StopRatio: f32(4), MeanNodes: f32(8), Recall: f32(12),
		Whole: f32(16)}
	shares := []float32{l.Recall, l.Whole}
	if len(b) > SizeOldest {
		l.Measured = &Measured{Poor: f32(SizeOldest + 4*Kept)}
		for i := range l.Measured.Recall {
			l.Measured.Recall[i] = f32(SizeOldest + 4*i)
		}
		shares = append(append(shares, l.Measured.Recall[:]...), l.Measured.Poor)
	}
	for _, v := range shares {
		if !(v >= 0 && v <= 1) {
			return Level{}, fmt.Errorf("a share of %g", v)
		}
	}
	if len(b) >= SizeNoSpread {
		l.UsualNodes, l.Within = f32(SizeNoStages), f32(SizeNoStages+4)
		l.Second = Stage{EF: int(binary.LittleEndian.Uint32(b[SizeNoStages+8:])), StopRatio: f32(SizeNoStages + 12)}
		if !(l.UsualNodes >= 0 && l.UsualNodes <= math.MaxInt32) || !(l.Within >= 0 && l.Within <= math.MaxFloat32) ||
			l.Second.EF > math.MaxInt32 || !IsFactor(l.Second.StopRatio) {
			return Level{}, fmt.Errorf("%g nodes, within %g, beyond it ef %d, stopping ratio %g", l.UsualNodes,
				l.Within, l.Second.EF, l.Second.StopRatio)
		}
	}
	if len(b) >= SizeNoSketches {
		if l.Spread = f32(SizeNoSpread); !(l.Spread >= 0 && l.Spread <= math.MaxFloat32) {
			return Level{}, fmt.Errorf("spread %g", l.Spread)
		}
	}
	if len(b) == Size {
		if d := f32(SizeNoSketches); d >= 0 && d <= MaxFactor {
			l.Second.Deviations = d
		} else {
			return Level{}, fmt.Errorf("%g deviations", d)
		}
	}
	if l.EF < 1 || l.EF > math.MaxInt32 || !IsFactor(l.StopRatio) ||
		!(l.MeanNodes >= 0 && l.MeanNodes <= math.MaxInt32) {
		return Level{}, fmt.Errorf("ef %d, stopping ratio %g, %g nodes", l.EF, l.StopRatio, l.MeanNodes)
	}
	return l, nil
}

// Encode returns the levels of all columns as they are stored, in words.
func Encode(t *Table) []uint32 {
	var words []uint32
	for _, table := range t.levels {
		for _, l := range table {
			words = append(words, uint32(l.EF))
			values := append([]float32{l.StopRatio, l.MeanNodes, l.Recall, l.Whole}, l.Measured.Recall[:]...)
			for _, v := range append(values, l.Measured.Poor) {
				words = append(words, math.Float32bits(v))
			}
			words = append(words, math.Float32bits(l.UsualNodes), math.Float32bits(l.Within), uint32(l.Second.EF),
				math.Float32bits(l.Second.StopRatio), math.Float32bits(l.Spread), math.Float32bits(l.Second.Deviations))
		}
	}
	return words
}
