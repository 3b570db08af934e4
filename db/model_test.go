package db

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/engine"
)

// TestModel runs random operations against a map. In between there are flushes,
// compactions, snapshots, batches over two collections, backups, repairs, lost or
// damaged derived files, clean reopenings and lost processes. After each step the
// database must hold the content of the map and answer like brute force.
func TestModel(t *testing.T) {
	base, steps := memDir(t), map[string]int{}
	defer func() {
		total := 0
		for _, n := range steps {
			total += n
		}
		t.Logf("%d steps: %v", total, steps)
	}()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(base, "model-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		m := &model{dir: dir, metric: Metric(rapid.IntRange(0, 2).Draw(t, "metric")), docs: map[string]Document{}, other: map[string]Document{}, name: "c"}
		m.opts = &Options{Sync: SyncNever, HeadSize: rapid.SampledFrom([]int64{1, 2000, 64 << 20}).Draw(t, "head size"), Workers: 2,
			tests: testOptions{codedBytes: rapid.SampledFrom([]int64{0, 1}).Draw(t, "codes"), graphSize: rapid.SampledFrom([]int64{0, 1}).Draw(t, "graphs"), worthHelp: 1, trials: walking.tests.trials}}
		m.open(t)
		defer func() {
			for _, s := range m.snaps {
				s.snap.Close()
			}
			if err := m.db.Close(); err != nil {
				t.Fatal(err)
			}
		}()
		actions := map[string]func(*rapid.T){
			"upsert":   m.upsert,
			"insert":   m.insert,
			"patch":    m.patch,
			"delete":   m.delete,
			"where":    m.deleteWhere,
			"search":   m.search,
			"filter":   m.count,
			"list":     m.list,
			"flush":    func(t *rapid.T) { m.must(t, m.db.Flush(t.Context())) },
			"compact":  func(t *rapid.T) { m.must(t, m.db.Compact(t.Context())) },
			"snapshot": m.snapshot,
			"forget":   m.forget,
			"reopen":   m.reopen,
			"check":    m.Check,
			"batch":    m.batch,
			"rename":   m.rename,
			"drop":     m.drop,
			"derived":  m.derived,
			"backup":   m.backup,
			"repair":   m.repair,
			"deep":     m.deep,
		}
		for name, action := range actions {
			actions[name] = func(t *rapid.T) {
				action(t)
				steps[name]++ // not those that were skipped
			}
		}
		t.Repeat(actions)
	})
}

type model struct {
	dir    string
	opts   *Options
	metric Metric
	db     *DB
	c      *Collection
	docs   map[string]Document
	other  map[string]Document // of the second collection
	name   string              // of the first
	snaps  []frozenModel
}

type frozenModel struct {
	snap *Snapshot
	name string
	docs map[string]Document
}

const modelDim = 3

func (m *model) must(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (m *model) open(t *rapid.T) {
	var err error
	m.db, err = Open(m.dir, m.opts)
	m.must(t, err)
	m.c, err = m.db.OpenCollection(t.Context(), m.name, Schema{Dim: modelDim, Metric: m.metric})
	m.must(t, err)
	_, err = m.db.OpenCollection(t.Context(), "other", Schema{})
	m.must(t, err)
}

func (m *model) id(t *rapid.T) string {
	return fmt.Sprint("id", rapid.IntRange(0, 25).Draw(t, "id"))
}

func (m *model) document(t *rapid.T) Document {
	d := Document{ID: m.id(t), Text: rapid.SampledFrom([]string{"", "x", "some text"}).Draw(t, "text")}
	if rapid.IntRange(0, 3).Draw(t, "vector") > 0 {
		d.Vector = rapid.SliceOfN(rapid.Float32Range(-2, 2), modelDim, modelDim).Draw(t, "v")
	}
	if rapid.Bool().Draw(t, "metadata") {
		d.Metadata = Metadata{"n": rapid.Int64Range(0, 5).Draw(t, "n")}
		if rapid.Bool().Draw(t, "more") {
			d.Metadata["tags"] = []any{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tag")}
		}
	}
	return d
}

func (m *model) upsert(t *rapid.T) {
	batch := make([]Document, rapid.IntRange(1, 8).Draw(t, "size"))
	for i := range batch {
		batch[i] = m.document(t)
	}
	_, err := m.c.Upsert(t.Context(), batch...)
	m.must(t, err)
	for _, d := range batch {
		m.docs[d.ID] = d
	}
}

func (m *model) insert(t *rapid.T) {
	d := m.document(t)
	_, err := m.c.Insert(t.Context(), d)
	if _, taken := m.docs[d.ID]; taken {
		if !errors.Is(err, ErrExists) {
			t.Fatalf("insert of a taken id: %v", err)
		}
		return
	}
	m.must(t, err)
	m.docs[d.ID] = d
}

func (m *model) patch(t *rapid.T) {
	from := m.document(t)
	text := from.Text
	err := m.c.Patch(t.Context(), Patch{ID: from.ID, Text: &text, Vector: from.Vector, Unset: []string{"n"}, Set: from.Metadata})
	d, ok := m.docs[from.ID]
	if !ok {
		if !errors.Is(err, ErrNotFound) {
			t.Fatalf("patch of nothing: %v", err)
		}
		return
	}
	m.must(t, err)
	d.Text = text
	if from.Vector != nil {
		d.Vector = from.Vector
	}
	d.Metadata = maps.Clone(d.Metadata)
	delete(d.Metadata, "n")
	if d.Metadata == nil {
		d.Metadata = Metadata{}
	}
	maps.Copy(d.Metadata, from.Metadata)
	m.docs[d.ID] = d
}

func (m *model) delete(t *rapid.T) {
	id := m.id(t)
	n, err := m.c.Delete(t.Context(), id)
	m.must(t, err)
	if _, there := m.docs[id]; there != (n == 1) {
		t.Fatalf("deleted %d", n)
	}
	delete(m.docs, id)
}

func (m *model) deleteWhere(t *rapid.T) {
	where := m.where(t)
	n, err := m.c.DeleteWhere(t.Context(), where)
	m.must(t, err)
	before := len(m.docs)
	maps.DeleteFunc(m.docs, func(_ string, d Document) bool { return matches(where, d) })
	if n != before-len(m.docs) {
		t.Fatalf("deleted %d, want %d", n, before-len(m.docs))
	}
}

func (m *model) where(t *rapid.T) filter.Expr {
	leaf := rapid.SampledFrom([]filter.Expr{
		filter.Eq("n", 1), filter.Ne("n", 1), filter.Gte("n", 3), filter.In("n", 0, 4),
		filter.Contains("tags", "a"), filter.Exists("tags"),
	})
	e := leaf.Draw(t, "where")
	switch rapid.IntRange(0, 3).Draw(t, "shape") {
	case 1:
		return filter.And(e, leaf.Draw(t, "and"))
	case 2:
		return filter.Not(filter.Or(e, leaf.Draw(t, "or")))
	}
	return e
}

func matches(where filter.Expr, d Document) bool {
	return filter.Match(where, func(path string) (any, bool) { return filter.Lookup(d.Metadata, path) })
}

func (m *model) search(t *rapid.T) {
	q := Query{
		Near: Vector(rapid.SliceOfN(rapid.Float32Range(-2, 2), modelDim, modelDim).Draw(t, "q")),
		K:    rapid.IntRange(1, 30).Draw(t, "k"),
	}
	if rapid.Bool().Draw(t, "filtered") {
		q.Where = m.where(t)
	}
	m.answers(t, m.c, m.docs, q)
	for _, s := range m.snaps {
		c, err := s.snap.Collection(s.name)
		m.must(t, err)
		m.answers(t, c, s.docs, q)
	}
}

func (m *model) answers(t *rapid.T, c *Collection, docs map[string]Document, q Query) {
	res, err := c.Search(t.Context(), q)
	m.must(t, err)
	want := bruteForce(docs, m.metric, q)
	if len(want) != len(res.Hits) {
		t.Fatalf("%d hits, want %d", len(res.Hits), len(want))
	}
	for i := range want {
		if want[i].ID != res.Hits[i].ID || want[i].Score != res.Hits[i].Score || want[i].Text != res.Hits[i].Text {
			t.Fatalf("hit %d is %+v, want %+v", i, res.Hits[i], want[i])
		}
	}
}

func (m *model) count(t *rapid.T) {
	where := m.where(t)
	n, err := m.c.Count(t.Context(), where)
	m.must(t, err)
	want := 0
	for _, d := range m.docs {
		if matches(where, d) {
			want++
		}
	}
	if n != want {
		t.Fatalf("%v matches %d, want %d", where, n, want)
	}
}

func (m *model) list(t *rapid.T) {
	m.lists(t, m.c, m.docs)
	for _, s := range m.snaps {
		c, err := s.snap.Collection(s.name)
		m.must(t, err)
		m.lists(t, c, s.docs)
	}
}

func (m *model) lists(t *rapid.T, c *Collection, docs map[string]Document) {
	q := ListQuery{Limit: rapid.IntRange(1, 30).Draw(t, "limit"), Offset: rapid.IntRange(0, 10).Draw(t, "offset"), Select: Everything}
	if rapid.Bool().Draw(t, "filtered") {
		q.Where = m.where(t)
	}
	if rapid.Bool().Draw(t, "after") {
		q.After = m.id(t)
	}
	page, err := c.List(t.Context(), q)
	m.must(t, err)
	var want []string
	total := 0
	for _, id := range slices.Sorted(maps.Keys(docs)) {
		if q.Where != nil && !matches(q.Where, docs[id]) {
			continue
		}
		total++
		if id > q.After {
			want = append(want, id)
		}
	}
	want = want[min(q.Offset, len(want)):]
	more := len(want) > q.Limit
	want = want[:min(q.Limit, len(want))]
	var got []string
	for _, d := range page.Documents {
		got = append(got, d.ID)
		if !slices.Equal(d.Vector, docs[d.ID].Vector) {
			t.Fatalf("%s has vector %v, want %v", d.ID, d.Vector, docs[d.ID].Vector)
		}
	}
	if !slices.Equal(got, want) || page.Total != total || more != (page.Next != "") {
		t.Fatalf("page %v of %d, next %q; want %v of %d, more %v", got, page.Total, page.Next, want, total, more)
	}
}

func (m *model) snapshot(t *rapid.T) {
	snap, err := m.db.Snapshot()
	m.must(t, err)
	m.snaps = append(m.snaps, frozenModel{snap, m.name, maps.Clone(m.docs)})
}

func (m *model) forget(t *rapid.T) {
	if len(m.snaps) == 0 {
		t.Skip("no snapshot")
	}
	i := rapid.IntRange(0, len(m.snaps)-1).Draw(t, "snapshot")
	m.must(t, m.snaps[i].snap.Close())
	m.snaps = slices.Delete(m.snaps, i, i+1)
}

func (m *model) reopen(t *rapid.T) {
	m.leave(t)
	m.open(t)
}

// leave closes the database, or leaves it as a killed process does.
func (m *model) leave(t *rapid.T) {
	for _, s := range m.snaps {
		m.must(t, s.snap.Close())
	}
	m.snaps = nil
	if rapid.Bool().Draw(t, "lost") {
		m.db.abandon()
	}
	m.must(t, m.db.Close())
}

// batch writes to both collections at once, or to neither because one insert meets
// an existing id.
func (m *model) batch(t *rapid.T) {
	b := &Batch{}
	docs, other, taken := maps.Clone(m.docs), maps.Clone(m.other), false
	var where filter.Expr
	if rapid.Bool().Draw(t, "delete where") {
		where = m.where(t)
		maps.DeleteFunc(docs, func(_ string, d Document) bool { return matches(where, d) })
	}
	for range rapid.IntRange(1, 6).Draw(t, "size") {
		name, into := m.name, docs
		d := m.document(t)
		if rapid.Bool().Draw(t, "other") {
			name, into = "other", other
			d.Vector = nil
		}
		_, there := into[d.ID]
		switch rapid.IntRange(0, 5).Draw(t, "write") {
		case 0:
			b.Delete(name, d.ID)
			delete(into, d.ID)
		case 1:
			b.Insert(name, d)
			taken = taken || there
			into[d.ID] = d
		default:
			b.Upsert(name, d)
			into[d.ID] = d
		}
	}
	if where != nil { // it comes before the other writes, wherever it stands
		b.DeleteWhere(m.name, where)
	}
	err := m.db.Apply(t.Context(), b)
	if taken {
		if !errors.Is(err, ErrExists) {
			t.Fatalf("batch with an insert of a taken id: %v", err)
		}
		return
	}
	m.must(t, err)
	m.docs, m.other = docs, other
}

func (m *model) rename(t *rapid.T) {
	to := rapid.SampledFrom([]string{"c", "d", "e"}).Draw(t, "name")
	m.must(t, m.db.Rename(t.Context(), m.name, to))
	m.name = to
}

func (m *model) drop(t *rapid.T) {
	m.must(t, m.db.Drop(t.Context(), m.name))
	if _, err := m.c.Get(t.Context(), "id0", 0); !errors.Is(err, ErrNotFound) {
		t.Fatalf("get from a dropped collection: %v", err)
	}
	m.docs = map[string]Document{}
	var err error
	m.c, err = m.db.OpenCollection(t.Context(), m.name, Schema{Dim: modelDim, Metric: m.metric})
	m.must(t, err)
}

// derived loses or damages the files that can be made again, between two
// processes.
func (m *model) derived(t *rapid.T) {
	m.leave(t)
	names, err := filepath.Glob(filepath.Join(m.dir, engine.SegDir, "*"))
	m.must(t, err)
	names = append(names, filepath.Join(m.dir, "meta.sums"))
	for _, name := range names {
		b, err := os.ReadFile(name)
		if filepath.Ext(name) == ".vec" || err != nil || len(b) == 0 {
			continue
		}
		switch rapid.IntRange(0, 3).Draw(t, "damage") {
		case 0:
			err = os.Remove(name)
		case 1:
			b[rapid.IntRange(0, len(b)-1).Draw(t, "byte")] ^= 0x40
			err = os.WriteFile(name, b, 0o600)
		case 2:
			err = os.Truncate(name, int64(rapid.IntRange(0, len(b)-1).Draw(t, "length")))
		}
		m.must(t, err)
	}
	m.open(t)
}

// holds compares a database with the model.
func (m *model) holds(t *rapid.T, vdb *DB) {
	for name, want := range map[string]map[string]Document{m.name: m.docs, "other": m.other} {
		c, err := vdb.Collection(name)
		m.must(t, err)
		n := 0
		for d, err := range c.All(t.Context(), nil, Everything) {
			m.must(t, err)
			w, ok := want[d.ID]
			if n++; !ok || d.Text != w.Text || !slices.Equal(d.Vector, w.Vector) || len(d.Metadata) != len(w.Metadata) {
				t.Fatalf("%s holds %+v, want %+v", name, d, w)
			}
		}
		if n != len(want) || must(c.Info()).Documents != n {
			t.Fatalf("%s holds %d documents, Len %d, want %d", name, n, must(c.Info()).Documents, len(want))
		}
	}
	r, err := vdb.Check(t.Context(), CheckDeep)
	m.must(t, err)
	m.sound(t, r)
}

// sound accepts only problems of files that will be rebuilt.
func (m *model) sound(t *rapid.T, r *CheckReport) {
	for _, p := range r.Problems {
		if !strings.Contains(p.Detail, engine.ErrDerived.Error()) {
			t.Error(p)
		}
	}
}

// moved goes on with a copy of the database.
func (m *model) moved(t *rapid.T, copied string) {
	m.must(t, os.RemoveAll(m.dir))
	m.must(t, os.Rename(copied, m.dir))
	m.open(t)
	m.holds(t, m.db)
}

func (m *model) backup(t *rapid.T) {
	copied := m.dir + "-copy"
	if rapid.Bool().Draw(t, "by a reader") {
		m.leave(t)
		r, err := Open(m.dir, &Options{ReadOnly: true, tests: testOptions{codedBytes: m.opts.tests.codedBytes, graphSize: m.opts.tests.graphSize}})
		m.must(t, err)
		m.holds(t, r)
		m.must(t, r.Backup(t.Context(), copied))
		m.must(t, r.Close())
	} else {
		m.must(t, m.db.Backup(t.Context(), copied))
		m.leave(t)
	}
	m.moved(t, copied)
}

func (m *model) repair(t *rapid.T) {
	m.leave(t)
	copied := m.dir + "-copy"
	r, err := Repair(t.Context(), m.dir, copied)
	m.must(t, err)
	if len(r.Lost) > 0 || len(r.Problems) > 0 || r.Documents != len(m.docs)+len(m.other) {
		t.Fatalf("repair of a sound database: %+v, want %d documents", r, len(m.docs)+len(m.other))
	}
	m.moved(t, copied)
}

func (m *model) deep(t *rapid.T) { m.holds(t, m.db) }

func (m *model) Check(t *rapid.T) {
	r, err := m.db.Check(t.Context(), CheckBytes)
	m.must(t, err)
	m.sound(t, r)
	if must(m.c.Info()).Documents != len(m.docs) {
		t.Fatalf("%d documents, want %d", must(m.c.Info()).Documents, len(m.docs))
	}
	for id, want := range m.docs {
		d, err := m.c.Get(t.Context(), id, Everything)
		m.must(t, err)
		if !slices.Equal(d.Vector, want.Vector) || d.Text != want.Text || len(d.Metadata) != len(want.Metadata) {
			t.Fatalf("%+v, want %+v", d, want)
		}
	}
}

// abandon makes the next Close leave the files as a killed process would:
// nothing is flushed and the log stays.
func (db *DB) abandon() {
	_ = db.engine.Fail(errors.New("abandoned"))
}
