package graph

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// TestArrange: near nodes follow each other, and every node is there once, also among rows that no
// pivots tell apart.
func TestArrange(t *testing.T) {
	for name, d := range map[string]*data{
		"clusters": lowRankData(3000, 16),
		"line":     {vectors{Dim: 2, Vecs: line(3000)}},
	} {
		t.Run(name, func(t *testing.T) {
			g := d.created(t, fileformat.L2, Options{quiet: true})
			nodes := make([]uint32, g.Len())
			for i := range nodes {
				nodes[i] = uint32(i)
			}
			r := rand.New(rand.NewPCG(1, 2))
			r.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
			random := slices.Clone(nodes)
			var first []uint32
			for _, workers := range []int{1, 3} {
				near, err := newBuilder(context.Background(), g, workers).arrange(nodes)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(nodes, random) {
					t.Fatal("arrange changed its argument")
				}
				if first == nil {
					first = near
				} else if !slices.Equal(near, first) {
					t.Fatalf("%d workers give another order", workers)
				}
			}
			if a, b := step(d, first), step(d, random); a > b/2 {
				t.Errorf("the mean squared distance of consecutive nodes is %g, in random order %g", a, b)
			}
			slices.Sort(first)
			for i, node := range first {
				if int(node) != i {
					t.Fatalf("node %d in the place of %d", node, i)
				}
			}
		})
	}
}

// line returns points on a line, a thousandth of which is the distance between most of them.
func line(n int) (vecs []float32) {
	for i := range n {
		x := float32(i) / 1000
		if i%100 == 0 {
			x *= 1000
		}
		vecs = append(vecs, x, 1)
	}
	return vecs
}

// step returns the mean squared distance of rows that follow each other in an order.
func step(d *data, order []uint32) float64 {
	sum := 0.0
	for i, row := range order[1:] {
		x, y := d.Row(int(order[i])), d.Row(int(row))
		for j := range x {
			sum += float64((x[j] - y[j]) * (x[j] - y[j]))
		}
	}
	return sum / float64(len(order))
}
