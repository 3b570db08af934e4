package db

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/match"
	"github.com/vecbolt/vecbolt/internal/meta"
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
// vectors, as Search answers one. If one query fails, none is answered; of several, the error names
// the one by its index.
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

// Get returns one document; ErrNotFound if it does not exist.
func (c *Collection) Get(ctx context.Context, id string, want Select) (*Document, error) {
	docs, err := c.GetMany(ctx, []string{id}, want)
	if err != nil {
		return nil, err
	}
	if docs[0] == nil {
		return nil, c.wrap("get", fmt.Errorf("%w: document %q", ErrNotFound, id))
	}
	return docs[0], nil
}

// GetMany returns the documents with these ids, in this order; nil for ids that
// do not exist.
func (c *Collection) GetMany(ctx context.Context, ids []string, want Select) ([]*Document, error) {
	ver, v, done, err := c.begin(ctx, "get")
	if err != nil {
		return nil, err
	}
	defer done()
	docs := make([]*Document, len(ids))
	for lo := 0; lo < len(ids) && err == nil; lo += docsPerTx {
		if err = ctx.Err(); err != nil {
			break
		}
		err = c.db.engine.Read(ver, func(tx *meta.Tx) error {
			return documentsByID(ctx, ver, v, tx, ids[lo:min(lo+docsPerTx, len(ids))], want, docs[lo:])
		})
	}
	if err != nil {
		return nil, c.wrap("get", err)
	}
	return docs, nil
}

// docsPerTx is the number of documents that one transaction of meta.bolt reads: a long transaction
// keeps pages from reuse.
const docsPerTx = 256

// documentsByID sets docs[i] to the document with ids[i], if it exists.
func documentsByID(
	ctx context.Context, ver *engine.Version, v *engine.View, tx *meta.Tx, ids []string, want Select, docs []*Document,
) error {
	type place struct {
		doc, row int
		part     *engine.Part
	}
	places := make([]place, 0, len(ids))
	for i, id := range ids {
		if err := ctx.Err(); err != nil {
			return err
		}
		num, err := ver.Num(tx, v, id)
		if err != nil {
			return err
		}
		if num == 0 {
			continue
		}
		part, row, ok := v.Locate(num)
		if !ok {
			return engine.MissingRow(v.Def.Name, id, num)
		}
		places = append(places, place{i, row, part})
	}
	stored, err := v.StoredAll(tx, len(places), func(i int) (*engine.Part, int) {
		return places[i].part, places[i].row
	})
	if err != nil {
		return err
	}
	for i, at := range places {
		docs[at.doc] = &Document{}
		if err := decodeDocument(at.part, at.row, stored[i], want, docs[at.doc]); err != nil {
			return err
		}
	}
	return nil
}

// A ListQuery asks for a page of documents in ascending order of id (bytewise).
type ListQuery struct {
	Where filter.Expr // nil: all
	// Limit is the greatest number of documents on the page, any positive
	// number; 0 means DefaultLimit.
	Limit int
	// Offset skips documents. To read many pages use After, which costs
	// nothing.
	Offset int
	// After, if set, starts after this id: the Next of the page before.
	After  string
	Select Select
}

// DefaultLimit is the length of a page when ListQuery.Limit is zero.
const DefaultLimit = 100

// A Page is one page of documents.
type Page struct {
	Documents []*Document
	Next      string // After of the next page; empty on the last
	Total     int    // documents that match, on all pages
}

// List returns a page of documents. Paging is stable: a document that is
// neither written nor deleted between two calls is neither missed nor seen
// twice, regardless of writes to other documents. For one consistent version
// use a Snapshot.
func (c *Collection) List(ctx context.Context, q ListQuery) (*Page, error) {
	ver, v, done, err := c.begin(ctx, "list")
	if err != nil {
		return nil, err
	}
	defer done()
	page, err := c.list(ctx, ver, v, q)
	return page, c.wrap("list", err)
}

func (c *Collection) list(ctx context.Context, ver *engine.Version, v *engine.View, q ListQuery) (*Page, error) {
	where, err := readable(q.Where)
	if err != nil {
		return nil, err
	}
	if q.Limit < 0 || q.Offset < 0 {
		return nil, invalidf("limit %d, offset %d", q.Limit, q.Offset)
	}
	sets, total, err := c.rows(ctx, v, where)
	if err != nil {
		return nil, err
	}
	limit := min(cmp.Or(q.Limit, DefaultLimit), total) // so that limit+1 does not overflow
	page := &Page{Total: total, Documents: []*Document{}}
	l := match.Lister{Version: ver, View: v, Sets: sets, After: q.After, Skip: q.Offset, Want: limit + 1}
	err = c.db.engine.Read(ver, func(tx *meta.Tx) error { return l.Run(ctx, tx, total) })
	if err != nil {
		return nil, err
	}
	if len(l.Found) > limit {
		l.Found = l.Found[:limit]
		page.Next = l.Found[limit-1].ID
	}
	for batch := range slices.Chunk(l.Found, docsPerTx) {
		err := c.db.engine.Read(ver, func(tx *meta.Tx) error {
			for _, m := range batch {
				if err := ctx.Err(); err != nil {
					return err
				}
				d := &Document{}
				if err := readDocument(tx, v, m.Part, m.Row, q.Select, d); err != nil {
					return err
				}
				page.Documents = append(page.Documents, d)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return page, nil
}

// readable validates and simplifies the filter of a read; nil stays nil.
func readable(where filter.Expr) (filter.Expr, error) {
	if where == nil {
		return nil, nil
	}
	if err := filter.Validate(where); err != nil {
		return nil, invalidf("where: %v", err)
	}
	return filter.Simplify(where), nil
}

// rows evaluates where on every part.
func (c *Collection) rows(
	ctx context.Context, v *engine.View, where filter.Expr,
) (sets []bitset.Set, total int, err error) {
	err = engine.RetryDerived(func() error {
		sets, total = nil, 0
		return c.db.engine.Guard(func() error {
			bound, err := match.New(ctx, v, where)
			if err != nil {
				return err
			}
			for i := range v.Parts {
				if err := ctx.Err(); err != nil {
					return err
				}
				set, err := bound.Rows(i)
				if err != nil {
					return err
				}
				sets = append(sets, set)
				total += set.Count()
			}
			return nil
		})
	})
	return sets, total, err
}

// Count returns the number of documents that match; nil counts all.
func (c *Collection) Count(ctx context.Context, where filter.Expr) (int, error) {
	_, v, done, err := c.begin(ctx, "count")
	if err != nil {
		return 0, err
	}
	defer done()
	if where == nil {
		return v.Count, nil
	}
	if where, err = readable(where); err == nil {
		var total int
		if _, total, err = c.rows(ctx, v, where); err == nil {
			return total, nil
		}
	}
	return 0, c.wrap("count", err)
}

// All yields every matching document of the version at the start of the loop,
// in the order of last writes. An error ends the loop, with a nil document. All
// holds no lock and no transaction between documents, and reads some hundred of
// them at once: when ctx is done, those still come.
func (c *Collection) All(ctx context.Context, where filter.Expr, want Select) iter.Seq2[*Document, error] {
	return func(yield func(*Document, error) bool) {
		ver, v, done, err := c.begin(ctx, "read")
		if err != nil {
			yield(nil, err)
			return
		}
		c.db.engine.Retain(ver)
		done() // so that Close does not wait for the caller's loop
		defer c.db.engine.Drop(ver)
		for d, err := range c.walk(ctx, ver, v, where, want) {
			if err != nil {
				yield(nil, c.wrap("read", err))
				return
			}
			if !yield(d, nil) {
				return
			}
		}
	}
}

func (c *Collection) walk(
	ctx context.Context, ver *engine.Version, v *engine.View, where filter.Expr, want Select,
) iter.Seq2[*Document, error] {
	return func(yield func(*Document, error) bool) {
		where, err := readable(where)
		var sets []bitset.Set
		if err == nil {
			if err = c.db.engine.Begin(); err == nil {
				sets, _, err = c.rows(ctx, v, where)
				c.db.engine.End()
			}
		}
		if err != nil {
			yield(nil, err)
			return
		}
		next := match.InOrder(v.Parts, sets)
		for {
			var docs []*Document
			if err = ctx.Err(); err == nil {
				err = c.db.engine.Begin()
			}
			if err == nil {
				err = c.db.engine.Read(ver, func(tx *meta.Tx) error {
					for len(docs) < docsPerTx {
						p, row, ok := next()
						if !ok {
							break
						}
						d := &Document{}
						if err := readDocument(tx, v, p, row, want, d); err != nil {
							return err
						}
						docs = append(docs, d)
					}
					return nil
				})
				c.db.engine.End()
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if len(docs) == 0 {
				return
			}
			for _, d := range docs {
				if !yield(d, nil) {
					return
				}
			}
		}
	}
}
