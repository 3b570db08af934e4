package db

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/vecbolt/vecbolt/internal/vfs"
)

// many makes collections of two documents each, all of them in the head, and returns a function
// that says which of them are there as they were written.
func many(t *testing.T, vdb *DB, collections int) (intact func(*DB)) {
	t.Helper()
	for i := range collections {
		c := collection(t, vdb, fmt.Sprint("c", i), Schema{Dim: 2, Text: &TextIndex{}})
		upsert(t, c, Document{ID: "a", Vector: []float32{1, float32(i)}, Text: "common word"},
			Document{ID: "b", Text: fmt.Sprint("only ", i)})
	}
	return func(vdb *DB) {
		t.Helper()
		for i := range collections {
			c := existing(t, vdb, fmt.Sprint("c", i))
			a, b := must(c.Get(t.Context(), "a", Everything)), must(c.Get(t.Context(), "b", Everything))
			if a.Vector[1] != float32(i) || b.Text != fmt.Sprint("only ", i) {
				t.Errorf("collection %d has %v and %q", i, a.Vector, b.Text)
			}
		}
		check(t, vdb)
	}
}

// The disk gets the syncs of small segments together: a thousand collections of a few documents are
// otherwise flushed one sync after the other.
func TestManySegmentsAreSyncedTogether(t *testing.T) {
	var armed atomic.Bool
	var syncs atomic.Int32
	second := make(chan struct{})
	dir := t.TempDir()
	vdb := open(t, dir, &Options{Compaction: Manual, tests: testOptions{hook: func(op vfs.Op) error {
		if armed.Load() && op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, ".vec") {
			if syncs.Add(1) == 2 {
				close(second)
			}
			<-second
		}
		return nil
	}}})
	intact := many(t, vdb, 40)
	armed.Store(true)
	finishes(t, "flush", func() { flush(t, vdb) })
	intact(vdb)
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	intact(open(t, dir, nil))
}

// A flush of many collections that fails at any segment leaves no files, and the next one succeeds.
func TestManySegmentsFail(t *testing.T) {
	const collections = 10
	for _, kind := range []vfs.Kind{vfs.OpCreate, vfs.OpWrite, vfs.OpSync, vfs.OpRename, vfs.OpMap} {
		for _, nth := range []int32{0, 7, 2*collections - 1} {
			var left atomic.Int32
			left.Store(1 << 20)
			dir := t.TempDir()
			vdb := open(t, dir, &Options{Sync: SyncNever, Compaction: Manual, tests: testOptions{hook: func(op vfs.Op) error {
				if op.Kind == kind && strings.HasSuffix(op.Name, ".vec") && left.Add(-1) < 0 {
					return syscall.ENOSPC
				}
				return nil
			}}})
			intact := many(t, vdb, collections)
			left.Store(nth)
			if err := vdb.Flush(t.Context()); !errors.Is(err, ErrNoSpace) {
				t.Fatalf("%v %d: flush: %v", kind, nth, err)
			}
			left.Store(1 << 20)
			flush(t, vdb)
			for pattern, want := range map[string]int{"seg/*.vec": 2 * collections, "tmp/*": 0} {
				if names := must(filepath.Glob(filepath.Join(dir, pattern))); len(names) != want {
					t.Errorf("%v %d: files %q, want %d", kind, nth, names, want)
				}
			}
			intact(vdb)
		}
	}
}
