// Command _asm generates the amd64 assembly of package simd with avo.
//
// It is a module of its own, so that avo never becomes a dependency of the
// database. Its two outputs are committed; after a change here, run
//
//	cd simd/_asm && GOWORK=off go generate
//
// The meaning of every kernel is given by generic.go of package simd; comments
// here are about how, not what.
package main

//go:generate go run . -out ../kernels_amd64.s -stubs ../kernels_amd64.go -pkg simd

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/gotypes"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("!purego")
	tables()
	for _, s := range []isa{avx2, avx512} {
		rows(s, dot)
		rows(s, l2)
		canonical(s, dot)
		canonical(s, l2)
		finite(s)
		for _, bits := range []int{8, 16, 32} {
			codes(s, bits)
		}
		dotCodes(s)
		dotCodesAt(s)
		dotNibbles(s)
		above(s)
		rowsAbove(s)
		tileCodes(s)
		tileRows(s, dot)
		tileRows(s, l2)
		gatherL2(s, false, false)
		gatherL2(s, true, false)
		estimate(s)
		dense(s)
	}
	for _, size := range []int{32, 64, 128, 192} {
		offer(size)
	}
	gatherL2(avx2, false, true)
	offerShort()
	offerLong()
	dotSquare64()
	prefetch()
	hadamard()
	flip()
	largest()
	centre()
	encode()
	loadPoint()
	signSums()
	sketch()
	Generate()
}

// An isa is an instruction set that the kernels are generated for.
type isa struct {
	name  string
	bytes int // in a vector register
	group int // rows that a row kernel works on at once
}

var (
	avx2   = isa{name: "AVX2", bytes: 32, group: 2}
	avx512 = isa{name: "AVX512", bytes: 64, group: 4}
)

// lanes returns the number of float32 in a vector register.
func (s isa) lanes() int { return s.bytes / 4 }

// vec returns vector register i at its full width. Vector registers are
// assigned by hand because the horizontal adds exist in VEX encoding only and
// so cannot name the registers 16 to 31, which avo does not know.
func (s isa) vec(i int) VecPhysical {
	if s.bytes == 64 {
		return ymm[i].AsZ().(VecPhysical)
	}
	return ymm[i]
}

var ymm = []VecPhysical{
	Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15,
	Y16, Y17, Y18, Y19, Y20, Y21, Y22, Y23, Y24, Y25, Y26, Y27, Y28, Y29, Y30, Y31,
}

// zero clears vector register i.
func (s isa) zero(i int) {
	if s.bytes == 64 {
		VPXORD(s.vec(i), s.vec(i), s.vec(i))
	} else {
		VPXOR(s.vec(i), s.vec(i), s.vec(i))
	}
}

// fill sets every word of vector register i to bits.
func (s isa) fill(i int, bits uint32) {
	word := GP32()
	MOVL(U32(bits), word)
	VMOVD(word, ymm[i].AsX())
	VPBROADCASTD(ymm[i].AsX(), s.vec(i))
}

// A tail loads the last, partial vector of a float32 array: the missing lanes
// become zero and their memory is not touched.
type tail struct {
	s    isa
	mask Register // K1, or a vector register holding -1 or 0 per lane
}

// newTail builds the mask for n lanes, n being smaller than a vector. It uses
// vector register i under AVX2.
func newTail(s isa, n GPVirtual, i int) tail {
	if s.bytes == 64 {
		one := GP32()
		MOVQ(n, RCX)
		MOVL(U32(1), one)
		SHLL(CL, one)
		DECL(one)
		KMOVW(one, K1)
		return tail{s, K1}
	}
	table, back := GP64(), GP64()
	LEAQ(masks.Offset(32), table)
	MOVQ(n, back)
	NEGQ(back)
	VMOVUPS(Mem{Base: table, Index: back, Scale: 4}, s.vec(i))
	return tail{s, s.vec(i)}
}

// load reads the partial vector at m into vector register i.
func (t tail) load(m Mem, i int) {
	if t.s.bytes == 64 {
		VMOVUPS_Z(m, t.mask, t.s.vec(i))
	} else {
		VMASKMOVPS(m, t.mask, t.s.vec(i))
	}
}

// masks holds eight lanes of ones and eight of zeros: a load that starts n
// lanes before the middle yields n ones followed by zeros. order undoes the
// interleaving of the 128-bit halves by two pack instructions.
var masks, order Mem

func tables() {
	masks = GLOBL("masks", RODATA|NOPTR)
	for i := range 8 {
		DATA(4*i, U32(0xffffffff))
	}
	for i := range 8 {
		DATA(32+4*i, U32(0))
	}
	order = GLOBL("order", RODATA|NOPTR)
	for i, lane := range []int{0, 4, 1, 5, 2, 6, 3, 7} {
		DATA(4*i, U32(lane))
	}
	transpose = GLOBL("transpose", RODATA|NOPTR)
	for i := range 16 {
		DATA(4*i, U32(i%4*4+i/4))
	}
	minuses = []Mem{minus(1), minus(2), minus(4)}
	for i := range picks {
		picks[i], signed[i] = pick(i), signsOf(i)
	}
}

// begin opens a function that leaves through end.
func begin(s isa, name, signature, doc string) {
	TEXT(name+s.name, NOSPLIT, signature)
	Pragma("noescape")
	Doc(name + s.name + " " + doc)
}

// end leaves the function without upper vector halves, which would slow down
// the SSE code of the caller.
func end() {
	VZEROUPPER()
	RET()
}

// gp returns a 64-bit register holding an argument.
func gp(c gotypes.Component) GPVirtual { return Load(c, GP64()).(GPVirtual) }
