package main

import (
	"math"
	"slices"
)

// quantile returns the value below which a share p of the values lies, NaN when there are none.
func quantile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	v := slices.Sorted(slices.Values(values))
	return v[min(len(v)-1, int(p*float64(len(v))))]
}

func median(values []float64) float64 { return quantile(values, 0.5) }
