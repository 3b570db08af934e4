package fuzz_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/server"
)

// httpRoutes are what FuzzHTTP asks; {x} is replaced by what the fuzzer makes up.
var httpRoutes = []string{
	"POST /collections", "PUT /collections/c/metadata", "POST /collections/c/documents", "POST /collections/c/documents/get", "POST /collections/c/documents/delete",
	"PATCH /collections/c/documents/a", "POST /collections/c/search", "POST /collections/c/search/batch", "POST /collections/c/explain", "POST /collections/c/import",
	"POST /providers/vecbolt/validate", "GET /collections/c/documents?where={x}", "GET /collections/c/documents?{x}", "GET /collections/{x}", "GET /collections/c/documents/{x}",
	"GET /collections/c/export?where={x}", "DELETE /collections/c/documents?where={x}", "DELETE /collections/c/documents/{x}", "GET /{x}", "GET /providers/{x}",
}

// FuzzHTTP asks with any path and any body: a mistake is a status below 500 and an error in JSON,
// and writes nothing.
func FuzzHTTP(f *testing.F) {
	for i, seed := range []string{
		`{"name":"d","embedding_provider":"p","embedding_model":"m","metadata":{"n":1},"dimension":2,"metric":"l2","text_index":{"language":"german","fields":["t"],"k1":1,"b":0.5}}`,
		`{"metadata":{"a":[1,2.5,null,true,"x"],"b":{"c":1}}}`,
		`{"documents":[{"id":"a","text":"t","metadata":{"n":1},"embedding":[1,0.5]},{"embedding":[0,1e-3]}],"mode":"insert"}`,
		`{"ids":["a","b"],"include":["text","metadata","embedding"]}`,
		`{"where":{"n":{"$gt":1}}}`,
		`{"text":"x","set":{"a":1},"unset":["b"],"embedding":[1,2]}`,
		`{"vector":[1,0],"k":3,"offset":1,"where":{"$or":[{"n":1},{"$text":"word"}]},"threshold":0.5,"group":{"field":"n","size":2},"mmr":{"lambda":0.5,"fetch":10},"exact":true,"include":["id"]}`,
		`{"queries":[{"id":"a"},{"like":["a"],"unlike":["b"]},{"text":"word \"a b\" pre* +x -y","snippet":10,"fusion":{"method":"rrf","vector":1,"text":2,"c":60,"depth":5}}]}`,
		`{"vector":[1,0],"recall":0.9,"why_not":["a","z"]}`,
		"{\"id\":\"i\",\"vector\":[1,0]}\n{\"id\":\"j\",\"x\":1}\n",
		`{"config":{"path":"x","read_only":true}}`,
		`{"n":{"$in":[1,"x"]}}`, `limit=10&offset=5&after=a&include=id`, `c`, `..`, `{}`, `{"n":1}`, `a%2Fb`, `healthz`, `vecbolt/health`,
	} {
		f.Add(byte(i), []byte(seed))
		f.Add(byte(i+1), []byte(seed))
		for _, b := range variants([]byte(seed), 2) {
			f.Add(byte(i), b)
		}
	}
	vdb, err := db.Open(f.TempDir(), &db.Options{Sync: db.SyncNever})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := vdb.Close(); err != nil {
			f.Error(err)
		}
	})
	srv, err := server.New(vdb, &server.Options{Limits: server.Limits{Body: 1 << 16}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, route byte, made []byte) {
		fresh(t, vdb)
		method, path, _ := strings.Cut(httpRoutes[int(route)%len(httpRoutes)], " ")
		body := made
		if strings.Contains(path, "{x}") {
			x := string(made)
			if !strings.HasSuffix(path, "?{x}") { // the query as a whole is escaped by the fuzzer
				x = url.PathEscape(x)
			}
			path, body = strings.Replace(path, "{x}", x, 1), nil
		}
		u, err := url.ParseRequestURI(path)
		if err != nil {
			return
		}
		before, err := vdb.Stats()
		if err != nil {
			t.Fatal(err)
		}
		r := &http.Request{Method: method, URL: u, Host: "localhost", Header: http.Header{}, Body: http.NoBody, ContentLength: int64(len(body)), RemoteAddr: "fuzz", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
		if body != nil {
			r.Body = httptest.NewRequest(method, "/", bytes.NewReader(body)).Body
		}
		w := httptest.NewRecorder()
		srv.ServeHTTP(w, r.WithContext(t.Context()))
		if w.Code >= 500 {
			t.Fatalf("%s %s: status %d: %s", method, path, w.Code, w.Body)
		}
		var answer struct{ Error string }
		isJSON := w.Header().Get("Content-Type") == "application/json"
		if isJSON && !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%s %s: not JSON: %s", method, path, w.Body)
		}
		if w.Code >= 400 {
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer.Error == "" {
				t.Fatalf("%s %s: status %d, %v: %s", method, path, w.Code, err, w.Body)
			}
			after, err := vdb.Stats()
			if err != nil {
				t.Fatal(err)
			}
			if after.Batches != before.Batches && !strings.HasSuffix(path, "/import") {
				t.Fatalf("%s %s: status %d, and %d batches were written: %s", method, path, w.Code, after.Batches-before.Batches, w.Body)
			}
		}
	})
}

// fresh sees to it that there is a small collection c.
func fresh(t *testing.T, vdb *db.DB) {
	infos, err := vdb.Collections()
	if err != nil {
		t.Fatal(err)
	}
	keep := len(infos) > 0 && infos[0].Name == "c" && infos[0].Documents < 100 && infos[0].Documents > 0 && len(infos) < 4
	if keep {
		return
	}
	for _, info := range infos {
		if err := vdb.Drop(t.Context(), info.Name); err != nil {
			t.Fatal(err)
		}
	}
	c, err := vdb.CreateCollection(t.Context(), "c", db.Schema{Dim: 2, Text: &db.TextIndex{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []db.Document{
		{ID: "a", Text: "a word or two", Vector: []float32{1, 0}, Metadata: db.Metadata{"n": 1}},
		{ID: "b", Text: "another word", Vector: []float32{0, 1}, Metadata: db.Metadata{"n": 2}},
	} {
		if _, err := c.Upsert(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
}
