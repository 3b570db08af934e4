package pgvector

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/store"
	"github.com/vecbolt/vecbolt/store/storetest"
)

// variable names the server of the tests: a URL of a database in which they may
// make and drop schemas. tools/engines/postgres.sh starts one.
const variable = "VECBOLT_POSTGRES"

func address(t testing.TB) string {
	t.Helper()
	address := os.Getenv(variable)
	if address == "" {
		t.Skipf("%s is not set: it is the URL of a PostgreSQL server with pgvector", variable)
	}
	return address
}

// with adds parameters to an address.
func with(address, parameters string) string {
	if strings.Contains(address, "?") {
		return address + "&" + parameters
	}
	return address + "?" + parameters
}

// open connects to the server of the tests. Each test has a schema of its own.
func open(t testing.TB, o Options) *Store {
	t.Helper()
	address := address(t)
	o.Schema = regexp.MustCompile(`[^a-z]+`).ReplaceAllString("test_"+strings.ToLower(t.Name()), "_")
	s, err := Open(t.Context(), address, &o)
	if err != nil {
		t.Fatalf("%s is set, but: %v", variable, err)
	}
	drop := func() {
		conn, err := pgx.Connect(context.WithoutCancel(t.Context()), address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(context.Background(), "DROP SCHEMA IF EXISTS "+pgx.Identifier{o.Schema}.Sanitize()+" CASCADE"); err != nil {
			t.Error(err)
		}
	}
	drop() // of a run that was cut short
	t.Cleanup(func() {
		s.Close()
		drop()
	})
	return s
}

func create(t testing.TB, s *Store, name string, schema store.Schema) *collection {
	t.Helper()
	c, err := s.Create(t.Context(), name, schema)
	if err != nil {
		t.Fatal(err)
	}
	return c.(*collection)
}

func upsert(t testing.TB, c *collection, docs ...db.Document) {
	t.Helper()
	if err := c.Upsert(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
}

func TestConformance(t *testing.T) {
	for name, o := range map[string]struct {
		options Options
		expect  storetest.Options
	}{
		"exact": {},
		"hnsw":  {Options{HNSW: &HNSW{M: 16, EfConstruction: 64}}, storetest.Options{Recall: 0.95}},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) store.Store { return open(t, o.options) }, o.expect)
		})
	}
}

// Metadata whose keys are parts of one another's paths, and conditions on all of
// these paths: the server finds what filter.Match says.
func TestPaths(t *testing.T) {
	s := open(t, Options{})
	c := create(t, s, "paths", store.Schema{Dim: 1})
	const seed = 11
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, seed))
	keys := []string{"a", "b", "a.b", "b.a", "a.b.a", ".", "a.", ".b", "a..b", "\x00", "\x01", "a\x00b", "A", "a.b.a.b.a.b"}
	scalars := []any{nil, true, int64(1), 1.0, "", "a", "a\x00", "a\x01", "b", "\x01\x01", math.Copysign(0, -1), int64(0)}
	var value func(depth int) any
	value = func(depth int) any {
		if depth == 0 || rng.IntN(3) == 0 {
			if rng.IntN(5) == 0 {
				return []any{scalars[rng.IntN(len(scalars))], scalars[rng.IntN(len(scalars))]}
			}
			return scalars[rng.IntN(len(scalars))]
		}
		m := map[string]any{}
		for range 1 + rng.IntN(3) {
			m[keys[rng.IntN(len(keys))]] = value(depth - 1)
		}
		return m
	}
	var docs []db.Document
	paths := map[string]bool{"nowhere": true, "a.b.nowhere": true, "a.a.a.a.a.a.a.a.a.a": true, "b.": true, "..": true}
	for len(docs) < 250 {
		m, _ := value(6).(map[string]any)
		d := db.Document{ID: fmt.Sprint(len(docs)), Metadata: m}
		if _, err := d.Canonical(); err != nil {
			continue // two values at one path
		}
		docs = append(docs, d)
		filter.Flatten(m, func(path string, _ any) bool {
			paths[path] = true
			return true
		})
	}
	// Two maps may share a path.
	docs = append(docs,
		db.Document{ID: "two maps", Metadata: db.Metadata{"a.b": map[string]any{"x": int64(1)}, "a": map[string]any{"b": map[string]any{"y": int64(2)}}}})
	upsert(t, c, docs...)
	for i, want := range docs {
		got, err := c.Get(t.Context(), []string{want.ID})
		if err != nil {
			t.Fatal(err)
		}
		if len(want.Metadata) == 0 {
			want.Metadata = nil
		}
		if diff := cmp.Diff(&want, got[0]); diff != "" {
			t.Fatalf("document %d: %s", i, diff)
		}
	}
	var exprs []filter.Expr
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		v := scalars[rng.IntN(len(scalars))]
		exprs = append(exprs, filter.Exists(path), filter.Eq(path, v), filter.Not(filter.Contains(path, v)), filter.In(path, v, int64(1), "a"))
		switch v := v.(type) {
		case string:
			exprs = append(exprs, filter.Prefix(path, v), filter.Gt(path, v), filter.Not(filter.Lte(path, v)))
		case int64, float64:
			exprs = append(exprs, filter.Gte(path, v), filter.Not(filter.Lt(path, v)))
		}
	}
	rng.Shuffle(len(exprs), func(i, j int) { exprs[i], exprs[j] = exprs[j], exprs[i] })
	exprs = append(exprs[:min(len(exprs), 700)], filter.Eq("p.q.r.s.t", 1), filter.Exists("p.q.r.s.t.x"), filter.Eq("a.b", 1), filter.Exists("a.b.x"), filter.Exists("a.b.y"), filter.Eq("a.b.y", 2),
		filter.Eq(strings.Repeat("a.", filter.MaxPath/2)+"a", 1), filter.Not(filter.Exists(strings.Repeat("x", filter.MaxPath))))
	matched := 0
	for _, e := range exprs {
		want := 0
		for i := range docs {
			if store.Matches(e, &docs[i]) {
				want++
			}
		}
		got, err := c.Count(t.Context(), e)
		if err != nil || got != want {
			t.Errorf("%.200s: %d documents, want %d, %v", e, got, want, err)
		}
		if 0 < want && want < len(docs) {
			matched++
		}
	}
	t.Logf("%d conditions, of which %d tell documents apart", len(exprs), matched)
	if matched < 100 {
		t.Error("too few conditions tell documents apart")
	}
}

// The connections do not compile conditions, unless the address says so.
func TestJIT(t *testing.T) {
	for parameters, want := range map[string]string{
		"":                        "off",
		"jit=on":                  "on",
		"jit=off":                 "off",
		"options=-c%20jit%3Don":   "on",
		"options=-c%20geqo%3Doff": "off",
	} {
		s, err := Open(t.Context(), with(address(t), parameters), nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := query(t.Context(), s, one[string], "SHOW jit")
		s.Close()
		if err != nil || got != want {
			t.Errorf("%q: jit is %s, want %s, %v", parameters, got, want, err)
		}
	}
}

// The largest conditions that filter.Validate lets through.
func TestLargeConditions(t *testing.T) {
	s := open(t, Options{})
	c := create(t, s, "large", store.Schema{Dim: 1})
	upsert(t, c, db.Document{ID: "x", Metadata: db.Metadata{"a": map[string]any{"b": map[string]any{"c": int64(5000)}}}})
	var values []any
	for i := range filter.MaxValues {
		values = append(values, int64(i))
	}
	var many []filter.Expr
	for i := range filter.MaxExprs - 2 {
		many = append(many, filter.Gt("a.b.c", 5000+i))
	}
	for _, e := range []filter.Expr{filter.In("a.b.c", values...), filter.Not(filter.Or(many...))} {
		if n, err := c.Count(t.Context(), e); err != nil || n != 1 {
			t.Errorf("%.60s…: %d, %v", e, n, err)
		}
	}
}

// Vectors whose squares float32 does not hold have true scores, and zero vectors
// stand where their score of 0 belongs, not at the end.
func TestOddVectors(t *testing.T) {
	for name, o := range map[string]Options{"exact": {}, "hnsw": {HNSW: &HNSW{}}} {
		t.Run(name, func(t *testing.T) {
			s := open(t, o)
			c := create(t, s, "odd", store.Schema{Dim: 2})
			docs := []db.Document{
				{ID: "huge", Vector: []float32{3e38, 3e38}}, {ID: "tiny", Vector: []float32{1e-40, 0}},
				{ID: "zero", Vector: []float32{0, 0}}, {ID: "a zero", Vector: []float32{0, float32(math.Copysign(0, -1))}},
				{ID: "good", Vector: []float32{1, 0.1}}, {ID: "opposite", Vector: []float32{-1, 0}}, {ID: "none"},
			}
			for i := range 40 {
				docs = append(docs, db.Document{ID: fmt.Sprint(i), Vector: []float32{-1, float32(i)}})
			}
			upsert(t, c, docs...)
			for _, query := range [][]float32{{1, 0}, {1e30, 1e30}, {1e-42, 0}, {0, 0}} {
				for _, k := range []int{3, 5, 100} {
					got, err := c.Query(t.Context(), query, k, nil)
					if err != nil {
						t.Fatal(err)
					}
					var want []db.Hit
					score := newScorer(query)
					for _, d := range docs {
						if d.Vector != nil {
							want = append(want, db.Hit{Document: db.Document{ID: d.ID}, Score: score.score(d.Vector)})
						}
					}
					store.SortHits(want)
					if diff := cmp.Diff(want[:min(k, len(want))], got); diff != "" {
						t.Errorf("query %v, k %d (-want +got):\n%s", query, k, diff)
					}
				}
			}
		})
	}
}

// The server computes in float32, in which all of these are equally near: ids and
// true scores decide.
func TestTies(t *testing.T) {
	s := open(t, Options{})
	c := create(t, s, "ties", store.Schema{Dim: 2})
	for i := range 60 { // in descending order of id
		upsert(t, c, db.Document{ID: fmt.Sprintf("same %02d", 59-i), Vector: []float32{1, 0}})
	}
	for i := range 10 {
		upsert(t, c, db.Document{ID: fmt.Sprint(9 - i), Vector: []float32{-1, 1e-5 * float32(i)}})
	}
	for _, tt := range []struct {
		query []float32
		want  []string
	}{{[]float32{1, 0}, []string{"same 00", "same 01", "same 02"}}, {[]float32{-1, 0}, []string{"9", "8", "7"}}} {
		hits, err := c.Query(t.Context(), tt.query, 3, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, h := range hits {
			got = append(got, h.ID)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("nearest to %v: %q, want %q", tt.query, got, tt.want)
		}
	}
}

// Scores have the bits of the embedded database.
func TestScoresOfEmbedded(t *testing.T) {
	s := open(t, Options{})
	vdb, err := db.Open(t.TempDir()+"/e.vdb", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	vector := func() []float32 {
		v := make([]float32, 33)
		for i := range v {
			v[i] = rng.Float32() - 0.5
		}
		return v
	}
	var docs []db.Document
	for i := range 500 {
		docs = append(docs, db.Document{ID: fmt.Sprint(i), Vector: vector()})
	}
	query := vector()
	var answers [2][]db.Hit
	for i, s := range []store.Store{s, store.Embedded(vdb)} {
		c, err := s.Create(t.Context(), "x", store.Schema{Dim: 33})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Upsert(t.Context(), docs); err != nil {
			t.Fatal(err)
		}
		if answers[i], err = c.Query(t.Context(), query, 50, nil); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(answers[1], answers[0]); diff != "" {
		t.Error(diff)
	}
}

// The same words find the same documents as in the embedded database.
func TestWordsOfEmbedded(t *testing.T) {
	s := open(t, Options{})
	vdb, err := db.Open(t.TempDir()+"/e.vdb", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	texts := []string{"The quick brown foxes were running", "a fox ran; it's John's", "HTTPServer http_server.go server2 v1.2.3", "foo-bar/baz@example.com",
		"日本語の文章を書く", "日本", "中文 and English", "naïve café Ångström", "don't STOP", "running runs runner", "x", "1,000.50 0x1F", "e\u0301té été",
		"data-base database", "C++ c# .NET", "👍 emoji", "", "of the and", "new\nline\ttab", "ﬁne ligature", "Straße STRASSE", "l'école d'été", "ΣΊΣΥΦΟΣ σίσυφος"}
	queries := []string{"fox", "foxes", "run", "the", "the fox", "it's", "john", "http", "HTTPServer", "http_server", "server", "server2", "1.2.3", "v1", "foo", "foo-bar",
		"bar baz", "example.com", "日本", "日", "語", "文章", "中", "cafe", "CAFÉ", "angstrom", "stop", "don't", "1000", "1,000.50", "0x1F", "été", "ete", "data", "c", "c++", "net",
		"👍", "line tab", "fine", "strasse", "straße", "école", "σίσυφος", "+fox -quick", "\"quick brown\"", "ru*", "a*", "-", "zzz x", "of"}
	for _, language := range []string{"", "none", "french", "german"} {
		var docs []db.Document
		for i, text := range texts {
			docs = append(docs, db.Document{ID: fmt.Sprintf("%02d", i), Text: text, Metadata: db.Metadata{"title": texts[(i+5)%len(texts)]}})
		}
		for _, fields := range [][]string{nil, {"title"}} {
			var found [2][]string
			for i, s := range []store.Store{s, store.Embedded(vdb)} {
				name := fmt.Sprint(language, len(fields))
				c, err := s.Create(t.Context(), name, store.Schema{Dim: 1, Text: &db.TextIndex{Language: language, Fields: fields}})
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Upsert(t.Context(), docs); err != nil {
					t.Fatal(err)
				}
				for _, q := range queries {
					hits, err := c.TextQuery(t.Context(), q, 100, nil)
					if err != nil {
						t.Fatal(err)
					}
					var ids []string
					for _, h := range hits {
						ids = append(ids, h.ID)
					}
					slices.Sort(ids)
					found[i] = append(found[i], fmt.Sprintf("%s: %q finds %v", name, q, ids))
				}
			}
			if diff := cmp.Diff(found[1], found[0]); diff != "" {
				t.Errorf("-embedded +PostgreSQL\n%s", diff)
			}
		}
	}
}

func TestDimensions(t *testing.T) {
	s := open(t, Options{})
	c := create(t, s, "wide", store.Schema{Dim: MaxDim})
	wide := make([]float32, MaxDim)
	wide[7] = 1
	upsert(t, c, db.Document{ID: "x", Vector: wide})
	if hits, err := c.Query(t.Context(), wide, 1, nil); err != nil || len(hits) != 1 || hits[0].Score != 1 {
		t.Errorf("%v, %v", hits, err)
	}
	wantErr := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	_, err := s.Create(t.Context(), "too wide", store.Schema{Dim: MaxDim + 1})
	wantErr(err, "pgvector takes at most 16000")
	s.hnsw = &HNSW{}
	create(t, s, "indexed", store.Schema{Dim: MaxHNSWDim})
	_, err = s.Create(t.Context(), "too wide for an index", store.Schema{Dim: MaxHNSWDim + 1})
	wantErr(err, "takes at most 2000; without the index it is 16000")
	wantErr(s.Index(t.Context(), "wide", HNSW{}), "takes at most 2000; without the index it is 16000")
}

// explain returns the plan of a query with an empty filter, as Query sends it.
func explain(t *testing.T, c *collection, where filter.Expr) string {
	t.Helper()
	var s statement
	direction := s.arg(make([]float32, c.schema.Dim)) + "::real[]::vector"
	sql := c.nearest(s.where(where), "embedding <=> "+direction, 26)
	rows, _ := c.s.pool.Query(t.Context(), "EXPLAIN "+sql, s.args...)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// A large collection with an HNSW index: plans use it, and a condition that few
// documents meet still gets all k, because the scan goes on or starts again.
func TestHNSW(t *testing.T) {
	s := open(t, Options{})
	c := create(t, s, "large", store.Schema{Dim: 16, Text: &db.TextIndex{}})
	rng := rand.New(rand.NewPCG(3, 4))
	vector := func() []float32 {
		v := make([]float32, 16)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	var docs []db.Document
	for i := range 3000 {
		docs = append(docs, db.Document{ID: fmt.Sprint(i), Vector: vector(), Metadata: db.Metadata{"n": int64(i % 25), "half": i%2 == 0}})
	}
	upsert(t, c, docs...)
	if err := s.Index(t.Context(), "large", HNSW{M: 12}); err != nil {
		t.Fatal(err)
	}
	if err := s.Index(t.Context(), "large", HNSW{}); !errors.Is(err, db.ErrExists) {
		t.Errorf("a second index: %v", err)
	}
	c, err := s.lookup(t.Context(), "large")
	if err != nil || c.hnsw == nil || c.hnsw.M != 12 {
		t.Fatalf("%+v, %v", c, err)
	}
	if _, err := s.pool.Exec(t.Context(), "ANALYZE "+c.table); err != nil {
		t.Fatal(err)
	}
	if plan := explain(t, c, filter.Eq("half", true)); !strings.Contains(plan, "Index Scan using") || !strings.Contains(plan, "<=>") {
		t.Errorf("the plan does not use the index:\n%s", plan)
	}
	for _, tt := range []struct {
		where filter.Expr
		least float64 // recall
	}{{nil, 0.95}, {filter.Eq("half", true), 0.95}, {filter.Eq("n", 7), 0.8}, {filter.Lt("n", 1), 0.8}} {
		found, wanted := 0, 0
		for range 20 {
			query := vector()
			hits, err := c.Query(t.Context(), query, 100, tt.where)
			if err != nil {
				t.Fatal(err)
			}
			if len(hits) != 100 {
				t.Fatalf("%v: %d hits of 100", tt.where, len(hits))
			}
			score := newScorer(query)
			var want []db.Hit
			for _, d := range docs {
				if store.Matches(tt.where, &d) {
					want = append(want, db.Hit{Document: d, Score: score.score(d.Vector)})
				}
			}
			store.SortHits(want)
			for _, h := range want[:100] {
				wanted++
				if slices.ContainsFunc(hits, func(x db.Hit) bool { return x.ID == h.ID }) {
					found++
				}
			}
		}
		recall := float64(found) / float64(wanted)
		t.Logf("where %v: recall@100 %.3f", tt.where, recall)
		if recall < tt.least {
			t.Errorf("where %v: recall %.3f, want %v", tt.where, recall, tt.least)
		}
	}
	// What the settings are for: without them the index gives up early.
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off"); err != nil {
		t.Fatal(err)
	}
	var st statement
	indexed := c.nearest(st.where(filter.Eq("n", 7)), "embedding <=> "+st.arg(vector())+"::real[]::vector", 116)
	var lengths []int
	for _, settings := range []string{"SELECT 1", settings(116)} {
		if _, err := tx.Exec(t.Context(), settings); err != nil {
			t.Fatal(err)
		}
		rows, _ := tx.Query(t.Context(), indexed, st.args...)
		docs, err := collect(rows)
		if err != nil {
			t.Fatal(err)
		}
		lengths = append(lengths, len(docs))
	}
	if lengths[0] >= 116 || lengths[1] != 116 {
		t.Errorf("%d rows of 116 without the settings, %d with them", lengths[0], lengths[1])
	}

	// The index may still give up, here because it is told to; then it is not asked.
	address := with(address(t), "vecbolt_schema="+s.schema+"&options="+strings.ReplaceAll(url.QueryEscape("-c hnsw.max_scan_tuples=1 -c enable_seqscan=off -c enable_bitmapscan=off"), "+", "%20"))
	lazy, err := Open(t.Context(), address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer lazy.Close()
	again, err := lazy.Collection(t.Context(), "large")
	if err != nil {
		t.Fatal(err)
	}
	if hits, err := again.Query(t.Context(), vector(), 100, filter.Eq("n", 7)); err != nil || len(hits) != 100 {
		t.Errorf("%d hits of 100, %v", len(hits), err)
	}

	// Equality on metadata is served by an index too.
	st = statement{}
	sql := "EXPLAIN SELECT id FROM " + c.table + " WHERE " + st.where(filter.Eq("n", 7))
	if _, err := tx.Exec(t.Context(), "SET LOCAL enable_bitmapscan = on"); err != nil { // a sequential scan is cheaper for so few
		t.Fatal(err)
	}
	rows, _ := tx.Query(t.Context(), sql, st.args...)
	if lines, err := pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || !strings.Contains(strings.Join(lines, "\n"), "Bitmap Index Scan") {
		t.Errorf("equality is not served by an index: %v\n%s", err, strings.Join(lines, "\n"))
	}
}

// A call is written as a whole or not at all.
func TestAtomicUpsert(t *testing.T) {
	s := open(t, Options{})
	c := create(t, s, "x", store.Schema{Dim: 1})
	if _, err := s.pool.Exec(t.Context(), "ALTER TABLE "+c.table+" ADD CHECK (id <> 'refused')"); err != nil {
		t.Fatal(err)
	}
	var docs []db.Document
	for i := range 1200 {
		docs = append(docs, db.Document{ID: fmt.Sprint(i), Text: "x"})
	}
	if err := c.Upsert(t.Context(), append(docs, db.Document{ID: "refused"})); code(err) != "23514" {
		t.Errorf("error %v", err)
	}
	if n, err := c.Count(t.Context(), nil); err != nil || n != 0 {
		t.Errorf("%d documents of a call that failed, %v", n, err)
	}
	upsert(t, c, docs...)
	if n, err := c.Count(t.Context(), nil); err != nil || n != len(docs) {
		t.Errorf("%d documents, %v", n, err)
	}
}

// Several connections write and delete the same documents in different orders.
func TestConcurrentWrites(t *testing.T) {
	s := open(t, Options{})
	c := create(t, s, "x", store.Schema{Dim: 1, Text: &db.TextIndex{}})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 0))
			for round := range 15 {
				var docs []db.Document
				var ids []string
				for _, i := range rng.Perm(60)[:40] {
					docs = append(docs, db.Document{ID: fmt.Sprint(i), Text: fmt.Sprint("writer", w), Metadata: db.Metadata{"w": int64(w)}})
					ids = append(ids, fmt.Sprint(rng.IntN(60)))
				}
				if err := c.Upsert(t.Context(), docs); err != nil {
					t.Errorf("upsert: %v", err)
				}
				if _, err := c.Delete(t.Context(), ids[:20]); err != nil {
					t.Errorf("delete: %v", err)
				}
				if _, err := c.DeleteWhere(t.Context(), filter.Eq("w", round%4)); err != nil {
					t.Errorf("delete where: %v", err)
				}
				if _, err := c.Query(t.Context(), []float32{1}, 5, nil); err != nil {
					t.Errorf("query: %v", err)
				}
			}
		})
	}
	wg.Wait()
	page, err := c.Scan(t.Context(), "", 100, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range page.Documents {
		if d.Text != fmt.Sprint("writer", d.Metadata["w"]) {
			t.Errorf("document %q is a mixture: %v", d.ID, d)
		}
	}
}

// The first collections of a server are made by several at once.
func TestConcurrentCreate(t *testing.T) {
	s := open(t, Options{})
	made := make(chan error, 6)
	for i := range cap(made) {
		go func() {
			_, err := s.Create(t.Context(), fmt.Sprint("x", i/2), store.Schema{Dim: 1})
			made <- err
		}()
	}
	exist := 0
	for range cap(made) {
		if err := <-made; errors.Is(err, db.ErrExists) {
			exist++
		} else if err != nil {
			t.Errorf("create: %v", err)
		}
	}
	if exist != 3 {
		t.Errorf("%d of 6 collections with 3 names exist already", exist)
	}
}

// A context that ends while the server is at work ends the call, and the
// store goes on.
func TestCancellation(t *testing.T) {
	s := open(t, Options{})
	c := create(t, s, "x", store.Schema{Dim: 1})
	blocker, err := pgx.Connect(t.Context(), address(t))
	if err != nil {
		t.Fatal(err)
	}
	defer blocker.Close(context.Background())
	lock, err := blocker.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Exec(t.Context(), "LOCK TABLE "+c.table+" IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	for what, call := range map[string]func(context.Context) error{
		"query":  func(ctx context.Context) error { _, err := c.Query(ctx, []float32{1}, 1, nil); return err },
		"upsert": func(ctx context.Context) error { return c.Upsert(ctx, []db.Document{{ID: "x"}}) },
		"count":  func(ctx context.Context) error { _, err := c.Count(ctx, nil); return err },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- call(ctx) }()
		for waiting := false; !waiting; { // until the server says that the call waits for the lock
			err := blocker.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = $1::regclass)", c.table).Scan(&waiting)
			if err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	upsert(t, c, db.Document{ID: "x"})
	if n, err := c.Count(t.Context(), nil); err != nil || n != 1 {
		t.Errorf("%d documents, %v", n, err)
	}
}

// Whoever may only read, as on a replica, can do all that reads.
func TestReadOnly(t *testing.T) {
	s := open(t, Options{HNSW: &HNSW{}})
	upsert(t, create(t, s, "x", store.Schema{Dim: 1, Text: &db.TextIndex{}}), db.Document{ID: "a", Vector: []float32{1}, Text: "words"})
	r, err := Open(t.Context(), with(address(t), "options=-c%20default_transaction_read_only%3Don"), &Options{Schema: s.schema})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if info, err := r.Describe(t.Context(), "x"); err != nil || info.Documents != 1 {
		t.Errorf("%+v, %v", info, err)
	}
	c, err := r.Collection(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	hits, err := c.Query(t.Context(), []float32{1}, 1, filter.Not(filter.Exists("a.b.c.d.e.f")))
	if err != nil || len(hits) != 1 {
		t.Errorf("%v, %v", hits, err)
	}
	if hits, err = c.TextQuery(t.Context(), "word", 1, nil); err != nil || len(hits) != 1 {
		t.Errorf("%v, %v", hits, err)
	}
	if page, err := c.Scan(t.Context(), "", 1, nil); err != nil || len(page.Documents) != 1 {
		t.Errorf("%v, %v", page, err)
	}
	if err := c.Upsert(t.Context(), []db.Document{{ID: "b"}}); code(err) != "25006" {
		t.Errorf("a write: %v", err)
	}
}

// A server that restarts closes every connection: the next calls do not notice.
func TestRestart(t *testing.T) {
	s := open(t, Options{HNSW: &HNSW{}})
	c := create(t, s, "x", store.Schema{Dim: 1, Text: &db.TextIndex{}})
	admin, err := pgx.Connect(t.Context(), address(t))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.Background())
	docs := []db.Document{{ID: "a", Vector: []float32{1}, Text: "words"}}
	for _, call := range []func() (int, error){
		func() (int, error) { return 1, c.Upsert(t.Context(), docs) },
		func() (int, error) { hits, err := c.Query(t.Context(), []float32{1}, 1, nil); return len(hits), err },
		func() (int, error) { hits, err := c.Query(t.Context(), []float32{0}, 1, nil); return len(hits), err },
		func() (int, error) { hits, err := c.TextQuery(t.Context(), "word", 1, nil); return len(hits), err },
		func() (int, error) { p, err := c.Scan(t.Context(), "", 1, nil); return len(p.Documents), err },
		func() (int, error) { names, err := s.Collections(t.Context()); return len(names), err },
		func() (int, error) { i, err := s.Describe(t.Context(), "x"); return i.Documents, err },
		func() (int, error) { docs, err := c.Get(t.Context(), []string{"a"}); return len(docs), err },
		func() (int, error) { return c.Delete(t.Context(), []string{"a"}) },
	} {
		var conns []*pgxpool.Conn // several, all of which go
		var pids []uint32
		for range 3 {
			conn, err := s.pool.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			conns, pids = append(conns, conn), append(pids, conn.Conn().PgConn().PID())
		}
		if _, err := admin.Exec(t.Context(), "SELECT pg_terminate_backend(pid, 10000) FROM unnest($1::int[]) pid", pids); err != nil {
			t.Fatal(err)
		}
		for _, conn := range conns {
			conn.Release()
		}
		if n, err := call(); n != 1 || err != nil {
			t.Errorf("after a restart: %d, %v", n, err)
		}
	}
}

// Texts with what PostgreSQL cannot hold, and more than a tsvector does.
func TestTexts(t *testing.T) {
	s := open(t, Options{})
	c := create(t, s, "x", store.Schema{Dim: 1, Text: &db.TextIndex{Language: "english", Fields: []string{"title", "a.tags"}}})
	var long strings.Builder
	long.WriteString("needle ")
	for i := range 200_000 {
		fmt.Fprintf(&long, "word%d ", i)
	}
	docs := []db.Document{
		{ID: "nul", Text: "zero \x00 byte\x01\x02"}, {ID: "long", Text: long.String()},
		{ID: "quotes", Text: `it's a "quoted" \backslash's 'thing':1A`}, {ID: "again", Text: strings.Repeat("again and ", 20_000)},
		{ID: "fields", Text: "text", Metadata: db.Metadata{"title": "Retrievals", "a": map[string]any{"tags": []any{"tagged", int64(1)}}}},
		{ID: "cjk", Text: "日本語の文章"}, {ID: "accents", Text: "Le café est fermé"},
	}
	upsert(t, c, docs...)
	for _, d := range docs {
		got, err := c.Get(t.Context(), []string{d.ID})
		if err != nil || got[0].Text != d.Text {
			t.Errorf("%s: the text came back differently, %v", d.ID, err)
		}
	}
	for query, want := range map[string]string{
		"needle": "long", "word3": "long", "bytes": "nul", "quote": "quotes", "backslash": "quotes", "it's": "quotes", "AGAIN": "again", "retrieving": "fields",
		"tag": "fields", "文章": "cjk", "cafe": "accents", "fermé": "accents", "the": "", `\`: "", "';--": "",
	} {
		hits, err := c.TextQuery(t.Context(), query, 10, nil)
		if err != nil {
			t.Errorf("%q: %v", query, err)
			continue
		}
		got := ""
		for _, h := range hits {
			got += h.ID
			if !(h.Score > 0) {
				t.Errorf("%q: score %v", query, h.Score)
			}
		}
		if got != want {
			t.Errorf("%q finds %q, want %q", query, got, want)
		}
	}
}

// What opens what is there, and what does not.
func TestCatalogue(t *testing.T) {
	s := open(t, Options{})
	if names, err := s.Collections(t.Context()); err != nil || len(names) > 0 {
		t.Errorf("a store that nobody wrote to: %q, %v", names, err)
	}
	c := create(t, s, `Robert"); DROP TABLE x; --`, store.Schema{Dim: 1})
	if !strings.Contains(c.table, `"c1_robert____drop_table_x____"`) {
		t.Errorf("table %s", c.table)
	}
	if _, err := s.pool.Exec(t.Context(), "UPDATE "+s.catalogue()+" SET format = 2"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Collection(t.Context(), c.Name()); !errors.Is(err, db.ErrVersion) {
		t.Errorf("a newer format: %v", err)
	}
	if err := s.Drop(t.Context(), c.Name()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Count(t.Context(), nil); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("a collection that was dropped meanwhile: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Collections(t.Context()); !errors.Is(err, db.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// The error for a collection that does not exist lists those that do.
func TestMissingCollection(t *testing.T) {
	s := open(t, Options{})
	missing := func(want string) {
		t.Helper()
		for name, call := range map[string]func() error{
			"Collection": func() error { _, err := s.Collection(t.Context(), "note"); return err },
			"Describe":   func() error { _, err := s.Describe(t.Context(), "note"); return err },
			"Drop":       func() error { return s.Drop(t.Context(), "note") },
		} {
			if err := call(); !errors.Is(err, db.ErrNotFound) || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
		}
	}
	missing(`collection "note"; there is none`)
	create(t, s, "notes", store.Schema{Dim: 1})
	create(t, s, "letters", store.Schema{Dim: 1})
	missing(`collection "note"; there are "letters", "notes"; the nearest is "notes"`)
}
