package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The kernels of this file prepare one vector, which is in cache. They exist for AVX2 alone.

// hadamard generates the kernel of Hadamard for 64 floats and more.
func hadamard() {
	begin(avx2, "hadamard", "func(v []float32, scale float32)", "is the kernel of Hadamard for AVX2 and at least 64 components.")
	v, size := gp(Param("v").Base()), gp(Param("v").Len())
	SHLQ(U8(2), size)

	// Within eight registers, all steps up to distance 32: add a register and a permutation of
	// itself, with the signs of the subtracted lanes changed.
	const block, swapped, minus1, minus2, minus4, scale = 8, 8, 9, 10, 11, 12
	for i, m := range minuses {
		VMOVUPS(m, ymm[minus1+i])
	}
	VBROADCASTSS(param("scale"), ymm[scale])
	p, last := GP64(), GP64()
	MOVQ(v, p)
	LEAQ(Mem{Base: v, Index: size, Scale: 1}, last)
	Label("block")
	for i := range block {
		x, y := ymm[i], ymm[swapped]
		VMOVUPS(Mem{Base: p, Disp: 32 * i}, x)
		VPERMILPS(U8(0xb1), x, y)
		VXORPS(ymm[minus1], x, x)
		VADDPS(x, y, x)
		VPERMILPS(U8(0x4e), x, y)
		VXORPS(ymm[minus2], x, x)
		VADDPS(x, y, x)
		VMULPS(ymm[scale], x, x)
		VPERM2F128(U8(1), x, x, y)
		VXORPS(ymm[minus4], x, x)
		VADDPS(x, y, x)
	}
	r := []VecPhysical{ymm[0], ymm[1], ymm[2], ymm[3], ymm[4], ymm[5], ymm[6], ymm[7]}
	free := ymm[swapped]
	for h := 1; h < block; h *= 2 {
		for i := range block {
			if i&h == 0 {
				VSUBPS(r[i+h], r[i], free)
				VADDPS(r[i+h], r[i], r[i])
				r[i+h], free = free, r[i+h]
			}
		}
	}
	for i := range block {
		VMOVUPS(r[i], Mem{Base: p, Disp: 32 * i})
	}
	ADDQ(U32(32*block), p)
	CMPQ(p, last)
	JB(LabelRef("block"))

	// Two steps at once, at half and at twice that distance.
	half, half4 := GP64(), GP64()
	MOVQ(U32(32*block), half)
	Label("two_steps")
	MOVQ(half, half4)
	SHLQ(U8(2), half4)
	CMPQ(half4, size)
	JA(LabelRef("last_step"))
	p2, stop := GP64(), GP64()
	MOVQ(v, p)
	Label("group")
	LEAQ(Mem{Base: p, Index: half, Scale: 1}, stop)
	Label("four")
	LEAQ(Mem{Base: p, Index: half, Scale: 2}, p2)
	VMOVUPS(Mem{Base: p}, Y0)
	VMOVUPS(Mem{Base: p, Index: half, Scale: 1}, Y1)
	VMOVUPS(Mem{Base: p2}, Y2)
	VMOVUPS(Mem{Base: p2, Index: half, Scale: 1}, Y3)
	VADDPS(Y1, Y0, Y4)
	VSUBPS(Y1, Y0, Y5)
	VADDPS(Y3, Y2, Y6)
	VSUBPS(Y3, Y2, Y7)
	VADDPS(Y6, Y4, Y0)
	VADDPS(Y7, Y5, Y1)
	VSUBPS(Y6, Y4, Y2)
	VSUBPS(Y7, Y5, Y3)
	VMOVUPS(Y0, Mem{Base: p})
	VMOVUPS(Y1, Mem{Base: p, Index: half, Scale: 1})
	VMOVUPS(Y2, Mem{Base: p2})
	VMOVUPS(Y3, Mem{Base: p2, Index: half, Scale: 1})
	ADDQ(U32(32), p)
	CMPQ(p, stop)
	JB(LabelRef("four"))
	LEAQ(Mem{Base: p2, Index: half, Scale: 1, Disp: 32}, p)
	CMPQ(p, last)
	JB(LabelRef("group"))
	MOVQ(half4, half)
	JMP(LabelRef("two_steps"))

	Label("last_step")
	CMPQ(half, size)
	JAE(LabelRef("done"))
	MOVQ(v, p)
	LEAQ(Mem{Base: v, Index: half, Scale: 1}, stop)
	Label("two")
	VMOVUPS(Mem{Base: p}, Y0)
	VMOVUPS(Mem{Base: p, Index: half, Scale: 1}, Y1)
	VADDPS(Y1, Y0, Y2)
	VSUBPS(Y1, Y0, Y3)
	VMOVUPS(Y2, Mem{Base: p})
	VMOVUPS(Y3, Mem{Base: p, Index: half, Scale: 1})
	ADDQ(U32(32), p)
	CMPQ(p, stop)
	JB(LabelRef("two"))
	Label("done")
	end()
}

// minuses are minus(1), minus(2) and minus(4).
var minuses []Mem

// minus returns a vector with the sign bit set in each lane i that has the bit h.
func minus(h int) Mem {
	m := GLOBL(fmt.Sprintf("minus%d", h), RODATA|NOPTR)
	for i := range 8 {
		sign := U32(0)
		if i&h != 0 {
			sign = 1 << 31
		}
		DATA(4*i, sign)
	}
	return m
}

// each generates a loop over n components, a multiple of step.
func each(n GPVirtual, step int, body func()) {
	TESTQ(n, n)
	JE(LabelRef("none"))
	Label("step")
	body()
	SUBQ(U32(step), n)
	JNE(LabelRef("step"))
	Label("none")
}

// flip generates the kernel of Flip for a multiple of eight floats.
func flip() {
	begin(avx2, "flip", "func(v []float32, signs []uint32)", "is the kernel of Flip for AVX2 and a multiple of 8 components.")
	v, n, signs := gp(Param("v").Base()), gp(Param("v").Len()), gp(Param("signs").Base())
	each(n, 8, func() {
		VMOVUPS(Mem{Base: v}, Y0)
		VXORPS(Mem{Base: signs}, Y0, Y0)
		VMOVUPS(Y0, Mem{Base: v})
		ADDQ(U32(32), v)
		ADDQ(U32(32), signs)
	})
	end()
}

// fold reduces vector register i to one word by a binary operation and stores it as the result of
// that index.
func fold(i, result int, op func(...Op)) {
	x, y := ymm[i].AsX(), Y15.AsX()
	VEXTRACTI128(U8(1), ymm[i], y)
	op(y, x, x)
	VPSHUFD(U8(0x4e), x, y)
	op(y, x, x)
	VPSHUFD(U8(0xb1), x, y)
	op(y, x, x)
	word := GP32()
	VMOVD(x, word)
	Store(word, ReturnIndex(result))
}

// largest generates the kernel of Largest for a multiple of eight floats.
func largest() {
	begin(avx2, "largest", "func(v []float32) uint32", "is the kernel of Largest for AVX2 and a multiple of 8 components.")
	v, n := gp(Param("v").Base()), gp(Param("v").Len())
	avx2.fill(1, 0x7fffffff)
	avx2.zero(0)
	each(n, 8, func() {
		VPAND(Mem{Base: v}, Y1, Y2)
		VPMAXUD(Y2, Y0, Y0)
		ADDQ(U32(32), v)
	})
	fold(0, 0, VPMAXUD)
	end()
}

// centre generates the kernel of Centre for a multiple of eight floats.
func centre() {
	begin(avx2, "centre", "func(dst, v []float32, factor float64, mean []float64) uint32", "is the kernel of Centre for AVX2 and a multiple of 8 components.")
	dst, v, n, mean := gp(Param("dst").Base()), gp(Param("v").Base()), gp(Param("v").Len()), gp(Param("mean").Base())
	const top, mask, factor, x, y = 0, 1, 2, 3, 4
	avx2.fill(mask, 0x7fffffff)
	avx2.zero(top)
	VBROADCASTSD(param("factor"), ymm[factor])
	each(n, 8, func() {
		for i, at := range []int{x, y} {
			VCVTPS2PD(Mem{Base: v, Disp: 16 * i}, ymm[at])
			VMULPD(ymm[factor], ymm[at], ymm[at])
			VSUBPD(Mem{Base: mean, Disp: 32 * i}, ymm[at], ymm[at])
			VCVTPD2PSY(ymm[at], ymm[at].AsX())
		}
		VINSERTF128(U8(1), ymm[y].AsX(), ymm[x], ymm[x])
		VMOVUPS(ymm[x], Mem{Base: dst})
		VPAND(ymm[x], ymm[mask], ymm[x])
		VPMAXUD(ymm[x], ymm[top], ymm[top])
		ADDQ(U32(32), v)
		ADDQ(U32(32), dst)
		ADDQ(U32(64), mean)
	})
	fold(top, 0, VPMAXUD)
	end()
}

// encode generates the kernel of Encode for a multiple of 32 floats.
func encode() {
	begin(avx2, "encode", "func(codes []uint8, v []float32, factor float32) (sum, squares int32)", "is the kernel of Encode for AVX2 and a multiple of 32 components.")
	codes, v, n := gp(Param("codes").Base()), gp(Param("v").Base()), gp(Param("v").Len())
	const sum, squares, factor, integers, ones, lanes, offset, square = 4, 5, 6, 7, 8, 9, 10, 11
	avx2.zero(sum)
	avx2.zero(squares)
	VBROADCASTSS(param("factor"), ymm[factor])
	avx2.fill(integers, 0x4b400000)
	avx2.fill(ones, 0x00010001)
	avx2.fill(offset, 0x80808080)
	VMOVDQU(order, ymm[lanes])
	each(n, 32, func() {
		for i := range 4 {
			VMULPS(Mem{Base: v, Disp: 32 * i}, ymm[factor], ymm[i])
			VADDPS(ymm[integers], ymm[i], ymm[i]) // as a number, 3 << 22
			VPSUBD(ymm[integers], ymm[i], ymm[i])
		}
		for i := 0; i < 4; i += 2 {
			VPACKSSDW(ymm[i+1], ymm[i], ymm[i])
			VPMADDWD(ymm[i], ymm[i], ymm[square])
			VPADDD(ymm[square], ymm[squares], ymm[squares])
			VPMADDWD(ymm[ones], ymm[i], ymm[square])
			VPADDD(ymm[square], ymm[sum], ymm[sum])
		}
		VPACKSSWB(Y2, Y0, Y0)
		VPERMD(Y0, ymm[lanes], Y0)
		VPXOR(ymm[offset], Y0, Y0)
		VMOVDQU(Y0, Mem{Base: codes})
		ADDQ(U32(128), v)
		ADDQ(U32(32), codes)
	})
	fold(sum, 0, VPADDD)
	fold(squares, 1, VPADDD)
	end()
}

// loadPoint generates the kernel of LoadVector for the codes of a record.
func loadPoint() {
	begin(avx2, "loadPoint", "func(dst, record []uint8)", "is the kernel of LoadVector for AVX2 and a multiple of 64 bytes.")
	dst, record, n := gp(Param("dst").Base()), gp(Param("record").Base()), gp(Param("record").Len())
	const x, y, offset = 0, 1, 2
	avx2.fill(offset, 0x80808080)
	each(n, 64, func() {
		for i, at := range []int{x, y} {
			VPXOR(Mem{Base: record, Disp: 32 * i}, ymm[offset], ymm[at])
			VMOVDQU(ymm[at], Mem{Base: dst, Disp: 32 * i})
		}
		ADDQ(U32(64), dst)
		ADDQ(U32(64), record)
	})
	end()
}

// sketch generates the kernel of Sketch for a multiple of 16 components.
func sketch() {
	begin(avx2, "sketch", "func(plus []uint16, codes []uint8, scale float32, from []float32) (squares, sum, along float64)",
		"is the kernel of Sketch for AVX2.")
	plus, n := gp(Param("plus").Base()), gp(Param("codes").Len())
	codes, from := gp(Param("codes").Base()), gp(Param("from").Base())
	const diff, up, wide, offset, scale, minus, positive, zero = 0, 1, 2, 3, 4, 5, 6, 7
	const squares, sum, along = 10, 12, 14 // and the register after each
	avx2.fill(offset, 128)
	avx2.fill(minus, 1<<31)
	avx2.zero(zero)
	VPCMPEQD(ymm[positive], ymm[positive], ymm[positive])
	VPSRLQ(U8(1), ymm[positive], ymm[positive])
	for _, to := range []int{squares, sum, along} {
		avx2.zero(to)
		avx2.zero(to + 1)
	}
	VBROADCASTSS(param("scale"), ymm[scale])
	bits := [2]GPVirtual{GP64(), GP64()}
	each(n, 16, func() {
		for i := range bits {
			VPMOVZXBD(Mem{Base: codes, Disp: 8 * i}, ymm[diff])
			VPSUBD(ymm[offset], ymm[diff], ymm[diff])
			VCVTDQ2PS(ymm[diff], ymm[diff])
			VMULPS(ymm[scale], ymm[diff], ymm[diff])
			VSUBPS(Mem{Base: from, Disp: 32 * i}, ymm[diff], ymm[diff])
			const less = 1 // ordered: false for a NaN
			VCMPPS(U8(less), ymm[diff], ymm[zero], ymm[up])
			VMOVMSKPS(ymm[up], bits[i].As32())
			VANDNPS(ymm[minus], ymm[up], ymm[up])
			VXORPS(Mem{Base: from, Disp: 32 * i}, ymm[up], ymm[up])
			for half := range 2 {
				if half == 1 {
					VEXTRACTF128(U8(1), ymm[diff], ymm[diff].AsX())
					VEXTRACTF128(U8(1), ymm[up], ymm[up].AsX())
				}
				// The square of a float32 is exact in float64, fused or not.
				VCVTPS2PD(ymm[diff].AsX(), ymm[wide])
				VFMADD231PD(ymm[wide], ymm[wide], ymm[squares+half])
				VANDPD(ymm[positive], ymm[wide], ymm[wide])
				VADDPD(ymm[wide], ymm[sum+half], ymm[sum+half])
				VCVTPS2PD(ymm[up].AsX(), ymm[wide])
				VADDPD(ymm[wide], ymm[along+half], ymm[along+half])
			}
		}
		SHLQ(U8(8), bits[1])
		ORQ(bits[1], bits[0])
		MOVW(bits[0].As16(), Mem{Base: plus})
		ADDQ(U32(64), from)
		ADDQ(U32(16), codes)
		ADDQ(U32(2), plus)
	})
	for i, to := range []int{squares, sum, along} { // as canonical does
		VADDPD(ymm[to+1], ymm[to], ymm[to])
		VEXTRACTF128(U8(1), ymm[to], ymm[diff].AsX())
		VADDPD(ymm[diff].AsX(), ymm[to].AsX(), ymm[to].AsX())
		VHADDPD(ymm[to].AsX(), ymm[to].AsX(), ymm[to].AsX())
		Store(ymm[to].AsX(), ReturnIndex(i))
	}
	end()
}
