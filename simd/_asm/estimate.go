package main

import (
	"fmt"

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

// picks repeat one byte of four, of every 128 bits: from the first four bytes and, 32 bytes on, from
// the next four. signed holds 1 for each number of four bits that has the bit set, and -1 for the
// others.
var picks, signed [4]Mem

func pick(bit int) Mem {
	m := GLOBL(fmt.Sprintf("pick%d", bit), RODATA|NOPTR)
	for i := range 8 {
		DATA(8*i, U64(0x0101010101010101*uint64(bit+i/4*4)))
	}
	return m
}

func signsOf(bit int) Mem {
	m := GLOBL(fmt.Sprintf("signed%d", bit), RODATA|NOPTR)
	for i := range 32 {
		v := U8(0xff)
		if i>>bit&1 == 1 {
			v = 1
		}
		DATA(i, v)
	}
	return m
}

// signSums generates the kernel of Table.Set: for every four elements the 16 sums with all signs,
// two times four elements in a register.
func signSums() {
	begin(avx2, "signSums", "func(sums []uint8, q []float32, inv float32, base uint8)",
		"is the kernel of Table.Set for AVX2 and a multiple of 16 elements.")
	sums, q, n := gp(Param("sums").Base()), gp(Param("q").Base()), gp(Param("q").Len())
	const words, sum, term, factor, start, signs = 0, 2, 3, 4, 5, 6
	VBROADCASTSS(param("inv"), ymm[factor])
	base := GP32()
	MOVBLZX(param("base"), base)
	VMOVD(base, ymm[start].AsX())
	VPBROADCASTB(ymm[start].AsX(), ymm[start])
	for i := range signed {
		VMOVDQU(signed[i], ymm[signs+i])
	}
	each(n, 16, func() {
		for i := range 2 {
			VMULPS(Mem{Base: q, Disp: 32 * i}, ymm[factor], ymm[words+i])
			VCVTPS2DQ(ymm[words+i], ymm[words+i]) // to the nearest, ties to even
		}
		VPACKSSDW(ymm[words+1], ymm[words], ymm[words])
		VPACKSSWB(ymm[words], ymm[words], ymm[words])
		for i := range 2 {
			for bit := range picks {
				VPSHUFB(picks[bit].Offset(32*i), ymm[words], ymm[term])
				VPSIGNB(ymm[signs+bit], ymm[term], ymm[term])
				if bit == 0 {
					VPADDB(ymm[start], ymm[term], ymm[sum])
				} else {
					VPADDB(ymm[term], ymm[sum], ymm[sum])
				}
			}
			VMOVDQU(ymm[sum], Mem{Base: sums, Disp: 32 * i})
		}
		ADDQ(U32(64), q)
		ADDQ(U32(64), sums)
	})
	end()
}
