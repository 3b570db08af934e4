package codes

import (
	"math"

	"github.com/vecbolt/vecbolt/internal/blocks"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// Numbers of the file format. They never change for version 2. Version 1 had no nibbles.
const (
	magic      = "VECBOLTQ"
	version    = 2
	headerSize = blocks.HeaderSize
	sectionEnd = 64 // sections are padded to a multiple of it, and codes by as much again
	wordSize   = 4  // of a component of the mean, a scale, a level, a residual and a square
	center     = 128
	largest    = 127 // absolute value of a code less center
	odd        = 15  // of a nibble h, the value is 2*h - odd
)

// Limits of a file. Their product keeps every offset within 50 bits.
const (
	MaxDim  = 65536      // components of a vector
	MaxRows = 2147483647 // rows of a segment
)

var format = blocks.Format{Magic: magic, Version: version, Name: "codes"}

// Ident names the segment that codes belong to, and the metric that they are for.
type Ident struct {
	DB      [16]byte // id of the database
	Segment uint64   // id of the segment
	Rows    int      // 1 to MaxRows
	Dim     int      // 1 to MaxDim
	Metric  fileformat.Metric
	CRC     uint32 // of the segment's vector file
}

// layout holds the file offsets of the sections.
type layout struct {
	mean, scales, levels, resids, squares, nibbles, coarse, table, size int64 // codes begin at headerSize
}

// layoutOf returns the layout of a file with or without nibbles.
func layoutOf(rows, dim int, nibbles bool) layout {
	var l layout
	l.mean = align(headerSize+int64(rows)*int64(dim)) + sectionEnd
	l.scales = align(l.mean + int64(dim)*wordSize)
	l.levels = align(l.scales + int64(rows)*wordSize)
	l.resids = align(l.levels + int64(rows)*wordSize)
	l.squares = align(l.resids + int64(rows)*wordSize)
	l.table = align(l.squares + int64(rows)*wordSize)
	l.nibbles, l.coarse = l.table, l.table
	if nibbles {
		// In blocks of their own, so that they can be written beside the codes.
		l.nibbles = headerSize + blocks.Count(l.table)*blocks.Size
		l.coarse = align(l.nibbles+int64(rows)*stride(dim)) + sectionEnd
		l.table = align(l.coarse + int64(rows)*wordSize)
	}
	l.size = l.table + blocks.TableSize(l.table)
	return l
}

// stride returns the bytes of a row of nibbles.
func stride(dim int) int64 { return int64(dim+1) / 2 }

func align(off int64) int64 { return (off + sectionEnd - 1) &^ (sectionEnd - 1) }

// header is the content of the file's first page.
type header struct {
	ident Ident
	// No row with a finite scale has a larger square, or a residual above slope*scale + the floor.
	square   uint32
	slope    float32
	tableCRC uint32
	// The same for nibbles, if there are any: no row but those whose coarse scale is NaN.
	nibbles      bool
	coarseSquare uint32
	coarseSlope  float32
	small        bool // without nibbles, to save space
}

func (h *header) encode(l *layout) []byte {
	e := format.Header()
	e.U32(h.ident.Metric.Code())
	e.Raw(h.ident.DB[:])
	e.U64(h.ident.Segment)
	e.U64(uint64(l.size))
	e.U32(uint32(h.ident.Dim))
	e.U32(uint32(h.ident.Rows))
	e.U32(h.ident.CRC)
	e.U32(h.square)
	e.U32(math.Float32bits(h.slope))
	e.U32(h.tableCRC)
	if h.nibbles {
		e.U32(1)
		e.U32(h.coarseSquare)
		e.U32(math.Float32bits(h.coarseSlope))
	} else if h.small {
		e.Raw(make([]byte, 12))
		e.U32(1)
	}
	return fileformat.SealHeader(e)
}

// decodeHeader reads the header of b, a whole file, and compares its checksum and the length of b.
func decodeHeader(b []byte) (header, layout, error) {
	fail := func(off int64, text string, args ...any) (header, layout, error) {
		return header{}, layout{}, corrupt(off, text, args...)
	}
	d, err := format.Open(b)
	if err != nil {
		return header{}, layout{}, err
	}
	var h header
	metric := d.U32()
	copy(h.ident.DB[:], d.Raw(len(h.ident.DB)))
	h.ident.Segment = d.U64()
	size := d.U64()
	dim, rows := d.U32(), d.U32()
	h.ident.CRC = d.U32()
	h.square = d.U32()
	h.slope = math.Float32frombits(d.U32())
	h.tableCRC = d.U32()
	nibbles := d.U32()
	h.nibbles = nibbles == 1
	h.coarseSquare = d.U32()
	h.coarseSlope = math.Float32frombits(d.U32())
	h.small = d.U32() == 1
	m, ok := fileformat.MetricOf(metric)
	if !ok || dim < 1 || dim > MaxDim || rows < 1 || rows > MaxRows {
		return fail(12, "metric %d, dimension %d, %d rows", metric, dim, rows)
	}
	h.ident.Metric, h.ident.Dim, h.ident.Rows = m, int(dim), int(rows)
	if h.square > MaxDim*largest*largest || !(h.slope >= 0) || math.IsInf(float64(h.slope), 0) {
		return fail(60, "largest square %d, slope %v", h.square, h.slope)
	}
	if nibbles > 1 || h.coarseSquare > MaxDim*odd*odd || !(h.coarseSlope >= 0) ||
		math.IsInf(float64(h.coarseSlope), 0) {
		return fail(72, "nibbles %d, largest square %d, slope %v", nibbles, h.coarseSquare, h.coarseSlope)
	}
	l := layoutOf(h.ident.Rows, h.ident.Dim, h.nibbles)
	if size != uint64(l.size) || uint64(len(b)) != size {
		return fail(40, "%d bytes, header says %d, want %d", len(b), size, l.size)
	}
	return h, l, nil
}

func corrupt(off int64, text string, args ...any) error { return format.Corrupt(off, text, args...) }
