package provider_test

import (
	"errors"
	"testing"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/provider"
	"github.com/vecbolt/vecbolt/store"
)

var _ rag.Store = (*store.Adapter)(nil)

// A pipeline retrieves from any store, and by default by vector and text.
func TestPipelineOverStore(t *testing.T) {
	ctx := t.Context()
	vdb, err := db.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	s := store.Embedded(vdb)
	c, err := s.Create(ctx, "notes", store.Schema{Dim: 2, Text: &db.TextIndex{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Upsert(ctx, []db.Document{{ID: "a", Vector: []float32{1, 0}, Text: "how bolts are made", Metadata: db.Metadata{"lang": "en"}},
		{ID: "b", Vector: []float32{0, 1}, Text: "nuts", Metadata: db.Metadata{"lang": "en"}}, {ID: "c", Vector: []float32{1, 0.1}, Text: "bolts", Metadata: db.Metadata{"lang": "de"}}}); err != nil {
		t.Fatal(err)
	}
	conn := provider.ConnectStore(s)
	if h := conn.Health(ctx); h.Status != provider.Healthy || h.Details["collection_count"] != 1 {
		t.Errorf("%+v", h)
	}
	if _, err := conn.Store(ctx, "nothing"); !errors.Is(err, db.ErrNotFound) {
		t.Error(err)
	}
	notes, err := conn.Store(ctx, "notes")
	if err != nil {
		t.Fatal(err)
	}
	p, err := rag.NewPipeline(notes, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Query(ctx, "bolts?", filter.Eq("lang", "en"))
	if err != nil || len(r.Chunks) != 1 || r.Chunks[0].ID != "a" || r.Strategy != "text" {
		t.Errorf("%+v, %v", r, err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

func TestWeaviate(t *testing.T) {
	r := provider.NewRegistry(provider.Weaviate())
	if _, err := r.Open(t.Context(), "weaviate", map[string]any{"endpoint": "x"}); !errors.Is(err, provider.ErrConfig) {
		t.Error(err)
	}
	if _, err := r.Open(t.Context(), "weaviate", map[string]any{"endpoints": "127.0.0.1:1"}); !errors.Is(err, provider.ErrConnect) {
		t.Error(err)
	}
}
