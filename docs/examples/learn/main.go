// Command learn makes a knowledge base of two files and asks it.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/vecbolt/vecbolt/rag/knowledge"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	if err := os.MkdirAll("notes", 0o700); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"notes/cats.md":  "# Cats\n\n## Sleep\n\nCats sleep most of the day.\n\n## Voice\n\nCats purr when they are content.\n",
		"notes/dogs.txt": "Dogs bark at strangers.\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return err
		}
	}
	engine, err := knowledge.New("bases", nil)
	if err != nil {
		return err
	}
	for range 2 { // the second time there is nothing to do
		report, err := engine.Learn(ctx, "animals", knowledge.LearnOptions{Paths: []string{"notes"}})
		if err != nil {
			return err
		}
		fmt.Printf("%d files, %d chunks, %d embedded\n", report.Files, report.Chunks, report.Embedded)
	}
	response, err := engine.Query(ctx, "animals", "which animal purrs?", knowledge.QueryOptions{K: 1})
	if err != nil {
		return err
	}
	fmt.Print(response.Context)
	return nil
}
