package knowledge

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/vecbolt/vecbolt/exchange"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/eval"
)

const sharedData = "../../../shared/data"

// sums is an embedder whose vector of a text is the sum of the GloVe vectors
// of its words: a weak model.
type sums map[string][]float32

func (sums) Provider() string { return "glove" }
func (sums) Model() string    { return "sums" }
func (sums) Dimensions() int  { return 100 }

func (s sums) Embed(_ context.Context, text string) ([]float32, error) {
	sum := make([]float32, 100)
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		for i, x := range s[w] {
			sum[i] += x
		}
	}
	return sum, nil
}

func (s sums) EmbedBatch(ctx context.Context, texts []string) ([][]float32, error) {
	vecs := make([][]float32, len(texts))
	for i, text := range texts {
		vecs[i], _ = s.Embed(ctx, text)
	}
	return vecs, nil
}

func readSums(t *testing.T) sums {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(sharedData, "glove100k", "base.txt"))
	if err != nil {
		t.Skipf("skipped: the word vectors are not here: %v", err)
	}
	names, words, n := strings.Fields(string(text)), sums{}, 0
	for v, err := range exchange.ReadVectors(filepath.Join(sharedData, "glove100k", "base.fvecs")) {
		if err != nil {
			t.Fatal(err)
		}
		words[names[n]] = v
		n++
	}
	return words
}

// TestCranfield measures what "vecbolt rag learn" and "vecbolt rag query" reach
// with their defaults, beside the vectors alone and the words alone. docs/eval.md has
// the figures; -v shows them.
func TestCranfield(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: reads 40 MB of word vectors, which -short does not")
	}
	dir := filepath.Join(sharedData, "cranfield")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("skipped: the Cranfield collection is not here: %v", err)
	}
	words := readSums(t)
	providers := embed.NewRegistry(append(embed.Builtin(), embed.Provider{Name: "glove",
		Open: func(context.Context, embed.Config, *embed.Options) (embed.Embedder, error) { return words, nil }})...)
	e, err := New(t.TempDir(), &Options{Providers: providers, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	lab := eval.Lab{Metrics: []eval.Metric{eval.NDCG(10)}, Depth: 10, Seed: 1}
	lab.Queries = readEval(t, filepath.Join(dir, "queries.jsonl"), eval.ReadQueries)
	lab.Qrels = readEval(t, filepath.Join(dir, "qrels.tsv"), eval.ReadQrels)
	for base, c := range map[string]*Config{
		"hash": nil,
		"glove": {Provider: "glove", Model: "sums", Embedding: Embedding{Dimensions: 100, Normalize: true},
			VectorWeight: 0.5, TextWeight: 0.5}, // as for word vectors
	} {
		r, err := e.Learn(t.Context(), base, LearnOptions{Paths: []string{filepath.Join(dir, "corpus.jsonl")}, Config: c})
		if err != nil || r.Chunks < 1390 { // two documents are empty
			t.Fatal(r, err)
		}
		report, err := e.Eval(t.Context(), base, lab, EvalOptions{Runs: []string{asConfigured, "text", "dense"}})
		if err != nil {
			t.Fatal(err)
		}
		if report.Judged != "_id" || report.IDs-report.Unknown < 900 {
			t.Errorf("%s: judged ids are %s, %d of %d unknown", base, report.Judged, report.Unknown, report.IDs)
		}
		mean := map[string]float64{}
		for _, res := range report.Results {
			mean[res.Run.Name] = res.Evaluation.Mean(eval.NDCG(10))
		}
		t.Logf("%s: %d chunks, nDCG@10: default %.4f, text %.4f, dense %.4f", base, r.Chunks, mean[asConfigured], mean["text"], mean["dense"])
		if mean["text"] < 0.52 || mean["dense"] < 0.15 || mean["dense"] > mean["text"] {
			t.Errorf("%s: %v", base, mean)
		}
		if mean[asConfigured] < mean["text"] {
			t.Errorf("%s: the default is worse than words alone: %v", base, mean)
		}
		// What the engine answers is the default.
		q := lab.Queries[0].Text
		answer, err := e.Query(t.Context(), base, q, QueryOptions{K: 10})
		if err != nil || answer.Strategy != "hybrid" {
			t.Error(answer, err)
		}
	}
}

func readEval[T any](t *testing.T, name string, read func(io.Reader, string) (T, error)) T {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	v, err := read(f, name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
