package graph

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/simd"
)

// A space maps rows and queries to points, so that the best rows are the nearest points by
// Euclidean distance.
//
// For Cosine, vectors are divided by their length. For Dot, a row gets one extra component, which
// brings all rows to the same length, maxNorm (Bachrach et al., "Speeding up the Xbox recommender
// system using a Euclidean transformation for inner-product spaces", RecSys 2014). The extra
// component of a query is zero, and the length of a query does not matter. For Cosine the extra
// component is 1 for a zero vector, so that it is as far from every query as an orthogonal one, and
// zero for all other rows. Then the mean of the rows is subtracted, and the result divided by unit,
// a power of two.
type space struct {
	metric  fileformat.Metric
	unit    float64
	maxNorm float64
	mean    []float64 // divided by unit
}

func newSpace(h *header, mean []float32) space {
	s := space{metric: h.ident.Metric, unit: h.unit, maxNorm: h.maxNorm, mean: make([]float64, len(mean))}
	for i, m := range mean {
		s.mean[i] = float64(m) / h.unit
	}
	return s
}

// far is the largest component of a point. Components of rows are about 2 at most.
const far = 1 << 20

// point sets dst to the point of x without the extra component, and returns the extra component.
// NaN and infinite components count as zero.
func (s *space) point(dst, x []float32, query bool) (extra float32) {
	if !simd.Finite(x) {
		x = slices.Clone(x)
		for i, v := range x {
			if v-v != 0 {
				x[i] = 0
			}
		}
	}
	factor := 1.0
	if s.metric != fileformat.L2 {
		length := math.Sqrt(simd.Dot64(x, x))
		switch {
		case length == 0:
		case s.metric == fileformat.Cosine:
			factor = 1 / length
		case query:
			factor = s.maxNorm / length
		}
		if !query {
			l := length * factor
			// Below the rounding of the lengths it is noise.
			if e := float64(s.maxNorm*s.maxNorm) - float64(l*l); e > 1e-12*s.maxNorm*s.maxNorm {
				extra = float32(math.Sqrt(e) / s.unit)
			}
		}
	}
	factor /= s.unit
	// a query far from all rows: only its direction counts
	if simd.Centre(dst, x[:len(dst)], factor, s.mean[:len(dst)]) > far {
		most := 0.0
		for i, v := range x[:len(dst)] {
			most = max(most, math.Abs(float64(float64(v)*factor)-s.mean[i]))
		}
		for i, v := range x[:len(dst)] {
			dst[i] = float32((float64(float64(v)*factor) - s.mean[i]) / most * far)
		}
	}
	return extra
}

// lengthWeight is the distance between rows of one direction if one is twice as long.
const lengthWeight = 1

// shortest is the ratio to the longest row from which shorter rows count as equally long.
const shortest = 0x1p-20

// toLink returns the space, for Dot, by which nodes are linked. By the points of s, short rows are
// near to one another and to nearly all long rows, in whatever direction these point: long rows
// would have only short ones for neighbours. A search for the greatest inner product climbs from
// row to row, to longer ones and to directions nearer to the query. So nodes are linked if their
// directions and the logarithms of their lengths are near. mean is the mean of the rows, length the
// mean of their lengths.
func (s *space) toLink(mean []float32, length float64) *space {
	t := &space{metric: fileformat.Cosine, unit: 1, maxNorm: s.maxNorm, mean: make([]float64, len(mean))}
	for i, m := range mean {
		if c := float64(m) / length; c-c == 0 { // near the mean of the directions, where codes are finest
			t.mean[i] = c
		}
	}
	return t
}

// linkPoint sets dst to the point of a row in a space of toLink, without the extra component, and
// returns the extra component, which stands for the length: 0 for the longest row, and less for
// shorter ones.
func (s *space) linkPoint(dst, x []float32) (extra float32) {
	s.point(dst, x, true)
	ratio := math.Sqrt(simd.Dot64(x, x)) / s.maxNorm
	if !(ratio > shortest) {
		ratio = shortest
	}
	// The logarithm is linear between powers of two: that is the same on every machine.
	fraction, exp := math.Frexp(ratio)
	return float32(lengthWeight * (float64(exp) + float64(2*fraction) - 2))
}

// record writes the record of a point.
func record(dst []byte, y []float32, extra float32) {
	var scale, f float32
	if most := simd.Largest(y); most > 0x1p-50 {
		scale, f = most/127, 127/most
	}
	sum, square := simd.Encode(dst[:len(y)], y, f)
	tail := dst[len(dst)-simd.RecordTail:]
	for i := len(y); i < len(dst)-len(tail); i++ {
		dst[i] = 128
	}
	// It belongs to the coded point, so that equal ones have distance 0.
	level := float64(float64(scale) * float64(scale) * float64(square))
	level += float64(float64(extra) * float64(extra))
	binary.LittleEndian.PutUint32(tail, math.Float32bits(scale))
	binary.LittleEndian.PutUint32(tail[4:], math.Float32bits(float32(level)))
	binary.LittleEndian.PutUint32(tail[8:], math.Float32bits(extra))
	binary.LittleEndian.PutUint32(tail[12:], uint32(sum))
}
