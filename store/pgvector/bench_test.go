package pgvector

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/store"
)

// BenchmarkStore writes and queries 10,000 documents of 128 components. docs/stores.md
// has the figures.
func BenchmarkStore(b *testing.B) {
	rng := rand.New(rand.NewPCG(8, 8))
	vector := func() []float32 {
		v := make([]float32, 128)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	docs := make([]db.Document, 10_000)
	for i := range docs {
		docs[i] = db.Document{ID: fmt.Sprint(i), Vector: vector(), Text: fmt.Sprint("text of document number ", i), Metadata: db.Metadata{"n": int64(i), "part": int64(i % 50)}}
	}
	for name, o := range map[string]Options{"exact": {}, "hnsw": {HNSW: &HNSW{}}} {
		s := open(b, o)
		n := 0
		var c store.Collection
		b.Run("upsert/"+name, func(b *testing.B) {
			for b.Loop() {
				n++
				c = create(b, s, fmt.Sprint("c", n), store.Schema{Dim: 128, Text: &db.TextIndex{}})
				for i := 0; i < len(docs); i += 500 {
					if err := c.Upsert(b.Context(), docs[i:i+500]); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.N*len(docs))/b.Elapsed().Seconds(), "docs/s")
		})
		for what, where := range map[string]filter.Expr{"all": nil, "2%": filter.Eq("part", 7), "half": filter.Lt("n", 5000)} {
			b.Run("query/"+what+"/"+name, func(b *testing.B) {
				for b.Loop() {
					if hits, err := c.Query(b.Context(), vector(), 10, where); err != nil || len(hits) != 10 {
						b.Fatal(len(hits), err)
					}
				}
			})
		}
		b.Run("text/"+name, func(b *testing.B) {
			for b.Loop() {
				if hits, err := c.TextQuery(b.Context(), "number 77", 10, nil); err != nil || len(hits) != 10 {
					b.Fatal(len(hits), err)
				}
			}
		})
	}
}
