package codes

import (
	"math"
	"math/bits"
	"sync"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/simd"
)

// Sketches are codes of one bit per component, in memory: the signs of a row less the mean, rotated
// at random. A scan that may miss a few rows reads them in place of nibbles, at a third of the
// bytes. With y for the row less the mean, p for the query less the mean, and sgn for the signs of
// the rotated y,
//
//	|q - x|^2  =  |p|^2 + |y|^2 - 2 p.y
//	p.y        ~  p.sgn * |y|^2 / y.sgn
//
// This is the estimator of RaBitQ (Gao and Long, SIGMOD 2024), as in nodes of graphs. Only the part
// of sgn at right angles to y makes an error, and the rotation gives it a random direction. So the
// standard deviation of the error is known for every row and query: |p| |y| sqrt(1/a^2 - 1) /
// sqrt(dim - 1), with a for y.sgn / (|y| sqrt(dim)), about 0.8. A scan subtracts sketchErrors of
// these from an estimated distance, and refuses rows that are too far even then.

// SketchRecall is the least share of the true rows that a scan of sketches finds, on average over
// rotations. A row is missed if the error of its estimate is beyond sketchErrors standard
// deviations: 0.0013 of the rows that are just near enough, and fewer of nearer ones.
const SketchRecall = 0.998

const (
	sketchErrors = 3
	sketchDim    = 128 // fewer components: nibbles take less time
	sketchSeed   = 0x5ec7b017
	pauseBlocks  = 4  // blocks between two pauses: made in a fraction of a millisecond
	likelyBlocks = 32 // blocks per call of simd.Below: a chunk of rows

	// Rows that are coded worse than this, in parts of their length, are candidates of every query.
	sketchResidual = 0.02
	// So are rows, and for queries all, with squares outside these limits.
	sketchLeast, sketchMost = 0x1p-80, 0x1p80
)

// sketches are the sketches of all rows of some codes.
type sketches struct {
	blocks []byte  // of simd.BlockPoints rows each, as simd.Estimate reads them
	spread float64 // largest sqrt(1 - a^2) * sqrt(dim / (dim-1))
	resid  float64 // at least the largest residual, in parts of the length of the row
}

// rotations has the rotation of each dimension that was needed.
var rotations sync.Map

func rotationOf(dim int) *simd.Rotation {
	if r, ok := rotations.Load(dim); ok {
		return r.(*simd.Rotation)
	}
	r, _ := rotations.LoadOrStore(dim, simd.NewRotation(dim, sketchSeed))
	return r.(*simd.Rotation)
}

// Sketch makes the sketches of all rows, unless they are there or have too few components. From
// then on queries may use them: see Query.Estimate. It calls pause every fraction of a millisecond,
// and returns its error, or one that means damaged bytes.
func (c *Codes) Sketch(pause func() error) error {
	dim := c.Dim()
	if dim < sketchDim || simd.PaddedDim(dim) > simd.MaxSign || c.sketches.Load() != nil {
		return nil
	}
	n := simd.PaddedDim(dim)
	blocks := (c.Len() + simd.BlockPoints - 1) / simd.BlockPoints
	per := simd.BlockSize(n) / 4
	words := make([]uint32, blocks*per)
	s := &sketches{}
	y, plus := simd.Make(n), make([]uint16, simd.BlockPoints*n/16)
	for b := range blocks {
		if b%pauseBlocks == 0 {
			if err := pause(); err != nil {
				return err
			}
		}
		clear(plus)
		block := words[b*per:][:per]
		lo := b * simd.BlockPoints
		hi := min(lo+simd.BlockPoints, c.Len())
		if err := c.touchRows(lo, hi); err != nil {
			return err
		}
		for i := range hi - lo {
			first, second := c.sketch(s, lo+i, y, plus[i*n/16:][:n/16])
			block[i], block[simd.BlockPoints+i] = math.Float32bits(first), math.Float32bits(second)
		}
		simd.PackSigns(block[2*simd.BlockPoints:], plus)
	}
	s.blocks = codec.BytesFromU32s(words)
	c.sketches.Store(s)
	return nil
}

// sketch sets the signs of a row and returns its factors for simd.Estimate. y is for its use.
func (c *Codes) sketch(s *sketches, row int, y []float32, plus []uint16) (first, second float32) {
	dim := c.Dim()
	scale := c.scales[row]
	square := float64(scale) * float64(scale) * float64(c.squares[row])
	length := math.Sqrt(square)
	resid := float64(c.resids[row])
	if square == 0 && resid < sketchResidual*math.Sqrt(sketchLeast) {
		return 0, 0 // the mean
	}
	if !(square > sketchLeast && square < sketchMost) || resid > sketchResidual*length {
		return float32(math.Inf(-1)), 0
	}
	for i, b := range c.codes[row*dim:][:dim] {
		y[i] = scale * float32(int(b)-center)
	}
	clear(y[dim:])
	rotationOf(dim).Apply(y[:dim])
	sum := 0.0
	for i, v := range y[:dim] {
		b := math.Float32bits(v)
		plus[i/16] |= uint16(^b>>31) << (i % 16)
		sum += math.Abs(float64(v))
	}
	a := min(1, sum/(length*math.Sqrt(float64(dim))))
	s.spread = max(s.spread, math.Sqrt((1-float64(a*a))*float64(dim)/float64(dim-1)))
	s.resid = max(s.resid, resid/length)
	factor := square / sum
	if c.head.ident.Metric == fileformat.Dot {
		return 0, float32(-factor)
	}
	return float32(square), float32(-2 * factor)
}

// DropSketches frees the memory of sketches.
func (c *Codes) DropSketches() { c.sketches.Store(nil) }

// An estimate is a query as sketches are compared with it, on all codes with the same mean.
type estimate struct {
	table  simd.Table
	length float64 // of the vector in the table
	add    float64 // to all results
	pause  pause
}

// Estimate lets q use the sketches of codes, where there are any: then Candidates may miss some
// rows, as SketchRecall says. vec is the vector of q. Estimate reports whether the codes that q was
// made for have sketches.
func (q *Query) Estimate(vec []float32) bool {
	if q.c.sketches.Load() == nil || q.wild || simd.Name() == "generic" {
		return false
	}
	dim, metric := q.c.Dim(), q.c.head.ident.Metric
	e := &estimate{add: -q.base}
	p := simd.Make(simd.PaddedDim(dim))
	copy(p, vec)
	if metric != fileformat.Dot {
		factor := 1.0
		if length := math.Sqrt(simd.Dot64(vec, vec)); metric == fileformat.Cosine && length > 0 {
			factor = 1 / length
		}
		for i, m := range q.c.mean {
			p[i] = float32(float64(float64(vec[i])*factor) - float64(m))
		}
	}
	square := simd.Dot64(p, p)
	if !(square > sketchLeast && square < sketchMost) || metric == fileformat.Dot && math.Abs(q.base) > sketchMost {
		return false
	}
	if metric != fileformat.Dot {
		e.add = square
	}
	e.length = math.Sqrt(square)
	rotationOf(dim).Apply(p[:dim])
	e.table.Set(p)
	q.estimate = e
	return true
}

// Estimates reports whether q uses sketches.
func (q *Query) Estimates() bool { return q.estimate != nil }

// sketched fills buf with the rows from lo to hi-1 that are in set and whose score may be cut or
// higher by their sketches. ok is false if q does not use sketches, or if they leave too many rows
// to have paid.
func (q *Query) sketched(lo, hi int, set []uint64, cut float64, buf *Buffer) (rows []int32, ok bool) {
	e := q.estimate
	if e == nil || math.IsInf(cut, -1) {
		return nil, false
	}
	s := q.c.sketches.Load()
	if s == nil || !e.pause.over() {
		return nil, false
	}
	rows = q.likely(s, lo, hi, set, cut, buf.rows[:0])
	paid := sketchesPay(len(rows), hi-lo, q.c.Dim())
	e.pause.tried(paid)
	return rows, paid
}

// sketchesPay reports whether it takes less time to look at kept of n rows after their sketches
// than to scan nibbles, which read three times the bytes.
func sketchesPay(kept, n, dim int) bool { return scanPays(4*kept, n, dim) }

// likely appends to rows those that sketched finds.
func (q *Query) likely(s *sketches, lo, hi int, set []uint64, cut float64, rows []int32) []int32 {
	e, dim := q.estimate, q.c.Dim()
	limit, slack := q.limit(cut), float32(e.slack(s, dim))
	size := simd.BlockSize(simd.PaddedDim(dim))
	var below [likelyBlocks]uint32
	for lo < hi {
		first, n := lo/simd.BlockPoints, min((hi-lo+simd.BlockPoints-1)/simd.BlockPoints, len(below))
		simd.Below(below[:n], &e.table, s.blocks[first*size:][:n*size], float32(e.add), limit, slack)
		for _, below := range below[:n] {
			if set != nil {
				below &= uint32(set[lo/64] >> (lo % 64))
			}
			if n := hi - lo; n < simd.BlockPoints {
				below &= 1<<n - 1
			}
			for ; below != 0; below &= below - 1 {
				rows = append(rows, int32(lo+bits.TrailingZeros32(below)))
			}
			lo += simd.BlockPoints
		}
	}
	return rows
}

// limit returns the result of simd.Estimate that a score of cut has.
func (q *Query) limit(cut float64) float32 {
	limit := -cut
	if q.c.head.ident.Metric == fileformat.Cosine { // the squared distance of directions
		limit = 2 - 2*cut
	}
	return above(limit + 0x1p-18*(math.Abs(limit)+math.Abs(q.estimate.add))) // for the roundings
}

// slack returns by how much a product of the query with the signs of a row may be too small.
func (e *estimate) slack(s *sketches, dim int) float64 {
	return e.length * (float64(sketchErrors*s.spread) + float64(s.resid*math.Sqrt(float64(dim))))
}
