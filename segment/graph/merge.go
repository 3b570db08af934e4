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
	m := &merger{builder: b, base: base}
	if err := m.match(rows); err != nil {
		return 0, false, err
	}
	isNew := func(node uint32) bool { return m.from[node] == none }
	old := slices.DeleteFunc(slices.Clone(b.order), isNew)
	if 2*len(old) < len(b.order) {
		return 0, false, nil
	}
	recent := slices.DeleteFunc(slices.Clone(b.order), func(node uint32) bool { return !isNew(node) })
	b.order = append(old, recent...)
	again := len(old) / reinsertShare
	old = old[:len(old)-again]
	return len(recent) + again, true, b.each(len(old), func(w *workerScratch, i int) error {
		return m.takeOver(w, old[i])
	})
}

// A merger takes over the nodes of an earlier graph.
type merger struct {
	*builder
	base *Graph
	// replacement has the node here of each node of the base, or none. Nodes of the base whose rows
	// now have equal codes share one.
	replacement []uint32
	from        []uint32 // the node of the base for each node here, or none
}

// match finds the nodes that both graphs have. Row i of the base is now row rows[i].
func (m *merger) match(rows []int32) error {
	n, base := m.Len(), m.base
	if len(rows) != base.Len() {
		return fmt.Errorf("graph: %d new places for the %d rows of the base", len(rows), base.Len())
	}
	owner := make([]uint32, n) // the node of each row
	for _, node := range m.order {
		for row := node; row != none; row = m.duplicates[row] {
			owner[row] = node
		}
	}
	taken := make([]bool, n) // rows that come from the base
	for i, row := range rows {
		if row >= 0 {
			if int(row) >= n || taken[row] {
				return fmt.Errorf("graph: row %d of the base cannot be row %d of %d", i, row, n)
			}
			taken[row] = true
		}
	}
	m.replacement = slices.Repeat([]uint32{none}, base.Len())
	m.from = slices.Repeat([]uint32{none}, n)
	inner := make([]bool, base.Len()) // duplicates of an earlier row
	for i := range m.replacement {
		if inner[i] {
			continue
		}
		for row := uint32(i); row != none; {
			if rows[row] >= 0 && m.replacement[i] == none {
				m.replacement[i] = owner[rows[row]]
			}
			var err error
			if row, err = base.duplicate(row); err != nil {
				return err
			}
			if row != none {
				inner[row] = true
			}
		}
		if here := m.replacement[i]; here != none && m.from[here] == none {
			m.from[here] = uint32(i)
		}
	}
	return nil
}

// takeOver gives a node the neighbours that it has in the base. It replaces those that are gone by
// neighbours of all of them.
func (m *merger) takeOver(w *workerScratch, node uint32) error {
	neighbours, err := m.baseNeighbours(m.from[node])
	if err != nil {
		return err
	}
	w.buf.start(m.Len(), connectEF, 0, 0)
	w.buf.visited.Set(int(node))
	w.chosen = w.chosen[:0]
	lost := 0
	for _, id := range neighbours {
		if here := m.replacement[id]; here == none {
			lost++
		} else if !w.buf.visited.Has(int(here)) {
			w.buf.visited.Set(int(here))
			w.chosen = append(w.chosen, here)
		}
	}
	if lost > 0 {
		w.buf.ids = w.buf.ids[:0]
		for _, via := range neighbours {
			further, err := m.baseNeighbours(via)
			if err != nil {
				return err
			}
			for _, id := range further {
				if here := m.replacement[id]; here != none && !w.buf.visited.Has(int(here)) {
					w.buf.visited.Set(int(here))
					w.buf.ids = append(w.buf.ids, here)
				}
			}
		}
		simd.LoadVector(&w.self, m.record(node))
		w.scores = slices.Grow(w.scores[:0], len(w.buf.ids))[:len(w.buf.ids)]
		simd.GatherL2(w.scores, &w.self, m.records, w.buf.ids)
		w.buf.pool.offerAll(w.buf.ids, w.scores, math.MaxFloat32)
		m.choose(w, w.buf.pool.rows, len(w.chosen)+lost)
	}
	copy(m.links(node)[:], w.chosen)
	return nil
}

// baseNeighbours returns the neighbours of a node of the base, all of them rows of it.
func (m *merger) baseNeighbours(node uint32) ([]uint32, error) {
	all, err := m.base.neighbours(node)
	if err != nil {
		return nil, err
	}
	ids := all[:count(all)]
	for _, id := range ids {
		if id >= uint32(m.base.Len()) {
			return nil, corrupt(m.base.geo.nodes, "neighbour %d of %d rows", id, m.base.Len())
		}
	}
	return ids, nil
}
