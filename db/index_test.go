package db

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/internal/blocks"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/segment/codes"
)

func TestIndexText(t *testing.T) {
	for i, name := range map[Index]string{IndexFast: "fast", IndexSmall: "small", IndexNone: "none"} {
		got, err := ParseIndex(strings.ToUpper(name))
		if err != nil || got != i || i.String() != name {
			t.Errorf("%v: %v, %v", i, got, err)
		}
		b, err := json.Marshal(Schema{Dim: 2, Index: i})
		want := fmt.Sprintf(`{"dim":2,"metric":"cosine","index":%q}`, name)
		if i == IndexFast {
			want = `{"dim":2,"metric":"cosine"}`
		}
		if err != nil || string(b) != want {
			t.Errorf("%s, %v, want %s", b, err, want)
		}
		var back Schema
		if err := json.Unmarshal(b, &back); err != nil || back.Index != i {
			t.Errorf("%s: %v, %v", b, back.Index, err)
		}
	}
	if _, err := ParseIndex("hnsw"); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	var s Schema
	if err := json.Unmarshal([]byte(`{"index":"hnsw"}`), &s); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

// TestIndexOfSchema: a collection keeps the index of its schema. Who opens it may leave the index
// open, but not expect another.
func TestIndexOfSchema(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	vdb := open(t, dir, nil)
	all := []Index{IndexFast, IndexSmall, IndexNone}
	for _, i := range all {
		collection(t, vdb, i.String(), Schema{Dim: 2, Index: i})
	}
	if _, err := vdb.CreateCollection(ctx, "bad", Schema{Index: 3}, nil); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	for range 2 {
		for _, have := range all {
			for _, want := range all {
				c, err := vdb.OpenCollection(ctx, have.String(), Schema{Index: want})
				if want != IndexFast && want != have {
					if !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), "has index "+have.String()+", opened with "+want.String()) {
						t.Errorf("%v opened with %v: %v", have, want, err)
					}
					continue
				}
				if err != nil {
					t.Errorf("%v opened with %v: %v", have, want, err)
				} else if info := must(c.Info()); info.Schema.Index != have {
					t.Errorf("%v is %v", have, info.Schema.Index)
				}
			}
		}
		if err := vdb.Close(); err != nil {
			t.Fatal(err)
		}
		vdb = open(t, dir, nil)
	}
	c := collection(t, vdb, "fast", Schema{})
	if err := c.SetIndex(ctx, 3); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	if err := c.SetIndex(ctx, IndexSmall); err != nil || must(c.Info()).Schema.Index != IndexSmall {
		t.Errorf("%+v, %v", must(c.Info()), err)
	}
	s := must(vdb.Snapshot())
	defer s.Close()
	if err := must(s.Collection("fast")).SetIndex(ctx, IndexNone); !errors.Is(err, ErrReadOnly) {
		t.Error(err)
	}
	if err := vdb.Drop(ctx, "fast"); err != nil {
		t.Fatal(err)
	}
	if err := c.SetIndex(ctx, IndexNone); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

// indexFiles are the sizes of the graph and the codes of the only segment, 0 for none, and what the
// engine finds in them.
type indexFiles struct {
	graph, codes  int64
	quick, halved bool
}

func filesOf(t *testing.T, vdb *DB, dir string) (f indexFiles) {
	t.Helper()
	for ext, size := range map[string]*int64{"graph": &f.graph, "codes": &f.codes} {
		names, err := filepath.Glob(filepath.Join(dir, engine.SegDir, "*."+ext))
		if err != nil || len(names) > 1 {
			t.Fatal(names, err)
		}
		for _, name := range names {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			*size = info.Size()
		}
	}
	f.quick, f.halved = contents(t, vdb)
	return f
}

// contents reports whether the graph of the only segment has the quick layout, and whether its
// codes have nibbles, as this process reads them.
func contents(t *testing.T, vdb *DB) (quick, halved bool) {
	t.Helper()
	ver := vdb.engine.Current()
	defer vdb.engine.Drop(ver)
	if len(ver.Files.Segments) != 1 {
		t.Fatalf("%d segments", len(ver.Files.Segments))
	}
	err := vdb.engine.Guard(func() error {
		s := ver.Files.Segments[0]
		if g := s.Graph.Get(); g != nil {
			quick = g.Quick()
		}
		if c := s.Codes.Get(); c != nil {
			halved = c.HasNibbles()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return quick, halved
}

// ask searches for a few vectors. Answers must be right, from graphs if and only if wanted, and
// have the promised recall.
func (f *forest) ask(t *testing.T, c *Collection, metric Metric, queries [][]float32, graphs bool) {
	t.Helper()
	good := 0.0
	for _, vec := range queries {
		q := Query{Near: Vector(vec), K: 10, Accuracy: Exact}
		truth := f.truth(metric, q)
		for _, a := range []Accuracy{Exact, Recall(0.95)} {
			q.Accuracy = a
			r, err := c.Search(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			part := recall(t, truth, q, r)
			if r.Exact != (a == Exact || !graphs) || r.Exact && part < 1 {
				t.Fatalf("exact %v, recall %v, plan %q", r.Exact, part, r.Plan)
			}
			if a != Exact {
				good += part / float64(len(queries))
			}
		}
	}
	if good < 0.93 { // of 300 hits
		t.Errorf("recall %.3f, promised 0.95", good)
	}
}

// TestSetIndex changes the index of a collection to and fro. At every step answers are right and as
// good as promised, with the files before and after they are replaced, and by another process that
// opens the directory.
func TestSetIndex(t *testing.T) {
	skipRecall(t)
	const rows, dim, metric = 1000, 192, L2 // quick, by quickSize of walking
	ctx, dir := t.Context(), t.TempDir()
	f := plantClusters(t, dir, metric, rows, dim)
	if err := f.vdb.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	queries := f.clusters(30, dim)
	first := filesOf(t, f.vdb, dir)
	if first.graph == 0 || !first.quick || !first.halved {
		t.Fatalf("at first: %+v", first)
	}
	now := first
	for _, index := range []Index{IndexSmall, IndexNone, IndexFast, IndexNone, IndexSmall, IndexFast} {
		before := now
		if err := f.c.SetIndex(ctx, index); err != nil {
			t.Fatal(err)
		}
		f.ask(t, f.c, metric, queries, index != IndexNone && before.graph > 0)
		if got := filesOf(t, f.vdb, dir); got != before {
			t.Errorf("%v, right away: %+v, before %+v", index, got, before)
		}
		if err := f.vdb.Compact(ctx); err != nil {
			t.Fatal(err)
		}
		now = filesOf(t, f.vdb, dir)
		f.ask(t, f.c, metric, queries, index != IndexNone)
		stats := must(f.vdb.Stats()).Collections[0]
		graphs := 1
		switch index {
		case IndexFast:
			if now != first {
				t.Errorf("fast: %+v, at first %+v", now, first)
			}
		case IndexSmall:
			if now.quick || now.halved || now.graph == 0 || now.graph >= first.graph || now.codes >= first.codes {
				t.Errorf("small: %+v, fast %+v", now, first)
			}
		case IndexNone:
			graphs = 0
			if now.graph != 0 || !now.halved || now.codes != first.codes {
				t.Errorf("none: %+v, fast %+v", now, first)
			}
		}
		if stats.Graphs != graphs || stats.GraphsDue != 0 || stats.Schema.Index != index || stats.Uncoded != 0 {
			t.Errorf("%v: %+v", index, stats)
		}
		if r := must(f.vdb.Check(ctx, CheckDeep)); !r.OK() {
			t.Errorf("%v: %v", index, r.Problems)
		}
		f.reopen(t, dir)
		if info := must(f.c.Info()); info.Schema.Index != index {
			t.Errorf("%v reopened is %v", index, info.Schema.Index)
		}
		if got := filesOf(t, f.vdb, dir); got != now {
			t.Errorf("%v, reopened: %+v, before %+v", index, got, now)
		}
		f.ask(t, f.c, metric, queries, index != IndexNone)
	}
}

// briefly returns options with a calibration between those of walking and promising: ask expects
// a recall near 0.95, of clusters that are found easily.
func briefly() Options {
	opts := walking
	opts.tests.trials = 40
	return opts
}

// plantClusters makes a forest of clusters: nibbles of codes pay.
func plantClusters(t *testing.T, dir string, metric Metric, rows, dim int) *forest {
	t.Helper()
	opts := briefly()
	f := &forest{vdb: open(t, dir, &opts), docs: map[string]Document{}, rng: rand.New(rand.NewPCG(21, uint64(metric)))}
	f.c = collection(t, f.vdb, "c", Schema{Dim: dim, Metric: metric})
	var docs []Document
	for i, v := range f.clusters(rows, dim) {
		docs = append(docs, Document{ID: fmt.Sprint(i), Vector: v})
		f.docs[docs[i].ID] = docs[i]
	}
	upsert(t, f.c, docs...)
	return f
}

func (f *forest) clusters(n, dim int) [][]float32 {
	vecs := make([][]float32, n)
	for i := range vecs {
		vecs[i] = make([]float32, dim)
		centre := float64(1 + f.rng.IntN(60))
		for j := range vecs[i] {
			vecs[i][j] = float32(math.Sin(centre*float64(j+1)) + 0.3*f.rng.NormFloat64())
		}
	}
	return vecs
}

func (f *forest) reopen(t *testing.T, dir string) {
	t.Helper()
	if err := f.vdb.Close(); err != nil {
		t.Fatal(err)
	}
	opts := briefly()
	f.vdb = open(t, dir, &opts)
	f.c = must(f.vdb.Collection("c"))
}

// TestSetIndexByOthers changes the index in a process that does not lead. The one that does
// replaces the files in the background, the others take them, a snapshot keeps its answers, and a
// published folder follows.
func TestSetIndexByOthers(t *testing.T) {
	skipRecall(t)
	const rows, dim, metric = 1000, 192, L2
	ctx, dir, folder := t.Context(), t.TempDir(), t.TempDir()
	f := plantClusters(t, dir, metric, rows, dim)
	if err := f.vdb.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	if quick, halved := contents(t, f.vdb); !quick || !halved {
		t.Fatalf("at first: quick %v, halved %v", quick, halved)
	}
	f.publish(t, folder)
	if err := f.vdb.Close(); err != nil {
		t.Fatal(err)
	}
	opts := briefly()
	opts.Compaction, opts.tests.settle = Automatic, 1
	f.vdb = open(t, dir, &opts)
	other := open(t, dir, &opts)
	theirs := must(other.Collection("c"))
	opts = briefly()
	opts.ReadOnly, opts.Follow = true, byHand
	replica := open(t, folder, &opts)
	copied := must(replica.Collection("c"))
	queries := f.clusters(10, dim)
	snap := must(other.Snapshot())
	defer snap.Close()
	kept := must(snap.Collection("c"))
	f.ask(t, kept, metric, queries, true)
	for _, index := range []Index{IndexSmall, IndexNone, IndexFast} {
		if err := theirs.SetIndex(ctx, index); err != nil {
			t.Fatal(err)
		}
		built := func(vdb *DB) bool {
			s := must(vdb.Stats()).Collections[0]
			quick, halved := contents(t, vdb)
			return s.Schema.Index == index && halved == (index != IndexSmall) && (index == IndexNone && s.Graphs == 0 ||
				index != IndexNone && s.Graphs == 1 && quick == (index == IndexFast))
		}
		for _, vdb := range []*DB{f.vdb, other} {
			for !built(vdb) {
				runtime.Gosched()
			}
		}
		for (filesOf(t, f.vdb, dir).graph > 0) != (index != IndexNone) {
			runtime.Gosched()
		}
		f.ask(t, theirs, metric, queries, index != IndexNone)
		if r, err := kept.Search(ctx, Query{Near: Vector(queries[0]), K: 5, Accuracy: Exact}); err != nil || len(r.Hits) != 5 {
			t.Errorf("%v, snapshot: %+v, %v", index, r, err)
		}
		f.publish(t, folder)
		refresh(t, replica)
		f.ask(t, copied, metric, queries, index != IndexNone)
		if !built(replica) {
			quick, halved := contents(t, replica)
			t.Errorf("%v, replica: quick %v, halved %v", index, quick, halved)
		}
	}
}

// publish makes a new Publisher, which knows the published files from the folder alone.
func (f *forest) publish(t *testing.T, folder string) {
	t.Helper()
	p := publisher(t, f.vdb, folder, nil)
	publish(t, p)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSharedCodes damages and removes the files of a small collection, whose graph shares the
// codes. Answers stay right. Whichever file was at fault is built again, and only that one.
func TestSharedCodes(t *testing.T) {
	const rows, dim, metric = 1500, 64, L2
	ctx, dir := t.Context(), t.TempDir()
	f := plantClusters(t, dir, metric, rows, dim)
	if err := f.c.SetIndex(ctx, IndexSmall); err != nil {
		t.Fatal(err)
	}
	if err := f.vdb.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	path := func(ext string) string {
		t.Helper()
		names, err := filepath.Glob(filepath.Join(dir, engine.SegDir, "*."+ext))
		if err != nil || len(names) != 1 {
			t.Fatal(names, err)
		}
		return names[0]
	}
	queries := f.clusters(5, dim)
	segment := func() *engine.OpenSegment {
		ver := f.vdb.engine.Current()
		defer f.vdb.engine.Drop(ver)
		return ver.Files.Segments[0]
	}
	s := segment()
	opposite := func(lo, hi int) ([]float32, error) {
		vecs, err := s.Rows(lo, hi)
		vecs = slices.Clone(vecs)
		for i := range vecs {
			vecs[i] = -vecs[i]
		}
		return vecs, err
	}
	var others blocks.Memory
	if _, err := codes.WriteSmall(&others, s.CodesIdent(), opposite); err != nil {
		t.Fatal(err)
	}
	const block = 65536
	for _, x := range []struct {
		name         string
		open         bool // while the database is open
		damage       func() error
		problem      string // file that a check blames
		graph, codes bool   // built again
	}{
		{"block of codes", false, func() error { return flipBytes(path("codes"), 4096+block/2) }, "codes", false, true},
		{"mean of codes", false, func() error { return flipBytes(path("codes"), 4096+block+dim*rows%block+100) }, "codes", false, true},
		{"no codes", false, func() error { return os.Remove(path("codes")) }, "", false, true},
		{"other codes", false, func() error { return os.WriteFile(path("codes"), others, 0o600) }, "graph", true, false},
		{"tails of the graph", false, func() error { return flipBytes(path("graph"), 4096+16*rows/2) }, "graph", true, false},
		{"links of the graph", false, func() error { return flipBytes(path("graph"), 4096+16*rows+128*rows/2) }, "graph", true, false},
		{"no graph", false, func() error { return os.Remove(path("graph")) }, "", true, false},
		{"codes cut", true, func() error { return os.Truncate(path("codes"), 8192) }, "codes", false, true},
		{"graph cut", true, func() error { return os.Truncate(path("graph"), 8192) }, "graph", true, false},
	} {
		if x.open && runtime.GOOS == "windows" {
			continue // a mapped file cannot be made shorter there
		}
		graphBefore, codesBefore := stat(t, path("graph")), stat(t, path("codes"))
		if !x.open {
			if err := f.vdb.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := x.damage(); err != nil {
			t.Fatal(err)
		}
		if !x.open {
			opts := briefly()
			f.vdb = open(t, dir, &opts)
			f.c = must(f.vdb.Collection("c"))
		}
		if x.name == "other codes" { // intact, but they say nothing about the vectors
			if r := must(f.vdb.Check(ctx, CheckBytes)); len(r.Problems) != 1 || !strings.HasSuffix(r.Problems[0].File, ".graph") {
				t.Errorf("%s: %v", x.name, r.Problems)
			}
			if err := f.vdb.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(path("codes")); err != nil { // as a user would
				t.Fatal(err)
			}
			opts := briefly()
			f.vdb = open(t, dir, &opts)
			f.c = must(f.vdb.Collection("c"))
			f.ask(t, f.c, metric, queries, false)
			if err := f.vdb.Compact(ctx); err != nil {
				t.Fatal(err)
			}
			if !same(graphBefore, stat(t, path("graph"))) {
				t.Errorf("%s: the graph was built again, although the codes are back", x.name)
			}
			f.ask(t, f.c, metric, queries, true)
			continue
		}
		for _, level := range []CheckLevel{CheckBytes, CheckDeep} {
			r := must(f.vdb.Check(ctx, level))
			if r.OK() != (x.problem == "") || slices.ContainsFunc(r.Problems, func(p Problem) bool {
				return !strings.HasSuffix(p.File, "."+x.problem)
			}) {
				t.Errorf("%s: %v", x.name, r.Problems)
			}
		}
		for range 2 { // the graph is asked first: a scan would read all codes
			q := Query{Near: Vector(queries[0]), K: 10, Accuracy: Recall(0.95)}
			if r, err := f.c.Search(ctx, q); err != nil || !r.Exact || recall(t, f.truth(metric, q), q, r) < 1 {
				t.Errorf("%s: %+v, %v", x.name, r, err)
			}
		}
		f.ask(t, f.c, metric, queries, false)
		if c := must(f.vdb.Stats()).Collections[0]; c.GraphsDue != 1 {
			t.Errorf("%s: %+v", x.name, c)
		}
		if err := f.vdb.Compact(ctx); err != nil {
			t.Fatal(err)
		}
		f.ask(t, f.c, metric, queries, true)
		if c := must(f.vdb.Stats()).Collections[0]; c.GraphsDue != 0 || !slices.Equal(c.Layouts, []string{"shared: to save space"}) {
			t.Errorf("%s, repaired: %+v", x.name, c)
		}
		if r := must(f.vdb.Check(ctx, CheckDeep)); !r.OK() {
			t.Errorf("%s, repaired: %v", x.name, r.Problems)
		}
		if got := !same(graphBefore, stat(t, path("graph"))); got != x.graph {
			t.Errorf("%s: the graph was built again: %v", x.name, got)
		}
		if got := !same(codesBefore, stat(t, path("codes"))); got != x.codes {
			t.Errorf("%s: the codes were built again: %v", x.name, got)
		}
	}
}

// same reports whether a file was not written again.
func same(a, b os.FileInfo) bool { return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) }

func stat(t *testing.T, name string) os.FileInfo {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info
}
