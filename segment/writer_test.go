package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

func TestWriterRefuses(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for name, fn := range map[string]func(*Writer) error{
		"NaN":               func(w *Writer) error { return w.Append(1, []float32{1, nan}) },
		"infinity":          func(w *Writer) error { return w.Append(1, []float32{-inf, 1}) },
		"short vector":      func(w *Writer) error { return w.Append(1, []float32{1}) },
		"long vector":       func(w *Writer) error { return w.Append(1, []float32{1, 2, 3}) },
		"no vector":         func(w *Writer) error { return w.Append(1, nil) },
		"document 0":        func(w *Writer) error { return w.Append(0, []float32{1, 2}) },
		"same document":     func(w *Writer) error { return errors.Join(w.Append(5, []float32{1, 2}), w.Append(5, []float32{1, 2})) },
		"descending":        func(w *Writer) error { return w.AppendRows([]uint64{5, 4}, []float32{1, 1}, make([]float32, 4)) },
		"inverse norms":     func(w *Writer) error { return w.AppendRows([]uint64{5}, nil, []float32{1, 2}) },
		"NaN inverse":       func(w *Writer) error { return w.AppendRows([]uint64{5}, []float32{nan}, []float32{1, 2}) },
		"negative inverse":  func(w *Writer) error { return w.AppendRows([]uint64{5}, []float32{-1}, []float32{1, 2}) },
		"components":        func(w *Writer) error { return w.AppendRows([]uint64{5}, []float32{1}, []float32{1}) },
		"no rows":           func(w *Writer) error { _, err := w.Finish(); return err },
		"only an empty run": func(w *Writer) error { _, err := w.Finish(); return errors.Join(w.AppendRows(nil, nil, nil), err) },
	} {
		fsys := newFS(t, nil)
		w, err := Create(fsys, testDB, 1, 9, 2)
		if err != nil {
			t.Fatal(err)
		}
		first := fn(w)
		if !errors.Is(first, fileformat.ErrFormat) || !strings.Contains(first.Error(), FileName(1)) {
			t.Errorf("%s: %v", name, first)
		}
		if err := w.Append(100, []float32{1, 2}); err == nil {
			t.Errorf("%s: the error does not stick", name)
		}
		if _, err := w.Finish(); err == nil {
			t.Errorf("%s: finished", name)
		}
		wantEmpty(t, name, fsys, "tmp", "seg")
	}
	for _, dim := range []int{-1, MaxDim + 1} {
		if _, err := Create(newFS(t, nil), testDB, 1, 9, dim); !errors.Is(err, fileformat.ErrFormat) {
			t.Errorf("dimension %d: %v", dim, err)
		}
	}
}

func wantEmpty(t *testing.T, what string, fsys *vfs.FS, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		left, err := os.ReadDir(filepath.Join(fsys.Dir(), dir))
		if err != nil || len(left) > 0 {
			t.Errorf("%s: %s holds %v, %v", what, dir, left, err)
		}
	}
}

func TestWriterEnds(t *testing.T) {
	fsys := newFS(t, nil)
	d := makeData(3, 5)
	info := d.write(t, fsys, 1)
	if _, err := Create(fsys, testDB, 1, 9, 3); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a segment can be overwritten: %v", err)
	}

	w, err := Create(fsys, testDB, 2, 9, 3)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Create(fsys, testDB, 2, 9, 3); !errors.Is(err, fs.ErrExist) {
		t.Errorf("two writers share a file: %v", err)
	}
	if err := errors.Join(w.Append(1, d.row(0)), w.Abort(), w.Abort()); err != nil {
		t.Error(err)
	}
	if _, err := w.Finish(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Finish after Abort: %v", err)
	}
	wantEmpty(t, "aborted", fsys, "tmp")

	w, err = Create(fsys, testDB, 2, 9, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append(1, d.row(0)); err != nil {
		t.Fatal(err)
	}
	second, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Finish(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("second Finish: %v", err)
	}
	if err := w.Append(2, d.row(0)); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Append after Finish: %v", err)
	}
	if err := w.Abort(); err != nil {
		t.Errorf("Abort after Finish: %v", err)
	}
	open(t, fsys, info)
	open(t, fsys, second)
}

// Every operation of a write fails in turn: once and for good, before it happens or half way.
func TestWriterFaults(t *testing.T) {
	errDisk := errors.New("disk is on fire")
	d := makeData(100, 1000) // two buffers
	for _, short := range []int{0, 100, 70000} {
		for _, sticky := range []bool{false, true} {
			for failAt := 1; ; failAt++ {
				what := fmt.Sprintf("operation %d, sticky %v, short %d", failAt, sticky, short)
				ops, renamed := 0, false
				fsys := newFS(t, func(op vfs.Op) error {
					ops++
					if ops == failAt || sticky && ops > failAt {
						if short > 0 && op.Kind == vfs.OpWrite {
							return &vfs.Short{N: short, Err: errDisk}
						}
						return errDisk
					}
					renamed = renamed || op.Kind == vfs.OpRename
					return nil
				})
				w, err := Create(fsys, testDB, 1, 9, d.dim)
				if err == nil {
					err = w.AppendRows(d.docs, d.invs, d.vecs)
					if _, ferr := w.Finish(); ferr == nil && err != nil {
						t.Errorf("%s: finished after %v", what, err)
					} else {
						err = ferr
					}
				}
				if err == nil {
					if ops >= failAt {
						t.Errorf("%s: no error", what)
					}
					break
				}
				if !errors.Is(err, errDisk) {
					t.Errorf("%s: %v", what, err)
				}
				if !sticky {
					wantEmpty(t, what, fsys, "tmp", "seg")
				} else if !renamed { // later nothing can be taken back; the next open of the database sweeps it
					wantEmpty(t, what, fsys, "seg")
				}
			}
		}
	}
}

// The order of operations is what durability rests on: every write, then sync, then rename, then
// the directory.
func TestWriterTrace(t *testing.T) {
	var trace strings.Builder
	fsys := newFS(t, func(op vfs.Op) error {
		fmt.Fprintf(&trace, "%v %s", op.Kind, op.Name)
		if op.To != "" {
			fmt.Fprintf(&trace, " to %s", op.To)
		}
		if op.Kind == vfs.OpWrite {
			fmt.Fprintf(&trace, " at %d length %d", op.Off, op.Len)
		}
		fmt.Fprintln(&trace)
		return nil
	})
	makeData(100, 1000).write(t, fsys, 42)
	golden(t, "testdata/finish.trace", trace.String())
}

// golden compares got with a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-update rewrites it):\n%s", name, diff)
	}
}

// Writing takes 12 bytes per row and the buffer, not the vectors.
func TestWriterMemory(t *testing.T) {
	fsys := newFS(t, nil)
	vecs := make([]float32, 100*768)
	w, err := Create(fsys, testDB, 1, 9, 768)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		docs := make([]uint64, 100)
		for j := range docs {
			docs[j] = uint64(i*100 + j + 1)
		}
		if err := w.AppendRows(docs, make([]float32, 100), vecs); err != nil {
			t.Fatal(err)
		}
		if cap(w.buf) != bufferSize {
			t.Fatalf("the buffer has grown to %d bytes", cap(w.buf))
		}
	}
	info, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := open(t, fsys, info).Rows(4999, 5000); err != nil || !slices.Equal(got, make([]float32, 768)) {
		t.Errorf("last row: %v, %v", got, err)
	}
}
