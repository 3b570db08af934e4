package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// estimate generates the kernel of Estimate. Every 128 bits of a vector hold the signs of 32 points
// in four elements, and look up the same 16 sums.
func estimate(s isa) {
	begin(s, "estimate", "func(dst *[32]float32, sums, block, next []uint8, bias int32, unit, add, limit float32) uint32",
		"is the kernel of Estimate for "+s.name+".")
	dst, sums, n, block := gp(Param("dst")), gp(Param("sums").Base()), gp(Param("sums").Len()), gp(Param("block").Base())
	next := gp(Param("next").Base())
	for at := 0; at < 256; at += line {
		PREFETCHT0(Mem{Base: next, Disp: at})
	}
	// The sums of points 0 to 15 and of points 16 to 31: of all points with the odd ones in the
	// high byte, and of the odd ones alone.
	const low, high, mask, x, y, table = 0, 2, 4, 5, 6, 7
	for i := range 4 {
		s.zero(i)
	}
	word := GP32()
	s.fill(mask, 0x0f0f0f0f)
	and := func(to int) {
		if s.bytes == 64 {
			VPANDD(s.vec(mask), s.vec(to), s.vec(to))
		} else {
			VPAND(s.vec(mask), s.vec(to), s.vec(to))
		}
	}
	off := GP64()
	XORQ(off, off)
	Label("step")
	PREFETCHT0(Mem{Base: next, Index: off, Scale: 1, Disp: 256}) // into the cache, while this block is computed
	loadVector(s, Mem{Base: block, Index: off, Scale: 1, Disp: 256}, s.vec(x))
	loadVector(s, Mem{Base: sums, Index: off, Scale: 1}, s.vec(table))
	VPSRLW(U8(4), s.vec(x), s.vec(y))
	and(x)
	and(y)
	for i, at := range []int{x, y} {
		VPSHUFB(s.vec(at), s.vec(table), s.vec(at))
		VPADDW(s.vec(at), s.vec(2*i), s.vec(2*i))
		VPSRLW(U8(8), s.vec(at), s.vec(at))
		VPADDW(s.vec(at), s.vec(2*i+1), s.vec(2*i+1))
	}
	ADDQ(U32(s.bytes), off)
	CMPQ(off, n)
	JB(LabelRef("step"))

	const bias, unit, add, limit = 8, 9, 10, 11
	MOVL(param("bias"), word)
	VMOVD(word, ymm[bias].AsX())
	VPBROADCASTD(ymm[bias].AsX(), ymm[bias])
	VBROADCASTSS(param("unit"), ymm[unit])
	VBROADCASTSS(param("add"), ymm[add])
	VBROADCASTSS(param("limit"), ymm[limit])
	below, part := GP32(), GP32()
	XORL(below, below)
	for i, acc := range []int{low, high} {
		VPSLLW(U8(8), s.vec(acc+1), s.vec(x))
		VPSUBW(s.vec(x), s.vec(acc), s.vec(acc)) // even points
		for j, unpack := range []func(...Op){VPUNPCKLWD, VPUNPCKHWD} {
			unpack(s.vec(acc+1), s.vec(acc), s.vec(x)) // of 8 points in every 128 bits
			VPMOVZXWD(ymm[x].AsX(), ymm[y])
			for lane := 1; lane < s.bytes/16; lane++ {
				if s.bytes == 64 {
					VEXTRACTI32X4(U8(lane), s.vec(x), ymm[table].AsX())
				} else {
					VEXTRACTI128(U8(lane), ymm[x], ymm[table].AsX())
				}
				VPMOVZXWD(ymm[table].AsX(), ymm[table])
				VPADDD(ymm[table], ymm[y], ymm[y])
			}
			VPSUBD(ymm[bias], ymm[y], ymm[y])
			VCVTDQ2PS(ymm[y], ymm[y])
			points := 16*i + 8*j
			VMULPS(Mem{Base: block, Disp: 128 + 4*points}, ymm[unit], ymm[table])
			VMULPS(ymm[table], ymm[y], ymm[y])
			VADDPS(Mem{Base: block, Disp: 4 * points}, ymm[add], ymm[table])
			VADDPS(ymm[y], ymm[table], ymm[y])
			VMOVUPS(ymm[y], Mem{Base: dst, Disp: 4 * points})
			const less = 0x11 // LT_OQ
			VCMPPS(U8(less), ymm[limit], ymm[y], ymm[y])
			VMOVMSKPS(ymm[y], part)
			SHLL(U8(points), part)
			ORL(part, below)
		}
	}
	Store(below, ReturnIndex(0))
	end()
}
