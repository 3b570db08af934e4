package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// randomRows returns rows of normal numbers, with NaNs between them.
func randomRows(r *rand.Rand, n, dim, stride int) Rows {
	x := Rows{make([]float32, n*stride), n, dim, stride}
	for i := range x.Data {
		x.Data[i] = float32(math.NaN())
	}
	for i := range n {
		for j := range dim {
			x.Data[i*stride+j] = float32(r.NormFloat64())
		}
	}
	return x
}

// drawShape draws numbers of rows, of dimensions and of columns around the tiles of the kernels.
func drawShape(t *rapid.T) (n, in, out int, r *rand.Rand) {
	n, in, out = rapid.IntRange(0, 70).Draw(t, "n"), rapid.IntRange(1, 70).Draw(t, "in"), rapid.IntRange(0, 100).Draw(t, "out")
	return n, in, out, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
}

// TestMatrix compares products with canonical ones, and the rows of a product with each row alone.
func TestMatrix(t *testing.T) {
	forEach(t, func(t *testing.T) {
		var m Matrix
		rapid.Check(t, func(t *rapid.T) {
			n, in, out, r := drawShape(t)
			x, w := randomRows(r, n, in, in+r.IntN(3)), randomRows(r, out, in, in+r.IntN(3))
			bias := randomRows(r, 1, out, out).Data
			if r.IntN(4) == 0 {
				bias = nil
			}
			if half := r.IntN(out + 1); r.IntN(2) == 0 {
				m.Pack(w.Slice(0, half), w.Slice(half, out))
			} else {
				turned := randomRows(r, in, out, out+r.IntN(3))
				for i := range in {
					for j := range out {
						turned.Row(i)[j] = w.Row(j)[i]
					}
				}
				m.PackColumns(turned)
			}
			if m.Out() != out || m.In() != in || m.Panels() != (out+31)/32 {
				t.Fatalf("%d by %d, %d panels", m.Out(), m.In(), m.Panels())
			}
			for j, u := 0, m.Unpack(); j < out; j++ {
				if !slices.Equal(u.Row(j), w.Row(j)) {
					t.Fatalf("row %d of %d unpacked: %v, want %v", j, out, u.Row(j), w.Row(j))
				}
			}
			dst := randomRows(r, n, out, out+r.IntN(3))
			before := slices.Clone(dst.Data)
			middle := r.IntN(m.Panels() + 1)
			m.Mul(dst, x, bias, middle, m.Panels())
			m.Mul(dst, x, bias, 0, middle)
			for i := range n {
				one := NewRows(1, out)
				m.Mul(one, x.Slice(i, i+1), bias, 0, m.Panels())
				if !slices.Equal(one.Row(0), dst.Row(i)) {
					t.Fatalf("row %d of %d differs alone", i, n)
				}
				for j, got := range dst.Row(i) {
					want, size := Dot64(x.Row(i), w.Row(j)), math.Sqrt(Dot64(x.Row(i), x.Row(i))*Dot64(w.Row(j), w.Row(j)))
					if bias != nil {
						want, size = want+float64(bias[j]), size+math.Abs(float64(bias[j]))
					}
					if err := math.Abs(float64(got) - want); !(err <= ErrorBound(in+1)*size+0x1p-140) {
						t.Fatalf("%d rows, %d by %d: row %d, column %d: %g, want %g", n, out, in, i, j, got, want)
					}
				}
			}
			for i, v := range before { // between the rows
				if i%max(1, dst.Stride) >= out && !math.IsNaN(float64(dst.Data[i])) {
					t.Fatalf("wrote %g over %g beside the rows", dst.Data[i], v)
				}
			}
		})
	})
}

// TestCodeMatrix compares codes and products with their definitions, bit by bit.
func TestCodeMatrix(t *testing.T) {
	forEach(t, func(t *testing.T) {
		var c CodeRows
		rapid.Check(t, func(t *rapid.T) {
			n, in, out, r := drawShape(t)
			x, w := randomRows(r, n, in, in), randomRows(r, out, in, in)
			bias := randomRows(r, 1, out, out).Data
			for i := range n {
				switch r.IntN(8) {
				case 0:
					clear(x.Row(i))
				case 1:
					for j, v := range x.Row(i) {
						x.Row(i)[j] = float32(math.Abs(float64(v)))
					}
				case 2:
					for j, v := range x.Row(i) {
						x.Row(i)[j] = v * 0x1p125
					}
				}
			}
			m := NewCodeMatrix(w.Slice(0, out/2), w.Slice(out/2, out))
			c.Reset(n, in)
			for i := range n {
				c.Set(i, x.Row(i))
			}
			dst := randomRows(r, n, out, out)
			middle := r.IntN(m.Panels() + 1)
			m.Mul(dst, &c, bias, middle, m.Panels())
			m.Mul(dst, &c, bias, 0, middle)
			for i := range n {
				codes, unit, zero := codesOf(x.Row(i))
				for j := range out {
					weights := make([]int8, in)
					scale, _ := codeRow(weights, w.Row(j))
					sum := 0
					for k := range codes {
						sum += (codes[k] - zero) * int(weights[k])
					}
					want := float32(float32(float32(sum)*scale)*unit) + bias[j]
					if got := dst.Row(i)[j]; math.Float32bits(got) != math.Float32bits(want) {
						t.Fatalf("%d rows, %d by %d: row %d, column %d: %g, want %g", n, out, in, i, j, got, want)
					}
				}
			}
		})
	})
}

// codesOf is the definition of CodeRows.Set.
func codesOf(x []float32) (codes []int, unit float32, zero int) {
	low, high := float32(0), float32(0)
	for _, v := range x {
		low, high = min(low, v), max(high, v)
	}
	unit = high/255 - low/255
	var per float32
	if unit >= 0x1p-120 {
		per = 1 / unit
	}
	zero = int(math.RoundToEven(float64(-low * per)))
	for _, v := range x {
		codes = append(codes, max(0, min(255, int(math.RoundToEven(float64(v*per)))+zero)))
	}
	return codes, unit, zero
}

// TestCodeError holds the loss of coded products to what rounding by half a step explains.
func TestCodeError(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	x, w := randomRows(r, 20, 384, 384), randomRows(r, 40, 384, 384)
	m, c, dst := NewCodeMatrix(w), CodeRows{}, NewRows(20, 40)
	c.Reset(20, 384)
	for i := range 20 {
		c.Set(i, x.Row(i))
	}
	m.Mul(dst, &c, nil, 0, 2)
	for i := range 20 {
		for j := range 40 {
			bound := 0.0
			for k, v := range x.Row(i) {
				u, s := float64(c.units[i])/2*1.001, float64(m.scales[j])/2*1.001
				bound += u*math.Abs(float64(w.Row(j)[k])) + s*math.Abs(float64(v)) + u*s
			}
			if err := math.Abs(float64(dst.Row(i)[j]) - Dot64(x.Row(i), w.Row(j))); err > bound || err > 1 {
				t.Fatalf("row %d, column %d: error %g, bound %g", i, j, err, bound)
			}
		}
	}
}

// TestActivations compares with the definitions on all lengths, on values of all sizes.
func TestActivations(t *testing.T) {
	var values []float32
	for x := float32(-20); x < 20; x += 0.00137 {
		values = append(values, x)
	}
	values = append(values, 0, float32(math.Copysign(0, -1)), 1e-30, -1e-30, 1e30, -1e15, 87, -87, 100, -100)
	forEach(t, func(t *testing.T) {
		for _, f := range []struct {
			name            string
			kernel, generic func([]float32)
			slope           float64
		}{{"GELU", GELU, geluGeneric, 2e-7}, {"GELUTanh", GELUTanh, geluTanhGeneric, 4e-7}} {
			r := rand.New(rand.NewPCG(7, 8))
			for n := range 300 {
				at := r.IntN(len(values) - n)
				if n > 280 {
					at = len(values) - n
				}
				got, want := append(slices.Clone(values[at:at+n]), 42), slices.Clone(values[at:at+n])
				f.kernel(got[:n])
				f.generic(want)
				for i, v := range want {
					x := float64(values[at+i])
					if err := math.Abs(float64(got[i]) - float64(v)); !(err <= 1e-7+f.slope*math.Abs(x)) {
						t.Fatalf("%s(%g) = %g, want %g, error %g", f.name, x, got[i], v, err)
					}
				}
				if got[n] != 42 {
					t.Fatalf("%s of %d wrote behind", f.name, n)
				}
			}
			for i := range 40 {
				x := make([]float32, 40)
				x[i] = float32(math.NaN())
				if f.kernel(x); x[i] == x[i] || x[(i+1)%40] != 0 {
					t.Fatalf("%s of NaN: %v", f.name, x)
				}
			}
		}
	})
}

func TestSoftmax(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for _, scale := range []float32{0, 0.17677669, 1, 30, 1e6} {
			r := rand.New(rand.NewPCG(9, 10))
			for n := range 300 {
				x := make([]float32, n+1)
				for i := range x {
					x[i] = float32(r.NormFloat64()) - 5
				}
				want := slices.Clone(x[:n])
				if n > 0 {
					softmaxGeneric(want, scale)
				}
				last := x[n]
				Softmax(x[:n], scale)
				for i, v := range want {
					bound := 2e-6 * float64(slices.Max(want))
					if scale <= 1 {
						bound = 1e-6 * float64(v)
					}
					if err := math.Abs(float64(x[i]) - float64(v)); !(err <= bound) {
						t.Fatalf("%d elements, scale %g: %g, want %g", n, scale, x[i], v)
					}
				}
				if x[n] != last {
					t.Fatalf("%d elements: wrote behind", n)
				}
			}
		}
		for i := range 40 {
			x := make([]float32, 40)
			x[i] = float32(math.NaN())
			if Softmax(x, 1); slices.ContainsFunc(x, func(v float32) bool { return v == v }) {
				t.Fatalf("NaN at %d: %v", i, x)
			}
		}
	})
}

func TestAddNorm(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(11, 12))
		for n := range 300 {
			rows := randomRows(r, 4, n, n)
			x, y, w, b := slices.Clone(rows.Row(0)), rows.Row(1), rows.Row(2), rows.Row(3)
			for i := range x {
				x[i] = x[i]*float32(n%7) + float32(n%5)
			}
			got := append(slices.Clone(x), 42)
			AddNorm(got[:n], y, w, b, 1e-5)
			if n > 0 {
				addNormGeneric(x, y, w, b, 1e-5)
			}
			for i, want := range x {
				if err := math.Abs(float64(got[i] - want)); !(err <= 4e-6*(1+math.Abs(float64(w[i])))) {
					t.Fatalf("%d elements: %g at %d, want %g", n, got[i], i, want)
				}
			}
			if got[n] != 42 {
				t.Fatalf("%d elements: wrote behind", n)
			}
		}
	})
}

func TestDenseLengths(t *testing.T) {
	v := make([]float32, 64)
	rows := Rows{v, 4, 16, 16}
	var m Matrix
	m.Pack(rows)
	codes := NewCodeMatrix(rows)
	var coded CodeRows
	coded.Reset(4, 16)
	for i := range 4 {
		coded.Set(i, rows.Row(i))
	}
	dst := Rows{make([]float32, 16), 4, 4, 4}
	for i, f := range []func(){
		func() { rows.Slice(3, 5) },
		func() { rows.Columns(4, 17) },
		func() { m.Pack(Rows{v, 5, 16, 16}) },
		func() { m.Pack(rows, Rows{v, 4, 15, 15}) },
		func() { m.Pack(Rows{v, 4, 0, 0}) },
		func() { new(Matrix).PackColumns(Rows{v, 4, 17, 16}) },
		func() { new(Matrix).PackColumns(Rows{nil, 0, 17, 17}) },
		func() { m.Mul(dst, Rows{v, 4, 15, 16}, nil, 0, 1) },
		func() { m.Mul(dst, Rows{v, 3, 16, 16}, nil, 0, 1) },
		func() { m.Mul(dst, rows, v[:3], 0, 1) },
		func() { m.Mul(dst, rows, nil, 0, 2) },
		func() { m.Mul(Rows{v, 4, 4, 21}, rows, nil, 0, 1) },
		func() { NewCodeMatrix(Rows{nil, 0, 1 << 17, 1 << 17}) },
		func() { coded.Set(4, v[:16]) },
		func() { coded.Set(0, v[:15]) },
		func() { coded.Reset(-1, 15) },
		func() { codes.Mul(dst, &CodeRows{n: 4, dim: 15}, nil, 0, 1) },
		func() { codes.Mul(dst, &coded, v[:5], 0, 1) },
		func() { AddNorm(v[:3], v[:3], v[:2], v[:3], 1) },
	} {
		func() {
			defer func() {
				if msg := fmt.Sprint(recover()); !strings.HasPrefix(msg, "simd: ") {
					t.Errorf("call %d: panic %q", i, msg)
				}
			}()
			f()
		}()
	}
}

// BenchmarkMul multiplies rows with a matrix of all-MiniLM-L6-v2. The metric is the best rate in
// billions of operations, two for every element of a row and weight.
func BenchmarkMul(b *testing.B) {
	for _, shape := range [][2]int{{384, 1152}, {384, 1536}, {1536, 384}} {
		in, out := shape[0], shape[1]
		for _, n := range []int{14, 128} {
			for _, l := range available() {
				use(b, l)
				r := rand.New(rand.NewPCG(1, 2))
				w := randomRows(r, out, in, in)
				x, dst := NewRows(n, in), NewRows(n, out)
				for i := range n {
					copy(x.Row(i), randomRows(r, 1, in, in).Data)
				}
				run := func(name string, f func()) {
					b.Run(fmt.Sprintf("%s/%dx%dx%d/%s", name, n, in, out, l), func(b *testing.B) {
						use(b, l)
						best := newTimer()
						for b.Loop() {
							best.run(1, f)
						}
						b.ReportMetric(float64(2*n*in*out)/float64(best), "Gop/s")
					})
				}
				var m Matrix
				m.Pack(w)
				run("floats", func() { m.Mul(dst, x, nil, 0, m.Panels()) })
				codes := NewCodeMatrix(w)
				var c CodeRows
				c.Reset(n, in)
				run("codes", func() {
					for i := range n {
						c.Set(i, x.Row(i))
					}
					codes.Mul(dst, &c, nil, 0, codes.Panels())
				})
			}
		}
	}
}

// BenchmarkDense measures the other kernels on rows of all-MiniLM-L6-v2 and 128 tokens, in
// nanoseconds per element.
func BenchmarkDense(b *testing.B) {
	for _, l := range available() {
		r := rand.New(rand.NewPCG(1, 2))
		rows := randomRows(r, 3, 1536, 1536)
		x, y, z := rows.Row(0), rows.Row(1), rows.Row(2)
		c := CodeRows{}
		use(b, l)
		c.Reset(1, 1536)
		w := randomRows(r, 128, 384, 384)
		var m Matrix
		for _, f := range []struct {
			name string
			n    int
			f    func()
		}{
			{"Softmax", 128, func() { Softmax(x[:128], 0.1) }},
			{"GELU", 1536, func() { GELU(y) }},
			{"GELUTanh", 1536, func() { GELUTanh(y) }},
			{"AddNorm", 384, func() { AddNorm(x[:384], y[:384], z[:384], z[:384], 1e-12) }},
			{"Set", 1536, func() { c.Set(0, z) }},
			{"Pack", 128 * 32, func() { m.Pack(w.Columns(32, 64)) }},
			{"PackColumns", 128 * 32, func() { m.PackColumns(w.Columns(32, 64)) }},
		} {
			b.Run(f.name+"/"+l.String(), func(b *testing.B) {
				use(b, l)
				best := newTimer()
				for b.Loop() {
					best.run(10, f.f)
				}
				b.ReportMetric(float64(best)/float64(f.n), "ns/element")
			})
		}
	}
}
