package eval

import (
	"context"
	"errors"
	"fmt"

	"github.com/vecbolt/vecbolt/db"
)

// defaultDepth is the number of documents per query when Lab.Depth is 0 and no metric needs more.
const defaultDepth = 100

// Depth returns the number of documents per query that metrics need: the largest number of ranks,
// at least 100.
func Depth(metrics []Metric) int {
	depth := defaultDepth
	for _, m := range metrics {
		depth = max(depth, m.k)
	}
	return depth
}

// A Lab is the setup of a measurement. Using it does not change it.
type Lab struct {
	Queries []Query // queries without a judgement are left out
	Qrels   Qrels

	Metrics []Metric // nil means DefaultMetrics; the first metric compares runs
	Depth   int      // documents per query; 0 means Depth(Metrics). It bounds every metric, also of Baseline
	Seed    uint64   // for the tests of significance

	// Baseline is the run that others are compared with; nil means the first run.
	Baseline *Run

	// Progress, if set, is called after each run with the number of runs done.
	Progress func(runs int)
}

// A Report is the result of a Lab.
type Report struct {
	Title    string // heading; set by the caller
	Metrics  []Metric
	Depth    int
	Queries  []Query // the queries that were judged and asked, in order of id
	Baseline string  // name of the baseline
	Results  []*Result
}

// A Result is the part of a Report about one run.
type Result struct {
	Run        *Run
	Evaluation *Evaluation

	// Diagnosis says what became of the relevant documents; nil if the Runner cannot tell.
	Diagnosis *Diagnosis

	// Versus compares with the baseline; nil for the baseline itself.
	Versus *Comparison

	// Leg compares a hybrid run with the better of its two legs, vectors alone and words alone. It
	// uses the best such runs of the report; a missing leg is run for the comparison. nil for other
	// runs.
	Leg *Comparison
}

// Measure runs, evaluates and compares. Names of runners must differ. It returns ErrNotJudged if
// the collection of a Searcher contains no document that is judged relevant.
func (l *Lab) Measure(ctx context.Context, runners ...Runner) (*Report, error) {
	r := &Report{Metrics: l.Metrics, Depth: l.Depth}
	if r.Metrics == nil {
		r.Metrics = DefaultMetrics()
	}
	if r.Depth == 0 {
		r.Depth = Depth(r.Metrics)
	}
	if len(r.Metrics) == 0 || r.Depth < 0 {
		return nil, fmt.Errorf("%d metrics, depth %d", len(r.Metrics), r.Depth)
	}
	qrels := l.Qrels.Only(l.Queries)
	if len(qrels) == 0 {
		return nil, fmt.Errorf("none of %d queries is judged", len(l.Queries))
	}
	byID := map[string]Query{}
	for _, q := range l.Queries {
		byID[q.ID] = q
	}
	for _, id := range sortedIDs(qrels) {
		r.Queries = append(r.Queries, byID[id])
	}
	names := map[string]bool{}
	searchers := map[*Result]*Searcher{}
	for _, runner := range runners {
		if names[runner.Name()] {
			return nil, fmt.Errorf("two runs are named %q", runner.Name())
		}
		names[runner.Name()] = true
		s, searches := runner.(*Searcher)
		if searches {
			if err := qrels.Known(ctx, s.coll); err != nil {
				return nil, err
			}
		}
		run, err := runner.Run(ctx, r.Queries, r.Depth)
		if err != nil {
			return nil, err
		}
		res := &Result{Run: run, Evaluation: Evaluate(qrels, run, r.Metrics)}
		if searches {
			searchers[res] = s
			if res.Diagnosis, err = s.Diagnose(ctx, qrels, run, r.Queries, r.Depth); err != nil {
				return nil, fmt.Errorf("run %s: %w", run.Name, err)
			}
		}
		r.Results = append(r.Results, res)
		if l.Progress != nil {
			l.Progress(len(r.Results))
		}
	}
	return r, errors.Join(l.compare(r, qrels), r.compareLegs(ctx, searchers, qrels, l.Seed))
}

// compare compares every result with the baseline.
func (l *Lab) compare(r *Report, qrels Qrels) (err error) {
	var base *Evaluation
	switch {
	case l.Baseline != nil:
		base = Evaluate(qrels, l.Baseline.first(r.Depth), r.Metrics)
	case len(r.Results) > 0:
		base = r.Results[0].Evaluation
	default:
		return nil
	}
	r.Baseline = base.Run
	for _, res := range r.Results {
		if res.Evaluation == base {
			continue
		}
		if res.Versus, err = Compare(res.Evaluation, base, r.Metrics[0], l.Seed); err != nil {
			return err
		}
	}
	return nil
}

// compareLegs compares every hybrid run with the better of its legs.
func (r *Report) compareLegs(ctx context.Context, searchers map[*Result]*Searcher, qrels Qrels, seed uint64) error {
	var best *Evaluation
	var have Legs
	consider := func(e *Evaluation, legs Legs) {
		have |= legs
		if best == nil || e.Mean(r.Metrics[0]) > best.Mean(r.Metrics[0]) {
			best = e
		}
	}
	for _, res := range r.Results {
		if s := searchers[res]; s != nil && s.legs != Vector|Text {
			consider(res.Evaluation, s.legs)
		}
	}
	for _, res := range r.Results {
		s := searchers[res]
		if s == nil || s.legs != Vector|Text {
			continue
		}
		alone := db.Query{Where: s.like.Where}
		for _, leg := range []*Searcher{Search("dense", s.coll, alone, Vector), Search("text", s.coll, alone, Text)} {
			if have&leg.legs == 0 {
				run, err := leg.Run(ctx, r.Queries, r.Depth)
				if err != nil {
					return err
				}
				consider(Evaluate(qrels, run, r.Metrics), leg.legs)
			}
		}
		var err error
		if res.Leg, err = Compare(res.Evaluation, best, r.Metrics[0], seed); err != nil {
			return err
		}
	}
	return nil
}
