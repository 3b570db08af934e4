package graph

import (
	"fmt"
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/simd"
)

// renewed is the share of the nodes of a base that is inserted anew: one of so many.
const renewed = 20

// adopt takes over the nodes of base, whose row i is row rows[i] now, or is gone if that is
// negative. It returns false, having done nothing, if so few are left that building anew is better,
// else it leaves the nodes that are still to be inserted at the end of b.order, and returns their
// number.
//
// Some nodes are inserted anew, so that none keeps its neighbours for ever: else recall falls
// slowly over hundreds of merges. A node that loses neighbours keeps the others and chooses more
// among the neighbours of all of them (after Singh et al., "FreshDiskANN", 2021).
func (b *builder) adopt(base *Graph, rows []int32) (fresh int, ok bool, err error) {
	n := b.Len()
	if len(rows) != base.Len() {
		return 0, false, fmt.Errorf("graph: %d new places for the %d rows of the base", len(rows), base.Len())
	}
	// owner is the node of each row, and taken tells which rows come from the base.
	owner, taken := make([]uint32, n), make([]bool, n)
	for _, node := range b.order {
		for row := node; row != none; row = b.twins[row] {
			owner[row] = node
		}
	}
	for i, row := range rows {
		if row >= 0 {
			if int(row) >= n || taken[row] {
				return 0, false, fmt.Errorf("graph: row %d of the base cannot be row %d of %d", i, row, n)
			}
			taken[row] = true
		}
	}
	// heir is the node here that a node of the base has become. Nodes of the base whose rows got
	// equal codes share one.
	heir := make([]uint32, base.Len())
	from := make([]uint32, n) // the node of the base that a node here was
	for i := range from {
		from[i] = none
	}
	inner := make([]bool, base.Len()) // not the first of its twins
	for i := range heir {
		heir[i] = none
		if inner[i] {
			continue
		}
		for row := uint32(i); row != none; {
			if rows[row] >= 0 && heir[i] == none {
				heir[i] = owner[rows[row]]
			}
			if row, err = base.twin(row); err != nil {
				return 0, false, err
			}
			if row != none {
				inner[row] = true
			}
		}
		if heir[i] != none && from[heir[i]] == none {
			from[heir[i]] = uint32(i)
		}
	}
	old := slices.DeleteFunc(slices.Clone(b.order), func(node uint32) bool { return from[node] == none })
	if 2*len(old) < len(b.order) {
		return 0, false, nil
	}
	recent := slices.DeleteFunc(slices.Clone(b.order), func(node uint32) bool { return from[node] != none })
	b.order = append(old, recent...)
	again := len(old) / renewed
	old = old[:len(old)-again]
	return len(recent) + again, true, b.each(len(old), func(l *lane, i int) error {
		me := old[i]
		its, err := base.neighbours(from[me])
		if err != nil {
			return err
		}
		l.buf.start(n, reachEffort, 0)
		l.buf.visited.Set(int(me))
		l.chosen = l.chosen[:0]
		lost := 0
		for _, id := range its[:count(its)] {
			if id >= uint32(base.Len()) {
				return corrupt(base.geo.nodes, "neighbour %d of %d rows", id, base.Len())
			}
			if h := heir[id]; h == none {
				lost++
			} else if !l.buf.visited.Has(int(h)) {
				l.buf.visited.Set(int(h))
				l.chosen = append(l.chosen, h)
			}
		}
		if lost == 0 {
			copy(b.links(me)[:], l.chosen)
			return nil
		}
		l.buf.ids = l.buf.ids[:0]
		for _, via := range its[:count(its)] {
			its, err := base.neighbours(via)
			if err != nil {
				return err
			}
			for _, id := range its[:count(its)] {
				if id >= uint32(base.Len()) {
					return corrupt(base.geo.nodes, "neighbour %d of %d rows", id, base.Len())
				}
				if h := heir[id]; h != none && !l.buf.visited.Has(int(h)) {
					l.buf.visited.Set(int(h))
					l.buf.ids = append(l.buf.ids, h)
				}
			}
		}
		simd.LoadPoint(&l.self, b.record(me))
		l.scores = slices.Grow(l.scores[:0], len(l.buf.ids))[:len(l.buf.ids)]
		simd.GatherL2(l.scores, &l.self, b.records, l.buf.ids)
		l.buf.pool.offerAll(l.buf.ids, l.scores, math.MaxFloat32)
		b.choose(l, l.buf.pool.entries, len(l.chosen)+lost)
		copy(b.links(me)[:], l.chosen)
		return nil
	})
}
