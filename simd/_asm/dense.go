package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// panelColumns is PanelColumns of package simd: the columns of a panel, which lie side by side.
const panelColumns = 32

// columns returns the columns of a panel that one call computes: two vectors.
func (s isa) columns() int { return 2 * s.lanes() }

// height returns the most rows that a kernel of matrix products works on at once. The sums fill the
// registers but for two vectors of the panel and two of rows.
func (s isa) height() int {
	if s.bytes == 64 {
		return 14
	}
	return 6
}

// A mulKernel multiplies rows with two vectors of columns of a panel. Each row is broadcast word by
// word, so that no sum goes across lanes and a result depends on its row alone. This is the inner
// kernel of Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS 34
// (2008), with columns in vectors.
type mulKernel struct {
	isa
	name string
	dst  GPVirtual
	x    GPVirtual

	dstStride, xStride GPVirtual // in bytes

	start  func(h int)
	add    func(word, column int, sum, tmp VecPhysical)
	finish func(h int)
	next   func(h int) // after the results of h rows are stored
}

// The registers: of the sum of row r and vector v, of a vector of the panel, and two more.
func (k *mulKernel) sum(r, v int) int { return 2*r + v }
func (k *mulKernel) column(v int) int { return 2*k.height() + v }
func (k *mulKernel) tmp(i int) int    { return 2*k.height() + 2 + i }

// rowsOf returns pointers to every third of h rows.
func rowsOf(base, stride GPVirtual, h int) []GPVirtual {
	p := []GPVirtual{GP64()}
	MOVQ(base, p[0])
	if h > 3 {
		three := GP64()
		LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, three)
		for i := 3; i < h; i += 3 {
			q := GP64()
			LEAQ(Mem{Base: p[len(p)-1], Index: three, Scale: 1}, q)
			p = append(p, q)
		}
	}
	return p
}

func atRow(p []GPVirtual, stride GPVirtual, r, disp int) Mem {
	m := Mem{Base: p[r/3], Disp: disp}
	if r%3 > 0 {
		m.Index, m.Scale = stride, uint8(r%3)
	}
	return m
}

const panelAhead = 16 // steps by which a panel is prefetched

// generate generates the loop over all rows: as many as the argument height at once, and the rest.
func (k *mulKernel) generate() {
	k.dst, k.x = gp(Param("dst").Base()), gp(Param("x").Base())
	k.dstStride, k.xStride = gp(Param("dstStride")), gp(Param("xStride"))
	n := gp(Param("n"))
	SHLQ(U8(2), k.dstStride)
	SHLQ(U8(2), k.xStride)
	Label("next")
	h := gp(Param("height"))
	CMPQ(h, n)
	CMOVQGT(n, h)
	SUBQ(h, n)
	for i := k.height(); i > 0; i-- {
		CMPQ(h, U32(i))
		JEQ(LabelRef(fmt.Sprintf("rows%d", i)))
	}
	end()
	for i := k.height(); i > 0; i-- {
		k.rows(i)
	}
}

func (k *mulKernel) rows(h int) {
	label := func(name string) string { return fmt.Sprintf("%s%d", name, h) }
	Label(label("rows"))
	k.start(h)
	p, steps := gp(Param("panel").Base()), gp(Param("steps"))
	x := rowsOf(k.x, k.xStride, h)
	step := func(i int) {
		for v := range 2 {
			loadVector(k.isa, Mem{Base: p, Disp: i*4*panelColumns + v*k.bytes}, k.vec(k.column(v)))
			if v*k.bytes%64 == 0 {
				PREFETCHT0(Mem{Base: p, Disp: (i+panelAhead)*4*panelColumns + v*k.bytes})
			}
		}
		for r := range h {
			if k.bytes == 64 {
				word := k.tmp(r % 2)
				VBROADCASTSS(atRow(x, k.xStride, r, 4*i), k.vec(word))
				for v := range 2 {
					k.add(word, k.column(v), k.vec(k.sum(r, v)), nil)
				}
				continue
			}
			VBROADCASTSS(atRow(x, k.xStride, r, 4*i), k.vec(k.tmp(0)))
			for v := range 2 {
				k.add(k.tmp(0), k.column(v), k.vec(k.sum(r, v)), k.vec(k.tmp(1)))
			}
		}
	}
	const unrolled = 4
	SUBQ(U32(unrolled), steps)
	JL(LabelRef(label("last")))
	Label(label("steps"))
	for i := range unrolled {
		step(i)
	}
	ADDQ(U32(unrolled*4*panelColumns), p)
	for _, q := range x {
		ADDQ(U32(unrolled*4), q)
	}
	SUBQ(U32(unrolled), steps)
	JGE(LabelRef(label("steps")))
	Label(label("last"))
	ADDQ(U32(unrolled), steps)
	JLE(LabelRef(label("finish")))
	Label(label("step"))
	step(0)
	ADDQ(U32(4*panelColumns), p)
	for _, q := range x {
		ADDQ(U32(4), q)
	}
	DECQ(steps)
	JNZ(LabelRef(label("step")))
	Label(label("finish"))
	k.finish(h)
	to := rowsOf(k.dst, k.dstStride, h)
	for r := range h {
		for v := range 2 {
			VMOVUPS(k.vec(k.sum(r, v)), atRow(to, k.dstStride, r, v*k.bytes))
		}
	}
	for _, each := range [][2]GPVirtual{{k.dst, k.dstStride}, {k.x, k.xStride}} {
		skip := GP64()
		IMUL3Q(U32(h), each[1], skip)
		ADDQ(skip, each[0])
	}
	if k.next != nil {
		k.next(h)
	}
	JMP(LabelRef("next"))
}

// mulFloats generates the kernel of Matrix.Mul: sums begin with the bias.
func mulFloats(s isa) {
	begin(s, "mulFloats", "func(dst []float32, dstStride int, x []float32, xStride int, panel, bias []float32, n, steps, height int)",
		"is the kernel of Matrix.Mul for two vectors of columns.")
	k := &mulKernel{isa: s}
	k.start = func(h int) {
		bias := gp(Param("bias").Base())
		for v := range 2 {
			VMOVUPS(Mem{Base: bias, Disp: v * s.bytes}, s.vec(k.sum(0, v)))
			for r := 1; r < h; r++ {
				VMOVAPS(s.vec(k.sum(0, v)), s.vec(k.sum(r, v)))
			}
		}
	}
	k.add = func(word, column int, sum, _ VecPhysical) { VFMADD231PS(s.vec(column), s.vec(word), sum) }
	k.finish = func(int) {}
	k.generate()
}

// mulCodes generates the kernel of CodeMatrix.Mul. A step is four codes under AVX-512, and two of
// 16 bits under AVX2, where one-byte products would saturate.
func mulCodes(s isa) {
	begin(s, "mulCodes", "func(dst []float32, dstStride int, x []uint32, xStride int, panel []uint32, sums []int32, scales, bias []float32, zeros []int32, units []float32, n, steps, height int)",
		"is the kernel of CodeMatrix.Mul for two vectors of columns.")
	k := &mulKernel{isa: s}
	zeros, units := gp(Param("zeros").Base()), gp(Param("units").Base())
	k.start = func(h int) {
		for i := range 2 * h {
			s.zero(i)
		}
	}
	k.add = func(word, column int, sum, tmp VecPhysical) {
		if s.bytes == 64 {
			VPDPBUSD(s.vec(column), s.vec(word), sum)
			return
		}
		VPMADDWD(s.vec(column), s.vec(word), tmp)
		VPADDD(tmp, sum, sum)
	}
	k.finish = func(h int) {
		sums, scales, bias := gp(Param("sums").Base()), gp(Param("scales").Base()), gp(Param("bias").Base())
		zero, product := s.vec(k.tmp(0)), s.vec(k.tmp(1))
		for r := range h {
			VPBROADCASTD(Mem{Base: zeros, Disp: 4 * r}, zero)
			for v := range 2 {
				VPMULLD(Mem{Base: sums, Disp: v * s.bytes}, zero, product)
				VPSUBD(product, s.vec(k.sum(r, v)), s.vec(k.sum(r, v)))
			}
			VBROADCASTSS(Mem{Base: units, Disp: 4 * r}, zero)
			for v := range 2 {
				x := s.vec(k.sum(r, v))
				VCVTDQ2PS(x, x)
				VMULPS(Mem{Base: scales, Disp: v * s.bytes}, x, x)
				VMULPS(zero, x, x)
				VADDPS(Mem{Base: bias, Disp: v * s.bytes}, x, x)
			}
		}
	}
	k.next = func(h int) {
		ADDQ(U32(4*h), zeros)
		ADDQ(U32(4*h), units)
	}
	k.generate()
}

// constant returns a vector of one float32.
var constant = func() func(v float32) Mem {
	known := map[uint32]Mem{}
	return func(v float32) Mem {
		bits := math.Float32bits(v)
		m, ok := known[bits]
		if !ok {
			m = GLOBL(fmt.Sprintf("float%08x", bits), RODATA|NOPTR)
			for i := range 16 {
				DATA(4*i, U32(bits))
			}
			known[bits] = m
		}
		return m
	}
}()

// horner sets dst to the polynomial with the given coefficients, the constant first, at x.
func horner(x, dst VecPhysical, c []float32) {
	VMOVUPS(constant(c[len(c)-1]), dst)
	for i := len(c) - 2; i >= 0; i-- {
		VFMADD213PS(constant(c[i]), x, dst)
	}
}

// exp replaces x by its exponential, with a relative error below 2^-22; below -87 it is that of
// -87. It uses t, u and v. x is k*ln 2 + r with |r| <= ln 2 / 2, and exp(r) is 1 + r + r^2*q(r),
// where q is a minimax polynomial. NaN stays NaN.
func exp(s isa, x, t, u, v VecPhysical) {
	const ln2High = 0x1.62e4p-1 // its products with whole numbers up to 256 are exact
	VMOVUPS(constant(-87), t)
	VMAXPS(x, t, x)
	VMULPS(constant(1/math.Ln2), x, t)
	if s.bytes == 64 {
		VRNDSCALEPS(U8(0), t, t)
	} else {
		VROUNDPS(U8(0), t, t)
	}
	VFNMADD231PS(constant(ln2High), t, x)
	VFNMADD231PS(constant(float32(math.Ln2-ln2High)), t, x)
	horner(x, u, []float32{0.49999993, 0.16666519, 0.04166841, 0.0083689, 0.00138142})
	VMULPS(x, x, v)
	VFMADD213PS(x, v, u)
	if s.bytes == 64 {
		VADDPS(constant(1), u, u)
		VSCALEFPS(t, u, x)
		return
	}
	VADDPS(constant(1), u, u)
	VCVTPS2DQ(t, t)
	VPSLLD(U8(23), t, t)
	VPADDD(t, u, x)
}

// A sweep goes through a slice of float32 vector by vector and leaves the last, partial vector to a
// mask.
type sweep struct {
	isa
	n    GPVirtual // floats
	tail tail
}

// newSweep uses vector register mask under AVX2.
func newSweep(s isa, n GPVirtual, mask int) sweep {
	rest := GP64()
	MOVQ(n, rest)
	ANDQ(U32(s.lanes()-1), rest)
	return sweep{s, n, newTail(s, rest, mask)}
}

// each calls f for every vector, at byte offset off; the last one may be partial.
func (w sweep) each(name string, f func(off GPVirtual, partial bool)) {
	off, whole := GP64(), GP64()
	XORQ(off, off)
	MOVQ(w.n, whole)
	ANDQ(I32(-w.lanes()), whole)
	SHLQ(U8(2), whole)
	Label(name)
	CMPQ(off, whole)
	JEQ(LabelRef(name + "_rest"))
	f(off, false)
	ADDQ(U32(w.bytes), off)
	JMP(LabelRef(name))
	Label(name + "_rest")
	TESTQ(U32(w.lanes()-1), w.n)
	JZ(LabelRef(name + "_end"))
	f(off, true)
	Label(name + "_end")
}

func (w sweep) load(m Mem, i int, partial bool) {
	if partial {
		w.tail.load(m, i)
	} else {
		VMOVUPS(m, w.vec(i))
	}
}

func (w sweep) store(i int, m Mem, partial bool) {
	switch {
	case !partial:
		VMOVUPS(w.vec(i), m)
	case w.bytes == 64:
		VMOVUPS(w.vec(i), K1, m)
	default:
		VMASKMOVPS(w.vec(i), w.tail.mask, m)
	}
}

// only clears the lanes of register i beyond the slice.
func (w sweep) only(i int, partial bool) {
	switch {
	case !partial:
	case w.bytes == 64:
		VMOVAPS_Z(w.vec(i), K1, w.vec(i))
	default:
		VANDPS(w.tail.mask, w.vec(i), w.vec(i))
	}
}

// spread reduces the lanes of register i with an operation and puts the result into all of them. It
// uses register t.
func (s isa) spread(i, t int, op func(...Op)) {
	if s.bytes == 64 {
		VEXTRACTF64X4(U8(1), s.vec(i), ymm[t])
		op(ymm[t], ymm[i], ymm[i])
	}
	VEXTRACTF128(U8(1), ymm[i], ymm[t].AsX())
	op(ymm[t].AsX(), ymm[i].AsX(), ymm[i].AsX())
	VPERMILPS(U8(0b01_00_11_10), ymm[i].AsX(), ymm[t].AsX())
	op(ymm[t].AsX(), ymm[i].AsX(), ymm[i].AsX())
	VPERMILPS(U8(0b10_11_00_01), ymm[i].AsX(), ymm[t].AsX())
	op(ymm[t].AsX(), ymm[i].AsX(), ymm[i].AsX())
	VBROADCASTSS(ymm[i].AsX(), s.vec(i))
}

func at(base, off GPVirtual) Mem { return Mem{Base: base, Index: off, Scale: 1} }

// softmax generates the kernel of Softmax.
func softmax(s isa) {
	begin(s, "softmax", "func(x []float32, scale float32)", "is the kernel of Softmax.")
	p, n := gp(Param("x").Base()), gp(Param("x").Len())
	const most, sum, scale, x, mask = 0, 1, 2, 3, 7
	w := newSweep(s, n, mask)
	VBROADCASTSS(param("scale"), s.vec(scale))
	VBROADCASTSS(Mem{Base: p}, s.vec(most))
	w.each("most", func(off GPVirtual, partial bool) {
		w.load(at(p, off), x, partial)
		switch {
		case !partial:
			VMAXPS(s.vec(most), s.vec(x), s.vec(most))
		case s.bytes == 64:
			VMAXPS(s.vec(most), s.vec(x), K1, s.vec(most))
		default:
			VMAXPS(s.vec(most), s.vec(x), s.vec(x))
			VBLENDVPS(w.tail.mask, s.vec(x), s.vec(most), s.vec(most))
		}
	})
	s.spread(most, x, func(o ...Op) { VMAXPS(o...) })
	s.zero(sum)
	w.each("exp", func(off GPVirtual, partial bool) {
		w.load(at(p, off), x, partial)
		VSUBPS(s.vec(most), s.vec(x), s.vec(x))
		VMULPS(s.vec(scale), s.vec(x), s.vec(x))
		exp(s, s.vec(x), s.vec(4), s.vec(5), s.vec(6))
		w.only(x, partial)
		VADDPS(s.vec(x), s.vec(sum), s.vec(sum))
		w.store(x, at(p, off), partial)
	})
	s.spread(sum, x, func(o ...Op) { VADDPS(o...) })
	VMOVUPS(constant(1), s.vec(x))
	VDIVPS(s.vec(sum), s.vec(x), s.vec(sum))
	w.each("divide", func(off GPVirtual, partial bool) {
		w.load(at(p, off), x, partial)
		VMULPS(s.vec(sum), s.vec(x), s.vec(x))
		w.store(x, at(p, off), partial)
	})
	end()
}

// gelu generates the kernel of GELU: x*P(x), with the normal distribution function P, is max(x, 0) -
// |x|*exp(p(|x|)), where p is a minimax polynomial of the logarithm of P(-|x|). It is weighted so
// that the product with |x| errs by at most 7e-9. Beyond 6, where it falls faster than the
// logarithm, the product is below 1e-8.
func gelu(s isa) {
	begin(s, "gelu", "func(x []float32)", "is the kernel of GELU.")
	p, n := gp(Param("x").Base()), gp(Param("x").Len())
	const x, t, e, zero, mask = 0, 1, 2, 6, 7
	w := newSweep(s, n, mask)
	s.zero(zero)
	w.each("vector", func(off GPVirtual, partial bool) {
		w.load(at(p, off), x, partial)
		VMOVUPS(constant(math.Float32frombits(0x7fffffff)), s.vec(t))
		VANDPS(s.vec(x), s.vec(t), s.vec(t))
		VMINPS(constant(15), s.vec(t), s.vec(t))
		horner(s.vec(t), s.vec(e), []float32{-6.9314641e-01, -7.9789782e-01, -3.1823456e-01, -3.6538702e-02,
			5.0831172e-03, -2.2412570e-04, -7.9338686e-05, 1.7386261e-05, -1.1716837e-06})
		exp(s, s.vec(e), s.vec(3), s.vec(4), s.vec(5))
		VMAXPS(s.vec(x), s.vec(zero), s.vec(x))
		VFNMADD231PS(s.vec(e), s.vec(t), s.vec(x))
		w.store(x, at(p, off), partial)
	})
	end()
}

// geluTanh generates the kernel of GELUTanh: x/2*(1+tanh(u)) is x/(1+exp(-2u)).
func geluTanh(s isa) {
	begin(s, "geluTanh", "func(x []float32)", "is the kernel of GELUTanh.")
	p, n := gp(Param("x").Base()), gp(Param("x").Len())
	const x, e, mask = 0, 1, 7
	w := newSweep(s, n, mask)
	root := math.Sqrt(2 / math.Pi)
	w.each("vector", func(off GPVirtual, partial bool) {
		w.load(at(p, off), x, partial)
		VMULPS(s.vec(x), s.vec(x), s.vec(2))
		VMOVUPS(constant(float32(-2*root)), s.vec(e))
		VFMADD231PS(constant(float32(-2*root*0.044715)), s.vec(2), s.vec(e))
		VMULPS(s.vec(x), s.vec(e), s.vec(e))
		VMINPS(constant(87), s.vec(e), s.vec(e))
		exp(s, s.vec(e), s.vec(2), s.vec(3), s.vec(4))
		VADDPS(constant(1), s.vec(e), s.vec(e))
		VDIVPS(s.vec(e), s.vec(x), s.vec(x))
		w.store(x, at(p, off), partial)
	})
	end()
}

// addNorm generates the kernel of AddNorm, in three passes over a row that is in the first cache.
func addNorm(s isa) {
	begin(s, "addNorm", "func(x, y, w, b []float32, epsilon float32)", "is the kernel of AddNorm.")
	px, py, n := gp(Param("x").Base()), gp(Param("y").Base()), gp(Param("x").Len())
	pw, pb := gp(Param("w").Base()), gp(Param("b").Base())
	const sum, square, count, x, y, mask = 0, 1, 2, 3, 4, 7
	k := newSweep(s, n, mask)
	VCVTSI2SSQ(n, X5, X5)
	VBROADCASTSS(X5, s.vec(count))
	s.zero(sum)
	k.each("sum", func(off GPVirtual, partial bool) {
		k.load(at(px, off), x, partial)
		k.load(at(py, off), y, partial)
		VADDPS(s.vec(y), s.vec(x), s.vec(x))
		VADDPS(s.vec(x), s.vec(sum), s.vec(sum))
		k.store(x, at(px, off), partial)
	})
	s.spread(sum, x, func(o ...Op) { VADDPS(o...) })
	VDIVPS(s.vec(count), s.vec(sum), s.vec(sum))
	s.zero(square)
	k.each("square", func(off GPVirtual, partial bool) {
		k.load(at(px, off), x, partial)
		VSUBPS(s.vec(sum), s.vec(x), s.vec(x))
		k.only(x, partial)
		VFMADD231PS(s.vec(x), s.vec(x), s.vec(square))
	})
	s.spread(square, x, func(o ...Op) { VADDPS(o...) })
	VDIVPS(s.vec(count), s.vec(square), s.vec(square))
	VBROADCASTSS(param("epsilon"), s.vec(x))
	VADDPS(s.vec(x), s.vec(square), s.vec(square))
	VSQRTPS(s.vec(square), s.vec(square))
	VMOVUPS(constant(1), s.vec(x))
	VDIVPS(s.vec(square), s.vec(x), s.vec(square))
	k.each("scale", func(off GPVirtual, partial bool) {
		k.load(at(px, off), x, partial)
		VSUBPS(s.vec(sum), s.vec(x), s.vec(x))
		VMULPS(s.vec(square), s.vec(x), s.vec(x))
		k.load(at(pw, off), y, partial)
		VMULPS(s.vec(y), s.vec(x), s.vec(x))
		k.load(at(pb, off), y, partial)
		VADDPS(s.vec(y), s.vec(x), s.vec(x))
		k.store(x, at(px, off), partial)
	})
	end()
}

// extent generates the kernel that finds the least and the largest of whole vectors, and 0.
func extent(s isa) {
	begin(s, "extent", "func(x []float32) (low, high float32)", "returns the least and the largest of 0 and whole vectors of 16 floats.")
	p, n := gp(Param("x").Base()), gp(Param("x").Len())
	low, high, x := s.vec(0), s.vec(1), s.vec(2)
	s.zero(0)
	s.zero(1)
	Label("vector")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	for i := 0; i < 64; i += s.bytes {
		VMOVUPS(Mem{Base: p, Disp: i}, x)
		VMINPS(low, x, low)
		VMAXPS(high, x, high)
	}
	ADDQ(U32(64), p)
	SUBQ(U32(16), n)
	JMP(LabelRef("vector"))
	Label("done")
	s.spread(0, 2, func(o ...Op) { VMINPS(o...) })
	s.spread(1, 2, func(o ...Op) { VMAXPS(o...) })
	Store(X0, ReturnIndex(0))
	Store(X1, ReturnIndex(1))
	end()
}

// toCodes generates the kernel that codes whole vectors of 16 floats: into bytes under AVX-512 and
// into 16-bit numbers under AVX2.
func toCodes(s isa) {
	begin(s, "toCodes", "func(dst []uint32, x []float32, per float32, zero int32)", "codes whole vectors of 16 floats.")
	dst, p, n := gp(Param("dst").Base()), gp(Param("x").Base()), gp(Param("x").Len())
	const per, zero, none, x, y, most = 0, 1, 2, 3, 4, 5
	VBROADCASTSS(param("per"), s.vec(per))
	word := GP32()
	MOVL(param("zero"), word)
	VMOVD(word, ymm[zero].AsX())
	VPBROADCASTD(ymm[zero].AsX(), s.vec(zero))
	s.zero(none)
	s.fill(most, 0x00ff00ff)
	Label("vector")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	if s.bytes == 64 {
		VMULPS(Mem{Base: p}, s.vec(per), s.vec(x))
		VCVTPS2DQ(s.vec(x), s.vec(x))
		VPADDD(s.vec(zero), s.vec(x), s.vec(x))
		VPMAXSD(s.vec(none), s.vec(x), s.vec(x))
		VPMOVUSDB(s.vec(x), Mem{Base: dst})
		ADDQ(U32(16), dst)
	} else {
		for i, to := range []int{x, y} {
			VMULPS(Mem{Base: p, Disp: 32 * i}, s.vec(per), s.vec(to))
			VCVTPS2DQ(s.vec(to), s.vec(to))
			VPADDD(s.vec(zero), s.vec(to), s.vec(to))
		}
		VPACKUSDW(s.vec(y), s.vec(x), s.vec(x)) // negative numbers become 0
		VPERMQ(U8(0b11_01_10_00), s.vec(x), s.vec(x))
		VPMINUW(s.vec(most), s.vec(x), s.vec(x))
		VMOVDQU(s.vec(x), Mem{Base: dst})
		ADDQ(U32(32), dst)
	}
	ADDQ(U32(64), p)
	SUBQ(U32(16), n)
	JMP(LabelRef("vector"))
	Label("done")
	end()
}

// dense generates the kernels of dense.go.
func dense(s isa) {
	mulFloats(s)
	mulCodes(s)
	softmax(s)
	gelu(s)
	geluTanh(s)
	addNorm(s)
	extent(s)
	toCodes(s)
}
