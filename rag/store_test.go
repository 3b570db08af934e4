package rag

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/split"
	"github.com/vecbolt/vecbolt/simd"
	"github.com/vecbolt/vecbolt/store"
)

// least is a store of one's own with the three methods that a Store needs.
type least struct{ docs map[string]db.Document }

func (s least) Upsert(_ context.Context, docs ...db.Document) (ids []string, err error) {
	for _, d := range docs {
		s.docs[d.ID] = d
		ids = append(ids, d.ID)
	}
	return ids, nil
}

func (s least) Search(_ context.Context, q db.Query) (*db.Result, error) {
	r := &db.Result{Exact: true, Complete: true, Recall: 1}
	for _, d := range s.docs {
		r.Hits = append(r.Hits, db.Hit{Document: d, Score: float64(simd.Dot(q.Near.(db.Vector), d.Vector))})
	}
	store.SortHits(r.Hits)
	r.Hits = r.Hits[:min(q.K, len(r.Hits))]
	return r, nil
}

func (s least) Delete(_ context.Context, ids ...string) (n int, err error) {
	for _, id := range ids {
		if _, ok := s.docs[id]; ok {
			n++
		}
		delete(s.docs, id)
	}
	return n, nil
}

// Three methods are enough to index and to retrieve; what needs more says which method.
func TestStoreOfOnesOwn(t *testing.T) {
	e, err := embed.Trigram(64)
	if err != nil {
		t.Fatal(err)
	}
	s := least{map[string]db.Document{}}
	x, err := NewIndexer(s, e, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Index(t.Context(), db.Document{ID: "a", Text: "how bolts are made"}, db.Document{ID: "b", Text: "a recipe for bread"}); err != nil {
		t.Fatal(err)
	}
	p, err := NewPipeline(s, e, &PipelineOptions{TopK: 1})
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Query(t.Context(), "bolts", nil)
	if err != nil || len(r.Chunks) != 1 || r.Chunks[0].ID != "a" {
		t.Errorf("%+v, %v", r, err)
	}
	again := func(context.Context, string) ([]string, error) { return []string{"nuts"}, nil }
	splitter, err := split.New(split.Markdown(""), split.Options{MaxTokens: 8, Overlap: -1})
	if err != nil {
		t.Fatal(err)
	}
	for method, fail := range map[string]func() error{
		"SearchFused": func() error {
			p, err := NewPipeline(s, e, &PipelineOptions{Strategy: MultiQuery(again)})
			if err == nil {
				_, err = p.Query(t.Context(), "bolts", nil)
			}
			return err
		},
		"DeleteWhere": func() error {
			_, err := NewIndexer(s, e, &IndexerOptions{Split: splitter})
			return err
		},
	} {
		if err := fail(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), method) {
			t.Errorf("%s: %v", method, err)
		}
	}
}

// An indexer writes to a collection of any store, and removes the chunks that a document no longer
// has.
func TestIndexIntoAnyStore(t *testing.T) {
	ctx := t.Context()
	vdb, err := db.Open(db.Memory, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	e, err := embed.Trigram(64)
	if err != nil {
		t.Fatal(err)
	}
	c, err := store.Embedded(vdb).Create(ctx, "docs", store.Schema{Dim: 64})
	if err != nil {
		t.Fatal(err)
	}
	splitter, err := split.New(split.Markdown(""), split.Options{MaxTokens: 8, Overlap: -1})
	if err != nil {
		t.Fatal(err)
	}
	x, err := NewIndexer(store.NewAdapter(c), e, &IndexerOptions{Split: splitter})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("A bolt holds. A nut turns. ", 8)
	index := func(docs ...db.Document) []string {
		t.Helper()
		ids, err := x.Index(ctx, docs...)
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	first := index(db.Document{ID: "a", Text: long}, db.Document{ID: "b", Text: long})
	if len(first) < 6 {
		t.Fatalf("%d chunks: the test needs more", len(first))
	}
	index(db.Document{ID: "a", Text: "A bolt holds."})
	page, err := c.Scan(ctx, "", 100, nil)
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, d := range page.Documents {
		have = append(have, d.ID)
	}
	want := slices.DeleteFunc(first, func(id string) bool { return strings.HasPrefix(id, "a#") && id != "a#0" })
	slices.Sort(want)
	slices.Sort(have)
	if !slices.Equal(have, want) {
		t.Errorf("have %q, want %q", have, want)
	}
}
