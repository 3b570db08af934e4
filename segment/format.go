package segment

import (
	"fmt"
	"math"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// Numbers of the file format. They never change for version 1.
const (
	magic      = "VECBOLTS"
	version    = 1
	headerSize = fileformat.HeaderSize
	blockSize  = 65536
	docSize    = 8
	invSize    = 4
	floatSize  = 4
	crcSize    = 4
)

// Limits of a segment. Their product keeps every offset within 50 bits.
const (
	MaxDim  = 65536      // components of a vector
	MaxRows = 2147483647 // rows of a segment
)

// Info describes a segment as the manifest keeps it. Open compares all of it with the file, except
// Docs.
type Info struct {
	ID         uint64  // names the file
	Collection uint32  // id of the collection that the rows belong to
	Dim        int     // components per vector, 0 to MaxDim
	Rows       int     // 1 to MaxRows
	Size       int64   // of the file in bytes
	CRC        uint32  // of the header, and through it of everything
	MinDoc     uint64  // document number of the first row
	MaxDoc     uint64  // document number of the last row
	MaxNorm    float32 // at least the largest Euclidean norm, and hardly more; +Inf if that is beyond float32

	// Docs is a digest of the documents of the rows, which the file does not hold. Files that are
	// made of the documents carry it. Writers of databases decide how it is made; zero means that
	// it is not known.
	Docs [16]byte
}

// FileName returns the name of segment id within the database directory.
func FileName(id uint64) string { return fmt.Sprintf("seg/%08x.vec", id) }

// tempName is where segment id is written until it is whole.
func tempName(id uint64) string { return fmt.Sprintf("tmp/%08x.vec", id) }

// layout holds the file offsets that follow from rows and dim.
type layout struct {
	rows, dim               int
	docs, invs, table, size int64 // vectors begin at headerSize
	vecBlocks, blocks       int64 // blocks of vectors, and of all
}

// layoutOf returns the layout of a file, or an error if rows or dim are out of range.
func layoutOf(rows, dim int) (layout, error) {
	if dim < 0 || dim > MaxDim {
		return layout{}, fmt.Errorf("%w: dimension %d, want 0 to %d", fileformat.ErrFormat, dim, MaxDim)
	}
	if rows < 1 || rows > MaxRows {
		return layout{}, fmt.Errorf("%w: %d rows, want 1 to %d", fileformat.ErrFormat, rows, MaxRows)
	}
	l := layout{rows: rows, dim: dim}
	l.docs = (l.vec(rows) + 7) &^ 7 // aligned for uint64
	l.invs = l.docs + int64(rows)*docSize
	l.table = l.invs + int64(rows)*invSize
	l.vecBlocks = (l.docs - headerSize + blockSize - 1) / blockSize
	l.blocks = l.blockAt(l.table-1) + 1
	l.size = l.table + l.blocks*crcSize
	return l, nil
}

// vec, doc and inv return the file offset of a row's vector, document number and inverse norm.
func (l *layout) vec(row int) int64 { return headerSize + int64(row)*int64(l.dim)*floatSize }
func (l *layout) doc(row int) int64 { return l.docs + int64(row)*docSize }
func (l *layout) inv(row int) int64 { return l.invs + int64(row)*invSize }

// block returns the file offsets at which block b begins and ends. No block holds both vectors and
// document numbers, so that a damaged vector does not take the numbers of all other rows with it.
func (l *layout) block(b int64) (start, end int64) {
	if b < l.vecBlocks {
		start = headerSize + b*blockSize
		return start, min(start+blockSize, l.docs)
	}
	start = l.docs + (b-l.vecBlocks)*blockSize
	return start, min(start+blockSize, l.table)
}

// blockAt returns the block that holds the file offset off.
func (l *layout) blockAt(off int64) int64 {
	if off < l.docs {
		return (off - headerSize) / blockSize
	}
	return l.vecBlocks + (off-l.docs)/blockSize
}

// header is the content of the file's first page.
type header struct {
	db       [16]byte
	info     Info
	tableCRC uint32
}

// encode returns the header page and sets h.info.CRC.
func (h *header) encode() []byte {
	e := fileformat.NewHeader(magic, version)
	e.U32(h.info.Collection)
	e.Raw(h.db[:])
	e.U64(h.info.ID)
	e.U64(uint64(h.info.Size))
	e.U32(uint32(h.info.Dim))
	e.U32(uint32(h.info.Rows))
	e.U64(h.info.MinDoc)
	e.U64(h.info.MaxDoc)
	e.U32(math.Float32bits(h.info.MaxNorm))
	e.U32(h.tableCRC)
	page := fileformat.SealHeader(e)
	h.info.CRC = headerCRC(page)
	return page
}

// headerCRC returns the checksum that a header page holds.
func headerCRC(page []byte) uint32 {
	return codec.NewDecoder(page[fileformat.HeaderCRC:headerSize]).U32()
}

// decodeHeader reads the header page of the file name, headerSize bytes or more, and derives the
// layout from it.
func decodeHeader(name string, b []byte) (h header, l layout, err error) {
	corrupt := func(off int64, err error) (header, layout, error) {
		return header{}, layout{}, &fileformat.CorruptError{File: name, Offset: off, Err: fmt.Errorf("header: %w", err)}
	}
	v, d, _, err := fileformat.OpenHeader(magic, b)
	if err != nil {
		return corrupt(0, err)
	}
	if v != version {
		return corrupt(int64(len(magic)), fmt.Errorf("%w %d", fileformat.ErrVersion, v))
	}
	h.info.CRC = headerCRC(b)
	h.info.Collection = d.U32()
	copy(h.db[:], d.Raw(len(h.db)))
	h.info.ID = d.U64()
	size := d.U64()
	dim, rows := d.U32(), d.U32()
	h.info.MinDoc, h.info.MaxDoc = d.U64(), d.U64()
	h.info.MaxNorm = math.Float32frombits(d.U32())
	h.tableCRC = d.U32()
	// Compared before the conversion to int, which has 32 bits on some machines.
	if dim > MaxDim || rows > MaxRows {
		return corrupt(0, fmt.Errorf("%w: dimension %d, %d rows", fileformat.ErrFormat, dim, rows))
	}
	h.info.Dim, h.info.Rows = int(dim), int(rows)
	if l, err = layoutOf(h.info.Rows, h.info.Dim); err != nil {
		return corrupt(0, err)
	}
	if !validNorm(h.info.MaxNorm) {
		return corrupt(0, fmt.Errorf("%w: largest norm %v", fileformat.ErrFormat, h.info.MaxNorm))
	}
	if h.info.Size = l.size; size != uint64(l.size) {
		return corrupt(0, fmt.Errorf("%w: size %d, want %d", fileformat.ErrFormat, size, l.size))
	}
	return h, l, nil
}
