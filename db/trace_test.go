package db

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/internal/boltcheck"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

var update = flag.Bool("update", false, "rewrite traces and the dumps in docs/format")

// A tracer records operations on files. Repeated operations of one kind are one
// line, without offsets, because only the order counts.
//
// bbolt's own reads, writes and syncs bypass the hook. Its commits are seen by
// their effect: the trace counts the commits since the last operation, by the
// number in the newest root of meta.bolt. Each has then synced its pages, written
// its root and synced again.
type tracer struct {
	mu    sync.Mutex
	meta  string // path of meta.bolt
	txid  uint64
	lines []string
}

func (tr *tracer) hook(op vfs.Op) error {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.look()
	line := fmt.Sprintf("%v %s", op.Kind, op.Name)
	if op.To != "" {
		line += " " + op.To
	}
	if n := len(tr.lines); n == 0 || tr.lines[n-1] != line {
		tr.lines = append(tr.lines, line)
	}
	return nil
}

// look notes the commits of meta.bolt since the last look.
func (tr *tracer) look() {
	b, err := os.ReadFile(tr.meta)
	if err != nil {
		return
	}
	roots, newest, err := boltcheck.Roots(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return
	}
	if tr.txid == 0 {
		tr.lines = append(tr.lines, "COMMIT meta.bolt: the first")
	} else if n := roots[newest].TxID - tr.txid; n > 0 {
		tr.lines = append(tr.lines, fmt.Sprintf("COMMIT meta.bolt: %d", n))
	}
	tr.txid = roots[newest].TxID
}

// skip forgets what happened since the last call.
func (tr *tracer) skip() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.look()
	tr.lines = nil
}

// golden compares what happened since the last call with a file.
func (tr *tracer) golden(t *testing.T, name, what string) {
	t.Helper()
	tr.mu.Lock()
	tr.look()
	got := "# " + what + "\n" + strings.Join(tr.lines, "\n") + "\n"
	tr.lines = nil
	tr.mu.Unlock()
	file := filepath.Join("testdata", "trace", name+".trace")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-update rewrites it): (-want +got)\n%s", file, diff)
	}
}

// TestTrace fixes the order of file operations, so that a review sees every change
// of the order in which files become durable.
func TestTrace(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the operations are those of Linux: elsewhere the log writes zeros instead of reserving space")
	}
	ctx := t.Context()
	dir := t.TempDir()
	tr := &tracer{meta: filepath.Join(dir, engine.MetaName)}
	opts := &Options{Compaction: Manual, tests: testOptions{hook: tr.hook}}
	vdb := open(t, dir, opts)
	tr.golden(t, "open-create", "Open makes a database.")

	c := collection(t, vdb, "c", Schema{Dim: 2})
	upsert(t, c, Document{ID: "a", Vector: []float32{1, 2}}, Document{ID: "b", Vector: []float32{3, 4}})
	tr.golden(t, "apply-first", "The first two batches make a log file.")
	upsert(t, c, Document{ID: "a", Vector: []float32{5, 6}}, Document{ID: "bare", Text: "no vector"})
	tr.golden(t, "apply", "A batch is one write and one sync.")

	flush(t, vdb)
	tr.golden(t, "flush", "Flush: segments, then the commit, then nothing: the log it made needless is kept.")
	upsert(t, c, Document{ID: "c", Vector: []float32{7, 8}})
	if _, err := c.Delete(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	flush(t, vdb)
	tr.golden(t, "flush-again", "Two batches and another Flush, which gives up the log that the one before needed.")

	compact(t, vdb)
	tr.golden(t, "compact", "Compact: the merged segment, the commit, one more commit, and only then the old ones go.")

	copied := t.TempDir()
	if err := vdb.Backup(ctx, copied); err != nil {
		t.Fatal(err)
	}
	tr.golden(t, "backup", "Backup: reads are of the database, creations, writes and syncs of the copy, in its own directory.")

	upsert(t, c, Document{ID: "d", Vector: []float32{9, 9}})
	tr.skip()
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	tr.golden(t, "close", "Close with one batch in the log: a flush, a second commit, and no log is left.")

	vdb = open(t, dir, opts)
	tr.golden(t, "open", "Open after a clean Close writes nothing.")
	c = collection(t, vdb, "c", Schema{})
	upsert(t, c, Document{ID: "e", Vector: []float32{1, 1}})
	lose(t, vdb)
	tr.skip()
	reader := open(t, dir, &Options{ReadOnly: true, tests: testOptions{hook: tr.hook}})
	tr.golden(t, "recover-read-only", "Read-only Open after a crash replays the log and writes nothing.")
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	vdb = open(t, dir, opts)
	tr.golden(t, "recover", "Open after a crash: what is replayed is flushed, twice committed, and the log removed, before anything is served.")

	compact(t, vdb)
	opts.tests.codedBytes = 1
	vdb = reopen(t, vdb, opts)
	upsert(t, collection(t, vdb, "c", Schema{}), Document{ID: "f", Vector: []float32{1, 0}})
	tr.skip()
	compact(t, vdb)
	tr.golden(t, "compact-codes", "Compact with codes, which come after the commit: they are derived.")
}

// Rules for every trace, regardless of its details: new golden files must not slip
// in a mistake.
func TestTraceRules(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "trace", "*.trace"))
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		dirty := map[string]bool{}   // files with bytes that are not durable
		pending := map[string]bool{} // directories with entries that are not durable
		commits := 0
		for i, line := range strings.Split(strings.TrimSpace(string(b)), "\n")[1:] {
			bad := func(what string) { t.Errorf("%s:%d: %s: %s", file, i+2, line, what) }
			f := strings.Fields(line)
			op, name := f[0], f[1]
			changes := !slices.Contains([]string{"open", "read", "readdir", "stat", "map", "dropcache", "lock"}, op)
			if changes && strings.HasPrefix(filepath.Base(file), "recover-read-only") {
				bad("a read-only open changes something")
			}
			if op == "COMMIT" {
				commits++
			}
			if op == "COMMIT" || op == "rename" && f[2] == engine.MetaName {
				for name := range dirty {
					bad(name + " is not durable")
				}
				if pending[engine.SegDir] {
					bad("the name of a segment is not durable")
				}
			}
			switch op {
			case "create":
				pending[filepath.Dir(name)] = true
			case "write":
				dirty[name] = true
			case "sync":
				delete(dirty, name)
			case "syncdir":
				delete(pending, name)
			case "rename":
				if dirty[name] {
					bad("its bytes are not durable")
				}
				pending[filepath.Dir(f[2])] = true
				if strings.HasSuffix(name, ".wal") && commits == 0 {
					bad("a log file is given up before a commit")
				}
			case "remove":
				if filepath.Dir(name) == engine.SegDir && commits == 0 {
					bad("a segment is removed before a commit")
				}
			}
		}
	}
}
