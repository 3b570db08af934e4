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
	rng := rand.New(rand.NewPCG(11, 12))
	tellsNothing(t, rng, 6000, 60, 100, 0.05, func(v []float64) {
		for i := range v {
			v[i] = 3 * rng.NormFloat64()
		}
	})
}

// TestCodesThatTellNothingOfFew: the same for few results, whose searches score too few rows to
// judge by. These look at more if their rows are not in order. Rows are probabilities of classes.
func TestCodesThatTellNothingOfFew(t *testing.T) {
	const dim, factors = 150, 10
	for _, k := range []int{1, 3} {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(11, 12))
			classes := make([][factors]float64, dim)
			for i := range classes {
				for j := range classes[i] {
					classes[i][j] = rng.NormFloat64()
				}
			}
			tellsNothing(t, rng, 4000, dim, k, 0.02, func(v []float64) {
				clear(v)
				for j := range factors {
					x := 2. / 3 * rng.NormFloat64()
					for i := range v {
						v[i] += x * classes[i][j]
					}
				}
			})
		})
	}
}

// tellsNothing expects k results of shares to be found, and of queries whose components differ by a
// standard deviation, in parts of one. logarithms draws those of shares.
func tellsNothing(t *testing.T, rng *rand.Rand, n, dim, k int, deviation float64, logarithms func(v []float64)) {
	const recall = 0.9
	c := collection(t, open(t, t.TempDir(), &promising), "c", Schema{Dim: dim, Metric: Dot})
	shares := func() Vector {
		x, v, sum := make([]float64, dim), make(Vector, dim), 0.0
		logarithms(x)
		for i := range v {
			x := math.Exp(x[i])
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
			v[i] = float32((1 + deviation*rng.NormFloat64()) / float64(dim))
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
		t.Logf("%s: %.3f found, %d walked, %d blind", kind.name, float64(found)/float64(queries*k), walked, blind)
		if share := float64(found) / float64(queries*k); share < recall || kind.walks != (walked > queries/2) || kind.walks && blind > 0 {
			t.Errorf("%s: %.3f found, %d of %d walked, %d by codes that tell nothing", kind.name, share, walked, queries, blind)
		}
	}
}
