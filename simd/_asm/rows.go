package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// A metric is what a kernel computes: "dot" or "l2".
type metric string

const (
	dot metric = "dot"
	l2  metric = "l2"
)

// Every row is summed in four vectors of accumulators, enough to hide the
// latency of a fused multiply-add, and with the same steps whether it is
// computed in a group or alone: its result does not depend on its place.
const accumulators = 4

const (
	// groupStride is the row length in bytes up to which rows are computed in
	// groups. Longer rows are read one after the other: the hardware prefetchers
	// follow one stream better than several, and the gain in cache is gone.
	groupStride = 192
	// ahead is the distance of the software prefetch in bytes. It crosses page
	// boundaries, where hardware prefetchers stop.
	ahead = 4096
)

func rows(s isa, f metric) {
	begin(s, string(f)+"Rows", "func(dst, q, rows []float32)", "is the row kernel for "+s.name+".")
	k := rowKernel{
		isa:    s,
		metric: f,
		dst:    gp(Param("dst").Base()),
		q:      gp(Param("q").Base()),
		row:    gp(Param("rows").Base()),
		stride: GP64(), stride3: GP64(),
		blocks: GP64(), whole: GP64(),
		rest: GP64(),
		p:    GP64(), off: GP64(),
	}
	n := gp(Param("dst").Len())
	dim := gp(Param("q").Len())
	MOVQ(dim, k.rest)
	ANDQ(I32(s.lanes()-1), k.rest)
	k.tail = newTail(s, k.rest, 14)
	MOVQ(dim, k.stride)
	SHLQ(U8(2), k.stride)
	if s.group == 4 {
		LEAQ(Mem{Base: k.stride, Index: k.stride, Scale: 2}, k.stride3)
	}
	MOVQ(k.stride, k.whole)
	ANDQ(I32(-s.bytes), k.whole)
	MOVQ(k.stride, k.blocks)
	ANDQ(I32(-s.bytes*accumulators), k.blocks)
	k.tail.load(Mem{Base: k.q, Index: k.whole, Scale: 1}, k.qtail())

	CMPQ(k.stride, U32(groupStride))
	JA(LabelRef("single"))
	Label("group")
	CMPQ(n, U32(s.group))
	JL(LabelRef("single"))
	k.group(s.group)
	SUBQ(U32(s.group), n)
	JMP(LabelRef("group"))

	Label("single")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	k.group(1)
	DECQ(n)
	JMP(LabelRef("single"))

	Label("done")
	end()
}

type rowKernel struct {
	isa
	metric
	tail
	dst, q, row     GPVirtual // advance from group to group, but for q
	stride, stride3 GPVirtual // bytes in one row and in three
	blocks, whole   GPVirtual // bytes of a row in whole blocks of four vectors, in whole vectors
	rest            GPVirtual // lanes in the last, partial vector
	p, off          GPVirtual // position in the row and the same as an offset
}

// Accumulator j of row r is vector register r*accumulators+j. The others hold
// the partial vector of the query and what is being worked on.
func (k rowKernel) qtail() int { return k.isa.group*accumulators + 7 }
func (k rowKernel) qreg() int  { return k.isa.group * accumulators }
func (k rowKernel) tmp(r int) int {
	return k.qreg() + 1 + r
}

// at returns the operand at p in row r of the group.
func (k rowKernel) at(r, disp int) Mem {
	m := Mem{Base: k.p, Disp: disp}
	switch r {
	case 1:
		m.Index, m.Scale = k.stride, 1
	case 2:
		m.Index, m.Scale = k.stride, 2
	case 3:
		m.Index, m.Scale = k.stride3, 1
	}
	return m
}

// group computes the next n rows and advances row and dst.
func (k rowKernel) group(n int) {
	label := func(name string) string { return fmt.Sprintf("%s%d", name, n) }
	for r := range n {
		for j := range accumulators {
			k.zero(r*accumulators + j)
		}
	}
	MOVQ(k.row, k.p)
	XORQ(k.off, k.off)

	Label(label("block"))
	CMPQ(k.off, k.blocks)
	JE(LabelRef(label("vector")))
	for j := range accumulators {
		k.step(n, j)
	}
	k.advance(accumulators)
	JMP(LabelRef(label("block")))

	Label(label("vector"))
	CMPQ(k.off, k.whole)
	JE(LabelRef(label("rest")))
	k.step(n, 0)
	k.advance(1)
	JMP(LabelRef(label("vector")))

	Label(label("rest"))
	TESTQ(k.rest, k.rest)
	JZ(LabelRef(label("reduce")))
	for r := range n {
		k.tail.load(k.at(r, 0), k.tmp(0))
		k.accumulate(k.qtail(), k.vec(k.tmp(0)), r*accumulators, k.tmp(0))
	}

	Label(label("reduce"))
	k.reduce(n)
	ADDQ(U32(4*n), k.dst)
	for range n {
		ADDQ(k.stride, k.row)
	}
}

// step adds vector j from the current position of n rows.
func (k rowKernel) step(n, j int) {
	VMOVUPS(Mem{Base: k.q, Index: k.off, Scale: 1, Disp: j * k.bytes}, k.vec(k.qreg()))
	for r := range n {
		if j*k.bytes%64 == 0 {
			PREFETCHT0(k.at(r, j*k.bytes+ahead))
		}
		k.accumulate(k.qreg(), k.at(r, j*k.bytes), r*accumulators+j, k.tmp(r))
	}
}

func (k rowKernel) advance(vectors int) {
	ADDQ(U32(vectors*k.bytes), k.p)
	ADDQ(U32(vectors*k.bytes), k.off)
}

// accumulate adds the contribution of a vector of the query and one of a row
// to accumulator acc.
func (k rowKernel) accumulate(q int, row Op, acc, tmp int) {
	if k.metric == dot {
		VFMADD231PS(row, k.vec(q), k.vec(acc))
		return
	}
	VSUBPS(row, k.vec(q), k.vec(tmp))
	VFMADD231PS(k.vec(tmp), k.vec(tmp), k.vec(acc))
}

// reduce sums the accumulators of n rows and stores the n results.
func (k rowKernel) reduce(n int) {
	sum := func(r int) VecPhysical { return ymm[r*accumulators] }
	for r := range n {
		a := r * accumulators
		VADDPS(k.vec(a+1), k.vec(a), k.vec(a))
		VADDPS(k.vec(a+3), k.vec(a+2), k.vec(a+2))
		VADDPS(k.vec(a+2), k.vec(a), k.vec(a))
		if k.bytes == 64 {
			VEXTRACTF64X4(U8(1), k.vec(a), ymm[a+1])
			VADDPS(ymm[a+1], sum(r), sum(r))
		}
	}
	// The horizontal adds bring row r to lane r of both halves of sum(0).
	switch n {
	case 1:
		VHADDPS(sum(0), sum(0), sum(0))
		VHADDPS(sum(0), sum(0), sum(0))
	case 2:
		VHADDPS(sum(1), sum(0), sum(0))
		VHADDPS(sum(0), sum(0), sum(0))
	case 4:
		VHADDPS(sum(1), sum(0), sum(0))
		VHADDPS(sum(3), sum(2), sum(2))
		VHADDPS(sum(2), sum(0), sum(0))
	}
	VEXTRACTF128(U8(1), sum(0), X1)
	VADDPS(X1, X0, X0)
	switch out := (Mem{Base: k.dst}); n {
	case 1:
		VMOVSS(X0, out)
	case 2:
		VMOVSD(X0, out)
	case 4:
		VMOVUPS(X0, out)
	}
}
