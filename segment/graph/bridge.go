package graph

import (
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/simd"
)

// A bridge stands in for one node that searches leave out: it holds the bridge links, which replace
// the links of the node's in-neighbours.
//
// Merely skipping the node makes a search harder than it would be in a graph that never had the
// node: building dropped neighbours of the in-neighbours because this node is near to them. So each
// in-neighbour selects more neighbours, as if it were inserted now: from the neighbours of its
// neighbours, by the pruning rule of building (see builder.choose). A search is then at most
// slightly easier than in a graph without the node, and often still harder: docs/decisions/0006 has
// the figures.
type bridge struct {
	node  uint32
	links map[uint32]*[degree]uint32 // by in-neighbour
}

// bridgeScratch is memory for computing bridge links.
type bridgeScratch struct {
	seen  bitset.Set
	ids   []uint32
	dists []float32
	point simd.CodedVector
	near  pool
}

func newBridge(node uint32) *bridge { return &bridge{node: node, links: map[uint32]*[degree]uint32{}} }

// bridged returns the neighbours of a node, given as ids, without the node that b leaves out: if
// that is among ids, the node's bridge links, which are computed on first use.
func (g *Graph) bridged(b *Buffer, node uint32, ids *[degree]uint32) (*[degree]uint32, error) {
	at := slices.Index(ids[:], b.bridge.node)
	if at < 0 {
		return ids, nil
	}
	if links := b.bridge.links[node]; links != nil {
		return links, nil
	}
	own, d := ids[:count(ids)], &b.bridgeScratch
	if len(d.seen) != len(b.visited) {
		d.seen = make(bitset.Set, len(b.visited))
	} else {
		d.seen.Reset()
	}
	d.seen.Set(int(node))
	for _, id := range own {
		if id >= uint32(g.Len()) {
			return nil, corrupt(g.geo.nodes, "neighbour %d of %d rows", id, g.Len())
		}
		d.seen.Set(int(id))
	}
	d.ids = d.ids[:0]
	for _, via := range own {
		its, err := g.neighbours(via)
		if err != nil {
			return nil, err
		}
		for _, id := range its[:count(its)] {
			if id >= uint32(g.Len()) {
				return nil, corrupt(g.geo.nodes, "neighbour %d of %d rows", id, g.Len())
			}
			if !d.seen.Has(int(id)) {
				d.seen.Set(int(id))
				d.ids = append(d.ids, id)
			}
		}
	}
	if err := g.touchRecords(own); err != nil {
		return nil, err
	}
	if err := g.touchRecords(d.ids); err != nil {
		return nil, err
	}
	g.load(&d.point, node) // verified already, when it was compared with the query
	d.dists = slices.Grow(d.dists[:0], len(d.ids)+degree)[:len(d.ids)+degree]
	g.measureL2(d.dists, &d.point, d.ids)
	d.near.reset(buildEF, 0)
	d.near.offerAll(d.ids, d.dists[:len(d.ids)], math.MaxFloat32)
	links, n := *ids, len(own)-1
	links[at], links[n] = links[n], none
next:
	for _, e := range d.near.rows {
		if n == degree {
			break
		}
		g.load(&d.point, e.ID)
		g.measureL2(d.dists, &d.point, links[:n])
		for _, dist := range d.dists[:n] {
			if alpha*dist < e.Dist {
				continue next
			}
		}
		links[n] = e.ID
		n++
	}
	b.bridge.links[node] = &links
	return &links, nil
}
