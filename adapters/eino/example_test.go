package eino_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/cloudwego/eino/schema"

	"github.com/vecbolt/vecbolt/adapters/eino"
	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag/embed"
)

func Example() {
	dir, err := os.MkdirTemp("", "eino-")
	check(err)
	defer os.RemoveAll(dir)
	vdb, err := db.Open(dir, nil)
	check(err)
	defer vdb.Close()
	model, err := embed.Trigram(0)
	check(err)

	store, err := eino.New(vdb, eino.Embedder(model), &eino.Options{TopK: 1})
	check(err)
	ctx := context.Background()
	_, err = store.Store(ctx, []*schema.Document{
		{ID: "log", Content: "The log is written before memory."}, {ID: "cats", Content: "Cats sleep most of the day."},
	})
	check(err)
	found, err := store.Retrieve(ctx, "a written log")
	check(err)
	fmt.Println(found[0].ID, found[0].Content)
	// Output: log The log is written before memory.
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
