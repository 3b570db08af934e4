package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/db"
)

// TestListLong: a list of several pages is one table, whose columns are as wide as in earlier
// pages, or wider.
func TestListLong(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "t.vdb")
	vdb, err := db.Open(dir, &db.Options{Sync: db.SyncNever})
	if err != nil {
		t.Fatal(err)
	}
	coll, err := vdb.CreateCollection(t.Context(), "c", db.Schema{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const n = 3500
	docs := make([]db.Document, n)
	for i := range docs {
		docs[i] = db.Document{ID: fmt.Sprintf("%04d", i), Text: "text"}
	}
	docs[100].ID, docs[2100].ID = "0100-wide", "2100-wider"
	if _, err := coll.Upsert(t.Context(), docs...); err != nil {
		t.Fatal(err)
	}
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if status := run(t.Context(), []string{"list", dir, "c"}, nil, &stdout, &stderr); status != statusOK {
		t.Fatal(status, &stderr)
	}
	lines := strings.Split(strings.TrimSuffix(stdout.String(), "\n"), "\n")
	if len(lines) != n+1 || strings.Count(stdout.String(), "metadata") != 1 {
		t.Fatalf("%d lines, %d headers", len(lines), strings.Count(stdout.String(), "metadata"))
	}
	for i, line := range lines {
		want := len("0100-wide  ")
		if i > 2000 { // with the page of the wider one
			want = len("2100-wider  ")
		}
		if at := strings.Index(line, "text"); at != want {
			t.Fatalf("line %d, %q: the text is at %d, want %d", i, line, at, want)
		}
	}
}
