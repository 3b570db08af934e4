package graph

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/simd"
)

// Compare checks that the graph, whose checksums hold, belongs to the given rows. It returns an
// error that names the first contradiction: a record that differs from its row, wrong duplicates, a
// neighbour that is not a node, estimates that do not fit the neighbours, a node that no search can
// find, or sketches that do not fit the rows. It does not check the choice of neighbours or the
// calibration. Damage of shared codes is an error that wraps ErrCodes. It reads the rows once from
// first to last. An error that does not wrap fileformat.ErrDamaged comes from rows or from ctx.
func (g *Graph) Compare(ctx context.Context, rows codes.Source) error {
	if err := g.Verify(); err != nil {
		return err
	}
	if g.codes != nil {
		if err := g.codes.Verify(); err != nil {
			return fmt.Errorf("graph: %w: %w", ErrCodes, err)
		}
	}
	if err := g.compareRecords(ctx, rows); err != nil {
		return err
	}
	duplicates, err := g.compareDuplicates()
	if err != nil {
		return err
	}
	if err := g.compareNodes(ctx, duplicates); err != nil {
		return err
	}
	if err := g.compareReachable(duplicates); err != nil {
		return err
	}
	return g.compareSketches(ctx, duplicates)
}

func (g *Graph) compareRecords(ctx context.Context, rows codes.Source) error {
	dim := g.Dim()
	point, want := make([]float32, dim), make([]byte, recordSize(dim))
	return read(ctx, &g.head.ident, rows, readBytes, func(lo int, x []float32) error {
		for row := lo; len(x) > 0; row, x = row+1, x[dim:] {
			extra := g.space.point(point, x[:dim], false)
			if g.rotates() {
				g.rotation.Apply(point)
			}
			record(want, point, extra)
			if !g.hasRecord(uint32(row), want) {
				return corrupt(headerSize+int64(row)*g.geo.stride, "codes of row %d do not fit its vector", row)
			}
		}
		return nil
	})
}

// hasRecord reports whether the record of a row is want.
func (g *Graph) hasRecord(row uint32, want []byte) bool {
	if g.codes == nil {
		return bytes.Equal(g.record(row), want)
	}
	coded, tail := g.parts(row)
	return bytes.Equal(coded[:g.Dim()], want[:g.Dim()]) && bytes.Equal(tail, want[len(want)-len(tail):])
}

// compareDuplicates returns the rows that are not nodes, because they duplicate an earlier row.
func (g *Graph) compareDuplicates() (bitset.Set, error) {
	duplicates := bitset.New(g.Len())
	for row := range uint32(g.Len()) {
		next, err := g.duplicate(row)
		if err != nil {
			return nil, err
		}
		if next == none {
			continue
		}
		if duplicates.Has(int(next)) || !g.alike(row, next) {
			return nil, corrupt(g.geo.duplicates+int64(row)*4,
				"row %d is not a duplicate of row %d, or of another row too", next, row)
		}
		duplicates.Set(int(next))
	}
	return duplicates, nil
}

// alike reports whether two rows have equal records.
func (g *Graph) alike(a, b uint32) bool {
	codesA, tailA := g.parts(a)
	codesB, tailB := g.parts(b)
	return bytes.Equal(codesA[:g.Dim()], codesB[:g.Dim()]) && bytes.Equal(tailA, tailB)
}

func (g *Graph) compareNodes(ctx context.Context, duplicates bitset.Set) error {
	var w workerScratch
	seen := bitset.New(g.Len())
	want := make([]uint32, g.per-degree)
	for node := range uint32(g.Len()) {
		if node%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		at := g.geo.nodes + int64(node)*g.geo.node
		ids, err := g.neighbours(node)
		if err != nil {
			return err
		}
		n := count(ids)
		if duplicates.Has(int(node)) && n > 0 {
			return corrupt(at, "row %d is a duplicate and has neighbours", node)
		}
		seen.Set(int(node))
		for i, id := range ids {
			switch {
			case i >= n && id == none:
			case i >= n, id >= uint32(g.Len()), duplicates.Has(int(id)), seen.Has(int(id)):
				return corrupt(at+int64(i)*4, "%d cannot be neighbour %d of row %d", id, i, node)
			default:
				seen.Set(int(id))
			}
		}
		clear(want)
		if g.Quick() {
			w.sketch(g, want, node, ids[:n])
		}
		if !slices.Equal(want, g.nodes[int(node)*g.per+degree:][:len(want)]) {
			return corrupt(at+degree*4, "estimates of row %d do not fit its neighbours", node)
		}
		seen.Clear(int(node))
		for _, id := range ids[:n] {
			seen.Clear(int(id))
		}
	}
	return nil
}

func (g *Graph) compareSketches(ctx context.Context, duplicates bitset.Set) error {
	var w workerScratch
	size := simd.BlockSize(simd.PaddedDim(g.Dim()))
	want := make([]uint32, size/4)
	for i := range int(g.head.sketchBlocks()) {
		if err := ctx.Err(); err != nil {
			return err
		}
		clear(want)
		w.sketchBlock(g, want, i, duplicates)
		if !bytes.Equal(codec.BytesFromU32s(want), g.sketchBlocks(i, i+1)) {
			return corrupt(g.geo.sketches+int64(i)*int64(size), "sketches from row %d on do not fit the rows", i*degree)
		}
	}
	return nil
}

// compareReachable checks that a search can find every node: by links from the entry points, or on
// the overflow list.
func (g *Graph) compareReachable(duplicates bitset.Set) error {
	reached := bitset.New(g.Len())
	var queue []uint32
	visit := func(rows []uint32) {
		for _, row := range rows {
			if !reached.Has(int(row)) {
				reached.Set(int(row))
				queue = append(queue, row)
			}
		}
	}
	visit(g.entryPoints)
	for len(queue) > 0 {
		node := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		ids, err := g.neighbours(node)
		if err != nil {
			return err
		}
		visit(ids[:count(ids)])
	}
	for i, row := range g.over {
		if i > 0 && row <= g.over[i-1] {
			return corrupt(g.geo.overflow+int64(i)*4, "row %d behind row %d", row, g.over[i-1])
		}
		reached.Set(int(row))
	}
	for row := range g.Len() {
		if duplicates.Has(row) == reached.Has(row) {
			return corrupt(g.geo.nodes+int64(row)*g.geo.node,
				"row %d is a duplicate that is reachable, or a node that is not", row)
		}
	}
	return nil
}
