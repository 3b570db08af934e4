package db

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/nearest"
)

// A RecallTest says how MeasureRecall compares answers with exact answers.
type RecallTest struct {
	// Queries are the query vectors. Without any, Sample stored vectors are
	// used, each as if it were not stored.
	Queries [][]float32
	// Sample is how many stored vectors, chosen at random, are used; 0 means
	// DefaultSample.
	Sample int
	// Seed chooses the sample: the same sample in the same version of the
	// collection.
	Seed uint64
	// K is how many hits each query wants; 0 means DefaultK.
	K int
	// Accuracies are measured, each by itself; without any, Recall 0.9, 0.95,
	// 0.98 and 0.99.
	Accuracies []Accuracy
	// Where restricts the documents to be found; nil means all.
	Where filter.Expr
}

// DefaultSample is the number of stored vectors that are used when
// RecallTest.Sample is zero.
const DefaultSample = 1000

// A MeasuredRecall is the result for one accuracy.
type MeasuredRecall struct {
	// Target is the Recall that was asked for, and EF the beam width: one of
	// them is 0.
	Target float64 `json:"target,omitempty"`
	EF     int     `json:"ef,omitempty"`
	// Promised is the mean of Result.Recall.
	Promised float64 `json:"promised"`
	// Exact is how many queries were answered exactly, because that costs no
	// more.
	Exact int `json:"exact"`
	RecallEstimate
}

// A RecallEstimate is the share of true hits that were found, with an interval
// that holds the mean over all such queries with a confidence of 95 %. A hit
// counts if its score is not below the score of the last true hit: scores have
// the same bits however they are computed, so only equal scores are ties.
//
// The interval is Wilson's (Journal of the American Statistical Association 22,
// 1927), for the effective number of true hits: hits of one query are often
// missed together, so the number of hits is divided by the design effect (Kish,
// "Survey Sampling", 1965) that the queries show.
type RecallEstimate struct {
	Queries int     `json:"queries"`
	Wanted  int     `json:"wanted"` // true hits
	Found   int     `json:"found"`  // of the true hits
	Recall  float64 `json:"recall"` // 1 if nothing was wanted
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
}

// MeasureRecall asks each query exactly and with every accuracy, and returns the
// share of the exact hits that was found with each accuracy. All queries see
// one version of the collection.
func (c *Collection) MeasureRecall(ctx context.Context, t RecallTest) ([]MeasuredRecall, error) {
	ver, v, done, err := c.open()
	if err != nil {
		return nil, err
	}
	defer done()
	var all []MeasuredRecall
	err = engine.RetryDerived(func() error {
		all, err = c.db.measureRecall(ctx, ver, v, t)
		return err
	})
	return all, c.wrap("measure recall", err)
}

func (db *DB) measureRecall(ctx context.Context, ver *engine.Version, v *engine.View, t RecallTest) ([]MeasuredRecall, error) {
	if t.Sample < 0 {
		return nil, invalidf("sample of %d", t.Sample)
	}
	settings := t.Accuracies
	if len(settings) == 0 {
		settings = []Accuracy{Recall(0.9), Recall(0.95), Recall(0.98), Recall(0.99)}
	}
	goals := make([]nearest.Goal, len(settings))
	for i, how := range settings {
		var err error
		if goals[i], err = goalOf(how); err != nil {
			return nil, err
		}
	}
	queries, err := db.testQueries(ver, v, t)
	if err != nil {
		return nil, err
	}
	all, tallies := make([]MeasuredRecall, len(settings)), make([]nearest.Tally, len(settings))
	const together = 128 // queries that share a pass over the vectors
	asked := 0
	for batch := range slices.Chunk(queries, together) {
		truth, err := db.ranking(ctx, ver, v, batch, Exact, db.opts.Workers)
		if err != nil {
			return nil, err
		}
		for i, how := range settings {
			got, err := db.ranking(ctx, ver, v, batch, how, db.opts.Workers)
			if err != nil {
				return nil, err
			}
			for j, q := range got.near.Probes {
				hits := truth.near.Probes[j].Best
				tallies[i].Add(len(hits)-nearest.Missed(hits, q.Best, nil), len(hits))
				// The mean of equal promises is that promise, to the last bit.
				all[i].Promised += (q.Ledger.Recall() - all[i].Promised) / float64(asked+j+1)
				if !q.UsesGraphs() {
					all[i].Exact++
				}
			}
		}
		asked += len(batch)
	}
	for i, g := range goals {
		all[i].Target, all[i].EF = g.Recall, g.EF
		all[i].RecallEstimate = RecallEstimate(tallies[i].Estimate(nearest.Usual))
		if all[i].Exact == all[i].Queries {
			all[i].Low = 1 // by definition
		}
	}
	return all, nil
}

// testQueries returns the queries of a test, without a target.
func (db *DB) testQueries(ver *engine.Version, v *engine.View, t RecallTest) ([]Query, error) {
	q := Query{K: cmp.Or(t.K, DefaultK), Where: t.Where}
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
	n := min(cmp.Or(t.Sample, DefaultSample), total)
	picks := map[int]bool{} // by Floyd's algorithm: CACM 30, 1987
	for i := total - n; i < total; i++ {
		if j := r.IntN(i + 1); picks[j] {
			picks[i] = true
		} else {
			picks[j] = true
		}
	}
	err := db.engine.Read(ver, func(tx *meta.Tx) error {
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
					q.Near = heldOut(id)
					queries = append(queries, q)
				}
				at++
			}
		}
		return nil
	})
	return queries, err
}

// ranking searches for the best rows of queries with the accuracy of how.
func (db *DB) ranking(ctx context.Context, ver *engine.Version, v *engine.View, queries []Query, how Accuracy, workers int) (*search, error) {
	asked := slices.Clone(queries)
	for i := range asked {
		q := &asked[i]
		q.Accuracy, q.Select = how, IDsOnly
	}
	s := db.newSearch(ctx, ver, v)
	s.near.Workers = workers
	return s, s.rankAll(ctx, asked)
}

// Rechecked is the recall measured on live queries with one target, as far as
// they were repeated exactly.
type Rechecked struct {
	Target float64 `json:"target"`
	RecallEstimate
}

// String is one line for people.
func (r Rechecked) String() string {
	return fmt.Sprintf("%.4g promised, %.4f found in %d queries (%.4f to %.4f)", r.Target, r.Recall, r.Queries, r.Low, r.High)
}

// recheck has some of the answered queries repeated, to measure the recall of live queries.
func (s *search) recheck() {
	for _, p := range s.queries {
		if s.db.rechecks.Wants(&p.Probe) {
			s.db.rechecks.Offer(s.view.Def.ID, s.db.repeat(p))
		}
	}
}

// repeat returns a function that repeats the search for the vector of a query. It keeps the query,
// and nothing of the view that it was answered on.
func (db *DB) repeat(p *probe) nearest.Repeat {
	q := Query{Near: Vector(slices.Clone(p.Scorer.Query)), K: p.Need, Where: p.where}
	accuracy := Recall(p.Recall)
	return func(ctx context.Context, ver *engine.Version, v *engine.View, exact bool) (*nearest.Search, error) {
		how := accuracy
		if exact {
			how = Exact
		}
		s, err := db.ranking(ctx, ver, v, []Query{q}, how, 1)
		return &s.near, err
	}
}

// rechecked returns the recall measured on live queries of a collection.
func (db *DB) rechecked(coll uint32) []Rechecked {
	all := []Rechecked{}
	for _, r := range db.rechecks.Observed(coll) {
		all = append(all, Rechecked{r.Target, RecallEstimate(r.Estimate)})
	}
	return all
}
