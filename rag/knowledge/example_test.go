package knowledge_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/vecbolt/vecbolt/rag/knowledge"
)

func Example() {
	dir, err := os.MkdirTemp("", "knowledge-")
	check(err)
	defer os.RemoveAll(dir)
	check(os.WriteFile(filepath.Join(dir, "log.md"), []byte("# Log\n\nThe log is written before memory.\n"), 0o600))
	check(os.WriteFile(filepath.Join(dir, "cat.md"), []byte("# Cats\n\nCats sleep most of the day.\n"), 0o600))

	engine, err := knowledge.New(filepath.Join(dir, ".vecbolt"), &knowledge.Options{Logger: slog.New(slog.DiscardHandler)})
	check(err)
	ctx := context.Background()
	report, err := engine.Learn(ctx, "notes", knowledge.LearnOptions{Paths: []string{dir}})
	check(err)
	fmt.Println(report.Files, "files")

	answer, err := engine.Query(ctx, "notes", "When is the log written?", knowledge.QueryOptions{K: 1})
	check(err)
	fmt.Println(answer.Chunks[0].Text)
	// Output:
	// 2 files
	// # Log
	//
	// The log is written before memory.
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
