package graph

import (
	"slices"

	"github.com/vecbolt/vecbolt/simd"
)

// Parameters of arrange.
const (
	cellNodes = 64 // nodes that are not split any further
	maxPivots = 64 // of a cell
	maxSplits = 8  // depth: nodes that no pivots tell apart stay together
)

// A cell is a set of near nodes.
type cell struct {
	nodes  []uint32
	pivots []uint32 // to split it by; nil: it stays as it is
}

// arrange returns nodes, which are in random order, in an order in which near ones follow each
// other. It splits them by pivots, which are some of them: each goes with the nearest one.
func (b *builder) arrange(nodes []uint32) ([]uint32, error) {
	cells := []cell{{nodes: nodes}}
	place := make([]uint8, len(nodes))
	for range maxSplits {
		var starts []int // of the cells to split, in work
		var large []int
		n := 0
		for i := range cells {
			if len(cells[i].nodes) > cellNodes {
				large, starts = append(large, i), append(starts, n)
				n += len(cells[i].nodes)
			}
		}
		if n == 0 {
			break
		}
		err := b.each(len(large), func(w *workerScratch, i int) error {
			c := &cells[large[i]]
			c.pivots = b.chain(w, c.nodes[:min(maxPivots, len(c.nodes)/(cellNodes/2))])
			return nil
		})
		if err != nil {
			return nil, err
		}
		err = b.each(n, func(w *workerScratch, i int) error {
			at, found := slices.BinarySearch(starts, i)
			if !found {
				at--
			}
			c := &cells[large[at]]
			place[i] = uint8(b.nearestOf(w, c.nodes[i-starts[at]], c.pivots))
			return nil
		})
		if err != nil {
			return nil, err
		}
		cells = divide(cells, place)
	}
	all := make([]uint32, 0, len(nodes))
	for _, c := range cells {
		all = append(all, c.nodes...)
	}
	return all, nil
}

// chain returns pivots in an order in which each is followed by the nearest of the rest.
func (b *builder) chain(w *workerScratch, pivots []uint32) []uint32 {
	rest := slices.Clone(pivots)
	for i := 1; i < len(rest); i++ {
		next := i + b.nearestOf(w, rest[i-1], rest[i:])
		rest[i], rest[next] = rest[next], rest[i]
	}
	return rest
}

// nearestOf returns the index of the node nearest to me, the first of several.
func (b *builder) nearestOf(w *workerScratch, me uint32, nodes []uint32) int {
	simd.LoadVector(&w.self, b.record(me))
	w.scores = slices.Grow(w.scores[:0], len(nodes))[:len(nodes)]
	simd.GatherCachedL2(w.scores, &w.self, b.records, nodes)
	best := 0
	for i, d := range w.scores {
		if d < w.scores[best] {
			best = i
		}
	}
	return best
}

// divide splits the cells that have pivots. place has the pivot of each of their nodes.
func divide(cells []cell, place []uint8) (parts []cell) {
	for _, c := range cells {
		if c.pivots == nil {
			parts = append(parts, c)
			continue
		}
		some := make([]cell, len(c.pivots))
		for i, node := range c.nodes {
			p := &some[place[i]]
			p.nodes = append(p.nodes, node)
		}
		place = place[len(c.nodes):]
		parts = append(parts, some...)
	}
	return parts
}
