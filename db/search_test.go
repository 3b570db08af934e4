package db

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/score"
	"github.com/vecbolt/vecbolt/segment"
	"github.com/vecbolt/vecbolt/simd"
)

// bruteForce is the oracle: the canonical score of every document, sorted.
func bruteForce(docs map[string]Document, metric Metric, q Query) []Hit {
	vec, _ := q.Near.(Vector)
	score := func(x []float32) float64 {
		switch metric {
		case Dot:
			return simd.Dot64(x, vec)
		case L2:
			return -simd.L264(x, vec)
		}
		n := math.Sqrt(simd.Dot64(x, x)) * math.Sqrt(simd.Dot64(vec, vec))
		if n == 0 {
			return 0
		}
		return max(-1, min(1, simd.Dot64(x, vec)/n))
	}
	var hits []Hit
	for _, d := range docs {
		if len(d.Vector) == 0 {
			continue
		}
		if q.Where != nil && !filter.Match(q.Where, func(path string) (any, bool) { return filter.Lookup(d.Metadata, path) }) {
			continue
		}
		if s := score(d.Vector); q.Threshold == nil || s >= *q.Threshold {
			hits = append(hits, Hit{Document: d, Score: s})
		}
	}
	slices.SortFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID))
	})
	return hits[min(q.Offset, len(hits)):min(q.limit(), len(hits))]
}

func sameHits(t testing.TB, want []Hit, got *Result) {
	t.Helper()
	if !got.Exact || !got.Complete {
		t.Errorf("exact %v, complete %v", got.Exact, got.Complete)
	}
	if len(want) != len(got.Hits) {
		t.Fatalf("%d hits, want %d", len(got.Hits), len(want))
	}
	for i := range want {
		w, g := want[i], got.Hits[i]
		if w.ID != g.ID || math.Float64bits(w.Score+0) != math.Float64bits(g.Score) {
			t.Fatalf("hit %d is %q %v, want %q %v", i, g.ID, g.Score, w.ID, w.Score)
		}
	}
}

// vectorsOf draws the kinds of vectors that break bounds.
func vectorsOf(kind string, rng *rand.Rand, n, dim int) [][]float32 {
	vecs := randomVectors(rng, n, dim)
	switch kind {
	case "clustered":
		for i, v := range vecs {
			for j := range v {
				v[j] = float32(i%7) + v[j]*1e-6
			}
		}
	case "duplicates":
		for i := range vecs {
			vecs[i] = slices.Clone(vecs[i%5])
		}
	case "zero":
		for i, v := range vecs {
			if i%3 == 0 {
				clear(v)
			}
		}
	case "huge":
		for i, v := range vecs {
			for j := range v {
				v[j] = float32(math.Copysign(math.MaxFloat32/float64(1+i%4), float64(v[j])))
			}
		}
	case "tiny":
		for _, v := range vecs {
			for j := range v {
				v[j] = float32(float64(v[j]) * 1e-44)
			}
		}
	case "scales":
		for i, v := range vecs {
			for j := range v {
				v[j] *= float32(math.Pow(10, float64(i%70-35)))
			}
		}
	case "cone":
		for _, v := range vecs {
			for j := range v {
				v[j] = 100 + v[j]*1e-3
			}
		}
	}
	return vecs
}

var vectorKinds = []string{"normal", "clustered", "duplicates", "zero", "huge", "tiny", "scales", "cone"}

// Search equals brute force in ids, order and score bits: for every metric
// and every kind of vectors, in the head and in segments, with deletes,
// filters, thresholds and offsets.
func TestSearchEqualsBruteForce(t *testing.T) {
	t.Parallel() // one core each
	for _, metric := range []Metric{Cosine, Dot, L2} {
		for _, kind := range vectorKinds {
			t.Run(fmt.Sprint(metric, "/", kind), func(t *testing.T) {
				ctx := t.Context()
				rng := rand.New(rand.NewPCG(1, uint64(metric)))
				// Codes for every segment, however small, that is compacted.
				vdb := open(t, t.TempDir(), &Options{Sync: SyncNever, Workers: 3, tests: testOptions{codedBytes: 1, worthHelp: 1}})
				for _, dim := range []int{1, 3, 17, 100} {
					c := collection(t, vdb, fmt.Sprint(dim), Schema{Dim: dim, Metric: metric})
					vecs := vectorsOf(kind, rng, 700, dim)
					docs := map[string]Document{}
					for i, v := range vecs {
						d := Document{ID: fmt.Sprint((i * 7919) % 10_007), Vector: v, Metadata: Metadata{"i": int64(i), "even": i%2 == 0}}
						docs[d.ID] = d
						upsert(t, c, d)
						if i%10 == 3 {
							gone := fmt.Sprint(((i - 2) * 7919) % 10_007)
							delete(docs, gone)
							if _, err := c.Delete(ctx, gone); err != nil {
								t.Fatal(err)
							}
						}
						if i == 300 {
							if err := vdb.Compact(ctx); err != nil {
								t.Fatal(err)
							}
						}
						if i == 500 {
							if err := vdb.Flush(ctx); err != nil {
								t.Fatal(err)
							}
						}
					}
					var batch []Query
					var answers [][]Hit
					vectors := append(vectorsOf(kind, rng, 6, dim), vecs[0], vecs[350], make([]float32, dim))
					for i, vec := range vectors {
						q := Query{Near: Vector(vec), K: []int{1, 10, 2000}[i%3], Offset: i % 2 * 3}
						switch i % 4 {
						case 1:
							q.Where = filter.Eq("even", true)
						case 2:
							q.Where = filter.Lt("i", 40)
						case 3:
							all := bruteForce(docs, metric, Query{Near: Vector(vec), K: 50})
							q.Threshold = &all[20].Score // inclusive
						}
						want := bruteForce(docs, metric, q)
						res, err := c.Search(ctx, q)
						if err != nil {
							t.Fatal(err)
						}
						sameHits(t, want, res)
						batch, answers = append(batch, q), append(answers, want)
					}
					results, err := c.SearchBatch(ctx, batch)
					if err != nil {
						t.Fatal(err)
					}
					for i, want := range answers {
						sameHits(t, want, results[i])
					}
				}
			})
		}
	}
}

// The bounds of fast scores hold for all vectors.
func TestScoreBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		metric := Metric(rapid.IntRange(0, 2).Draw(t, "metric"))
		dim := rapid.IntRange(1, 70).Draw(t, "dim")
		component := rapid.OneOf(
			rapid.Float32(),
			rapid.Float32Range(-1, 1),
			rapid.SampledFrom([]float32{0, 1, -1, math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, 1e-39, 1e38, 1e-20}))
		vec := rapid.SliceOfN(component.Filter(func(f float32) bool { return simd.Finite([]float32{f}) }), dim, dim)
		x, q := vec.Draw(t, "x"), vec.Draw(t, "q")
		s := score.New(metric, q)
		inv, fast := segment.InvNorm(x), s.Fast()
		raw := fast.Kernel(x)
		lower, upper := fast.Bounds(raw, inv)
		if score := s.Score(x); !(lower <= score && score <= upper) {
			t.Fatalf("score %v outside [%v, %v]", score, lower, upper)
		}
	})
}

func TestResultsForKArePrefixOfResultsFor2K(t *testing.T) {
	ctx := t.Context()
	rng := rand.New(rand.NewPCG(3, 3))
	vdb := open(t, t.TempDir(), nil)
	c := collection(t, vdb, "c", Schema{Dim: 8})
	for i, v := range vectorsOf("duplicates", rng, 400, 8) {
		upsert(t, c, Document{ID: fmt.Sprint(i), Vector: v})
	}
	q := randomVectors(rng, 1, 8)[0]
	long, err := c.Search(ctx, Query{Near: Vector(q), K: 1000})
	if err != nil || len(long.Hits) != 400 {
		t.Fatalf("%v, %d hits", err, len(long.Hits))
	}
	for k := 1; k <= 400; k += 13 {
		short, err := c.Search(ctx, Query{Near: Vector(q), K: k})
		if err != nil || !slices.Equal(ids(short.Hits), ids(long.Hits[:k])) {
			t.Fatalf("k=%d: %v %v", k, err, ids(short.Hits))
		}
	}
}

func TestSearchEdges(t *testing.T) {
	ctx := t.Context()
	vdb := open(t, t.TempDir(), nil)
	c := collection(t, vdb, "c", Schema{Dim: 2})
	res, err := c.Search(ctx, Query{Near: Vector{1, 0}})
	if err != nil || res.Hits == nil || len(res.Hits) != 0 {
		t.Fatalf("empty collection: %+v %v", res, err)
	}
	upsert(t, c, Document{ID: "bare"}, Document{ID: "a", Vector: []float32{1, 0}}, Document{ID: "zero", Vector: []float32{0, 0}})
	for _, tt := range []struct {
		q    Query
		want error
	}{
		{Query{Near: Vector{1}}, ErrDimensionMismatch},
		{Query{Near: Vector{1, float32(math.NaN())}}, ErrInvalid},
		{Query{}, ErrInvalid},
		{Query{Near: Vector{1, 0}, K: -1}, ErrInvalid},
		{Query{Near: Vector{1, 0}, Offset: -1}, ErrInvalid},
		{Query{Near: Vector{1, 0}, Threshold: new(math.NaN())}, ErrInvalid},
		{Query{Near: Vector{1, 0}, Where: filter.Eq("x", math.Inf(1))}, ErrInvalid},
		{Query{Near: Stored("none")}, ErrNotFound},
		{Query{Near: Stored("bare")}, ErrInvalid},
	} {
		if _, err := c.Search(ctx, tt.q); !errors.Is(err, tt.want) {
			t.Errorf("%+v: %v", tt.q, err)
		}
	}
	res, err = c.Search(ctx, Query{Near: Stored("a"), Threshold: new(0.0)})
	if err != nil || !slices.Equal(ids(res.Hits), []string{"a", "zero"}) || res.Hits[0].Score != 1 || res.Hits[1].Score != 0 {
		t.Fatalf("%+v %v", res, err)
	}
	if res.Matched != 2 || res.Considered != 2 {
		t.Errorf("matched %d, considered %d", res.Matched, res.Considered)
	}
	res, err = c.Search(ctx, Query{Near: Vector{1, 0}, Offset: 5})
	if err != nil || len(res.Hits) != 0 {
		t.Fatalf("offset beyond the end: %+v %v", res, err)
	}
}

// Batches that walk graphs for floors first give exact answers, as brute force does: with several
// kinds of vectors, where rows tie with the floor, where few rows are dead and where many are, with
// two graphs, and for queries with a filter or a threshold beside them.
func TestBatchOverGraphs(t *testing.T) {
	t.Parallel()
	const dim, rows = 12, 500
	kinds := []string{"normal", "clustered", "duplicates", "zero", "scales"}
	if testing.Short() { // as under the race detector
		kinds = kinds[:1]
	}
	for _, metric := range []Metric{Cosine, Dot, L2} {
		for _, kind := range kinds {
			t.Run(fmt.Sprint(metric, "/", kind), func(t *testing.T) {
				ctx := t.Context()
				do := func(err error) {
					t.Helper()
					if err != nil {
						t.Fatal(err)
					}
				}
				rng := rand.New(rand.NewPCG(3, uint64(metric)))
				vdb := open(t, t.TempDir(), &Options{Sync: SyncNever, Compaction: Manual, Workers: 3,
					tests: testOptions{codedBytes: 1, graphSize: 1, walkAlways: true, trials: 8, worthHelp: 1}})
				c := collection(t, vdb, "c", Schema{Dim: dim, Metric: metric})
				docs := map[string]Document{}
				vecs := vectorsOf(kind, rng, rows, dim)
				add := func(from, to int) {
					var added []Document
					for i := from; i < to; i++ {
						d := Document{ID: fmt.Sprint((i * 7919) % 10_007), Vector: vecs[i], Metadata: Metadata{"i": int64(i)}}
						docs[d.ID] = d
						added = append(added, d)
					}
					upsert(t, c, added...)
				}
				add(0, rows/3)
				do(vdb.Compact(ctx))
				add(rows/3, rows)
				remove := func(from, to int) {
					for i := from; i < to; i++ {
						id := fmt.Sprint((i * 7919) % 10_007)
						delete(docs, id)
						must(c.Delete(ctx, id))
					}
				}
				ask := func(when string) {
					t.Helper()
					for range 16 { // the first searches of a segment count as cold, and walk for no floor
						must(c.Search(ctx, Query{Near: Vector(vecs[0]), K: 1, Accuracy: EF(10)}))
					}
					var batch []Query
					for i, vec := range append(vectorsOf(kind, rng, 12, dim), vecs[0], vecs[rows/2], make([]float32, dim)) {
						q := Query{Near: Vector(vec), K: []int{1, 10, 40}[i%3], Accuracy: Exact}
						switch i % 5 {
						case 3:
							q.Where = filter.Lt("i", 300)
						case 4:
							q.Threshold = &bruteForce(docs, metric, Query{Near: Vector(vec), K: 30})[20].Score
						}
						batch = append(batch, q)
					}
					for i, r := range must(c.SearchBatch(ctx, batch)) {
						t.Log(when, "query", i)
						sameHits(t, bruteForce(docs, metric, batch[i]), r)
					}
				}
				do(vdb.Flush(ctx))
				must(vdb.engine.MakeDerived(ctx, engine.ByCompact, 0))
				ask("two graphs")
				do(vdb.Compact(ctx))
				ask("one graph")
				remove(0, rows/20)
				ask("few rows are dead")
				remove(rows/20, rows/2)
				ask("many rows are dead")
			})
		}
	}
}

func TestSearchBatch(t *testing.T) {
	ctx := t.Context()
	rng := rand.New(rand.NewPCG(5, 5))
	vdb := open(t, t.TempDir(), &Options{Sync: SyncNever})
	c := collection(t, vdb, "c", Schema{Dim: 20, Metric: Dot})
	docs := map[string]Document{}
	for i, v := range randomVectors(rng, 5000, 20) {
		d := Document{ID: fmt.Sprint(i), Vector: v, Metadata: Metadata{"i": int64(i)}}
		docs[d.ID] = d
	}
	for _, d := range docs {
		upsert(t, c, d)
	}
	var queries []Query
	for i, v := range randomVectors(rng, 33, 20) {
		q := Query{Near: Vector(v), K: 1 + i}
		if i%2 == 0 {
			q.Where = filter.Gt("i", 100*i)
		}
		queries = append(queries, q)
	}
	results, err := c.SearchBatch(ctx, queries)
	if err != nil {
		t.Fatal(err)
	}
	for i, q := range queries {
		sameHits(t, bruteForce(docs, Dot, q), results[i])
	}
	queries[7].K = -1
	if _, err := c.SearchBatch(ctx, queries); !errors.Is(err, ErrInvalid) {
		t.Errorf("one invalid query of many: %v", err)
	}
}

// Any filter, from one match in many to all but one: min(k, matches) hits.
func TestNeverFewerThanK(t *testing.T) {
	ctx := t.Context()
	vdb := open(t, t.TempDir(), &Options{Sync: SyncNever})
	c := collection(t, vdb, "c", Schema{Dim: 4})
	const n = 10_000
	_, err := c.Load(ctx, func(yield func(Document, error) bool) {
		rng := rand.New(rand.NewPCG(9, 9))
		for i, v := range randomVectors(rng, n, 4) {
			v[0] = float32(i) // correlated with the filter
			if !yield(Document{ID: fmt.Sprint(i), Vector: v, Metadata: Metadata{"i": i}}, nil) {
				return
			}
		}
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, flushed := range []bool{false, true} {
		for _, matches := range []int{0, 1, 9, 10, 11, 100, 5000, n - 1, n} {
			for _, where := range []filter.Expr{filter.Lt("i", matches), filter.Gte("i", n-matches), filter.Not(filter.Gte("i", matches))} {
				res, err := c.Search(ctx, Query{Near: Vector{1, 0, 0, 0}, Where: where})
				if err != nil || len(res.Hits) != min(10, matches) || res.Matched != matches {
					t.Fatalf("%v (flushed %v): %d hits, %v", where, flushed, len(res.Hits), err)
				}
				count, err := c.Count(ctx, where)
				if err != nil || count != matches {
					t.Fatalf("%v: count %d, %v", where, count, err)
				}
			}
		}
		if err := vdb.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// Answers keep their bits over reopening, compaction and backup.
func TestAnswersKeepTheirBits(t *testing.T) {
	ctx := t.Context()
	rng := rand.New(rand.NewPCG(11, 11))
	vdb := open(t, t.TempDir(), &Options{HeadSize: 100 << 10, Compaction: Manual})
	c := collection(t, vdb, "c", Schema{Dim: 33})
	for i, v := range randomVectors(rng, 3000, 33) {
		upsert(t, c, Document{ID: fmt.Sprint(i % 2000), Vector: v})
	}
	queries := []Query{}
	for _, v := range randomVectors(rng, 10, 33) {
		queries = append(queries, Query{Near: Vector(v), K: 25})
	}
	want, err := c.SearchBatch(ctx, queries)
	if err != nil {
		t.Fatal(err)
	}
	verify := func(step string, vdb *DB) {
		t.Helper()
		c := collection(t, vdb, "c", Schema{})
		got, err := c.SearchBatch(ctx, queries)
		if err != nil {
			t.Fatal(step, err)
		}
		for i := range want {
			sameHits(t, want[i].Hits, got[i])
		}
	}
	verify("again", vdb)
	copied := t.TempDir()
	if err := vdb.Backup(ctx, copied); err != nil {
		t.Fatal(err)
	}
	backup := open(t, copied, nil)
	verify("backup", backup)
	check(t, backup)
	if err := vdb.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	verify("compacted", vdb)
	vdb = reopen(t, vdb, &Options{Workers: 1})
	verify("reopened", vdb)
	if err := vdb.Backup(ctx, copied); !errors.Is(err, ErrExists) {
		t.Errorf("backup over a database: %v", err)
	}
}

// limit returns how many of the best hits have to be known.
func (q *Query) limit() int { return cmp.Or(q.K, DefaultK) + q.Offset }
