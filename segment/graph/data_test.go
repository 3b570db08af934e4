package graph

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/blocks"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/formattest"
	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
)

var metrics = []fileformat.Metric{fileformat.Cosine, fileformat.Dot, fileformat.L2}

func score(m fileformat.Metric, q, x []float32) float64 { return formattest.Score(m, q, x) }

type vectors = formattest.Vectors

type data struct{ vectors }

func (d *data) ident(m fileformat.Metric) codes.Ident {
	return codes.Ident{Segment: 3, Rows: d.Len(), Dim: d.Dim, Metric: m}
}
func (d *data) scorer(m fileformat.Metric, vec []float32) func(int) (float64, error) {
	return func(row int) (float64, error) { return score(m, vec, d.Row(row)), nil }
}

type memory = blocks.Memory

// walks are the layouts, and a dimension for each of the walks.
var walks = []struct {
	layout uint32
	dim    int
}{{plain, 24}, {quick, 160}, {quick, quickDim}, {shared, 24}, {quickShared, 160}, {quickShared, quickDim}}

// file builds the graph file of d.
func (d *data) file(t testing.TB, m fileformat.Metric, opts Options) []byte {
	t.Helper()
	if (&header{layout: opts.layout}).shares() && opts.Codes == nil {
		opts.Codes = d.codes(t, m)
	}
	var b memory
	size, err := Write(context.Background(), &b, d.ident(m), d.Source, opts)
	if err != nil || size != int64(len(b)) {
		t.Fatalf("%d bytes of %d, %v", len(b), size, err)
	}
	return b
}

func (d *data) graph(t testing.TB, m fileformat.Metric, opts Options) *Graph {
	t.Helper()
	if (&header{layout: opts.layout}).shares() && opts.Codes == nil {
		opts.Codes = d.codes(t, m)
	}
	g, err := Parse(d.file(t, m, opts), d.ident(m), opts.Codes)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// created builds the graph of d in memory, without a file.
func (d *data) created(t testing.TB, m fileformat.Metric, opts Options) *Graph {
	t.Helper()
	g, err := create(t.Context(), d.ident(m), d.Source, opts)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// codeFile builds the code file of d.
func (d *data) codeFile(t testing.TB, m fileformat.Metric) []byte {
	t.Helper()
	b, err := codes.Build(d.ident(m), d.Source)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// codes returns the codes of d.
func (d *data) codes(t testing.TB, m fileformat.Metric) *codes.Codes {
	t.Helper()
	c, err := codes.Parse(d.codeFile(t, m), d.ident(m))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// exact returns the k best rows that are allowed.
func exact(m fileformat.Metric, d *data, vec []float32, k int, allowed bitset.Set) []Hit {
	var hits []Hit
	for i := range d.Len() {
		if allowed == nil || allowed.Has(i) {
			hits = append(hits, Hit{i, score(m, vec, d.Row(i))})
		}
	}
	slices.SortFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Row, b.Row))
	})
	return slices.Clone(hits[:min(k, len(hits))])
}

// normal draws a vector.
func normal(r *rand.Rand, dim int, sd float64) []float32 {
	v := make([]float32, dim)
	for i := range v {
		v[i] = float32(sd * r.NormFloat64())
	}
	return v
}

// near returns v with noise.
func near(r *rand.Rand, v []float32, sd float64) []float32 {
	w := normal(r, len(v), sd)
	for i := range w {
		w[i] += v[i]
	}
	return w
}

// A shape makes vectors of some distribution, rows and queries alike.
type shape func(r *rand.Rand, dim int) func() []float32

var shapes = map[string]shape{
	"normal": func(r *rand.Rand, dim int) func() []float32 {
		return func() []float32 { return normal(r, dim, 1) }
	},
	"clusters": func(r *rand.Rand, dim int) func() []float32 {
		centres := make([][]float32, 40)
		for i := range centres {
			centres[i] = normal(r, dim, 1)
		}
		return func() []float32 { return near(r, centres[r.IntN(len(centres))], 0.05) }
	},
	"latent": func(r *rand.Rand, dim int) func() []float32 { // of few dimensions in truth, as embeddings are
		basis := make([][]float32, 10)
		for i := range basis {
			basis[i] = normal(r, dim, 1)
		}
		return func() []float32 {
			v := normal(r, dim, 0.2)
			for _, b := range basis {
				f := float32(r.NormFloat64())
				for i, x := range b {
					v[i] += float32(f * x) // rounded: the same rows on every machine
				}
			}
			return v
		}
	},
	"cone": func(r *rand.Rand, dim int) func() []float32 {
		axis := normal(r, dim, 10)
		return func() []float32 { return near(r, axis, 1) }
	},
	"duplicates": func(r *rand.Rand, dim int) func() []float32 {
		some := make([][]float32, 150)
		for i := range some {
			some[i] = normal(r, dim, 1)
		}
		return func() []float32 { return some[r.IntN(len(some))] }
	},
	"constant": func(r *rand.Rand, dim int) func() []float32 {
		v := normal(r, dim, 1)
		return func() []float32 { return v }
	},
	"zeros": func(r *rand.Rand, dim int) func() []float32 {
		return func() []float32 { return normal(r, dim, float64(r.IntN(2))) }
	},
	"lengths": func(r *rand.Rand, dim int) func() []float32 {
		return func() []float32 { return normal(r, dim, math.Exp(r.NormFloat64())) }
	},
	"grid": func(r *rand.Rand, dim int) func() []float32 {
		return func() []float32 {
			v := make([]float32, dim)
			v[r.IntN(dim)] = float32(r.IntN(100))
			return v
		}
	},
	"line": func(r *rand.Rand, dim int) func() []float32 {
		return func() []float32 {
			v := make([]float32, dim)
			v[0], v[1] = 1, float32(r.Float64())
			return v
		}
	},
	"huge": func(r *rand.Rand, dim int) func() []float32 {
		return func() []float32 { return normal(r, dim, 0x1p124) }
	},
	"tiny": func(r *rand.Rand, dim int) func() []float32 {
		return func() []float32 { return normal(r, dim, 0x1p-120) }
	},
}

func shapeNames() []string {
	var names []string
	for name := range shapes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// make1 makes n rows and some queries of a shape.
func make1(name string, dim, n, queries int) (*data, [][]float32) {
	r := rand.New(rand.NewPCG(uint64(len(name)), uint64(n)))
	next := shapes[name](r, dim)
	d := &data{vectors{Dim: dim}}
	for range n {
		d.Vecs = append(d.Vecs, next()...)
	}
	var qs [][]float32
	for range queries {
		qs = append(qs, next())
	}
	return d, qs
}

// check compares a search with the truth: as many hits as there can be, all allowed, in order, with
// their own scores. It returns how many have a score that the exact answer has, and how many there
// should be.
func check(t testing.TB, g *Graph, d *data, m fileformat.Metric, vec []float32, k, ef int, allowed bitset.Set, buf *Buffer) (found, want int) {
	t.Helper()
	return compare(t, g, d, m, vec, exact(m, d, vec, k, allowed), k, levels.Setting{EF: ef}, allowed, buf)
}

// compare is check with the k best rows known.
func compare(t testing.TB, g *Graph, d *data, m fileformat.Metric, vec []float32, truth []Hit, k int, s levels.Setting, allowed bitset.Set, buf *Buffer) (found, want int) {
	t.Helper()
	got, stats, err := g.Query(vec).Search(k, s, allowed, d.scorer(m, vec), buf)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(truth) || stats.Scored < len(got) {
		t.Fatalf("%d hits of %d, %+v", len(got), len(truth), stats)
	}
	rows := make(map[int]bool)
	for i, h := range got {
		switch {
		case rows[h.Row]:
			t.Fatalf("row %d twice", h.Row)
		case allowed != nil && !allowed.Has(h.Row):
			t.Fatalf("row %d is not allowed", h.Row)
		case h.Score != score(m, vec, d.Row(h.Row)):
			t.Fatalf("row %d: score %g", h.Row, h.Score)
		case i > 0 && (got[i-1].Score < h.Score || got[i-1].Score == h.Score && got[i-1].Row > h.Row):
			t.Fatalf("hits %d and %d are out of order", i-1, i)
		}
		rows[h.Row] = true
		if h.Score >= truth[len(truth)-1].Score {
			found++
		}
	}
	return found, len(truth)
}

// keepsRecall searches for 100 queries, with the setting of g for a recall of k rows, and expects
// that recall. It returns the setting.
func keepsRecall(t testing.TB, g *Graph, d *data, m fileformat.Metric, k int, recall float64, query func() []float32) levels.Setting {
	t.Helper()
	s, ok := g.Setting(recall, k, levels.NoFilter)
	if !ok {
		t.Fatalf("no setting for %g of %d", recall, k)
	}
	var buf Buffer
	found, want := 0, 0
	for range 100 {
		vec := query()
		f, n := compare(t, g, d, m, vec, exact(m, d, vec, k, nil), k, s, nil, &buf)
		found, want = found+f, want+n
	}
	if got := float64(found) / float64(want); got < recall {
		t.Errorf("%v: %.3f of %d found, want %g", s, got, k, recall)
	}
	return s
}
