// Package provider is the registry of the vector databases that retrieval can use: their names and
// capabilities, their configuration as a JSON Schema, and connections to them. Embedded is Vecbolt
// itself; a program can register others.
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
	"github.com/vecbolt/vecbolt/store"
)

// Errors for errors.Is.
var (
	// ErrNotFound is returned for a name that is not registered.
	ErrNotFound = errors.New("provider not found")
	// ErrConfig is returned for a configuration that the schema of the provider does not allow.
	// Nothing was opened.
	ErrConfig = errors.New("invalid provider configuration")
	// ErrConnect is returned when a valid configuration does not lead to a database.
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

	// Connection is the schema of the configuration for Open.
	Connection *embed.Schema `json:"connection_schema"`

	// Open connects. The configuration has been validated with Connection.
	Open func(ctx context.Context, config map[string]any) (Connection, error) `json:"-"`
}

// Can reports whether the provider has a capability.
func (p Provider) Can(c Capability) bool { return slices.Contains(p.Capabilities, c) }

// A Connection is an open provider. It is safe for concurrent use.
type Connection interface {
	// Store returns a collection for retrieval.
	Store(ctx context.Context, collection string) (rag.Store, error)
	// Health checks whether the provider works.
	Health(ctx context.Context) Health
	// Close releases the resources of the connection. Its stores fail afterwards.
	Close() error
}

// A Manager is a Connection to a provider with the capability Collections. Embedded and
// ConnectStore give Managers. A collection that does not exist is db.ErrNotFound.
type Manager interface {
	Connection
	// Collections describes every collection, in ascending order of name.
	Collections(ctx context.Context) ([]store.Info, error)
	// Describe describes one collection.
	Describe(ctx context.Context, name string) (store.Info, error)
	// Create makes an empty collection; db.ErrExists if the name is taken.
	Create(ctx context.Context, name string, s store.Schema) error
	// Drop removes a collection with all its documents.
	Drop(ctx context.Context, name string) error
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
	// Error describes the failure; nil if healthy.
	Error *string `json:"error"`
	// Details are provider-specific. Embedded has collection_count, document_count and
	// storage_bytes.
	Details map[string]any `json:"details"`
}

// A Registry holds providers by name. It is safe for concurrent use.
type Registry struct {
	mu     sync.RWMutex
	byName map[string]Provider
}

// NewRegistry returns a registry of Embedded and others. It panics if two providers have the same
// name.
func NewRegistry(others ...Provider) *Registry {
	r := &Registry{byName: map[string]Provider{}}
	for _, p := range append([]Provider{Embedded()}, others...) {
		if err := r.Register(p); err != nil {
			panic(err)
		}
	}
	return r
}

// Register adds a provider. It fails if the name is empty or taken, or if the schema or Open is
// missing.
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

// Lookup returns the provider with a name, or ErrNotFound.
func (r *Registry) Lookup(name string) (Provider, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	p, ok := r.byName[name]
	if !ok {
		return p, fmt.Errorf("%w: %q; registered: %q", ErrNotFound, name, slices.Sorted(maps.Keys(r.byName)))
	}
	return p, nil
}

// Providers returns all providers in order of name.
func (r *Registry) Providers() []Provider {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.SortedFunc(maps.Values(r.byName), func(a, b Provider) int { return cmp.Compare(a.Name, b.Name) })
}

// Validate checks a configuration against the schema of the named provider.
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

// Open connects to the named provider. The error is ErrNotFound, ErrConfig or ErrConnect and wraps
// the cause.
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
