// Command embed computes vectors of texts, keeps them in a cache and searches with them.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag/embed"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	model, err := embed.Open(ctx, embed.DefaultConfig(), nil) // trigram-v1: no key, no network
	if err != nil {
		return err
	}
	cache, err := embed.NewCache(".emb_cache", nil)
	if err != nil {
		return err
	}
	e := cache.Wrap(embed.Batches(model, nil))

	vdb, err := db.Open("tips.vdb", nil)
	if err != nil {
		return err
	}
	defer vdb.Close()
	tips, err := vdb.OpenCollection(ctx, "tips", db.Schema{
		Dim:     e.Dimensions(),
		Lineage: db.Lineage{Provider: e.Provider(), Model: e.Model(), Normalized: true},
	})
	if err != nil {
		return err
	}

	texts := []string{"Steep black tea for four minutes.", "Oil the chain of a bicycle.",
		"Grind coffee coarsely for a French press."}
	vecs, err := e.EmbedBatch(ctx, texts)
	if err != nil {
		return err
	}
	for i, text := range texts {
		if _, err := tips.Upsert(ctx, db.Document{ID: fmt.Sprint(i), Vector: vecs[i], Text: text}); err != nil {
			return err
		}
	}

	question, err := e.Embed(ctx, "bicycle chains")
	if err != nil {
		return err
	}
	res, err := tips.Search(ctx, db.Query{Near: db.Vector(question), K: 1})
	if err != nil {
		return err
	}
	fmt.Println(res.Hits[0].Text)

	if _, err := e.EmbedBatch(ctx, texts); err != nil { // all from the cache
		return err
	}
	fmt.Printf("%+v\n", cache.Stats())
	return remote(ctx, cache)
}

func remote(ctx context.Context, cache *embed.Cache) error {
	e, err := embed.Open(ctx, embed.Config{
		Provider: "openai",
		Model:    "text-embedding-3-small",
		Settings: map[string]any{"api_base": "https://api.openai.com/v1"}, // or any server that speaks the same
	}, nil) // the key is in OPENAI_API_KEY
	if err != nil {
		return err
	}
	e = embed.Limit(e, embed.LimitOptions{PerSecond: 50, Burst: 10})
	e = embed.Retry(e, nil)
	e = embed.Batches(e, &embed.BatchOptions{Size: 100, Parallel: 4})
	e = cache.Wrap(e)
	fmt.Println(e.Provider(), e.Model(), e.Dimensions())

	_, err = embed.Open(ctx, embed.Config{Provider: "bert",
		Settings: map[string]any{"model_path": "all-MiniLM-L6-v2"}}, nil)
	fmt.Println(errors.Is(err, embed.ErrConfig)) // there is no such directory here
	return nil
}
