package terms

import (
	"encoding/binary"

	"github.com/vecbolt/vecbolt/internal/blocks"
	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// Numbers of the file format. They never change for version 2. Files of version 1 do not say which
// documents they were made of, and are not read.
const (
	magic      = "VECBOLTT"
	version    = 2
	headerSize = blocks.HeaderSize
	sectionEnd = 64
	wordSize   = 4
	skipSize   = 24  // of an entry of a skip table
	perBlock   = 128 // postings
	perGroup   = 16  // terms of a dictionary group
	offsetSize = 8   // of an entry of the dictionary index
)

// MaxRows is the limit of the rows of a segment.
const MaxRows = 2147483647

var format = blocks.Format{Magic: magic, Version: version, Name: "terms"}

// Ident names the segment that an index belongs to, and the analysis of its texts.
type Ident struct {
	DB       [16]byte // id of the database
	Segment  uint64   // id of the segment
	Rows     int      // 1 to MaxRows
	CRC      uint32   // of the segment's vector file
	Analysis [16]byte // whatever decides which terms a document has
	Docs     [16]byte // digest of the documents that the index is made of
}

// header is the content of the file's first page. Offsets are from the start of the file.
type header struct {
	ident      Ident
	texts      uint32 // rows that have terms
	terms      uint32
	tokens     uint64 // length of all rows
	dictionary uint64
	index      uint64
	table      uint64
	tableCRC   uint32
}

// postings is the offset of the postings.
func (h *header) postings() uint64 { return align(headerSize + wordSize*uint64(h.ident.Rows)) }

func (h *header) groups() uint64 { return (uint64(h.terms) + perGroup - 1) / perGroup }

func (h *header) size() uint64 { return h.table + uint64(blocks.TableSize(int64(h.table))) }

func align(off uint64) uint64 { return (off + sectionEnd - 1) &^ (sectionEnd - 1) }

func (h *header) encode() []byte {
	e := format.Header()
	e.U32(uint32(h.ident.Rows))
	e.Raw(h.ident.DB[:])
	e.U64(h.ident.Segment)
	e.U64(h.size())
	e.Raw(h.ident.Analysis[:])
	e.U32(h.ident.CRC)
	e.U32(h.texts)
	e.U64(h.tokens)
	e.U64(h.dictionary)
	e.U64(h.index)
	e.U64(h.table)
	e.U32(h.terms)
	e.U32(h.tableCRC)
	e.Raw(h.ident.Docs[:])
	return fileformat.SealHeader(e)
}

// decodeHeader reads the header of b, a whole file, and compares its checksum and the length of b.
func decodeHeader(b []byte) (h header, err error) {
	d, err := format.Open(b)
	if err != nil {
		return h, err
	}
	rows := d.U32()
	copy(h.ident.DB[:], d.Raw(len(h.ident.DB)))
	h.ident.Segment = d.U64()
	size := d.U64()
	copy(h.ident.Analysis[:], d.Raw(len(h.ident.Analysis)))
	h.ident.CRC = d.U32()
	h.texts = d.U32()
	h.tokens = d.U64()
	h.dictionary, h.index, h.table = d.U64(), d.U64(), d.U64()
	h.terms = d.U32()
	h.tableCRC = d.U32()
	copy(h.ident.Docs[:], d.Raw(len(h.ident.Docs)))
	if rows < 1 || rows > MaxRows || h.texts > rows {
		return h, corrupt(12, "%d rows, %d of them with terms", rows, h.texts)
	}
	h.ident.Rows = int(rows)
	n := uint64(len(b))
	if h.table > n || h.index > h.table || h.dictionary > h.index || h.postings() > h.dictionary ||
		h.index%offsetSize != 0 || h.table-h.index < offsetSize*h.groups() || h.table%wordSize != 0 {
		return h, corrupt(80, "sections at %d, %d and %d of %d bytes", h.dictionary, h.index, h.table, n)
	}
	if size != n || h.size() != n {
		return h, corrupt(40, "%d bytes, header says %d, want %d", n, size, h.size())
	}
	return h, nil
}

func corrupt(off uint64, text string, args ...any) error {
	return format.Corrupt(int64(off), text, args...)
}

// An entry is the dictionary's data for a term, without the term itself.
type entry struct {
	df      uint64 // rows that have it
	maxFreq uint64 // in one row
	minLen  uint64 // of these rows
	docs    uint64 // bytes of rows and frequencies
	pos     uint64 // bytes of positions
}

func (x *entry) append(b []byte) []byte {
	for _, v := range [...]uint64{x.df, x.maxFreq, x.minLen, x.docs, x.pos} {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

func (x *entry) decode(d *codec.Decoder) {
	for _, v := range [...]*uint64{&x.df, &x.maxFreq, &x.minLen, &x.docs, &x.pos} {
		*v = d.Uvarint()
	}
}

// skips returns the bytes of the skip table.
func (x *entry) skips() uint64 { return x.df / perBlock * skipSize }

// A skip summarises a full block of postings, so that a scan can pass over it unread.
type skip struct {
	last    uint32 // its last row
	maxFreq uint32
	minLen  uint32
	docs    uint32 // where its rows and frequencies end, from their start
	pos     uint64 // where its positions end, likewise
}

func (s *skip) append(b []byte) []byte {
	e := codec.Encoder{B: b}
	e.U32(s.last)
	e.U32(s.maxFreq)
	e.U32(s.minLen)
	e.U32(s.docs)
	e.U64(s.pos)
	return e.B
}

func decodeSkip(b []byte) skip {
	_ = b[skipSize-1]
	le := binary.LittleEndian
	return skip{last: le.Uint32(b), maxFreq: le.Uint32(b[4:]), minLen: le.Uint32(b[8:]),
		docs: le.Uint32(b[12:]), pos: le.Uint64(b[16:])}
}
