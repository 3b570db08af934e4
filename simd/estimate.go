package simd

import (
	"fmt"
	"math"
)

// Geometry of the blocks that Estimate reads.
const (
	BlockPoints = 32   // points in a block
	MaxSign     = 4096 // components of a point
	blockHead   = 256  // bytes of the factors of a block
)

// PaddedDim returns the length of the vectors that Table.Set, PackSigns and Estimate take for
// points of dim components: the next multiple of 16. Zeros fill them up.
func PaddedDim(dim int) int { return (dim + 15) &^ 15 }

// BlockSize returns the bytes of a block of points of dim components, a multiple of 16.
func BlockSize(dim int) int { return blockHead + 4*dim }

// A Table is a query for Estimate: for every four components, the sums of their values with all
// combinations of signs.
type Table struct {
	sums []uint8
	bias int32   // bias of all sums
	unit float32 // value of a sum of 1
}

// Set makes t the table of the query q, reusing t's memory. Components are rounded to 1/31 of the
// largest one, or to 1/15 if there are more than 2048. It panics if the length of q is not a
// multiple of 16 or is above MaxSign.
func (t *Table) Set(q []float32) {
	if len(q)%16 != 0 || len(q) > MaxSign {
		panic(fmt.Sprintf("simd: Table of %d components", len(q)))
	}
	steps := 31
	if len(q) > 2048 { // so that no sum in 128 bits of AVX2 leaves 16 bits
		steps = 15
	}
	var inv float32
	if t.unit = Largest(q) / float32(steps); t.unit > 0x1p-100 {
		inv = 1 / t.unit
	}
	if n := 4 * len(q); cap(t.sums) < n {
		t.sums = make([]uint8, n)
	} else {
		t.sums = t.sums[:n]
	}
	t.bias = int32(steps) * int32(len(q))
	signSums(t.sums, q, inv, uint8(4*steps))
}

// Estimate sets dst to
//
//	(add + block's first factor) + (t.unit * block's second factor) * (sum + n)
//
// for the 32 points of a block, and returns the set of points with a result below limit. sum adds
// the query's components with the signs of the point's components, as integers. n is slack/t.unit,
// rounded down, or 0 if slack is not a positive number: with it, and a negative second factor, a
// result that may be too large by slack times the factor is not. If n would be above 2^22, it is
// that, and slack/n takes the place of t.unit. A block is 32 first factors and 32 second factors,
// float32, and then 16 bytes for every four components. Byte j of these holds the signs of the
// components of point j in its low four bits, the first component's lowest, and the signs of point
// j+16 in its high four bits; a set bit stands for plus. Operations are rounded to float32 as
// written: the result is the same from every implementation on every CPU. Estimate panics if the
// block does not have the size that t needs.
//
// next is the block of a call to come, or nil. It is loaded into the cache meanwhile, as Prefetch
// would, but while the processor computes.
//
// The look-up of sums of four components in registers follows André, Kermarrec and Le Scouarnec,
// "Quicker ADC", IEEE TPAMI 43 (2021).
func Estimate(dst *[BlockPoints]float32, t *Table, block, next []uint8, add, limit, slack float32) uint32 {
	if next == nil {
		next = block
	}
	if len(block) != blockHead+len(t.sums) || len(t.sums) == 0 || len(next) != len(block) {
		panic(fmt.Sprintf("simd: Estimate of a block of %d bytes with %d sums", len(block), len(t.sums)))
	}
	bias, unit := t.mistrust(slack)
	return estimate(dst, t.sums, block, next, bias, unit, add, limit)
}

// Below sets below[i] to the set of points that Estimate returns for block i of blocks, which lie
// one after the other. It panics if there are more or fewer blocks than words.
func Below(below []uint32, t *Table, blocks []uint8, add, limit, slack float32) {
	if len(blocks) != len(below)*(blockHead+len(t.sums)) || len(t.sums) == 0 {
		panic(fmt.Sprintf("simd: Below of %d blocks in %d bytes with %d sums", len(below), len(blocks), len(t.sums)))
	}
	bias, unit := t.mistrust(slack)
	belowBlocks(below, t.sums, blocks, bias, unit, add, limit)
}

// mistrust returns the bias and the unit of sums that may be too small by slack.
func (t *Table) mistrust(slack float32) (bias int32, unit float32) {
	if !(slack > 0 && slack <= math.MaxFloat32) {
		return t.bias, t.unit
	}
	const most = 1 << 22 // then the sums are next to nothing
	if slack >= most*t.unit {
		return t.bias - most, slack / most
	}
	return t.bias - int32(slack/t.unit), t.unit
}

// PackSigns writes the signs of the points of a block as Estimate reads them. Bit i%16 of word i/16
// of a point is set if its component i has the sign plus; plus holds the words of all points, one
// point after the other. dst must be as long as the signs of the block in words of 32 bits:
// PackSigns panics if it is not, or if plus is no whole number of words for each point.
func PackSigns(dst []uint32, plus []uint16) {
	per := len(plus) / BlockPoints
	if len(plus)%BlockPoints != 0 || len(dst) != 16*per {
		panic(fmt.Sprintf("simd: PackSigns of %d words into %d", len(plus), len(dst)))
	}
	spread := func(v uint16) uint32 { // four bits to each byte
		x := (uint32(v) | uint32(v)<<8) & 0x00ff00ff
		return (x | x<<4) & 0x0f0f0f0f
	}
	const odd = 0xff00ff00
	for i := range per {
		for q := range 4 {
			var v [4]uint32 // byte e of v[t] is byte 4*q+t of components 4*e and following
			for t := range v {
				j := 4*q + t
				v[t] = spread(plus[j*per+i]) | spread(plus[(j+16)*per+i])<<4
			}
			a, b := v[0]&^odd|v[1]&^odd<<8, v[0]&odd>>8|v[1]&odd
			c, d := v[2]&^odd|v[3]&^odd<<8, v[2]&odd>>8|v[3]&odd
			to := dst[16*i+q:]
			to[0], to[4] = a&0xffff|c<<16, b&0xffff|d<<16
			to[8], to[12] = a>>16|c&0xffff0000, b>>16|d&0xffff0000
		}
	}
}
