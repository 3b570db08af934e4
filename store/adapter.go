package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/fusion"
	"github.com/vecbolt/vecbolt/simd"
)

// An Adapter gives a Collection of any store the methods of a *db.Collection that package rag uses
// (a rag.Store): a pipeline retrieves from it and an indexer writes to it. It sends text and vector
// queries separately and fuses them by the rules of db.Fusion: rankings are made the same way
// whatever the store.
//
// It supports Near (a Vector or a Stored document), Text, Fusion, K, Offset, Where, Threshold and
// Select of a db.Query. Other fields are refused with db.ErrInvalid, and so is the Accuracy Exact;
// any other Accuracy is ignored: it is up to the store. Text is taken as plain words. Results leave
// Matched and Considered empty, and promise no recall.
//
// Fusion in an embedded database continues until its answer is certain; here it is limited to the
// Fusion.Depth best hits of each kind. With Convex, the text score of a document is looked up among
// the best texts, four times Fusion.Depth, and is 0 beyond; with RRF a rank beyond counts as 0.
type Adapter struct{ c Collection }

// NewAdapter returns the Adapter of a collection.
func NewAdapter(c Collection) *Adapter { return &Adapter{c} }

// Name returns the name of the collection.
func (s *Adapter) Name() string { return s.c.Name() }

// Schema returns the schema of the collection.
func (s *Adapter) Schema() db.Schema {
	return embeddedSchema(s.c.Schema())
}

// Upsert writes documents as Collection.Upsert does, and returns their ids. Every document needs
// one.
func (s *Adapter) Upsert(ctx context.Context, docs ...db.Document) ([]string, error) {
	if err := s.c.Upsert(ctx, docs); err != nil {
		return nil, err
	}
	ids := make([]string, len(docs))
	for i, d := range docs {
		ids[i] = d.ID
	}
	return ids, nil
}

// Delete removes documents, and returns how many existed.
func (s *Adapter) Delete(ctx context.Context, ids ...string) (int, error) {
	return s.c.Delete(ctx, ids)
}

// DeleteWhere removes all documents that match, and returns how many.
func (s *Adapter) DeleteWhere(ctx context.Context, where filter.Expr) (int, error) {
	return s.c.DeleteWhere(ctx, where)
}

// Search answers a query by vector, by text, or by both.
func (s *Adapter) Search(ctx context.Context, q db.Query) (*db.Result, error) {
	hits, err := s.ranked(ctx, &q)
	if err != nil {
		return nil, fmt.Errorf("search %q: %w", s.c.Name(), err)
	}
	return s.result(ctx, &q, hits)
}

// ranked returns the best K and Offset hits.
func (s *Adapter) ranked(ctx context.Context, q *db.Query) (hits []db.Hit, err error) {
	need, err := limitOf(q)
	if err != nil {
		return nil, err
	}
	rules, err := rulesOf(q.Fusion, need)
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
		hits, err = s.hybrid(ctx, q, vector, rules, need)
	}
	if err != nil {
		return nil, err
	}
	if q.Threshold != nil {
		hits = slices.DeleteFunc(hits, func(h db.Hit) bool { return h.Score < *q.Threshold })
	}
	return hits[:min(need, len(hits))], nil
}

// limitOf returns the number of hits that K and Offset ask for together.
func limitOf(q *db.Query) (int, error) {
	if q.K < 0 || q.Offset < 0 || q.K > MaxK || q.Offset > MaxK || cmp.Or(q.K, db.DefaultK)+q.Offset > MaxK {
		return 0, invalidf("%d hits after %d: at most %d together", q.K, q.Offset, MaxK)
	}
	return cmp.Or(q.K, db.DefaultK) + q.Offset, nil
}

// target returns the vector of a target; nil for a query without a target.
func (s *Adapter) target(ctx context.Context, t db.Target) ([]float32, error) {
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

// rulesOf returns the rules of a fusion for need wanted hits.
func rulesOf(f db.Fusion, need int) (fusion.Rules, error) {
	rules := fusion.Rules{Method: fusion.Method(f.Method), Weights: [2]float64{f.Vector, f.Text}, C: f.C,
		Depth: f.Depth}
	if err := rules.Check(); err != nil {
		return rules, invalidf("%v", err)
	}
	return rules.WithDefaults(need), nil
}

// hybrid fuses one vector query and one text query.
func (s *Adapter) hybrid(ctx context.Context, q *db.Query, vector []float32, rules fusion.Rules, need int) ([]db.Hit,
	error) {
	depth := min(rules.Depth, MaxK)
	near, err := s.c.Query(ctx, vector, depth, q.Where)
	if err != nil {
		return nil, err
	}
	texts, err := s.c.TextQuery(ctx, q.Text, min(4*depth, MaxK), q.Where)
	if err != nil {
		return nil, err
	}
	ranked := texts[:min(depth, len(texts))]
	cosines, err := s.cosines(ctx, vector, near, ranked)
	if err != nil {
		return nil, err
	}
	scores := map[string]float64{}
	for _, h := range texts {
		scores[h.ID] = h.Score
	}
	return fuse([][]db.Hit{near, ranked}, []string{"vector", "text"}, fusion.Input[string]{
		Method: rules.Method, C: rules.C, K: need, Least: q.Threshold,
		Lists: []fusion.List[string]{
			{Weight: rules.Weights[0], Scale: fusion.Linear(-1, bestOf(near)), Score: lookup(cosines)},
			{Weight: rules.Weights[1], Scale: fusion.Linear(0, bestOf(texts)), Score: lookup(scores)},
		},
	})
}

// bestOf returns the score of the first hit.
func bestOf(hits []db.Hit) float64 {
	if len(hits) == 0 {
		return 0
	}
	return hits[0].Score
}

// lookup returns a function for the scores of a list.
func lookup(scores map[string]float64) func(string) (float64, bool, error) {
	return func(id string) (float64, bool, error) {
		score, ok := scores[id]
		return score, ok, nil
	}
}

// fuse completes in by the lists of hits, and fuses as far as they reach.
func fuse(lists [][]db.Hit, names []string, in fusion.Input[string]) ([]db.Hit, error) {
	docs := map[string]db.Document{}
	for i, list := range lists {
		best := make([]fusion.Entry[string], len(list))
		for j, h := range list {
			best[j] = fusion.Entry[string]{Key: h.ID, Score: h.Score}
			if _, ok := docs[h.ID]; !ok {
				docs[h.ID] = h.Document
			}
		}
		in.Lists[i].Ranking = fusion.Ranking[string]{Best: best}
	}
	in.Names = func(ids []string) ([]string, error) { return ids, nil }
	out, err := fusion.Fuse(in)
	if err != nil {
		return nil, err
	}
	hits := make([]db.Hit, len(out.Hits))
	for i, h := range out.Hits {
		legs := make([]db.Leg, len(names))
		for j, l := range h.Legs {
			legs[j] = db.Leg{Name: names[j], Rank: l.Rank}
			if l.Scored {
				legs[j].Score = new(l.Score)
			}
		}
		hits[i] = db.Hit{Document: docs[h.Key], Score: h.Score, Legs: legs}
	}
	return hits, nil
}

// cosines returns the vector scores of the texts that are not near.
func (s *Adapter) cosines(ctx context.Context, vector []float32, near, texts []db.Hit) (map[string]float64, error) {
	known := map[string]bool{}
	for _, h := range near {
		known[h.ID] = true
	}
	var ids []string
	for _, h := range texts {
		if !known[h.ID] {
			ids = append(ids, h.ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	docs, err := s.c.Get(ctx, ids)
	if err != nil {
		return nil, err
	}
	scores := map[string]float64{}
	for i, d := range docs {
		if d != nil && len(d.Vector) == len(vector) {
			scores[ids[i]] = simd.Cosine64(vector, d.Vector)
		}
	}
	return scores, nil
}

// result builds an answer from hits: it skips the offset, and adds or removes parts of documents.
func (s *Adapter) result(ctx context.Context, q *db.Query, hits []db.Hit) (*db.Result, error) {
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
func (s *Adapter) SearchFused(ctx context.Context, queries []db.Query, weights ...float64) (*db.Result, error) {
	if len(queries) == 0 || len(weights) > 0 && len(weights) != len(queries) {
		return nil, invalidf("%d queries with %d weights", len(queries), len(weights))
	}
	if len(weights) == 0 {
		weights = slices.Repeat([]float64{1}, len(queries))
	}
	if err := fusion.CheckWeights(weights); err != nil {
		return nil, invalidf("%v", err)
	}
	first := queries[0]
	limit, err := limitOf(&first)
	if err != nil {
		return nil, fmt.Errorf("search %q: query 0: %w", s.c.Name(), err)
	}
	rules, err := rulesOf(db.Fusion{Method: db.RRF, C: first.Fusion.C}, 0)
	if err != nil {
		return nil, err
	}
	in := fusion.Input[string]{Method: fusion.RRF, C: rules.C, K: limit}
	var lists [][]db.Hit
	var names []string
	for i, q := range queries {
		own, err := rulesOf(db.Fusion{Method: db.RRF, Depth: q.Fusion.Depth}, limit)
		if err != nil {
			return nil, err
		}
		q.K, q.Offset = own.Depth, 0
		list, err := s.ranked(ctx, &q)
		if err != nil {
			return nil, fmt.Errorf("search %q: query %d: %w", s.c.Name(), i, err)
		}
		in.Lists = append(in.Lists, fusion.List[string]{Weight: weights[i]})
		lists, names = append(lists, list), append(names, strconv.Itoa(i))
	}
	hits, err := fuse(lists, names, in)
	if err != nil {
		return nil, err
	}
	return s.result(ctx, &first, hits)
}

// List returns the documents that match a filter, in order of id. It reads all of them, because the
// store may use another order.
func (s *Adapter) List(ctx context.Context, q db.ListQuery) (*db.Page, error) {
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
