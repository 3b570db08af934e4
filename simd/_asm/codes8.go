package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// step64 is the number of codes in one step: for AVX-512 one vector of codes against one of low and
// one of high bytes of the weights, for AVX2 two vectors of codes against two of weights each.
// Either way a step reads 128 bytes of weights.
const step64 = 64

// dotCodes generates the kernel of DotCodes. It has no partial vectors: the weights are padded with
// zeros, and beyond its row the last vector reads the next row, or the padding that DotCodes
// requires.
func dotCodes(s isa) {
	begin(s, "dotCodes", "func(dst []int32, weights []int16, codes []uint8, dim int, bias int32)",
		"is the kernel of DotCodes for "+s.name+"; weights are as arranged by NewWeights.")
	k := codesKernel{
		isa:  s,
		dst:  gp(Param("dst").Base()),
		w:    gp(Param("weights").Base()),
		row:  gp(Param("codes").Base()),
		dim:  gp(Param("dim")),
		dim3: GP64(), end: GP64(), p: GP64(), off: GP64(),
	}
	n, bytes := gp(Param("dst").Len()), gp(Param("weights").Len())
	bias := GP32()
	MOVL(param("bias"), bias)
	VMOVD(bias, ymm[k.bias()].AsX())
	VPBROADCASTD(ymm[k.bias()].AsX(), ymm[k.bias()].AsX())
	LEAQ(Mem{Base: k.dim, Index: k.dim, Scale: 2}, k.dim3)
	LEAQ(Mem{Base: bytes, Index: bytes, Scale: 1}, k.end)
	if s.bytes == 32 {
		VPCMPEQW(s.vec(k.mask()), s.vec(k.mask()), s.vec(k.mask()))
		VPSRLW(U8(8), s.vec(k.mask()), s.vec(k.mask()))
	}
	CMPQ(k.dim, U32(groupStride))
	JA(LabelRef("single"))
	k.loop("group", n, 4)
	k.loop("single", n, 1)
	end()
}

type codesKernel struct {
	isa
	nibbles     bool      // two codes per byte and weights of one byte, or one and of two
	dst, w, row GPVirtual // dst and row advance from group to group
	dim, dim3   GPVirtual // bytes in one row and in three
	end         GPVirtual // bytes of the weights
	p, off      GPVirtual // position in the row and in the weights
	next        GPVirtual // position in a row to come, if they are not one after the other
}

// Under AVX-512, row r has its sums of low bytes in register 2r and of high
// bytes in 2r+1; under AVX2, of even components and of odd ones.
func (k codesKernel) sum(r, i int) VecPhysical { return k.vec(2*r + i) }
func (k codesKernel) weight(i int) VecPhysical { return k.vec(8 + i) }
func (k codesKernel) code(i int) VecPhysical   { return k.vec(10 + i) }
func (k codesKernel) mask() int                { return 14 }
func (k codesKernel) bias() int                { return 15 }
func (k codesKernel) ones() int                { return 12 }

// loop computes groups of size rows until fewer than that are left of n.
func (k codesKernel) loop(name string, n GPVirtual, size int) {
	Label(name)
	CMPQ(n, U32(size))
	JL(LabelRef(name + "_end"))
	for r := range size {
		k.zero(2 * r)
		k.zero(2*r + 1)
	}
	MOVQ(k.row, k.p)
	XORQ(k.off, k.off)
	Label(name + "_step")
	k.step(size)
	ADDQ(U32(step64), k.p)
	ADDQ(U32(2*step64), k.off)
	CMPQ(k.off, k.end)
	JB(LabelRef(name + "_step"))

	k.reduce(size)
	ADDQ(U32(4*size), k.dst)
	for range size {
		ADDQ(k.dim, k.row)
	}
	SUBQ(U32(size), n)
	JMP(LabelRef(name))
	Label(name + "_end")
}

func (k codesKernel) at(r, disp int) Mem {
	return rowKernel{p: k.p, stride: k.dim, stride3: k.dim3}.at(r, disp)
}

func (k codesKernel) step(size int) {
	for i := 0; i < 2*step64; i += 2 * k.bytes {
		for j := range 2 {
			loadVector(k.isa, Mem{Base: k.w, Index: k.off, Scale: 1, Disp: i + j*k.bytes}, k.weight(j))
		}
		for r := range size {
			at := i / 2
			switch {
			case i > 0:
			case k.next != nil:
				PREFETCHT0(Mem{Base: k.next})
			default:
				PREFETCHT0(k.at(r, ahead))
			}
			x, y := k.code(0), k.code(1)
			loadVector(k.isa, k.at(r, at), x)
			if k.nibbles {
				k.stepNibbles(r)
				continue
			}
			if k.bytes == 64 {
				VPDPBUSD(k.weight(0), x, k.sum(r, 0))
				VPDPBUSD(k.weight(1), x, k.sum(r, 1))
				continue
			}
			VPSRLW(U8(8), x, y)
			VPAND(k.vec(k.mask()), x, x)
			VPMADDWD(k.weight(0), x, x)
			VPMADDWD(k.weight(1), y, y)
			VPADDD(x, k.sum(r, 0), k.sum(r, 0))
			VPADDD(y, k.sum(r, 1), k.sum(r, 1))
		}
	}
}

// stepNibbles adds the two codes of each byte in code(0), times their weights; weight(0) holds
// those of the low codes.
func (k codesKernel) stepNibbles(r int) {
	x, y, mask := k.code(0), k.code(1), k.vec(k.mask())
	VPSRLW(U8(4), x, y)
	if k.bytes == 64 {
		VPANDD(mask, x, x)
		VPANDD(mask, y, y)
		VPDPBUSD(k.weight(0), x, k.sum(r, 0))
		VPDPBUSD(k.weight(1), y, k.sum(r, 1))
		return
	}
	VPAND(mask, x, x)
	VPAND(mask, y, y)
	// Four products of 15 times 127 stay far below 2^15.
	VPMADDUBSW(k.weight(0), x, x)
	VPMADDUBSW(k.weight(1), y, y)
	VPADDW(y, x, x)
	VPMADDWD(k.vec(k.ones()), x, x)
	VPADDD(x, k.sum(r, 0), k.sum(r, 0))
}

// dotNibbles generates the kernel of DotNibbles, like dotCodes.
func dotNibbles(s isa) {
	begin(s, "dotNibbles", "func(dst []int32, weights []int8, codes []uint8, stride int, bias int32)",
		"is the kernel of DotNibbles for "+s.name+"; weights are as arranged by NewNibbleWeights.")
	k := codesKernel{
		isa: s, nibbles: true,
		dst:  gp(Param("dst").Base()),
		w:    gp(Param("weights").Base()),
		row:  gp(Param("codes").Base()),
		dim:  gp(Param("stride")),
		dim3: GP64(), end: gp(Param("weights").Len()), p: GP64(), off: GP64(),
	}
	n := gp(Param("dst").Len())
	constant := GP32()
	MOVL(param("bias"), constant)
	VMOVD(constant, ymm[k.bias()].AsX())
	VPBROADCASTD(ymm[k.bias()].AsX(), ymm[k.bias()].AsX())
	s.fill(k.mask(), 0x0f0f0f0f)
	if s.bytes == 32 {
		VPCMPEQW(s.vec(k.ones()), s.vec(k.ones()), s.vec(k.ones()))
		VPSRLW(U8(15), s.vec(k.ones()), s.vec(k.ones()))
	}
	LEAQ(Mem{Base: k.dim, Index: k.dim, Scale: 2}, k.dim3)
	CMPQ(k.dim, U32(groupStride))
	JA(LabelRef("single"))
	k.loop("group", n, 4)
	k.loop("single", n, 1)
	end()
}

// rowsAhead is the number of rows that dotCodesAt prefetches ahead.
const rowsAhead = 8

// dotCodesAt generates the kernel of DotCodesAt. It takes all rows but the last rowsAhead, which
// must follow in the list.
func dotCodesAt(s isa) {
	begin(s, "dotCodesAt", "func(dst []int32, weights []int16, codes []uint8, rows []int32, dim int, bias int32)",
		"is the kernel of DotCodesAt for "+s.name+"; rows has some more elements than dst.")
	k := codesKernel{
		isa: s,
		dst: gp(Param("dst").Base()), w: gp(Param("weights").Base()), dim: gp(Param("dim")),
		end: GP64(), p: GP64(), off: GP64(), next: GP64(),
	}
	n, bytes, codes, rows := gp(Param("dst").Len()), gp(Param("weights").Len()), gp(Param("codes").Base()), gp(Param("rows").Base())
	bias := GP32()
	MOVL(param("bias"), bias)
	VMOVD(bias, ymm[k.bias()].AsX())
	VPBROADCASTD(ymm[k.bias()].AsX(), ymm[k.bias()].AsX())
	LEAQ(Mem{Base: bytes, Index: bytes, Scale: 1}, k.end)
	if s.bytes == 32 {
		VPCMPEQW(s.vec(k.mask()), s.vec(k.mask()), s.vec(k.mask()))
		VPSRLW(U8(8), s.vec(k.mask()), s.vec(k.mask()))
	}
	Label("row")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	for i, p := range []GPVirtual{k.p, k.next} {
		MOVLQSX(Mem{Base: rows, Disp: 4 * i * rowsAhead}, p)
		IMULQ(k.dim, p)
		ADDQ(codes, p)
	}
	k.zero(0)
	k.zero(1)
	XORQ(k.off, k.off)
	Label("step")
	k.step(1)
	ADDQ(U32(step64), k.p)
	ADDQ(U32(step64), k.next)
	ADDQ(U32(2*step64), k.off)
	CMPQ(k.off, k.end)
	JB(LabelRef("step"))
	k.reduce(1)
	ADDQ(U32(4), k.dst)
	ADDQ(U32(4), rows)
	DECQ(n)
	JMP(LabelRef("row"))
	Label("done")
	end()
}

// loadVector loads an unaligned vector.
func loadVector(s isa, m Mem, to VecPhysical) {
	if s.bytes == 64 {
		VMOVDQU32(m, to)
	} else {
		VMOVDQU(m, to)
	}
}

// reduce adds up the sums of size rows, adds the bias and stores the results.
func (k codesKernel) reduce(size int) {
	for r := range size {
		if k.bytes == 64 && !k.nibbles {
			VPSLLD(U8(8), k.sum(r, 1), k.sum(r, 1))
		}
		VPADDD(k.sum(r, 1), k.sum(r, 0), k.vec(r)) // register r is free: 2r+1 >= r
	}
	// Each of two rounds halves the lanes and doubles the rows of a register:
	// in the end, lane r of every 128 bits belongs to row r.
	add := func(a, b, to int, low, high func(...Op)) {
		low(k.vec(b), k.vec(a), k.vec(10))
		high(k.vec(b), k.vec(a), k.vec(11))
		VPADDD(k.vec(10), k.vec(11), k.vec(to))
	}
	if size == 1 {
		k.zero(1)
	}
	add(0, 1, 0, VPUNPCKLDQ, VPUNPCKHDQ)
	if size == 1 {
		k.zero(2)
	} else {
		add(2, 3, 2, VPUNPCKLDQ, VPUNPCKHDQ)
	}
	add(0, 2, 0, VPUNPCKLQDQ, VPUNPCKHQDQ)
	if k.bytes == 64 {
		VEXTRACTI64X4(U8(1), k.vec(0), Y1)
		VPADDD(Y1, Y0, Y0)
	}
	VEXTRACTI128(U8(1), Y0, X1)
	VPADDD(X1, X0, X0)
	if k.nibbles {
		VPADDD(X0, X0, X0)
	}
	VPADDD(ymm[k.bias()].AsX(), X0, X0)
	if out := (Mem{Base: k.dst}); size == 1 {
		VMOVD(X0, out)
	} else {
		VMOVDQU(X0, out)
	}
}

// nextRows is the distance in bytes at which scales and levels are prefetched: one call of 1024
// rows.
const nextRows = 4096

// above generates the kernel of CodesAbove for whole words of 64 rows.
func above(s isa) {
	begin(s, "codesAbove", "func(dst []uint64, dots []int32, scales, levels []float32, mul, add, per, cut float32)",
		"sets the first len(dst) words.")
	dst, n := gp(Param("dst").Base()), gp(Param("dst").Len())
	from := []GPVirtual{gp(Param("dots").Base()), gp(Param("scales").Base()), gp(Param("levels").Base())}
	const mul, add, per, cut, x, y = 0, 1, 2, 3, 4, 5
	for i, name := range []string{"mul", "add", "per", "cut"} {
		VBROADCASTSS(param(name), s.vec(i))
	}
	word, part := GP64(), GP64()
	Label("word")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	for i := 0; i < 64; i += s.lanes() {
		if i%16 == 0 { // for the next call; in between, the memory is busy with codes
			PREFETCHT0(Mem{Base: from[1], Disp: 4*i + nextRows})
			PREFETCHT0(Mem{Base: from[2], Disp: 4*i + nextRows})
		}
		at := func(j int) Mem { return Mem{Base: from[j], Disp: 4 * i} }
		VCVTDQ2PS(at(0), s.vec(x))
		VMULPS(s.vec(mul), s.vec(x), s.vec(x))
		VADDPS(s.vec(add), s.vec(x), s.vec(x))
		VMULPS(at(1), s.vec(x), s.vec(x))
		VMULPS(at(2), s.vec(per), s.vec(y))
		VADDPS(s.vec(y), s.vec(x), s.vec(x))
		to := part
		if i == 0 {
			to = word
		}
		if s.bytes == 64 {
			VCMPPS(U8(notLess), s.vec(cut), s.vec(x), K1)
			KMOVW(K1, to.As32())
		} else {
			VCMPPS(U8(notLess), s.vec(cut), s.vec(x), s.vec(x))
			VMOVMSKPS(s.vec(x), to.As32())
		}
		if i > 0 {
			SHLQ(U8(i), part)
			ORQ(part, word)
		}
	}
	MOVQ(word, Mem{Base: dst})
	ADDQ(U32(8), dst)
	for _, p := range from {
		ADDQ(U32(256), p)
	}
	DECQ(n)
	JMP(LabelRef("word"))
	Label("done")
	end()
}

// rowsAbove generates the kernel of RowsAbove for whole words of 64 rows.
func rowsAbove(s isa) {
	begin(s, "rowsAbove", "func(dst []uint64, values, scales []float32, add, mul, least, most, cut float32)",
		"sets the first len(dst) words.")
	dst, n := gp(Param("dst").Base()), gp(Param("dst").Len())
	values, scales := gp(Param("values").Base()), gp(Param("scales").Base())
	const add, mul, least, most, cut, x, y = 0, 1, 2, 3, 4, 5, 6
	for i, name := range []string{"add", "mul", "least", "most", "cut"} {
		VBROADCASTSS(param(name), s.vec(i))
	}
	word, part := GP64(), GP64()
	Label("word")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	for i := 0; i < 64; i += s.lanes() {
		if i%16 == 0 { // for the next call, as in above
			PREFETCHT0(Mem{Base: scales, Disp: 4*i + nextRows})
		}
		VMOVUPS(Mem{Base: scales, Disp: 4 * i}, s.vec(y))
		VMULPS(s.vec(mul), s.vec(y), s.vec(x))
		VADDPS(s.vec(add), s.vec(x), s.vec(x))
		VMULPS(Mem{Base: values, Disp: 4 * i}, s.vec(x), s.vec(x))
		const less, greater = 0x11, 0x1e // LT_OQ and GT_OQ: false of a NaN
		to := part
		if i == 0 {
			to = word
		}
		if s.bytes == 64 {
			VCMPPS(U8(less), s.vec(cut), s.vec(x), K1)
			VCMPPS(U8(greater), s.vec(least), s.vec(y), K1, K1)
			VCMPPS(U8(less), s.vec(most), s.vec(y), K1, K1)
			KMOVW(K1, to.As32())
		} else {
			VCMPPS(U8(less), s.vec(cut), s.vec(x), s.vec(x))
			VCMPPS(U8(greater), s.vec(least), s.vec(y), s.vec(7))
			VANDPS(s.vec(7), s.vec(x), s.vec(x))
			VCMPPS(U8(less), s.vec(most), s.vec(y), s.vec(7))
			VANDPS(s.vec(7), s.vec(x), s.vec(x))
			VMOVMSKPS(s.vec(x), to.As32())
		}
		if i > 0 {
			SHLQ(U8(i), part)
			ORQ(part, word)
		}
	}
	NOTQ(word)
	MOVQ(word, Mem{Base: dst})
	ADDQ(U32(8), dst)
	ADDQ(U32(256), values)
	ADDQ(U32(256), scales)
	DECQ(n)
	JMP(LabelRef("word"))
	Label("done")
	end()
}
