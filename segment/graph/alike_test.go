package graph

import (
	"math/rand/v2"
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// TestDrift: the mean of one day gets the recall asked for, where rows drift and are of kinds. A
// day is no group of near rows, because its rows are nearer to rows of their kind on other days.
// So no other kind of trials is like it, and 0.945 was found.
func TestDrift(t *testing.T) {
	const k, rows, dim, days, recall = 100, 20_000, 128, 400, 0.98
	r := rand.New(rand.NewPCG(37, 1))
	means, groups := [][]float32{make([]float32, dim)}, make([][]float32, 30)
	for len(means) < days {
		means = append(means, near(r, means[len(means)-1], 0.125))
	}
	for i := range groups {
		groups[i] = normal(r, dim, 1)
	}
	d := &data{vectors{Dim: dim}}
	for range rows {
		x := near(r, groups[r.IntN(len(groups))], 0.6)
		for i, v := range means[r.IntN(days)] {
			x[i] += v
		}
		d.Vecs = append(d.Vecs, x...)
	}
	g := d.created(t, fileformat.L2, Options{Planned: true, layout: plain})
	keepsRecall(t, g, d, fileformat.L2, k, recall, func() []float32 { return means[r.IntN(days)] })
}
