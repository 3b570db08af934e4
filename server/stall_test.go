package server_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/dbtest"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/server"
	"github.com/vecbolt/vecbolt/server/chroma"
)

// TestUnreadBodies sends requests without their bodies, which no route reads: each is answered, and
// its connection closed.
func TestUnreadBodies(t *testing.T) {
	vdb, err := db.Open(db.Memory, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	extension := server.Extension{Pattern: "/streams/", Stream: true, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no such stream", http.StatusNotFound)
	})}
	srv, err := server.New(vdb, &server.Options{Limits: server.Limits{Time: 200 * time.Millisecond}, Extensions: []server.Extension{extension}})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(srv)
	defer web.Close()
	for request, want := range map[string]string{
		"POST /nothing HTTP/1.1\r\nContent-Length: 100":                             "404",
		"POST /collections HTTP/1.1\r\nContent-Length: 100\r\nContent-Type: text/a": "415",
		"POST /collections HTTP/1.1\r\nContent-Length: 100":                         "408",
		"GET /healthz HTTP/1.1\r\nContent-Length: 100":                              "200",
		"GET /collections HTTP/1.1\r\nTransfer-Encoding: chunked":                   "200",
		"DELETE /collections/none HTTP/1.1\r\nContent-Length: 100":                  "404",
		"POST /collections/none/import HTTP/1.1\r\nContent-Length: 100":             "404",
		"POST /streams/a HTTP/1.1\r\nContent-Length: 100":                           "404",
	} {
		t.Run(request[:strings.Index(request, " HTTP")], func(t *testing.T) {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", web.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := fmt.Fprintf(conn, "%s\r\nHost: localhost\r\n\r\n", request); err != nil {
				t.Fatal(err)
			}
			ends(t, request, func() {
				answer, err := io.ReadAll(conn) // until it is closed
				if got := string(answer); err != nil || !strings.HasPrefix(got, "HTTP/1.1 "+want) {
					t.Errorf("%q, %v", got, err)
				}
			})
		})
	}
}

// A stall is a disk that stands still: from hold to free, nothing that makes bytes durable ends.
type stall struct {
	mu   sync.Mutex
	gate chan struct{}
	met  chan struct{} // one for each operation that began to wait, as far as there is room
}

func (s *stall) hook(op vfs.Op) error {
	if op.Kind != vfs.OpSync && op.Kind != vfs.OpSyncDir {
		return nil
	}
	s.mu.Lock()
	gate := s.gate
	s.mu.Unlock()
	if gate != nil {
		select {
		case s.met <- struct{}{}:
		default:
		}
		<-gate
	}
	return nil
}

func (s *stall) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate = make(chan struct{})
}

func (s *stall) free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gate != nil {
		close(s.gate)
		s.gate = nil
	}
}

// hooked returns options with a hook.
func hooked(o db.Options, hook vfs.Hook) *db.Options {
	dbtest.SetHook(&o, hook)
	return &o
}

// patience is how long a test waits for what must not wait at all. It is no measure: what hangs
// would hang for ever.
const patience = 30 * time.Second

// ends fails unless fn returns.
func ends(t *testing.T, what string, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); fn() }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s: waits for the disk", what)
	}
}

// While the disk stands still, with more writers than there are slots, every route that reads or
// watches answers; writers are told in time; and all is well when the disk goes on.
func TestServiceWhileTheDiskStandsStill(t *testing.T) {
	disk := &stall{met: make(chan struct{}, 1)}
	vdb, err := db.Open(t.TempDir(), hooked(db.Options{Compaction: db.Manual}, disk.hook))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		disk.free()
		if err := vdb.Close(); err != nil {
			t.Error(err)
		}
	})
	const writers, slots = 12, 4
	api := chroma.New(vdb, nil)
	mixed := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := vdb.Collection("c")
		if err == nil {
			_, err = c.Upsert(context.WithoutCancel(r.Context()), db.Document{ID: "mixed", Vector: []float32{1, 1}})
		}
		if err != nil {
			t.Error(err)
		}
	})
	srv, err := server.New(vdb, &server.Options{
		Limits: server.Limits{Requests: 4, Writes: slots, Time: time.Second},
		Extensions: []server.Extension{
			{Pattern: chroma.Pattern, Handler: api, Writes: chroma.Writes},
			{Pattern: "/mixed", Handler: mixed, Writes: func(*http.Request) bool { return false }, Mixed: true},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method, path, body string) (int, string) {
		w := httptest.NewRecorder()
		srv.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
		return w.Code, w.Body.String()
	}
	must := func(status int, method, path, body string) {
		t.Helper()
		ends(t, method+" "+path, func() {
			if got, answer := ask(method, path, body); got != status {
				t.Errorf("%s %s: status %d, want %d: %s", method, path, got, status, answer)
			}
		})
	}
	must(201, "POST", "/collections", `{"name":"c","text_index":true}`)
	must(200, "POST", "/collections/c/documents", `{"documents":[{"id":"a","text":"word","metadata":{"n":1},"embedding":[1,0]},
		{"id":"old1","embedding":[1,0]},{"id":"old5","embedding":[1,0]},{"id":"old9","embedding":[1,0]}]}`)
	if err := vdb.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	must(200, "POST", "/collections/c/documents", `{"documents":[{"id":"b","text":"word","metadata":{"n":2},"embedding":[0,1]}]}`)

	disk.hold()
	var late, withdrawn, refused atomic.Int64
	var onTheirWay sync.Map // ids
	var wait sync.WaitGroup
	for i := range writers {
		wait.Go(func() {
			method, path, body := "POST", "/collections/c/documents", fmt.Sprintf(`{"documents":[{"id":"w%d","embedding":[1,1]}]}`, i)
			switch i % 4 {
			case 1:
				method, path = "DELETE", fmt.Sprintf("/collections/c/documents/old%d", i) // a missing one may need no write
			case 2:
				path, body = "/mixed", ""
			case 3:
				path = "/collections/c/import"
				body = fmt.Sprintf(`{"id":"w%d","vector":[1,1]}`, i)
			}
			w := httptest.NewRecorder()
			r := httptest.NewRequest(method, path, strings.NewReader(body))
			if strings.HasSuffix(path, "import") {
				r.Header.Set("Content-Type", "application/x-ndjson")
			}
			srv.ServeHTTP(w, r)
			switch w.Code {
			case 504:
				late.Add(1)
				if i%4 == 0 {
					onTheirWay.Store(fmt.Sprint("w", i), true)
				}
			case 503: // it waited for others
				withdrawn.Add(1)
			case 429:
				refused.Add(1)
			case 200: // it came after the disk went on: none does, or the test is not one
				t.Errorf("%s %s is acknowledged while the disk stands still: %s", method, path, w.Body)
			default:
				t.Errorf("%s %s: status %d: %s", method, path, w.Code, w.Body)
			}
		})
	}
	<-disk.met
	for range 3 { // before, while and after writers give up
		for _, path := range []string{"/healthz", "/readyz", "/health", "/stats", "/metrics", "/collections", "/collections/c", "/collections/c/documents", "/collections/c/documents?where={\"n\":1}",
			"/collections/c/documents/a", "/collections/c/export", "/collections/c/map", "/providers/vecbolt/health", "/openapi.json", "/api/v2/heartbeat", "/api/v2/tenants/default_tenant/databases/default_database/collections"} {
			must(200, "GET", path, "")
		}
		must(200, "POST", "/collections/c/search", `{"vector":[1,0],"text":"word","where":{"n":{"$gt":0}}}`)
		must(200, "POST", "/collections/c/explain", `{"vector":[1,0]}`)
		must(200, "POST", "/collections/c/documents/get", `{"ids":["a","b"]}`)
	}
	ends(t, "the writers", wait.Wait)
	if late.Load() == 0 || late.Load()+withdrawn.Load()+refused.Load() != writers {
		t.Errorf("of %d writers %d were told that their outcome is not known, %d that their time is over and %d that there are too many",
			writers, late.Load(), withdrawn.Load(), refused.Load())
	}
	// Those that were begun still hold their slots, and others wait for them: the writes go on.
	ends(t, "one more write", func() {
		code, answer := ask("POST", "/collections/c/documents", `{"documents":[{"id":"more","embedding":[1,1]}]}`)
		if code != 429 && code != 503 {
			t.Errorf("status %d: %s", code, answer)
		}
	})
	must(200, "GET", "/readyz", "")
	disk.free()
	ends(t, "a write", func() {
		for {
			code, answer := ask("POST", "/collections/c/documents", `{"documents":[{"id":"after","embedding":[1,1]}]}`)
			if code == 200 {
				return
			}
			if code != 429 {
				t.Errorf("status %d: %s", code, answer)
				return
			}
		}
	})
	must(404, "GET", "/collections/c/documents/more", "")
	onTheirWay.Range(func(id, _ any) bool { // and have arrived
		must(200, "GET", fmt.Sprint("/collections/c/documents/", id), "")
		return true
	})
}

// Figures of a database wait neither for a write in its sync nor for a flush in one.
func TestStatsWhileTheDiskStandsStill(t *testing.T) {
	for _, how := range []string{"a write", "a flush"} {
		disk := &stall{met: make(chan struct{}, 1)}
		vdb, err := db.Open(t.TempDir(), hooked(db.Options{}, disk.hook))
		if err != nil {
			t.Fatal(err)
		}
		c, err := vdb.CreateCollection(t.Context(), "c", db.Schema{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		put := func(id string) error {
			_, err := c.Upsert(context.Background(), db.Document{ID: id, Vector: []float32{1}})
			return err
		}
		if err := put("a"); err != nil {
			t.Fatal(err)
		}
		before, err := vdb.Stats()
		if err != nil {
			t.Fatal(err)
		}
		if before.HeadBytes == 0 || before.LogBytes == 0 {
			t.Errorf("%+v", before)
		}
		disk.hold()
		done := make(chan error, 1)
		go func() {
			if how == "a flush" {
				done <- vdb.Flush(context.Background())
			} else {
				done <- put("b")
			}
		}()
		<-disk.met
		ends(t, "Stats beside "+how, func() {
			if s, err := vdb.Stats(); err != nil || s.Collections[0].Documents != 1 || s.HeadBytes != before.HeadBytes {
				t.Errorf("beside %s: %v, %+v, before: %+v", how, err, s, before)
			}
		})
		disk.free()
		if err := <-done; err != nil {
			t.Error(err)
		}
		s, err := vdb.Stats()
		if err != nil || how == "a write" && s.HeadBytes <= before.HeadBytes || how == "a flush" && s.HeadBytes != 0 {
			t.Errorf("after %s: %v, %+v", how, err, s)
		}
		if err := vdb.Close(); err != nil {
			t.Error(err)
		}
	}
}
