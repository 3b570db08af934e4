package langchaingo_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/embeddings"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/schema"
	"github.com/tmc/langchaingo/textsplitter"
	"github.com/tmc/langchaingo/vectorstores"

	"github.com/vecbolt/vecbolt/adapters/langchaingo"
	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/rag/embed"
)

func newStore(t *testing.T, e embeddings.Embedder, o *langchaingo.Options) *langchaingo.Store {
	t.Helper()
	vdb, err := db.Open(filepath.Join(t.TempDir(), "test.vdb"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := vdb.Close(); err != nil {
			t.Error(err)
		}
	})
	s, err := langchaingo.New(vdb, e, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func trigram(t *testing.T, dim int) embeddings.Embedder {
	t.Helper()
	e, err := embed.Trigram(dim)
	if err != nil {
		t.Fatal(err)
	}
	return langchaingo.Embedder(e)
}

var animals = []schema.Document{
	{PageContent: "Cats purr when they are content.", Metadata: map[string]any{"id": "cats", "legs": 4, "tags": []any{"pet"}}},
	{PageContent: "Dogs bark at strangers.", Metadata: map[string]any{"id": "dogs", "legs": 4}},
	{PageContent: "Wrens sing at dawn.", Metadata: map[string]any{"id": "wrens", "legs": 2}},
}

func texts(docs []schema.Document) (list []string) {
	for _, d := range docs {
		list = append(list, strings.Fields(d.PageContent)[0])
	}
	return list
}

func TestSimilaritySearch(t *testing.T) {
	s := newStore(t, trigram(t, 256), nil)
	if docs, err := s.SimilaritySearch(t.Context(), "anything", 3); err != nil || len(docs) != 0 {
		t.Error("an empty store:", docs, err)
	}
	ids, err := s.AddDocuments(t.Context(), animals)
	if err != nil || !slices.Equal(ids, []string{"cats", "dogs", "wrens"}) {
		t.Fatal(ids, err)
	}
	docs, err := s.SimilaritySearch(t.Context(), "who purrs when content?", 2)
	if err != nil || len(docs) != 2 || texts(docs)[0] != "Cats" || docs[0].Metadata["legs"] != int64(4) || !(docs[0].Score > docs[1].Score) {
		t.Fatal(docs, err)
	}
	least := docs[0].Score
	for name, tt := range map[string]struct {
		option vectorstores.Option
		want   []string
	}{
		"threshold":  {vectorstores.WithScoreThreshold(least - 1e-6), []string{"Cats"}},
		"expression": {vectorstores.WithFilters(filter.Eq("legs", 2)), []string{"Wrens"}},
		"map":        {vectorstores.WithFilters(map[string]any{"legs": map[string]any{"$lt": 4}}), []string{"Wrens"}},
		"json":       {vectorstores.WithFilters(`{"tags":{"$contains":"pet"}}`), []string{"Cats"}},
		"namespace":  {vectorstores.WithNameSpace("elsewhere"), nil},
	} {
		docs, err := s.SimilaritySearch(t.Context(), "who purrs when content?", 3, tt.option)
		if err != nil || !slices.Equal(texts(docs), tt.want) {
			t.Errorf("%s: %v, %v", name, docs, err)
		}
	}
	if docs, err := s.SimilaritySearch(t.Context(), "x", 0); err != nil || len(docs) != 0 {
		t.Errorf("no documents wanted: %v, %v", docs, err)
	}
	if _, err := s.SimilaritySearch(t.Context(), "x", 3, vectorstores.WithFilters(7)); err == nil {
		t.Error("a filter that is none")
	}
	if _, err := s.SimilaritySearch(t.Context(), "x", 3, vectorstores.WithEmbedder(trigram(t, 32))); !errors.Is(err, db.ErrDimensionMismatch) {
		t.Error(err)
	}
}

// Programs pass options on from their configuration, where empty means the default.
func TestEmptyOptions(t *testing.T) {
	s := newStore(t, trigram(t, 256), nil)
	if _, err := s.AddDocuments(t.Context(), animals, vectorstores.WithNameSpace(""), vectorstores.WithEmbedder(nil)); err != nil {
		t.Fatal(err)
	}
	for name, option := range map[string]vectorstores.Option{
		"namespace": vectorstores.WithNameSpace(""),
		"embedder":  vectorstores.WithEmbedder(nil),
		"filters":   vectorstores.WithFilters(map[string]any(nil)),
	} {
		if docs, err := s.SimilaritySearch(t.Context(), "who purrs?", 3, option); err != nil || len(docs) != 3 {
			t.Errorf("%s: %v, %v", name, docs, err)
		}
	}
}

func TestAddDocuments(t *testing.T) {
	s := newStore(t, trigram(t, 64), nil)
	known := vectorstores.WithDeduplicater(func(_ context.Context, d schema.Document) bool { return strings.HasPrefix(d.PageContent, "Dogs") })
	if ids, err := s.AddDocuments(t.Context(), animals, known, vectorstores.WithNameSpace("pets")); err != nil || !slices.Equal(ids, []string{"cats", "wrens"}) {
		t.Error(ids, err)
	}
	ids, err := s.AddDocuments(t.Context(), []schema.Document{{PageContent: "no id"}})
	if err != nil || len(ids) != 1 || len(ids[0]) != 36 {
		t.Error(ids, err)
	}
	if _, err := s.AddDocuments(t.Context(), animals, vectorstores.WithFilters("{}")); err == nil {
		t.Error("a filter makes no sense")
	}
	broken := errors.New("broken")
	failing, err := embeddings.NewEmbedder(embeddings.EmbedderClientFunc(func(context.Context, []string) ([][]float32, error) { return nil, broken }))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.AddDocuments(t.Context(), animals, vectorstores.WithEmbedder(failing)); !errors.Is(err, broken) {
		t.Error(err)
	}
	if _, err := s.AddDocuments(t.Context(), []schema.Document{{PageContent: "x", Metadata: map[string]any{"f": func() {}}}}); !errors.Is(err, db.ErrInvalid) {
		t.Error(err)
	}
}

func TestHybrid(t *testing.T) {
	s := newStore(t, trigram(t, 8), &langchaingo.Options{Collection: "notes", Schema: db.Schema{Text: &db.TextIndex{}}, Hybrid: true})
	if _, err := s.AddDocuments(t.Context(), animals); err != nil {
		t.Fatal(err)
	}
	docs, err := s.SimilaritySearch(t.Context(), `"dawn`, 1)
	if err != nil || !slices.Equal(texts(docs), []string{"Wrens"}) {
		t.Error(docs, err)
	}
}

// echo is a model that answers with its prompt.
type echo struct{ llms.Model }

func (echo) GenerateContent(_ context.Context, messages []llms.MessageContent, _ ...llms.CallOption) (*llms.ContentResponse, error) {
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: fmt.Sprint(messages[0].Parts[0])}}}, nil
}

// TestChain is how programs use langchaingo: split, store, and a chain
// that retrieves.
func TestChain(t *testing.T) {
	text := "Bees dance to tell where flowers are. " + strings.Repeat("Ants follow trails of scent. ", 5) + "Wasps make paper."
	docs, err := textsplitter.CreateDocuments(textsplitter.NewRecursiveCharacter(textsplitter.WithChunkSize(60), textsplitter.WithChunkOverlap(0)),
		[]string{text}, []map[string]any{{"source": "insects.txt"}})
	if err != nil || len(docs) < 3 {
		t.Fatal(docs, err)
	}
	// An embedder of langchaingo, for a change.
	client, err := embed.Trigram(128)
	if err != nil {
		t.Fatal(err)
	}
	e, err := embeddings.NewEmbedder(embeddings.EmbedderClientFunc(client.EmbedBatch), embeddings.WithBatchSize(2))
	if err != nil {
		t.Fatal(err)
	}
	var store vectorstores.VectorStore = newStore(t, e, nil)
	if _, err := store.AddDocuments(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	chain := chains.NewRetrievalQAFromLLM(echo{}, vectorstores.ToRetriever(store, 1))
	answer, err := chains.Run(t.Context(), chain, "which insects dance to tell where flowers are?")
	if err != nil || !strings.Contains(answer, "Bees dance") || strings.Contains(answer, "Wasps") {
		t.Errorf("%q, %v", answer, err)
	}
}
