package chroma

import (
	"context"
	"encoding/json"
	"iter"
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/db"
)

// selector holds the fields that get, query and delete share.
type selector struct {
	IDs           []string        `json:"ids"`
	Where         json.RawMessage `json:"where"`
	WhereDocument json.RawMessage `json:"where_document"`
	Include       *[]string       `json:"include"`
	Limit         *int            `json:"limit"`
	Offset        *int            `json:"offset"`
}

func (a *API) count(ctx context.Context, r *request) (any, error) {
	c, _, err := a.collection(ctx, r)
	if err != nil {
		return nil, err
	}
	return c.Count(ctx, nil)
}

// A window is a part of the documents that the database lists. The zero value has all.
type window struct{ offset, limit int }

// documents yields the documents that have one of the ids and meet the condition, in the order of
// ids. If ids is nil, it yields those in the window that meet it, in order of id: the database
// lists what meets the part of the condition that it can evaluate.
func documents(ctx context.Context, c *db.Collection, ids []string, cond *condition, w window,
	want db.Select) iter.Seq2[*db.Document, error] {
	allMatch := cond.expr == nil || ids == nil && cond.plain()
	if !allMatch {
		want |= db.WithText | db.WithMetadata
		want &^= db.IDsOnly
	}
	all := c.GetSeq(ctx, ids, want)
	if ids == nil {
		all = c.ListSeq(ctx, db.ListQuery{Where: cond.native(), Offset: w.offset, Limit: w.limit, Select: want})
	}
	return func(yield func(*db.Document, error) bool) {
		for d, err := range all {
			matches := allMatch
			if err == nil && d != nil && !allMatch {
				matches, err = cond.match(d)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if d != nil && matches && !yield(d, nil) {
				return
			}
		}
	}
}

// question reads the body of a request that selects documents.
func (a *API) question(ctx context.Context, r *request, into any, q *selector) (*db.Collection, *condition, error) {
	c, _, err := a.collection(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	if err := r.decode(into); err != nil {
		return nil, nil, err
	}
	switch {
	case len(q.IDs) > a.opts.Records:
		return nil, nil, invalidf("%d ids: the limit is %d", len(q.IDs), a.opts.Records)
	case q.Limit != nil && *q.Limit < 0, q.Offset != nil && *q.Offset < 0:
		return nil, nil, invalidf("limit and offset must not be negative")
	}
	seen := map[string]bool{}
	q.IDs = slices.DeleteFunc(q.IDs, func(id string) bool {
		twice := seen[id]
		seen[id] = true
		return twice
	})
	cond, err := parseCondition(ctx, q.Where, q.WhereDocument)
	return c, cond, err
}

func (a *API) delete(ctx context.Context, r *request) (any, error) {
	var in selector
	c, cond, err := a.question(ctx, r, &in, &in)
	if err != nil {
		return nil, err
	}
	if in.IDs == nil && cond.expr == nil {
		return nil, invalidf("say what to delete: ids, where or where_document")
	}
	if in.Limit == nil {
		var n int
		switch {
		case in.IDs != nil && cond.expr == nil:
			n, err = c.Delete(ctx, in.IDs...)
		case in.IDs != nil:
			n, err = c.DeleteIf(ctx, in.IDs, 0, cond.match)
		case cond.plain():
			n, err = c.DeleteWhere(ctx, cond.expr)
		default:
			n, err = c.DeleteFunc(ctx, cond.native(), cond.match)
		}
		return map[string]int{"deleted": n}, err
	}
	if *in.Limit == 0 { // which DeleteIf takes for no limit
		return map[string]int{"deleted": 0}, nil
	}
	ids := in.IDs
	if ids == nil { // the first that match, which may change until they are deleted
		for d, err := range documents(ctx, c, nil, cond, window{}, db.IDsOnly) {
			if err != nil {
				return nil, err
			}
			if len(ids) == *in.Limit {
				break
			}
			ids = append(ids, d.ID)
		}
	}
	n, err := c.DeleteIf(ctx, ids, *in.Limit, func(d *db.Document) (bool, error) {
		if cond.expr == nil {
			return true, nil
		}
		return cond.match(d)
	})
	return map[string]int{"deleted": n}, err
}

func (a *API) get(ctx context.Context, r *request) (any, error) {
	var in selector
	c, cond, err := a.question(ctx, r, &in, &in)
	if err != nil {
		return nil, err
	}
	parts, err := include(in.Include, false)
	if err != nil {
		return nil, err
	}
	out := struct {
		*columns
		Include []string `json:"include"`
	}{newColumns(parts), parts.names}
	limit, skip, left := math.MaxInt, 0, a.allowance(ctx)
	if in.Limit != nil {
		limit = *in.Limit
	}
	if in.Offset != nil {
		skip = *in.Offset
	}
	if limit == 0 {
		return out, nil
	}
	var some window
	if in.IDs == nil && cond.plain() { // the database skips faster
		some, skip = window{skip, limit}, 0
	}
	for d, err := range documents(ctx, c, in.IDs, cond, some, parts.selection()) {
		if err != nil {
			return nil, err
		}
		if skip > 0 {
			skip--
			continue
		}
		if len(out.IDs) == limit {
			break
		}
		if err := out.add(d, parts, left); err != nil {
			return nil, err
		}
	}
	return out, nil
}
