package db

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/vecbolt/vecbolt/internal/boltcheck"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// The tests in this file are about bugs that package fuzz/torture has found.

// A power cut can spoil the root that the second commit of Close was writing, when
// no log is left. Nothing is lost; the next open writes a new root.
func TestTornRootIsRestored(t *testing.T) {
	dir := t.TempDir()
	vdb := open(t, dir, nil)
	upsert(t, collection(t, vdb, "c", Schema{Dim: 1}), Document{ID: "a", Vector: []float32{1}})
	for page := range 2 {
		if err := vdb.Close(); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(filepath.Join(dir, engine.MetaName), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(bytes.Repeat([]byte{0xa5}, 512), int64(page)*4096); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		vdb = open(t, dir, nil)
		if n := must(collection(t, vdb, "c", Schema{}).Info()).Documents; n != 1 {
			t.Fatalf("%d documents", n)
		}
		check(t, vdb)
	}
}

// The newest root can rot before there was a second commit: the log holds
// everything then, and the root that the database was made with must do.
func TestNewestRootRotsEarly(t *testing.T) {
	dir := t.TempDir()
	vdb := open(t, dir, nil)
	upsert(t, collection(t, vdb, "c", Schema{Dim: 1}), Document{ID: "a", Vector: []float32{1}})
	lose(t, vdb)
	f, err := os.OpenFile(filepath.Join(dir, engine.MetaName), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	roots, newest, err := boltcheck.Roots(f, 1<<20)
	if err != nil || roots[1-newest].Err != nil {
		t.Fatal(roots, err)
	}
	if _, err := f.WriteAt([]byte{0xa5}, int64(newest)*boltcheck.PageSize+20); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	vdb = open(t, dir, nil)
	if n := must(collection(t, vdb, "c", Schema{}).Info()).Documents; n != 1 {
		t.Fatalf("%d documents", n)
	}
	check(t, vdb)
}

// A power cut must not leave the meta.bolt of a backup without its
// directories: their names are made durable first.
func TestBackupSyncsDirectoriesFirst(t *testing.T) {
	var mu sync.Mutex
	var ops []vfs.Op
	vdb := open(t, t.TempDir(), &Options{tests: testOptions{hook: func(op vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		ops = append(ops, op)
		return nil
	}}})
	upsert(t, collection(t, vdb, "c", Schema{Dim: 1}), Document{ID: "a", Vector: []float32{1}})
	mu.Lock()
	ops = nil
	mu.Unlock()
	if err := vdb.Backup(t.Context(), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	synced, renamed := false, false
	for _, op := range ops {
		switch {
		case op.Kind == vfs.OpMkdir:
			synced = false
		case op.Kind == vfs.OpSyncDir && op.Name == ".":
			synced = true
		case op.Kind == vfs.OpRename && op.To == engine.MetaName:
			renamed = true
			if !synced {
				t.Error("meta.bolt gets its name before the directories are durable")
			}
		}
	}
	if !renamed {
		t.Error("the hook saw no rename")
	}
}

// A collection can be dropped after Compact has chosen its segments: they are
// then unmapped, and must not be read.
func TestDropDuringCompact(t *testing.T) {
	ctx := t.Context()
	vdb := open(t, t.TempDir(), &Options{Compaction: Manual})
	c := collection(t, vdb, "c", Schema{Dim: 1})
	for i := range 2 {
		upsert(t, c, Document{ID: fmt.Sprint(i), Vector: []float32{1}})
		if err := vdb.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	merges := inspect(vdb).Merges()
	if len(merges) != 1 || len(segmentsOf(vdb)) != 2 {
		t.Fatalf("%d merges of %d segments", len(merges), len(segmentsOf(vdb)))
	}
	if err := vdb.Drop(ctx, "c"); err != nil {
		t.Fatal(err)
	}
	if err := vdb.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if err := merges[0](ctx); err != nil {
		t.Fatal(err)
	}
	check(t, vdb)
}
