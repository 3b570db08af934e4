package simd

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

func randomFloats(r *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64() * math.Exp2(float64(r.IntN(12))))
	}
	return v
}

func sameFloats(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// TestHadamard compares with the definition, a sum with signs, and every
// implementation with the generic one.
func TestHadamard(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for n := 1; n <= 1<<13; n *= 2 {
			v := randomFloats(r, n)
			got, want := slices.Clone(v), slices.Clone(v)
			scale := float32(1 / math.Sqrt(float64(n)))
			Hadamard(got, scale)
			hadamardGeneric(want, scale)
			if !sameFloats(got, want) {
				t.Fatalf("%d components: %v, want %v", n, got, want)
			}
			for _, row := range []int{0, n / 3, n - 1} {
				var sum, all float64
				for i, x := range v {
					sum += float64(x) * float64(1-2*(bits.OnesCount(uint(row&i))&1))
					all += math.Abs(float64(x))
				}
				if math.Abs(float64(got[row])-sum*float64(scale)) > 1e-6*all {
					t.Errorf("%d components, row %d: %g, want %g", n, row, got[row], sum*float64(scale))
				}
			}
		}
	})
}

// testPoint compares the kernels of points with the generic ones on v, any floats,
// with signs that are any words.
func testPoint(t *testing.T, v []float32, signs []uint32, seed uint32) {
	t.Helper()
	n := len(v)
	if got, want := Largest(v), math.Float32frombits(largestGeneric(v)); !sameFloats([]float32{got}, []float32{want}) {
		t.Fatalf("Largest(%v) = %g, want %g", v, got, want)
	}

	flips := make([]uint32, n)
	for i := range flips {
		flips[i] = signs[i] & (1 << 31)
	}
	got, want := slices.Clone(v), slices.Clone(v)
	Flip(got, flips)
	flipGeneric(want, flips)
	if !sameFloats(got, want) {
		t.Fatalf("Flip(%v, %x) = %v, want %v", v, flips, got, want)
	}

	r := rand.New(rand.NewPCG(uint64(seed), 4))
	mean := make([]float64, n)
	for i := range mean {
		mean[i] = r.NormFloat64()
	}
	factor := r.ExpFloat64()
	top, wantTop := Centre(got, v, factor, mean), math.Float32frombits(centreGeneric(want, v, factor, mean))
	for i, x := range append(got, top) {
		if y := append(want, wantTop)[i]; math.Float32bits(x) != math.Float32bits(y) && (x == x || y == y) {
			t.Fatalf("Centre of %v by %g, number %d: %g, want %g", v, factor, i, x, y)
		}
	}

	whole := n &^ 15
	random := make([]uint8, whole)
	for i := range random {
		random[i] = uint8(r.Uint32())
	}
	testSketch(t, random, float32(factor), v[:whole])

	if !Finite(v) {
		return // Encode promises nothing for it
	}
	for len(v)&(len(v)-1) != 0 { // the greatest power of two
		v = v[:len(v)&(len(v)-1)]
	}
	if len(v) > 0 {
		got, want = slices.Clone(v), slices.Clone(v)
		Hadamard(got, 0.5)
		hadamardGeneric(want, 0.5)
		for i, x := range got {
			if y := want[i]; math.Float32bits(x) != math.Float32bits(y) && (x == x || y == y) {
				t.Fatalf("Hadamard of %v, number %d: %g, want %g", v, i, x, y)
			}
		}
	}
	scale := float32(1)
	if top := Largest(v); top > 127 {
		scale = 127 / top
	}
	codes, wantCodes := make([]uint8, len(v)), make([]uint8, len(v))
	sum, squares := Encode(codes, v, scale)
	wantSum, wantSquares := encodeGeneric(wantCodes, v, scale)
	if !slices.Equal(codes, wantCodes) || sum != wantSum || squares != wantSquares {
		t.Fatalf("Encode of %v: %v, %d, %d, want %v, %d, %d", v, codes, sum, squares, wantCodes, wantSum, wantSquares)
	}
	for i, c := range codes {
		if d := float64(c) - 128 - math.RoundToEven(float64(v[i]*scale)); d != 0 {
			t.Fatalf("Encode of %g: %d", v[i]*scale, int(c)-128)
		}
	}
}

// testSketch compares the kernel of Sketch with the generic one, and both with Dot64.
func testSketch(t *testing.T, codes []uint8, scale float32, from []float32) {
	t.Helper()
	got, want := slices.Repeat([]uint16{9}, len(codes)/16), make([]uint16, len(codes)/16)
	squares, sum, along := Sketch(got, codes, scale, from)
	wantSquares, wantSum, wantAlong := sketchGeneric(want, codes, scale, from)
	if !slices.Equal(got, want) {
		t.Fatalf("signs of %v times %g less %v: %x, want %x", codes, scale, from, got, want)
	}
	diffs, signs := make([]float32, len(codes)), make([]float32, len(codes))
	for i, c := range codes {
		diffs[i], signs[i] = float32(float32(scale*float32(int(c)-128))-from[i]), -1
		if up := diffs[i] > 0; up != (got[i/16]>>(i%16)&1 == 1) {
			t.Fatalf("sign of difference %g: %x", diffs[i], got[i/16])
		} else if up {
			signs[i] = 1
		}
	}
	for i, x := range []float64{squares, sum, along} {
		for _, y := range []float64{[]float64{wantSquares, wantSum, wantAlong}[i],
			[]float64{Dot64(diffs, diffs), Dot64(diffs, signs), Dot64(from, signs)}[i]} {
			if math.Float64bits(x) != math.Float64bits(y) && (x == x || y == y) {
				t.Fatalf("sum %d of %v times %g less %v: %g, want %g", i, codes, scale, from, x, y)
			}
		}
	}
}

// TestPoints compares at every length up to a few vectors, on numbers of every
// kind and on halves, which are rounded to even ones.
func TestPoints(t *testing.T) {
	odd := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 0.5, 1.5, -2.5, math.SmallestNonzeroFloat32, math.MaxFloat32,
		-math.MaxFloat32, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}
	forEach(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		for n := range 300 {
			signs := make([]uint32, n)
			for i := range signs {
				signs[i] = r.Uint32()
			}
			v, special, halves := randomFloats(r, n), randomFloats(r, n), randomFloats(r, n)
			for i := range n {
				if r.IntN(4) == 0 {
					special[i] = odd[r.IntN(len(odd))]
				}
				halves[i] = float32(r.IntN(509)-254) / 2
			}
			for _, v := range [][]float32{v, special, halves} {
				testPoint(t, v, signs, r.Uint32())
			}
		}
	})
}

func TestPointPanics(t *testing.T) {
	for name, f := range map[string]func(){
		"Hadamard of nothing": func() { Hadamard(nil, 1) },
		"Hadamard of 3":       func() { Hadamard(make([]float32, 3), 1) },
		"Flip":                func() { Flip(make([]float32, 3), make([]uint32, 2)) },
		"Centre":              func() { Centre(make([]float32, 3), make([]float32, 3), 1, make([]float64, 2)) },
		"Encode":              func() { Encode(make([]uint8, 2), make([]float32, 3), 1) },
		"Sketch":              func() { Sketch(make([]uint16, 1), make([]uint8, 15), 1, make([]float32, 15)) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}

func BenchmarkPoint(b *testing.B) {
	for _, l := range available() {
		b.Run(l.String(), func(b *testing.B) {
			use(b, l)
			r := rand.New(rand.NewPCG(5, 6))
			const dim = 768
			v, dst, codes := randomFloats(r, dim), make([]float32, dim), make([]uint8, dim)
			mean, signs := make([]float64, dim), make([]uint32, dim)
			b.Run("Hadamard-512", func(b *testing.B) {
				for b.Loop() {
					Hadamard(dst[:512], 1)
				}
			})
			b.Run("Flip", func(b *testing.B) {
				for b.Loop() {
					Flip(dst, signs)
				}
			})
			b.Run("Largest", func(b *testing.B) {
				for b.Loop() {
					Largest(v)
				}
			})
			b.Run("Centre", func(b *testing.B) {
				for b.Loop() {
					Centre(dst, v, 1, mean)
				}
			})
			b.Run("Encode", func(b *testing.B) {
				for b.Loop() {
					Encode(codes, v, 0x1p-12)
				}
			})
			b.Run("Sketch", func(b *testing.B) {
				plus := make([]uint16, dim/16)
				for b.Loop() {
					Sketch(plus, codes, 0x1p-7, v)
				}
			})
		})
	}
}
