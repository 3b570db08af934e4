package db

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/match"
	"github.com/vecbolt/vecbolt/internal/meta"
)

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
