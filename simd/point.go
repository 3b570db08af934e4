package simd

import (
	"fmt"
	"math"
)

// Hadamard replaces v by its product with Sylvester's Hadamard matrix, times scale. It adds and
// subtracts in float32, in log2(len(v)) steps: first components at distance 1, then 2, and so on.
// It multiplies by scale before the step of distance 4, or at the end if there is no such step. The
// bits are the same from every implementation on every CPU. It panics if the length of v is not a
// power of two.
func Hadamard(v []float32, scale float32) {
	if len(v) == 0 || len(v)&(len(v)-1) != 0 {
		panic(fmt.Sprintf("simd: Hadamard of %d components", len(v)))
	}
	hadamard(v, scale)
}

// Flip changes the sign of each component of v whose word in signs is 1<<31; the other words must
// be zero. It panics if the lengths differ.
func Flip(v []float32, signs []uint32) {
	if len(v) != len(signs) {
		panicPair("Flip", len(v), len(signs))
	}
	flip(v, signs)
}

// Largest returns the largest absolute value in v: 0 if v is empty, a NaN if v holds one.
func Largest(v []float32) float32 { return math.Float32frombits(largest(v)) }

// Centre sets dst[i] to v[i]*factor - mean[i], with both operations rounded to float64 and the
// result to float32, and returns Largest(dst). The result is the same from every implementation on
// every CPU, except for the bits of a NaN. dst may be v. Centre panics if the lengths differ.
func Centre(dst, v []float32, factor float64, mean []float64) float32 {
	if len(dst) != len(v) || len(dst) != len(mean) {
		panic(fmt.Sprintf("simd: Centre of %d components and means of %d into %d", len(v), len(mean), len(dst)))
	}
	return math.Float32frombits(centre(dst, v, factor, mean))
}

// Encode sets codes[i] to 128 + v[i]*factor. The product is rounded to float32 and then to the
// nearest integer, ties to even, which must be in [-127, 127]. Encode returns the sum of these
// integers, without the 128, and the sum of their squares, modulo 2^32. The result is the same from
// every implementation on every CPU. Encode panics if the lengths differ.
func Encode(codes []uint8, v []float32, factor float32) (sum, squares int32) {
	if len(codes) != len(v) {
		panicPair("Encode", len(codes), len(v))
	}
	return encode(codes, v, factor)
}

// Sketch compares the vector of a record, which has scale*(codes[i]-128) for component i, with
// from. The differences d are rounded to float32, as is the product. Bit i%16 of plus[i/16] is set
// where d is greater than 0. Sketch returns the sums of the squares of d, of their absolute values,
// and of from[i] where the bit is set, less from[i] elsewhere, each as Dot64 adds up. The result is
// the same from every implementation on every CPU, except for the bits of a NaN. Sketch panics if
// the lengths of codes and from differ or are not a multiple of 16, or if plus is not a sixteenth
// of them.
func Sketch(plus []uint16, codes []uint8, scale float32, from []float32) (squares, sum, along float64) {
	if n := len(codes); n%16 != 0 || len(from) != n || len(plus) != n/16 {
		panic(fmt.Sprintf("simd: Sketch of %d codes and %d components into %d words", len(codes), len(from), len(plus)))
	}
	return sketch(plus, codes, scale, from)
}
