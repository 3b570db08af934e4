package simd

import (
	"fmt"
	"math"
	"math/bits"
)

// A level is one implementation of the kernels.
type level uint8

const (
	generic level = iota
	avx2
	avx512
)

func (l level) String() string {
	return [...]string{generic: "generic", avx2: "avx2", avx512: "avx512"}[l]
}

// Name returns the implementation in use: "avx512", "avx2" or "generic". It is
// chosen once, when the program starts.
func Name() string { return active.String() }

// Dot returns the dot product of a and b, summed in float32 and in an order
// that depends on the implementation; see ErrorBound. It is 0 for empty
// vectors. It panics if the lengths differ.
func Dot(a, b []float32) float32 {
	checkPair("Dot", a, b)
	return dot(a, b)
}

// L2 returns the squared Euclidean distance of a and b, summed in float32 and
// in an order that depends on the implementation; see ErrorBound. It is 0 for
// empty vectors. It panics if the lengths differ.
func L2(a, b []float32) float32 {
	checkPair("L2", a, b)
	return l2(a, b)
}

// Make returns a vector of dim zeros that begins at a cache line. A query that
// does makes DotRows and L2Rows up to a fifth faster.
func Make(dim int) []float32 {
	// The allocator's size classes that are multiples of 64 bytes are so aligned.
	return make([]float32, dim, (dim+15)&^15)
}

// DotRows sets dst[i] to the dot product of q and row i of rows, which holds
// len(dst) rows of len(q) floats one after the other. The same row gives the
// same bits wherever it stands and however many rows there are; Dot may differ
// in the last bits. dst must not overlap q or rows. DotRows panics if the
// lengths do not fit.
func DotRows(dst, q, rows []float32) {
	checkRows("DotRows", dst, q, rows)
	for n := rowsPerCall(len(q)); len(dst) > n; dst, rows = dst[n:], rows[n*len(q):] {
		dotRows(dst[:n], q, rows[:n*len(q)])
	}
	dotRows(dst, q, rows)
}

// L2Rows sets dst[i] to the squared Euclidean distance of q and row i of rows.
// In everything else it is like DotRows.
func L2Rows(dst, q, rows []float32) {
	checkRows("L2Rows", dst, q, rows)
	for n := rowsPerCall(len(q)); len(dst) > n; dst, rows = dst[n:], rows[n*len(q):] {
		l2Rows(dst[:n], q, rows[:n*len(q)])
	}
	l2Rows(dst, q, rows)
}

// RowsAbove filters the results of DotRows or L2Rows. It sets bit i of dst, which is bit i%64 of
// dst[i/64], unless
//
//	values[i] * (add + mul*scales[i]) < cut  and  least < scales[i] < most
//
// with every operation rounded to float32: a NaN sets the bit. The bits from len(values) to the end
// of their word are cleared. The result is the same from every implementation on every CPU.
// RowsAbove panics if the lengths do not fit.
func RowsAbove(dst []uint64, values, scales []float32, add, mul, least, most, cut float32) {
	if len(scales) != len(values) || len(dst) < (len(values)+63)/64 {
		panic(fmt.Sprintf("simd: RowsAbove of %d rows with %d scales and %d words", len(values), len(scales), len(dst)))
	}
	rowsAbove(dst[:(len(values)+63)/64], values, scales, add, mul, least, most, cut)
}

// Dot64 returns the canonical dot product of a and b: summed in float64, with the same bits from
// every implementation on every CPU, except for the bits of a NaN. Its relative error, against the
// product of the norms, is below len(a)*2^-53. It is +0 for empty vectors. It panics if the lengths
// differ.
func Dot64(a, b []float32) float64 {
	checkPair("Dot64", a, b)
	return dot64(a, b)
}

// DotSquare64 returns Dot64(a, b) and Dot64(b, b), in the time of one of them. next is the b of a
// call to come, or nil. It is loaded into the cache, as Prefetch would, but while the processor
// computes. DotSquare64 panics if the lengths differ.
func DotSquare64(a, b, next []float32) (dot, square float64) {
	checkPair("DotSquare64", a, b)
	if next == nil {
		next = b
	}
	checkPair("DotSquare64", b, next)
	return dotSquare64(a, b, next)
}

// Cosine64 returns the cosine of the angle between a and b, in [-1, 1], from
// canonical products: the same bits on every CPU. It is 0 if either is zero. It
// panics if the lengths differ.
func Cosine64(a, b []float32) float64 {
	norms := math.Sqrt(Dot64(a, a)) * math.Sqrt(Dot64(b, b))
	if norms == 0 {
		return 0
	}
	return max(-1, min(1, Dot64(a, b)/norms))
}

// L264 returns the canonical squared Euclidean distance of a and b: summed in float64, with the
// same bits from every implementation on every CPU, except for the bits of a NaN. Its relative
// error is below (len(a)+2)*2^-53. It is +0 for empty vectors. It panics if the lengths differ.
func L264(a, b []float32) float64 {
	checkPair("L264", a, b)
	return l264(a, b)
}

// Finite reports whether a holds neither a NaN nor an infinity.
func Finite(a []float32) bool { return finite(a) }

// RangeU8 sets bit i of dst, which is bit i%64 of dst[i/64], for every i with
// codes[i]-lo <= span in wrapping uint8 arithmetic: for lo+span <= 255, the
// inclusive range [lo, lo+span]. Other bits keep their value, also those beyond
// len(codes). RangeU8 panics if dst has fewer than len(codes) bits.
func RangeU8(dst []uint64, codes []uint8, lo, span uint8) {
	checkBits("RangeU8", dst, len(codes))
	rangeU8(dst, codes, lo, span)
}

// RangeU16 is RangeU8 for codes of 16 bits.
func RangeU16(dst []uint64, codes []uint16, lo, span uint16) {
	checkBits("RangeU16", dst, len(codes))
	rangeU16(dst, codes, lo, span)
}

// RangeU32 is RangeU8 for codes of 32 bits.
func RangeU32(dst []uint64, codes []uint32, lo, span uint32) {
	checkBits("RangeU32", dst, len(codes))
	rangeU32(dst, codes, lo, span)
}

// ErrorBound bounds the error of the float32 kernels for vectors of dim
// components, whatever the implementation. With g = ErrorBound(dim), |.| the
// Euclidean norm, and provided that no float32 overflows:
//
//	|Dot(a, b) - a.b|  <=  g*|a|*|b|   + dim*2^-149
//	|L2(a, b) - |a-b|^2|  <=  g*|a-b|^2 + dim*2^-149
//
// and the same with Dot64(a, b) or L264(a, b) for the exact value, and for
// DotRows and L2Rows. Nothing overflows as long as |a|*|b|, respectively
// |a-b|^2, is at most half of math.MaxFloat32 and g is at most 1/2. ErrorBound
// is +Inf where it can promise nothing, from about 16 million components on.
func ErrorBound(dim int) float64 {
	// Let u = 2^-24 be the unit roundoff of float32 and gamma(n) = n*u/(1-n*u).
	//
	// A product of n factors (1+e) with |e| <= u is 1+t with |t| <= gamma(n)
	// (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 2002,
	// lemma 3.1). In any order of summation, and so with any number of lanes, a
	// term of the dot product takes part in at most dim-1 inexact additions, as
	// adding to the initial zero is exact, after one rounding of its product;
	// with a fused multiply-add it is one rounding less. So the computed value
	// is the sum of a[i]*b[i]*(1+t[i]) with |t[i]| <= gamma(dim) (ibid., 3.1,
	// equation 3.4), and the error is at most gamma(dim)*sum|a[i]*b[i]|, which
	// by Cauchy and Schwarz is at most gamma(dim)*|a|*|b|. For the distance, the
	// rounding of a[i]-b[i] enters squared: gamma(dim+2), and all terms being
	// positive, the bound is relative.
	//
	// The lemma needs (1+e), which underflow breaks. Sums and differences never
	// do, they are exact down there; a product errs by at most half the smallest
	// denormal, 2^-150, and is carried on by at most 1+gamma <= 2.
	//
	// One more u, against dim*2^-53, covers the float64 kernels and the
	// rounding of this formula.
	const u = 1.0 / (1 << 24)
	n := (float64(dim) + 3) * u
	if n >= 1 {
		return math.Inf(1)
	}
	return n / (1 - n)
}

// rowsPerCall limits one call of a row kernel to about 1 MiB of rows, because
// assembly cannot be preempted and would make a garbage collection wait.
func rowsPerCall(dim int) int {
	return max(4, 1<<18/max(dim, 1)&^3)
}

func checkPair(name string, a, b []float32) {
	if len(a) != len(b) {
		panicPair(name, len(a), len(b))
	}
}

func checkRows(name string, dst, q, rows []float32) {
	hi, lo := bits.Mul(uint(len(dst)), uint(len(q)))
	if hi != 0 || lo != uint(len(rows)) {
		panicRows(name, len(dst), len(q), len(rows))
	}
}

func checkBits(name string, dst []uint64, codes int) {
	if len(dst) < codes/64+(codes%64+63)/64 {
		panicBits(name, len(dst), codes)
	}
}

// The messages are built out of line, so that the checks can be inlined.

//go:noinline
func panicPair(name string, a, b int) {
	panic(fmt.Sprintf("simd: %s of vectors of different lengths, %d and %d", name, a, b))
}

//go:noinline
func panicRows(name string, dst, q, rows int) {
	panic(fmt.Sprintf("simd: %s of %d rows of %d floats with %d floats in rows", name, dst, q, rows))
}

//go:noinline
func panicBits(name string, words, codes int) {
	panic(fmt.Sprintf("simd: %s of %d codes with only %d words of bits", name, codes, words))
}
