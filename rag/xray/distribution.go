package xray

import (
	"math"
	"slices"
)

// A Distribution counts values in bins of equal width.
type Distribution struct {
	Count   int     `json:"count"`
	Min     float64 `json:"min"`
	Max     float64 `json:"max"`
	Mean    float64 `json:"mean"`
	Median  float64 `json:"median"`
	Low     float64 `json:"low"`  // lower bound of the first bin
	High    float64 `json:"high"` // upper bound of the last bin
	Counts  []int   `json:"counts"`
	Outside int     `json:"outside,omitempty"` // values below Low or above High
}

// bins is the number of bins of a distribution.
const bins = 48

// distribute counts values in bins. It sorts values.
func distribute(values []float64) *Distribution {
	d := summarise(values)
	if len(values) == 0 {
		return d
	}
	d.Low, d.High = values[tail(values)], values[len(values)-1-tail(values)]
	if span := d.High - d.Low; !(span > 1e-6*max(math.Abs(d.Low), math.Abs(d.High))) || math.IsInf(span, 0) {
		d.Low, d.High = d.Low-0.5*max(math.Abs(d.Low), 1), d.High+0.5*max(math.Abs(d.High), 1)
	}
	fill(d, values, bins)
	return d
}

// distributeCounts is distribute for counts: bins begin at whole numbers, the first at 0.
func distributeCounts(values []float64) *Distribution {
	d := summarise(values)
	if len(values) == 0 {
		return d
	}
	span := values[len(values)-1-tail(values)] + 1
	width := math.Ceil(span / bins)
	n := math.Ceil(span / width)
	d.High = n * width
	fill(d, values, int(n))
	return d
}

// summarise sorts values and describes them.
func summarise(values []float64) *Distribution {
	d := &Distribution{Count: len(values), Counts: []int{}}
	slices.Sort(values)
	for _, v := range values {
		d.Mean += v / float64(len(values))
	}
	if len(values) > 0 {
		d.Min, d.Max, d.Median = values[0], values[len(values)-1], values[len(values)/2]
	}
	return d
}

// tail is the number of extreme values at each end that may lie outside of the bins, so that a few
// outliers do not push all other values into one bin.
func tail(values []float64) int { return len(values) / 200 }

func fill(d *Distribution, values []float64, bins int) {
	d.Counts = make([]int, bins)
	for _, v := range values {
		if v < d.Low || v > d.High {
			d.Outside++
			continue
		}
		d.Counts[min(bins-1, int(float64(bins)*((v-d.Low)/(d.High-d.Low))))]++
	}
}

// skewness is the third standardised moment.
func skewness(values []float64) float64 {
	mean, m2, m3 := 0.0, 0.0, 0.0
	n := float64(len(values))
	for _, v := range values {
		mean += v / n
	}
	for _, v := range values {
		m2 += (v - mean) * (v - mean) / n
		m3 += (v - mean) * (v - mean) * (v - mean) / n
	}
	if m2 == 0 {
		return 0
	}
	return m3 / math.Pow(m2, 1.5)
}
