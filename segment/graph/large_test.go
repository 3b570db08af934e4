package graph

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/synthetic"
	"github.com/vecbolt/vecbolt/simd"
)

// unit gives a vector the length 1, and returns it.
func unit(x []float32) []float32 {
	length := math.Sqrt(simd.Dot64(x, x))
	for i := range x {
		x[i] = float32(float64(x[i]) / length)
	}
	return x
}

// outliers returns texts of 20 topics, with four components that are much larger than the others
// and tell nothing about the topic, and a source of vectors with these four alone.
func outliers(texts, dim int) (d *data, alone func() []float32) {
	const topics = 20
	sizes := [...]float64{1.2, 0.8, 0.5, 0.3}
	r := rand.New(rand.NewPCG(8, uint64(dim)))
	centres := make([][]float32, topics)
	for i := range centres {
		centres[i] = normal(r, dim-len(sizes), 1)
	}
	large := func(text []float32) []float32 {
		length := 1 + 0.15*r.NormFloat64()
		for _, size := range sizes {
			text = append(text, float32(size*length*(1+0.1*r.NormFloat64())))
		}
		return text
	}
	d = &data{vectors{Dim: dim}}
	for range texts {
		d.Vecs = append(d.Vecs, large(unit(near(r, centres[r.IntN(topics)], 0.6)))...)
	}
	return d, func() []float32 { return large(make([]float32, dim-len(sizes))) }
}

// TestOutliersAlone: queries with a few large components alone get the recall asked for. Their
// neighbours are in all topics. Without trials of this kind 0.41 is found.
func TestOutliersAlone(t *testing.T) {
	const k, recall = 10, 0.8
	d, alone := outliers(1500, 64)
	g := d.created(t, fileformat.L2, Options{Planned: true, layout: plain})
	keepsRecall(t, g, d, fileformat.L2, k, recall, alone)
}

// TestLargeAlone: trials of the largest components alone are made only for L2, and only if few
// components have most of the length of rows.
func TestLargeAlone(t *testing.T) {
	const dim = 64
	few, _ := outliers(600, dim)
	even, _ := make1("normal", dim, 600, 0)
	for _, c := range []struct {
		d      *data
		metric fileformat.Metric
		want   int
	}{{few, fileformat.L2, 90}, {few, fileformat.Cosine, 0}, {even, fileformat.L2, 0}} {
		trials, err := newBuilder(t.Context(), c.d.graph(t, c.metric, Options{quiet: true}), 1).queries(c.d.Source)
		if err != nil {
			t.Fatal(err)
		}
		trials = slices.DeleteFunc(trials, func(t trial) bool { return t.kind != synthetic.LargeAlone })
		if len(trials) != c.want {
			t.Errorf("metric %v: %d trials, want %d", c.metric, len(trials), c.want)
		}
		for _, trial := range trials {
			for j, v := range trial.vec {
				if v != 0 != (j >= dim-4) {
					t.Fatalf("component %d of a trial is %g", j, v)
				}
			}
		}
	}
}
