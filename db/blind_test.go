package db

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestCodesThatTellNothing: rows are shares that add up to 1. A query whose components are nearly
// equal has nearly the same product with all of them, so codes do not tell which are best, and 0.6
// of these were found. A scan answers it now. Other queries are answered by walks.
func TestCodesThatTellNothing(t *testing.T) {
	const n, dim, k, recall = 6000, 60, 100, 0.9
	rng := rand.New(rand.NewPCG(11, 12))
	c := collection(t, open(t, t.TempDir(), &promising), "c", Schema{Dim: dim, Metric: Dot})
	shares := func() Vector {
		v, sum := make(Vector, dim), 0.0
		for i := range v {
			x := math.Exp(3 * rng.NormFloat64())
			v[i], sum = float32(x), sum+x
		}
		for i := range v {
			v[i] = float32(float64(v[i]) / sum)
		}
		return v
	}
	fill(t, c, n, func(i int) Document { return Document{ID: fmt.Sprint(i), Vector: shares()} })
	compact(t, c.db)
	even := func() Vector {
		v := make(Vector, dim)
		for i := range v {
			v[i] = float32((1 + 0.05*rng.NormFloat64()) / dim)
		}
		return v
	}
	for _, kind := range []struct {
		name  string
		query func() Vector
		walks bool
	}{{"shares", shares, true}, {"even", even, false}} {
		found, walked, blind := 0, 0, 0
		const queries = 40
		for range queries {
			q := Query{Near: kind.query(), K: k, Accuracy: Exact, Select: IDsOnly}
			truth := map[string]bool{}
			for _, id := range ids(mustSearch(t, c, q).Hits) {
				truth[id] = true
			}
			q.Accuracy = Recall(recall)
			r := mustSearch(t, c, q)
			for _, id := range ids(r.Hits) {
				if truth[id] {
					found++
				}
			}
			if !r.Exact {
				walked++
			}
			e, err := c.Explain(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(fmt.Sprint(e), "do not tell") {
				blind++
			}
		}
		t.Logf("%s: %.3f found, %d walked, %d blind", kind.name, float64(found)/queries/k, walked, blind)
		if share := float64(found) / (queries * k); share < recall || kind.walks != (walked > queries/2) || kind.walks && blind > 0 {
			t.Errorf("%s: %.3f found, %d of %d walked, %d by codes that tell nothing", kind.name, share, walked, queries, blind)
		}
	}
}
