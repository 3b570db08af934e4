package server_test

import (
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag/vectorize"
	"github.com/vecbolt/vecbolt/server"
	"github.com/vecbolt/vecbolt/server/chroma"
)

// TestMetadataKeepsIDs: who replaces the metadata of a collection changes neither the id that
// clients of Chroma have nor the pin.
func TestMetadataKeepsIDs(t *testing.T) {
	vdb, err := db.Open(db.Memory, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { vdb.Close() })
	srv, err := server.New(vdb, nil)
	if err != nil {
		t.Fatal(err)
	}
	clients := chroma.New(vdb, nil)
	at := "/api/v2/tenants/default_tenant/databases/default_database/collections"
	w := httptest.NewRecorder()
	clients.ServeHTTP(w, httptest.NewRequest("POST", at, strings.NewReader(`{"name": "notes"}`)))
	c, err := vdb.Collection("notes")
	if err != nil {
		t.Fatal(w.Body, err)
	}
	pin := map[string]any{"provider": "p", "model": "m"}
	err = c.UpdateMetadata(t.Context(), func(info db.CollectionInfo) (db.Metadata, error) {
		info.Metadata[vectorize.Field] = pin
		return info.Metadata, nil
	})
	before, err2 := c.Info()
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	for _, body := range []string{`{"metadata": {"owner": "ann"}}`, `{"metadata": {}}`} {
		w = httptest.NewRecorder()
		srv.ServeHTTP(w, httptest.NewRequest("PUT", "/collections/notes/metadata", strings.NewReader(body)))
		after, err := c.Info()
		if w.Code != 200 || err != nil {
			t.Fatal(w.Code, w.Body, err)
		}
		for _, field := range []string{"chroma:collection", vectorize.Field} {
			if have, want := after.Metadata[field], before.Metadata[field]; want == nil || !reflect.DeepEqual(have, want) {
				t.Errorf("%s: %s is %v, was %v", body, field, have, want)
			}
		}
	}
}
