package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/vecbolt/vecbolt/db"
)

// TestPublishToAnEmptiedFolder: somebody empties the folder that a server publishes to. The server
// publishes to it again.
func TestPublishToAnEmptiedFolder(t *testing.T) {
	vdb, err := db.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	f := &published{dir: t.TempDir(), vdb: vdb, log: slog.New(slog.DiscardHandler)}
	defer func() {
		if err := f.close(); err != nil {
			t.Error(err)
		}
	}()
	if err := f.publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(f.dir, "*"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if err := os.RemoveAll(name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := vdb.CreateCollection(t.Context(), "notes", db.Schema{}, nil); err != nil {
		t.Fatal(err)
	}
	if err := f.publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	replica, err := db.Open(f.dir, &db.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer replica.Close()
	if _, err := replica.Collection("notes"); err != nil {
		t.Error(err)
	}
}
