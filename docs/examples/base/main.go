// Command base makes a knowledge base whose embedder is configured once, and shows what happens if
// another one is asked for.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strings"

	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/knowledge"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	engine, err := knowledge.New("knowledge", &knowledge.Options{
		Providers: embed.NewRegistry(append(embed.Builtin(), upper())...),
		Logger:    slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	defer engine.Close()

	const games = "Gears of War is a game about soldiers.\n"
	learn := func(set map[string]any) error {
		_, err := engine.Learn(ctx, "gamedex", knowledge.LearnOptions{
			Paths: []string{"-"}, Stdin: strings.NewReader(games), Set: set})
		return err
	}
	if err := learn(map[string]any{"provider": "mock", "embedding.batch_size": 10}); err != nil {
		return err
	}
	file, err := os.ReadFile(engine.ConfigPath("gamedex"))
	if err != nil {
		return err
	}
	fmt.Print(string(file))

	err = learn(map[string]any{"provider": "upper"})
	fmt.Println(errors.Is(err, embed.ErrMismatch))
	fmt.Println(err)

	response, err := engine.Query(ctx, "gamedex", "which game is about soldiers?", knowledge.QueryOptions{})
	if err != nil {
		return err
	}
	fmt.Println(response.Chunks[0].Text)
	return nil
}

// upper is a provider of one's own: it embeds the letters of a text as if all were capitals.
func upper() embed.Provider {
	return embed.Provider{
		Name: "upper", Description: "trigrams of capitals", Models: []string{"upper-v1"},
		Open: func(_ context.Context, c embed.Config, _ *embed.Options) (embed.Embedder, error) {
			model, err := embed.Trigram(embed.TrigramDimensions)
			if err != nil {
				return nil, err
			}
			return capitals{model}, nil
		},
	}
}

type capitals struct{ embed.Embedder }

func (capitals) Provider() string { return "upper" }
func (capitals) Model() string    { return "upper-v1" }

func (c capitals) Embed(ctx context.Context, text string) ([]float32, error) {
	return c.Embedder.Embed(ctx, strings.ToUpper(text))
}

func (c capitals) EmbedBatch(ctx context.Context, texts []string) ([][]float32, error) {
	all := make([]string, len(texts))
	for i, text := range texts {
		all[i] = strings.ToUpper(text)
	}
	return c.Embedder.EmbedBatch(ctx, all)
}
