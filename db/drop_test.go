package db

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/internal/vfs"
)

// segmentFiles returns how many files there are below seg/.
func segmentFiles(dir string) int {
	return len(must(filepath.Glob(filepath.Join(dir, "seg", "*"))))
}

// The files of a dropped collection go without a call of Flush, once neither the older root of
// meta.bolt nor a snapshot needs them.
func TestDropFreesFiles(t *testing.T) {
	dir := t.TempDir()
	vdb := open(t, dir, &Options{Compaction: Manual})
	for _, name := range []string{"gone", "kept"} {
		upsert(t, collection(t, vdb, name, Schema{Dim: 2}), Document{ID: "a", Vector: []float32{1, 2}})
	}
	flush(t, vdb)
	both := segmentFiles(dir)
	files := func(when string, want int) {
		t.Helper()
		if n := segmentFiles(dir); n != want {
			t.Errorf("%s there are %d files, want %d", when, n, want)
		}
	}
	step := func(do func(time.Duration) (time.Duration, error), age time.Duration, again bool) {
		t.Helper()
		if next, err := do(age); err != nil || (next > 0) != again || next > age {
			t.Errorf("again in %v, %v", next, err)
		}
	}
	idle, tidy := vdb.engine.FlushIdle, vdb.engine.Tidy
	step(tidy, 0, false)
	snapshot := must(vdb.Snapshot())
	if err := vdb.Drop(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	step(idle, time.Hour, true)
	step(idle, 0, false)
	step(idle, 0, false)
	files("beside the older root and a snapshot", both)
	step(tidy, 0, false)
	files("beside a snapshot", both)
	if d := must(must(snapshot.Collection("gone")).Get(t.Context(), "a", Everything)); d.Vector[1] != 2 {
		t.Errorf("the snapshot has %v", d)
	}
	snapshot.Close()
	step(tidy, time.Hour, true)
	files("beside the older root", both)
	step(tidy, 0, false)
	files("at the end", both/2)
	step(tidy, 0, false)
	check(t, vdb)
}

// A drop does not flush more than it frees.
func TestDropFlushesLittle(t *testing.T) {
	const dim = 64
	dir := t.TempDir()
	vdb := open(t, dir, &Options{Compaction: Manual})
	for i := range 2 {
		upsert(t, collection(t, vdb, fmt.Sprint("small ", i), Schema{Dim: 2}), Document{ID: "a", Vector: []float32{1, 2}})
	}
	flush(t, vdb)
	files := segmentFiles(dir)
	c := collection(t, vdb, "c", Schema{Dim: dim})
	for i := range 100 {
		upsert(t, c, Document{ID: fmt.Sprint(i), Vector: make([]float32, dim)})
	}
	for i := range 2 {
		if err := vdb.Drop(t.Context(), fmt.Sprint("small ", i)); err != nil {
			t.Fatal(err)
		}
		if next, err := vdb.engine.FlushIdle(0); err != nil || next != 0 {
			t.Errorf("again in %v, %v", next, err)
		}
		if n := segmentFiles(dir); n != files {
			t.Errorf("%d files, want %d", n, files)
		}
	}
	if err := vdb.Drop(t.Context(), "c"); err != nil { // nothing is left to write
		t.Fatal(err)
	}
	allRemoved(t, vdb, dir)
}

// The background removes the files of a dropped collection while the database is not written to,
// also those that a snapshot held.
func TestDropFreesFilesInBackground(t *testing.T) {
	dir := t.TempDir()
	vdb := open(t, dir, &Options{tests: testOptions{settle: 1}})
	for _, name := range []string{"first", "second"} {
		upsert(t, collection(t, vdb, name, Schema{Dim: 2}), Document{ID: "a", Vector: []float32{1, 2}})
	}
	flush(t, vdb)
	gone := func(n int) {
		t.Helper()
		finishes(t, "removal", func() {
			for segmentFiles(dir) > n {
				runtime.Gosched()
			}
		})
	}
	each := segmentFiles(dir) / 2
	if err := vdb.Drop(t.Context(), "first"); err != nil {
		t.Fatal(err)
	}
	gone(each)
	snapshot := must(vdb.Snapshot())
	if err := vdb.Drop(t.Context(), "second"); err != nil {
		t.Fatal(err)
	}
	snapshot.Close()
	gone(0)
	check(t, vdb)
}

// A collection that is dropped while a flush writes its first segment leaves no files either.
func TestDropDuringFlush(t *testing.T) {
	var armed atomic.Bool
	writing, written := make(chan struct{}), make(chan struct{})
	dir := t.TempDir()
	vdb := open(t, dir, &Options{Compaction: Manual, tests: testOptions{hook: func(op vfs.Op) error {
		if op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, ".vec") && armed.CompareAndSwap(true, false) {
			close(writing)
			<-written
		}
		return nil
	}}})
	upsert(t, collection(t, vdb, "c", Schema{Dim: 2}), Document{ID: "a", Vector: []float32{1, 2}})
	armed.Store(true)
	var flushing sync.WaitGroup
	flushing.Go(func() { flush(t, vdb) })
	<-writing
	err := vdb.Drop(t.Context(), "c")
	close(written)
	flushing.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if segmentFiles(dir) == 0 {
		t.Fatal("the flush has written no segment")
	}
	allRemoved(t, vdb, dir)
}

// allRemoved does what the background does after a drop, and expects that no segment is left.
func allRemoved(t *testing.T, vdb *DB, dir string) {
	t.Helper()
	for _, do := range []func(time.Duration) (time.Duration, error){vdb.engine.FlushIdle, vdb.engine.Tidy} {
		if next, err := do(0); err != nil || next != 0 {
			t.Errorf("again in %v, %v", next, err)
		}
	}
	if n := segmentFiles(dir); n != 0 {
		t.Errorf("%d files are left", n)
	}
	check(t, vdb)
}
