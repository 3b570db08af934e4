package store_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/store"
	"github.com/vecbolt/vecbolt/store/storetest"
)

// Over an embedded collection, an Adapter answers as the collection itself does.
func TestSearcherEqualsDatabase(t *testing.T) {
	ctx := t.Context()
	coll, err := open(t).CreateCollection(ctx, "c", db.Schema{Dim: 8, Text: &db.TextIndex{Language: "none"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := coll.Upsert(ctx, storetest.Documents(8)...); err != nil {
		t.Fatal(err)
	}
	c, err := store.OfCollection(coll)
	if err != nil {
		t.Fatal(err)
	}
	s := store.NewAdapter(c)
	rng := rand.New(rand.NewPCG(2, 2))
	vector := func() []float32 {
		v := make([]float32, 8)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	threshold := 0.4
	var fused [][]db.Query
	for i := range 60 {
		// An Adapter knows the ranks of the best alone: with lists of everything, all ranks.
		q := db.Query{Near: db.Vector(vector()), Text: []string{"bolt", "graph nut", "number7 vector", "absent"}[i%4], K: 1 + rng.IntN(20), Offset: i % 3,
			Fusion: db.Fusion{Method: db.FusionMethod(i % 2), Depth: 400}}
		switch i % 5 {
		case 1:
			q.Text = ""
		case 2:
			q.Near = nil
		case 3:
			q.Where, q.Threshold = filter.Eq("lang", "go"), &threshold
		case 4:
			q.Near, q.Select = db.Stored("doc-101"), db.WithVector|db.WithText
			q.Fusion.Vector, q.Fusion.Text = 0.7, 0.2
		}
		compare(t, s, coll, []db.Query{q})
		fused = append(fused, []db.Query{q, {Near: db.Vector(vector()), Where: filter.Lt("n", 100)}, {Text: "bolt"}})
	}
	for i, queries := range fused {
		if i%4 == 0 {
			compare(t, s, coll, queries, 1, 0.5, 2)
		}
		compare(t, s, coll, queries)
	}
	for _, q := range []db.ListQuery{{}, {Limit: 7, Offset: 3, Where: filter.Eq("lang", "c")}, {After: "doc-100", Limit: 1000, Select: db.Everything}, {Where: filter.Or()}} {
		want, err := coll.List(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.List(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.Documents, got.Documents); diff != "" && len(want.Documents) > 0 || want.Total != got.Total || want.Next != got.Next {
			t.Errorf("%+v: %s %d %d", q, diff, want.Total, got.Total)
		}
	}
}

func compare(t *testing.T, s *store.Adapter, coll *db.Collection, queries []db.Query, weights ...float64) {
	t.Helper()
	ctx := t.Context()
	ask := func(one func(db.Query) (*db.Result, error), many func([]db.Query) (*db.Result, error)) []db.Hit {
		t.Helper()
		f := func() (*db.Result, error) { return many(queries) }
		if len(queries) == 1 {
			f = func() (*db.Result, error) { return one(queries[0]) }
		}
		r, err := f()
		if err != nil {
			t.Fatalf("%+v: %v", queries, err)
		}
		return r.Hits
	}
	want := ask(func(q db.Query) (*db.Result, error) { return coll.Search(ctx, q) },
		func(qs []db.Query) (*db.Result, error) { return coll.SearchFused(ctx, qs, weights...) })
	got := ask(func(q db.Query) (*db.Result, error) { return s.Search(ctx, q) },
		func(qs []db.Query) (*db.Result, error) { return s.SearchFused(ctx, qs, weights...) })
	if len(want) == 0 && len(got) == 0 {
		return
	}
	if q := queries[0]; len(queries) == 1 && q.Fusion.Method == db.RRF { // which completes scores that say nothing here
		for i := range want {
			want[i].Legs = nil
		}
		for i := range got {
			got[i].Legs = nil
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%+v (-database +searcher):\n%s", fmt.Sprintf("%+v", queries), diff)
	}
}

func TestSearcherRefuses(t *testing.T) {
	ctx := t.Context()
	c, err := store.Embedded(open(t)).Create(ctx, "c", store.Schema{Dim: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Upsert(ctx, []db.Document{{ID: "bare"}}); err != nil {
		t.Fatal(err)
	}
	s := store.NewAdapter(c)
	v := []float32{1, 0}
	for _, q := range []db.Query{{}, {Near: db.Vector{}, Text: "x"}, {Near: db.Stored("bare")}, {Near: db.Examples{Like: []string{"bare"}}}, {Near: db.Vector(v), Group: &db.Group{Field: "x"}}, {Near: db.Vector(v), MMR: &db.MMR{}},
		{Near: db.Vector(v), Accuracy: db.Exact}, {Near: db.Vector(v), Snippet: 10}, {Near: db.Vector(v), K: -1}, {Near: db.Vector(v), K: store.MaxK, Offset: 1}, {Near: db.Vector(v), Text: "x"},
		{Near: db.Vector(v), K: math.MaxInt}, {Near: db.Vector(v), Offset: math.MaxInt}, {Near: db.Vector(v), K: math.MaxInt, Offset: math.MaxInt},
		{Near: db.Vector(v), K: math.MinInt, Offset: math.MaxInt}, {Near: db.Vector(v), Fusion: db.Fusion{Text: -1}}} {
		if _, err := s.Search(ctx, q); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	if _, err := s.Search(ctx, db.Query{Near: db.Stored("nobody")}); !errors.Is(err, db.ErrNotFound) {
		t.Error(err)
	}
	if _, err := s.SearchFused(ctx, []db.Query{{Near: db.Vector(v)}}, 1, 2); !errors.Is(err, db.ErrInvalid) {
		t.Error(err)
	}
	for _, weight := range []float64{0, -1, math.NaN(), 2e6} {
		if _, err := s.SearchFused(ctx, []db.Query{{Near: db.Vector(v)}}, weight); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("weight %v: %v", weight, err)
		}
	}
	for _, q := range []db.Query{{K: -1}, {K: -1, Offset: 2}, {K: math.MaxInt, Offset: math.MaxInt}, {Offset: -1}, {K: store.MaxK + 1}} {
		q.Near = db.Vector(v)
		if _, err := s.SearchFused(ctx, []db.Query{q}); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}
