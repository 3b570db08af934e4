package db

import (
	"context"

	"github.com/vecbolt/vecbolt/internal/query"
)

// Search answers a query. A query that breaks a rule is ErrInvalid: no target and no text, a number
// outside its range, NaN. A vector of another dimension is a *DimensionError, a Stored document or
// an example that does not exist ErrNotFound, a Text without a text index ErrTextIndex. A stored
// document without a vector is ErrInvalid.
func (c *Collection) Search(ctx context.Context, q Query) (*Result, error) {
	queries, results := [1]Query{q}, [1]*Result{}
	if err := c.search(ctx, queries[:], results[:]); err != nil {
		return nil, err
	}
	return results[0], nil
}

// SearchBatch answers many queries on the same version of the collection in one pass over the
// vectors, as Search answers each. If a query fails, there are no results, and with several queries
// the error names the index of the failing one.
func (c *Collection) SearchBatch(ctx context.Context, queries []Query) ([]*Result, error) {
	results := make([]*Result, len(queries))
	if err := c.search(ctx, queries, results); err != nil {
		return nil, err
	}
	return results, nil
}

// search sets results to the answers of queries on one view: it resolves the queries, has package
// query rank the rows of each, and reads the documents of the hits.
func (c *Collection) search(ctx context.Context, queries []Query, results []*Result) error {
	ver, v, done, err := c.begin(ctx, "search")
	if err != nil {
		return err
	}
	defer done()
	resolved, err := resolveAll(queries)
	if err == nil {
		err = c.db.searcher.Search(ctx, ver, v, resolved, func(i int, a *query.Answer) (err error) {
			results[i], err = c.db.result(ctx, ver, v, &queries[i], a)
			return err
		})
	}
	return c.wrap("search", err)
}

// SearchFused answers several queries, such as rewrites of one question, and fuses their
// hits by RRF into one answer.
//
// Each query contributes its best documents that meet its own Where and Threshold:
// Fusion.Depth of them or 100, and at least the number of wanted hits. The true answer is
// again the fusion of complete lists: see Fusion. If all queries want an exact answer,
// the lists are extended until it is exact.
//
// weights has one weight for each query, from 0 to 1e6 and not all 0; without any, all are 1. There
// must be a query, and none may have Group or MMR. K, Offset, Select and Snippet of the first query
// apply. A snippet answers the text that ranks the hit best. Result.Matched counts the matches of
// the query that has most.
func (c *Collection) SearchFused(ctx context.Context, queries []Query, weights ...float64) (*Result, error) {
	ver, v, done, err := c.begin(ctx, "search")
	if err != nil {
		return nil, err
	}
	defer done()
	resolved, err := resolveAll(queries)
	var a *query.Answer
	if err == nil {
		a, err = c.db.searcher.Fused(ctx, ver, v, resolved, weights)
	}
	var r *Result
	if err == nil {
		r, err = c.db.result(ctx, ver, v, &queries[0], a)
	}
	if err != nil {
		return nil, c.wrap("search", err)
	}
	return r, nil
}
