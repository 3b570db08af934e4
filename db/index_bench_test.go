package db

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/internal/engine"
)

var indexDim = flag.Int("index.dim", 768, "dimension of the rows of BenchmarkIndex")

// BenchmarkIndex compares the indexes of a collection: three databases of the same made rows answer
// the same queries in turn, one at a time on one core. Sizes are of all files but the log.
//
//	go test ./db -run '^$' -bench BenchmarkIndex -benchtime 1x -promise.rows 20000 -index.dim 768 -promise.out FILE
func BenchmarkIndex(b *testing.B) {
	const queries = 400
	rows := madeRows(*promiseRows+queries, *indexDim)
	rows, asked := rows[queries:], rows[:queries]
	raw := float64(4 * len(rows) * *indexDim)
	opts := Options{Sync: SyncNever, Compaction: Manual, Recheck: Manual}
	first, took := compacted(b, opts, Cosine, rows)
	table := new(strings.Builder)
	fmt.Fprintf(table, "%d rows of %d; raw %.1f MB; built in %.1f s\n\n| index | graph | codes | all | of raw | changed in |\n"+
		"|---|---|---|---|---|---|\n", len(rows), *indexDim, raw/1e6, took.Seconds())
	all := []Index{IndexFast, IndexSmall, IndexNone}
	colls := make([]*Collection, len(all))
	opts.Workers = 1
	for i, index := range all {
		dir := b.TempDir()
		if err := os.CopyFS(dir, os.DirFS(first)); err != nil {
			b.Fatal(err)
		}
		vdb := open(b, dir, &opts)
		colls[i] = collectionOf(b, vdb, "c")
		start := time.Now()
		if err := colls[i].SetIndex(b.Context(), index); err != nil {
			b.Fatal(err)
		}
		if err := vdb.Compact(b.Context()); err != nil {
			b.Fatal(err)
		}
		took := time.Since(start)
		sizes := map[string]float64{}
		err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
			if err == nil && !info.IsDir() && filepath.Base(filepath.Dir(path)) != engine.WALDir {
				sizes[filepath.Ext(path)] += float64(info.Size())
				sizes["all"] += float64(info.Size())
			}
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
		fmt.Fprintf(table, "| %v | %.1f MB | %.1f MB | %.1f MB | %.2f | %.1f s |\n", index, sizes[".graph"]/1e6,
			sizes[".codes"]/1e6, sizes["all"]/1e6, sizes["all"]/raw, took.Seconds())
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	table.WriteString("\n| asked | index | found | queries/s |\n|---|---|---|---|\n")
	for _, vec := range asked { // checksums of most blocks are compared, and pages mapped
		for _, c := range colls {
			for _, a := range []Accuracy{Recall(0.98), Exact} {
				must(c.Search(b.Context(), Query{Near: Vector(vec), K: 10, Accuracy: a, Select: IDsOnly}))
			}
		}
	}
	for b.Loop() {
		for _, a := range []Accuracy{Recall(0.95), Recall(0.98), Exact} {
			found, spent := make([]int, len(all)), make([]time.Duration, len(all))
			for n, vec := range asked {
				truth := map[string]bool{}
				for i := range all {
					at := (i + n) % len(all) // in turn
					q := Query{Near: Vector(vec), K: 10, Accuracy: a, Select: IDsOnly}
					start := time.Now()
					r, err := colls[at].Search(b.Context(), q)
					spent[at] += time.Since(start)
					if err != nil {
						b.Fatal(err)
					}
					if i == 0 {
						q.Accuracy = Exact
						for _, h := range must(colls[0].Search(b.Context(), q)).Hits {
							truth[h.ID] = true
						}
					}
					for _, h := range r.Hits {
						if truth[h.ID] {
							found[at]++
						}
					}
				}
			}
			for i, index := range all {
				fmt.Fprintf(table, "| %v | %v | %.4f | %.0f |\n", a, index, float64(found[i])/10/queries,
					queries/spent[i].Seconds())
			}
		}
	}
	b.Logf("\n%s", table)
	if *promiseOut != "" {
		if err := os.WriteFile(*promiseOut, []byte(table.String()), 0o644); err != nil {
			b.Fatal(err)
		}
	}
}
