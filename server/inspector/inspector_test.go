package inspector

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/server"
)

func TestPage(t *testing.T) {
	h := Handler()
	ask := func(method, etag string) *http.Response {
		r := httptest.NewRequestWithContext(t.Context(), method, "/", nil)
		r.Header.Set("If-None-Match", etag)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result()
	}
	got := ask("GET", "")
	body, err := io.ReadAll(got.Body)
	if err != nil || got.StatusCode != http.StatusOK || !bytes.Equal(body, page) || got.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Error(got.Status, len(body), err)
	}
	if !strings.Contains(got.Header.Get("Content-Security-Policy"), "default-src 'none'; script-src 'sha256-") {
		t.Error(got.Header)
	}
	if again := ask("GET", got.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
		t.Error(again.Status)
	}
	if head := ask("HEAD", ""); head.StatusCode != http.StatusOK {
		t.Error(head.Status)
	}
	if post := ask("POST", ""); post.StatusCode != http.StatusMethodNotAllowed {
		t.Error(post.Status)
	}
}

// The page is all there is: no other file, nothing inline that the policy would stop, no way for
// data to become markup.
func TestPageStandsAlone(t *testing.T) {
	for _, element := range []string{"<script>", "<style>"} {
		if n := bytes.Count(page, []byte(element)); n != 1 {
			t.Errorf("%d times %s", n, element)
		}
	}
	for _, bad := range []string{`https?://`, `<script [^>]*>`, `<link [^>]*href="[^d]`, ` src=`, `<[a-z]+ [^>]*style=`, `<[a-z][^>]*\son[a-z]+="`, `innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function`, `@import|url\(`} {
		if found := regexp.MustCompile(bad).Find(page); found != nil {
			t.Errorf("%q is in the page", found)
		}
	}
	if bytes.Contains(page, []byte("// bases.js")) || !bytes.Contains(page, basesScript) {
		t.Error("bases.js is not in its place")
	}
	if len(page) > 96<<10 {
		t.Errorf("the page has %d bytes", len(page))
	}
}

const evil = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`

// serve serves a database with documents that mean no good.
func serve(t *testing.T, opts *server.Options) (*db.DB, string) {
	t.Helper()
	vdb, err := db.Open(t.TempDir(), &db.Options{Sync: db.SyncNever})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { vdb.Close() })
	notes, err := vdb.CreateCollection(t.Context(), "notes", db.Schema{Dim: 8, Text: &db.TextIndex{}, Lineage: db.Lineage{Provider: "hash", Model: "trigram-v1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	langs := []string{"go", "rust", "python"}
	var docs []db.Document
	for i := range 130 {
		v := make([]float32, 8)
		for j := range v {
			v[j] = float32(rng.NormFloat64() * 0.3)
		}
		v[i%3] += 2
		v[3] += float32(math.Sin(float64(i)))
		docs = append(docs, db.Document{ID: fmt.Sprintf("doc-%03d", i), Vector: v, Text: fmt.Sprintf("Note %d about vectors and segments in %s.", i, langs[i%3]),
			Metadata: db.Metadata{"lang": langs[i%3], "n": int64(i), "big": int64(9007199254740993), "deep": map[string]any{"year": int64(2000 + i%20)}}})
	}
	docs = append(docs, db.Document{ID: evil, Text: evil + " rarely", Vector: docs[0].Vector, Metadata: db.Metadata{evil: evil}}, db.Document{ID: "bare", Text: "no vector here"})
	if _, err := notes.Upsert(t.Context(), docs...); err != nil {
		t.Fatal(err)
	}
	if err := vdb.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := notes.Delete(t.Context(), "doc-129"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"empty", evil} {
		if _, err := vdb.CreateCollection(t.Context(), name, db.Schema{Metric: db.L2}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if opts == nil {
		opts = &server.Options{}
	}
	opts.Extensions = append(opts.Extensions, Extension())
	srv, err := server.New(vdb, opts)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(srv)
	t.Cleanup(web.Close)
	return vdb, web.URL
}

// The page is public, the data are not.
func TestTokens(t *testing.T) {
	_, url := serve(t, &server.Options{ReadToken: "a token to read with"})
	for path, want := range map[string]int{"/": http.StatusOK, "/collections": http.StatusUnauthorized, "/stats": http.StatusUnauthorized, "/collections/notes/map": http.StatusUnauthorized} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %s", path, response.Status)
		}
	}
}
