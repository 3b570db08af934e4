//go:build purego || !amd64

package simd

// active is the implementation in use.
var active = generic

// available returns the implementations of this build.
func available() []level { return []level{generic} }

func dot(a, b []float32) float32     { return dotGeneric(a, b) }
func l2(a, b []float32) float32      { return l2Generic(a, b) }
func dotRows(dst, q, rows []float32) { dotRowsGeneric(dst, q, rows) }
func l2Rows(dst, q, rows []float32)  { l2RowsGeneric(dst, q, rows) }
func dot64(a, b []float32) float64   { return dot64Generic(a, b) }
func l264(a, b []float32) float64    { return l264Generic(a, b) }
func finite(a []float32) bool        { return finiteGeneric(a) }

func dotSquare64(a, b, _ []float32) (dot, square float64) { return dotSquare64Generic(a, b) }

func rangeU8(dst []uint64, codes []uint8, lo, span uint8)    { rangeGeneric(dst, codes, lo, span) }
func rangeU16(dst []uint64, codes []uint16, lo, span uint16) { rangeGeneric(dst, codes, lo, span) }
func rangeU32(dst []uint64, codes []uint32, lo, span uint32) { rangeGeneric(dst, codes, lo, span) }

func dotCodesLevel() level { return generic }

func dotCodes(dst []int32, w *Weights, codes []uint8) { dotCodesGeneric(dst, w, codes) }

func dotCodesAt(dst []int32, w *Weights, codes []uint8, rows []int32) {
	dotCodesAtGeneric(dst, w, codes, rows)
}

func dotNibbles(dst []int32, w *NibbleWeights, nibbles []uint8) { dotNibblesGeneric(dst, w, nibbles) }

func codesAbove(dst []uint64, dots []int32, scales, levels []float32, mul, add, per, cut float32) {
	codesAboveGeneric(dst, dots, scales, levels, mul, add, per, cut)
}

func rowsAbove(dst []uint64, values, scales []float32, add, mul, least, most, cut float32) {
	rowsAboveGeneric(dst, values, scales, add, mul, least, most, cut)
}

// The kernels of tiles are called for assembly only.

func tileCodes(l level, dst []uint64, block, w []uint32, steps int, params []uint32, scales, levels []float32) {
	panic("simd: no " + l.String())
}

func tileRows(l level, squared bool, dst []uint64, block, w []uint32, steps int, cuts []uint32, factors []float32) {
	panic("simd: no " + l.String())
}

func gatherL2(dst []float32, q []uint8, bias int32, mul, add, extra float32, records []uint8, ids []uint32) {
	gatherL2Generic(dst, q, bias, mul, add, extra, records, ids)
}

func gatherCachedL2(dst []float32, q []uint8, bias int32, mul, add, extra float32, records []uint8, ids []uint32) {
	gatherL2Generic(dst, q, bias, mul, add, extra, records, ids)
}

func gatherSplitL2(dst []float32, q []uint8, bias int32, mul, add, extra float32, records []uint8, dim int,
	tails []uint8, ids []uint32) {
	gatherSplitL2Generic(dst, q, bias, mul, add, extra, records, dim, tails, ids)
}

func prefetch([]uint8)         {}
func prefetchVector([]float32) {}

func estimate(dst *[BlockPoints]float32, sums, block, _ []uint8, bias int32, unit, add, limit float32) uint32 {
	return estimateGeneric(dst, sums, block, bias, unit, add, limit)
}

func belowBlocks(below []uint32, sums, blocks []uint8, bias int32, unit, add, limit float32) {
	belowGeneric(below, sums, blocks, bias, unit, add, limit)
}

func signSums(sums []uint8, q []float32, inv float32, base uint8) {
	signSumsGeneric(sums, q, inv, base)
}

func hadamard(v []float32, scale float32) { hadamardGeneric(v, scale) }
func flip(v []float32, signs []uint32)    { flipGeneric(v, signs) }
func largest(v []float32) uint32          { return largestGeneric(v) }

func centre(dst, v []float32, factor float64, mean []float64) uint32 {
	return centreGeneric(dst, v, factor, mean)
}

func sketch(plus []uint16, codes []uint8, scale float32, from []float32) (squares, sum, along float64) {
	return sketchGeneric(plus, codes, scale, from)
}

func encode(codes []uint8, v []float32, factor float32) (sum, squares int32) {
	return encodeGeneric(codes, v, factor)
}

func loadPoint(dst, record []uint8) { loadPointGeneric(dst, record) }

func offer(pool []Neighbour, limit, next int, ids []uint32, dists []float32, most float32) (rows, unmarked int) {
	return offerGeneric(pool, limit, next, ids, dists, most)
}
