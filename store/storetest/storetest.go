package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/simd"
	"github.com/vecbolt/vecbolt/store"
)

// Options state expectations beyond the interface.
type Options struct {
	// Recall is the minimum share of the true hits, over the answers to all vector queries; 0 means
	// 1, all of them.
	Recall float64
	// Dim is the dimension of the vectors; 0 means 16.
	Dim int
}

// Run runs the suite on the store that open returns. It calls open once, and closes the store.
// Collections whose names begin with "storetest" are dropped.
func Run(t *testing.T, open func(t *testing.T) store.Store, o Options) {
	s := &suite{store: open(t), recall: cmp.Or(o.Recall, 1), dim: cmp.Or(o.Dim, 16)}
	s.docs = Documents(s.dim)
	t.Cleanup(func() {
		if err := s.store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := s.store.Close(); err != nil {
			t.Errorf("close again: %v", err)
		}
	})
	names, err := s.store.Collections(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names { // left by an interrupted run
		if strings.HasPrefix(name, prefix) {
			s.drop(t, name)
		}
	}
	t.Run("collections", s.testCollections)
	t.Run("without vectors", s.testWithoutVectors)
	t.Run("writes", s.testWrites)
	s.c = s.create(t, prefix+" zoo/ä")
	s.upsert(t, s.c, s.docs)
	t.Run("get", s.testGet)
	t.Run("invalid", s.testInvalid)
	t.Run("conditions", s.testConditions)
	t.Run("random conditions", s.testRandomConditions)
	t.Run("pages", s.testPages)
	t.Run("vectors", s.testVectors)
	t.Run("texts", s.testTexts)
	t.Run("cancelled", s.testCancelled)
	t.Run("delete", s.testDelete) // last: it empties the collection
}

const prefix = "storetest"

type suite struct {
	store  store.Store
	recall float64
	dim    int
	docs   []db.Document
	c      store.Collection // contains docs
}

// Documents returns the documents of the suite: ids and keys of every kind, values at the limits of
// their types, vectors that are equal, opposite, zero and missing.
func Documents(dim int) []db.Document {
	rng := rand.New(rand.NewPCG(7, 7))
	ids := []string{"a", "A", "a b", " a", "a ", "a/b", "../a", "a%2Fb", "ä", "日本", "🙂", "a'b", `a"b`,
		`a\b`, "*", "?", "a*", "$a", "null", "0",
		"6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6BA7B810-9DAD-11D1-80B4-00C04FD430C8",
		strings.Repeat("x", db.MaxIDLen), "\u0085", "a\u00a0"}
	words := []string{"bolt", "vector", "database", "graph", "nut"}
	values := []any{
		"", "go", "Go", " go", "go ", "g o", "göteborg", "go*", "g?", "日本", "null", "true", "1",
		"2024-01-05", "2024-06-30", "2025", "\x00", "a\nb",
		`quote " and \`, strings.Repeat("long ", 200) + "a", strings.Repeat("long ", 200) + "b", "%41",
		"\U0010ffff", "\uffff", "👍🏽",
		true, false, nil,
		int64(0), int64(1), int64(-1), int64(15), int64(16), int64(1) << 53, int64(1)<<53 + 1,
		int64(1)<<53 + 2, int64(math.MaxInt64), int64(math.MaxInt64) - 1,
		int64(math.MinInt64), int64(math.MinInt64) + 1, int64(2020), int64(2024),
		0.0, math.Copysign(0, -1), 1.0, 0.1, -0.1, 1e-300, -1e300, math.MaxFloat64,
		math.SmallestNonzeroFloat64, 9007199254740992.0, 9.223372036854776e18, 2020.5, -9.223372036854775808e18,
		[]any{}, []any{"go", "db"}, []any{"go", int64(1), nil, true, 0.5}, []any{int64(1)<<53 + 1}, []any{""},
		map[string]any{"name": "ann", "age": int64(30)}, map[string]any{"deep": map[string]any{"er": "x"}},
	}
	keys := []string{"k", "a-b", "a.b", "id", "_id", "docid", "text", "größe", "日本", "a b", "a/b", `"`,
		`\`, "*", "K", "k ", " k", "__typename", "_additional",
		"0", strings.Repeat("key", 85)}
	var docs []db.Document
	for i := range 320 {
		d := db.Document{ID: fmt.Sprintf("doc-%03d", i)}
		if i < len(ids) {
			d.ID = ids[i]
		}
		if i%10 != 3 {
			d.Vector = make([]float32, dim)
			for j := range d.Vector {
				d.Vector[j] = float32(rng.NormFloat64())
			}
			switch {
			case i == 20: // zero vector
				clear(d.Vector)
			case i == 21 || i == 22: // equal vectors
				copy(d.Vector, docs[1].Vector)
			case i == 24: // opposite vector
				for j := range d.Vector {
					d.Vector[j] = -docs[1].Vector[j]
				}
			case i == 25: // not a unit vector
				for j := range d.Vector {
					d.Vector[j] *= 1e3
				}
			}
		}
		if i%7 != 5 {
			d.Text = words[i%5] + " " + words[rng.IntN(5)] + " number" + fmt.Sprint(i%30) + "\n\"quoted\" 'ä' 🙂"
		}
		if i%11 != 4 {
			d.Metadata = db.Metadata{"n": int64(i), "k": values[i%len(values)],
				"lang": []string{"go", "rust", "c"}[i%3]}
			for range rng.IntN(4) {
				d.Metadata[keys[rng.IntN(len(keys))]] = values[rng.IntN(len(values))]
			}
			switch i % 5 {
			case 1:
				d.Metadata["author"] = map[string]any{"name": values[rng.IntN(25)], "born": int64(1900 + i)}
			case 2:
				d.Metadata["author.name"] = "ann"
			case 3:
				d.Metadata["tags"] = []any{"t" + fmt.Sprint(i%4), "all", int64(i)}
			}
		}
		docs = append(docs, d)
	}
	return docs
}

func (s *suite) create(t *testing.T, name string) store.Collection {
	t.Helper()
	c, err := s.store.Create(t.Context(), name, store.Schema{Dim: s.dim, Text: &db.TextIndex{Language: "none"}})
	if err != nil {
		t.Fatalf("create %q: %v", name, err)
	}
	t.Cleanup(func() { s.drop(t, name) })
	return c
}

func (s *suite) drop(t *testing.T, name string) {
	t.Helper()
	// The context of the test has ended during cleanup.
	if err := s.store.Drop(context.WithoutCancel(t.Context()), name); err != nil && !errors.Is(err, db.ErrNotFound) {
		t.Errorf("drop %q: %v", name, err)
	}
}

func (s *suite) upsert(t *testing.T, c store.Collection, docs []db.Document) {
	t.Helper()
	for batch := range slices.Chunk(docs, 100) {
		if err := c.Upsert(t.Context(), batch); err != nil {
			t.Fatalf("upsert: %v", err)
		}
	}
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// all returns every document that matches, by id, reading page by page.
func (s *suite) all(t *testing.T, c store.Collection, limit int, where filter.Expr) map[string]*db.Document {
	t.Helper()
	docs, after := map[string]*db.Document{}, ""
	for n := 0; ; n++ {
		p, err := c.Scan(t.Context(), after, limit, where)
		if err != nil {
			t.Fatalf("scan %v: %v", where, err)
		}
		if len(p.Documents) > limit {
			t.Fatalf("scan %v: a page of %d documents, the limit is %d", where, len(p.Documents), limit)
		}
		for _, d := range p.Documents {
			if docs[d.ID] != nil {
				t.Fatalf("scan %v: document %q comes twice", where, d.ID)
			}
			docs[d.ID] = d
		}
		if p.Next == "" {
			return docs
		}
		if after = p.Next; n > 10_000 {
			t.Fatalf("scan %v: no end", where)
		}
	}
}

// want returns the ids of the documents that match by definition.
func (s *suite) want(where filter.Expr) []string {
	var ids []string
	for i := range s.docs {
		if store.Matches(where, &s.docs[i]) {
			ids = append(ids, s.docs[i].ID)
		}
	}
	slices.Sort(ids)
	return ids
}

func keysOf(docs map[string]*db.Document) []string {
	var ids []string
	for id := range docs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (s *suite) testCollections(t *testing.T) {
	ctx := t.Context()
	schema := store.Schema{Dim: 3, Lineage: db.Lineage{Provider: "p", Model: "m \"x\"", Normalized: true, Chunker: "c"},
		Text: &db.TextIndex{Language: "none", Fields: []string{"title"}}, Index: db.IndexSmall,
		Metadata: db.Metadata{"n": int64(math.MaxInt64), "f": 1.0, "s": "ä \" \\ \n",
			"l": []any{int64(1), "x"}, "m": map[string]any{"a-b": nil}}}
	names := []string{"storetest", "Storetest", "storetest a", "storetest/ä", "storetest-日本",
		"storetest_1", "storetest 'q\""}
	for _, name := range names {
		s.drop(t, name)
		c, err := s.store.Create(ctx, name, schema)
		if err != nil {
			t.Fatalf("create %q: %v", name, err)
		}
		t.Cleanup(func() { s.drop(t, name) })
		same(t, "name", name, c.Name())
		same(t, "schema of "+name, schema, c.Schema())
		if _, err := s.store.Create(ctx, name, schema); !errors.Is(err, db.ErrExists) {
			t.Errorf("create %q again: %v", name, err)
		}
		if err := c.Upsert(ctx, []db.Document{{ID: name, Vector: []float32{1, 2, 3}}}); err != nil {
			t.Fatal(err)
		}
	}
	listed, err := s.store.Collections(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSorted(listed) {
		t.Errorf("collections are not in order: %q", listed)
	}
	for _, name := range names {
		if !slices.Contains(listed, name) {
			t.Errorf("collection %q is not listed: %q", name, listed)
		}
		c, err := s.store.Collection(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "schema of "+name, schema, c.Schema())
		same(t, "documents of "+name, []string{name}, keysOf(s.all(t, c, 10, nil)))
		info, err := s.store.Describe(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "description of "+name, store.Info{Name: name, Schema: schema, Documents: 1}, info)
	}
	if err := s.store.Drop(ctx, names[0]); err != nil {
		t.Fatal(err)
	}
	if err := s.store.Drop(ctx, names[0]); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("drop again: %v", err)
	}
	if _, err := s.store.Collection(ctx, names[0]); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("open what was dropped: %v", err)
	}
	if _, err := s.store.Describe(ctx, names[0]); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("describe what was dropped: %v", err)
	}
	if listed, err = s.store.Collections(ctx); err != nil || slices.Contains(listed, names[0]) ||
		!slices.Contains(listed, names[1]) {
		t.Errorf("after a drop: %q, %v", listed, err)
	}
	c, err := s.store.Create(ctx, names[0], store.Schema{Dim: 4})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := c.Count(ctx, nil); err != nil || n != 0 {
		t.Errorf("made again: %d documents, %v", n, err)
	}
	hits, err := c.Query(ctx, []float32{1, 0, 0, 0}, 3, nil)
	if err != nil || len(hits) > 0 {
		t.Errorf("query of an empty collection: %v, %v", hits, err)
	}
	if _, err := c.Query(ctx, []float32{1, 0, 0}, 3, nil); !errors.Is(err, db.ErrDimensionMismatch) {
		t.Errorf("query of an empty collection with a wrong dimension: %v", err)
	}
	if _, err := c.TextQuery(ctx, "x", 3, nil); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("text query without a text index: %v", err)
	}
	for name, schema := range map[string]store.Schema{"": {Dim: 3}, "storetest bad\x00": {Dim: 3},
		"storetest dim 2": {Dim: -1},
		"storetest dim 3": {Dim: db.MaxDim + 1}, strings.Repeat("x", 256): {Dim: 3},
		"storetest meta": {Dim: 3, Metadata: db.Metadata{"$x": 1}}} {
		if _, err := s.store.Create(ctx, name, schema); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("create %.20q with %+v: %v", name, schema, err)
		}
	}
}

func (s *suite) testWithoutVectors(t *testing.T) {
	ctx, name := t.Context(), "storetest of texts"
	s.drop(t, name)
	schema := store.Schema{Text: &db.TextIndex{Language: "none"}}
	c, err := s.store.Create(ctx, name, schema)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.drop(t, name) })
	docs := []db.Document{
		{ID: "a", Text: "bolt and nut", Metadata: db.Metadata{"n": int64(1)}}, {ID: "b", Text: "nut"},
		{ID: "c", Metadata: db.Metadata{"n": int64(2)}},
	}
	s.upsert(t, c, docs)
	if c, err = s.store.Collection(ctx, name); err != nil {
		t.Fatal(err)
	}
	same(t, "schema", schema, c.Schema())
	same(t, "documents", []string{"a", "b", "c"}, keysOf(s.all(t, c, 2, nil)))
	got, err := c.Get(ctx, []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "document", &docs[0], got[0])
	hits, err := c.TextQuery(ctx, "bolt", 5, nil)
	if err != nil || len(hits) != 1 || hits[0].ID != "a" {
		t.Errorf("query by text: %v, %v", hits, err)
	}
	if err := c.Upsert(ctx, []db.Document{{ID: "d", Vector: []float32{1}}}); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("a document with a vector: %v", err)
	}
	if _, err := c.Query(ctx, []float32{1}, 3, nil); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("query by vector: %v", err)
	}
	if n, err := c.Count(ctx, nil); err != nil || n != 3 {
		t.Errorf("%d documents, %v", n, err)
	}
}

func (s *suite) testWrites(t *testing.T) {
	ctx := t.Context()
	c := s.create(t, "storetest writes")
	get := func(id string) *db.Document {
		t.Helper()
		docs, err := c.Get(ctx, []string{id})
		if err != nil || len(docs) != 1 {
			t.Fatalf("get %q: %v, %v", id, docs, err)
		}
		return docs[0]
	}
	vec := make([]float32, s.dim)
	vec[0] = 3
	first := db.Document{ID: "x", Vector: vec, Text: "old words",
		Metadata: db.Metadata{"a": int64(1), "b": map[string]any{"c": "d"}, "t": []any{"u"}}}
	s.upsert(t, c, []db.Document{first})
	same(t, "written", &first, get("x"))

	second := db.Document{ID: "x", Metadata: db.Metadata{"z": 0.5}}
	s.upsert(t, c, []db.Document{second})
	same(t, "replaced", &second, get("x"))
	for _, where := range []filter.Expr{filter.Exists("a"), filter.Exists("b.c"), filter.Contains("t", "u")} {
		if n, err := c.Count(ctx, where); err != nil || n != 0 {
			t.Errorf("%v still holds after a replacement: %d, %v", where, n, err)
		}
	}
	if hits, err := c.TextQuery(ctx, "old", 5, nil); err != nil || len(hits) > 0 {
		t.Errorf("an old text is found: %v, %v", hits, err)
	}
	if hits, err := c.Query(ctx, vec, 5, nil); err != nil || len(hits) > 0 {
		t.Errorf("an old vector is found: %v, %v", hits, err)
	}
	s.upsert(t, c, []db.Document{first, {ID: "y"}, {ID: "x", Text: "the last one counts"}})
	same(t, "twice in one call", &db.Document{ID: "x", Text: "the last one counts"}, get("x"))
	same(t, "nothing but an id", &db.Document{ID: "y"}, get("y"))
	if n, err := c.Count(ctx, nil); err != nil || n != 2 {
		t.Errorf("%d documents, %v", n, err)
	}
	if err := c.Upsert(ctx, nil); err != nil {
		t.Errorf("upsert of nothing: %v", err)
	}
	// Other Go types are converted to the stored types.
	s.upsert(t, c, []db.Document{{ID: "go",
		Metadata: db.Metadata{"i": 7, "u": uint8(8), "f": float32(0.5), "l": []string{"a"}, "e": map[string]any{}}}})
	same(t, "widened", db.Metadata{"i": int64(7), "u": int64(8), "f": 0.5, "l": []any{"a"},
		"e": map[string]any{}}, get("go").Metadata)

	for name, bad := range map[string]db.Document{
		"empty id": {}, "control character": {ID: "a\x01"},
		"long id": {ID: strings.Repeat("x", db.MaxIDLen+1)}, "id not UTF-8": {ID: "a\xff"},
		"text not UTF-8":     {ID: "q", Text: "\xff"},
		"empty key":          {ID: "q", Metadata: db.Metadata{"": 1}},
		"key with $":         {ID: "q", Metadata: db.Metadata{"$k": 1}},
		"type":               {ID: "q", Metadata: db.Metadata{"k": struct{}{}}},
		"NaN":                {ID: "q", Metadata: db.Metadata{"k": math.NaN()}},
		"infinite component": {ID: "q", Vector: append(slices.Clone(vec[1:]), float32(math.Inf(1)))},
		"list in a list":     {ID: "q", Metadata: db.Metadata{"k": []any{[]any{}}}},
	} {
		if err := c.Upsert(ctx, []db.Document{{ID: "good"}, bad}); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, vector := range [][]float32{vec[1:], append(slices.Clone(vec), 1)} {
		if err := c.Upsert(ctx, []db.Document{{ID: "good"},
			{ID: "q", Vector: vector}}); !errors.Is(err, db.ErrDimensionMismatch) {
			t.Errorf("%d components instead of %d: %v", len(vector), s.dim, err)
		}
	}
	if docs, err := c.Get(ctx, []string{"good", "q"}); err != nil || docs[0] != nil || docs[1] != nil {
		t.Errorf("something of an invalid call was written: %v, %v", docs, err)
	}
	// The collection stays usable.
	s.upsert(t, c, []db.Document{first})
	same(t, "written again", &first, get("x"))
	hits, err := c.Query(ctx, vec, 5, nil)
	if err != nil || len(hits) != 1 || math.Abs(hits[0].Score-1) > epsilon {
		t.Errorf("%v, %v", hits, err)
	}
}

func (s *suite) testGet(t *testing.T) {
	var ids []string
	for _, d := range s.docs {
		ids = append(ids, d.ID, "no such "+d.ID[:min(len(d.ID), 20)])
	}
	for i, id := range ids {
		ids[i] = strings.ToValidUTF8(id, "")
	}
	docs, err := s.c.Get(t.Context(), ids)
	if err != nil || len(docs) != len(ids) {
		t.Fatalf("%d documents for %d ids, %v", len(docs), len(ids), err)
	}
	for i := range s.docs {
		same(t, fmt.Sprintf("document %.40q", ids[2*i]), &s.docs[i], docs[2*i])
		if docs[2*i+1] != nil {
			t.Errorf("there is a document %q", ids[2*i+1])
		}
	}
	if docs, err := s.c.Get(t.Context(), nil); err != nil || len(docs) > 0 {
		t.Errorf("get nothing: %v, %v", docs, err)
	}
	if docs, err := s.c.Get(t.Context(), []string{"", "a\x00", "a", "a"}); err != nil ||
		len(docs) != 4 || docs[0] != nil || docs[1] != nil || docs[2] == nil || docs[3] == nil {
		t.Errorf("ids that cannot be and one that comes twice: %v, %v", docs, err)
	}
}

func (s *suite) testInvalid(t *testing.T) {
	ctx := t.Context()
	v := s.docs[0].Vector
	for _, where := range []filter.Expr{filter.Text("x"), filter.Not(filter.Text("x")),
		filter.Eq("", 1), filter.Eq("$x", 1), filter.Gt("a", true), filter.Eq("a", math.NaN()),
		filter.And(nil), filter.Eq("a", []any{1})} {
		calls := map[string]error{}
		_, calls["query"] = s.c.Query(ctx, v, 1, where)
		_, calls["text query"] = s.c.TextQuery(ctx, "x", 1, where)
		_, calls["scan"] = s.c.Scan(ctx, "", 1, where)
		_, calls["count"] = s.c.Count(ctx, where)
		_, calls["delete"] = s.c.DeleteWhere(ctx, where)
		for call, err := range calls {
			if !errors.Is(err, db.ErrInvalid) {
				t.Errorf("%s with %#v: %v", call, where, err)
			}
		}
	}
	if _, err := s.c.DeleteWhere(ctx, nil); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("delete without a condition: %v", err)
	}
	for _, k := range []int{-1, 0, store.MaxK + 1} {
		if _, err := s.c.Query(ctx, v, k, nil); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("query with k %d: %v", k, err)
		}
		if _, err := s.c.TextQuery(ctx, "bolt", k, nil); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("text query with k %d: %v", k, err)
		}
	}
	for _, limit := range []int{-1, 0, store.MaxLimit + 1} {
		if _, err := s.c.Scan(ctx, "", limit, nil); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("scan with limit %d: %v", limit, err)
		}
	}
	for _, bad := range [][]float32{nil, v[1:], append(slices.Clone(v), 0)} {
		if _, err := s.c.Query(ctx, bad, 1, nil); !errors.Is(err, db.ErrDimensionMismatch) {
			t.Errorf("query with %d components: %v", len(bad), err)
		}
	}
	nan := slices.Clone(v)
	nan[1] = float32(math.NaN())
	if _, err := s.c.Query(ctx, nan, 1, nil); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("query with NaN: %v", err)
	}
	if n, err := s.c.Count(ctx, nil); err != nil || n != len(s.docs) {
		t.Errorf("%d documents afterwards, %v", n, err)
	}
}

// operands returns values to compare with: the values of the documents, and some others.
func (s *suite) operands() (scalars []any) {
	scalars = []any{"g", "gp", "2024-02", "2024-06-3", "\U0010ffff\U0010ffff", int64(14), int64(17),
		int64(-2), int64(2019), 1.5, -1e308, 1e19, -1e19, 9007199254740993.0, 0.30000000000000004}
	seen := map[string]bool{}
	add := func(v any) {
		key := fmt.Sprintf("%T %v", v, v)
		if _, err := filter.Scalar(v); err == nil && !seen[key] {
			seen[key] = true
			scalars = append(scalars, v)
		}
	}
	for _, d := range s.docs {
		if v, ok := d.Metadata["k"]; ok {
			add(v)
			if list, ok := v.([]any); ok {
				for _, e := range list {
					add(e)
				}
			}
		}
	}
	return scalars
}

func (s *suite) check(t *testing.T, where filter.Expr) {
	t.Helper()
	want := s.want(where)
	n, err := s.c.Count(t.Context(), where)
	if err != nil {
		t.Errorf("count %.300s: %v", where, err)
		return
	}
	if n != len(want) {
		t.Errorf("count %.300s: %d, want %d: %.200q", where, n, len(want), want)
		p, err := s.c.Scan(t.Context(), "", 1000, where)
		if err != nil {
			t.Errorf("scan: %v", err)
		}
		for _, d := range p.Documents {
			if !slices.Contains(want, d.ID) {
				t.Errorf("too much: %q %v", d.ID, d.Metadata)
			}
		}
	}
}

// testConditions tries every operator with every value, on the field with values of every kind and
// on other fields, alone and negated.
func (s *suite) testConditions(t *testing.T) {
	scalars := s.operands()
	for i, v := range scalars {
		exprs := []filter.Expr{filter.Eq("k", v), filter.Contains("k", v),
			filter.In("k", v, scalars[(i+7)%len(scalars)])}
		if i%4 == 0 {
			exprs = append(exprs, filter.Ne("k", v), filter.Not(filter.Contains("k", v)),
				filter.Nin("k", v, "go", int64(1)))
		}
		switch v := v.(type) {
		case string:
			exprs = append(exprs, filter.Gt("k", v), filter.Gte("k", v), filter.Lt("k", v),
				filter.Lte("k", v), filter.Prefix("k", v),
				filter.Not(filter.Gt("k", v)), filter.Not(filter.Lte("k", v)), filter.Not(filter.Prefix("k", v)))
		case int64, float64:
			exprs = append(exprs, filter.Gt("k", v), filter.Gte("k", v), filter.Lt("k", v),
				filter.Lte("k", v), filter.Not(filter.Gte("k", v)))
		}
		for _, e := range exprs {
			s.check(t, e)
		}
	}
	for _, e := range []filter.Expr{
		nil, filter.And(), filter.Or(), filter.Not(filter.And()), filter.Not(filter.Or()),
		filter.And(filter.And(), filter.Or()),
		filter.In("k"), filter.Nin("k"), filter.In("nowhere"), filter.Not(filter.In("nowhere")),
		filter.Eq("nowhere", 1), filter.Ne("nowhere", 1), filter.Exists("nowhere"),
		filter.Not(filter.Exists("nowhere")), filter.Gt("nowhere", 0),
		filter.Not(filter.Gt("nowhere", 0)), filter.Lt("nowhere", "x"), filter.Nin("nowhere", 1, "x"),
		filter.Contains("nowhere", nil), filter.Prefix("nowhere", ""),
		filter.Eq("nowhere", nil), filter.Exists("k"), filter.Not(filter.Exists("k")),
		filter.Eq("k", nil), filter.Prefix("k", "g"), filter.Prefix("k", strings.Repeat("long ", 200)),
		filter.Range("n", 100, 199), filter.Range("n", 99.5, 100.5), filter.Range("n", 200, 100),
		filter.Not(filter.Range("n", 100, 199)),
		filter.Eq("n", 100.0), filter.In("n", 1, 2.0, 3.5, "4"), filter.Eq("lang", "go"),
		filter.Eq("lang", "Go"), filter.Gte("lang", "go"), filter.Lt("lang", "go"),
		filter.Eq("author.name", "ann"), filter.Exists("author.name"), filter.Exists("author"),
		filter.Eq("author", "ann"), filter.Exists("author.born"),
		filter.Gte("author.born", 2100), filter.Eq("a.b", "go"), filter.Exists("a.b"),
		filter.Exists("a-b"), filter.Contains("tags", "t3"), filter.Contains("tags", 23),
		filter.Contains("tags", "all"), filter.Not(filter.Contains("tags", "all")),
		filter.Eq("tags", "all"), filter.Exists("tags"), filter.Prefix("tags", "t"),
		filter.Exists("id"), filter.Exists("_id"), filter.Exists("docid"), filter.Exists("text"),
		filter.Exists("größe"), filter.Exists("日本"), filter.Exists("a b"), filter.Exists("a/b"),
		filter.Exists(`"`), filter.Exists(`\`), filter.Exists("*"), filter.Exists("K"),
		filter.Exists("k "), filter.Exists(" k"), filter.Exists("0"),
		filter.Exists("k.deep"), filter.Eq("k.deep.er", "x"), filter.Eq("k.age", 30),
		filter.Exists(strings.Repeat("key", 85)),
	} {
		s.check(t, e)
		if e != nil {
			same(t, fmt.Sprint("scan ", e), s.want(e), keysOf(s.all(t, s.c, 300, e)))
		}
	}
}

func (s *suite) testRandomConditions(t *testing.T) {
	const seed = 3
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, seed))
	scalars := s.operands()
	fields := []string{"k", "n", "lang", "author.name", "author.born", "tags", "a-b", "id", "größe", "nowhere"}
	var random func(depth int) filter.Expr
	random = func(depth int) filter.Expr {
		field, v := fields[rng.IntN(len(fields))], scalars[rng.IntN(len(scalars))]
		if field == "n" || field == "author.born" {
			v = int64(rng.IntN(320))
		}
		kinds := 11
		if depth == 0 {
			kinds = 8
		}
		switch rng.IntN(kinds) {
		case 0:
			return filter.Eq(field, v)
		case 1:
			return filter.In(field, v, scalars[rng.IntN(len(scalars))], int64(rng.IntN(300)))
		case 2:
			return filter.Exists(field)
		case 3:
			return filter.Contains(field, v)
		case 4, 5, 6, 7:
			switch v.(type) {
			case bool, nil:
				return filter.Ne(field, v)
			}
			return []filter.Expr{filter.Gt(field, v), filter.Gte(field, v), filter.Lt(field, v),
				filter.Lte(field, v)}[rng.IntN(4)]
		case 8:
			return filter.Not(random(depth - 1))
		case 9:
			return filter.And(random(depth-1), random(depth-1))
		}
		return filter.Or(random(depth-1), random(depth-1), random(depth-1))
	}
	for range 150 {
		s.check(t, random(4))
	}
	for range 15 {
		where := random(3)
		same(t, fmt.Sprint("scan ", where), s.want(where), keysOf(s.all(t, s.c, 1000, where)))
	}
}

func (s *suite) testPages(t *testing.T) {
	for _, limit := range []int{1, 7, 100, len(s.docs), 1000} {
		for _, where := range []filter.Expr{nil, filter.And(), filter.Eq("lang", "go"),
			filter.Ne("lang", "go"), filter.Gt("k", "go"), filter.Or()} {
			if limit == 1 && where != nil {
				continue // needs one request per document
			}
			got := s.all(t, s.c, limit, where)
			same(t, fmt.Sprint("scan by ", limit, " ", where), s.want(where), keysOf(got))
			for i := range s.docs {
				if d := got[s.docs[i].ID]; d != nil {
					same(t, "document of a page", &s.docs[i], d)
				}
			}
		}
	}
}

// epsilon is the largest error of a score.
const epsilon = 1e-5

func (s *suite) testVectors(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	random := func() []float32 {
		v := make([]float32, s.dim)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	zero := make([]float32, s.dim)
	queries := [][]float32{s.docs[1].Vector, s.docs[24].Vector, s.docs[25].Vector, zero}
	for range 12 {
		queries = append(queries, random())
	}
	wanted, found := 0, 0
	for i, v := range queries {
		for _, where := range []filter.Expr{nil, filter.Eq("lang", "go"), filter.Lt("n", 60),
			filter.Ne("k", "go"), filter.And(filter.Gte("k", "2024-02"), filter.Exists("n")),
			filter.Eq("n", 40), filter.Eq("nowhere", 1), filter.Or()} {
			for _, k := range []int{1, 10, 1000} {
				if k == 1000 && i > 4 {
					continue
				}
				hits, err := s.c.Query(t.Context(), v, k, where)
				if err != nil {
					t.Fatalf("query %v: %v", where, err)
				}
				w, f := s.checkHits(t, v, k, where, hits)
				wanted, found = wanted+w, found+f
			}
		}
	}
	if recall := float64(found) / float64(wanted); recall < s.recall {
		t.Errorf("recall %v, want %v: %d of %d", recall, s.recall, found, wanted)
	}
}

// checkHits compares hits with brute force: their documents, scores and order. It returns the
// number of true hits and the number of true hits found.
func (s *suite) checkHits(t *testing.T, v []float32, k int, where filter.Expr, hits []db.Hit) (wanted, found int) {
	t.Helper()
	byID, scores := map[string]*db.Document{}, []float64(nil)
	for i := range s.docs {
		if d := &s.docs[i]; len(d.Vector) > 0 && store.Matches(where, d) {
			byID[d.ID] = d
			scores = append(scores, simd.Cosine64(v, d.Vector))
		}
	}
	slices.SortFunc(scores, func(a, b float64) int { return cmp.Compare(b, a) })
	scores = scores[:min(k, len(scores))]
	if s.recall == 1 && len(hits) != len(scores) || len(hits) > len(scores) {
		t.Fatalf("query with k %d, where %v: %d hits of %d", k, where, len(hits), len(scores))
	}
	seen := map[string]bool{}
	for i, h := range hits {
		d := byID[h.ID]
		if d == nil || seen[h.ID] {
			t.Fatalf("query where %v: hit %q does not match, or comes twice", where, h.ID)
		}
		seen[h.ID] = true
		same(t, "text of hit", d.Text, h.Text)
		same(t, "metadata of hit", d.Metadata, h.Metadata)
		score := simd.Cosine64(v, d.Vector)
		if !(math.Abs(score-h.Score) <= epsilon) || h.Score < -1 || h.Score > 1 {
			t.Fatalf("hit %q has score %v, want %v", h.ID, h.Score, score)
		}
		if i > 0 && (hits[i-1].Score < h.Score || hits[i-1].Score == h.Score && hits[i-1].ID > h.ID) {
			t.Fatalf("hits %q (%v) and %q (%v) are out of order", hits[i-1].ID, hits[i-1].Score, h.ID, h.Score)
		}
		if score >= scores[len(scores)-1]-epsilon {
			found++
		}
	}
	return len(scores), found
}

func (s *suite) testTexts(t *testing.T) {
	ctx := t.Context()
	for _, c := range []struct {
		text  string
		words []string // a hit must contain one of them
		where filter.Expr
	}{
		{"bolt", []string{"bolt"}, nil},
		{"BOLT", []string{"bolt"}, nil},
		{"number7 absent", []string{"number7"}, nil},
		{"number7 number8", []string{"number7", "number8"}, nil},
		{`+number7 -bolt "number8"`, []string{"number7", "number8", "bolt"}, nil},
		{"graph", []string{"graph"}, filter.Eq("lang", "go")},
		{"graph", []string{"graph"}, filter.Gt("k", "2024-02")},
		{"graph", []string{"graph"}, filter.Eq("nowhere", 1)},
		{"graph", []string{"graph"}, filter.Or()},
		{"absent", nil, nil}, {"", nil, nil}, {" \n", nil, nil}, {`"`, nil, nil}, {"+", nil, nil},
	} {
		var want []string
		for i := range s.docs {
			tokens := strings.Fields(s.docs[i].Text)
			if store.Matches(c.where, &s.docs[i]) &&
				slices.ContainsFunc(c.words, func(w string) bool { return slices.Contains(tokens, w) }) {
				want = append(want, s.docs[i].ID)
			}
		}
		slices.Sort(want)
		hits, err := s.c.TextQuery(ctx, c.text, 1000, c.where)
		if err != nil {
			t.Fatalf("%q: %v", c.text, err)
		}
		var got []string
		for i, h := range hits {
			got = append(got, h.ID)
			if h.Score <= 0 || i > 0 && (hits[i-1].Score < h.Score || hits[i-1].Score == h.Score &&
				hits[i-1].ID > h.ID) {
				t.Errorf("%q: hit %d has score %v", c.text, i, h.Score)
			}
			j := slices.IndexFunc(s.docs, func(d db.Document) bool { return d.ID == h.ID })
			if j < 0 {
				t.Fatalf("%q: hit %q does not exist", c.text, h.ID)
			}
			same(t, "hit", db.Document{ID: h.ID, Text: s.docs[j].Text, Metadata: s.docs[j].Metadata}, h.Document)
		}
		slices.Sort(got)
		same(t, fmt.Sprintf("hits for %q where %v", c.text, c.where), want, got)
		if len(want) > 3 {
			if hits, err := s.c.TextQuery(ctx, c.text, 3, c.where); err != nil || len(hits) != 3 {
				t.Errorf("%q: %d hits, %v", c.text, len(hits), err)
			}
		}
	}
	// A document with both words ranks above a document with the more frequent word only.
	hits, err := s.c.TextQuery(ctx, "bolt number7", 1, nil)
	if err != nil || len(hits) != 1 || !strings.Contains(hits[0].Text, "number7") {
		t.Errorf("best for two words: %v, %v", hits, err)
	}
}

func (s *suite) testCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	calls := map[string]error{}
	calls["upsert"] = s.c.Upsert(ctx, s.docs[:50])
	_, calls["query"] = s.c.Query(ctx, s.docs[0].Vector, 10, nil)
	_, calls["text query"] = s.c.TextQuery(ctx, "bolt", 10, nil)
	for call, err := range calls {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", call, err)
		}
	}
}

func (s *suite) testDelete(t *testing.T) {
	ctx := t.Context()
	left := func(what string) {
		t.Helper()
		same(t, what, s.want(nil), keysOf(s.all(t, s.c, 200, nil)))
		if n, err := s.c.Count(ctx, nil); err != nil || n != len(s.docs) {
			t.Fatalf("%s: count %d, want %d, %v", what, n, len(s.docs), err)
		}
	}
	ids := []string{s.docs[0].ID, s.docs[5].ID, "no such", s.docs[5].ID, s.docs[22].ID}
	for i, want := range []int{3, 0} {
		if n, err := s.c.Delete(ctx, ids); err != nil || n != want {
			t.Errorf("delete, call %d: %d, want %d, %v", i, n, want, err)
		}
	}
	s.docs = slices.DeleteFunc(s.docs, func(d db.Document) bool { return slices.Contains(ids, d.ID) })
	left("after Delete")
	if n, err := s.c.Delete(ctx, nil); err != nil || n != 0 {
		t.Errorf("delete nothing: %d, %v", n, err)
	}
	if docs, err := s.c.Get(ctx, ids); err != nil ||
		slices.ContainsFunc(docs, func(d *db.Document) bool { return d != nil }) {
		t.Errorf("deleted documents are there: %v, %v", docs, err)
	}
	for _, where := range []filter.Expr{filter.Eq("nowhere", 1), filter.Or(), filter.Eq("lang", "go"),
		filter.Range("n", 50, 80), filter.Gt("k", "2024-02"),
		filter.Not(filter.Exists("n")), filter.And()} {
		want := len(s.want(where))
		n, err := s.c.DeleteWhere(ctx, where)
		if err != nil || n != want {
			t.Errorf("delete where %v: %d, want %d, %v", where, n, want, err)
		}
		s.docs = slices.DeleteFunc(s.docs, func(d db.Document) bool { return store.Matches(where, &d) })
		left(fmt.Sprint("after deleting where ", where))
		if len(s.docs) > 0 {
			v := s.docs[0].Vector
			if v == nil {
				v = s.docs[1].Vector
			}
			hits, err := s.c.Query(ctx, v, 1000, nil)
			if err != nil {
				t.Fatal(err)
			}
			s.checkHits(t, v, 1000, nil, hits)
		}
	}
}
