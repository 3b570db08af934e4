package vectorize

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/dbtest"
	"github.com/vecbolt/vecbolt/rag/embed"
)

// A lab is a database in memory, and a provider that counts texts.
type lab struct {
	t      *testing.T
	vdb    *db.DB
	models *Models
	mu     sync.Mutex
	texts  []string
	fail   error
}

type counted struct {
	embed.Embedder
	lab *lab
}

func (c counted) EmbedBatch(ctx context.Context, texts []string) ([][]float32, error) {
	c.lab.mu.Lock()
	defer c.lab.mu.Unlock()
	if c.lab.fail != nil {
		return nil, c.lab.fail
	}
	c.lab.texts = append(c.lab.texts, texts...)
	return c.Embedder.EmbedBatch(ctx, texts)
}

// Dimensions is unknown before the first vector, as of some servers.
func (counted) Dimensions() int { return 0 }

func newLab(t *testing.T, standard *embed.Config) *lab {
	t.Helper()
	l := &lab{t: t}
	vdb, err := db.Open(db.Memory, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = vdb.Close() })
	l.vdb = vdb
	registry := embed.NewRegistry(append(embed.Builtin(), embed.Provider{Name: "counted",
		Capabilities: embed.Capabilities{Dimensions: true, Network: true},
		Open: func(_ context.Context, c embed.Config, _ *embed.Options) (embed.Embedder, error) {
			e, err := embed.Trigram(max(c.Dimensions, 64))
			return counted{e, l}, err
		}})...)
	l.models = New(Options{Providers: registry, Default: standard, Retry: &embed.RetryOptions{Attempts: 1}})
	return l
}

func (l *lab) open(name string, s db.Schema) *Collection {
	l.t.Helper()
	c, err := l.vdb.OpenCollection(l.t.Context(), name, s)
	if err != nil {
		l.t.Fatal(err)
	}
	return l.models.Collection(c)
}

func (l *lab) heard() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := strings.Join(l.texts, "|")
	l.texts = nil
	return all
}

var model = embed.Config{Provider: "counted", Model: "m", Dimensions: 64, Normalize: true}

// Two processes pin one collection at the same time: one of them is told that it has another model.
func TestPinnedMeanwhile(t *testing.T) {
	l := newLab(t, nil)
	c := l.open("notes", db.Schema{})
	first := New(Options{Providers: embed.NewRegistry(append(embed.Builtin(), embed.Provider{Name: "slow",
		Open: func(context.Context, embed.Config, *embed.Options) (embed.Embedder, error) {
			e, err := embed.Trigram(64)
			return during{e, func() error { return c.Pin(t.Context(), model) }}, err
		}})...)}).Collection(c.Collection)
	if err := first.Pin(t.Context(), embed.Config{Provider: "slow", Model: "s"}); !errors.Is(err, embed.ErrMismatch) {
		t.Errorf("the other model was pinned as well: %v", err)
	}
	info, err := c.Info()
	if err != nil {
		t.Fatal(err)
	}
	if have, ok := Pinned(info); !ok || have.Match(model) != nil {
		t.Errorf("pinned to %s", have)
	}
}

// TestPinnedByAnotherProcess: another process has just pinned a collection. Texts get vectors, and
// vectors of another length are refused.
func TestPinnedByAnotherProcess(t *testing.T) {
	ctx := t.Context()
	leader, other := dbtest.Share(t, db.Open, &db.Options{Sync: db.SyncNever})
	config := embed.Config{Provider: "mock", Model: "trigram-v1", Dimensions: 384}
	for i := range 60 {
		c, err := leader.CreateCollection(ctx, fmt.Sprint("notes", i), db.Schema{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Insert(ctx, db.Document{ID: "old", Text: "before"}); err != nil {
			t.Fatal(err)
		}
		if err := other.Barrier(ctx); err != nil {
			t.Fatal(err)
		}
		theirs, err := other.Collection(fmt.Sprint("notes", i))
		if err != nil {
			t.Fatal(err)
		}
		if err := New(Options{}).Collection(c).Pin(ctx, config); err != nil {
			t.Fatal(err)
		}
		notes, id := New(Options{}).Collection(theirs), "old"
		switch i % 3 {
		case 0:
			id = "new"
			_, err = notes.Upsert(ctx, db.Document{ID: id, Text: "after"})
		case 1:
			err = notes.Patch(ctx, db.Patch{ID: id, Text: new("after")})
		case 2:
			if _, err = notes.Upsert(ctx, db.Document{ID: "foreign", Vector: []float32{1}}); !errors.Is(err, db.ErrDimensionMismatch) {
				t.Fatalf("a vector of one component: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		d, err := c.Get(ctx, id, db.WithVector)
		if err != nil || len(d.Vector) != config.Dimensions {
			t.Fatalf("%s has a vector of %d components: %v", id, len(d.Vector), err)
		}
	}
}

// during is an embedder of unknown dimension that does something before it answers.
type during struct {
	embed.Embedder
	do func() error
}

func (during) Dimensions() int { return 0 }

func (d during) EmbedBatch(ctx context.Context, texts []string) ([][]float32, error) {
	if err := d.do(); err != nil {
		return nil, err
	}
	return d.Embedder.EmbedBatch(ctx, texts)
}

func (d during) Embed(ctx context.Context, text string) ([]float32, error) {
	vecs, err := d.EmbedBatch(ctx, []string{text})
	if err != nil {
		return nil, err
	}
	return vecs[0], nil
}

func TestWritesAndAsks(t *testing.T) {
	for _, index := range []*db.TextIndex{nil, {}} {
		t.Run(fmt.Sprint(index != nil), func(t *testing.T) {
			l := newLab(t, nil)
			c := l.open("notes", db.Schema{Text: index})
			if err := c.Pin(t.Context(), model); err != nil {
				t.Fatal(err)
			}
			own := make([]float32, 64)
			own[0] = 1
			docs := []db.Document{{ID: "cat", Text: "Cats purr when they are content."}, {ID: "dog", Text: "Dogs bark at night."},
				{ID: "own", Text: "brought its vector", Vector: own}, {ID: "mute"}, {ID: "blank", Text: " \n"}}
			if _, err := c.Upsert(t.Context(), docs...); err != nil {
				t.Fatal(err)
			}
			if got := l.heard(); got != "Cats purr when they are content.|Dogs bark at night." {
				t.Errorf("%q", got)
			}
			if docs[0].Vector != nil {
				t.Error("the caller's document was changed")
			}
			for id, n := range map[string]int{"cat": 64, "dog": 64, "own": 64, "mute": 0, "blank": 0} {
				d, err := c.Get(t.Context(), id, db.Everything)
				if err != nil || len(d.Vector) != n {
					t.Errorf("%s: %d components, %v", id, len(d.Vector), err)
				}
			}
			r, err := c.Search(t.Context(), db.Query{Text: `"Cats purr" content`, K: 1})
			if err != nil || len(r.Hits) != 1 || r.Hits[0].ID != "cat" {
				t.Errorf("%+v, %v", r, err)
			}
			if got := l.heard(); got != "Cats purr content" {
				t.Errorf("the question was embedded as %q", got)
			}
			if hybrid := r.Hits[0].Legs != nil; hybrid != (index != nil) {
				t.Errorf("legs: %v", r.Hits[0].Legs)
			}
			changed := "Locomotives run on rails."
			if err := c.Patch(t.Context(), db.Patch{ID: "dog", Text: &changed}); err != nil || l.heard() != changed {
				t.Error(err)
			}
			if r, err := c.Search(t.Context(), db.Query{Text: changed, K: 1}); err != nil || r.Hits[0].ID != "dog" || l.heard() != changed[:len(changed)-1]+"." {
				t.Errorf("%+v, %v", r, err)
			}
			if err := c.Patch(t.Context(), db.Patch{ID: "dog", Set: db.Metadata{"n": int64(1)}}); err != nil || l.heard() != "" {
				t.Error(err)
			}
			// A document without a text keeps no vector of the old one.
			none, blank := "", " \n"
			for _, p := range []db.Patch{{Text: &none}, {Text: &blank}, {Text: &changed, Vector: []float32{}}} {
				_, err := c.Upsert(t.Context(), db.Document{ID: "emptied", Text: "Ships sail."})
				if l.heard(); err != nil {
					t.Fatal(err)
				}
				p.ID = "emptied"
				if err := c.Patch(t.Context(), p); err != nil || l.heard() != "" {
					t.Error(err)
				}
				if d, err := c.Get(t.Context(), p.ID, db.Everything); err != nil || d.Text != *p.Text || d.Vector != nil {
					t.Errorf("%q: %d components, %v", *p.Text, len(d.Vector), err)
				}
			}
			// A target of one's own is not replaced.
			if r, err := c.Search(t.Context(), db.Query{Near: db.Stored("dog"), K: 1}); err != nil || r.Hits[0].ID != "dog" || l.heard() != "" {
				t.Errorf("%+v, %v", r, err)
			}
			if _, err := c.Insert(t.Context(), db.Document{ID: "cat", Text: "again"}); !errors.Is(err, db.ErrExists) {
				t.Error(err)
			}
		})
	}
}

// TestSigns: excluded words are not embedded, and without a text index signs before words are
// refused.
func TestSigns(t *testing.T) {
	for _, tt := range []struct {
		query          string
		words, vectors string // the text that is embedded if there is a text index, and if there is none
		refused        string // the word that the error names if there is none
	}{
		{query: "fruit -banana", words: "fruit", refused: "-banana"},
		{query: "+ripe fruit", words: "ripe fruit", refused: "+ripe"},
		{query: `fruit -"ripe banana" tree*`, words: "fruit tree", refused: `-\"ripe banana\"`},
		{query: "-banana", refused: "-banana"},
		{query: "what is -5 degrees", words: "what is degrees", vectors: "what is 5 degrees"},
		{query: "what does --force do", words: "what does do", vectors: "what does force do"},
		{query: "e-mail - or c++ ?", words: "e-mail or c++ ?", vectors: "e-mail or c++ ?"},
	} {
		for _, index := range []*db.TextIndex{nil, {}} {
			t.Run(fmt.Sprint(tt.query, index != nil), func(t *testing.T) {
				l := newLab(t, nil)
				c := l.open("notes", db.Schema{Text: index})
				if err := c.Pin(t.Context(), model); err != nil {
					t.Fatal(err)
				}
				q, err := c.Ask(t.Context(), db.Query{Text: tt.query})
				heard, want := l.heard(), tt.vectors
				if index != nil {
					want = tt.words
				} else if tt.refused != "" {
					if !errors.Is(err, db.ErrInvalid) || !strings.Contains(err.Error(), tt.refused) || heard != "" {
						t.Errorf("%v, embedded %q", err, heard)
					}
					return
				}
				if err != nil || heard != want || (q.Near != nil) != (want != "") || (q.Text != "") != (index != nil) {
					t.Errorf("%v, embedded %q: %+v", err, heard, q)
				}
			})
		}
	}
}

func TestPin(t *testing.T) {
	l := newLab(t, nil)
	for _, tt := range []struct {
		name   string
		schema db.Schema
		vector int // components of a document that is there already
		model  embed.Config
		want   string // of the error; empty: pinned
	}{
		{"fresh", db.Schema{}, 0, model, ""},
		{"unknown dimension", db.Schema{}, 0, embed.Config{Provider: "counted", Model: "m"}, ""},
		{"same lineage", db.Schema{Lineage: db.Lineage{Provider: "counted", Model: "m"}}, 64, model, ""},
		{"dimension", db.Schema{Dim: 64}, 0, model, ""},
		{"other dimension", db.Schema{Dim: 3}, 0, model, "has vectors of 3 components of provider=unknown, model=unknown"},
		{"other lineage", db.Schema{Lineage: db.Lineage{Provider: "openai", Model: "x"}}, 0, model, "provider=openai, model=x"},
		{"foreign vectors", db.Schema{}, 64, model, "has vectors of 64 components of provider=unknown, model=unknown"},
		{"no provider", db.Schema{}, 0, embed.Config{Provider: "nobody"}, "nobody"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := l.open(tt.name, tt.schema)
			if err := c.SetMetadata(t.Context(), db.Metadata{"owner": "me"}); err != nil {
				t.Fatal(err)
			}
			if tt.vector > 0 {
				if _, err := c.Upsert(t.Context(), db.Document{ID: "1", Vector: make([]float32, tt.vector)}); err != nil {
					t.Fatal(err)
				}
			}
			err := c.Pin(t.Context(), tt.model)
			info, err2 := c.Info()
			if err2 != nil {
				t.Fatal(err2)
			}
			have, ok := Pinned(info)
			if info.Metadata["owner"] != "me" {
				t.Errorf("%v", info.Metadata)
			}
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) || ok {
					t.Errorf("%v, pinned: %v", err, ok)
				}
				return
			}
			if err != nil || have.Provider != "counted" || have.Model != "m" || have.Dimensions != 64 {
				t.Fatal(have, err)
			}
			if err := c.Pin(t.Context(), tt.model); err != nil {
				t.Error(err)
			}
			for _, other := range []embed.Config{embed.DefaultConfig(), {Provider: "counted", Model: "n", Dimensions: 64}, {Provider: "counted", Model: "m", Dimensions: 65}} {
				if err := c.Pin(t.Context(), other); !errors.Is(err, embed.ErrMismatch) || !strings.Contains(err.Error(), "is pinned to provider=counted, model=m, dimensions=64") {
					t.Error(err)
				}
			}
		})
	}
}

// TestDefault pins collections by their first text.
func TestDefault(t *testing.T) {
	l := newLab(t, &model)
	c := l.open("a", db.Schema{})
	if q, err := c.Ask(t.Context(), db.Query{Text: "x"}); err != nil || q.Near != nil {
		t.Errorf("%+v, %v", q, err)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if _, err := c.Upsert(t.Context(), db.Document{ID: fmt.Sprint(i), Text: "some text"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if r, err := c.Search(t.Context(), db.Query{Text: "text"}); err != nil || len(r.Hits) != 8 {
		t.Errorf("%+v, %v", r, err)
	}
	// A collection with vectors of its own refuses texts, and one that is pinned keeps its model.
	b := l.open("b", db.Schema{})
	if _, err := b.Upsert(t.Context(), db.Document{ID: "1", Vector: []float32{1, 0}}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Upsert(t.Context(), db.Document{ID: "2", Text: "x"}); !errors.Is(err, embed.ErrMismatch) {
		t.Error(err)
	}
	d := l.open("d", db.Schema{})
	if err := d.Pin(t.Context(), embed.DefaultConfig()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Upsert(t.Context(), db.Document{ID: "1", Text: "x"}); err != nil {
		t.Fatal(err)
	}
	if info, err := d.Info(); err != nil || info.Schema.Dim != embed.TrigramDimensions {
		t.Error(info, err)
	}
}

// TestVectorsOfAnotherLength: a write with vectors of another length than the model makes is
// refused, and pins nothing.
func TestVectorsOfAnotherLength(t *testing.T) {
	l := newLab(t, &model)
	c := l.open("a", db.Schema{})
	long := db.Document{ID: "1", Vector: make([]float32, 77), Text: "x"}
	if _, err := c.Upsert(t.Context(), long, db.Document{ID: "2", Text: "x"}); !errors.Is(err, db.ErrDimensionMismatch) {
		t.Errorf("beside a text: %v", err)
	}
	info, err := c.Info()
	if _, pinned := Pinned(info); err != nil || pinned || info.Documents > 0 {
		t.Errorf("%+v, %v", info, err)
	}
	if err := c.Pin(t.Context(), model); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Upsert(t.Context(), long); !errors.Is(err, db.ErrDimensionMismatch) {
		t.Errorf("pinned: %v", err)
	}
	if _, err := c.Upsert(t.Context(), db.Document{ID: "2", Text: "x"}); err != nil {
		t.Error(err)
	}
}

func TestFailures(t *testing.T) {
	l := newLab(t, &model)
	c := l.open("a", db.Schema{})
	l.fail = errors.New("no model today")
	if _, err := c.Upsert(t.Context(), db.Document{ID: "1", Text: "x"}); !errors.Is(err, l.fail) {
		t.Error(err)
	}
	if n, err := c.Count(t.Context(), nil); n != 0 || err != nil {
		t.Error(n, err)
	}
	if _, err := c.Search(t.Context(), db.Query{Text: "x"}); !errors.Is(err, l.fail) {
		t.Error(err)
	}
	// The program does not have the provider any more.
	gone := New(Options{}).Collection(c.Collection)
	if _, err := gone.Search(t.Context(), db.Query{Text: "x"}); !errors.Is(err, embed.ErrProviderNotFound) || !strings.Contains(err.Error(), "is pinned to provider=counted") {
		t.Error(err)
	}
	// Metadata that is no pin.
	for _, v := range []any{"static:x", map[string]any{"provider": int64(1)}, map[string]any{}} {
		if _, ok := Pinned(db.CollectionInfo{Metadata: db.Metadata{Field: v}}); ok {
			t.Errorf("%v is a pin", v)
		}
	}
}

func TestKeep(t *testing.T) {
	pin := map[string]any{"provider": "counted", "model": "m", "dimensions": int64(64)}
	pinned := db.CollectionInfo{Metadata: db.Metadata{Field: pin, "a": "old"}}
	for _, tt := range []struct {
		name string
		info db.CollectionInfo
		m    db.Metadata
		want db.Metadata // nil: refused
	}{
		{"kept", pinned, db.Metadata{"b": "new"}, db.Metadata{Field: pin, "b": "new"}},
		{"sent back", pinned, db.Metadata{Field: pin}, db.Metadata{Field: pin}},
		{"changed", pinned, db.Metadata{Field: map[string]any{"provider": "openai"}}, nil},
		{"invented", db.CollectionInfo{}, db.Metadata{Field: pin}, nil},
		{"none", db.CollectionInfo{}, db.Metadata{"b": "new"}, db.Metadata{"b": "new"}},
	} {
		got, err := Keep(tt.info, tt.m)
		if diff := cmp.Diff(tt.want, got); diff != "" || errors.Is(err, embed.ErrMismatch) != (tt.want == nil) {
			t.Errorf("%s: %v\n%s", tt.name, err, diff)
		}
	}
}
