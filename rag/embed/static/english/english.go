package english

import (
	"context"
	_ "embed"
	"fmt"
	"sync"

	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/embed/static"
)

// The names of the model in configurations and in the lineage of collections. A model with other
// vectors gets another name.
const (
	providerName = "static"
	modelName    = "english-v1"
)

// dim is the number of components of a vector.
const dim = 256

var (
	//go:embed model.safetensors
	rows []byte
	//go:embed vocab.txt
	vocab []byte
)

// model returns the model. The first call prepares it, which takes a few milliseconds.
var model = sync.OnceValue(func() *static.Model {
	m, err := static.New(rows, vocab)
	if err != nil {
		panic(fmt.Sprintf("english: %v", err)) // the files are part of the program
	}
	return m
})

// New returns the model as an embedder. It needs neither files nor network. The first text prepares
// the model.
func New() embed.Embedder {
	return embed.OfModel(
		providerName,
		modelName,
		dim,
		func(text string) []float32 { return model().Embed(text) },
	)
}

// Config returns the configuration that names the model, for registries with its provider.
func Config() embed.Config {
	return embed.Config{
		Provider:   providerName,
		Model:      modelName,
		Dimensions: dim,
		Normalize:  true,
		BatchSize:  100,
	}
}

// Provider returns the provider of the model, for a registry:
//
//	registry := embed.NewRegistry(append(embed.Builtin(), english.Provider())...)
func Provider() embed.Provider {
	return embed.Provider{
		Name:        providerName,
		Description: "a small model of English in the program: a vector per token, without key or network",
		Models:      []string{modelName},
		Open: func(_ context.Context, c embed.Config, _ *embed.Options) (embed.Embedder, error) {
			if c.Model != "" && c.Model != modelName {
				return nil, &embed.Error{
					Kind:     embed.ErrConfig,
					Provider: providerName,
					Model:    c.Model,
					Err:      fmt.Errorf("the only model is %q", modelName),
				}
			}
			return New(), nil
		},
	}
}
