package exchange

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/docjson"
)

func TestOrdered(t *testing.T) {
	jobs := func(yield func(int) bool) {
		for i := range 1000 {
			if !yield(i) {
				return
			}
		}
	}
	square := func(i int) int { return i * i }
	for _, workers := range []int{1, 2, 7} {
		for _, stop := range []int{0, 1, 500, 2000} {
			var got []int
			for r := range ordered(workers, jobs, square) {
				got = append(got, r)
				if len(got) == stop {
					break
				}
			}
			want := 1000
			if stop > 0 {
				want = min(stop, want)
			}
			if len(got) != want || !slices.IsSorted(got) {
				t.Errorf("%d workers, stopped at %d: %d results", workers, stop, len(got))
			}
		}
	}
}

// TestImportSkipsWhatTheDatabaseRefuses imports well-formed documents that the database refuses.
func TestImportSkipsWhatTheDatabaseRefuses(t *testing.T) {
	dir := t.TempDir()
	for i := range 20 {
		name := filepath.Join(dir, fmt.Sprintf("%02d", i))
		write(t, name, "[1,2]")
		switch i {
		case 3:
			write(t, name+sidecarSuffix, `{"tags":[["nested"]]}`)
		case 11:
			write(t, name+sidecarSuffix, `{"$gt":1}`)
		case 12:
			write(t, name+sidecarSuffix, `{"line_number":99999999999999999999}`)
		}
	}
	src, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, 0)
	var skipped []string
	r, err := Import(t.Context(), c, src, &ImportOptions{OnSkip: func(i *ImportedDocument) { skipped = append(skipped, filepath.Base(i.Position.File)) }})
	if want := (Report{Added: 17, Skipped: 3}); err != nil || r != want || len(documents(t, c)) != 17 {
		t.Errorf("%+v, %v", r, err)
	}
	slices.Sort(skipped)
	if diff := cmp.Diff([]string{"03", "11", "12"}, skipped); diff != "" {
		t.Error(diff)
	}
}

// TestImportJoinsLines has one document in two lines, each with a part of it. The result does not
// depend on whether the lines are in one batch or in two.
func TestImportJoinsLines(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "x.jsonl"),
		`{"id":"a","text":"x","metadata":{"n":1}}`+"\n"+`{"id":"a","vector":[1,2]}`+"\n"+`{"id":"a","metadata":{"n":2}}`)
	for _, size := range []int{0, 1, 2} {
		src, err := Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := open(t, 0)
		if _, err := Import(t.Context(), c, src, &ImportOptions{BatchSize: size}); err != nil {
			t.Fatal(err)
		}
		want := []db.Document{{ID: "a", Text: "x", Vector: []float32{1, 2}, Metadata: db.Metadata{"n": int64(2)}}}
		if diff := cmp.Diff(want, documents(t, c)); diff != "" {
			t.Errorf("batches of %d: (-want +got)\n%s", size, diff)
		}
	}
}

func TestCacheLinks(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	write(t, filepath.Join(elsewhere, "f"), "[1,2]")
	for name, target := range map[string]string{"a": filepath.Join(elsewhere, "f"), "b": elsewhere, "c": filepath.Join(dir, "c")} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Skip("no symbolic links:", err)
		}
	}
	c := open(t, 0)
	if r := importAll(t, c, dir, nil); r.Added != 1 {
		t.Errorf("%+v", r)
	}
}

// TestCacheOtherFiles: a database in the cache directory, of any size, is ignored.
func TestCacheOtherFiles(t *testing.T) {
	dir := t.TempDir()
	big := write(t, filepath.Join(dir, "llm.db"), "SQLite format 3\x00")
	if err := os.Truncate(big, maxCacheFile+1<<20); err != nil {
		t.Skip("no sparse file:", err)
	}
	write(t, filepath.Join(dir, "empty.md"), "")
	write(t, filepath.Join(dir, "blank.md"), strings.Repeat(" ", 1000))
	write(t, filepath.Join(dir, "padded"), strings.Repeat(" ", 100_000)+"[1]")
	if r := importAll(t, open(t, 0), dir, nil); r != (Report{Added: 1, Ignored: 3}) {
		t.Errorf("%+v", r)
	}
}

func TestImportCancelled(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "x.jsonl"), strings.Repeat(`{"text":"x"}`+"\n", 5000))
	src, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := open(t, 0)
	r, err := Import(ctx, c, src, &ImportOptions{BatchSize: 100, Progress: func(int64, Report) { cancel() }})
	if !errors.Is(err, context.Canceled) || r.Added == 0 || r.Added != len(documents(t, c)) {
		t.Errorf("%+v with %d documents, %v", r, len(documents(t, c)), err)
	}
}

// BenchmarkReadCache reads the real cache on all processors: as an import does, and with a minimal
// loop that reads every file and parses every number.
func BenchmarkReadCache(b *testing.B) {
	dir := filepath.FromSlash("../../shared/data/emb-cache-ada002/cache")
	if _, err := os.Stat(dir); err != nil {
		b.Skip("no development data: ", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		b.Fatal(err)
	}
	var size int64
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			b.Fatal(err)
		}
		size += info.Size()
	}
	src, err := Open(dir, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("source", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			for doc, err := range src.Documents(b.Context()) {
				if err != nil || doc.Skip != nil {
					b.Fatal(err, doc)
				}
			}
		}
	})
	b.Run("ParseVector", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			var next atomic.Int64
			var wg sync.WaitGroup
			for range runtime.GOMAXPROCS(0) {
				wg.Go(func() {
					var vec []float32
					var buf []byte
					for i := next.Add(1) - 1; int(i) < len(entries); i = next.Add(1) - 1 {
						text, err := readCacheFile(&buf, filepath.Join(dir, entries[i].Name()))
						if err == nil {
							vec, err = docjson.ParseVector(vec[:0], text)
						}
						if err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
		}
	})
}
