package db

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/engine"
)

// mappedReads are all ways of reading; each returns its answer as text.
var mappedReads = map[string]func(ctx context.Context, vdb *DB, c *Collection) (string, error){
	"search": func(ctx context.Context, _ *DB, c *Collection) (string, error) {
		return answerText(c.Search(ctx, Query{Near: Vector(mappedVector(7)), K: 20, Select: Everything}))
	},
	"search by id": func(ctx context.Context, _ *DB, c *Collection) (string, error) {
		return answerText(c.Search(ctx, Query{Near: Stored("doc 150"), K: 5}))
	},
	"search where": func(ctx context.Context, _ *DB, c *Collection) (string, error) {
		return answerText(c.Search(ctx, Query{Near: Vector(mappedVector(8)), K: 20, Where: filter.Gte("n", 100)}))
	},
	"search text": func(ctx context.Context, _ *DB, c *Collection) (string, error) {
		return answerText(c.Search(ctx, Query{Text: "number 33", K: 5}))
	},
	"search batch": func(ctx context.Context, _ *DB, c *Collection) (string, error) {
		results, err := c.SearchBatch(ctx, []Query{{Near: Vector(mappedVector(1)), K: 3}, {Near: Vector(mappedVector(2)), K: 3}})
		if err != nil {
			return "", err
		}
		text := ""
		for _, r := range results {
			one, _ := answerText(r, nil)
			text += one
		}
		return text, nil
	},
	"get": func(ctx context.Context, _ *DB, c *Collection) (string, error) {
		d, err := c.Get(ctx, "doc 222", Everything)
		return fmt.Sprint(d), err
	},
	"list": func(ctx context.Context, _ *DB, c *Collection) (string, error) {
		page, err := c.List(ctx, ListQuery{Where: filter.Lt("n", 200), Limit: 500, Select: Everything})
		if err != nil {
			return "", err
		}
		return fmt.Sprint(page.Total, len(page.Documents)), nil
	},
	"all": func(ctx context.Context, _ *DB, c *Collection) (string, error) {
		n := 0
		for _, err := range c.All(ctx, filter.Gte("n", 0), Everything) {
			if err != nil {
				return "", err
			}
			n++
		}
		return fmt.Sprint(n), nil
	},
	"count": func(ctx context.Context, _ *DB, c *Collection) (string, error) {
		n, err := c.Count(ctx, filter.And(filter.Gte("n", 10), filter.Eq("name", "name of 250")))
		return fmt.Sprint(n), err
	},
	"snapshot": func(ctx context.Context, vdb *DB, c *Collection) (string, error) {
		snap, err := vdb.Snapshot()
		if err != nil {
			return "", err
		}
		defer snap.Close()
		frozen, err := snap.Collection(must(c.Info()).Name)
		if err != nil {
			return "", err
		}
		return answerText(frozen.Search(ctx, Query{Near: Vector(mappedVector(9)), K: 9, Select: WithText}))
	},
}

func answerText(r *Result, err error) (string, error) {
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, h := range r.Hits {
		fmt.Fprintln(&b, h.ID, h.Score, h.Text)
	}
	return b.String(), nil
}

// pageSize is the page size of memory: within a page, the system shows zeros after
// the end of a file.
var pageSize = os.Getpagesize()

func mappedVector(i int) []float32 {
	return randomVectors(rand.New(rand.NewPCG(9, uint64(i))), 1, 64)[0]
}

// Files that are cut, or rot before they are read, while a database has them
// open: each way of reading gives the right answer or an error that names a
// file. Derived files are done without. The process goes on, and ends.
func TestMappedFiles(t *testing.T) {
	ctx := t.Context()
	whole := filepath.Join(memDir(t), "db")
	opts := &Options{tests: testOptions{codedBytes: 1}, Workers: 2, Compaction: Manual}
	vdb := open(t, whole, opts)
	c := collection(t, vdb, "c", Schema{Dim: 64, Text: &TextIndex{}})
	fill(t, c, 300, func(i int) Document {
		return Document{ID: fmt.Sprint("doc ", i), Vector: mappedVector(i), Text: strings.Repeat(fmt.Sprintf("text of number %d. ", i), 20),
			Metadata: Metadata{"n": i, "name": fmt.Sprint("name of ", i)}}
	})
	want := map[string]string{}
	vdb = reopen(t, vdb, opts)
	for name, read := range mappedReads {
		var err error
		if want[name], err = read(ctx, vdb, existing(t, vdb, "c")); err != nil || want[name] == "" {
			t.Fatalf("%s: %q, %v", name, want[name], err)
		}
	}
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	files := readFiles(t, whole)
	dir := filepath.Join(memDir(t), "db")
	right, failed := map[string]int{}, map[string]int{}
	for name, b := range files {
		if name == "meta.sums" { // read at open, as a whole
			continue
		}
		ext := filepath.Ext(name)
		derivedFile := slices.Contains(engine.DerivedExts, strings.TrimPrefix(ext, "."))
		for _, damage := range []string{"cut to nothing", "cut in the middle", "rotten"} {
			for _, warm := range []bool{false, true} {
				if warm && damage == "rotten" {
					continue // verified once, it is not looked at again
				}
				for _, readOnly := range []bool{true, false} {
					writeFiles(t, dir, files)
					o := *opts
					o.ReadOnly = readOnly
					vdb := open(t, dir, &o)
					c := existing(t, vdb, "c")
					if warm {
						for _, read := range mappedReads {
							if _, err := read(ctx, vdb, c); err != nil {
								t.Fatal(err)
							}
						}
					}
					path := filepath.Join(dir, name)
					var err error
					switch damage {
					case "cut to nothing":
						err = os.Truncate(path, 0)
					case "cut in the middle":
						err = os.Truncate(path, int64(len(b)/2/pageSize*pageSize))
					case "rotten":
						err = hurt{file: name, off: 0, new: bytes.Repeat([]byte{0xa5}, len(b))}.inflict(path)
					}
					if err != nil {
						t.Fatal(err)
					}
					what := fmt.Sprintf("%s %s, warm %v, read-only %v", name, damage, warm, readOnly)
					for way, read := range mappedReads {
						got, err := read(ctx, vdb, c)
						var corrupt *CorruptError
						switch {
						case err == nil && got == want[way]:
							right[ext]++
						case err == nil:
							t.Errorf("%s: %s is silently wrong", what, way)
						case derivedFile:
							t.Errorf("%s: %s does not do without: %v", what, way, err)
						case errors.As(err, &corrupt) && corrupt.File != "":
							failed[ext]++
						default:
							t.Errorf("%s: %s: an error of no kind: %v", what, way, err)
						}
					}
					if _, err := vdb.Check(ctx, CheckBytes); err != nil {
						t.Errorf("%s: check: %v", what, err)
					}
					if err := vdb.Backup(ctx, filepath.Join(memDir(t), "copy")); err != nil && !errors.Is(err, ErrCorrupt) {
						t.Errorf("%s: backup: %v", what, err)
					}
					if !readOnly {
						_, err := c.Upsert(ctx, Document{ID: "doc 3"})
						err = errors.Join(err, vdb.Compact(ctx))
						if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnknown) {
							t.Errorf("%s: writing: %v", what, err)
						}
					}
					vdb.abandon()
					if err := vdb.Close(); err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnknown) {
						t.Errorf("%s: close: %v", what, err)
					}
				}
			}
		}
	}
	t.Logf("right answers %v, errors %v", right, failed)
	for _, ext := range []string{".vec", ".bolt"} {
		if failed[ext] == 0 {
			t.Errorf("damage of %s never shows", ext)
		}
	}
}
