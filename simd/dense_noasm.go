//go:build purego || !amd64

package simd

func mulCodesLevel() level { return generic }

// mulFloats is called for assembly only.
func mulFloats(l level, dst []float32, dstStride int, x []float32, xStride int, panel, bias []float32, n, in int) {
	panic("simd: no " + l.String())
}

func mulCodes(m *CodeMatrix, p int, dst []float32, dstStride int, x *CodeRows, i, n int, bias []float32, _ int) {
	mulCodesGeneric(m, p, dst, dstStride, x, i, n, bias)
}

func softmax(x []float32, scale float32)              { softmaxGeneric(x, scale) }
func gelu(x []float32)                                { geluGeneric(x) }
func geluTanh(x []float32)                            { geluTanhGeneric(x) }
func addNorm(x, y, w, b []float32, epsilon float32)   { addNormGeneric(x, y, w, b, epsilon) }
func extent(_ level, x []float32) (low, high float32) { return extentGeneric(x) }

func toCodes(_ level, dst []uint32, x []float32, per float32, zero int32) {
	toCodesGeneric(dst, x, per, zero)
}
