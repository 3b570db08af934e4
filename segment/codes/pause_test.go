package codes

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/internal/topk"
	"github.com/vecbolt/vecbolt/simd"
)

// The chunks that are tried, of 60, if only the 53rd pays.
func TestPause(t *testing.T) {
	var p pause
	var tried []int
	for chunk := range 60 {
		if p.over() {
			tried = append(tried, chunk)
			p.tried(chunk == 53)
		}
	}
	want := []int{0, 2, 5, 10, 19, 36, 53, 54, 56, 59}
	if !slices.Equal(tried, want) {
		t.Errorf("chunks tried: %v, want %v", tried, want)
	}
}

// A scan of a few thousand rows reads more than half of them as nibbles, although its first chunks
// do not pay.
func TestShortScan(t *testing.T) {
	if simd.Name() == "generic" {
		t.Skip("without vector instructions, nobody uses nibbles")
	}
	const rows, dim, latent, k = 8192, 96, 12, 10
	r := rand.New(rand.NewPCG(1, 2))
	basis := make([]float64, latent*dim)
	for i := range basis {
		basis[i] = r.NormFloat64()
	}
	d := &data{vectors{Dim: dim, Vecs: make([]float32, (rows+1)*dim)}}
	for i := range d.Len() {
		for j := range latent {
			w := r.NormFloat64()
			for at, x := range basis[j*dim : (j+1)*dim] {
				d.Row(i)[at] += float32(w * x)
			}
		}
	}
	vec := d.Row(rows)
	d.Vecs = d.Vecs[:rows*dim]
	for _, m := range metrics {
		c := d.codes(t, m)
		if !c.HasNibbles() {
			t.Fatal("the codes have no nibbles")
		}
		q := c.Query(vec)
		best, read := topk.New(k, math.Inf(-1)), 0
		for lo, step := 0, 64; lo < rows; lo, step = lo+step, min(2*step, chunk) {
			hi := min(lo+step, rows)
			tries := best.Floor() > math.Inf(-1) && q.coarse.pause.left.Load() == 0
			got, err := q.Candidates(nil, lo, hi, nil, best.Floor(), new(Buffer))
			if err != nil {
				t.Fatal(err)
			}
			if tries && q.coarse.pause.left.Load() == 0 {
				read += hi - lo
			}
			for _, c := range got {
				lower, upper := q.Interval(c)
				best.Offer(lower, upper, 0, int32(c.Row))
			}
		}
		if read < rows/2 {
			t.Errorf("metric %d: %d of %d rows were read as nibbles", m, read, rows)
		}
	}
}
