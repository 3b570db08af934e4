package db

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/formattest"
)

// BenchmarkIngest writes durable batches of 1,000 documents with text and small metadata,
// in rows/s.
func BenchmarkIngest(b *testing.B) {
	for _, dim := range []int{100, 768} {
		b.Run(fmt.Sprint(dim), func(b *testing.B) {
			vdb := open(b, b.TempDir(), nil)
			c := collection(b, vdb, "c", Schema{Dim: dim})
			vecs := randomVectors(rand.New(rand.NewPCG(1, 1)), 1000, dim)
			text := strings.Repeat("some text ", 20)
			n := 0
			for b.Loop() {
				docs := make([]Document, 1000)
				for i := range docs {
					docs[i] = Document{ID: fmt.Sprintf("doc-%08d", n), Vector: vecs[i], Text: text,
						Metadata: Metadata{"lang": "go", "year": 2000 + n%25, "score": float64(n) / 7, "ok": n%2 == 0}}
					n++
				}
				upsert(b, c, docs...)
			}
			if err := vdb.Flush(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkWriteOne writes single durable documents from 1 and 64 goroutines.
func BenchmarkWriteOne(b *testing.B) {
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			vdb := open(b, b.TempDir(), nil)
			c := collection(b, vdb, "c", Schema{Dim: 4})
			var n atomic.Int64
			b.SetParallelism(writers / 2)
			run := func(next func() bool) {
				for next() {
					upsert(b, c, Document{ID: fmt.Sprint(n.Add(1)), Vector: []float32{1, 2, 3, 4}})
				}
			}
			if writers == 1 {
				run(b.Loop)
			} else {
				b.RunParallel(func(pb *testing.PB) { run(pb.Next) })
			}
			b.ReportMetric(float64(n.Load())/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkSearch scans flushed vectors, one query at a time.
func BenchmarkSearch(b *testing.B) {
	const rows = 100_000
	for _, dim := range []int{100, 768} {
		vdb := open(b, b.TempDir(), &Options{Sync: SyncNever})
		c := collection(b, vdb, "c", Schema{Dim: dim})
		rng := rand.New(rand.NewPCG(1, 1))
		_, err := c.Load(b.Context(), func(yield func(Document, error) bool) {
			for i := range rows {
				d := Document{ID: fmt.Sprint(i), Vector: randomVectors(rng, 1, dim)[0], Metadata: Metadata{"i": i, "mod": i % 100}}
				if !yield(d, nil) {
					return
				}
			}
		}, nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := vdb.Compact(b.Context()); err != nil {
			b.Fatal(err)
		}
		queries := randomVectors(rng, 64, dim)
		for _, workers := range []int{1, 2} {
			for name, where := range map[string]filter.Expr{"all": nil, "1%": filter.Eq("mod", 7), "50%": filter.Lt("i", rows/2)} {
				b.Run(fmt.Sprintf("%dx%d/workers=%d/%s", rows, dim, workers, name), func(b *testing.B) {
					vdb.opts.Workers = workers
					b.SetBytes(4 * rows * int64(dim))
					i := 0
					for b.Loop() {
						q := Query{Near: Vector(queries[i%len(queries)]), Where: where, Select: IDsOnly}
						if _, err := c.Search(b.Context(), q); err != nil {
							b.Fatal(err)
						}
						i++
					}
				})
			}
		}
	}
}

// BenchmarkSearchGraph searches the graph of each set of formattest.Sets
// (VECBOLT_BENCH_DATA=../../shared/data/glove100k) for the 10 best rows, for their ids alone and
// for their texts and metadata too, with one goroutine and with two.
func BenchmarkSearchGraph(b *testing.B) {
	for _, set := range formattest.Sets(b, 300) {
		dir, opts := b.TempDir(), &Options{Sync: SyncNever, Compaction: Manual, Recheck: Manual, Workers: 1}
		vdb := open(b, dir, opts)
		c := collection(b, vdb, "c", Schema{Dim: set.Rows.Dim})
		_, err := c.Load(b.Context(), func(yield func(Document, error) bool) {
			for i := range set.Rows.Len() {
				d := Document{ID: fmt.Sprint(i), Vector: set.Rows.Row(i), Text: "some text of a document, not a long one",
					Metadata: Metadata{"c": i * 7919 % 1000, "name": fmt.Sprintf("document %d", i)}}
				if !yield(d, nil) {
					return
				}
			}
		}, nil)
		if err == nil {
			err = vdb.Compact(b.Context())
		}
		if err != nil {
			b.Fatal(err)
		}
		if err := vdb.Close(); err != nil {
			b.Fatal(err)
		}
		c = collectionOf(b, open(b, dir, opts), "c")
		search := func(b *testing.B, i int, q Query) {
			q.Near = Vector(set.Queries.Row(i % set.Queries.Len()))
			if _, err := c.Search(b.Context(), q); err != nil {
				b.Fatal(err)
			}
		}
		for _, q := range []Query{{Accuracy: EF(20), Select: IDsOnly}, {Accuracy: EF(20)}, {Accuracy: EF(80), Select: IDsOnly}} {
			name := fmt.Sprintf("%s/ef=%d/ids=%v", set.Name, q.Accuracy, q.Select == IDsOnly)
			b.Run(name, func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					search(b, i, q)
				}
			})
			b.Run(name+"/callers=2", func(b *testing.B) {
				var n atomic.Int64
				b.SetParallelism(max(1, 2/runtime.GOMAXPROCS(0)))
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						search(b, int(n.Add(1)), q)
					}
				})
			})
		}
	}
}
