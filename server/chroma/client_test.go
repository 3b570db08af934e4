package chroma

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/server"
)

// The npm client of Chroma, unmodified, does what testdata/client.mjs says.
func TestChromaClient(t *testing.T) {
	skip := t.Skip
	if os.Getenv("VECBOLT_CHROMA") != "" { // set by those who have installed it
		skip = t.Fatal
	}
	node, err := exec.LookPath("node")
	if err != nil {
		skip("skipped: node is not installed")
	}
	if _, err := os.Stat(filepath.Join("testdata", "node_modules", "chromadb", "package.json")); err != nil {
		skip("skipped: the npm client of Chroma is not installed: run server/chroma/testdata/setup.sh")
	}
	c, _ := newClient(t, nil)
	web := httptest.NewServer(c.h)
	defer web.Close()
	_, port, err := net.SplitHostPort(web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, "client.mjs", port)
	cmd.Dir = "testdata"
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

// Behind the server, tokens decide what may be done.
func TestBehindServer(t *testing.T) {
	c, vdb := newClient(t, nil)
	path := c.fruits()
	const read, write = "a token to read with", "a token to write with"
	srv, err := server.New(vdb, &server.Options{ReadToken: read, WriteToken: write, Extensions: []server.Extension{
		{Pattern: Pattern, Handler: New(vdb, nil), Writes: Writes}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		token, method, path, body string
		want                      int
	}{
		{"", "GET", "/heartbeat", "", http.StatusUnauthorized},
		{"", "POST", path + "/get", "{}", http.StatusUnauthorized},
		{read, "GET", path + "/count", "", http.StatusOK},
		{read, "POST", path + "/get", "{}", http.StatusOK},
		{read, "POST", path + "/query", `{"query_embeddings":[[1,0]]}`, http.StatusOK},
		{read, "POST", path + "/add", `{"ids":["x"],"embeddings":[[1,0]]}`, http.StatusForbidden},
		{read, "POST", home, `{"name":"fruits","get_or_create":true}`, http.StatusOK},
		{read, "POST", home, `{"name":"fruits"}`, http.StatusForbidden},
		{read, "POST", home, `{"name":"plants","get_or_create":true}`, http.StatusForbidden},
		{read, "GET", home + "/plants", "", http.StatusNotFound},
		{read, "POST", path + "/delete", `{"ids":["a"]}`, http.StatusForbidden},
		{read, "DELETE", path, "", http.StatusForbidden},
		{write, "POST", path + "/add", `{"ids":["x"],"embeddings":[[1,0]]}`, http.StatusOK},
	} {
		r := httptest.NewRequestWithContext(t.Context(), tt.method, "/api/v2"+tt.path, strings.NewReader(tt.body))
		r.Header.Set("Authorization", "Bearer "+tt.token)
		w := httptest.NewRecorder()
		srv.ServeHTTP(w, r)
		if w.Code != tt.want {
			t.Errorf("%s %s with token %q: status %d, %s", tt.method, tt.path, tt.token, w.Code, w.Body)
		}
	}
	c.ok("GET", path+"/count", "", "4")

	stats, err := vdb.Stats()
	if err != nil {
		t.Fatal(err)
	}
	reader, err := db.Open(stats.Dir, &db.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	alone := &client{t, New(reader, nil)}
	if got := alone.create(`{"name":"fruits","get_or_create":true}`); got != path {
		t.Errorf("the collection is at %s, want %s", got, path)
	}
	alone.fails("POST", home, `{"name":"plants","get_or_create":true}`, http.StatusForbidden, "read-only")
}
