package embed

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
)

// defaultBatchSize is the number of texts per request if a Config has none.
const defaultBatchSize = 100

// A Config describes an embedder. It holds no secrets: Options.Secret supplies them when needed.
type Config struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`

	// Dimensions is the number of components of every vector; 0 means the default of the model.
	Dimensions int `json:"dimensions,omitempty"`

	// Normalize scales vectors to the length 1.
	Normalize bool `json:"normalize,omitempty"`

	// BatchSize is the number of texts per request; 0 means 100. It is for Batches;
	// Open ignores it.
	BatchSize int `json:"batch_size,omitempty"`

	// Settings are specific to the provider, as its schema describes.
	Settings map[string]any `json:"provider_config,omitempty"`
}

// DefaultConfig is the model that needs neither key nor network.
func DefaultConfig() Config {
	return Config{Provider: trigramProvider, Model: trigramModel, Dimensions: TrigramDimensions, Normalize: true, BatchSize: defaultBatchSize}
}

// String returns the settings that must agree for vectors to be comparable.
func (c Config) String() string {
	return fmt.Sprintf("provider=%s, model=%s, dimensions=%d", c.Provider, c.Model, c.Dimensions)
}

// Match returns an error that matches ErrMismatch unless found has the provider, the model and the
// dimensions of c, so that their vectors are comparable.
func (c Config) Match(found Config) error {
	if c.Provider != found.Provider || c.Model != found.Model || c.Dimensions != found.Dimensions {
		return fmt.Errorf("embed: %w: expected %v, found %v", ErrMismatch, c, found)
	}
	return nil
}

// Options are supplied by the program that uses embedders. The zero value, like nil, is the
// default.
type Options struct {
	// Client sends requests; nil means a client that follows no redirects, because a redirect could
	// take a key to another host.
	Client *http.Client

	// Secret returns the secret with a name such as "OPENAI_API_KEY", or "" if it is missing. It is
	// called for each request; its result is neither stored nor logged. nil means the environment.
	Secret func(ctx context.Context, name string) (string, error)
}

// given returns the client of the program, if it has set one.
func (o *Options) given() *http.Client {
	if o == nil {
		return nil
	}
	return o.Client
}

func (o *Options) client() *http.Client {
	if c := o.given(); c != nil {
		return c
	}
	return &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// secret returns a callback for the secret with a name.
func (o *Options) secret(name string) Secret {
	if o != nil && o.Secret != nil {
		return func(ctx context.Context) (string, error) { return o.Secret(ctx, name) }
	}
	return Env(name)
}

// A Secret returns a key. It is called for each request.
type Secret func(context.Context) (string, error)

// Env returns the secret in an environment variable, which may be missing.
func Env(name string) Secret {
	return func(context.Context) (string, error) { return os.Getenv(name), nil }
}

// Capabilities describe a provider.
type Capabilities struct {
	Network    bool `json:"network"`             // texts are sent over the network
	Secret     bool `json:"secret"`              // a key is required
	Files      bool `json:"files"`               // the model is read from disk
	Dimensions bool `json:"dimensions"`          // the dimension can be chosen
	MaxBatch   int  `json:"max_batch,omitempty"` // maximum texts per request; 0: no limit
}

// A Provider makes embedders.
type Provider struct {
	Name         string       `json:"name"`
	Description  string       `json:"description"`
	Models       []string     `json:"models,omitempty"` // well-known ones
	Capabilities Capabilities `json:"capabilities"`

	// Settings describes Config.Settings; nil means that the provider has no settings.
	Settings *Schema `json:"-"`

	// Open makes an embedder from a valid configuration.
	Open func(ctx context.Context, c Config, opts *Options) (Embedder, error) `json:"-"`
}

// Schema describes the configurations that the provider accepts.
func (p Provider) Schema() *Schema {
	settings := cmp.Or(p.Settings, &Schema{Type: "object", Closed: true})
	return &Schema{
		Title: p.Name, Description: p.Description, Type: "object", Closed: true, Required: []string{"provider"},
		Properties: map[string]*Schema{
			"provider":        {Type: "string", Enum: []string{p.Name}},
			"model":           {Type: "string", Description: "name of the model"},
			"dimensions":      {Type: "integer", Description: "components of a vector; 0: the default of the model", Minimum: limit(0), Maximum: limit(maxDimensions)},
			"normalize":       {Type: "boolean", Description: "scale vectors to the length 1"},
			"batch_size":      {Type: "integer", Description: "texts per request", Default: defaultBatchSize, Minimum: limit(0), Maximum: limit(float64(cmp.Or(p.Capabilities.MaxBatch, 1<<20)))},
			"provider_config": settings,
		},
	}
}

// A Registry holds providers by name. It is safe for concurrent use.
type Registry struct {
	mu     sync.RWMutex
	byName map[string]Provider
}

// NewRegistry returns a registry of providers. It panics if two providers have the same name.
func NewRegistry(providers ...Provider) *Registry {
	r := &Registry{byName: map[string]Provider{}}
	for _, p := range providers {
		if err := r.Register(p); err != nil {
			panic(err)
		}
	}
	return r
}

// Register adds a provider. It fails if the name is empty or taken, or if Open is missing.
func (r *Registry) Register(p Provider) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	switch _, taken := r.byName[p.Name]; {
	case p.Name == "" || p.Open == nil:
		err = errors.New("a provider needs a name and a function Open")
	case taken:
		err = errors.New("the name is taken")
	}
	if err != nil {
		return &Error{Kind: ErrConfig, Provider: p.Name, Err: err}
	}
	r.byName[p.Name] = p
	return nil
}

// Lookup returns the provider with a name.
func (r *Registry) Lookup(name string) (Provider, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	p, ok := r.byName[name]
	if !ok {
		return p, &Error{Kind: ErrProviderNotFound, Provider: name, Err: fmt.Errorf("registered: %q", slices.Sorted(maps.Keys(r.byName)))}
	}
	return p, nil
}

// Providers yields all providers in order of name.
func (r *Registry) Providers() iter.Seq[Provider] {
	r.mu.RLock()
	all := slices.SortedFunc(maps.Values(r.byName), func(a, b Provider) int { return cmp.Compare(a.Name, b.Name) })
	r.mu.RUnlock()
	return slices.Values(all)
}

// Validate checks a configuration against the schema of its provider.
func (r *Registry) Validate(c Config) error {
	_, err := r.validate(c)
	return err
}

func (r *Registry) validate(c Config) (Provider, error) {
	p, err := r.Lookup(c.Provider)
	if err != nil {
		return p, err
	}
	settings := c.Settings
	if settings == nil {
		settings = map[string]any{}
	}
	err = p.Schema().Validate(map[string]any{
		"provider": c.Provider, "model": c.Model, "dimensions": c.Dimensions, "normalize": c.Normalize,
		"batch_size": c.BatchSize, "provider_config": settings,
	})
	if err != nil {
		return p, &Error{Kind: ErrConfig, Provider: c.Provider, Model: c.Model, Err: err}
	}
	return p, nil
}

// Open validates a configuration and makes its embedder. It sends no request; local models are read
// from disk.
func (r *Registry) Open(ctx context.Context, c Config, opts *Options) (Embedder, error) {
	p, err := r.validate(c)
	if err != nil {
		return nil, err
	}
	e, err := p.Open(ctx, c, opts)
	if err != nil {
		return nil, err
	}
	if have := e.Dimensions(); c.Dimensions != 0 && have != 0 && have != c.Dimensions {
		return nil, &Error{Kind: ErrConfig, Provider: c.Provider, Model: c.Model, Err: &DimensionError{Expected: c.Dimensions, Got: have}}
	}
	if _, already := e.(normalized); c.Normalize && !already {
		e = unit{e}
	}
	return e, nil
}

// Open makes an embedder of a builtin provider.
func Open(ctx context.Context, c Config, opts *Options) (Embedder, error) {
	return NewRegistry(Builtin()...).Open(ctx, c, opts)
}

// Builtin returns the providers of this package.
func Builtin() []Provider {
	return []Provider{
		trigramBuiltin(trigramProvider), trigramBuiltin("mock"),
		openAIBuiltin(), ollamaBuiltin(), geminiBuiltin(),
		localBuiltin(bertProvider, "sentence encoders of the BERT architecture, from a directory of Hugging Face or a GGUF file"),
		localBuiltin(ggufProvider, "the same as "+bertProvider),
		localBuiltin(model2vecProvider, "static models of Model2Vec, from a directory"),
		localBuiltin(wordsProvider, "word vectors as GloVe and fastText write them, from a text file"),
	}
}

func trigramBuiltin(name string) Provider {
	return Provider{
		Name:         name,
		Description:  "hashes of trigrams and words: deterministic, without key or network",
		Models:       []string{trigramModel},
		Capabilities: Capabilities{Dimensions: true},
		Open: func(_ context.Context, c Config, _ *Options) (Embedder, error) {
			if c.Model != "" && c.Model != trigramModel {
				return nil, &Error{Kind: ErrConfig, Provider: name, Model: c.Model, Err: fmt.Errorf("the only model is %q", trigramModel)}
			}
			return trigram{name, cmp.Or(c.Dimensions, TrigramDimensions)}, nil
		},
	}
}

// decode copies the settings of a valid configuration into a struct with the same JSON names.
func decode(c Config, into any) error {
	b, err := json.Marshal(c.Settings)
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(b))
		d.DisallowUnknownFields()
		err = d.Decode(into)
	}
	if err != nil {
		return &Error{Kind: ErrConfig, Provider: c.Provider, Model: c.Model, Err: err}
	}
	return nil
}
