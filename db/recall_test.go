package db

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/nearest"
)

// MeasureRecall counts the same hits as a comparison of answers, and treats stored
// query vectors as if they were not stored.
func TestMeasureRecall(t *testing.T) {
	const rows, dim = 1500, 12
	f := plant(t, t.TempDir(), promising, Cosine, "normal", rows, dim)
	ctx := t.Context()
	queries := vectorsOf("normal", f.rng, 40, dim)
	where := filter.Lt("i", rows/3)
	m, err := f.c.MeasureRecall(ctx, RecallTest{Queries: queries, K: 7, Accuracies: []Accuracy{Recall(0.5), Exact, EF(9)}, Where: where})
	if err != nil || len(m) != 3 {
		t.Fatal(m, err)
	}
	for i, q := range []Query{{Accuracy: Recall(0.5)}, {Accuracy: Recall(1)}, {Accuracy: EF(9)}} {
		how, err := goalOf(q.Accuracy)
		if err != nil {
			t.Fatal(err)
		}
		q.K, q.Where = 7, where
		share, promised, exact := 0.0, 0.0, 0
		for _, vec := range queries {
			q.Near = Vector(vec)
			r, err := f.c.Search(ctx, q)
			if err != nil {
				t.Fatal(err)
			}
			share += recall(t, f.truth(Cosine, q), q, r) / float64(len(queries))
			promised += r.Recall / float64(len(queries))
			if r.Exact {
				exact++
			}
		}
		if math.Abs(m[i].Recall-share) > 1e-9 || math.Abs(m[i].Promised-promised) > 1e-9 || m[i].Exact != exact || m[i].Queries != len(queries) ||
			m[i].Wanted != 7*len(queries) || m[i].Target != how.Recall || m[i].EF != how.EF {
			t.Errorf("%+v, want recall %v, promise %v, %d exact", m[i], share, promised, exact)
		}
	}
	// The sample: no document finds itself, in any part; but a copy finds its
	// original.
	for _, sample := range []int{50, 100_000} {
		m, err = f.c.MeasureRecall(ctx, RecallTest{Sample: sample})
		if err != nil || len(m) != 4 || m[0].Queries != min(sample, len(f.docs)) || m[0].Wanted != 10*m[0].Queries {
			t.Fatal(m, err)
		}
		for i, want := range []float64{0.9, 0.95, 0.98, 0.99} {
			if m[i].Target != want || m[i].Recall < want-0.01 || m[i].Promised < want {
				t.Errorf("%+v", m[i])
			}
		}
	}
	upsert(t, f.c, Document{ID: "copy", Vector: f.docs["310"].Vector})
	for _, id := range []string{"310", "copy"} {
		for _, how := range []Accuracy{Exact, nil} {
			exact := how != nil
			other := map[string]string{"310": "copy", "copy": "310"}[id]
			r, err := f.c.Search(ctx, Query{Near: heldOut(id), Accuracy: how})
			if err != nil || r.Hits[0].ID != other || len(r.Hits) != 10 || r.Exact != exact {
				t.Errorf("%v: %v %+v", id, err, r)
			}
		}
	}
	for _, bad := range []RecallTest{{Accuracies: []Accuracy{Recall(2)}}, {Accuracies: []Accuracy{EF(-1)}}, {Sample: -1}, {K: -1}, {Queries: [][]float32{{1}}}} {
		if _, err := f.c.MeasureRecall(ctx, bad); !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrDimensionMismatch) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	// A query that wants nothing is not counted: the only match does not find itself.
	for only, n := range map[any]int{f.docs["310"].Metadata["i"]: len(f.docs), int64(-1): 0} {
		m, err := f.c.MeasureRecall(ctx, RecallTest{Sample: 100_000, Where: filter.Eq("i", only), Accuracies: []Accuracy{EF(10)}})
		if err != nil || m[0].Exact != n || m[0].Queries != n || m[0].Wanted != n || m[0].Recall != 1 || m[0].Promised > 1 {
			t.Errorf("%v: %+v %v", only, m, err)
		}
	}
	empty := collection(t, f.vdb, "empty", Schema{})
	if m, err := empty.MeasureRecall(ctx, RecallTest{}); err != nil || m[0].Queries != 0 {
		t.Error(m, err)
	}
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := f.c.MeasureRecall(stopped, RecallTest{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Where the vectors share a large mean, all scores are nearly equal, and still only
// equal scores are ties.
func TestMeasureRecallOfNearScores(t *testing.T) {
	const rows, dim = 2000, 32
	ctx := t.Context()
	opts := promising
	opts.Recheck = Manual
	vdb := open(t, t.TempDir(), &opts)
	c := collection(t, vdb, "c", Schema{Dim: dim})
	vecs := randomVectors(rand.New(rand.NewPCG(8, 8)), rows+100, dim)
	var docs []Document
	for i, v := range vecs {
		for j := range v {
			v[j] += 1000
		}
		docs = append(docs, Document{ID: fmt.Sprint(i), Vector: v})
	}
	upsert(t, c, docs[:rows]...)
	if err := vdb.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	m, err := c.MeasureRecall(ctx, RecallTest{Queries: vecs[rows:], Accuracies: []Accuracy{Recall(0.9), EF(10)}})
	if err != nil {
		t.Fatal(err)
	}
	for i, q := range []Query{{Accuracy: Recall(0.9)}, {Accuracy: EF(10)}} {
		found := 0
		for _, vec := range vecs[rows:] {
			q.Near = Vector(vec)
			got, err := c.Search(ctx, q)
			if err != nil || got.Exact {
				t.Fatal(err, got)
			}
			truth, err := c.Search(ctx, Query{Near: q.Near, Accuracy: Exact})
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range truth.Hits {
				if slices.Contains(ids(got.Hits), h.ID) {
					found++
				}
			}
		}
		if m[i].Found != found || found == m[i].Wanted {
			t.Errorf("%d found, MeasureRecall says %+v", found, m[i])
		}
		if promise := m[i].Promised; m[i].Recall < promise-0.02 {
			t.Errorf("recall %.4f, promised %.4f", m[i].Recall, promise)
		}
	}
}

// Queries far from all rows find the recall that they ask for, also under filters that allow few
// rows, or only rows on the other side.
func TestFarQueriesUnderFilters(t *testing.T) {
	f := newFarQueries(t)
	for _, where := range []filter.Expr{nil, filter.Lt("n", 70), filter.Lt("n", 40), filter.Lt("n", 10), filter.Gt("x", 0)} {
		m, err := f.c.MeasureRecall(t.Context(), RecallTest{Queries: f.queries, Where: where, Accuracies: []Accuracy{Recall(0.95)}})
		if err != nil || m[0].Recall < 0.95 {
			t.Error(where, m, err)
		}
	}
}

// farQueries are a collection, and queries far from all of its rows.
type farQueries struct {
	c       *Collection
	queries [][]float32
}

func newFarQueries(t *testing.T) *farQueries {
	const rows, dim = 3000, 32
	r := rand.New(rand.NewPCG(3, 4))
	var docs []Document
	for i, v := range randomVectors(r, rows, dim) {
		for j := range v[4:] { // most of the space is empty
			v[4+j] *= 0.01
		}
		docs = append(docs, Document{ID: fmt.Sprint(i), Vector: v, Metadata: Metadata{"n": i % 100, "x": v[0]}})
	}
	path := filepath.Join(t.TempDir(), "db")
	copyFixture(t, "far queries", path, func(dir string) { plantDocuments(t, dir, Schema{Dim: dim, Metric: L2}, docs) })
	c := existing(t, open(t, path, &promising), "c")
	queries := randomVectors(r, 100, dim)
	for _, v := range queries {
		v[0] = -max(v[0], -v[0]) // a filter allows only rows on the other side
		for j := range v[4:] {
			v[4+j] *= 10
		}
	}
	return &farQueries{c, queries}
}

// Queries far from all rows are answered by a scan if they ask for a recall. With an EF they are
// answered by the graph, whatever it finds, and say that no recall is known.
func TestFarQueriesWithEF(t *testing.T) {
	f := newFarQueries(t)
	for _, where := range []filter.Expr{nil, filter.Lt("n", 70)} {
		for _, vec := range f.queries {
			q := Query{Near: Vector(vec), K: 10, Where: where, Accuracy: EF(20)}
			r, err := f.c.Search(t.Context(), q)
			if err != nil || r.Plan != "graph" || r.Exact || len(r.Hits) != 10 || r.Recall != 0 || r.UsualRecall != 0 {
				t.Fatalf("%v, %+v", err, r)
			}
			e, err := f.c.Explain(t.Context(), q)
			if err != nil || !strings.Contains(fmt.Sprint(e), "no recall is known") {
				t.Fatal(e, err)
			}
			q.Accuracy = Recall(0.95)
			if r, err := f.c.Search(t.Context(), q); err != nil || !r.Exact {
				t.Fatalf("%v, %+v", err, r)
			}
		}
		near := Query{Near: Stored("0"), K: 10, Where: where, Accuracy: EF(20)}
		if r, err := f.c.Search(t.Context(), near); err != nil || r.Plan != "graph" || r.Recall == 0 {
			t.Errorf("%v, %+v", err, r)
		}
	}
}

// hardQueries returns n vectors for which searches at a recall of 0.95 find less than nine of ten
// rows. The recall is promised as a mean of all queries, so these alone fall short.
func hardQueries(t *testing.T, c *Collection, r *rand.Rand, dim, n int) (hard [][]float32) {
	t.Helper()
	for tries := 0; len(hard) < n; tries++ {
		if tries == 200*n {
			t.Fatalf("only %d of %d queries find too little", len(hard), tries)
		}
		v := randomVectors(r, 1, dim)
		m, err := c.MeasureRecall(t.Context(), RecallTest{Queries: v, Accuracies: []Accuracy{Recall(0.95)}})
		if err != nil {
			t.Fatal(err)
		}
		if m[0].Recall < 0.9 {
			hard = append(hard, v[0])
		}
	}
	return hard
}

// Live queries that are all hard find less than was promised: that is noticed, shown, and made
// good.
func TestRecheck(t *testing.T) {
	const rows, dim = 3000, 32
	ctx := t.Context()
	opts := promising
	opts.tests.recheckEvery, opts.tests.recheckByHand = 1, true
	vdb := open(t, t.TempDir(), &opts)
	c := collection(t, vdb, "c", Schema{Dim: dim, Metric: L2})
	r := rand.New(rand.NewPCG(3, 4))
	var docs []Document
	for i, v := range randomVectors(r, rows, dim) {
		docs = append(docs, Document{ID: fmt.Sprint(i), Vector: v})
	}
	upsert(t, c, docs...)
	if err := vdb.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	hard := hardQueries(t, c, r, dim, 200)
	const target = 0.95
	share := func() float64 {
		m, err := c.MeasureRecall(ctx, RecallTest{Queries: hard, Accuracies: []Accuracy{Recall(target)}})
		if err != nil || m[0].Exact > 0 {
			t.Fatal(m, err)
		}
		return m[0].Recall
	}
	stats := func() CollectionStats { return must(vdb.Stats()).Collections[0] }
	before := share()
	if before >= target-0.02 {
		t.Fatalf("recall %v: nothing is wrong with these queries", before)
	}
	if s := stats(); s.EFFactor != 1 || len(s.Recall) > 0 {
		t.Fatalf("%+v", s)
	}
	ask := func(n int) {
		t.Helper()
		for i := range n {
			q := Query{Near: Vector(hard[i%len(hard)]), Accuracy: Recall(target)}
			if _, err := c.Search(ctx, q); err != nil {
				t.Fatal(err)
			}
			vdb.searcher.Rechecks.Drain(ctx)
		}
	}
	ask(nearest.RaiseAfter - 1)
	if s := stats(); s.EFFactor != 1 || len(s.Recall) != 1 || s.Recall[0].Queries != nearest.RaiseAfter-1 || s.Recall[0].Target != target ||
		s.Recall[0].Wanted != 10*(nearest.RaiseAfter-1) {
		t.Fatalf("%+v", s)
	}
	ask(1000)
	s := stats()
	t.Logf("before %.4f, ef × %.3g: %v", before, s.EFFactor, s.Recall)
	if s.EFFactor < engine.RaiseBy || len(s.Recall) != 1 || s.Recall[0].High < target {
		t.Errorf("%+v", s)
	}
	if after := share(); after < target-0.01 {
		t.Errorf("recall %v after %v before, ef × %v", after, before, s.EFFactor)
	}
	e, err := c.Explain(ctx, Query{Near: Vector(hard[0]), Accuracy: Recall(target)})
	if err != nil || !strings.Contains(e.Plan[0].Reason, "because queries found less than promised") {
		t.Error(err, e.Plan)
	}

	// An ef and exact answers are not checked; too many queries are dropped.
	queries := s.Recall[0].Queries
	for _, q := range []Query{{Accuracy: EF(20)}, {Accuracy: Exact}, {K: nearest.RecheckMaxNeed + 1, Accuracy: Recall(0.5)}} {
		q.Near = Vector(hard[0])
		if _, err := c.Search(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	vdb.searcher.Rechecks.Drain(ctx)
	if got := stats().Recall; len(got) != 1 || got[0].Queries != queries {
		t.Errorf("%+v", got)
	}
	for range 2 * nearest.RecheckQueue {
		if _, err := c.Search(ctx, Query{Near: Vector(hard[0]), Accuracy: Recall(0.6)}); err != nil {
			t.Fatal(err)
		}
	}
	vdb.searcher.Rechecks.Drain(ctx)
	if got := stats().Recall; len(got) != 2 || got[0].Queries != nearest.RecheckQueue {
		t.Errorf("%+v", got)
	}

	// A dropped collection is forgotten; checks that wait do not keep Close.
	if _, err := c.Search(ctx, Query{Near: Vector(hard[0])}); err != nil {
		t.Fatal(err)
	}
	if err := vdb.Drop(ctx, "c"); err != nil {
		t.Fatal(err)
	}
	vdb.searcher.Rechecks.Drain(ctx)
	if len(vdb.searcher.Rechecks.Observed(c.id)) > 0 {
		t.Error("not forgotten")
	}
}

// A result states the recall measured for queries like the rows, which these queries find, and
// which share of the hardest queries found less than half.
func TestUsualRecall(t *testing.T) {
	f := plant(t, t.TempDir(), promising, Cosine, "normal", 3000, 24)
	if err := f.vdb.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	queries := vectorsOf("normal", f.rng, 300, 24)
	const target = 0.8
	m, err := f.c.MeasureRecall(t.Context(), RecallTest{Queries: queries, Accuracies: []Accuracy{Recall(target)}})
	if err != nil || m[0].Exact > 0 {
		t.Fatal(m, err)
	}
	ask := func(a Accuracy) *Result {
		t.Helper()
		r, err := f.c.Search(t.Context(), Query{Near: Vector(queries[0]), Accuracy: a})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := ask(Recall(target))
	t.Logf("%v promised, %v usual, %v poor; %+v", r.Recall, r.UsualRecall, r.Poor, m[0])
	if r.Recall != target || r.UsualRecall < target || math.Abs(r.UsualRecall-m[0].Recall) > 0.04 || r.Poor < 0 || r.Poor > 0.2 {
		t.Errorf("%+v", r)
	}
	if r := ask(Exact); r.UsualRecall != 1 || r.Poor != 0 {
		t.Errorf("exact: %+v", r)
	}
	if r := ask(EF(30)); r.Exact || r.UsualRecall != r.Recall || r.Poor != 0 {
		t.Errorf("with a beam width: %+v", r)
	}
}

// A recallLesson is a database whose live queries find less than was promised, until it has
// noticed.
type recallLesson struct {
	vdb   *DB
	opts  Options
	hard  [][]float32
	asked int
}

// learnRecall plants rows, and asks hard queries until the beam width was raised.
func learnRecall(t *testing.T, dir string) *recallLesson {
	t.Helper()
	const rows, dim = 3000, 32
	l, r := &recallLesson{opts: promising}, rand.New(rand.NewPCG(3, 4))
	l.opts.tests.recheckEvery, l.opts.tests.recheckByHand = 1, true
	var docs []Document
	for i, v := range randomVectors(r, rows, dim) {
		docs = append(docs, Document{ID: fmt.Sprint(i), Vector: v})
	}
	copyFixture(t, "a lesson", dir, func(dir string) { plantDocuments(t, dir, Schema{Dim: dim, Metric: L2}, docs) })
	l.vdb = open(t, dir, &l.opts)
	c := existing(t, l.vdb, "c")
	l.hard = hardQueries(t, c, r, dim, 50)
	for range 40 * nearest.RaiseAfter {
		if l.ask(t); l.stats().EFFactor > 1 {
			return l
		}
	}
	t.Fatal("nothing was learnt")
	return nil
}

// ask asks one hard query, and repeats it.
func (l *recallLesson) ask(t *testing.T) {
	t.Helper()
	v := l.hard[l.asked%len(l.hard)]
	l.asked++
	c := collection(t, l.vdb, "c", Schema{Dim: 32, Metric: L2})
	if _, err := c.Search(t.Context(), Query{Near: Vector(v), Accuracy: Recall(0.95)}); err != nil {
		t.Fatal(err)
	}
	l.vdb.searcher.Rechecks.Drain(t.Context())
}

func (l *recallLesson) stats() CollectionStats { return must(l.vdb.Stats()).Collections[0] }

func (l *recallLesson) reopen(t *testing.T, opts Options) {
	t.Helper()
	if err := l.vdb.Close(); err != nil {
		t.Fatal(err)
	}
	l.vdb = open(t, l.vdb.engine.Dir, &opts)
}

// What live queries have taught outlives the process: after a close, for readers too, after a kill,
// and in the segments that replace those that it was learnt about.
func TestLearntRecallIsKept(t *testing.T) {
	dir := t.TempDir()
	l := learnRecall(t, dir)
	if _, err := os.Stat(filepath.Join(dir, engine.TallyName)); err != nil {
		t.Errorf("a killed process leaves nothing: %v", err)
	}
	l.ask(t)
	learnt := l.stats()
	if learnt.EFFactor <= 1 || len(learnt.Recall) != 1 || learnt.Recall[0].Queries != 1 {
		t.Fatalf("%+v", learnt)
	}
	same := func(when string, recall []MeasuredRecall) {
		t.Helper()
		if s := l.stats(); s.EFFactor != learnt.EFFactor || !slices.Equal(s.Recall, recall) {
			t.Errorf("%s: factor %v and %+v, want %v and %+v", when, s.EFFactor, s.Recall, learnt.EFFactor, recall)
		}
	}
	reader, manual := l.opts, l.opts
	reader.ReadOnly, manual.Recheck = true, Manual
	l.reopen(t, l.opts)
	same("after a close", learnt.Recall)
	l.reopen(t, manual)
	same("without rechecks", learnt.Recall)
	l.reopen(t, reader)
	same("read-only", learnt.Recall)
	l.reopen(t, l.opts)
	l.ask(t)
	if r := l.stats().Recall; len(r) != 1 || r[0].Queries != 2 {
		t.Errorf("measuring does not go on: %+v", r)
	}
	more := l.stats().Recall

	// A compaction writes the rows again, into another segment.
	rewrite := func(id string) {
		t.Helper()
		c := collection(t, l.vdb, "c", Schema{Dim: 32, Metric: L2})
		before := must(l.vdb.engine.Acquire(t.Context()))
		old := before.Files.Segments[0].Info.ID
		l.vdb.engine.Done(before)
		if n, err := c.Delete(t.Context(), id); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		l.vdb.engine.Opts.Trials = walking.tests.trials
		if err := l.vdb.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		after := must(l.vdb.engine.Acquire(t.Context()))
		defer l.vdb.engine.Done(after)
		if len(after.Files.Segments) != 1 || after.Files.Segments[0].Info.ID == old {
			t.Fatal("the segment was not replaced")
		}
	}
	rewrite("1")
	same("after a compaction", more)
	l.reopen(t, l.opts)
	same("after a compaction and a close", more)

	// A process that is killed after a compaction leaves a file that names the former segment.
	file := filepath.Join(dir, engine.TallyName)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rewrite("2")
	if err := l.vdb.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	l.vdb = open(t, dir, &l.opts)
	same("after a compaction that the file does not know", more)
}

// A file of learnt recalls that is damaged, missing, of another database or of a later version is
// as none, and its recalls are measured again.
func TestLearntRecallIsDerived(t *testing.T) {
	dir := t.TempDir()
	l := learnRecall(t, dir)
	if err := l.vdb.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, engine.TallyName)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	foreign := slices.Clone(good[:len(good)-4])
	foreign[12]++
	later := slices.Clone(good[:len(good)-4])
	later[8]++
	seal := func(b []byte) []byte { return binary.LittleEndian.AppendUint32(b, codec.CRC(b)) }
	flipped := slices.Clone(good)
	flipped[len(good)/2] ^= 1
	for name, b := range map[string][]byte{
		"empty": {}, "cut": good[:len(good)-1], "damaged": flipped, "of another database": seal(foreign), "later": seal(later), "missing": nil,
	} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if b != nil {
			if err := os.WriteFile(file, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		l.vdb = open(t, dir, &l.opts)
		if s := l.stats(); s.EFFactor != 1 || len(s.Recall) > 0 {
			t.Errorf("%s: %+v", name, s)
		}
		check(t, l.vdb)
		l.ask(t)
		if r := l.stats().Recall; len(r) != 1 || r[0].Queries != 1 {
			t.Errorf("%s: %+v", name, r)
		}
		l.reopen(t, l.opts)
		if r := l.stats().Recall; len(r) != 1 || r[0].Queries != 1 {
			t.Errorf("%s: not learnt again: %+v", name, r)
		}
		if err := l.vdb.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// In the background, checks are made and end with the database; Manual makes
// none.
func TestRecheckInBackground(t *testing.T) {
	dir := t.TempDir()
	f := plant(t, dir, promising, L2, "normal", 1000, 12)
	if err := f.vdb.Close(); err != nil {
		t.Fatal(err)
	}
	for _, recheck := range []Upkeep{Automatic, Manual} {
		none := recheck == Manual
		opts := promising
		opts.tests.recheckEvery, opts.Recheck, opts.ReadOnly = 1, recheck, true
		vdb := open(t, dir, &opts)
		c := collection(t, vdb, "c", Schema{Metric: L2})
		for checked := false; !checked; { // until the goroutine had its turn
			if r, err := c.Search(t.Context(), Query{Near: Vector(f.rngVector(12))}); err != nil || r.Exact {
				t.Fatal(r, err)
			}
			runtime.Gosched()
			checked = none || len(must(vdb.Stats()).Collections[0].Recall) > 0
		}
		if none && vdb.searcher.Rechecks.Active() {
			t.Error("probes are repeated")
		}
		if err := vdb.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
