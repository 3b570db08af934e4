package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/gotypes"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// finite finds the greatest magnitude, as bits: infinities and NaNs, and only
// they, are not below 0x7f800000.
func finite(s isa) {
	begin(s, "finite", "func(a []float32) bool", "is Finite for "+s.name+".")
	a, n := gp(Param("a").Base()), gp(Param("a").Len())
	rest := GP64()
	MOVQ(n, rest)
	ANDQ(I32(s.lanes()-1), rest)
	SUBQ(rest, n)
	const most, mask, x, tmp = 0, 1, 2, 3
	s.zero(most)
	s.fill(mask, 0x7fffffff)
	add := func() {
		if s.bytes == 64 {
			VPANDD(s.vec(x), s.vec(mask), s.vec(x))
		} else {
			VPAND(s.vec(x), s.vec(mask), s.vec(x))
		}
		VPMAXUD(s.vec(x), s.vec(most), s.vec(most))
	}
	Label("vector")
	TESTQ(n, n)
	JZ(LabelRef("rest"))
	VMOVUPS(Mem{Base: a}, s.vec(x))
	add()
	ADDQ(U32(s.bytes), a)
	SUBQ(U32(s.lanes()), n)
	JMP(LabelRef("vector"))

	Label("rest")
	t := newTail(s, rest, tmp)
	t.load(Mem{Base: a}, x)
	add()

	result := GP8()
	s.fill(mask, 0x7f7fffff)
	if s.bytes == 64 {
		VPCMPGTD(s.vec(mask), s.vec(most), K1)
		KTESTW(K1, K1)
	} else {
		VPCMPGTD(s.vec(mask), s.vec(most), s.vec(most))
		VPTEST(s.vec(most), s.vec(most))
	}
	SETEQ(result)
	Store(result, ReturnIndex(0))
	end()
}

// codes generates a range kernel for codes of the given width. It takes whole
// words of 64 codes; the caller does the rest.
func codes(s isa, bits int) {
	begin(s, fmt.Sprintf("rangeU%d", bits), fmt.Sprintf("func(dst []uint64, codes []uint%d, lo, span uint%[1]d)", bits),
		"sets the bits of the first len(dst)*64 codes.")
	dst, n, p := gp(Param("dst").Base()), gp(Param("dst").Len()), gp(Param("codes").Base())
	const lo, span, x = 0, 1, 2 // x and up hold codes
	for i, name := range []string{"lo", "span"} {
		arg, from, to := GP32(), ymm[i].AsX(), s.vec(i)
		switch bits {
		case 8:
			MOVBLZX(param(name), arg)
			VMOVD(arg, from)
			VPBROADCASTB(from, to)
		case 16:
			MOVWLZX(param(name), arg)
			VMOVD(arg, from)
			VPBROADCASTW(from, to)
		case 32:
			MOVL(param(name), arg)
			VMOVD(arg, from)
			VPBROADCASTD(from, to)
		}
	}
	word, part := GP64(), GP64()
	Label("word")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	if s.bytes == 64 {
		for i := range bits / 8 {
			v := s.vec(x + i)
			VMOVDQU64(Mem{Base: p, Disp: 64 * i}, v)
			to := word
			if i > 0 {
				to = part
			}
			const lessOrEqual = 2
			switch bits {
			case 8:
				VPSUBB(s.vec(lo), v, v)
				VPCMPUB(U8(lessOrEqual), s.vec(span), v, K1)
				KMOVQ(K1, to)
			case 16:
				VPSUBW(s.vec(lo), v, v)
				VPCMPUW(U8(lessOrEqual), s.vec(span), v, K1)
				KMOVD(K1, to.As32())
			case 32:
				VPSUBD(s.vec(lo), v, v)
				VPCMPUD(U8(lessOrEqual), s.vec(span), v, K1)
				KMOVW(K1, to.As32())
			}
			if i > 0 {
				SHLQ(U8(i*512/bits), part)
				ORQ(part, word)
			}
		}
	} else {
		narrow(bits, p, 0, word)
		narrow(bits, p, 32*bits/8, part)
		SHLQ(U8(32), part)
		ORQ(part, word)
	}
	ORQ(word, Mem{Base: dst})
	ADDQ(U32(8), dst)
	ADDQ(U32(64*bits/8), p)
	DECQ(n)
	JMP(LabelRef("word"))

	Label("done")
	end()
}

// narrow compares the 32 codes at p+disp under AVX2, with lo in Y0 and span in
// Y1, and leaves their bits in word. AVX2 has no unsigned comparison: x <= span
// if min(x, span) == x. Packing narrows the all-ones and all-zeros of wider
// codes to bytes, though out of order.
func narrow(bits int, p GPVirtual, disp int, word GPVirtual) {
	v := ymm[2:]
	for i := range bits / 8 {
		VMOVDQU(Mem{Base: p, Disp: disp + 32*i}, v[i])
		switch bits {
		case 8:
			VPSUBB(Y0, v[i], v[i])
			VPMINUB(Y1, v[i], Y8)
			VPCMPEQB(Y8, v[i], v[i])
		case 16:
			VPSUBW(Y0, v[i], v[i])
			VPMINUW(Y1, v[i], Y8)
			VPCMPEQW(Y8, v[i], v[i])
		case 32:
			VPSUBD(Y0, v[i], v[i])
			VPMINUD(Y1, v[i], Y8)
			VPCMPEQD(Y8, v[i], v[i])
		}
	}
	switch bits {
	case 16:
		VPACKSSWB(v[1], v[0], v[0])
		VPERMQ(U8(0b11_01_10_00), v[0], v[0])
	case 32:
		VPACKSSDW(v[1], v[0], v[0])
		VPACKSSDW(v[3], v[2], v[2])
		VPACKSSWB(v[2], v[0], v[0])
		VMOVDQU(order, Y8)
		VPERMD(v[0], Y8, v[0])
	}
	VPMOVMSKB(v[0], word.As32())
}

func param(name string) Mem { return address(Param(name)) }

// address returns the memory of an argument or of a part of it.
func address(c gotypes.Component) Mem {
	b, err := c.Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}
