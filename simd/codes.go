package simd

import (
	"fmt"
	"math/bits"
)

// Limits of Weights. They keep every sum of a row within an int32.
const (
	MaxWeight    = 32639   // of the absolute value of a weight: it is a low and a high byte, both signed
	MaxWeightSum = 1 << 23 // of the sum of the absolute values
)

// Weights are a query for DotCodes: a vector of small integers, in the order in which the
// implementation in use reads them. They are immutable.
type Weights struct {
	level  level
	dim    int
	bias   int32       // -128 times their sum, because codes are 128 too large
	packed []int16     // for the assembly, padded with zeros to a multiple of 64
	pairs  [][4]uint64 // for dotCodesGeneric: of every 8 weights, the first four with the others
}

// NewWeights arranges a copy of w. It panics if the values exceed MaxWeight or their sum
// MaxWeightSum.
func NewWeights(w []int16) *Weights {
	k := &Weights{level: dotCodesLevel(), dim: len(w)}
	sum := 0
	for i, v := range w {
		if v < -MaxWeight || v > MaxWeight {
			panic(fmt.Sprintf("simd: NewWeights with %d at %d", v, i))
		}
		sum += max(int(v), -int(v))
		k.bias -= 128 * int32(v)
	}
	if sum > MaxWeightSum {
		panic(fmt.Sprintf("simd: NewWeights with a sum of %d", sum))
	}
	if k.level == generic {
		k.pairs = make([][4]uint64, (len(w)+7)/8)
		for i, v := range w {
			if i&4 == 0 {
				k.pairs[i/8][i%4] += uint64(v) << 32
			} else {
				k.pairs[i/8][i%4] += uint64(v)
			}
		}
		return k
	}
	k.packed = make([]int16, (len(w)+63)&^63)
	for i, v := range w {
		if k.level == avx2 { // of 32 weights, those at even places, then the others
			k.packed[i&^31+i%2*16+i%32/2] = v
			continue
		}
		// For each 64 weights, the low bytes, then the high bytes; v is low + 256*high.
		low := int16(int8(v))
		at, shift := i&^63+i%64/2, 8*(i%2)
		k.packed[at] |= low & 0xff << shift
		k.packed[at+32] |= (v - low) >> 8 & 0xff << shift
	}
	return k
}

// Dim returns the number of weights.
func (w *Weights) Dim() int { return w.dim }

// CodesSize returns the number of bytes that DotCodes needs for a number of rows of dim codes.
// Padding follows the last row, so that the length of this row becomes a multiple of 64. It may
// have any value.
func CodesSize(rows, dim int) int {
	if rows == 0 {
		return 0
	}
	return rows*dim + -dim&63
}

// DotCodes sets dst[i] to the dot product of w and row i of codes, which holds len(dst) rows of
// w.Dim() codes one after the other, and padding; see CodesSize. A code c stands for the value
// c-128. The result is exact: the same from every implementation on every CPU. DotCodes panics if
// codes are too few.
func DotCodes(dst []int32, w *Weights, codes []uint8) {
	hi, lo := bits.Mul(uint(len(dst)), uint(w.dim))
	if hi != 0 || lo > uint(len(codes)) || CodesSize(len(dst), w.dim) > len(codes) {
		panic(fmt.Sprintf("simd: DotCodes of %d rows of %d codes with only %d", len(dst), w.dim, len(codes)))
	}
	if w.dim == 0 {
		clear(dst)
		return
	}
	perCall := 4 * rowsPerCall(w.dim)
	for len(dst) > perCall {
		dotCodes(dst[:perCall], w, codes)
		dst, codes = dst[perCall:], codes[perCall*w.dim:]
	}
	dotCodes(dst, w, codes)
}

// DotCodesAt sets dst[i] to the dot product of w and row rows[i] of codes, as DotCodes does. It is
// meant for scattered rows, and prefetches the next ones while it computes. It panics if a row and
// its padding do not lie within codes, or if the lengths do not fit.
func DotCodesAt(dst []int32, w *Weights, codes []uint8, rows []int32) {
	least, most := int32(0), int32(-1)
	for _, r := range rows {
		least, most = min(least, r), max(most, r)
	}
	if len(dst) != len(rows) || least < 0 || CodesSize(int(most)+1, w.dim) > len(codes) {
		panic(fmt.Sprintf("simd: DotCodesAt of %d rows from %d to %d, with %d results and %d codes", len(rows), least, most, len(dst), len(codes)))
	}
	if w.dim == 0 {
		clear(dst)
		return
	}
	perCall := rowsPerCall(w.dim)
	for len(dst) > perCall {
		dotCodesAt(dst[:perCall], w, codes, rows[:perCall])
		dst, rows = dst[perCall:], rows[perCall:]
	}
	dotCodesAt(dst, w, codes, rows)
}

// rowsAhead is how many more rows than results the kernels of DotCodesAt have.
const rowsAhead = 8

// CodesAbove sets bit i of dst, which is bit i%64 of dst[i/64], unless
//
//	scales[i]*(mul*dots[i] + add) + per*levels[i] < cut
//
// with every operation, and the conversion of dots[i], rounded to float32: a NaN
// sets the bit. The bits from len(dots) to the end of their word are cleared.
// The result is the same from every implementation on every CPU. CodesAbove
// panics if the lengths do not fit; scales and levels may be longer than dots.
func CodesAbove(dst []uint64, dots []int32, scales, levels []float32, mul, add, per, cut float32) {
	if min(len(scales), len(levels)) < len(dots) || len(dst) < (len(dots)+63)/64 {
		panic(fmt.Sprintf("simd: CodesAbove of %d rows with %d scales, %d levels and %d words",
			len(dots), len(scales), len(levels), len(dst)))
	}
	codesAbove(dst[:(len(dots)+63)/64], dots, scales, levels, mul, add, per, cut)
}
