package db

import (
	"cmp"
	"context"
	"iter"
	"math"

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

// IDs returns the ids of the documents, in order.
func (p *Page) IDs() []string {
	ids := make([]string, len(p.Documents))
	for i, d := range p.Documents {
		ids[i] = d.ID
	}
	return ids
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
	l, total, err := c.lister(ctx, ver, v, q)
	if err != nil {
		return nil, err
	}
	limit := min(cmp.Or(q.Limit, DefaultLimit), total) // so that limit+1 does not overflow
	l.Want = limit + 1
	err = c.db.engine.Read(ver, func(tx *meta.Tx) error { return l.Run(ctx, tx, total) })
	if err != nil {
		return nil, err
	}
	page := &Page{Total: total, Documents: []*Document{}}
	if len(l.Found) > limit {
		l.Found = l.Found[:limit]
		page.Next = l.Found[limit-1].ID
	}
	for next := rowsOf(l.Found); len(page.Documents) < len(l.Found); {
		err := c.db.engine.Read(ver, func(tx *meta.Tx) error {
			docs, err := readSome(ctx, tx, v, next, q.Select)
			page.Documents = append(page.Documents, docs...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return page, nil
}

// lister returns a lister for q, without the number of matches that it wants, and how many
// documents match.
func (c *Collection) lister(
	ctx context.Context, ver *engine.Version, v *engine.View, q ListQuery,
) (*match.Lister, int, error) {
	where, err := readable(q.Where)
	if err != nil {
		return nil, 0, err
	}
	if q.Limit < 0 || q.Offset < 0 {
		return nil, 0, invalidf("limit %d, offset %d", q.Limit, q.Offset)
	}
	sets, total, err := c.rows(ctx, v, where)
	return &match.Lister{Version: ver, View: v, Sets: sets, After: q.After, Skip: q.Offset}, total, err
}

// rowsOf returns the rows of matches, one at each call.
func rowsOf(all []match.Match) func() (*engine.Part, int, bool) {
	return func() (*engine.Part, int, bool) {
		if len(all) == 0 {
			return nil, 0, false
		}
		m := all[0]
		all = all[1:]
		return m.Part, m.Row, true
	}
}

// readSome reads documents at the rows that next returns, up to the limits of one transaction. It
// returns none after the last row.
func readSome(ctx context.Context, tx *meta.Tx, v *engine.View, next func() (*engine.Part, int, bool),
	want Select) (docs []*Document, err error) {
	for left := bytesPerTx; left > 0 && len(docs) < docsPerTx; {
		p, row, ok := next()
		if !ok {
			break
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		stored, err := v.Stored(tx, p, row)
		if err != nil {
			return nil, err
		}
		d := &Document{}
		if err := decodeDocument(p, row, stored, want, d); err != nil {
			return nil, err
		}
		docs = append(docs, d)
		left -= len(stored) + 4*len(d.Vector)
	}
	return docs, nil
}

// ListSeq yields documents in ascending order of id, of the version at the start of the loop: at
// most q.Limit, or all if that is 0. What All says of errors and of memory applies.
func (c *Collection) ListSeq(ctx context.Context, q ListQuery) iter.Seq2[*Document, error] {
	return c.sequence(ctx, "list", func(ver *engine.Version, v *engine.View, yield func(*Document) bool) error {
		var l *match.Lister
		var total int
		err := c.turn(ctx, func() (err error) {
			l, total, err = c.lister(ctx, ver, v, q)
			return err
		})
		if err != nil {
			return err
		}
		// A page may have to read the ids of all matches, so few long ones cost less.
		const first, longest, most = 1 << 10, 1 << 17, 2 << 20 // ids, ids, and bytes of ids
		left := cmp.Or(q.Limit, math.MaxInt)
		for n := first; left > 0; {
			l.Found, l.Want = nil, min(n, left)
			err := c.read(ctx, ver, func(tx *meta.Tx) error { return l.Run(ctx, tx, total) })
			if err != nil {
				return err
			}
			if ended, err := c.yieldAll(ctx, ver, v, rowsOf(l.Found), q.Select, yield); ended || err != nil {
				return err
			}
			if len(l.Found) < l.Want {
				return nil
			}
			left -= len(l.Found)
			size := 0
			for i := range l.Found {
				size += len(l.Found[i].ID)
			}
			if size <= most/2 { // so that twice the number has at most that size
				n = min(2*n, longest)
			}
			l.After = l.Found[len(l.Found)-1].ID
		}
		return nil
	})
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

// All yields every matching document of the version at the start of the loop, in the order of last
// writes. An error ends the loop, with a nil document. All holds no lock and no transaction between
// documents, and few documents in memory: it reads some MiB at once. When ctx is done, those
// already read still come.
func (c *Collection) All(ctx context.Context, where filter.Expr, want Select) iter.Seq2[*Document, error] {
	return c.sequence(ctx, "read", func(ver *engine.Version, v *engine.View, yield func(*Document) bool) error {
		var sets []bitset.Set
		err := c.turn(ctx, func() error {
			where, err := readable(where)
			if err != nil {
				return err
			}
			sets, _, err = c.rows(ctx, v, where)
			return err
		})
		if err != nil {
			return err
		}
		_, err = c.yieldAll(ctx, ver, v, match.InOrder(v.Parts, sets), want, yield)
		return err
	})
}

// yieldAll yields the documents at the rows that next returns. ended reports that the loop is over.
func (c *Collection) yieldAll(ctx context.Context, ver *engine.Version, v *engine.View,
	next func() (*engine.Part, int, bool), want Select, yield func(*Document) bool) (ended bool, err error) {
	for {
		var docs []*Document
		err := c.read(ctx, ver, func(tx *meta.Tx) (err error) {
			docs, err = readSome(ctx, tx, v, next, want)
			return err
		})
		if err != nil || len(docs) == 0 {
			return false, err
		}
		for _, d := range docs {
			if !yield(d) {
				return true, nil
			}
		}
	}
}

// sequence returns a sequence of documents of one version. run ends where yield returns false.
// Close does not wait for the loop, so run reads in turns.
func (c *Collection) sequence(ctx context.Context, call string,
	run func(ver *engine.Version, v *engine.View, yield func(*Document) bool) error) iter.Seq2[*Document, error] {
	return func(yield func(*Document, error) bool) {
		ver, v, done, err := c.begin(ctx, call)
		if err != nil {
			yield(nil, err)
			return
		}
		c.db.engine.Retain(ver)
		done()
		defer c.db.engine.Drop(ver)
		if err := run(ver, v, func(d *Document) bool { return yield(d, nil) }); err != nil {
			yield(nil, c.wrap(call, err))
		}
	}
}

// turn runs fn between documents of a sequence.
func (c *Collection) turn(ctx context.Context, fn func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.db.engine.Begin(); err != nil {
		return err
	}
	defer c.db.engine.End()
	return fn()
}

// read is turn with a transaction.
func (c *Collection) read(ctx context.Context, ver *engine.Version, fn func(*meta.Tx) error) error {
	return c.turn(ctx, func() error { return c.db.engine.Read(ver, fn) })
}
