package rerank_test

import (
	"context"
	"fmt"
	"log"

	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/rerank"
)

func ExampleLexical() {
	chunks := []rag.Chunk{
		{ID: "cats", Text: "Cats sleep most of the day."},
		{ID: "log", Text: "The log is written before memory."},
	}
	best, err := rerank.Lexical(0.7).Rerank(context.Background(), "When is the log written?", chunks)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(best[0].ID)
	// Output: log
}
