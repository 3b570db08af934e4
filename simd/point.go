package simd

import (
	"fmt"
	"math"
)

// Hadamard replaces v by its product with the Hadamard matrix of Sylvester,
// times scale. It adds and subtracts in float32, in log2(len(v)) steps, of
// elements at distance 1 first, and multiplies by scale before that of distance
// 4, or at the end if there is none: the same bits from every implementation on
// every CPU. It panics if the length of v is not a power of two.
func Hadamard(v []float32, scale float32) {
	if len(v) == 0 || len(v)&(len(v)-1) != 0 {
		panic(fmt.Sprintf("simd: Hadamard of %d elements", len(v)))
	}
	hadamard(v, scale)
}

// Flip changes the sign of the elements of v whose word of signs is 1<<31; the
// others are zero. It panics if the lengths differ.
func Flip(v []float32, signs []uint32) {
	if len(v) != len(signs) {
		panicPair("Flip", len(v), len(signs))
	}
	flip(v, signs)
}

// Largest returns the largest absolute value in v, 0 if there is none, and a NaN
// if there is one.
func Largest(v []float32) float32 { return math.Float32frombits(largest(v)) }

// Centre sets dst[i] to v[i]*factor - mean[i], with both operations rounded to
// float64 and the result to float32, and returns Largest(dst). The result is the
// same from every implementation on every CPU, but for which NaN it is. dst may
// be v. Centre panics if the lengths differ.
func Centre(dst, v []float32, factor float64, mean []float64) float32 {
	if len(dst) != len(v) || len(dst) != len(mean) {
		panic(fmt.Sprintf("simd: Centre of %d elements and means of %d into %d", len(v), len(mean), len(dst)))
	}
	return math.Float32frombits(centre(dst, v, factor, mean))
}

// Encode sets codes[i] to 128 + v[i]*factor, the product rounded to float32 and
// then to the nearest integer, which must be in [-127, 127]; the nearest even one
// of two. It returns the sum of these integers, without the 128, and of their
// squares, modulo 2^32. The result is the same from every implementation on
// every CPU. Encode panics if the lengths differ.
func Encode(codes []uint8, v []float32, factor float32) (sum, squares int32) {
	if len(codes) != len(v) {
		panicPair("Encode", len(codes), len(v))
	}
	return encode(codes, v, factor)
}
