package eval

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/viterin/vek"
)

// resamples is the number of random draws of each test. It limits how small a p-value can be.
const resamples = 10_000

// A Comparison is the difference between a run and a baseline in one metric, query by query.
type Comparison struct {
	Run      string  `json:"run"`
	Baseline string  `json:"baseline"`
	Metric   Metric  `json:"metric"`
	Delta    float64 `json:"delta"` // mean of the differences; positive if the run is better
	// Low and High are the 95 % confidence interval of the mean difference: percentiles of a paired
	// bootstrap (Sakai 2006).
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// P is the p-value of the two-sided paired randomisation test (Smucker, Allan, Carterette
	// 2007): the probability of a mean difference at least as large, in either direction, if the
	// values of the two runs were assigned by chance.
	P      float64 `json:"p"`
	Better int     `json:"better"` // queries on which the run is better
	Worse  int     `json:"worse"`
	Equal  int     `json:"equal"`
	// Changes are the queries that differ, the worst regression first.
	Changes []Change `json:"-"`
}

// A Change is the difference between two runs on one query.
type Change struct {
	Query string  `json:"query"`
	From  float64 `json:"from"` // of the baseline
	To    float64 `json:"to"`
}

// Delta is positive if the run is better than the baseline.
func (c Change) Delta() float64 { return c.To - c.From }

// Compare compares two evaluations of the same queries by a metric that both contain. Equal seeds
// give equal results.
func Compare(run, baseline *Evaluation, m Metric, seed uint64) (*Comparison, error) {
	to, from := run.Values(m), baseline.Values(m)
	if to == nil && len(run.Queries) > 0 || from == nil && len(baseline.Queries) > 0 {
		return nil, fmt.Errorf("%v was not computed for both %q and %q", m, run.Run, baseline.Run)
	}
	same := slices.EqualFunc(run.Queries, baseline.Queries, func(a, b QueryValues) bool { return a.Query == b.Query })
	if !same {
		return nil, fmt.Errorf("%q and %q are not evaluated on the same queries", run.Run, baseline.Run)
	}
	c := &Comparison{Run: run.Run, Baseline: baseline.Run, Metric: m}
	diffs := make([]float64, len(to))
	for i := range to {
		diffs[i] = to[i] - from[i]
		switch {
		case diffs[i] > 0:
			c.Better++
		case diffs[i] < 0:
			c.Worse++
		default:
			c.Equal++
			continue
		}
		c.Changes = append(c.Changes, Change{run.Queries[i].Query, from[i], to[i]})
	}
	slices.SortStableFunc(c.Changes, func(a, b Change) int { return cmp.Compare(a.Delta(), b.Delta()) })
	c.Delta = mean(diffs)
	rng := rand.New(rand.NewPCG(seed, 0x76656362))
	c.Low, c.High = bootstrap(diffs, rng)
	c.P = randomisation(diffs, rng)
	return c, nil
}

// Regressions returns the n queries that became worse by the largest amounts.
func (c *Comparison) Regressions(n int) []Change { return c.Changes[:min(n, c.Worse)] }

// bootstrap returns the 2.5th and 97.5th percentile of the mean over samples drawn with
// replacement.
func bootstrap(diffs []float64, rng *rand.Rand) (low, high float64) {
	if len(diffs) == 0 {
		return 0, 0
	}
	means := make([]float64, resamples)
	for i := range means {
		sum := 0.0
		for range diffs {
			sum += diffs[rng.IntN(len(diffs))]
		}
		means[i] = sum / float64(len(diffs))
	}
	slices.Sort(means)
	return means[resamples*25/1000], means[resamples-1-resamples*25/1000]
}

// randomisation returns the share of random sign assignments whose sum is at least as far from zero
// as the observed sum. The observed sum counts as one of the draws, so the share is never 0.
func randomisation(diffs []float64, rng *rand.Rand) float64 {
	if len(diffs) == 0 {
		return 1
	}
	seen := vek.Sum(diffs)
	// The tolerance covers rounding: the same numbers summed in another order differ slightly.
	least := math.Abs(seen) * (1 - 1e-12)
	extreme := 1
	for range resamples {
		sum := 0.0
		bits, left := uint64(0), 0
		for _, d := range diffs {
			if left == 0 {
				bits, left = rng.Uint64(), 64
			}
			if bits&1 == 0 {
				sum += d
			} else {
				sum -= d
			}
			bits, left = bits>>1, left-1
		}
		if math.Abs(sum) >= least {
			extreme++
		}
	}
	return float64(extreme) / float64(resamples+1)
}
