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

// medianInterval returns the 95 % interval of the median.
func medianInterval(values []float64) (from, to float64) {
	v := slices.Sorted(slices.Values(values))
	if len(v) == 0 {
		return math.NaN(), math.NaN()
	}
	half := 0.98 * math.Sqrt(float64(len(v)))
	middle := float64(len(v)-1) / 2
	return v[max(0, int(middle-half))], v[min(len(v)-1, int(math.Ceil(middle+half)))]
}
