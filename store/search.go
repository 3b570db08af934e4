package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/simd"
)

// A Searcher answers the queries of package db from any Collection, so that a pipeline of package
// rag can retrieve from it (a rag.Store). It sends text and vector queries separately and fuses
// them by the rules of db.Fusion: rankings are made the same way whatever the store.
//
// It supports Near (a Vector or a Stored document), Text, Fusion, K, Offset, Where, Threshold and
// Select of a db.Query. Other fields are refused with db.ErrInvalid, and so is the Accuracy Exact;
// any other Accuracy is ignored: it is up to the store. Text is taken as plain words. Results leave
// Matched and Considered empty, and promise no recall.
//
// Fusion in an embedded database continues until its answer is certain; here it is limited to the
// Fusion.Depth best hits of each kind. With Convex, the text score of a document is looked up among
// the best texts, four times Fusion.Depth, and is 0 beyond; with RRF a rank beyond counts as 0.
type Searcher struct{ c Collection }

// NewSearcher returns the Searcher of a collection.
func NewSearcher(c Collection) *Searcher { return &Searcher{c} }

// Schema returns the schema of the collection.
func (s *Searcher) Schema() db.Schema {
	schema := s.c.Schema()
	return db.Schema{Dim: schema.Dim, Lineage: schema.Lineage, Text: schema.Text}
}

// Search answers a query by vector, by text, or by both.
func (s *Searcher) Search(ctx context.Context, q db.Query) (*db.Result, error) {
	hits, err := s.ranked(ctx, &q)
	if err != nil {
		return nil, fmt.Errorf("search %q: %w", s.c.Name(), err)
	}
	return s.result(ctx, &q, hits)
}

// ranked returns the best K and Offset hits.
func (s *Searcher) ranked(ctx context.Context, q *db.Query) (hits []db.Hit, err error) {
	if q.K < 0 || q.Offset < 0 || q.K > MaxK || q.Offset > MaxK || cmp.Or(q.K, db.DefaultK)+q.Offset > MaxK {
		return nil, invalidf("%d hits after %d: at most %d together", q.K, q.Offset, MaxK)
	}
	need := cmp.Or(q.K, db.DefaultK) + q.Offset
	f, err := q.Fusion.WithDefaults(need)
	switch {
	case err != nil:
		return nil, err
	case q.Group != nil || q.MMR != nil || q.Accuracy == db.Exact || q.Snippet != 0:
		return nil, invalidf("groups, maximal marginal relevance, snippets and exact searches need a database of this module")
	}
	vector, err := s.target(ctx, q.Near)
	if err != nil {
		return nil, err
	}
	switch {
	case vector == nil && q.Text == "":
		return nil, invalidf("nothing to look for")
	case q.Text == "":
		hits, err = s.c.Query(ctx, vector, need, q.Where)
	case vector == nil:
		hits, err = s.c.TextQuery(ctx, q.Text, need, q.Where)
	default:
		hits, err = s.hybrid(ctx, q, vector, f)
	}
	if err != nil {
		return nil, err
	}
	if q.Threshold != nil {
		hits = slices.DeleteFunc(hits, func(h db.Hit) bool { return h.Score < *q.Threshold })
	}
	return hits[:min(need, len(hits))], nil
}

// target returns the vector of a target; nil if there is none.
func (s *Searcher) target(ctx context.Context, t db.Target) ([]float32, error) {
	switch t := t.(type) {
	case nil:
		return nil, nil
	case db.Vector:
		if len(t) == 0 {
			return nil, invalidf("the query vector is empty")
		}
		return t, nil
	case db.Stored:
		docs, err := s.c.Get(ctx, []string{string(t)})
		switch {
		case err != nil:
			return nil, err
		case docs[0] == nil:
			return nil, fmt.Errorf("document %q %w", string(t), db.ErrNotFound)
		case docs[0].Vector == nil:
			return nil, invalidf("document %q has no vector", string(t))
		}
		return docs[0].Vector, nil
	default:
		return nil, invalidf("a search by examples needs a database of this module")
	}
}

// hybrid fuses one vector query and one text query.
func (s *Searcher) hybrid(ctx context.Context, q *db.Query, vector []float32, f db.Fusion) ([]db.Hit, error) {
	depth := min(f.Depth, MaxK)
	near, err := s.c.Query(ctx, vector, depth, q.Where)
	if err != nil {
		return nil, err
	}
	texts, err := s.c.TextQuery(ctx, q.Text, min(4*depth, MaxK), q.Where)
	if err != nil {
		return nil, err
	}
	var hits []db.Hit
	at := map[string]int{}
	for leg, list := range [][]db.Hit{near, texts[:min(depth, len(texts))]} {
		for rank, h := range list {
			i, ok := at[h.ID]
			if !ok {
				i = len(hits)
				at[h.ID] = i
				hits = append(hits, db.Hit{Document: h.Document, Legs: []db.Leg{{Name: "vector"}, {Name: "text"}}})
			}
			hits[i].Legs[leg].Rank, hits[i].Legs[leg].Score = rank+1, new(h.Score)
		}
	}
	for _, h := range texts[min(depth, len(texts)):] {
		if i, ok := at[h.ID]; ok {
			hits[i].Legs[1].Score = new(h.Score)
		}
	}
	if err := s.vectorScores(ctx, vector, hits); err != nil {
		return nil, err
	}
	var bestVector, bestText float64
	if len(near) > 0 {
		bestVector = near[0].Score
	}
	if len(texts) > 0 {
		bestText = texts[0].Score
	}
	for i := range hits {
		hits[i].Score = f.Score(db.Cosine, hits[i].Legs[0], hits[i].Legs[1], bestVector, bestText)
	}
	SortHits(hits)
	return hits, nil
}

// vectorScores computes the cosines of hits that only the text query found.
func (s *Searcher) vectorScores(ctx context.Context, vector []float32, hits []db.Hit) error {
	var ids []string
	var places []int
	for i, h := range hits {
		if h.Legs[0].Score == nil {
			ids, places = append(ids, h.ID), append(places, i)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	docs, err := s.c.Get(ctx, ids)
	if err != nil {
		return err
	}
	for i, d := range docs {
		if d != nil && len(d.Vector) == len(vector) {
			hits[places[i]].Legs[0].Score = new(simd.Cosine64(vector, d.Vector))
		}
	}
	return nil
}

// result builds an answer from hits: it skips the offset, and adds or removes parts of documents.
func (s *Searcher) result(ctx context.Context, q *db.Query, hits []db.Hit) (*db.Result, error) {
	k := cmp.Or(q.K, db.DefaultK)
	hits = hits[min(q.Offset, len(hits)):]
	hits = hits[:min(k, len(hits))]
	if want := q.Select; want != 0 {
		if want&db.WithVector != 0 {
			ids := make([]string, len(hits))
			for i, h := range hits {
				ids[i] = h.ID
			}
			docs, err := s.c.Get(ctx, ids)
			if err != nil {
				return nil, err
			}
			for i, d := range docs {
				if d != nil {
					hits[i].Vector = d.Vector
				}
			}
		}
		for i := range hits {
			narrow(&hits[i].Document, want)
		}
	}
	return &db.Result{Hits: hits, Complete: len(hits) == k, Plan: "of the store"}, nil
}

// narrow removes the parts that were not requested.
func narrow(d *db.Document, want db.Select) {
	if want&db.WithText == 0 {
		d.Text = ""
	}
	if want&db.WithMetadata == 0 {
		d.Metadata = nil
	}
	if want&db.WithVector == 0 {
		d.Vector = nil
	}
}

// SearchFused answers several queries and fuses their hits by RRF, as db.Collection does.
func (s *Searcher) SearchFused(ctx context.Context, queries []db.Query, weights ...float64) (*db.Result, error) {
	if len(queries) == 0 || len(weights) > 0 && len(weights) != len(queries) {
		return nil, invalidf("%d queries with %d weights", len(queries), len(weights))
	}
	first := queries[0]
	f, err := db.Fusion{Method: db.RRF, C: first.Fusion.C}.WithDefaults(0)
	if err != nil {
		return nil, err
	}
	var hits []db.Hit
	at := map[string]int{}
	for i, q := range queries {
		own, err := db.Fusion{Method: db.RRF, Depth: q.Fusion.Depth}.WithDefaults(cmp.Or(first.K, db.DefaultK) + first.Offset)
		if err != nil {
			return nil, err
		}
		q.K, q.Offset = own.Depth, 0
		list, err := s.ranked(ctx, &q)
		if err != nil {
			return nil, fmt.Errorf("search %q: query %d: %w", s.c.Name(), i, err)
		}
		f.Vector = 1
		if len(weights) > 0 {
			if f.Vector = weights[i]; !(f.Vector >= 0 && f.Vector <= 1e6) {
				return nil, invalidf("weight of query %d is %v", i, f.Vector)
			}
		}
		for rank, h := range list {
			j, ok := at[h.ID]
			if !ok {
				j = len(hits)
				at[h.ID] = j
				fresh := db.Hit{Document: h.Document}
				for k := range queries {
					fresh.Legs = append(fresh.Legs, db.Leg{Name: fmt.Sprint(k)})
				}
				hits = append(hits, fresh)
			}
			leg := &hits[j].Legs[i]
			leg.Rank, leg.Score = rank+1, new(h.Score)
			hits[j].Score += f.Score(db.Cosine, *leg, db.Leg{}, 0, 0)
		}
	}
	SortHits(hits)
	return s.result(ctx, &first, hits)
}

// List returns the documents that match a filter, in order of id. It reads all of them, because the
// store may use another order.
func (s *Searcher) List(ctx context.Context, q db.ListQuery) (*db.Page, error) {
	limit := cmp.Or(q.Limit, db.DefaultLimit)
	if limit < 0 || q.Offset < 0 {
		return nil, invalidf("limit %d after %d", q.Limit, q.Offset)
	}
	var docs []*db.Document
	total := 0
	for after := ""; ; {
		p, err := s.c.Scan(ctx, after, 500, q.Where)
		if err != nil {
			return nil, fmt.Errorf("list %q: %w", s.c.Name(), err)
		}
		total += len(p.Documents)
		for _, d := range p.Documents {
			if d.ID > q.After {
				narrow(d, cmp.Or(q.Select, db.WithText|db.WithMetadata))
				docs = append(docs, d)
			}
		}
		if after = p.Next; after == "" {
			break
		}
	}
	slices.SortFunc(docs, func(a, b *db.Document) int { return strings.Compare(a.ID, b.ID) })
	docs = docs[min(q.Offset, len(docs)):]
	page := &db.Page{Documents: docs[:min(limit, len(docs))], Total: total}
	if len(docs) > limit {
		page.Next = docs[limit-1].ID
	}
	return page, nil
}
