package langchaingo_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/tmc/langchaingo/schema"

	"github.com/vecbolt/vecbolt/adapters/langchaingo"
	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag/embed"
)

func Example() {
	dir, err := os.MkdirTemp("", "langchaingo-")
	check(err)
	defer os.RemoveAll(dir)
	vdb, err := db.Open(dir, nil)
	check(err)
	defer vdb.Close()
	model, err := embed.Trigram(0)
	check(err)

	store, err := langchaingo.New(vdb, langchaingo.Embedder(model), nil)
	check(err)
	ctx := context.Background()
	_, err = store.AddDocuments(ctx, []schema.Document{
		{PageContent: "The log is written before memory."}, {PageContent: "Cats sleep most of the day."},
	})
	check(err)
	found, err := store.SimilaritySearch(ctx, "a written log", 1)
	check(err)
	fmt.Println(found[0].PageContent)
	// Output: The log is written before memory.
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
