package graph

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/simd"
)

// The quick layout follows SymphonyQG (Gou et al., SIGMOD 2025). A node holds, beside the ids of
// its neighbours, their codes of one bit per component: the signs of their differences from the
// node. So the distances of all neighbours are estimated at once, without reading their records.
// With c for the node, d = o - c for the difference of a neighbour o, and sgn for the signs of d,
//
//	|q - o|^2  =  |q - c|^2 + |d|^2 - 2 (q - c).d
//	(q - c).d  ~  (q - c).sgn * |d|^2 / d.sgn
//
// This is the estimator of RaBitQ (Gao and Long, SIGMOD 2024). It is unbiased if the points have
// been rotated at random. c.sgn is computed when the node is written, q.sgn is looked up in a
// table, and |q - c| is computed from the node's record. Records that share their codes are not
// rotated: no rotation changes a distance, so only the estimates need rotated points.

// numbers returns the numbers at the end of a record that make a point of its codes.
func numbers(tail []byte) (scale, extra float32) {
	number := func(at int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(tail[at:])) }
	return number(0), number(8)
}

func tailOf(rec []byte) []byte { return rec[len(rec)-simd.RecordTail:] }

// A decodedRecord is the point of a record.
type decodedRecord struct {
	y     []float32
	extra float32
	rec   []byte // memory of rotated
}

func (d *decodedRecord) read(coded, tail []byte, dim int) {
	var scale float32
	scale, d.extra = numbers(tail)
	d.y = slices.Grow(d.y[:0], simd.PaddedDim(dim))[:simd.PaddedDim(dim)]
	clear(d.y[dim:])
	for i, c := range coded[:dim] {
		d.y[i] = scale * float32(int(c)-128)
	}
}

// rotated returns the record of a row's rotated point. It may be in memory of d.
func (d *decodedRecord) rotated(g *Graph, row uint32) []byte {
	size := int(recordSize(g.Dim()))
	switch {
	case g.rotates():
		return g.record(row)
	case g.rotated != nil:
		return g.rotated[int(row)*size:][:size]
	}
	d.rec = slices.Grow(d.rec[:0], size)[:size]
	d.rotate(g, row, d.rec)
	return d.rec
}

// rotate writes to dst the record of a row's rotated point.
func (d *decodedRecord) rotate(g *Graph, row uint32, dst []byte) {
	coded, tail := g.parts(row)
	d.read(coded, tail, g.Dim())
	g.rotation.Apply(d.y[:g.Dim()])
	record(dst, d.y[:g.Dim()], d.extra)
}

// rotateAll makes the records of all rotated points at once, until they are dropped.
func (b *builder) rotateAll() error {
	size := int(recordSize(b.Dim()))
	rotated := make([]byte, b.Len()*size)
	err := b.each(b.Len(), func(w *workerScratch, row int) error {
		w.centre.rotate(b.Graph, uint32(row), rotated[row*size:][:size])
		return nil
	})
	b.rotated = rotated
	return err
}

// pack builds the nodes of the quick layout from the plain ones. It fills free places with the
// nearest neighbours of neighbours, because an estimate of 32 distances costs the same as one of
// few.
func (b *builder) pack() error {
	if !b.rotates() {
		if err := b.rotateAll(); err != nil {
			return err
		}
		defer func() { b.rotated = nil }()
	}
	plain := b.nodes
	per := int(b.geo.node / 4)
	nodes := make([]uint32, b.Len()*per)
	for i := range b.Len() {
		copy(nodes[i*per:], plain[i*degree:][:degree])
	}
	err := b.each(len(b.order), func(w *workerScratch, i int) error {
		me := b.order[i]
		at := int(me) * per
		ids := nodes[at:][:count((*[degree]uint32)(nodes[at:]))]
		if len(ids) < degree {
			simd.LoadVector(&w.self, b.record(me))
			ids = append(ids, b.fill(w, plain, me, ids)...)
		}
		w.sketch(b.Graph, nodes[at+degree:at+per], me, ids)
		return nil
	})
	b.nodes, b.per, b.nodeBytes = nodes, per, codec.BytesFromU32s(nodes)
	return err
}

// sketch writes the block that simd.Estimate reads for a node with these neighbours. words must be
// zero. All sums are canonical: the file is the same on every machine.
func (w *workerScratch) sketch(g *Graph, words []uint32, node uint32, ids []uint32) {
	rec := w.neighbour.rotated(g, node)
	w.centre.read(rec, tailOf(rec), g.Dim())
	w.sketchFrom(g, words, ids)
}

// sketchFrom is sketch for a node at w.centre.
func (w *workerScratch) sketchFrom(g *Graph, words []uint32, ids []uint32) {
	head := words[:2*degree]
	c := w.centre.y
	n := len(c)
	per := n / 16 // words of signs
	w.plus = slices.Grow(w.plus[:0], degree*per)[:degree*per]
	clear(w.plus[len(ids)*per:])
	for j, id := range ids {
		rec := w.neighbour.rotated(g, id)
		scale, z := numbers(tailOf(rec))
		square, abs, along := simd.Sketch(w.plus[j*per:][:per], rec[:n], scale, c) // |d|^2, d.sgn, c.sgn
		factor := 0.0
		if abs > 0 {
			factor = 2 * square / abs
		}
		z64, own := float64(z), float64(w.centre.extra)
		head[j] = math.Float32bits(float32(square + float64(factor*along) + float64(z64*z64) - float64(own*own)))
		head[degree+j] = math.Float32bits(float32(-factor))
	}
	simd.PackSigns(words[2*degree:], w.plus)
}

// fillCandidates: the free places of a node are filled from this many rows or a few more. With
// all neighbours of neighbours, searches find as much.
const fillCandidates = 256

// fill returns neighbours of a node's neighbours for its free places. w.self is the node.
func (b *builder) fill(w *workerScratch, plain []uint32, me uint32, ids []uint32) []uint32 {
	if len(w.buf.visited) != bitset.Words(b.Len()) {
		w.buf.visited = bitset.New(b.Len())
	}
	seen := w.buf.visited
	seen.Reset()
	seen.Set(int(me))
	for _, id := range ids {
		seen.Set(int(id))
	}
	found := w.buf.ids[:0]
	for _, via := range ids {
		if len(found) >= fillCandidates {
			break
		}
		for _, id := range plain[int(via)*degree:][:degree] {
			if id != none && !seen.Has(int(id)) {
				seen.Set(int(id))
				found = append(found, id)
			}
		}
	}
	w.buf.ids = found
	w.buf.dists = slices.Grow(w.buf.dists[:0], len(found))[:len(found)]
	simd.GatherCachedL2(w.buf.dists, &w.self, b.records, found)
	w.buf.pool.reset(degree, 0)
	w.buf.pool.offerAll(found, w.buf.dists, math.MaxFloat32)
	w.chosen = w.chosen[:0]
	for _, e := range w.buf.pool.rows[:min(degree-len(ids), len(w.buf.pool.rows))] {
		w.chosen = append(w.chosen, e.ID)
	}
	return w.chosen
}

// block returns the block of a node that simd.Estimate reads.
func (g *Graph) block(node uint32) []byte {
	const head = degree * 4
	return g.nodeBytes[int64(node)*g.geo.node+head:][:g.geo.node-head]
}

// walkQuick is the beam search of the quick layout. Candidates are ordered by estimated distances.
// b.near collects the allowed rows whose exact code distance was computed. Without a filter the
// search ends when the whole pool is expanded, with a filter as walkAllowed does.
func (q *Query) walkQuick(allowed bitset.Set, b *Buffer) error {
	if err := q.enter(b); err != nil {
		return err
	}
	b.ahead(allowed == nil, math.MaxFloat32)
	return q.goOnQuick(allowed, b)
}

// An entrance is a block for simd.Estimate, as of a node at the mean of the rows, with the
// entry points for neighbours. Every search begins with it: to compute their distances from records
// takes ten times as long.
type entrance struct {
	of    []uint32 // the entry points
	block []byte
}

// enter leaves the entry points in b.ids and their estimated distances in b.dists.
func (q *Query) enter(b *Buffer) error {
	g := q.g
	if len(g.entryPoints) > degree {
		return g.measure(&q.point, g.entryPoints, b)
	}
	e := g.entrance.Load()
	if e == nil || !slices.Equal(e.of, g.entryPoints) {
		var err error
		if e, err = g.newEntrance(); err != nil {
			return err
		}
		g.entrance.Store(e)
	}
	var estimates [degree]float32
	simd.Estimate(&estimates, &q.table, e.block, nil, q.point.Level, math.MaxFloat32, 0)
	b.ids, b.dists = b.ids[:0], b.dists[:0]
	for i, id := range e.of {
		if !b.visited.Has(int(id)) {
			b.visited.Set(int(id))
			b.ids, b.dists = append(b.ids, id), append(b.dists, estimates[i])
		}
	}
	b.mark(b.ids)
	b.stats.Estimated += len(b.ids)
	return nil
}

func (g *Graph) newEntrance() (*entrance, error) {
	if err := g.touchRecords(g.entryPoints); err != nil {
		return nil, err
	}
	n := simd.PaddedDim(g.Dim())
	words := make([]uint32, simd.BlockSize(n)/4)
	w := workerScratch{centre: decodedRecord{y: make([]float32, n)}}
	w.sketchFrom(g, words, g.entryPoints)
	return &entrance{of: g.entryPoints, block: codec.BytesFromU32s(words)}, nil
}

// goOnQuick is goOn for the quick layout.
func (q *Query) goOnQuick(allowed bitset.Set, b *Buffer) error {
	g := q.g
	var estimates [degree]float32
	var dist [1]float32
	for {
		if err := b.ended(); err != nil {
			return err
		}
		node, ok := b.nearest(allowed == nil)
		if !ok {
			return nil
		}
		if allowed != nil {
			if err := q.checkFilterEarly(allowed, b); err != nil {
				return err
			}
		}
		next := g.expectNode(b, allowed == nil) // unless this expansion finds a nearer one
		ids, err := g.neighbours(node)
		if err != nil {
			return err
		}
		b.ids = append(b.ids[:0], node)
		if err := g.touchRecords(b.ids); err != nil {
			return err
		}
		g.measureL2(dist[:], &q.point, b.ids)
		b.stats.Expanded++
		wanted := allowed == nil
		if !wanted {
			b.expanded = append(b.expanded, simd.Neighbour{ID: node, Dist: dist[0]})
			if !b.near.full(dist[0]) {
				if wanted, err = g.anyAllowed(node, allowed); err != nil {
					return err
				}
			}
		}
		if wanted {
			b.near.offer(dist[0], node)
		}
		at := &b.pool
		if allowed != nil {
			at = &b.near
		}
		b.stats.Estimated += degree
		most := b.within(b.keepRatio, &b.near)
		b.ids, b.dists = b.ids[:0], b.dists[:0]
		for below := simd.Estimate(&estimates, &q.table, g.block(node), next, dist[0],
			min(at.worst(), most), 0); below != 0; below &= below - 1 {
			i := bits.TrailingZeros32(below)
			id := ids[i]
			if id >= uint32(g.Len()) {
				if id == none {
					break
				}
				return corrupt(g.geo.nodes, "neighbour %d of %d rows", id, g.Len())
			}
			if word, bit := &b.visited[id/64], uint64(1)<<(id%64); *word&bit == 0 {
				*word |= bit
				b.ids, b.dists = append(b.ids, id), append(b.dists, estimates[i])
			}
		}
		b.mark(b.ids)
		b.ahead(allowed == nil, most)
		g.expectNode(b, allowed == nil)
	}
}

// ahead adds the rows b.ids, at b.dists, none farther than most, to the candidates: to the pool if
// it is bounded, otherwise to the heap.
func (b *Buffer) ahead(bounded bool, most float32) {
	if bounded {
		b.pool.offerAll(b.ids, b.dists, most)
		return
	}
	for i, d := range b.dists {
		if d == d {
			b.push(simd.Neighbour{ID: b.ids[i], Dist: d})
		}
	}
}

// nearest returns the next row to expand and removes it from the candidates.
func (b *Buffer) nearest(bounded bool) (uint32, bool) {
	if bounded {
		return b.pool.pop(b.ef, b.within(b.stopRatio, &b.near))
	}
	if b.exhausted(&b.near) {
		return 0, false
	}
	return b.popHeap().ID, true
}

// peek returns the row that nearest would return.
func (b *Buffer) peek(bounded bool) (uint32, bool) {
	if !bounded {
		if len(b.heap) > 0 {
			return b.heap[0].ID, true
		}
		return 0, false
	}
	for _, e := range b.pool.rows[b.pool.next:] {
		if e.ID < simd.Marked {
			return e.ID, true
		}
	}
	return 0, false
}
