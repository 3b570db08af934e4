package xray_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/rag/eval"
	"github.com/vecbolt/vecbolt/rag/xray"
)

func collection(t *testing.T, s db.Schema, docs ...db.Document) *db.Collection {
	t.Helper()
	vdb, err := db.Open(filepath.Join(t.TempDir(), "t.vdb"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { vdb.Close() })
	c, err := vdb.OpenCollection(t.Context(), "corpus", s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Upsert(t.Context(), docs...); err != nil {
		t.Fatal(err)
	}
	return c
}

// randomDocs returns documents with vectors in the positive orthant, so that all are a little
// similar.
func randomDocs(n, dim int, seed uint64) []db.Document {
	rng := rand.New(rand.NewPCG(seed, 1))
	docs := make([]db.Document, n)
	for i := range docs {
		v := make([]float32, dim)
		for j := range v {
			v[j] = rng.Float32()
		}
		docs[i] = db.Document{ID: fmt.Sprintf("d%03d", i), Vector: v, Text: fmt.Sprint("text of ", i)}
	}
	return docs
}

// Planted problems are found.
func TestInspect(t *testing.T) {
	docs := randomDocs(300, 8, 1)
	for i := 1; i <= 12; i++ { // a group larger than a neighbourhood
		docs = append(docs, db.Document{ID: fmt.Sprintf("copy%02d", i), Vector: docs[7].Vector})
	}
	far := make([]float32, 8)
	far[0] = -5
	docs = append(docs,
		db.Document{ID: "far", Vector: far, Text: "  no   neighbours\n"},
		db.Document{ID: "zero", Vector: make([]float32, 8)},
		db.Document{ID: "no vector"})
	c := collection(t, db.Schema{}, docs...)
	log := eval.NewRun("log")
	for i := range 100 {
		log.Set(fmt.Sprint("q", i), []eval.Scored{{ID: fmt.Sprintf("d%03d", i), Score: float64(i) / 100}, {ID: "gone", Score: 0}})
	}
	r, err := xray.Inspect(t.Context(), c, xray.Options{Log: log, Seed: 1, Near: 0.9999, List: 5})
	if err != nil {
		t.Fatal(err)
	}
	if r.Documents != 315 || r.Vectors != 314 || r.Sampled != 314 || r.Zero != 1 || r.Dim != 8 {
		t.Errorf("%+v", r)
	}
	if d := r.Duplicates; d.Documents != 13 || d.Pairs != 13*12/2 || d.Truncated != 0 || len(d.Groups) != 1 || d.Groups[0].Size != 13 ||
		d.Groups[0].IDs[0] != "copy01" || len(d.Closest) != 5 || d.Closest[0] != (xray.Pair{A: "copy01", B: "copy02", Cosine: 1}) {
		t.Errorf("duplicates: %+v", d)
	}
	if r.Outliers[0].ID != "far" || r.Outliers[0].Distance < 1 || r.Outliers[1].ID != "zero" || r.Outliers[1].Distance != 1 || len(r.Outliers) != 5 {
		t.Errorf("outliers: %+v", r.Outliers)
	}
	if r.Texts["far"] != "no neighbours" {
		t.Errorf("text %q", r.Texts["far"])
	}
	if u := r.Unretrieved; u.Queries != 100 || u.Documents != 215 || len(u.IDs) != 5 || u.IDs[0] != "d100" || u.Best.Max != 0.99 {
		t.Errorf("unretrieved: %+v", u)
	}
	if len(r.Map.Points) != 314 || r.Map.Explained[0] < r.Map.Explained[1] || r.Map.Explained[1] <= 0 {
		t.Errorf("map: %d points, %v", len(r.Map.Points), r.Map.Explained)
	}
	sum := 0
	for _, n := range r.Hubs.Occurrences.Counts {
		sum += n
	}
	if sum+r.Hubs.Occurrences.Outside != 314 || math.Abs(r.Hubs.Occurrences.Mean-10) > 1e-9 {
		t.Errorf("occurrences: %+v", r.Hubs.Occurrences)
	}
}

// Everything that is counted equals brute force, under each metric.
func TestInspectAgainstBruteForce(t *testing.T) {
	docs := randomDocs(120, 5, 2)
	for i := range 20 { // near, not equal
		v := slices.Clone(docs[i].Vector)
		v[0] += 0.01
		docs = append(docs, db.Document{ID: fmt.Sprintf("near%d", i), Vector: v})
	}
	const k, near = 4, 0.99
	for _, metric := range []db.Metric{db.Cosine, db.Dot, db.L2} {
		c := collection(t, db.Schema{Metric: metric}, docs...)
		r, err := xray.Inspect(t.Context(), c, xray.Options{K: k, Near: near, List: len(docs), Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		occurs, pairs, distance := map[string]int{}, map[[2]string]bool{}, map[string]float64{}
		for i, d := range docs {
			others := slices.Delete(slices.Clone(docs), i, i+1)
			slices.SortFunc(others, func(a, b db.Document) int {
				switch x, y := score(metric, d.Vector, a.Vector), score(metric, d.Vector, b.Vector); {
				case x > y:
					return -1
				case x < y:
					return 1
				}
				return strings.Compare(a.ID, b.ID)
			})
			for j, o := range others {
				if j < k {
					occurs[o.ID]++
					if metric == db.L2 {
						distance[d.ID] += math.Sqrt(-score(metric, d.Vector, o.Vector)) / k
					} else {
						distance[d.ID] += (1 - score(db.Cosine, d.Vector, o.Vector)) / k
					}
				}
				if (j < k || metric == db.Cosine) && score(db.Cosine, d.Vector, o.Vector) >= near {
					pairs[[2]string{min(d.ID, o.ID), max(d.ID, o.ID)}] = true
				}
			}
		}
		for _, h := range r.Hubs.Top {
			if occurs[h.ID] != h.Count {
				t.Errorf("%v: %s is in %d neighbourhoods, want %d", metric, h.ID, h.Count, occurs[h.ID])
			}
		}
		if len(r.Hubs.Top) != len(occurs) || r.Hubs.Never != len(docs)-len(occurs) {
			t.Errorf("%v: %d documents are neighbours and %d are not, want %d", metric, len(r.Hubs.Top), r.Hubs.Never, len(occurs))
		}
		for _, o := range r.Outliers {
			if math.Abs(o.Distance-distance[o.ID]) > 1e-6 {
				t.Errorf("%v: %s is %v away, want %v", metric, o.ID, o.Distance, distance[o.ID])
			}
		}
		for _, p := range r.Duplicates.Closest {
			if !pairs[[2]string{p.A, p.B}] {
				t.Errorf("%v: %+v is no pair", metric, p)
			}
		}
		if r.Duplicates.Pairs != len(pairs) || len(pairs) < 10 {
			t.Errorf("%v: %d pairs, want %d", metric, r.Duplicates.Pairs, len(pairs))
		}
	}
}

func score(m db.Metric, a, b []float32) float64 {
	var ab, aa, bb, d float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		ab, aa, bb, d = ab+x*y, aa+x*x, bb+y*y, d+(x-y)*(x-y)
	}
	switch m {
	case db.Cosine:
		return ab / math.Sqrt(aa*bb)
	case db.Dot:
		return ab
	}
	return -d
}

// A sample says the same of its documents as a search for all of them.
func TestSample(t *testing.T) {
	docs := randomDocs(500, 6, 4)
	c := collection(t, db.Schema{}, docs...)
	all, err := xray.Inspect(t.Context(), c, xray.Options{List: 500})
	if err != nil {
		t.Fatal(err)
	}
	distance := map[string]float64{}
	for _, o := range all.Outliers {
		distance[o.ID] = o.Distance
	}
	seen := map[string]bool{}
	var first *xray.Report
	for seed := range uint64(10) {
		calls := 0
		opts := xray.Options{Sample: 150, Points: 40, List: 500, Seed: seed, Progress: func(done, total int) {
			if calls++; total != 150 || done > total {
				t.Errorf("progress %d of %d", done, total)
			}
		}}
		r, err := xray.Inspect(t.Context(), c, opts)
		if err != nil {
			t.Fatal(err)
		}
		if r.Sampled != 150 || len(r.Outliers) != 150 || len(r.Map.Points) != 40 || r.Vectors != 500 || r.Norms.Count != 500 || calls != 2 {
			t.Fatalf("%d sampled, %d points, %d calls", r.Sampled, len(r.Map.Points), calls)
		}
		for _, o := range r.Outliers {
			seen[o.ID] = true
			if distance[o.ID] != o.Distance {
				t.Errorf("%s is %v away in the sample, %v among all", o.ID, o.Distance, distance[o.ID])
			}
		}
		if seed == 0 {
			first = r
			again, err := xray.Inspect(t.Context(), c, opts)
			if diff := cmp.Diff(r, again); diff != "" || err != nil {
				t.Errorf("the same seed gives another report: %v %s", err, diff)
			}
			calls = 2
		} else if cmp.Equal(first.Outliers, r.Outliers) {
			t.Error("another seed gives the same sample")
		}
	}
	if len(seen) < 480 { // of 500, each left out ten times with probability 0.7
		t.Errorf("only %d documents were ever drawn", len(seen))
	}
}

// The map shows the directions of most variance under any rotation.
func TestMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	const dim = 30
	var docs []db.Document
	for i := range 400 {
		v := make([]float32, dim)
		a, b := rng.NormFloat64()*3, rng.NormFloat64()*2
		for j := range v {
			v[j] = float32(10 + a*math.Sin(float64(j+1)) + b*math.Cos(float64(j+1)) + 0.1*rng.NormFloat64())
		}
		docs = append(docs, db.Document{ID: fmt.Sprint(i), Vector: v, Metadata: db.Metadata{"a": a}})
	}
	c := collection(t, db.Schema{Metric: db.L2}, docs...)
	r, err := xray.Inspect(t.Context(), c, xray.Options{Color: "a"})
	if err != nil {
		t.Fatal(err)
	}
	// Variances 9, 4 and 28 times 0.01 in directions with squared length of about dim/2.
	x, y := r.Map.Explained[0], r.Map.Explained[1]
	if math.Abs(x-9.0/13) > 0.05 || math.Abs(y-4.0/13) > 0.05 || x+y < 0.99 || x+y > 1 {
		t.Errorf("explained %v", r.Map.Explained)
	}
	var sx, sy, sxy float64
	for _, p := range r.Map.Points {
		sx, sy, sxy = sx+p.X*p.X, sy+p.Y*p.Y, sxy+p.X*p.Y
	}
	if math.Abs(sxy) > 1e-3*math.Sqrt(sx*sy) {
		t.Errorf("coordinates are correlated: %v", sxy/math.Sqrt(sx*sy))
	}
	if !r.Map.Numeric || len(r.Map.Labels) != 7 {
		t.Errorf("labels %q", r.Map.Labels)
	}
	sums, counts := make([]float64, 7), make([]float64, 7)
	for _, p := range r.Map.Points {
		sums[p.Label] += p.X
		counts[p.Label]++
	}
	if s := math.Abs(sums[6]/counts[6] - sums[0]/counts[0]); s < 10 {
		t.Errorf("the largest and the smallest values are %v apart on the map", s)
	}
}

// The axes of a map explain at most all of the variance, whatever the rounding.
func TestExplainedAtMostAll(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	for dim := 1; dim <= 2; dim++ {
		for range 30 {
			var docs []db.Document
			for i := range 20 {
				v := make([]float32, dim)
				for j := range v {
					v[j] = float32(rng.NormFloat64())
				}
				docs = append(docs, db.Document{ID: fmt.Sprint(i), Vector: v})
			}
			r, err := xray.Inspect(t.Context(), collection(t, db.Schema{Metric: db.L2}, docs...), xray.Options{})
			if err != nil {
				t.Fatal(err)
			}
			x, y := r.Map.Explained[0], r.Map.Explained[1]
			if x+y > 1 || x+y < 1-1e-9 || y < 0 {
				t.Fatalf("%d dimensions: explained %v", dim, r.Map.Explained)
			}
		}
	}
}

// Draw makes the map that Inspect makes, and no more points than are wanted.
func TestDraw(t *testing.T) {
	c := collection(t, db.Schema{}, randomDocs(200, 6, 3)...)
	opts := xray.Options{Seed: 7, Points: 200, Sample: 200}
	report, err := xray.Inspect(t.Context(), c, opts)
	if err != nil {
		t.Fatal(err)
	}
	m, err := xray.Draw(t.Context(), c, opts)
	if err != nil {
		t.Fatal(err)
	}
	byID := map[string]xray.Point{}
	for _, p := range report.Map.Points {
		byID[p.ID] = p
	}
	for _, p := range m.Points {
		want := byID[p.ID]
		if math.Abs(math.Abs(p.X)-math.Abs(want.X)) > 1e-6 || math.Abs(math.Abs(p.Y)-math.Abs(want.Y)) > 1e-6 {
			t.Fatalf("%+v, want %+v, but for the sides", p, want)
		}
	}
	if m, err = xray.Draw(t.Context(), c, xray.Options{Points: 20}); err != nil || len(m.Points) != 20 {
		t.Errorf("%d points, %v", len(m.Points), err)
	}
	if _, err := xray.Draw(t.Context(), c, xray.Options{Points: -1}); err == nil {
		t.Error("-1 points")
	}
}

func TestLabels(t *testing.T) {
	docs := randomDocs(60, 3, 6)
	for i := range docs {
		m := db.Metadata{"lang": "go", "part": map[string]any{"n": i % 20}, "few": i % 3}
		if i%2 == 1 {
			m["lang"] = fmt.Sprint("rare", i)
		}
		if i%10 == 0 {
			m = nil
		}
		docs[i].Metadata = m
	}
	c := collection(t, db.Schema{}, docs...)
	for field, want := range map[string][]string{
		"lang":    {"go", "(none)", "rare1", "rare11", "rare13", "rare15", "rare17", "other"},
		"few":     {"0", "1", "2", "(none)"},
		"missing": {"(none)"},
	} {
		r, err := xray.Inspect(t.Context(), c, xray.Options{Color: field})
		if err != nil {
			t.Fatal(err)
		}
		if field == "few" {
			slices.Sort(r.Map.Labels)
			slices.Sort(want)
		}
		if diff := cmp.Diff(want, r.Map.Labels); diff != "" || r.Map.Numeric {
			t.Errorf("%s: %s", field, diff)
		}
	}
	r, err := xray.Inspect(t.Context(), c, xray.Options{Color: "part.n"})
	if err != nil || !r.Map.Numeric || r.Map.Labels[0] != "1 to 3" || r.Map.Labels[len(r.Map.Labels)-1] != "(none)" {
		t.Errorf("numbers: %q, %v", r.Map.Labels, err)
	}
	for _, p := range r.Map.Points {
		if p.Label < 0 || p.Label >= len(r.Map.Labels) {
			t.Errorf("label %d", p.Label)
		}
	}
}

// Equal texts need no vectors, and without these the report says nothing of what needs them.
func TestTextsAlone(t *testing.T) {
	c := collection(t, db.Schema{},
		db.Document{ID: "a", Text: "once  more\n"}, db.Document{ID: "b", Text: "something else"}, db.Document{ID: "c", Text: " once more"},
		db.Document{ID: "d"}, db.Document{ID: "e", Text: " "}, db.Document{ID: "f", Text: "Once more"})
	r, err := xray.Inspect(t.Context(), c, xray.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s := r.SameText; s.Documents != 2 || len(s.Groups) != 1 || s.Groups[0].Size != 2 || !slices.Equal(s.Groups[0].IDs, []string{"a", "c"}) || r.Texts["a"] != "once more" {
		t.Errorf("%+v, %v", s, r.Texts)
	}
	var html strings.Builder
	if err := r.WriteHTML(&html); err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string]bool{"Equal texts": true, "No document has a vector": true, "<canvas": false, "const data": false, "Near-duplicates": false} {
		if strings.Contains(html.String(), what) != want {
			t.Errorf("%q in the report: %t", what, !want)
		}
	}
	data, err := json.Marshal(r)
	if err != nil || strings.Contains(string(data), "null") {
		t.Errorf("%s, %v", data, err)
	}
}

// Few documents, or none, are no trouble.
func TestSmallCollections(t *testing.T) {
	one := db.Document{ID: "one", Vector: []float32{3, 4}}
	for name, docs := range map[string][]db.Document{
		"none":          nil,
		"no vector":     {{ID: "a"}},
		"one":           {one},
		"two equal":     {one, {ID: "two", Vector: []float32{3, 4}}},
		"one dimension": {{ID: "a", Vector: []float32{1}}, {ID: "b", Vector: []float32{2}}},
		"huge":          {{ID: "a", Vector: []float32{math.MaxFloat32, 0}}, {ID: "b", Vector: []float32{-math.MaxFloat32, 1}}},
		"zero":          {{ID: "a", Vector: []float32{0, 0}}, {ID: "b", Vector: []float32{0, 0}}},
	} {
		for _, metric := range []db.Metric{db.Cosine, db.Dot, db.L2} {
			c := collection(t, db.Schema{Metric: metric}, docs...)
			r, err := xray.Inspect(t.Context(), c, xray.Options{Log: eval.NewRun("empty"), Color: "x"})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if _, err := json.Marshal(r); err != nil {
				t.Errorf("%s, %v: %v", name, metric, err)
			}
			var html strings.Builder
			if err := r.WriteHTML(&html); err != nil || strings.Contains(html.String(), ">NaN") {
				t.Errorf("%s, %v: %v", name, metric, err)
			}
			if r.Unretrieved.Documents != len(docs) {
				t.Errorf("%s: %d documents not retrieved", name, r.Unretrieved.Documents)
			}
		}
	}
}

func TestInspectWhere(t *testing.T) {
	docs := randomDocs(50, 3, 7)
	for i := range docs {
		docs[i].Metadata = db.Metadata{"odd": i%2 == 1}
	}
	r, err := xray.Inspect(t.Context(), collection(t, db.Schema{}, docs...), xray.Options{Where: filter.Eq("odd", true), List: 50})
	if err != nil || r.Documents != 25 || r.Sampled != 25 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, h := range r.Hubs.Top {
		if (h.ID[3]-'0')%2 == 0 {
			t.Errorf("hub %s does not match", h.ID)
		}
	}
}

func TestInspectErrors(t *testing.T) {
	c := collection(t, db.Schema{}, randomDocs(10, 3, 8)...)
	for _, o := range []xray.Options{{K: -1}, {Near: 2}, {Near: math.NaN()}, {Sample: -1}, {Points: -1}, {List: -1}} {
		if _, err := xray.Inspect(t.Context(), c, o); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := xray.Inspect(ctx, c, xray.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Nothing in a document becomes markup or script.
func TestWriteHTML(t *testing.T) {
	const evil = `</script><script>alert(1)</script><b>`
	docs := randomDocs(30, 3, 9)
	for i := range docs {
		docs[i].Text, docs[i].Metadata = evil, db.Metadata{"f": evil}
	}
	docs[0].ID, docs[1].ID, docs[1].Vector = evil, evil+"2", docs[0].Vector
	r, err := xray.Inspect(t.Context(), collection(t, db.Schema{}, docs...), xray.Options{Color: "f", Log: eval.NewRun("log")})
	if err != nil {
		t.Fatal(err)
	}
	var html strings.Builder
	if err := r.WriteHTML(&html); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(html.String(), "<script"); n != 1 {
		t.Errorf("%d scripts", n)
	}
	for _, bad := range []string{"</script><b>", "alert(1)</script>", "http:", "https:", "src="} {
		if strings.Contains(html.String(), bad) {
			t.Errorf("the report has %s", bad)
		}
	}
}

// Numbers at which sums and products overflow are refused, or as good as large ones.
func TestExtremeNumbers(t *testing.T) {
	docs := randomDocs(40, 4, 1)
	for i := range 8 {
		docs = append(docs, db.Document{ID: fmt.Sprint("copy", i), Vector: docs[7].Vector})
	}
	coll := collection(t, db.Schema{Dim: 4}, docs...)
	want, err := xray.Inspect(t.Context(), coll, xray.Options{K: 100, Sample: 100, Points: 100, List: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	got, err := xray.Inspect(t.Context(), coll, xray.Options{K: 100, Sample: math.MaxInt, Points: math.MaxInt, List: math.MaxInt})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, k := range []int{-1, math.MaxInt32, math.MaxInt - 1, math.MaxInt} {
		if _, err := xray.Inspect(t.Context(), coll, xray.Options{K: k}); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("k %d: %v", k, err)
		}
	}
}
