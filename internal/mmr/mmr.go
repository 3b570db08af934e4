// Package mmr puts items in the order of maximal marginal relevance (Carbonell and Goldstein, SIGIR
// 1998).
package mmr

import (
	"iter"
	"math"
	"slices"
)

// Order yields the indexes of n items: each time the one whose lambda ×
// relevance less (1 - lambda) × the greatest similarity to those before it is
// most, the first of them where that is equal. similar is told which item was
// chosen and returns what compares another with it; false means that nothing is
// known, and a nil function that nothing is known of the chosen one.
func Order(n int, lambda float64, relevance func(i int) float64, similar func(chosen int) func(i int) (float64, bool)) iter.Seq[int] {
	return func(yield func(int) bool) {
		left, nearest := make([]int, n), make([]float64, n)
		for i := range left {
			left[i], nearest[i] = i, math.Inf(-1)
		}
		for len(left) > 0 {
			at, most := 0, math.Inf(-1)
			for j, i := range left {
				value := lambda * relevance(i)
				if !math.IsInf(nearest[i], -1) {
					value -= (1 - lambda) * nearest[i]
				}
				if value > most {
					at, most = j, value
				}
			}
			chosen := left[at]
			if !yield(chosen) {
				return
			}
			left = slices.Delete(left, at, at+1)
			compare := similar(chosen)
			if compare == nil {
				continue
			}
			for _, i := range left {
				if s, ok := compare(i); ok {
					nearest[i] = max(nearest[i], s)
				}
			}
		}
	}
}
