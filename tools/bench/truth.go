package main

import "slices"

// exactTop returns the k nearest base rows of each query by inner product, best first, ties by row
// number. It is computed here so that no contestant is its own judge.
func exactTop(base, queries matrix, k int) [][]int {
	top := make([][]int, queries.rows())
	parallel(len(top), func(lo, hi int) {
		score := make([]float64, base.rows())
		for q := lo; q < hi; q++ {
			for i := range score {
				score[i] = dot(queries.row(q), base.row(i))
			}
			best := make([]int, 0, k+1)
			for i, s := range score {
				j := len(best)
				for j > 0 && s > score[best[j-1]] {
					j--
				}
				if j < k {
					best = slices.Insert(best, j, i)[:min(k, len(best)+1)]
				}
			}
			top[q] = best
		}
	})
	return top
}

func dot(a, b []float32) float64 {
	var s [4]float64
	n := len(a) &^ 3
	for i := 0; i < n; i += 4 {
		x, y := a[i:i+4:i+4], b[i:i+4:i+4]
		for j := range s {
			s[j] += float64(x[j]) * float64(y[j])
		}
	}
	for i := n; i < len(a); i++ {
		s[0] += float64(a[i]) * float64(b[i])
	}
	return s[0] + s[1] + (s[2] + s[3])
}

// recall returns the share of the true rows that were found, over the answered queries.
func recall(truth, got [][]int, k int) float64 {
	var hit, all int
	for q, ids := range got {
		want := map[int]bool{}
		for _, id := range truth[q][:k] {
			want[id] = true
		}
		for _, id := range ids[:min(k, len(ids))] {
			if want[id] {
				hit++
			}
		}
		all += k
	}
	if all == 0 {
		return 0
	}
	return float64(hit) / float64(all)
}
