// Command pipeline answers questions with everything that a pipeline has: a splitter, filters,
// hybrid search, a reranker, a bounded context, a semantic cache and statistics.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/rerank"
	"github.com/vecbolt/vecbolt/rag/split"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	vdb, err := db.Open(db.Memory, nil)
	if err != nil {
		return err
	}
	defer vdb.Close()
	chunks, err := vdb.CreateCollection(ctx, "collection", db.Schema{Text: &db.TextIndex{}}, nil)
	if err != nil {
		return err
	}
	model, err := embed.Trigram(embed.TrigramDimensions)
	if err != nil {
		return err
	}
	if err := ingest(ctx, chunks, model); err != nil {
		return err
	}

	pipeline, err := rag.NewPipeline(chunks, model, &rag.PipelineOptions{
		Strategy: rag.Hybrid(db.Fusion{}),
		TopK:     2,
		Rerank:   rerank.Lexical(0.5),
		Context:  rag.ContextOptions{MaxTokens: 4096},
		Cache:    &rag.CacheOptions{Similarity: 0.95},
	})
	if err != nil {
		return err
	}
	for _, question := range []string{"What is HNSW?", "what is HNSW", "Who paints?"} {
		response, err := pipeline.Query(ctx, question, filter.Eq("lang", "en"))
		if err != nil {
			return err
		}
		fmt.Println(response.Chunks[0].ID, response.Strategy, response.ContextTokens, response.FromCache)
		if !response.FromCache {
			fmt.Printf(prompt, response.Context, question) // for a language model
		}
	}
	stats := pipeline.Stats()
	fmt.Printf("%d questions, %.0f %% from the cache\n", stats.Queries, 100*stats.CacheHitRate)
	return nil
}

const prompt = "Context:\n%s\nQuestion: %s\n\nAnswer:\n"

// ingest divides texts where their topics change, and indexes the chunks.
func ingest(ctx context.Context, chunks *db.Collection, model embed.Embedder) error {
	splitter, err := split.New(split.Semantic(0.7, model.EmbedBatch), split.Options{MaxTokens: 512, Overlap: 50})
	if err != nil {
		return err
	}
	indexer, err := rag.NewIndexer(chunks, model, &rag.IndexerOptions{Split: splitter})
	if err != nil {
		return err
	}
	doc := func(id, text, lang, source string) db.Document {
		return db.Document{ID: id, Text: text, Metadata: db.Metadata{"lang": lang, "source": source}}
	}
	_, err = indexer.Index(ctx,
		doc("hnsw", "HNSW is a graph of vectors.", "en", "graphs.md"),
		doc("art", "Cats never paint.", "en", "art.md"),
		doc("graph", "HNSW ist ein Graph.", "de", "graphen.md"),
	)
	return err
}
