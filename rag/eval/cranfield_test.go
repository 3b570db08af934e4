package eval_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/exchange"
	"github.com/vecbolt/vecbolt/rag/eval"
)

const sharedData = "../../../shared/data"

// cranfield makes a collection of the 1,400 documents of Cranfield and reads its 225 queries. The
// vector of a text is the sum of the GloVe vectors of its words; a text without a known word has
// none.
func cranfield(t testing.TB, language string) (*db.Collection, []eval.Query, eval.Qrels) {
	t.Helper()
	dir := filepath.Join(sharedData, "cranfield")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("skipped: the Cranfield collection is not here: %v", err)
	}
	words := wordVectors(t)
	embed := func(text string) (sum []float32) {
		for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			for i, x := range words[w] {
				if sum == nil {
					sum = make([]float32, len(words[w]))
				}
				sum[i] += x
			}
		}
		return sum
	}
	vdb, err := db.Open(filepath.Join(t.TempDir(), "cranfield.vdb"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { vdb.Close() })
	c, err := vdb.OpenCollection(t.Context(), "cranfield", db.Schema{Text: &db.TextIndex{Language: language}})
	if err != nil {
		t.Fatal(err)
	}
	src, err := exchange.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	var docs []db.Document
	for item, err := range src.Documents(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		item.Document.Vector = embed(item.Document.Text)
		docs = append(docs, item.Document)
	}
	if _, err := c.Upsert(t.Context(), docs...); err != nil {
		t.Fatal(err)
	}
	queries := read(t, filepath.Join(dir, "queries.jsonl"), eval.ReadQueries)
	for i := range queries {
		queries[i].Vector = embed(queries[i].Text)
	}
	return c, queries, read(t, filepath.Join(dir, "qrels.tsv"), eval.ReadQrels)
}

func wordVectors(t testing.TB) map[string][]float32 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(sharedData, "glove100k", "base.txt"))
	if err != nil {
		t.Skipf("skipped: the word vectors are not here: %v", err)
	}
	names := strings.Fields(string(text))
	words, n := map[string][]float32{}, 0
	for v, err := range exchange.ReadVectors(filepath.Join(sharedData, "glove100k", "base.fvecs")) {
		if err != nil {
			t.Fatal(err)
		}
		words[names[n]] = v
		n++
	}
	return words
}

// The figures that docs/eval.md states. Run with -v to see them, and the differences.
func TestCranfield(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: reads 40 MB of word vectors, which -short does not")
	}
	c, queries, qrels := cranfield(t, "english")
	search := func(name string, like db.Query, legs eval.Legs) eval.Runner { return eval.Search(name, c, like, legs) }
	const both = eval.Vector | eval.Text
	lab := eval.Lab{Queries: queries, Qrels: qrels, Seed: 1}
	report, err := lab.Measure(t.Context(),
		search("text", db.Query{}, eval.Text),
		search("dense", db.Query{}, eval.Vector),
		search("rrf", db.Query{Fusion: db.Fusion{Method: db.RRF}}, both),
		search("convex", db.Query{Fusion: db.Fusion{Method: db.Convex}}, both),
		search("mmr", db.Query{MMR: &db.MMR{Lambda: 0.7, Fetch: 100}}, eval.Vector),
	)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Queries) != 225 {
		t.Errorf("%d queries", len(report.Queries))
	}
	least := map[string]float64{"text": 0.52, "dense": 0.21, "mmr": 0.20}
	for _, res := range report.Results {
		line := []string{res.Run.Name}
		for _, m := range report.Metrics {
			line = append(line, fmt.Sprintf("%.4f", res.Evaluation.Mean(m)))
		}
		t.Log(strings.Join(line, " | "))
		if res.Versus != nil {
			t.Logf("  %+.4f, from %+.4f to %+.4f, p = %.4f", res.Versus.Delta, res.Versus.Low, res.Versus.High, res.Versus.P)
		}
		// Document 995 is relevant to a query, and empty.
		if d := res.Diagnosis; d.IndexMissed != 0 || d.NotInCorpus > 1 || d.Found+d.RankedLow+d.NotInCorpus != 1837 || !res.Run.Exact {
			t.Errorf("%s: %d found, %d missed, %d low, %d absent", res.Run.Name, d.Found, d.IndexMissed, d.RankedLow, d.NotInCorpus)
		}
		if v := res.Evaluation.Mean(eval.NDCG(10)); v < least[res.Run.Name] {
			t.Errorf("%s: nDCG@10 is %.4f", res.Run.Name, v)
		}
		if fused := res.Run.Name == "rrf" || res.Run.Name == "convex"; fused != (res.Leg != nil) || fused && res.Leg.Baseline != "text" {
			t.Errorf("%s is compared with the leg %+v", res.Run.Name, res.Leg)
		} else if fused && res.Leg.Delta < -0.001 { // the default weights are to hold what text reaches
			t.Errorf("%s is worse than text: %+.4f", res.Run.Name, res.Leg.Delta)
		}
	}
}
