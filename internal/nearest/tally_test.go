package nearest

import (
	"math/rand/v2"
	"testing"
)

// The interval holds the true share in nearly at least 95 of 100 cases, whether
// hits are missed one by one or all hits of a query together. The strict interval,
// which raises search settings, hardly ever leaves it out.
func TestEstimate(t *testing.T) {
	for _, together := range []bool{false, true} {
		for _, p := range []float64{0.5, 0.9, 0.98} {
			r := rand.New(rand.NewPCG(uint64(1000*p), 5))
			const runs, queries, k = 2000, 400, 10
			outside, low := 0, 0
			for range runs {
				var n Tally
				for range queries {
					found := 0
					if together && r.Float64() < p {
						found = k
					}
					for range k {
						if !together && r.Float64() < p {
							found++
						}
					}
					n.Add(found, k)
				}
				e := n.Estimate(Usual)
				if e.Queries != queries || e.Wanted != queries*k || !(0 <= e.Low && e.Low <= e.Recall && e.Recall <= e.High && e.High <= 1) {
					t.Fatalf("%+v", e)
				}
				if p < e.Low || p > e.High {
					outside++
				}
				if n.Estimate(strict).High < p {
					low++
				}
			}
			t.Logf("together %v, %v: %d of %d outside, %d below", together, p, outside, runs, low)
			if outside > runs*65/1000 || low > runs*4/1000 {
				t.Errorf("together %v, %v: %d of %d outside, %d below", together, p, outside, runs, low)
			}
		}
	}
	if e := (&Tally{}).Estimate(Usual); e.Recall != 1 || e.Low != 0 || e.High != 1 {
		t.Errorf("nothing: %+v", e)
	}
}
