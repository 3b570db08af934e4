package db

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/filter"
)

// An error of a collection names the package, the call and the collection once.
func TestErrorsNameTheCollectionOnce(t *testing.T) {
	vdb := open(t, Memory, nil)
	c := collection(t, vdb, "c", Schema{Dim: 2})
	search := func(q Query) error { _, err := c.Search(t.Context(), q); return err }
	batch := func(q Query) error {
		_, err := c.SearchBatch(t.Context(), []Query{{Near: Vector([]float32{1, 2}), K: 1}, q})
		return err
	}
	put := func(d Document) error { _, err := c.Upsert(t.Context(), d); return err }
	insert := func(d Document) error { _, err := c.Insert(t.Context(), d); return err }
	upsert(t, c, Document{ID: "a", Vector: []float32{1, 2}})
	ctx, wrong := t.Context(), []float32{1, 2, 3}
	for want, err := range map[string]error{
		`search: dimension mismatch in collection "c": expected 2, got 3`:                                                                   search(Query{Near: Vector(wrong), K: 1}),
		`search: query 1: dimension mismatch in collection "c": expected 2, got 3`:                                                          batch(Query{Near: Vector(wrong), K: 1}),
		`upsert: dimension mismatch in collection "c": expected 2, got 3 (document "b")`:                                                    put(Document{ID: "b", Vector: wrong}),
		`patch: dimension mismatch in collection "c": expected 2, got 3 (document "a")`:                                                     c.Patch(ctx, Patch{ID: "a", Vector: wrong}),
		`insert: already exists: document "a" in collection "c"`:                                                                            insert(Document{ID: "a"}),
		`patch: not found: document "b" in collection "c"`:                                                                                  c.Patch(ctx, Patch{ID: "b"}),
		`search: invalid: collection "c" has no text index (in Go: Schema.Text of a new collection, Collection.SetText of an existing one)`: search(Query{Text: "x", K: 1}),
		`search in collection "c": invalid: k is -1`:                                                                                        search(Query{Near: Vector([]float32{1, 2}), K: -1}),
	} {
		if err == nil || err.Error() != "db: "+want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A call that fails looks for newer versions with its own context only: to name the collection in
// the error, it asks no other process.
func TestErrorsAskNobody(t *testing.T) {
	vdb := open(t, Memory, nil)
	c := collection(t, vdb, "c", Schema{Dim: 2})
	type key struct{}
	ctx, looks := context.WithValue(t.Context(), key{}, true), 0
	vdb.engine.Look(func(ctx context.Context) error {
		if looks++; ctx.Value(key{}) == nil {
			t.Error("a look with another context")
		}
		return nil
	})
	defer vdb.engine.Look(nil)
	one := Vector([]float32{1, 2})
	for call, do := range map[string]func() error{
		"search": func() error { _, err := c.Search(ctx, Query{Near: one, K: -1}); return err },
		"get":    func() error { _, err := c.Get(ctx, "none", Everything); return err },
		"list":   func() error { _, err := c.List(ctx, ListQuery{Limit: -1}); return err },
		"upsert": func() error { _, err := c.Upsert(ctx, Document{Text: "\xff"}); return err },
		"delete": func() error { _, err := c.DeleteWhere(ctx, nil); return err },
		"update": func() error { return c.Update(ctx, nil) },
	} {
		looks = 0
		err := do()
		if err == nil || !strings.HasPrefix(err.Error(), "db: "+call) || !strings.Contains(err.Error(), `collection "c"`) {
			t.Errorf("%s: %v", call, err)
		}
		if looks > 1 {
			t.Errorf("%s looked %d times", call, looks)
		}
	}
}

// An error of a collection names the package and the call once, whatever is gone.
func TestErrorsNameTheCallOnce(t *testing.T) {
	vdb, err := Open(Memory, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	c, err := vdb.CreateCollection(t.Context(), "c", Schema{Dim: 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := vdb.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	old, err := snap.Collection("c")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	q := Query{Text: "x", K: 1}
	calls := map[string]func(c *Collection) error{
		"info":           func(c *Collection) error { _, err := c.Info(); return err },
		"version":        func(c *Collection) error { _, err := c.Version(); return err },
		"search":         func(c *Collection) error { _, err := c.Search(ctx, q); return err },
		"search, batch":  func(c *Collection) error { _, err := c.SearchBatch(ctx, []Query{q}); return err },
		"search, fused":  func(c *Collection) error { _, err := c.SearchFused(ctx, []Query{q}); return err },
		"explain":        func(c *Collection) error { _, err := c.Explain(ctx, q); return err },
		"measure recall": func(c *Collection) error { _, err := c.MeasureRecall(ctx, RecallTest{}); return err },
		"get":            func(c *Collection) error { _, err := c.Get(ctx, "a", Everything); return err },
		"get, many":      func(c *Collection) error { _, err := c.GetMany(ctx, []string{"a"}, Everything); return err },
		"get, sequence": func(c *Collection) (err error) {
			for _, err = range c.GetSeq(ctx, []string{"a"}, Everything) {
			}
			return err
		},
		"list": func(c *Collection) error { _, err := c.List(ctx, ListQuery{}); return err },
		"list, sequence": func(c *Collection) (err error) {
			for _, err = range c.ListSeq(ctx, ListQuery{}) {
			}
			return err
		},
		"count": func(c *Collection) error { _, err := c.Count(ctx, nil); return err },
		"read": func(c *Collection) (err error) {
			for _, err = range c.All(ctx, nil, Everything) {
			}
			return err
		},
		"upsert (write)":         func(c *Collection) error { _, err := c.Upsert(ctx, Document{ID: "a"}); return err },
		"insert (write)":         func(c *Collection) error { _, err := c.Insert(ctx, Document{ID: "a"}); return err },
		"patch (write)":          func(c *Collection) error { return c.Patch(ctx, Patch{ID: "a"}) },
		"delete (write)":         func(c *Collection) error { _, err := c.Delete(ctx, "a"); return err },
		"delete, all (write)":    func(c *Collection) error { _, err := c.DeleteWhere(ctx, filter.And()); return err },
		"load (write)":           func(c *Collection) error { _, err := c.Load(ctx, func(func(Document, error) bool) {}, nil); return err },
		"set metadata (write)":   func(c *Collection) error { return c.SetMetadata(ctx, Metadata{"a": "b"}) },
		"set index (write)":      func(c *Collection) error { return c.SetIndex(ctx, IndexNone) },
		"set text index (write)": func(c *Collection) error { return c.SetText(ctx, nil) },
	}
	expect := func(c *Collection, want error, message string) {
		t.Helper()
		for name, call := range calls {
			err, text := call(c), message
			is := want
			if strings.HasSuffix(name, "(write)") && c.snap != nil {
				is, text = ErrReadOnly, ErrReadOnly.Error()
			}
			verb, _, _ := strings.Cut(strings.TrimSuffix(name, " (write)"), ",")
			if !errors.Is(err, is) || err.Error() != "db: "+verb+": "+text {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if err := vdb.Drop(ctx, "c"); err != nil {
		t.Fatal(err)
	}
	expect(c, ErrNotFound, "not found: the collection was dropped")
	if err := snap.Close(); err != nil {
		t.Fatal(err)
	}
	expect(old, ErrClosed, "closed")
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	expect(c, ErrClosed, "closed")
}
