package rag

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/dbtest"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/split"
)

// batched counts the texts of batches.
func (c *counted) EmbedBatch(ctx context.Context, texts []string) ([][]float32, error) {
	c.texts = append(c.texts, texts...)
	if c.err != nil {
		return nil, c.err
	}
	return c.Embedder.EmbedBatch(ctx, texts)
}

func indexer(t testing.TB, c Store, e embed.Embedder, o IndexerOptions) *Indexer {
	t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	x, err := NewIndexer(c, e, &o)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func emptyCollection(t testing.TB) *db.Collection {
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
	c, err := vdb.CreateCollection(t.Context(), "docs", db.Schema{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestIndexer(t *testing.T) {
	e, c := newCounted(t), emptyCollection(t)
	x := indexer(t, c, e, IndexerOptions{Batch: 2})
	own := make([]float32, 256)
	own[3] = 1
	docs := []db.Document{
		{ID: "a", Text: "Apples are red."}, {ID: "b", Text: "Bananas are yellow.", Metadata: db.Metadata{FieldHeader: "Fruit"}},
		{ID: "c", Text: "It came with a vector.", Vector: own},
	}
	ids, err := x.Index(t.Context(), docs...)
	if err != nil || !slices.Equal(ids, []string{"a", "b", "c"}) {
		t.Fatal(ids, err)
	}
	if diff := cmp.Diff([]string{"Apples are red.", "Fruit\n\nBananas are yellow."}, e.texts); diff != "" {
		t.Error(diff)
	}
	if docs[0].Vector != nil {
		t.Error("the caller's documents were changed")
	}
	d, err := c.Get(t.Context(), "c", db.Everything)
	if err != nil || !slices.Equal(d.Vector, own) {
		t.Error(d, err)
	}
	res, err := c.Search(t.Context(), db.Query{Near: db.Stored("a"), K: 1})
	if err != nil || res.Hits[0].Score < 0.999 {
		t.Error(res, err)
	}

	// Ids are needed, or a function that makes them; then nothing is written.
	before, err := c.Version()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Index(t.Context(), db.Document{ID: "d", Text: "d"}, db.Document{Text: "x"}); !errors.Is(err, db.ErrInvalid) || !errors.Is(err, ErrIndex) || !errors.Is(err, ErrRetrieval) {
		t.Error(err)
	}
	if now, err := c.Version(); err != nil || now != before {
		t.Error("something was written")
	}
	n := 0
	x = indexer(t, c, e, IndexerOptions{NewID: func() string { n++; return fmt.Sprint("new", n) }})
	if ids, err := x.Index(t.Context(), db.Document{Text: "x"}, db.Document{ID: "y", Text: "y"}); err != nil || !slices.Equal(ids, []string{"new1", "y"}) {
		t.Error(ids, err)
	}
	e.err = errors.New("down")
	if _, err := x.Index(t.Context(), db.Document{Text: "x"}); !errors.Is(err, e.err) {
		t.Error(err)
	}
}

// TestIndexerEmbedsInPlaceOfEmptyVectors takes a vector without components as none.
func TestIndexerEmbedsInPlaceOfEmptyVectors(t *testing.T) {
	c := emptyCollection(t)
	x := indexer(t, c, newCounted(t), IndexerOptions{})
	if _, err := x.Index(t.Context(), db.Document{ID: "1", Text: "hello", Vector: []float32{}}); err != nil {
		t.Fatal(err)
	}
	if d, err := c.Get(t.Context(), "1", db.WithVector); err != nil || len(d.Vector) != 256 {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestIndexerSplits(t *testing.T) {
	e, c := newCounted(t), emptyCollection(t)
	s, err := split.New(split.Markdown(""), split.Options{MaxTokens: 12, Overlap: -1})
	if err != nil {
		t.Fatal(err)
	}
	x := indexer(t, c, e, IndexerOptions{Split: s})
	text := "# Fruit\n\nApples are red and sweet.\n\n# Trees\n\nOaks are tall and very old trees."
	ids, err := x.Index(t.Context(), db.Document{ID: "doc", Text: text, Metadata: db.Metadata{"lang": "en"}}, db.Document{ID: "blank", Text: " \n"})
	if err != nil || !slices.Equal(ids, []string{"doc#0", "doc#1"}) {
		t.Fatal(ids, err)
	}
	d, err := c.Get(t.Context(), "doc#1", db.WithText|db.WithMetadata)
	if err != nil {
		t.Fatal(err)
	}
	offset, _ := d.Metadata[FieldOffset].(int64)
	if !strings.HasPrefix(text[offset:], d.Text) {
		t.Errorf("offset %d of %q", offset, d.Text)
	}
	want := db.Metadata{"lang": "en", FieldDocument: "doc", FieldChunkIndex: int64(1), FieldOffset: offset, FieldHeader: "Trees"}
	if diff := cmp.Diff(want, d.Metadata); diff != "" {
		t.Error(diff)
	}
	// The document gets shorter: only its surplus chunks are removed.
	if _, err := x.Index(t.Context(), db.Document{ID: "doc2", Text: text}, db.Document{ID: "doc", Text: "# Fruit\n\nPears."}); err != nil {
		t.Fatal(err)
	}
	var left []string
	for d, err := range c.All(t.Context(), nil, db.IDsOnly) {
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, d.ID)
	}
	slices.Sort(left)
	if diff := cmp.Diff([]string{"doc#0", "doc2#0", "doc2#1"}, left); diff != "" {
		t.Error(diff)
	}
	ids, err = x.Index(t.Context(), db.Document{ID: "doc", Text: text}, db.Document{ID: "doc", Text: "# Fruit\n\nFigs."})
	if err != nil || !slices.Equal(ids, []string{"doc#0"}) {
		t.Errorf("of two documents with one id: %v, %v", ids, err)
	}
	if _, err := x.Index(t.Context(), db.Document{ID: "bad", Text: "\xff"}); !errors.Is(err, split.ErrInvalid) || !strings.Contains(err.Error(), `"bad"`) {
		t.Error(err)
	}
}

// A slowStore takes a second for each write, and records them.
type slowStore struct {
	Store
	mu     sync.Mutex
	writes []string
}

func (s *slowStore) write(ctx context.Context, what string) error {
	s.mu.Lock()
	s.writes = append(s.writes, what)
	s.mu.Unlock()
	select {
	case <-time.After(time.Second):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slowStore) Upsert(ctx context.Context, docs ...db.Document) ([]string, error) {
	return idsOf(docs), s.write(ctx, docs[0].ID+" "+docs[0].Text)
}

func (s *slowStore) DeleteWhere(ctx context.Context, _ filter.Expr) (int, error) {
	return 0, s.write(ctx, "rest")
}

// Calls that split the same document take turns, and others do not wait.
func TestIndexerTakesTurns(t *testing.T) {
	s, err := split.New(split.Markdown(""), split.Options{MaxTokens: 12, Overlap: -1})
	if err != nil {
		t.Fatal(err)
	}
	e := newCounted(t)
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{}
		x, err := NewIndexer(store, e.Embedder, &IndexerOptions{Split: s, Batch: 1})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var calls sync.WaitGroup
		index := func(docs ...db.Document) {
			calls.Go(func() {
				if _, err := x.Index(t.Context(), docs...); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		index(db.Document{ID: "a", Text: "old"})
		index(db.Document{ID: "a", Text: "new"}, db.Document{ID: "b", Text: "new"})
		index(db.Document{ID: "c", Text: "other"})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := x.Index(ctx, db.Document{ID: "a", Text: "cancelled"}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		calls.Wait()
		want := []string{"a#0 old", "c#0 other", "rest", "rest", "a#0 new", "b#0 new", "rest"}
		if took := time.Since(start); took != 5*time.Second || !slices.Equal(store.writes, want) {
			t.Errorf("%q in %v, want %q", store.writes, took, want)
		}
	})
}

// A pausedEmbedder does something before it embeds, and so before its Indexer writes.
type pausedEmbedder struct {
	embed.Embedder
	pause func()
}

func (e *pausedEmbedder) EmbedBatch(ctx context.Context, texts []string) ([][]float32, error) {
	e.pause()
	return e.Embedder.EmbedBatch(ctx, texts)
}

// A taggedStore writes documents with a tenant, and deletes only documents of this tenant.
type taggedStore struct{ *db.Collection }

func (s taggedStore) Upsert(ctx context.Context, docs ...db.Document) ([]string, error) {
	for i := range docs {
		docs[i].Metadata["tenant"] = "t"
	}
	return s.Collection.Upsert(ctx, docs...)
}

func (s taggedStore) DeleteWhere(ctx context.Context, where filter.Expr) (int, error) {
	return s.Collection.DeleteWhere(ctx, filter.And(where, filter.Eq("tenant", "t")))
}

// TestIndexerWritesToItsStore: a store that embeds a collection writes and deletes itself. An
// invalid chunk leaves the chunks of a collection as they were.
func TestIndexerWritesToItsStore(t *testing.T) {
	ctx, c := t.Context(), emptyCollection(t)
	splitter, err := split.New(split.Markdown(""), split.Options{MaxTokens: 12, Overlap: -1})
	if err != nil {
		t.Fatal(err)
	}
	count := func(where filter.Expr, want int) {
		t.Helper()
		if n, err := c.Count(ctx, where); err != nil || n != want {
			t.Errorf("%d chunks, %v, want %d", n, err, want)
		}
	}
	texts := db.Document{ID: "doc", Text: "# A\n\nOne part.\n\n# B\n\nAnother part.\n"}
	if _, err := indexer(t, taggedStore{c}, newCounted(t), IndexerOptions{Split: splitter}).Index(ctx, texts); err != nil {
		t.Fatal(err)
	}
	count(filter.Eq("tenant", "t"), 2)
	count(nil, 2)
	long := db.Document{ID: "doc", Text: strings.Repeat(texts.Text, 2), Metadata: db.Metadata{"": 1}}
	if _, err := indexer(t, c, newCounted(t), IndexerOptions{Split: splitter, Batch: 1}).Index(ctx, long); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("an empty key: %v", err)
	}
	count(filter.Eq("tenant", "t"), 2)
	count(nil, 2)
}

// TestIndexersOfTwoProcesses: two processes index one document, in turn or at the same time. The
// later write leaves exactly its chunks.
func TestIndexersOfTwoProcesses(t *testing.T) {
	ctx := t.Context()
	leader, other := dbtest.Share(t, db.Open, &db.Options{Sync: db.SyncNever})
	splitter, err := split.New(split.Markdown(""), split.Options{MaxTokens: 12, Overlap: -1})
	if err != nil {
		t.Fatal(err)
	}
	var colls [2]*db.Collection
	for i, vdb := range []*db.DB{leader, other} {
		if colls[i], err = vdb.OpenCollection(ctx, "docs", db.Schema{}); err != nil {
			t.Fatal(err)
		}
	}
	document := func(word string, chunks int) db.Document {
		d := db.Document{ID: "doc"}
		for i := range chunks {
			d.Text += fmt.Sprintf("# Part %d\n\nThis part is about %s.\n\n", i, word)
		}
		return d
	}
	index := func(s Store, d db.Document, pause func()) {
		t.Helper()
		e := &pausedEmbedder{newCounted(t), pause}
		x, err := NewIndexer(s, e, &IndexerOptions{Split: splitter, Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			_, err = x.Index(ctx, d)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	check := func(what, word string, chunks int) {
		t.Helper()
		if err := other.Barrier(ctx); err != nil {
			t.Fatal(err)
		}
		n := 0
		for d, err := range colls[1].All(ctx, nil, db.WithText) {
			if err != nil || !strings.Contains(d.Text, word) {
				t.Errorf("%s: %q, not about %s, %v", what, d.Text, word, err)
			}
			n++
		}
		if n != chunks {
			t.Errorf("%s: %d chunks, want %d", what, n, chunks)
		}
	}
	long, short := document("figs", 5), document("pears", 3)
	for i := range colls {
		mine, others := colls[i], colls[1-i]
		index(mine, long, func() {})
		index(others, short, func() {})
		check("in turn", "pears", 3)
		index(mine, long, func() { index(others, short, func() {}) })
		check("a shorter one meanwhile", "figs", 5)
		index(mine, short, func() { index(others, long, func() {}) })
		check("a longer one meanwhile", "pears", 3)
	}
}

func TestIndexerConfig(t *testing.T) {
	e, c := newCounted(t), emptyCollection(t)
	if _, err := NewIndexer(c, nil, nil); !errors.Is(err, ErrConfig) {
		t.Error(err)
	}
	if _, err := NewIndexer(nil, e, nil); !errors.Is(err, ErrConfig) {
		t.Error(err)
	}
	if _, err := NewIndexer(c, e, &IndexerOptions{Batch: -1}); !errors.Is(err, ErrConfig) {
		t.Error(err)
	}
	if _, err := c.Upsert(t.Context(), db.Document{ID: "a", Vector: []float32{1, 2}}); err != nil {
		t.Fatal(err)
	}
	_, err := NewIndexer(c, e, nil)
	if _, ok := errors.AsType[*embed.DimensionError](err); !ok || !errors.Is(err, ErrConfig) {
		t.Error(err)
	}
}
