package db

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/blocks"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/formattest"
)

var churnRounds = flag.Int("churn", 0, "rounds of TestGraphChurn; 1,000 take about an hour")

// A forest is a collection most of whose rows are in a graph: some were
// deleted since it was built, and some are newer.
type forest struct {
	vdb  *DB
	c    *Collection
	docs map[string]Document
	rng  *rand.Rand
}

// promising are options with graphs of few rows, which all searches walk, and the calibration of
// users. walking has a short calibration, which takes a tenth of the time: for tests of what does
// not depend on how much a walk finds.
var (
	promising = Options{Sync: SyncNever, tests: testOptions{codedBytes: 1, graphSize: 1, quickSize: 1, walkAlways: true}, Compaction: Manual}
	walking   = func(o Options) Options { o.tests.trials = 8; return o }(promising)
)

// A fixture is a database with which several tests begin. It is built once: to calibrate a graph as
// users do takes seconds.
type fixture struct {
	built sync.Once
	files map[string][]byte
}

// fixtures are the fixtures by name.
var fixtures sync.Map

// copyFixture puts the database that build makes in a directory, or a copy of it, into dir. build
// closes it.
func copyFixture(t *testing.T, name, dir string, build func(dir string)) {
	t.Helper()
	found, _ := fixtures.LoadOrStore(name, new(fixture))
	f := found.(*fixture)
	f.built.Do(func() {
		first := filepath.Join(t.TempDir(), "db")
		build(first)
		f.files = readFiles(t, first)
		// The files of the log are large, and hold nothing that is not in segments.
		maps.DeleteFunc(f.files, func(name string, _ []byte) bool { return path.Dir(name) == engine.WALDir })
	})
	if f.files == nil {
		t.Fatalf("%s could not be built", name)
	}
	writeFiles(t, dir, f.files)
}

// plantDocuments makes a database with documents in a graph, calibrated as for users.
func plantDocuments(t *testing.T, dir string, s Schema, docs []Document) {
	t.Helper()
	vdb := open(t, dir, &promising)
	upsert(t, collection(t, vdb, "c", s), docs...)
	if err := errors.Join(vdb.Compact(t.Context()), vdb.Close()); err != nil {
		t.Fatal(err)
	}
}

func plant(t *testing.T, dir string, opts Options, metric Metric, kind string, rows, dim int) *forest {
	t.Helper()
	ctx := t.Context()
	f := &forest{vdb: open(t, dir, &opts), docs: map[string]Document{}, rng: rand.New(rand.NewPCG(11, uint64(metric)))}
	f.c = collection(t, f.vdb, "c", Schema{Dim: dim, Metric: metric})
	vecs := vectorsOf(kind, f.rng, rows, dim)
	put := func(lo, hi int) {
		var docs []Document
		for i, v := range vecs[lo:hi] {
			m := Metadata{"i": int64((lo + i) * 7919 % rows), "x": float64(v[0])} // x goes with where the vector is
			docs = append(docs, Document{ID: fmt.Sprint((lo + i) * 31 % 10_007), Vector: v, Metadata: m})
			f.docs[docs[i].ID] = docs[i]
		}
		upsert(t, f.c, docs...)
	}
	put(0, rows*9/10)
	if err := f.vdb.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	put(rows*9/10, rows)
	put(0, 20) // again
	for i, id := range slices.Sorted(maps.Keys(f.docs)) {
		if i%20 == 7 {
			delete(f.docs, id)
			if _, err := f.c.Delete(ctx, id); err != nil {
				t.Fatal(err)
			}
		}
	}
	return f
}

// truth returns all documents that match, in order.
func (f *forest) truth(metric Metric, q Query) []Hit {
	q.K, q.Offset = len(f.docs)+1, 0
	return bruteForce(f.docs, metric, q)
}

// recall checks that r has true scores, in order, of min(k, matches) documents, and
// returns its share of the true answer.
func recall(t *testing.T, truth []Hit, q Query, r *Result) float64 {
	t.Helper()
	scores := map[string]float64{}
	for _, h := range truth {
		scores[h.ID] = h.Score
	}
	if len(r.Hits) != min(q.K, len(truth)) || !r.Complete {
		t.Fatalf("%d hits of %d that match, %s", len(r.Hits), len(truth), r.Plan)
	}
	good := 0
	for i, h := range r.Hits {
		if s, ok := scores[h.ID]; !ok || math.Float64bits(s+0) != math.Float64bits(h.Score) {
			t.Fatalf("hit %q has score %v, want %v", h.ID, h.Score, s)
		}
		if i > 0 {
			if p := r.Hits[i-1]; p.Score < h.Score || p.Score == h.Score && p.ID >= h.ID {
				t.Fatalf("hits %q and %q are in the wrong order", p.ID, h.ID)
			}
		}
		if h.Score >= truth[len(r.Hits)-1].Score {
			good++
		}
	}
	if r.Exact && good < len(r.Hits) {
		t.Fatalf("%d of %d hits are right in an exact answer", good, len(r.Hits))
	}
	if len(r.Hits) == 0 {
		return 1
	}
	return float64(good) / float64(len(r.Hits))
}

// Answers from graphs hold true scores, in order, of min(k, matching)
// documents, at any selectivity, whether the filter goes with the vectors or
// not; and the recall that is promised is delivered.
func TestGraphAnswers(t *testing.T) {
	t.Parallel() // one core each
	skipRecall(t)
	const rows, dim = 1200, 12
	for _, metric := range []Metric{Cosine, Dot, L2} {
		for _, kind := range vectorKinds {
			if metric != Cosine && !slices.Contains([]string{"normal", "clustered", "scales"}, kind) {
				continue
			}
			t.Run(fmt.Sprint(metric, "/", kind), func(t *testing.T) {
				f := plant(t, t.TempDir(), briefly(), metric, kind, rows, dim)
				queries := vectorsOf(kind, f.rng, 20, dim)
				xs := make([]float64, 0, rows)
				for _, d := range f.docs {
					xs = append(xs, float64(d.Vector[0]))
				}
				slices.Sort(xs)
				for _, share := range []float64{1, 0.5, 0.1, 0.01, 0.0005} {
					n := int(share * rows)
					for i, where := range []filter.Expr{nil, filter.Lt("i", n), filter.Lt("x", xs[min(n, len(xs)-1)])} {
						if i == 0 && share < 1 {
							continue // no filter is the same for every share
						}
						var sum, least [3]float64
						for _, vec := range queries {
							q := Query{Near: Vector(vec), K: 10, Where: where}
							truth := f.truth(metric, q)
							for i, promise := range []float64{0.9, 0, 1} {
								q.Accuracy = Recall(promise)
								r, err := f.c.Search(t.Context(), q)
								if err != nil {
									t.Fatal(err)
								}
								if r.Exact != (r.Recall == 1) || r.Recall < cmp.Or(promise, float64(DefaultRecall)) {
									t.Fatalf("exact %v, recall %v, wanted %v", r.Exact, r.Recall, promise)
								}
								if i == 0 && where == nil && kind == "normal" && r.Exact {
									t.Fatalf("exact %v, %s", r.Exact, r.Plan)
								}
								sum[i] += recall(t, truth, q, r)
								least[i] += r.Recall
							}
						}
						for i := range sum {
							if n := float64(len(queries)); sum[i] < least[i]-0.01*n {
								t.Errorf("%v of the rows, filter %v: recall %v instead of %v", share, where, sum[i]/n, least[i]/n)
							}
						}
					}
				}
			})
		}
	}
}

// The same batches give the same approximate answers in any database, regardless of
// segment numbers and the number of workers.
func TestEqualGraphs(t *testing.T) {
	for _, dim := range []int{12, 512} { // one of each layout
		const rows = 400
		ctx := t.Context()
		vecs := randomVectors(rand.New(rand.NewPCG(4, uint64(dim))), rows+30, dim)
		var files [2][]string
		var answers [2][]*Result
		for n := range answers {
			opts, dir := walking, t.TempDir()
			opts.Recheck, opts.Workers = Manual, 1+2*n
			vdb := open(t, dir, &opts)
			if n > 0 { // it takes numbers of segments
				other := collection(t, vdb, "other", Schema{Dim: 2})
				upsert(t, other, Document{ID: "a", Vector: []float32{1, 2}})
				if err := vdb.Flush(ctx); err != nil {
					t.Fatal(err)
				}
			}
			c := collection(t, vdb, "c", Schema{Dim: dim})
			for lo, hi := 0, rows*9/10; lo < rows; lo, hi = hi, rows { // the second graph is built upon the first
				for i := lo; i < hi; i += 30 {
					var docs []Document
					for j, v := range vecs[i:min(i+30, hi)] {
						docs = append(docs, Document{ID: fmt.Sprint(i + j), Vector: v})
					}
					upsert(t, c, docs...)
				}
				if err := vdb.Compact(ctx); err != nil {
					t.Fatal(err)
				}
			}
			for _, v := range vecs[rows:] {
				r, err := c.Search(ctx, Query{Near: Vector(v), Accuracy: EF(40)})
				if err != nil || r.Exact {
					t.Fatal(err, r)
				}
				answers[n] = append(answers[n], r)
			}
			names, err := filepath.Glob(filepath.Join(dir, engine.SegDir, "*.graph"))
			if err != nil {
				t.Fatal(err)
			}
			files[n] = append(files[n], filepath.Base(names[len(names)-1]))
		}
		if slices.Equal(files[0], files[1]) {
			t.Errorf("both graphs are %s", files[0])
		}
		for i, r := range answers[0] {
			if o := answers[1][i]; !slices.Equal(ids(r.Hits), ids(o.Hits)) || r.Considered != o.Considered {
				t.Errorf("dimension %d, query %d: %v of %d and %v of %d", dim, i, ids(r.Hits), r.Considered, ids(o.Hits), o.Considered)
			}
		}
	}
}

// Groups, pages, thresholds and other parts of a query work on graphs as on scans.
func TestGraphQueries(t *testing.T) {
	f := plant(t, t.TempDir(), walking, Cosine, "normal", 2000, 12)
	ctx := t.Context()
	var batch []Query
	for _, vec := range vectorsOf("normal", f.rng, 9, 12) {
		batch = append(batch, Query{Near: Vector(vec), K: 5, Accuracy: EF(200)})
	}
	results, err := f.c.SearchBatch(ctx, batch)
	if err != nil {
		t.Fatal(err)
	}
	for i, q := range batch {
		if recall(t, f.truth(Cosine, q), q, results[i]) < 0.8 || results[i].Exact || results[i].Plan != "graph, and exact scan of the rest" ||
			results[i].Considered >= results[i].Matched || results[i].Recall < 0.9 {
			t.Errorf("%+v", results[i])
		}
		// What the graph finds is found page by page.
		q.K, q.Offset = 2, 3
		page, err := f.c.Search(ctx, q)
		if err != nil || !slices.Equal(ids(page.Hits), ids(results[i].Hits[3:])) {
			t.Errorf("%v %v", err, page)
		}
		q.K, q.Offset, q.Threshold = 5, 0, &results[i].Hits[2].Score
		bound, err := f.c.Search(ctx, q)
		if err != nil || !slices.Equal(ids(bound.Hits), ids(results[i].Hits[:3])) {
			t.Errorf("%v %v", err, bound)
		}
		exact := Query{Near: q.Near, Accuracy: Exact}
		if r, err := f.c.Search(ctx, exact); err != nil || !r.Exact || len(r.Hits) != 10 {
			t.Errorf("%v %v", err, r)
		}
	}
	snap, err := f.vdb.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	for _, id := range ids(results[0].Hits) {
		delete(f.docs, id)
		if _, err := f.c.Delete(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	old, err := snap.Collection("c")
	if err != nil {
		t.Fatal(err)
	}
	again, err := old.Search(ctx, batch[0])
	if err != nil || !slices.Equal(ids(again.Hits), ids(results[0].Hits)) {
		t.Errorf("%v %v", err, again)
	}
	now, err := f.c.Search(ctx, batch[0])
	if err != nil || len(now.Hits) != 5 || slices.ContainsFunc(now.Hits, func(h Hit) bool { return slices.Contains(ids(again.Hits), h.ID) }) {
		t.Errorf("%v %v", err, now)
	}
	e, err := f.c.Explain(ctx, batch[1], ids(results[1].Hits)[4])
	if err != nil || e.Plan[0].Plan != "graph" || e.Stages[1].Name != "graph" || e.WhyNot[0].Hit != 5 {
		t.Errorf("%v %+v", err, e)
	}
	// A low ef misses rows that have a rank: the graph is named.
	for _, vec := range vectorsOf("normal", f.rng, 50, 12) {
		truth := bruteForce(f.docs, Cosine, Query{Near: Vector(vec), K: 10})
		e, err := f.c.Explain(ctx, Query{Near: Vector(vec), K: 10, Accuracy: EF(1)}, ids(truth)...)
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range e.WhyNot {
			if w.Rank != i+1 || (w.Hit == 0) != (w.Stage == "graph") {
				t.Fatalf("%+v", w)
			}
		}
	}
}

// A damaged, lost or unreadable graph costs only time.
func TestGraphFaults(t *testing.T) {
	dir := t.TempDir()
	f := plant(t, dir, walking, L2, "normal", 1000, 12)
	q := Query{Near: Vector(f.rngVector(12)), K: 10, Accuracy: Recall(0.9)}
	ask := func(exact bool) {
		t.Helper()
		r, err := f.c.Search(t.Context(), q)
		if err != nil || r.Exact != exact {
			t.Fatalf("%v %+v", err, r)
		}
		recall(t, f.truth(L2, q), q, r)
	}
	ask(false)
	for _, damage := range []func(string) error{
		os.Remove,
		func(name string) error { return os.Truncate(name, 100) },
		func(name string) error { return os.WriteFile(name, []byte("rubbish"), 0o600) },
		func(name string) error { return flipBytes(name, 5000, 70_000, 100_000) },
	} {
		if err := f.vdb.Close(); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(dir, engine.SegDir, "*.graph"))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, name := range files {
			if err := damage(name); err != nil {
				t.Fatal(err)
			}
		}
		opts := walking
		f.vdb = open(t, dir, &opts)
		f.c = collection(t, f.vdb, "c", Schema{Metric: L2})
		ask(true)
		if err := f.vdb.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		ask(false)
		check(t, f.vdb)
	}
	if runtime.GOOS == "windows" {
		return // a mapped file cannot be made shorter there
	}
	files, err := filepath.Glob(filepath.Join(dir, engine.SegDir, "*.graph"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if err := os.Truncate(name, 0); err != nil {
			t.Fatal(err)
		}
	}
	ask(true)
}

// Codes and graphs are not built in the background for segments that are likely to
// be merged soon, but they are for segments that existed when the database was
// opened.
func TestDerivedOfYoungSegments(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	opts := walking
	vdb := open(t, dir, &opts)
	c := collection(t, vdb, "c", Schema{Dim: 4, Metric: Cosine})
	upsert(t, c, Document{ID: "a", Vector: []float32{1, 2, 3, 4}})
	if err := vdb.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	derive := func(age time.Duration, later bool, want int) {
		t.Helper()
		next, err := vdb.engine.MakeDerived(ctx, engine.ByCompact, age)
		if err != nil || (next > 0) != later {
			t.Errorf("next in %v, %v", next, err)
		}
		for _, ext := range []string{"codes", "graph"} {
			if files, err := filepath.Glob(filepath.Join(dir, engine.SegDir, "*."+ext)); err != nil || len(files) != want {
				t.Errorf("%d files of %s, want %d; %v", len(files), ext, want, err)
			}
		}
		if s := must(vdb.Stats()).Collections[0]; s.Graphs != want || s.GraphsDue != 1-want {
			t.Errorf("%d graphs and %d due, want %d of one", s.Graphs, s.GraphsDue, want)
		}
	}
	derive(time.Hour, true, 0)
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	vdb = open(t, dir, &opts)
	derive(time.Hour, false, 1)
}

func (f *forest) rngVector(dim int) []float32 { return vectorsOf("normal", f.rng, 1, dim)[0] }

func flipBytes(name string, at ...int64) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	var errs []error
	for _, off := range at {
		b := make([]byte, 1)
		_, err := f.ReadAt(b, off)
		b[0] ^= 0x40
		_, err2 := f.WriteAt(b, off)
		errs = append(errs, err, err2)
	}
	return errors.Join(append(errs, f.Close())...)
}

// Compactions extend the graph of the largest victim and then release it. After
// many rounds of changes, the graph finds as much as a new graph does.
func TestGraphChurn(t *testing.T) {
	t.Parallel() // one core each
	const dim = 24
	rows, rounds := 1500, 6
	if *churnRounds > 0 {
		rows, rounds = 5000, *churnRounds
	}
	ctx, r := t.Context(), rand.New(rand.NewPCG(31, 7))
	opts := promising // the recall of the last graphs is measured
	opts.Recheck = Manual
	dir := t.TempDir()
	vdb := open(t, dir, &opts)
	c := collection(t, vdb, "c", Schema{Dim: dim, Metric: L2})
	next, docs := 0, map[string]Document{}
	write := func(n int) {
		t.Helper()
		var batch []Document
		for _, v := range vectorsOf("normal", r, n, dim) {
			d := Document{ID: fmt.Sprint(next), Vector: v}
			docs[d.ID] = d
			batch = append(batch, d)
			next++
		}
		upsert(t, c, batch...)
	}
	write(rows)
	vdb.engine.Opts.Trials = walking.tests.trials
	if err := vdb.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	for round := range rounds {
		if round == rounds-1 {
			vdb.engine.Opts.Trials = promising.tests.trials
		}
		write(rows / 100)
		for _, id := range slices.Sorted(maps.Keys(docs))[:rows/100] {
			delete(docs, id)
			if _, err := c.Delete(ctx, id); err != nil {
				t.Fatal(err)
			}
		}
		if err := vdb.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		if err := vdb.Compact(ctx); err != nil {
			t.Fatal(err)
		}
		if files, err := filepath.Glob(filepath.Join(dir, engine.SegDir, "*.graph")); err != nil || len(files) != 1 || inspect(vdb).Mapped() != 1 {
			t.Fatalf("%v %v, %d segments are mapped", err, files, inspect(vdb).Mapped())
		}
	}
	fresh := collection(t, vdb, "fresh", Schema{Dim: dim, Metric: L2})
	var all []Document
	for _, id := range slices.Sorted(maps.Keys(docs)) {
		all = append(all, docs[id])
	}
	upsert(t, fresh, all...)
	if err := vdb.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	queries := vectorsOf("normal", r, 300, dim)
	var got [2]float64
	for i, c := range []*Collection{c, fresh} {
		m, err := c.MeasureRecall(ctx, RecallTest{Queries: queries, Accuracies: []Accuracy{EF(30)}})
		if err != nil || m[0].Exact > 0 {
			t.Fatal(m, err)
		}
		got[i] = m[0].Recall
		if m, err = c.MeasureRecall(ctx, RecallTest{Queries: queries, Accuracies: []Accuracy{Recall(0.95)}}); err != nil || m[0].Exact > 0 || m[0].Recall < 0.94 {
			t.Error(m, err)
		}
	}
	t.Logf("recall %.4f after %d rounds, %.4f of a new graph", got[0], rounds, got[1])
	if got[0] < got[1]-0.005 {
		t.Errorf("recall %.4f after %d rounds, %.4f of a new graph", got[0], rounds, got[1])
	}

	// An extended graph differs from a graph built without base, which proves that
	// the base was used. A base that waits for its graph is released with the
	// database, and a damaged base is not used.
	vdb.engine.Opts.Trials = walking.tests.trials
	write(rows / 100)
	if err := vdb.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	base := inspect(vdb).Base
	var s *engine.OpenSegment
	for _, merge := range inspect(vdb).Merges() {
		if err := merge(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for _, seg := range segmentsOf(vdb) {
		if base(seg) != nil {
			s = seg
		}
	}
	if s == nil || inspect(vdb).Mapped() != len(segmentsOf(vdb))+1 {
		t.Fatalf("%d segments are mapped, %d in use, base of %v", inspect(vdb).Mapped(), len(segmentsOf(vdb)), s)
	}
	build := func() []byte {
		var b blocks.Memory
		if err := inspect(vdb).WriteGraph(ctx, s, &b); err != nil {
			t.Fatal(err)
		}
		return b
	}
	upon, anew := build(), build()
	if base(s) != nil || slices.Equal(upon, anew) {
		t.Error("the base was not used, or not let go")
	}
	if inspect(vdb).Mapped() != len(segmentsOf(vdb)) {
		t.Errorf("%d segments are mapped, %d in use", inspect(vdb).Mapped(), len(segmentsOf(vdb)))
	}
	for _, last := range []bool{false, true} {
		write(rows / 100)
		if err := vdb.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := vdb.engine.MakeDerived(ctx, engine.ByCompact, 0); err != nil {
			t.Fatal(err)
		}
		for _, merge := range inspect(vdb).Merges() {
			if err := merge(ctx); err != nil {
				t.Fatal(err)
			}
		}
		for _, seg := range segmentsOf(vdb) {
			if base(seg) != nil {
				s = seg
			}
		}
		if base(s) == nil {
			t.Fatal("no base")
		}
		if last {
			break
		}
		if err := flipBytes(filepath.Join(dir, base(s).Graph.Name), 4096+64*int64(base(s).Info.Rows)+100); err != nil {
			t.Fatal(err)
		}
		if damaged := build(); !slices.Equal(damaged, build()) {
			t.Error("a damaged base was used")
		}
	}
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, engine.SegDir, "*.vec")); err != nil || len(left) != len(segmentsOf(vdb)) {
		t.Errorf("%v %v, want %d", err, left, len(segmentsOf(vdb)))
	}
}

// A beam search allocates its result and little else, regardless of the size of the
// collection.
func TestSearchAllocations(t *testing.T) {
	for _, rows := range []int{500, 2000} {
		opts := walking
		opts.Recheck, opts.Workers = Manual, 1
		vdb := open(t, t.TempDir(), &opts)
		c := collection(t, vdb, "c", Schema{Dim: 16})
		rng := rand.New(rand.NewPCG(5, 5))
		for i, v := range randomVectors(rng, rows, 16) {
			upsert(t, c, Document{ID: fmt.Sprint(i), Vector: v, Text: "text", Metadata: Metadata{"i": i}})
		}
		if err := vdb.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		vec := randomVectors(rng, 1, 16)[0]
		for _, x := range []struct {
			parts Select
			most  float64
		}{{IDsOnly, 8}, {WithText | WithMetadata, 90}} {
			q := Query{Near: Vector(vec), Accuracy: EF(20), Select: x.parts}
			got := testing.AllocsPerRun(200, func() {
				if r, err := c.Search(t.Context(), q); err != nil || r.Plan != "graph" || len(r.Hits) != 10 {
					t.Fatal(r, err)
				}
			})
			if got > x.most {
				t.Errorf("%d rows, select %d: %v allocations, want %v at most", rows, x.parts, got, x.most)
			}
		}
	}
}

// A search of a graph looks at its context in proportion to its work, and ends with it.
func TestGraphSearchEndsWithItsContext(t *testing.T) {
	f := plant(t, t.TempDir(), walking, Cosine, "normal", 3000, 16)
	for _, where := range []filter.Expr{nil, filter.Lt("i", 1500)} {
		q := Query{Near: Vector(f.rngVector(16)), K: 10, Where: where, Select: IDsOnly}
		looks := map[EF]int{}
		for _, ef := range []EF{20, 2000} {
			q.Accuracy = ef
			if r := mustSearch(t, f.c, q); r.Exact {
				t.Fatal("an exact answer")
			}
			ctx := formattest.NewCountdown(t.Context(), 1<<30)
			if _, err := f.c.Search(ctx, q); err != nil {
				t.Fatal(err)
			}
			looks[ef] = 1<<30 - ctx.Left()
			for n := range looks[ef] {
				ctx := formattest.NewCountdown(t.Context(), n)
				if _, err := f.c.Search(ctx, q); !errors.Is(err, context.Canceled) {
					t.Errorf("ef %d: ended at look %d of %d: %v", ef, n, looks[ef], err)
				}
			}
		}
		if looks[2000] < looks[20]+5 {
			t.Errorf("%d looks at the context with ef 2000, %d with ef 20", looks[2000], looks[20])
		}
	}
}

// Groups whose best documents have equal scores are in order of these, as in an exact answer.
func TestApproximateGroupsOfEqualScores(t *testing.T) {
	opts := walking
	opts.Recheck = Manual
	vdb := open(t, t.TempDir(), &opts)
	c := collection(t, vdb, "c", Schema{Dim: 8})
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 2000 {
		upsert(t, c, Document{ID: fmt.Sprintf("%04d", i), Vector: randomVectors(r, 1, 8)[0], Metadata: Metadata{"g": int64(r.IntN(40))}})
	}
	if err := vdb.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	approximate := false
	for k := 2; k < 30; k += 3 { // without a direction all scores are 0
		result := mustSearch(t, c, Query{Near: make(Vector, 8), K: k, Group: &Group{Field: "g", Size: 30}, Accuracy: Recall(0.8)})
		approximate = approximate || !result.Exact
		last := ""
		for i, h := range result.Hits {
			if i > 0 && h.Group == result.Hits[i-1].Group {
				continue
			}
			if h.ID < last {
				t.Errorf("%d groups: the one of %s is behind that of %s", k, h.ID, last)
			}
			last = h.ID
		}
	}
	if !approximate {
		t.Error("all answers are exact")
	}
}
