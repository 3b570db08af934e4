package eino_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cloudwego/eino/callbacks"
	"github.com/cloudwego/eino/components/document/parser"
	"github.com/cloudwego/eino/components/embedding"
	"github.com/cloudwego/eino/components/indexer"
	"github.com/cloudwego/eino/components/retriever"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/vecbolt/vecbolt/adapters/eino"
	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
)

func open(t *testing.T) *db.DB {
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
	return vdb
}

func trigram(t *testing.T, dim int) embed.Embedder {
	t.Helper()
	e, err := embed.Trigram(dim)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func newStore(t *testing.T, o *eino.Options) *eino.Store {
	t.Helper()
	s, err := eino.New(open(t), eino.Embedder(trigram(t, 256)), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func animals() []*schema.Document {
	return []*schema.Document{
		{ID: "cats", Content: "Cats purr when they are content.", MetaData: map[string]any{"legs": 4}},
		(&schema.Document{ID: "dogs", Content: "Dogs bark at strangers.", MetaData: map[string]any{"legs": 4}}).WithSubIndexes([]string{"loud"}).WithExtraInfo("pets"),
		(&schema.Document{ID: "wrens", Content: "Wrens sing at dawn."}).WithSubIndexes([]string{"loud", "small"}).WithScore(7),
	}
}

func ids(docs []*schema.Document) (list []string) {
	for _, d := range docs {
		list = append(list, d.ID)
	}
	return list
}

func TestStoreAndRetrieve(t *testing.T) {
	s := newStore(t, nil)
	if _, err := s.Retrieve(t.Context(), "x"); !errors.Is(err, db.ErrNotFound) {
		t.Error(err)
	}
	stored, err := s.Store(t.Context(), animals(), indexer.WithSubIndexes([]string{"all"}))
	if err != nil || !slices.Equal(stored, []string{"cats", "dogs", "wrens"}) {
		t.Fatal(stored, err)
	}
	docs, err := s.Retrieve(t.Context(), "who purrs when content?")
	if err != nil || len(docs) != 3 || docs[0].ID != "cats" || !(docs[0].Score() > docs[1].Score()) || docs[0].MetaData["legs"] != int64(4) {
		t.Fatal(docs, err)
	}
	for _, d := range docs {
		if d.ID == "dogs" && (!slices.Equal(d.SubIndexes(), []string{"loud", "all"}) || d.ExtraInfo() != "pets") {
			t.Errorf("%+v", d)
		}
	}
	for name, tt := range map[string]struct {
		options []retriever.Option
		want    []string
	}{
		"top":       {[]retriever.Option{retriever.WithTopK(1)}, []string{"cats"}},
		"threshold": {[]retriever.Option{retriever.WithScoreThreshold(docs[0].Score())}, []string{"cats"}},
		"sub-index": {[]retriever.Option{retriever.WithSubIndex("small")}, []string{"wrens"}},
		"filter":    {[]retriever.Option{eino.WithFilter(filter.Exists("legs")), retriever.WithSubIndex("loud")}, []string{"dogs"}},
		"dsl":       {[]retriever.Option{retriever.WithDSLInfo(map[string]any{"legs": map[string]any{"$exists": false}})}, []string{"wrens"}},
	} {
		docs, err := s.Retrieve(t.Context(), "who purrs when content?", tt.options...)
		if err != nil || !slices.Equal(ids(docs), tt.want) {
			t.Errorf("%s: %v, %v", name, ids(docs), err)
		}
	}
	if _, err := s.Retrieve(t.Context(), "x", retriever.WithDSLInfo(map[string]any{"$nonsense": 1})); err == nil {
		t.Error("a filter that is none")
	}
	if _, err := s.Retrieve(t.Context(), "x", retriever.WithIndex("elsewhere")); !errors.Is(err, db.ErrNotFound) {
		t.Error(err)
	}
	if _, err := s.Retrieve(t.Context(), "x", retriever.WithEmbedding(eino.Embedder(trigram(t, 8)))); !errors.Is(err, db.ErrDimensionMismatch) {
		t.Error(err)
	}
}

// Loaders and parsers of eino say where a text is from, under keys that begin with an underscore.
func TestStoreKeepsSources(t *testing.T) {
	s := newStore(t, nil)
	text, err := parser.TextParser{}.Parse(t.Context(), strings.NewReader("Cats purr."), parser.WithURI("pets.txt"),
		parser.WithExtraMeta(map[string]any{"_file_name": "pets.txt", "_extension": ".txt"}))
	if err != nil {
		t.Fatal(err)
	}
	text[0].WithScore(7).WithDSLInfo(map[string]any{"a": 1}).WithSparseVector(map[int]float64{1: 1})
	if _, err := s.Store(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	docs, err := s.Retrieve(t.Context(), "pets")
	if err != nil || len(docs) != 1 {
		t.Fatal(docs, err)
	}
	score := docs[0].Score()
	delete(docs[0].MetaData, "_score")
	want := map[string]any{parser.MetaKeySource: "pets.txt", "_file_name": "pets.txt", "_extension": ".txt"}
	if !maps.Equal(docs[0].MetaData, want) || score == 7 {
		t.Errorf("%v with score %v, want %v", docs[0].MetaData, score, want)
	}
}

// The documents of a call may share an array of names.
func TestSharedSubIndexes(t *testing.T) {
	s := newStore(t, nil)
	names := []string{"a", "b"}
	one := (&schema.Document{ID: "1", Content: "Cats purr."}).WithSubIndexes(names[:1])
	two := (&schema.Document{ID: "2", Content: "Dogs bark."}).WithSubIndexes(names[:2])
	if _, err := s.Store(t.Context(), []*schema.Document{one, two}, indexer.WithSubIndexes([]string{"q"})); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("the caller's names are %q now", names)
	}
	for name, want := range map[string][]string{"a": {"1", "2"}, "b": {"2"}, "q": {"1", "2"}} {
		docs, err := s.Retrieve(t.Context(), "pets", retriever.WithSubIndex(name))
		got := ids(docs)
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// prompted embeds texts with a prompt, and another one for questions.
type prompted struct {
	embed.Embedder
	prompt string
	seen   *[]string
}

func (p prompted) Queries() embed.Embedder { return prompted{p.Embedder, "question: ", p.seen} }

func (p prompted) EmbedBatch(ctx context.Context, texts []string) ([][]float32, error) {
	for _, t := range texts {
		*p.seen = append(*p.seen, p.prompt+t)
	}
	return p.Embedder.EmbedBatch(ctx, texts)
}

func TestQuestions(t *testing.T) {
	var seen []string
	s, err := eino.New(open(t), eino.Embedder(prompted{trigram(t, 256), "passage: ", &seen}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Store(t.Context(), []*schema.Document{{ID: "1", Content: "Cats purr."}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Retrieve(t.Context(), "who purrs?"); err != nil {
		t.Fatal(err)
	}
	if want := []string{"passage: Cats purr.", "question: who purrs?"}; !slices.Equal(seen, want) {
		t.Errorf("embedded %q, want %q", seen, want)
	}
}

type broken struct{ err error }

func (b broken) EmbedStrings(context.Context, []string, ...embedding.Option) ([][]float64, error) {
	return nil, b.err
}

func TestStoreKeepsVectors(t *testing.T) {
	s := newStore(t, nil)
	cause := errors.New("down")
	b := indexer.WithEmbedding(broken{cause})
	own := make([]float64, 256)
	own[1] = 1
	d := (&schema.Document{Content: "with a vector"}).WithDenseVector(own)
	stored, err := s.Store(t.Context(), []*schema.Document{d}, b)
	if err != nil || len(stored) != 1 || len(stored[0]) != 36 {
		t.Error(stored, err)
	}
	if _, err := s.Store(t.Context(), animals(), b); !errors.Is(err, cause) {
		t.Error(err)
	}
	if _, err := s.Store(t.Context(), animals(), indexer.WithEmbedding(broken{})); err == nil || !strings.Contains(err.Error(), "0 vectors for 3 texts") {
		t.Error(err)
	}
}

func TestEmbedder(t *testing.T) {
	inner := trigram(t, 64)
	e := eino.Embedder(inner)
	vecs, err := e.EmbedStrings(t.Context(), []string{"tea", ""}, embedding.WithModel(inner.Model()))
	if err != nil || len(vecs) != 2 || len(vecs[0]) != 64 {
		t.Fatal(vecs, err)
	}
	sum := 0.0
	for _, x := range vecs[0] {
		sum += x * x
	}
	if math.Abs(sum-1) > 1e-6 {
		t.Error(sum)
	}
	if _, err := e.EmbedStrings(t.Context(), []string{"tea"}, embedding.WithModel("another")); err == nil {
		t.Error("another model")
	}
}

// TestEmptyOptions: options with zero values mean the defaults, and a document that is nil is an
// error.
func TestEmptyOptions(t *testing.T) {
	s := newStore(t, &eino.Options{TopK: 2})
	if _, err := s.Store(t.Context(), animals(), indexer.WithEmbedding(nil)); err != nil {
		t.Fatal(err)
	}
	docs, err := s.Retrieve(t.Context(), "who purrs?", retriever.WithTopK(0), retriever.WithIndex(""), retriever.WithEmbedding(nil))
	if err != nil || len(docs) != 2 {
		t.Errorf("%v, %v", ids(docs), err)
	}
	if _, err := s.Store(t.Context(), []*schema.Document{{ID: "a", Content: "b"}, nil}); err == nil ||
		err.Error() != "eino: document 1 of 2 is nil" {
		t.Error(err)
	}
}

// TestGraph is how programs use eino: a graph of components with callbacks.
func TestGraph(t *testing.T) {
	s := newStore(t, &eino.Options{TopK: 1, Schema: db.Schema{Text: &db.TextIndex{}}, Hybrid: true})

	chain := compose.NewChain[[]*schema.Document, []string]()
	chain.AppendIndexer(s)
	index, err := chain.Compile(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if stored, err := index.Invoke(t.Context(), animals()); err != nil || len(stored) != 3 {
		t.Fatal(stored, err)
	}

	graph := compose.NewGraph[string, string]()
	err = errors.Join(
		graph.AddRetrieverNode("retriever", s),
		graph.AddLambdaNode("answer", compose.InvokableLambda(func(_ context.Context, docs []*schema.Document) (string, error) {
			return docs[0].Content, nil
		})),
		graph.AddEdge(compose.START, "retriever"), graph.AddEdge("retriever", "answer"), graph.AddEdge("answer", compose.END),
	)
	if err != nil {
		t.Fatal(err)
	}
	run, err := graph.Compile(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := ""
	handler := callbacks.NewHandlerBuilder().OnEndFn(func(ctx context.Context, info *callbacks.RunInfo, out callbacks.CallbackOutput) context.Context {
		if docs := retriever.ConvCallbackOutput(out); docs != nil {
			seen = info.Type + string(info.Component) + " " + docs.Docs[0].ID
		}
		return ctx
	}).Build()
	answer, err := run.Invoke(t.Context(), "who sings at dawn?", compose.WithCallbacks(handler), compose.WithRetrieverOption(retriever.WithSubIndex("small")))
	if err != nil || answer != "Wrens sing at dawn." || seen != "VecboltRetriever wrens" {
		t.Errorf("%q, %q, %v", answer, seen, err)
	}
}

// state is the state that a graph with Vecbolt's own node passes between steps.
type state struct {
	question string
	docs     []db.Document
}

func (s *state) Query() string                       { return s.question }
func (s *state) SetRetrievedDocs(docs []db.Document) { s.docs = docs }

// TestRetrieverNode puts the node of package rag into a chain as it is.
func TestRetrieverNode(t *testing.T) {
	vdb, model := open(t), trigram(t, 256)
	c, err := vdb.OpenCollection(t.Context(), "facts", db.Schema{})
	if err != nil {
		t.Fatal(err)
	}
	x, err := rag.NewIndexer(c, model, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Index(t.Context(), db.Document{ID: "bees", Text: "Bees dance."}, db.Document{ID: "ants", Text: "Ants follow trails."}); err != nil {
		t.Fatal(err)
	}
	node := &rag.RetrieverNode[*state]{Name: "facts", Embedder: model, Store: c, TopK: 1}
	chain := compose.NewChain[*state, *state]()
	chain.AppendLambda(compose.InvokableLambda(node.Run))
	run, err := chain.Compile(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out, err := run.Invoke(t.Context(), &state{question: "who follow trails?"})
	if err != nil || len(out.docs) != 1 || out.docs[0].ID != "ants" {
		t.Error(out, err)
	}
	node.Embedder = trigram(t, 8) // errors are failures of the node
	var failed *rag.NodeError
	if _, err := run.Invoke(t.Context(), &state{question: "x"}); !errors.As(err, &failed) || failed.Node != "facts" {
		t.Error(err)
	}
}
