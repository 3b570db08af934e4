package db

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/internal/engine"
)

// TestErrorsAdvise compares error texts: they list the names that exist and the nearest one, the
// process that holds a lock, and the functions that help.
func TestErrorsAdvise(t *testing.T) {
	dir := t.TempDir()
	vdb := open(t, dir, &Options{Exclusive: true})
	for _, name := range []string{"notes", "pets"} {
		if _, err := vdb.CreateCollection(t.Context(), name, Schema{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	held := "(in Go: without Options.Exclusive, processes share a database)"
	if !engine.CanShare {
		held = "processes do not share a database: let one have it open and ask that, as with vecbolt serve"
	}
	snap, err := vdb.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	const missing = `not found: collection "note"; there are "notes", "pets"; the nearest is "notes" (in Go: DB.OpenCollection creates one)`
	for what, tt := range map[string]struct {
		fail func() error
		kind error
		want string
	}{
		"collection": {func() error { _, err := vdb.Collection("note"); return err }, ErrNotFound, "db: " + missing},
		"snapshot":   {func() error { _, err := snap.Collection("note"); return err }, ErrNotFound, "db: snapshot: " + missing},
		"rename":     {func() error { return vdb.Rename(t.Context(), "note", "x") }, ErrNotFound, missing},
		"drop":       {func() error { return vdb.Drop(t.Context(), "note") }, ErrNotFound, missing},
		"batch": {func() error {
			var b Batch
			b.Upsert("note", Document{ID: "a"})
			return vdb.Apply(t.Context(), &b)
		}, ErrNotFound, missing},
		"text": {func() error {
			c, err := vdb.Collection("notes")
			if err == nil {
				_, err = c.Search(t.Context(), Query{Text: "word"})
			}
			return err
		}, ErrTextIndex, `collection "notes" has no text index (in Go: Schema.Text of a new collection, Collection.SetText of an existing one)`},
		"writer": {func() error { _, err := Open(dir, nil); return err }, ErrLocked,
			fmt.Sprintf("locked by process %d, %s, since 20", os.Getpid(), filepath.Base(os.Args[0]))},
		"reader": {func() error { _, err := Open(dir, &Options{ReadOnly: true}); return err }, ErrLocked,
			held},
	} {
		if err := tt.fail(); !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", what, err, tt.want)
		}
	}
}
