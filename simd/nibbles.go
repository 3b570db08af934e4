package simd

import (
	"fmt"
	"math"
	"math/bits"
)

// NibbleWeights are a query for DotNibbles: a vector of one-byte integers, in the order in which
// the implementation in use reads them. They are immutable.
type NibbleWeights struct {
	level  level
	dim    int
	bias   int32  // -15 times their sum
	packed []int8 // for the assembly, padded with zeros to a multiple of 128
	plain  []int8 // for the generic kernel
}

// NewNibbleWeights arranges a copy of w. It panics if w has more than 1<<16 values or a value of
// -128.
func NewNibbleWeights(w []int8) *NibbleWeights {
	if len(w) > 1<<16 {
		panic(fmt.Sprintf("simd: NewNibbleWeights of %d weights", len(w)))
	}
	k := &NibbleWeights{level: dotCodesLevel(), dim: len(w)}
	for i, v := range w {
		if v == math.MinInt8 {
			panic(fmt.Sprintf("simd: NewNibbleWeights with %d at %d", v, i))
		}
		k.bias -= 15 * int32(v)
	}
	if k.level == generic {
		k.plain = append(k.plain, w...)
		return k
	}
	k.packed = make([]int8, (len(w)+127)&^127)
	half := 64 // for each vector of the kernel, the weights of the low codes of its bytes, then of the high ones
	if k.level == avx2 {
		half = 32
	}
	for i, v := range w {
		k.packed[i/(2*half)*(2*half)+i%2*half+i/2%half] = v
	}
	return k
}

// NibblesSize returns the number of bytes that DotNibbles needs for a number of rows of dim codes,
// as CodesSize does. A row has two codes per byte; if dim is odd, the last code has its own byte.
func NibblesSize(rows, dim int) int { return CodesSize(rows, (dim+1)/2) }

// DotNibbles sets dst[i] to the dot product of w and row i of nibbles, which holds len(dst) rows
// one after the other, and padding; see NibblesSize. The low half of byte j of a row is code 2*j,
// the high half code 2*j+1, and a code c stands for the value 2*c-15. The result is exact: the same
// from every implementation on every CPU. DotNibbles panics if nibbles are too few.
func DotNibbles(dst []int32, w *NibbleWeights, nibbles []uint8) {
	stride := (w.dim + 1) / 2
	hi, lo := bits.Mul(uint(len(dst)), uint(stride))
	if hi != 0 || lo > uint(len(nibbles)) || NibblesSize(len(dst), w.dim) > len(nibbles) {
		panic(fmt.Sprintf("simd: DotNibbles of %d rows of %d codes with only %d bytes", len(dst), w.dim, len(nibbles)))
	}
	if w.dim == 0 {
		clear(dst)
		return
	}
	perCall := 4 * rowsPerCall(stride)
	for len(dst) > perCall {
		dotNibbles(dst[:perCall], w, nibbles)
		dst, nibbles = dst[perCall:], nibbles[perCall*stride:]
	}
	dotNibbles(dst, w, nibbles)
}
