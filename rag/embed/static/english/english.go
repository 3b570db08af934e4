package english

import (
	"context"
	_ "embed"
	"fmt"
	"sync"

	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/embed/static"
	"github.com/vecbolt/vecbolt/rag/embed/tokenizer"
	"github.com/vecbolt/vecbolt/rag/embed/weights"
)

// The names of the model in configurations and in the lineage of collections. A model with other
// vectors gets another name.
const (
	ProviderName = "static"
	ModelName    = "english-v1"
)

// Dim is the number of components of a vector.
const Dim = 256

var (
	//go:embed model.safetensors
	rows []byte
	//go:embed vocab.txt
	vocab []byte
)

// Model returns the model. The first call prepares it, which takes a few milliseconds.
var Model = sync.OnceValue(func() *static.Model {
	file, err := weights.Parse(rows)
	if err != nil {
		panic(fmt.Sprintf("english: model.safetensors: %v", err)) // the file is part of the program
	}
	tok, err := tokenizer.BERT(tokenizer.ReadVocab(vocab), true)
	if err != nil {
		panic(fmt.Sprintf("english: vocab.txt: %v", err))
	}
	m, err := static.New(file, tok)
	if err != nil {
		panic(fmt.Sprintf("english: %v", err))
	}
	return m
})

// New returns the model as an embedder. It needs neither files nor network. The first text prepares
// the model.
func New() embed.Embedder {
	return embed.OfModel(
		ProviderName,
		ModelName,
		Dim,
		func(text string) []float32 { return Model().Embed(text) },
	)
}

// Config returns the configuration that names the model, for registries with its provider.
func Config() embed.Config {
	return embed.Config{
		Provider:   ProviderName,
		Model:      ModelName,
		Dimensions: Dim,
		Normalize:  true,
		BatchSize:  100,
	}
}

// Provider returns the provider of the model, for a registry:
//
//	registry := embed.NewRegistry(append(embed.Builtin(), english.Provider())...)
func Provider() embed.Provider {
	return embed.Provider{
		Name:        ProviderName,
		Description: "a small model of English in the program: a vector per token, without key or network",
		Models:      []string{ModelName},
		Open: func(_ context.Context, c embed.Config, _ *embed.Options) (embed.Embedder, error) {
			if c.Model != "" && c.Model != ModelName {
				return nil, &embed.Error{
					Kind:     embed.ErrConfig,
					Provider: ProviderName,
					Model:    c.Model,
					Err:      fmt.Errorf("the only model is %q", ModelName),
				}
			}
			return New(), nil
		},
	}
}
