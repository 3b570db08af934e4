//go:build !purego

package simd

import (
	"math"
	"runtime"
	"unsafe"

	"github.com/viterin/vek/vek32"
	"golang.org/x/sys/cpu"
)

// active is the implementation in use; only tests change it.
var active = available()[0]

// available returns the implementations this CPU and system can run, best first.
func available() []level {
	x := &cpu.X86
	switch {
	case !x.HasAVX2 || !x.HasFMA:
		return []level{generic}
	case !x.HasAVX512F || !x.HasAVX512BW || !x.HasAVX512DQ || !x.HasAVX512VL:
		return []level{avx2, generic}
	}
	return []level{avx512, avx2, generic}
}

func dot(a, b []float32) float32 {
	// vek's AVX2 kernel is as good as ours, except on macOS, where vek does not
	// use it. It panics on empty vectors.
	if active == avx2 && runtime.GOOS != "darwin" && len(a) > 0 {
		return vek32.Dot(a, b)
	}
	if active == generic {
		return dotGeneric(a, b)
	}
	var dst [1]float32
	dotRows(dst[:], a, b)
	return dst[0]
}

func l2(a, b []float32) float32 {
	if active == generic {
		return l2Generic(a, b)
	}
	var dst [1]float32
	l2Rows(dst[:], a, b)
	return dst[0]
}

func dotRows(dst, q, rows []float32) {
	switch active {
	case avx512:
		dotRowsAVX512(dst, q, rows)
	case avx2:
		dotRowsAVX2(dst, q, rows)
	default:
		dotRowsGeneric(dst, q, rows)
	}
}

func l2Rows(dst, q, rows []float32) {
	switch active {
	case avx512:
		l2RowsAVX512(dst, q, rows)
	case avx2:
		l2RowsAVX2(dst, q, rows)
	default:
		l2RowsGeneric(dst, q, rows)
	}
}

func dot64(a, b []float32) float64 {
	switch active {
	case avx512:
		return dot64AVX512(a, b)
	case avx2:
		return dot64AVX2(a, b)
	default:
		return dot64Generic(a, b)
	}
}

func l264(a, b []float32) float64 {
	switch active {
	case avx512:
		return l264AVX512(a, b)
	case avx2:
		return l264AVX2(a, b)
	default:
		return l264Generic(a, b)
	}
}

// With AVX-512, the kernel for AVX2 takes as long as dot64AVX512 and half as long as two of these:
// a sum waits for its own additions.
func dotSquare64(a, b, next []float32) (dot, square float64) {
	if active == generic || len(a) == 0 {
		return dotSquare64Generic(a, b)
	}
	return dotSquare64AVX2(a, b, &next[0])
}

func finite(a []float32) bool {
	switch active {
	case avx512:
		return finiteAVX512(a)
	case avx2:
		return finiteAVX2(a)
	default:
		return finiteGeneric(a)
	}
}

// The assembly of the range kernels takes whole words of 64 codes; the codes
// of the last, partial word are left to the generic kernel.

func rangeU8(dst []uint64, codes []uint8, lo, span uint8) {
	n := len(codes) / 64
	switch active {
	case avx512:
		rangeU8AVX512(dst[:n], codes, lo, span)
	case avx2:
		rangeU8AVX2(dst[:n], codes, lo, span)
	default:
		n = 0
	}
	rangeGeneric(dst[n:], codes[n*64:], lo, span)
}

func rangeU16(dst []uint64, codes []uint16, lo, span uint16) {
	n := len(codes) / 64
	switch active {
	case avx512:
		rangeU16AVX512(dst[:n], codes, lo, span)
	case avx2:
		rangeU16AVX2(dst[:n], codes, lo, span)
	default:
		n = 0
	}
	rangeGeneric(dst[n:], codes[n*64:], lo, span)
}

func rangeU32(dst []uint64, codes []uint32, lo, span uint32) {
	n := len(codes) / 64
	switch active {
	case avx512:
		rangeU32AVX512(dst[:n], codes, lo, span)
	case avx2:
		rangeU32AVX2(dst[:n], codes, lo, span)
	default:
		n = 0
	}
	rangeGeneric(dst[n:], codes[n*64:], lo, span)
}

// dotCodesLevel is active, or avx2 on a CPU that has AVX-512 without VNNI.
func dotCodesLevel() level {
	if active == avx512 && !cpu.X86.HasAVX512VNNI {
		return avx2
	}
	return active
}

func dotCodes(dst []int32, w *Weights, codes []uint8) {
	switch w.level {
	case avx512:
		dotCodesAVX512(dst, w.packed, codes, w.dim, w.bias)
	case avx2:
		dotCodesAVX2(dst, w.packed, codes, w.dim, w.bias)
	default:
		dotCodesGeneric(dst, w, codes)
	}
}

func dotCodesAt(dst []int32, w *Weights, codes []uint8, rows []int32) {
	if w.level == generic {
		dotCodesAtGeneric(dst, w, codes, rows)
		return
	}
	// The kernel prefetches rowsAhead rows ahead. The last rows are copied to a longer list, so
	// that it has something to prefetch.
	n := max(0, len(rows)-rowsAhead)
	var last [2 * rowsAhead]int32
	copy(last[:], rows[n:])
	kernel := dotCodesAtAVX2
	if w.level == avx512 {
		kernel = dotCodesAtAVX512
	}
	kernel(dst[:n], w.packed, codes, rows, w.dim, w.bias)
	kernel(dst[n:], w.packed, codes, last[:], w.dim, w.bias)
}

func dotNibbles(dst []int32, w *NibbleWeights, nibbles []uint8) {
	switch w.level {
	case avx512:
		dotNibblesAVX512(dst, w.packed, nibbles, (w.dim+1)/2, w.bias)
	case avx2:
		dotNibblesAVX2(dst, w.packed, nibbles, (w.dim+1)/2, w.bias)
	default:
		dotNibblesGeneric(dst, w, nibbles)
	}
}

func codesAbove(dst []uint64, dots []int32, scales, levels []float32, mul, add, per, cut float32) {
	n := len(dots) / 64
	switch active {
	case avx512:
		codesAboveAVX512(dst[:n], dots, scales, levels, mul, add, per, cut)
	case avx2:
		codesAboveAVX2(dst[:n], dots, scales, levels, mul, add, per, cut)
	default:
		n = 0
	}
	codesAboveGeneric(dst[n:], dots[n*64:], scales[n*64:], levels[n*64:], mul, add, per, cut)
}

func rowsAbove(dst []uint64, values, scales []float32, add, mul, least, most, cut float32) {
	n := len(values) / 64
	switch active {
	case avx512:
		rowsAboveAVX512(dst[:n], values, scales, add, mul, least, most, cut)
	case avx2:
		rowsAboveAVX2(dst[:n], values, scales, add, mul, least, most, cut)
	default:
		n = 0
	}
	rowsAboveGeneric(dst[n:], values[n*64:], scales[n*64:], add, mul, least, most, cut)
}

func tileCodes(l level, dst []uint64, block, w []uint32, steps int, params []uint32, scales, levels []float32) {
	if l == avx512 {
		tileCodesAVX512(dst, block, w, steps, params, scales, levels)
	} else {
		tileCodesAVX2(dst, block, w, steps, params, scales, levels)
	}
}

func tileRows(l level, squared bool, dst []uint64, block, w []uint32, steps int, cuts []uint32, factors []float32) {
	switch {
	case l == avx512 && squared:
		tileL2AVX512(dst, block, w, steps, cuts, factors)
	case l == avx512:
		tileDotAVX512(dst, block, w, steps, cuts, factors)
	case squared:
		tileL2AVX2(dst, block, w, steps, cuts, factors)
	default:
		tileDotAVX2(dst, block, w, steps, cuts, factors)
	}
}

func gatherL2(dst []float32, q []uint8, bias int32, mul, add, extra float32, records []uint8, ids []uint32) {
	switch dotCodesLevel() {
	case avx512:
		gatherL2AVX512(dst, q, bias, mul, add, extra, records, ids)
	case avx2:
		gatherL2AVX2(dst, q, bias, mul, add, extra, records, ids)
	default:
		gatherL2Generic(dst, q, bias, mul, add, extra, records, ids)
	}
}

func gatherCachedL2(dst []float32, q []uint8, bias int32, mul, add, extra float32, records []uint8, ids []uint32) {
	if dotCodesLevel() == avx2 {
		gatherCachedL2AVX2(dst, q, bias, mul, add, extra, records, ids)
	} else {
		gatherL2(dst, q, bias, mul, add, extra, records, ids)
	}
}

func gatherSplitL2(dst []float32, q []uint8, bias int32, mul, add, extra float32, records []uint8, dim int,
	tails []uint8, ids []uint32) {
	switch dotCodesLevel() {
	case avx512:
		gatherSplitL2AVX512(dst, q, bias, mul, add, extra, records, dim, tails, ids)
	case avx2:
		gatherSplitL2AVX2(dst, q, bias, mul, add, extra, records, dim, tails, ids)
	default:
		gatherSplitL2Generic(dst, q, bias, mul, add, extra, records, dim, tails, ids)
	}
}

const prefetchMost = 1 << 16 // bytes

func prefetch(b []uint8) { prefetchLines(b[:min(len(b), prefetchMost)]) }

func prefetchVector(v []float32) {
	b := unsafe.Slice((*uint8)(unsafe.Pointer(unsafe.SliceData(v))), 4*len(v))
	prefetchLines(b[:min(len(b), prefetchMost)])
}

func estimate(dst *[BlockPoints]float32, sums, block, next []uint8, bias int32, unit, add, limit float32) uint32 {
	switch active {
	case avx512:
		return estimateAVX512(dst, sums, block, next, bias, unit, add, limit)
	case avx2:
		return estimateAVX2(dst, sums, block, next, bias, unit, add, limit)
	default:
		return estimateGeneric(dst, sums, block, bias, unit, add, limit)
	}
}

func belowBlocks(below []uint32, sums, blocks []uint8, bias int32, unit, add, limit float32) {
	switch active {
	case avx512:
		belowAVX512(below, sums, blocks, bias, unit, add, limit)
	case avx2:
		belowAVX2(below, sums, blocks, bias, unit, add, limit)
	default:
		belowGeneric(below, sums, blocks, bias, unit, add, limit)
	}
}

func signSums(sums []uint8, q []float32, inv float32, base uint8) {
	if active == generic {
		signSumsGeneric(sums, q, inv, base)
	} else {
		signSumsAVX2(sums, q, inv, base)
	}
}

// The kernels that code vectors exist for AVX2 alone. They take n components in whole vector
// registers; the generic kernels take the rest.

// inVectors returns the number of the n components that fill whole registers of that many.
func inVectors(n, of int) int {
	if active == generic {
		return 0
	}
	return n &^ (of - 1)
}

func hadamard(v []float32, scale float32) {
	if inVectors(len(v), 64) > 0 {
		hadamardAVX2(v, scale)
	} else {
		hadamardGeneric(v, scale)
	}
}

func flip(v []float32, signs []uint32) {
	n := inVectors(len(v), 8)
	if n > 0 {
		flipAVX2(v[:n], signs)
	}
	flipGeneric(v[n:], signs[n:])
}

func largest(v []float32) uint32 {
	n := inVectors(len(v), 8)
	top := largestGeneric(v[n:])
	if n > 0 {
		top = max(top, largestAVX2(v[:n]))
	}
	return top
}

func centre(dst, v []float32, factor float64, mean []float64) uint32 {
	n := inVectors(len(v), 8)
	top := centreGeneric(dst[n:], v[n:], factor, mean[n:])
	if n > 0 {
		top = max(top, centreAVX2(dst, v[:n], factor, mean))
	}
	return top
}

func encode(codes []uint8, v []float32, factor float32) (sum, squares int32) {
	n := inVectors(len(v), 32)
	sum, squares = encodeGeneric(codes[n:], v[n:], factor)
	if n > 0 {
		s, q := encodeAVX2(codes, v[:n], factor)
		sum, squares = sum+s, squares+q
	}
	return sum, squares
}

func sketch(plus []uint16, codes []uint8, scale float32, from []float32) (squares, sum, along float64) {
	if active == generic {
		return sketchGeneric(plus, codes, scale, from)
	}
	return sketchAVX2(plus, codes, scale, from)
}

func loadPoint(dst, record []uint8) {
	if active == generic {
		loadPointGeneric(dst, record)
	} else {
		loadPointAVX2(dst, record)
	}
}

// longestMoved is the greatest limit for which offerLong is faster than offerGeneric.
const longestMoved = 192

// Each kernel but offerLong takes pools of one length, and keeps the rows in registers.
func offer(pool []Neighbour, limit, next int, ids []uint32, dists []float32, most float32) (rows, unmarked int) {
	words := (*uint64)(unsafe.Pointer(&pool[0]))
	switch worst := pool[limit-1].Dist; {
	case active == avx512 && len(pool) == 32:
		rows, unmarked = offer32AVX512(words, ids, dists, worst, most)
	case active == avx512 && len(pool) == 64:
		rows, unmarked = offer64AVX512(words, ids, dists, worst, most)
	case active == avx512 && len(pool) == 128:
		rows, unmarked = offer128AVX512(words, ids, dists, worst, most)
	case active == avx512 && len(pool) == 192:
		rows, unmarked = offer192AVX512(words, ids, dists, worst, most)
	case active == avx2 && len(pool) == 32:
		rows, unmarked = offer32AVX2(words, ids, dists, worst, most)
	case active == avx2 && limit <= longestMoved && (limit+15)&^15 <= len(pool):
		size := (limit + 15) &^ 15
		first := offerLongAVX2(words, size, ids, dists, worst, most)
		if first == size {
			return 0, 0
		}
		if rows = limit; pool[limit-1] == Vacant {
			rows = behind(pool[:limit], math.MaxFloat32)
		}
		for unmarked = min(next, first); unmarked < limit && pool[unmarked].ID >= Marked; {
			unmarked++
		}
	default:
		return offerGeneric(pool, limit, next, ids, dists, most)
	}
	return min(rows, limit), min(unmarked, limit)
}
