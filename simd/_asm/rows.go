package main

import (
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

// The hot case is a scan of more rows than fit in a cache, where only the use of memory bandwidth
// counts. These figures are from such scans; see BenchmarkRows.
const (
	// groupStride is the row length in bytes up to which rows are computed in
	// groups. Longer rows are read one after the other: the hardware prefetchers
	// follow one stream better than several.
	groupStride = 192
	// longStride is the row length in bytes above which one prefetch for every
	// block of four vectors is enough, and below which it is one for every line.
	longStride = 512
	// ahead is the distance of the prefetch in bytes. It is more than a page,
	// because hardware prefetchers stop where a page ends.
	ahead = 6144
	// line is the size of a cache line in bytes.
	line = 64
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

	CMPQ(k.stride, U32(longStride))
	JA(LabelRef("long"))
	CMPQ(k.stride, U32(groupStride))
	JA(LabelRef("short"))
	k.loop("group", n, s.group, line)
	k.loop("short", n, 1, line)
	JMP(LabelRef("done"))
	k.loop("long", n, 1, accumulators*s.bytes)

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

// Accumulator j of row r is vector register r*accumulators+j. The other registers hold the partial
// vector of the query and temporaries.
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

// loop computes groups of size rows until fewer than that are left of n, and prefetches one line
// per every bytes.
func (k rowKernel) loop(name string, n GPVirtual, size, every int) {
	label := func(suffix string) string { return name + "_" + suffix }
	// Rows that are computed in groups may be shorter than a block, and then need only the first
	// accumulator.
	used := accumulators
	if size > 1 && groupStride < accumulators*k.bytes {
		used = 1
	}
	Label(name)
	CMPQ(n, U32(size))
	JL(LabelRef(label("end")))
	for r := range size {
		for j := range used {
			k.zero(r*accumulators + j)
		}
	}
	MOVQ(k.row, k.p)
	XORQ(k.off, k.off)

	if used > 1 {
		Label(label("block"))
		CMPQ(k.off, k.blocks)
		JE(LabelRef(label("vector")))
		for j := range used {
			k.step(size, j, every)
		}
		k.advance(used)
		JMP(LabelRef(label("block")))
	}

	Label(label("vector"))
	CMPQ(k.off, k.whole)
	JE(LabelRef(label("rest")))
	k.step(size, 0, every)
	k.advance(1)
	JMP(LabelRef(label("vector")))

	Label(label("rest"))
	TESTQ(k.rest, k.rest)
	JZ(LabelRef(label("reduce")))
	for r := range size {
		k.tail.load(k.at(r, 0), k.tmp(0))
		k.accumulate(k.qtail(), k.vec(k.tmp(0)), r*accumulators, k.tmp(0))
	}

	Label(label("reduce"))
	k.reduce(size, used)
	ADDQ(U32(4*size), k.dst)
	for range size {
		ADDQ(k.stride, k.row)
	}
	SUBQ(U32(size), n)
	JMP(LabelRef(name))
	Label(label("end"))
}

// step adds vector j from the current position of n rows, and prefetches.
func (k rowKernel) step(n, j, every int) {
	VMOVUPS(Mem{Base: k.q, Index: k.off, Scale: 1, Disp: j * k.bytes}, k.vec(k.qreg()))
	for r := range n {
		if j*k.bytes%every == 0 {
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

// reduce sums the used accumulators of n rows and stores the n results.
func (k rowKernel) reduce(n, used int) {
	sum := func(r int) VecPhysical { return ymm[r*accumulators] }
	if used == 1 {
		k.zero(k.tmp(0))
	}
	for r := range n {
		a := r * accumulators
		if used == 1 {
			VADDPS(k.vec(k.tmp(0)), k.vec(a), k.vec(a)) // as the others would: -0 becomes +0
		} else {
			VADDPS(k.vec(a+1), k.vec(a), k.vec(a))
			VADDPS(k.vec(a+3), k.vec(a+2), k.vec(a+2))
			VADDPS(k.vec(a+2), k.vec(a), k.vec(a))
		}
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
