package server_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/server"
)

var load = flag.Duration("load", 0, "how long the clients of TestLoad go on; 0 is a fixed number of requests")

// latencies are the times of one kind of request.
type latencies []time.Duration

func (l latencies) at(share float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	slices.Sort(l)
	return l[min(int(share*float64(len(l))), len(l)-1)]
}

// 64 clients read and write at the same time: no request fails, every client finds what it has
// written, and nothing is left running.
func TestLoad(t *testing.T) {
	const clients, dim = 64, 32
	vdb, err := db.Open(t.TempDir(), &db.Options{HeadSize: 1 << 20}) // flushes and compactions happen on the way
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	srv, err := server.New(vdb, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx, l, nil) }()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	base := "http://" + l.Addr().String()
	ask := func(method, path, body string, want int) (string, error) {
		req, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body))
		if err != nil {
			return "", err
		}
		resp, err := client.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode != want {
			err = fmt.Errorf("%s %s: status %d: %s", method, path, resp.StatusCode, b)
		}
		return string(b), err
	}
	if _, err := ask("POST", "/collections", `{"name":"c","text_index":true}`, 201); err != nil {
		t.Fatal(err)
	}

	start := time.Now()
	rounds := 8
	if testing.Short() {
		rounds = 3
	}
	more := func(i int) bool { return i < rounds }
	if *load > 0 {
		more = func(int) bool { return time.Since(start) < *load }
	}
	var mu sync.Mutex
	times := map[string]latencies{}
	var wg sync.WaitGroup
	for n := range clients {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(n), 1))
			vector := func() string {
				var v []string
				for range dim {
					v = append(v, fmt.Sprintf("%.3f", rnd.NormFloat64()))
				}
				return "[" + strings.Join(v, ",") + "]"
			}
			own := map[string]latencies{}
			timed := func(kind, method, path, body string, want int) string {
				began := time.Now()
				got, err := ask(method, path, body, want)
				if err != nil {
					t.Errorf("client %d: %v", n, err)
				}
				own[kind] = append(own[kind], time.Since(began))
				return got
			}
			for i := 0; more(i) && !t.Failed(); i++ {
				id, v := fmt.Sprintf("%d-%d", n, i%50), vector() // at most 50 documents of each client
				timed("add", "POST", "/collections/c/documents", `{"documents":[{"id":"`+id+`","text":"words of client`+fmt.Sprint(n)+`","metadata":{"client":`+fmt.Sprint(n)+`},"embedding":`+v+`}]}`, 200)
				if got := timed("search", "POST", "/collections/c/search", `{"vector":`+v+`,"k":3,"include":["id"]}`, 200); !strings.HasPrefix(got, `{"hits":[{"id":"`+id+`"`) {
					t.Errorf("client %d does not find %s: %s", n, id, got)
				}
				timed("hybrid", "POST", "/collections/c/search", `{"vector":`+v+`,"text":"client`+fmt.Sprint(n)+`","where":{"client":`+fmt.Sprint(n)+`}}`, 200)
				timed("list", "GET", fmt.Sprintf("/collections/c/documents?where=%%7B%%22client%%22%%3A%d%%7D", n), "", 200)
				timed("get", "GET", "/collections/c/documents/"+id, "", 200)
				if i%4 == 3 {
					timed("delete", "DELETE", "/collections/c/documents/"+id, "", 200)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for kind, l := range own {
				times[kind] = append(times[kind], l...)
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	total := 0
	for _, kind := range []string{"add", "search", "hybrid", "list", "get", "delete"} {
		l := times[kind]
		total += len(l)
		t.Logf("%-7s %8d requests  p50 %9v  p99 %9v  longest %9v", kind, len(l), l.at(0.5), l.at(0.99), l.at(1))
	}
	t.Logf("%d requests by %d clients in %v: %.0f a second", total, clients, took.Round(time.Millisecond), float64(total)/took.Seconds())
	client.CloseIdleConnections()
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	report, err := vdb.Check(t.Context(), db.CheckBytes)
	if err != nil || !report.OK() {
		t.Errorf("check: %v, %+v", err, report)
	}
}

// BenchmarkOverhead compares a query over HTTP with the same query of the database, by turns.
func BenchmarkOverhead(b *testing.B) {
	const rows, dim = 10_000, 384
	vdb, err := db.Open(b.TempDir(), &db.Options{Sync: db.SyncNever})
	if err != nil {
		b.Fatal(err)
	}
	defer vdb.Close()
	ctx := b.Context()
	c, err := vdb.CreateCollection(ctx, "c", db.Schema{}, nil)
	if err != nil {
		b.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	random := func() []float32 {
		v := make([]float32, dim)
		for i := range v {
			v[i] = float32(rnd.NormFloat64())
		}
		return v
	}
	for i := range rows {
		if _, err := c.Upsert(ctx, db.Document{ID: fmt.Sprint(i), Text: "a text of some words", Metadata: db.Metadata{"n": i}, Vector: random()}); err != nil {
			b.Fatal(err)
		}
	}
	if err := vdb.Flush(ctx); err != nil {
		b.Fatal(err)
	}
	srv, err := server.New(vdb, nil)
	if err != nil {
		b.Fatal(err)
	}
	web := httptest.NewServer(srv)
	defer web.Close()
	client := web.Client()
	var direct, handled, asked latencies
	for b.Loop() {
		v := random()
		body := []byte(`{"vector":` + toJSON(v) + `}`)

		ways := []func(){
			func() {
				began := time.Now()
				res, err := c.Search(ctx, db.Query{Near: db.Vector(v)})
				direct = append(direct, time.Since(began))
				if err != nil || len(res.Hits) != db.DefaultK {
					b.Fatal(err)
				}
			},
			func() {
				began := time.Now()
				w := httptest.NewRecorder()
				srv.ServeHTTP(w, httptest.NewRequest("POST", "/collections/c/search", bytes.NewReader(body)))
				handled = append(handled, time.Since(began))
				if w.Code != 200 {
					b.Fatal(w.Body)
				}
			},
			func() {
				began := time.Now()
				resp, err := client.Post(web.URL+"/collections/c/search", "application/json", bytes.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
					b.Fatal(err, resp.Status)
				}
				resp.Body.Close()
				asked = append(asked, time.Since(began))
			},
		}
		turn := len(asked)
		for i := range ways { // the first one pays for what the others find in the caches
			ways[(i+turn)%len(ways)]()
		}
	}
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
	b.ReportMetric(us(direct.at(0.5)), "direct-p50-µs")
	b.ReportMetric(us(handled.at(0.5)), "handler-p50-µs")
	b.ReportMetric(us(asked.at(0.5)), "http-p50-µs")
	b.ReportMetric(us(handled.at(0.5)-direct.at(0.5)), "handler-overhead-µs")
	b.ReportMetric(us(asked.at(0.5)-direct.at(0.5)), "http-overhead-µs")
}
