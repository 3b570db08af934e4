package db

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Changes that a caller makes to the metadata or the text index of a returned collection do not
// reach the database.
func TestCollectionsAreCopies(t *testing.T) {
	vdb, err := Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	want := CollectionInfo{Name: "c", Metadata: Metadata{"a": int64(1), "deep": map[string]any{"list": []any{"x"}}},
		Schema: Schema{Text: &TextIndex{Language: "german", Fields: []string{"title"}, K1: new(1.5)}}}
	c, err := vdb.CreateCollection(t.Context(), want.Name, want.Schema, want.Metadata)
	if err != nil {
		t.Fatal(err)
	}
	s, err := vdb.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, give := range map[string]func() CollectionInfo{
		"Info":                 func() CollectionInfo { return must(c.Info()) },
		"Collections":          func() CollectionInfo { return must(vdb.Collections())[0] },
		"Snapshot.Collections": func() CollectionInfo { return must(s.Collections())[0] },
		"Stats":                func() CollectionInfo { return must(vdb.Stats()).Collections[0].CollectionInfo },
	} {
		info := give()
		list := info.Metadata["deep"].(map[string]any)["list"].([]any)
		list[0] = "changed"
		delete(info.Metadata, "a")
		text := info.Schema.Text
		text.Language, text.Fields[0], *text.K1 = "none", "changed", 9
		if diff := cmp.Diff(want, give()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// The first invalid write of a batch is its error, whether or not others came before.
func TestBatchErr(t *testing.T) {
	c := collection(t, open(t, t.TempDir(), nil), "c", Schema{})
	bad := Document{ID: "bad", Metadata: Metadata{"$x": 1}}
	for _, before := range []int{0, 1} {
		var b Batch
		if b.Err() != nil || b.Size() != 0 {
			t.Error(b.Err(), b.Size())
		}
		for range before {
			b.Upsert("c", Document{ID: "good", Text: "text", Vector: []float32{1, 2}})
		}
		size := b.Size()
		if before > 0 && size < len("goodtext")+8 {
			t.Error(size)
		}
		b.Upsert("c", bad)
		err := b.Err()
		b.Upsert("c", Document{ID: "later"})
		if !errors.Is(err, ErrInvalid) || b.Err() != err || b.Len() != before || b.Size() != size {
			t.Error(err, b.Err(), b.Len(), b.Size())
		}
		if applied := c.db.Apply(t.Context(), &b); !errors.Is(applied, ErrInvalid) {
			t.Error(applied)
		}
		if b.Reset(); b.Err() != nil || b.Size() != 0 {
			t.Error(b.Err(), b.Size())
		}
	}
}

// A batch keeps copies of all but vectors: what a caller reuses does not change earlier writes.
func TestBatchKeepsCopies(t *testing.T) {
	c := collection(t, open(t, t.TempDir(), nil), "c", Schema{})
	upsert(t, c, Document{ID: "1"}, Document{ID: "2", Metadata: Metadata{"old": 1, "older": 1}})
	meta, text, unset := Metadata{"tags": []any{"a"}}, "one", []string{"old"}
	var b Batch
	for i, tag := range []string{"a", "b"} {
		meta["tags"].([]any)[0] = tag
		text = tag
		b.Patch("c", Patch{ID: fmt.Sprint(i + 1), Text: &text, Set: meta, Unset: unset})
		b.Upsert("c", Document{ID: fmt.Sprint(i + 3), Text: text, Metadata: meta})
	}
	meta["tags"].([]any)[0], text, unset[0] = "changed", "changed", "older"
	if err := c.db.Apply(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	want := map[string]Document{
		"1": {ID: "1", Text: "a", Metadata: Metadata{"tags": []any{"a"}}},
		"2": {ID: "2", Text: "b", Metadata: Metadata{"tags": []any{"b"}, "older": int64(1)}},
		"3": {ID: "3", Text: "a", Metadata: Metadata{"tags": []any{"a"}}},
		"4": {ID: "4", Text: "b", Metadata: Metadata{"tags": []any{"b"}}},
	}
	if diff := cmp.Diff(want, dump(t, c)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestBoundToTheCollection: writes, a rename and a drop of a collection go to it, though another
// collection has its name by then.
func TestBoundToTheCollection(t *testing.T) {
	vdb := open(t, t.TempDir(), nil)
	old := collection(t, vdb, "live", Schema{Dim: 1})
	upsert(t, old, Document{ID: "first", Vector: []float32{1}})
	var b Batch
	b.Insert("live", Document{ID: "second", Vector: []float32{2}})
	b.Patch("live", Patch{ID: "first", Set: Metadata{"a": 1}})
	b.Delete("live", "none")
	if err := vdb.Rename(t.Context(), "live", "old"); err != nil {
		t.Fatal(err)
	}
	live := collection(t, vdb, "live", Schema{Dim: 1})
	if err := old.Apply(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	for c, want := range map[*Collection]int{old: 2, live: 0} {
		if n := must(c.Count(t.Context(), nil)); n != want {
			t.Errorf("%s has %d documents, want %d", must(c.Info()).Name, n, want)
		}
	}
	// The batch goes where it says in other calls.
	if err := vdb.Apply(t.Context(), &b); !errors.Is(err, ErrNotFound) {
		t.Errorf("there is no document to patch: %v", err)
	}
	b.Insert("other", Document{ID: "third"})
	if err := old.Apply(t.Context(), &b); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "other") {
		t.Errorf("a batch for two collections: %v", err)
	}
	snapshot := must(vdb.Snapshot())
	frozen := must(snapshot.Of(old))
	named := func(name string) func(*CollectionInfo) error {
		return func(info *CollectionInfo) error {
			info.Name = name
			return nil
		}
	}
	for call, err := range map[string]error{"apply": frozen.Apply(t.Context(), &Batch{}),
		"update": frozen.Update(t.Context(), named("x")), "drop": frozen.Drop(t.Context())} {
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s in a snapshot: %v", call, err)
		}
	}
	if n := must(frozen.Count(t.Context(), nil)); n != 2 {
		t.Errorf("%d documents in a snapshot, want 2", n)
	}
	later := collection(t, vdb, "later", Schema{Dim: 1})
	if _, err := snapshot.Of(later); !errors.Is(err, ErrNotFound) {
		t.Errorf("a collection that the snapshot does not have: %v", err)
	}
	if _, err := snapshot.Of(collection(t, open(t, t.TempDir(), nil), "live", Schema{})); !errors.Is(err, ErrInvalid) {
		t.Errorf("a collection of another database: %v", err)
	}
	if err := later.Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	snapshot.Close()
	if err := old.Update(t.Context(), named("live")); !errors.Is(err, ErrExists) {
		t.Errorf("the name is taken: %v", err)
	}
	if err := old.Update(t.Context(), named("")); !errors.Is(err, ErrInvalid) {
		t.Errorf("a name without letters: %v", err)
	}
	for i := range 2 { // the second time it has the name
		err := old.Update(t.Context(), func(info *CollectionInfo) error {
			info.Name, info.Metadata = "older", Metadata{"i": i}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if info := must(old.Info()); info.Name != "older" || info.Metadata["i"] != int64(1) || info.Documents != 2 {
		t.Errorf("updated to %+v", info)
	}
	if err := old.Update(t.Context(), func(*CollectionInfo) error { return context.Canceled }); !errors.Is(err, context.Canceled) {
		t.Errorf("the function failed: %v", err)
	}
	if err := old.Update(t.Context(), nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("no function: %v", err)
	}
	if err := vdb.Rename(t.Context(), "live", "kept"); err != nil {
		t.Fatal(err)
	}
	collection(t, vdb, "live", Schema{})
	if err := live.Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	infos := must(vdb.Collections())
	if len(infos) != 2 || infos[0].Name != "live" || infos[1].Name != "older" {
		t.Errorf("there are %v", infos)
	}
	for call, err := range map[string]error{"apply": live.Apply(t.Context(), &Batch{}),
		"update": live.Update(t.Context(), named("x")), "drop": live.Drop(t.Context())} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s after a drop: %v", call, err)
		}
	}
}

// TestCollectionSnapshot: the snapshot of a collection does not change, and is its own snapshot.
func TestCollectionSnapshot(t *testing.T) {
	ctx := t.Context()
	c := collection(t, open(t, t.TempDir(), nil), "c", Schema{})
	upsert(t, c, Document{ID: "a"})
	then, end, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	same, endSame, err := then.Snapshot()
	if err != nil || same != then {
		t.Errorf("the snapshot of a snapshot: %v", err)
	}
	if err := endSame(); err != nil {
		t.Error(err)
	}
	upsert(t, c, Document{ID: "b"})
	if n := must(then.Count(ctx, nil)); n != 1 {
		t.Errorf("%d documents", n)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	if _, err := then.Count(ctx, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	if err := c.Drop(ctx); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Snapshot(); !errors.Is(err, ErrNotFound) {
		t.Errorf("of a dropped collection: %v", err)
	}
}
