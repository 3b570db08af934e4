package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/vectorize"
)

// embedding are the flags of verbs that write texts.
type embedding struct {
	Embed string            `placeholder:"PROVIDER:MODEL" help:"Make the vectors of documents with a text and no vector with this model, such as static:english-v1 or ollama:nomic-embed-text, or with a stored model. The collection is pinned to it: later writes and queries by text use it without this flag, and refuse another one."`
	Set   map[string]string `placeholder:"KEY=VALUE" help:"Settings of the provider, such as api_base=… or host=…. They are not stored."`
}

// config returns the model that the flags name.
func (f *embedding) config() (*embed.Config, error) {
	if f.Embed == "" {
		return nil, nil
	}
	provider, model := namedModel(f.Embed)
	if provider == "" {
		return nil, fmt.Errorf("--embed %s: want PROVIDER:MODEL, or the name of a stored model", f.Embed)
	}
	c := &embed.Config{Provider: provider, Model: model, Normalize: true, Settings: settings(provider, f.Set)}
	return c, nil
}

// settings parses settings by the schema of the provider.
func settings(provider string, set map[string]string) map[string]any {
	if len(set) == 0 {
		return nil
	}
	m := map[string]any{}
	for k, v := range set {
		m[k] = setting(provider, k, v)
	}
	return m
}

// namedModel returns the provider and the model of a name: PROVIDER:MODEL, a stored model, or a
// well-known model of a provider.
func namedModel(name string) (provider, model string) {
	if stored := storedProvider(name); stored != "" {
		return stored, name
	}
	if provider, model, ok := strings.Cut(name, ":"); ok {
		return provider, model
	}
	for p := range providers().Providers() {
		if slices.Contains(p.Models, name) {
			return p.Name, name
		}
	}
	return "", ""
}

// models returns the embedders of collections. Requests that are repeated are reported.
func (t *tool) models(standard *embed.Config) *vectorize.Models {
	retry := &embed.RetryOptions{Logger: t.warnings()}
	return vectorize.New(vectorize.Options{Providers: providers(), Default: standard, Retry: retry})
}

// vectors returns the collection with the model that the flags name, or with its own.
func (f *embedding) vectors(ctx context.Context, t *tool, coll *db.Collection) (*vectorize.Collection, error) {
	model, err := f.config()
	if err != nil {
		return nil, err
	}
	if model == nil {
		info, err := coll.Info()
		if err != nil {
			return nil, err
		}
		pinned, ok := vectorize.Pinned(info)
		if !ok && len(f.Set) > 0 {
			return nil, fmt.Errorf("--set: collection %q is pinned to no model, and --embed names none", info.Name)
		}
		if pinned.Settings = settings(pinned.Provider, f.Set); ok {
			model = &pinned
		}
	}
	c := t.models(model).Collection(coll)
	if model != nil {
		err = c.Pin(ctx, *model)
	}
	return c, err
}
