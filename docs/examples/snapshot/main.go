// Command snapshot reads a state of the database that no longer is.
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
	vdb, err := db.Open("stock.vdb", nil)
	if err != nil {
		return err
	}
	defer vdb.Close()
	stock, err := vdb.OpenCollection(ctx, "stock", db.Schema{Dim: 2})
	if err != nil {
		return err
	}
	if _, err := stock.Upsert(ctx, db.Document{ID: "apple", Vector: []float32{1, 0}},
		db.Document{ID: "pear", Vector: []float32{0, 1}}); err != nil {
		return err
	}

	snap, err := vdb.Snapshot()
	if err != nil {
		return err
	}
	defer snap.Close()

	if _, err := stock.DeleteWhere(ctx, filter.And()); err != nil {
		return err
	}
	then, err := snap.Collection("stock")
	if err != nil {
		return err
	}
	res, err := then.Search(ctx, db.Query{Near: db.Vector{1, 0}, K: 1})
	if err != nil {
		return err
	}
	before, err := then.Info()
	if err != nil {
		return err
	}
	now, err := stock.Info()
	if err != nil {
		return err
	}
	fmt.Println("now", now.Documents, "then", before.Documents, "nearest then:", res.Hits[0].ID)
	return nil
}
