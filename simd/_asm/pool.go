package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// offer generates the kernel of Offer for pools of size rows, which it keeps in registers, eight in
// each. A row is an integer of 64 bits, the distance above the id. So integers sort like distances,
// because these are not negative.
func offer(size int) {
	begin(avx512, fmt.Sprintf("offer%d", size), "func(pool *uint64, ids []uint32, dists []float32, worst, most float32) (rows, unmarked int)",
		fmt.Sprintf("is the kernel of Offer for AVX512 and pools of %d rows. The result may be beyond the limit.", size))
	pool, ids, dists, n := gp(Param("pool")), gp(Param("ids").Base()), gp(Param("dists").Base()), gp(Param("dists").Len())
	z := func(i int) VecPhysical { return avx512.vec(i) }
	vecs := size / 8
	worst, most, zero, fresh, bound, dist := z(vecs), z(vecs+1), z(vecs+2), z(vecs+3), z(vecs+4), z(vecs+5)
	loaded, bits := GP64(), GP64()
	VBROADCASTSS(param("worst"), worst)
	VBROADCASTSS(param("most"), most)
	VPXORD(zero, zero, zero)
	XORQ(loaded, loaded)

	Label("group")
	TESTQ(n, n)
	JE(LabelRef("done"))
	// At most the next 16.
	m := GP64()
	MOVQ(n, RCX)
	MOVQ(U32(16), m)
	CMPQ(RCX, m)
	CMOVQGT(m, RCX)
	SUBQ(RCX, n)
	one := GP32()
	MOVL(U32(1), one)
	SHLL(CL, one)
	DECL(one)
	KMOVW(one, K1)
	VMOVUPS_Z(Mem{Base: dists}, K1, dist)
	VMAXPS(dist, zero, dist)           // keeps NaN
	VCMPPS(U8(1), worst, dist, K1, K2) // less
	VCMPPS(U8(2), most, dist, K2, K2)  // not more
	KMOVW(K2, bits.As32())
	TESTL(bits.As32(), bits.As32())
	JE(LabelRef("next_group"))

	TESTQ(loaded, loaded)
	JNE(LabelRef("candidate"))
	INCQ(loaded)
	for i := range vecs {
		VMOVDQU64(Mem{Base: pool, Disp: 64 * i}, z(i))
	}
	Label("candidate")
	at, key, id, none := GP64(), GP64(), GP64(), GP32()
	TZCNTL(bits.As32(), at.As32())
	LEAL(Mem{Base: bits, Disp: -1}, id.As32())
	ANDL(id.As32(), bits.As32())
	MOVL(Mem{Base: dists, Index: at, Scale: 4}, key.As32())
	XORL(none, none)
	TESTL(key.As32(), key.As32())
	CMOVLLT(none, key.As32())
	SHLQ(U8(32), key)
	MOVL(Mem{Base: ids, Index: at, Scale: 4}, id.As32())
	ORQ(key, id)
	VPBROADCASTQ(id, fresh)
	MOVL(U32(0xffffffff), id.As32())
	ORQ(id, key)
	VPBROADCASTQ(key, bound)
	for i := vecs - 1; i >= 0; i-- {
		before := zero
		if i > 0 {
			before = z(i - 1)
		}
		VPCMPUQ(U8(6), bound, z(i), K2) // farther
		VALIGNQ(U8(7), before, z(i), K2, z(i))
		VPCMPUQ(U8(2), bound, z(i), K2, K3) // not farther
		VMOVDQA64(fresh, K3, z(i))
	}
	TESTL(bits.As32(), bits.As32())
	JNE(LabelRef("candidate"))
	Label("next_group")
	ADDQ(U32(64), ids)
	ADDQ(U32(64), dists)
	JMP(LabelRef("group"))

	Label("done")
	rows, next := GP64(), GP64()
	XORQ(rows, rows)
	XORQ(next, next)
	TESTQ(loaded, loaded)
	JE(LabelRef("out"))
	MOVQ(U32(uint32(size)), next)
	word := GP64()
	MOVQ(U64(0x7f800000<<32), word)
	VPBROADCASTQ(word, fresh)
	MOVQ(U64(1<<31), word)
	VPBROADCASTQ(word, bound)
	for lo := (vecs - 1) &^ 7; lo >= 0; lo -= 8 { // words of 64 entries, the last one first
		near, open, first := GP64(), GP64(), GP64()
		XORQ(near, near)
		XORQ(open, open)
		for i := lo; i < min(lo+8, vecs); i++ {
			VMOVDQU64(z(i), Mem{Base: pool, Disp: 64 * i})
			VPCMPUQ(U8(1), fresh, z(i), K2)
			VPTESTNMQ(bound, z(i), K3)
			for _, w := range []struct {
				k    Register
				word GPVirtual
			}{{K2, near}, {K3, open}} {
				KMOVB(w.k, id.As32())
				SHLQ(U8(8*(i-lo)), id)
				ORQ(id, w.word)
			}
		}
		POPCNTQ(near, near)
		ADDQ(near, rows)
		TZCNTQ(open, first)
		ADDQ(U32(8*lo), first)
		TESTQ(open, open)
		CMOVQNE(first, next)
	}
	Label("out")
	Store(rows, ReturnIndex(0))
	Store(next, ReturnIndex(1))
	end()
}

// Vector registers of the kernels for AVX2. The others hold rows.
const (
	fresh, bound  = 8, 9   // the row offered, and all ones below its distance
	moved, before = 10, 11 // rows that have moved up, and those nearer than these
	farther, keep = 12, 13 // masks of rows
	dist, limit   = 14, 15
)

// eachNear generates a loop over the rows offered that are near enough, in groups of at most eight:
// start for each group that has such rows, and move for each row, in the registers fresh and bound.
func eachNear(ids, dists, n GPVirtual, start, move func()) {
	bits, group := GP64(), GP64()
	Label("group")
	TESTQ(n, n)
	JE(LabelRef("done"))
	nearEight(dists, n, group, bits)
	JE(LabelRef("next_group"))
	start()
	Label("candidate")
	nextOffered(ids, dists, bits)
	move()
	TESTL(bits.As32(), bits.As32())
	JNE(LabelRef("candidate"))
	Label("next_group")
	ADDQ(U32(32), ids)
	ADDQ(U32(32), dists)
	SUBQ(group, n)
	JMP(LabelRef("group"))
	Label("done")
}

// nearEight sets group to the number of rows offered next, of n and at most eight, and bits to the
// set of those that are near enough. The zero flag says that there are none.
func nearEight(dists, n, group, bits GPVirtual) {
	MOVQ(U32(8), group)
	CMPQ(n, group)
	JGE(LabelRef("eight"))
	MOVQ(n, group)
	t := newTail(avx2, group, farther)
	t.load(Mem{Base: dists}, dist)
	JMP(LabelRef("loaded"))
	Label("eight")
	VMOVUPS(Mem{Base: dists}, ymm[dist])
	Label("loaded")
	VPXOR(ymm[keep], ymm[keep], ymm[keep])
	VMAXPS(ymm[dist], ymm[keep], ymm[dist]) // keeps NaN
	VBROADCASTSS(param("worst"), ymm[limit])
	VCMPPS(U8(0x11), ymm[limit], ymm[dist], ymm[keep]) // less
	VBROADCASTSS(param("most"), ymm[limit])
	VCMPPS(U8(0x12), ymm[limit], ymm[dist], ymm[limit]) // not more
	VANDPS(ymm[limit], ymm[keep], ymm[keep])
	VMOVMSKPS(ymm[keep], bits.As32())
	one := GP32()
	MOVL(U32(1), one)
	MOVQ(group, RCX)
	SHLL(CL, one)
	DECL(one)
	ANDL(one, bits.As32())
}

// nextOffered removes a row from bits, and sets the registers fresh and bound to it.
func nextOffered(ids, dists, bits GPVirtual) {
	first, key, id, none := GP64(), GP64(), GP64(), GP32()
	TZCNTL(bits.As32(), first.As32())
	LEAL(Mem{Base: bits, Disp: -1}, id.As32())
	ANDL(id.As32(), bits.As32())
	MOVL(Mem{Base: dists, Index: first, Scale: 4}, key.As32())
	XORL(none, none)
	TESTL(key.As32(), key.As32())
	CMOVLLT(none, key.As32())
	SHLQ(U8(32), key)
	MOVL(Mem{Base: ids, Index: first, Scale: 4}, id.As32())
	ORQ(key, id)
	VMOVQ(id, ymm[fresh].AsX())
	VPBROADCASTQ(ymm[fresh].AsX(), ymm[fresh])
	MOVL(U32(0xffffffff), id.As32())
	ORQ(id, key)
	VMOVQ(key, ymm[bound].AsX())
	VPBROADCASTQ(ymm[bound].AsX(), ymm[bound])
}

// offerShort generates the kernel of Offer for AVX2 and pools of 32 rows, which it keeps in registers,
// four in each.
func offerShort() {
	begin(avx2, "offer32", "func(pool *uint64, ids []uint32, dists []float32, worst, most float32) (rows, unmarked int)",
		"is the kernel of Offer for AVX2 and pools of 32 rows. The result may be beyond the limit.")
	pool, ids, dists, n := gp(Param("pool")), gp(Param("ids").Base()), gp(Param("dists").Base()), gp(Param("dists").Len())
	const size, vecs = 32, 8
	at := func(i int) Mem { return Mem{Base: pool, Disp: 32 * i} }
	taken := GP64()
	XORQ(taken, taken)
	eachNear(ids, dists, n, func() {
		TESTQ(taken, taken)
		JNE(LabelRef("candidate"))
		INCQ(taken)
		for i := range vecs {
			VMOVDQU(at(i), ymm[i])
		}
	}, func() {
		// From the farthest to the nearest: rows that are farther move up by one place.
		VPERMQ(U8(0x93), ymm[vecs-1], ymm[moved])
		for i := vecs - 1; i >= 0; i-- {
			if i > 0 {
				VPERMQ(U8(0x93), ymm[i-1], ymm[before])
			} else {
				VPXOR(ymm[before], ymm[before], ymm[before])
			}
			VPBLENDD(U8(3), ymm[before], ymm[moved], ymm[moved])
			VPCMPGTQ(ymm[bound], ymm[i], ymm[farther])
			VPCMPGTQ(ymm[bound], ymm[moved], ymm[keep])
			VBLENDVPD(ymm[keep], ymm[moved], ymm[fresh], ymm[moved])
			VBLENDVPD(ymm[farther], ymm[moved], ymm[i], ymm[i])
			VMOVDQA(ymm[before], ymm[moved])
		}
	})
	rows, next := GP64(), GP64()
	XORQ(rows, rows)
	XORQ(next, next)
	TESTQ(taken, taken)
	JE(LabelRef("out"))
	word := GP64()
	MOVQ(U64(0x7f800000<<32), word)
	VMOVQ(word, ymm[bound].AsX())
	VPBROADCASTQ(ymm[bound].AsX(), ymm[bound])
	near, marked := GP64(), GP64()
	XORQ(near, near)
	XORQ(marked, marked)
	for i := vecs - 1; i >= 0; i-- {
		VMOVDQU(ymm[i], at(i))
		VPCMPGTQ(ymm[i], ymm[bound], ymm[keep])
		VPSLLQ(U8(32), ymm[i], ymm[farther])
		for j, w := range []GPVirtual{near, marked} {
			part := GP32()
			VMOVMSKPD([]VecPhysical{ymm[keep], ymm[farther]}[j], part)
			SHLQ(U8(4), w)
			ORQ(part.As64(), w)
		}
	}
	POPCNTQ(near, rows)
	NOTQ(marked)
	BTSQ(U8(size), marked)
	TZCNTQ(marked, next)
	Label("out")
	Store(rows, ReturnIndex(0))
	Store(next, ReturnIndex(1))
	end()
}

// offerLong generates the kernel of Offer for AVX2 and longer pools. For each row offered it moves the
// farther ones, 16 at a time, and stops where none is farther.
func offerLong() {
	begin(avx2, "offerLong", "func(pool *uint64, size int, ids []uint32, dists []float32, worst, most float32) (first int)",
		"is the kernel of Offer for AVX2 and the first size slots of a pool; size is a multiple of 16. No slot before first has changed; first is size if no row was inserted.")
	pool, ids, dists, n := gp(Param("pool")), gp(Param("ids").Base()), gp(Param("dists").Base()), gp(Param("dists").Len())
	const row, zero, vecs = 0, 1, 4
	back, first := gp(Param("size")), GP64()
	LEAQ(Mem{Base: pool, Index: back, Scale: 8}, back)
	MOVQ(back, first)
	VPXOR(ymm[zero], ymm[zero], ymm[zero])
	eachNear(ids, dists, n, func() {}, func() {
		at := GP64()
		MOVQ(back, at)
		Label("move")
		SUBQ(U32(32*vecs), at)
		for i := vecs - 1; i >= 0; i-- {
			VMOVDQU(Mem{Base: at, Disp: 32 * i}, ymm[row])
			VPERMQ(U8(0x93), ymm[row], ymm[moved])
			if i == 0 { // nothing is in front of the pool
				VMOVDQA(ymm[zero], ymm[before])
				CMPQ(at, pool)
				JE(LabelRef("nearest"))
			}
			VPBROADCASTQ(Mem{Base: at, Disp: 32*i - 8}, ymm[before])
			if i == 0 {
				Label("nearest")
			}
			VPBLENDD(U8(3), ymm[before], ymm[moved], ymm[moved])
			VPCMPGTQ(ymm[bound], ymm[row], ymm[farther])
			VPCMPGTQ(ymm[bound], ymm[moved], ymm[keep])
			VBLENDVPD(ymm[keep], ymm[moved], ymm[fresh], ymm[moved])
			VBLENDVPD(ymm[farther], ymm[moved], ymm[row], ymm[row])
			VMOVDQU(ymm[row], Mem{Base: at, Disp: 32 * i})
		}
		CMPQ(at, pool)
		JE(LabelRef("moved"))
		VPTEST(ymm[farther], ymm[farther])
		JNE(LabelRef("move"))
		Label("moved")
		CMPQ(at, first)
		CMOVQCS(at, first)
	})
	SUBQ(pool, first)
	SHRQ(U8(3), first)
	Store(first, ReturnIndex(0))
	end()
}
