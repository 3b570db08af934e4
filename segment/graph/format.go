package graph

import (
	"errors"
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/internal/blocks"
	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
	"github.com/vecbolt/vecbolt/simd"
)

// Numbers of the file format. They never change for version 8. Version 7 has no sketches. Version 6
// has no quick nodes that share codes. In version 5 the distance alone decides about a second
// stage. Versions 3, of the plain and the quick layout, and 4, of the shared one, have levels of
// one stage. Version 2 has no levels for more than 100 results. Version 1 had a different
// calibration and was not released.
const (
	magic          = "VECBOLTG"
	version        = 8
	oldest         = 2 // version that is still read
	headerSize     = blocks.HeaderSize
	sectionEnd     = 64         // sections are padded to a multiple of it
	degree         = 32         // most neighbours of a node
	none           = 0xffffffff // stands for a missing row
	maxEntryPoints = 1024
)

// The layouts.
const (
	plain = 1 // nodes are the ids of the neighbours
	quick = 2 // and their codes of one bit per component

	// The codes of the records and their mean are in the code file of the segment.
	shared      = 3 // with plain nodes
	quickShared = 4 // with quick nodes
)

var format = blocks.Format{Magic: magic, Version: version, Name: "graph"}

// A revision is a version of the file that is read.
type revision struct {
	version   uint32
	layouts   []uint32
	levelSize int64
	columns   [][]int // of headerColumns
	sketches  bool
}

// revisions are the versions, the newest first.
var revisions = [...]revision{
	{version, []uint32{plain, quick, shared, quickShared}, levels.Size, headerColumns[:], true},
	{7, []uint32{plain, quick, shared, quickShared}, levels.SizeNoSketches, headerColumns[:], false},
	{6, []uint32{plain, quick, shared}, levels.SizeNoSketches, headerColumns[:], false},
	{5, []uint32{plain, quick, shared}, levels.SizeNoSpread, headerColumns[:], false},
	{4, []uint32{shared}, levels.SizeNoStages, headerColumns[:], false},
	{3, []uint32{plain, quick}, levels.SizeNoStages, headerColumns[:], false},
	{oldest, []uint32{plain, quick}, levels.SizeOldest, headerColumns[:1], false},
}

// headerColumns are the columns of the calibration in the order of the header. Version 2 has the
// first group only.
var headerColumns = [...][]int{{0, 1, 2}, {3, 4}}

// header is the content of the file's first page.
type header struct {
	levelSize   int64 // by the version
	sketched    bool  // there are sketches: by the version and the dimension
	ident       codes.Ident
	layout      uint32
	seed        uint64  // of the rotation
	unit        float64 // value of a coded 1
	maxNorm     float64 // length of the longest row, to which rows and queries are brought for cosine and dot
	entryPoints uint32
	overflow    uint32
	levels      [levels.Columns]uint32
	margins     [levels.Columns]float32
	horizons    [levels.Columns]float32   // squared distances of the last row beyond which nothing is promised, or 0
	small       bool                      // plain to save space: without Options.Small it would be quick
	codesCRC    uint32                    // of shared codes: codes.Codes.Checksum
	unshared    bool                      // to save space, but the codes are in this file
	minLength   float32                   // length of a query below which nothing is promised, or 0
	work        [len(workWidths)]walkWork // of walks for rows; zeros: not measured
	tableCRC    uint32
}

// quick reports whether the nodes hold codes of the neighbours.
func (h *header) quick() bool { return h.layout == quick || h.layout == quickShared }

// shares reports whether the codes of the records are in another file.
func (h *header) shares() bool { return h.layout == shared || h.layout == quickShared }

// geometry holds the sizes and file offsets of the sections.
type geometry struct {
	stride, node int64 // bytes of a record and of a node

	// Records begin at headerSize.
	nodes, sketches, duplicates, mean, entryPoints, overflow, levels, table, size int64
}

func (h *header) geometry() geometry {
	rows := int64(h.ident.Rows)
	g := geometry{stride: recordSize(h.ident.Dim), node: degree * 4}
	mean := int64(h.ident.Dim) * 4
	if h.quick() {
		g.node += int64(simd.BlockSize(simd.PaddedDim(h.ident.Dim)))
	}
	if h.shares() {
		g.stride, mean = simd.RecordTail, 0
	}
	g.nodes = align(headerSize + rows*g.stride)
	g.sketches = g.nodes + rows*g.node
	g.duplicates = g.sketches + h.sketchBlocks()*int64(simd.BlockSize(simd.PaddedDim(h.ident.Dim)))
	g.mean = align(g.duplicates + rows*4)
	g.entryPoints = align(g.mean + mean)
	g.overflow = align(g.entryPoints + int64(h.entryPoints)*4)
	g.levels = align(g.overflow + int64(h.overflow)*4)
	lines := int64(0)
	for _, n := range h.levels {
		lines += int64(n)
	}
	g.table = align(g.levels + lines*h.levelSize)
	g.size = g.table + blocks.TableSize(g.table)
	return g
}

// recordSize returns the bytes of a whole record.
func recordSize(dim int) int64 { return align(int64(dim) + simd.RecordTail) }

func align(off int64) int64 { return (off + sectionEnd - 1) &^ (sectionEnd - 1) }

func (h *header) encode(g *geometry) []byte {
	e := format.Header()
	e.U32(h.ident.Metric.Code())
	e.Raw(h.ident.DB[:])
	e.U64(h.ident.Segment)
	e.U64(uint64(g.size))
	e.U32(uint32(h.ident.Dim))
	e.U32(uint32(h.ident.Rows))
	e.U32(h.ident.CRC)
	e.U32(h.tableCRC)
	e.U32(h.layout)
	e.U64(h.seed)
	e.F64(h.unit)
	e.F64(h.maxNorm)
	e.U32(h.entryPoints)
	e.U32(h.overflow)
	for _, group := range headerColumns {
		for _, c := range group {
			e.U32(h.levels[c])
		}
		for _, c := range group {
			e.U32(math.Float32bits(h.margins[c]))
		}
	}
	for _, d := range h.horizons {
		e.U32(math.Float32bits(d))
	}
	e.U32(bit(h.small))
	e.U32(h.codesCRC)
	e.U32(bit(h.unshared))
	e.U32(math.Float32bits(h.minLength))
	for _, w := range h.work {
		e.U32(math.Float32bits(w.expanded))
		e.U32(math.Float32bits(w.met))
	}
	return fileformat.SealHeader(e)
}

func bit(v bool) uint32 {
	if v {
		return 1
	}
	return 0
}

// decodeHeader reads the header of b, a whole file, and compares its checksum and the length of b.
func decodeHeader(b []byte) (header, geometry, error) {
	fail := func(off int64, text string, args ...any) (header, geometry, error) {
		return header{}, geometry{}, corrupt(off, text, args...)
	}
	rev, d, err := openRevision(b)
	if err != nil {
		return header{}, geometry{}, err
	}
	h := header{levelSize: rev.levelSize}
	metric := d.U32()
	copy(h.ident.DB[:], d.Raw(len(h.ident.DB)))
	h.ident.Segment = d.U64()
	size := d.U64()
	dim, rows := d.U32(), d.U32()
	h.ident.CRC = d.U32()
	h.tableCRC = d.U32()
	h.layout = d.U32()
	h.seed = d.U64()
	h.unit = d.F64()
	h.maxNorm = d.F64()
	h.entryPoints = d.U32()
	h.overflow = d.U32()
	at := [levels.Columns]int64{} // of the margins
	for _, group := range rev.columns {
		for _, c := range group {
			h.levels[c] = d.U32()
		}
		for _, c := range group {
			at[c] = int64(len(magic) + d.Offset())
			h.margins[c] = math.Float32frombits(d.U32())
		}
	}
	horizonAt, lengthAt := int64(len(magic)+d.Offset()), int64(0)
	if len(rev.columns) == len(headerColumns) {
		for i := range h.horizons {
			h.horizons[i] = math.Float32frombits(d.U32())
		}
		h.small = d.U32() == 1
		h.codesCRC = d.U32()
		h.unshared = d.U32() == 1
		lengthAt = int64(len(magic) + d.Offset())
		h.minLength = math.Float32frombits(d.U32())
		for i := range h.work {
			h.work[i] = walkWork{math.Float32frombits(d.U32()), math.Float32frombits(d.U32())}
		}
	}
	m, ok := fileformat.MetricOf(metric)
	if !ok || dim < 1 || dim > codes.MaxDim || rows < 1 || rows > codes.MaxRows {
		return fail(12, "metric %d, dimension %d, %d rows", metric, dim, rows)
	}
	h.ident.Metric, h.ident.Dim, h.ident.Rows = m, int(dim), int(rows)
	h.sketched = rev.sketches && dim <= simd.MaxSign
	if !slices.Contains(rev.layouts, h.layout) || h.quick() && dim > simd.MaxSign {
		return fail(64, "layout %d", h.layout)
	}
	if !(h.unit > 0) || math.IsInf(h.unit, 0) || !(h.maxNorm >= 0) || math.IsInf(h.maxNorm, 0) {
		return fail(76, "unit %g, longest row %g", h.unit, h.maxNorm)
	}
	if h.entryPoints > min(maxEntryPoints, rows) || h.overflow > rows || slices.Max(h.levels[:]) > levels.Most {
		return fail(92, "%d entry points, overflow of %d, %d levels", h.entryPoints, h.overflow, h.levels)
	}
	for i, m := range h.margins {
		if !levels.IsFactor(m) {
			return fail(at[i], "margin %g", m)
		}
	}
	for i, d := range h.horizons {
		if !(d >= 0 && d <= math.MaxFloat32) {
			return fail(horizonAt+int64(i)*4, "horizon %g", d)
		}
	}
	if !(h.minLength >= 0 && h.minLength <= math.MaxFloat32) {
		return fail(lengthAt, "shortest query %g", h.minLength)
	}
	for i, e := range h.work {
		if !e.follows(h.work[:i], h.ident.Rows) {
			return fail(lengthAt+4+int64(i)*8, "%g rows met by %g expansions", e.met, e.expanded)
		}
	}
	g := h.geometry()
	if size != uint64(g.size) || uint64(len(b)) != size {
		return fail(40, "%d bytes, header says %d, want %d", len(b), size, g.size)
	}
	return h, g, nil
}

// openRevision checks the header of b, and returns a decoder behind its version. The error is of
// the newest version.
func openRevision(b []byte) (*revision, *codec.Decoder, error) {
	var first error
	for i := range revisions {
		r := &revisions[i]
		d, err := (&blocks.Format{Magic: magic, Version: r.version, Name: "graph"}).Open(b)
		if err == nil || !errors.Is(err, fileformat.ErrVersion) {
			return r, d, err
		}
		if first == nil {
			first = err
		}
	}
	return nil, nil, first
}

func corrupt(off int64, text string, args ...any) error { return format.Corrupt(off, text, args...) }
