package rag_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/dbtest"
	"github.com/vecbolt/vecbolt/rag"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const dim = 1536

// A fixture is an embedding cache on disk and its content.
type fixture struct {
	dir     string
	vectors map[string][]float32
	meta    map[string]db.Metadata
	query   []float32
}

// newFixture writes a cache of n chunks: files named by hash, the even ones
// with a sidecar.
func newFixture(t testing.TB, n int) *fixture {
	t.Helper()
	rng := rand.New(rand.NewPCG(2, uint64(n)))
	f := &fixture{dir: t.TempDir(), vectors: map[string][]float32{}, meta: map[string]db.Metadata{}, query: randomVector(rng)}
	for i := range n {
		id := chunkID(i)
		f.vectors[id] = randomVector(rng)
		f.write(t, id, f.vectors[id])
		if i%2 == 0 {
			tags := []any{"docs"}
			if i%4 == 0 {
				tags = []any{"go", "best-practices"}
			}
			f.meta[id] = db.Metadata{rag.FieldSourceFile: fmt.Sprintf("src/%d.go", i/10), rag.FieldLineNumber: int64(i),
				rag.FieldTags: tags, rag.FieldChunkIndex: int64(i % 10), rag.FieldChunkLength: int64(512)}
			f.write(t, id+".meta.json", f.meta[id])
		}
	}
	return f
}

func chunkID(i int) string {
	sum := sha256.Sum256([]byte(fmt.Sprint("chunk ", i)))
	return hex.EncodeToString(sum[:])
}

func randomVector(rng *rand.Rand) []float32 {
	v := make([]float32, dim)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	return v
}

func (f *fixture) write(t testing.TB, name string, v any) {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	f.writeRaw(t, name, string(b))
}

func (f *fixture) writeRaw(t testing.TB, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// cosine is the definition, without care for speed.
func cosine(a, b []float32) float64 {
	var dot, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		dot, aa, bb = dot+x*y, aa+x*x, bb+y*y
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return dot / math.Sqrt(aa) / math.Sqrt(bb)
}

// bruteForce ranks the chunks that keep lets through.
func (f *fixture) bruteForce(query []float32, k int, threshold float64, keep func(id string) bool) []string {
	ids := []string{}
	for id, v := range f.vectors {
		if cosine(query, v) >= threshold && keep(id) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(cmp.Compare(cosine(query, f.vectors[b]), cosine(query, f.vectors[a])), cmp.Compare(a, b))
	})
	return ids[:min(k, len(ids))]
}

func all(string) bool { return true }

func ids(chunks []rag.Chunk) []string {
	list := make([]string, len(chunks))
	for i, c := range chunks {
		list[i] = c.ID
	}
	return list
}

func equal(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// open opens a retriever whose log is returned.
func open(t testing.TB, cacheDir string, o rag.Options) (*rag.Retriever, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	r, err := rag.Open(t.Context(), cacheDir, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r, &log
}

func retrieve(t testing.TB, r *rag.Retriever, vec []float32, cfg rag.AgentConfig) []rag.Chunk {
	t.Helper()
	chunks, err := r.Retrieve(t.Context(), vec, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return chunks
}

// small makes a retriever over documents of dimension 2.
func small(t testing.TB, docs ...db.Document) *rag.Retriever {
	t.Helper()
	vdb, err := db.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { vdb.Close() })
	c, err := vdb.CreateCollection(t.Context(), "chunks", db.Schema{Dim: 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Upsert(t.Context(), docs...); err != nil {
		t.Fatal(err)
	}
	r, err := rag.New(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The tests up to TestAgentConfigFiltering are those that the requirement
// document for semantic retrieval lists.

func TestCosineSimilarity(t *testing.T) {
	for name, tc := range map[string]struct {
		stored, query []float32
		want          float64
	}{
		"identity":   {[]float32{3, 4}, []float32{3, 4}, 1},
		"length":     {[]float32{300, 400}, []float32{0.03, 0.04}, 1},
		"orthogonal": {[]float32{1, 0}, []float32{0, 7}, 0},
		"zero chunk": {[]float32{0, 0}, []float32{1, 1}, 0},
		"zero query": {[]float32{1, 1}, []float32{0, 0}, 0},
		"angle":      {[]float32{1, 0}, []float32{1, 1}, math.Sqrt2 / 2},
	} {
		t.Run(name, func(t *testing.T) {
			chunks := retrieve(t, small(t, db.Document{ID: "a", Vector: tc.stored}), tc.query, rag.AgentConfig{})
			if len(chunks) != 1 || math.Abs(chunks[0].Score-tc.want) > 1e-7 {
				t.Errorf("got %v, want score %v", chunks, tc.want)
			}
		})
	}
	t.Run("opposite", func(t *testing.T) {
		chunks := retrieve(t, small(t, db.Document{ID: "a", Vector: []float32{1, 0}}), []float32{-1, 0}, rag.AgentConfig{})
		equal(t, "chunks", chunks, []rag.Chunk{})
	})
}

func TestChunkWithScoreCreation(t *testing.T) {
	stored := db.Document{ID: "a", Vector: []float32{0, 2}, Text: "text", Metadata: db.Metadata{rag.FieldTags: []any{"go"}}}
	r := small(t, stored)
	for want, chunk := range map[db.Select]rag.Chunk{
		0:             {ID: "a", Score: 1, Text: stored.Text, Metadata: stored.Metadata},
		db.IDsOnly:    {ID: "a", Score: 1},
		db.WithText:   {ID: "a", Score: 1, Text: stored.Text},
		db.WithVector: {ID: "a", Score: 1, Vector: stored.Vector},
		db.Everything: {ID: "a", Score: 1, Text: stored.Text, Metadata: stored.Metadata, Vector: stored.Vector},
	} {
		equal(t, fmt.Sprint("select ", want), retrieve(t, r, []float32{0, 1}, rag.AgentConfig{Select: want}), []rag.Chunk{chunk})
	}
	t.Run("immutable", func(t *testing.T) {
		cfg := rag.AgentConfig{Select: db.Everything}
		mine := retrieve(t, r, []float32{0, 1}, cfg)[0]
		mine.Vector[1] = -1
		mine.Metadata[rag.FieldTags].([]any)[0] = "changed"
		again := retrieve(t, r, []float32{0, 1}, cfg)[0]
		equal(t, "chunk", again, rag.Chunk{ID: "a", Score: 1, Text: stored.Text, Metadata: stored.Metadata, Vector: stored.Vector})
	})
}

func TestBatchSimilarityComputation(t *testing.T) {
	f := newFixture(t, 10)
	r, _ := open(t, f.dir, rag.Options{})
	chunks := retrieve(t, r, f.query, rag.AgentConfig{TopK: 100})
	equal(t, "ids", ids(chunks), f.bruteForce(f.query, 100, 0, all))
	for _, c := range chunks {
		if want := cosine(f.query, f.vectors[c.ID]); math.Abs(c.Score-want) > 1e-12 || c.Score < 0 || c.Score > 1 {
			t.Errorf("%s: score %v, want %v", c.ID, c.Score, want)
		}
	}
}

func TestConfigValidation(t *testing.T) {
	for _, good := range []rag.AgentConfig{
		{},
		{Name: "code-analyzer", TopK: 10, Threshold: 0.5, Tags: []string{"python", "best-practices"}},
		{Threshold: 1, TopK: math.MaxInt32},
	} {
		if err := good.Validate(); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
	r := small(t)
	for name, bad := range map[string]rag.AgentConfig{
		"top_k -1":                       {TopK: -1},
		"top_k 2147483648":               {TopK: math.MaxInt32 + 1},
		"similarity_threshold -0.1":      {Threshold: -0.1},
		"similarity_threshold 1.1":       {Threshold: 1.1},
		"similarity_threshold NaN":       {Threshold: math.NaN()},
		"filter_by_tags holds an empty":  {Tags: []string{"go", ""}},
		"filter_by_tags: ":               {Tags: make2000("tag")},
		"select 0x40":                    {Select: 64},
		`of agent "reviewer": top_k -10`: {Name: "reviewer", TopK: -10},
	} {
		// The configuration is looked at before the query, which is bad too.
		_, err := r.Retrieve(t.Context(), []float32{1, 2, 3}, bad)
		if !errors.Is(err, rag.ErrConfig) || errors.Is(err, rag.ErrQuery) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
		equal(t, name+": Validate", bad.Validate().Error(), err.Error())
	}
	t.Run("defaults", func(t *testing.T) {
		f := newFixture(t, 40)
		r, _ := open(t, f.dir, rag.Options{})
		got := retrieve(t, r, f.query, rag.AgentConfig{})
		equal(t, "five best", ids(got), f.bruteForce(f.query, 5, 0, all))
	})
	t.Run("json", func(t *testing.T) {
		var cfg rag.AgentConfig
		err := json.Unmarshal([]byte(`{"agent_name":"a","top_k":3,"similarity_threshold":0.25,"filter_by_tags":["x"]}`), &cfg)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "config", cfg, rag.AgentConfig{Name: "a", TopK: 3, Threshold: 0.25, Tags: []string{"x"}})
	})
}

func make2000(s string) []string { return slices.Repeat([]string{s}, 2000) }

func infoOf(t *testing.T, r *rag.Retriever) rag.Info {
	t.Helper()
	info, err := r.Info()
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestRetrieverLoadEmbeddings(t *testing.T) {
	for _, n := range []int{10, 1000} {
		f := newFixture(t, n)
		r, log := open(t, f.dir, rag.Options{})
		equal(t, "info", infoOf(t, r), rag.Info{Chunks: n, Dim: dim, Model: "text-embedding-3-small",
			Candidates: []string{"text-embedding-3-small", "text-embedding-ada-002"}})
		for d, err := range r.Collection().All(t.Context(), nil, db.Everything) {
			if err != nil {
				t.Fatal(err)
			}
			want := db.Document{ID: d.ID, Vector: f.vectors[d.ID], Metadata: f.meta[d.ID]}
			if diff := gocmp.Diff(want, *d); diff != "" {
				t.Fatal(diff)
			}
		}
		if strings.Contains(log.String(), "level=WARN") {
			t.Error(log)
		}
	}
}

func TestRetrieverSingleQuery(t *testing.T) {
	f := newFixture(t, 1000)
	r, _ := open(t, f.dir, rag.Options{})
	chunks := retrieve(t, r, f.query, rag.AgentConfig{TopK: 20})
	equal(t, "ids", ids(chunks), f.bruteForce(f.query, 20, 0, all))
	if !slices.IsSortedFunc(chunks, func(a, b rag.Chunk) int { return cmp.Compare(b.Score, a.Score) }) {
		t.Error("scores are not in order")
	}
}

func TestRetrieverBatchQuery(t *testing.T) {
	f := newFixture(t, 100)
	r, _ := open(t, f.dir, rag.Options{BatchSize: 7})
	rng := rand.New(rand.NewPCG(1, 1))
	var queries [][]float32
	for range 33 { // the last of five passes is shorter
		queries = append(queries, randomVector(rng))
	}
	found, err := r.RetrieveBatch(t.Context(), queries, rag.AgentConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != len(queries) {
		t.Fatalf("%d answers to %d queries", len(found), len(queries))
	}
	for i, chunks := range found {
		equal(t, fmt.Sprint("query ", i), chunks, retrieve(t, r, queries[i], rag.AgentConfig{}))
		equal(t, fmt.Sprint("ids ", i), ids(chunks), f.bruteForce(queries[i], 5, 0, all))
	}
	none, err := r.RetrieveBatch(t.Context(), nil, rag.AgentConfig{})
	equal(t, "no queries", none, [][]rag.Chunk{})
	equal(t, "error", err, nil)
}

func TestAgentConfigFiltering(t *testing.T) {
	f := newFixture(t, 100)
	r, _ := open(t, f.dir, rag.Options{})
	tagged := func(tags ...string) func(id string) bool {
		return func(id string) bool {
			list, _ := f.meta[id][rag.FieldTags].([]any)
			return slices.ContainsFunc(list, func(v any) bool { return slices.Contains(tags, v.(string)) })
		}
	}
	for _, tags := range [][]string{{"go"}, {"go", "docs"}, {"best-practices", "nothing"}, {"nothing"}} {
		chunks := retrieve(t, r, f.query, rag.AgentConfig{TopK: 100, Tags: tags})
		equal(t, fmt.Sprint("tags ", tags), ids(chunks), f.bruteForce(f.query, 100, 0, tagged(tags...)))
	}
	// A threshold is inclusive: the score of the third best keeps three.
	third := retrieve(t, r, f.query, rag.AgentConfig{})[2].Score
	equal(t, "threshold", len(retrieve(t, r, f.query, rag.AgentConfig{Threshold: third})), 3)
	equal(t, "beyond", len(retrieve(t, r, f.query, rag.AgentConfig{Threshold: math.Nextafter(third, 2)})), 2)
	equal(t, "out of reach", retrieve(t, r, f.query, rag.AgentConfig{Threshold: 1}), []rag.Chunk{})
}

func TestMissingDirectory(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none")
	r, log := open(t, missing, rag.Options{})
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "none") {
		t.Errorf("log: %s", log)
	}
	equal(t, "info", infoOf(t, r), rag.Info{})
	equal(t, "chunks", retrieve(t, r, []float32{1, 2}, rag.AgentConfig{}), []rag.Chunk{})
	if _, err := os.Stat(missing); err == nil {
		t.Error("the directory was created")
	}
}

func TestInvalidFilesAreSkipped(t *testing.T) {
	f := newFixture(t, 10)
	broken := []struct{ content, reason string }{
		{"[0.1, 0.2", "EOF"}, {`{"a": 1}`, "object"}, {"[NaN, 1]", "NaN"}, {"[1e39, 0]", "1e39"}, {`["a"]`, "string"}, {"[]", "empty"},
	}
	for i, b := range broken {
		f.writeRaw(t, chunkID(1000+i), b.content)
	}
	f.writeRaw(t, "README.md", "some text")
	r, log := open(t, f.dir, rag.Options{})
	equal(t, "chunks", infoOf(t, r).Chunks, 10)
	lines := strings.Split(log.String(), "\n")
	says := func(parts ...string) bool {
		return slices.ContainsFunc(lines, func(line string) bool {
			return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) })
		})
	}
	for i, b := range broken {
		if !says("level=WARN", chunkID(1000+i), b.reason) {
			t.Errorf("no warning about %q in\n%s", b.content, log)
		}
	}
	if !says("level=INFO", "README.md") {
		t.Errorf("nothing about readme in\n%s", log)
	}
}

func TestMismatchedDimensions(t *testing.T) {
	f := newFixture(t, 3)
	name := strings.Repeat("f", 64) // the last in order
	f.writeRaw(t, name, "[1, 2, 3]")
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	_, err := rag.Open(t.Context(), f.dir, nil)
	var wrong *db.DimensionError
	if !errors.Is(err, rag.ErrLoad) || !errors.As(err, &wrong) {
		t.Fatal(err)
	}
	equal(t, "expected", wrong.Expected, dim)
	equal(t, "found", wrong.Got, 3)
	for _, part := range []string{name, "1536", "3"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestErrorKinds(t *testing.T) {
	kinds := []error{rag.ErrLoad, rag.ErrQuery, rag.ErrConfig}
	is := func(err error, want error, also ...error) {
		t.Helper()
		for _, k := range kinds {
			if got := errors.Is(err, k); got != (k == want) {
				t.Errorf("errors.Is(%v, %v) = %v", err, k, got)
			}
		}
		for _, e := range append(also, rag.ErrRetrieval) {
			if !errors.Is(err, e) {
				t.Errorf("errors.Is(%v, %v) = false", err, e)
			}
		}
	}
	for _, k := range kinds {
		is(k, k)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("[1]"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := small(t, db.Document{ID: "a", Vector: []float32{1, 0}})

	_, err := rag.Open(t.Context(), file, nil)
	is(err, rag.ErrLoad)
	_, err = rag.Open(t.Context(), t.TempDir(), &rag.Options{Dir: file})
	is(err, rag.ErrLoad)
	_, err = rag.Open(t.Context(), t.TempDir(), &rag.Options{BatchSize: -1})
	is(err, rag.ErrConfig)
	_, err = r.Retrieve(t.Context(), []float32{1, 0, 0}, rag.AgentConfig{})
	is(err, rag.ErrQuery, db.ErrDimensionMismatch)
	_, err = r.Retrieve(t.Context(), []float32{1, float32(math.Inf(1))}, rag.AgentConfig{})
	is(err, rag.ErrQuery, db.ErrInvalid)
	_, err = r.Retrieve(t.Context(), nil, rag.AgentConfig{})
	is(err, rag.ErrQuery, db.ErrInvalid)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = r.Retrieve(ctx, []float32{1, 0}, rag.AgentConfig{})
	is(err, rag.ErrQuery, context.Canceled)
	_, err = rag.Open(ctx, t.TempDir(), nil)
	is(err, rag.ErrLoad, context.Canceled)
}

func TestNewChecksTheCollection(t *testing.T) {
	vdb, err := db.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	c, err := vdb.CreateCollection(t.Context(), "distances", db.Schema{Metric: db.L2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rag.New(c, nil); !errors.Is(err, rag.ErrConfig) {
		t.Errorf("metric: got %v", err)
	}
	c, err = vdb.CreateCollection(t.Context(), "model", db.Schema{Lineage: db.Lineage{Model: "a"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rag.New(c, &rag.Options{Model: "b"}); !errors.Is(err, rag.ErrConfig) {
		t.Errorf("model: got %v", err)
	}
}

// TestDamagedFilesKeepTheirChunks updates while other files of the cache are cut off.
func TestDamagedFilesKeepTheirChunks(t *testing.T) {
	f := newFixture(t, 10)
	r, err := rag.Open(t.Context(), f.dir, &rag.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	file := func(name string) string { return filepath.Join(f.dir, name) }
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(file(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(chunkID(1), "[0.25, 0.5")
	write(chunkID(2)+".meta.json", `{"tags": ["g`)
	write(chunkID(3), "")
	write(strings.Repeat("e", 64), "[0.25,")
	if err := os.Remove(file(chunkID(4))); err != nil {
		t.Fatal(err)
	}
	delete(f.vectors, chunkID(4))
	for range 2 {
		equal(t, "update", r.Update(t.Context()), nil)
		equal(t, "ids", ids(retrieve(t, r, f.query, rag.AgentConfig{TopK: 100})), f.bruteForce(f.query, 100, 0, all))
		f.vectors[chunkID(1)] = randomVector(rand.New(rand.NewPCG(4, 4)))
		f.write(t, chunkID(1), f.vectors[chunkID(1)]) // now it is complete
	}
}

// An update compares the cache with what another process has just written to the index.
func TestUpdateAfterAnotherProcess(t *testing.T) {
	f := newFixture(t, 1)
	leader, other := dbtest.Share(t, func(dir string, o *rag.Options) (*rag.Retriever, error) {
		o.Dir = dir
		return rag.Open(t.Context(), f.dir, o)
	}, &rag.Options{Logger: slog.New(slog.DiscardHandler)})
	two := [2][]float32{f.query, f.vectors[chunkID(0)]}
	for i := range 50 {
		f.write(t, chunkID(0), two[0])
		equal(t, "update", leader.Update(t.Context()), nil)
		f.write(t, chunkID(0), two[1])
		equal(t, "update", other.Update(t.Context()), nil)
		hits := retrieve(t, leader, two[1], rag.AgentConfig{TopK: 1})
		if len(hits) != 1 || hits[0].Score < 0.999 {
			t.Fatalf("update %d left %v", i, hits)
		}
	}
}

// A kept index follows the cache: files that come, change and go.
func TestKeptIndex(t *testing.T) {
	f := newFixture(t, 10)
	dir := filepath.Join(t.TempDir(), "index")
	o := rag.Options{Dir: dir, Model: "text-embedding-ada-002", Logger: slog.New(slog.DiscardHandler)}
	run := func(use func(r *rag.Retriever)) (batches uint64) {
		t.Helper()
		r, err := rag.Open(t.Context(), f.dir, &o)
		if err != nil {
			t.Fatal(err)
		}
		use(r)
		if err := errors.Join(r.Close(), r.Close()); err != nil {
			t.Fatal(err)
		}
		vdb, err := db.Open(dir, &db.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer vdb.Close()
		stats, err := vdb.Stats()
		if err != nil {
			t.Fatal(err)
		}
		return stats.Batches
	}
	made := run(func(r *rag.Retriever) {
		equal(t, "info", infoOf(t, r), rag.Info{Chunks: 10, Dim: dim, Model: "text-embedding-ada-002"})
	})
	same := run(func(r *rag.Retriever) { equal(t, "update", r.Update(t.Context()), nil) })
	equal(t, "batches, when nothing has changed", same, made)

	rng := rand.New(rand.NewPCG(3, 3))
	f.vectors["new"] = randomVector(rng)
	f.write(t, "new", f.vectors["new"])
	f.vectors[chunkID(1)] = randomVector(rng)
	f.write(t, chunkID(1), f.vectors[chunkID(1)])
	f.write(t, chunkID(2)+".meta.json", map[string]any{"tags": []string{"changed"}})
	delete(f.vectors, chunkID(3))
	if err := os.Remove(filepath.Join(f.dir, chunkID(3))); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(f.dir, chunkID(4)+".meta.json")); err != nil {
		t.Fatal(err)
	}
	run(func(r *rag.Retriever) {
		d, err := r.Collection().Get(t.Context(), chunkID(4), db.WithMetadata)
		equal(t, "error", err, nil)
		equal(t, "removed sidecar", d.Metadata, db.Metadata(nil))
		got := retrieve(t, r, f.query, rag.AgentConfig{TopK: 100})
		equal(t, "ids", ids(got), f.bruteForce(f.query, 100, 0, all))
		got = retrieve(t, r, f.vectors[chunkID(2)], rag.AgentConfig{Tags: []string{"changed"}})
		equal(t, "changed sidecar", ids(got), []string{chunkID(2)})
	})

	other := o
	other.Model = "text-embedding-3-small"
	_, err := rag.Open(t.Context(), f.dir, &other)
	if !errors.Is(err, rag.ErrLoad) || !errors.Is(err, db.ErrSchema) {
		t.Errorf("another model: %v", err)
	}

	// A cache that is away, perhaps not mounted, does not cost the index.
	f.dir += "-away"
	run(func(r *rag.Retriever) { equal(t, "chunks", infoOf(t, r).Chunks, 10) })
}

// TestModelInNames reads the model from the names of files, as far as its
// dimension fits.
func TestModelInNames(t *testing.T) {
	const uuid = "88c0656d-b590-5b66-b885-fa51bfc39db8"
	for namespace, want := range map[string][]string{
		"text-embedding-ada-002":         {"text-embedding-ada-002"},
		"openai/Text-Embedding-Ada-002-": {"text-embedding-ada-002"},
		"text-embedding-3-small":         {"text-embedding-3-small"},
		"nomic-embed-text":               {"text-embedding-3-small", "text-embedding-ada-002"},
		"":                               {"text-embedding-3-small", "text-embedding-ada-002"},
	} {
		dir := t.TempDir()
		name := filepath.Join(dir, filepath.FromSlash(namespace+uuid))
		err := os.MkdirAll(filepath.Dir(name), 0o700)
		if err == nil {
			err = os.WriteFile(name, []byte("[1"+strings.Repeat(",0", dim-1)+"]"), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		r, _ := open(t, dir, rag.Options{})
		equal(t, namespace, infoOf(t, r), rag.Info{Chunks: 1, Dim: dim, Model: want[0], Candidates: want})
	}
}

// realCache is a cache that LangChain's file store wrote, with
// text-embedding-ada-002. It is not part of the repository.
const realCache = "../../shared/data/emb-cache-ada002"

func TestRealCache(t *testing.T) {
	if _, err := os.Stat(realCache); err != nil {
		t.Skipf("skipped: the cache of real embeddings is not there: %v", err)
	}
	texts := filepath.Join(realCache, "texts.jsonl")
	r, log := open(t, filepath.Join(realCache, "cache"), rag.Options{Texts: texts})
	equal(t, "info", infoOf(t, r), rag.Info{Chunks: 500, Dim: dim, Model: "text-embedding-ada-002", Candidates: []string{"text-embedding-ada-002"}})

	const id = "text-embedding-ada-00288c0656d-b590-5b66-b885-fa51bfc39db8"
	d, err := r.Collection().Get(t.Context(), id, db.Everything)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "text", d.Text, "Country from which the site sees the user")
	chunks := retrieve(t, r, d.Vector, rag.AgentConfig{Threshold: 0.8})
	if len(chunks) == 0 || chunks[0].ID != id || math.Abs(chunks[0].Score-1) > 1e-12 {
		t.Fatalf("got %v\n%s", chunks, log)
	}
	for _, c := range chunks {
		t.Logf("%.4f %s", c.Score, c.Text)
	}
}
