package server_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/server"
)

func TestStats(t *testing.T) {
	s := start(t, nil)
	empty := s.must(http.StatusOK, "GET", "/stats", "")
	if list, ok := empty["collections"].([]any); !ok || len(list) != 0 {
		t.Errorf("%v", empty)
	}
	s.must(http.StatusCreated, "POST", "/collections", `{"name":"c","metadata":{"secret":"of the collection"},"text_index":true}`)
	s.must(http.StatusOK, "POST", "/collections/c/documents", `{"documents":[{"id":"a","embedding":[1,0]},{"id":"b","embedding":[0,1]}]}`)
	if err := s.db.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.must(http.StatusOK, "DELETE", "/collections/c/documents/a", "")
	s.must(http.StatusOK, "POST", "/collections/c/documents", `{"documents":[{"id":"d","embedding":[1,1]}]}`)
	stats := s.must(http.StatusOK, "GET", "/stats", "")
	c := stats["collections"].([]any)[0].(map[string]any)
	for field, want := range map[string]float64{"documents": 2, "vectors": 2, "segments": 1, "dead_rows": 1, "head_rows": 1} {
		if c[field] != want {
			t.Errorf("%s: %v, want %v", field, c[field], want)
		}
	}
	if all, ok := stats["processes"].([]any); !ok || len(all) != 1 || all[0].(map[string]any)["pid"] != float64(os.Getpid()) {
		t.Errorf("%v", stats["processes"])
	}
	if c["name"] != "c" || stats["vector_bytes"].(float64) <= 0 || stats["failed"] != nil {
		t.Errorf("%v", stats)
	}
	if body := s.ask("GET", "/stats", "").body; strings.Contains(body, "secret") || strings.Contains(body, `"dir"`) {
		t.Error(body)
	}
	if a := s.ask("GET", "/stats?x=1", ""); a.status != http.StatusBadRequest {
		t.Error(a.status)
	}
}

// TestMapMemory: the vectors of a map count as memory of its request.
func TestMapMemory(t *testing.T) {
	const dim = 10
	s := start(t, &server.Options{Limits: server.Limits{Body: 5000, Memory: 1}}) // at least four bodies
	c, err := s.db.CreateCollection(t.Context(), "c", db.Schema{Dim: dim}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		vec := make([]float32, dim)
		vec[i%dim] = 1
		if _, err := c.Upsert(t.Context(), db.Document{ID: fmt.Sprint(i), Vector: vec}); err != nil {
			t.Fatal(err)
		}
	}
	s.must(http.StatusOK, "GET", "/collections/c/map?points=50", "")
	want := fmt.Sprintf("about %d bytes of memory, the limit is 10000", 2*4*dim*(200+24))
	if a := s.ask("GET", "/collections/c/map", ""); a.status != http.StatusRequestEntityTooLarge || !strings.Contains(a.body, want) {
		t.Errorf("%d %s, want %s", a.status, a.body, want)
	}
	s.must(http.StatusOK, "GET", "/collections/c/map?points=100", "") // the memory of the others is free again
}

func TestMap(t *testing.T) {
	s := start(t, nil)
	c, err := s.db.CreateCollection(t.Context(), "c", db.Schema{Metric: db.L2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m := s.must(http.StatusOK, "GET", "/collections/c/map", ""); len(m["points"].([]any)) != 0 {
		t.Errorf("%v", m)
	}
	// Two clouds, far from each other along the first component.
	for i := range 40 {
		side := i % 2
		if _, err := c.Upsert(t.Context(), db.Document{ID: fmt.Sprint(i), Vector: []float32{float32(100 * side), float32(i % 5), float32(i % 3)}, Metadata: db.Metadata{"side": []string{"left", "right"}[side]}}); err != nil {
			t.Fatal(err)
		}
	}
	m := s.must(http.StatusOK, "GET", "/collections/c/map?color=side", "")
	points, labels := m["points"].([]any), m["labels"].([]any)
	if len(points) != 40 || len(labels) != 2 || m["explained"].([]any)[0].(float64) < 0.9 {
		t.Fatalf("%d points, labels %v, explained %v", len(points), labels, m["explained"])
	}
	sides := map[any]float64{}
	for _, p := range points {
		p := p.(map[string]any)
		label, x := labels[int(p["label"].(float64))], p["x"].(float64)
		if old, ok := sides[label]; ok && old*x < 0 {
			t.Errorf("label %v is on both sides", label)
		}
		sides[label] = x
	}
	if m := s.must(http.StatusOK, "GET", `/collections/c/map?points=7&where={"side":"left"}`, ""); len(m["points"].([]any)) != 7 {
		t.Errorf("%v", m)
	}
	for _, query := range []string{"points=0", "points=5001", "points=-1", "points=x", "where={", "colour=side"} {
		if a := s.ask("GET", "/collections/c/map?"+query, ""); a.status != http.StatusBadRequest {
			t.Errorf("%s: status %d, %s", query, a.status, a.body)
		}
	}
	if a := s.ask("GET", "/collections/none/map", ""); a.status != http.StatusNotFound {
		t.Error(a.status)
	}
}
