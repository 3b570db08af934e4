package score

import (
	"math"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/simd"
)

// A Scorer computes true scores against one query vector, by the canonical definition.
type Scorer struct {
	Metric fileformat.Metric
	Query  []float32
	Norm   float64 // of Query
}

// New returns the scorer of a query, which it keeps.
func New(metric fileformat.Metric, query []float32) Scorer {
	return Scorer{Metric: metric, Query: query, Norm: math.Sqrt(simd.Dot64(query, query))}
}

// Score returns the true score of a row.
func (s *Scorer) Score(x []float32) float64 { return s.ScoreAhead(x, nil) }

// ScoreAhead is Score, and loads next, the row of a call to come, into the cache. next may be nil.
func (s *Scorer) ScoreAhead(x, next []float32) float64 {
	if s.Metric == fileformat.L2 {
		simd.PrefetchVector(next)
		return 0 - simd.L264(s.Query, x)
	}
	dot, square := simd.DotSquare64(s.Query, x, next)
	if s.Metric == fileformat.Dot {
		return 0 + dot // never -0
	}
	norm := math.Sqrt(square)
	if norm == 0 || s.Norm == 0 {
		return 0
	}
	return 0 + max(-1, min(1, dot/(norm*s.Norm)))
}

// A Fast computes scores against one query vector in float32, each with an error bound. They only
// decide which rows deserve a true score, so the answer does not depend on the kernels.
type Fast struct {
	Scorer
	Vector []float32 // input of the kernels: the query, normalised for Cosine

	// Rel bounds the relative error of a fast score: of |x|·|Vector| for Cosine
	// and Dot, of the distance for L2. Abs bounds the error of underflow.
	Rel, Abs float64
	// Rows with an inverse norm outside (Least, Most) may over- or underflow
	// in float32: they are always candidates.
	Least, Most float32
	// A raw value times Plain + Scaled*inv grows with the score.
	Plain, Scaled float32
}

// unit32 is the unit roundoff of float32.
const unit32 = 1.0 / (1 << 24)

// Fast returns what computes the fast scores of s.
func (s *Scorer) Fast() Fast {
	dim := len(s.Query)
	f := Fast{Scorer: *s, Vector: simd.Make(dim)}
	copy(f.Vector, s.Query)
	// A dozen roundings besides the sum's: the query's direction, the inverse
	// norm, their product, and the norms.
	f.Rel = 1.01 * (simd.ErrorBound(dim) + 12*unit32)
	// Each product loses at most half of the least denormal.
	f.Abs = float64(dim) * math.SmallestNonzeroFloat32
	f.Least, f.Most = float32(math.Inf(-1)), float32(math.Inf(1))
	f.Plain = 1
	switch s.Metric {
	case fileformat.Cosine:
		f.Plain, f.Scaled = 0, 1
		if s.Norm > 0 {
			inverse := 1 / s.Norm
			for i, x := range s.Query {
				f.Vector[i] = float32(float64(x) * inverse)
			}
		}
		// Here the error of underflow is multiplied by the inverse norm:
		// beyond 2^100 it is no longer far below rel. Norms beyond 2^120
		// might overflow, and zero vectors have no direction.
		f.Least, f.Most = 0x1p-120, 0x1p100
	case fileformat.Dot:
		f.Least = float32(s.Norm * 0x1p-120)
	case fileformat.L2:
		f.Plain = -1
	}
	return f
}

// Kernel returns the raw float32 value of one row: inner product, or squared
// distance for L2.
func (s *Fast) Kernel(x []float32) float32 {
	if s.Metric == fileformat.L2 {
		return simd.L2(s.Vector, x)
	}
	return simd.Dot(s.Vector, x)
}

// KernelRows is kernel for consecutive rows.
func (s *Fast) KernelRows(dst, rows []float32) {
	if s.Metric == fileformat.L2 {
		simd.L2Rows(dst, s.Vector, rows)
	} else {
		simd.DotRows(dst, s.Vector, rows)
	}
}

// Bounds returns an interval that holds the true score of a row with the
// given raw value and inverse norm.
func (s *Fast) Bounds(raw, inv float32) (lower, upper float64) {
	v := float64(raw)
	if math.IsNaN(v) || math.IsInf(v, 0) || s.Metric != fileformat.L2 && !(inv > s.Least && inv < s.Most) {
		if s.Metric != fileformat.L2 && inv == 0 {
			return 0, 0 // a zero vector
		}
		return math.Inf(-1), math.Inf(1)
	}
	switch s.Metric {
	case fileformat.Dot:
		e := s.Rel*s.Norm/float64(inv)*1.01 + s.Abs
		return v - e, v + e
	case fileformat.L2:
		e := s.Rel*v + s.Abs
		return -v - e, -v + e
	}
	v *= float64(inv)
	return v - s.Rel, v + s.Rel
}

// Below returns a float32 that is not above v.
func Below(v float64) float32 {
	f := float32(v)
	if float64(f) > v {
		f = math.Nextafter32(f, float32(math.Inf(-1)))
	}
	return f
}

// NormBound returns a float32 that is at least the norm of a vector with the
// given inverse norm.
func NormBound(inv float32) float32 {
	switch {
	case inv == 0:
		return 0
	case math.IsInf(float64(inv), 1): // the norm is below 1/MaxFloat32
		return 0x1p-127
	}
	return -Below(-1.001 / float64(inv)) // 1.001: a denormal inverse is rough
}
