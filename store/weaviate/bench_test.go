package weaviate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/store"
)

// BenchmarkCluster writes 10,000 documents of 128 components and asks for the
// best ten under conditions of every kind; the figures in docs/stores.md are its.
func BenchmarkCluster(b *testing.B) {
	ctx := b.Context()
	s, err := Open(ctx, cluster(b), nil)
	if err != nil {
		b.Fatal(err)
	}
	const name = "storetest bench"
	_ = s.Drop(ctx, name) // of a run that was cut short
	c, err := s.Create(ctx, name, store.Schema{Dim: 128, Text: &db.TextIndex{}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Drop(context.WithoutCancel(ctx), name); err != nil {
			b.Error(err)
		}
	})
	rng := rand.New(rand.NewPCG(1, 1))
	vector := func() []float32 {
		v := make([]float32, 128)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	var docs []db.Document
	for i := range 10_000 {
		docs = append(docs, db.Document{ID: fmt.Sprint("doc ", i), Vector: vector(), Text: fmt.Sprint("text number", i%100, " about topic", i%7), Metadata: db.Metadata{
			"n": int64(i), "lang": []string{"go", "c", "rust"}[i%3], "date": fmt.Sprintf("2024-%02d-05", i%12+1), "price": float64(i) / 7}})
	}
	start := time.Now()
	for batch := range slices.Chunk(docs, 300) {
		if err := c.Upsert(ctx, batch); err != nil {
			b.Fatal(err)
		}
	}
	b.Logf("10,000 documents in %v", time.Since(start).Round(100*time.Millisecond))
	query := vector()
	for _, where := range []filter.Expr{filter.And(), filter.Eq("lang", "go"), filter.Ne("lang", "go"), filter.Gte("n", 5000), filter.Range("price", 100, 200.5),
		filter.Gte("date", "2024-06-01"), filter.Gte("date", "2024-06-05 12:00")} {
		b.Run(fmt.Sprint("vector/", where), func(b *testing.B) {
			for b.Loop() {
				if hits, err := c.Query(ctx, query, 10, where); err != nil || len(hits) != 10 {
					b.Fatal(len(hits), err)
				}
			}
		})
	}
	b.Run("text", func(b *testing.B) {
		for b.Loop() {
			if hits, err := c.TextQuery(ctx, "number7 topic3", 10, nil); err != nil || len(hits) != 10 {
				b.Fatal(len(hits), err)
			}
		}
	})
	b.Run("count/range", func(b *testing.B) {
		for b.Loop() {
			if n, err := c.Count(ctx, filter.Gte("date", "2024-06-01")); err != nil || n == 0 {
				b.Fatal(n, err)
			}
		}
	})
	b.Run("get/10", func(b *testing.B) {
		ids := []string{"doc 1", "doc 2", "doc 3", "doc 4", "doc 5", "doc 6", "doc 7", "doc 8", "doc 9", "doc 10"}
		for b.Loop() {
			if _, err := c.Get(ctx, ids); err != nil {
				b.Fatal(err)
			}
		}
	})
}
