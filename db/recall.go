package db

import (
	"cmp"
	"context"
	"fmt"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/nearest"
	"github.com/vecbolt/vecbolt/internal/query"
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
	Queries int     `json:"queries"` // with true hits
	Wanted  int     `json:"wanted"`  // true hits
	Found   int     `json:"found"`   // of the true hits
	Recall  float64 `json:"recall"`  // 1 if nothing was wanted
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
}

// MeasureRecall asks each query exactly and with every accuracy, and returns the
// share of the exact hits that was found with each accuracy. All queries see
// one version of the collection.
func (c *Collection) MeasureRecall(ctx context.Context, t RecallTest) ([]MeasuredRecall, error) {
	ver, v, done, err := c.begin(ctx, "measure recall")
	if err != nil {
		return nil, err
	}
	defer done()
	all, err := c.db.measureRecall(ctx, ver, v, t)
	return all, c.wrap("measure recall", err)
}

func (db *DB) measureRecall(
	ctx context.Context, ver *engine.Version, v *engine.View, t RecallTest,
) ([]MeasuredRecall, error) {
	if t.Sample < 0 {
		return nil, invalidf("sample of %d", t.Sample)
	}
	if len(t.Accuracies) == 0 {
		t.Accuracies = []Accuracy{Recall(0.9), Recall(0.95), Recall(0.98), Recall(0.99)}
	}
	goals := make([]nearest.Goal, len(t.Accuracies))
	for i, how := range t.Accuracies {
		var err error
		if goals[i], err = goalOf(how); err != nil {
			return nil, err
		}
	}
	found, err := db.searcher.MeasureRecall(ctx, ver, v, query.RecallTest{
		Queries: t.Queries, Sample: cmp.Or(t.Sample, DefaultSample), Seed: t.Seed, K: cmp.Or(t.K, DefaultK),
		Goals: goals, Where: t.Where,
	})
	if err != nil {
		return nil, err
	}
	all := make([]MeasuredRecall, len(goals))
	for i, m := range found {
		all[i] = MeasuredRecall{Target: goals[i].Recall, EF: goals[i].EF, Promised: m.Promised, Exact: m.Exact,
			RecallEstimate: RecallEstimate(m.Estimate)}
	}
	return all, nil
}

// String is one line for people.
func (m MeasuredRecall) String() string {
	return fmt.Sprintf("%.4g promised, %.4f found in %d queries (%.4f to %.4f)",
		m.Promised, m.Recall, m.Queries, m.Low, m.High)
}

// rechecked returns the recall measured on live queries of a collection.
func (db *DB) rechecked(coll uint32) []MeasuredRecall {
	all := []MeasuredRecall{}
	for _, r := range db.searcher.Rechecks.Observed(coll) {
		all = append(all, MeasuredRecall{Target: r.Target, Promised: r.Target,
			RecallEstimate: RecallEstimate(r.Estimate)})
	}
	return all
}
