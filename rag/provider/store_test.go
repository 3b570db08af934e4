package provider_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// Connections create, list, describe and delete collections; what they made can be searched.
func TestManageCollections(t *testing.T) {
	ctx := t.Context()
	open := func() *db.DB {
		vdb, err := db.Open(db.Memory, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { vdb.Close() })
		return vdb
	}
	for name, conn := range map[string]provider.Connection{"embedded": provider.Connect(open()), "store": provider.ConnectStore(store.Embedded(open()))} {
		t.Run(name, func(t *testing.T) {
			m, ok := conn.(provider.Manager)
			if !ok {
				t.Fatalf("%T is no Manager", conn)
			}
			schema := store.Schema{Dim: 2, Metadata: db.Metadata{"owner": "ann"}}
			for _, name := range []string{"b", "a"} {
				if err := m.Create(ctx, name, schema); err != nil {
					t.Fatal(err)
				}
			}
			if err := m.Create(ctx, "a", schema); !errors.Is(err, db.ErrExists) {
				t.Errorf("again: %v", err)
			}
			a, err := m.Store(ctx, "a")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := a.Upsert(ctx, db.Document{ID: "x", Vector: []float32{1, 0}}); err != nil {
				t.Fatal(err)
			}
			want := []store.Info{{Name: "a", Schema: schema, Documents: 1}, {Name: "b", Schema: schema}}
			if got, err := m.Collections(ctx); err != nil || !cmp.Equal(got, want) {
				t.Errorf("%+v, %v", got, err)
			}
			if got, err := m.Describe(ctx, "a"); err != nil || !cmp.Equal(got, want[0]) {
				t.Errorf("%+v, %v", got, err)
			}
			if err := m.Drop(ctx, "a"); err != nil {
				t.Fatal(err)
			}
			if _, err := m.Describe(ctx, "a"); !errors.Is(err, db.ErrNotFound) {
				t.Errorf("describe what was dropped: %v", err)
			}
			if err := m.Drop(ctx, "a"); !errors.Is(err, db.ErrNotFound) {
				t.Errorf("drop again: %v", err)
			}
			if got, err := m.Collections(ctx); err != nil || !cmp.Equal(got, want[1:]) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}
