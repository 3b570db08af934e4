package codes

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/internal/formattest"
	"github.com/vecbolt/vecbolt/internal/topk"
	"github.com/vecbolt/vecbolt/simd"
)

// nearest finds the rows that may be among the k best of a query, and how many intervals that took.
func nearest(b *testing.B, q *Query, k int, buf *Buffer, dst []Candidate) (rows []topk.Candidate, intervals int) {
	c := topk.New(k, math.Inf(-1))
	n, step := q.c.Len(), 64
	for lo := 0; lo < n; lo += step {
		if lo > 0 {
			step = min(lo, 4096) // 64, 64, 128, 256, ...
		}
		got, err := q.Candidates(dst[:0], lo, min(lo+step, n), nil, c.Floor(), buf)
		if err != nil {
			b.Fatal(err)
		}
		for _, cand := range got {
			lower, upper := q.Interval(cand)
			c.Offer(lower, upper, 0, int32(cand.Row))
		}
		intervals += len(got)
	}
	return topk.Merge(c), intervals
}

// BenchmarkSearch finds the 10 best rows of a query by codes and true scores of what they leave,
// twice, with nibbles and without, alternating with the float32 products of all rows, on one core.
// Times are medians in microseconds per query, "again" that of the second time, when codes may be
// in the cache; "rescored" and "intervals" are means of rows.
func BenchmarkSearch(b *testing.B) {
	for _, set := range formattest.Sets(b, 200) {
		d := data{set.Rows}
		for _, m := range metrics {
			var kinds [2]*Codes
			for i := range kinds {
				file, err := build(d.ident(m), d.Source, i == 1)
				if err != nil {
					b.Fatal(err)
				}
				if kinds[i], err = Parse(file, d.ident(m)); err != nil {
					b.Fatal(err)
				}
				if err := kinds[i].Verify(); err != nil {
					b.Fatal(err)
				}
			}
			b.Run(fmt.Sprintf("%s/metric=%d", set.Name, m), func(b *testing.B) {
				var buf Buffer
				cands := make([]Candidate, 0, 4096)
				dst := make([]float32, d.Len())
				q32 := simd.Make(d.Dim)
				var times, again [2][]float64
				var floats, prepare []float64
				var rescored, intervals [2]int
				since := func(t time.Time) float64 { return float64(time.Since(t)) / 1e3 }
				for b.Loop() {
					vec := set.Queries.Row(len(floats) % set.Queries.Len())
					for i, c := range kinds {
						for _, to := range []*[]float64{&times[i], &again[i]} {
							start := time.Now()
							q := c.Query(vec)
							if i == 0 && to == &times[i] {
								prepare = append(prepare, since(start))
							}
							rows, n := nearest(b, q, 10, &buf, cands)
							for _, r := range rows {
								_ = score(m, vec, d.Row(int(r.Row)))
							}
							*to = append(*to, since(start))
							rescored[i] += len(rows)
							intervals[i] += n
						}
					}

					copy(q32, vec)
					start := time.Now()
					const block = 64 << 10
					step := block / 4 / d.Dim
					for lo := 0; lo < d.Len(); lo += step {
						hi := min(lo+step, d.Len())
						simd.DotRows(dst[:hi-lo], q32, d.Vecs[lo*d.Dim:hi*d.Dim])
					}
					floats = append(floats, since(start))
				}
				median := func(v []float64) float64 { slices.Sort(v); return v[len(v)/2] }
				b.ReportMetric(median(prepare), "prepare-us")
				b.ReportMetric(median(floats), "floats-us")
				for i, name := range []string{"codes", "nibbles"} {
					b.ReportMetric(median(times[i]), name+"-us")
					b.ReportMetric(median(again[i]), name+"-again-us")
					b.ReportMetric(median(floats)/median(times[i]), name+"-times")
					b.ReportMetric(float64(rescored[i])/float64(2*len(floats)), name+"-rescored")
					b.ReportMetric(float64(intervals[i])/float64(2*len(floats)), name+"-intervals")
				}
			})
		}
	}
}

// BenchmarkSketches looks through all rows for those that may reach the score of the 10th best, as
// a scan does after a search of a graph: by nibbles and by sketches, in turn, on one core. Before,
// the vectors of all rows are read, so that nibbles and sketches come from memory. Times are
// medians in nanoseconds per row, "left" the shares of the rows whose codes are read, "missed" that
// of the ten best.
func BenchmarkSketches(b *testing.B) {
	for _, set := range formattest.Sets(b, 200) {
		d := data{set.Rows}
		for _, m := range metrics {
			c := d.sketched(b, m)
			if err := c.Verify(); err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%s/metric=%d", set.Name, m), func(b *testing.B) {
				const k = 10
				n := d.Len()
				scores, cands := make([]float64, n), make([]Candidate, 0, n)
				var buf Buffer
				var times [2][]float64
				var left [2]int
				missed := 0
				for b.Loop() {
					vec := set.Queries.Row(len(times[0]) % set.Queries.Len())
					for i := range scores {
						scores[i] = score(m, vec, d.Row(i))
					}
					sorted := slices.Sorted(slices.Values(scores))
					cut := sorted[n-k]
					for i, q := range []*Query{c.Query(vec), estimated(b, c, vec)} {
						start, err := time.Now(), error(nil)
						cands, err = q.Candidates(cands[:0], 0, n, nil, cut, &buf)
						times[i] = append(times[i], float64(time.Since(start))/float64(n))
						if err != nil {
							b.Fatal(err)
						}
						low := q.cut(cut)
						for lo := 0; lo < n; lo += chunk {
							hi := min(lo+chunk, n)
							if i == 1 {
								left[i] += len(q.likely(c.sketches.Load(), lo, hi, nil, cut, buf.rows[:0]))
								continue
							}
							q.scanNibbles(buf.bits[:(hi-lo+63)/64], buf.dots[:hi-lo], lo, low)
							for _, w := range buf.bits[:(hi-lo+63)/64] {
								left[i] += bits.OnesCount64(w)
							}
						}
						if i == 1 {
							missed += k - len(cands)
							for _, cand := range cands {
								if scores[cand.Row] < cut {
									missed++
								}
							}
						}
					}
				}
				for i, name := range []string{"nibbles", "sketches"} {
					slices.Sort(times[i])
					b.ReportMetric(times[i][len(times[i])/2], name+"-ns/row")
					b.ReportMetric(float64(left[i])/float64(n*len(times[i])), name+"-left")
				}
				b.ReportMetric(float64(missed)/float64(k*len(times[0])), "missed")
			})
		}
	}
}

// BenchmarkBuild codes rows: bytes of vectors per second, at best.
func BenchmarkBuild(b *testing.B) {
	for _, dim := range []int{100, 768} {
		for _, m := range metrics {
			d := data{vectors{Dim: dim, Vecs: make([]float32, 16<<20/4/dim*dim)}}
			r := rand.New(rand.NewPCG(1, 2))
			for i := range d.Vecs {
				d.Vecs[i] = float32(r.NormFloat64())
			}
			b.Run(fmt.Sprintf("%d/metric=%d", dim, m), func(b *testing.B) {
				best := math.Inf(1)
				for b.Loop() {
					start := time.Now()
					if _, err := Build(d.ident(m), d.Source); err != nil {
						b.Fatal(err)
					}
					best = min(best, float64(time.Since(start)))
				}
				b.ReportMetric(float64(4*len(d.Vecs))/best, "GB/s")
			})
		}
	}
}
