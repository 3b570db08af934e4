package graph

import (
	"cmp"
	"math"
	"slices"
)

// Easy queries need fewer expansions than hard ones for the same recall. So a search goes on in
// stages, each with a larger stopping ratio, and decides after each stage whether to stop. Its
// course tells how hard the query is: the number of expansions, the distance of the k-th row, and
// how much nearer the nearest row is. From these a forecast estimates which share of the rows it
// has found, and the search stops if that is enough. A rare word is far from all others, has few
// rows near the stopping ratio, and is done soon; the mean of thirty words is as far, has hundreds
// of them, and goes on. That the course of a search tells its recall is known from Chatzakis et
// al., "DARTH: Declarative recall through early termination for approximate nearest neighbor
// search", SIGMOD 2026. The forecast is fitted to the queries of the calibration, all kinds of them
// alike, so that it needs no other data.

// A course describes a search at the end of a stage, by logarithms of the stopping ratio, the
// number of expansions, the squared distance of the row that the ratio refers to, and the share of
// it at which the nearest row is.
type course [4]float32

// A forecast has the coefficients of the log-odds that a row wanted was found: a constant, and one
// for each number of the course. The last number is the greatest distance in a course for which it
// was fitted: queries that are farther from all rows than nearly all of the calibration go on as
// far as the beam goes.
type forecast [2 + len(course{})]float32

// farthest is the index in a forecast of the distance up to which it holds, and distance the index
// in a course that it limits.
const (
	farthest = 1 + len(course{})
	distance = 2
)

func (f *forecast) holds(s course) bool { return s[distance] <= f[farthest] }

// Limits of a course: rows are not taken to be nearer.
const (
	leastDist  = 0x1p-40
	leastShare = 0x1p-10
)

// log2 is a logarithm that is linear between powers of two: a forecast needs no more, and all
// machines compute the same.
func log2(x float32) float32 {
	return float32(int32(math.Float32bits(x))-int32(math.Float32bits(1))) * 0x1p-23
}

// course returns the course of a search that has ended a stage. found has at least b.rank rows.
func (b *Buffer) course(found *pool) course {
	last := max(leastDist, found.rows[b.rank-1].Dist)
	share := max(leastShare, found.rows[0].Dist/last)
	return course{log2(b.stopRatio), log2(float32(b.stats.Expanded - b.mirrored)), log2(last), log2(share)}
}

// odds returns the log-odds of a search with this course.
func (f *forecast) odds(s course) float32 {
	sum := f[0]
	for i, v := range s {
		sum += float32(f[i+1] * v)
	}
	return sum
}

// share returns the share of the rows wanted that log-odds stand for.
func share(odds float32) float64 { return 1 / (1 + math.Exp(-float64(odds))) }

// A sample is the end of a stage of a search whose recall is known.
type sample struct {
	course
	found, weight float64
}

// fit returns the forecast that suits samples best: a logistic regression by Newton's method, with
// logarithms that are scaled to unit variance and coefficients held slightly towards 0.
func fit(samples []sample) *forecast {
	const rounds, ridge = 12, 0.001
	var mean, deviation [len(course{})]float64
	total := 0.0
	for _, s := range samples {
		total += s.weight
		for i, v := range s.course {
			mean[i] += s.weight * float64(v)
			deviation[i] += s.weight * float64(v) * float64(v)
		}
	}
	for i := range mean {
		mean[i] /= total
		deviation[i] = math.Sqrt(max(1e-6, deviation[i]/total-mean[i]*mean[i]))
	}
	var c [farthest]float64
	for range rounds {
		var slope [len(c)]float64
		var curve [len(c)][len(c)]float64
		for i := range c {
			slope[i], curve[i][i] = -ridge*total*c[i], ridge*total
		}
		for _, s := range samples {
			x := [len(c)]float64{1}
			odds := c[0]
			for i, v := range s.course {
				x[i+1] = (float64(v) - mean[i]) / deviation[i]
				odds += c[i+1] * x[i+1]
			}
			p := 1 / (1 + math.Exp(-odds))
			for i := range c {
				slope[i] += s.weight * (s.found - p) * x[i]
				for j := range c {
					curve[i][j] += s.weight * max(1e-6, p*(1-p)) * x[i] * x[j]
				}
			}
		}
		step := solve(curve, slope)
		for i := range c {
			c[i] += max(-2, min(2, step[i]))
		}
	}
	f := new(forecast)
	for i := range mean {
		f[i+1] = float32(c[i+1] / deviation[i])
		c[0] -= c[i+1] / deviation[i] * mean[i]
	}
	f[0] = float32(c[0])
	return f
}

// solve returns x with a·x = y, for a positive definite a.
func solve(a [farthest][farthest]float64, y [farthest]float64) [farthest]float64 {
	for i := range y {
		for j := i + 1; j < len(y); j++ {
			f := a[j][i] / a[i][i]
			for k := i; k < len(y); k++ {
				a[j][k] -= f * a[i][k]
			}
			y[j] -= f * y[i]
		}
	}
	for i := len(y) - 1; i >= 0; i-- {
		for k := i + 1; k < len(y); k++ {
			y[i] -= a[i][k] * y[k]
		}
		y[i] /= a[i][i]
	}
	return y
}

// A trace holds how far the searches of a round went: for each trial and each stopping ratio the
// state in which it ends them, and the states at some of their beam widths.
type trace struct {
	efs    []int
	mirror bool
	whole  [][]outcome // by trial and ef
	ended  [][len(stopRatios)]outcome
}

// traceOf returns the trace of searches that trials have done with these beam widths. It keeps one
// in few of them, and the last.
func traceOf(trials []trial, efs []int, mirror bool) trace {
	t := trace{mirror: mirror}
	var kept []int
	for i := range efs {
		if (len(efs)-1-i)%fewWidths == 0 {
			t.efs, kept = append(t.efs, efs[i]), append(kept, i)
		}
	}
	for i := range trials {
		whole := make([]outcome, len(kept))
		for n, at := range kept {
			whole[n] = trials[i].whole[at]
		}
		t.whole, t.ended = append(t.whole, whole), append(t.ended, trials[i].ended)
	}
	return t
}

// stages returns how many stopping ratios have ended the search of a trial before a beam width did.
func (t *trace) stages(trial, width int) int {
	n := 0
	for n < len(stopRatios) && t.ended[trial][n].nodes < t.whole[trial][width].nodes {
		n++
	}
	return n
}

// limitOf returns the distance of the k-th row, as in a course, that few trials exceed, if all
// kinds count alike.
func limitOf(trials []trial, k int) float32 {
	type weighted struct{ dist, weight float64 }
	var all []weighted
	var of [kinds]float64
	for i := range trials {
		of[trials[i].kind]++
	}
	total := 0.0
	for i := range trials {
		if t := &trials[i]; len(t.truth) >= k {
			all = append(all, weighted{float64(t.truth[k-1].dist), 1 / of[t.kind]})
			total += 1 / of[t.kind]
		}
	}
	slices.SortFunc(all, func(x, y weighted) int { return cmp.Compare(x.dist, y.dist) })
	limit, sum := 0.0, 0.0
	for _, w := range all {
		if sum += w.weight; sum > inRange*total {
			break
		}
		limit = w.dist
	}
	return log2(max(leastDist, float32(limit)))
}

// forecastOf fits the forecast of a column to traces. All kinds of trials count alike.
func forecastOf(traces []trace, trials []trial, column int) *forecast {
	var samples []sample
	limit := forecast{farthest: limitOf(trials, max(calibrated[1], calibrated[column]))}
	var of [kinds]float64
	for _, t := range traces {
		for i := range trials {
			of[trials[i].kind] += float64(t.stages(i, len(t.efs)-1))
		}
	}
	for _, t := range traces {
		for i := range trials {
			for j := range t.stages(i, len(t.efs)-1) {
				if o := &t.ended[i][j]; limit.holds(o.course) {
					samples = append(samples, sample{o.course, float64(o.found[column]), 1 / of[trials[i].kind]})
				}
			}
		}
	}
	if len(samples) < fewSamples {
		return nil
	}
	f := fit(samples)
	f[farthest] = limit[farthest]
	for _, v := range f {
		if !(v >= -maxForecast && v <= maxForecast) {
			return nil
		}
	}
	return f
}

// staged returns the measured levels of a column whose searches stop by the forecast, for each beam
// width of the trace and stopping ratios up to the last as the largest ones.
func (t *trace) staged(trials []trial, column, last int, f *forecast) (all []level) {
	odds := make([][len(stopRatios)]float32, len(trials))
	for i := range trials {
		for j := range t.stages(i, len(t.efs)-1) {
			odds[i][j] = f.odds(t.ended[i][j].course)
		}
	}
	at := make([]*outcome, len(trials))
	for width, ef := range t.efs {
		whole := levelOf(trials, column, Setting{EF: ef}, func(i int) *outcome { return &t.whole[i][width] })
		stages := make([]int, len(trials))
		for i := range trials {
			stages[i] = t.stages(i, width)
		}
		for sure := float32(leastOdds); sure <= mostOdds; sure += stepOdds * max(1, float32(int(sure))/2) {
			for most := last - 1; most >= 0; most -= 2 {
				for i := range trials {
					at[i] = &t.whole[i][width]
					for j := range stages[i] {
						if f.holds(t.ended[i][j].course) && (j >= most || odds[i][j] >= sure) {
							at[i] = &t.ended[i][j]
							break
						}
					}
				}
				s := Setting{EF: ef, StopRatio: stopRatios[most], sure: sure, forecast: f, mirror: t.mirror}
				l := levelOf(trials, column, s, func(i int) *outcome { return at[i] })
				l.whole = whole.recall
				all = append(all, l)
			}
		}
	}
	return all
}
