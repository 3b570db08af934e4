package eval

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
)

// DefaultDepth is the number of documents per query when Lab.Depth is 0.
const DefaultDepth = 100

// A Lab holds what runs are measured with. It is not changed by being used.
type Lab struct {
	Queries []Query // those without a judgement are left out
	Qrels   Qrels

	Metrics []Metric // nil is DefaultMetrics; the first is the one that runs are compared by
	Depth   int      // documents per query; 0 is DefaultDepth. It bounds MAP and every metric without a number
	Seed    uint64   // of the tests of significance

	// Baseline is what runs are compared with; nil is the first of them.
	Baseline *Run
}

// A Report is what a Lab found.
type Report struct {
	Title    string // shown on top; the caller's to set
	Metrics  []Metric
	Depth    int
	Queries  []Query // that were judged and asked, in the order of their ids
	Baseline string  // name of the run that others are compared with
	Results  []*Result
}

// A Result is what a Lab found of one run.
type Result struct {
	Run        *Run
	Evaluation *Evaluation

	// Diagnosis says what became of the relevant documents; nil if the Runner cannot tell.
	Diagnosis *Diagnosis

	// Versus compares with the baseline; nil for the baseline itself.
	Versus *Comparison

	// Leg compares a run that fuses vectors and texts with the better of those, in the same report, that use one of
	// them; nil if there is none.
	Leg *Comparison
}

// Measure runs, evaluates and compares. Names of runners must differ.
func (l *Lab) Measure(ctx context.Context, runners ...Runner) (*Report, error) {
	r := &Report{Metrics: l.Metrics, Depth: l.Depth}
	if r.Metrics == nil {
		r.Metrics = DefaultMetrics()
	}
	if r.Depth == 0 {
		r.Depth = DefaultDepth
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
	legs := map[*Result]Legs{}
	for _, runner := range runners {
		if names[runner.Name()] {
			return nil, fmt.Errorf("two runs are named %q", runner.Name())
		}
		names[runner.Name()] = true
		run, err := runner.Run(ctx, r.Queries, r.Depth)
		if err != nil {
			return nil, err
		}
		res := &Result{Run: run, Evaluation: Evaluate(qrels, run, r.Metrics)}
		if s, ok := runner.(*Searcher); ok {
			legs[res] = s.legs
			if res.Diagnosis, err = s.Diagnose(ctx, qrels, run, r.Queries, r.Depth); err != nil {
				return nil, fmt.Errorf("run %s: %w", run.Name, err)
			}
		}
		r.Results = append(r.Results, res)
	}
	return r, errors.Join(l.compare(r, qrels), r.compareLegs(legs, l.Seed))
}

// compare compares every result with the baseline.
func (l *Lab) compare(r *Report, qrels Qrels) (err error) {
	var base *Evaluation
	switch {
	case l.Baseline != nil:
		base = Evaluate(qrels, l.Baseline, r.Metrics)
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

// compareLegs compares every fusion with the better of its legs.
func (r *Report) compareLegs(legs map[*Result]Legs, seed uint64) (err error) {
	single := func(l Legs) bool { return bits.OnesCount8(uint8(l)) == 1 }
	var best *Result
	for _, res := range r.Results {
		if single(legs[res]) && (best == nil || res.Evaluation.Mean(r.Metrics[0]) > best.Evaluation.Mean(r.Metrics[0])) {
			best = res
		}
	}
	for _, res := range r.Results {
		if best == nil || legs[res] == 0 || single(legs[res]) {
			continue
		}
		if res.Leg, err = Compare(res.Evaluation, best.Evaluation, r.Metrics[0], seed); err != nil {
			return err
		}
	}
	return nil
}
