package server_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/vectorize"
)

// A collection that is dropped or renamed while documents for it arrive is not made again under its
// name.
func TestDroppedDuringTheBody(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(s *service) error
		status int
	}{
		{"dropped", func(s *service) error { return s.db.Drop(s.Context(), "made") }, http.StatusNotFound},
		{"renamed", func(s *service) error { return s.db.Rename(s.Context(), "made", "other") }, http.StatusOK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := start(t, nil)
			s.must(201, "POST", "/collections", `{"name":"made","embedding_provider":"p","embedding_model":"m"}`)
			begin, rest := strings.NewReader(`{"embedding_provider":"p",`),
				strings.NewReader(`"documents":[{"id":"a","embedding":[1]}]}`)
			body := io.MultiReader(begin, readerFunc(func([]byte) (int, error) {
				if err := tt.change(s); err != nil {
					t.Error(err)
				}
				return 0, io.EOF
			}), rest)
			r := httptest.NewRequestWithContext(t.Context(), "POST", "/collections/made/documents", body)
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			s.srv.ServeHTTP(w, r)
			if w.Code != tt.status {
				t.Errorf("status %d, want %d: %s", w.Code, tt.status, w.Body)
			}
			if c, err := s.db.Collection("made"); err == nil {
				info, _ := c.Info()
				t.Errorf("there is a collection of that name again: %+v", info)
			}
		})
	}
}

// The pin of a collection to a model stays when a client replaces the metadata at the same time.
func TestMetadataBesideAPin(t *testing.T) {
	s := start(t, nil)
	s.direct = true
	models := vectorize.New(vectorize.Options{Providers: embed.NewRegistry(embed.Builtin()...)})
	for i := range 300 {
		name := fmt.Sprintf("c%d", i)
		made, err := s.db.CreateCollection(t.Context(), name, db.Schema{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var pinning sync.WaitGroup
		pinning.Go(func() {
			if err := models.Collection(made).Pin(t.Context(), embed.DefaultConfig()); err != nil {
				t.Error(err)
			}
		})
		s.must(200, "PUT", "/collections/"+name+"/metadata", `{"metadata":{"k":1}}`)
		pinning.Wait()
		info, err := made.Info()
		if err != nil {
			t.Fatal(err)
		}
		if _, pinned := vectorize.Pinned(info); !pinned || info.Metadata["k"] != int64(1) {
			t.Fatalf("collection %d: metadata %v", i, info.Metadata)
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
