package migrate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/dbtest"
	"github.com/vecbolt/vecbolt/store"
	"github.com/vecbolt/vecbolt/store/storetest"
)

func open2(t *testing.T) (from store.Collection, to store.Store) {
	t.Helper()
	stores := make([]store.Store, 2)
	for i := range stores {
		vdb, err := db.Open(t.TempDir(), &db.Options{Sync: db.SyncNever})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := vdb.Close(); err != nil {
				t.Error(err)
			}
		})
		stores[i] = store.Embedded(vdb)
	}
	from, err := stores[0].Create(t.Context(), "from", store.Schema{Dim: 8, Text: &db.TextIndex{Language: "german"}, Lineage: db.Lineage{Model: "m"},
		Metadata: db.Metadata{"n": int64(1) << 60}})
	if err != nil {
		t.Fatal(err)
	}
	if err := from.Upsert(t.Context(), storetest.Documents(8)); err != nil {
		t.Fatal(err)
	}
	return from, stores[1]
}

// failing fails after some writes, and can damage what it writes.
type failing struct {
	store.Store
	writes *int // left
	damage func(*db.Document)
}

type failingCollection struct {
	store.Collection
	failing
}

var errCut = errors.New("cut")

func (f failing) Create(ctx context.Context, name string, s store.Schema) (store.Collection, error) {
	c, err := f.Store.Create(ctx, name, s)
	return failingCollection{c, f}, err
}

func (f failing) Collection(ctx context.Context, name string) (store.Collection, error) {
	c, err := f.Store.Collection(ctx, name)
	return failingCollection{c, f}, err
}

func (c failingCollection) Upsert(ctx context.Context, docs []db.Document) error {
	if *c.writes == 0 {
		return errCut
	}
	*c.writes--
	for i := range docs {
		if c.damage != nil {
			c.damage(&docs[i])
		}
	}
	return c.Collection.Upsert(ctx, docs)
}

func TestMigrate(t *testing.T) {
	ctx := t.Context()
	from, to := open2(t)
	var seen []int
	report, err := Run(ctx, from, to, "to", &Options{BatchSize: 100, Progress: func(done, total int) {
		if total != 320 {
			t.Errorf("total %d", total)
		}
		seen = append(seen, done)
	}})
	if err != nil || report.Documents != 320 || !cmp.Equal(seen, []int{100, 200, 300, 320}) {
		t.Fatalf("%+v %v %v", report, seen, err)
	}
	target, err := to.Collection(ctx, "to")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(from.Schema(), target.Schema()); diff != "" {
		t.Error(diff)
	}
	v, err := Verify(ctx, from, target)
	if err != nil || !v.OK() || v.Compared != 320 || v.Queries != sampleQueries || v.Overlap != 1 || v.ScoreError > 0 {
		t.Errorf("%+v %v", v, err)
	}
	if _, err := Run(ctx, from, to, "to", nil); !errors.Is(err, db.ErrExists) {
		t.Errorf("into documents of others: %v", err)
	}
	if _, err := to.Create(ctx, "small", store.Schema{Dim: 3}); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(ctx, from, to, "small", nil); !errors.Is(err, db.ErrDimensionMismatch) {
		t.Errorf("into another dimension: %v", err)
	}
}

// TestLargeDocuments: documents that are too large together for one write go in several.
func TestLargeDocuments(t *testing.T) {
	for name, tt := range map[string]struct {
		large db.Document
		n     int
	}{
		"text":     {db.Document{Text: strings.Repeat("x", maxBatchBytes*3/5)}, 3},
		"metadata": {db.Document{Metadata: db.Metadata{"a": []any{strings.Repeat("x", 1_000_000)}}}, 40},
	} {
		from, to := open2(t)
		large := slices.Repeat([]db.Document{tt.large}, tt.n)
		for i := range large {
			large[i].ID = fmt.Sprintf("large %02d", i)
		}
		if err := from.Upsert(t.Context(), large); err != nil {
			t.Fatal(err)
		}
		counted := &countingStore{Store: to}
		if report, err := Run(t.Context(), from, counted, "to", nil); err != nil || report.Documents != 320+tt.n {
			t.Fatalf("%s: %+v %v", name, report, err)
		}
		if counted.writes != 4 { // three for the second page
			t.Errorf("%s: %d writes", name, counted.writes)
		}
	}
}

// A countingStore counts the writes to its collections.
type countingStore struct {
	store.Store
	writes int
}

func (s *countingStore) Create(ctx context.Context, name string, schema store.Schema) (store.Collection, error) {
	c, err := s.Store.Create(ctx, name, schema)
	return countingCollection{c, s}, err
}

type countingCollection struct {
	store.Collection
	of *countingStore
}

func (c countingCollection) Upsert(ctx context.Context, docs []db.Document) error {
	c.of.writes++
	return c.Collection.Upsert(ctx, docs)
}

// Collections of texts, without a dimension and without vectors, migrate as well.
func TestMigrateTexts(t *testing.T) {
	ctx := t.Context()
	_, to := open2(t)
	from, err := to.Create(ctx, "texts", store.Schema{Text: &db.TextIndex{Language: "none"}})
	if err != nil {
		t.Fatal(err)
	}
	docs := storetest.Documents(8)
	for i := range docs {
		docs[i].Vector = nil
	}
	if err := from.Upsert(ctx, docs); err != nil {
		t.Fatal(err)
	}
	if report, err := Run(ctx, from, to, "to", nil); err != nil || report.Documents != len(docs) {
		t.Fatalf("%+v %v", report, err)
	}
	target, err := to.Collection(ctx, "to")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(from.Schema(), target.Schema()); diff != "" {
		t.Error(diff)
	}
	if v, err := Verify(ctx, from, target); err != nil || !v.OK() || v.Compared != len(docs) {
		t.Errorf("%+v %v", v, err)
	}
	if _, err := to.Create(ctx, "vectors", store.Schema{Dim: 3}); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(ctx, from, to, "vectors", nil); !errors.Is(err, db.ErrDimensionMismatch) {
		t.Errorf("into a collection with vectors: %v", err)
	}
}

// An empty collection of a database takes the dimension that it lacks, as it does from its first
// vectors. One of texts keeps it.
func TestMigrateIntoEmpty(t *testing.T) {
	ctx := t.Context()
	for _, resume := range []bool{false, true} {
		from, to := open2(t)
		if _, err := to.Create(ctx, "to", store.Schema{}); err != nil {
			t.Fatal(err)
		}
		if report, err := Run(ctx, from, to, "to", &Options{Resume: resume}); err != nil || report.Documents != 320 {
			t.Fatalf("%+v %v", report, err)
		}
		target, err := to.Collection(ctx, "to")
		if err != nil {
			t.Fatal(err)
		}
		if v, err := Verify(ctx, from, target); err != nil || !v.OK() {
			t.Errorf("%+v %v", v, err)
		}
		texts, err := to.Create(ctx, "texts", store.Schema{})
		if err == nil {
			err = texts.Upsert(ctx, []db.Document{{ID: "a", Text: "a"}})
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Run(ctx, from, to, "texts", &Options{Resume: resume}); !errors.Is(err, db.ErrDimensionMismatch) {
			t.Errorf("into texts: %v", err)
		}
	}
}

// A checkpoint has one place, whatever names the database.
func TestNamed(t *testing.T) {
	top := t.TempDir()
	database, link := filepath.Join(top, "dir", "notes.vdb"), filepath.Join(top, "link.vdb")
	if err := os.MkdirAll(database, 0o700); err != nil {
		t.Fatal(err)
	}
	names := []string{".", "../notes.vdb", "../notes.vdb/", database}
	if err := os.Symlink(database, link); err == nil { // not allowed everywhere
		names = append(names, link, "../../link.vdb")
	}
	t.Chdir(database)
	places := map[string]bool{}
	for _, name := range names {
		var o Options
		o.Named(name, "a to b")
		if !filepath.IsAbs(o.Checkpoint) || o.ID != "a to b" {
			t.Errorf("%s: %q, %q", name, o.Checkpoint, o.ID)
		}
		places[o.Checkpoint] = true
	}
	if beside, err := filepath.Glob(filepath.Join(top, "dir", "*")); err != nil || len(beside) != 1 || len(places) != 1 {
		t.Error(places, beside, err)
	}
	for place := range places {
		if at, err := filepath.EvalSymlinks(top); err != nil || filepath.Dir(place) != filepath.Join(at, "dir") {
			t.Errorf("%s is not beside the database: %v", place, err)
		}
	}
	var o, missing Options
	o.Named(filepath.Join(top, "none"), "")
	missing.Named("../../none", "")
	if o.Checkpoint != missing.Checkpoint {
		t.Errorf("%q, %q", o.Checkpoint, missing.Checkpoint)
	}
}

// What was cut short goes on where it stopped, and nothing is written twice.
func TestResume(t *testing.T) {
	ctx := t.Context()
	from, to := open2(t)
	writes := 2
	f := failing{Store: to, writes: &writes}
	o := &Options{BatchSize: 100, Checkpoint: filepath.Join(t.TempDir(), "c.json"), ID: "a to b", Resume: true}
	report, err := Run(ctx, from, f, "to", o)
	if !errors.Is(err, errCut) || report.Documents != 200 {
		t.Fatalf("%+v %v", report, err)
	}
	other := *o
	other.ID = "a to c"
	if _, err := Run(ctx, from, f, "to", &other); !errors.Is(err, ErrCheckpoint) {
		t.Errorf("with the checkpoint of another: %v", err)
	}
	writes = 10
	if report, err = Run(ctx, from, f, "to", o); err != nil || report.Documents != 120 || report.Before != 200 {
		t.Fatalf("%+v %v", report, err)
	}
	if _, err := os.Stat(o.Checkpoint); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the checkpoint is still there: %v", err)
	}
	if report, err = Run(ctx, from, f, "to", o); err != nil || report.Documents != 320 {
		t.Fatalf("again: %+v %v", report, err)
	}
	target, err := to.Collection(ctx, "to")
	if err != nil {
		t.Fatal(err)
	}
	if v, err := Verify(ctx, from, target); err != nil || !v.OK() {
		t.Errorf("%+v %v", v, err)
	}
	if err := os.WriteFile(o.Checkpoint, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(ctx, from, f, "to", o); err == nil {
		t.Error("a damaged checkpoint is taken")
	}
}

// The report says that a source was written to while it was copied, also between two runs.
func TestChanged(t *testing.T) {
	change := func(ctx context.Context, t *testing.T, from store.Collection) {
		if err := from.Upsert(ctx, storetest.Documents(8)[:1]); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		during, between, after bool
		hidden                 bool // the source does not tell
		within                 bool // as if both collections were of one database
		want                   bool
	}{
		"never":                       {},
		"during a run":                {during: true, want: true},
		"between two runs":            {between: true, want: true},
		"after the end":               {after: true},
		"a source that does not tell": {between: true, hidden: true},
		"within one database":         {during: true, between: true, within: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			from, to := open2(t)
			source := from
			if test.hidden {
				source = struct{ store.Collection }{from}
			}
			writes := 2
			f := failing{Store: to, writes: &writes}
			o := &Options{BatchSize: 100, Checkpoint: filepath.Join(t.TempDir(), "c.json"), Resume: true, Within: test.within}
			if _, err := Run(ctx, source, f, "to", o); !errors.Is(err, errCut) {
				t.Fatal(err)
			}
			if test.between {
				change(ctx, t, from)
			}
			writes = 10
			done := false
			o.Progress = func(int, int) {
				if test.during && !done {
					done = true
					change(ctx, t, from)
				}
			}
			report, err := Run(ctx, source, f, "to", o)
			if test.after {
				change(ctx, t, from)
			}
			if err != nil || report.Changed != test.want {
				t.Errorf("%+v, %v", report, err)
			}
			if said := strings.Contains((&Result{Report: report}).String(), "was written to"); said != test.want {
				t.Errorf("said: %t", said)
			}
		})
	}
}

// TestChangedByAnotherProcess: what another process had written before the end is a change, also if
// this process does not show it yet.
func TestChangedByAnotherProcess(t *testing.T) {
	ctx := t.Context()
	leader, other := dbtest.Share(t, db.Open, &db.Options{Sync: db.SyncNever})
	theirs, err := leader.CreateCollection(ctx, "notes", db.Schema{Dim: 1}, nil)
	if err == nil {
		err = other.Barrier(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	from, err := store.Embedded(other).Collection(ctx, "notes")
	if err != nil {
		t.Fatal(err)
	}
	to, err := db.Open(db.Memory, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	for i := range 30 {
		write := func(int, int) {
			if _, err := theirs.Upsert(ctx, db.Document{ID: fmt.Sprint(i), Vector: []float32{1}}); err != nil {
				t.Error(err)
			}
		}
		report, err := Run(ctx, from, store.Embedded(to), fmt.Sprint("copy", i), &Options{Progress: write})
		if err != nil || !report.Changed {
			t.Fatalf("migration %d: %+v, %v", i, report, err)
		}
	}
}

// A checkpoint is worth nothing once the target has lost documents: they would be left out.
func TestResumeIntoLess(t *testing.T) {
	for what, lose := range map[string]func(ctx context.Context, to store.Store) error{
		"the collection": func(ctx context.Context, to store.Store) error { return to.Drop(ctx, "to") },
		"a document": func(ctx context.Context, to store.Store) error {
			target, err := to.Collection(ctx, "to")
			if err == nil {
				_, err = target.Delete(ctx, []string{"doc-100"})
			}
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			ctx := t.Context()
			from, to := open2(t)
			writes := 2
			f := failing{Store: to, writes: &writes}
			o := &Options{BatchSize: 100, Checkpoint: filepath.Join(t.TempDir(), "c.json"), ID: "a to b", Resume: true}
			if _, err := Run(ctx, from, f, "to", o); !errors.Is(err, errCut) {
				t.Fatal(err)
			}
			if err := lose(ctx, to); err != nil {
				t.Fatal(err)
			}
			writes = 10
			if report, err := Run(ctx, from, f, "to", o); !errors.Is(err, ErrCheckpoint) {
				t.Fatalf("resumed: %+v, %v", report, err)
			}
			if err := to.Drop(ctx, "to"); err != nil && !errors.Is(err, db.ErrNotFound) {
				t.Fatal(err)
			}
			o.Resume, writes = false, 0
			if _, err := Run(ctx, from, f, "to", o); !errors.Is(err, errCut) {
				t.Fatal(err)
			}
			if _, err := os.Stat(o.Checkpoint); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the checkpoint of the first migration is still there: %v", err)
			}
		})
	}
}

// Verify notices a missing document, one too many, a changed bit.
func TestVerifyNotices(t *testing.T) {
	ctx := t.Context()
	for name, damage := range map[string]func(*db.Document){
		"text":     func(d *db.Document) { d.Text += "x" },
		"integer":  func(d *db.Document) { d.Metadata = db.Metadata{"n": int64(1)<<53 + 1} },
		"type":     func(d *db.Document) { d.Metadata = db.Metadata{"n": 1.0} },
		"bit":      func(d *db.Document) { d.Vector = append([]float32{d.Vector[0] + 1e-3}, d.Vector[1:]...) },
		"opposite": func(d *db.Document) { d.Vector = append([]float32{-d.Vector[0]}, d.Vector[1:]...) },
		"id":       func(d *db.Document) { d.ID = "another" },
	} {
		from, to := open2(t)
		writes := 100
		f := failing{Store: to, writes: &writes, damage: func(d *db.Document) {
			if d.ID == "doc-200" {
				damage(d)
			}
		}}
		if _, err := Run(ctx, from, f, "to", nil); err != nil {
			t.Fatal(err)
		}
		target, err := to.Collection(ctx, "to")
		if err != nil {
			t.Fatal(err)
		}
		if v, err := Verify(ctx, from, target); err != nil || v.OK() || !cmp.Equal(v.Different, []string{"doc-200"}) {
			t.Errorf("%s: %v %v", name, v, err)
		}
	}
	from, to := open2(t)
	if _, err := Run(ctx, from, to, "to", nil); err != nil {
		t.Fatal(err)
	}
	target, err := to.Collection(ctx, "to")
	if err != nil {
		t.Fatal(err)
	}
	if err := target.Upsert(ctx, []db.Document{{ID: "one too many"}}); err != nil {
		t.Fatal(err)
	}
	if v, err := Verify(ctx, from, target); err != nil || v.OK() {
		t.Errorf("one too many: %v %v", v, err)
	}
}
