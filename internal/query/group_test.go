package query

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/vecbolt/vecbolt/filter"
)

// TestGroupKeyIsEquality: two values have one key if filter.Eq calls them equal.
func TestGroupKeyIsEquality(t *testing.T) {
	compare := func(t interface{ Errorf(string, ...any) }, a, b any) {
		equal := filter.Match(filter.Eq("x", a), func(string) (any, bool) { return b, true })
		if got := groupKey(a) == groupKey(b); got != equal {
			t.Errorf("%T %v and %T %v: one group %v, equal %v", a, a, b, b, got, equal)
		}
	}
	for _, n := range []int64{0, 1, 1<<53 + 1, -1<<53 - 1, math.MaxInt64, math.MinInt64, math.MinInt64 + 1} {
		for _, f := range []float64{float64(n), math.Nextafter(float64(n), 0), -1 << 63, 1 << 63} {
			compare(t, n, f)
			compare(t, f, n)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.Int64().Draw(rt, "n")
		f := rapid.OneOf(rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64), rapid.Just(float64(n))).Draw(rt, "f")
		compare(rt, n, f)
		compare(rt, f, n)
		compare(rt, f, math.Trunc(f))
		compare(rt, n != 0, n)
	})
}
