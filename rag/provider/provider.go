// Package provider is the registry of the vector databases that retrieval can
// work with: which there are and what they can do, what a connection to one
// needs, as a JSON Schema, and connections themselves. Embedded is the one of
// this module; a program registers others beside it.
package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
)

// The errors that callers tell apart with errors.Is.
var (
	// ErrNotFound is returned for a name that nobody registered.
	ErrNotFound = errors.New("provider not found")
	// ErrConfig is returned for a configuration that the schema of the provider
	// does not allow. Nothing was opened.
	ErrConfig = errors.New("invalid provider configuration")
	// ErrConnect is returned when a valid configuration leads nowhere.
	ErrConnect = errors.New("provider cannot be reached")
)

// A Capability is an operation that a provider supports.
type Capability string

// The capabilities.
const (
	Collections       Capability = "collections"        // create, list, describe and delete collections
	Search            Capability = "search"             // find the documents nearest to a vector
	Embeddings        Capability = "embeddings"         // store documents with embeddings that were computed elsewhere
	MetadataFiltering Capability = "metadata_filtering" // restrict by conditions on metadata
)

// A Provider is a kind of vector database.
type Provider struct {
	Name         string       `json:"name"`
	Description  string       `json:"description"`
	Capabilities []Capability `json:"capabilities"`

	// Connection describes the configuration that Open takes.
	Connection *embed.Schema `json:"connection_schema"`

	// Open connects. The configuration is valid by Connection.
	Open func(ctx context.Context, config map[string]any) (Connection, error) `json:"-"`
}

// Can reports whether the provider has a capability.
func (p Provider) Can(c Capability) bool { return slices.Contains(p.Capabilities, c) }

// A Connection is a provider in use. It is safe for concurrent use.
type Connection interface {
	// Store returns a collection to retrieve from.
	Store(ctx context.Context, collection string) (rag.Store, error)
	// Health looks whether the provider works.
	Health(ctx context.Context) Health
	// Close releases what the connection holds. Stores fail afterwards.
	Close() error
}

// The states of Health.
const (
	Healthy   = "healthy"
	Unhealthy = "unhealthy"
)

// Health is the state of a provider at one moment.
type Health struct {
	Status    string    `json:"status"` // Healthy or Unhealthy
	Timestamp time.Time `json:"timestamp"`
	// Error says what is wrong; nil: nothing.
	Error *string `json:"error"`
	// Details are figures of the provider's own. Embedded has collection_count,
	// document_count and storage_bytes.
	Details map[string]any `json:"details"`
}

// A Registry holds providers by name. It is safe for concurrent use.
type Registry struct {
	mu     sync.RWMutex
	byName map[string]Provider
}

// NewRegistry returns a registry of Embedded and of others. It panics if two
// have the same name.
func NewRegistry(others ...Provider) *Registry {
	r := &Registry{byName: map[string]Provider{}}
	for _, p := range append([]Provider{Embedded()}, others...) {
		if err := r.Register(p); err != nil {
			panic(err)
		}
	}
	return r
}

// Register adds a provider. It is an error if its name is taken or empty, or if
// it has no schema or no Open.
func (r *Registry) Register(p Provider) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, taken := r.byName[p.Name]
	switch {
	case p.Name == "" || p.Connection == nil || p.Open == nil:
		return fmt.Errorf("provider %q: %w: it needs a name, a schema and a function Open", p.Name, ErrConfig)
	case taken:
		return fmt.Errorf("provider %q: %w: the name is taken", p.Name, ErrConfig)
	}
	r.byName[p.Name] = p
	return nil
}

// Lookup returns the provider with a name; ErrNotFound if there is none.
func (r *Registry) Lookup(name string) (Provider, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	p, ok := r.byName[name]
	if !ok {
		return p, fmt.Errorf("%w: %q; there are %q", ErrNotFound, name, slices.Sorted(maps.Keys(r.byName)))
	}
	return p, nil
}

// Providers returns all providers in order of name.
func (r *Registry) Providers() []Provider {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.SortedFunc(maps.Values(r.byName), func(a, b Provider) int { return cmp.Compare(a.Name, b.Name) })
}

// Validate reports what is wrong with a configuration for the named provider.
func (r *Registry) Validate(name string, config map[string]any) error {
	_, err := r.validate(name, config)
	return err
}

func (r *Registry) validate(name string, config map[string]any) (Provider, error) {
	p, err := r.Lookup(name)
	if err != nil {
		return p, err
	}
	if err := p.Connection.Validate(config); err != nil {
		return p, fmt.Errorf("provider %q: %w: %w", name, ErrConfig, err)
	}
	return p, nil
}

// Open connects to the named provider. The error is ErrNotFound, ErrConfig or
// ErrConnect around its reason.
func (r *Registry) Open(ctx context.Context, name string, config map[string]any) (Connection, error) {
	p, err := r.validate(name, config)
	if err != nil {
		return nil, err
	}
	c, err := p.Open(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("provider %q: %w: %w", name, ErrConnect, err)
	}
	return c, nil
}
