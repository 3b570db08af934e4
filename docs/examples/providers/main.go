// Command providers chooses a vector database from a registry, makes a collection through the
// connection, and follows the topic of a conversation.
package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"slices"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/provider"
	"github.com/vecbolt/vecbolt/store"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	registry := provider.NewRegistry(provider.Weaviate())
	for _, p := range registry.Providers() {
		fmt.Println(p.Name, p.Capabilities, p.Connection.Required)
	}
	fmt.Println(registry.Validate("vecbolt", map[string]any{"path": 1}))

	connection, err := registry.Open(ctx, "vecbolt", map[string]any{"path": "docs.vdb", "create": true})
	if err != nil {
		return err
	}
	defer connection.Close()
	docs, err := collection(ctx, connection)
	if err != nil {
		return err
	}
	health := connection.Health(ctx)
	fmt.Println(health.Status, health.Details["collection_count"], "collection")
	return talk(ctx, docs)
}

// collection makes a collection where the provider can, and fills it.
func collection(ctx context.Context, connection provider.Connection) (rag.Store, error) {
	if manager, ok := connection.(provider.Manager); ok {
		schema := store.Schema{Dim: embed.TrigramDimensions, Metadata: db.Metadata{"owner": "docs"}}
		if err := manager.Create(ctx, "docs", schema); err != nil {
			return nil, err
		}
	}
	docs, err := connection.Store(ctx, "docs")
	if err != nil {
		return nil, err
	}
	model, err := embed.Trigram(embed.TrigramDimensions)
	if err != nil {
		return nil, err
	}
	indexer, err := rag.NewIndexer(docs, model, nil)
	if err != nil {
		return nil, err
	}
	_, err = indexer.Index(ctx,
		db.Document{ID: "lab", Text: "InstructLab and OpenShift AI: integration of both"},
		db.Document{ID: "bread", Text: "How to bake bread, and what else it does with yeast"},
	)
	return docs, err
}

// talk asks twice: the topic says what "it" is in the second question.
func talk(ctx context.Context, docs rag.Store) error {
	model, err := embed.Trigram(embed.TrigramDimensions)
	if err != nil {
		return err
	}
	topic := "" // a chat model would keep it
	for _, message := range []string{"What is InstructLab?", "What else does it do?"} {
		turn := rag.NewTurn(ctx, message, topic, slog.New(slog.DiscardHandler))
		vec, err := turn.Embed(ctx, "here", model)
		if err != nil {
			return err
		}
		res, err := docs.Search(ctx, db.Query{Near: db.Vector(vec), K: 1})
		if err != nil {
			return err
		}
		ids := slices.Collect(func(yield func(string) bool) {
			for _, h := range res.Hits {
				if !yield(h.ID) {
					return
				}
			}
		})
		fmt.Println(turn.Strategy(), ids)
		topic = "integration of InstructLab and OpenShift AI"
	}
	return nil
}
