package db_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/formattest"
)

// Every reading call checks its context in proportion to its work, and returns the error
// of the context at whichever check it ends.
func TestReadsEndWithTheirContext(t *testing.T) {
	vdb, err := db.Open(t.TempDir(), &db.Options{Sync: db.SyncNever, Compaction: db.Manual, Recheck: db.Manual, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	c, err := vdb.CreateCollection(t.Context(), "c", db.Schema{Text: &db.TextIndex{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const rows = 3000
	var docs []db.Document
	for i := range rows {
		docs = append(docs, db.Document{ID: fmt.Sprintf("%05d", i), Text: strings.Repeat("one two three ", 1+i%5), Vector: []float32{1, float32(i % 100)}, Metadata: db.Metadata{"n": i, "s": fmt.Sprint(i % 7)}})
	}
	if _, err := c.Upsert(t.Context(), docs[:rows/2]...); err != nil {
		t.Fatal(err)
	}
	if err := vdb.Flush(t.Context()); err != nil { // half of the documents in a segment, half in memory
		t.Fatal(err)
	}
	if _, err := c.Upsert(t.Context(), docs[rows/2:]...); err != nil {
		t.Fatal(err)
	}
	var many []filter.Expr
	for i := range 200 {
		many = append(many, filter.Eq("n", i), filter.Prefix("s", fmt.Sprint(i)))
	}
	v := []float32{1, 2}
	search := func(q db.Query) func(context.Context) error {
		return func(ctx context.Context) error { _, err := c.Search(ctx, q); return err }
	}
	for _, tt := range []struct {
		name string
		call func(context.Context) error
		most int // mean rows of work between two checks
	}{
		{"a vector", search(db.Query{Near: db.Vector(v), K: 100}), 40},
		{"equal scores", search(db.Query{Near: db.Vector(v), K: 1000, Select: db.IDsOnly}), 5},
		{"a long filter", search(db.Query{Near: db.Vector(v), Where: filter.Or(many...)}), 5},
		{"a text", search(db.Query{Text: "one two", K: 100}), 40},
		{"a phrase and a prefix", search(db.Query{Text: `"one two" +thr* -four`}), 200},
		{"passages", search(db.Query{Text: "two", Snippet: 10, K: 500}), 10},
		{"both", search(db.Query{Near: db.Vector(v), Text: "one", K: 100, Fusion: db.Fusion{Method: db.Convex}}), 10},
		{"groups", search(db.Query{Near: db.Vector(v), Group: &db.Group{Field: "s", Size: 2}, K: 5}), 300},
		{"rounds of groups", search(db.Query{Near: db.Vector(v), Group: &db.Group{Field: "s", Size: 200}, K: 3}), 2},
		{"mmr", search(db.Query{Near: db.Vector(v), MMR: &db.MMR{Lambda: 0.5, Fetch: 200}, K: 100}), 40},
		{"text in a filter", search(db.Query{Near: db.Vector(v), Where: filter.Not(filter.Text("three"))}), 300},
		{"explain", func(ctx context.Context) error {
			_, err := c.Explain(ctx, db.Query{Near: db.Vector(v), Text: "one", K: 3}, "00001", "00002", "02999")
			return err
		}, 40},
		{"list", func(ctx context.Context) error { _, err := c.List(ctx, db.ListQuery{Limit: 1000}); return err }, 5},
		{"list few", func(ctx context.Context) error {
			_, err := c.List(ctx, db.ListQuery{Where: filter.Lt("n", 20), Limit: 5})
			return err
		}, 300},
		{"count", func(ctx context.Context) error { _, err := c.Count(ctx, filter.Gt("n", 5)); return err }, 300},
		{"get", func(ctx context.Context) error {
			_, err := c.GetMany(ctx, []string{"00001", "00002", "02999"}, db.Everything)
			return err
		}, 1000},
		{"get, sequence", func(ctx context.Context) error {
			for _, err := range c.GetSeq(ctx, []string{"00001", "00002", "02999"}, db.Everything) {
				if err != nil {
					return err
				}
			}
			return nil
		}, 1000},
		{"list, sequence", func(ctx context.Context) error {
			for _, err := range c.ListSeq(ctx, db.ListQuery{Where: filter.Gt("n", 5)}) {
				if err != nil {
					return err
				}
			}
			return nil
		}, 300},
		{"all", func(ctx context.Context) error {
			for _, err := range c.All(ctx, filter.Gt("n", 5), db.Everything) {
				if err != nil {
					return err
				}
			}
			return nil
		}, 300},
	} {
		if err := tt.call(t.Context()); err != nil { // fills the id cache and builds columns
			t.Fatalf("%s: %v", tt.name, err)
		}
		const enough = 1 << 40
		whole := formattest.NewCountdown(t.Context(), enough)
		if err := tt.call(whole); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		looks := enough - whole.Left()
		if looks*tt.most < rows {
			t.Errorf("%s: %d looks at the context for %d rows, want one for %d", tt.name, looks, rows, tt.most)
		}
		step := max(1, looks/50)
		for n := 0; n < looks; n += step {
			if err := tt.call(formattest.NewCountdown(t.Context(), n)); !errors.Is(err, context.Canceled) {
				t.Fatalf("%s: ended at look %d of %d: %v", tt.name, n, looks, err)
			}
		}
	}
}

// Copies of a database check their context while they copy meta.bolt, and leave nothing.
func TestCopiesEndWithTheirContext(t *testing.T) {
	vdb, err := db.Open(t.TempDir(), &db.Options{Sync: db.SyncNever, Compaction: db.Manual, Recheck: db.Manual, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	c, err := vdb.CreateCollection(t.Context(), "c", db.Schema{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const rows = 3000
	var docs []db.Document
	for i := range rows {
		docs = append(docs, db.Document{ID: fmt.Sprintf("%05d", i), Text: strings.Repeat("one two three ", 1+i%5)})
	}
	if _, err := c.Upsert(t.Context(), docs...); err != nil {
		t.Fatal(err)
	}
	if err := vdb.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	top := t.TempDir()
	for name, call := range map[string]func(context.Context) error{
		"backup": func(ctx context.Context) error {
			dir := filepath.Join(top, "copy")
			err := vdb.Backup(ctx, dir)
			if _, there := os.Stat(dir); os.IsNotExist(there) == (err == nil) {
				t.Errorf("copied: %v, there: %v", err, there)
			}
			return errors.Join(err, os.RemoveAll(dir))
		},
		"publication": func(ctx context.Context) error {
			dir := filepath.Join(top, "folder")
			p, err := vdb.NewPublisher(dir, nil)
			if err == nil {
				_, err = p.Publish(ctx)
				err = errors.Join(err, p.Close())
			}
			return errors.Join(err, os.RemoveAll(dir))
		},
	} {
		const enough, pages = 1 << 40, rows / 80
		whole := formattest.NewCountdown(t.Context(), enough)
		if err := call(whole); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		looks := enough - whole.Left()
		if looks < pages {
			t.Errorf("%s: %d looks at the context, want one for a page of meta.bolt, of which there are %d", name, looks, pages)
		}
		for n := 0; n < looks; n += max(1, looks/20) {
			if err := call(formattest.NewCountdown(t.Context(), n)); !errors.Is(err, context.Canceled) {
				t.Fatalf("%s: ended at look %d of %d: %v", name, n, looks, err)
			}
		}
	}
}

// A deep check ends with the error of its context, whichever look at it fails, and has no report.
func TestCheckEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	vdb, err := db.Open(dir, &db.Options{Compaction: db.Manual, Recheck: db.Manual, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { vdb.Close() }()
	for _, name := range []string{"a", "b"} {
		c, err := vdb.CreateCollection(t.Context(), name, db.Schema{Text: &db.TextIndex{}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			d := db.Document{ID: fmt.Sprint(i), Vector: []float32{1, 2}, Text: "text", Metadata: db.Metadata{"n": i}}
			if _, err := c.Upsert(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			if err := vdb.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		if vdb, err = db.Open(dir, &db.Options{Compaction: db.Manual, Recheck: db.Manual, Workers: 1, ReadOnly: true}); err != nil {
			t.Fatal(err)
		}
		ctx := formattest.NewCountdown(t.Context(), n)
		r, err := vdb.Check(ctx, db.CheckDeep)
		if cerr := vdb.Close(); cerr != nil {
			t.Fatal(cerr)
		}
		if ctx.Left() >= 0 {
			if err != nil || len(r.Problems) > 0 {
				t.Error(r, err)
			}
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("look %d: %+v, %v", n, r, err)
		}
	}
}
