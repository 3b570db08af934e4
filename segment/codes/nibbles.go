package codes

import (
	"math"
	"math/bits"
	"slices"
	"sync"

	"github.com/vecbolt/vecbolt/simd"
)

// Nibbles are the upper halves of the codes, packed: codes of four bits, with a scale of their own.
// A scan reads them in place of the codes, at half the bytes, and leaves to the codes the few rows
// that they do not rule out.

// coarse is a query as nibbles are compared with it, on all codes with the same mean.
type coarse struct {
	once    sync.Once
	weights *simd.NibbleWeights
	step    float32 // value of a weight of 1
	resid   float64 // as Query.resid
	pause   pause
}

// scanPays reports whether it takes less time to look at kept of n rows again, after their nibbles,
// than to scan the codes of all. A row that is looked at alone takes about as long as two rows and
// 400 components of a scan.
func scanPays(kept, n, dim int) bool { return kept*(4*dim+800) < n*dim }

// prepareCoarse computes the parameters of the nibble scan.
func (q *Query) prepareCoarse() {
	w := make([]int8, q.c.Dim())
	step, resid := q.narrow(w)
	q.coarse.weights = simd.NewNibbleWeights(w)
	q.coarse.step, q.coarse.resid = above(step), resid
}

// scanNibbles sets the bits of n rows from lo on which may reach low, as CodesAbove does.
func (q *Query) scanNibbles(words []uint64, dots []int32, lo int, low float32) {
	c := q.c
	q.coarse.once.Do(q.prepareCoarse)
	simd.DotNibbles(dots, q.coarse.weights, c.nibbles[int64(lo)*stride(c.Dim()):])
	add := above(q.slack(c.head.coarseSlope, c.head.coarseSquare, q.coarse.resid))
	simd.CodesAbove(words, dots, c.coarse[lo:], c.levels[lo:], q.coarse.step, add, q.per, low)
}

// useNibbles reports whether to scan nibbles of the next chunk first.
func (q *Query) useNibbles(low float32) bool {
	if q.c.nibbles == nil || q.wild || math.IsInf(float64(low), -1) || simd.Name() == "generic" {
		return false
	}
	return q.coarse.pause.over()
}

// among fills buf with the rows from lo to hi-1 that are in set and that nibbles do not rule out.
// ok is false if they are too many for nibbles to have paid.
func (q *Query) among(lo, hi int, set []uint64, low float32, buf *Buffer) (rows []int32, ok bool, err error) {
	if err := q.c.touchNibbles(lo, hi); err != nil {
		return nil, false, err
	}
	n := hi - lo
	words := buf.bits[:(n+63)/64]
	q.scanNibbles(words, buf.dots[:n], lo, low)
	kept := 0
	for i := range words {
		if set != nil {
			words[i] &= set[lo/64+i]
		}
		kept += bits.OnesCount64(words[i])
	}
	paid := scanPays(kept, n, q.c.Dim())
	if q.coarse.pause.tried(paid); !paid {
		return nil, false, nil
	}
	rows = buf.rows[:0]
	for i, w := range words {
		for ; w != 0; w &= w - 1 {
			rows = append(rows, int32(lo+i*64+bits.TrailingZeros64(w)))
		}
	}
	return rows, true, nil
}

// nibblesPay finds out, with some of the rows for queries among some more, whether nibbles rule out
// enough of them.
func nibblesPay(ident Ident, rows Source) (bool, error) {
	const most, run, queries, k = 2048, 16, 16, 10
	total, dim := ident.Rows, ident.Dim
	n := min(total, most)
	var sample []float32
	for i := 0; i < n; i += run {
		lo := int(int64(i) * int64(total) / int64(n))
		x, err := rows(lo, min(lo+min(run, n-i), total))
		if err != nil {
			return false, err
		}
		sample = append(sample, x...)
	}
	if ident.Rows = len(sample) / dim; ident.Rows == 0 {
		return false, nil
	}
	b, err := build(ident, func(lo, hi int) ([]float32, error) { return sample[lo*dim : hi*dim], nil }, true)
	if err != nil {
		return false, err
	}
	c, err := Parse(b, ident)
	if err != nil {
		return false, err
	}
	// In the sample, a query comes first, followed by its k best rows, or fewer if there are fewer.
	rank := min(1+k*ident.Rows/total, ident.Rows-1)
	var buf Buffer
	kept := 0
	for i := range queries {
		row := i * ident.Rows / queries
		q := c.Query(sample[row*dim : (row+1)*dim])
		all, err := q.Candidates(nil, 0, ident.Rows, nil, math.Inf(-1), &buf)
		if err != nil {
			return false, err
		}
		lowers := make([]float64, len(all))
		for j, cand := range all {
			lowers[j], _ = q.Interval(cand)
		}
		slices.Sort(lowers)
		low := q.cut(lowers[len(lowers)-1-rank])
		for lo := 0; lo < ident.Rows; lo += chunk {
			n := min(chunk, ident.Rows-lo)
			words := buf.bits[:(n+63)/64]
			q.scanNibbles(words, buf.dots[:n], lo, low)
			for _, w := range words {
				kept += bits.OnesCount64(w)
			}
		}
	}
	return scanPays(kept, queries*ident.Rows, dim), nil
}
