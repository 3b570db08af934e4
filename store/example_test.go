package store_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/store"
)

func Example() {
	dir, err := os.MkdirTemp("", "store-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	vdb, err := db.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer vdb.Close()

	// The same function works with store/weaviate and store/pgvector.
	if err := nearest(context.Background(), store.Embedded(vdb)); err != nil {
		log.Fatal(err)
	}
	// Output:
	// vek 0.71
	// 2 documents since 2020
}

func nearest(ctx context.Context, s store.Store) error {
	notes, err := s.Create(ctx, "notes", store.Schema{Dim: 2})
	if err != nil {
		return err
	}
	err = notes.Upsert(ctx, []db.Document{
		{ID: "bolt", Vector: []float32{1, 0}, Metadata: db.Metadata{"year": 2013}},
		{ID: "vek", Vector: []float32{1, 1}, Metadata: db.Metadata{"year": 2022}},
		{ID: "faiss", Vector: []float32{0, 1}, Metadata: db.Metadata{"year": 2020}},
	})
	if err != nil {
		return err
	}
	recent := filter.Gte("year", 2020)
	hits, err := notes.Query(ctx, []float32{2, 0}, 1, recent)
	if err != nil {
		return err
	}
	fmt.Printf("%s %.2f\n", hits[0].ID, hits[0].Score)
	n, err := notes.Count(ctx, recent)
	if err != nil {
		return err
	}
	fmt.Println(n, "documents since 2020")
	return nil
}
