package graph

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"sync/atomic"

	"github.com/vecbolt/vecbolt/internal/blocks"
	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
	"github.com/vecbolt/vecbolt/simd"
)

// Options control how a graph is built. The zero value is the default.
type Options struct {
	Workers int    // goroutines that compute; 0: GOMAXPROCS
	Seed    uint64 // random seed, combined with the rows: equal rows, seeds and options give equal graphs

	// Base is a graph of an earlier set of rows that overlaps with the new one: row i of Base is
	// row Rows[i] now, or gone if that is negative. Its nodes are taken over. Only the new rows and
	// a few of the old ones are inserted, unless the new ones are the majority. Records and
	// calibration are always made from the rows.
	Base *Graph
	Rows []int32

	// Progress, if set, is called with numbers of rows that were inserted or taken over, which add
	// up to the rows of the graph, except duplicates.
	Progress func(rows int)

	// Yield, if set, is called between rows, every 100 us or so. Alone, if set, says that only one
	// goroutine should work for now. Neither changes the graph.
	Yield func()
	Alone func() bool

	// QuickSize is the size of the records, in bytes, from which graphs of middle dimensions have
	// the quick layout; 0: where it is faster.
	QuickSize int64

	// Small makes a small file, whatever the dimension: nodes are plain. Searches of many
	// dimensions then take longer.
	Small bool

	// Codes are the codes of the same rows, or nil. Small files, and files of the quick layout,
	// refer to them and to their mean. Without Codes, or if these do not code a row, the records
	// are whole.
	Codes *codes.Codes

	// Planned ends the calibration where a search costs nearly as much as a scan of the codes, for
	// callers that scan then.
	Planned bool

	// Trials is the largest number of trials of each kind in the calibration, for tests that search
	// graphs but measure no recall: most of the time of a small graph goes there. 0: enough for
	// promises.
	Trials int

	layout     uint32 // 0: by layoutOf
	quiet      bool   // no calibration
	unsketched bool   // no sketches, as in very many dimensions
}

// Where the quick layout is faster.
const (
	quickDim  = 512      // for any number of rows
	middleDim = 192      // for many rows
	quickSize = 12 << 20 // bytes of their records
)

// layoutOf returns the layout that is better for this many rows of this dimension. The expansion of
// a plain node reads some twenty records, at any places. A quick one reads the node, which takes
// fifteen times as much memory at 384 dimensions, and three or four records. So in the middle
// dimensions the quick layout pays where a core does not cache the records: with AVX2, made rows of
// 384 dimensions were searched 1.0 to 1.3 times as fast at 16,000, 1.2 to 1.6 times at 30,000 and
// 1.6 to 2.2 times at 50,000. See docs/bench/2026-11-26-quick-rows.md. Short vectors have too few
// bits, and records of one or two cache lines.
func layoutOf(ident *codes.Ident, size int64) uint32 {
	records := int64(ident.Rows) * align(int64(ident.Dim)+simd.RecordTail)
	if ident.Dim > simd.MaxSign || ident.Dim < middleDim || ident.Dim < quickDim && records < size {
		return plain
	}
	return quick
}

// sameLength is the mean length of rows, as a share of the longest, below which the estimates of
// the quick layout are too rough for inner products: their error grows with the distances of linked
// points, which are far apart if their lengths differ.
const sameLength = 0.5

// readBytes is about how many bytes of vectors are read at once, except by compareAbove.
const readBytes = 1 << 20

// Write builds the graph of a segment, writes its file to w, which must be empty, and returns its
// size. It reads the rows three times from first to last, never two ranges at once, and stops when
// ctx is done. Memory: the file's size with whole records, about 200 bytes per row, and 30 MB. It
// does not sync. For Dot it reads the rows once more. A second record per row is kept for Dot until
// the nodes are linked, and for quick nodes that share codes while their estimates are made.
func Write(ctx context.Context, w io.WriterAt, ident codes.Ident, rows codes.Source, opts Options) (int64, error) {
	g, err := create(ctx, ident, rows, opts)
	if err != nil {
		return 0, err
	}
	return g.write(w)
}

// create builds a graph in memory.
func create(ctx context.Context, ident codes.Ident, rows codes.Source, opts Options) (*Graph, error) {
	b, err := construct(ctx, ident, rows, opts)
	if err != nil {
		return nil, err
	}
	return b.Graph, nil
}

// construct builds a graph as create does, and returns the builder, which knows the easy kinds of
// trials.
func construct(ctx context.Context, ident codes.Ident, rows codes.Source, opts Options) (*builder, error) {
	if ident.Rows < 1 || ident.Rows > codes.MaxRows || ident.Dim < 1 || ident.Dim > codes.MaxDim ||
		ident.Metric > fileformat.L2 {
		return nil, fmt.Errorf("graph: cannot index %d rows of dimension %d for metric %d", ident.Rows,
			ident.Dim, ident.Metric)
	}
	h := header{levelSize: levels.Size, ident: ident, layout: opts.layout}
	h.sketched = ident.Dim <= simd.MaxSign && !opts.unsketched
	if h.layout == 0 {
		h.layout = layoutOf(&ident, cmp.Or(opts.QuickSize, quickSize))
	}
	mean, lengths, sum, err := survey(ctx, &h, rows)
	if err != nil {
		return nil, err
	}
	if opts.layout == 0 && ident.Metric == fileformat.Dot && lengths < sameLength*h.maxNorm*float64(ident.Rows) {
		h.layout = plain
	}
	if opts.Small {
		h.small, h.layout = h.quick(), plain
	}
	if opts.layout == 0 && opts.Codes != nil {
		switch {
		case opts.Small:
			h.layout = shared
		case h.quick():
			h.layout = quickShared
		}
	}
	if h.shares() {
		mean = opts.Codes.Mean()
		if have := opts.Codes.Ident(); have != ident {
			return nil, fmt.Errorf("graph: %w: codes of %+v for %+v", fileformat.ErrMismatch, have, ident)
		}
	}
	// The seed does not depend on the identity of the segment, so that equal documents have equal
	// answers everywhere. It depends on the rows, so that each merge inserts other nodes again.
	h.seed = opts.Seed ^ uint64(sum)<<32
	geo := h.geometry()
	if geo.size > math.MaxInt {
		return nil, fmt.Errorf("graph: file of %d bytes does not fit into memory", geo.size)
	}
	geo.stride = recordSize(ident.Dim) // records are whole while the graph is built
	g := &Graph{head: h, geo: geo, mean: mean, space: newSpace(&h, mean), per: degree}
	g.prepare()
	b := newBuilder(ctx, g, opts.Workers)
	b.yield, b.alone, b.planned, b.most = opts.Yield, opts.Alone, opts.Planned, opts.Trials
	if err := b.makeRecords(rows, &opts); err != nil {
		return nil, err
	}
	b.group()
	if err := b.link(rows, lengths, &opts); err != nil {
		return nil, err
	}
	if err := b.sketchRows(); err != nil {
		return nil, err
	}
	if !opts.quiet {
		if err := b.calibrate(rows); err != nil {
			return nil, err
		}
	}
	g.head.entryPoints, g.head.overflow = uint32(len(g.entryPoints)), uint32(len(g.over))
	for i := range g.head.levels {
		g.head.levels[i] = uint32(len(g.Levels(i)))
	}
	g.head.unshared = opts.Small && !g.head.shares()
	if g.head.shares() {
		if err := g.split(opts.Codes); err != nil {
			return nil, err
		}
	}
	g.geo = g.head.geometry()
	return b, nil
}

// makeRecords makes the records. A graph does not share codes that leave out a row, or code it in
// another way.
func (b *builder) makeRecords(rows codes.Source, opts *Options) (err error) {
	point := func(dst, x []float32) float32 {
		extra := b.space.point(dst, x, false)
		if b.rotates() {
			b.rotation.Apply(dst)
		}
		return extra
	}
	if b.records, err = b.code(rows, point); err != nil || !b.head.shares() {
		return err
	}
	same, err := b.hasCodes(opts.Codes)
	if err != nil || same {
		return err
	}
	if !b.Quick() {
		b.head.layout = plain
		return nil
	}
	b.head.layout = quick
	b.records, err = b.code(rows, point)
	return err
}

// hasCodes reports whether the records have the codes of the rows that c has. They do, if the mean
// is the same, unless components are so small, so large or so different that c does not code a row.
func (b *builder) hasCodes(c *codes.Codes) (bool, error) {
	dim := b.Dim()
	var other atomic.Bool
	err := b.each(b.Len(), func(_ *workerScratch, row int) error {
		if err := c.TouchRow(row); err != nil {
			return fmt.Errorf("graph: %w: %w", ErrCodes, err)
		}
		if !bytes.Equal(b.record(uint32(row))[:dim], c.Bytes()[row*dim:][:dim]) {
			other.Store(true)
		}
		return nil
	})
	return !other.Load(), err
}

// split leaves the codes of the records to c, which has the same.
func (g *Graph) split(c *codes.Codes) error {
	crc, err := c.Checksum()
	if err != nil {
		return fmt.Errorf("graph: %w: %w", ErrCodes, err)
	}
	tails := make([]byte, 0, g.Len()*simd.RecordTail)
	for row := range uint32(g.Len()) {
		_, tail := g.parts(row)
		tails = append(tails, tail...)
	}
	g.records, g.codes, g.codeBytes, g.head.codesCRC = tails, c, c.Bytes(), crc
	return nil
}

// read calls f for all rows, in ascending ranges whose vectors take about so many bytes.
func read(ctx context.Context, ident *codes.Ident, rows codes.Source, bytes int,
	f func(lo int, x []float32) error) error {
	n, dim := ident.Rows, ident.Dim
	step := max(1, bytes/4/dim)
	for lo := 0; lo < n; lo += step {
		hi := min(lo+step, n)
		if err := ctx.Err(); err != nil {
			return err
		}
		x, err := rows(lo, hi)
		if err != nil {
			return err
		}
		if len(x) != (hi-lo)*dim {
			return fmt.Errorf("graph: source gave %d floats for %d rows of %d", len(x), hi-lo, dim)
		}
		if err := f(lo, x); err != nil {
			return err
		}
	}
	return nil
}

// survey reads all rows to determine the parameters of the space: unit and maxNorm in h, and the
// mean. It also returns the sum of their lengths, for Dot, and a checksum of the rows.
func survey(ctx context.Context, h *header, rows codes.Source) (
	mean []float32, lengths float64, crc uint32, err error) {
	dim := h.ident.Dim
	sum := make([]float64, dim)
	largest, longest := 0.0, 0.0
	err = read(ctx, &h.ident, rows, readBytes, func(_ int, x []float32) error {
		crc = codec.CRC(binary.LittleEndian.AppendUint32(nil, crc), codec.BytesFromF32s(x))
		for ; len(x) > 0; x = x[dim:] {
			factor := 1.0
			if h.ident.Metric != fileformat.L2 {
				length := math.Sqrt(simd.Dot64(x[:dim], x[:dim]))
				if math.IsInf(length, 0) || length != length {
					continue
				}
				if h.ident.Metric == fileformat.Cosine && length > 0 {
					factor, length = 1/length, 1
				}
				longest = max(longest, length)
				lengths += length
			}
			if most := float64(float64(simd.Largest(x[:dim])) * factor); most-most == 0 {
				largest = max(largest, most)
				for i, v := range x[:dim] {
					sum[i] += float64(float64(v) * factor)
				}
				continue
			}
			for i, v := range x[:dim] { // some are not finite: without those
				if y := float64(float64(v) * factor); y-y == 0 {
					sum[i] += y
					largest = max(largest, y, -y)
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, 0, 0, err
	}
	h.maxNorm = longest
	largest = max(largest, longest) // of the extra components
	h.unit = 1
	if largest > 0 {
		_, exp := math.Frexp(largest)
		h.unit = math.Ldexp(1, exp)
	}
	mean = make([]float32, dim)
	for i := range mean {
		if m := float32(sum[i] / float64(h.ident.Rows)); m-m == 0 {
			mean[i] = m
		}
	}
	return mean, lengths, crc, nil
}

// code makes the records of the rows. point sets dst to the point of a row and returns the extra
// component.
func (b *builder) code(rows codes.Source, point func(dst, x []float32) float32) ([]byte, error) {
	stride := int(b.geo.stride)
	records := make([]byte, b.Len()*stride)
	dim := b.Dim()
	err := read(b.ctx, &b.head.ident, rows, readBytes, func(lo int, x []float32) error {
		return b.each(len(x)/dim, func(w *workerScratch, i int) error {
			w.point = slices.Grow(w.point[:0], dim)[:dim]
			extra := point(w.point, x[i*dim:(i+1)*dim])
			record(records[(lo+i)*stride:][:stride], w.point, extra)
			return nil
		})
	})
	return records, err
}

// write writes the file.
func (g *Graph) write(w io.WriterAt) (int64, error) {
	out := blocks.NewWriter(w, headerSize)
	out.Add(g.records)
	out.Pad(sectionEnd)
	out.Add(codec.BytesFromU32s(g.nodes))
	out.Add(g.sketches)
	mean := meanBits(g.mean)
	if g.codes != nil {
		mean = nil // it is in the codes
	}
	for _, words := range [][]uint32{g.duplicates, mean, g.entryPoints, g.over, levels.Encode(&g.Table)} {
		out.Add(codec.BytesFromU32s(words))
		out.Pad(sectionEnd)
	}
	err := format.Finish(w, func(_ int64, tableCRC uint32) []byte {
		g.head.tableCRC = tableCRC
		return g.head.encode(&g.geo)
	}, out)
	if err != nil {
		return 0, err
	}
	return g.geo.size, nil
}

func meanBits(v []float32) []uint32 {
	bits := make([]uint32, len(v))
	for i, x := range v {
		bits[i] = math.Float32bits(x)
	}
	return bits
}
