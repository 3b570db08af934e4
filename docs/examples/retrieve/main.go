// Command retrieve answers questions from a cache of embeddings.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/vecbolt/vecbolt/rag"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	if err := makeCache(".emb_cache"); err != nil {
		return err
	}
	if err := retrieve(ctx); err != nil {
		return err
	}
	return kept(ctx)
}

func retrieve(ctx context.Context) error {
	r, err := rag.Open(ctx, ".emb_cache", &rag.Options{Texts: "texts.jsonl"})
	if err != nil {
		return err
	}
	defer r.Close()

	question := []float32{0.8, 0.6} // computed by the model that made the cache
	chunks, err := r.Retrieve(ctx, question, rag.AgentConfig{
		Name:      "code-analyzer",
		TopK:      3,
		Threshold: 0.5,
		Tags:      []string{"go"},
	})
	if err != nil {
		return err
	}
	for _, c := range chunks {
		fmt.Printf("%.2f  %s  %v  %s\n", c.Score, c.ID, c.Metadata[rag.FieldSourceFile], c.Text)
	}
	return nil
}

func kept(ctx context.Context) error {
	r, err := rag.Open(ctx, ".emb_cache", &rag.Options{Dir: "chunks.vdb", Model: "tiny-2d"})
	if err != nil {
		return err
	}
	defer r.Close()
	info, err := r.Info()
	if err != nil {
		return err
	}
	fmt.Println(info.Chunks, "chunks of dimension", info.Dim, "by", info.Model)

	both, err := r.RetrieveBatch(ctx, [][]float32{{1, 0}, {0, 1}}, rag.AgentConfig{TopK: 1})
	if err != nil {
		return err
	}
	fmt.Println("nearest:", both[0][0].ID, both[1][0].ID)

	_, err = r.Retrieve(ctx, []float32{1, 0, 0}, rag.AgentConfig{})
	fmt.Println(errors.Is(err, rag.ErrQuery), errors.Is(err, rag.ErrConfig))
	return nil
}

// makeCache writes what a program that calls an embedding model would have.
func makeCache(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for name, content := range map[string]string{
		filepath.Join(dir, "000a4469"):           "[0.6, 0.8]",
		filepath.Join(dir, "000a4469.meta.json"): `{"source_file": "main.go", "line_number": 12, "tags": ["go"]}`,
		filepath.Join(dir, "1f20bc33"):           "[1, 0]",
		filepath.Join(dir, "1f20bc33.meta.json"): `{"source_file": "setup.py", "tags": ["python"]}`,
		"texts.jsonl":                            `{"key": "000a4469", "text": "func main opens the database"}` + "\n",
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}
