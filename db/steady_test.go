package db

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment/codes"
)

// Rows of the head get codes block by block, and answers stay equal to brute force: with filters of
// many and of few rows, dead rows, and rows beyond the last full block.
func TestHeadCodes(t *testing.T) {
	const dim, rows, block = 6, 300, 64
	ctx := t.Context()
	for _, metric := range []Metric{Cosine, Dot, L2} {
		for _, kind := range []string{"random", "clustered"} {
			t.Run(fmt.Sprintf("%v/%s", metric, kind), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(5, uint64(metric)))
				vdb := open(t, t.TempDir(), &Options{Sync: SyncNever, tests: testOptions{codedBytes: 1}, Compaction: Manual, Recheck: Manual})
				c := collection(t, vdb, "c", Schema{Dim: dim, Metric: metric})
				docs := map[string]Document{}
				write := func(ids ...int) {
					vecs := vectorsOf(kind, rng, len(ids), dim)
					for i, id := range ids {
						d := Document{ID: fmt.Sprint(id), Vector: vecs[i], Metadata: map[string]any{"i": int64(id), "m": int64(id % 50)}}
						docs[d.ID] = d
						upsert(t, c, d)
					}
				}
				uncoded := func(want int) {
					t.Helper()
					if got := must(vdb.Stats()).Collections[0].Uncoded; got != want {
						t.Errorf("%d rows without codes, want %d", got, want)
					}
				}
				ask := func() {
					t.Helper()
					for _, where := range []filter.Expr{nil, filter.Gte("i", 10), filter.Eq("m", 7), filter.Gte("i", rows-20)} {
						q := Query{Near: Vector(randomVectors(rng, 1, dim)[0]), K: 5, Where: where, Accuracy: Exact}
						sameHits(t, bruteForce(docs, metric, q), must(c.Search(ctx, q)))
					}
				}
				search := func() {
					t.Helper()
					q := Query{Near: Vector(randomVectors(rng, 1, dim)[0]), K: 5, Accuracy: Exact}
					sameHits(t, bruteForce(docs, metric, q), must(c.Search(ctx, q)))
				}
				for i := range rows {
					write(i)
				}
				uncoded(rows)
				search()
				uncoded(rows - 2*block) // a search codes two blocks
				search()
				uncoded(rows - 4*block)
				ask()
				uncoded(rows - 4*block)
				write(3, 100, rows-1) // the old rows of two of them have codes
				uncoded(rows - 4*block + 2)
				ask()
				e, err := c.Explain(ctx, Query{Near: Vector(randomVectors(rng, 1, dim)[0]), Accuracy: Exact})
				if err != nil || len(e.Plan) != 1 || e.Plan[0].Plan != "scan of codes" ||
					!strings.Contains(e.Plan[0].Reason, "the newest 47 have none yet") {
					t.Errorf("plan %+v, %v", e.Plan, err)
				}
				queries := make([]Query, 5) // many queries share the vectors
				for i := range queries {
					queries[i] = Query{Near: Vector(randomVectors(rng, 1, dim)[0]), K: 5, Accuracy: Exact}
				}
				for i, r := range must(c.SearchBatch(ctx, queries)) {
					sameHits(t, bruteForce(docs, metric, queries[i]), r)
				}
			})
		}
	}
}

// A head is flushed when it was idle for a while, but only if its vectors are worth codes.
func TestFlushIdle(t *testing.T) {
	const dim, least = 4, 10
	vdb := open(t, t.TempDir(), &Options{Sync: SyncNever, Compaction: Manual, tests: testOptions{codedBytes: least * 4 * dim}})
	c := collection(t, vdb, "c", Schema{Dim: dim})
	segments := func(want, head int) {
		t.Helper()
		if s := must(vdb.Stats()).Collections[0]; s.Segments != want || s.HeadRows != head {
			t.Errorf("%d segments and %d rows in the head, want %d and %d", s.Segments, s.HeadRows, want, head)
		}
	}
	idle := func(idle time.Duration, again bool) {
		t.Helper()
		if next, err := vdb.engine.FlushIdle(idle); err != nil || (next > 0) != again || next > idle {
			t.Errorf("again in %v, %v", next, err)
		}
	}
	idle(0, false)
	for i := range least {
		idle(0, false) // too few rows, however long they wait
		segments(0, i)
		upsert(t, c, Document{ID: fmt.Sprint(i), Vector: []float32{1, 2, 3, float32(i)}})
	}
	idle(time.Hour, true) // young
	segments(0, least)
	idle(0, false)
	segments(1, 0)
	idle(0, false)
	upsert(t, c, Document{ID: "text", Text: "no vector"})
	idle(0, false)
	segments(1, 1)
	check(t, vdb)
}

// A flush for idleness that fails is tried again, although nobody writes.
func TestFlushIdleFails(t *testing.T) {
	var full atomic.Bool // the flush of the background looks, too
	vdb := open(t, t.TempDir(), &Options{Sync: SyncNever, Compaction: Manual, tests: testOptions{codedBytes: 1, hook: func(op vfs.Op) error {
		if full.Load() && op.Kind == vfs.OpCreate && strings.HasPrefix(op.Name, engine.TmpDir) {
			return syscall.ENOSPC
		}
		return nil
	}}})
	c := collection(t, vdb, "c", Schema{Dim: 2})
	upsert(t, c, Document{ID: "a", Vector: []float32{1, 2}})
	full.Store(true)
	for range 2 {
		if next, err := vdb.engine.FlushIdle(0); err == nil || next <= 0 {
			t.Errorf("again in %v, %v", next, err)
		}
	}
	full.Store(false)
	if next, err := vdb.engine.FlushIdle(0); err != nil || next != 0 {
		t.Errorf("again in %v, %v", next, err)
	}
	if s := must(vdb.Stats()).Collections[0]; s.Segments != 1 || s.HeadRows != 0 {
		t.Errorf("%d segments and %d rows in the head", s.Segments, s.HeadRows)
	}
	check(t, vdb)
}

// A head that took long to fill gets codes with its flush, one that was loaded does not.
func TestFlushedCodes(t *testing.T) {
	for settle, want := range map[time.Duration]int{time.Nanosecond: 1, time.Hour: 0} {
		dir := t.TempDir()
		vdb := open(t, dir, &Options{Sync: SyncNever, Compaction: Manual, tests: testOptions{codedBytes: 1, settle: settle}})
		c := collection(t, vdb, "c", Schema{Dim: 2})
		upsert(t, c, Document{ID: "a", Vector: []float32{1, 2}})
		if err := vdb.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(dir, engine.SegDir, "*.codes"))
		if err != nil || len(files) != want {
			t.Errorf("settled in %v: %v, want %d files; %v", settle, files, want, err)
		}
		if n := must(vdb.Stats()).Collections[0].Uncoded; n != 1-want {
			t.Errorf("settled in %v: %d rows without codes", settle, n)
		}
	}
}

// Answers that use a graph scan rows without one by sketches, in memory and while they wait for
// their graph, and keep the promise if these have all the hits. Exact answers do not.
func TestSketchesBesideAGraph(t *testing.T) {
	const dim, block, groups, each = 128, 512, 128, 10
	ctx := t.Context()
	for _, metric := range []Metric{Cosine, Dot, L2} {
		t.Run(fmt.Sprint(metric), func(t *testing.T) {
			opts := walking
			opts.tests.codedBytes, opts.tests.settle, opts.Recheck = block*dim*4, 1, Manual
			vdb := open(t, t.TempDir(), &opts)
			c := collection(t, vdb, "c", Schema{Dim: dim, Metric: metric})
			rng := rand.New(rand.NewPCG(31, 32))
			docs := map[string]Document{}
			write := func(vecs [][]float32) {
				var some []Document
				for _, v := range vecs {
					d := Document{ID: fmt.Sprint(len(docs)), Vector: v}
					docs[d.ID], some = d, append(some, d)
				}
				upsert(t, c, some...)
			}
			near := func(v []float32) []float32 {
				v = slices.Clone(v)
				for i := range v {
					v[i] += 0.2 * float32(rng.NormFloat64())
				}
				return v
			}
			write(randomVectors(rng, 600, dim))
			if err := vdb.Compact(ctx); err != nil {
				t.Fatal(err)
			}
			centres := randomVectors(rng, groups, dim)
			var vecs [][]float32
			for i := range groups * each {
				v := near(centres[i%groups])
				if metric == Dot {
					for j := range v {
						v[j] *= 3 // larger products than the rows of the segment
					}
				}
				vecs = append(vecs, v)
			}
			write(vecs)
			queries := make([]Query, 40)
			for i := range queries {
				queries[i] = Query{Near: Vector(near(vecs[i*17])), K: 5}
			}
			ask := func(name, plan string) {
				t.Helper()
				wanted, found := 0, 0
				for _, q := range queries {
					truth := bruteForce(docs, metric, q)
					r := must(c.Search(ctx, q))
					if r.Exact || r.Recall != float64(DefaultRecall) || r.Plan != plan {
						t.Fatalf("%s: exact %v, recall %v, plan %q, want %q", name, r.Exact, r.Recall, r.Plan, plan)
					}
					for _, h := range truth {
						wanted++
						if slices.ContainsFunc(r.Hits, func(o Hit) bool { return o.ID == h.ID }) {
							found++
						}
					}
					q.Accuracy = Exact
					sameHits(t, truth, must(c.Search(ctx, q)))
				}
				if float64(found) < codes.SketchRecall*float64(wanted) {
					t.Errorf("%s: found %d of %d", name, found, wanted)
				}
			}
			explain := func(name string, want ...string) {
				t.Helper()
				e, err := c.Explain(ctx, queries[0])
				if err != nil {
					t.Fatal(err)
				}
				var plans []string
				for _, p := range e.Plan {
					plans = append(plans, p.Plan)
				}
				if !slices.Equal(plans, want) {
					t.Errorf("%s: plans %q, want %q", name, plans, want)
				}
			}
			ask("in memory", "graph, and scan of sketches of the rest")
			explain("in memory", "graph", "scan of sketches")
			if err := vdb.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			if err := vdb.engine.SketchSegments(ctx); err != nil {
				t.Fatal(err)
			}
			ask("flushed", "graph, and scan of sketches of the rest")
			explain("flushed", "graph", "scan of sketches")
			if metric == Cosine { // it takes long
				if err := vdb.Compact(ctx); err != nil {
					t.Fatal(err)
				}
				explain("compacted", "graph")
			}
		})
	}
}

// A background compaction gives the new segment codes and a graph before searches see it, if most
// of its rows had them, and only then.
func TestCompactionKeepsServing(t *testing.T) {
	ctx := t.Context()
	for _, served := range []bool{true, false} {
		t.Run(fmt.Sprint("served ", served), func(t *testing.T) {
			dir, opts := t.TempDir(), walking
			vdb := open(t, dir, &opts)
			c := collection(t, vdb, "c", Schema{Dim: 3})
			rng := rand.New(rand.NewPCG(1, 9))
			for s := range 8 { // as many as are merged
				for i, v := range randomVectors(rng, 20, 3) {
					upsert(t, c, Document{ID: fmt.Sprint(s, i), Vector: v})
				}
				if err := vdb.Flush(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if served {
				if _, err := vdb.engine.MakeDerived(ctx, engine.ByCompact, 0); err != nil {
					t.Fatal(err)
				}
			}
			if err := vdb.engine.CompactSome(ctx); err != nil {
				t.Fatal(err)
			}
			s := must(vdb.Stats()).Collections[0]
			if s.Segments != 1 || (s.Graphs == 1) != served || (s.Uncoded == 0) != served {
				t.Errorf("%d segments, %d graphs, %d rows without codes", s.Segments, s.Graphs, s.Uncoded)
			}
			check(t, vdb)
			for _, ext := range []string{"codes", "graph"} { // nothing of the old segments stays
				if err := vdb.Compact(ctx); err != nil {
					t.Fatal(err)
				}
				files, err := filepath.Glob(filepath.Join(dir, engine.SegDir, "*."+ext))
				if err != nil || len(files) != 1 {
					t.Errorf("files %v, %v", files, err)
				}
			}
		})
	}
}

// fillForGraph returns a collection whose only segment waits for its graph, with long texts. Three
// in four rows are deleted, which the snapshot still has. At the first graph that is begun, the
// function in begun is called.
func fillForGraph(t *testing.T, begun *func(), graphs *int) (*Collection, *Snapshot) {
	t.Helper()
	opts := walking
	opts.tests.hook = func(op vfs.Op) error {
		if !strings.HasSuffix(op.Name, ".graph") {
			return nil
		}
		switch op.Kind {
		case vfs.OpCreate:
			if call := *begun; call != nil {
				*begun = nil
				call()
			}
		case vfs.OpRename:
			*graphs++
		}
		return nil
	}
	c := collection(t, open(t, t.TempDir(), &opts), "c", Schema{Dim: 4})
	var docs []Document
	var gone []string
	for i, v := range randomVectors(rand.New(rand.NewPCG(3, 9)), 400, 4) {
		docs = append(docs, Document{ID: fmt.Sprint(i), Vector: v, Text: strings.Repeat("text ", 2000)})
		if i%4 > 0 {
			gone = append(gone, docs[i].ID)
		}
	}
	upsert(t, c, docs...)
	if err := c.db.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	snap := must(c.db.Snapshot())
	if _, err := c.Delete(t.Context(), gone...); err != nil {
		t.Fatal(err)
	}
	return c, snap
}

// The background builds no graph for a segment that a compaction has replaced meanwhile.
func TestNoGraphForReplacedSegments(t *testing.T) {
	var begun func()
	graphs := 0
	c, snap := fillForGraph(t, &begun, &graphs)
	snap.Close()
	begun = func() {
		if err := c.db.Compact(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := c.db.engine.MakeDerived(t.Context(), engine.ByCompact, 0); err != nil {
		t.Fatal(err)
	}
	if s := must(c.db.Stats()); graphs != 1 || s.Collections[0].Graphs != 1 || s.Versions != 1 || s.BackgroundError != "" {
		t.Errorf("%d graphs built, %+v", graphs, s)
	}
}

// Compact leaves no room of deleted documents in meta.bolt, if the last version that has them ends
// while it builds a graph.
func TestCompactAfterLastReader(t *testing.T) {
	var begun func()
	graphs := 0
	c, snap := fillForGraph(t, &begun, &graphs)
	begun = func() { snap.Close() }
	if err := c.db.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := must(c.db.Stats()); graphs != 1 || s.MetaFree > s.MetaBytes/8 {
		t.Errorf("%d graphs built, %d of %d bytes of meta.bolt are free", graphs, s.MetaFree, s.MetaBytes)
	}
}

// fillSegments writes a segment of random vectors for each number of rows, and makes their derived
// files.
func fillSegments(t *testing.T, c *Collection, sizes ...int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(2, 9))
	for s, n := range sizes {
		docs := make([]Document, n)
		for i, v := range randomVectors(rng, n, must(c.Info()).Schema.Dim) {
			docs[i] = Document{ID: fmt.Sprint(s, i), Vector: v}
		}
		upsert(t, c, docs...)
		if err := c.db.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.db.engine.MakeDerived(t.Context(), engine.ByCompact, 0); err != nil {
		t.Fatal(err)
	}
}

// Settled segments are merged: those too small for a graph with each other if they are enough for a
// graph, and otherwise into the smallest segment that has one; then, in an idle database, all but
// those that are much larger than the others.
func TestCompactSettled(t *testing.T) {
	const dim, graph = 2, 160 // rows that make a graph
	ctx := t.Context()
	for _, test := range []struct {
		what   string
		metric Metric
		sizes  []int
		age    time.Duration
		want   []int
	}{
		{"nothing", L2, nil, 0, nil},
		{"one stray alone", L2, []int{100}, 0, []int{100}},
		{"too few for a graph", L2, []int{50, 60}, 0, []int{50, 60}},
		{"enough for a graph", L2, []int{100, 50, 60}, 0, []int{210}},
		{"enough for a graph of inner products", Dot, []int{100, 50, 60}, 0, []int{210}},
		{"into the smallest graph", L2, []int{1300, 50, 200, 10, 4}, 0, []int{1564}},
		{"strays into a larger graph", L2, []int{300, 50}, 0, []int{350}},
		{"graphs", Cosine, []int{300, 200, 170, 20}, 0, []int{690}},
		{"the graph is too large", L2, []int{1290, 20}, 0, []int{20, 1290}},
		{"all but the largest", L2, []int{20, 160, 64*180 + 1}, 0, []int{180, 64*180 + 1}},
		{"too few to matter", L2, []int{19, 160}, 0, []int{19, 160}},
		{"young", L2, []int{100, 50, 60}, time.Hour, []int{50, 60, 100}},
		{"young graphs", L2, []int{160, 170}, time.Hour, []int{160, 170}},
	} {
		t.Run(test.what, func(t *testing.T) {
			vdb := open(t, t.TempDir(), &Options{Sync: SyncNever, Compaction: Manual, tests: testOptions{codedBytes: 1, graphSize: graph * dim,
				trials: walking.tests.trials}})
			c := collection(t, vdb, "c", Schema{Dim: dim, Metric: test.metric})
			fillSegments(t, c, test.sizes...)
			if next, err := vdb.engine.CompactSettled(ctx, test.age); next > 0 || err != nil {
				t.Fatalf("again in %v, %v", next, err)
			}
			var sizes []int
			for _, s := range segmentsOf(vdb) {
				sizes = append(sizes, s.Info.Rows)
			}
			if slices.Sort(sizes); !slices.Equal(sizes, test.want) {
				t.Errorf("segments of %v rows, want %v", sizes, test.want)
			}
			if n := must(vdb.Stats()).Collections[0].Uncoded; n > 0 {
				t.Errorf("%d rows without codes", n)
			}
			check(t, vdb)
		})
	}
}

// A merge of graphs waits until writing pauses, and for as long after Open.
func TestCompactSettledWaits(t *testing.T) {
	const dim, graph = 2, 100
	ctx, dir := t.Context(), t.TempDir()
	opts := &Options{Sync: SyncNever, Compaction: Manual, tests: testOptions{codedBytes: 1, graphSize: graph * dim}}
	vdb := open(t, dir, opts)
	c := collection(t, vdb, "c", Schema{Dim: dim})
	fillSegments(t, c, graph, graph)
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	vdb = open(t, dir, opts) // its segments have settled
	settled := func(age time.Duration, again bool, segments, head int) {
		t.Helper()
		if next, err := vdb.engine.CompactSettled(ctx, age); (next > 0) != again || next > age || err != nil {
			t.Errorf("again in %v, %v", next, err)
		}
		if s := must(vdb.Stats()).Collections[0]; s.Segments != segments || s.HeadRows != head {
			t.Errorf("%d segments and %d rows in the head, want %d and %d", s.Segments, s.HeadRows, segments, head)
		}
	}
	settled(time.Hour, true, 2, 0) // just opened
	upsert(t, collection(t, vdb, "c", Schema{Dim: dim}), Document{ID: "new", Vector: []float32{1, 2}})
	settled(time.Hour, true, 2, 1)
	settled(0, false, 1, 1)
	check(t, vdb)
}
