package vectorize_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/vectorize"
)

func Example() {
	ctx := context.Background()
	vdb, err := db.Open(db.Memory, nil)
	check(err)
	defer vdb.Close()
	c, err := vdb.OpenCollection(ctx, "notes", db.Schema{Text: &db.TextIndex{}})
	check(err)

	notes := vectorize.New(vectorize.Options{}).Collection(c)
	check(notes.Pin(ctx, embed.DefaultConfig()))
	_, err = notes.Upsert(ctx, db.Document{ID: "cat", Text: "Cats purr when they are content."},
		db.Document{ID: "dog", Text: "Dogs bark at strangers."})
	check(err)
	r, err := notes.Search(ctx, db.Query{Text: "which animal purrs?", K: 1})
	check(err)
	fmt.Println(r.Hits[0].ID)
	err = notes.Pin(ctx, embed.Config{Provider: "mock", Model: "trigram-v1", Dimensions: 384})
	fmt.Println(errors.Is(err, embed.ErrMismatch))
	// Output:
	// cat
	// true
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
