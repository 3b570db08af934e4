// Command write shows every way to change documents.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	vdb, err := db.Open("shop.vdb", &db.Options{Sync: db.SyncInterval, SyncEvery: 50 * time.Millisecond})
	if err != nil {
		return err
	}
	defer vdb.Close()

	items, err := vdb.OpenCollection(ctx, "items", db.Schema{
		Dim:     2,
		Metric:  db.Cosine,
		Lineage: db.Lineage{Provider: "openai", Model: "text-embedding-3-small", Normalized: true},
	})
	if err != nil {
		return err
	}
	for _, write := range []func(context.Context, *db.DB, *db.Collection) error{insert, vectorLater, remove, batch} {
		if err := write(ctx, vdb, items); err != nil {
			return err
		}
	}
	return nil
}

func insert(ctx context.Context, _ *db.DB, items *db.Collection) error {
	ids, err := items.Insert(ctx,
		db.Document{ID: "lamp", Vector: []float32{0.6, 0.8},
			Metadata: db.Metadata{"price": 40, "tags": []string{"light"}}},
		db.Document{Text: "no id: it gets a UUIDv7"},
	)
	if err != nil {
		return err
	}
	fmt.Println(ids[0], len(ids[1]))

	_, err = items.Insert(ctx, db.Document{ID: "lamp"})
	fmt.Println("taken:", errors.Is(err, db.ErrExists))
	return nil
}

func vectorLater(ctx context.Context, _ *db.DB, items *db.Collection) error {
	// The text first, its vector when it has been computed.
	if _, err := items.Upsert(ctx, db.Document{ID: "desk", Text: "Oak, 160 cm",
		Metadata: db.Metadata{"price": 400}}); err != nil {
		return err
	}
	if err := items.Patch(ctx, db.Patch{ID: "desk", Vector: []float32{1, 0}}); err != nil {
		return err
	}

	// Fields that are not named stay, and so do text and vector.
	err := items.Patch(ctx, db.Patch{
		ID:  "desk",
		Set: db.Metadata{"price": 350, "sale": true},
	})
	if err != nil {
		return err
	}
	d, err := items.Get(ctx, "desk", db.Everything)
	if err != nil {
		return err
	}
	fmt.Println(d.Text, d.Metadata, d.Vector)
	return nil
}

func remove(ctx context.Context, _ *db.DB, items *db.Collection) error {
	n, err := items.Delete(ctx, "lamp", "no such id")
	if err != nil {
		return err
	}
	m, err := items.DeleteWhere(ctx, filter.Not(filter.Exists("price")))
	if err != nil {
		return err
	}
	left, err := items.Count(ctx, nil)
	if err != nil {
		return err
	}
	fmt.Println(n, m, left)
	return nil
}

func batch(ctx context.Context, vdb *db.DB, _ *db.Collection) error {
	if _, err := vdb.OpenCollection(ctx, "journal", db.Schema{}); err != nil {
		return err
	}
	var b db.Batch
	b.Patch("items", db.Patch{ID: "desk", Set: db.Metadata{"price": 300}})
	b.Insert("journal", db.Document{ID: "2024-05-01", Text: "desk down to 300"})
	if err := vdb.Apply(ctx, &b); err != nil {
		return err // neither collection has changed
	}
	b.Reset()
	b.DeleteWhere("journal", filter.Eq("month", "2024-05"))
	b.Upsert("journal", db.Document{ID: "2024-05-02", Text: "a quiet month", Metadata: db.Metadata{"month": "2024-05"}})
	if err := vdb.Apply(ctx, &b); err != nil {
		return err
	}
	infos, err := vdb.Collections()
	if err != nil {
		return err
	}
	for _, c := range infos {
		fmt.Println(c.Name, c.Documents)
	}
	return nil
}
