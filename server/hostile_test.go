package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/server"
)

// refused expects a status from 400 to 499, and an error in JSON unless net/http has refused the
// request by itself.
func refused(t *testing.T, what string, a answer) {
	t.Helper()
	what = fmt.Sprintf("%.120q", what)
	if a.status < 400 || a.status > 499 {
		t.Errorf("%s: status %d: %.200s", what, a.status, a.body)
	}
	var e struct{ Error string }
	if err := json.Unmarshal([]byte(a.body), &e); (err != nil || e.Error == "") && !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain") {
		t.Errorf("%s: status %d, body %.200s", what, a.status, a.body)
	}
}

// hostile has a collection with one document.
func hostile(t *testing.T, opts *server.Options) *service {
	s := start(t, opts)
	s.must(201, "POST", "/collections", `{"name":"c","text_index":true}`)
	s.add("c", `{"id":"a","text":"x","metadata":{"n":1},"embedding":[1,0]}`)
	return s
}

// bodies that no route takes.
func badBodies() []string {
	deep := func(open, close string, n int) string { return strings.Repeat(open, n) + strings.Repeat(close, n) }
	bad := []string{"", " ", "{", "}", "[", "]", "null", "true", "1", `"x"`, "[]", "[{}]", "{}{}", "{} x", `{"a"}`, `{"a":}`, `{"a":1,}`, `{a:1}`, `{'a':1}`, "\xef\xbb\xbf{}", "\x00", "{\"a\":\"\x00\"}",
		"\xff\xfe", "{\"\xff\":1}", `{"unknown":1}`, `{"Name":"x"}`, `{"":1}`, "// x\n{}", "<xml/>", "name=x", strings.Repeat("{", 1<<20), strings.Repeat("[", 1<<20), deep(`{"a":`, "}", 100_000), deep("[", "]", 100_000)}
	for _, field := range []string{"name", "metadata", "documents", "ids", "where", "queries", "vector", "text", "config", "set", "k", "include", "fusion", "group", "mmr", "like", "threshold", "text_index", "dimension", "mode"} {
		values := []string{"NaN", "Infinity", "-", "+1", "01", "1e", "tru", `"\x"`, `"\ud800`, "[1,]", "[[[[", "{", `{"a":1,"a":2}`, "1e999", "-1e999", "99999999999999999999", "{\"\\u0000\":{\"$\":1}}", "\"\xff\"",
			deep("[", "]", 1000), deep(`{"a":`, "}", 1000), deep(`{"$not":`, "}", 1000)}
		for _, v := range values {
			bad = append(bad, `{"`+field+`":`+v+`}`)
		}
		bad = append(bad, `{"`+field+`":1,"`+field+`":1}`, `{"`+field+`":`+strings.Repeat("1", 100_000))
	}
	return bad
}

// Every bad body to every route that takes one.
func TestBadBodies(t *testing.T) {
	s := hostile(t, nil)
	s.direct = true
	n := 0
	for template, methods := range at(spec(), "paths").(map[string]any) {
		path := strings.NewReplacer("{name}", "c", "{id}", "a", "{provider}", "vecbolt").Replace(template)
		for method := range methods.(map[string]any) {
			if at(methods, method, "requestBody", "content", "application/json") == nil {
				continue
			}
			n++
			for _, body := range badBodies() {
				a := s.ask(strings.ToUpper(method), path, body)
				if strings.HasSuffix(path, "/validate") && strings.HasPrefix(a.body, `{"valid":false`) {
					continue // that is what was asked
				}
				refused(t, method+" "+path+" "+body, a)
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d routes with a body", n)
	}
	for _, body := range badBodies() {
		if strings.TrimSpace(body) == "" {
			continue
		}
		if a := s.ask("POST", "/collections/c/import", body, "Content-Type", "application/x-ndjson"); a.status >= 500 {
			t.Errorf("import %.80q: %d %s", body, a.status, a.body)
		}
	}
	s.expect("unharmed", s.must(200, "GET", "/collections/c/documents/a", ""), `{"id":"a","text":"x","metadata":{"n":1}}`)
}

// A batch with one bad document stores none of it.
func TestNoHalfBatch(t *testing.T) {
	s := hostile(t, nil)
	for _, bad := range []string{`{"id":"x"}`, `{"embedding":[1,2,3]}`, `{"embedding":[1e39,0]}`, `{"embedding":[0,"1"]}`, `{"id":"","embedding":[0,1],"metadata":{"":1}}`, `{"embedding":[0,1],"metadata":{"$x":1}}`,
		`{"embedding":[0,1],"metadata":{"a":[[1]]}}`, `{"embedding":[0,1],"metadata":{"a":99999999999999999999}}`, `{"embedding":[0,1],"metadata":[]}`, `{"embedding":[0,1],"text":1}`, `{"embedding":[0,1],"id":1}`,
		`{"embedding":[0,1],"id":"\u0000"}`, `{"embedding":[0,1],"id":"` + strings.Repeat("x", db.MaxIDLen+1) + `"}`, `{"embedding":[0,1],"more":1}`, `{"embedding":[0,1],"metadata":{"a.b":1,"a":{"b":1}}}`, `1`, `null`, `[]`,
		`{"embedding":[0,1],"metadata":{"` + strings.Repeat("k", db.MaxKeyLen+1) + `":1}}`, `{"embedding":[0,1],"embedding":[0,1]}`, `{"embedding":[0,1],"text":"` + "\xff" + `"}`, `{"embedding":[0,1],"id":"\ud800"}`, `{"embedding":[0,1],"metadata":{"\udfff":1}}`, `{"embedding":[` + strings.Repeat("0,", db.MaxDim) + `0]}`} {
		refused(t, bad, s.ask("POST", "/collections/c/documents", `{"documents":[{"id":"before","embedding":[0,1]},`+bad+`,{"id":"after","embedding":[0,1]}]}`))
		if n := s.must(200, "GET", "/collections/c", "")["count"]; n != 1.0 {
			t.Fatalf("%.100s: %v documents", bad, n)
		}
	}
}

// raw sends bytes and reads one response.
func (s *service) raw(request string, closeWrite bool) answer {
	s.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		s.Logf("%.80q: not all of it was taken: %v", request, err)
	}
	if closeWrite {
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			s.Fatal(err)
		}
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		s.Fatalf("%.80q: %v", request, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(b)}
}

func TestPathTricks(t *testing.T) {
	s := hostile(t, nil)
	long := strings.Repeat("x", 100_000)
	for _, path := range []string{"/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/collections/../../etc/passwd", "/collections/..%2f..%2fetc%2fpasswd", "/collections/%2e%2e%2f", "//collections", "/collections//c",
		"/collections/./c", "/./collections", "/collections/c/../c", "/collections/%00", "/collections/c%00", "/collections/%ff%fe", "/collections/%0d%0aX-Injected:1", "/collections/" + long, "/collections/c/documents/" + long,
		"/collections/c/documents/%00", "/collections/c/documents/%2e%2e", "/collections/c/documents/%ff", "/collections/c/documents/..%5c..%5c", "/collections/%zz", "/collections/%", "/collections/c/documents?where=%zz",
		"/collections/c/documents?where=" + long, "/collections/c/documents?where={\"a\":1}&where={}", "/collections/c/documents?limit=1;offset=2", "/collections/c/documents?limit=1e3", "/collections/c/documents?limit=-1",
		"/collections/c/documents?offset=0x10", "/collections/c/documents?limit=", "/collections/c/documents?x", "/collections/c/documents?include=%00", "/collections/c?x=1", "/Collections", "/collections/", "/collections/c/",
		"/collections/c/documents/a/b", "/openapi.json/", "/healthz/..", "/api/../collections", "*", "collections", "/\u0000", "/collections/c/documents/a\tb", "/debug/pprof/", "/debug/vars", "/.git/config"} {
		a := s.raw("GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", false)
		refused(t, path, a)
		if a.header.Get("X-Injected") != "" {
			t.Errorf("%q injects a header", path)
		}
	}
	for _, request := range []string{
		"GET /collections HTTP/1.1\r\n\r\n",            // no host
		"GET /collections HTTP/9.9\r\nHost: x\r\n\r\n", // another protocol
		"GET  HTTP/1.1\r\nHost: x\r\n\r\n",             // no path
		"\x16\x03\x01\r\n\r\n",                         // TLS where none is spoken
		"GET /collections HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 2<<20) + "\r\n\r\n",            // a head that is too large
		"CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n",                                                        // a proxy
		"FOO /collections HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",                                // no such method
		"TRACE /collections HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",                              // nor that
		"POST /collections HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",                              // lengths
		"POST /collections HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",          // that contradict each other
		"POST /collections HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999999999\r\n\r\n",                   // too large
		"POST /collections HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", // no chunk
		"POST /collections HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",   // compressed
	} {
		a := s.raw(request, false)
		if a.status == 505 || a.status == 501 {
			continue // net/http about the protocol
		}
		refused(t, request, a)
	}
}

// hurried is another server on the same database, which gives requests hardly any time.
func (s *service) hurried(log *slog.Logger) *service {
	s.Helper()
	srv, err := server.New(s.db, &server.Options{Limits: server.Limits{Time: 50 * time.Millisecond}, Logger: log})
	if err != nil {
		s.Fatal(err)
	}
	web := httptest.NewServer(srv)
	s.Cleanup(web.Close)
	return &service{T: s.T, db: s.db, srv: srv, url: web.URL}
}

func TestBodiesThatDoNotArrive(t *testing.T) {
	s := hostile(t, &server.Options{Limits: server.Limits{Body: 1000}})
	hurried := s.hurried(nil)
	const head = "POST /collections/c/documents HTTP/1.1\r\nHost: x\r\n"
	const line = `{"id":"a","vector":[1,0]}` + "\n" // is stored already
	for _, c := range []struct{ path, body string }{
		{"documents", `{"id"`},
		{"search", `{"id"`},
		{"import", `{"id"`},
		{"import", line}, // whole, and waits for the end of the body
		{"import", line + `{"id"`},
	} {
		for _, length := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
			request := fmt.Sprintf("POST /collections/c/%s HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", c.path, length)
			if strings.HasPrefix(length, "T") {
				request += fmt.Sprintf("%x\r\n%s\r\n", len(c.body), c.body)
			} else {
				request += c.body
			}
			if a := hurried.raw(request, false); a.status != 408 {
				t.Errorf("%s, %s, nothing comes after %q: status %d: %s", c.path, length, c.body, a.status, a.body)
			}
			if a := s.raw(request, true); a.status != 400 {
				t.Errorf("%s, %s, cut off after %q: status %d: %s", c.path, length, c.body, a.status, a.body)
			}
		}
	}
	if a := s.raw(head+"Content-Length: 1001\r\n\r\n{", false); a.status != 413 {
		t.Errorf("too large by its length: status %d", a.status)
	}
	if a := s.raw(head+"Transfer-Encoding: chunked\r\n\r\n3e9\r\n"+strings.Repeat("x", 1001)+"\r\n0\r\n\r\n", false); a.status != 413 {
		t.Errorf("too large by its chunks: status %d", a.status)
	}
	s.expect("unharmed", s.must(200, "GET", "/collections/c", "")["count"], `1`)
}

func TestLimits(t *testing.T) {
	begun, finish := make(chan struct{}, 2), make(chan struct{})
	wait := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { begun <- struct{}{}; <-finish })
	s := hostile(t, &server.Options{Limits: server.Limits{Documents: 3, Hits: 20, Queries: 2, Requests: 2}, Extensions: []server.Extension{{Pattern: "/wait", Handler: wait}}})
	s.must(200, "POST", "/collections/c/documents", `{"documents":[{"embedding":[1,1]},{"embedding":[1,1]},{"embedding":[1,1]}]}`)
	s.refuses(400, "more than 3 documents in one request", "POST", "/collections/c/documents", `{"documents":[{"embedding":[1,1]},{"embedding":[1,1]},{"embedding":[1,1]},{"embedding":[1,1]}]}`)
	s.must(200, "POST", "/collections/c/search", `{"vector":[1,1],"k":20}`)
	s.refuses(400, "a query ranks at most 20 hits, those left out by 'offset' included", "POST", "/collections/c/search", `{"vector":[1,1],"k":20,"offset":1}`)
	s.refuses(400, `offset 21: "k": invalid: 0, want 1 to 20`, "POST", "/collections/c/search", `{"vector":[1,1],"k":0}`)
	s.refuses(400, `offset 39: "queries": "offset": invalid: 21, want 0 to 20`, "POST", "/collections/c/search/batch", `{"queries":[{"vector":[1,1],"offset":21}]}`)
	s.refuses(400, `offset 32: "fusion": "depth": invalid: 21, want 0 to 20`, "POST", "/collections/c/search", `{"text":"x","fusion":{"depth":21}}`)
	s.refuses(400, "more than 2 queries in one request", "POST", "/collections/c/search/batch", `{"queries":[{"vector":[1,1]},{"vector":[1,1]},{"vector":[1,1]}]}`)
	s.must(400, "POST", "/collections/c/documents/delete", `{"ids":["1","2","3","4"]}`)
	for _, q := range []string{`"k":9223372036854775807`, `"offset":9223372036854775807`, `"k":9223372036854775807,"group":{"field":"a","size":1000}`} {
		s.must(400, "POST", "/collections/c/search", `{"vector":[1,1],`+q+`}`)
	}
	s.must(200, "GET", "/collections/c/documents?offset=9223372036854775807&limit=9223372036854775807", "")
	s.must(200, "GET", "/collections/c/documents?offset=99999999999999999999999", "")

	done := make(chan struct{}, 2)
	for range 2 {
		go func() {
			s.srv.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/wait", nil))
			done <- struct{}{}
		}()
		<-begun
	}
	a := s.ask("GET", "/collections", "")
	if a.status != 429 || a.header.Get("Retry-After") != "1" {
		t.Errorf("a third request at once: %+v", a)
	}
	s.must(200, "GET", "/healthz", "")
	close(finish)
	<-done
	<-done
	s.must(200, "GET", "/collections", "")
}

// TestMemoryAtOnce has two requests keep most of the memory until another one has asked for more.
func TestMemoryAtOnce(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	keep := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, err := io.Copy(io.Discard, r.Body); n != 1900 || err != nil {
			t.Errorf("read %d bytes: %v", n, err)
		}
		begun <- struct{}{}
		<-finish
	})
	s := hostile(t, &server.Options{Limits: server.Limits{Body: 1000, Memory: 1}, Extensions: []server.Extension{{Pattern: "/keep", Handler: keep}}})
	done := make(chan struct{}, 2)
	for range 2 {
		go func() {
			s.srv.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/keep", strings.NewReader(strings.Repeat(" ", 1900))))
			done <- struct{}{}
		}()
		<-begun
	}
	body := `{"documents":[{"id":"x","embedding":[1,1]}]}`
	a := s.ask("POST", "/collections/c/documents", body)
	if a.status != 429 || a.header.Get("Retry-After") != "1" {
		t.Errorf("more than there may be at once: %+v", a)
	}
	close(finish)
	<-done
	<-done
	s.must(200, "POST", "/collections/c/documents", body)

	// The decoded size of a body is reserved, not its length.
	objects := `{"documents":[{"id":"x","embedding":[1,1],"metadata":{"a":{"b":{"c":{"d":{"e":{"f":1}}}}}}}]}`
	if a := s.ask("POST", "/collections/c/documents", objects); a.status != 413 || !strings.Contains(a.body, "bytes of memory, the limit is 2000") {
		t.Errorf("nested objects: %d %s", a.status, a.body)
	}
	if a := s.ask("GET", "/metrics", ""); !strings.Contains(a.body, "\nvecbolt_http_memory_bytes 0\n") {
		t.Errorf("memory is kept: %s", a.body)
	}
}

// A failing writer takes some bytes, and then calls what ends the request or fails itself.
type failing struct {
	*httptest.ResponseRecorder
	left int
	then func() error
}

func (w *failing) Write(b []byte) (int, error) {
	if w.left -= len(b); w.left < 0 {
		if err := w.then(); err != nil {
			return 0, err
		}
	}
	return w.ResponseRecorder.Write(b)
}

// An answer that fails on the way is cut off: nobody takes a part for the whole.
func TestAnswersThatAreCutOff(t *testing.T) {
	s := hostile(t, nil)
	var docs []string
	for i := range 500 {
		docs = append(docs, fmt.Sprintf(`{"id":"%d","text":%q,"embedding":[1,%d]}`, i, strings.Repeat("x", 4000), i))
	}
	s.add("c", strings.Join(docs, ","))
	for _, tt := range []struct{ method, path, body string }{
		{"GET", "/collections/c/export", ""},
		{"GET", "/collections/c/documents?limit=1000", ""},
		{"POST", "/collections/c/search", `{"vector":[1,0],"k":500}`},
		{"POST", "/collections/c/search/batch", `{"queries":[{"vector":[1,0],"k":500}]}`},
		{"POST", "/collections/c/explain", `{"vector":[1,0],"k":500}`},
	} {
		for _, cause := range []string{"the client has gone", "the request is cancelled"} {
			ctx, cancel := context.WithCancel(t.Context())
			w := &failing{httptest.NewRecorder(), 600 << 10, func() error {
				if cause == "the client has gone" {
					return io.ErrClosedPipe
				}
				cancel()
				return nil
			}}
			func() {
				defer func() {
					if p := recover(); p != http.ErrAbortHandler {
						t.Errorf("%s %s, %s: recovered %v", tt.method, tt.path, cause, p)
					}
				}()
				s.srv.ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, strings.NewReader(tt.body)).WithContext(ctx))
			}()
			if w.Body.Len() == 0 || json.Valid(w.Body.Bytes()) {
				t.Errorf("%s %s, %s: %d bytes", tt.method, tt.path, cause, w.Body.Len())
			}
			cancel()
		}
	}
}

// A client that does not read holds its request no longer than the limit.
func TestClientsThatDoNotRead(t *testing.T) {
	ended := make(chan string, 100)
	s := hostile(t, nil).hurried(slog.New(&paths{slog.DiscardHandler, ended}))
	coll, err := s.db.Collection("c")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 { // more than sockets hold
		if _, err := coll.Upsert(t.Context(), db.Document{ID: fmt.Sprint(i), Text: strings.Repeat("x", 1<<20)}); err != nil {
			t.Fatal(err)
		}
	}
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET /collections/c/export HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	for path := range ended { // or the test does not end
		if path == "/collections/c/export" {
			break
		}
	}
}

// paths is a handler of logs that sends the paths of requests.
type paths struct {
	slog.Handler
	to chan string
}

func (h *paths) Enabled(context.Context, slog.Level) bool { return true }

func (h *paths) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "path" {
			h.to <- a.Value.String()
		}
		return true
	})
	return nil
}

// Of a closed database every route says so.
func TestClosedDatabase(t *testing.T) {
	s := hostile(t, nil)
	if err := s.db.Close(); err != nil {
		t.Fatal(err)
	}
	s.direct = true
	for template, methods := range at(spec(), "paths").(map[string]any) {
		path := strings.NewReplacer("{name}", "c", "{id}", "a", "{provider}", "vecbolt").Replace(template)
		for method, op := range methods.(map[string]any) {
			body := ""
			if strings.Contains(template, "search") {
				body = `{"vector":[1,0]}`
			}
			if template == "/collections" && method == "post" {
				body = `{"name":"d"}`
			}
			without := template == "/healthz" || template == "/openapi.json" || strings.HasPrefix(template, "/providers") && !strings.HasSuffix(template, "/health")
			if a := s.ask(strings.ToUpper(method), path, body); (a.status == 503) == without {
				t.Errorf("%s %s: status %d: %s (%v)", method, path, a.status, a.body, at(op, "operationId"))
			}
		}
	}
}

// The decoded size of a line of an import is reserved before the line is decoded.
func TestMemoryOfImports(t *testing.T) {
	s := hostile(t, &server.Options{Limits: server.Limits{Body: 400_000, Memory: 1}}) // 800,000 bytes for one request
	line := func(id, value string) string {
		return `{"id":"` + id + `","text":"` + id + `","metadata":{"a":` + value + "}}\n"
	}
	long := line("long", `"`+strings.Repeat("[", 300_000)+`"`)
	many := strings.Repeat(line("short", "[1,2,3]"), 5_000)
	stream := []string{"Content-Type", "application/x-ndjson"}
	s.must(200, "POST", "/collections/c/import", long+many+long, stream...)

	wide := line("wide", "[1"+strings.Repeat(",1", 100_000)+"]")
	if a := s.ask("POST", "/collections/c/import", many+wide, stream...); a.status != 413 || !strings.Contains(a.body, "bytes of memory, the limit is 800000") {
		t.Errorf("100,001 numbers in a line: %d %s", a.status, a.body)
	}
	s.must(404, "GET", "/collections/c/documents/wide", "")
	if a := s.ask("GET", "/metrics", ""); !strings.Contains(a.body, "\nvecbolt_http_memory_bytes 0\n") {
		t.Errorf("memory is kept: %s", a.body)
	}
}
