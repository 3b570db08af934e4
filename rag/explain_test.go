package rag

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/db"
)

// shape is the text of the stages of an answer, without times and scores.
func shape(stages []Stage) string {
	var b strings.Builder
	for _, s := range stages {
		b.WriteString(s.Name + ": " + s.About + "\n")
		for _, list := range []struct {
			sign   string
			chunks []Chunk
		}{{"+", s.Chunks}, {"-", s.Dropped}} {
			for _, c := range list.chunks {
				b.WriteString("  " + list.sign + c.ID + " " + c.Why + "\n")
			}
		}
	}
	return b.String()
}

func TestExplain(t *testing.T) {
	e := newCounted(t)
	c := knowledge(t, e)
	const question = "does the write-ahead log make writes durable?"
	least := 0.05
	for _, tt := range []struct {
		name string
		o    PipelineOptions
		want []string
		not  string
	}{
		{"dense", PipelineOptions{Strategy: Dense(), TopK: 2}, []string{"embed: hash:trigram-v1, 256 components\n",
			"search: strategy dense: 2 of 6 chunks, exact (exact scan)\n  +wal#0 rank 1\n  +",
			"context: 2 of 2 chunks, ", " of at most 2048 tokens\n  +wal#0 source 1\n"}, "rerank"},
		{"threshold", PipelineOptions{Strategy: Dense(), Threshold: &least}, []string{" with a score of at least 0.05, exact"}, "rerank"},
		{"text", PipelineOptions{Strategy: Text(), TopK: 1}, []string{"search: strategy text: 1 of "}, "embed"},
		{"hybrid", PipelineOptions{Strategy: Hybrid(db.Fusion{}), TopK: 3}, []string{"search: strategy hybrid: 3 of 6 chunks, exact",
			"  +wal#0 vector: rank 1, score 0.", ", text: rank 1, score "}, "rerank"},
		{"reranked", PipelineOptions{Strategy: Dense(), TopK: 1, Candidates: 3, Rerank: &reverse{}}, []string{"strategy dense: 3 of 6 chunks",
			"rerank: 1 of 3 chunks, in a new order\n", " rank 3 of the search\n  -", "  -wal#0 rank 1 of the search, 3 of the reranker: top_k is 1\n"}, "left out"},
		{"dropped", PipelineOptions{Strategy: Dense(), TopK: 2, Candidates: 3, Rerank: first{}}, []string{
			"rerank: 1 of 3 chunks, in a new order\n  +wal#0 rank 1 of the search\n  -", " rank 3 of the search: the reranker left it out\n"}, "top_k is"},
		{"expanded", PipelineOptions{Strategy: Dense(), TopK: 1, Expand: &Expansion{Field: "section"}}, []string{
			"expand: 2 chunks added with the same section as a chunk found\n  +wal#0 found\n  +wal#1 the same section: log\n  +wal#2 the same section: log\n"}, "rerank"},
		{"short", PipelineOptions{Strategy: Dense(), TopK: 3, Context: ContextOptions{MaxTokens: 30}}, []string{
			"context: 1 of 3 chunks, ", " of at most 30 tokens\n  +wal#0 source 1\n", " the context has no room for it\n"}, "cut"},
		{"cut", PipelineOptions{Strategy: Dense(), TopK: 1, Context: ContextOptions{MaxTokens: 12}}, []string{"  +wal#0 source 1, cut to the limit\n"}, "room"},
		{"hyde", PipelineOptions{Strategy: HyDE(func(context.Context, string) (string, error) { return "It is a tree.", nil }), TopK: 1},
			[]string{"strategy hyde: 1 of 6 chunks, exact (exact scan); searched for the made-up answer: It is a tree.\n"}, "embed"},
		{"multi-query", PipelineOptions{Strategy: MultiQuery(func(context.Context, string) ([]string, error) { return []string{"fsync", "bbolt"}, nil }), TopK: 3},
			[]string{"; question 0 is the question, the others are its rewrites: fsync | bbolt\n", "question 0: rank 1", "question 2: "}, "rerank"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := pipeline(t, c, e, &tt.o)
			r, err := p.Explain(t.Context(), question, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := shape(r.Stages)
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q is not in\n%s", want, got)
				}
			}
			if strings.Contains(got, tt.not) {
				t.Errorf("%q is in\n%s", tt.not, got)
			}
			plain := ask(t, p, question, nil)
			if !slices.Equal(chunkIDs(plain), chunkIDs(r)) || plain.Context != r.Context || plain.Stages != nil {
				t.Errorf("%v with an explanation, %v without", chunkIDs(r), chunkIDs(plain))
			}
		})
	}
}

// first keeps one chunk.
type first struct{}

func (first) Rerank(_ context.Context, _ string, chunks []Chunk) ([]Chunk, error) {
	return chunks[:min(1, len(chunks))], nil
}

// An explanation is of a search, not of the cache.
func TestExplainWithCache(t *testing.T) {
	e := newCounted(t)
	p := pipeline(t, knowledge(t, e), e, &PipelineOptions{Cache: &CacheOptions{}})
	ask(t, p, "does the write-ahead log make writes durable?", nil)
	if r, err := p.Explain(t.Context(), "does the write-ahead log make writes durable?", nil); err != nil || r.FromCache || len(r.Stages) != 3 {
		t.Errorf("%v, %v", r, err)
	}
	if r := ask(t, p, "does the write-ahead log make writes durable?", nil); !r.FromCache || r.Stages != nil {
		t.Errorf("from the cache: %t, %d stages", r.FromCache, len(r.Stages))
	}
	if _, err := p.Explain(t.Context(), " ", nil); err == nil {
		t.Error("an empty question was explained")
	}
}
