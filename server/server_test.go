package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A service is a server on a new database, asked over a real connection.
type service struct {
	*testing.T
	db    *db.DB
	srv   *server.Server
	url   string
	token string

	direct bool // ask by ServeHTTP: everything about a request is then over when it has been answered
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
	return &service{T: t, db: vdb, srv: srv, url: web.URL}
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
	if s.direct {
		w := httptest.NewRecorder()
		s.srv.ServeHTTP(w, req)
		a := answer{w.Code, w.Header(), w.Body.String()}
		s.judge(method, path, body, a)
		return a
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
	a := answer{resp.StatusCode, resp.Header, string(b)}
	s.judge(method, path, body, a)
	return a
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

// TestOwnedCollections: clients read what an extension keeps, and change nothing of it.
func TestOwnedCollections(t *testing.T) {
	s := start(t, &server.Options{Extensions: []server.Extension{
		{Pattern: "/api/v2/", Handler: http.NotFoundHandler(), Owns: []string{".kept"}},
	}})
	kept, err := s.db.CreateCollection(t.Context(), ".kept", db.Schema{}, nil)
	if err == nil {
		_, err = kept.Upsert(t.Context(), db.Document{ID: "a", Text: "mine"})
	}
	if err != nil {
		t.Fatal(err)
	}
	s.must(201, "POST", "/collections", `{"name":"free"}`)
	for _, r := range [][3]string{
		{"POST", "/collections", `{"name":".kept"}`}, {"PATCH", "/collections/free", `{"name":".kept"}`},
		{"PATCH", "/collections/.kept", `{"name":"taken"}`}, {"DELETE", "/collections/.kept", ""},
		{"PUT", "/collections/.kept/text_index", `{"text_index":true}`}, {"PUT", "/collections/.kept/index", `{"index":"small"}`},
		{"PUT", "/collections/.kept/metadata", `{"metadata":{}}`},
		{"POST", "/collections/.kept/documents", `{"documents":[{"id":"a","text":"b"}]}`},
		{"DELETE", "/collections/.kept/documents?where={}", ""}, {"POST", "/collections/.kept/documents/delete", `{"ids":["a"]}`},
		{"PATCH", "/collections/.kept/documents/a", `{"text":"b"}`}, {"DELETE", "/collections/.kept/documents/a", ""},
		{"POST", "/collections/.kept/import", `{"id":"b"}`},
	} {
		s.refuses(403, "Collection '.kept' belongs to the API at /api/v2/", r[0], r[1], r[2])
	}
	s.must(200, "GET", "/collections/.kept", "")
	if d, err := kept.Get(t.Context(), "a", db.WithText); err != nil || d.Text != "mine" {
		t.Error(d, err)
	}
	if n, err := kept.Count(t.Context(), nil); err != nil || n != 1 {
		t.Error(n, err)
	}
}

// TestMissingFields: what a body must have is named in one way, and so is what has the wrong type.
func TestMissingFields(t *testing.T) {
	s := start(t, nil)
	s.must(201, "POST", "/collections", `{"name":"c"}`)
	for _, test := range []struct{ method, path, key, required, want string }{
		{"POST", "", "name", "Collection name is required", "string"},
		{"PATCH", "/c", "name", "Collection name is required", "string"},
		{"PUT", "/c/metadata", "metadata", "'metadata' is required", "object"},
		{"PUT", "/c/index", "index", "'index' is required; want fast, small or none", "string"},
		{"PUT", "/c/text_index", "text_index", "'text_index' is required; null drops it", "true or false"},
		{"POST", "/c/documents/get", "ids", "'ids' is required", "array"},
		{"POST", "/c/documents/delete", "ids", "either 'ids' or 'where' is required", "array"},
		{"POST", "/c/search/batch", "queries", "'queries' is required", "array"},
	} {
		path := "/collections" + test.path
		s.refuses(400, test.required, test.method, path, `{}`)
		s.refuses(400, "offset 0: null instead of an object", test.method, path, `null`)
		article := map[byte]string{'s': "a ", 'a': "an ", 'o': "an "}[test.want[0]]
		s.refuses(400, fmt.Sprintf("offset %d: %q: a number instead of %s%s", len(test.key)+5, test.key, article, test.want),
			test.method, path, fmt.Sprintf(`{ %q:5}`, test.key))
	}
	s.refuses(400, "Documents array is required", "POST", "/collections/c/documents", `{"documents":[]}`)
	s.refuses(400, "'where' is required; {} deletes every document", "DELETE", "/collections/c/documents", "")
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
	s.must(201, "POST", "/collections", `{"name":"other"}`)
	s.refuses(409, `rename: already exists: collection "other"`, "PATCH", "/collections/a%20b%2Fc", `{"name":"other"}`)
	s.refuses(400, "Collection name is required", "PATCH", "/collections/other", `{}`)
	for _, name := range []string{".", "..", "/"} {
		said := fmt.Sprintf("collection name %q: no URL can contain it", name)
		s.refuses(400, "rename: invalid: "+said, "PATCH", "/collections/other", fmt.Sprintf(`{"name":%q}`, name))
		s.refuses(400, "create collection: invalid: "+said, "POST", "/collections", fmt.Sprintf(`{"name":%q}`, name))
	}
	// Others that look like them can be used.
	for name, path := range map[string]string{"...": "...", ". ": ".%20", "%2e": "%252e", "./..": ".%2F..", "//": "%2F%2F", "a/": "a%2F"} {
		s.must(201, "POST", "/collections", fmt.Sprintf(`{"name":%q}`, name))
		s.expect(path, s.must(200, "GET", "/collections/"+path, "")["name"], fmt.Sprintf("%q", name))
		s.must(200, "DELETE", "/collections/"+path, "")
	}
	s.expect("renamed", s.must(200, "PATCH", "/collections/other", `{"name":"new"}`)["name"], `"new"`)
	s.must(404, "GET", "/collections/other", "")

	// Texts are indexed when that is asked for.
	s.add("new", `{"id":"a","text":"two words","embedding":[1]}`)
	s.must(400, "POST", "/collections/new/search", `{"text":"words"}`)
	s.must(400, "PUT", "/collections/new/text_index", `{}`)
	s.must(400, "PUT", "/collections/new/text_index", `{"text_index":{"language":"klingon"}}`)
	s.expect("indexed", s.must(200, "PUT", "/collections/new/text_index", `{"text_index":{"k1":1.5,"b":0.5}}`)["schema"], `{"dim":1,"metric":"cosine","text":{"language":"english","k1":1.5,"b":0.5}}`)
	s.expect("found", s.must(200, "POST", "/collections/new/search", `{"text":"words"}`)["count"], `1`)
	s.expect("dropped", s.must(200, "PUT", "/collections/new/text_index", `{"text_index":null}`)["schema"], `{"dim":1,"metric":"cosine"}`)

	// The index over vectors is chosen, and changed.
	s.must(400, "POST", "/collections", `{"name":"lean","index":"hnsw"}`)
	s.expect("lean", s.must(201, "POST", "/collections", `{"name":"lean","index":"small"}`)["schema"], `{"dim":0,"metric":"cosine","index":"small"}`)
	s.must(400, "PUT", "/collections/lean/index", `{}`)
	s.must(400, "PUT", "/collections/lean/index", `{"index":null}`)
	s.must(400, "PUT", "/collections/lean/index", `{"index":"hnsw"}`)
	s.must(400, "PUT", "/collections/lean/index", `{"text_index":true}`)
	s.must(404, "PUT", "/collections/nothing/index", `{"index":"none"}`)
	s.expect("none", s.must(200, "PUT", "/collections/lean/index", `{"index":"none"}`)["schema"], `{"dim":0,"metric":"cosine","index":"none"}`)
	s.expect("fast", s.must(200, "PUT", "/collections/lean/index", `{"index":"fast"}`)["schema"], `{"dim":0,"metric":"cosine"}`)

	// Embeddings of another model are refused, if the client says which they are.
	s.must(201, "POST", "/collections", `{"name":"made","embedding_provider":"p","embedding_model":"m"}`)
	s.refuses(409, `schema mismatch: collection "made" has model "m", not "n"`, "POST", "/collections/made/documents", `{"embedding_model":"n","documents":[{"embedding":[1]}]}`)
	s.must(200, "POST", "/collections/made/documents", `{"documents":[{"embedding":[1]}],"embedding_model":"m","embedding_provider":"p"}`)
	s.expect("stored", s.must(200, "GET", "/collections/made", "")["count"], `1`)
	s.must(200, "DELETE", "/collections/a%20b%2Fc", "")
	s.must(404, "DELETE", "/collections/a%20b%2Fc", "")
	if a := s.ask("PATCH", "/collections", ""); a.status != 405 || a.header.Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("PATCH /collections: %d, Allow %q", a.status, a.header.Get("Allow"))
	}
}

func TestDocuments(t *testing.T) {
	s := start(t, nil)
	s.must(201, "POST", "/collections", `{"name":"c"}`)
	s.add("c", `{"id":"a/b","text":"one","metadata":{"n":1,"f":1.0,"big":9007199254740993},"embedding":[1,0]},{"id":"..","embedding":[0,1]}`)
	const odd = "/collections/c/documents/a%2Fb"
	if got := s.ask("GET", odd, "").body; got != `{"id":"a/b","text":"one","metadata":{"big":9007199254740993,"f":1.0,"n":1}}`+"\n" {
		t.Errorf("got %s", got)
	}
	s.must(200, "PATCH", odd, `{"text":"two","set":{"n":2},"unset":["f"],"embedding":[0.5,0.5]}`)
	if got := s.ask("GET", odd+"?include=embedding,text,metadata", "").body; got != `{"id":"a/b","text":"two","metadata":{"big":9007199254740993,"n":2},"embedding":[0.5,0.5]}`+"\n" {
		t.Errorf("got %s", got)
	}
	s.refuses(404, "Document 'x' not found", "PATCH", "/collections/c/documents/x", `{"text":"y"}`)
	s.refuses(404, "Document 'x' not found", "GET", "/collections/c/documents/x", "")
	s.refuses(404, "Document 'x' not found", "DELETE", "/collections/c/documents/x", "")
	s.refuses(409, `insert: already exists: document "a/b" in collection "c"`, "POST", "/collections/c/documents", `{"documents":[{"id":"new","embedding":[1,1]},{"id":"a/b","embedding":[1,1]}],"mode":"insert"}`)
	s.expect("get", s.must(200, "POST", "/collections/c/documents/get", `{"ids":["..","new","a/b"],"include":["id"]}`),
		`{"documents":[{"id":".."},{"id":"a/b"}],"count":2,"missing":["new"]}`)
	s.expect("page", s.must(200, "GET", "/collections/c/documents?limit=1&include=id", ""), `{"documents":[{"id":".."}],"count":1,"total":2,"next":".."}`)
	s.expect("page", s.must(200, "GET", "/collections/c/documents?after=..&include=id", ""), `{"documents":[{"id":"a/b"}],"count":1,"total":2}`)

	s.refuses(400, "'where' is required; {} deletes every document", "DELETE", "/collections/c/documents", "")
	s.refuses(400, "Invalid 'where' filter: must be valid JSON", "DELETE", "/collections/c/documents?where=", "")
	s.refuses(400, "either 'ids' or 'where' is required", "POST", "/collections/c/documents/delete", `{}`)
	s.refuses(400, "either 'ids' or 'where' is required", "POST", "/collections/c/documents/delete", `{"ids":["a"],"where":{}}`)
	s.refuses(400, "either 'ids' or 'where' is required", "POST", "/collections/c/documents/delete", `{"ids":[],"where":{}}`)
	s.must(400, "POST", "/collections/c/documents/delete", `{"where":null}`)
	s.must(400, "POST", "/collections/c/documents/delete", `{"ids":null,"where":{}}`)
	s.expect("no ids", s.must(200, "POST", "/collections/c/documents/delete", `{"ids":[]}`)["deleted"], `0`)
	s.expect("nothing", s.must(200, "POST", "/collections/c/documents/delete", `{"ids":["nobody"]}`)["deleted"], `0`)
	s.expect("by filter", s.must(200, "DELETE", "/collections/c/documents?where=%7B%22n%22%3A2%7D", "")["deleted"], `1`)
	s.expect("by filter", s.must(200, "POST", "/collections/c/documents/delete", `{"where":{"n":2}}`)["deleted"], `0`)
	s.must(200, "DELETE", "/collections/c/documents/%2E%2E", "")
	s.expect("left", s.must(200, "GET", "/collections/c", "")["count"], `0`)
}

func TestSearch(t *testing.T) {
	s := start(t, nil)
	s.must(201, "POST", "/collections", `{"name":"c","text_index":true}`)
	s.add("c", `{"id":"e","text":"the sun rises","metadata":{"side":"r"},"embedding":[1,0]},{"id":"n","text":"the north star","metadata":{"side":"l"},"embedding":[0,1]},
		{"id":"w","text":"the sun sets","metadata":{"side":"l"},"embedding":[-1,0]}`)
	for _, tt := range []struct{ query, want string }{
		{`{"vector":[1,0.1]}`, "[e n w]"},
		{`{"embedding":[1,0.1],"k":2,"offset":1,"include":["id"]}`, "[n w]"},
		{`{"vector":[1,0.1],"where":{"side":"l"},"exact":true}`, "[n w]"},
		{`{"vector":[1,0.1],"threshold":0.5}`, "[e]"},
		{`{"id":"w","k":1}`, "[w]"},
		{`{"like":["e"],"unlike":["n"]}`, "[w]"},
		{`{"text":"sun"}`, "[e w]"},
		{`{"text":"+sun -rises","snippet":100}`, "[w]"},
		{`{"text":"sun","vector":[-1,0],"k":1,"fusion":{"method":"rrf","vector":1,"text":1,"c":60,"depth":10}}`, "[w]"},
		{`{"vector":[1,0.1],"group":{"field":"side","size":1}}`, "[e n]"},
		{`{"vector":[1,0.1],"mmr":{"lambda":0.1},"k":2}`, "[e w]"},
		{`{"vector":[1,0.1],"ef":10}`, "[e n w]"},
		{`{"vector":[1,0.1],"recall":0.9,"where":null}`, "[e n w]"},
	} {
		got := s.must(200, "POST", "/collections/c/search", tt.query)
		if list := fmt.Sprint(ids(got, "hits")); list != tt.want || got["exact"] != true || got["complete"] == nil {
			t.Errorf("%s: %s, want %s: %v", tt.query, list, tt.want, got)
		}
	}
	got := s.must(200, "POST", "/collections/c/search/batch", `{"queries":[{"vector":[1,0],"k":1},{"text":"star"}]}`)["results"].([]any)
	if len(got) != 2 || fmt.Sprint(ids(got[0].(map[string]any), "hits"), ids(got[1].(map[string]any), "hits")) != "[e] [n]" {
		t.Errorf("batch: %v", got)
	}
	e := s.must(200, "POST", "/collections/c/explain", `{"vector":[1,0],"k":1,"where":{"side":"r"},"why_not":["n","x"]}`)
	why := e["why_not"].([]any)
	if len(why) != 2 || why[0].(map[string]any)["stage"] != "where" || why[1].(map[string]any)["stage"] != "missing" || len(e["stages"].([]any)) == 0 || len(e["parts"].([]any)) == 0 {
		t.Errorf("explain: %v", e)
	}
	for _, bad := range []string{`{}`, `{"k":3}`, `{"vector":[]}`, `{"vector":[1,2,3]}`, `{"vector":"x"}`, `{"vector":[1,0],"k":0}`, `{"vector":[1,0],"k":10001}`, `{"vector":[1,0],"k":1.5}`,
		`{"vector":[1,0],"k":9999,"offset":2}`, `{"vector":[1,0],"offset":-1}`, `{"vector":[1,0],"id":"e"}`, `{"id":"nobody"}`, `{"like":["nobody"]}`, `{"vector":[1,0],"K":1}`, `{"vector":[1,0],"recall":2}`,
		`{"vector":[1,0],"group":{"field":"side","size":9999}}`, `{"vector":[1,0],"group":{"size":1}}`, `{"vector":[1,0],"group":"side"}`, `{"vector":[1,0],"mmr":{"lambda":2}}`,
		`{"vector":[1,0],"mmr":{"lambda":0.5},"k":1000}`, `{"vector":[1,0],"fusion":{"method":"x"}}`, `{"text":"sun","fusion":{"depth":100000}}`, `{"vector":[1,0],"include":["all"]}`,
		`{"vector":[1,0],"vector":[0,1]}`, `{"vector":[1,0],"embedding":[0,1]}`, `{"vector":[1,0],"where":{"a":{"$x":1}}}`, `{"vector":[1,0],"why_not":["a"]}`} {
		if a := s.ask("POST", "/collections/c/search", bad); a.status != 400 {
			t.Errorf("%s: status %d: %s", bad, a.status, a.body)
		}
	}
	s.must(400, "POST", "/collections/c/search/batch", `{"queries":[{"vector":[1,0]},{"vector":[1]}]}`)
	s.must(404, "POST", "/collections/x/search", `{"vector":[1,0]}`)
}

// TestSaidTwice: what a request says in the wrong place, twice or not at all is refused and changes
// nothing.
func TestSaidTwice(t *testing.T) {
	s := start(t, nil)
	s.must(201, "POST", "/collections", `{"name":"c"}`)
	s.must(200, "POST", "/collections/c/documents", `{"documents":[{"id":"a","vector":[1,0],"text":"first"}]}`)
	for _, request := range []struct{ method, path, body string }{
		{"POST", "/collections/c/documents?mode=insert", `{"documents":[{"id":"a","text":"second"}]}`},
		{"POST", "/collections/c/documents/delete?where=x", `{"ids":["a"]}`},
		{"POST", "/collections/c/documents/get?include=text", `{"ids":["a"]}`},
		{"POST", "/collections/c/search?k=1", `{"vector":[1,0]}`},
		{"POST", "/collections/c/search/batch?k=1", `{"queries":[{"vector":[1,0]}]}`},
		{"POST", "/collections?x=1", `{"name":"d"}`},
		{"PUT", "/collections/c/metadata?x=1", `{"metadata":{"a":1}}`},
		{"PATCH", "/collections/c/documents/a?text=x", `{"text":"second"}`},
		{"POST", "/collections/c/documents", `{"documents":[{"id":"a","embedding":[1,0],"vector":[0,1]}]}`},
		{"PATCH", "/collections/c/documents/a", `{"embedding":[1,1],"vector":[0,5]}`},
		{"POST", "/collections/c/search/batch", `{}`},
		{"POST", "/collections/c/documents/get", `{}`},
		{"POST", "/collections", `{"name":"d","embedding_model":3}`},
	} {
		if a := s.ask(request.method, request.path, request.body); a.status != 400 {
			t.Errorf("%s %s %s: %d %s", request.method, request.path, request.body, a.status, a.body)
		}
	}
	s.must(200, "POST", "/collections/c/documents/get", `{"ids":[],"include":null}`)
	s.must(200, "POST", "/collections/c/search/batch", `{"queries":[]}`)
	if d := s.must(200, "GET", "/collections/c/documents/a", ""); d["text"] != "first" {
		t.Errorf("%v", d)
	}
}

// TestOneAccuracy: a query that says two accuracies is refused by the names that it has for them.
func TestOneAccuracy(t *testing.T) {
	s := start(t, nil)
	s.must(201, "POST", "/collections", `{"name":"c"}`)
	for _, query := range []struct{ body, want string }{
		{`{"vector":[1,0],"ef":10,"recall":0.9}`, "a query has only one of 'recall' and 'ef'"},
		{`{"vector":[1,0],"exact":true,"recall":0.9}`, "a query has only one of 'exact' and 'recall'"},
		{`{"vector":[1,0],"ef":10,"exact":true}`, "a query has only one of 'exact' and 'ef'"},
	} {
		if a := s.ask("POST", "/collections/c/search", query.body); a.status != 400 || !strings.Contains(a.body, query.want) {
			t.Errorf("%s: %d %s, want %q", query.body, a.status, a.body, query.want)
		}
	}
	for _, query := range []string{ // the others have no value
		`{"vector":[1,0],"exact":false,"recall":0.9}`, `{"vector":[1,0],"exact":true,"recall":null,"ef":null}`,
	} {
		s.must(200, "POST", "/collections/c/search", query)
	}
}

func TestStreams(t *testing.T) {
	s := start(t, &server.Options{Limits: server.Limits{Body: 1 << 10}})
	s.must(201, "POST", "/collections", `{"name":"a"}`)
	s.must(201, "POST", "/collections", `{"name":"b"}`)
	if a := s.ask("GET", "/collections/a/export", ""); a.status != 200 || a.body != "" || a.header.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("empty: %+v", a)
	}
	var in strings.Builder
	for i := range 3000 { // many times the limit of a body
		fmt.Fprintf(&in, `{"id":"%04d","text":"t","metadata":{"even":%t},"vector":[%d,0.1]}`+"\n", i, i%2 == 0, i)
	}
	const stream = "application/x-ndjson"
	s.expect("import", s.must(200, "POST", "/collections/a/import", in.String(), "Content-Type", stream),
		`{"success":true,"added":3000,"updated":0,"unchanged":0,"skipped":0,"skipped_lines":[]}`)
	if out := s.ask("GET", "/collections/a/export", "").body; out != in.String() {
		t.Errorf("%d bytes exported, %d imported", len(out), in.Len())
	}
	if out := s.ask("GET", "/collections/a/export?where=%7B%22even%22%3Atrue%7D", "").body; strings.Count(out, "\n") != 1500 {
		t.Errorf("%d lines with a filter", strings.Count(out, "\n"))
	}
	s.expect("again", s.must(200, "POST", "/collections/a/import", in.String(), "Content-Type", stream)["unchanged"], `3000`)
	got := s.must(200, "POST", "/collections/b/import", `{"id":"a","vector":[1]}`+"\n"+`{"id":"b","metadata":{"$x":1}}`+"\n\n"+`{"id":"c"}`, "Content-Type", stream)
	if got["added"] != 2.0 || got["skipped"] != 1.0 || got["skipped_lines"].([]any)[0].(map[string]any)["line"] != 2.0 {
		t.Errorf("with a line that cannot be stored: %v", got)
	}
	got = s.must(200, "POST", "/collections/b/import", `{"id":"a","vector":[1]}`+"\n"+`{"id":"b","text":5}`+"\n"+`{"id":"c"}`, "Content-Type", stream)
	s.expect("a value of another type", got, `{"success":true,"added":0,"updated":0,"unchanged":2,"skipped":1,
		"skipped_lines":[{"line":2,"error":"document \"b\": offset 17: \"text\": a number instead of a string"}]}`)
	for body, status := range map[string]int{"{\"id\":\"d\"}\n{": 400, "[]": 400, "x": 400, `{"vector":[1,2]}`: 400, `{"text":"` + strings.Repeat("x", 2000) + `"}`: 413} {
		got := s.must(status, "POST", "/collections/b/import", body, "Content-Type", stream)
		if got["success"] != false || got["error"] == nil {
			t.Errorf("%.20s: %v", body, got)
		}
	}
	got = s.must(400, "POST", "/collections/b/import", `{"vector":[1]}`+"\n"+`{"id":"d","vector":[1,2]}`, "Content-Type", stream)
	if text, _ := got["error"].(string); !strings.HasPrefix(text, "line 2: dimension mismatch") {
		t.Errorf("a vector of another dimension: %v", got)
	}
	s.must(415, "POST", "/collections/b/import", "{}", "Content-Type", "text/plain")
}

func TestMetrics(t *testing.T) {
	const token = "0123456789abcdef"
	s := start(t, &server.Options{WriteToken: token})
	s.direct = true
	s.must(401, "GET", "/metrics", "")
	s.token = token
	s.must(201, "POST", "/collections", `{"name":"a\"b\\c"}`)
	s.must(201, "POST", "/collections", `{"name":"docs"}`)
	s.add("docs", `{"embedding":[1]},{"embedding":[2]}`)
	s.ask("BREW", "/coffee", "")
	s.must(404, "GET", "/collections/none", "")
	page := s.ask("GET", "/metrics", "")
	if page.status != 200 || page.header.Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		t.Fatalf("%d %v", page.status, page.header)
	}
	line := regexp.MustCompile(`^(# (HELP|TYPE) [a-z_]+ .*|[a-z_]+(\{[a-z]+="([^"\\\n]|\\["\\n])*"(,[a-z]+="([^"\\\n]|\\["\\n])*")*\})? [0-9.e+-]+)$`)
	for l := range strings.Lines(page.body) {
		if l = strings.TrimSuffix(l, "\n"); !line.MatchString(l) {
			t.Errorf("not the text format: %q", l)
		}
	}
	for _, want := range []string{
		`vecbolt_http_requests_total{route="/collections",method="POST",status="201"} 2`,
		`vecbolt_http_requests_total{route="/collections/{name}",method="GET",status="404"} 1`,
		`vecbolt_http_requests_total{route="none",method="other",status="404"} 1`,
		`vecbolt_http_requests_total{route="/metrics",method="GET",status="401"} 1`,
		`vecbolt_http_request_duration_seconds_count{route="/collections/{name}/documents"} 1`,
		`vecbolt_http_request_duration_seconds_bucket{route="/collections/{name}/documents",le="+Inf"} 1`,
		`vecbolt_documents{collection="docs"} 2`,
		`vecbolt_documents{collection="a\"b\\c"} 0`,
		`vecbolt_http_requests_in_flight 1`,
		`vecbolt_http_panics_total 0`,
		`vecbolt_failed 0`,
	} {
		if !strings.Contains(page.body, "\n"+want+"\n") {
			t.Errorf("no %s in\n%s", want, page.body)
		}
	}
}

// Answers that are sent as they grow have what those have that are sent whole.
func TestLargeAnswers(t *testing.T) {
	s := start(t, nil)
	s.must(201, "POST", "/collections", `{"name":"c","text_index":true}`)
	var docs []string
	for i := range 300 {
		docs = append(docs, fmt.Sprintf(`{"id":"%03d","text":"common word%d %s","metadata":{"n":%d},"embedding":[%d,1]}`, i, i, strings.Repeat("x", 4000), i, i))
	}
	s.add("c", strings.Join(docs, ","))
	check := func(list []any, i int, id string, score bool) {
		t.Helper()
		d := list[i].(map[string]any)
		text, _ := d["text"].(string)
		if d["id"] != id || !strings.HasPrefix(text, "common word") || len(text) < 4000 || d["metadata"].(map[string]any)["n"] == nil || d["embedding"] == nil || score != (d["score"] != nil) {
			t.Errorf("document %d: %.100v", i, d)
		}
	}
	const include = `"include":["text","metadata","embedding"]`
	got := s.must(200, "GET", "/collections/c/documents?limit=250&offset=10&include=text,metadata,embedding", "")
	if got["count"] != 250.0 || got["total"] != 300.0 || got["next"] != "259" {
		t.Errorf("page: %v %v %v", got["count"], got["total"], got["next"])
	}
	for i := range 250 {
		check(got["documents"].([]any), i, fmt.Sprintf("%03d", i+10), false)
	}
	got = s.must(200, "POST", "/collections/c/documents/get", `{"ids":[`+strings.Repeat(`"299","none",`, 200)+`"000"],`+include+`}`)
	if got["count"] != 201.0 || len(got["missing"].([]any)) != 200 {
		t.Errorf("by id: %v", got["count"])
	}
	check(got["documents"].([]any), 200, "000", false)

	small := s.must(200, "POST", "/collections/c/search", `{"vector":[1,0],"k":16,`+include+`}`)
	large := s.must(200, "POST", "/collections/c/search", `{"vector":[1,0],"k":300,`+include+`}`)
	if diff := cmp.Diff(small["hits"], large["hits"].([]any)[:16]); diff != "" {
		t.Errorf("the best hits of a few and of many differ:\n%s", diff)
	}
	for i := range 300 {
		check(large["hits"].([]any), i, fmt.Sprintf("%03d", 299-i), true)
	}
	texts := s.must(200, "POST", "/collections/c/search", `{"text":"common","vector":[1,0],"k":100,"snippet":20,"include":["id"]}`)["hits"].([]any)
	if hit := texts[99].(map[string]any); len(texts) != 100 || hit["text"] != nil || hit["snippet"].(map[string]any)["text"] == "" || len(hit["legs"].([]any)) != 2 {
		t.Errorf("hybrid: %v", texts[len(texts)-1])
	}
	batch := s.must(200, "POST", "/collections/c/search/batch", `{"queries":[{"vector":[1,0],"k":16,`+include+`},{"vector":[1,0],"k":1,"include":["id"]}]}`)["results"].([]any)
	if diff := cmp.Diff(small["hits"], batch[0].(map[string]any)["hits"]); diff != "" {
		t.Errorf("a query alone and in a batch:\n%s", diff)
	}
	s.expect("second of the batch", batch[1].(map[string]any)["hits"].([]any)[0].(map[string]any)["text"], `null`)
	if e := s.must(200, "POST", "/collections/c/explain", `{"vector":[1,0],"k":200,`+include+`}`); len(e["hits"].([]any)) != 200 || e["stages"] == nil {
		t.Errorf("explain: %v", e["count"])
	}
}

// What does not exist is answered with what does, beside the message.
func TestExisting(t *testing.T) {
	s := start(t, nil)
	for _, name := range []string{"notes", "pets", "plants"} {
		s.must(201, "POST", "/collections", `{"name":"`+name+`"}`)
	}
	collections := []any{"notes", "pets", "plants"}
	for _, tt := range []struct {
		status             int
		method, path, body string
		existing           []any
		nearest            any // nil: none is plain
	}{
		{404, "GET", "/collections/note", "", collections, "notes"},
		{404, "GET", "/collections/zebra", "", collections, nil},
		{404, "POST", "/collections/PLANTS/search", `{"text":"x"}`, collections, "plants"},
		{404, "GET", "/providers/vecbold", "", []any{"vecbolt"}, "vecbolt"},
		{400, "POST", "/collections", `{"nam":"x"}`, []any{"dimension", "embedding_model", "embedding_provider", "index", "metadata", "metric", "name", "text_index"}, "name"},
		{400, "POST", "/collections", `{"name":"x","text_index":{"lang":"german"}}`, []any{"b", "fields", "k1", "language"}, "language"},
		{400, "POST", "/collections/notes/documents", `{"docs":[]}`, []any{"documents", "embedding_model", "embedding_provider", "mode"}, nil},
		{400, "POST", "/collections/notes/documents", `{"documents":[{"ids":"a"}]}`, []any{"embedding", "id", "metadata", "text", "vector"}, "id"},
		{400, "POST", "/collections/notes/search", `{"fusion":{"metod":"rrf"}}`, []any{"c", "depth", "method", "text", "vector"}, "method"},
		{400, "POST", "/collections/notes/search", `{"group":{"fields":"x"}}`, []any{"field", "size"}, "field"},
		{400, "POST", "/collections/notes/search", `{"mmr":{"lamda":1}}`, []any{"fetch", "lambda"}, "lambda"},
	} {
		got := s.must(tt.status, tt.method, tt.path, tt.body)
		if diff := cmp.Diff([]any{tt.existing, tt.nearest}, []any{got["existing"], got["nearest"]}); diff != "" || got["error"] == nil {
			t.Errorf("%s %s %s (-want +got): %v\n%s", tt.method, tt.path, tt.body, got, diff)
		}
	}
	// Every member of a query that the service reads is listed.
	got := s.must(400, "POST", "/collections/notes/search", `{"zzzzzzzzzzzzzzzz":1}`)
	if list := got["existing"].([]any); len(list) != 19 || !slices.Contains(list, any("threshold")) {
		t.Errorf("%d members: %v", len(list), list)
	}
	// The message of other errors stands alone.
	if got := s.must(404, "GET", "/collections/notes/documents/a", ""); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

// An answer that is not exact has three figures for its recall, an exact one the first.
func TestRecallOfAnswers(t *testing.T) {
	s := start(t, nil)
	s.must(201, "POST", "/collections", `{"name":"c","text_index":true}`)
	c, err := s.db.Collection("c")
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	docs := make([]db.Document, 4000) // too many for whole rankings of a hybrid query
	for i := range docs {
		docs[i].Text = fmt.Sprintf("w%d w%d w%d", rng.IntN(20), rng.IntN(20), rng.IntN(20))
		docs[i].Vector = make([]float32, 1024)
		for j := range docs[i].Vector {
			docs[i].Vector[j] = rng.Float32() - 0.5
		}
	}
	if _, err := c.Upsert(t.Context(), docs...); err != nil {
		t.Fatal(err)
	}
	query := `{"text":"w1 w2 w3","vector":[` + strings.TrimSuffix(strings.Repeat("0.5,-1,", 512), ",") +
		`],"k":10,"fusion":{"method":"rrf","vector":0.5,"text":0.5},"include":["id"]`
	cut := s.must(200, "POST", "/collections/c/search", query+`}`)
	recall, usual := cut["recall"], cut["usual_recall"]
	if cut["exact"] != false || recall == nil || usual == nil || usual.(float64) < recall.(float64) || cut["poor"] == nil {
		t.Errorf("rankings that were cut off: %v, recall %v, %v, %v", cut["plan"], recall, usual, cut["poor"])
	}
	whole := s.must(200, "POST", "/collections/c/search", query+`,"exact":true}`)
	if whole["exact"] != true || whole["recall"] != 1.0 || whole["usual_recall"] != nil || whole["poor"] != nil {
		t.Errorf("whole rankings: %v, recall %v, %v, %v", whole["plan"], whole["recall"], whole["usual_recall"], whole["poor"])
	}
}
