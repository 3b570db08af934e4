package graph

import (
	"encoding/binary"
	"math"

	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/simd"
)

// A space maps rows and queries to points such that the nearest points, by Euclidean distance, are the best rows.
//
// For Cosine, vectors are divided by their length. For Dot, a row gets one more element that brings all rows to the same
// length, reach (Bachrach et al., "Speeding up the Xbox recommender system using a Euclidean transformation for
// inner-product spaces", RecSys 2014); a query gets a zero there, and its length does not matter. For Cosine that element is 1 for
// a zero vector, which so is as far from every query as an orthogonal one, and else zero. The mean of the rows is
// subtracted, and everything divided by unit, a power of two.
type space struct {
	metric codes.Metric
	unit   float64
	reach  float64
	mean   []float32
}

func newSpace(h *header, mean []float32) space {
	return space{metric: h.ident.Metric, unit: h.unit, reach: h.reach, mean: mean}
}

// far is the largest element of a point. Those of rows are 2 or so.
const far = 1 << 20

// point sets dst to the point of x but for the extra element, which it returns. What is not finite counts as zero.
func (s *space) point(dst, x []float32, query bool) (extra float32) {
	factor := 1.0
	if s.metric != codes.L2 {
		length := math.Sqrt(simd.Dot64(x, x))
		switch {
		case !(length > 0) || math.IsInf(length, 0):
			factor = 0
		case s.metric == codes.Cosine:
			factor = 1 / length
		case query:
			factor = s.reach / length
		}
		if !query {
			l := length * factor
			// Below the rounding of the lengths it is noise.
			if e := float64(s.reach*s.reach) - float64(l*l); e > 1e-12*s.reach*s.reach {
				extra = float32(math.Sqrt(e) / s.unit)
			}
		}
	}
	inv := 1 / s.unit
	var most float32
	mean := s.mean[:len(dst)]
	for i, v := range x[:len(dst)] {
		d := float32((float64(float64(v)*factor) - float64(mean[i])) * inv)
		if d-d != 0 {
			d = 0
		}
		dst[i] = d
		most = max(most, d, -d)
	}
	if most > far { // a query far from all rows: only its direction counts
		for i := range dst {
			dst[i] *= far / most
		}
	}
	return extra
}

// encode codes the elements of y.
func encode(dst []byte, y []float32) (scale, level float32, sum int32) {
	var most float32
	for _, v := range y {
		most = max(most, v, -v)
	}
	if !(most > 0x1p-50) {
		for i := range y {
			dst[i] = 128
		}
		return 0, 0, 0
	}
	f := 127 / most
	var square int32
	var product float64
	for i, v := range y {
		c := int32(math.RoundToEven(float64(float32(v * f))))
		dst[i] = byte(c + 128)
		square += c * c
		sum += c
		product += float64(v) * float64(c)
	}
	// The scale with the least error. The level is that of the coded vector, so that equal ones have distance 0.
	scale = float32(product / float64(square))
	return scale, float32(float64(scale) * float64(scale) * float64(square)), sum
}

// record writes the record of a point.
func record(dst []byte, y []float32, extra float32) {
	scale, level, sum := encode(dst, y)
	tail := dst[len(dst)-simd.RecordTail:]
	for i := len(y); i < len(dst)-len(tail); i++ {
		dst[i] = 128
	}
	binary.LittleEndian.PutUint32(tail, math.Float32bits(scale))
	binary.LittleEndian.PutUint32(tail[4:], math.Float32bits(level+float32(extra*extra)))
	binary.LittleEndian.PutUint32(tail[8:], math.Float32bits(extra))
	binary.LittleEndian.PutUint32(tail[12:], uint32(sum))
}
