// Command search shows what a query can say, and filters in both spellings.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	vdb, err := db.Open("books.vdb", nil)
	if err != nil {
		return err
	}
	defer vdb.Close()
	books, err := vdb.OpenCollection(ctx, "books", db.Schema{Dim: 2})
	if err != nil {
		return err
	}
	_, err = books.Upsert(ctx,
		db.Document{ID: "emma", Vector: []float32{1, 0},
			Metadata: db.Metadata{"year": 1815, "tags": []string{"novel"}, "by": db.Metadata{"name": "Austen"}}},
		db.Document{ID: "ivanhoe", Vector: []float32{0.8, 0.6},
			Metadata: db.Metadata{"year": 1819, "tags": []string{"novel", "history"},
				"by": db.Metadata{"name": "Scott"}}},
		db.Document{ID: "walden", Vector: []float32{0, 1},
			Metadata: db.Metadata{"year": 1854, "tags": []string{"essay"}, "by": db.Metadata{"name": "Thoreau"}}},
	)
	if err != nil {
		return err
	}
	for _, show := range []func(context.Context, *db.Collection) error{nearest, similar, filtered, many, varied, why} {
		if err := show(ctx, books); err != nil {
			return err
		}
	}
	return nil
}

func nearest(ctx context.Context, books *db.Collection) error {
	res, err := books.Search(ctx, db.Query{
		Near:      db.Vector{1, 0},
		K:         10,              // at most; 0 means 10
		Threshold: new(0.5),        // inclusive
		Select:    db.WithMetadata, // no texts, no vectors
	})
	if err != nil {
		return err
	}
	for _, h := range res.Hits {
		fmt.Println(h.ID, h.Score, h.Metadata["year"])
	}
	fmt.Println("exact:", res.Exact, "considered:", res.Considered)
	return nil
}

func similar(ctx context.Context, books *db.Collection) error {
	// What resembles a document that is stored? It is its own first hit: skip it.
	res, err := books.Search(ctx, db.Query{Near: db.Stored("emma"), K: 1, Offset: 1, Select: db.IDsOnly})
	if err != nil {
		return err
	}
	fmt.Println("like emma:", res.Hits[0].ID)
	return nil
}

func filtered(ctx context.Context, books *db.Collection) error {
	where := filter.And(
		filter.Range("year", 1800, 1850),
		filter.Contains("tags", "history"),
		filter.Eq("by.name", "Scott"),
	)
	same, err := filter.Parse([]byte(`{"year": {"$gte": 1800, "$lte": 1850}, "tags": {"$contains": "history"}, "by.name": "Scott"}`))
	if err != nil {
		return err
	}
	for _, w := range []filter.Expr{where, same} {
		res, err := books.Search(ctx, db.Query{Near: db.Vector{0, 1}, Where: w})
		if err != nil {
			return err
		}
		fmt.Println(res.Hits[0].ID, "of", res.Matched)
	}
	return nil
}

func many(ctx context.Context, books *db.Collection) error {
	results, err := books.SearchBatch(ctx, []db.Query{
		{Near: db.Vector{1, 0}, K: 1},
		{Near: db.Vector{0, 1}, K: 1},
	})
	if err != nil {
		return err
	}
	for i, res := range results {
		fmt.Printf("query %d: %s\n", i, res.Hits[0].ID)
	}
	return nil
}

func varied(ctx context.Context, books *db.Collection) error {
	for _, q := range []db.Query{
		// The best two books of each of the ten best authors.
		{Near: db.Vector{1, 0}, Group: &db.Group{Field: "by.name", Size: 2}},
		// Hits that differ from each other.
		{Near: db.Vector{1, 0}, MMR: &db.MMR{Lambda: 0.7}},
		// More like emma, less like walden; neither is a hit.
		{Near: db.Examples{Like: []string{"emma"}, Unlike: []string{"walden"}}},
	} {
		res, err := books.Search(ctx, q)
		if err != nil {
			return err
		}
		fmt.Println(len(res.Hits), "hits")
	}
	return nil
}

func why(ctx context.Context, books *db.Collection) error {
	e, err := books.Explain(ctx, db.Query{Near: db.Vector{1, 0}, K: 1, Where: filter.Lt("year", 1850)},
		"ivanhoe", "walden")
	if err != nil {
		return err
	}
	for _, w := range e.WhyNot {
		fmt.Println(w.ID, "has rank", w.Rank, "and is no hit:", w.Reason)
	}
	return nil
}
