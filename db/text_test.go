package db

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/segment/terms"
	"github.com/vecbolt/vecbolt/text"
)

var textWords = strings.Fields(`wing wings flow flows flowing heat heated layer boundary boundaries shock mach the of a
	parseHTTPHeader http_header ReadFile database vector vectors 東京 東京都 naïve`)

func randomText(r *rand.Rand, most int) string {
	words := make([]string, r.IntN(most+1))
	for i := range words {
		words[i] = textWords[int(math.Pow(r.Float64(), 2)*float64(len(textWords)))]
	}
	return strings.Join(words, " ")
}

// bm25 ranks documents by the definition, using only package text, for queries of
// plain words.
func bm25(t *testing.T, s *TextIndex, docs map[string]Document, query string) []Hit {
	t.Helper()
	a, err := engine.NewAnalysis("", s.engine())
	if err != nil {
		t.Fatal(err)
	}
	scanner := a.Analyzer.Scanner()
	terms := map[string]map[string]int{}
	lens := map[string]int{}
	total := 0
	for id, d := range docs {
		all := d.Text
		for _, f := range s.Fields {
			if v, ok := d.Metadata[f].(string); ok {
				all += " . " + v
			}
		}
		tokens, _ := scanner.Tokens(nil, all)
		counts := map[string]int{}
		for _, tok := range tokens {
			counts[tok.Term]++
		}
		if len(tokens) > 0 {
			terms[id], lens[id] = counts, len(tokens)
			total += len(tokens)
		}
	}
	type want struct {
		term  string
		count float64
	}
	var wants []want
	for _, c := range a.Analyzer.Parse(query).Clauses {
		for _, tok := range c.Tokens {
			if i := slices.IndexFunc(wants, func(w want) bool { return w.term == tok.Term }); i >= 0 {
				wants[i].count++
			} else {
				wants = append(wants, want{tok.Term, 1})
			}
		}
	}
	p := a.Params
	var hits []Hit
	for id, counts := range terms {
		score := 0.0
		for _, w := range wants {
			f := float64(counts[w.term])
			if f == 0 {
				continue
			}
			n := 0
			for _, other := range terms {
				if other[w.term] > 0 {
					n++
				}
			}
			idf := math.Log(1 + (float64(len(terms))-float64(n)+0.5)/(float64(n)+0.5))
			score += w.count * idf * f * (p.K1 + 1) / (f + p.K1*(1-p.B+p.B*float64(lens[id])*float64(len(terms))/float64(total)))
		}
		if score > 0 {
			hits = append(hits, Hit{Document: Document{ID: id}, Score: score})
		}
	}
	slices.SortFunc(hits, func(a, b Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID)) })
	return hits
}

// A rank is a hit to the bit.
type rank struct {
	ID    string
	Score uint64
}

func ranks(r *Result) (all []rank) {
	for _, h := range r.Hits {
		all = append(all, rank{h.ID, math.Float64bits(h.Score)})
	}
	return all
}

// After any sequence of writes, deletes, flushes, compactions and reopenings, text
// results equal the results of a fresh database to the bit, and the definition up
// to rounding.
func TestTextIsThatOfAFreshDatabase(t *testing.T) {
	seeds, steps := 4, 40
	if testing.Short() {
		seeds = 1
	}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			index := &TextIndex{Language: []string{"english", "none"}[r.IntN(2)]}
			if r.IntN(2) == 0 {
				index.Fields = []string{"title"}
			}
			if r.IntN(3) == 0 {
				index.K1, index.B = new(0.9), new(0.4)
			}
			dir := t.TempDir()
			opts := &Options{Sync: SyncNever, Compaction: Manual, HeadSize: 1 << 14}
			vdb, err := Open(dir, opts)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { vdb.Close() }()
			schema := Schema{Text: index}
			late := r.IntN(3) == 0 // the index is added later
			if late {
				schema.Text = nil
			}
			coll, err := vdb.OpenCollection(t.Context(), "c", schema)
			if err != nil {
				t.Fatal(err)
			}
			docs := map[string]Document{}
			document := func() Document {
				d := Document{ID: fmt.Sprint("d", r.IntN(60)), Text: randomText(r, 30), Metadata: Metadata{"n": int64(r.IntN(5))}}
				if r.IntN(2) == 0 {
					d.Metadata["title"] = randomText(r, 4)
				}
				if r.IntN(2) == 0 {
					d.Vector = []float32{r.Float32(), r.Float32(), 1}
				}
				return d
			}
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			var snap *Snapshot
			var then map[string]Document
			for step := range steps {
				switch r.IntN(12) {
				case 0, 1, 2, 3:
					batch := make([]Document, 1+r.IntN(20))
					for i := range batch {
						batch[i] = document()
						docs[batch[i].ID] = batch[i]
					}
					_, err := coll.Upsert(t.Context(), batch...)
					must(err)
				case 4, 5:
					for _, id := range slices.Sorted(maps.Keys(docs)) {
						if r.IntN(8) == 0 {
							d := docs[id]
							p := Patch{ID: id}
							if r.IntN(2) == 0 {
								d.Text = randomText(r, 30)
								p.Text = &d.Text
							} else {
								d.Vector = []float32{1, r.Float32(), 0}
								p.Vector = d.Vector
							}
							docs[id] = d
							must(coll.Patch(t.Context(), p))
						}
					}
				case 6:
					for _, id := range slices.Sorted(maps.Keys(docs)) {
						if r.IntN(5) == 0 {
							_, err := coll.Delete(t.Context(), id)
							must(err)
							delete(docs, id)
						}
					}
				case 7:
					must(vdb.Flush(t.Context()))
				case 8:
					must(vdb.Compact(t.Context()))
				case 9:
					if snap == nil {
						snap, err = vdb.Snapshot()
						must(err)
						then = maps.Clone(docs)
					}
				case 10:
					if snap != nil {
						must(snap.Close())
						snap = nil
					}
					must(vdb.Close())
					vdb, err = Open(dir, opts)
					must(err)
					coll, err = vdb.Collection("c")
					must(err)
				}
				if late && step > steps/2 {
					must(coll.SetText(t.Context(), index))
					late = false
				}
				if late || step%4 != 3 {
					continue
				}
				compareText(t, r, coll, index, docs)
				if snap != nil && !late {
					old, err := snap.Collection("c")
					must(err)
					info, err := old.Info()
					must(err)
					if info.Schema.Text != nil {
						compareText(t, r, old, index, then)
					}
				}
			}
			must(vdb.Compact(t.Context()))
			report, err := vdb.Check(t.Context(), CheckBytes)
			must(err)
			if !report.OK() {
				t.Errorf("check: %v", report.Problems)
			}
			if snap != nil {
				must(snap.Close())
			}
		})
	}
}

// compareText compares query results of a collection and a fresh one with the same
// documents.
func compareText(t *testing.T, r *rand.Rand, coll *Collection, index *TextIndex, docs map[string]Document) {
	t.Helper()
	fresh, err := Open(t.TempDir(), &Options{Sync: SyncNever, Compaction: Manual})
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	same, err := fresh.CreateCollection(t.Context(), "c", Schema{Text: index}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := same.Upsert(t.Context(), slices.Collect(maps.Values(docs))...); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		words := randomText(r, 3) + " " + textWords[r.IntN(len(textWords))]
		queries := []Query{{Text: words}}
		if r.IntN(2) == 0 {
			queries[0].Where = filter.Lt("n", r.IntN(5))
		}
		one := textWords[r.IntN(len(textWords))]
		queries = append(queries,
			Query{Text: words + " -" + one},
			Query{Text: "+" + one + " " + words},
			Query{Text: `"` + one + " " + textWords[r.IntN(len(textWords))] + `" ` + words},
			Query{Text: string([]rune(one)[:1]) + "*", Where: filter.Text("-" + one)},
			Query{Text: words, Where: filter.Or(filter.Not(filter.Text(one)), filter.Eq("n", 1)), Offset: r.IntN(3)},
			Query{Text: words, Near: Vector{1, r.Float32(), r.Float32()}},
			Query{Text: words + " -" + one, Near: Vector{1, r.Float32(), r.Float32()}, Fusion: Fusion{Method: Convex, Vector: 1, Text: 1}},
		)
		for _, q := range queries {
			q.K = 1 + r.IntN(30)
			if q.Near != nil && must(coll.Info()).Schema.Dim == 0 {
				continue
			}
			if q.Near != nil && must(same.Info()).Schema.Dim == 0 {
				q.Near = nil
			}
			got, err := coll.Search(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			want, err := same.Search(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(ranks(want), ranks(got)); diff != "" {
				t.Fatalf("%+v (-fresh +this):\n%s", q, diff)
			}
			matched, err := coll.Count(t.Context(), filter.Text(q.Text))
			if err != nil {
				t.Fatal(err)
			}
			if n, err := same.Count(t.Context(), filter.Text(q.Text)); err != nil || n != matched {
				t.Fatalf("%q matches %d documents, %d in a fresh database, %v", q.Text, matched, n, err)
			}
		}
		// The definition, with another logarithm and order of operations.
		got, err := coll.Search(t.Context(), Query{Text: words, K: 1000})
		if err != nil {
			t.Fatal(err)
		}
		want := bm25(t, index, docs, words)
		scores := map[string]float64{}
		for _, h := range want {
			scores[h.ID] = h.Score
		}
		if len(got.Hits) != len(want) {
			t.Fatalf("%q: %d hits, want %d", words, len(got.Hits), len(want))
		}
		for _, h := range got.Hits {
			if s := scores[h.ID]; math.Abs(s-h.Score) > 1e-12*s {
				t.Fatalf("%q: document %s has score %v, want %v", words, h.ID, h.Score, s)
			}
		}
	}
}

func openText(t *testing.T, s Schema, docs ...Document) *Collection {
	t.Helper()
	vdb, err := Open(t.TempDir(), &Options{Sync: SyncNever})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { vdb.Close() })
	coll, err := vdb.CreateCollection(t.Context(), "notes", s, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := coll.Upsert(t.Context(), docs...); err != nil {
		t.Fatal(err)
	}
	return coll
}

func TestTextSearch(t *testing.T) {
	coll := openText(t, Schema{Text: &TextIndex{Fields: []string{"title", "tags"}}},
		Document{ID: "a", Text: "The quick brown fox jumps over the lazy dog.", Metadata: Metadata{"title": "Foxes"}},
		Document{ID: "b", Text: "func parseHTTPHeader(r io.Reader) error", Metadata: Metadata{"tags": []any{"go", "http server", int64(1)}}},
		Document{ID: "c", Text: "A lazy afternoon.", Vector: []float32{1, 0}},
		Document{ID: "d", Vector: []float32{0, 1}},
		Document{ID: "e", Text: "dogs and foxes and dogs"},
	)
	for _, c := range []struct {
		query string
		want  []string
	}{
		{"dog", []string{"e", "a"}},
		{"fox title", []string{"a", "e"}},
		{"lazy -dog", []string{"c"}},
		{"+lazy fox", []string{"a", "c"}},
		{`"lazy dog"`, []string{"a"}},
		{`"dog fox"`, []string{}}, // not across dog. and the title
		{"parsehttp*", []string{"b"}},
		{"header", []string{"b"}},
		{"HTTP server", []string{"b"}},
		{"-fox", []string{}},
		{"unheard", []string{}},
		{"the", []string{"a"}},
		{"", nil},
	} {
		r, err := coll.Search(t.Context(), Query{Text: c.query})
		if c.query == "" {
			if err == nil {
				t.Error("an empty query is answered")
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(c.want, ids(r.Hits)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.query, diff)
		}
		if !r.Exact || !r.Complete || r.Plan != "text index" {
			t.Errorf("%q: %+v", c.query, r)
		}
	}
	for where, want := range map[string]int{`{"$text":"fox"}`: 2, `{"$text":"-fox"}`: 3, `{"$not":{"$text":"fox"}}`: 3,
		`{"$or":[{"$text":"afternoon"},{"title":"Foxes"}]}`: 2, `{"$text":"..."}`: 0} {
		if n, err := coll.Count(t.Context(), filter.MustParse(where)); err != nil || n != want {
			t.Errorf("%s: %d documents, %v", where, n, err)
		}
	}
	r, err := coll.Search(t.Context(), Query{Near: Vector{0, 1}, Where: filter.Text("lazy")})
	if err != nil || !slices.Equal(ids(r.Hits), []string{"c"}) {
		t.Errorf("near a vector, with a text: %v, %v", ids(r.Hits), err)
	}
	r, err = coll.Search(t.Context(), Query{Text: "dogs", Snippet: 16, Select: IDsOnly})
	if err != nil || len(r.Hits) != 2 || r.Hits[1].Text != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	if diff := gocmp.Diff(&text.Snippet{Text: "over the lazy dog.", Start: 26, Marks: []text.Range{{Start: 14, End: 17}}}, r.Hits[1].Snippet); diff != "" && r.Hits[1].Snippet.Text[r.Hits[1].Snippet.Marks[0].Start:][:3] != "dog" {
		t.Errorf("snippet (-want +got):\n%s", diff)
	}
	if n, err := coll.DeleteWhere(t.Context(), filter.Text("fox")); err != nil || n != 2 {
		t.Errorf("%d deleted, %v", n, err)
	}
}

func TestHybrid(t *testing.T) {
	var docs []Document
	for i := range 50 {
		d := Document{ID: fmt.Sprintf("%02d", i), Text: "filler " + strings.Repeat("word ", i%7), Metadata: Metadata{"g": int64(i % 3)}}
		if i%2 == 0 {
			d.Vector = []float32{1, float32(i) / 50}
		}
		docs = append(docs, d)
	}
	docs[10].Text = "needle in a haystack"
	docs[11].Text = "a needle, a needle"
	coll := openText(t, Schema{Text: &TextIndex{}}, docs...)
	search := func(q Query) *Result {
		t.Helper()
		r, err := coll.Search(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	near := []float32{1, 0}
	r := search(Query{Near: Vector(near), Text: "needle", K: 4, Fusion: Fusion{Method: RRF, Vector: 1, Text: 1}})
	// 10 is in both lists: rank 6 by vector and 2 by text; 11 has no vector and is the first by
	// text; then by vector alone.
	if diff := gocmp.Diff([]string{"10", "00", "11", "02"}, ids(r.Hits)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, want := r.Hits[0].Score, 1.0/66+1.0/62; got != want {
		t.Errorf("score %v, want %v", got, want)
	}
	if l := r.Hits[0].Legs; len(l) != 2 || l[0].Rank != 6 || l[1].Rank != 2 || l[0].Name != "vector" || *l[1].Score <= 0 {
		t.Errorf("legs %+v", l)
	}
	if l := r.Hits[2].Legs; l[0].Rank != 0 || l[0].Score != nil || l[1].Rank != 1 {
		t.Errorf("legs of a document without vector: %+v", l)
	}
	// By scores, counted from the least that is possible.
	text := search(Query{Text: "needle"})
	r = search(Query{Near: Vector(near), Text: "needle", K: 50})
	for _, h := range r.Hits {
		want := 0.0
		if v := h.Legs[0].Score; v != nil {
			want = 0.5 * ((*v + 1) / (1 + 1))
		}
		if s := h.Legs[1].Score; s != nil {
			want += 0.5 * (*s / text.Hits[0].Score)
		}
		if h.Score != want {
			t.Errorf("%s: score %v, want %v of %+v", h.ID, h.Score, want, h.Legs)
		}
	}
	for method, want := range map[Fusion][]string{
		{Text: 1}:                {"11", "10"},
		{Method: RRF, Text: 1}:   {"11", "10"},
		{Vector: 1}:              {"00", "02"},
		{Method: RRF, Vector: 1}: {"00", "02"},
	} {
		if r := search(Query{Near: Vector(near), Text: "needle", K: 2, Fusion: method}); !slices.Equal(ids(r.Hits), want) {
			t.Errorf("%+v: %v, want %v (by text %v)", method, ids(r.Hits), want, ids(text.Hits))
		}
	}
	if r := search(Query{Near: Vector(near), Text: "-needle word", K: 50}); slices.Contains(ids(r.Hits), "10") || slices.Contains(ids(r.Hits), "11") {
		t.Errorf("excluded documents are found: %v", ids(r.Hits))
	}
	if r := search(Query{Near: Vector(near), Text: "+needle", K: 50}); !slices.Equal(ids(r.Hits), []string{"11", "10"}) && !slices.Equal(ids(r.Hits), []string{"10", "11"}) {
		t.Errorf("documents without what is required are found: %v", ids(r.Hits))
	}
	all := search(Query{Near: Vector(near), Text: "needle word", K: 50})
	if page := search(Query{Near: Vector(near), Text: "needle word", K: 5, Offset: 5}); !slices.Equal(ids(page.Hits), ids(all.Hits)[5:10]) {
		t.Errorf("second page %v of %v", ids(page.Hits), ids(all.Hits))
	}
	if r := search(Query{Near: Vector(near), Text: "needle word", K: 50, Threshold: new(all.Hits[3].Score)}); len(r.Hits) != 4 {
		t.Errorf("%d hits above the score of the fourth", len(r.Hits))
	}
	groups := search(Query{Near: Vector(near), Text: "needle word", K: 3, Group: &Group{Field: "g"}})
	if len(groups.Hits) != 3 || groups.Hits[0].ID != all.Hits[0].ID {
		t.Errorf("groups: %v", ids(groups.Hits))
	}
	// The best 90 documents of both rankings belong to one group.
	crowd := openText(t, Schema{Text: &TextIndex{}})
	for i := range 200 {
		d := Document{ID: fmt.Sprint(i), Text: "needle", Vector: []float32{1, float32(i)}, Metadata: Metadata{"g": int64(0)}}
		if i >= 150 {
			d.Text, d.Metadata["g"] = "needle with many other words around it", int64(1+i%2)
		}
		if _, err := crowd.Upsert(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []Fusion{{}, {Method: RRF, Vector: 1, Text: 1}, {Depth: 5}} {
		r, err := crowd.Search(t.Context(), Query{Near: Vector(near), Text: "needle", K: 3, Fusion: f, Group: &Group{Field: "g", Size: 2}})
		if err != nil {
			t.Fatal(err)
		}
		if got := ids(r.Hits); !slices.Equal(got, []string{"0", "1", "150", "152", "151", "153"}) {
			t.Errorf("%+v: groups behind a crowd: %v", f, got)
		}
	}
	for _, q := range []Query{{Near: Vector(near), Text: "needle word"}, {Text: "needle word"}} {
		q.K, q.MMR = 3, &MMR{Lambda: 1}
		plain := q
		plain.MMR = nil
		if a, b := search(q), search(plain); !slices.Equal(ids(a.Hits), ids(b.Hits)) {
			t.Errorf("all relevance: %v, not %v", ids(a.Hits), ids(b.Hits))
		}
		q.MMR = &MMR{Lambda: 0.3}
		if r := search(q); len(r.Hits) != 3 || r.Hits[0].ID != search(plain).Hits[0].ID {
			t.Errorf("diverse: %v", ids(r.Hits))
		}
	}
	fused, err := coll.SearchFused(t.Context(), []Query{{Text: "needle", K: 3}, {Near: Vector(near)}}, 2, 1)
	if err != nil || len(fused.Hits) != 3 || fused.Hits[0].ID != "10" || fused.Hits[0].Score != 2.0/62+1.0/66 || fused.Hits[0].Text == "" {
		t.Errorf("fused: %+v, %v", fused, err)
	}
	// The passage of each hit comes from the query form that found it.
	fused, err = coll.SearchFused(t.Context(), []Query{{Near: Vector(near), K: 60, Snippet: 99}, {Text: "haystack"}, {Text: "+filler word"}})
	if err != nil || len(fused.Hits) != 49 {
		t.Fatalf("%d hits, %v", len(fused.Hits), err)
	}
	for _, h := range fused.Hits {
		want := 1 + strings.Count(h.Text, "word")
		if h.Snippet == nil || len(h.Snippet.Marks) != want {
			t.Errorf("%s %q: %+v, want %d marks", h.ID, h.Text, h.Snippet, want)
		}
	}
	for _, bad := range []Query{
		{Text: "x", Fusion: Fusion{Vector: -1}}, {Text: "x", Fusion: Fusion{Method: 9}}, {Text: "x", Fusion: Fusion{C: math.NaN()}},
		{Text: "x", Fusion: Fusion{Depth: -1}}, {Text: "\xff"}, {Text: "x", Snippet: -1},
	} {
		if _, err := coll.Search(t.Context(), bad); err == nil {
			t.Errorf("%+v is answered", bad)
		}
	}
}

func TestTextSchema(t *testing.T) {
	dir := t.TempDir()
	vdb, err := Open(dir, &Options{Sync: SyncNever})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { vdb.Close() }()
	coll, err := vdb.CreateCollection(t.Context(), "c", Schema{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := coll.Upsert(t.Context(), Document{ID: "a", Text: "running dogs"}); err != nil {
		t.Fatal(err)
	}
	if err := vdb.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, fn := range []func() error{
		func() error { _, err := coll.Search(t.Context(), Query{Text: "dog"}); return err },
		func() error { _, err := coll.Count(t.Context(), filter.Text("dog")); return err },
		func() error { _, err := coll.DeleteWhere(t.Context(), filter.Text("dog")); return err },
	} {
		if err := fn(); err == nil || !strings.Contains(err.Error(), "no text index") {
			t.Errorf("error %v", err)
		}
	}
	for _, bad := range []TextIndex{{Language: "klingon"}, {K1: new(-1.0)}, {B: new(1.5)}, {Fields: []string{"a", "a"}}, {Fields: []string{""}}} {
		if err := coll.SetText(t.Context(), &bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
	// Asking for an index makes one; only SetText changes it.
	if coll, err = vdb.OpenCollection(t.Context(), "c", Schema{Text: &TextIndex{}}); err != nil {
		t.Fatal(err)
	}
	find := func(query string) int {
		t.Helper()
		r, err := coll.Search(t.Context(), Query{Text: query})
		if err != nil {
			t.Fatal(err)
		}
		return len(r.Hits)
	}
	if find("dog") != 1 || find("runs") != 1 {
		t.Error("nothing found by stems")
	}
	if _, err := vdb.OpenCollection(t.Context(), "c", Schema{Text: &TextIndex{Language: "none"}}); err == nil {
		t.Error("another language is taken")
	}
	snap, err := vdb.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := coll.SetText(t.Context(), &TextIndex{Language: "none"}); err != nil {
		t.Fatal(err)
	}
	if find("dog") != 0 || find("dogs") != 1 {
		t.Error("still stems")
	}
	old, err := snap.Collection("c")
	if err != nil {
		t.Fatal(err)
	}
	if r, err := old.Search(t.Context(), Query{Text: "dog"}); err != nil || len(r.Hits) != 1 {
		t.Errorf("the snapshot lost its analysis: %v, %v", r, err)
	}
	if err := snap.Close(); err != nil {
		t.Fatal(err)
	}
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	if vdb, err = Open(dir, &Options{ReadOnly: true}); err != nil {
		t.Fatal(err)
	}
	if coll, err = vdb.Collection("c"); err != nil {
		t.Fatal(err)
	}
	if s := must(coll.Info()).Schema.Text; s == nil || s.Language != "none" || find("dogs") != 1 {
		t.Errorf("after reopening: %+v", s)
	}
}

func TestExplainText(t *testing.T) {
	coll := openText(t, Schema{Text: &TextIndex{}},
		Document{ID: "a", Text: "fox fox", Vector: []float32{1, 0}, Metadata: Metadata{"n": int64(1)}},
		Document{ID: "b", Text: "fox and more words", Vector: []float32{1, 1}},
		Document{ID: "c", Text: "fox hunt", Metadata: Metadata{"n": int64(1)}},
		Document{ID: "d", Text: "dog", Vector: []float32{0, 1}, Metadata: Metadata{"n": int64(1)}},
		Document{ID: "e", Text: "dog and fox in a longer text than that of others", Metadata: Metadata{"n": int64(1)}},
	)
	why := func(q Query, ids ...string) []WhyNot {
		t.Helper()
		e, err := coll.Explain(t.Context(), q, ids...)
		if err != nil {
			t.Fatal(err)
		}
		return e.WhyNot
	}
	stages := func(all []WhyNot) (s []string) {
		for _, w := range all {
			s = append(s, fmt.Sprintf("%s %d %s", w.ID, w.Rank, w.Stage))
		}
		return s
	}
	everyone := []string{"a", "b", "c", "d", "e", "f"}
	q := Query{Text: "fox -hunt", Where: filter.Eq("n", 1), K: 1}
	if diff := gocmp.Diff([]string{"a 1 ", "b 2 where", "c 2 text", "d 0 text", "e 2 k", "f 0 missing"}, stages(why(q, everyone...))); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	strict := why(Query{Text: `fox -hunts +"quick fox"`}, "b", "c")
	if got := []string{strict[0].Reason, strict[1].Reason}; !slices.Equal(got, []string{`it lacks "quick fox", which the text requires`, `it has "hunts", which the text excludes`}) {
		t.Errorf("reasons %q", got)
	}
	q = Query{Text: "fox", Where: filter.Text("-hunt"), K: 9, Threshold: new(0.25)}
	if diff := gocmp.Diff([]string{"a 1 ", "b 2 ", "c 2 where", "d 0 text", "e 3 threshold", "f 0 missing"}, stages(why(q, everyone...))); diff != "" {
		t.Errorf("text in a filter (-want +got):\n%s", diff)
	}
	q = Query{Text: "fox", Near: Vector{1, 0}, K: 2, Fusion: Fusion{Vector: 1, Text: 1}}
	all := why(q, everyone...)
	e, err := coll.Explain(t.Context(), q)
	if err != nil || len(e.Plan) != 2 || !slices.ContainsFunc(e.Plan, func(p PartPlan) bool {
		return p.Rows == 2 && p.Plan == "text index" && p.Reason == "no row has a vector"
	}) {
		t.Errorf("plan %+v, %v", e.Plan, err)
	}
	if diff := gocmp.Diff([]string{"a 1 ", "c 3 k", "b 2 "}, stages([]WhyNot{all[0], all[2], all[1]})); diff != "" {
		t.Errorf("hybrid (-want +got):\n%s", diff)
	}
	if l := all[3].Legs; l[0].Rank != 3 || l[1].Score != nil || all[3].Rank == 0 {
		t.Errorf("d: %+v", all[3])
	}
	if all[0].Legs[0].Rank != 1 || all[0].Legs[1].Rank != 1 || *all[0].Score <= 0 {
		t.Errorf("a: %+v", all[0])
	}
}

// A damaged index is found by Check, is not used, and is rebuilt. An index that
// contradicts the documents is found by Check.
func TestTextDamage(t *testing.T) {
	dir := t.TempDir()
	vdb := open(t, dir, &Options{Sync: SyncNever, Compaction: Manual})
	coll := collection(t, vdb, "c", Schema{Text: &TextIndex{}})
	upsert(t, coll, Document{ID: "a", Text: "a quick fox"}, Document{ID: "b", Text: "a lazy dog"})
	if err := vdb.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	find := func() {
		t.Helper()
		if r, err := coll.Search(t.Context(), Query{Text: "fox"}); err != nil || len(r.Hits) != 1 || r.Hits[0].ID != "a" {
			t.Errorf("%+v, %v", r, err)
		}
	}
	find()
	check(t, vdb)
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "seg", "*.terms"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	intact, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for at := 4096; at < len(intact); at += 7 {
		bad := slices.Clone(intact)
		bad[at] ^= 1
		if err := os.WriteFile(files[0], bad, 0o600); err != nil {
			t.Fatal(err)
		}
		vdb = open(t, dir, &Options{ReadOnly: true})
		if coll, err = vdb.Collection("c"); err != nil {
			t.Fatal(err)
		}
		report, err := vdb.Check(t.Context(), CheckBytes)
		if err != nil || report.OK() {
			t.Fatalf("byte %d: %+v, %v", at, report, err)
		}
		find()
		if err := vdb.Close(); err != nil {
			t.Fatal(err)
		}
	}
	vdb = open(t, dir, &Options{Sync: SyncNever})
	if coll, err = vdb.Collection("c"); err != nil {
		t.Fatal(err)
	}
	find()
	if err := vdb.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(t, vdb)

	// An intact file with other content.
	s := segmentsOf(vdb)[0]
	a := vdb.engine.Analysis(s.Info.Collection)
	x := a.Indexer()
	for range s.Info.Rows {
		tokens, _ := x.Scanner.Tokens(nil, "something else here")
		x.Index.Add(tokens)
	}
	s.Terms.Keep(a, []terms.Input{{Source: x.Index.View(s.Info.Rows)}})
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	vdb = open(t, dir, &Options{ReadOnly: true})
	if report, err := vdb.Check(t.Context(), CheckBytes); err != nil || report.OK() {
		t.Errorf("%+v, %v", report, err)
	}
}

// An index of an earlier analysis, whose terms are others, is made again and not read.
func TestIndexOfAnotherAnalysis(t *testing.T) {
	dir := t.TempDir()
	vdb := open(t, dir, &Options{Sync: SyncNever})
	c := collection(t, vdb, "c", Schema{Text: &TextIndex{}})
	upsert(t, c, Document{ID: "a", Text: "they co\u00adoperate"}, Document{ID: "b", Text: "they"})
	if err := vdb.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	find := func(c *Collection) {
		t.Helper()
		r := mustSearch(t, c, Query{Text: "cooperate", K: 3})
		if len(r.Hits) != 1 || r.Hits[0].ID != "a" {
			t.Errorf("hits %v", r.Hits)
		}
	}
	find(c)
	s := segmentsOf(vdb)[0]
	x := vdb.engine.Analysis(s.Info.Collection).Indexer()
	for range s.Info.Rows {
		x.Index.Add([]text.Token{{Term: "co\u00adoper"}})
	}
	ident := s.TermsIdent(x.Analysis)
	ident.Analysis[0]++
	earlier, err := terms.Build(ident, terms.Input{Source: x.Index.View(s.Info.Rows)})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, s.Terms.File())
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	present, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, earlier, 0o644); err != nil {
		t.Fatal(err)
	}
	vdb = open(t, dir, &Options{Sync: SyncNever})
	find(collectionOf(t, vdb, "c"))
	if err := vdb.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, present) {
		t.Errorf("the index was not made again: %d bytes, %v", len(now), err)
	}
}

// Readers by text beside writers, flushes and compactions: every answer is from one
// version.
func TestTextConcurrent(t *testing.T) {
	vdb := open(t, t.TempDir(), &Options{Sync: SyncNever, HeadSize: 1 << 14})
	coll := collection(t, vdb, "c", Schema{Text: &TextIndex{}})
	var wait sync.WaitGroup
	for w := range 2 {
		wait.Go(func() {
			for i := range 150 {
				// Each batch has one document of each kind: readers see equal
				// numbers of both.
				_, err := coll.Upsert(t.Context(),
					Document{ID: fmt.Sprint("x", w, "-", i%40), Text: "fox and " + strings.Repeat("word ", i%9)},
					Document{ID: fmt.Sprint("y", w, "-", i%40), Text: "dog and " + strings.Repeat("word ", i%7)})
				if err != nil {
					t.Error(err)
				}
				if i%50 == 49 {
					if err := vdb.Compact(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
		})
		wait.Go(func() {
			for range 150 {
				results, err := coll.SearchBatch(t.Context(), []Query{{Text: "fox", K: 100}, {Text: "dog", K: 100}, {Text: "fox dog", K: 200, Where: filter.Text("word")}})
				if err != nil {
					t.Error(err)
					return
				}
				if x, y := len(results[0].Hits), len(results[1].Hits); x != y {
					t.Errorf("%d documents of one kind, %d of the other", x, y)
				}
			}
		})
	}
	wait.Wait()
	check(t, vdb)
}

// Where no document has anything of the text, all scores are 0, and MMR still chooses hits that
// differ.
func TestMMROfZeroScores(t *testing.T) {
	c := collection(t, open(t, t.TempDir(), nil), "c", Schema{Dim: 2, Text: &TextIndex{}})
	for i := range 20 {
		d := Document{ID: fmt.Sprintf("%02d", i), Vector: []float32{1, 0}, Text: "a text"}
		if i == 10 {
			d.Vector = []float32{0, 1}
		}
		upsert(t, c, d)
	}
	r := mustSearch(t, c, Query{Near: Vector{1, 0}, Text: "nothing", Fusion: Fusion{Text: 1}, K: 2,
		MMR: &MMR{Lambda: 0, Fetch: 20}, Accuracy: Exact})
	if len(r.Hits) != 2 || r.Hits[0].Score != 0 || r.Hits[1].ID != "10" {
		t.Errorf("%+v", r.Hits)
	}
}
