package query

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/nearest"
)

// A RecallTest says how MeasureRecall compares answers with exact answers.
type RecallTest struct {
	Queries [][]float32    // without any, stored vectors are used, each as if it were not stored
	Sample  int            // how many stored vectors
	Seed    uint64         // chooses the sample
	K       int            // how many rows each query wants
	Goals   []nearest.Goal // each is measured by itself
	Where   filter.Expr    // nil: all
}

// A MeasuredRecall is the result for one goal.
type MeasuredRecall struct {
	Promised float64 // mean over the queries
	Exact    int     // queries that were answered exactly, because that costs no more
	nearest.Estimate
}

// MeasureRecall asks each query exactly and with every goal, and returns the share of the exact
// rows that was found with each goal.
func (s *Searcher) MeasureRecall(
	ctx context.Context, ver *engine.Version, v *engine.View, t RecallTest,
) (all []MeasuredRecall, err error) {
	err = engine.RetryDerived(func() error {
		all, err = s.measureRecall(ctx, ver, v, t)
		return err
	})
	return all, err
}

func (s *Searcher) measureRecall(
	ctx context.Context, ver *engine.Version, v *engine.View, t RecallTest,
) ([]MeasuredRecall, error) {
	queries, err := s.testQueries(ver, v, t)
	if err != nil {
		return nil, err
	}
	all, tallies := make([]MeasuredRecall, len(t.Goals)), make([]nearest.Tally, len(t.Goals))
	const together = 128 // queries that share a pass over the vectors
	counted := 0         // queries that want rows: the others show nothing
	for batch := range slices.Chunk(queries, together) {
		truth, err := s.ranking(ctx, ver, v, batch, nearest.Goal{Recall: 1}, s.Workers)
		if err != nil {
			return nil, err
		}
		before := counted
		for i, goal := range t.Goals {
			got, err := s.ranking(ctx, ver, v, batch, goal, s.Workers)
			if err != nil {
				return nil, err
			}
			counted = before
			for j, q := range got.near.Probes {
				rows := truth.near.Probes[j].Best
				if len(rows) == 0 {
					continue
				}
				counted++
				tallies[i].Add(len(rows)-nearest.Missed(rows, q.Best, nil), len(rows))
				// The mean of equal promises is that promise, to the last bit.
				all[i].Promised += (q.Ledger.Recall() - all[i].Promised) / float64(counted)
				if !q.UsesGraphs() {
					all[i].Exact++
				}
			}
		}
	}
	for i := range all {
		all[i].Estimate = tallies[i].Estimate(nearest.Usual)
		if counted > 0 && all[i].Exact == counted {
			all[i].Low = 1 // by definition
		}
	}
	return all, nil
}

// testQueries returns the queries of a test, without a target.
func (s *Searcher) testQueries(ver *engine.Version, v *engine.View, t RecallTest) ([]Query, error) {
	q := Query{K: t.K, Where: t.Where}
	var queries []Query
	for _, vec := range t.Queries {
		q.Near = Vector(vec)
		queries = append(queries, q)
	}
	if queries != nil {
		return queries, nil
	}
	r := rand.New(rand.NewPCG(t.Seed, 0))
	total := v.Vectors()
	n := min(t.Sample, total)
	picks := map[int]bool{} // by Floyd's algorithm: CACM 30, 1987
	for i := total - n; i < total; i++ {
		if j := r.IntN(i + 1); picks[j] {
			picks[i] = true
		} else {
			picks[j] = true
		}
	}
	err := s.Engine.Read(ver, func(tx *meta.Tx) error {
		at := 0
		for _, p := range v.Parts {
			for row := 0; p.Dim > 0 && row < p.N; row++ {
				if p.Dead.Has(row) {
					continue
				}
				if picks[at] {
					id, err := v.IDAt(tx, p, row)
					if err != nil {
						return err
					}
					q.Near = HeldOut(id)
					queries = append(queries, q)
				}
				at++
			}
		}
		return nil
	})
	return queries, err
}

// ranking searches for the best rows of queries with one accuracy.
func (s *Searcher) ranking(
	ctx context.Context, ver *engine.Version, v *engine.View, queries []Query, how nearest.Goal, workers int,
) (*search, error) {
	asked := slices.Clone(queries)
	for i := range asked {
		asked[i].Accuracy = how
	}
	pass := s.on(ctx, ver, v)
	pass.near.Workers = workers
	return pass, pass.rankAll(asked)
}

// recheck has some of the answered queries repeated, to measure the recall of live queries.
func (s *search) recheck() {
	for _, p := range s.queries {
		if s.Rechecks.Wants(&p.Probe) {
			s.Rechecks.Offer(s.view.Def.ID, s.repeat(p))
		}
	}
}

// repeat returns a function that repeats the search for the vector of a query. It keeps the query,
// and nothing of the view that it was answered on.
func (s *Searcher) repeat(p *probe) nearest.Repeat {
	q := Query{Near: Vector(slices.Clone(p.Scorer.Query)), K: p.Need, Where: p.where}
	how := p.Goal
	return func(ctx context.Context, ver *engine.Version, v *engine.View, exact bool) (*nearest.Search, error) {
		goal := how
		if exact {
			goal = nearest.Goal{Recall: 1}
		}
		pass, err := s.ranking(ctx, ver, v, []Query{q}, goal, 1)
		return &pass.near, err
	}
}
