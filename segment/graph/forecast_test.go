package graph

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
)

func TestLog2(t *testing.T) {
	for x, want := range map[float32]float32{1: 0, 2: 1, 0.5: -1, 1024: 10, 0x1p-40: -40, 3: 1.5, 0.75: -0.5} {
		if got := log2(x); got != want {
			t.Errorf("log2(%g) = %g, want %g", x, got, want)
		}
	}
}

// TestFit finds the coefficients that samples were drawn with.
func TestFit(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2))
	want := forecast{-3, 8, 0.5, 1, -0.25, 0}
	var samples []sample
	for range 40_000 {
		c := course{r.Float32() / 4, 4 + 3*r.Float32(), -3 + 2*r.Float32(), -2 * r.Float32()}
		s := sample{course: c, weight: 1}
		if r.Float64() < share(want.odds(c)) {
			s.found = 1
		}
		samples = append(samples, s)
	}
	got := fit(samples)
	for i := range want {
		if math.Abs(float64(got[i]-want[i])) > 0.35 {
			t.Errorf("coefficients %v, want %v", *got, want)
			break
		}
	}
	for i := range samples {
		samples[i].found = 1
	}
	for i, v := range fit(samples) {
		if !(math.Abs(float64(v)) < maxForecast) {
			t.Errorf("coefficient %d is %g where everything was found", i, v)
		}
	}
}

// TestForecast: searches that stop by a forecast find the recall that was asked for, of midpoints
// as well as of rows, with fewer expansions than searches with one stopping ratio for all. A parsed
// file gives the same searches.
func TestForecast(t *testing.T) {
	const queries = 100
	for _, w := range walks {
		d, rows := make1("normal", w.dim, 4000, queries)
		g := d.graph(t, fileformat.L2, Options{layout: w.layout})
		b := newBuilder(t.Context(), g, 0)
		s := synthesizer{builder: b, rows: d.source, rng: rand.New(rand.NewPCG(1, 5))}
		vecs := map[string][][]float32{"rows": rows}
		for range queries {
			v, err := s.mean(2)
			if err != nil {
				t.Fatal(err)
			}
			vecs["midpoints"] = append(vecs["midpoints"], v)
		}
		var staged, plain Setting
		k, recall := 0, 0.0
		for _, k = range []int{100, 10} {
			for _, recall = range []float64{0.9, 0.95, 0.98} {
				s, ok := g.Setting(recall, k)
				p, okPlain := g.Filtered(recall, k)
				if ok && okPlain && s.forecast != nil && p.forecast == nil {
					staged, plain = s, p
					break
				}
			}
			if staged.forecast != nil {
				break
			}
		}
		if staged.forecast == nil {
			t.Fatalf("dimension %d: no setting has a forecast", w.dim)
		}
		var buf Buffer
		for name, all := range vecs {
			found, likely, stopped, expanded, before := 0, 0.0, 0, 0, 0
			for _, vec := range all {
				hits, stats, err := g.Query(vec).Search(k, staged, nil, d.scorer(fileformat.L2, vec), &buf)
				if err != nil {
					t.Fatal(err)
				}
				found += common(hits, exact(fileformat.L2, d, vec, k, nil))
				if stats.Share > 0 { // otherwise the beam has ended the search
					likely += stats.Share
					stopped++
				}
				expanded += stats.Expanded
				_, stats, err = g.Query(vec).Find(k, plain, nil, &buf)
				if err != nil || stats.Share != 0 {
					t.Fatalf("without a forecast: %+v, %v", stats, err)
				}
				before += stats.Expanded
			}
			likely /= float64(max(1, stopped))
			got := float64(found) / float64(queries*k)
			t.Logf("dimension %d, %s: %v: %.4f found, %.4f likely, %d expansions, %d without a forecast", w.dim, name, staged, got, likely,
				expanded, before)
			if got < recall-0.02 || stopped == queries && math.Abs(likely-got) > 0.08 {
				t.Errorf("dimension %d, %s: %.4f found, %.4f likely", w.dim, name, got, likely)
			}
			if name == "rows" && expanded > before {
				t.Errorf("dimension %d: %d expansions, %d without a forecast", w.dim, expanded, before)
			}
		}
		testOutOfRange(t, g, staged, k, rows[:20])
	}
}

// testOutOfRange tests that a search which is farther from all rows than its forecast holds for
// finds what its whole beam finds, whether the graph bounds the rows that a beam takes or not.
func testOutOfRange(t *testing.T, g *Graph, s Setting, k int, queries [][]float32) {
	t.Helper()
	if g.sifts || s.sure == 0 { // a walk that sifts depends on the ratios that it had before
		return
	}
	s.mirror, s.StopRatio = false, 0.9
	column, _ := g.column(k)
	var buf Buffer
	find := func(vec []float32, s Setting, margin float32) []uint32 {
		g.head.margins[column] = margin
		q := g.Query(vec)
		if err := q.attempt(k, s, nil, &buf); err != nil {
			t.Fatal(err)
		}
		if s.forecast != nil && s.forecast.holds(buf.course(q.found(&buf))) {
			t.Fatalf("dimension %d: a query within the range", g.Dim())
		}
		g.head.margins[column] = 0
		if err := q.collect(k, nil, &buf); err != nil {
			t.Fatal(err)
		}
		return slices.Clone(buf.rows)
	}
	for _, vec := range queries {
		far := slices.Clone(vec)
		for i := range far {
			far[i] *= 4
		}
		for _, margin := range []float32{0, s.StopRatio} {
			if got, want := find(far, s, margin), find(far, Setting{EF: s.EF}, 0); !slices.Equal(got, want) {
				t.Errorf("dimension %d, margin %g: rows %v, want %v", g.Dim(), margin, got, want)
			}
		}
	}
}
