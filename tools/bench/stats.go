package main

import (
	"math"
	"slices"
)

// quantile returns the p-quantile of the values, NaN if there are no values.
func quantile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	v := slices.Sorted(slices.Values(values))
	return v[min(len(v)-1, int(p*float64(len(v))))]
}

func median(values []float64) float64 { return quantile(values, 0.5) }
