package rag_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/vecbolt/vecbolt/rag"
)

func Example() {
	cache, err := os.MkdirTemp("", "emb_cache-")
	check(err)
	defer os.RemoveAll(cache)
	for name, content := range map[string]string{
		"000a4469":           "[0.6, 0.8]",
		"000a4469.meta.json": `{"source_file": "main.go", "line_number": 12, "tags": ["go"]}`,
		"1f20bc33":           "[1, 0]",
		"1f20bc33.meta.json": `{"source_file": "setup.py", "line_number": 1, "tags": ["python"]}`,
		"77aa01de":           "[0, 1]",
	} {
		check(os.WriteFile(filepath.Join(cache, name), []byte(content), 0o600))
	}

	ctx := context.Background()
	r, err := rag.Open(ctx, cache, nil)
	check(err)
	defer r.Close()

	question := []float32{0.8, 0.6} // from the model that made the cache
	chunks, err := r.Retrieve(ctx, question, rag.AgentConfig{
		Name:      "code-analyzer",
		TopK:      10,
		Threshold: 0.5,
		Tags:      []string{"go", "python"},
	})
	check(err)
	for _, c := range chunks {
		fmt.Printf("%s: %.3f %v:%v\n", c.ID, c.Score, c.Metadata[rag.FieldSourceFile], c.Metadata[rag.FieldLineNumber])
	}
	// Output:
	// 000a4469: 0.960 main.go:12
	// 1f20bc33: 0.800 setup.py:1
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
