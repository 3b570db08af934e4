package embed_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/simd"
)

func Example() {
	ctx := context.Background()
	model, err := embed.Open(ctx, embed.DefaultConfig(), nil)
	if err != nil {
		log.Fatal(err)
	}
	vecs, err := model.EmbedBatch(ctx, []string{"write-ahead log", "write ahead logs", "garden flowers"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(model.Provider(), model.Model(), model.Dimensions())
	fmt.Printf("%.2f %.2f\n", simd.Cosine64(vecs[0], vecs[1]), simd.Cosine64(vecs[0], vecs[2]))
	// Output:
	// hash trigram-v1 384
	// 0.88 0.00
}

// Embedders are wrapped in each other: here a cache around batches around retries.
func ExampleCache() {
	dir, err := os.MkdirTemp("", "cache-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	cache, err := embed.NewCache(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	model, err := embed.Trigram(0) // or embed.OpenAI, embed.Ollama, …
	if err != nil {
		log.Fatal(err)
	}
	cached := cache.Wrap(embed.Batches(embed.Retry(model, nil), nil))
	for range 2 {
		if _, err := cached.Embed(context.Background(), "embedded once"); err != nil {
			log.Fatal(err)
		}
	}
	stats := cache.Stats()
	fmt.Println(stats.Misses, "miss,", stats.Hits, "hit")
	// Output: 1 miss, 1 hit
}
