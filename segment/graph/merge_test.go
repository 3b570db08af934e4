package graph

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
)

var rounds = flag.Int("rounds", 20, "rounds of TestChurn")

// recall is that of searches for the 10 best rows.
func recall(t *testing.T, g *Graph, d *data, queries [][]float32, ef int) float64 {
	t.Helper()
	found, want := 0, 0
	var buf Buffer
	for _, q := range queries {
		f, w := check(t, g, d, fileformat.Cosine, q, 10, ef, nil, &buf)
		found, want = found+f, want+w
	}
	return float64(found) / float64(want)
}

// TestChurn replaces a hundredth of the rows many times, each time upon the graph before. The
// recall stays as high as in a graph that is rebuilt. With -rounds 1000 it takes some minutes.
func TestChurn(t *testing.T) {
	for _, w := range walks {
		const n = 800
		layout, dim := w.layout, w.dim
		r := rand.New(rand.NewPCG(3, uint64(layout)))
		next := shapes["latent"](r, dim)
		d := &data{vectors{Dim: dim}}
		for range n {
			d.Vecs = append(d.Vecs, next()...)
		}
		var queries [][]float32
		for range 600 {
			queries = append(queries, next())
		}
		g := d.graph(t, fileformat.Cosine, Options{layout: layout, quiet: true})
		for round := range *rounds {
			// Rows keep their order; new ones come last.
			kept := &data{vectors{Dim: dim}}
			rows := make([]int32, n)
			for i := range rows {
				if rows[i] = -1; r.IntN(100) > 0 {
					rows[i] = int32(kept.Len())
					kept.Vecs = append(kept.Vecs, d.Row(i)...)
				}
			}
			for kept.Len() < n {
				kept.Vecs = append(kept.Vecs, next()...)
			}
			d = kept
			g = d.graph(t, fileformat.Cosine, Options{layout: layout, Seed: uint64(round), Base: g, Rows: rows, quiet: true})
		}
		ef := map[int]int{24: 15, 160: 20, quickDim: 40}[dim]
		got, fresh := recall(t, g, d, queries, ef), recall(t, d.graph(t, fileformat.Cosine, Options{layout: layout, quiet: true}), d, queries, ef)
		t.Logf("%+v: recall %.4f after %d rounds, %.4f of a fresh graph", w, got, *rounds, fresh)
		if got < fresh-0.005 {
			t.Errorf("%+v: recall %.4f after %d rounds, %.4f of a fresh graph", w, got, *rounds, fresh)
		}
	}
}

// TestMerge joins graphs of every shape with rows of their own kind and of another.
func TestMerge(t *testing.T) {
	for _, name := range shapeNames() {
		for _, other := range []string{name, "normal"} {
			if name != other && slices.Contains([]string{"huge", "tiny", "line", "cone"}, name) {
				continue // codes do not resolve the smaller of the two
			}
			d, queries := make1(name, 12, 600, 40)
			more, others := make1(other, 12, 300, 40)
			base := d.graph(t, fileformat.L2, Options{quiet: true})
			rows := make([]int32, d.Len())
			joined := &data{vectors{Dim: 12}}
			joined.Vecs = append(joined.Vecs, more.Vecs[:100*12]...)
			for i := range rows {
				if rows[i] = -1; i%10 > 0 {
					rows[i] = int32(joined.Len())
					joined.Vecs = append(joined.Vecs, d.Row(i)...)
				}
			}
			joined.Vecs = append(joined.Vecs, more.Vecs[100*12:]...)
			g := joined.graph(t, fileformat.L2, Options{Base: base, Rows: rows, quiet: true})
			found, want := 0, 0
			var buf Buffer
			for _, q := range append(queries, others...) {
				f, w := check(t, g, joined, fileformat.L2, q, 10, 100, nil, &buf)
				found, want = found+f, want+w
			}
			if float64(found) < 0.98*float64(want) {
				t.Errorf("%s and %s: %d of %d found", name, other, found, want)
			}
		}
	}
}

func TestMergeRefuses(t *testing.T) {
	d, _ := make1("normal", 4, 20, 0)
	g := d.graph(t, fileformat.L2, Options{})
	for _, rows := range [][]int32{nil, make([]int32, 20), append(make([]int32, 19), 20)} {
		if _, err := Write(t.Context(), new(memory), d.ident(fileformat.L2), d.Source, Options{Base: g, Rows: rows}); err == nil {
			t.Errorf("rows %v: no error", rows)
		}
	}
}
