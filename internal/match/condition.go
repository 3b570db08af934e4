package match

import (
	"context"
	"slices"
	"strings"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
)

// A Condition is a filter on a view, with the text queries in it.
type Condition struct {
	ctx   context.Context // of the call that it is for
	view  *engine.View
	where filter.Expr
	texts map[string]*Text // by query
}

// New prepares a valid and simplified filter; nil matches all. The caller is inside Engine.Guard.
func New(ctx context.Context, v *engine.View, where filter.Expr) (*Condition, error) {
	c := &Condition{ctx: ctx, view: v, where: where}
	for _, t := range filter.Texts(where) {
		a := v.Def.Analysis
		if a == nil {
			return nil, engine.NoText(v.Def.Name)
		}
		if c.texts[t.Query] != nil {
			continue
		}
		q, err := Parse(a, "$text", t.Query)
		if err != nil {
			return nil, err
		}
		s, err := Prepare(ctx, v, a, q)
		if err != nil {
			return nil, err
		}
		if c.texts == nil {
			c.texts = map[string]*Text{}
		}
		c.texts[t.Query] = s
	}
	return c, nil
}

// Rows returns the live rows of a part that match.
func (c *Condition) Rows(part int) (bitset.Set, error) {
	p := c.view.Parts[part]
	if c.texts == nil {
		return p.Rows(c.ctx, c.where)
	}
	set := bitset.New(p.N)
	if err := c.eval(part, c.where, set); err != nil {
		return nil, err
	}
	p.Dead.AndNotInto(set)
	return set, nil
}

// eval sets dst to the rows of a part, dead or alive, that match e.
func (c *Condition) eval(part int, e filter.Expr, dst bitset.Set) error {
	p := c.view.Parts[part]
	if len(filter.Texts(e)) == 0 {
		return p.Source.Match(c.ctx, e, dst)
	}
	join := func(args []filter.Expr, with func(bitset.Set)) error {
		one := bitset.New(p.N)
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
		return s.Damaged(err)
	case *filter.Conjunction:
		dst.Fill(p.N)
		return join(e.Args, dst.And)
	case *filter.Disjunction:
		dst.Reset()
		return join(e.Args, dst.Or)
	case *filter.Negation:
		err := c.eval(part, e.Arg, dst)
		dst.Not(p.N)
		return err
	}
	return document.Invalidf("a nil condition")
}

// Get returns the lookup function of filter.Match and filter.Why for the
// document at a row.
func (c *Condition) Get(part *engine.Part, row int, m map[string]any) func(string) (any, bool) {
	return func(path string) (any, bool) {
		query, ok := strings.CutPrefix(path, filter.TextPath)
		s := c.texts[query]
		if !ok || s == nil {
			return filter.Lookup(m, path)
		}
		rows, err := s.Matches(slices.Index(c.view.Parts, part))
		return rows.Has(row), err == nil
	}
}
