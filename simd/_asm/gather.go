package main

import (
	"math/bits"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// recordTail is RecordTail of package simd.
const recordTail = 16

// gatherL2 generates the kernel of GatherL2 or, if split, of GatherSplitL2. Records lie anywhere in
// memory, so the cost is in waiting for them: all are prefetched before the first is used. That is
// a third of the time if they are in a cache: GatherCachedL2 does without.
func gatherL2(s isa, split, cached bool) {
	name, exported := "gatherL2", "GatherL2"
	signature := "func(dst []float32, q []uint8, bias int32, mul, add, extra float32, records []uint8, ids []uint32)"
	switch {
	case split:
		name, exported = "gatherSplitL2", "GatherSplitL2"
		signature = strings.Replace(signature, "ids", "dim int, tails []uint8, ids", 1)
	case cached:
		name, exported = "gatherCachedL2", "GatherCachedL2"
	}
	begin(s, name, signature, "is the kernel of "+exported+" for "+s.name+".")
	g := gather{
		isa: s, split: split,
		dst: gp(Param("dst").Base()), q: gp(Param("q").Base()), stride: gp(Param("q").Len()),
		base: gp(Param("records").Base()), ids: gp(Param("ids").Base()),
		off: GP64(), row: []GPVirtual{GP64(), GP64(), GP64(), GP64()},
	}
	n := gp(Param("ids").Len())

	if !cached {
		g.ahead(n)
	}
	bias := g.off.As32()
	MOVL(param("bias"), bias)
	VMOVD(bias, ymm[g.bias()].AsX())
	VPBROADCASTD(ymm[g.bias()].AsX(), ymm[g.bias()].AsX())
	VBROADCASTSS(param("mul"), ymm[g.mul()].AsX())
	VBROADCASTSS(param("add"), ymm[g.add()].AsX())
	VBROADCASTSS(param("extra"), ymm[g.extra()].AsX())
	g.loop("group", n, 4)
	g.loop("single", n, 1)
	end()
}

// ahead prefetches the n records.
func (g gather) ahead(n GPVirtual) {
	id, p, last := g.row[0], g.row[1], g.row[2]
	i := g.off
	XORQ(i, i)
	Label("ahead")
	CMPQ(i, n)
	JE(LabelRef("asked"))
	MOVL(Mem{Base: g.ids, Index: i, Scale: 4}, id.As32())
	if g.split {
		MOVQ(id, p)
		g.tail(p)
		PREFETCHT0(Mem{Base: p})
	}
	g.offset(id)
	LEAQ(Mem{Base: g.base, Index: id, Scale: 1}, p)
	LEAQ(Mem{Base: p, Index: g.stride, Scale: 1}, last)
	Label("line")
	PREFETCHT0(Mem{Base: p})
	ADDQ(U32(line), p)
	CMPQ(p, last)
	JB(LabelRef("line"))
	if g.split { // a row may begin inside of a line
		PREFETCHT0(Mem{Base: last, Disp: -1})
	}
	INCQ(i)
	JMP(LabelRef("ahead"))
	Label("asked")
}

type gather struct {
	isa
	split                          bool // the tails lie apart from the codes
	dst, q, stride, base, ids, off GPVirtual
	row                            []GPVirtual
}

func (g gather) sum(r int) VecPhysical { return g.vec(r) }
func (g gather) tmp(i int) VecPhysical { return g.vec(4 + i) }
func (g gather) extra() int            { return 12 }
func (g gather) bias() int             { return 13 }
func (g gather) mul() int              { return 14 }
func (g gather) add() int              { return 15 }

// offset turns the number of a row into the offset of its codes.
func (g gather) offset(row GPVirtual) {
	if g.split {
		IMULQ(param("dim"), row)
	} else {
		IMULQ(g.stride, row)
	}
}

// tail turns the number of a row into the address of its tail; only if split.
func (g gather) tail(row GPVirtual) {
	SHLQ(U8(bits.Len(recordTail)-1), row)
	ADDQ(address(Param("tails").Base()), row)
}

// loop computes groups of size rows until fewer than that are left of n.
func (g gather) loop(name string, n GPVirtual, size int) {
	Label(name)
	CMPQ(n, U32(size))
	JL(LabelRef(name + "_end"))
	for r := range size {
		MOVL(Mem{Base: g.ids, Disp: 4 * r}, g.row[r].As32())
		g.offset(g.row[r])
		ADDQ(g.base, g.row[r])
		g.zero(r)
	}
	XORQ(g.off, g.off)
	Label(name + "_step")
	at := func(p GPVirtual, disp int) Mem { return Mem{Base: p, Index: g.off, Scale: 1, Disp: disp} }
	if g.bytes == 64 {
		loadVector(g.isa, at(g.q, 0), g.tmp(0))
		for r := range size {
			loadVector(g.isa, at(g.row[r], 0), g.tmp(1))
			VPDPBUSD(g.tmp(0), g.tmp(1), g.sum(r))
		}
	} else {
		for i := 0; i < 64; i += 16 {
			VPMOVSXBW(at(g.q, i), g.tmp(0))
			for r := range size {
				VPMOVZXBW(at(g.row[r], i), g.tmp(1))
				VPMADDWD(g.tmp(0), g.tmp(1), g.tmp(1))
				VPADDD(g.tmp(1), g.sum(r), g.sum(r))
			}
		}
	}
	ADDQ(U32(64), g.off)
	CMPQ(g.off, g.stride)
	JB(LabelRef(name + "_step"))

	g.reduce(size)
	ADDQ(U32(4*size), g.dst)
	ADDQ(U32(4*size), g.ids)
	SUBQ(U32(size), n)
	JMP(LabelRef(name))
	Label(name + "_end")
}

// reduce adds up the lanes of each row and turns the products into distances.
func (g gather) reduce(size int) {
	for r := size; r < 4; r++ {
		g.zero(r)
	}
	add := func(a, b, to int, low, high func(...Op)) {
		low(g.vec(b), g.vec(a), g.tmp(0))
		high(g.vec(b), g.vec(a), g.tmp(1))
		VPADDD(g.tmp(0), g.tmp(1), g.vec(to))
	}
	add(0, 1, 0, VPUNPCKLDQ, VPUNPCKHDQ)
	add(2, 3, 2, VPUNPCKLDQ, VPUNPCKHDQ)
	add(0, 2, 0, VPUNPCKLQDQ, VPUNPCKHQDQ)
	if g.bytes == 64 {
		VEXTRACTI64X4(U8(1), g.vec(0), Y1)
		VPADDD(Y1, Y0, Y0)
	}
	VEXTRACTI128(U8(1), Y0, X1)
	VPADDD(X1, X0, X0)
	VPADDD(ymm[g.bias()].AsX(), X0, X0)
	VCVTDQ2PS(X0, X0)
	// The scales, levels and extras of the records, in X1 to X3.
	if g.split {
		for r := range size {
			MOVL(Mem{Base: g.ids, Disp: 4 * r}, g.row[r].As32())
			g.tail(g.row[r])
		}
	}
	for i, to := range []VecPhysical{X1, X2, X3} {
		for r := range size {
			at := Mem{Base: g.row[r], Index: g.stride, Scale: 1, Disp: 4*i - recordTail}
			if g.split {
				at = Mem{Base: g.row[r], Disp: 4 * i}
			}
			if r == 0 {
				VMOVSS(at, to)
			} else {
				VINSERTPS(U8(r<<4), at, to, to)
			}
		}
	}
	VMULPS(ymm[g.mul()].AsX(), X1, X1)
	VMULPS(X1, X0, X0)
	VADDPS(ymm[g.add()].AsX(), X2, X2)
	VMULPS(ymm[g.extra()].AsX(), X3, X3)
	VADDPS(X3, X2, X2)
	VADDPS(X2, X0, X0)
	if out := (Mem{Base: g.dst}); size == 1 {
		VMOVSS(X0, out)
	} else {
		VMOVUPS(X0, out)
	}
}

// prefetch generates the kernel of Prefetch, which needs no vectors.
func prefetch() {
	TEXT("prefetchLines", NOSPLIT, "func(b []uint8)")
	Pragma("noescape")
	Doc("prefetchLines is the kernel of Prefetch.")
	p, n := gp(Param("b").Base()), gp(Param("b").Len())
	last := GP64()
	LEAQ(Mem{Base: p, Index: n, Scale: 1}, last)
	Label("next")
	CMPQ(p, last)
	JAE(LabelRef("done"))
	PREFETCHT0(Mem{Base: p})
	ADDQ(U32(line), p)
	JMP(LabelRef("next"))
	Label("done")
	RET()
}
