package bases_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/knowledge"
	"github.com/vecbolt/vecbolt/server"
	"github.com/vecbolt/vecbolt/server/bases"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	reader = "reader-reader-reader"
	writer = "writer-writer-writer"
)

// A service is a server with bases, a directory of files, and a chat model.
type service struct {
	*testing.T
	engine *knowledge.Engine
	url    string
	files  string
	model  string // its URL
	web    *httptest.Server
	log    record
}

// A record keeps what a server writes to its log.
type record struct {
	mu sync.Mutex
	strings.Builder
}

func (l *record) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.Write(b)
}

func (l *record) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.String()
}

func start(t *testing.T) *service {
	t.Helper()
	s := &service{T: t, files: filepath.Join(t.TempDir(), "files")}
	engine, err := knowledge.New(filepath.Join(t.TempDir(), "ws"), &knowledge.Options{Logger: slog.New(slog.DiscardHandler), KeepOpen: time.Hour,
		Retry: &embed.RetryOptions{Attempts: 1}})
	if err != nil {
		t.Fatal(err)
	}
	s.engine = engine
	vdb, err := db.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(vdb, &server.Options{ReadToken: reader, WriteToken: writer, Logger: slog.New(slog.NewTextHandler(&s.log, nil)), Extensions: bases.Extensions(engine, &bases.Options{Files: s.files})})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(srv)
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(string(body), "broken"):
			http.Error(w, "no such model", http.StatusInternalServerError)
		case strings.Contains(string(body), "for ever"):
			fmt.Fprintln(w, `{"message":{"content":"Cats "}}`)
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			<-r.Context().Done()
		case strings.Contains(string(body), `"stream":true`):
			fmt.Fprintln(w, `{"message":{"content":"Cats "}}`)
			fmt.Fprintln(w, `{"message":{"content":"do [1]."},"done":true,"prompt_eval_count":7,"eval_count":2}`)
		default:
			fmt.Fprintln(w, `{"message":{"content":"Cats do [1]."},"prompt_eval_count":7,"eval_count":2}`)
		}
	}))
	s.url, s.model, s.web = web.URL, model.URL, web
	t.Cleanup(func() {
		web.Close()
		model.Close()
		http.DefaultClient.CloseIdleConnections()
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
		if err := vdb.Close(); err != nil {
			t.Error(err)
		}
	})
	s.write("cats.md", "# Cats\n\nCats purr when they are content.\n")
	s.write("dogs.md", "# Dogs\n\nDogs bark at strangers.\n")
	return s
}

func (s *service) write(name, content string) {
	s.Helper()
	path := filepath.Join(s.files, name)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(content), 0o600)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// ask sends a request and returns the body of the answer.
func (s *service) ask(token string, status int, method, path, body string, header ...string) string {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		s.Errorf("%s %s %.200s: status %d instead of %d, %s, %v", method, path, body, resp.StatusCode, status, b, err)
	}
	return string(b)
}

func (s *service) expect(token string, status int, method, path, body, pattern string, header ...string) {
	s.Helper()
	if got := s.ask(token, status, method, path, body, header...); !regexp.MustCompile(`(?s)` + pattern).MatchString(got) {
		s.Errorf("%s %s %.200s: %s, want %s", method, path, body, got, pattern)
	}
}

func (s *service) learnt() *service {
	s.Helper()
	s.expect(writer, 201, "POST", "/bases", `{"name":"pets","config":{"top_k":1}}`, `"name":"pets"`)
	s.expect(writer, 200, "POST", "/bases/pets/learn", `{"paths":["."]}`, `"files":\d,"chunks":\d,"embedded":\d`)
	return s
}

func (s *service) configure(set map[string]any) {
	s.Helper()
	if _, err := s.engine.Configure(s.Context(), "pets", set); err != nil {
		s.Fatal(err)
	}
}

func TestBases(t *testing.T) {
	s := start(t)
	s.expect(reader, 200, "GET", "/bases", "", `^{"bases":\[\],"count":0,"write":false,"learn":false}`)
	s.learnt()
	for _, tt := range []struct {
		token              string
		status             int
		method, path, body string
		want               string
	}{
		{reader, 200, "GET", "/bases", "", `"bases":\[{"name":"pets","provider":"\w+","model":"[^"]+"}\],"count":1,"write":false,"learn":false}`},
		{writer, 200, "GET", "/bases", "", `"write":true,"learn":true}`},
		{reader, 200, "GET", "/bases/pets", "", `"name":"pets","config":{.*"files":2,"chunks":2,.*"stats":{"queries":0,`},
		{reader, 404, "GET", "/bases/none", "", `{"error":"Base 'none' not found","existing":\["pets"\]}`},
		{reader, 404, "GET", "/bases/none/conversations", "", `Base 'none' not found`},
		{reader, 404, "POST", "/bases/none/query", `{"question":"x"}`, `Base 'none' not found`},
		{reader, 400, "GET", "/bases/..%2f", "", `base name`},
		{reader, 404, "GET", "/bases/pets/nothing", "", `there is nothing at /bases/pets/nothing`},
		{reader, 405, "GET", "/bases/pets/ask", "", `there are POST`},
		{writer, 409, "POST", "/bases", `{"name":"pets"}`, `exists already`},
		{writer, 400, "POST", "/bases", `{"name":"../x"}`, `base name`},
		{writer, 400, "POST", "/bases", `{"nmae":"x"}`, `unknown field \\"nmae\\"`},
		{writer, 400, "POST", "/bases", `{"name":"x","config":{"topk":1}}`, `the nearest is \\"top_k\\"`},
		{writer, 403, "POST", "/bases", `{"name":"x","config":{"provider":"openai"}}`, `provider: clients cannot set this key`},
		{reader, 403, "POST", "/bases", `{"name":"x"}`, `does not allow writes`},
		{reader, 403, "DELETE", "/bases/pets", "", `does not allow writes`},
		{"", 401, "GET", "/bases", "", ``},

		{reader, 200, "POST", "/bases/pets/query", `{"question":"who purrs?"}`, `^{"chunks":\[{"id":"[^"]*cats.md#0".*"citations":\[{"number":1,.*"strategy":"hybrid"`},
		{reader, 200, "POST", "/bases/pets/query", `{"question":"who purrs?","top_k":2,"strategy":"dense"}`, `cats.md#0.*dogs.md#0.*"strategy":"dense"|dogs.md#0.*cats.md#0.*"strategy":"dense"`},
		{reader, 200, "POST", "/bases/pets/query", `{"question":"who purrs?","where":{"format":"pdf"}}`, `^{"chunks":\[\],.*"citations":\[\]`},
		{reader, 400, "POST", "/bases/pets/query", `{"question":" "}`, `'question' is required`},
		{reader, 400, "POST", "/bases/pets/query", `{"question":"x","where":{"$no":1}}`, `Invalid 'where' filter`},
		{reader, 400, "POST", "/bases/pets/query", `{"question":"x","topk":1}`, `the nearest is \\"top_k\\"`},
		{reader, 400, "POST", "/bases/pets/query", `{"question":"x","top_k":"many"}`, `want an integer from 0 to 1000000`},
		{reader, 400, "POST", "/bases/pets/query", `{"question":"x","top_k":"1"}`, `top_k: \\"1\\": want an integer from 0 to 1000000`},
		{reader, 400, "POST", "/bases/pets/query", `{"question":"x","threshold":"0.5"}`, `threshold: \\"0.5\\": want a number`},
		{writer, 400, "POST", "/bases", `{"name":"x","config":{"top_k":"1"}}`, `top_k: \\"1\\": want an integer`},
		{writer, 400, "POST", "/bases/pets/learn", `{"paths":["."],"config":{"chunk_size":"64"}}`, `want an integer`},
		{reader, 400, "POST", "/bases/pets/query", `{"question":"x","top_k":1000000}`, `at most 1000`},
		{reader, 400, "POST", "/bases/pets/query", `{"question":"x","top_k":1e9}`, `top_k: \\"1e\+09\\": want an integer`},
		{reader, 403, "POST", "/bases/pets/query", `{"question":"x","chat_url":"http://localhost:1"}`, `chat_url: a question cannot set this key`},
		{reader, 400, "POST", "/bases/pets/query", `{"question":"x","question":"y"}`, `given twice`},
		{reader, 400, "POST", "/bases/pets/query", `{`, ``},
		{reader, 400, "POST", "/bases/pets/ask", `{"question":"x"}`, `no chat_model`},

		{reader, 200, "POST", "/bases/pets/query", `{"question":"who purrs?","explain":true}`, `"stages":\[{"name":"embed","ns":\d+,"about":"[^"]+ components"},{"name":"search","ns":\d+,"about":"strategy hybrid: 1 of 2 chunks, exact .*","chunks":\[{"id":"[^"]*cats.md#0","score":[0-9.]+,"why":"vector: rank 1, .*"}\]},{"name":"context".*"why":"source 1"}\]}\]}`},

		{reader, 200, "GET", "/bases/pets/files", "", `^{"files":\[{"name":"[^"]*cats.md","chunks":1},{"name":"[^"]*dogs.md","chunks":1}\],"count":2,"total":2}`},
		{reader, 200, "GET", "/bases/pets/files?limit=1", "", `"chunks":1}\],"count":1,"total":2,"next":"[^"]*cats.md"}`},
		{reader, 400, "GET", "/bases/pets/files?limit=0", "", `limit: want an integer from 1 to 1000`},
		{reader, 400, "GET", "/bases/pets/files?limit=1&limit=2", "", `parameter \\"limit\\" is given twice`},
		{reader, 400, "GET", "/bases/pets/files?offset=1", "", `unknown parameter \\"offset\\"`},
		{reader, 404, "GET", "/bases/none/files", "", `Base 'none' not found`},
		{reader, 404, "GET", "/bases/pets/files/none.md", "", `Base 'pets' has no file 'none.md'`},
		{reader, 404, "GET", "/bases/none/files/none.md", "", `Base 'none' not found`},
		{reader, 400, "GET", "/bases/pets/files/none.md?offset=-1", "", `offset: want an integer of 0 or more`},
		{reader, 400, "GET", "/bases?x=1", "", `unknown parameter \\"x\\"`},
		{writer, 400, "DELETE", "/bases/pets?dry_run=1", "", `unknown parameter \\"dry_run\\"`},
		{reader, 200, "GET", "/bases/pets/unread", "", `^{"count":0,"unread":\[\]}`},

		{reader, 200, "GET", "/bases/pets/config", "", `{"name":"top_k","schema":{.*?},"changes":"at once","asker":true,"remote":true,"value":1}`},
		{reader, 403, "PATCH", "/bases/pets/config", `{"top_k":2}`, `does not allow writes`},
		{writer, 200, "PATCH", "/bases/pets/config", `{"top_k":2,"language":"german"}`, `"value":2}.*`},
		{writer, 403, "PATCH", "/bases/pets/config", `{"chat_url":"http://localhost:1"}`, `clients cannot set this key`},
		{writer, 400, "PATCH", "/bases/pets/config", `{"top_k":"2"}`, `top_k: \\"2\\": want an integer from 0 to 1000000`},
		{writer, 400, "PATCH", "/bases/pets/config", `{"top_k":-1}`, `top_k: -1: want an integer from 0 to 1000000`},

		{reader, 200, "GET", "/bases/pets/learn", "", `"running":false`},
		{writer, 400, "POST", "/bases/pets/learn", `{"paths":["../secret"]}`, `not a relative path below`},
		{writer, 400, "POST", "/bases/pets/learn", `{"paths":["/etc"]}`, `not a relative path below`},
		{writer, 400, "POST", "/bases/pets/learn", `{"paths":["missing"]}`, `a path does not exist`},
		{writer, 400, "POST", "/bases/pets/learn", `{"paths":["a\u0000b"]}`, `\\"a\\\\x00b\\" names no file`},
		{writer, 400, "POST", "/bases/pets/learn", `{"paths":["cats.md/x"]}`, `\\"cats.md/x\\" names no file`},
		{writer, 400, "POST", "/bases/pets/learn", `{"paths":["` + strings.Repeat("x", 5000) + `"]}`, `names no file`},
		{writer, 400, "POST", "/bases/pets/learn", `{"paths":[]}`, `'paths' is required`},
		{writer, 403, "POST", "/bases/pets/learn", `{"paths":["."],"config":{"rerank_url":"http://localhost:1"}}`, `clients cannot set this key`},
		{writer, 200, "POST", "/bases/pets/learn", `{"paths":["cats.md"],"config":{"splitter":"sentences"}}`, `"files":1`},
		{reader, 403, "POST", "/bases/pets/learn", `{"paths":["."]}`, `does not allow writes`},
	} {
		s.expect(tt.token, tt.status, tt.method, tt.path, tt.body, tt.want)
	}
	s.expect(writer, 200, "DELETE", "/bases/pets", "", `"success":true`)
	s.expect(reader, 404, "GET", "/bases/pets", "", `Base 'pets' not found`)
}

// TestFiles shows the chunks of a file, and lists the files that could not be read.
// The judged ids are the names of the files that the base has learnt.
// TestNamesOfVerbs: whoever may only read deletes nothing, whatever its name.
func TestNamesOfVerbs(t *testing.T) {
	s := start(t)
	for _, name := range []string{"query", "ask", "eval", "learn"} {
		s.ask(writer, 200, "POST", "/bases/"+name+"/learn", `{"paths": ["cats.md"]}`)
		for _, path := range []string{"", "/conversations/query", "/conversations/a%2Fquery", "/query", "/ask", "/eval"} {
			s.ask(reader, 403, "DELETE", "/bases/"+name+path, "")
		}
		s.ask(reader, 403, "PATCH", "/bases/"+name+"/config", `{"config": {"top_k": 3}}`)
		s.ask(reader, 200, "POST", "/bases/"+name+"/query", `{"question": "Who purrs?"}`)
		s.ask(writer, 200, "DELETE", "/bases/"+name, "")
	}
}

func TestEval(t *testing.T) {
	s := start(t).learnt()
	files, _, err := s.engine.Files(t.Context(), "pets", "", 10)
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	names := strings.NewReplacer("CATS", files[0].Name, "DOGS", files[1].Name)
	for _, tt := range []struct {
		status     int
		body, want string
	}{
		{200, `{"questions":[{"id":"1","text":"who purrs?"},{"id":"2","text":"who barks?"}],"qrels":{"1":{"CATS":1},"2":{"DOGS":2,"foxes.md":1}},"runs":["dense","text+top_k=2"],"metrics":["MRR@10"]}`,
			`^{"judged":"file","ids":3,"unknown":1,"queries":2,"depth":100,"runs":\[{"run":"dense","metrics":{"MRR@10":[0-9.]+}},{"run":"text\+top_k=2","metrics":{"MRR@10":1},"versus":{"run":"text\+top_k=2","baseline":"dense","metric":"MRR@10","delta":`},
		{200, `{"questions":[{"id":"1","text":"who purrs?"}],"qrels":{"1":{"CATS":1}}}`, `"runs":\[{"run":"base","metrics":{"MAP":1,.*"run":"hybrid\+mmr"`},
		{400, `{"questions":[{"id":"1","text":"who purrs?"}],"qrels":{"1":{"none.md":1}}}`, `judged relevant`},
		{400, `{"questions":[{"id":"1","text":"who purrs?"}],"qrels":{}}`, `none of the questions is judged`},
		{400, `{"questions":[],"qrels":{"1":{"CATS":1}}}`, `'questions' is required`},
		{400, `{"questions":[{"id":"1","text":" "}]}`, `question \\"1\\": want a text`},
		{400, `{"questions":[{"id":"1","text":"x"},{"id":"1","text":"y"}]}`, `id \\"1\\" is empty or given twice`},
		{400, `{"questions":[{"id":"1","text":"x"}],"metrics":["DCG"]}`, `metrics: .*DCG`},
		{400, `{"questions":[{"id":"1","text":"x"}],"metrics":["P@1000000"]}`, `at most 1000 ranks`},
		{400, `{"questions":[{"id":"1","text":"x"}],"qrels":{"1":{"CATS":1}},"runs":["base+candidates=1000000"]}`, `candidates: 1000000: want an integer of at most 1000`},
		{403, `{"questions":[{"id":"1","text":"x"}],"runs":["dense+cross-encoder+rerank_model=/etc"]}`, `rerank_model: a run cannot set this key`},
		{400, `{"questions":[{"id":"1","text":"who purrs?"}],"qrels":{"1":{"CATS":1}},"runs":["nothing"]}`, `run nothing`},
		{400, `{"question":"x"}`, `"nearest":"questions"`},
	} {
		s.expect(reader, tt.status, "POST", "/bases/pets/eval", names.Replace(tt.body), tt.want)
	}
	s.expect(reader, 404, "POST", "/bases/none/eval", `{"questions":[{"id":"1","text":"x"}],"qrels":{"1":{"cats.md":1}}}`,
		`Base 'none' not found`)
	s.expect("", 401, "POST", "/bases/pets/eval", `{}`, ``)
}

func TestFiles(t *testing.T) {
	s := start(t)
	s.write("lists.csv", "text,n\npears,1\nplums,2,3\n")
	s.write("broken.pdf", "no PDF")
	s.expect(reader, 404, "GET", "/bases/pets/files", "", `not found`)
	s.learnt()
	var files struct{ Files []knowledge.File }
	if err := json.Unmarshal([]byte(s.ask(reader, 200, "GET", "/bases/pets/files", "")), &files); err != nil || len(files.Files) != 3 {
		t.Fatal(files, err)
	}
	for _, f := range files.Files {
		path := "/bases/pets/files/" + url.PathEscape(f.Name)
		var file struct {
			Name   string
			Total  int
			Chunks []struct{ ID, Text string }
			Unread []string
		}
		if err := json.Unmarshal([]byte(s.ask(reader, 200, "GET", path, "")), &file); err != nil || file.Name != f.Name || file.Total != 1 || len(file.Chunks) != 1 ||
			file.Chunks[0].ID != f.Name+"#0" || file.Chunks[0].Text == "" || strings.HasSuffix(f.Name, ".csv") != (len(file.Unread) == 1) {
			t.Errorf("%+v, %v", file, err)
		}
		s.expect(reader, 200, "GET", path+"?offset=1", "", `"total":1,"offset":1,"chunks":\[\]}`)
	}
	s.expect(reader, 200, "GET", "/bases/pets/unread", "", `^{"count":2,"unread":\[{"file":"[^"]*broken.pdf","reason":"broken: [^"]*"},{"file":"[^"]*lists.csv","reason":"row 2: broken: [^"]*"}\]}`)
}

// TestBrokenConfig names the key, and no path of the server.
func TestBrokenConfig(t *testing.T) {
	s := start(t).learnt()
	if err := os.WriteFile(s.engine.ConfigPath("pets"), []byte("topk: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.expect(reader, 400, "POST", "/bases/pets/query", `{"question":"x"}`, `^{"error":"config.yaml: invalid configuration: unknown key \\"topk\\": the nearest is \\"top_k\\""}`)
	s.expect(reader, 200, "GET", "/bases", "", `"error":"config.yaml cannot be read"`)
}

// An embedder that is configured wrongly is no model that does not answer: another request meets
// the same error.
func TestMisconfigured(t *testing.T) {
	s := start(t).learnt()
	for status, want := range map[int]int{404: 500, 401: 500, 400: 502} {
		refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		name := fmt.Sprint("b", status)
		config := fmt.Sprintf("provider: openai\nmodel: m\nembedding:\n  dimensions: 2\n  provider_config:\n    api_base: %s\n", refuses.URL)
		path := s.engine.ConfigPath(name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(config), 0o600)); err != nil {
			t.Fatal(err)
		}
		s.expect(writer, want, "POST", "/bases/"+name+"/learn", `{"paths":["cats.md"]}`, fmt.Sprint("status ", status))
		refuses.Close()
	}
}

// A reranker that fails is a model that does not answer. Clients that may write see why.
func TestRerankerFails(t *testing.T) {
	s := start(t).learnt()
	down := httptest.NewServer(http.NotFoundHandler())
	defer down.Close()
	s.configure(map[string]any{"reranker": "tei", "rerank_url": down.URL})
	s.expect(reader, 502, "POST", "/bases/pets/query", `{"question":"x"}`, `^{"error":"a model of base 'pets' does not answer"}`)
	s.expect(writer, 502, "POST", "/bases/pets/query", `{"question":"x"}`, `^{"error":"query: rerank: status 404 Not Found: 404 page not found`)
}

// A client that leaves in the middle of an answer is no failure of the model.
func TestAskAndLeave(t *testing.T) {
	s := start(t).learnt()
	s.configure(map[string]any{"chat": "ollama", "chat_url": s.model, "chat_model": "m"})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, "POST", s.url+"/bases/pets/ask", strings.NewReader(`{"question":"who purrs for ever?","stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+reader)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); !strings.Contains(lines.Text(), "Cats "); {
		if !lines.Scan() {
			t.Fatal("the answer ended: ", lines.Err())
		}
	}
	leave()
	s.web.Close() // waits for the request
	if entry := s.log.String(); strings.Contains(entry, "level=ERROR") || !strings.Contains(entry, "canceled") {
		t.Errorf("the log: %s", entry)
	}
}

// TestLinksOutside learns nothing that a symbolic link leads to.
func TestLinksOutside(t *testing.T) {
	s := start(t)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret.txt"), []byte("A secret."), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(s.files, "link")); err != nil {
		t.Skip(err)
	}
	s.expect(writer, 400, "POST", "/bases/b/learn", `{"paths":["link"]}`, `not a relative path below the directory of files`)
	s.expect(writer, 400, "POST", "/bases/b/learn", `{"paths":["link/secret.txt"]}`, `not a relative path below the directory of files`)
	s.expect(writer, 200, "POST", "/bases/b/learn", `{"paths":["."]}`, `"files":2`)
}

// TestAsk lets a model answer, at once and as a stream, and reports tokens and price.
func TestAsk(t *testing.T) {
	s := start(t).learnt()
	s.configure(map[string]any{"chat": "ollama", "chat_url": s.model, "chat_model": "m", "prompt_price": 1e6})
	s.expect(reader, 200, "POST", "/bases/pets/ask", `{"question":"who purrs?"}`, `"answer":"Cats do \[1\].","cited":\[1\]`)
	for _, how := range [][]string{{`{"question":"who purrs?","stream":true}`}, {`{"question":"who purrs?"}`, "Accept", "text/event-stream"}} {
		s.expect(reader, 200, "POST", "/bases/pets/ask", how[0], "^event: sources\ndata: {\"chunks\":\\[{.*\"citations\":\\[{.*}\n\nevent: part\ndata: {\"text\":\"Cats \"}\n\n"+
			"event: part\ndata: {\"text\":\"do \\[1\\].\"}\n\nevent: answer\ndata: {.*\"answer\":\"Cats do \\[1\\].\".*}\n\n$", how[1:]...)
	}
	s.expect(reader, 200, "POST", "/bases/pets/ask", `{"question":"who purrs?","stream":true,"explain":true}`, "^event: sources\ndata: {[^\n]*\"stages\":\\[{\"name\":\"embed\".*event: answer\n.*{\"name\":\"answer\",\"ns\":\\d+,\"about\":\"m: 1 of 1 sources cited\"}\\]}\n\n$")
	// Conversations.
	s.expect(reader, 200, "POST", "/bases/pets/ask", `{"question":"who purrs?","conversation":"x"}`, `"answer"`)
	s.expect(reader, 200, "POST", "/bases/pets/query", `{"question":"when do they?","conversation":"x"}`, `"query":"Cats do \[1\]."`)
	s.expect(reader, 200, "GET", "/bases/pets/conversations", "", `{"conversations":\[{"id":"x","topic":"Cats do \[1\].","questions":2}\],"count":1}`)
	s.ask(reader, 403, "DELETE", "/bases/pets/conversations/x", "")
	s.ask(writer, 200, "DELETE", "/bases/pets/conversations/x", "")
	s.expect(writer, 404, "DELETE", "/bases/pets/conversations/x", "", `Conversation 'x' not found`)
	// A model that fails.
	s.expect(reader, 502, "POST", "/bases/pets/ask", `{"question":"broken"}`, `a model of base 'pets' does not answer`)
	if entry := s.log.String(); !strings.Contains(entry, "level=ERROR") || !strings.Contains(entry, "no such model") {
		t.Errorf("the log does not say why: %s", entry)
	}
	s.expect(writer, 502, "POST", "/bases/pets/ask", `{"question":"broken"}`, `the chat model failed: .*no such model`)
	s.expect(reader, 200, "POST", "/bases/pets/ask", `{"question":"broken","stream":true}`, "event: sources\n.*\n\nevent: error\ndata: {\"error\":\"a model of base 'pets' does not answer\"}\n\n$")
	s.expect(reader, 502, "POST", "/bases/pets/query", `{"question":"broken","strategy":"hyde"}`, `does not answer`)

	s.expect(reader, 200, "GET", "/bases/pets", "", `"stats":{"queries":6,.*"failures":4,.*"cost":\d`)
	for token, want := range map[string]any{reader: nil, writer: s.model} {
		var config struct{ Config map[string]any }
		if err := json.Unmarshal([]byte(s.ask(token, 200, "GET", "/bases/pets", "")), &config); err != nil || config.Config["chat_url"] != want {
			t.Errorf("%v, %v", config.Config["chat_url"], err)
		}
	}
	s.expect(reader, 200, "GET", "/metrics", "", `(?m)^# TYPE vecbolt_rag_queries_total counter\nvecbolt_rag_queries_total{base="pets"} 6$.*^vecbolt_rag_failures_total{base="pets"} 4$.*`+
		`^vecbolt_rag_embedding_hits_total{base="pets"} \d+$.*^vecbolt_rag_stage_seconds_total{base="pets",stage="answer"} [0-9.e-]+$`)
	// An id that no URL can contain could not be deleted.
	for _, id := range []string{".", "..", "/"} {
		s.expect(reader, 400, "POST", "/bases/pets/query", `{"question":"who purrs?","conversation":"`+id+`"}`, `the id of a conversation is \\"`+regexp.QuoteMeta(id)+`\\": no URL can contain it`)
	}
}

// TestLimits: no question asks for more chunks than clients get, by none of its keys, nor by those
// of the base. One of its own may be within the limit.
func TestLimits(t *testing.T) {
	s := start(t).learnt()
	files, _, err := s.engine.Files(t.Context(), "pets", "", 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"top_k", "candidates", "max_siblings", "fusion_depth"} {
		refused := key + `: 1001: want an integer of at most 1000`
		bad, good := fmt.Sprintf("%q:1001", key), fmt.Sprintf("%q:1000", key)
		run := `{"questions":[{"id":"1","text":"x"}],"qrels":{"1":{%q:1}},"runs":["dense+%s=1001"]}`
		s.expect(reader, 400, "POST", "/bases/pets/query", `{"question":"who purrs?",`+bad+`}`, refused)
		s.expect(reader, 400, "POST", "/bases/pets/eval", fmt.Sprintf(run, files[0].Name, key), refused)
		s.expect(reader, 200, "POST", "/bases/pets/query", `{"question":"who purrs?",`+good+`}`, `"chunks"`)
		s.configure(map[string]any{key: 1001})
		s.expect(reader, 400, "POST", "/bases/pets/query", `{"question":"who purrs?"}`, refused)
		s.expect(reader, 400, "POST", "/bases/pets/ask", `{"question":"who purrs?"}`, refused)
		s.expect(reader, 200, "POST", "/bases/pets/query", `{"question":"who purrs?",`+good+`}`, `"chunks"`)
		s.configure(map[string]any{key: nil})
	}
}

// TestProgress learns as a stream.
func TestProgress(t *testing.T) {
	s := start(t)
	s.expect(writer, 200, "POST", "/bases/pets/learn", `{"paths":["."],"stream":true}`,
		"^event: progress\ndata: {\"started\":\"[^\"]+\",\"file\":\"cats.md\",\"files\":0,.*}\n\n(event: progress\ndata: .*\n\n)?event: report\ndata: {\"files\":2,\"chunks\":2,.*}\n\n$")
	s.expect(writer, 409, "POST", "/bases/pets/learn", `{"paths":["."]}`, `is being learnt`, "X", func() string {
		vdb, err := db.Open(filepath.Join(filepath.Dir(s.engine.ConfigPath("pets")), "index.vdb"), &db.Options{Exclusive: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := vdb.Close(); err != nil {
				t.Error(err)
			}
		})
		return "locked"
	}())
}

// TestProgressReadsNoBase: progress is told many times, so it must not cost a look at the base. A
// file that Status cannot read does not keep it away.
func TestProgressReadsNoBase(t *testing.T) {
	s := start(t).learnt()
	next := filepath.Join(filepath.Dir(s.engine.ConfigPath("pets")), "next.yaml")
	if err := os.WriteFile(next, []byte("nonsense: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.expect(reader, 400, "GET", "/bases/pets", "", `nonsense`)
	s.expect(reader, 200, "GET", "/bases/pets/learn", "", `^{"progress":null,"running":false}`)
	s.expect(reader, 404, "GET", "/bases/none/learn", "", `not found`)
	s.expect(writer, 200, "POST", "/bases/pets/learn", `{"paths":["."],"stream":true}`,
		"^event: progress\ndata: {\"started\":\"[^\"]+\",\"file\":\"cats.md\"")
}

// TestWithoutFiles refuses to learn for clients.
func TestWithoutFiles(t *testing.T) {
	engine, err := knowledge.New(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range bases.Extensions(engine, nil) {
		if e.Pattern != "/bases/{name}/learn" {
			continue
		}
		w := httptest.NewRecorder()
		e.Handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", "/bases/b/learn", strings.NewReader(`{"paths":["a"]}`)))
		if w.Code != 403 || !strings.Contains(w.Body.String(), "learns no files") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}

// TestTogether asks while files are learnt.
func TestTogether(t *testing.T) {
	s := start(t).learnt()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 10 {
				s.expect(reader, 200, "POST", "/bases/pets/query", fmt.Sprintf(`{"question":"who purrs, %d?","conversation":"%d"}`, i, i%2), `"chunks":\[{`)
			}
		})
	}
	wg.Go(func() {
		for i := range 3 {
			s.write("more.md", fmt.Sprintf("More about %d.", i))
			s.expect(writer, 200, "POST", "/bases/pets/learn", `{"paths":["."]}`, `"files":3`)
		}
	})
	wg.Wait()
	s.expect(reader, 200, "GET", "/bases/pets", "", `"queries":40,`)
}
