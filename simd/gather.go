package simd

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Record geometry of GatherL2.
const (
	RecordAlign = 64 // the length of a record, and of the codes of a query, is a multiple of it
	RecordTail  = 16 // bytes at the end of a record that are not codes
)

// A CodedVector is a vector that GatherL2 compares with records: the codes of a record or of a
// query.
type CodedVector struct {
	Codes []uint8 // signed, as two's complement; with zeros up to the length of a record
	Sum   int32   // sum of the codes
	Scale float32 // value of a code of 1
	Level float32 // squared length
	Extra float32 // a component that is not coded
}

// GatherL2 sets dst[i] to the squared distance of q and record ids[i] of records, which are
// len(q.Codes) bytes each. A record holds codes c, stored as c+128. Its last 16 bytes are the value
// of a code of 1, the squared length of the vector and an uncoded component, all float32, and the
// sum of the codes, an int32, which GatherL2 does not use. The bytes in between may have any value.
// The distance is
//
//	((record's length + q's) + (-2*q.Extra)*record's extra) + ((-2*q.Scale)*record's scale)*(codes of q . codes of the record)
//
// where the product of the codes is exact and everything else is rounded to float32 from left to
// right: the same from every implementation on every CPU. The codes of q must be such that no sum
// leaves an int32; 65536 codes never do. GatherL2 returns the number of leading ids that have a
// record: if that is not len(ids), it has computed nothing. It panics if dst is shorter than ids or
// the length of a record is not a multiple of 64.
func GatherL2(dst []float32, q *CodedVector, records []uint8, ids []uint32) int {
	n := leading(dst, q, records, ids)
	if n == len(ids) {
		gatherL2(dst, q.Codes, -128*q.Sum, -2*q.Scale, q.Level, -2*q.Extra, records, ids)
	}
	return n
}

// GatherCachedL2 is GatherL2 for records that are likely in a cache of the processor: it is slower
// for others.
func GatherCachedL2(dst []float32, q *CodedVector, records []uint8, ids []uint32) int {
	n := leading(dst, q, records, ids)
	if n == len(ids) {
		gatherCachedL2(dst, q.Codes, -128*q.Sum, -2*q.Scale, q.Level, -2*q.Extra, records, ids)
	}
	return n
}

// leading checks the arguments of GatherL2 and returns its result.
func leading(dst []float32, q *CodedVector, records []uint8, ids []uint32) int {
	if len(dst) < len(ids) || len(q.Codes) == 0 || len(q.Codes)%RecordAlign != 0 {
		panic(fmt.Sprintf("simd: GatherL2 of %d ids into %d, records of %d bytes", len(ids), len(dst), len(q.Codes)))
	}
	n := uint32(min(uint64(len(records)/len(q.Codes)), 1<<32-1))
	for i, id := range ids {
		if id >= n {
			return i
		}
	}
	return len(ids)
}

// GatherSplitL2 is GatherL2 for records in two parts. Row i has its dim codes from codes[i*dim] on,
// and its last 16 bytes from tails[i*16] on. len(q.Codes) is dim, rounded up to a multiple of 64.
// So many bytes are loaded for each row, some from the next one, or from whatever follows the last
// one, included: a row that has fewer behind it does not count.
func GatherSplitL2(dst []float32, q *CodedVector, codes []uint8, dim int, tails []uint8, ids []uint32) int {
	if len(dst) < len(ids) || dim <= 0 || len(q.Codes) != (dim+RecordAlign-1)/RecordAlign*RecordAlign {
		panic(fmt.Sprintf("simd: GatherSplitL2 of %d ids into %d, %d codes for %d components", len(ids), len(dst),
			len(q.Codes), dim))
	}
	n := uint32(0)
	if len(codes) >= len(q.Codes) {
		n = uint32(min(uint64((len(codes)-len(q.Codes))/dim+1), uint64(len(tails)/RecordTail), 1<<32-1))
	}
	for i, id := range ids {
		if id >= n {
			return i
		}
	}
	gatherSplitL2(dst, q.Codes, -128*q.Sum, -2*q.Scale, q.Level, -2*q.Extra, codes, dim, tails, ids)
	return len(ids)
}

// Prefetch loads the cache lines of b, at most 64 KiB of them, without waiting. It is a hint
// without any other effect.
func Prefetch(b []uint8) { prefetch(b) }

// PrefetchVector is Prefetch for a vector.
func PrefetchVector(v []float32) { prefetchVector(v) }

// LoadVector sets p to the vector of a record, reusing p's memory. Every byte between the codes and
// the tail must be 128.
func LoadVector(p *CodedVector, record []uint8) {
	if len(record)%RecordAlign != 0 || len(record) == 0 {
		panic(fmt.Sprintf("simd: LoadVector of a record of %d bytes", len(record)))
	}
	body := len(record) - RecordTail
	p.load(record, body, record[body:])
}

// LoadSplitVector sets p to the vector of a record in two parts, as GatherSplitL2 needs it, reusing
// p's memory. codes begins with dim codes and has dim bytes, rounded up to a multiple of 64.
func LoadSplitVector(p *CodedVector, codes []uint8, dim int, tail []uint8) {
	if len(codes)%RecordAlign != 0 || dim <= len(codes)-RecordAlign || dim > len(codes) {
		panic(fmt.Sprintf("simd: LoadSplitVector of %d components from %d bytes", dim, len(codes)))
	}
	p.load(codes, dim, tail)
}

// load sets p to the vector of the first dim codes, with zeros up to the length of codes.
func (p *CodedVector) load(codes []uint8, dim int, tail []uint8) {
	if cap(p.Codes) < len(codes) {
		p.Codes = make([]uint8, len(codes))
	}
	p.Codes = p.Codes[:len(codes)]
	loadPoint(p.Codes, codes)
	clear(p.Codes[dim:])
	p.Scale = math.Float32frombits(binary.LittleEndian.Uint32(tail))
	p.Level = math.Float32frombits(binary.LittleEndian.Uint32(tail[4:]))
	p.Extra = math.Float32frombits(binary.LittleEndian.Uint32(tail[8:]))
	p.Sum = int32(binary.LittleEndian.Uint32(tail[12:]))
}
