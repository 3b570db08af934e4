package graph

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
)

// TestBetweenDuplicates searches between two vectors with many duplicates each. One of the two is
// nearer, by less than the codes tell, and its duplicates are the answer. The others must not take
// their places.
func TestBetweenDuplicates(t *testing.T) {
	const copies, k = 40, 10
	for _, w := range walks {
		for _, m := range []fileformat.Metric{fileformat.Cosine, fileformat.Dot, fileformat.L2} {
			r := rand.New(rand.NewPCG(3, 4))
			d := &data{vectors{Dim: w.dim}}
			var vecs [][]float32
			for range 30 {
				v := normal(r, d.Dim, 1)
				vecs = append(vecs, v)
				for range copies {
					d.Vecs = append(d.Vecs, v...)
				}
			}
			g := d.graph(t, m, Options{quiet: true, layout: w.layout})
			var buf Buffer
			for i, v := range vecs {
				query, other := make([]float32, d.Dim), vecs[(i+1)%len(vecs)]
				for j := range query {
					query[j] = (v[j] + other[j]) / 2
				}
				hits, stats, err := g.Query(query).Search(k, levels.Setting{EF: d.Len()}, nil, d.scorer(m, query), &buf)
				if err != nil {
					t.Fatal(err)
				}
				if want := exact(m, d, query, k, nil)[k-1].Score; hits[k-1].Score != want {
					t.Errorf("%+v, metric %d, query %d: last score %v, want %v; %+v", w, m, i, hits[k-1].Score, want, stats)
				}
			}
		}
	}
}

// TestNearlyEqualRows searches for copies of a row that differ by less than the codes tell. All of
// them that may be among the nearest are scored, by walks and by scans of the sketches.
func TestNearlyEqualRows(t *testing.T) {
	const copies, others, k = 60, 1500, 10
	for _, w := range walks {
		r := rand.New(rand.NewPCG(3, 5))
		d := &data{vectors{Dim: w.dim}}
		for range others {
			d.Vecs = append(d.Vecs, normal(r, d.Dim, 1)...)
		}
		page := normal(r, d.Dim, 1)
		near := func() []float32 {
			v := normal(r, d.Dim, 0.005)
			for j := range v {
				v[j] += page[j]
			}
			return v
		}
		for range copies {
			d.Vecs = append(d.Vecs, near()...)
		}
		g := d.graph(t, fileformat.L2, Options{quiet: true, layout: w.layout})
		var buf Buffer
		scan := levels.Setting{EF: k, Within: levels.AlwaysBeyond, Second: levels.Stage{Deviations: 3}}
		for _, s := range []levels.Setting{{EF: others + copies}, scan} {
			found, scored := 0, 0
			const queries = 20
			for range queries {
				vec := near()
				hits, stats, err := g.Query(vec).Search(k, s, nil, d.scorer(fileformat.L2, vec), &buf)
				if err != nil {
					t.Fatal(err)
				}
				found, scored = found+common(hits, exact(fileformat.L2, d, vec, k, nil)), scored+stats.Scored
			}
			if found < queries*k*95/100 || scored <= queries*rescored(k) {
				t.Errorf("%+v, %v: found %d of %d, scored %d", w, s, found, queries*k, scored)
			}
		}
	}
}

// TestFrontOfNearlyEqualRows: a beam that keeps only its front in order, as searches do, finds the
// rows that one finds which keeps all in order, as the calibration does.
func TestFrontOfNearlyEqualRows(t *testing.T) {
	const copies, others, k = 400, 1500, 10
	r := rand.New(rand.NewPCG(3, 6))
	page := normal(r, 24, 1)
	d := &data{vectors{Dim: len(page)}}
	for range others {
		d.Vecs = append(d.Vecs, normal(r, d.Dim, 1)...)
	}
	for range copies {
		for _, v := range page {
			d.Vecs = append(d.Vecs, v+float32(0.005*r.NormFloat64()))
		}
	}
	g := d.graph(t, fileformat.L2, Options{quiet: true, layout: plain})
	s := levels.Setting{EF: 500, StopRatio: 1.02}
	var front, whole Buffer
	for range 20 {
		q := g.Query(d.Row(others + r.IntN(copies)))
		got, _, err := q.Find(k, s, nil, &front)
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(q.startWith(k, s.First(), nil, 0, &whole), q.walk(nil, &whole), q.collect(k, nil, &whole))
		if err != nil || !slices.Equal(front.dists, whole.dists) || len(got) <= rescored(k) {
			t.Errorf("%d rows with a front, %d without, %v", len(got), len(whole.rows), err)
		}
	}
}
