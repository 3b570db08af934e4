package graph

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/blocks"
	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
	"github.com/vecbolt/vecbolt/simd"
)

// A Graph is the graph index of one segment. Its table has the levels of its calibration.
type Graph struct {
	levels.Table

	head  header
	geo   geometry
	space space
	mean  []float32
	sifts bool // see sift.go

	file        *blocks.Content // nil for a graph that is being built
	records     []byte          // their last bytes if the codes are shared
	rotated     []byte          // records of the rotated points, while quick nodes with shared codes are built
	codes       *codes.Codes    // shared codes, or nil
	codeBytes   []byte          // of codes
	nodes       []uint32
	nodeBytes   []byte
	sketches    []byte
	per         int // uint32 per node
	duplicates  []uint32
	entryPoints []uint32
	over        []uint32

	rotation *simd.Rotation            // of quick nodes and sketches
	entrance *atomic.Pointer[entrance] // of quick nodes; the first search makes it
	extent   *atomic.Pointer[extent]   // likewise, of every layout

	heads *atomic.Pointer[bitset.Set] // rows with duplicates; the first scan under a filter looks them up
}

// ErrCodes is wrapped by errors about the codes that a graph shares: they are absent or damaged.
// The file of the graph may be right.
var ErrCodes = errors.New("shared codes")

// Parse opens the graph file b for the segment ident. with are the codes of the segment, nil if
// they are absent; only layouts that share them need them. It verifies the header, the checksums of
// blocks, and the small sections at the end; every other block when it is first used. b is kept: it
// must stay readable and unchanged while the Graph is used. Its address must be a multiple of 4, as
// mappings have it; otherwise, and on big-endian machines, everything except the records is copied.
// The error wraps fileformat.ErrDamaged, fileformat.ErrVersion, fileformat.ErrMismatch or ErrCodes.
func Parse(b []byte, ident codes.Ident, with *codes.Codes) (*Graph, error) {
	h, geo, err := decodeHeader(b)
	if err != nil {
		return nil, err
	}
	if h.ident != ident {
		return nil, fmt.Errorf("graph: %w: have %+v, want %+v", fileformat.ErrMismatch, h.ident, ident)
	}
	file, err := format.Content(b, geo.table, h.tableCRC)
	if err != nil {
		return nil, err
	}
	words := func(off int64, n int) []uint32 { return codec.U32sFromBytes(b[off:][:n*4]) }
	g := &Graph{
		head: h, geo: geo, file: file,
		records:     b[headerSize:geo.nodes:geo.nodes],
		nodes:       codec.U32sFromBytes(b[geo.nodes:geo.sketches]),
		nodeBytes:   b[geo.nodes:geo.sketches:geo.sketches],
		sketches:    b[geo.sketches:geo.duplicates:geo.duplicates],
		per:         int(geo.node / 4),
		duplicates:  words(geo.duplicates, ident.Rows),
		entryPoints: words(geo.entryPoints, int(h.entryPoints)),
		over:        words(geo.overflow, int(h.overflow)),
	}
	if err := file.Touch(geo.mean, geo.table); err != nil {
		return nil, err
	}
	if h.shares() {
		if err := g.share(with); err != nil {
			return nil, err
		}
	} else if g.mean = codec.F32sFromBytes(b[geo.mean:][:ident.Dim*4]); !simd.Finite(g.mean) {
		return nil, corrupt(geo.mean, "mean is not finite")
	}
	g.space = newSpace(&h, g.mean)
	g.prepare()
	for i, row := range g.entryPoints {
		if row >= uint32(ident.Rows) {
			return nil, corrupt(geo.entryPoints+int64(i)*4, "entry point %d of %d rows", row, ident.Rows)
		}
	}
	for i, row := range g.over {
		if row >= uint32(ident.Rows) {
			return nil, corrupt(geo.overflow+int64(i)*4, "row %d of %d", row, ident.Rows)
		}
	}
	at := geo.levels
	var stored [levels.Columns][]levels.Level
	for i, n := range h.levels {
		for range n {
			l, err := levels.Decode(b[at:][:h.levelSize])
			if err != nil {
				return nil, corrupt(at, "%v", err)
			}
			stored[i] = append(stored[i], l)
			at += h.levelSize
		}
	}
	g.Table = levels.NewTable(stored)
	return g, nil
}

// share takes the mean and the codes of the rows from their code file, if it has those that the
// graph was made with.
func (g *Graph) share(with *codes.Codes) error {
	if with == nil {
		return fmt.Errorf("graph: %w: they are absent", ErrCodes)
	}
	crc, err := with.Checksum()
	if err != nil {
		return fmt.Errorf("graph: %w: %w", ErrCodes, err)
	}
	if have := with.Ident(); have != g.head.ident || crc != g.head.codesCRC {
		return fmt.Errorf("graph: %w: codes %08x of %+v, want %08x of %+v", fileformat.ErrMismatch, crc, have,
			g.head.codesCRC, g.head.ident)
	}
	g.codes, g.codeBytes, g.mean = with, with.Bytes(), with.Mean()
	return nil
}

// Codes returns the codes that the graph shares, or nil.
func (g *Graph) Codes() *codes.Codes { return g.codes }

// prepare makes whatever follows from the header alone.
func (g *Graph) prepare() {
	g.heads = new(atomic.Pointer[bitset.Set])
	g.extent = new(atomic.Pointer[extent])
	if g.Quick() || g.head.sketched {
		g.rotation = simd.NewRotation(g.Dim(), g.head.seed)
	}
	if g.Quick() {
		g.sifts = g.Dim() < quickDim
		g.entrance = new(atomic.Pointer[entrance])
	}
}

// rough reports whether the beam of a search is ordered by estimates.
func (g *Graph) rough() bool { return g.Quick() && !g.sifts }

// Len returns the number of rows.
func (g *Graph) Len() int { return g.head.ident.Rows }

// Dim returns the components per vector.
func (g *Graph) Dim() int { return g.head.ident.Dim }

// Quick reports whether the nodes have the quick layout, which holds codes of the neighbours.
func (g *Graph) Quick() bool { return g.head.quick() }

// rotates reports whether the records are of rotated points. Those that share codes are not.
func (g *Graph) rotates() bool { return g.head.layout == quick }

// Layout describes the layout and its reason in a few words.
func (g *Graph) Layout() string {
	switch dim := g.Dim(); {
	case g.Quick() && dim >= quickDim:
		return fmt.Sprintf("quick: from %d dimensions", quickDim)
	case g.Quick():
		return fmt.Sprintf("quick: from %d dimensions, with as many rows", middleDim)
	case g.head.layout == shared:
		return "shared: to save space"
	case g.head.unshared:
		return "plain: to save space, with codes that cannot be shared"
	case g.head.small:
		return "plain: to save space"
	case dim < middleDim:
		return fmt.Sprintf("plain: below %d dimensions", middleDim)
	case dim < quickDim:
		return fmt.Sprintf("plain: few rows, below %d dimensions", quickDim)
	case dim > simd.MaxSign:
		return fmt.Sprintf("plain: above %d dimensions", simd.MaxSign)
	}
	return "plain: the lengths of the vectors differ"
}

// Outdated reports whether another file should replace this one because it was written without
// Options.Small and they are set now, or the other way round. Where the layout is plain in both
// cases, the files serve both.
func (g *Graph) Outdated(small bool) bool {
	if small {
		return g.head.layout != shared && !g.head.unshared
	}
	return g.head.layout == shared || g.head.small
}

// Overflow returns the number of nodes that no search can reach through links. Search looks at each
// of them.
func (g *Graph) Overflow() int { return len(g.over) }

// Verify compares all checksums that were not compared yet.
func (g *Graph) Verify() error {
	if g.file == nil {
		return nil
	}
	return g.file.Verify()
}

// Verified reports whether all checksums have been compared: every block was in memory once, those
// of the codes included.
func (g *Graph) Verified() bool {
	return g.file == nil || g.file.Verified() && (g.codes == nil || g.codes.RowsVerified())
}

// VerifyOne verifies a block that was not verified yet, if one is in memory: so that searches need
// not ask for ever whether the blocks that they read are verified.
func (g *Graph) VerifyOne() error {
	if g.Verified() {
		return nil
	}
	err := g.file.VerifyOne(headerSize, g.geo.table)
	if err == nil && g.codes != nil {
		if err = g.codes.VerifyOneRow(); err != nil {
			return fmt.Errorf("graph: %w: %w", ErrCodes, err)
		}
	}
	return err
}

// touchRecords verifies the records of ids, all of them rows.
func (g *Graph) touchRecords(ids []uint32) error {
	if g.Verified() {
		return nil
	}
	for _, id := range ids {
		at := headerSize + int64(id)*g.geo.stride
		if err := g.file.Touch(at, at+g.geo.stride); err != nil {
			return err
		}
		if g.codes != nil {
			if err := g.codes.TouchRow(int(id)); err != nil {
				return fmt.Errorf("graph: %w: %w", ErrCodes, err)
			}
		}
	}
	return nil
}

// measureL2 sets dst to the squared distances of p and the records of ids, all of them verified.
func (g *Graph) measureL2(dst []float32, p *simd.CodedVector, ids []uint32) {
	if g.codes != nil {
		simd.GatherSplitL2(dst, p, g.codeBytes, g.Dim(), g.records, ids)
	} else {
		simd.GatherL2(dst, p, g.records, ids)
	}
}

// parts returns the codes of a row, with the bytes behind them up to a multiple of 64, and the last
// bytes of its record.
func (g *Graph) parts(row uint32) (coded, tail []byte) {
	if g.codes == nil {
		rec := g.record(row)
		return rec[:align(int64(g.Dim()))], rec[len(rec)-simd.RecordTail:]
	}
	return g.codeBytes[int(row)*g.Dim():][:align(int64(g.Dim()))], g.record(row)
}

// load sets p to the vector of a row.
func (g *Graph) load(p *simd.CodedVector, row uint32) {
	if g.codes != nil {
		coded, tail := g.parts(row)
		simd.LoadSplitVector(p, coded, g.Dim(), tail)
	} else {
		simd.LoadVector(p, g.record(row))
	}
}

// record returns the record of a row, or its last bytes in the shared layout.
func (g *Graph) record(row uint32) []byte {
	stride := int(g.geo.stride)
	return g.records[int(row)*stride:][:stride]
}

// neighbours returns the ids of a node's neighbours, ended by none if there are fewer than degree.
// The ids are not verified: they may be beyond the rows.
func (g *Graph) neighbours(node uint32) (*[degree]uint32, error) {
	if !g.Verified() {
		at := g.geo.nodes + int64(node)*g.geo.node
		if err := g.file.Touch(at, at+g.geo.node); err != nil {
			return nil, err
		}
	}
	return (*[degree]uint32)(g.nodes[int(node)*g.per:]), nil
}

// duplicate returns the next row with the same codes as row, or none.
func (g *Graph) duplicate(row uint32) (uint32, error) {
	at := g.geo.duplicates + int64(row)*4
	if !g.Verified() {
		if err := g.file.Touch(at, at+4); err != nil {
			return none, err
		}
	}
	next := g.duplicates[row]
	if next != none && (next <= row || next >= uint32(g.Len())) { // ascending, or it might not end
		return none, corrupt(at, "duplicate %d of row %d", next, row)
	}
	return next, nil
}
