package graph

import (
	"context"
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
	"github.com/vecbolt/vecbolt/simd"
)

// A Buffer is memory that searches reuse. The zero value is ready. It is for one goroutine.
type Buffer struct {
	pool          pool
	near          pool // where the beam has estimates: rows whose exact code distance is known
	few           pool // of a graph that sifts: the neighbours to read
	visited       bitset.Set
	marks         bool     // marked is kept: the graph is in a file, so nothing else writes visited
	marked        []uint32 // rows in visited: all of them, unless they are many
	ef            int      // beam width: the nearest ef rows are expanded
	rank          int      // of the row that stopRatio and keepRatio refer to
	stopRatio     float32  // see Setting
	keepRatio     float32  // like stopRatio, for offering rows to the pool; 0: no bound
	fewRatio      float32  // see Setting
	bridge        *bridge  // nil: no node is left out
	bridgeScratch bridgeScratch
	heap          []simd.Neighbour
	expanded      []simd.Neighbour // under a filter: the expanded nodes
	look          int              // under a guard: the search is judged after this many expansions
	ids           []uint32
	dists         []float32
	others        []float32 // distances of excluded rows
	spread        spreadBuffer
	point         decodedRecord
	sketch        sketchBuffer
	scanned       bool // near has the rows found, whatever the layout: see scanSketches
	more          int  // rows to collect beside those wanted: see scanAll
	wentOn        bool // see WentOn
	outside       bool // see Outside
	rows          []uint32
	excluded      int // rows that are not allowed and nearer than the last row wanted: see collect
	hits          []Hit
	stats         Stats
	expected      uint32          // the node that was announced last, or none
	cold          bool            // see Query.Cold
	ctx           context.Context // see Query.Heed
}

// WentOn reports whether the rows that the last search found made it go on with its second stage.
func (b *Buffer) WentOn() bool { return b.wentOn }

// Outside reports whether the last search went on, or should, because the query is beyond the
// extent of the rows.
func (b *Buffer) Outside() bool { return b.outside }

// heedEvery is how many expansions pass between two looks at the context. They take a few
// milliseconds at most, unless they wait for the disk.
const heedEvery = 256

// ended returns the error of the context, which it looks at from time to time. Every walk asks
// before each expansion.
func (b *Buffer) ended() error {
	if b.ctx == nil || b.stats.Expanded%heedEvery != 0 {
		return nil
	}
	return b.ctx.Err()
}

// markedPerWord is how many words of the visited rows are cleared in the time of one of them alone.
const markedPerWord = 8

// mark notes that rows were added to b.visited. A list that is too long is not used.
func (b *Buffer) mark(ids []uint32) {
	if b.marks && len(b.marked) < len(b.visited)/markedPerWord {
		b.marked = append(b.marked, ids...)
	}
}

// start resets b for a search of a graph of this many rows with beam width ef. near is the number
// of rows that the search has to find where its beam has estimates, and front the number of rows of
// the beam that it may keep in order, 0 for all.
func (b *Buffer) start(rows, ef, near, front int) {
	words := bitset.Words(rows)
	switch {
	case len(b.visited) != words:
		b.visited = make(bitset.Set, words)
	case b.marks && len(b.marked) < words/markedPerWord:
		for _, id := range b.marked {
			b.visited[id/64] = 0
		}
	default:
		b.visited.Reset()
	}
	b.marks, b.marked, b.scanned, b.more = false, b.marked[:0], false, 0
	b.pool.reset(ef, front)
	b.near.reset(near, 0)
	b.heap, b.expanded = b.heap[:0], b.expanded[:0]
	b.ef, b.stopRatio, b.keepRatio, b.fewRatio, b.bridge, b.ctx = ef, 0, 0, 0, nil, nil
	b.look = firstLook
	b.expected = none
	b.stats = Stats{}
}

// within returns the product of times and the distance of the row of rank b.rank in p, or the bound
// of b.fewRatio if that is farther. Both shrink as nearer rows are found. There is no bound if
// times is 0, or while p has fewer than b.rank rows.
func (b *Buffer) within(times float32, p *pool) float32 {
	if times != 0 {
		if dist, ok := p.within(b.rank); ok {
			if b.fewRatio == 0 {
				return times * dist
			}
			return max(times*dist, b.fewRatio*p.rows[levels.Few-1].Dist)
		}
	}
	return math.MaxFloat32
}

// measure computes the distances of those ids that were not visited yet, and marks them visited.
// They are left in b.ids and b.dists.
func (g *Graph) measure(p *simd.CodedVector, ids []uint32, b *Buffer) error {
	b.ids = slices.Grow(b.ids[:0], len(ids))[:len(ids)]
	n, rows := 0, uint32(g.Len())
	for _, id := range ids {
		if id >= rows {
			if id == none {
				break
			}
			return corrupt(g.geo.nodes, "neighbour %d of %d rows", id, rows)
		}
		word := &b.visited[id/64]
		old := *word
		*word = old | 1<<(id%64)
		b.ids[n] = id
		n += int(^old >> (id % 64) & 1) // no branch: it would often be mispredicted
	}
	b.ids = b.ids[:n]
	b.mark(b.ids)
	g.expectRecords(b.ids, b)
	if err := g.touchRecords(b.ids); err != nil {
		return err
	}
	if cap(b.dists) < len(b.ids) {
		b.dists = make([]float32, max(maxEntryPoints, len(b.ids)))
	}
	b.dists = b.dists[:len(b.ids)]
	g.measureL2(b.dists, p, b.ids)
	b.stats.Estimated += len(b.ids)
	return nil
}

// walk is a beam search for p from the entry points. It leaves the nearest rows that it finds in
// b.pool. The caller has started b.
func (g *Graph) walk(p *simd.CodedVector, b *Buffer) error {
	if err := g.measure(p, g.entryPoints, b); err != nil {
		return err
	}
	b.pool.offerAll(b.ids, b.dists, b.within(b.keepRatio, &b.pool))
	return g.goOn(p, b)
}

// goOn continues a search as far as ef and stopRatio of the buffer now allow.
func (g *Graph) goOn(p *simd.CodedVector, b *Buffer) error {
	for {
		if err := b.ended(); err != nil {
			return err
		}
		node, ok := b.pool.pop(b.ef, b.within(b.stopRatio, &b.pool))
		if !ok {
			return nil
		}
		ids, err := g.neighbours(node)
		if err != nil {
			return err
		}
		b.stats.Expanded++
		g.expectNode(b, true) // likely the next node or the one after
		if b.bridge != nil {
			if ids, err = g.bridged(b, node, ids); err != nil {
				return err
			}
		}
		if err := g.measure(p, ids[:], b); err != nil {
			return err
		}
		b.pool.offerAll(b.ids, b.dists, b.within(b.keepRatio, &b.pool))
		if b.cold {
			g.expectNodes(b, true)
		}
	}
}

// walkAllowed is a beam search whose pool takes allowed rows only. Excluded nodes are expanded too,
// because the allowed ones may be connected only through them. The search ends when every candidate
// is farther than a full pool, or when no candidates are left.
func (q *Query) walkAllowed(allowed bitset.Set, b *Buffer) error {
	g, p := q.g, &q.point
	if err := g.measure(p, g.entryPoints, b); err != nil {
		return err
	}
	for {
		if err := b.ended(); err != nil {
			return err
		}
		most, n := b.within(b.keepRatio, &b.pool), 0
		for i, d := range b.dists {
			if b.pool.full(d) || d > most {
				continue
			}
			id := b.ids[i]
			b.push(simd.Neighbour{ID: id, Dist: d})
			if ok, err := g.anyAllowed(id, allowed); err != nil {
				return err
			} else if ok {
				b.ids[n], b.dists[n] = id, d
				n++
			}
		}
		b.pool.offerAll(b.ids[:n], b.dists[:n], most)
		if b.exhausted(&b.pool) {
			return nil
		}
		if err := q.checkFilterEarly(allowed, b); err != nil {
			return err
		}
		node := b.popHeap()
		b.expanded = append(b.expanded, node)
		if b.cold {
			g.expectNodes(b, false)
		}
		if g.sifts {
			if err := q.sift(node, b.admitted(), false, b); err != nil {
				return err
			}
			continue
		}
		ids, err := g.neighbours(node.ID)
		if err != nil {
			return err
		}
		b.stats.Expanded++
		if b.bridge != nil {
			if ids, err = g.bridged(b, node.ID, ids); err != nil {
				return err
			}
		}
		if err := g.measure(p, ids[:], b); err != nil {
			return err
		}
	}
}

// exhausted reports whether no candidate in the heap is worth expanding, given the allowed rows
// that p holds so far.
func (b *Buffer) exhausted(p *pool) bool {
	return len(b.heap) == 0 || p.full(b.heap[0].Dist) || b.heap[0].Dist > b.within(b.stopRatio, p)
}

// anyAllowed reports whether a row or one of its duplicates is allowed.
func (g *Graph) anyAllowed(row uint32, allowed bitset.Set) (bool, error) {
	for row != none {
		if allowed.Has(int(row)) {
			return true, nil
		}
		next, err := g.duplicate(row)
		if err != nil {
			return false, err
		}
		row = next
	}
	return false, nil
}

// push and popHeap keep b.heap a binary heap with the nearest candidate first.
func (b *Buffer) push(e simd.Neighbour) {
	b.heap = append(b.heap, e)
	h, i := b.heap, len(b.heap)-1
	for i > 0 {
		up := (i - 1) / 2
		if h[up].Dist <= e.Dist {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = e
}

func (b *Buffer) popHeap() simd.Neighbour {
	h := b.heap
	top, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	b.heap = h
	i := 0
	for {
		down := 2*i + 1
		if down >= len(h) {
			break
		}
		if down+1 < len(h) && h[down+1].Dist < h[down].Dist {
			down++
		}
		if last.Dist <= h[down].Dist {
			break
		}
		h[i] = h[down]
		i = down
	}
	if len(h) > 0 {
		h[i] = last
	}
	return top
}
