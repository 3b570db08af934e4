package nearest

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// The best of many equal scores are those of a sort, and take about one comparison for each.
func TestBest(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, c := range []struct{ rows, n, values int }{
		{0, 3, 1}, {5, 0, 9}, {1, 1, 9}, {7, 7, 9}, {7, 20, 9}, {100, 1, 1 << 30}, {100, 99, 5}, {1000, 10, 3}, {60_000, 10, 1 << 30},
	} {
		rows := make([]int, c.rows)
		for i := range rows {
			rows[i] = r.IntN(c.values)
		}
		want := slices.Sorted(slices.Values(rows))[:min(c.n, c.rows)]
		calls := 0
		all := slices.Clone(rows)
		got := best(all, c.n, func(a, b int) int { calls++; return cmp.Compare(a, b) })
		if !slices.Equal(got, want) {
			t.Errorf("%+v: %v, want %v", c, got, want)
		}
		for _, v := range all[len(got):] {
			if v != 0 {
				t.Errorf("%+v: %d is kept behind the best", c, v)
			}
		}
		if c.rows == 60_000 && calls > 2*c.rows {
			t.Errorf("%+v: %d comparisons", c, calls)
		}
	}
}
