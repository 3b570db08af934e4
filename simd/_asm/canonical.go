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
			if f == dot {
				// The product of two float32 is exact in float64, fused or not.
				VFMADD231PD(x, y, acc)
			} else {
				VSUBPD(y, x, x)
				VMULPD(x, x, x)
				VADDPD(x, acc, acc)
			}
		}
	}
	Label("vector")
	TESTQ(n, n)
	JZ(LabelRef("rest"))
	VMOVUPS(Mem{Base: a}, Y6)
	VMOVUPS(Mem{Base: b}, Y7)
	add()
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
