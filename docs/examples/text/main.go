// Command text searches by words, alone and together with vectors.
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

	notes, err := vdb.OpenCollection(ctx, "notes", db.Schema{
		Text: &db.TextIndex{Language: "english", Fields: []string{"title"}},
	})
	if err != nil {
		return err
	}
	_, err = notes.Upsert(ctx,
		db.Document{ID: "mmap", Text: "Segments are mapped into memory and verified when first touched.",
			Metadata: db.Metadata{"title": "Reading"}},
		db.Document{ID: "wal", Text: "Writers append to the log and share one sync.",
			Metadata: db.Metadata{"title": "Writing"}},
		db.Document{ID: "graph", Text: "func (g *Graph) walkNeighbours(entry uint32) visits segment after segment.",
			Vector: []float32{1, 0}},
	)
	if err != nil {
		return err
	}

	res, err := notes.Search(ctx, db.Query{Text: `segment -graph`, Snippet: 40})
	if err != nil {
		return err
	}
	for _, h := range res.Hits {
		fmt.Printf("%s: %q\n", h.ID, h.Snippet.Text)
	}

	n, err := notes.Count(ctx, filter.And(filter.Text(`"first touched" neighbours`), filter.Not(filter.Exists("year"))))
	if err != nil {
		return err
	}
	fmt.Println(n, "documents match")

	res, err = notes.Search(ctx, db.Query{
		Text:   "writing",
		Near:   db.Vector{1, 0},
		Fusion: db.Fusion{Vector: 1, Text: 1}, // a good model: both count
		Select: db.IDsOnly,
	})
	if err != nil {
		return err
	}
	for _, h := range res.Hits {
		fmt.Println(h.ID, h.Legs[0].Name, h.Legs[0].Rank, h.Legs[1].Name, h.Legs[1].Rank)
	}
	return nil
}
