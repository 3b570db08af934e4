package graph

import (
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/simd"
)

// A pool holds the nearest rows so far, nearest first. Those whose neighbours were looked at are
// marked.
type pool struct {
	rows  []simd.Neighbour // the rows
	slots []simd.Neighbour // the rows and the places that are left
	limit int
	next  int // no entry before it is unmarked
}

func (p *pool) reset(limit int) {
	n := simd.PoolLen(limit)
	p.slots = slices.Grow(p.slots[:0], n)[:n]
	for i := range p.slots {
		p.slots[i] = simd.Vacant
	}
	p.rows, p.limit, p.next = p.slots[:0], limit, 0
}

// worst returns the distance from which on rows have no place.
func (p *pool) worst() float32 { return p.slots[p.limit-1].Dist }

// full reports whether rows at this distance have no place any more.
func (p *pool) full(dist float32) bool { return !(dist < p.worst()) }

// offer puts a row in its place, if there is one.
func (p *pool) offer(dist float32, id uint32) {
	p.offerAll([]uint32{id}, []float32{dist}, math.MaxFloat32)
}

// offerAll offers those rows that are not farther than most, told by their ids and distances.
func (p *pool) offerAll(ids []uint32, dists []float32, most float32) {
	if rows, next := simd.Offer(p.slots, p.limit, p.next, ids, dists, most); rows > 0 {
		p.rows, p.next = p.slots[:rows], next
	}
}

// pop returns the nearest row that was not expanded, and marks it, if it is one of the nearest so
// many and not farther than most.
func (p *pool) pop(nearest int, most float32) (uint32, bool) {
	for n := min(nearest, len(p.rows)); p.next < n; p.next++ {
		if e := &p.rows[p.next]; e.ID < simd.Marked {
			if e.Dist > most {
				return 0, false
			}
			id := e.ID
			e.ID |= simd.Marked
			p.next++
			return id, true
		}
	}
	return 0, false
}

// A Buffer is memory for searches. The zero value is ready; it is for one goroutine.
type Buffer struct {
	pool          pool
	near          pool // of the quick layout: rows with distances by their records
	visited       bitset.Set
	ef            int     // how many of the nearest rows are expanded
	rank          int     // of the row that reach and use are relative to
	stopRatio     float32 // see Setting
	keepRatio     float32 // how many times its distance a row may have to be of use; 0: any
	bridge        *bridge // nil: no node is left out
	bridgeScratch bridgeScratch
	heap          []simd.Neighbour
	// Under a filter: the distances of the nodes that were expanded.
	expanded []float32
	ids      []uint32
	dists    []float32
	others   []float32 // distances of rows that are not allowed
	rows     []uint32
	hits     []Hit
	stats    Stats
}

// start forgets the last walk. near is how many rows it has to find in the quick layout.
func (b *Buffer) start(rows, ef, near int) {
	words := bitset.Words(rows)
	if len(b.visited) != words {
		b.visited = make(bitset.Set, words)
	} else {
		b.visited.Reset()
	}
	b.pool.reset(ef)
	b.near.reset(near)
	b.heap, b.expanded = b.heap[:0], b.expanded[:0]
	b.ef, b.stopRatio, b.keepRatio, b.bridge = ef, 0, 0, nil
	b.stats = Stats{}
}

// within returns so many times the distance of the row of the rank, with what was found so far in
// p: it becomes less as more is found. There is no bound for 0 times, nor before there is such a
// row.
func (b *Buffer) within(times float32, p *pool) float32 {
	if times == 0 || len(p.rows) < b.rank {
		return math.MaxFloat32
	}
	return times * p.rows[b.rank-1].Dist
}

// measure appends the distances of those of ids that were not visited. b.ids and b.dists hold the
// rows and distances.
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
		n += int(^old >> (id % 64) & 1) // no branch, which would often be guessed wrong
	}
	b.ids = b.ids[:n]
	if err := g.touchRecords(b.ids); err != nil {
		return err
	}
	if cap(b.dists) < len(b.ids) {
		b.dists = make([]float32, max(maxEntryPoints, len(b.ids)))
	}
	b.dists = b.dists[:len(b.ids)]
	simd.GatherL2(b.dists, p, g.records, b.ids)
	b.stats.Estimated += len(b.ids)
	return nil
}

// walk fills the pool with the nearest rows of p that a best-first walk finds. The buffer must be
// started.
func (g *Graph) walk(p *simd.CodedVector, b *Buffer) error {
	if err := g.measure(p, g.entryPoints, b); err != nil {
		return err
	}
	b.pool.offerAll(b.ids, b.dists, b.within(b.keepRatio, &b.pool))
	return g.goOn(p, b)
}

// goOn goes on with a walk, as far as view and reach of the buffer allow now.
func (g *Graph) goOn(p *simd.CodedVector, b *Buffer) error {
	for {
		node, ok := b.pool.pop(b.ef, b.within(b.stopRatio, &b.pool))
		if !ok {
			return nil
		}
		ids, err := g.neighbours(node)
		if err != nil {
			return err
		}
		b.stats.Expanded++
		if next, ok := b.peek(true); ok { // it is likely to be the next, or the one after
			simd.Prefetch(g.nodeBytes[int64(next)*degree*4:][:degree*4])
		}
		if b.bridge != nil {
			if ids, err = g.bridged(b, node, ids); err != nil {
				return err
			}
		}
		if err := g.measure(p, ids[:], b); err != nil {
			return err
		}
		b.pool.offerAll(b.ids, b.dists, b.within(b.keepRatio, &b.pool))
	}
}

// walkAllowed is walk with a pool of allowed rows only. It goes on until the pool is full of rows
// nearer than any other, or no row is left that can be reached: what is walked is not restricted.
func (q *Query) walkAllowed(allowed bitset.Set, b *Buffer) error {
	g, p := q.g, &q.point
	if err := g.measure(p, g.entryPoints, b); err != nil {
		return err
	}
	for {
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
		if err := q.halt(b); err != nil {
			return err
		}
		node := b.popHeap()
		b.expanded = append(b.expanded, node.Dist)
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

// exhausted reports whether nothing in the heap is worth expanding, with the allowed rows found so
// far in p.
func (b *Buffer) exhausted(p *pool) bool {
	return len(b.heap) == 0 || p.full(b.heap[0].Dist) || b.heap[0].Dist > b.within(b.stopRatio, p)
}

// anyAllowed reports whether a row or one of its twins is allowed.
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

// push and popHeap keep b.heap a binary heap with the nearest entry first.
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
