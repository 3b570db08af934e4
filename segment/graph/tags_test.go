package graph

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// tagged returns texts with one of several tags beside them, each tag one component, and a source
// of further texts without one. Few components are zero, because a text has many.
func tagged(n, dim int) (d *data, untagged func() []float32) {
	const tags, times, factors = 8, 1.5, 12
	r := rand.New(rand.NewPCG(10, uint64(dim)))
	basis := make([][]float32, factors)
	for i := range basis {
		basis[i] = normal(r, dim, 1/math.Sqrt(float64(dim)))
	}
	untagged = func() []float32 {
		x := make([]float32, dim+tags)
		for _, b := range basis {
			f := r.NormFloat64() / math.Sqrt(factors)
			for i, v := range b {
				x[i] += float32(f * float64(v))
			}
		}
		return x
	}
	d = &data{vectors{Dim: dim + tags}}
	for i := range n {
		x := untagged()
		x[dim+i%tags] = times
		d.Vecs = append(d.Vecs, x...)
	}
	return d, untagged
}

// TestNoTag: texts without a tag get the recall asked for. Their neighbours have all tags, and few
// links lead from rows of one tag to those of another.
func TestNoTag(t *testing.T) {
	const k, recall = 10, 0.8
	for _, m := range []fileformat.Metric{fileformat.L2, fileformat.Dot} {
		t.Run(fmt.Sprint(m), func(t *testing.T) {
			t.Parallel()
			d, untagged := tagged(2800, 64)
			g := d.created(t, m, Options{Planned: true, layout: plain})
			keepsRecall(t, g, d, m, k, recall, untagged)
		})
	}
}
