// Command index_and_query splits documents, embeds and indexes the chunks, and answers questions
// from them.
//
//	index_and_query          with the hash embedder, which needs nothing
//	index_and_query openai   with OpenAI or what speaks its protocol: OPENAI_API_KEY, OPENAI_BASE_URL, OPENAI_EMBEDDING_MODEL
//	index_and_query ollama   with a local Ollama: OLLAMA_HOST, OLLAMA_EMBEDDING_MODEL
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/split"
)

func main() {
	provider := "hash"
	if len(os.Args) > 1 {
		provider = os.Args[1]
	}
	if err := run(context.Background(), os.Stdout, "howto.vdb", provider); err != nil {
		log.Fatal(err)
	}
}

// config says which embedder a provider stands for. Keys are no part of it: they are read when they
// are needed.
func config(provider string) embed.Config {
	switch c := (embed.Config{Provider: provider, Normalize: true, Settings: map[string]any{}}); provider {
	case "openai":
		c.Model = cmp.Or(os.Getenv("OPENAI_EMBEDDING_MODEL"), "text-embedding-3-small")
		if base := os.Getenv("OPENAI_BASE_URL"); base != "" {
			c.Settings["api_base"] = base
		}
		return c
	case "ollama":
		c.Model = cmp.Or(os.Getenv("OLLAMA_EMBEDDING_MODEL"), "nomic-embed-text")
		if host := os.Getenv("OLLAMA_HOST"); host != "" {
			c.Settings["host"] = host
		}
		return c
	}
	return embed.DefaultConfig()
}

func run(ctx context.Context, out io.Writer, dir, provider string) error {
	model, err := embed.Open(ctx, config(provider), nil)
	if err != nil {
		return err
	}
	model = embed.Batches(embed.Retry(model, nil), nil) // for providers that are asked over the network

	vdb, err := db.Open(dir, nil)
	if err != nil {
		return err
	}
	defer vdb.Close()
	howto, err := vdb.OpenCollection(ctx, "howto", db.Schema{
		Text:    &db.TextIndex{}, // for the words of questions
		Lineage: db.Lineage{Provider: model.Provider(), Model: model.Model(), Normalized: true},
	})
	if err != nil {
		return err
	}

	splitter, err := split.New(split.Markdown(""), split.Options{MaxTokens: 128, Overlap: 16})
	if err != nil {
		return err
	}
	indexer, err := rag.NewIndexer(howto, model, &rag.IndexerOptions{Split: splitter})
	if err != nil {
		return err
	}
	ids, err := indexer.Index(ctx,
		db.Document{ID: "tea", Text: "# Tea\n\n## Green\n\nSteep green tea at 80 degrees.\n\n## Black\n\nSteep black tea for four minutes.\n"},
		db.Document{ID: "bicycle", Text: "# Bicycle\n\n## Chain\n\nOil the chain, then wipe it dry.\n\n## Tyres\n\nPump the tyres to four bar.\n"},
	)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "indexed", ids)

	pipeline, err := rag.NewPipeline(howto, model, &rag.PipelineOptions{Strategy: rag.Hybrid(db.Fusion{}), TopK: 1})
	if err != nil {
		return err
	}
	for _, question := range []string{"how do I oil a chain?", "how hot is water for green tea?"} {
		answer, err := pipeline.Query(ctx, question, nil)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\n%s", question, answer.Context)
	}
	return nil
}
