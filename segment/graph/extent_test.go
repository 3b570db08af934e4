package graph

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
)

// measuredValues returns rows of five values with a common part and little noise, of several
// lengths for Dot, and a source of further ones. A query has times the first value of a row.
func measuredValues(n, dim int, m fileformat.Metric) (d *data, next func(times float64) []float32) {
	const deviation, noise = 0.2, 0.02
	r := rand.New(rand.NewPCG(6, uint64(dim)))
	next = func(times float64) []float32 {
		x := normal(r, dim, noise)
		x[0] = 1
		for i := range 5 {
			x[i+1] = float32(deviation * math.Pow(0.5, float64(i)) * r.NormFloat64())
		}
		if times != 1 {
			x[1] = float32(math.Copysign(deviation*times, float64(x[1])))
		}
		return x
	}
	d = &data{vectors{Dim: dim}}
	for range n {
		x, times := next(1), float32(1)
		if m == fileformat.Dot {
			times = float32(0.5 + r.Float64())
		}
		for _, v := range x {
			d.Vecs = append(d.Vecs, times*v)
		}
	}
	return d, next
}

// TestBeyondTheRows: a search for a query farther out than the rows, along a direction in which
// they differ most, does not end with its first stage, though the rows found are near and all
// around each other. For queries like the rows it ends.
func TestBeyondTheRows(t *testing.T) {
	const n, k = 1500, 10
	for _, m := range metrics {
		for _, w := range walks {
			t.Run(fmt.Sprintf("metric %d, layout %d, %d dimensions", m, w.layout, w.dim), func(t *testing.T) {
				t.Parallel()
				d, next := measuredValues(n, w.dim, m)
				g := d.graph(t, m, Options{quiet: true, layout: w.layout})
				two := levels.Setting{EF: k, StopRatio: 1.01, Within: levels.AtAnyDistance, Spread: math.SmallestNonzeroFloat32,
					Second: levels.Stage{Deviations: 2}}
				one := two
				one.Within, one.Second = 0, levels.Stage{}
				var buf Buffer
				out := 0
				for range 200 {
					_, stats, err := g.Query(next(1)).Find(k, two, nil, &buf)
					if err != nil || buf.Outside() != (stats.Sketched > 0) || buf.Outside() != buf.WentOn() {
						t.Fatalf("%+v, %v", stats, err)
					}
					if buf.Outside() {
						out++
					}
				}
				if out > 4 {
					t.Errorf("%d of 200 queries like the rows are beyond them", out)
				}
				half := bitset.New(n)
				for i := 0; i < n; i += 2 {
					half.Set(i)
				}
				for range 20 {
					q := g.Query(next(8))
					if _, stats, err := q.Find(k, two, nil, &buf); err != nil || !buf.WentOn() || stats.Sketched != n {
						t.Errorf("beyond the rows: %+v, %v", stats, err)
					}
					for _, s := range []levels.Setting{one, two} {
						if _, _, err := q.Find(k, s, half, &buf); !errors.Is(err, ErrBetween) {
							t.Errorf("%v under a filter: %v", s, err)
						}
					}
					if _, _, err := q.Find(k, one, nil, &buf); !errors.Is(err, ErrBetween) {
						t.Errorf("%v: %v", one, err)
					}
				}
			})
		}
	}
}

// TestRowsInTurn: rows of two kinds that follow each other in turn, such as questions and answers,
// count alike, so that queries like either are within the extent.
func TestRowsInTurn(t *testing.T) {
	const n, dim, queries = 4096, 32, 100
	r := rand.New(rand.NewPCG(9, dim))
	next := func(i int) []float32 {
		x := normal(r, dim, 1)
		if i%2 == 1 {
			x[0] += 20
		}
		return x
	}
	d := &data{vectors{Dim: dim}}
	for i := range n {
		d.Vecs = append(d.Vecs, next(i)...)
	}
	g := d.graph(t, fileformat.L2, Options{quiet: true, layout: plain})
	var buf Buffer
	for kind := range 2 {
		out := 0
		for range queries {
			switch beyond, err := g.Query(next(kind)).outlying(&buf); {
			case err != nil:
				t.Fatal(err)
			case beyond:
				out++
			}
		}
		if out > queries/50 {
			t.Errorf("kind %d: %d of %d queries are beyond the rows", kind, out, queries)
		}
	}
}

// TestExtents: rows of any kind have an extent with finite bounds, and equal ones have no
// directions.
func TestExtents(t *testing.T) {
	for _, name := range shapeNames() {
		for _, m := range metrics {
			d, queries := make1(name, 24, 300, 20)
			g := d.graph(t, m, Options{quiet: true, layout: plain})
			var buf Buffer
			for _, vec := range queries {
				if _, err := g.Query(vec).outlying(&buf); err != nil {
					t.Fatal(err)
				}
			}
			e := g.extent.Load()
			if name == "constant" && len(e.directions) > 0 {
				t.Errorf("%s, metric %d: equal rows differ in %d directions", name, m, len(e.directions))
			}
			for i := range e.directions {
				if !(e.low[i] < e.high[i] && e.high[i]-e.low[i] < math.Inf(1)) {
					t.Errorf("%s, metric %d: %g to %g", name, m, e.low[i], e.high[i])
				}
			}
		}
	}
}
