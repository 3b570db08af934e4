package server_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
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

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
