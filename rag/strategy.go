package rag

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/text"
)

// A Strategy says how chunks are searched for.
type Strategy struct {
	name   string
	vector bool // needs the embedding of the question
	search func(ctx context.Context, r *retrieval) (*db.Result, error)
}

// String returns the name, as Response.Strategy has it.
func (s Strategy) String() string { return s.name }

// A retrieval is one search on behalf of a question.
type retrieval struct {
	*Pipeline
	question string
	vector   []float32
	query    db.Query // all but what to look for
}

// Dense looks for chunks whose embeddings are near that of the question.
func Dense() Strategy {
	return Strategy{name: "dense", vector: true, search: func(ctx context.Context, r *retrieval) (*db.Result, error) {
		q := r.query
		q.Vector = r.vector
		return r.store.Search(ctx, q)
	}}
}

// Text looks for chunks that have the words of the question. The store needs a
// text index.
func Text() Strategy {
	return Strategy{name: "text", search: func(ctx context.Context, r *retrieval) (*db.Result, error) {
		q := r.query
		q.Text = text.Plain(r.question)
		return r.store.Search(ctx, q)
	}}
}

// Hybrid does both and fuses what they find. The zero Fusion is the default of
// the database.
func Hybrid(f db.Fusion) Strategy {
	return Strategy{name: "hybrid", vector: true, search: func(ctx context.Context, r *retrieval) (*db.Result, error) {
		q := r.query
		q.Vector, q.Text, q.Fusion = r.vector, text.Plain(r.question), f
		return r.store.Search(ctx, q)
	}}
}

// MultiQuery searches for the question and for each way in which rewrite puts
// it, and fuses the hits by rank. rewrite is the caller's: a model, a list of
// synonyms.
func MultiQuery(rewrite func(ctx context.Context, question string) ([]string, error)) Strategy {
	return Strategy{name: "multi-query", vector: true, search: func(ctx context.Context, r *retrieval) (*db.Result, error) {
		texts, err := rewrite(ctx, r.question)
		if err != nil {
			return nil, fmt.Errorf("rewrite the question: %w", err)
		}
		vecs, err := r.embedder.EmbedBatch(ctx, texts)
		if err != nil {
			return nil, fmt.Errorf("embed rewrites: %w", err)
		}
		q := r.query
		q.Vector = r.vector
		queries := []db.Query{q}
		for _, vec := range vecs {
			q.Vector = vec
			queries = append(queries, q)
		}
		return r.store.SearchFused(ctx, queries)
	}}
}

// HyDE looks for chunks near the embedding of a made-up answer (Gao et al.
// 2023), which is often nearer to the true one than the question is. generate
// is the caller's model.
func HyDE(generate func(ctx context.Context, question string) (string, error)) Strategy {
	return Strategy{name: "hyde", search: func(ctx context.Context, r *retrieval) (*db.Result, error) {
		answer, err := generate(ctx, r.question)
		if err != nil {
			return nil, fmt.Errorf("make up an answer: %w", err)
		}
		q := r.query
		if q.Vector, err = r.embedder.Embed(ctx, answer); err != nil {
			return nil, fmt.Errorf("embed the made-up answer: %w", err)
		}
		return r.store.Search(ctx, q)
	}}
}

// An Expansion adds what belongs to a chunk: the chunks of the same section,
// the parent of a small chunk. They match the filter of the question, too.
type Expansion struct {
	// Field is the metadata field whose value chunks share that belong
	// together, such as "section_id". Chunks without it stay alone.
	Field string
	// Order is the field by which they are put in order; empty means chunk_index.
	Order string
	// Max is the most chunks added for one that was found; 0 means 20. If
	// there are more, and Order holds integers, those around it are added.
	Max int
}

// expand puts around each chunk those that share its value of the field and
// were not found themselves, all of them in order.
func (r *retrieval) expand(ctx context.Context, chunks []Chunk) ([]Chunk, error) {
	var all []Chunk
	have, placed := map[string]Chunk{}, map[string]bool{}
	for _, c := range chunks {
		have[c.ID] = c
	}
	for _, c := range chunks {
		if placed[c.ID] {
			continue
		}
		group, err := r.siblings(ctx, c)
		if err != nil {
			return nil, err
		}
		for _, d := range group {
			if placed[d.ID] {
				continue
			}
			placed[d.ID] = true
			sibling, ok := have[d.ID]
			if !ok {
				sibling = Chunk{ID: d.ID, Score: c.Score, Text: d.Text, Metadata: d.Metadata}
			}
			all = append(all, sibling)
		}
		if !placed[c.ID] { // it has no group, or is not among the first of it
			placed[c.ID] = true
			all = append(all, c)
		}
	}
	return all, nil
}

// siblings returns the documents with the value of a chunk in the field of the
// expansion, itself included, in order.
func (r *retrieval) siblings(ctx context.Context, c Chunk) ([]*db.Document, error) {
	e := r.opts.Expand
	value := c.Metadata[e.Field]
	switch value.(type) {
	case string, bool, int64, float64:
	default:
		return nil, nil
	}
	same := filter.Eq(e.Field, value)
	if r.query.Where != nil {
		same = filter.And(r.query.Where, same)
	}
	most, order := cmp.Or(e.Max, 20), cmp.Or(e.Order, FieldChunkIndex)
	page, err := r.store.List(ctx, db.ListQuery{Where: same, Limit: most + 2})
	if err == nil && len(page.Documents) > most+1 {
		if at, ok := c.Metadata[order].(int64); ok {
			lo := at - int64(most+1)/2
			page, err = r.store.List(ctx, db.ListQuery{Where: filter.And(same, filter.Range(order, lo, lo+int64(most))), Limit: most + 1})
		}
	}
	if err != nil {
		return nil, err
	}
	docs := page.Documents[:min(len(page.Documents), most+1)]
	slices.SortStableFunc(docs, func(a, b *db.Document) int {
		va, okA := a.Metadata[order]
		vb, okB := b.Metadata[order]
		if !okA || !okB {
			return 0
		}
		c, _ := filter.Compare(va, vb)
		return c
	})
	return docs, nil
}
