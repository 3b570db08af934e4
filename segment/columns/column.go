package columns

import (
	"math"
	"math/bits"
	"sort"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/simd"
)

// column is the decoded view of one column.
type column struct {
	specials uint8
	ints     []uint64 // two's complement
	floats   []uint64 // IEEE 754
	offsets  []uint64 // strings+1
	strings  int
	text     []byte
	sparse   bool
	rows     []uint32 // if sparse: of each code
	codes    codes
	top      uint32 // largest code

	firstInt, firstFloat, firstString uint32 // codes
}

// codes are the codes of a column. The one slice that fits them is set.
type codes struct {
	u8  []uint8
	u16 []uint16
	u32 []uint32
	n   int
}

func (c *codes) at(i int) uint32 {
	switch {
	case c.u8 != nil:
		return uint32(c.u8[i])
	case c.u16 != nil:
		return uint32(c.u16[i])
	}
	return c.u32[i]
}

// mark sets bit i-from of dst for each code i in [from, to) that lies in s.
func (c *codes) mark(dst []uint64, from, to int, s span) {
	switch {
	case c.u8 != nil:
		simd.RangeU8(dst, c.u8[from:to], uint8(s.lo), uint8(s.hi-s.lo))
	case c.u16 != nil:
		simd.RangeU16(dst, c.u16[from:to], uint16(s.lo), uint16(s.hi-s.lo))
	default:
		simd.RangeU32(dst, c.u32[from:to], s.lo, s.hi-s.lo)
	}
}

// width returns the bytes per code.
func (c *codes) width() int {
	switch {
	case c.u8 != nil:
		return 1
	case c.u16 != nil:
		return 2
	}
	return 4
}

// column returns the view of a column whose sections are within the file.
func (c *Columns) column(x *entry) column {
	s := x.sections()
	v := column{
		specials: x.specials,
		ints:     codec.U64sFromBytes(c.b[s.ints:s.floats]),
		floats:   codec.U64sFromBytes(c.b[s.floats:s.offsets]),
		offsets:  codec.U64sFromBytes(c.b[s.offsets:s.text]),
		strings:  int(x.strings),
		text:     c.b[s.text : s.text+x.text],
		sparse:   x.layout == layoutSparse,
		codes:    codes{n: int(x.codes)},
		top:      uint32(x.top()),
	}
	if v.sparse {
		v.rows = codec.U32sFromBytes(c.b[s.rows : s.rows+4*x.codes])
	}
	width := codeWidth(x.top())
	switch b := c.b[s.codes : s.codes+width*x.codes]; width {
	case 1:
		v.codes.u8 = b
	case 2:
		v.codes.u16 = codec.U16sFromBytes(b)
	default:
		v.codes.u32 = codec.U32sFromBytes(b)
	}
	v.firstInt = specialCount(x.specials&(specialNull|specialFalse|specialTrue)) + 1
	v.firstFloat = v.firstInt + x.ints
	v.firstString = v.firstFloat + x.floats
	return v
}

func specialCount(specials uint8) uint32 { return uint32(bits.OnesCount8(specials)) }

// special returns the code of a special value, 0 if it does not occur.
func (v *column) special(bit uint8) uint32 {
	if v.specials&bit == 0 {
		return 0
	}
	code := specialCount(v.specials&(bit-1)) + 1
	if bit >= specialList {
		code += uint32(len(v.ints) + len(v.floats) + v.strings)
	}
	return code
}

func (v *column) float(i int) float64 { return math.Float64frombits(v.floats[i]) }

func (v *column) string(i int) []byte { return v.text[v.offsets[i]:v.offsets[i+1]] }

// integer returns f as an int64 if it is an integer in that range. Such numbers are stored as
// integers, so that equal numbers share a code.
func integer(f float64) (int64, bool) {
	if f >= -1<<63 && f < 1<<63 && f == math.Trunc(f) {
		return int64(f), true
	}
	return 0, false
}

// search returns the first index of a sparse column with a row >= row.
func (v *column) search(row int) int {
	return sort.Search(len(v.rows), func(i int) bool { return v.rows[i] >= uint32(row) })
}

// value returns the value of a code, which is not 0: an empty list for every list, an empty map for
// every map.
func (v *column) value(code uint32) any {
	switch {
	case code < v.firstInt:
		if code == v.special(specialNull) {
			return nil
		}
		return code == v.special(specialTrue)
	case code < v.firstFloat:
		return int64(v.ints[code-v.firstInt])
	case code < v.firstString:
		return v.float(int(code - v.firstFloat))
	case code < v.firstString+uint32(v.strings):
		return string(v.string(int(code - v.firstString)))
	case code == v.special(specialList):
		return []any{}
	}
	return map[string]any{}
}

// count returns the number of rows with a code in a column of values.
func (v *column) count() int {
	if v.sparse {
		return v.codes.n
	}
	n := v.codes.n
	for from := 0; from < v.codes.n; from += scanBlock {
		var missing [scanBlock / 64]uint64
		v.codes.mark(missing[:], from, min(from+scanBlock, v.codes.n), span{0, 0})
		for _, w := range missing {
			n -= bits.OnesCount64(w)
		}
	}
	return n
}

func (v *column) checkFloats() bool {
	for i := range v.floats {
		f := v.float(i)
		if _, ok := integer(f); ok || f != f {
			return false
		}
	}
	return true
}

func (v *column) checkOffsets() bool {
	if v.strings == 0 {
		return true
	}
	return v.offsets[0] == 0 && v.offsets[v.strings] == uint64(len(v.text)) &&
		ascending(len(v.offsets), func(i int) bool { return v.offsets[i-1] <= v.offsets[i] })
}

// checkRows tells whether the rows of a sparse column are in order and below limit.
func (v *column) checkRows(limit int, repeats bool) bool {
	if len(v.rows) == 0 {
		return true
	}
	step := uint64(1)
	if repeats {
		step = 0
	}
	return ascending(len(v.rows), func(i int) bool { return uint64(v.rows[i]) >= uint64(v.rows[i-1])+step }) &&
		uint64(v.rows[len(v.rows)-1]) < uint64(limit)
}

// checkCodes tells whether all codes are in the dictionary.
func (v *column) checkCodes() bool {
	var outside []span
	if limit := uint32(1<<(8*v.codes.width()) - 1); v.top < limit {
		outside = append(outside, span{v.top + 1, limit})
	}
	if v.sparse {
		outside = append(outside, span{0, 0})
	}
	var found [scanBlock / 64]uint64
	for from := 0; from < v.codes.n; from += scanBlock {
		for _, s := range outside {
			v.codes.mark(found[:], from, min(from+scanBlock, v.codes.n), s)
		}
	}
	for _, w := range found {
		if w != 0 {
			return false
		}
	}
	return true
}
