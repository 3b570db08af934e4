package server

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/server/internal/rest"
)

// buckets are the upper bounds of the histogram of durations, in seconds.
var buckets = [...]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

// metrics count requests, for Prometheus (text format 0.0.4).
type metrics struct {
	mu     sync.Mutex
	counts map[countKey]uint64
	times  map[string]*histogram // by route
	panics uint64
}

// countKey is the set of labels of a request counter. Clients cannot add values, so its size is
// bounded.
type countKey struct {
	route, method string
	status        int
}

type histogram struct {
	buckets [len(buckets)]uint64
	count   uint64
	sum     float64
}

// methods are counted by name; all other methods together.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

func (m *metrics) observe(method, pattern string, status int, took time.Duration) {
	if !slices.Contains(methods, method) {
		method = "other"
	}
	route := pattern
	if _, path, ok := strings.Cut(pattern, " "); ok {
		route = path
	}
	route = cmp.Or(route, "none")
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.counts == nil {
		m.counts, m.times = map[countKey]uint64{}, map[string]*histogram{}
	}
	m.counts[countKey{route, method, status}]++
	h := m.times[route]
	if h == nil {
		h = &histogram{}
		m.times[route] = h
	}
	seconds := took.Seconds()
	h.count++
	h.sum += seconds
	for i := range buckets {
		if seconds <= buckets[i] {
			h.buckets[i]++ // buckets are cumulative
		}
	}
}

// An exposition is a page in the text format.
type exposition struct{ strings.Builder }

func (e *exposition) head(name, kind, help string) {
	fmt.Fprintf(e, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// one writes a metric with one value and no labels.
func (e *exposition) one(name, kind, help string, value any) {
	e.head(name, kind, help)
	e.sample(name, value)
}

// sample writes one line; labels alternates names and values.
func (e *exposition) sample(name string, value any, labels ...string) {
	e.WriteString(name)
	for i := 0; i < len(labels); i += 2 {
		e.WriteString([]string{"{", ","}[min(i, 1)])
		fmt.Fprintf(e, `%s="%s"`, labels[i], labelEscapes.Replace(strings.ToValidUTF8(labels[i+1], "\ufffd")))
	}
	if len(labels) > 0 {
		e.WriteByte('}')
	}
	fmt.Fprintf(e, " %v\n", value)
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func (m *metrics) write(e *exposition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.head("vecbolt_http_requests_total", "counter", "Answered requests.")
	for _, k := range slices.SortedFunc(maps.Keys(m.counts), func(a, b countKey) int {
		return cmp.Or(cmp.Compare(a.route, b.route), cmp.Compare(a.method, b.method), cmp.Compare(a.status, b.status))
	}) {
		e.sample("vecbolt_http_requests_total", m.counts[k], "route", k.route, "method", k.method,
			"status", fmt.Sprint(k.status))
	}
	const duration = "vecbolt_http_request_duration_seconds"
	e.head(duration, "histogram", "Time from the header of a request to the end of the answer.")
	for _, route := range slices.Sorted(maps.Keys(m.times)) {
		h := m.times[route]
		for i, n := range h.buckets {
			e.sample(duration+"_bucket", n, "route", route, "le", fmt.Sprint(buckets[i]))
		}
		e.sample(duration+"_bucket", h.count, "route", route, "le", "+Inf")
		e.sample(duration+"_sum", h.sum, "route", route)
		e.sample(duration+"_count", h.count, "route", route)
	}
	e.head("vecbolt_http_panics_total", "counter", "Requests that ended in a panic.")
	e.sample("vecbolt_http_panics_total", m.panics)
}

func (s *Server) showMetrics(w http.ResponseWriter, r *http.Request) error {
	if err := rest.NoParameters(r); err != nil {
		return err
	}
	var e exposition
	s.metrics.write(&e)
	reading, writing := len(s.reads.taken)+len(s.checks.taken), len(s.writes.taken)+len(s.mixed.taken)
	e.one("vecbolt_http_requests_in_flight", "gauge", "Requests in progress.", reading+writing)
	e.one("vecbolt_http_writes_in_flight", "gauge", "Requests in progress that write, or may write.", writing)
	e.one("vecbolt_http_memory_bytes", "gauge", "Estimated memory of requests in progress.", s.memory.Load())
	stats, err := s.db.Stats()
	if err != nil {
		return err
	}
	e.database(&stats)
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	e.one("go_goroutines", "gauge", "Goroutines.", runtime.NumGoroutine())
	e.one("go_memstats_heap_inuse_bytes", "gauge", "Bytes of the heap in use.", mem.HeapInuse)
	for _, x := range s.opts.Extensions {
		if x.Metrics != nil {
			x.Metrics(&e)
		}
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write([]byte(e.String()))
	return nil
}

// database writes the figures of the database and of each collection.
func (e *exposition) database(stats *db.Stats) {
	failed := 0
	if stats.Failed != "" {
		failed = 1
	}
	e.one("vecbolt_failed", "gauge", "1 if the database refuses writes until it is reopened.", failed)
	e.one("vecbolt_batches_total", "counter", "Write batches applied since the database was created.", stats.Batches)
	e.one("vecbolt_versions", "gauge", "Versions of the database in use by readers.", stats.Versions)
	if r := stats.Replica; r != nil {
		behind := 0
		if r.Error != "" {
			behind = 1
		}
		e.one("vecbolt_replica_version", "gauge", "Number of the served published version.", r.Version)
		e.one("vecbolt_replica_published_seconds", "gauge",
			"Time of its publication, in seconds since 1970.", r.Published.Unix())
		e.one("vecbolt_replica_checked_seconds", "gauge",
			"Time of the last check for a newer version, in seconds since 1970.", r.Checked.Unix())
		e.one("vecbolt_replica_failing", "gauge", "1 if the last check failed or its version cannot be served.", behind)
	}
	e.head("vecbolt_storage_bytes", "gauge", "Bytes on disk, and in memory for rows that are not flushed.")
	for _, part := range []struct {
		name  string
		bytes int64
	}{{"vectors", stats.VectorBytes}, {"documents", stats.MetaBytes}, {"log", stats.LogBytes},
		{"memory", stats.HeadBytes}} {
		e.sample("vecbolt_storage_bytes", part.bytes, "part", part.name)
	}
	for _, gauge := range []struct {
		name, help string
		of         func(i int) int
	}{
		{"vecbolt_documents", "Documents.", func(i int) int { return stats.Collections[i].Documents }},
		{"vecbolt_vectors", "Documents with a vector.", func(i int) int { return stats.Collections[i].Vectors }},
		{"vecbolt_segments", "Segment files.", func(i int) int { return stats.Collections[i].Segments }},
		{"vecbolt_dead_rows", "Rows of deleted or replaced documents, before compaction.",
			func(i int) int { return stats.Collections[i].DeadRows }},
	} {
		e.head(gauge.name, "gauge", gauge.help)
		for i := range stats.Collections {
			e.sample(gauge.name, gauge.of(i), "collection", stats.Collections[i].Name)
		}
	}
}
