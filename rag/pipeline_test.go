package rag

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/rag/embed"
)

// counted counts the texts that it embeds.
type counted struct {
	embed.Embedder
	texts []string
	err   error
}

func newCounted(t testing.TB) *counted {
	t.Helper()
	e, err := embed.Trigram(256)
	if err != nil {
		t.Fatal(err)
	}
	return &counted{Embedder: e}
}

func (c *counted) Embed(ctx context.Context, text string) ([]float32, error) {
	c.texts = append(c.texts, text)
	if c.err != nil {
		return nil, c.err
	}
	return c.Embedder.Embed(ctx, text)
}

var notes = []struct{ id, text, section string }{
	{"wal#0", "The write-ahead log makes every acknowledged write durable.", "log"},
	{"wal#1", "Writers that wait together share one fsync.", "log"},
	{"wal#2", "A torn tail of the log is cut off when it is replayed.", "log"},
	{"seg#0", "Vectors lie in segments, which are mapped into memory.", "segments"},
	{"seg#1", "Compaction rewrites segments that have many dead rows.", "segments"},
	{"bolt#0", "Documents and ids are kept in bbolt, a B+ tree in one file.", "bolt"},
}

func knowledge(t testing.TB, e embed.Embedder) *db.Collection {
	t.Helper()
	vdb, err := db.Open(t.TempDir(), &db.Options{Sync: db.SyncNever})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := vdb.Close(); err != nil {
			t.Error(err)
		}
	})
	c, err := vdb.CreateCollection(t.Context(), "chunks", db.Schema{Text: &db.TextIndex{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range notes {
		vec, err := e.Embed(t.Context(), n.text)
		if err != nil {
			t.Fatal(err)
		}
		d := db.Document{ID: n.id, Text: n.text, Vector: vec, Metadata: db.Metadata{"section": n.section, FieldChunkIndex: i, FieldSourceFile: n.section + ".md", FieldLineNumber: i + 1}}
		if _, err := c.Upsert(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func pipeline(t testing.TB, s Store, e embed.Embedder, o *PipelineOptions) *Pipeline {
	t.Helper()
	p, err := NewPipeline(s, e, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func ask(t testing.TB, p *Pipeline, question string, where filter.Expr) *Response {
	t.Helper()
	r, err := p.Query(t.Context(), question, where)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func chunkIDs(r *Response) []string {
	var list []string
	for _, c := range r.Chunks {
		list = append(list, c.ID)
	}
	return list
}

func TestStrategies(t *testing.T) {
	e := newCounted(t)
	c := knowledge(t, e)
	for _, tt := range []struct {
		strategy Strategy
		question string
	}{
		{Dense(), "Writers wait together and share an fsync"},
		{Text(), "fsync -shared \"by writers"},
		{Text(), "“which writers share one fsync?”"},
		{Hybrid(db.Fusion{}), "which writers share one fsync?"},
		{MultiQuery(func(_ context.Context, q string) ([]string, error) {
			return []string{"one fsync for writers", "writers wait"}, nil
		}), "who shares?"},
		{HyDE(func(context.Context, string) (string, error) { return "Writers that wait share one fsync.", nil }), "why is it fast?"},
	} {
		p := pipeline(t, c, e, &PipelineOptions{Strategy: tt.strategy, TopK: 3})
		r := ask(t, p, tt.question, nil)
		if len(r.Chunks) == 0 || r.Chunks[0].ID != "wal#1" || r.Strategy != tt.strategy.String() || r.Candidates != len(r.Chunks) {
			t.Errorf("%v: %+v", tt.strategy, r)
		}
		if !strings.Contains(r.Context, "[Source: log.md:2]\nWriters that wait") || r.ContextTokens == 0 || r.Citations[0].ID != "wal#1" {
			t.Errorf("%v: context %q, %v", tt.strategy, r.Context, r.Citations)
		}
		r = ask(t, p, tt.question, filter.Eq("section", "segments"))
		for _, c := range r.Chunks {
			if c.Metadata["section"] != "segments" {
				t.Errorf("%v: %v does not match", tt.strategy, c.ID)
			}
		}
	}
	broken := errors.New("broken")
	for _, s := range []Strategy{
		MultiQuery(func(context.Context, string) ([]string, error) { return nil, broken }),
		HyDE(func(context.Context, string) (string, error) { return "", broken }),
	} {
		if _, err := pipeline(t, c, e, &PipelineOptions{Strategy: s}).Query(t.Context(), "x", nil); !errors.Is(err, broken) || !errors.Is(err, ErrQuery) {
			t.Errorf("%v: %v", s, err)
		}
	}
	if _, err := pipeline(t, c, e, nil).Query(t.Context(), " \n", nil); !errors.Is(err, ErrQuery) {
		t.Error(err)
	}
}

// TestLongQuestions answers questions with more words than a query may have.
func TestLongQuestions(t *testing.T) {
	e := newCounted(t)
	c := knowledge(t, e)
	long := notes[1].text + " "
	for i := range 3000 {
		long += fmt.Sprintf("filler%d ", i)
	}
	for _, s := range []Strategy{Text(), Hybrid(db.Fusion{})} {
		r := ask(t, pipeline(t, c, e, &PipelineOptions{Strategy: s}), long, nil)
		if len(r.Chunks) == 0 || s.String() == "text" && r.Chunks[0].ID != "wal#1" {
			t.Errorf("%v: %v", s, chunkIDs(r))
		}
	}
}

// TestQuestionsWithoutWords finds nothing by words, which is not an error.
func TestQuestionsWithoutWords(t *testing.T) {
	e := newCounted(t)
	c := knowledge(t, e)
	for _, question := range []string{`"`, "**", "- -", "«»", "?", "\xff"} {
		for want, s := range []Strategy{Text(), Hybrid(db.Fusion{})} {
			p := pipeline(t, c, e, &PipelineOptions{Strategy: s, TopK: 1})
			if r := ask(t, p, question, nil); len(r.Chunks) != want {
				t.Errorf("%v, %q: %v", s, question, chunkIDs(r))
			}
			r, err := p.Explain(t.Context(), question, nil)
			if err != nil || len(r.Chunks) != want {
				t.Errorf("%v, %q: %v", s, question, err)
			}
		}
	}
}

func TestThresholdIsInclusive(t *testing.T) {
	e := newCounted(t)
	c := knowledge(t, e)
	all := ask(t, pipeline(t, c, e, nil), notes[0].text, nil)
	least := all.Chunks[1].Score
	if got := ask(t, pipeline(t, c, e, &PipelineOptions{Threshold: &least}), notes[0].text, nil); len(got.Chunks) != 2 {
		t.Errorf("%v", chunkIDs(got))
	}
}

func TestExpansion(t *testing.T) {
	e := newCounted(t)
	c := knowledge(t, e)
	o := &PipelineOptions{TopK: 1, Expand: &Expansion{Field: "section"}}
	if got := chunkIDs(ask(t, pipeline(t, c, e, o), "Writers that wait share one fsync", nil)); !slices.Equal(got, []string{"wal#0", "wal#1", "wal#2"}) {
		t.Error(got)
	}
	o.Expand = &Expansion{Field: "section", Max: 1}
	if got := chunkIDs(ask(t, pipeline(t, c, e, o), "A torn tail of the log is cut off", nil)); !slices.Equal(got, []string{"wal#1", "wal#2"}) {
		t.Error(got)
	}
	// No chunk that was found is lost, and what does not match is not added.
	o = &PipelineOptions{TopK: 3, Expand: &Expansion{Field: "section", Max: 1}}
	got := chunkIDs(ask(t, pipeline(t, c, e, o), "log", filter.Eq("section", "log")))
	if slices.Sort(got); !slices.Equal(got, []string{"wal#0", "wal#1", "wal#2"}) {
		t.Error(got)
	}
	o = &PipelineOptions{TopK: 1, Expand: &Expansion{Field: "section"}}
	if got := chunkIDs(ask(t, pipeline(t, c, e, o), "A torn tail of the log is cut off", filter.Gte(FieldChunkIndex, 1))); !slices.Equal(got, []string{"wal#1", "wal#2"}) {
		t.Error(got)
	}
	o.Expand = &Expansion{Field: "nothing"}
	if got := chunkIDs(ask(t, pipeline(t, c, e, o), "A torn tail of the log is cut off", nil)); !slices.Equal(got, []string{"wal#2"}) {
		t.Error(got)
	}
}

// TestExpansionIsNearest adds the nearest siblings, wherever the chunk is and however the order is
// numbered.
func TestExpansionIsNearest(t *testing.T) {
	e := newCounted(t)
	c := emptyCollection(t)
	for i := range 40 {
		text := fmt.Sprintf("number %d", i)
		vec, err := e.Embed(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		offset := int64(i) * 1000
		switch i {
		case 38:
			offset = math.MaxInt64 - 1
		case 39:
			offset = math.MaxInt64
		}
		m := db.Metadata{"file": "f", FieldChunkIndex: i, "offset": offset, "page": i / 30}
		d := db.Document{ID: fmt.Sprintf("%02d", i), Text: text, Vector: vec, Metadata: m}
		if _, err := c.Upsert(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		order       string
		most, at    int
		first, last int
	}{
		{"", 0, 0, 0, 20}, {"", 0, 3, 0, 20}, {"", 0, 15, 5, 25}, {"", 0, 39, 19, 39}, {"", 1, 7, 6, 7},
		{"offset", 0, 0, 0, 20}, {"offset", 0, 15, 5, 25}, {"offset", 4, 39, 35, 39}, {"offset", 4, 36, 33, 37},
		{"page", 5, 30, 30, 35}, {"page", 5, 35, 30, 35}, {"page", 9, 39, 30, 39},
		{"", math.MaxInt, 0, 0, 39}, {"offset", math.MaxInt, 0, 0, 39},
	} {
		o := &PipelineOptions{TopK: 1, Strategy: Dense(), Expand: &Expansion{Field: "file", Order: tt.order, Max: tt.most}}
		got := chunkIDs(ask(t, pipeline(t, c, e, o), fmt.Sprintf("number %d", tt.at), nil))
		var want []string
		for i := tt.first; i <= tt.last; i++ {
			want = append(want, fmt.Sprintf("%02d", i))
		}
		if !slices.Equal(got, want) {
			t.Errorf("order %q, at most %d, chunk %d: %v", tt.order, tt.most, tt.at, got)
		}
	}
}

type reverse struct{ given int }

func (r *reverse) Rerank(_ context.Context, _ string, chunks []Chunk) ([]Chunk, error) {
	r.given = len(chunks)
	out := slices.Clone(chunks)
	slices.Reverse(out)
	return out, nil
}

func TestRerank(t *testing.T) {
	e := newCounted(t)
	c := knowledge(t, e)
	plain := chunkIDs(ask(t, pipeline(t, c, e, &PipelineOptions{TopK: 6}), "log", nil))
	r := &reverse{}
	got := ask(t, pipeline(t, c, e, &PipelineOptions{TopK: 2, Candidates: 6, Rerank: r}), "log", nil)
	slices.Reverse(plain)
	if r.given != 6 || got.Candidates != 6 || !slices.Equal(chunkIDs(got), plain[:2]) || got.Chunks[0].Vector != nil {
		t.Errorf("given %d, got %v, want %v", r.given, chunkIDs(got), plain[:2])
	}
}

func TestRerankFails(t *testing.T) {
	e := newCounted(t)
	p := pipeline(t, knowledge(t, e), e, &PipelineOptions{Rerank: failing{}})
	_, err := p.Query(t.Context(), "log", nil)
	for _, want := range []error{ErrRetrieval, ErrQuery, ErrRerank, io.ErrUnexpectedEOF} {
		if !errors.Is(err, want) {
			t.Errorf("%v does not match %v", err, want)
		}
	}
}

// failing is a reranker whose server does not answer.
type failing struct{}

func (failing) Rerank(context.Context, string, []Chunk) ([]Chunk, error) {
	return nil, io.ErrUnexpectedEOF
}

func TestCache(t *testing.T) {
	e := newCounted(t)
	c := knowledge(t, e)
	now := time.Unix(0, 0)
	p := pipeline(t, c, e, &PipelineOptions{Cache: &CacheOptions{Size: 2, Similarity: 0.9, TTL: time.Minute, Now: func() time.Time { return now }}})
	first := ask(t, p, "how is a write made durable?", nil)
	again := ask(t, p, "how is a write made durable", nil) // nearly the same
	first.Chunks[0].Metadata["seen"], again.Chunks[0].Metadata["seen"] = true, true
	first.Citations[0].ID, again.Citations[0].ID = "", ""
	if third := ask(t, p, "how is a write made durable?", nil); third.Chunks[0].Metadata["seen"] != nil || third.Citations[0].ID == "" {
		t.Error("callers have changed the cached answer")
	}
	if first.FromCache || !again.FromCache || !slices.Equal(chunkIDs(first), chunkIDs(again)) {
		t.Errorf("first %v, again %v", first.FromCache, again.FromCache)
	}
	if ask(t, p, "what lies in bbolt?", nil).FromCache {
		t.Error("another question")
	}
	if ask(t, p, "how is a write made durable?", filter.Eq("section", "log")).FromCache {
		t.Error("another filter")
	}
	if ask(t, p, "how is a write made durable?", nil).FromCache {
		t.Error("two later answers should have pushed it out")
	}
	now = now.Add(time.Minute)
	if ask(t, p, "how is a write made durable?", nil).FromCache {
		t.Error("it is too old")
	}
	if !ask(t, p, "how is a write made durable?", nil).FromCache {
		t.Error("it is new")
	}
	if _, err := c.Delete(t.Context(), "wal#0"); err != nil {
		t.Fatal(err)
	}
	if r := ask(t, p, "how is a write made durable?", nil); r.FromCache || slices.Contains(chunkIDs(r), "wal#0") {
		t.Error("the collection has changed")
	}
	if s := p.Stats(); s.Queries != 9 || s.CacheHitRate != 3.0/9 || s.AvgChunks == 0 || s.AvgContextTokens == 0 || s.AvgRetrievalMS <= 0 {
		t.Errorf("%+v", s)
	}
}

// TestCachedAnswersAreOwned changes lists and maps in the metadata of an answer.
func TestCachedAnswersAreOwned(t *testing.T) {
	e := newCounted(t)
	c := emptyCollection(t)
	const text = "Cats purr."
	vec, err := e.Embed(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	m := db.Metadata{"tags": []string{"x"}, "by": map[string]any{"name": []any{"y"}}}
	if _, err := c.Upsert(t.Context(), db.Document{ID: "1", Text: text, Vector: vec, Metadata: m}); err != nil {
		t.Fatal(err)
	}
	p := pipeline(t, c, e, &PipelineOptions{Cache: &CacheOptions{}})
	want := db.Metadata{"tags": []any{"x"}, "by": map[string]any{"name": []any{"y"}}}
	for i := range 3 {
		got := ask(t, p, text, nil).Chunks[0].Metadata
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("answer %d: %s", i, diff)
		}
		got["tags"].([]any)[0] = "changed"
		by := got["by"].(map[string]any)
		by["name"].([]any)[0], by["more"] = "changed", true
	}
}

// TestOnAnotherStore answers from the cache only for the store that the answer is of.
func TestOnAnotherStore(t *testing.T) {
	e := newCounted(t)
	vdb, err := db.Open(db.Memory, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	open := func(name string) *db.Collection {
		c, err := vdb.OpenCollection(t.Context(), name, db.Schema{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const text = "The secret is forty two."
	vec, err := e.Embed(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		if _, err := open(name).Upsert(t.Context(), db.Document{ID: name, Text: text, Vector: vec}); err != nil {
			t.Fatal(err)
		}
	}
	snap, err := vdb.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	old, err := snap.Collection("a")
	if err != nil {
		t.Fatal(err)
	}
	p := pipeline(t, open("a"), e, &PipelineOptions{Cache: &CacheOptions{TTL: time.Hour}})
	ask(t, p, text, nil)
	for _, tt := range []struct {
		name   string
		store  Store
		cached bool
		first  string
	}{
		{"the collection, opened again", open("a"), true, "a"},
		{"another collection", open("b"), false, "b"},
		{"a snapshot", old, false, "a"},
		{"another type", struct{ Store }{open("b")}, false, "b"},
		{"not comparable", struct {
			Store
			_ []int
		}{Store: open("b")}, false, "b"},
	} {
		on := p.On(tt.store)
		if r := ask(t, on, text, nil); r.FromCache != tt.cached || r.Chunks[0].ID != tt.first {
			t.Errorf("%s: %s, from the cache: %v", tt.name, r.Chunks[0].ID, r.FromCache)
		}
		if r := ask(t, on, text, nil); !r.FromCache || r.Chunks[0].ID != tt.first {
			t.Errorf("%s, again: %s, from the cache: %v", tt.name, r.Chunks[0].ID, r.FromCache)
		}
	}
	if s := p.Stats(); s.Queries != 11 {
		t.Errorf("%d questions", s.Queries)
	}
}

// A store that does not tell when it changes gets no cache without a time to live: it would answer
// from deleted documents for ever.
func TestOnStoreWithoutVersion(t *testing.T) {
	e := newCounted(t)
	c := knowledge(t, e)
	const question = "does the write-ahead log make writes durable?"
	p := pipeline(t, c, e, &PipelineOptions{Strategy: Dense(), TopK: 1, Cache: &CacheOptions{}})
	on := p.On(struct{ Store }{c})
	for _, found := range []bool{true, false} {
		r := ask(t, on, question, nil)
		if r.FromCache || slices.Contains(chunkIDs(r), "wal#0") != found {
			t.Errorf("%v, from the cache: %t", chunkIDs(r), r.FromCache)
		}
		if _, err := c.Delete(t.Context(), "wal#0"); err != nil {
			t.Fatal(err)
		}
	}
	ask(t, p.On(c), question, nil)
	if r := ask(t, p.On(c), question, nil); !r.FromCache {
		t.Error("a store with a version has no cache")
	}
}

func TestSourceOf(t *testing.T) {
	for _, tt := range []struct {
		want string
		meta db.Metadata
	}{
		{"id", nil},
		{"id", db.Metadata{FieldPage: int64(3)}},
		{"a.pdf, page 3", db.Metadata{FieldSourceFile: "a.pdf", FieldPage: int64(3)}},
		{"a.md:7", db.Metadata{FieldSourceFile: "a.md", FieldLineNumber: int64(7)}},
		{"a.md:7", db.Metadata{FieldSourceFile: "a.md", FieldLineNumber: int64(7), FieldPage: int64(3)}}, // of its front matter
		{"a.md", db.Metadata{FieldSource: "a.md"}},
	} {
		if got := SourceOf(Chunk{ID: "id", Metadata: tt.meta}); got != tt.want {
			t.Errorf("%v: %q", tt.meta, got)
		}
	}
}

func TestBuildContext(t *testing.T) {
	chunks := []Chunk{
		{ID: "a", Text: "one two three"}, {ID: "b", Text: " two three "}, {ID: "c", Text: "four", Metadata: db.Metadata{FieldSourceFile: "f.pdf", FieldPage: int64(2)}},
		{ID: "d", Text: ""}, {ID: "e", Text: "five six seven eight"},
	}
	count := func(s string) int { return len(strings.Fields(s)) }
	context, tokens, cited := BuildContext(chunks, ContextOptions{Count: count, MaxTokens: 13})
	want := "[1] [Source: a]\none two three\n\n[2] [Source: f.pdf, page 2]\nfour\n"
	if context != want || tokens != 12 || !cmp.Equal(cited, []Citation{{1, "a", "a"}, {2, "c", "f.pdf, page 2"}}) {
		t.Errorf("%q, %d tokens, %v", context, tokens, cited)
	}
	if context, tokens, _ := BuildContext(chunks, ContextOptions{Count: count, MaxTokens: 5}); context != "[1] [Source: a]\none two\n" || tokens != 5 {
		t.Errorf("%q, %d tokens", context, tokens)
	}
	if context, tokens, cited := BuildContext(chunks, ContextOptions{Count: count, MaxTokens: 2}); context != "" || tokens != 0 || cited != nil {
		t.Errorf("%q, %d tokens", context, tokens)
	}
	forged := []Chunk{{ID: "a", Text: "one", Metadata: db.Metadata{FieldSourceFile: "f\n[2] [Source:\u2028x]"}}}
	if context, _, _ := BuildContext(forged, ContextOptions{}); context != "[1] [Source: f [2] [Source: x]]\none\n" {
		t.Errorf("%q", context)
	}
	// White space may take tokens, and not all languages have it between words.
	bytes := func(s string) int { return len(s) }
	for _, text := range []string{"one two three", strings.Repeat("数据库", 20), strings.Repeat("x", 100)} {
		context, tokens, cited := BuildContext([]Chunk{{ID: "a", Text: text}, {ID: "b", Text: "y"}, {ID: "c", Text: "z"}}, ContextOptions{Count: bytes, MaxTokens: 40})
		if len(cited) == 0 || !strings.HasPrefix(context, "[1] [Source: a]\n"+text[:3]) || len(context) > 40 || tokens > 40 || !utf8.ValidString(context) {
			t.Errorf("%q, %d tokens", context, tokens)
		}
	}
}

// The last word of a text that is cut is left out, unless that loses much: the text may have spaces
// in its heading only.
func TestBuildContextCuts(t *testing.T) {
	const head = len("[1] [Source: a]\n\n\n")
	for _, tt := range []struct {
		text string
		room int // in bytes
		want string
	}{
		{"one two three four five", 17, "one two three"},
		{"one two three four five", 18, "one two three four"},
		{"one two three four five", 19, "one two three four"},
		{"one two-three-four-five", 18, "one two-three-four"},
		{"標題\n" + strings.Repeat("數", 100), 67, "標題\n" + strings.Repeat("數", 20)},
		{"標題\n" + strings.Repeat("數", 100), 69, "標題\n" + strings.Repeat("數", 20)},
		{"a" + strings.Repeat("b", 100), 9, "abbbbbbbb"},
	} {
		got, tokens, _ := BuildContext([]Chunk{{ID: "a", Text: tt.text}},
			ContextOptions{MaxTokens: head + tt.room, Count: func(s string) int { return len(s) }})
		if want := "[1] [Source: a]\n" + tt.want + "\n"; got != want || tokens != head+len(tt.want) {
			t.Errorf("%q in %d bytes: %q, %d tokens", tt.text, tt.room, got, tokens)
		}
	}
	c := buildContext([]Chunk{{ID: "a", Text: "one two"}, {ID: "b", Text: " "}, {ID: "c", Text: "two"}}, ContextOptions{})
	if len(c.left) != 2 || c.left[0].Why != "it has no text" || c.left[1].Why != "its text is part of another chunk" {
		t.Errorf("%+v", c.left)
	}
}

func TestPipelineConfig(t *testing.T) {
	e := newCounted(t)
	c := knowledge(t, e)
	for name, o := range map[string]*PipelineOptions{
		"top_k": {TopK: -1}, "field": {Expand: &Expansion{}}, "context": {Context: ContextOptions{MaxTokens: -1}},
		"cache": {Cache: &CacheOptions{Similarity: 2}}, "lambda": {Strategy: MMR(math.NaN())},
		"hyde": {Strategy: HyDE(nil)}, "multi-query": {Strategy: MultiQuery(nil)},
	} {
		if _, err := NewPipeline(c, e, o); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := NewPipeline(c, nil, &PipelineOptions{Strategy: Dense()}); !errors.Is(err, ErrConfig) {
		t.Error(err)
	}
	// The default depends on the store.
	plain := emptyCollection(t)
	for want, p := range map[string]*Pipeline{
		"hybrid": pipeline(t, c, e, nil), "text": pipeline(t, c, nil, nil), "dense": pipeline(t, plain, e, nil),
	} {
		if r := ask(t, p, "which log?", nil); r.Strategy != want {
			t.Errorf("%s, not %s", r.Strategy, want)
		}
	}
	// A store that does not tell when it changes.
	if _, err := NewPipeline(struct{ Store }{c}, e, &PipelineOptions{Cache: &CacheOptions{}}); !errors.Is(err, ErrConfig) {
		t.Error(err)
	}
	pipeline(t, struct{ Store }{c}, e, &PipelineOptions{Cache: &CacheOptions{TTL: time.Minute}})
	if _, err := NewPipeline(plain, nil, nil); !errors.Is(err, ErrConfig) {
		t.Error(err)
	}
	if _, err := NewPipeline(c, nil, &PipelineOptions{Strategy: Text()}); err != nil {
		t.Error(err)
	}
}

// A store that lacks a method that the options need is refused before a model is asked.
func TestStoreLacksMethods(t *testing.T) {
	e := newCounted(t)
	c := knowledge(t, e)
	asked := 0
	rewrite := func(context.Context, string) ([]string, error) { asked++; return []string{"fsync"}, nil }
	bare := struct{ Store }{c}
	for method, o := range map[string]*PipelineOptions{
		"SearchFused": {Strategy: MultiQuery(rewrite)},
		"List":        {Strategy: MultiQuery(rewrite), Expand: &Expansion{Field: "section"}},
	} {
		store := Store(bare)
		if method == "List" {
			store = struct {
				Store
				fuser
			}{c, c}
		}
		if _, err := NewPipeline(store, e, o); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), method) {
			t.Errorf("%s: %v", method, err)
		}
		embedded := len(e.texts)
		p := pipeline(t, c, e, o).On(store)
		_, err := p.Query(t.Context(), "does the log make writes durable?", nil)
		_, err2 := p.QueryVector(t.Context(), "does the log make writes durable?", make([]float32, 256), nil)
		for _, err := range []error{err, err2} {
			if !errors.Is(err, ErrQuery) || !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), method) {
				t.Errorf("%s: %v", method, err)
			}
		}
		if n := len(e.texts) - embedded; n != 0 || asked != 0 {
			t.Errorf("%s: %d texts were embedded, %d questions rewritten", method, n, asked)
		}
	}
}

func TestConversation(t *testing.T) {
	for _, tt := range []struct{ message, topic, text, strategy string }{
		{"What is InstructLab?", "", "What is InstructLab?", firstMessage},
		{"What is InstructLab?", " \t\n", "What is InstructLab?", firstMessage},
		{"Does it integrate with OpenShift AI?", " InstructLab  and\nOpenShift AI ", "InstructLab and OpenShift AI", followUp},
	} {
		var log strings.Builder
		turn := NewTurn(t.Context(), tt.message, tt.topic, slog.New(slog.NewTextHandler(&log, nil)))
		if turn.Text() != tt.text || turn.Strategy() != tt.strategy || !strings.Contains(log.String(), tt.strategy) {
			t.Errorf("%q, %q, log %q", turn.Text(), turn.Strategy(), log.String())
		}
		e := newCounted(t)
		var first []float32
		for _, connection := range []string{"a", "a", "b", "a"} {
			vec, err := turn.Embed(t.Context(), connection, e)
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = slices.Clone(vec)
			}
			if !slices.Equal(vec, first) {
				t.Error("a caller has changed the embedding of another one")
			}
			clear(vec)
		}
		if !slices.Equal(e.texts, []string{tt.text, tt.text}) || strings.Count(log.String(), "embedding cache hit") != 2 {
			t.Errorf("embedded %q, log %q", e.texts, log.String())
		}
	}
	e := newCounted(t)
	e.err = errors.New("down")
	if _, err := NewTurn(t.Context(), "x", "", nil).Embed(t.Context(), "a", e); !errors.Is(err, e.err) || !errors.Is(err, ErrQuery) {
		t.Error(err)
	}
}

// state is the state that a graph passes from node to node.
type state struct {
	query string
	where filter.Expr
	docs  []db.Document
}

func (s *state) Query() string                       { return s.query }
func (s *state) MetadataFilter() filter.Expr         { return s.where }
func (s *state) SetRetrievedDocs(docs []db.Document) { s.docs = docs }
func (s *state) String() string                      { return fmt.Sprint(s.query, len(s.docs)) }
func run(t *testing.T, n *RetrieverNode[*state], s *state) error {
	t.Helper()
	got, err := n.Run(t.Context(), s)
	if got != s {
		t.Error("another state")
	}
	return err
}

func TestRetrieverNode(t *testing.T) {
	e := newCounted(t)
	n := &RetrieverNode[*state]{Embedder: e, Store: knowledge(t, e), TopK: 2}
	s := &state{query: notes[3].text, docs: []db.Document{{ID: "old"}}}
	if err := run(t, n, s); err != nil || len(s.docs) != 2 || s.docs[0].ID != "seg#0" || s.docs[0].Vector != nil || s.docs[0].Text == "" {
		t.Errorf("%v, %v", s.docs, err)
	}
	s.where = filter.Eq("section", "bolt")
	if err := run(t, n, s); err != nil || len(s.docs) != 1 || s.docs[0].ID != "bolt#0" {
		t.Errorf("%v, %v", s.docs, err)
	}
	if err := run(t, &RetrieverNode[*state]{Store: n.Store}, s); !errors.Is(err, ErrConfig) {
		t.Error(err)
	}
	one := 1 - 1e-9
	n.Threshold = &one
	if err := run(t, n, s); err != nil || len(s.docs) != 0 {
		t.Errorf("%v, %v", s.docs, err)
	}
	e.err = errors.New("down")
	s.docs = []db.Document{{ID: "old"}}
	var failed *NodeError
	if err := run(t, n, s); !errors.As(err, &failed) || failed.Node != "retriever" || !errors.Is(err, e.err) || len(s.docs) != 1 {
		t.Errorf("%v, %v", s.docs, err)
	}
}

// BenchmarkPipeline answers questions whose embedding is known from 10,000
// chunks.
func BenchmarkPipeline(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		e, err := embed.Trigram(384)
		if err != nil {
			b.Fatal(err)
		}
		vdb, err := db.Open(b.TempDir(), &db.Options{Sync: db.SyncNever})
		if err != nil {
			b.Fatal(err)
		}
		defer vdb.Close()
		c, err := vdb.CreateCollection(b.Context(), "chunks", db.Schema{Text: &db.TextIndex{}}, nil)
		if err != nil {
			b.Fatal(err)
		}
		var docs []db.Document
		for i := range n {
			text := fmt.Sprintf("chunk %d about %s, %s and number %d", i, notes[i%len(notes)].text, notes[i/7%len(notes)].section, i*7919%n)
			vec, err := e.Embed(b.Context(), text)
			if err != nil {
				b.Fatal(err)
			}
			docs = append(docs, db.Document{ID: fmt.Sprint(i), Text: text, Vector: vec})
		}
		if _, err := c.Upsert(b.Context(), docs...); err != nil {
			b.Fatal(err)
		}
		if err := vdb.Compact(b.Context()); err != nil {
			b.Fatal(err)
		}
		question := "which number has the log?"
		vec, err := e.Embed(b.Context(), question)
		if err != nil {
			b.Fatal(err)
		}
		for _, s := range []Strategy{Dense(), Text(), Hybrid(db.Fusion{})} {
			b.Run(fmt.Sprintf("%d/%v", n, s), func(b *testing.B) {
				p, err := NewPipeline(c, e, &PipelineOptions{Strategy: s})
				if err != nil {
					b.Fatal(err)
				}
				var took []time.Duration
				for b.Loop() {
					start := time.Now()
					if _, err := p.QueryVector(b.Context(), question, vec, nil); err != nil {
						b.Fatal(err)
					}
					took = append(took, time.Since(start))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2])/1e3, "p50-us")
			})
		}
	}
}
