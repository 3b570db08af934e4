package db

import (
	"math"

	"github.com/vecbolt/vecbolt/internal/topk"
	"github.com/vecbolt/vecbolt/simd"
)

// A scorer computes scores against one query vector: fast scores in float32,
// each with an error bound, and true scores by the canonical definition.
//
// Fast scores only decide which rows deserve a true score, so the answer does
// not depend on the kernels.
type scorer struct {
	metric Metric
	query  []float32
	fast   []float32 // input of the kernels: the query, normalised for Cosine
	norm   float64   // of query

	// rel bounds the relative error of a fast score: of |x|·|fast| for Cosine
	// and Dot, of the distance for L2. abs bounds the error of underflow.
	rel, abs float64
	// Rows with an inverse norm outside (least, most) may over- or underflow
	// in float32: they are always candidates.
	least, most float32
	// A raw value times plain + scaled*inv grows with the score.
	plain, scaled float32
}

// unit32 is the unit roundoff of float32.
const unit32 = 1.0 / (1 << 24)

func newScorer(metric Metric, query []float32) scorer {
	dim := len(query)
	s := scorer{metric: metric, query: query, fast: simd.Make(dim), norm: math.Sqrt(simd.Dot64(query, query))}
	copy(s.fast, query)
	// A dozen roundings besides the sum's: the query's direction, the inverse
	// norm, their product, and the norms.
	s.rel = 1.01 * (simd.ErrorBound(dim) + 12*unit32)
	// Each product loses at most half of the least denormal.
	s.abs = float64(dim) * math.SmallestNonzeroFloat32
	s.least, s.most = float32(math.Inf(-1)), float32(math.Inf(1))
	s.plain = 1
	switch metric {
	case Cosine:
		s.plain, s.scaled = 0, 1
		if s.norm > 0 {
			for i, x := range query {
				s.fast[i] = float32(float64(x) / s.norm)
			}
		}
		// Here the error of underflow is multiplied by the inverse norm:
		// beyond 2^100 it is no longer far below rel. Norms beyond 2^120
		// might overflow, and zero vectors have no direction.
		s.least, s.most = 0x1p-120, 0x1p100
	case Dot:
		s.least = float32(s.norm * 0x1p-120)
	case L2:
		s.plain = -1
	}
	return s
}

// score returns the true score of a row.
func (s *scorer) score(x []float32) float64 {
	switch s.metric {
	case Dot:
		return 0 + simd.Dot64(s.query, x) // never -0
	case L2:
		return 0 - simd.L264(s.query, x)
	}
	norm := math.Sqrt(simd.Dot64(x, x))
	if norm == 0 || s.norm == 0 {
		return 0
	}
	return 0 + max(-1, min(1, simd.Dot64(s.query, x)/(norm*s.norm)))
}

// kernel returns the raw float32 value of one row: inner product, or squared
// distance for L2.
func (s *scorer) kernel(x []float32) float32 {
	if s.metric == L2 {
		return simd.L2(s.fast, x)
	}
	return simd.Dot(s.fast, x)
}

// kernelRows is kernel for consecutive rows.
func (s *scorer) kernelRows(dst, rows []float32) {
	if s.metric == L2 {
		simd.L2Rows(dst, s.fast, rows)
	} else {
		simd.DotRows(dst, s.fast, rows)
	}
}

// bounds returns an interval that holds the true score of a row with the
// given raw value and inverse norm.
func (s *scorer) bounds(raw, inv float32) (lower, upper float64) {
	v := float64(raw)
	if math.IsNaN(v) || math.IsInf(v, 0) || s.metric != L2 && !(inv > s.least && inv < s.most) {
		if s.metric != L2 && inv == 0 {
			return 0, 0 // a zero vector
		}
		return math.Inf(-1), math.Inf(1)
	}
	switch s.metric {
	case Dot:
		e := s.rel*s.norm/float64(inv)*1.01 + s.abs
		return v - e, v + e
	case L2:
		e := s.rel*v + s.abs
		return -v - e, -v + e
	}
	v *= float64(inv)
	return v - s.rel, v + s.rel
}

// A rowOffer offers the rows of one part to a collector. Most rows are far
// below the floor: one comparison of the raw value, scaled as scorer says, with
// cut drops them.
type rowOffer struct {
	*scorer
	c       *topk.Collector
	part    int32
	maxNorm float32
	cut     float32
}

// raise sets cut from the collector's floor, rounded so that no row is dropped
// that could matter.
func (s *rowOffer) raise() {
	floor := s.c.Floor()
	switch s.metric {
	case Cosine:
		s.cut = below(floor - 1.01*s.rel)
	case Dot:
		s.cut = below(floor - 1.02*s.rel*s.norm*float64(s.maxNorm) - 2*s.abs)
	case L2:
		s.cut = float32(math.Inf(-1))
		if far := (-floor + s.abs) * (1 + 2.1*s.rel); far < math.MaxFloat32/2 {
			s.cut = below(-far)
		}
	}
}

// below returns a float32 that is not above v.
func below(v float64) float32 {
	f := float32(v)
	if float64(f) > v {
		f = math.Nextafter32(f, float32(math.Inf(-1)))
	}
	return f
}

func (s *rowOffer) offer(raw, inv float32, row int) {
	lower, upper := s.bounds(raw, inv)
	if s.c.Offer(lower, upper, s.part, int32(row)) {
		s.raise()
	}
}

// normBound returns a float32 that is at least the norm of a vector with the
// given inverse norm.
func normBound(inv float32) float32 {
	switch {
	case inv == 0:
		return 0
	case math.IsInf(float64(inv), 1): // the norm is below 1/MaxFloat32
		return 0x1p-127
	}
	return -below(-1.001 / float64(inv)) // 1.001: a denormal inverse is rough
}
