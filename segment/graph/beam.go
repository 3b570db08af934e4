package graph

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/simd"
)

// A pool is the beam of a search: the nearest rows so far. Expanded rows are marked.
//
// The nearest rows are in order. A wide beam keeps only some in order at first, its front, and the
// others apart: most searches end before they expand all rows of the front, and it is cheap to keep
// few rows in order. Once a row behind the front is needed, the front becomes longer.
type pool struct {
	rows  []simd.Neighbour // the rows in order, nearest first
	slots []simd.Neighbour // rows and vacant slots
	limit int              // of rows
	next  int              // all rows before it are marked
	rest  []simd.Neighbour // the rows behind a full front, also some that lie behind the beam
	ef    int              // limit without a front; 0 if all rows are in order
	all   []simd.Neighbour // memory of lengthen
}

const (
	longer = 4      // multiple by which a front becomes longer
	room   = degree // slots behind a front, for the rows that one expansion pushes out
)

// reset makes p a pool of at most limit rows. If front is not 0, it may keep that many in order.
func (p *pool) reset(limit, front int) {
	p.ef, p.rest = 0, p.rest[:0]
	if front > 0 && front+room < limit {
		p.ef, limit = limit, front
	}
	p.vacate(limit)
}

// vacate makes p an empty pool of at most limit rows in order. A front gets room behind it.
func (p *pool) vacate(limit int) {
	n := limit
	if p.ef > limit {
		n += room
	}
	n = simd.PoolLen(n)
	p.slots = slices.Grow(p.slots[:0], n)[:n]
	for i := range p.slots {
		p.slots[i] = simd.Vacant
	}
	p.rows, p.limit, p.next = p.slots[:0], limit, 0
}

// lengthen brings the nearest rows behind the front into order.
func (p *pool) lengthen() {
	limit, next := min(p.ef, longer*p.limit), p.next
	n := min(limit-len(p.rows), len(p.rest))
	selectNearest(p.rest, n)
	nearest := p.rest[:n]
	if limit == p.ef { // the others lie behind the beam
		p.ef, p.rest = 0, nearest
	}
	p.all = append(p.all[:0], p.rows...)
	p.vacate(limit)
	p.rows = p.slots[:copy(p.slots, p.all)]
	if n > inRegisters {
		slices.SortFunc(nearest, func(a, b simd.Neighbour) int { return cmp.Compare(a.Dist, b.Dist) })
		p.rows = append(p.rows, nearest...)
	} else { // to insert few is faster
		p.insertRows(nearest)
	}
	p.rest = slices.Delete(p.rest, 0, n)
	for p.next = next; p.next < len(p.rows) && p.rows[p.next].ID >= simd.Marked; {
		p.next++
	}
}

// insertRows is insert for rows that all find a place.
func (p *pool) insertRows(rows []simd.Neighbour) {
	var ids [room]uint32
	var dists [room]float32
	for some := range slices.Chunk(rows, room) {
		for i, e := range some {
			ids[i], dists[i] = e.ID, e.Dist
		}
		p.insert(ids[:len(some)], dists[:len(some)], math.MaxFloat32)
	}
}

// selectNearest brings the n nearest rows before the others, by Hoare's quickselect.
func selectNearest(rows []simd.Neighbour, n int) {
	for n > 0 && n < len(rows) {
		first, middle, last := rows[0].Dist, rows[len(rows)/2].Dist, rows[len(rows)-1].Dist
		pivot := max(min(first, middle), min(max(first, middle), last)) // their median
		i, j := 0, len(rows)-1
		for i <= j {
			for rows[i].Dist < pivot {
				i++
			}
			for rows[j].Dist > pivot {
				j--
			}
			if i <= j {
				rows[i], rows[j] = rows[j], rows[i]
				i, j = i+1, j-1
			}
		}
		switch { // rows between j and i are as far as the pivot
		case n <= j+1:
			rows = rows[:j+1]
		case n >= i:
			rows, n = rows[i:], n-i
		default:
			return
		}
	}
}

// worst returns the distance at and beyond which rows are refused.
func (p *pool) worst() float32 {
	if p.ef > 0 {
		return math.MaxFloat32
	}
	return p.slots[p.limit-1].Dist
}

// full reports whether a row at this distance would be refused.
func (p *pool) full(dist float32) bool { return !(dist < p.worst()) }

// within returns the distance of the row of a rank; false if there are fewer rows.
func (p *pool) within(rank int) (float32, bool) {
	if !p.order(rank) {
		return 0, false
	}
	return p.rows[rank-1].Dist, true
}

// order brings the n nearest rows into order; false if there are fewer rows.
func (p *pool) order(n int) bool {
	for n > len(p.rows) && n <= len(p.rows)+len(p.rest) {
		p.lengthen()
	}
	return n <= len(p.rows)
}

// offer inserts a row unless it is too far.
func (p *pool) offer(dist float32, id uint32) {
	p.offerAll([]uint32{id}, []float32{dist}, math.MaxFloat32)
}

// offerAll inserts the rows ids, at dists, that are not farther than most and find a place.
func (p *pool) offerAll(ids []uint32, dists []float32, most float32) {
	if p.ef == 0 {
		p.insert(ids, dists, most)
		return
	}
	for len(dists) > room {
		p.offerFront(ids[:room], dists[:room], most)
		ids, dists = ids[room:], dists[room:]
	}
	p.offerFront(ids, dists, most)
}

// offerFront is offerAll for a pool with a front, and for no more rows than it has room for.
func (p *pool) offerFront(ids []uint32, dists []float32, most float32) {
	most = min(most, math.MaxFloat32)
	last := p.slots[p.limit-1].Dist // infinite while the front is not full
	for i, d := range dists {
		if d = max(d, 0); d >= last && d <= most {
			p.rest = append(p.rest, simd.Neighbour{ID: ids[i], Dist: d})
		}
	}
	p.insert(ids, dists, min(most, math.Nextafter32(last, -1)))
	if len(p.rows) > p.limit {
		pushed := p.rows[p.limit:]
		p.rest = append(p.rest, pushed...)
		for i := range pushed {
			pushed[i] = simd.Vacant
		}
		p.rows, p.next = p.rows[:p.limit], min(p.next, p.limit)
	}
}

// insert inserts rows in order.
func (p *pool) insert(ids []uint32, dists []float32, most float32) {
	limit := p.limit
	if p.ef > 0 {
		limit += room
	}
	if rows, next := simd.Offer(p.slots, limit, p.next, ids, dists, most); rows > 0 {
		p.rows, p.next = p.slots[:rows], min(next, rows) // next is the limit if all are marked
	}
}

// pop marks and returns the nearest unmarked row. It returns false if that row is not among the
// first nearest rows of the pool, or is farther than most.
func (p *pool) pop(nearest int, most float32) (uint32, bool) {
	for {
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
		if nearest <= len(p.rows) || !p.behind(most) {
			return 0, false
		}
		p.lengthen()
	}
}

// behind reports whether an unmarked row behind the front is not farther than most.
func (p *pool) behind(most float32) bool {
	for _, e := range p.rest {
		if e.ID < simd.Marked && e.Dist <= most {
			return true
		}
	}
	return false
}

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
	sketch        sketchBuffer
	scanned       bool // near has the rows found, whatever the layout: see scanSketches
	more          int  // rows to collect beside those wanted: see scanAll
	beyond        bool // see Beyond
	rows          []uint32
	excluded      int // rows that are not allowed and nearer than the last row wanted: see collect
	hits          []Hit
	stats         Stats
	expected      uint32          // the node that was announced last, or none
	cold          bool            // see Query.Cold
	ctx           context.Context // see Query.Heed
}

// Beyond reports whether the rows that the last search found made it go on with Setting.Beyond.
func (b *Buffer) Beyond() bool { return b.beyond }

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
			return max(times*dist, b.fewRatio*p.rows[few-1].Dist)
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
		if err := q.halt(allowed, b); err != nil {
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
