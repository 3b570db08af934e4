package query

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fusion"
	"github.com/vecbolt/vecbolt/internal/nearest"
)

// Fused answers several queries and fuses their rows by RRF into one answer. K and Offset of the
// first query apply to it. weights are the weights of the queries; without any, all are 1.
func (s *Searcher) Fused(
	ctx context.Context, ver *engine.Version, v *engine.View, queries []Query, weights []float64,
) (a *Answer, err error) {
	err = engine.RetryDerived(func() error {
		a, err = s.on(ctx, ver, v).answerFused(queries, weights)
		return err
	})
	return a, err
}

func (s *search) answerFused(queries []Query, weights []float64) (*Answer, error) {
	f, err := s.newForms(queries, weights)
	if err != nil {
		return nil, err
	}
	first := &queries[0]
	lists, err := f.rank()
	if err != nil {
		return nil, err
	}
	in := fusion.Input[nearest.Place]{
		Method: fusion.RRF, C: first.Fusion.WithDefaults(0).C, K: first.limit(), Matched: f.matched,
		Thorough: f.exact, Names: s.names, Longer: f.longer,
	}
	for i, r := range lists {
		in.Lists = append(in.Lists, fusion.List[nearest.Place]{Ranking: r, Weight: f.weights[i]})
	}
	a := &Answer{Matched: f.matched}
	err = s.Engine.Guard(func() error {
		out, err := fusion.Fuse(in)
		if err != nil {
			return err
		}
		if !out.Certain {
			f.ledger.Lose(out.Kept)
		}
		a.Rows = fusedRows(out.Hits[min(first.Offset, len(out.Hits)):], strconv.Itoa)
		a.Complete = f.ledger.Complete(len(out.Hits), min(in.K, f.matched))
		return nil
	})
	if err != nil {
		return nil, err
	}
	a.Ledger = f.ledger
	a.Plan = fmt.Sprintf("%d queries fused by rrf, the first by %s", len(queries), s.queries[0].plan())
	for _, form := range s.queries {
		if form.text != nil {
			a.Passages = &Passages{view: s.view, text: form.text, forms: s.queries}
			break
		}
	}
	return a, nil
}

// forms are the queries that Fused fuses.
type forms struct {
	*search
	own     []Query // the queries as they run
	weights []float64
	exact   bool                            // every query wants an exact answer
	lists   []fusion.Ranking[nearest.Place] // as ranked last

	matched int            // the most rows that match one query
	ledger  nearest.Ledger // of every query, each time that it ran
}

// newForms validates the queries that Fused fuses.
func (s *search) newForms(queries []Query, weights []float64) (*forms, error) {
	if len(queries) == 0 || len(weights) > 0 && len(weights) != len(queries) {
		return nil, document.Invalidf("%d queries with %d weights", len(queries), len(weights))
	}
	f := &forms{search: s, own: slices.Clone(queries), weights: weights, exact: true}
	if len(weights) == 0 {
		f.weights = slices.Repeat([]float64{1}, len(queries))
	}
	if err := fusion.CheckWeights(f.weights); err != nil {
		return nil, document.Invalidf("%v", err)
	}
	for i := range f.own {
		q := &f.own[i]
		if err := q.check(s.view.Def); err != nil {
			return nil, fmt.Errorf("query %d: %w", i, err)
		}
		if q.Group != nil || q.MMR != nil {
			return nil, document.Invalidf("query %d: fused queries have no groups and no maximal marginal relevance", i)
		}
		depth := cmp.Or(q.Fusion.Depth, fusion.RRFDepth)
		q.K, q.Offset = min(max(queries[0].limit(), depth), math.MaxInt32), 0 // no K may be larger
		f.exact = f.exact && q.Accuracy.Exact()
	}
	return f, nil
}

// rank answers the queries.
func (f *forms) rank() ([]fusion.Ranking[nearest.Place], error) {
	if err := f.rankAll(f.own); err != nil {
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
func (f *forms) longer() ([]fusion.Ranking[nearest.Place], error) {
	more := false
	for i := range f.own {
		if q := &f.own[i]; !f.lists[i].Whole && q.K < math.MaxInt32 {
			q.K, more = min(8*q.K, math.MaxInt32), true
		}
	}
	if !more {
		return nil, nil
	}
	return f.rank()
}
