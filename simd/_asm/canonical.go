package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// canonical generates dot64 or l264. The eight float64 lanes of the definition
// are one register under AVX-512 and two under AVX2. Zeros in the last, partial
// vector add +0 to a lane, which never holds -0, and so change nothing.
func canonical(s isa, f metric) {
	begin(s, string(f)+"64", "func(a, b []float32) float64", "is the canonical "+string(f)+" for "+s.name+".")
	a, b, n := gp(Param("a").Base()), gp(Param("b").Base()), gp(Param("a").Len())
	rest := GP64()
	MOVQ(n, rest)
	ANDQ(I32(7), rest)
	SUBQ(rest, n)
	sum := []VecPhysical{s.vec(0)}
	if s.bytes == 32 {
		sum = append(sum, s.vec(1))
	}
	for i := range sum {
		s.zero(i)
	}
	term := func(x, y, acc VecPhysical) {
		if f == dot {
			// The product of two float32 is exact in float64, fused or not.
			VFMADD231PD(x, y, acc)
		} else {
			VSUBPD(y, x, x)
			VMULPD(x, x, x)
			VADDPD(x, acc, acc)
		}
	}
	// Y6 and Y7 take eight values of a and b.
	add := func() {
		for i, acc := range sum {
			x, y := s.vec(2), s.vec(3)
			switch {
			case s.bytes == 64:
				VCVTPS2PD(Y6, x)
				VCVTPS2PD(Y7, y)
			case i == 0:
				VCVTPS2PD(X6, x)
				VCVTPS2PD(X7, y)
			default:
				VEXTRACTF128(U8(1), Y6, X6)
				VEXTRACTF128(U8(1), Y7, X7)
				VCVTPS2PD(X6, x)
				VCVTPS2PD(X7, y)
			}
			term(x, y, acc)
		}
	}
	Label("vector")
	TESTQ(n, n)
	JZ(LabelRef("rest"))
	if s.bytes == 64 {
		VMOVUPS(Mem{Base: a}, Y6)
		VMOVUPS(Mem{Base: b}, Y7)
		add()
	} else { // conversions from memory are faster than from the upper half of a register
		for i, acc := range sum {
			VCVTPS2PD(Mem{Base: a, Disp: 16 * i}, Y2)
			VCVTPS2PD(Mem{Base: b, Disp: 16 * i}, Y3)
			term(Y2, Y3, acc)
		}
	}
	ADDQ(U32(32), a)
	ADDQ(U32(32), b)
	SUBQ(U32(8), n)
	JMP(LabelRef("vector"))

	Label("rest")
	TESTQ(rest, rest)
	JZ(LabelRef("reduce"))
	// Eight floats are one AVX2 register: its tail serves both.
	t := newTail(avx2, rest, 8)
	t.load(Mem{Base: a}, 6)
	t.load(Mem{Base: b}, 7)
	add()

	Label("reduce")
	if s.bytes == 64 {
		VEXTRACTF64X4(U8(1), Z0, Y1)
	}
	VADDPD(Y1, Y0, Y0)
	VEXTRACTF128(U8(1), Y0, X1)
	VADDPD(X1, X0, X0)
	VHADDPD(X0, X0, X0)
	Store(X0, ReturnIndex(0))
	end()
}

// dotSquare64 generates the kernel of DotSquare64. The two sums are as long as one: each waits for
// itself.
func dotSquare64() {
	begin(avx2, "dotSquare64", "func(a, b []float32, next *float32) (dot, square float64)",
		"is the kernel of DotSquare64 for AVX2. next has the length of b.")
	a, b, n, next := gp(Param("a").Base()), gp(Param("b").Base()), gp(Param("a").Len()), gp(Param("next"))
	rest := GP64()
	MOVQ(n, rest)
	ANDQ(I32(7), rest)
	SUBQ(rest, n)
	dots, squares := []VecPhysical{Y0, Y1}, []VecPhysical{Y2, Y3}
	for _, acc := range append(dots, squares...) {
		VPXOR(acc, acc, acc)
	}
	// Adds eight values of a and b, which load converts, four at a time.
	add := func(load func(half int)) {
		for i := range dots {
			load(i)
			VFMADD231PD(Y6, Y7, dots[i])
			VFMADD231PD(Y7, Y7, squares[i])
		}
	}
	Label("vector")
	TESTQ(n, n)
	JZ(LabelRef("rest"))
	PREFETCHT0(Mem{Base: next})
	add(func(half int) {
		VCVTPS2PD(Mem{Base: a, Disp: 16 * half}, Y6)
		VCVTPS2PD(Mem{Base: b, Disp: 16 * half}, Y7)
	})
	ADDQ(U32(32), a)
	ADDQ(U32(32), b)
	ADDQ(U32(32), next)
	SUBQ(U32(8), n)
	JMP(LabelRef("vector"))

	Label("rest")
	TESTQ(rest, rest)
	JZ(LabelRef("reduce"))
	PREFETCHT0(Mem{Base: next})
	t := newTail(avx2, rest, 8)
	t.load(Mem{Base: a}, 4)
	t.load(Mem{Base: b}, 5)
	add(func(half int) {
		if half == 1 {
			VEXTRACTF128(U8(1), Y4, X4)
			VEXTRACTF128(U8(1), Y5, X5)
		}
		VCVTPS2PD(X4, Y6)
		VCVTPS2PD(X5, Y7)
	})

	Label("reduce")
	for i, acc := range [][]VecPhysical{dots, squares} {
		x := acc[0].AsX()
		VADDPD(acc[1], acc[0], acc[0])
		VEXTRACTF128(U8(1), acc[0], acc[1].AsX())
		VADDPD(acc[1].AsX(), x, x)
		VHADDPD(x, x, x)
		Store(x, ReturnIndex(i))
	}
	end()
}
