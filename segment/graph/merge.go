package graph

import (
	"fmt"
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/simd"
)

// reinsertShare: one in this many nodes of the base is inserted again.
const reinsertShare = 20

// mergeBase takes over the nodes of base. Row i of base is now row rows[i], or gone if that is
// negative. If too few nodes are left, it changes nothing and returns false, because rebuilding is
// better. Otherwise it leaves the nodes that are still to insert at the end of b.order, and returns
// their number.
//
// Some nodes of the base are inserted again, so that no node keeps its neighbours for ever: without
// that, recall falls slowly over hundreds of merges. A node that loses neighbours keeps the rest
// and selects more among the neighbours of all of them (after Singh et al., "FreshDiskANN", 2021).
func (b *builder) mergeBase(base *Graph, rows []int32) (fresh int, ok bool, err error) {
	n := b.Len()
	if len(rows) != base.Len() {
		return 0, false, fmt.Errorf("graph: %d new places for the %d rows of the base", len(rows), base.Len())
	}
	// owner is the node of each row; taken marks the rows that come from the base.
	owner, taken := make([]uint32, n), make([]bool, n)
	for _, node := range b.order {
		for row := node; row != none; row = b.duplicates[row] {
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
	// replacement maps a node of the base to its node here. Nodes of the base whose rows now have
	// equal codes share one.
	replacement := make([]uint32, base.Len())
	from := make([]uint32, n) // the node of the base for each node here
	for i := range from {
		from[i] = none
	}
	inner := make([]bool, base.Len()) // duplicates of an earlier row
	for i := range replacement {
		replacement[i] = none
		if inner[i] {
			continue
		}
		for row := uint32(i); row != none; {
			if rows[row] >= 0 && replacement[i] == none {
				replacement[i] = owner[rows[row]]
			}
			if row, err = base.duplicate(row); err != nil {
				return 0, false, err
			}
			if row != none {
				inner[row] = true
			}
		}
		if replacement[i] != none && from[replacement[i]] == none {
			from[replacement[i]] = uint32(i)
		}
	}
	old := slices.DeleteFunc(slices.Clone(b.order), func(node uint32) bool { return from[node] == none })
	if 2*len(old) < len(b.order) {
		return 0, false, nil
	}
	recent := slices.DeleteFunc(slices.Clone(b.order), func(node uint32) bool { return from[node] != none })
	b.order = append(old, recent...)
	again := len(old) / reinsertShare
	old = old[:len(old)-again]
	return len(recent) + again, true, b.each(len(old), func(w *workerScratch, i int) error {
		me := old[i]
		its, err := base.neighbours(from[me])
		if err != nil {
			return err
		}
		w.buf.start(n, connectEF, 0, 0)
		w.buf.visited.Set(int(me))
		w.chosen = w.chosen[:0]
		lost := 0
		for _, id := range its[:count(its)] {
			if id >= uint32(base.Len()) {
				return corrupt(base.geo.nodes, "neighbour %d of %d rows", id, base.Len())
			}
			if h := replacement[id]; h == none {
				lost++
			} else if !w.buf.visited.Has(int(h)) {
				w.buf.visited.Set(int(h))
				w.chosen = append(w.chosen, h)
			}
		}
		if lost == 0 {
			copy(b.links(me)[:], w.chosen)
			return nil
		}
		w.buf.ids = w.buf.ids[:0]
		for _, via := range its[:count(its)] {
			its, err := base.neighbours(via)
			if err != nil {
				return err
			}
			for _, id := range its[:count(its)] {
				if id >= uint32(base.Len()) {
					return corrupt(base.geo.nodes, "neighbour %d of %d rows", id, base.Len())
				}
				if h := replacement[id]; h != none && !w.buf.visited.Has(int(h)) {
					w.buf.visited.Set(int(h))
					w.buf.ids = append(w.buf.ids, h)
				}
			}
		}
		simd.LoadVector(&w.self, b.record(me))
		w.scores = slices.Grow(w.scores[:0], len(w.buf.ids))[:len(w.buf.ids)]
		simd.GatherL2(w.scores, &w.self, b.records, w.buf.ids)
		w.buf.pool.offerAll(w.buf.ids, w.scores, math.MaxFloat32)
		b.choose(w, w.buf.pool.rows, len(w.chosen)+lost)
		copy(b.links(me)[:], w.chosen)
		return nil
	})
}
