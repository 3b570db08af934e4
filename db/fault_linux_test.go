package db

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// Vector files are truncated when a file made from them is started: a graph, codes,
// columns, terms, a merged segment. Whichever goroutine reads them, the process lives,
// calls return, the error is recorded and nothing stays in tmp. Once the file is
// restored, all works again.
func TestVectorsAreCutWhileFilesAreMade(t *testing.T) {
	ctx := t.Context()
	for _, made := range []string{".graph", ".codes", ".vec", "workers"} {
		var armed atomic.Bool
		root := memDir(t)
		cut := func() {
			files, err := filepath.Glob(filepath.Join(root, "seg", "*.vec"))
			if err != nil || len(files) == 0 {
				t.Fatal("no vector files", err)
			}
			for _, f := range files {
				if err := os.Truncate(f, 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		opts := walking
		opts.tests.codedBytes, opts.Workers, opts.Compaction = 1, 3, Manual
		opts.tests.worthHelp = -1
		opts.tests.hook = func(op vfs.Op) error {
			if op.Kind == vfs.OpCreate && strings.HasSuffix(op.Name, made) && armed.CompareAndSwap(true, false) {
				cut()
			}
			return nil
		}
		vdb, err := Open(root, &opts)
		if err != nil {
			t.Fatal(err)
		}
		c := collection(t, vdb, "c", Schema{Dim: 64, Text: &TextIndex{}})
		for part := range 2 {
			fill(t, c, 400, func(i int) Document {
				return Document{ID: fmt.Sprint(part, " ", i), Vector: mappedVector(1000*part + i), Text: "some text"}
			})
			if err := vdb.Flush(ctx); err != nil {
				t.Fatal(err)
			}
		}
		armed.Store(true)
		if made == "workers" {
			cut()
			for range 3 {
				_, err = c.SearchBatch(ctx, []Query{{Near: Vector(mappedVector(1)), K: 3, Accuracy: Exact}, {Near: Vector(mappedVector(2)), K: 3, Accuracy: Exact}})
			}
		} else {
			err = vdb.Compact(ctx)
		}
		var corrupt *CorruptError
		switch trouble := must(vdb.Stats()).BackgroundError; {
		case made == "workers" || made == ".vec":
			if !errors.As(err, &corrupt) || !strings.HasSuffix(corrupt.File, ".vec") {
				t.Errorf("%s: %v", made, err)
			}
		case err != nil || !strings.Contains(trouble, made) || !strings.Contains(trouble, ".vec"):
			t.Errorf("%s: %v, trouble %q", made, err, trouble)
		}
		if armed.Load() && made != "workers" {
			t.Errorf("%s: was not made", made)
		}
		if left, err := os.ReadDir(filepath.Join(root, "tmp")); err != nil || len(left) > 0 {
			t.Errorf("%s: left in tmp: %v, %v", made, left, err)
		}
		if _, err := c.Search(ctx, Query{Near: Vector(mappedVector(5)), K: 3, Accuracy: Exact}); !errors.As(err, &corrupt) {
			t.Errorf("%s: a search afterwards: %v", made, err)
		}
		if report, err := vdb.Check(ctx, CheckBytes); err != nil || report.OK() {
			t.Errorf("%s: check: %+v, %v", made, report, err)
		}
		if err := vdb.Close(); err != nil {
			t.Errorf("%s: close: %v", made, err)
		}
	}
}

// A graph cannot be read when merges of settled segments are planned. That is no error: the graph
// is not used again, and the merge waits until it has been built anew.
func TestGraphIsUnreadableForPlans(t *testing.T) {
	const dim, rows = 2, 160 // that make a graph
	ctx, root := t.Context(), memDir(t)
	opts := &Options{Sync: SyncNever, Compaction: Manual, tests: testOptions{codedBytes: 1, graphSize: rows * dim,
		trials: walking.tests.trials}}
	vdb := open(t, root, opts)
	fillSegments(t, collection(t, vdb, "c", Schema{Dim: dim}), 200, 170)
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	var armed atomic.Bool
	cuts := 0
	opts.tests.hook = func(op vfs.Op) error {
		name, codes := strings.CutSuffix(op.Name, ".codes")
		if !codes || op.Kind != vfs.OpOpen || !armed.CompareAndSwap(true, false) {
			return nil
		}
		cuts++ // the graph is mapped already, and read once its codes are there
		return os.Truncate(filepath.Join(root, name+".graph"), 0)
	}
	vdb = open(t, root, opts)
	armed.Store(true)
	settle := func(segments int) {
		t.Helper()
		vdb.engine.Maintain("compaction", func() error {
			next, err := vdb.engine.CompactSettled(ctx, 0)
			if next != 0 {
				t.Errorf("again in %v", next)
			}
			return err
		})
		s := must(vdb.Stats())
		if got := s.Collections[0].Segments; got != segments || s.BackgroundError != "" {
			t.Errorf("%d segments, want %d; trouble %q", got, segments, s.BackgroundError)
		}
	}
	settle(2)
	if cuts != 1 {
		t.Errorf("%d graphs were cut", cuts)
	}
	if _, err := vdb.engine.MakeDerived(ctx, engine.ByCompact, 0); err != nil {
		t.Fatal(err)
	}
	settle(1)
	check(t, vdb)
}

// meta.bolt is truncated while Check reads it.
func TestDocumentsAreCutWhileChecking(t *testing.T) {
	root := memDir(t)
	vdb, err := Open(root, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := collection(t, vdb, "c", Schema{})
	fill(t, c, 2000, func(i int) Document { return Document{ID: fmt.Sprint(i), Text: strings.Repeat("text ", 50)} })
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{true, false} {
		var reads atomic.Int32
		var armed atomic.Bool
		vdb, err := Open(root, &Options{ReadOnly: readOnly, tests: testOptions{hook: func(op vfs.Op) error {
			if armed.Load() && op.Kind == vfs.OpRead && op.Name == engine.MetaName && reads.Add(1) == 40 {
				return os.Truncate(filepath.Join(root, engine.MetaName), 8192)
			}
			return nil
		}}})
		if err != nil {
			t.Fatal(err)
		}
		whole, err := os.ReadFile(filepath.Join(root, engine.MetaName))
		if err != nil {
			t.Fatal(err)
		}
		armed.Store(true)
		report, err := vdb.Check(t.Context(), CheckBytes)
		if err == nil && report.OK() {
			t.Errorf("read-only %v: the cut was not noticed after %d reads", readOnly, reads.Load())
		}
		_ = vdb.Close() // may return the error, too
		if err := os.WriteFile(filepath.Join(root, engine.MetaName), whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
