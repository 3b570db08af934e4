//go:build !purego

package simd

// mulFloats multiplies n rows with one panel, as many rows at once as there are registers for.
func mulFloats(l level, dst []float32, dstStride int, x []float32, xStride int, panel, bias []float32, n, in int) {
	if l == avx512 {
		mulFloatsAVX512(dst, dstStride, x, xStride, panel, bias, n, in, rowsAtOnce(n, 14))
		return
	}
	const half = PanelColumns / 2
	h := rowsAtOnce(n, 6)
	mulFloatsAVX2(dst, dstStride, x, xStride, panel, bias, n, in, h)
	mulFloatsAVX2(dst[half:], dstStride, x, xStride, panel[half:], bias[half:], n, in, h)
}

// mulCodesLevel returns the implementation of CodeMatrix.
func mulCodesLevel() level { return dotCodesLevel() }

// mulCodes multiplies n rows from row i on with panel p.
func mulCodes(m *CodeMatrix, p int, dst []float32, dstStride int, x *CodeRows, i, n int, bias []float32, steps int) {
	if m.level == generic {
		mulCodesGeneric(m, p, dst, dstStride, x, i, n, bias)
		return
	}
	first := p * PanelColumns
	words, panel := x.words[i*x.stride:], m.panels[first*steps:]
	sums, scales, zeros, units := m.sums[first:], m.scales[first:], x.zeros[i:], x.units[i:]
	if m.level == avx512 {
		mulCodesAVX512(dst, dstStride, words, x.stride, panel, sums, scales, bias, zeros, units, n, steps, rowsAtOnce(n, 14))
		return
	}
	const half = PanelColumns / 2
	h := rowsAtOnce(n, 6)
	mulCodesAVX2(dst, dstStride, words, x.stride, panel, sums, scales, bias, zeros, units, n, steps, h)
	mulCodesAVX2(dst[half:], dstStride, words, x.stride, panel[half:], sums[half:], scales[half:], bias[half:], zeros, units, n, steps, h)
}

func softmax(x []float32, scale float32) {
	switch active {
	case avx512:
		softmaxAVX512(x, scale)
	case avx2:
		softmaxAVX2(x, scale)
	default:
		softmaxGeneric(x, scale)
	}
}

func gelu(x []float32) {
	switch active {
	case avx512:
		geluAVX512(x)
	case avx2:
		geluAVX2(x)
	default:
		geluGeneric(x)
	}
}

func geluTanh(x []float32) {
	switch active {
	case avx512:
		geluTanhAVX512(x)
	case avx2:
		geluTanhAVX2(x)
	default:
		geluTanhGeneric(x)
	}
}

func addNorm(x, y, w, b []float32, epsilon float32) {
	switch active {
	case avx512:
		addNormAVX512(x, y, w, b, epsilon)
	case avx2:
		addNormAVX2(x, y, w, b, epsilon)
	default:
		addNormGeneric(x, y, w, b, epsilon)
	}
}

func extent(l level, x []float32) (low, high float32) {
	switch l {
	case avx512:
		return extentAVX512(x)
	case avx2:
		return extentAVX2(x)
	default:
		return extentGeneric(x)
	}
}

func toCodes(l level, dst []uint32, x []float32, per float32, zero int32) {
	switch l {
	case avx512:
		toCodesAVX512(dst, x, per, zero)
	case avx2:
		toCodesAVX2(dst, x, per, zero)
	default:
		toCodesGeneric(dst, x, per, zero)
	}
}
