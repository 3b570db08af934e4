package codes

import (
	"fmt"
	"math"

	"github.com/vecbolt/vecbolt/simd"
)

// A Batch compares many queries with the rows of one segment at once. Each query has its own cut. A
// Batch is for one goroutine; Fork makes one for another.
//
// Weights are rounded to one byte, so one instruction multiplies twice as many. The rounding lets a
// few more candidates through, whose exact product is then computed.
type Batch struct {
	c       *Codes
	queries []*Query
	steps   []float64 // of the rounded weights; infinite if a query does not scan
	tile    *simd.CodeTile
	block   simd.CodeBlock
	words   []uint64
}

// BlockRows is the number of rows that a Batch compares at once.
const BlockRows = simd.BlockRows

// Batch unites queries, which must be of c.
func (c *Codes) Batch(queries []*Query) *Batch {
	b := &Batch{c: c, queries: queries, steps: make([]float64, len(queries)),
		tile: simd.NewCodeTile(len(queries), c.Dim())}
	w := make([]int8, c.Dim())
	for i, q := range queries {
		if q.c != c {
			panic("codes: query of another segment in a batch")
		}
		var add int32
		b.steps[i], add = q.round(w)
		b.tile.Set(i, w, add, float32(float64(q.per)/b.steps[i]))
	}
	b.words = make([]uint64, b.tile.Words())
	for i := range queries {
		b.SetCut(i, math.Inf(-1))
	}
	return b
}

// Fork returns a Batch of the same queries without cuts.
func (b *Batch) Fork() *Batch {
	f := &Batch{c: b.c, queries: b.queries, steps: b.steps, tile: b.tile.Fork(), words: make([]uint64, len(b.words))}
	for i := range f.queries {
		f.SetCut(i, math.Inf(-1))
	}
	return f
}

// Len returns the number of queries.
func (b *Batch) Len() int { return len(b.queries) }

// narrow sets w to the weights in one byte. It returns their step, and an upper bound of their
// error |v - step*w|.
func (q *Query) narrow(w []int8) (step, rest float64) {
	clear(w)
	var most int16
	for _, v := range q.coded {
		most = max(most, v, -v)
	}
	if most == 0 {
		return 1, q.resid
	}
	step = q.step * float64(most) / 127
	var sq float64
	for i, v := range q.coded {
		r := math.RoundToEven(float64(v) * 127 / float64(most))
		w[i] = int8(r)
		d := q.step*float64(v) - step*r
		sq += d * d
	}
	return step, q.resid + 1.001*math.Sqrt(sq)
}

// round sets w to the weights in one byte. It returns their step, and the amount that a scan adds
// to the integer product to cover all errors that grow with the scale.
func (q *Query) round(w []int8) (step float64, add int32) {
	step, rest := q.narrow(w)
	if q.unit == 0 {
		return step, 0
	}
	sum := math.Ceil(q.slack(q.c.head.slope, q.c.head.square, rest)/step) + 1
	if !(sum < 1<<30) { // the sum of all products is below 2^30: together they fit into 31 bits
		return math.Inf(1), 0
	}
	return step, int32(sum)
}

// SetCut sets what query i wants: scores of cut or higher.
func (b *Batch) SetCut(i int, cut float64) {
	q := b.queries[i]
	if q.wild || math.IsInf(b.steps[i], 1) {
		cut = math.Inf(-1)
	} else {
		cut = float64(q.cut(cut)) / b.steps[i]
	}
	b.tile.SetCut(i, below(cut))
}

// Scan compares rows lo to hi-1, at most BlockRows, with all queries. Bit j of word i says that row
// lo+j may reach the cut of query i. The words are valid until the next call. An error means
// damaged bytes and wraps fileformat.ErrDamaged.
func (b *Batch) Scan(lo, hi int) ([]uint64, error) {
	c := b.c
	if lo < 0 || hi <= lo || hi > c.Len() {
		panic(fmt.Sprintf("codes: scan from %d to %d of %d", lo, hi, c.Len()))
	}
	if err := c.touchRows(lo, hi); err != nil {
		return nil, err
	}
	b.block.Pack(c.Dim(), c.codes[lo*c.Dim():], c.scales[lo:hi], c.levels[lo:hi])
	b.tile.Above(b.words, &b.block)
	return b.words[:len(b.queries)], nil
}

// Interval returns bounds of the true score of a row that Scan reported for query i, as
// Query.Interval does.
func (b *Batch) Interval(i, row int) (lower, upper float64) {
	q := b.queries[i]
	return q.Interval(Candidate{Row: row, dot: q.dot(row)})
}
