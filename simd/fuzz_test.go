package simd

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// FuzzKernels takes any bytes as vectors and codes and compares every
// implementation with the definitions.
func FuzzKernels(f *testing.F) {
	f.Add(uint16(3), uint32(1), uint32(2), []byte("any bytes, as many as make a query and a few rows of three floats"))
	f.Add(uint16(0), uint32(0), uint32(math.MaxUint32), []byte{})
	f.Add(uint16(17), uint32(0xfffffffe), uint32(3), make([]byte, 17*4*6+3))
	rng := rand.New(rand.NewPCG(1, 2))
	for dim := range uint16(60) { // ordinary numbers, and any bits
		data := make([]byte, 4*int(dim)*(2+rng.IntN(4))+rng.IntN(4))
		for i := 0; i+4 <= len(data); i += 4 {
			bits := rng.Uint32()
			if dim%3 > 0 {
				bits = math.Float32bits(float32(rng.NormFloat64()))
			}
			binary.LittleEndian.PutUint32(data[i:], bits)
		}
		f.Add(dim, rng.Uint32()>>(dim%32), rng.Uint32()>>(dim%29), data)
	}
	f.Fuzz(func(t *testing.T, dim uint16, lo, span uint32, data []byte) {
		u32 := make([]uint32, len(data)/4)
		u16 := make([]uint16, len(data)/2)
		floats := make([]float32, len(u32))
		for i := range u32 {
			u32[i] = binary.LittleEndian.Uint32(data[4*i:])
			floats[i] = math.Float32frombits(u32[i])
		}
		for i := range u16 {
			u16[i] = binary.LittleEndian.Uint16(data[2*i:])
		}
		n := min(int(dim), len(floats)/2)
		q, rows := floats[:n], floats[n:]
		dst := make([]float32, 3)
		if n > 0 {
			dst = make([]float32, len(rows)/n)
		}
		rows = rows[:n*len(dst)]
		l2Dst := make([]float32, len(dst))
		bits := make([]uint64, len(data)/64+2)
		for i := range bits {
			bits[i] = uint64(lo) << (i % 64)
		}

		forEach(t, func(t *testing.T) {
			if got, want := Finite(floats), finiteGeneric(floats); got != want {
				t.Errorf("Finite(%v) = %t", floats, got)
			}
			DotRows(dst, q, rows)
			L2Rows(l2Dst, q, rows)
			for i := range dst {
				row := rows[i*n : (i+1)*n]
				if got, want := Dot64(q, row), dot64Generic(q, row); !sameBits(got, want) {
					t.Errorf("Dot64(%v, %v) = %x, want %x", q, row, got, want)
				}
				dot, square := DotSquare64(q, row, nil)
				if !sameBits(dot, dot64Generic(q, row)) || !sameBits(square, dot64Generic(row, row)) {
					t.Errorf("DotSquare64(%v, %v) = %x, %x", q, row, dot, square)
				}
				if got, want := L264(q, row), l264Generic(q, row); !sameBits(got, want) {
					t.Errorf("L264(%v, %v) = %x, want %x", q, row, got, want)
				}
				if !Finite(q) || !Finite(row) {
					continue
				}
				if dot64Generic(q, q)*dot64Generic(row, row) <= math.MaxFloat32/2*math.MaxFloat32/2 {
					for _, got := range []float32{dst[i], Dot(q, row)} {
						if err, bound := dotError(q, row, got); !(err <= bound) {
							t.Errorf("dot of %v and %v: %g, error %g above %g", q, row, got, err, bound)
						}
					}
				}
				if l264Generic(q, row) <= math.MaxFloat32/2 {
					for _, got := range []float32{l2Dst[i], L2(q, row)} {
						if err, bound := l2Error(q, row, got); !(err <= bound) {
							t.Errorf("l2 of %v and %v: %g, error %g above %g", q, row, got, err, bound)
						}
					}
				}
			}
			w := make([]int16, min(n, 256))
			for i := range w {
				w[i] = int16(u16[i]) >> 1 // within MaxWeight
			}
			dots := make([]int32, 3)
			if padded := len(data) - 63; len(w) > 0 && padded > 0 {
				dots = make([]int32, padded/len(w))
			}
			if CodesSize(len(dots), len(w)) <= len(data) {
				DotCodes(dots, NewWeights(w), data)
				for i, got := range dots {
					if want := dotCode(w, data[i*len(w):]); got != want {
						t.Errorf("codes %v of %v: %d, want %d", w, data[i*len(w):][:len(w)], got, want)
					}
				}
			}
			testPoint(t, floats, u32, lo)
			testOffer(t, 1+int(span%256), slices.Clone(u32), floats, math.Float32frombits(span), lo)
			testRange(t, RangeU8, slices.Clone(bits), data, uint8(lo), uint8(span))
			testRange(t, RangeU16, slices.Clone(bits), u16, uint16(lo), uint16(span))
			testRange(t, RangeU32, slices.Clone(bits), u32, lo, span)
		})
	})
}

// FuzzDense takes any finite numbers as rows and weights.
func FuzzDense(f *testing.F) {
	f.Add(uint8(3), uint8(5), []byte("any bytes, as many as make some rows of x and some rows of w, each of a few floats"))
	rng := rand.New(rand.NewPCG(3, 4))
	for in := range uint8(40) {
		data := make([]byte, 4*(int(in)+1)*(3+rng.IntN(40)))
		for i := 0; i+4 <= len(data); i += 4 {
			binary.LittleEndian.PutUint32(data[i:], math.Float32bits(float32(rng.NormFloat64())))
		}
		f.Add(in, uint8(rng.IntN(20)), data)
	}
	f.Fuzz(func(t *testing.T, in, n uint8, data []byte) {
		dim := int(in) + 1
		floats := make([]float32, len(data)/4/dim*dim)
		for i := range floats {
			floats[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
		if !Finite(floats) || dot64Generic(floats, floats) > 1e30 {
			return
		}
		all := Rows{floats, len(floats) / dim, dim, dim}
		k := min(int(n), all.N)
		x, w := all.Slice(0, k), all.Slice(k, all.N)
		forEach(t, func(t *testing.T) {
			var m Matrix
			var c CodeRows
			m.Pack(w)
			codes := NewCodeMatrix(w)
			c.Reset(x.N, dim)
			for i := range x.N {
				c.Set(i, x.Row(i))
			}
			dst, coded := NewRows(x.N, w.N), NewRows(x.N, w.N)
			m.Mul(dst, x, nil, 0, m.Panels())
			codes.Mul(coded, &c, nil, 0, codes.Panels())
			for i := range x.N {
				row, unit, zero := codesOf(x.Row(i))
				for j := range w.N {
					if err, bound := dotError(x.Row(i), w.Row(j), dst.Row(i)[j]); !(err <= bound) {
						t.Errorf("%v times %v: %g, error %g above %g", x.Row(i), w.Row(j), dst.Row(i)[j], err, bound)
					}
					weights := make([]int8, dim)
					scale, _ := codeRow(weights, w.Row(j))
					sum := 0
					for l, v := range row {
						sum += (v - zero) * int(weights[l])
					}
					if got, want := coded.Row(i)[j], float32(float32(float32(sum)*scale)*unit); math.Float32bits(got+0) != math.Float32bits(want+0) {
						t.Errorf("codes of %v times %v: %g, want %g", x.Row(i), w.Row(j), got, want)
					}
				}
			}
		})
	})
}
