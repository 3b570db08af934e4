package db

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fusion"
	"github.com/vecbolt/vecbolt/internal/nearest"
)

// SearchFused answers several queries, such as rewrites of one question, and fuses their
// hits by RRF into one answer.
//
// Each query contributes its best documents that meet its own Where and Threshold:
// Fusion.Depth of them or 100, and at least the number of wanted hits. The true answer is
// again the fusion of complete lists: see Fusion. If all queries want an exact answer,
// the lists are extended until it is exact.
//
// weights are the weights of the queries in order; without any, all are 1. K, Offset,
// Select and Snippet of the first query apply. A snippet answers the text that ranks the
// hit best.
func (c *Collection) SearchFused(ctx context.Context, queries []Query, weights ...float64) (*Result, error) {
	ver, v, done, err := c.open()
	if err != nil {
		return nil, err
	}
	defer done()
	var r *Result
	err = engine.RetryDerived(func() error {
		r, err = c.db.newSearch(ctx, ver, v).answerFused(ctx, queries, weights)
		return err
	})
	if err != nil {
		return nil, c.wrap("search", err)
	}
	return r, nil
}

func (s *search) answerFused(ctx context.Context, queries []Query, weights []float64) (*Result, error) {
	f, err := s.newForms(queries, weights)
	if err != nil {
		return nil, err
	}
	first := &queries[0]
	lists, err := f.rank(ctx)
	if err != nil {
		return nil, err
	}
	in := fusion.Input[nearest.Place]{
		Method: fusion.RRF, C: first.Fusion.rules().WithDefaults(0).C, K: first.limit(), Matched: f.matched,
		Thorough: f.exact, Names: s.names, Longer: func() ([]fusion.Ranking[nearest.Place], error) { return f.longer(ctx) },
	}
	for i, r := range lists {
		in.Lists = append(in.Lists, fusion.List[nearest.Place]{Ranking: r, Weight: f.weights[i]})
	}
	var r *Result
	err = s.db.engine.Guard(func() error {
		out, err := fusion.Fuse(in)
		if err != nil {
			return err
		}
		if !out.Certain {
			f.ledger.Lose(out.Kept)
		}
		plan := fmt.Sprintf("%d queries fused by rrf, the first by %s", len(queries), s.queries[0].plan())
		r = result(&f.ledger, f.matched, f.ledger.Complete(len(out.Hits), min(in.K, f.matched)), plan)
		p := *s.queries[0]
		p.Query, p.forms = first, s.queries
		for _, form := range s.queries {
			if p.text == nil {
				p.text = form.text
			}
		}
		hits := out.Hits[min(first.Offset, len(out.Hits)):]
		r.Hits, err = s.fetch(&p, fusedRows(hits, strconv.Itoa))
		return err
	})
	return r, err
}

// forms are the queries of a SearchFused.
type forms struct {
	*search
	own     []Query // the queries as they run
	weights []float64
	exact   bool                            // every query wants an exact answer
	lists   []fusion.Ranking[nearest.Place] // as ranked last

	matched int            // the most rows that match one query
	ledger  nearest.Ledger // of every query, each time that it ran
}

// newForms validates the queries of a SearchFused.
func (s *search) newForms(queries []Query, weights []float64) (*forms, error) {
	if len(queries) == 0 || len(weights) > 0 && len(weights) != len(queries) {
		return nil, invalidf("%d queries with %d weights", len(queries), len(weights))
	}
	f := &forms{search: s, own: slices.Clone(queries), weights: weights, exact: true}
	if len(weights) == 0 {
		f.weights = slices.Repeat([]float64{1}, len(queries))
	}
	for i := range f.own {
		q := &f.own[i]
		if err := q.validate(s.view.Def); err != nil {
			return nil, fmt.Errorf("query %d: %w", i, err)
		}
		if q.Group != nil || q.MMR != nil {
			return nil, invalidf("query %d: fused queries have no groups and no maximal marginal relevance", i)
		}
		q.K, q.Offset, q.Select, q.Snippet = max(queries[0].limit(), cmp.Or(q.Fusion.Depth, fusion.RRFDepth)), 0, IDsOnly, 0
		how, _ := goalOf(q.Accuracy) // it is valid
		f.exact = f.exact && how.Exact()
		if w := f.weights[i]; !(w >= 0 && w <= fusion.MaxWeight) {
			return nil, invalidf("weight of query %d is %v", i, w)
		}
	}
	return f, nil
}

// rank answers the queries.
func (f *forms) rank(ctx context.Context) ([]fusion.Ranking[nearest.Place], error) {
	if err := f.rankAll(ctx, f.own); err != nil {
		return nil, err
	}
	for _, p := range f.queries {
		f.ledger.Add(p.Ledger)
		f.matched = max(f.matched, p.Matched)
	}
	lists := make([]fusion.Ranking[nearest.Place], len(f.queries))
	for i, p := range f.queries {
		lists[i] = fusion.Ranking[nearest.Place]{Best: entries(p.rows), Whole: len(p.rows) < f.own[i].K}
	}
	f.lists = lists
	return lists, nil
}

// longer answers the queries with more hits where more exist; nil if none do.
func (f *forms) longer(ctx context.Context) ([]fusion.Ranking[nearest.Place], error) {
	more := false
	for i := range f.own {
		if q := &f.own[i]; !f.lists[i].Whole && q.K < math.MaxInt32 {
			q.K, more = min(8*q.K, math.MaxInt32), true
		}
	}
	if !more {
		return nil, nil
	}
	return f.rank(ctx)
}
