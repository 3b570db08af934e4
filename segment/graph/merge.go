package graph

import (
	"fmt"
	"slices"

	"github.com/vecbolt/vecbolt/simd"
)

// adopt takes over the nodes of base, whose row i is row rows[i] now, or is gone if that is negative. It returns false, having done
// nothing, if so few are left that building anew is better, else it leaves the nodes that are still to be inserted at the
// end of b.order, and returns their number.
//
// A node that loses neighbours keeps the others and chooses among those of the lost ones (after Singh et al., "FreshDiskANN", 2021).
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
	// heir is the node here that a node of the base has become. Nodes of the base whose rows got equal codes share one.
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
	return len(recent), true, b.each(len(old), func(l *lane, i int) error {
		me := old[i]
		its, err := base.neighbours(from[me])
		if err != nil {
			return err
		}
		l.chosen, l.buf.ids = l.chosen[:0], l.buf.ids[:0]
		for _, id := range its[:count(its)] {
			if id >= uint32(base.Len()) {
				return corrupt(base.geo.nodes, "neighbour %d of %d rows", id, base.Len())
			}
			if h := heir[id]; h == none {
				l.buf.ids = append(l.buf.ids, id)
			} else if h != me && !slices.Contains(l.chosen, h) {
				l.chosen = append(l.chosen, h)
			}
		}
		limit := len(l.chosen) + len(l.buf.ids)
		l.entries = l.entries[:0]
		for _, lost := range l.buf.ids {
			its, err := base.neighbours(lost)
			if err != nil {
				return err
			}
			for _, id := range its[:count(its)] {
				if id >= uint32(base.Len()) {
					return corrupt(base.geo.nodes, "neighbour %d of %d rows", id, base.Len())
				}
				h := heir[id]
				if h != none && h != me && !slices.Contains(l.chosen, h) &&
					!slices.ContainsFunc(l.entries, func(e entry) bool { return e.id == h }) {
					l.entries = append(l.entries, entry{id: h})
				}
			}
		}
		simd.LoadPoint(&l.self, b.record(me))
		for j := range l.entries {
			e := &l.entries[j]
			simd.GatherL2(l.dists[:], &l.self, b.records, []uint32{e.id})
			e.dist = l.dists[0]
		}
		sortEntries(l.entries)
		b.choose(l, l.entries, limit)
		copy(b.links(me)[:], l.chosen)
		return nil
	})
}
