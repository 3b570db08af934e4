package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// estimate generates the kernels of Estimate and Below. Every 128 bits of a vector hold the signs
// of 32 points in four components, and look up the same 16 sums.
func estimate(s isa) {
	begin(s, "estimate", "func(dst *[32]float32, sums, block, next []uint8, bias int32, unit, add, limit float32) uint32",
		"is the kernel of Estimate for "+s.name+".")
	e := newEstimator(s)
	e.dst, e.next = gp(Param("dst")), gp(Param("next").Base())
	block := gp(Param("block").Base())
	Store(e.block(block), ReturnIndex(0))
	end()

	begin(s, "below", "func(below []uint32, sums, blocks []uint8, bias int32, unit, add, limit float32)",
		"is the kernel of Below for "+s.name+". It sets the first len(below) words.")
	below, n, block := gp(Param("below").Base()), gp(Param("below").Len()), gp(Param("blocks").Base())
	e = newEstimator(s)
	Label("block")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	MOVL(e.block(block), Mem{Base: below})
	ADDQ(U32(4), below)
	ADDQ(e.n, block)
	ADDQ(U32(256), block)
	DECQ(n)
	JMP(LabelRef("block"))
	Label("done")
	end()
}

// An estimator generates the estimates of a block.
type estimator struct {
	s         isa
	sums, n   GPVirtual
	dst, next GPVirtual // may be missing
}

// Vector registers of an estimator: the sums of points 0 to 15 and of points 16 to 31, each of all
// points with the odd ones in the high byte, and of the odd ones alone; and what blocks share.
const (
	lowPoints, highPoints = 0, 2
	estX, estY, estTable  = 4, 5, 6
	estNibbles, estWords  = 7, 8
	estOrder, estSpare    = 9, 10 // and the one behind it
	estBias, estUnit      = 12, 13
	estAdd, estLimit      = 14, 15
)

func newEstimator(s isa) *estimator {
	e := &estimator{s: s, sums: gp(Param("sums").Base()), n: gp(Param("sums").Len())}
	s.fill(estNibbles, 0x0f0f0f0f)
	bias := GP32()
	MOVL(param("bias"), bias)
	VMOVD(bias, ymm[estBias].AsX())
	VPBROADCASTD(ymm[estBias].AsX(), s.vec(estBias))
	VBROADCASTSS(param("unit"), s.vec(estUnit))
	VBROADCASTSS(param("add"), s.vec(estAdd))
	VBROADCASTSS(param("limit"), s.vec(estLimit))
	if s.bytes == 64 {
		s.fill(estWords, 0xffff)
		VMOVDQU32(transpose, s.vec(estOrder))
	}
	return e
}

// block generates the estimates of a block, and returns the register with those below the limit.
func (e *estimator) block(block GPVirtual) GPVirtual {
	s := e.s
	x, y, table := s.vec(estX), s.vec(estY), s.vec(estTable)
	if e.next != nil {
		for at := 0; at < 256; at += line {
			PREFETCHT0(Mem{Base: e.next, Disp: at})
		}
	}
	for i := lowPoints; i < highPoints+2; i++ {
		s.zero(i)
	}
	and := func(to VecPhysical) {
		if s.bytes == 64 {
			VPANDD(s.vec(estNibbles), to, to)
		} else {
			VPAND(s.vec(estNibbles), to, to)
		}
	}
	off := GP64()
	XORQ(off, off)
	Label("step")
	if e.next != nil { // into the cache, while this block is computed
		PREFETCHT0(Mem{Base: e.next, Index: off, Scale: 1, Disp: 256})
	}
	loadVector(s, Mem{Base: block, Index: off, Scale: 1, Disp: 256}, x)
	loadVector(s, Mem{Base: e.sums, Index: off, Scale: 1}, table)
	VPSRLW(U8(4), x, y)
	and(x)
	and(y)
	for i, at := range []VecPhysical{x, y} {
		all, odd := s.vec(lowPoints+2*i), s.vec(lowPoints+2*i+1)
		VPSHUFB(at, table, at)
		VPADDW(at, all, all)
		VPSRLW(U8(8), at, at)
		VPADDW(at, odd, odd)
	}
	ADDQ(U32(s.bytes), off)
	CMPQ(off, e.n)
	JB(LabelRef("step"))

	below, part := GP32(), GP32()
	XORL(below, below)
	// finish makes the results of as many points as a register holds of their sums, in y.
	finish := func(from int) {
		VPSUBD(s.vec(estBias), y, y)
		VCVTDQ2PS(y, y)
		VMULPS(Mem{Base: block, Disp: 128 + 4*from}, s.vec(estUnit), table)
		VMULPS(table, y, y)
		VADDPS(Mem{Base: block, Disp: 4 * from}, s.vec(estAdd), table)
		VADDPS(y, table, y)
		if e.dst != nil {
			VMOVUPS(y, Mem{Base: e.dst, Disp: 4 * from})
		}
		const less = 0x11 // LT_OQ
		if s.bytes == 64 {
			VCMPPS(U8(less), s.vec(estLimit), y, K1)
			KMOVW(K1, part)
		} else {
			VCMPPS(U8(less), s.vec(estLimit), y, y)
			VMOVMSKPS(y, part)
		}
		SHLL(U8(from), part)
		ORL(part, below)
	}
	for i, at := range []int{lowPoints, highPoints} {
		all, odd := s.vec(at), s.vec(at+1)
		VPSLLW(U8(8), odd, x)
		VPSUBW(x, all, all) // even points
		if s.bytes == 64 {
			addLanes(all, odd)
			finish(16 * i)
			continue
		}
		for j, unpack := range []func(...Op){VPUNPCKLWD, VPUNPCKHWD} {
			unpack(odd, all, x) // of 8 points in every 128 bits
			VPMOVZXWD(x.AsX(), y)
			VEXTRACTI128(U8(1), x, table.AsX())
			VPMOVZXWD(table.AsX(), table)
			VPADDD(table, y, y)
			finish(16*i + 8*j)
		}
	}
	return below
}

// addLanes sets estY to the sums of 16 points over the four lanes of 128 bits, in 32 bits each.
// even and odd hold them by lane, in 16 bits.
func addLanes(even, odd VecPhysical) {
	v := func(i int) VecPhysical { return avx512.vec(i) }
	x, y := v(estX), v(estY)
	parts := [4]VecPhysical{v(estSpare), v(estSpare + 1), even, odd} // of points 0, 4, 8 and 12, of 1, 5, 9 and 13, ...
	for i, words := range []VecPhysical{even, odd} {
		VPANDD(v(estWords), words, parts[i])
		VPSRLD(U8(16), words, words)
	}
	// Two vectors make one with two lanes of each, and two of these one with a lane of each.
	fold := func(lower, upper uint8, a, b, to VecPhysical) {
		VSHUFI32X4(U8(lower), b, a, x)
		VSHUFI32X4(U8(upper), b, a, to)
		VPADDD(x, to, to)
	}
	fold(0x44, 0xee, parts[0], parts[1], parts[0])
	fold(0x44, 0xee, parts[2], parts[3], y)
	fold(0x88, 0xdd, parts[0], y, y)
	VPERMD(y, v(estOrder), y)
}

// transpose is the order of the rows of a matrix of 4 x 4 numbers that is stored by columns.
var transpose Mem

// picks repeat one byte of four, of every 128 bits: from the first four bytes and, 32 bytes on,
// from the next four. signed holds 1 for each number of four bits that has the bit set, and -1 for
// the others.
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

// signSums generates the kernel of Table.Set: for every four components the 16 sums with all signs,
// two times four components in a register.
func signSums() {
	begin(avx2, "signSums", "func(sums []uint8, q []float32, inv float32, base uint8)",
		"is the kernel of Table.Set for AVX2 and a multiple of 16 components.")
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
