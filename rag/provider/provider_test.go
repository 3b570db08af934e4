package provider_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/provider"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type nowhere struct{}

func (nowhere) Store(context.Context, string) (rag.Store, error) { return nil, errors.New("nothing") }
func (nowhere) Health(context.Context) provider.Health           { return provider.Health{} }
func (nowhere) Close() error                                     { return nil }

func other(open func() (provider.Connection, error)) provider.Provider {
	return provider.Provider{
		Name: "other", Capabilities: []provider.Capability{provider.Search},
		Connection: &embed.Schema{Type: "object", Required: []string{"url"}, Properties: map[string]*embed.Schema{"url": {Type: "string", Format: "uri"}}},
		Open:       func(context.Context, map[string]any) (provider.Connection, error) { return open() },
	}
}

// The scenarios of providers, as a Go program meets them; package server has them over HTTP.
func TestScenarios(t *testing.T) {
	ctx := t.Context()
	t.Run("RAG Provider Registration", func(t *testing.T) {
		r := provider.NewRegistry()
		p := other(func() (provider.Connection, error) { return nowhere{}, nil })
		if err := r.Register(p); err != nil {
			t.Fatal(err)
		}
		if got, err := r.Lookup("other"); err != nil || got.Name != "other" {
			t.Errorf("%+v, %v", got, err)
		}
		for name, bad := range map[string]provider.Provider{"taken": p, "unnamed": {Connection: p.Connection, Open: p.Open}, "no schema": {Name: "x", Open: p.Open}} {
			if err := r.Register(bad); !errors.Is(err, provider.ErrConfig) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	t.Run("RAG Provider Discovery", func(t *testing.T) {
		r := provider.NewRegistry(other(nil))
		all := r.Providers()
		if len(all) != 2 || all[0].Name != "other" || all[1].Name != "vecbolt" {
			t.Fatalf("%+v", all)
		}
		if all[0].Can(provider.Collections) || !all[0].Can(provider.Search) || !all[1].Can(provider.MetadataFiltering) {
			t.Errorf("capabilities %v and %v", all[0].Capabilities, all[1].Capabilities)
		}
	})
	t.Run("RAG Provider Selection", func(t *testing.T) {
		failing := errors.New("connection refused")
		r := provider.NewRegistry(other(func() (provider.Connection, error) { return nil, failing }))
		if _, err := r.Open(ctx, "third", nil); !errors.Is(err, provider.ErrNotFound) {
			t.Errorf("unknown: %v", err)
		}
		if _, err := r.Open(ctx, "other", map[string]any{"url": "no"}); !errors.Is(err, provider.ErrConfig) {
			t.Errorf("bad configuration: %v", err)
		}
		if _, err := r.Open(ctx, "other", map[string]any{"url": "http://localhost"}); !errors.Is(err, provider.ErrConnect) || !errors.Is(err, failing) {
			t.Errorf("not reachable: %v", err)
		}
		if _, err := r.Open(ctx, "vecbolt", map[string]any{"path": t.TempDir() + "/none"}); !errors.Is(err, db.ErrNotFound) {
			t.Errorf("no database: %v", err)
		}
		c, err := r.Open(ctx, "vecbolt", map[string]any{"path": t.TempDir(), "create": true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Store(ctx, "notes"); !errors.Is(err, db.ErrNotFound) {
			t.Errorf("no collection: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("Provider Initialization with Schema", func(t *testing.T) {
		r := provider.NewRegistry()
		p, err := r.Lookup("vecbolt")
		if err != nil {
			t.Fatal(err)
		}
		var schema struct {
			Type       string
			Required   []string
			Additional *bool `json:"additionalProperties"`
			Properties map[string]struct{ Type string }
		}
		b, err := json.Marshal(p.Connection)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &schema); err != nil || schema.Type != "object" || schema.Required[0] != "path" || *schema.Additional || schema.Properties["path"].Type != "string" {
			t.Errorf("schema %s, %v", b, err)
		}
		for _, bad := range []map[string]any{nil, {"path": 1}, {"path": "x", "read_only": "yes"}, {"path": "x", "port": 1}} {
			if err := r.Validate("vecbolt", bad); !errors.Is(err, provider.ErrConfig) {
				t.Errorf("%v: %v", bad, err)
			}
		}
		if err := r.Validate("vecbolt", map[string]any{"path": "x", "read_only": true}); err != nil {
			t.Error(err)
		}
	})
	t.Run("Health Check with Details", func(t *testing.T) {
		vdb, err := db.Open(t.TempDir(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer vdb.Close()
		notes, err := vdb.CreateCollection(ctx, "notes", db.Schema{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := notes.Upsert(ctx, db.Document{ID: "a", Vector: []float32{1}}); err != nil {
			t.Fatal(err)
		}
		c := provider.Connect(vdb)
		h := c.Health(ctx)
		if h.Status != provider.Healthy || h.Timestamp.IsZero() || h.Error != nil || h.Details["collection_count"] != 1 || h.Details["document_count"] != 1 || h.Details["storage_bytes"].(int64) == 0 {
			t.Errorf("%+v", h)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := vdb.Close(); err != nil {
			t.Error(err)
		}
		if h := c.Health(ctx); h.Status != provider.Unhealthy || h.Error == nil || *h.Error == "" || h.Timestamp.IsZero() {
			t.Errorf("after Close: %+v", h)
		}
	})
}
