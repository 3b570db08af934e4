// Command first opens a database, stores three documents and finds the nearest.
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
	vdb, err := db.Open("notes.vdb", nil)
	if err != nil {
		return err
	}
	defer vdb.Close()

	notes, err := vdb.OpenCollection(ctx, "notes", db.Schema{Dim: 3})
	if err != nil {
		return err
	}
	_, err = notes.Upsert(ctx,
		db.Document{ID: "tea", Vector: []float32{0.9, 0.1, 0}, Text: "Steep for four minutes.",
			Metadata: db.Metadata{"lang": "en"}},
		db.Document{ID: "kaffee", Vector: []float32{0.8, 0.3, 0}, Text: "Grob mahlen.",
			Metadata: db.Metadata{"lang": "de"}},
		db.Document{ID: "gears", Vector: []float32{0, 0.2, 0.9}, Text: "Oil the chain.",
			Metadata: db.Metadata{"lang": "en"}},
	)
	if err != nil {
		return err
	}

	res, err := notes.Search(ctx, db.Query{
		Near:  db.Vector{1, 0, 0},
		K:     2,
		Where: filter.Eq("lang", "en"),
	})
	if err != nil {
		return err
	}
	for _, h := range res.Hits {
		fmt.Printf("%.3f  %-5s  %s\n", h.Score, h.ID, h.Text)
	}
	return nil
}
