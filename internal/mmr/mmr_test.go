package mmr

import (
	"slices"
	"testing"
)

func TestOrder(t *testing.T) {
	relevance := []float64{0.9, 0.89, 0.5, 0.1}
	similarity := [][]float64{{1, 1, 0}, {1, 1, 0}, {0, 0, 1}} // unknown for the last
	order := func(lambda float64) []int {
		return slices.Collect(Order(4, lambda, func(i int) float64 { return relevance[i] }, func(chosen int) func(int) (float64, bool) {
			if chosen == 3 {
				return nil
			}
			return func(i int) (float64, bool) {
				if i == 3 {
					return 0, false
				}
				return similarity[chosen][i], true
			}
		}))
	}
	for lambda, want := range map[float64][]int{1: {0, 1, 2, 3}, 0.5: {0, 2, 3, 1}, 0: {0, 2, 3, 1}} {
		if got := order(lambda); !slices.Equal(got, want) {
			t.Errorf("lambda %v: %v, want %v", lambda, got, want)
		}
	}
	for i := range Order(3, 1, func(i int) float64 { return float64(i) }, nil) { // the last wanted candidate is not compared
		if i != 2 {
			t.Error(i)
		}
		break
	}
	if got := slices.Collect(Order(0, 1, nil, nil)); len(got) != 0 {
		t.Error(got)
	}
}
