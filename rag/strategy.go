package rag

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/text"
)

// A Strategy is a way to search for chunks.
type Strategy struct {
	name    string
	vector  bool                // needs the embedding of the question
	invalid string              // why no pipeline can have it
	needs   func(s Store) error // nil: any store will do
	search  func(ctx context.Context, r *retrieval) (*db.Result, error)
}

// String returns the name, as in Response.Strategy.
func (s Strategy) String() string { return s.name }

// A retrieval is one search for a question.
type retrieval struct {
	*Pipeline
	question string
	vector   []float32
	query    db.Query // without its target
	trace    *trace   // nil without an explanation
}

// Dense searches by the embedding of the question.
func Dense() Strategy {
	return Strategy{name: "dense", vector: true, search: func(ctx context.Context, r *retrieval) (*db.Result, error) {
		q := r.query
		q.Near = db.Vector(r.vector)
		return r.store.Search(ctx, q)
	}}
}

// Text searches by the words of the question, of a very long one by the first: see text.Question.
// The store needs a text index.
func Text() Strategy {
	return Strategy{name: "text", search: func(ctx context.Context, r *retrieval) (*db.Result, error) {
		q := r.query
		if q.Text = text.Question(r.question); q.Text == "" { // no query for a store
			return &db.Result{Exact: true, Complete: true, Recall: 1, UsualRecall: 1,
				Plan: "the question has no words"}, nil
		}
		return r.store.Search(ctx, q)
	}}
}

// Hybrid searches by embedding and by words, as Text, and fuses both rankings. The zero Fusion is
// the default of the database.
func Hybrid(f db.Fusion) Strategy {
	return Strategy{name: "hybrid", vector: true, search: func(ctx context.Context, r *retrieval) (*db.Result, error) {
		q := r.query
		q.Near, q.Text, q.Fusion = db.Vector(r.vector), text.Question(r.question), f
		return r.store.Search(ctx, q)
	}}
}

// MMR searches by the embedding of the question for chunks that also differ from each other: see
// db.MMR. lambda is in [0, 1]; 1 ranks by relevance alone.
func MMR(lambda float64) Strategy {
	invalid := ""
	if !(lambda >= 0 && lambda <= 1) {
		invalid = fmt.Sprintf("lambda %v is outside 0..1", lambda)
	}
	return Strategy{name: "mmr", vector: true, invalid: invalid,
		search: func(ctx context.Context, r *retrieval) (*db.Result, error) {
			q := r.query
			q.Near, q.MMR = db.Vector(r.vector), &db.MMR{Lambda: lambda}
			return r.store.Search(ctx, q)
		}}
}

// MultiQuery searches for the question and for each of its rewrites, and fuses the hits by rank.
// The caller supplies rewrite: a model, or a list of synonyms.
func MultiQuery(rewrite func(ctx context.Context, question string) ([]string, error)) Strategy {
	invalid := ""
	if rewrite == nil {
		invalid = "nothing rewrites the question"
	}
	return Strategy{name: "multi-query", vector: true, invalid: invalid,
		needs: has[fuser]("multi-query", "SearchFused"),
		search: func(ctx context.Context, r *retrieval) (*db.Result, error) {
			texts, err := rewrite(ctx, r.question)
			if err != nil {
				return nil, fmt.Errorf("rewrite the question: %w", err)
			}
			r.trace.note("question 0 is the question, the others are its rewrites: %s", strings.Join(texts, " | "))
			vecs, err := embed.Queries(r.embedder).EmbedBatch(ctx, texts)
			if err != nil {
				return nil, fmt.Errorf("embed rewrites: %w", err)
			}
			q := r.query
			q.Near = db.Vector(r.vector)
			queries := []db.Query{q}
			for _, vec := range vecs {
				q.Near = db.Vector(vec)
				queries = append(queries, q)
			}
			store, err := as[fuser](r.store, "multi-query", "SearchFused")
			if err != nil {
				return nil, err
			}
			return store.SearchFused(ctx, queries)
		}}
}

// HyDE searches by the embedding of a hypothetical answer (Gao et al. 2023), which is often nearer
// to the true answer than the question is. generate is the caller's model.
func HyDE(generate func(ctx context.Context, question string) (string, error)) Strategy {
	invalid := ""
	if generate == nil {
		invalid = "nothing makes up an answer"
	}
	return Strategy{name: "hyde", invalid: invalid,
		search: func(ctx context.Context, r *retrieval) (*db.Result, error) {
			answer, err := generate(ctx, r.question)
			if err != nil {
				return nil, fmt.Errorf("make up an answer: %w", err)
			}
			r.trace.note("searched for the made-up answer: %s", answer)
			vec, err := r.embedder.Embed(ctx, answer)
			if err != nil {
				return nil, fmt.Errorf("embed the made-up answer: %w", err)
			}
			q := r.query
			q.Near = db.Vector(vec)
			return r.store.Search(ctx, q)
		}}
}

// An Expansion adds related chunks to a chunk: the rest of its section, or the parent of a small
// chunk. Added chunks match the filter of the question, too.
type Expansion struct {
	// Field is the metadata field whose value related chunks share, such as "section_id". A chunk
	// without it stays alone.
	Field string
	// Order is the field that related chunks are sorted by; empty means chunk_index.
	Order string
	// Max is the maximum number of chunks added to one chunk; 0 means 20. If there are more, and
	// Order holds integers, the nearest in that order are added.
	Max int
}

// expand replaces each chunk by its group: the chunks with the same value of the field, in order.
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
		if !placed[c.ID] { // no group, or the group was cut before this chunk
			placed[c.ID] = true
			all = append(all, c)
		}
	}
	return all, nil
}

// siblings returns the documents that share a chunk's value of the expansion field, the chunk
// included, in order.
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
	most, order := min(cmp.Or(e.Max, 20), math.MaxInt-2), cmp.Or(e.Order, FieldChunkIndex)
	store, err := as[lister](r.store, "Expand", "List")
	if err != nil {
		return nil, err
	}
	page, err := store.List(ctx, db.ListQuery{Where: same, Limit: most + 2})
	if err != nil {
		return nil, err
	}
	docs := page.Documents
	if at, ok := c.Metadata[order].(int64); ok && len(docs) > most+1 {
		if docs, err = around(ctx, store, same, order, at, most+1); err != nil {
			return nil, err
		}
		slices.SortStableFunc(docs, func(a, b *db.Document) int {
			switch c.ID { // the chunk itself comes first, also if others are in the same place
			case a.ID:
				return -1
			case b.ID:
				return 1
			}
			va, _ := a.Metadata[order].(int64)
			vb, _ := b.Metadata[order].(int64)
			return cmp.Or(cmp.Compare(distance(va, at), distance(vb, at)), cmp.Compare(va, vb))
		})
		docs = docs[:min(len(docs), most+1)]
		slices.SortFunc(docs, func(a, b *db.Document) int { return cmp.Compare(a.ID, b.ID) })
	}
	docs = docs[:min(len(docs), most+1)]
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

// around returns the documents that match where and have a number near at in a field: at least n,
// or all of them.
func around(ctx context.Context, store lister, where filter.Expr, field string, at int64, n int,
) ([]*db.Document, error) {
	for reach := int64(n); ; reach *= 8 { // the numbers may be offsets, far from each other
		lo, hi := int64(math.MinInt64), int64(math.MaxInt64)
		last := reach > math.MaxInt64/8
		if !last {
			lo, hi = max(at, lo+reach)-reach, min(at, hi-reach)+reach
		}
		page, err := store.List(ctx, db.ListQuery{Where: filter.And(where, filter.Range(field, lo, hi)),
			Limit: math.MaxInt})
		if err != nil {
			return nil, err
		}
		if last || len(page.Documents) >= n {
			return page.Documents, nil
		}
	}
}

// distance is |a-b|, which no int64 may hold.
func distance(a, b int64) uint64 { return uint64(max(a, b)) - uint64(min(a, b)) }
