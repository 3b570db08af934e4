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
				t.Fatalf("%d elements: %v, want %v", n, got, want)
			}
			for _, row := range []int{0, n / 3, n - 1} {
				var sum, all float64
				for i, x := range v {
					sum += float64(x) * float64(1-2*(bits.OnesCount(uint(row&i))&1))
					all += math.Abs(float64(x))
				}
				if math.Abs(float64(got[row])-sum*float64(scale)) > 1e-6*all {
					t.Errorf("%d elements, row %d: %g, want %g", n, row, got[row], sum*float64(scale))
				}
			}
		}
	})
}

// TestPoints compares every implementation with the generic one, at every length
// up to a few vectors and on numbers of every kind.
func TestPoints(t *testing.T) {
	odd := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 0.5, 1.5, -2.5, math.SmallestNonzeroFloat32, math.MaxFloat32,
		-math.MaxFloat32, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}
	forEach(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		for n := range 200 {
			for _, special := range []bool{false, true} {
				v := randomFloats(r, n)
				for i := range v {
					if special && r.IntN(4) == 0 {
						v[i] = odd[r.IntN(len(odd))]
					}
				}
				if got, want := Largest(v), math.Float32frombits(largestGeneric(v)); !sameFloats([]float32{got}, []float32{want}) {
					t.Fatalf("Largest(%v) = %g, want %g", v, got, want)
				}

				signs := make([]uint32, n)
				for i := range signs {
					signs[i] = r.Uint32() & (1 << 31)
				}
				got, want := slices.Clone(v), slices.Clone(v)
				Flip(got, signs)
				flipGeneric(want, signs)
				if !sameFloats(got, want) {
					t.Fatalf("Flip(%v, %x) = %v, want %v", v, signs, got, want)
				}

				mean := make([]float64, n)
				for i := range mean {
					mean[i] = r.NormFloat64()
				}
				factor := r.ExpFloat64()
				top, wantTop := Centre(got, v, factor, mean), math.Float32frombits(centreGeneric(want, v, factor, mean))
				for i, x := range got {
					if y := want[i]; math.Float32bits(x) != math.Float32bits(y) && (x == x || y == y) {
						t.Fatalf("Centre of %g: %g, want %g", v[i], x, y)
					}
				}
				if top != wantTop && (top == top || wantTop == wantTop) {
					t.Fatalf("Centre of %v: the largest is %g, want %g", v, top, wantTop)
				}
			}

			v := randomFloats(r, n)
			for i := range v {
				if r.IntN(4) == 0 {
					v[i] = float32(r.IntN(509)-254) / 2 // halves
				}
			}
			factor := float32(1)
			if top := Largest(v); top > 127 {
				factor = 127 / top
			}
			codes, want := make([]uint8, n), make([]uint8, n)
			sum, squares := Encode(codes, v, factor)
			wantSum, wantSquares := encodeGeneric(want, v, factor)
			if !slices.Equal(codes, want) || sum != wantSum || squares != wantSquares {
				t.Fatalf("Encode of %v: %v, %d, %d, want %v, %d, %d", v, codes, sum, squares, want, wantSum, wantSquares)
			}
			for i, c := range codes {
				if d := float64(c) - 128 - math.RoundToEven(float64(v[i]*factor)); d != 0 {
					t.Fatalf("Encode of %g: %d", v[i]*factor, int(c)-128)
				}
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
		})
	}
}
