package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The tile kernels compare many queries with the rows of one block. A vector register holds one
// step of as many rows as it has 32-bit lanes, and one step of a query is broadcast to all of them:
// there are no sums across lanes. A tile has as many sums, rows times queries, as leave registers
// for the operands. Only the bits of rows that reach their cut are written.
const blockRows = 64

// A tileKernel works on vectors*lanes rows times group queries at once.
type tileKernel struct {
	isa
	vectors, group int

	product func(q, row, sum VecPhysical) // adds one step
	start   func(q int, to VecPhysical)   // initialises a sum
	finish  func(q int)                   // turns the sums of a query into bits

	dst, block, w, n, steps GPVirtual
	part                    GPVirtual // rows of the block before this part
}

func newTile(s isa) *tileKernel {
	k := &tileKernel{isa: s, vectors: 4, group: 6}
	if s.bytes == 32 {
		k.vectors, k.group = 2, 5
	}
	k.dst, k.n = gp(Param("dst").Base()), gp(Param("dst").Len())
	k.block, k.w, k.steps = gp(Param("block").Base()), gp(Param("w").Base()), gp(Param("steps"))
	k.part = GP64()
	return k
}

// The registers: of the sum of row vector r and query q, of row vector r, of a query, and one more.
func (k *tileKernel) sum(r, q int) int { return q*k.vectors + r }
func (k *tileKernel) row(r int) int    { return k.group*k.vectors + r }
func (k *tileKernel) query() int       { return k.row(k.vectors) }
func (k *tileKernel) tmp() int         { return k.query() + 1 }

// rows returns the number of rows of a tile.
func (k *tileKernel) rows() int { return k.vectors * k.lanes() }

// ofRow returns row vector r of an array of one number per row.
func (k *tileKernel) ofRow(array GPVirtual, r int) Mem {
	return Mem{Base: array, Index: k.part, Scale: 4, Disp: r * k.bytes}
}

// generate generates the code: for each group of queries and part of the block, all steps. params
// holds words words per query.
func (k *tileKernel) generate(params GPVirtual, words int) {
	p, w, left := GP64(), GP64(), GP64()
	Label("group")
	TESTQ(k.n, k.n)
	JLE(LabelRef("done"))
	MOVQ(k.block, p)
	XORQ(k.part, k.part)
	Label("part")
	for q := range k.group {
		first := k.vec(k.sum(0, q))
		k.start(q, first)
		for r := 1; r < k.vectors; r++ {
			VMOVAPS(first, k.vec(k.sum(r, q)))
		}
	}
	MOVQ(k.w, w)
	MOVQ(k.steps, left)
	Label("step")
	for r := range k.vectors {
		VMOVUPS(Mem{Base: p, Disp: r * k.bytes}, k.vec(k.row(r)))
	}
	for q := range k.group {
		VBROADCASTSS(Mem{Base: w, Disp: 4 * q}, k.vec(k.query()))
		for r := range k.vectors {
			k.product(k.vec(k.query()), k.vec(k.row(r)), k.vec(k.sum(r, q)))
		}
	}
	ADDQ(U32(k.vectors*k.bytes), p)
	ADDQ(U32(4*k.group), w)
	DECQ(left)
	JNZ(LabelRef("step"))
	for q := range k.group {
		k.finish(q)
	}
	ADDQ(U32(k.rows()), k.part)
	CMPQ(k.part, U32(blockRows))
	JB(LabelRef("part"))

	MOVQ(w, k.w)
	ADDQ(U32(4*words*k.group), params)
	ADDQ(U32(8*k.group), k.dst)
	SUBQ(U32(k.group), k.n)
	JMP(LabelRef("group"))
	Label("done")
	end()
}

// store writes the bits of query q in this part; mask computes those of row vector r.
func (k *tileKernel) store(q int, mask func(r int, to GPVirtual)) {
	word, more := GP64(), GP64()
	mask(0, word)
	for r := 1; r < k.vectors; r++ {
		mask(r, more)
		SHLQ(U8(r*k.lanes()), more)
		ORQ(more, word)
	}
	if k.rows() == blockRows {
		MOVQ(word, Mem{Base: k.dst, Disp: 8 * q})
		return
	}
	MOVQ(k.part, more)
	SHRQ(U8(3), more)
	ADDQ(k.dst, more)
	MOVW(word.As16(), Mem{Base: more, Disp: 8 * q})
}

// notLess is the predicate NLT_UQ: true of a NaN.
const notLess = 0x15

// compare sets the bits of lanes of register x that are not less than register cut.
func (k *tileKernel) compare(x, cut VecPhysical, to GPVirtual) {
	if k.bytes == 64 {
		VCMPPS(U8(notLess), cut, x, K1)
		KMOVW(K1, to.As32())
		return
	}
	VCMPPS(U8(notLess), cut, x, x)
	VMOVMSKPS(x, to.As32())
}

// tileCodes generates the kernel of CodeTile.Above. Of each group of queries, params holds add of
// all, then per, then cut.
func tileCodes(s isa) {
	begin(s, "tileCodes", "func(dst []uint64, block, w []uint32, steps int, params []uint32, scales, levels []float32)",
		"is the kernel of CodeTile.Above for "+s.name+".")
	k := newTile(s)
	params := gp(Param("params").Base())
	scales, levels := gp(Param("scales").Base()), gp(Param("levels").Base())
	k.product = func(q, row, sum VecPhysical) {
		if k.bytes == 64 {
			VPDPBUSD(q, row, sum)
			return
		}
		VPMADDWD(q, row, k.vec(k.tmp()))
		VPADDD(k.vec(k.tmp()), sum, sum)
	}
	k.start = func(q int, to VecPhysical) { VBROADCASTSS(Mem{Base: params, Disp: 4 * q}, to) }
	k.finish = func(q int) {
		per, cut, y := k.vec(k.query()), k.vec(k.row(0)), k.vec(k.tmp())
		VBROADCASTSS(Mem{Base: params, Disp: 4 * (k.group + q)}, per)
		VBROADCASTSS(Mem{Base: params, Disp: 4 * (2*k.group + q)}, cut)
		k.store(q, func(r int, to GPVirtual) {
			x := k.vec(k.sum(r, q))
			VCVTDQ2PS(x, x)
			VMULPS(k.ofRow(scales, r), x, x)
			VMULPS(k.ofRow(levels, r), per, y)
			VADDPS(y, x, x)
			k.compare(x, cut, to)
		})
	}
	k.generate(params, 3)
}

// tileRows generates the kernels of RowTile.Above.
func tileRows(s isa, f metric) {
	begin(s, "tile"+map[metric]string{dot: "Dot", l2: "L2"}[f], "func(dst []uint64, block, w []uint32, steps int, cuts []uint32, factors []float32)",
		"is the kernel of RowTile.Above for "+s.name+".")
	k := newTile(s)
	cuts, factors := gp(Param("cuts").Base()), gp(Param("factors").Base())
	k.product = func(q, row, sum VecPhysical) {
		if f == dot {
			VFMADD231PS(q, row, sum)
			return
		}
		VSUBPS(q, row, k.vec(k.tmp()))
		VFMADD231PS(k.vec(k.tmp()), k.vec(k.tmp()), sum)
	}
	k.start = func(q int, _ VecPhysical) { k.zero(k.sum(0, q)) }
	k.finish = func(q int) {
		cut := k.vec(k.query())
		VBROADCASTSS(Mem{Base: cuts, Disp: 4 * q}, cut)
		k.store(q, func(r int, to GPVirtual) {
			x := k.vec(k.sum(r, q))
			VMULPS(k.ofRow(factors, r), x, x)
			k.compare(x, cut, to)
		})
	}
	k.generate(cuts, 1)
}
