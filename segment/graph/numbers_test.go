package graph

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// categories returns rows with n one-hot categories of the given width, and with some numbers.
func categories(r *rand.Rand, rows, n, width, numbers int) *data {
	d := &data{vectors{Dim: n*width + numbers, Vecs: make([]float32, rows*(n*width+numbers))}}
	for i := range rows {
		for c := range n {
			d.Row(i)[c*width+r.IntN(width)] = 1
		}
		for j := range numbers {
			d.Row(i)[n*width+j] = float32(r.Float64())
		}
	}
	return d
}

// TestNumbersAlone: queries with the numbers of rows, but none of their categories, get the recall
// asked for. Links lead to rows of the same categories, so no other kind of trials is as hard.
func TestNumbersAlone(t *testing.T) {
	const each, k, recall = 12, 10, 0.9
	r := rand.New(rand.NewPCG(3, 4))
	d := categories(r, 6000, 5, each, 8)
	first := d.Dim - 8
	g := d.created(t, fileformat.L2, Options{Planned: true, layout: plain})
	keepsRecall(t, g, d, fileformat.L2, k, recall, func() []float32 {
		x := make([]float32, d.Dim)
		for j := first; j < d.Dim; j++ {
			x[j] = float32(r.Float64())
		}
		return x
	})
}

// TestLongMeans: queries along the mean of all rows, as long as a row, get the recall asked for.
// Rows are histograms of 60 kinds. The 300 nearest rows of such a query are nearly as far as many
// others. Without trials of this kind 0.86 is found.
func TestLongMeans(t *testing.T) {
	const dim, groups, rows, length, k, recall = 128, 60, 12_000, 500, 300, 0.9
	r := rand.New(rand.NewPCG(9, dim))
	var shares [groups][dim]float64
	for g := range shares {
		for i := range shares[g] {
			shares[g][i] = min(math.Pow(r.ExpFloat64(), 2), 4)
		}
	}
	scaled := func(x *[dim]float64) []float32 {
		squared := 0.0
		for _, v := range x {
			squared += v * v
		}
		y := make([]float32, dim)
		for i, v := range x {
			y[i] = float32(length * v / math.Sqrt(squared))
		}
		return y
	}
	d := &data{vectors{Dim: dim}}
	var mean [dim]float64
	for i := range rows {
		var x [dim]float64
		for j, share := range shares[i%groups] {
			x[j] = share*(r.ExpFloat64()+r.ExpFloat64()) + 0.1*r.ExpFloat64()
		}
		row := scaled(&x)
		for j, v := range row {
			mean[j] += float64(v) / rows
		}
		d.Vecs = append(d.Vecs, row...)
	}
	g := d.created(t, fileformat.L2, Options{Planned: true, layout: plain})
	keepsRecall(t, g, d, fileformat.L2, k, recall, func() []float32 {
		x := mean
		for i := range x {
			x[i] *= 1 + r.NormFloat64()/50
		}
		return scaled(&x)
	})
}
