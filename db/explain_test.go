package db

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/filter"
)

// Explain gives the answer of Search, and for every document the rank and the reason that
// a reference computes.
func TestExplainEqualsReference(t *testing.T) {
	for _, kind := range []string{"normal", "duplicates"} {
		for _, metric := range []Metric{Cosine, Dot, L2} {
			t.Run(fmt.Sprint(metric, "/", kind), func(t *testing.T) {
				w := newZoo(t, metric, kind)
				everything := append(slices.Sorted(maps.Keys(w.docs)), "nobody")
				for i := range 12 {
					q := w.query(kind)
					switch i % 4 {
					case 1:
						q.Group = &Group{Field: "g", Size: w.rng.IntN(3)}
					case 2:
						q.MMR = &MMR{Lambda: 0.5, Fetch: q.limit() + 5}
					}
					want, err := w.c.Search(t.Context(), q)
					if err != nil {
						t.Fatal(err)
					}
					got, err := w.c.Explain(t.Context(), q, everything...)
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(want, got.Result); diff != "" {
						t.Fatal(diff)
					}
					matched := 0
					for _, p := range got.Plan {
						matched += p.Matched
					}
					if matched != want.Matched || len(got.Stages) < 3 || len(got.WhyNot) != len(everything) {
						t.Fatalf("%d of %d rows in plans, stages %v, %d reasons", matched, want.Matched, got.Stages, len(got.WhyNot))
					}
					w.checkReasons(t, q, got)
				}
			})
		}
	}
}

// Explain names every search of a graph that ran, and why another one followed.
func TestExplainSearchesThatFollow(t *testing.T) {
	const rows, k, recall = 8000, 10, 0.9
	words, opts := readDemoWords(t), promising
	near := collection(t, open(t, t.TempDir(), &opts), "c", Schema{Dim: len(words[0])})
	var docs []Document
	for i, v := range words[2:] {
		docs = append(docs, Document{ID: fmt.Sprint(i), Vector: v, Metadata: Metadata{"i": i}})
	}
	upsert(t, near, docs...)
	if err := near.db.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	nearest := func(c *Collection, vec []float32) (ids []string, numbers []any) {
		for _, h := range mustSearch(t, c, Query{Near: Vector(vec), K: k, Accuracy: Exact}).Hits {
			ids, numbers = append(ids, h.ID), append(numbers, h.Metadata["i"])
		}
		return ids, numbers
	}
	others := func(c *Collection, vec []float32) filter.Expr {
		_, numbers := nearest(c, vec)
		return filter.Nin("i", numbers...)
	}
	far := newFarQueries(t)
	templates, between := templateRows(t, rows)
	lonely := between()
	rim, err := templates.Get(t.Context(), "100", WithVector)
	if err != nil {
		t.Fatal(err)
	}
	farther := make([]float32, len(rim.Vector)) // 1.4 times as far from the mean as that row
	for d, err := range templates.All(t.Context(), nil, WithVector) {
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range d.Vector {
			farther[i] += (1.4*rim.Vector[i] - 0.4*x) / rows
		}
	}
	const (
		beam     = `a beam search with ef [^;]*`
		sketches = `a scan of sketches, [0-9.]+ deviations`
		groups   = `, because the rows found are far from the query or lie close together$`
		excluded = `, because the rows near the query do not match$`
	)
	for _, c := range []struct {
		name  string
		c     *Collection
		vec   []float32
		where filter.Expr
		want  string // what the reason says behind the planned search
	}{
		{"near", near, words[0], nil, `^$`},
		{"near rows excluded", near, words[0], others(near, words[0]), `^` + beam + `, for [0-9]+ rows` + excluded},
		{"dead rows", near, words[1], nil, `^` + beam + `, as under a filter, because many rows near the query are ` +
			`deleted or replaced, or the rows found lie close together`},
		{"far", far.c, far.queries[0], nil, `^a scan of the part, because the rows found are far from the query`},
		{"between groups", templates, lonely, nil, `^` + sketches + groups},
		{"farther out than the rows", templates, farther, nil, `^` + sketches + `, because the query is farther out than the rows$`},
		{"between groups, under a filter", templates, lonely, filter.Gte("i", rows/10), `^` + sketches + groups},
		{"between groups, near rows excluded", templates, lonely, others(templates, lonely),
			`^` + sketches + excluded},
	} {
		if c.name == "dead rows" {
			ids, _ := nearest(c.c, c.vec)
			if _, err := c.c.Delete(t.Context(), ids[:5]...); err != nil {
				t.Fatal(err)
			}
		}
		e, err := c.c.Explain(t.Context(), Query{Near: Vector(c.vec), K: k, Where: c.where, Accuracy: Recall(recall)})
		if err != nil {
			t.Fatal(err)
		}
		planned, then, _ := strings.Cut(e.Plan[0].Reason, "; then ")
		if !strings.Contains(planned, "promises a recall of") || !regexp.MustCompile(c.want).MatchString(then) {
			t.Errorf("%s: %s", c.name, e.Plan[0].Reason)
		}
		if scans := strings.Contains("then "+then, "then a scan"); scans != (e.Result.Considered >= e.Plan[0].Rows) {
			t.Errorf("%s: %d of %d rows considered: %s", c.name, e.Result.Considered, e.Plan[0].Rows, e.Plan[0].Reason)
		}
	}
}

func (w *zoo) checkReasons(t *testing.T, q Query, e *Explanation) {
	t.Helper()
	loose := q // the query that Rank refers to
	loose.Threshold = nil
	ranks := map[string]int{}
	for _, h := range w.ranked(loose) {
		h.Group, _ = filter.Lookup(h.Metadata, "g")
		switch h.Group.(type) {
		case string, bool, int64, float64:
		default:
			if q.Group != nil {
				continue
			}
		}
		ranks[h.ID] = len(ranks) + 1
	}
	loose.Where = nil
	scores := map[string]float64{}
	for _, h := range w.ranked(loose) {
		scores[h.ID] = h.Score
	}
	for _, y := range e.WhyNot {
		d, exists := w.docs[y.ID]
		if y.Exists != exists || y.HasVector != (d.Vector != nil) || y.Reason == "" {
			t.Fatalf("%+v", y)
		}
		if want := 1 + slices.IndexFunc(e.Result.Hits, func(h Hit) bool { return h.ID == y.ID }); y.Hit != want || (y.Hit > 0) != (y.Stage == "") {
			t.Fatalf("%+v: hit %d", y, want)
		}
		if !y.HasVector {
			continue
		}
		if score, ok := scores[y.ID]; ok && (y.Score == nil || *y.Score != score) { // absent for examples
			t.Fatalf("%+v: score %v", y, score)
		}
		rank, matches := ranks[y.ID]
		if matches != !slices.Contains([]string{"missing", "vector", "example", "where", "field"}, y.Stage) {
			t.Fatalf("%+v: rank %d", y, rank)
		}
		if matches && y.Rank != rank {
			t.Fatalf("%+v: rank %d", y, rank)
		}
		if (y.Clause != "") != (y.Stage == "where") {
			t.Fatalf("%+v", y)
		}
		examples, _ := q.Near.(Examples)
		switch {
		case y.Stage == "threshold" && !(*y.Score < *q.Threshold),
			y.Stage == "graph",
			y.Stage == "k" && q.Group == nil && q.MMR == nil && y.Beyond != rank-q.limit(),
			y.Stage == "k" && q.MMR != nil && y.Beyond != rank-q.MMR.Fetch,
			y.Stage == "offset" && q.Group == nil && q.MMR == nil && rank > q.Offset,
			y.Stage == "example" && !slices.Contains(append(examples.Like, examples.Unlike...), y.ID):
			t.Fatalf("%+v: rank %d", y, rank)
		}
	}

}

func TestExplainFilter(t *testing.T) {
	vdb := open(t, t.TempDir(), nil)
	c := collection(t, vdb, "c", Schema{Dim: 1})
	upsert(t, c, Document{ID: "a", Vector: []float32{1}, Metadata: Metadata{"lang": "go", "year": 2019}})
	q := Query{Near: Vector{1}, Where: filter.MustParse(`{"$and":[{"lang":"go"},{"$or":[{"year":{"$gte":2020}},{"year":1}]}]}`)}
	e, err := c.Explain(t.Context(), q, "a")
	if err != nil {
		t.Fatal(err)
	}
	one := 1.0
	want := []WhyNot{{ID: "a", Exists: true, HasVector: true, Score: &one, Rank: 1, Stage: "where",
		Clause: `{"$or":[{"year":{"$gte":2020}},{"year":1}]}`, Path: "/$and/1/$or",
		Reason: `it does not meet {"$or":[{"year":{"$gte":2020}},{"year":1}]}`}}
	if diff := cmp.Diff(want, e.WhyNot); diff != "" {
		t.Error(diff)
	}
	if _, err := c.Explain(t.Context(), Query{}, "a"); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

// In an approximate answer, Explain tells documents that the search did not find from those that a
// later step left out.
func TestExplainApproximate(t *testing.T) {
	opts := walking
	opts.Recheck = Manual
	vdb := open(t, t.TempDir(), &opts)
	c := collection(t, vdb, "c", Schema{Dim: 64, Metric: L2})
	r := rand.New(rand.NewPCG(7, 9))
	vecs := randomVectors(r, 1500, 64)
	docs, ids := map[string]Document{}, []string{}
	for i, v := range vecs {
		d := Document{ID: fmt.Sprintf("%04d", i), Vector: v, Metadata: Metadata{"g": int64(r.IntN(60))}}
		upsert(t, c, d)
		docs[d.ID], ids = d, append(ids, d.ID)
	}
	if err := vdb.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, q := range map[string]Query{
		"offset":       {K: 8, Offset: 6},
		"mmr":          {K: 8, Offset: 6, MMR: &MMR{Lambda: 0.5, Fetch: 40}},
		"groups":       {K: 3, Offset: 2, Group: &Group{Field: "g"}},
		"large groups": {K: 2, Offset: 1, Group: &Group{Field: "g", Size: 2}},
	} {
		q.Accuracy = EF(1)
		seen := map[string]int{}
		for _, vec := range randomVectors(r, 20, 64) {
			q.Near = Vector(vec)
			e, err := c.Explain(t.Context(), q, ids...)
			if err != nil {
				t.Fatal(err)
			}
			whole := q // with the hits that Offset skips
			whole.K, whole.Offset = q.K+q.Offset, 0
			answer := mustSearch(t, c, whole)
			if answer.Exact {
				t.Fatalf("%s: an exact answer", name)
			}
			all := whole
			all.K, all.Accuracy = len(ids), Exact
			if q.MMR != nil {
				all.MMR = nil
			}
			truth := mustSearch(t, c, all).Hits
			found := answer.Hits // by the graph
			if q.MMR != nil {
				plain := whole
				plain.K, plain.MMR = q.MMR.Fetch, nil
				found = mustSearch(t, c, plain).Hits
			}
			has := func(hits []Hit, id string) bool {
				return slices.ContainsFunc(hits, func(h Hit) bool { return h.ID == id })
			}
			var groups []any // in their true order
			for _, h := range truth {
				if !slices.Contains(groups, h.Group) {
					groups = append(groups, h.Group)
				}
			}
			for _, y := range e.WhyNot {
				want := ""
				switch {
				case y.Hit > 0:
				case q.Group != nil:
					g := docs[y.ID].Metadata["g"]
					mine := slices.DeleteFunc(slices.Clone(answer.Hits), func(h Hit) bool { return h.Group != g })
					switch {
					case len(mine) > 0 && !slices.ContainsFunc(e.Result.Hits, func(h Hit) bool { return h.Group == g }):
						want = "offset"
					case len(mine) == max(1, q.Group.Size) && mine[len(mine)-1].Score > *y.Score:
						want = "group"
					case len(mine) > 0 || slices.Index(groups, g) < whole.K:
						want = "graph"
					default:
						want = "k"
					}
				case has(answer.Hits, y.ID):
					want = "offset"
				case has(found, y.ID):
					want = "mmr"
				case q.MMR == nil && y.Rank <= whole.K || q.MMR != nil && y.Rank <= q.MMR.Fetch:
					want = "graph"
				default:
					want = "k"
				}
				if seen[want]++; y.Stage != want {
					t.Errorf("%s: %q, rank %d: stage %q, want %q: %s", name, y.ID, y.Rank, y.Stage, want, y.Reason)
				}
			}
		}
		for _, stage := range []string{"offset", "graph", "k"} {
			if seen[stage] == 0 {
				t.Errorf("%s: no document was lost at %q", name, stage)
			}
		}
	}
}
