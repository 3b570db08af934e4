package pgvector

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/store"
)

// BenchmarkStore writes and queries 5,000 documents of 128 components.
// docs/stores.md has the figures.
func BenchmarkStore(b *testing.B) {
	rng := rand.New(rand.NewPCG(8, 8))
	vector := func() []float32 {
		v := make([]float32, 128)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	docs := make([]db.Document, 5_000)
	for i := range docs {
		docs[i] = db.Document{ID: fmt.Sprint(i), Vector: vector(), Text: fmt.Sprint("text of document number ", i), Metadata: db.Metadata{"n": int64(i), "part": int64(i % 50)}}
	}
	s := open(b, Options{})
	n := 0
	load := func(b *testing.B) string {
		n++
		c := create(b, s, fmt.Sprint("c", n), store.Schema{Dim: 128, Text: &db.TextIndex{}})
		for i := 0; i < len(docs); i += 500 {
			upsert(b, c, docs[i:i+500]...)
		}
		return c.Name()
	}
	var exact, indexed string
	b.Run("load/without index", func(b *testing.B) {
		for b.Loop() {
			exact = load(b)
		}
	})
	b.Run("load/index afterwards", func(b *testing.B) {
		for b.Loop() {
			indexed = load(b)
			if err := s.Index(b.Context(), indexed, HNSW{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("load/index from the start", func(b *testing.B) {
		s.hnsw = &HNSW{}
		for b.Loop() {
			load(b)
		}
	})
	for _, tt := range []struct {
		name  string
		where filter.Expr
	}{{"all", nil}, {"half", filter.Lt("n", 2500)}, {"2%", filter.Eq("part", 7)}} {
		for _, name := range []string{exact, indexed} {
			c, err := s.Collection(b.Context(), name)
			if err != nil {
				b.Fatal(err)
			}
			kind := map[string]string{exact: "exact", indexed: "index"}[name]
			b.Run("query/"+tt.name+"/"+kind, func(b *testing.B) {
				for b.Loop() {
					if hits, err := c.Query(b.Context(), vector(), 10, tt.where); err != nil || len(hits) != 10 {
						b.Fatal(len(hits), err)
					}
				}
			})
		}
	}
}
