package codes

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/simd"
)

// A Query is a vector that is compared with the codes of one segment.
//
// Its core is v, divided by unit: the part of the vector whose products with the rows must be
// estimated. For Cosine and Dot that is the remainder after subtracting the nearest multiple of the
// mean, for L2 the difference from the mean. v is coded as step*weights, so that its product with
// the codes of a row is an integer. The letters below follow docs/codes.md.
type Query struct {
	c       *Codes
	wild    bool // nothing is known: every row is a candidate
	weights *simd.Weights
	coded   []int16 // the weights

	length float64 // of the query, or of its direction: 1
	unit   float64 // length of v before the division, about
	size   float64 // at least |v|: hardly above 1
	step   float64 // value of a weight of 1; a float32
	resid  float64 // at least |v - step*weights|
	base   float64 // query.mean for Cosine and Dot, |query - mean|^2 for L2
	beta   float64 // factor of the levels for Cosine and Dot
	mean   float64 // at least |mean|
	floor  float64 // of the residuals
	eps    float64 // of sums of dim terms in float64

	half     float64 // divisor of a score in the scan
	add, per float32 // added by the scan for all errors that grow with the scale, and per level of 1
	coarse   *coarse
	estimate *estimate // nil: sketches are not used
}

// Query prepares a query for vec. It panics if the length of vec is not Dim. It does not keep vec.
func (c *Codes) Query(vec []float32) *Query {
	dim := c.Dim()
	if len(vec) != dim {
		panic(fmt.Sprintf("codes: query of dimension %d, want %d", len(vec), dim))
	}
	metric := c.head.ident.Metric
	square := simd.Dot64(c.mean, c.mean)
	q := &Query{
		c:     c,
		mean:  1.001 * math.Sqrt(square),
		floor: floor(metric, c.mean),
		eps:   float64(dim+16) * 0x1p-51,

		coarse: &coarse{},
	}
	v := make([]float64, dim)
	if !simd.Finite(vec) {
		q.wild = true
		q.prepare(v)
		return q
	}
	if metric == fileformat.L2 {
		for i, x := range vec {
			v[i] = float64(x) - float64(c.mean[i])
		}
		q.base = simd.L264(vec, c.mean)
		q.unit = math.Sqrt(q.base)
		q.length = q.unit
		q.wild = q.unit > 0 && !(q.unit > 0x1p-60 && q.unit < 0x1p62)
	} else {
		q.length = math.Sqrt(simd.Dot64(vec, vec))
		q.base = simd.Dot64(vec, c.mean)
		div := 1.0
		if metric == fileformat.Cosine && q.length > 0 {
			div = q.length
			q.length, q.base = 1, q.base/div
		}
		// Far from the ends of float32, beta times a level neither over- nor underflows.
		if square > 0x1p-120 && square < 0x1p124 {
			q.beta = q.base / square
		}
		var sq float64
		for i, x := range vec {
			v[i] = float64(x)/div - q.beta*float64(c.mean[i])
			sq += v[i] * v[i]
		}
		q.unit = max(math.Sqrt(sq), q.length*0x1p-40)
	}
	q.prepare(v)
	return q
}

// prepare divides v by unit, codes it, and computes the parameters of the scan.
func (q *Query) prepare(v []float64) {
	if q.wild || q.unit == 0 {
		clear(v)
		q.unit = 0
	}
	ratio := 1.0 // of the lengths of the whole query and the part
	var most, sum, sq float64
	if q.unit > 0 {
		ratio = q.length / q.unit
		for i := range v {
			v[i] /= q.unit
			most = max(most, math.Abs(v[i]))
			sum += math.Abs(v[i])
			sq += v[i] * v[i]
		}
	}
	w := make([]int16, len(v))
	lost := 0x1p-48 * (1 + ratio) // by the roundings of v
	q.size = math.Sqrt(sq)*(1+q.eps) + lost
	q.resid = lost
	if most > 0 {
		// Rounding adds at most a half to every weight.
		step := max(most/(simd.MaxWeight-1), sum/float64(simd.MaxWeightSum-len(v)))
		q.step = float64(above(step))
		sq = 0
		for i, x := range v {
			r := math.RoundToEven(x / q.step)
			w[i] = int16(r)
			d := x - q.step*r
			sq += d * d
		}
		q.resid += 1.001 * math.Sqrt(sq)
	}
	q.weights, q.coded = simd.NewWeights(w), w

	q.add = above(q.slack(q.c.head.slope, q.c.head.square, q.resid))
	q.half = 1
	if q.unit > 0 {
		q.half = q.unit
	}
	if q.c.head.ident.Metric == fileformat.L2 {
		q.half *= 2
		q.per = -below((1 - 0x1p-19) / q.half)
	} else {
		q.per = float32(q.beta / q.half)
	}
}

// slack returns the amount that a scan adds to the products to cover all errors that grow with the
// scale, for codes with this slope and largest square, and weights with an error of rest.
func (q *Query) slack(slope float32, square uint32, rest float64) float64 {
	if q.unit == 0 {
		return 0
	}
	n, k := math.Sqrt(float64(square)), float64(slope)
	return 1.001 * (q.size*k + rest*n + 0x1p-19*(n+k)*(1+q.length/q.unit))
}

// cut returns the least value of a row in the scan that is compatible with a score of at least cut.
func (q *Query) cut(cut float64) float32 {
	slack := 0x1p-46 * (math.Abs(cut) + math.Abs(q.base))
	if q.c.head.ident.Metric == fileformat.L2 {
		slack += 4 * q.eps * (math.Abs(cut) + q.base)
		return below((cut + q.base - slack) / q.half)
	}
	slack += q.length * (q.eps*q.mean + 4*q.floor)
	return below((cut - q.base - slack) / q.half)
}

// A Candidate is a row with the product of its codes and the query's.
type Candidate struct {
	Row int
	dot int32
}

// A Buffer is memory for Candidates and Among. The zero value is ready.
type Buffer struct {
	dots [chunk]int32
	bits [chunk / 64]uint64
	rows [chunk]int32
}

// chunk is the number of rows that are scanned before their candidates are collected.
const chunk = 1024

// Candidates appends to dst the rows from lo to hi-1 whose score may be cut or higher. If set is
// not nil, only its rows count: bit i%64 of set[i/64] stands for row i, as in bitset.Set. lo must
// be a multiple of 64. An error means damaged bytes and wraps fileformat.ErrDamaged; dst is then
// unchanged.
func (q *Query) Candidates(dst []Candidate, lo, hi int, set []uint64, cut float64, buf *Buffer) ([]Candidate, error) {
	if lo < 0 || hi > q.c.Len() || lo%64 != 0 {
		panic(fmt.Sprintf("codes: candidates from %d to %d of %d", lo, hi, q.c.Len()))
	}
	if lo >= hi {
		return dst, nil
	}
	low, before := q.cut(cut), len(dst)
	for ; lo < hi; lo += chunk {
		n := min(chunk, hi-lo)
		rows, ok := q.sketched(lo, lo+n, set, cut, buf)
		var err error
		if !ok && q.useNibbles(low) {
			rows, ok, err = q.among(lo, lo+n, set, low, buf)
		}
		if ok {
			dst, err = q.look(dst, rows, low, buf)
		}
		if err != nil {
			return dst[:before], err
		}
		if ok {
			continue
		}
		if err := q.c.touchRows(lo, lo+n); err != nil {
			return dst[:before], err
		}
		dots, words := buf.dots[:n], buf.bits[:(n+63)/64]
		q.scan(dots, words, lo, low)
		for i, w := range words {
			if set != nil {
				w &= set[lo/64+i]
			}
			for ; w != 0; w &= w - 1 {
				at := i*64 + bits.TrailingZeros64(w)
				dst = append(dst, Candidate{Row: lo + at, dot: dots[at]})
			}
		}
	}
	return dst, nil
}

// scan computes the dots of len(dots) rows from lo on, and which of them reach low.
func (q *Query) scan(dots []int32, words []uint64, lo int, low float32) {
	c := q.c
	simd.DotCodes(dots, q.weights, c.codes[lo*c.Dim():])
	if q.wild {
		low = float32(math.Inf(-1))
	}
	simd.CodesAbove(words, dots, c.scales[lo:], c.levels[lo:], float32(q.step), q.add, q.per, low)
}

// Among appends to dst the given rows, in any order, whose score may be cut or higher. It is meant
// for few, scattered rows. An error means damaged bytes and wraps fileformat.ErrDamaged; dst is
// then unchanged.
func (q *Query) Among(dst []Candidate, rows []int32, cut float64, buf *Buffer) ([]Candidate, error) {
	before, low := len(dst), q.cut(cut)
	for len(rows) > 0 {
		n := min(chunk, len(rows))
		var err error
		if dst, err = q.look(dst, rows[:n], low, buf); err != nil {
			return dst[:before], err
		}
		rows = rows[n:]
	}
	return dst, nil
}

// look is Among for up to chunk rows.
func (q *Query) look(dst []Candidate, rows []int32, low float32, buf *Buffer) ([]Candidate, error) {
	c := q.c
	if err := c.touchAt(rows); err != nil {
		return dst, err
	}
	dots := buf.dots[:len(rows)]
	simd.DotCodesAt(dots, q.weights, c.codes, rows)
	step := float32(q.step)
	for i, r := range rows {
		// As simd.CodesAbove has it.
		v := c.scales[r] * float32(float32(step*float32(dots[i]))+q.add)
		if v = float32(v) + float32(q.per*c.levels[r]); !(v < low) || q.wild {
			dst = append(dst, Candidate{Row: int(r), dot: dots[i]})
		}
	}
	return dst, nil
}

// Row returns a row as Candidates does, whatever its score.
func (q *Query) Row(row int) (Candidate, error) {
	c := q.c
	if err := c.touchRows(row, row+1); err != nil {
		return Candidate{}, err
	}
	return Candidate{Row: row, dot: q.dot(row)}, nil
}

// dot returns the product with a row, whose bytes were verified.
func (q *Query) dot(row int) int32 {
	var dot [1]int32
	simd.DotCodes(dot[:], q.weights, q.c.codes[row*q.c.Dim():])
	return dot[0]
}

// Interval returns bounds of the true score of a candidate. They are infinite where codes say
// nothing.
func (q *Query) Interval(c Candidate) (lower, upper float64) {
	scale, resid := float64(q.c.scales[c.Row]), float64(q.c.resids[c.Row])
	if q.wild || math.IsInf(scale, 1) {
		return math.Inf(-1), math.Inf(1)
	}
	level := float64(q.c.levels[c.Row])
	norm := math.Sqrt(float64(q.c.squares[c.Row])) // of the codes
	along := q.step * float64(c.dot)
	off := q.resid * norm
	// The residual of the row is at right angles to its codes: only that part of v counts which is
	// so too.
	across := q.size * q.size
	if a := math.Abs(along) - off; a > 0 && norm > 0 {
		across -= a / norm * (a / norm)
	}
	across = math.Sqrt(max(0, across) + 0x1p-48)
	long := scale*norm + resid // at least the length of the row less the mean
	mid := q.unit * scale * along
	e := q.unit * (scale*off + across*resid)

	if q.c.head.ident.Metric == fileformat.L2 {
		mid = level + q.base - 2*mid
		e = 2*e + 0x1p-20*long*(long+q.unit) + 4*q.eps*(long*long+q.base)
		return -mid - e, min(0, e-mid)
	}
	mid += q.base + q.beta*level
	e += q.length * (0x1p-20*long + 4*q.floor + q.eps*(q.mean+long))
	if q.c.head.ident.Metric == fileformat.Cosine {
		return max(-1, mid-e), min(1, mid+e)
	}
	return mid - e, mid + e
}
