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

// create opens a collection for writing, with the model that the flags name or its own, and creates
// it if necessary. Before that it calls begin, with the model if there is one, which waits for
// something to write. A model that cannot be opened, and an error of begin, leave nothing behind.
func (f *embedding) create(ctx context.Context, t *tool, c collection, s schema,
	begin func(model *embed.Config) error, fn func(*db.DB, *vectorize.Collection) error) error {
	model, err := f.config()
	if err != nil {
		return err
	}
	models := t.models(model)
	prepare := func() error {
		if model == nil {
			if err := f.needsPin(c.Collection); err != nil {
				return err
			}
			return begin(nil)
		}
		resolved, err := models.Resolve(ctx, *model)
		if err != nil {
			return err
		}
		if s.otherModel(resolved) {
			return fmt.Errorf("%w: --provider and --model name another model than --embed %s",
				embed.ErrMismatch, f.Embed)
		}
		*model = resolved
		return begin(model)
	}
	return c.create(ctx, s, prepare, func(vdb *db.DB, coll *db.Collection) error {
		info, err := coll.Info()
		if err != nil {
			return err
		}
		if pinned, ok := vectorize.Pinned(info); ok && s.otherModel(pinned) {
			return fmt.Errorf("%w: collection %q is pinned to %v, --provider and --model name another model",
				embed.ErrMismatch, info.Name, &pinned)
		}
		vectors, err := f.pin(ctx, t, models, model, coll)
		if err != nil {
			return err
		}
		return fn(vdb, vectors)
	})
}

// otherModel reports whether a schema names another provider or model.
func (s schema) otherModel(model embed.Config) bool {
	return s.Provider != "" && s.Provider != model.Provider || s.Model != "" && s.Model != model.Model
}

// storable returns an error if a document cannot be the first of a new collection of the model. The
// model may be nil.
func (c collection) storable(d db.Document, model *embed.Config) error {
	var b db.Batch
	b.Upsert(c.Collection, d)
	if n := len(d.Vector); b.Err() == nil && n > 0 && model != nil && n != model.Dimensions {
		return fmt.Errorf("%w: document %q has a vector of %d components, %s makes %d",
			db.ErrDimensionMismatch, d.ID, n, model, model.Dimensions) // in the words of vectorize
	}
	return b.Err()
}

// needsPin refuses settings for a collection without a model.
func (f *embedding) needsPin(name string) error {
	if len(f.Set) > 0 {
		return fmt.Errorf("--set: collection %q is pinned to no model, and --embed names none", name)
	}
	return nil
}

// pin returns the collection with the given model, or with its own if that is nil.
func (f *embedding) pin(ctx context.Context, t *tool, models *vectorize.Models, model *embed.Config,
	coll *db.Collection) (*vectorize.Collection, error) {
	if model == nil {
		info, err := coll.Info()
		if err != nil {
			return nil, err
		}
		pinned, ok := vectorize.Pinned(info)
		if !ok {
			return models.Collection(coll), f.needsPin(info.Name)
		}
		pinned.Settings = settings(pinned.Provider, f.Set)
		model = &pinned
		models = t.models(model)
	}
	c := models.Collection(coll)
	return c, c.Pin(ctx, *model)
}
