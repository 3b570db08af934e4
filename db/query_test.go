package db

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/score"
	"github.com/vecbolt/vecbolt/simd"
)

// A zoo is a collection and the data for a reference answer: documents in the head
// and in segments, some deleted, with groups of all kinds and sizes.
type zoo struct {
	c      *Collection
	metric Metric
	docs   map[string]Document
	rng    *rand.Rand
}

func newZoo(t *testing.T, metric Metric, kind string) *zoo {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, uint64(metric)))
	vdb := open(t, t.TempDir(), &Options{Sync: SyncNever, tests: testOptions{codedBytes: 1}})
	w := &zoo{c: collection(t, vdb, "c", Schema{Dim: 9, Metric: metric}), metric: metric, docs: map[string]Document{}, rng: rng}
	groups := []any{"a", "a", "a", "a", "b", int64(1), 1.0, 1.5, true, false, "", int64(math.MaxInt64), nil, []any{"a"}, map[string]any{"x": "a"}}
	var docs []Document
	for i, v := range vectorsOf(kind, rng, 600, 9) {
		m := Metadata{"i": int64(i)}
		switch {
		case i%5 == 0: // in a large group
			m["g"] = "a"
		case i%7 != 0:
			m["g"] = groups[rng.IntN(len(groups))]
		}
		if i%3 == 0 {
			m["many"] = map[string]any{"n": int64(rng.IntN(150))}
		}
		d := Document{ID: fmt.Sprint((i * 7919) % 10_007), Vector: v, Metadata: m}
		if i%50 == 17 {
			d.Vector = nil
		}
		w.docs[d.ID] = d
		docs = append(docs, d)
		if i == 300 || i == 450 {
			upsert(t, w.c, docs...)
			docs = nil
			if err := vdb.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	upsert(t, w.c, docs...)
	for _, id := range slices.Sorted(maps.Keys(w.docs))[:40] {
		delete(w.docs, id)
		if _, err := w.c.Delete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// withVectors returns the ids of documents with a vector, in order.
func (w *zoo) withVectors() []string {
	var all []string
	for _, id := range slices.Sorted(maps.Keys(w.docs)) {
		if w.docs[id].Vector != nil {
			all = append(all, id)
		}
	}
	return all
}

// query draws a query without Group and MMR.
func (w *zoo) query(kind string) Query {
	q := Query{Near: Vector(vectorsOf(kind, w.rng, 1, 9)[0]), K: []int{1, 3, 10, 1000}[w.rng.IntN(4)], Offset: w.rng.IntN(3)}
	some := w.withVectors()
	pick := func() string { return some[w.rng.IntN(len(some))] }
	switch w.rng.IntN(4) {
	case 0:
		q.Near = Stored(pick())
	case 1:
		e := Examples{Like: []string{pick()}}
		if w.rng.IntN(2) == 0 {
			e.Like = append(e.Like, pick(), pick())
		}
		if w.rng.IntN(2) == 0 {
			e.Unlike = []string{pick(), pick()}
		}
		q.Near = e
	}
	switch w.rng.IntN(3) {
	case 0:
		q.Where = filter.Lt("i", 40+w.rng.IntN(500))
	case 1:
		all := w.ranked(q)
		q.Threshold = &all[len(all)/2].Score
	}
	return q
}

// ranked returns all that matches, in order.
func (w *zoo) ranked(q Query) []Hit {
	docs := w.docs
	if id, ok := q.Near.(Stored); ok {
		q.Near = Vector(docs[string(id)].Vector)
	}
	if e, ok := q.Near.(Examples); ok {
		docs = maps.Clone(docs)
		vec := make(Vector, 9)
		mean := func(ids []string, i int) (m float64) {
			for _, id := range ids {
				v := w.docs[id].Vector
				n := 1.0
				if w.metric == Cosine {
					if n = math.Sqrt(simd.Dot64(v, v)); n == 0 {
						n = 1
					}
				}
				m += float64(v[i]) / n
				delete(docs, id)
			}
			return m / float64(len(ids))
		}
		for i := range vec {
			m := mean(e.Like, i)
			if e.Unlike != nil {
				m = 2*m - mean(e.Unlike, i)
			}
			vec[i] = float32(m)
		}
		q.Near = vec
	}
	q.K, q.Offset = len(docs)+1, 0
	return bruteForce(docs, w.metric, q)
}

// grouped is the reference of Group.
func (w *zoo) grouped(q Query) []Hit {
	key := func(v any) (string, bool) {
		switch v := v.(type) {
		case string:
			return "s" + v, true
		case bool:
			return fmt.Sprint(v), true
		case int64:
			return fmt.Sprintf("n%d", v), true
		case float64:
			return fmt.Sprintf("n%v", v), true
		}
		return "", false
	}
	var order []string
	groups := map[string][]Hit{}
	for _, h := range w.ranked(q) {
		h.Group, _ = filter.Lookup(h.Metadata, q.Group.Field)
		k, ok := key(h.Group)
		if !ok {
			continue
		}
		if groups[k] == nil {
			order = append(order, k)
		}
		if len(groups[k]) < max(1, q.Group.Size) {
			groups[k] = append(groups[k], h)
		}
	}
	var hits []Hit
	for _, k := range order[min(q.Offset, len(order)):min(q.limit(), len(order))] {
		hits = append(hits, groups[k]...)
	}
	return hits
}

// diversified is the reference of MMR.
func (w *zoo) diversified(q Query) []Hit {
	fetch := q.MMR.Fetch
	if fetch == 0 {
		fetch = 5 * q.limit()
	}
	best := w.ranked(q)
	best = best[:min(fetch, len(best))]
	var hits []Hit
	for len(hits) < q.limit() && len(best) > 0 {
		value := func(h Hit) float64 {
			v := q.MMR.Lambda * h.Score
			worst := math.Inf(-1)
			for _, o := range hits {
				s := score.New(w.metric, o.Vector)
				worst = max(worst, s.Score(h.Vector))
			}
			if len(hits) > 0 {
				v -= (1 - q.MMR.Lambda) * worst
			}
			return v
		}
		most := 0
		for i := range best {
			if value(best[i]) > value(best[most]) {
				most = i
			}
		}
		hits = append(hits, best[most])
		best = slices.Delete(best, most, most+1)
	}
	return hits[min(q.Offset, len(hits)):]
}

// Groups, maximal marginal relevance and recommendations are what plain
// references make of all scores, alone and in batches.
func TestQueriesEqualReferences(t *testing.T) {
	for _, metric := range []Metric{Cosine, Dot, L2} {
		for _, kind := range []string{"normal", "duplicates", "zero"} {
			t.Run(fmt.Sprint(metric, "/", kind), func(t *testing.T) {
				w := newZoo(t, metric, kind)
				var queries []Query
				var want [][]Hit
				for i := range 60 {
					q := w.query(kind)
					switch i % 3 {
					case 0:
						hits := w.ranked(q)
						want = append(want, hits[min(q.Offset, len(hits)):min(q.limit(), len(hits))])
					case 1:
						q.Group = &Group{Field: []string{"g", "many.n", "i", "nowhere"}[w.rng.IntN(4)], Size: w.rng.IntN(4)}
						want = append(want, w.grouped(q))
					case 2:
						q.K = min(q.K, 30)
						q.MMR = &MMR{Lambda: []float64{0, 0.3, 0.5, 1}[w.rng.IntN(4)]}
						if w.rng.IntN(2) == 0 {
							q.MMR.Fetch = q.limit() + w.rng.IntN(20)
						}
						want = append(want, w.diversified(q))
					}
					queries = append(queries, q)
				}
				results, err := w.c.SearchBatch(t.Context(), queries)
				if err != nil {
					t.Fatal(err)
				}
				for i, q := range queries {
					got, err := w.c.Search(t.Context(), q)
					if err != nil {
						t.Fatal(err)
					}
					sameHits(t, want[i], got)
					if diff := cmp.Diff(got, results[i]); diff != "" {
						t.Fatalf("query %d alone and in a batch: %s", i, diff)
					}
					for j, h := range got.Hits {
						if q.Group != nil && !cmp.Equal(h.Group, want[i][j].Group) {
							t.Fatalf("query %d hit %d is of group %v, want %v", i, j, h.Group, want[i][j].Group)
						}
					}
					if got.Recall != 1 {
						t.Fatalf("recall %v", got.Recall)
					}
				}
			})
		}
	}
}

func TestInvalidQueries(t *testing.T) {
	vdb := open(t, t.TempDir(), nil)
	c := collection(t, vdb, "c", Schema{Dim: 2, Metric: Dot})
	upsert(t, c, Document{ID: "a", Vector: []float32{1, 2}}, Document{ID: "bare"},
		Document{ID: "huge", Vector: []float32{math.MaxFloat32, 0}}, Document{ID: "low", Vector: []float32{-math.MaxFloat32, 0}})
	v := []float32{1, 1}
	for _, q := range []Query{
		{},
		{Near: Examples{Unlike: []string{"a"}}},
		{Near: Examples{Like: []string{"bare"}}},
		{Near: Examples{Like: []string{"huge"}, Unlike: []string{"low"}}},
		{Near: Vector(v), Group: &Group{}},
		{Near: Vector(v), Group: &Group{Field: "$g"}},
		{Near: Vector(v), Group: &Group{Field: "g", Size: -1}},
		{Near: Vector(v), Group: &Group{Field: "g"}, MMR: &MMR{}},
		{Near: Vector(v), MMR: &MMR{Lambda: -0.1}},
		{Near: Vector(v), MMR: &MMR{Lambda: 1.1}},
		{Near: Vector(v), MMR: &MMR{Lambda: math.NaN()}},
		{Near: Vector(v), MMR: &MMR{Fetch: 9}},
		{Near: Vector(v), MMR: &MMR{Fetch: -1}},
		{Near: Vector(v), Accuracy: Recall(-0.1)},
		{Near: Vector(v), Accuracy: Recall(1.1)},
		{Near: Vector(v), Accuracy: Recall(math.NaN())},
		{Near: Vector(v), Accuracy: EF(-1)},
	} {
		if _, err := c.Search(t.Context(), q); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	if _, err := c.Search(t.Context(), Query{Near: Examples{Like: []string{"a", "nobody"}}}); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	for _, q := range []Query{{Near: Vector(v), Accuracy: Recall(0.5)}, {Near: Vector(v), Accuracy: EF(7)}, {Near: Vector(v), Accuracy: Recall(1)}} {
		if r, err := c.Search(t.Context(), q); err != nil || !r.Exact || len(r.Hits) != 3 {
			t.Errorf("%+v %v", r, err)
		}
	}
}
