package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/store"
	"github.com/vecbolt/vecbolt/store/pgvector"
	"github.com/vecbolt/vecbolt/store/storetest"
)

const (
	variable = "VECBOLT_POSTGRES"
	schema   = "test_migrate"
)

// server returns the address of a schema for this test.
func server(t *testing.T) string {
	t.Helper()
	address := os.Getenv(variable)
	if address == "" {
		t.Skipf("%s is not set: it is the URL of a PostgreSQL server with pgvector", variable)
	}
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatalf("%s is set, but: %v", variable, err)
	}
	drop := func() {
		if _, err := conn.Exec(context.Background(), "DROP SCHEMA IF EXISTS "+schema+" CASCADE"); err != nil {
			t.Error(err)
		}
	}
	drop() // of a run that was cut short
	t.Cleanup(func() {
		drop()
		conn.Close(context.Background())
	})
	by := "?"
	if strings.Contains(address, "?") {
		by = "&"
	}
	return address + by + "vecbolt_schema=" + schema
}

// execute runs the command and returns what it wrote.
func execute(t *testing.T, status int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	if got := run(t.Context(), args, &out, &errs); got != status {
		t.Fatalf("%q: status %d, want %d\n%s%s", args, got, status, &out, &errs)
	}
	return out.String(), errs.String()
}

// What is copied to memory would be lost.
func TestMemoryIsNoTarget(t *testing.T) {
	_, stderr := execute(t, 1, db.Memory, "c", "--from", "postgres://127.0.0.1:1/x")
	if !strings.Contains(stderr, "a database in memory") {
		t.Error(stderr)
	}
}

// content is all that a collection is, by id.
func content(t *testing.T, path, name string) (docs []*db.Document, s store.Schema) {
	t.Helper()
	vdb, err := db.Open(path, &db.Options{MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	c, err := store.Embedded(vdb).Collection(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	page, err := c.Scan(t.Context(), "", 10_000, nil)
	if err != nil {
		t.Fatal(err)
	}
	return page.Documents, c.Schema()
}

// There and back again, with a break, loses nothing.
func TestThereAndBack(t *testing.T) {
	address := server(t)
	dir := t.TempDir()
	origin, back := filepath.Join(dir, "origin.vdb"), filepath.Join(dir, "back.vdb")
	vdb, err := db.Open(origin, nil)
	if err != nil {
		t.Fatal(err)
	}
	k1 := 0.9
	c, err := store.Embedded(vdb).Create(t.Context(), "zoo/ä", store.Schema{Dim: 16, Lineage: db.Lineage{Provider: "p", Model: "m", Normalized: true, Chunker: "c"},
		Text: &db.TextIndex{Language: "german", Fields: []string{"lang"}, K1: &k1}, Metadata: db.Metadata{"i": int64(1)<<53 + 1, "f": 1.0, "nested": map[string]any{"null": nil}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Upsert(t.Context(), storetest.Documents(16)); err != nil {
		t.Fatal(err)
	}
	was := c.Schema()
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}

	// The server refuses a document in the middle.
	s, err := pgvector.Open(t.Context(), address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Create(t.Context(), "zoo", was); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), os.Getenv(variable))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec("ALTER TABLE " + schema + ".c1_zoo ADD CONSTRAINT refuse CHECK (id <> 'doc-200')")
	_, stderr := execute(t, 1, origin, "zoo/ä", "--to", address, "--name", "zoo", "--batch-size", "50")
	if !strings.Contains(stderr, "--resume goes on") {
		t.Errorf("after a failure: %s", stderr)
	}
	exec("ALTER TABLE " + schema + ".c1_zoo DROP CONSTRAINT refuse")
	_, stderr = execute(t, 1, origin, "zoo/ä", "--to", address, "--name", "zoo")
	if !strings.Contains(stderr, db.ErrExists.Error()) {
		t.Errorf("into documents of others: %s", stderr)
	}
	stdout, _ := execute(t, 0, origin, "zoo/ä", "--to", address, "--name", "zoo", "--resume", "--verify", "--index")
	if !strings.Contains(stdout, "before") || !strings.Contains(stdout, "320 documents, 320 in the source; 320 compared, 0 of them different") {
		t.Errorf("resumed: %s", stdout)
	}

	stdout, _ = execute(t, 0, back, "again", "--from", address, "--name", "zoo", "--verify")
	if !strings.Contains(stdout, "migrated 320 documents\n") {
		t.Errorf("back: %s", stdout)
	}
	wantDocs, wantSchema := content(t, origin, "zoo/ä")
	gotDocs, gotSchema := content(t, back, "again")
	if diff := cmp.Diff(wantDocs, gotDocs); diff != "" || len(wantDocs) != 320 {
		t.Errorf("%d documents (-origin +back):\n%s", len(wantDocs), diff)
	}
	if diff := cmp.Diff(wantSchema, gotSchema); diff != "" {
		t.Errorf("schema (-origin +back):\n%s", diff)
	}

	// What is there beside is noticed.
	exec("INSERT INTO " + schema + ".c1_zoo SELECT 'one more', embedding, odd, body, meta, terms FROM " + schema + ".c1_zoo WHERE id = 'doc-200'")
	_, stderr = execute(t, 1, origin, "zoo/ä", "--to", address, "--name", "zoo", "--verify", "--resume")
	if !strings.Contains(stderr, errDifferent.Error()) {
		t.Errorf("one more document: %s", stderr)
	}
}

func TestUsage(t *testing.T) {
	for _, tt := range []struct {
		status int
		args   []string
		want   string
	}{
		{2, nil, "missing flags"}, {2, []string{"a.vdb", "x"}, "--from"}, {2, []string{"a.vdb", "x", "--to", "a", "--from", "b"}, "--to"},
		{1, []string{"a.vdb", "x", "--to", "weaviate://h"}, "postgres://user@host"},
		{1, []string{"a.vdb", "x", "--to", "postgres://u:secret@127.0.0.1:1/d"}, "connect"},
		{1, []string{"a.vdb", "x", "--to", "postgres://u:secret@127.0.0.1:1/d?sslmode=no"}, "sslmode"},
	} {
		_, stderr := execute(t, tt.status, tt.args...)
		if !strings.Contains(stderr, tt.want) {
			t.Errorf("%q: %s, want %s", tt.args, stderr, tt.want)
		}
		if strings.Contains(stderr, "secret") {
			t.Errorf("%q: the password is in the message: %s", tt.args, stderr)
		}
	}
	if stdout, _ := execute(t, 0, "--help"); !strings.Contains(stdout, "--verify") {
		t.Errorf("help: %s", stdout)
	}
}
