package db

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/meta"
)

// Search answers a query.
func (c *Collection) Search(ctx context.Context, q Query) (*Result, error) {
	results, err := c.SearchBatch(ctx, []Query{q})
	if err != nil {
		return nil, err
	}
	return results[0], nil
}

// SearchBatch answers many queries on the same version of the collection in one
// pass over the vectors. If one query is invalid, none is answered.
func (c *Collection) SearchBatch(ctx context.Context, queries []Query) ([]*Result, error) {
	ver, v, done, err := c.open()
	if err != nil {
		return nil, err
	}
	defer done()
	results, err := c.db.search(ctx, ver, v, queries)
	if err != nil {
		return nil, c.wrap("search", err)
	}
	return results, nil
}

// Get returns one document; ErrNotFound if there is none.
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
	ver, v, done, err := c.open()
	if err != nil {
		return nil, err
	}
	defer done()
	docs := make([]*Document, len(ids))
	const perTx = 256 // short transactions: a long one keeps pages from reuse
	for lo := 0; lo < len(ids) && err == nil; lo += perTx {
		if err = ctx.Err(); err != nil {
			break
		}
		err = c.db.read(ver, func(tx *meta.Tx) error {
			for i := lo; i < min(lo+perTx, len(ids)); i++ {
				if err := ctx.Err(); err != nil {
					return err
				}
				num, err := ver.num(tx, v, ids[i])
				if err != nil || num == 0 {
					if err != nil {
						return err
					}
					continue
				}
				p, row, ok := v.locate(num)
				if !ok {
					return missingRow(v.def.name, ids[i], num)
				}
				docs[i] = &Document{}
				if err := v.read(tx, p, row, want, docs[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		return nil, c.wrap("get", err)
	}
	return docs, nil
}

// read runs fn in a read transaction for a version, and turns faults of mapped
// files into errors.
func (db *DB) read(ver *version, fn func(tx *meta.Tx) error) error {
	return db.guard(func() error { return ver.read(fn) })
}

func missingRow(collection, id string, num uint64) error {
	return &CorruptError{File: metaName, Offset: -1,
		Err: fmt.Errorf("document %q of collection %q points to docnum %d, which no segment has", id, collection, num)}
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
	ver, v, done, err := c.open()
	if err != nil {
		return nil, err
	}
	defer done()
	page, err := c.list(ctx, ver, v, q)
	return page, c.wrap("list", err)
}

// match is a document that the filter accepts.
type match struct {
	id   string
	part *part
	row  int
}

func (c *Collection) list(ctx context.Context, ver *version, v *view, q ListQuery) (*Page, error) {
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
	l := lister{ver: ver, v: v, sets: sets, where: where, after: q.After, skip: q.Offset, want: limit + 1}
	err = c.db.read(ver, func(tx *meta.Tx) error { return l.run(ctx, tx, total) })
	if err != nil {
		return nil, err
	}
	if len(l.found) > limit {
		l.found = l.found[:limit]
		page.Next = l.found[limit-1].id
	}
	for batch := range slices.Chunk(l.found, 256) {
		err := c.db.read(ver, func(tx *meta.Tx) error {
			for _, m := range batch {
				if err := ctx.Err(); err != nil {
					return err
				}
				d := &Document{}
				if err := v.read(tx, m.part, m.row, q.Select, d); err != nil {
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
func (c *Collection) rows(ctx context.Context, v *view, where filter.Expr) (sets []bitset.Set, total int, err error) {
	err = retryDerived(func() error {
		sets, total = nil, 0
		return c.db.guard(func() error {
			bound, err := v.condition(ctx, where)
			if err != nil {
				return err
			}
			for i := range v.parts {
				if err := ctx.Err(); err != nil {
					return err
				}
				set, err := bound.rows(i)
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

// A lister finds matches in order of id.
type lister struct {
	ver   *version
	v     *view
	sets  []bitset.Set
	where filter.Expr
	after string
	skip  int
	want  int
	found []match
}

// run walks the tree of ids, or, if few documents match or the tree is newer
// than the version, sorts the ids of the matches.
func (l *lister) run(ctx context.Context, tx *meta.Tx, total int) error {
	state, err := tx.State()
	if err != nil {
		return err
	}
	const few = 16 // a look at the tree costs about as much as sorting one match
	if state.Applied != l.ver.applied || total < l.v.count/few {
		return l.sort(ctx, tx)
	}
	return l.walk(ctx, tx)
}

// add takes the next match in order and reports whether more are wanted.
func (l *lister) add(m match) bool {
	if l.skip > 0 {
		l.skip--
		return true
	}
	l.found = append(l.found, m)
	return len(l.found) < l.want
}

func (l *lister) sort(ctx context.Context, tx *meta.Tx) error {
	var all []match
	for i, p := range l.v.parts {
		if err := ctx.Err(); err != nil {
			return err
		}
		for row := range l.sets[i].All() {
			if len(all)%1024 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			id, err := l.v.idAt(tx, p, row)
			if err != nil {
				return err
			}
			if id > l.after {
				all = append(all, match{id, p, row})
			}
		}
	}
	slices.SortFunc(all, func(a, b match) int { return cmp.Compare(a.id, b.id) })
	for _, m := range all {
		if !l.add(m) {
			break
		}
	}
	return nil
}

func (l *lister) walk(ctx context.Context, tx *meta.Tx) error {
	head := l.headIDs()
	wanted := func(id string, num uint64) (bool, error) {
		for i, p := range l.v.parts {
			if row, ok := p.row(num); ok {
				return !l.sets[i].Has(row) || l.add(match{id, p, row}), nil
			}
		}
		return false, missingRow(l.v.def.name, id, num)
	}
	more, seen := true, 0
	err := tx.IDs(l.v.def.id, l.after, false, func(id string, num uint64) (bool, error) {
		if seen++; seen%1024 == 0 && ctx.Err() != nil {
			return false, ctx.Err()
		}
		var err error
		for more && len(head) > 0 && head[0].id < id {
			if head[0].num != 0 {
				if more, err = wanted(head[0].id, head[0].num); err != nil {
					return false, err
				}
			}
			head = head[1:]
		}
		if len(head) > 0 && head[0].id == id { // replaced or deleted since
			num = head[0].num
			head = head[1:]
		}
		if more && num != 0 {
			more, err = wanted(id, num)
		}
		return more, err
	})
	for err == nil && more && len(head) > 0 {
		if head[0].num != 0 {
			more, err = wanted(head[0].id, head[0].num)
		}
		head = head[1:]
	}
	return err
}

// headID is the newest state of an id in the heads; num 0 is deleted.
type headID struct {
	id  string
	num uint64
}

// headIDs returns the newest states in the heads of all ids beyond the cursor,
// in order.
func (l *lister) headIDs() []headID {
	newest := map[string]uint64{}
	for _, h := range slices.Backward(l.v.heads) { // oldest first
		for id, num := range h.coll.ids(h.entries) {
			if id > l.after {
				newest[id] = num
			}
		}
	}
	ids := make([]headID, 0, len(newest))
	for id, num := range newest {
		ids = append(ids, headID{id, num})
	}
	sortIDs(ids)
	return ids
}

func sortIDs(ids []headID) {
	slices.SortFunc(ids, func(a, b headID) int { return strings.Compare(a.id, b.id) })
}

// Count returns the number of documents that match; nil counts all.
func (c *Collection) Count(ctx context.Context, where filter.Expr) (int, error) {
	_, v, done, err := c.open()
	if err != nil {
		return 0, err
	}
	defer done()
	if where == nil {
		return v.count, nil
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
// holds no lock and no transaction between documents.
func (c *Collection) All(ctx context.Context, where filter.Expr, want Select) iter.Seq2[*Document, error] {
	return func(yield func(*Document, error) bool) {
		ver, v, done, err := c.open()
		if err != nil {
			yield(nil, err)
			return
		}
		c.db.retain(ver)
		done() // so that Close does not wait for the caller's loop
		defer c.db.drop(ver)
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

func (c *Collection) walk(ctx context.Context, ver *version, v *view, where filter.Expr, want Select) iter.Seq2[*Document, error] {
	return func(yield func(*Document, error) bool) {
		where, err := readable(where)
		var sets []bitset.Set
		if err == nil {
			if err = c.db.begin(); err == nil {
				sets, _, err = c.rows(ctx, v, where)
				c.db.end()
			}
		}
		if err != nil {
			yield(nil, err)
			return
		}
		next := mergeRows(v.parts, sets)
		const perTx = 256
		for {
			var docs []*Document
			if err = ctx.Err(); err == nil {
				err = c.db.begin()
			}
			if err == nil {
				err = c.db.read(ver, func(tx *meta.Tx) error {
					for len(docs) < perTx {
						p, row, ok := next()
						if !ok {
							break
						}
						d := &Document{}
						if err := v.read(tx, p, row, want, d); err != nil {
							return err
						}
						docs = append(docs, d)
					}
					return nil
				})
				c.db.end()
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

// mergeRows returns an iterator over the rows of all parts in order of DocNum.
// The DocNums of a part are copied as it goes: they may be mapped memory.
func mergeRows(parts []*part, sets []bitset.Set) func() (*part, int, bool) {
	rows := make([]int, len(parts))
	for i := range rows {
		rows[i] = sets[i].NextSet(0)
	}
	return func() (*part, int, bool) {
		best := -1
		for i, row := range rows {
			if row >= 0 && (best < 0 || parts[i].nums[row] < parts[best].nums[rows[best]]) {
				best = i
			}
		}
		if best < 0 {
			return nil, 0, false
		}
		row := rows[best]
		rows[best] = sets[best].NextSet(row + 1)
		return parts[best], row, true
	}
}
