package graph

import (
	"math"
	"math/bits"

	"github.com/vecbolt/vecbolt/simd"
)

// Two walks read nodes of the quick layout. From quickDim dimensions on, the beam is ordered by
// estimates: see walkQuick. With fewer bits, estimates are too rough for that: where a query is far
// from all rows, hundreds of them lie within the error, and a beam by estimates expands them in any
// order. So there the beam is ordered by the distances of records, as in the plain layout, and
// estimates only sift the neighbours of a node: of those that are likely too far, no record is
// read.
//
// The standard deviation of an estimate is 0.6 f |q - c|, with f = 2 |d|^2 / d.sgn, which is 2.5
// |d| over the root of the dimension: less the second factor of the block.

// Parameters of sifting.
const (
	siftSlack = 0.25 // times f |q - c|: that much less than estimated may a distance be
	siftMost  = 6    // neighbours of a node that are read at most, once the search has enough rows
	siftRatio = 1.05 // least ratio by which neighbours are refused: rows a little too far to expand may be found
)

// walkSift is Graph.walk for a graph that sifts.
func (q *Query) walkSift(b *Buffer) error {
	if err := q.g.measure(&q.point, q.g.entryPoints, b); err != nil {
		return err
	}
	b.pool.offerAll(b.ids, b.dists, math.MaxFloat32)
	return q.goOnSift(b)
}

// goOnSift is Graph.goOn for a graph that sifts.
func (q *Query) goOnSift(b *Buffer) error {
	for {
		if err := b.ended(); err != nil {
			return err
		}
		node, ok := b.pool.pop(b.ef, b.within(b.stopRatio, &b.pool))
		if !ok {
			return nil
		}
		dist := b.pool.rows[b.pool.next-1].Dist
		if err := q.sift(simd.Neighbour{ID: node, Dist: dist}, b.admitted(), true, b); err != nil {
			return err
		}
		b.pool.offerAll(b.ids, b.dists, math.MaxFloat32)
		q.g.expectNode(b, true)
	}
}

// admitted returns the distance beyond which a search that sifts does not want rows: they would not
// be among the nearest ef, or would end the search.
func (b *Buffer) admitted() float32 {
	most := float32(math.MaxFloat32)
	if b.ef > 0 {
		if dist, ok := b.pool.within(b.ef); ok {
			most = dist
		}
	}
	if b.stopRatio > 0 {
		most = min(most, b.within(max(b.stopRatio, siftRatio), &b.pool))
	}
	return most
}

// sift expands a node whose distance is known. It computes the distances of the unvisited
// neighbours that may be nearer than most, and marks them visited. They are left in b.ids and
// b.dists. If there are many, only those with the least estimates are read: the others are likely
// to be met again, from a node nearer to them. But all are while nothing bounds the search, so that
// it passes by no row if it wants all of them.
func (q *Query) sift(node simd.Neighbour, most float32, bounded bool, b *Buffer) error {
	g := q.g
	ids, err := g.neighbours(node.ID)
	if err != nil {
		return err
	}
	b.stats.Expanded++
	b.stats.Estimated += degree
	b.ids, b.dists = b.ids[:0], b.dists[:0]
	var estimates [degree]float32
	next := g.expectNode(b, bounded) // unless a nearer one is found now
	slack := siftSlack * float32(math.Sqrt(max(0, float64(node.Dist))))
	below := simd.Estimate(&estimates, &q.table, g.block(node.ID), next, node.Dist, most, slack)
	for ; below != 0; below &= below - 1 {
		i := bits.TrailingZeros32(below)
		id := ids[i]
		if id >= uint32(g.Len()) {
			if id == none {
				break
			}
			return corrupt(g.geo.nodes, "neighbour %d of %d rows", id, g.Len())
		}
		if b.visited[id/64]>>(id%64)&1 == 0 {
			b.ids, b.dists = append(b.ids, id), append(b.dists, estimates[i])
		}
	}
	if len(b.ids) > siftMost && most < math.MaxFloat32 {
		b.few.reset(siftMost, 0)
		b.few.offerAll(b.ids, b.dists, math.MaxFloat32)
		b.ids = b.ids[:0]
		for _, e := range b.few.rows {
			b.ids = append(b.ids, e.ID)
		}
		b.dists = b.dists[:len(b.ids)]
	}
	n := 0
	for _, id := range b.ids {
		if !b.visited.Has(int(id)) { // false for the second of two equal neighbours, in a damaged file
			b.visited.Set(int(id))
			b.ids[n] = id
			n++
		}
	}
	b.ids, b.dists = b.ids[:n], b.dists[:n]
	b.mark(b.ids)
	g.expectRecords(b.ids, b)
	if err := g.touchRecords(b.ids); err != nil {
		return err
	}
	g.measureL2(b.dists, &q.point, b.ids)
	return nil
}
