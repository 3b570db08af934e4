package fuzz_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/mcp"
	"github.com/vecbolt/vecbolt/server"
	"github.com/vecbolt/vecbolt/server/chroma"
	"github.com/vecbolt/vecbolt/server/inspector"
)

// A costly is a service with all its interfaces, over documents that make requests dear: a long
// text of equal words, a vector of many components, metadata of many kinds.
type costly struct {
	db     *db.DB
	srv    *server.Server
	chroma string // path of the collection in Chroma's API
}

// What one request may cost: memory that grows with its body, and processor time.
const (
	costBase      = 192 << 20 // bytes allocated whatever is asked: texts of 1.5 MB, metadata of as many values as may be
	costPerByte   = 48        // of a body; allocated in all, not at once
	costPerAgent  = 192       // of a body that the SDK of MCP decodes
	costPerAnswer = 8         // of an answer
	costPerQuery  = 184 << 20 // of a batch, from the second on: its time is what bounds a batch of many
	costTime      = 10 * time.Second
	// costAfter is the processor time allowed after a request was cancelled.
	costAfter = 3 * time.Second
	// costPatience is when a test gives up. Nothing is measured by it.
	costPatience = 2 * time.Minute
)

const longText = 1500_000

var costBody = flag.Int("costbody", 384<<10, "bytes of the larger bodies of TestCostContract")

func newCostly(tb testing.TB) *costly {
	vdb, err := db.Open(tb.TempDir(), &db.Options{
		Sync: db.SyncNever, Compaction: db.Manual, Recheck: db.Manual,
		HeadSize: 8 << 30, // no flush while something is measured
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := vdb.Close(); err != nil {
			tb.Error(err)
		}
	})
	s := &costly{db: vdb}
	write := mcp.NewServer(vdb, &mcp.Options{AllowWrite: true})
	s.srv, err = server.New(vdb, &server.Options{
		Limits: server.Limits{Time: 2 * time.Second},
		Extensions: []server.Extension{
			{Pattern: chroma.Pattern, Handler: chroma.New(vdb, nil), Writes: chroma.Writes},
			inspector.Extension(),
			{Pattern: "/mcp", Mixed: true, Writes: func(*http.Request) bool { return false },
				Handler: mcp.HandlerFunc(func(*http.Request) *sdk.Server { return write })},
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	s.fill(tb)
	return s
}

// fill sees to it that there are the documents. A request may have removed them.
func (s *costly) fill(tb testing.TB) {
	ctx := context.Background()
	infos, err := s.db.Collections()
	if err != nil {
		tb.Fatal(err)
	}
	if len(infos) > 0 && len(infos) < 6 && infos[len(infos)-1].Name == "ccc" && infos[len(infos)-1].Documents > 200 && infos[len(infos)-1].Documents < 400 {
		return
	}
	s.empty(tb)
	c, err := s.db.CreateCollection(ctx, "ccc", db.Schema{Dim: 2, Text: &db.TextIndex{}}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	docs := []db.Document{{ID: "long", Text: strings.Repeat("same ", longText/5), Vector: []float32{1, 0}, Metadata: db.Metadata{"n": 0}}}
	for i := range 300 {
		docs = append(docs, db.Document{ID: fmt.Sprint("d", i), Text: "some words of a text", Vector: []float32{1, float32(i)}, Metadata: db.Metadata{"n": i, "s": fmt.Sprint(i % 5), "l": []any{int64(1), "x"}}})
	}
	if _, err := c.Upsert(ctx, docs...); err != nil {
		tb.Fatal(err)
	}
	// The terms are made before anything is measured.
	if _, err := c.Search(ctx, db.Query{Text: "same", Where: nil}); err != nil {
		tb.Fatal(err)
	}
	const all = "/api/v2/tenants/default_tenant/databases/default_database/collections"
	w := httptest.NewRecorder()
	s.srv.ServeHTTP(w, httptest.NewRequest("GET", all+"/ccc", nil))
	var found struct{ ID string }
	if err := json.Unmarshal(w.Body.Bytes(), &found); err != nil || found.ID == "" {
		tb.Fatalf("%d %s", w.Code, w.Body)
	}
	s.chroma = all + "/" + found.ID
}

// empty drops every collection.
func (s *costly) empty(tb testing.TB) {
	infos, err := s.db.Collections()
	if err != nil {
		tb.Fatal(err)
	}
	for _, info := range infos {
		if err := s.db.Drop(context.Background(), info.Name); err != nil {
			tb.Fatal(err)
		}
	}
}

func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// A cost is what a request took.
type cost struct {
	status int
	bytes  int64
	time   time.Duration
	sent   int64
	answer string // the beginning of it

	queries int // in the body of a batch
}

// A sink takes an answer and keeps little of it.
type sink struct {
	cost
	header http.Header
	kept   []byte
}

func (w *sink) Header() http.Header { return w.header }

func (w *sink) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *sink) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.sent += int64(len(b))
	w.kept = append(w.kept, b[:min(len(b), cap(w.kept)-len(w.kept))]...)
	return len(b), nil
}

// endsWith calls then when the body has been read.
type endsWith struct {
	io.Reader
	then func()
}

func (b *endsWith) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF && b.then != nil {
		b.then()
	}
	return n, err
}

// ask sends a request and measures. A cancelled one is cancelled when its body has been read, or
// before if it has none.
func (s *costly) ask(tb testing.TB, method, path, body string, cancelled bool) cost {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	in := &endsWith{Reader: strings.NewReader(body)}
	if cancelled {
		in.then = cancel
		if body == "" {
			cancel()
		}
	}
	u, err := url.ParseRequestURI(path)
	if err != nil {
		return cost{status: 400}
	}
	r := &http.Request{Method: method, URL: u, Host: "localhost", Header: http.Header{"Accept": {"application/json, text/event-stream"}, "Content-Type": {"application/json"}},
		Body: io.NopCloser(in), ContentLength: -1, RemoteAddr: "cost", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	if strings.HasSuffix(u.Path, "/import") {
		r.Header.Set("Content-Type", "application/x-ndjson")
	}
	w := &sink{header: http.Header{}, kept: make([]byte, 0, 1<<20)}
	bytes, used := allocated(), cpuTime()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				tb.Errorf("%s %s: panic: %v", method, path, p)
			}
		}()
		s.srv.ServeHTTP(w, r.WithContext(ctx))
	}()
	select {
	case <-done:
	case <-time.After(costPatience):
		tb.Fatalf("%s %.200s with %d bytes does not end", method, path, len(body))
	}
	s.settle(tb)
	w.bytes, w.time, w.answer = int64(allocated()-bytes), cpuTime()-used, string(w.kept)
	if strings.HasSuffix(u.Path, "/batch") {
		w.queries = min(256, 1+strings.Count(body, "},{"))
	}
	return w.cost
}

// settle waits for writes that were given up: they are part of what a request costs.
func (s *costly) settle(tb testing.TB) {
	for end := time.Now().Add(costPatience); ; time.Sleep(time.Millisecond) {
		w := httptest.NewRecorder()
		s.srv.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if strings.Contains(w.Body.String(), "\nvecbolt_http_writes_in_flight 0\n") {
			return
		}
		if time.Now().After(end) {
			tb.Fatal("a write that was given up does not end")
		}
	}
}

// judge compares a cost with the budgets.
func (c cost) judge(tb testing.TB, what string, body int, most time.Duration) {
	tb.Helper()
	per := int64(costPerByte)
	if strings.Contains(what, "/mcp") {
		per = costPerAgent
	}
	budget := costBase + per*int64(body) + costPerAnswer*c.sent + costPerQuery*int64(max(0, c.queries-1))
	if c.bytes > budget {
		tb.Errorf("%.200s, %d bytes of body: %d bytes allocated, the budget is %d", what, body, c.bytes, budget)
	}
	if c.time > most {
		tb.Errorf("%.200s, %d bytes of body: %v of processor time, the budget is %v", what, body, c.time, most)
	}
	if c.status >= 500 && c.status != http.StatusServiceUnavailable && c.status != http.StatusGatewayTimeout {
		tb.Errorf("%.200s, %d bytes of body: status %d: %.300s", what, body, c.status, c.answer)
	}
}

// hostile are bodies for each route: what it takes, made as dear as it can be.
func (s *costly) hostile() map[string][]string {
	rep := strings.Repeat
	big := *costBody
	words := rep("word ", 300_000)
	objects := `{"a":` + rep(`{"b":1},`, 10)
	filters := []string{
		`{"a":"` + rep("x", big) + `"}`,
		`{"a":{"$in":[` + rep("1,", big/2) + `1]}}`,
		`{"$or":[` + rep(`{"a":1},`, big/8) + `{}]}`,
		rep(`{"$not":`, 100_000) + "{}" + rep("}", 100_000),
		`{"$text":"` + words + `"}`,
		`{"$or":[` + rep(`{"n":{"$gt":1}},`, 900) + `{"$text":"same -words"}]}`,
	}
	vectors := "[" + rep("0.5,", big/4) + "1]"
	queries := []string{
		`{"text":"` + words + `"}`, `{"text":"\"` + rep("same ", 250) + `\"","snippet":1000,"k":100}`, `{"text":"` + rep("same ", 1000) + `","snippet":1000,"k":100}`,
		`{"text":"` + rep("s* ", 100) + `"}`, `{"text":"` + rep("a-", 30_000) + `"}`, `{"vector":` + vectors + `}`, `{"vector":[1,0],"k":10000,"mmr":{"lambda":0.5,"fetch":2000}}`,
		`{"vector":[1,0],"k":10,"group":{"field":"n","size":1000}}`, `{"like":[` + rep(`"d1",`, 900) + `"d2"],"unlike":[` + rep(`"d3",`, 900) + `"d4"]}`,
		`{"vector":[1,0],"text":"same words","k":5000,"fusion":{"depth":10000},"include":["text","metadata","embedding"]}`,
	}
	for _, f := range filters {
		queries = append(queries, `{"vector":[1,0],"where":`+f+`}`)
	}
	var batches []string
	for _, q := range queries[:6] {
		batches = append(batches, `{"queries":[`+q+`,`+q+`]}`)
	}
	batches = append(batches, `{"queries":[`+rep(`{"text":"\"same same same\" words","k":5},`, 255)+`{"text":"x"}]}`)
	var conditions []string
	for _, f := range filters {
		conditions = append(conditions, `{"where":`+f+`}`)
	}
	metadata := []string{
		`{"metadata":{"a":[` + rep("1,", big/2) + `1]}}`, `{"metadata":{"a":[` + rep(`{"b":1},`, big/8) + `1]}}`, `{"metadata":` + rep(`{"a":`, 100_000) + "1" + rep("}", 100_000) + `}`, `{"metadata":{"a":"` + rep(`\u0041`, big/6) + `"}}`,
	}
	documents := []string{
		`{"documents":[` + rep(`{"embedding":[1,0]},`, 9_999) + `{"embedding":[1,0]}]}`, `{"documents":[` + rep(`{"embedding":[1,0]},`, big/20) + `{"embedding":[1,0]}]}`,
		`{"documents":[{"embedding":` + vectors + `}]}`, `{"documents":[{"embedding":[1,0],"metadata":` + objects + `{}` + `}}]}`,
	}
	for _, m := range metadata {
		documents = append(documents, `{"documents":[{"embedding":[1,0],`+m[1:]+`]}`)
	}
	ids := []string{`{"ids":[` + rep(`"d1",`, 999) + `"long"],"include":["text"]}`, `{"ids":[` + rep(`"d1",`, big/5) + `"x"]}`}
	config := []string{`{"config":{"path":` + rep("[", 60) + rep("]", 60) + `}}`, `{"config":{"path":[` + rep("1,", big/2) + `1]}}`, `{"config":{"path":[` + rep(`{"a":1},`, big/8) + `1]}}`}
	patterns := func(n int, p string) string {
		return `{"$or":[` + rep(`{"$regex":"`+p+`"},`, n) + `{"$regex":"` + p + `"}]}`
	}
	var asked []string
	for _, d := range []string{patterns(0, rep("(x{0,30}){0,30}", 60)), patterns(60, "(x{0,30}){0,30}"), patterns(30, "(same )*x"), patterns(0, "(s|a|m|e| ){0,900}x"), patterns(0, rep(`\\pL`, 300)),
		`{"$contains":"` + rep("same ", 100_000) + `x"}`, `{"$or":[` + rep(`{"$contains":"same same x"},`, 900) + `{"$contains":"y"}]}`} {
		asked = append(asked, `"where_document":`+d)
	}
	for _, f := range filters {
		asked = append(asked, `"where":`+f)
	}
	var gets, searches []string
	for _, a := range asked {
		gets = append(gets, `{`+a+`,"limit":5}`)
		searches = append(searches, `{"query_embeddings":[[1,0]],`+a+`}`)
	}
	gets = append(gets, ids...)
	searches = append(searches, `{"query_embeddings":[`+rep("[1,0],", 255)+`[1,0]],"n_results":390}`, `{"query_embeddings":[`+vectors+`]}`)
	records := []string{
		`{"ids":[` + rep(`"a",`, big/4) + `"b"],"embeddings":[[1,0]]}`, `{"ids":["a"],"embeddings":[` + vectors + `]}`, `{"ids":["a"],"embeddings":[[1,0]],"metadatas":[{"a":[` + rep("1,", big/2) + `1]}]}`,
		`{"ids":["a"],"embeddings":[[1,0]],"documents":[` + rep("null,", big/5) + `null]}`, `{"ids":["a"],"embeddings":["` + rep("A", big) + `"]}`,
	}
	names := []string{`{"name":"` + rep("x", big) + `"}`, `{"name":"fff","metadata":{"a":` + rep("[", 5000) + rep("]", 5000) + `}}`}
	call := func(tool, arguments string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `}}`
	}
	small := min(big, 3<<20) // the SDK reads 4 MiB
	agent := []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`, call("list_collections", `{}`), call("describe_collection", `{"collection":"ccc"}`),
		call("search", `{"collection":"ccc","text":"`+rep("word ", small/5)+`"}`), call("search", `{"collection":"ccc","vector":[`+rep("0.5,", small/4)+`1]}`),
		call("search", `{"collection":"ccc","text":"\"`+rep("same ", 250)+`\"","limit":50}`), call("hybrid_search", `{"collection":"ccc","text":"same words","vector":[1,0]}`),
		call("search", `{"collection":"ccc","vector":[1,0],"where":{"a":{"$in":[`+rep("1,", small/2)+`1]}}}`),
		call("get_documents", `{"collection":"ccc","ids":[`+rep(`"a",`, small/4)+`"b"]}`), call("list_documents", `{"collection":"ccc","where":{"$or":[`+rep(`{"a":1},`, small/8)+`{}]}}`),
		call("upsert_documents", `{"collection":"ccc","documents":[{"id":"a","vector":[1,0],"metadata":{"a":[`+rep("1,", small/2)+`1]}}]}`), call("delete_documents", `{"collection":"ccc","ids":[`+rep(`"none",`, 900)+`"none"]}`),
		rep("[", small), rep(" ", 32<<20),
	}
	none := []string{""}
	query := func(name, value string) string { return name + "=" + url.QueryEscape(value) }
	where := "?" + query("where", filters[5])
	routes := map[string][]string{
		"GET /healthz": none, "GET /readyz": none, "GET /health": none, "GET /stats": none, "GET /metrics": none, "GET /openapi.json": none, "GET /": none,
		"GET /providers": none, "GET /providers/{provider}": none, "GET /providers/{provider}/capabilities": none, "GET /providers/{provider}/schema": none, "GET /providers/{provider}/health": none,
		"POST /providers/{provider}/validate": config,
		"GET /collections":                    none, "POST /collections": append(names, metadata...), "GET /collections/{name}": none, "PATCH /collections/{name}": names[:1], "DELETE /collections/{name}": none,
		"PUT /collections/{name}/text_index":                  {`{"text_index":{"fields":[` + rep(`"a",`, big/4) + `"b"]}}`, `{"text_index":{"language":"` + rep("x", big) + `"}}`},
		"PUT /collections/{name}/index":                       {`{"index":"` + rep("x", big) + `"}`, `{"index":[` + rep("1,", big/2) + `1]}`},
		"PUT /collections/{name}/metadata":                    metadata,
		"POST /collections/{name}/documents":                  documents,
		"GET /collections/{name}/documents":                   none,
		"GET /collections/{name}/documents" + where:           none,
		"DELETE /collections/{name}/documents":                none,
		"POST /collections/{name}/documents/get":              ids,
		"POST /collections/{name}/documents/delete":           append([]string{`{"ids":[` + rep(`"none",`, 9_999) + `"none"]}`}, conditions[:5]...),
		"GET /collections/{name}/documents/{id}":              none,
		"PATCH /collections/{name}/documents/{id}":            {`{"text":"` + rep("same ", big/5) + `"}`, `{"set":` + metadata[0][len(`{"metadata":`):], `{"unset":[` + rep(`"a",`, big/4) + `"b"]}`, `{"embedding":` + vectors + `}`},
		"DELETE /collections/{name}/documents/{id}":           none,
		"POST /collections/{name}/search":                     queries,
		"POST /collections/{name}/search/batch":               batches,
		"POST /collections/{name}/explain":                    append(queries, `{"text":"\"same same\" words","vector":[1,0],"k":5,"why_not":[`+rep(`"d1",`, 999)+`"d2"]}`),
		"GET /collections/{name}/map":                         none,
		"GET /collections/{name}/export":                      none,
		"GET /collections/{name}/export" + where:              none,
		"POST /collections/{name}/import":                     {rep(`{"id":"a","vector":[1,0]}`+"\n", 5000), `{"id":"a","text":"` + rep("x", big), `{"id":"a","metadata":` + metadata[0][len(`{"metadata":`):], rep("\n", big)},
		"POST /mcp":                                           agent,
		"GET /api/v2/heartbeat":                               none,
		"GET /api/v2/tenants/default_tenant/databases":        none,
		"POST /api/v2/tenants":                                names[:1],
		"POST " + s.chroma[:strings.LastIndex(s.chroma, "/")]: names,
		"GET " + s.chroma[:strings.LastIndex(s.chroma, "/")]:  none,
		"GET " + s.chroma:                                     none,
		"PUT " + s.chroma:                                     {`{"new_name":"` + rep("x", big) + `"}`},
		"GET " + s.chroma + "/count":                          none,
		"POST " + s.chroma + "/get":                           gets,
		"POST " + s.chroma + "/query":                         searches,
		"POST " + s.chroma + "/delete":                        bodiesOf(asked),
		"POST " + s.chroma + "/add":                           records, "POST " + s.chroma + "/upsert": records, "POST " + s.chroma + "/update": records,
	}
	return routes
}

// bodiesOf makes bodies of conditions.
func bodiesOf(conditions []string) (bodies []string) {
	for _, c := range conditions {
		bodies = append(bodies, "{"+c+"}")
	}
	return bodies
}

// Every route keeps to its budgets whatever it is asked, and ends soon once it is cancelled.
func TestCostContract(t *testing.T) {
	s := newCostly(t)
	routes := s.hostile()
	spec := s.ask(t, "GET", "/openapi.json", "", false)
	var api struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(spec.answer), &api); err != nil {
		t.Fatal(err)
	}
	for path, methods := range api.Paths {
		for method := range methods {
			if method != "parameters" && routes[strings.ToUpper(method)+" "+path] == nil {
				t.Errorf("no hostile request for %s %s", method, path)
			}
		}
	}
	var most cost
	for _, route := range slices.Sorted(maps.Keys(routes)) {
		bodies := routes[route]
		method, path, _ := strings.Cut(route, " ")
		s.empty(t) // documents that requests before have made larger
		path = strings.NewReplacer("{name}", "ccc", "{id}", "d1", "{provider}", "vecbolt").Replace(path)
		for i, body := range bodies {
			what := fmt.Sprintf("%s, body %d", route, i)
			s.fill(t)
			if strings.HasPrefix(path, "/api/v2/") && strings.Contains(path, "/collections/") { // its id may be new
				path = s.chroma + path[len(s.chroma):]
			}
			c := s.ask(t, method, path, body, false)
			c.judge(t, what, len(body), costTime)
			most.bytes, most.time = max(most.bytes, c.bytes), max(most.time, c.time)
			if testing.Verbose() && (c.time > time.Second || c.bytes > 64<<20) {
				t.Logf("%.150s: status %d, %d MB, %v, body %d kB: %.100s", what, c.status, c.bytes>>20, c.time, len(body)>>10, c.answer)
			}
			s.fill(t)
			s.ask(t, method, path, body, true).judge(t, what+", cancelled", len(body), costAfter)
		}
	}
	t.Logf("the dearest: %d MB, %v", most.bytes>>20, most.time)
}

// costRoutes are what FuzzHTTPCost asks.
var costRoutes = []string{
	"POST /collections", "PUT /collections/ccc/metadata", "POST /collections/ccc/documents", "POST /collections/ccc/documents/get", "POST /collections/ccc/documents/delete", "PATCH /collections/ccc/documents/d1",
	"POST /collections/ccc/search", "POST /collections/ccc/search/batch", "POST /collections/ccc/explain", "POST /collections/ccc/import", "POST /providers/vecbolt/validate", "POST /mcp",
	"POST {chroma}/get", "POST {chroma}/query", "POST {chroma}/delete", "POST {chroma}/add", "POST {chroma}/upsert", "POST {chroma}/update",
}

// FuzzHTTPCost asks with what the fuzzer makes up, a part of which comes again and again, and
// compares the cost with the budgets of TestCostContract.
func FuzzHTTPCost(f *testing.F) {
	s := newCostly(f)
	routes := s.hostile()
	for i, route := range costRoutes {
		route = strings.NewReplacer("/ccc", "/{name}", "/d1", "/{id}", "/vecbolt", "/{provider}", "{chroma}", s.chroma).Replace(route)
		for _, body := range routes[route] {
			f.Add(byte(i), []byte(body[:min(len(body), 2000)]), uint16(len(body)/3%2000), uint16(8), uint16(1000))
		}
	}
	f.Add(byte(12), []byte(`{"where_document":{"$regex":"(x{0,30}){0,30}"}}`), uint16(28), uint16(15), uint16(60))
	f.Add(byte(6), []byte(`{"text":"\"same same\"","snippet":100}`), uint16(10), uint16(5), uint16(50_000))
	f.Add(byte(6), []byte(`{"vector":[1,0],"where":{"$not":{}}}`), uint16(25), uint16(8), uint16(2000))
	f.Fuzz(func(t *testing.T, route byte, body []byte, from, length, times uint16) {
		lo := min(int(from), len(body))
		hi := min(lo+int(length), len(body))
		const most = 256 << 10
		n := min(int(times), most/max(1, hi-lo))
		made := string(body[:lo]) + strings.Repeat(string(body[lo:hi]), n) + string(body[hi:])
		s.fill(t)
		method, path, _ := strings.Cut(costRoutes[int(route)%len(costRoutes)], " ")
		path = strings.Replace(path, "{chroma}", s.chroma, 1)
		what := method + " " + path
		s.ask(t, method, path, made, false).judge(t, what, len(made), costTime)
	})
}
