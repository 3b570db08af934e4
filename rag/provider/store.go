package provider

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/store"
	"github.com/vecbolt/vecbolt/store/weaviate"
)

// Weaviate is the provider of Weaviate clusters; see package store/weaviate and docs/stores.md.
func Weaviate() Provider {
	return Provider{
		Name:         "weaviate",
		Description:  "a cluster of Weaviate",
		Capabilities: []Capability{Collections, Search, Embeddings, MetadataFiltering},
		Connection: &embed.Schema{
			Title: "weaviate", Type: "object", Closed: true, Required: []string{"endpoints"},
			Properties: map[string]*embed.Schema{
				"endpoints": {Type: "string", Description: "nodes, as host:port or URLs, with commas between"},
				"class":     {Type: "string", Description: "class to use instead of the name of the collection"},
				"key":       {Type: "string", Description: "sent as a bearer token"},
			},
		},
		Open: func(ctx context.Context, config map[string]any) (Connection, error) {
			endpoints, _ := config["endpoints"].(string)
			class, _ := config["class"].(string)
			key, _ := config["key"].(string)
			s, err := weaviate.Open(ctx, strings.Split(endpoints, ","), &weaviate.Options{Class: class, Key: key})
			if err != nil {
				return nil, err
			}
			return ConnectStore(s), nil
		},
	}
}

// ConnectStore wraps an open store in a Connection. Closing the Connection closes the store. A
// store.Adapter searches the collections.
func ConnectStore(s store.Store) Connection { return &ofStore{s} }

type ofStore struct{ store store.Store }

func (c *ofStore) Store(ctx context.Context, collection string) (rag.Store, error) {
	coll, err := c.store.Collection(ctx, collection)
	if err != nil {
		return nil, err
	}
	return store.NewAdapter(coll), nil
}

func (c *ofStore) Collections(ctx context.Context) ([]store.Info, error) {
	names, err := c.store.Collections(ctx)
	if err != nil {
		return nil, err
	}
	infos := make([]store.Info, 0, len(names))
	for _, name := range names {
		info, err := c.store.Describe(ctx, name)
		if errors.Is(err, db.ErrNotFound) {
			continue // dropped since
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}

func (c *ofStore) Describe(ctx context.Context, name string) (store.Info, error) {
	return c.store.Describe(ctx, name)
}

func (c *ofStore) Create(ctx context.Context, name string, s store.Schema) error {
	_, err := c.store.Create(ctx, name, s)
	return err
}

func (c *ofStore) Drop(ctx context.Context, name string) error { return c.store.Drop(ctx, name) }

// Health lists the collections, which takes a round trip.
func (c *ofStore) Health(ctx context.Context) Health {
	h := Health{Status: Healthy, Timestamp: time.Now().UTC(), Details: map[string]any{}}
	names, err := c.store.Collections(ctx)
	if err != nil {
		text := err.Error()
		h.Status, h.Error = Unhealthy, &text
		return h
	}
	h.Details["collection_count"] = len(names)
	return h
}

func (c *ofStore) Close() error { return c.store.Close() }
