package graph

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/simd"
)

// TestMidDirections has rows with nearly all of their length in some of their components. Queries
// without the directions that have most of it lie along the others, and are as far from the mean as
// rows are. Where no direction is stronger than others, there are no such queries.
func TestMidDirections(t *testing.T) {
	const dim, rows = 32, 600
	for _, c := range []struct {
		strong      int // components
		least, most int // directions left out
	}{{1, 1, 1}, {3, 2, 4}, {dim, dim / 2, dim / 2}} {
		r := rand.New(rand.NewPCG(7, uint64(c.strong)))
		d := &data{dim: dim, vecs: make([]float32, rows*dim)}
		for i := range d.vecs {
			if d.vecs[i] = float32(r.NormFloat64()); i%dim < c.strong {
				d.vecs[i] *= 30
			}
		}
		b := newBuilder(t.Context(), d.graph(t, fileformat.L2, Options{quiet: true}), 1)
		s := synthesizer{builder: b, rows: d.source, rng: r}
		if err := s.order(); err != nil {
			t.Fatal(err)
		}
		s.findStrong()
		if s.middle < c.least || s.middle > c.most {
			t.Errorf("%d strong elements: %d directions of %d have most of the length, want %d to %d", c.strong, s.middle,
				len(s.strong), c.least, c.most)
		}
		lengths, strong := 0.0, 0.0
		for range 50 {
			x := s.fromCentre(s.remainder(s.middle))
			lengths += simd.Dot64(x, x)
			strong += simd.Dot64(x[:c.strong], x[:c.strong])
		}
		for k, least := range map[kind]float64{weakDirections: 0, midDirections: 0.1} {
			total, along := 0.0, 0.0 // along the further strong directions, which the second kind keeps
			for i := range 50 {
				v, err := s.query(k, i)
				if err != nil {
					t.Fatal(err)
				}
				x := s.fromCentre(v)
				total += simd.Dot64(x, x)
				for _, y := range s.strong[s.middle:] {
					along += simd.Dot64(x, y) * simd.Dot64(x, y)
				}
			}
			if share := along / total; s.middle < len(s.strong) && (share < least || k == weakDirections && share > 1e-3) {
				t.Errorf("%d strong elements, kind %d: %.3f of the squared length along further directions", c.strong, k, share)
			}
		}
		rowsLength := 0.0
		for i := range rows {
			x := s.fromCentre(d.row(i))
			rowsLength += simd.Dot64(x, x)
		}
		if share := lengths / 50 / (rowsLength / rows); math.Abs(share-1) > 0.5 {
			t.Errorf("%d strong elements: queries are %.2f times as far from the mean as rows, squared", c.strong, share)
		}
		if c.strong == 1 && strong > 0.05*lengths {
			t.Errorf("one strong element has %.2f of the squared length of the queries", strong/lengths)
		}
	}
	kinds := func(d *data, metric fileformat.Metric) (n [kinds]int) {
		b := newBuilder(t.Context(), d.graph(t, metric, Options{quiet: true}), 1)
		all, err := b.queries(d.source)
		if err != nil {
			t.Fatal(err)
		}
		for _, t := range all {
			n[t.kind]++
		}
		return n
	}
	even, _ := make1("normal", 16, 800, 0)
	few, _ := make1("latent", 48, 800, 0)
	for _, c := range []struct {
		d                 *data
		metric            fileformat.Metric
		middle, weakKinds int
	}{{even, fileformat.Cosine, 0, 90}, {few, fileformat.Cosine, 90, 90}, {few, fileformat.L2, 90, 90}, {few, fileformat.Dot, 0, 0}} {
		n := kinds(c.d, c.metric)
		if n[midDirections] != c.middle || n[weakDirections] != c.weakKinds {
			t.Errorf("%d dimensions, metric %v: %d and %d trials, want %d and %d", c.d.dim, c.metric, n[midDirections],
				n[weakDirections], c.middle, c.weakKinds)
		}
	}
}
