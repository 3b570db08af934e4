package simd

import "math"

// This file defines the kernels of dense.go, as generic.go defines the other kernels.

// mulFloatsGeneric is the definition of Matrix.Mul. A panel is applied to all rows before the next
// one, part by part, so that the weights stay in the first cache.
func mulFloatsGeneric(dst, x Rows, m *Matrix, bias []float32, from, to int) {
	const cached = 24 << 10
	step := max(1, cached/4/m.in)
	to = min(to*PanelColumns, m.out)
	for first := from * PanelColumns; first < to; first += step {
		last := min(first+step, to)
		for i := range x.N {
			row, out := x.Row(i), dst.Row(i)[first:last]
			dotRowsGeneric(out, row, m.data[first*m.in:last*m.in])
			if bias != nil {
				for j, v := range bias[first:last] {
					out[j] += v
				}
			}
		}
	}
}

// mulCodesGeneric multiplies n rows from row i on with panel p. The conversions forbid the compiler
// to fuse operations.
func mulCodesGeneric(m *CodeMatrix, p int, dst []float32, dstStride int, x *CodeRows, i, n int, bias []float32) {
	first := p * PanelColumns
	for r := range n {
		words := x.words[(i+r)*x.stride:]
		for c := range min(PanelColumns, m.out-first) {
			j := first + c
			codes := m.codes[j*m.in : (j+1)*m.in]
			var sum int32
			w := words
			for len(codes) >= 4 {
				u := w[0]
				sum += int32(u&255)*int32(codes[0]) + int32(u>>8&255)*int32(codes[1]) + int32(u>>16&255)*int32(codes[2]) + int32(u>>24)*int32(codes[3])
				codes, w = codes[4:], w[1:]
			}
			for k, v := range codes {
				sum += int32(w[0]>>(8*k)&255) * int32(v)
			}
			sum -= x.zeros[i+r] * m.sums[j]
			dst[r*dstStride+c] = float32(float32(float32(sum)*m.scales[j])*x.units[i+r]) + bias[c]
		}
	}
}

// softmaxGeneric is the definition of Softmax, in float64.
func softmaxGeneric(x []float32, scale float32) {
	most := x[0]
	for _, v := range x {
		most = max(most, v)
	}
	sum := 0.0
	for i, v := range x {
		e := math.Exp(float64(scale) * (float64(v) - float64(most)))
		sum += e
		x[i] = float32(e)
	}
	for i, v := range x {
		x[i] = float32(float64(v) / sum)
	}
}

// geluGeneric is the definition of GELU, in float64.
func geluGeneric(x []float32) {
	for i, v := range x {
		z := float64(v)
		x[i] = float32(z / 2 * math.Erfc(-z/math.Sqrt2))
	}
}

// geluTanhGeneric is the definition of GELUTanh, in float64: (1+tanh(u))/2 is 1/(1+exp(-2u)).
func geluTanhGeneric(x []float32) {
	for i, v := range x {
		z := float64(v)
		x[i] = float32(z / (1 + math.Exp(-2*math.Sqrt(2/math.Pi)*(z+0.044715*z*z*z))))
	}
}

// addNormGeneric is the definition of AddNorm, in float64 but for the sum of x and y.
func addNormGeneric(x, y, w, b []float32, epsilon float32) {
	sum, square := 0.0, 0.0
	for i, v := range y[:len(x)] {
		x[i] += v
		sum += float64(x[i])
	}
	mean := sum / float64(len(x))
	for _, v := range x {
		d := float64(v) - mean
		square += d * d
	}
	scale := 1 / math.Sqrt(square/float64(len(x))+float64(epsilon))
	for i, v := range x {
		x[i] = float32((float64(v)-mean)*scale)*w[i] + b[i]
	}
}

func extentGeneric(x []float32) (low, high float32) {
	for _, v := range x {
		low, high = min(low, v), max(high, v)
	}
	return low, high
}

// toCodesGeneric codes whole vectors of 16 floats.
func toCodesGeneric(dst []uint32, x []float32, per float32, zero int32) {
	for i := 0; i+4 <= len(x); i += 4 {
		q := (*[4]float32)(x[i:])
		dst[i/4] = uint32(code(q[0], per, zero)) | uint32(code(q[1], per, zero))<<8 | uint32(code(q[2], per, zero))<<16 | uint32(code(q[3], per, zero))<<24
	}
}
