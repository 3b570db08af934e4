package columns

import (
	"encoding/binary"
	"fmt"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// Numbers of the file format. They never change for version 2. Files of version 1 do not say which
// documents they were made of, and are not read.
const (
	magic      = "VECBOLTC"
	version    = 2
	headerSize = 80
	entrySize  = 56
	crcSize    = 4 // at the end of the file

	roleValue   = 1 // the value at the path: at most one code per row
	roleElement = 2 // the scalar elements of a list at the path: any number of codes per row

	layoutDense  = 1 // one code per row of the segment; 0 where the row has none
	layoutSparse = 2 // row numbers beside the codes

	// Values with a code of their own, as bits of an entry.
	specialNull  = 1
	specialFalse = 2
	specialTrue  = 4
	specialList  = 8
	specialMap   = 16
)

// MaxRows is the largest number of rows of a segment.
const MaxRows = 2147483647

// Ident names the segment that columns belong to.
type Ident struct {
	DB      [16]byte // id of the database
	Segment uint64   // id of the segment
	Rows    int      // 0 to MaxRows
	CRC     uint32   // of the segment's vector file
	Docs    [16]byte // digest of the documents that the columns are made of
}

// header is the start of the file.
type header struct {
	ident   Ident
	size    uint64 // of the file in bytes
	columns uint32
	paths   uint64 // bytes of all paths
}

func (h *header) append(b []byte) []byte {
	e := codec.Encoder{B: append(b, magic...)}
	e.U32(version)
	e.U32(uint32(h.ident.Rows))
	e.U64(h.size)
	e.Raw(h.ident.DB[:])
	e.U64(h.ident.Segment)
	e.U32(h.ident.CRC)
	e.U32(h.columns)
	e.U64(h.paths)
	e.Raw(h.ident.Docs[:])
	return e.B
}

// decodeHeader reads the header of b, a whole file, and compares length and checksum.
func decodeHeader(b []byte) (header, error) {
	if len(b) < len(magic)+4+crcSize || string(b[:len(magic)]) != magic {
		return header{}, corrupt(0, "no header")
	}
	// The checksum comes first: it has this place in every version.
	end := len(b) - crcSize
	if got, want := codec.CRC(b[:end]), binary.LittleEndian.Uint32(b[end:]); got != want {
		return header{}, corrupt(uint64(end), "checksum %08x instead of %08x", got, want)
	}
	d := codec.NewDecoder(b[len(magic):end])
	if v := d.U32(); v != version {
		return header{}, fmt.Errorf("columns: %w: %d", fileformat.ErrVersion, v)
	}
	if end < headerSize {
		return header{}, corrupt(0, "no header")
	}
	var h header
	rows := d.U32()
	h.size = d.U64()
	copy(h.ident.DB[:], d.Raw(len(h.ident.DB)))
	h.ident.Segment = d.U64()
	h.ident.CRC = d.U32()
	h.columns = d.U32()
	h.paths = d.U64()
	copy(h.ident.Docs[:], d.Raw(len(h.ident.Docs)))
	if rows > MaxRows || h.size != uint64(len(b)) {
		return header{}, corrupt(12, "%d rows, %d bytes instead of %d", rows, len(b), h.size)
	}
	h.ident.Rows = int(rows)
	return h, nil
}

// entry describes one column in the directory.
type entry struct {
	path     uint64 // file offset
	pathLen  uint32
	role     uint8
	layout   uint8
	specials uint8  // bits of the special values that occur
	codes    uint64 // stored codes: all rows if dense
	ints     uint32 // distinct integers within int64
	floats   uint32 // distinct other numbers
	strings  uint32 // distinct strings
	text     uint64 // bytes of the strings
	data     uint64 // file offset of the sections
}

func (x *entry) append(b []byte) []byte {
	e := codec.Encoder{B: b}
	e.U64(x.path)
	e.U32(x.pathLen)
	e.U8(x.role)
	e.U8(x.layout)
	e.U8(x.specials)
	e.U8(0)
	e.U64(x.codes)
	e.U32(x.ints)
	e.U32(x.floats)
	e.U32(x.strings)
	e.U32(0)
	e.U64(x.text)
	e.U64(x.data)
	return e.B
}

// decodeEntry reads an entry from the first entrySize bytes of b.
func decodeEntry(b []byte) entry {
	le := binary.LittleEndian
	b = b[:entrySize]
	return entry{
		path: le.Uint64(b), pathLen: le.Uint32(b[8:]),
		role: b[12], layout: b[13], specials: b[14],
		codes: le.Uint64(b[16:]),
		ints:  le.Uint32(b[24:]), floats: le.Uint32(b[28:]), strings: le.Uint32(b[32:]),
		text: le.Uint64(b[40:]), data: le.Uint64(b[48:]),
	}
}

// sections are the file offsets of a column's parts. Each is a multiple of 8, except for text. A
// part ends where the next begins, apart from padding.
type sections struct {
	ints, floats, offsets, text, rows, codes, end uint64
}

// sections returns the offsets of the parts. The counts must not exceed the length of a file,
// because the sums could wrap.
func (x *entry) sections() sections {
	s := sections{ints: x.data}
	s.floats = s.ints + 8*uint64(x.ints)
	s.offsets = s.floats + 8*uint64(x.floats)
	s.text = s.offsets
	if x.strings > 0 {
		s.text += 8 * (uint64(x.strings) + 1)
	}
	s.rows = align(s.text + x.text)
	s.codes = s.rows
	if x.layout == layoutSparse {
		s.codes += align(4 * x.codes)
	}
	s.end = align(s.codes + x.codes*codeWidth(x.top()))
	return s
}

// top returns the largest code of the dictionary. Codes count from 1 over the values that occur, in
// this order: null, false, true, integers, other numbers, strings, list, map.
func (x *entry) top() uint64 {
	return uint64(specialCount(x.specials)) + uint64(x.ints) + uint64(x.floats) + uint64(x.strings)
}

// codeWidth returns the bytes per code of a dictionary with codes up to top.
func codeWidth(top uint64) uint64 {
	switch {
	case top <= 0xff:
		return 1
	case top <= 0xffff:
		return 2
	}
	return 4
}

func align(n uint64) uint64 { return (n + 7) &^ 7 }

func corrupt(off uint64, format string, args ...any) error {
	return fmt.Errorf("columns: %w: offset %d: %s", fileformat.ErrDamaged, off, fmt.Sprintf(format, args...))
}
