package engine

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment/columns"
)

// On a disk that accepts a derived file but cannot read it back, a call that needs the file builds
// it in memory and ends.
func TestDerivedFileIsNeverReadable(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a file that is mapped cannot be cut")
	}
	ctx, dir := t.Context(), t.TempDir()
	e, err := Open(dir, Options{HeadSize: 64 << 20, Workers: 1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	if _, err := e.Define(ctx, "docs", Schema{Dim: 1, Metric: fileformat.L2}, nil, false); err != nil {
		t.Fatal(err)
	}
	var ops []Op
	for i := range 20 {
		id := fmt.Sprint(i)
		doc, err := document.Append(nil, &document.Document{ID: id, Metadata: map[string]any{"i": int64(i)}})
		if err != nil {
			t.Fatal(err)
		}
		ops = append(ops, Op{Kind: OpPut, Collection: "docs", ID: id, Doc: doc, Vec: []float32{1}})
	}
	if _, err := e.Write(ctx, ops, 1); err != nil {
		t.Fatal(err)
	}
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	s := e.cur.Files.Segments[0]
	made, cols, parse := 0, s.Cols, s.Cols.parse
	cols.value, cols.absent = nil, false
	cols.parse = func(b []byte) (*columns.Columns, error) {
		path := filepath.Join(dir, cols.Name)
		if st, err := os.Stat(path); err == nil && len(cols.maps) > made && st.Size() > 0 {
			made = len(cols.maps)
			if err := os.Truncate(path, 0); err != nil { // the mapping faults from now on
				return nil, err
			}
		}
		return parse(b)
	}
	for range 3 {
		found := bitset.New(s.Info.Rows)
		err := RetryDerived(func() error {
			return e.Guard(func() error { return s.Match(ctx, filter.Eq("i", 7), found) })
		})
		if rows := slices.Collect(found.All()); err != nil || !slices.Equal(rows, []int{7}) {
			t.Fatal(rows, err)
		}
	}
	if made != 2 {
		t.Errorf("could not be read %d times, want 2", made)
	}
}
