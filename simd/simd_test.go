package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// forEach runs f once for every implementation this machine can run.
func forEach(t *testing.T, f func(t *testing.T)) {
	for _, l := range available() {
		t.Run(l.String(), func(t *testing.T) {
			use(t, l)
			f(t)
		})
	}
}

// use switches the implementation until the test or benchmark is over.
func use(tb testing.TB, l level) {
	old := active
	active = l
	tb.Cleanup(func() { active = old })
}

// lengths are the vector lengths that tests go through.
var lengths = append(span(0, 300), 768, 1000, 1536, 4096)

func span(lo, hi int) (s []int) {
	for i := lo; i <= hi; i++ {
		s = append(s, i)
	}
	return s
}

// kinds are the distributions that vectors are drawn from. The sum of the
// squares of 5000 values stays below math.MaxFloat32/2 in each.
var kinds = []struct {
	name string
	draw func(r *rand.Rand) float32
}{
	{"normal", func(r *rand.Rand) float32 { return float32(r.NormFloat64()) }},
	{"positive", func(r *rand.Rand) float32 { return r.Float32() }},
	{"scales", func(r *rand.Rand) float32 { return float32(math.Ldexp(r.NormFloat64(), r.IntN(60)-40)) }},
	{"huge", func(r *rand.Rand) float32 { return float32(math.Ldexp(r.Float64()*2-1, 56)) }},
	{"underflow", func(r *rand.Rand) float32 { return float32(math.Ldexp(r.NormFloat64(), -r.IntN(20)-65)) }},
	{"denormal", func(r *rand.Rand) float32 { return math.Float32frombits(r.Uint32() & 0x807fffff) }},
}

// source fills vectors, each at its own distance from an aligned address.
type source struct {
	r    *rand.Rand
	draw func(r *rand.Rand) float32
}

func newSource(draw func(r *rand.Rand) float32) source {
	return source{rand.New(rand.NewPCG(1, 2)), draw}
}

// vector returns n values that begin offset floats into an allocation and are
// surrounded by NaNs, which show up in any sum they get into.
func (s source) vector(n, offset int) []float32 {
	a := make([]float32, offset+n+64)
	for i := range a {
		a[i] = float32(math.NaN())
	}
	a = a[offset : offset+n]
	for i := range a {
		a[i] = s.draw(s.r)
	}
	return a
}

// dotError and l2Error return the error of got and what ErrorBound allows.
func dotError(a, b []float32, got float32) (err, bound float64) {
	norms := math.Sqrt(dot64Generic(a, a)) * math.Sqrt(dot64Generic(b, b))
	err = math.Abs(float64(got) - dot64Generic(a, b))
	return err, ErrorBound(len(a))*norms + float64(len(a))*0x1p-149
}

func l2Error(a, b []float32, got float32) (err, bound float64) {
	exact := l264Generic(a, b)
	return math.Abs(float64(got) - exact), ErrorBound(len(a))*exact + float64(len(a))*0x1p-149
}

func TestPairs(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for _, k := range kinds {
			s := newSource(k.draw)
			for _, n := range lengths {
				for offset := range 8 {
					a, b := s.vector(n, offset), s.vector(n, offset*3%8)
					if err, bound := dotError(a, b, Dot(a, b)); !(err <= bound) {
						t.Fatalf("Dot, %s, %d components, offset %d: error %g above %g", k.name, n, offset, err, bound)
					}
					if err, bound := l2Error(a, b, L2(a, b)); !(err <= bound) {
						t.Fatalf("L2, %s, %d components, offset %d: error %g above %g", k.name, n, offset, err, bound)
					}
				}
			}
		}
	})
}

func TestRows(t *testing.T) {
	kernels := []struct {
		name string
		rows func(dst, q, rows []float32)
		err  func(a, b []float32, got float32) (err, bound float64)
	}{
		{"DotRows", DotRows, dotError},
		{"L2Rows", L2Rows, l2Error},
	}
	forEach(t, func(t *testing.T) {
		for _, k := range kernels {
			for _, dim := range lengths {
				for offset := range 8 {
					s := newSource(kinds[(dim+offset)%len(kinds)].draw)
					n := (dim + 5*offset) % 14
					q, rows := s.vector(dim, offset), s.vector(n*dim, offset*5%8)
					out := s.vector(n+2, offset)
					before, after := out[0], out[n+1]
					dst := out[1 : n+1]
					k.rows(dst, q, rows)
					if out[0] != before || out[n+1] != after {
						t.Fatalf("%s, dimension %d, %d rows: wrote beside dst", k.name, dim, n)
					}
					for i, got := range dst {
						row := rows[i*dim : (i+1)*dim]
						if err, bound := k.err(q, row, got); !(err <= bound) {
							t.Fatalf("%s, dimension %d, row %d of %d: error %g above %g", k.name, dim, i, n, err, bound)
						}
						var alone [1]float32
						if k.rows(alone[:], q, row); math.Float32bits(alone[0]) != math.Float32bits(got) {
							t.Fatalf("%s, dimension %d, row %d of %d: %g, but alone %g", k.name, dim, i, n, got, alone[0])
						}
					}
				}
			}
		}
	})
}

// TestManyRows crosses the limit of rows per call of the kernels.
func TestManyRows(t *testing.T) {
	const dim = 100
	n := 2*rowsPerCall(dim) + 3
	s := newSource(kinds[0].draw)
	q, rows := s.vector(dim, 0), s.vector(n*dim, 0)
	forEach(t, func(t *testing.T) {
		dot, l2 := make([]float32, n), make([]float32, n)
		DotRows(dot, q, rows)
		L2Rows(l2, q, rows)
		for i := range n {
			var want [2]float32
			DotRows(want[:1], q, rows[i*dim:(i+1)*dim])
			L2Rows(want[1:], q, rows[i*dim:(i+1)*dim])
			if got := [2]float32{dot[i], l2[i]}; got != want {
				t.Fatalf("row %d: %v, want %v", i, got, want)
			}
		}
	})
}

// TestCanonical compares with the definition, and with products fused into the
// sum for Dot64, which must make no difference.
func TestCanonical(t *testing.T) {
	fused := func(a, b []float32) float64 {
		var l [8]float64
		for i := range a {
			l[i%8] = math.FMA(float64(a[i]), float64(b[i]), l[i%8])
		}
		return sumLanes(&l)
	}
	finite := func(r *rand.Rand) float32 { // any finite value
		for {
			if x := math.Float32frombits(r.Uint32()); finiteGeneric([]float32{x}) {
				return x
			}
		}
	}
	forEach(t, func(t *testing.T) {
		for _, k := range append(kinds, struct {
			name string
			draw func(r *rand.Rand) float32
		}{"finite", finite}) {
			s := newSource(k.draw)
			for _, n := range lengths {
				for offset := range 8 {
					a, b := s.vector(n, offset), s.vector(n, offset*3%8)
					if got, want := Dot64(a, b), dot64Generic(a, b); !sameBits(got, want) || !sameBits(got, fused(a, b)) {
						t.Fatalf("Dot64, %s, %d components, offset %d: %x, want %x", k.name, n, offset, got, want)
					}
					dot, square := DotSquare64(a, b, a)
					if !sameBits(dot, dot64Generic(a, b)) || !sameBits(square, dot64Generic(b, b)) {
						t.Fatalf("DotSquare64, %s, %d components, offset %d: %x and %x, want %x and %x", k.name, n, offset,
							dot, square, dot64Generic(a, b), dot64Generic(b, b))
					}
					if got, want := L264(a, b), l264Generic(a, b); !sameBits(got, want) {
						t.Fatalf("L264, %s, %d components, offset %d: %x, want %x", k.name, n, offset, got, want)
					}
				}
			}
		}
	})
}

// sameBits reports whether x and y are the same, zeros told apart by sign and
// NaNs not told apart.
func sameBits(x, y float64) bool {
	return math.Float64bits(x) == math.Float64bits(y) || x != x && y != y
}

// TestCanonicalValues pins the bits, for other machines to compare with.
func TestCanonicalValues(t *testing.T) {
	state := uint32(1)
	vector := func(n int) []float32 {
		a := make([]float32, n)
		for i := range a {
			state = state*1664525 + 1013904223
			a[i] = float32(math.Ldexp(float64(int32(state)), -int(state>>8%16)))
		}
		return a
	}
	tests := []struct {
		n       int
		dot, l2 uint64
	}{
		{1, 0x42d65a58fbead900, 0x432015c824de0015},
		{7, 0x43b6d60ed395202b, 0x43bce2732f40c66b},
		{100, 0x43a3e768e1beff1f, 0x43fb89a0c3505428},
		{1536, 0x43d541d5f75eea71, 0x44361295d289a64a},
	}
	for _, test := range tests {
		a, b := vector(test.n), vector(test.n)
		forEach(t, func(t *testing.T) {
			dot, l2 := math.Float64bits(Dot64(a, b)), math.Float64bits(L264(a, b))
			if dot != test.dot || l2 != test.l2 {
				t.Errorf("%d components: {%#x, %#x}, want {%#x, %#x}", test.n, dot, l2, test.dot, test.l2)
			}
		})
	}
}

func TestFinite(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	bad := []float32{inf, -inf, nan, -nan, math.Float32frombits(0x7f800001), math.Float32frombits(0xffffffff)}
	good := []float32{0, float32(math.Copysign(0, -1)), math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, 1}
	forEach(t, func(t *testing.T) {
		for n := range 301 {
			for offset := range 8 {
				i := 0
				a := newSource(func(*rand.Rand) float32 { i++; return good[i%len(good)] }).vector(n, offset)
				if !Finite(a) {
					t.Fatalf("%d finite components, offset %d: not finite", n, offset)
				}
				for i := range a {
					old := a[i]
					a[i] = bad[(i+n)%len(bad)]
					if Finite(a) {
						t.Fatalf("%d components with %g at %d, offset %d: finite", n, a[i], i, offset)
					}
					a[i] = old
				}
			}
		}
	})
}

// testRange checks one call of a range kernel against the definition; dst must
// have room for more than the codes.
func testRange[T uint8 | uint16 | uint32](t *testing.T, kernel func([]uint64, []T, T, T), dst []uint64, codes []T, lo, span T) {
	want := slices.Clone(dst)
	for i, c := range codes {
		if c-lo <= span {
			want[i/64] |= 1 << (i % 64)
		}
	}
	if kernel(dst, codes, lo, span); !slices.Equal(dst, want) {
		t.Fatalf("%T, %d codes, lo %d, span %d:\n%x, want\n%x", codes, len(codes), lo, span, dst, want)
	}
}

func TestRange(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		for _, n := range lengths {
			for offset := range 8 {
				u8, u16, u32 := make([]uint8, n+offset), make([]uint16, n+offset), make([]uint32, n+offset)
				for i := range n + offset {
					x := r.Uint32()
					u8[i], u16[i], u32[i] = uint8(x), uint16(x), x
					if i%3 > 0 { // the ends of the range matter most
						u16[i], u32[i] = uint16(x%8)-4, x%8-4
					}
				}
				u8, u16, u32 = u8[offset:], u16[offset:], u32[offset:]
				for _, span := range []uint32{0, 1, 3, 0x7f, 0x80, r.Uint32(), math.MaxUint32} {
					for _, lo := range []uint32{0, 1, r.Uint32() % 8, math.MaxUint32, r.Uint32()} {
						dst := make([]uint64, n/64+2)
						for i := range dst {
							dst[i] = r.Uint64() & r.Uint64() & r.Uint64()
						}
						testRange(t, RangeU8, slices.Clone(dst), u8, uint8(lo), uint8(span))
						testRange(t, RangeU16, slices.Clone(dst), u16, uint16(lo), uint16(span))
						testRange(t, RangeU32, slices.Clone(dst), u32, lo, span)
					}
				}
			}
		}
	})
}

func TestErrorBound(t *testing.T) {
	for dim := range 5000 {
		if g := ErrorBound(dim); !(g >= float64(dim+2)*0x1p-24 && g < 1.001*float64(dim+3)*0x1p-24 && g < ErrorBound(dim+1)) {
			t.Fatalf("ErrorBound(%d) = %g", dim, g)
		}
	}
	for _, dim := range []int{1 << 24, 1 << 30, math.MaxInt32} {
		if g := ErrorBound(dim); !math.IsInf(g, 1) {
			t.Errorf("ErrorBound(%d) = %g, want +Inf", dim, g)
		}
	}
}

func TestLengths(t *testing.T) {
	v := make([]float32, 64)
	bits := make([]uint64, 2)
	tests := []struct {
		call string
		f    func()
	}{
		{"Dot", func() { Dot(v[:3], v[:4]) }},
		{"Dot", func() { Dot(v[:3], nil) }},
		{"L2", func() { L2(v[:4], v[:3]) }},
		{"Dot64", func() { Dot64(nil, v[:1]) }},
		{"L264", func() { L264(v, v[1:]) }},
		{"DotSquare64", func() { DotSquare64(v[:3], v[:4], nil) }},
		{"DotSquare64", func() { DotSquare64(v[:3], v[:3], v[:4]) }},
		{"DotRows", func() { DotRows(v[:2], v[:3], v[:7]) }},
		{"DotRows", func() { DotRows(v[:2], v[:3], v[:5]) }},
		{"L2Rows", func() { L2Rows(v[:2], nil, v[:1]) }},
		{"L2Rows", func() { L2Rows(nil, v[:2], v[:2]) }},
		{"RangeU8", func() { RangeU8(bits, make([]uint8, 129), 0, 0) }},
		{"RangeU16", func() { RangeU16(bits[:1], make([]uint16, 65), 0, 0) }},
		{"RangeU32", func() { RangeU32(nil, make([]uint32, 1), 0, 0) }},
	}
	forEach(t, func(t *testing.T) {
		for i, test := range tests {
			func() {
				defer func() {
					if msg := fmt.Sprint(recover()); !strings.HasPrefix(msg, "simd: "+test.call+" of ") {
						t.Errorf("call %d: panic %q does not name %s", i, msg, test.call)
					}
				}()
				test.f()
			}()
		}
	})
}

func TestEmpty(t *testing.T) {
	forEach(t, func(t *testing.T) {
		if Dot(nil, nil) != 0 || L2(nil, []float32{}) != 0 || !sameBits(Dot64(nil, nil), 0) || !sameBits(L264(nil, nil), 0) || !Finite(nil) {
			t.Error("empty vectors: want 0 and finite")
		}
		dst := []float32{1, 2, 3, 4, 5}
		DotRows(dst, nil, nil)
		if !slices.Equal(dst, make([]float32, 5)) {
			t.Errorf("DotRows of dimension 0: %v", dst)
		}
		dst[4] = 1
		L2Rows(dst, nil, nil)
		if !slices.Equal(dst, make([]float32, 5)) {
			t.Errorf("L2Rows of dimension 0: %v", dst)
		}
		DotRows(nil, dst, nil)
		RangeU8(nil, nil, 0, 255)
		RangeU16(nil, nil, 0, 0)
		RangeU32(nil, nil, 0, 0)
	})
}

// TestAllocations checks that arguments may live on the stack of the caller.
func TestAllocations(t *testing.T) {
	forEach(t, func(t *testing.T) {
		n := testing.AllocsPerRun(10, func() {
			var q, dst [8]float32
			var rows [64]float32
			var bits [1]uint64
			var codes [64]uint8
			DotRows(dst[:], q[:], rows[:])
			L2Rows(dst[:], q[:], rows[:])
			RangeU8(bits[:], codes[:], 0, 1)
			if Dot(q[:], dst[:])+L2(q[:], dst[:]) < 0 || Dot64(q[:], dst[:])+L264(q[:], dst[:]) < 0 || !Finite(q[:]) {
				t.Error("unexpected sign")
			}
		})
		if n != 0 {
			t.Errorf("%g allocations", n)
		}
	})
}

func TestMake(t *testing.T) {
	for _, dim := range span(1, 5000) {
		if a := Make(dim); len(a) != dim || uintptr(unsafe.Pointer(unsafe.SliceData(a)))%64 != 0 {
			t.Fatalf("Make(%d): %d components at %p", dim, len(a), unsafe.SliceData(a))
		}
	}
}

func TestName(t *testing.T) {
	if got := Name(); got != available()[0].String() {
		t.Errorf("Name() = %q", got)
	}
	t.Logf("available: %v", available())
}

// TestCosine64 compares with the definition, and its ends.
func TestCosine64(t *testing.T) {
	for _, tt := range []struct {
		a, b []float32
		want float64
	}{
		{nil, nil, 0}, {[]float32{0, 0}, []float32{1, 2}, 0}, {[]float32{1, 0}, []float32{0, 3}, 0},
		{[]float32{3, 4}, []float32{6, 8}, 1}, {[]float32{3, 4}, []float32{-3, -4}, -1}, {[]float32{1, 0}, []float32{3, 4}, 0.6},
		{[]float32{1e-30, 1e-30}, []float32{1e30, 1e30}, 1},
	} {
		if got := Cosine64(tt.a, tt.b); math.Abs(got-tt.want) > 1e-15 || got > 1 || got < -1 {
			t.Errorf("%v, %v: %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}
