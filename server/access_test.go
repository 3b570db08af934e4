package server_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/vectorize"
	"github.com/vecbolt/vecbolt/server"
)

const (
	readToken  = "read-read-read-read"
	writeToken = "write-write-write"
)

// Every operation of the document, without a token, with each of them, and on a service that is
// read-only.
func TestTokens(t *testing.T) {
	open := start(t, &server.Options{ReadToken: readToken, WriteToken: writeToken})
	readOnly := start(t, &server.Options{ReadOnly: true})
	n := 0
	for template, methods := range at(spec(), "paths").(map[string]any) {
		path := strings.NewReplacer("{name}", "none", "{id}", "none", "{provider}", "none").Replace(template)
		for method, op := range methods.(map[string]any) {
			n++
			method = strings.ToUpper(method)
			public := op.(map[string]any)["security"] != nil
			writes := method == "PUT" || method == "PATCH" || method == "DELETE" || slices.Contains([]string{
				"POST /collections", "POST /collections/{name}/documents", "POST /collections/{name}/documents/delete", "POST /collections/{name}/import"}, method+" "+template)
			for _, token := range []string{"", readToken, writeToken, readToken + "x", readToken[:18], "Read-read-read-read"} {
				open.token = token
				got := open.ask(method, path, "").status
				want := map[bool]int{true: 401}[!public && token != readToken && token != writeToken]
				if writes && token == readToken {
					want = 403
				}
				if want != 0 && got != want || want == 0 && (got == 401 || got == 403) {
					t.Errorf("%s %s with token %q: status %d, want %d", method, path, token, got, want)
				}
			}
			if got := readOnly.ask(method, path, "").status; writes != (got == 403) {
				t.Errorf("%s %s: status %d of a read-only service", method, path, got)
			}
		}
	}
	if n < 25 {
		t.Errorf("only %d operations", n)
	}
	open.token = ""
	for _, header := range []string{"", "Bearer", "Bearer ", "Basic " + readToken, readToken, "Bearer  " + readToken + readToken, "Bearer\t" + readToken} {
		open.must(401, "GET", "/collections", "", "Authorization", header)
	}
	open.must(200, "GET", "/collections", "", "Authorization", "bearer "+readToken)
	if a := open.ask("GET", "/collections", ""); a.header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("headers of 401: %v", a.header)
	}
	if _, err := server.New(open.db, &server.Options{ReadToken: "short"}); err == nil {
		t.Error("a short token is taken")
	}
}

// Tokens are in no answer and in no line of the log.
func TestTokensAreNotRepeated(t *testing.T) {
	var log bytes.Buffer
	s := start(t, &server.Options{ReadToken: readToken, WriteToken: writeToken, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	s.direct = true
	s.token = writeToken
	var answers strings.Builder
	for _, path := range []string{"/collections", "/none", "/metrics", "/openapi.json", "/health"} {
		answers.WriteString(s.ask("GET", path, "").body)
	}
	answers.WriteString(s.ask("POST", "/collections", "{").body)
	if text := answers.String() + log.String(); strings.Contains(text, readToken) || strings.Contains(text, writeToken) {
		t.Error("a token is repeated")
	}
	if strings.Count(log.String(), "\n") != 6 {
		t.Errorf("log:\n%s", &log)
	}
}

func TestBrowsers(t *testing.T) {
	const page = "https://app.example.com"
	closed, open, every := start(t, nil), start(t, &server.Options{Origins: []string{page}}), start(t, &server.Options{Origins: []string{"*"}})
	preflight := []string{"Origin", page, "Access-Control-Request-Method", "POST"}

	// Nothing is allowed by default: neither reading from a page, nor writing behind the back of a
	// user.
	if a := closed.ask("GET", "/collections", "", "Origin", page); a.status != 200 || a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("closed: %d %v", a.status, a.header)
	}
	closed.must(405, "OPTIONS", "/collections", "", preflight...)
	closed.must(403, "POST", "/collections", `{"name":"x"}`, "Origin", page)
	closed.must(403, "POST", "/collections", `{"name":"x"}`, "Sec-Fetch-Site", "cross-site")
	closed.must(415, "POST", "/collections", `{"name":"x"}`, "Content-Type", "text/plain") // what a form can send
	closed.must(201, "POST", "/collections", `{"name":"x"}`, "Origin", closed.url)

	if a := open.ask("OPTIONS", "/collections", "", preflight...); a.status != 204 || a.header.Get("Access-Control-Allow-Origin") != page || a.header.Get("Vary") != "Origin" ||
		!strings.Contains(a.header.Get("Access-Control-Allow-Methods"), "DELETE") || !strings.Contains(a.header.Get("Access-Control-Allow-Headers"), "Authorization") {
		t.Errorf("open: %d %v", a.status, a.header)
	}
	open.must(201, "POST", "/collections", `{"name":"x"}`, "Origin", page)
	open.must(403, "POST", "/collections", `{"name":"y"}`, "Origin", page+".evil.example")
	if a := open.ask("GET", "/collections", "", "Origin", "https://evil.example"); a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("open to all: %v", a.header)
	}
	if a := every.ask("POST", "/collections", `{"name":"x"}`, "Origin", "https://any.example"); a.status != 201 || a.header.Get("Access-Control-Allow-Origin") != "https://any.example" ||
		a.header.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("every: %d %v", a.status, a.header)
	}
	if _, err := server.New(open.db, &server.Options{Origins: []string{"app.example.com"}}); err == nil {
		t.Error("an origin without scheme is taken")
	}
}

func TestHosts(t *testing.T) {
	s := start(t, &server.Options{Hosts: []string{"localhost", "127.0.0.1", "::1"}})
	for host, status := range map[string]int{"localhost": 200, "LOCALHOST:8321": 200, "127.0.0.1:1": 200, "[::1]:8321": 200, "evil.example": 421, "localhost.evil.example:8321": 421, "127.0.0.1.nip.io": 421} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/collections", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("host %s: status %d, want %d", host, resp.StatusCode, status)
		}
	}
}

func TestReadOnlyDatabase(t *testing.T) {
	dir := t.TempDir()
	vdb, err := db.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := vdb.CreateCollection(t.Context(), "c", db.Schema{}, nil); err != nil {
		t.Fatal(err)
	}
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	if vdb, err = db.Open(dir, &db.Options{ReadOnly: true}); err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	srv, err := server.New(vdb, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &service{T: t, db: vdb, srv: srv, direct: true}
	s.must(200, "GET", "/collections/c", "")
	s.refuses(403, "create collection: read-only", "POST", "/collections", `{"name":"d"}`)
	s.must(403, "POST", "/collections/c/documents", `{"documents":[{"embedding":[1]}]}`)
}

// TestReadyRemoved: a server whose database was removed asks for no more requests, before a write
// fails. It names the directory in its log, not to everybody.
func TestReadyRemoved(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("skipped: it does not remove files that are open")
	}
	dir := filepath.Join(t.TempDir(), "db")
	vdb, err := db.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	log := new(strings.Builder)
	srv, err := server.New(vdb, &server.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	s := &service{T: t, db: vdb, srv: srv, direct: true}
	s.must(200, "GET", "/readyz", "")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	s.refuses(503, "the database cannot be used", "GET", "/readyz", "")
	if !strings.Contains(log.String(), "removed or renamed") || !strings.Contains(log.String(), dir) {
		t.Error(log)
	}
	s.must(200, "GET", "/healthz", "")
}

// Serve ends requests that are under way, and takes no others.
func TestGracefulShutdown(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-finish
		w.Header().Set("Content-Type", "text/plain")
		w.Write([]byte("whole"))
	})
	s := start(t, &server.Options{Extensions: []server.Extension{{Pattern: "/slow", Handler: slow}}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.url = "http://" + l.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.srv.Serve(ctx, l, nil) }()
	s.must(200, "GET", "/readyz", "")
	got := make(chan string)
	go func() {
		resp, err := http.Get(s.url + "/slow")
		if err != nil {
			got <- err.Error()
			return
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		got <- fmt.Sprintf("%d %s %v", resp.StatusCode, b, err)
	}()
	<-begun
	cancel()
	for { // the listener is closed soon, but when is not told
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			break
		}
		c.Close()
	}
	close(finish)
	if a := <-got; a != "200 whole <nil>" {
		t.Errorf("under way: %s", a)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	s.direct = true
	s.refuses(503, "shutting down", "GET", "/readyz", "")
	s.must(200, "GET", "/healthz", "")
}

func TestExposure(t *testing.T) {
	for addr, loopback := range map[string]bool{"127.0.0.1:0": true, "127.0.0.2:0": true, ":0": false, "0.0.0.0:0": false} {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Skipf("skipped: cannot listen on %s: %v", addr, err)
		}
		defer l.Close()
		if err := new(server.Options).CheckExposure(l); errors.Is(err, server.ErrExposed) == loopback {
			t.Errorf("%s: %v", addr, err)
		}
		if err := (&server.Options{ReadToken: readToken}).CheckExposure(l); err != nil {
			t.Errorf("%s with a token: %v", addr, err)
		}
	}
}

// Over TLS, by HTTP/2 and by HTTP/1.1.
func TestTLS(t *testing.T) {
	template := httptest.NewTLSServer(nil) // for its certificate
	defer template.Close()
	s := start(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.srv.Serve(ctx, l, &tls.Config{Certificates: template.TLS.Certificates}) }()
	roots := template.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	for _, h2 := range []bool{true, false} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: h2}}
		for range 3 {
			resp, err := client.Get("https://" + l.Addr().String() + "/collections")
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != 200 || resp.ProtoMajor != map[bool]int{true: 2, false: 1}[h2] {
				t.Errorf("h2 %t: status %d by %s", h2, resp.StatusCode, resp.Proto)
			}
		}
		client.CloseIdleConnections()
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// A limit that makes no sense is refused, whichever it is.
func TestLimitsAreValidated(t *testing.T) {
	all := reflect.TypeFor[server.Limits]()
	for i := range all.NumField() {
		var l server.Limits
		reflect.ValueOf(&l).Elem().Field(i).SetInt(-1)
		_, err := server.New(nil, &server.Options{Limits: l})
		if !errors.Is(err, db.ErrInvalid) || !strings.Contains(err.Error(), all.Field(i).Name) {
			t.Errorf("%s: -1: %v", all.Field(i).Name, err)
		}
	}
}

// TestFailedModel: clients are told whether the model failed or its configuration is wrong, the log
// also why.
func TestFailedModel(t *testing.T) {
	t.Setenv("GEMINI_API_KEY", "")
	t.Setenv("GOOGLE_API_KEY", "")
	for name, test := range map[string]struct {
		provider      string
		answer        int
		misconfigured bool
		log           string
	}{
		"refused":          {"openai", http.StatusBadRequest, false, "it answers no"},
		"wrong key":        {"openai", http.StatusUnauthorized, true, "it answers no"},
		"unknown model":    {"openai", http.StatusNotFound, true, "it answers no"},
		"no key":           {"gemini", 0, true, "requires an API key"},
		"unknown provider": {"nowhere", 0, true, "provider not found"},
	} {
		t.Run(name, func(t *testing.T) {
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.answer)
				io.WriteString(w, `{"error":{"message":"it answers no"}}`)
			}))
			defer api.Close()
			log := make(lines, 10)
			model := &embed.Config{Provider: test.provider, Model: "m", Dimensions: 2}
			if test.answer != 0 {
				model.Settings = map[string]any{"api_base": api.URL}
			}
			s := start(t, &server.Options{Logger: slog.New(slog.NewTextHandler(log, nil)),
				Models: vectorize.New(vectorize.Options{Default: model})})
			s.must(201, "POST", "/collections", `{"name":"c"}`)
			a := s.ask("POST", "/collections/c/documents", `{"documents":[{"id":"a","text":"text"}]}`)
			status, want := http.StatusBadGateway, `{"error":"the model of the collection failed"}`+"\n"
			if test.misconfigured {
				status, want = http.StatusInternalServerError, `{"error":"the model of the collection is not configured correctly"}`+"\n"
			}
			if a.status != status || a.body != want {
				t.Errorf("%d %s", a.status, a.body)
			}
			for line := range log { // a request is logged after it is answered
				if strings.Contains(line, "path=/collections/c/documents") {
					if !strings.Contains(line, test.log) {
						t.Error("the log does not tell why:", line)
					}
					break
				}
			}
		})
	}
}

// lines gets the lines of a log.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}
