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
	"github.com/vecbolt/vecbolt/simd"
)

// products makes rows of unequal lengths: a direction from next, times what length returns for the
// row.
func products(r *rand.Rand, n int, next func() []float32, length func(row int) float64) *data {
	d := &data{}
	for i := range n {
		v := next()
		f := float32(length(i) / math.Sqrt(simd.Dot64(v, v)))
		for j := range v {
			v[j] *= f
		}
		d.Dim, d.Vecs = len(v), append(d.Vecs, v...)
	}
	return d
}

// TestUnequalLengths holds promises for inner products of rows whose lengths differ by orders of
// magnitude, on a fraction of the distances of a scan. Wide rows resemble embeddings, narrow ones
// are noise too.
func TestUnequalLengths(t *testing.T) {
	const rows, queries, k = 2000, 60, 10
	for _, c := range []struct {
		name   string
		length func(r *rand.Rand) func(row int) float64
	}{
		{"0.1 to 10", func(r *rand.Rand) func(int) float64 {
			return func(int) float64 { return math.Pow(10, 2*r.Float64()-1) }
		}},
		{"0.01 to 100", func(r *rand.Rand) func(int) float64 {
			return func(int) float64 { return math.Pow(10, 4*r.Float64()-2) }
		}},
		{"a few giants", func(*rand.Rand) func(int) float64 {
			return func(row int) float64 { return map[bool]float64{true: 1000, false: 1}[row%500 == 7] }
		}},
		{"a third zero", func(r *rand.Rand) func(int) float64 {
			return func(row int) float64 { return float64(min(1, row%3)) * (1 + r.Float64()) }
		}},
	} {
		for _, shape := range []string{"normal", "latent"} {
			for _, dim := range []int{48, quickDim} {
				if shape == "normal" && dim == quickDim {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/dim=%d", c.name, shape, dim), func(t *testing.T) {
					r := rand.New(rand.NewPCG(5, uint64(dim)))
					next := shapes[shape](r, dim)
					d := products(r, rows, next, c.length(r))
					g := d.graph(t, fileformat.Dot, Options{})
					s, ok := g.Setting(0.95, k, levels.NoFilter)
					if !ok {
						t.Fatal("no setting for a recall of 0.95")
					}
					found, estimated, far := 0.0, 0, 0
					var buf Buffer
					for range queries {
						vec := next()
						least := exact(fileformat.Dot, d, vec, k, nil)[k-1].Score
						q := g.Query(vec)
						q.Guard(k, s, rows)
						hits, stats, err := q.Search(k, s, nil, d.scorer(fileformat.Dot, vec), &buf)
						if errors.Is(err, ErrBeyondHorizon) { // the caller scans
							far++
							found += k
							continue
						}
						if err != nil {
							t.Fatal(err)
						}
						estimated += stats.Estimated
						for _, h := range hits {
							if h.Score >= least {
								found++
							}
						}
					}
					t.Logf("%v: %.4f found, %d distances, %d too far", s, found/queries/k, estimated/queries, far)
					if noise := 2 * math.Sqrt(0.95*0.05/queries); found/queries/k < 0.95-noise {
						t.Errorf("recall %.3f with %v", found/queries/k, s)
					}
					if far > queries/4 {
						t.Errorf("%d of %d queries are beyond the horizon", far, queries)
					}
				})
			}
		}
	}
}

// TestHorizon finds the horizon behind which wide searches miss rows.
func TestHorizon(t *testing.T) {
	for _, c := range []struct {
		name     string
		found    []float32 // at distances 1, 2, and so on
		want     float32
		hopeless bool
	}{
		{"everything found", []float32{1, 0.9, 1, 1, 1}, 5, false},
		{"the farthest missed", []float32{1, 1, 1, 1, 1, 1, 1, 1, 0.2, 0}, 8, false},
		{"one in twenty missed", []float32{1, 1, 1, 0.95, 0.95}, 5, false},
		{"missed among others", []float32{1, 1, 1, 1, 1, 1, 1, 0.4, 1, 0.5, 1}, 0, true},
		{"more missed there", []float32{1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 0.5}, 8, false},
		{"half missed", []float32{1, 1, 0, 0}, 0, true},
		{"nothing found", []float32{0, 0, 0}, 0, true},
		{"nothing searched", nil, 0, true},
	} {
		trials := make([]trial, len(c.found)+1) // the last one is not deep enough for the column
		for i, found := range c.found {
			trials[len(c.found)-1-i].deep[1] = sight{true, found, float32(i + 1)}
		}
		if got, hopeless := horizon(trials, 1); got != c.want || hopeless != c.hopeless {
			t.Errorf("%s: %g, %v, want %g, %v", c.name, got, hopeless, c.want, c.hopeless)
		}
	}
}

// TestBeyondHorizon refuses answers whose last row is beyond the horizon.
func TestBeyondHorizon(t *testing.T) {
	const k = 10
	d, queries := make1("lengths", 24, 1000, 20)
	for _, m := range metrics {
		g := d.graph(t, m, Options{Trials: 20})
		if g.head.horizons[1] == 0 {
			t.Errorf("metric %d: horizons %g", m, g.head.horizons)
		}
		var buf Buffer
		for _, vec := range queries {
			search := func(horizon float32, guarded bool, allowed bitset.Set) error {
				g.head.horizons[1] = horizon
				q := g.Query(vec)
				if guarded {
					q.Guard(k, levels.Setting{EF: 100}, d.Len())
				}
				_, _, err := q.Search(k, levels.Setting{EF: 100}, allowed, d.scorer(m, vec), &buf)
				return err
			}
			if err := search(0, true, nil); err != nil {
				t.Fatal(err)
			}
			last := buf.dists[k-1]
			all := bitset.New(d.Len())
			for i := range d.Len() {
				all.Set(i)
			}
			for _, c := range []struct {
				horizon float32
				guarded bool
				allowed bitset.Set
				want    error
			}{
				{last, true, nil, nil}, {last / 2, true, nil, ErrBeyondHorizon}, {last / 2, false, nil, nil},
				{last / 2, true, all, ErrBeyondHorizon},
			} {
				if err := search(c.horizon, c.guarded, c.allowed); !errors.Is(err, c.want) {
					t.Fatalf("metric %d, horizon %g of %g: %v", m, c.horizon, last, err)
				}
			}
		}
	}
}

// TestCovers asks for settings among as many rows as a filter passes over.
func TestCovers(t *testing.T) {
	d, _ := make1("lengths", 24, 1000, 0)
	g := d.graph(t, fileformat.Dot, Options{Trials: 20})
	hundred := g.Levels(2)[0]
	hundred.Recall = 0.5
	g.Table = levels.NewTable([levels.Columns][]levels.Level{g.Levels(0), g.Levels(1), {hundred}}) // no high recall for 100
	for _, c := range []struct {
		recall     float64
		k, allowed int
		want       bool
	}{
		{0.9, 10, 1000, true}, {0.9, 10, 900, true}, {0.9, 10, 500, true}, {0.9, 10, 400, false}, {0.4, 10, 400, true},
		{0.4, 10, 10, false}, {0.9, 1, 60, true}, {0.9, 1, 40, false}, {0.4, 10, 0, false},
	} {
		if got := g.Covers(c.recall, c.k, c.allowed); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	l2 := d.graph(t, fileformat.L2, Options{Trials: 20})
	if !l2.Covers(0.9, 10, 1) {
		t.Error("a filter under squared distances")
	}
}
