package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A service is a server on a new database, asked over a real connection.
type service struct {
	*testing.T
	db    *db.DB
	url   string
	token string
}

func start(t *testing.T, opts *server.Options) *service {
	t.Helper()
	vdb, err := db.Open(t.TempDir(), &db.Options{Sync: db.SyncNever})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(vdb, opts)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(srv)
	t.Cleanup(func() {
		web.Close()
		http.DefaultClient.CloseIdleConnections()
		if err := vdb.Close(); err != nil {
			t.Error(err)
		}
	})
	return &service{T: t, db: vdb, url: web.URL}
}

// An answer is the status and the body of a response; Field looks into the body.
type answer struct {
	status int
	header http.Header
	body   string
}

func (s *service) ask(method, path, body string, header ...string) answer {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(b)}
}

// must asks and expects a status; it returns the object of the answer.
func (s *service) must(status int, method, path, body string, header ...string) map[string]any {
	s.Helper()
	a := s.ask(method, path, body, header...)
	if a.status != status {
		s.Fatalf("%s %s %.200s: status %d, want %d: %s", method, path, body, a.status, status, a.body)
	}
	var m map[string]any
	if err := json.Unmarshal([]byte(a.body), &m); err != nil {
		s.Fatalf("%s %s: %v: %s", method, path, err, a.body)
	}
	return m
}

// refuses expects a status and exactly this error.
func (s *service) refuses(status int, message, method, path, body string, header ...string) {
	s.Helper()
	if got := s.must(status, method, path, body, header...)["error"]; got != message {
		s.Errorf("%s %s %.200s: error %q, want %q", method, path, body, got, message)
	}
}

func TestExtensions(t *testing.T) {
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, `{"path":"`+r.URL.Path+`"}`) })
	const token = "0123456789abcdef"
	s := start(t, &server.Options{ReadToken: token, WriteToken: token + token, Extensions: []server.Extension{
		{Pattern: "/{$}", Handler: hello, Public: true},
		{Pattern: "/api/v2/", Handler: hello, Writes: func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/add") }},
		{Pattern: "/broken", Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("broken") })},
	}})
	s.must(200, "GET", "/", "")
	s.must(401, "POST", "/", "{}")
	s.must(401, "GET", "/api/v2/x", "")
	s.must(401, "GET", "/nothing", "")
	s.token = token
	s.must(200, "GET", "/api/v2/x", "")
	s.must(200, "POST", "/api/v2/query", "{}")
	s.refuses(403, "this token does not allow writes", "POST", "/api/v2/add", "{}")
	s.must(404, "GET", "/nothing", "")
	s.must(500, "GET", "/broken", "")
	s.token += token
	s.must(200, "POST", "/api/v2/add", "{}")
	for _, pattern := range []string{"/healthz", "GET /x", "{", ""} {
		if _, err := server.New(s.db, &server.Options{Extensions: []server.Extension{{Pattern: pattern, Handler: hello}}}); err == nil && pattern != "/healthz" {
			t.Errorf("extension at %q: no error", pattern)
		}
	}
}

func TestCollections(t *testing.T) {
	s := start(t, nil)
	s.must(200, "GET", "/healthz", "")
	s.must(200, "GET", "/readyz", "")
	s.must(201, "POST", "/collections", `{"name":"a b/c","dimension":3,"metric":"dot","text_index":{"language":"german"},"metadata":{"n":1,"f":1.0}}`)
	a := s.ask("GET", "/collections/a%20b%2Fc", "")
	want := `{"name":"a b/c","count":0,"metadata":{"f":1.0,"n":1},"schema":{"dim":3,"metric":"dot","text":{"language":"german"}}}` + "\n"
	if a.body != want {
		t.Errorf("got  %swant %s", a.body, want)
	}
	s.must(409, "POST", "/collections", `{"name":"a b/c"}`)
	s.must(400, "POST", "/collections", `{"name":"d","metadata":{"$x":1}}`)
	s.must(404, "GET", "/collections/d", "") // nothing is left of it
	s.must(400, "POST", "/collections", `{"name":"d","dimensions":3}`)
	s.must(400, "POST", "/collections", `{"name":"d","metric":"x"}`)
	s.must(200, "DELETE", "/collections/a%20b%2Fc", "")
	s.must(404, "DELETE", "/collections/a%20b%2Fc", "")
	if a := s.ask("PATCH", "/collections", ""); a.status != 405 || a.header.Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("PATCH /collections: %d, Allow %q", a.status, a.header.Get("Allow"))
	}
}
