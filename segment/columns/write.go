package columns

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/internal/codec"
)

// Bytes returns the column file of a segment of rows rows: all that were added, and empty ones
// after them if fewer were added. It panics when rows is not ident.Rows or less than the rows
// added. The Builder is not changed.
func (b *Builder) Bytes(rows int, ident Ident) []byte {
	if rows != ident.Rows || rows < b.next || rows > MaxRows {
		panic(fmt.Sprintf("columns: file of %d rows for %d rows, %d added", rows, ident.Rows, b.next))
	}
	keys := make([]columnKey, 0, len(b.columns))
	h := header{ident: ident}
	size := uint64(0)
	for key, col := range b.columns {
		if len(col.ids) > 0 { // empty: left by a refused row, or by a source without the field
			keys = append(keys, key)
			h.columns++
			h.paths += uint64(len(key.path))
			size += col.maxSize()
		}
	}
	slices.SortFunc(keys, func(a, b columnKey) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.role, b.role))
	})
	path := headerSize + entrySize*uint64(h.columns)
	data := align(path + h.paths)
	out := make([]byte, data, data+size+crcSize)
	entries := make([]entry, len(keys))
	for i, key := range keys {
		out, entries[i] = b.columns[key].append(out, rows, key.role)
		entries[i].path, entries[i].pathLen = path, uint32(len(key.path))
		path += uint64(len(key.path))
	}
	h.size = uint64(len(out)) + crcSize
	start := h.append(out[:0])
	for i := range entries {
		start = entries[i].append(start)
	}
	for _, key := range keys {
		start = append(start, key.path...)
	}
	return binary.LittleEndian.AppendUint32(out, codec.CRC(out))
}

// maxSize returns a limit of the bytes that append adds.
func (c *columnBuilder) maxSize() uint64 {
	x := entry{
		layout: layoutSparse, specials: 2*specialMap - 1, codes: uint64(len(c.ids)),
		ints: uint32(len(c.ints.values)), floats: uint32(len(c.floats.values)), strings: uint32(len(c.strings.values)),
	}
	for _, s := range c.strings.values {
		x.text += uint64(len(s.value))
	}
	for _, p := range c.parts {
		x.ints += uint32(len(p.from.ints))
		x.floats += uint32(len(p.from.floats))
		x.strings += uint32(p.from.strings)
		x.text += uint64(len(p.from.text))
	}
	return x.sections().end
}

// append appends the sections of the column to out, the file so far, and returns the directory
// entry without its path.
func (c *columnBuilder) append(out []byte, rows int, role uint8) ([]byte, entry) {
	le := binary.LittleEndian
	x := entry{role: role, data: uint64(len(out))}
	n := numbering{codes: make([]uint32, c.nextID)}

	specials := slices.Clone(c.specials.values)
	for _, p := range c.parts {
		for bit := uint8(1); bit <= specialMap; bit <<= 1 {
			if code := p.from.special(bit); code != 0 && p.used.Has(int(code)) {
				specials = append(specials, pair[uint8]{bit, p.firstID + code})
			}
		}
	}
	slices.SortFunc(specials, func(a, b pair[uint8]) int { return cmp.Compare(a.value, b.value) })
	late := slices.IndexFunc(specials, func(p pair[uint8]) bool { return p.value >= specialList })
	if late < 0 {
		late = len(specials)
	}
	for _, bit := range number(&n, specials[:late]) {
		x.specials |= bit
	}

	ints := number(&n, ordered(&c.ints, c.parts, func(p *part) (uint32, int, func(i int) int64) {
		return p.from.firstInt, len(p.from.ints), func(i int) int64 { return int64(p.from.ints[i]) }
	}))
	for _, v := range ints {
		out = le.AppendUint64(out, uint64(v))
	}
	x.ints = uint32(len(ints))

	floats := number(&n, ordered(&c.floats, c.parts, func(p *part) (uint32, int, func(i int) float64) {
		return p.from.firstFloat, len(p.from.floats), p.from.float
	}))
	for _, v := range floats {
		out = le.AppendUint64(out, math.Float64bits(v))
	}
	x.floats = uint32(len(floats))

	strings := number(&n, ordered(&c.strings, c.parts, func(p *part) (uint32, int, func(i int) string) {
		text := string(p.from.text) // one copy for all strings
		return p.from.firstString, p.from.strings,
			func(i int) string { return text[p.from.offsets[i]:p.from.offsets[i+1]] }
	}))
	out = x.appendStrings(out, strings)

	for _, bit := range number(&n, specials[late:]) {
		x.specials |= bit
	}
	return c.appendCodes(out, &x, n.codes, rows), x
}

// appendStrings appends the offsets of strings and their bytes.
func (x *entry) appendStrings(out []byte, strings []string) []byte {
	le := binary.LittleEndian
	x.strings = uint32(len(strings))
	if len(strings) > 0 {
		out = le.AppendUint64(out, 0)
	}
	for _, v := range strings {
		x.text += uint64(len(v))
		out = le.AppendUint64(out, x.text)
	}
	for _, v := range strings {
		out = append(out, v...)
	}
	return pad(out)
}

// appendCodes appends the codes of the rows, in the layout that takes less space. by has the code
// of each id.
func (c *columnBuilder) appendCodes(out []byte, x *entry, by []uint32, rows int) []byte {
	le := binary.LittleEndian
	x.layout, x.codes = layoutSparse, uint64(len(c.ids))
	width := codeWidth(x.top())
	if x.role == roleValue && uint64(rows)*width <= x.codes*(width+4) {
		x.layout, x.codes = layoutDense, uint64(rows)
	}
	if x.layout == layoutSparse {
		for i := range c.ids {
			out = le.AppendUint32(out, c.row(i))
		}
		out = pad(out)
	}
	start := len(out)
	out = append(out, make([]byte, x.codes*width)...)
	codes := out[start:]
	for i, id := range c.ids {
		at := i
		if x.layout == layoutDense {
			at = int(c.row(i))
		}
		switch code := by[id]; width {
		case 1:
			codes[at] = uint8(code)
		case 2:
			le.PutUint16(codes[2*at:], uint16(code))
		case 4:
			le.PutUint32(codes[4*at:], code)
		}
	}
	return pad(out)
}

// row returns the row of ids[i].
func (c *columnBuilder) row(i int) uint32 {
	if c.rows == nil {
		return uint32(i)
	}
	return c.rows[i]
}

func pad(b []byte) []byte { return append(b, make([]byte, align(uint64(len(b)))-uint64(len(b)))...) }

// numbering assigns codes to values in the order of their first use.
type numbering struct {
	codes []uint32 // by id
	last  uint32
}

// number returns the values of pairs, each once, in the same order.
func number[T cmp.Ordered](n *numbering, pairs []pair[T]) []T {
	values := make([]T, 0, len(pairs))
	for i, p := range pairs {
		if i == 0 || p.value != pairs[i-1].value {
			n.last++
			values = append(values, p.value)
		}
		n.codes[p.id] = n.last
	}
	return values
}
