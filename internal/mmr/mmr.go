// Package mmr ranks by maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998).
package mmr

import (
	"iter"
	"math"
	"slices"
)

// Order yields the indexes of n candidates. Each maximises lambda × relevance - (1 - lambda) × the
// greatest similarity to the candidates before it; ties go to the first. similar is called with
// each chosen candidate and returns a function that compares another candidate with it; false means
// that the similarity is unknown. A nil function means that all are unknown.
func Order(n int, lambda float64, relevance func(i int) float64,
	similar func(chosen int) func(i int) (float64, bool)) iter.Seq[int] {
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
