package db

import (
	"context"
	"slices"
	"strings"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/bitset"
)

// A condition is a filter on a view, with the text queries in it.
type condition struct {
	ctx   context.Context // of the call that it is for
	view  *view
	where filter.Expr
	texts map[string]*textSearch // by query
}

// condition prepares a valid and simplified filter; nil matches all. The
// caller is inside guard.
func (v *view) condition(ctx context.Context, where filter.Expr) (*condition, error) {
	c := &condition{ctx: ctx, view: v, where: where}
	for _, t := range filter.Texts(where) {
		a := v.def.analysis
		if a == nil {
			return nil, noText(v.def.name)
		}
		if c.texts[t.Query] != nil {
			continue
		}
		q, err := a.query("$text", t.Query)
		if err != nil {
			return nil, err
		}
		s, err := v.prepareText(ctx, a, q)
		if err != nil {
			return nil, err
		}
		if c.texts == nil {
			c.texts = map[string]*textSearch{}
		}
		c.texts[t.Query] = s
	}
	return c, nil
}

// rows returns the live rows of a part that match.
func (c *condition) rows(part int) (bitset.Set, error) {
	p := c.view.parts[part]
	if c.texts == nil {
		return p.rows(c.ctx, c.where)
	}
	set := bitset.New(p.n)
	if err := c.eval(part, c.where, set); err != nil {
		return nil, err
	}
	p.dead.AndNotInto(set)
	return set, nil
}

// eval sets dst to the rows of a part, dead or alive, that match e.
func (c *condition) eval(part int, e filter.Expr, dst bitset.Set) error {
	p := c.view.parts[part]
	if len(filter.Texts(e)) == 0 {
		return p.source.match(c.ctx, e, dst)
	}
	join := func(args []filter.Expr, with func(bitset.Set)) error {
		one := bitset.New(p.n)
		for _, arg := range args {
			if err := c.eval(part, arg, one); err != nil {
				return err
			}
			with(one)
		}
		return nil
	}
	switch e := e.(type) {
	case *filter.TextMatch:
		s := c.texts[e.Query]
		rows, err := s.Matches(part)
		copy(dst, rows)
		return s.damaged(err)
	case *filter.Conjunction:
		dst.Fill(p.n)
		return join(e.Args, dst.And)
	case *filter.Disjunction:
		dst.Reset()
		return join(e.Args, dst.Or)
	case *filter.Negation:
		err := c.eval(part, e.Arg, dst)
		dst.Not(p.n)
		return err
	}
	return invalidf("a nil condition")
}

// get returns the lookup function of filter.Match and filter.Why for the
// document at a row.
func (c *condition) get(at place, m Metadata) func(string) (any, bool) {
	return func(path string) (any, bool) {
		query, ok := strings.CutPrefix(path, filter.TextPath)
		s := c.texts[query]
		if !ok || s == nil {
			return filter.Lookup(m, path)
		}
		rows, err := s.Matches(slices.Index(c.view.parts, at.part))
		return rows.Has(at.row), err == nil
	}
}
