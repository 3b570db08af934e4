package graph

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	runtimemetrics "runtime/metrics"
	"slices"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/formattest"
	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
	"github.com/vecbolt/vecbolt/simd"
)

// BenchmarkSearch builds a graph and prints recall and time of searches for the 10 best rows by
// ef, on one core. Each query is run five times for each ef, and the best time counts. The
// time of a scan that is left to the caller is not in the figures.
func BenchmarkSearch(b *testing.B) {
	for _, set := range formattest.Sets(b, 1000) {
		d := data{set.Rows}
		m := fileformat.Cosine
		for _, layout := range benchLayouts() {
			b.Run(fmt.Sprintf("%s/layout=%d", set.Name, layout), func(b *testing.B) {
				start := time.Now()
				g, err := create(context.Background(), d.ident(m), d.Source, Options{layout: layout, Planned: true})
				if err != nil {
					b.Fatal(err)
				}
				g.head.entryPoints = uint32(len(g.entryPoints))
				fmt.Printf("%s: %d x %d, built in %.1f s, %d bytes per row, overflow %d\n", set.Name, g.Len(), g.Dim(),
					time.Since(start).Seconds(), g.geo.size/int64(g.Len()), len(g.over))
				const k = 10
				truth := make([][]Hit, set.Queries.Len())
				for i := range truth {
					truth[i] = exact(m, &d, set.Queries.Row(i), k, nil)
				}
				inverse := make([]float64, g.Len())
				for i := range inverse {
					x := d.Row(i)
					inverse[i] = 1 / math.Sqrt(simd.Dot64(x, x))
				}
				var buf Buffer
				for b.Loop() {
					try := func(what string, setting levels.Setting) {
						// The best time of each query: others use the machine, too.
						best := slices.Repeat([]float64{math.Inf(1)}, len(truth))
						var stats Stats
						hits, scans := 0, 0
						for range 5 {
							hits, scans, stats = 0, 0, Stats{}
							for i := range truth {
								vec := set.Queries.Row(i)
								start := time.Now()
								got, s, err := g.Query(vec).Search(k, setting, nil, func(row int) (float64, error) {
									return simd.Dot64(vec, d.Row(row)) * inverse[row], nil
								}, &buf)
								best[i] = min(best[i], time.Since(start).Seconds())
								switch {
								case errors.Is(err, ErrBeyondHorizon):
									scans++
									hits += k
								case err != nil:
									b.Fatal(err)
								default:
									hits += common(got, truth[i])
								}
								stats.Expanded += s.Expanded
								stats.Estimated += s.Estimated
								stats.Scored += s.Scored
							}
						}
						total := 0.0
						for _, s := range best {
							total += s
						}
						n := float64(len(truth))
						fmt.Printf("%s%v: recall %.4f, %6.0f QPS, %.0f expanded, %.0f estimated (%.0f expected), %.1f scored, %d left to a scan\n", what, setting,
							float64(hits)/n/k, n/total, float64(stats.Expanded)/n, float64(stats.Estimated)/n,
							g.Work(setting, g.Len()), float64(stats.Scored)/n, scans)
					}
					for _, ef := range []int{10, 14, 20, 28, 40, 56, 80, 112, 160, 224, 320, 450, 640} {
						try("", levels.Setting{EF: ef})
					}
					for _, s := range []levels.Setting{{EF: 31, StopRatio: 1.01}, {EF: 121, StopRatio: 1.01}, {EF: 215, StopRatio: 1.04},
						{EF: 121, StopRatio: 1.12}, {EF: 261, StopRatio: 1.18}} { // wide beams that end early
						try("", s)
					}
					for _, r := range []float64{0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.995} {
						if setting, ok := g.Setting(r, k, levels.NoFilter); ok {
							try(fmt.Sprintf("promised %.3f: ", r), setting)
						}
					}
				}
			})
		}
	}
}

// BenchmarkBuild builds graphs of made rows, calibrated for a planner or not at all. It reports
// rows per second, and the share of the processors' time in which they worked.
func BenchmarkBuild(b *testing.B) {
	for _, size := range [][2]int{{4000, 768}, {10_000, 1536}, {26_000, 768}, {26_000, 1536}, {40_000, 384},
		{85_000, 384}, {100_000, 100}} {
		d := lowRankData(size[0], size[1])
		for _, quiet := range []bool{true, false} {
			b.Run(fmt.Sprintf("%dx%d/calibrated=%t", size[0], size[1], !quiet), func(b *testing.B) {
				busy := busySeconds()
				for b.Loop() {
					opts := Options{Planned: true, quiet: quiet}
					if _, err := create(b.Context(), d.ident(fileformat.Cosine), d.Source, opts); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(size[0]*b.N)/b.Elapsed().Seconds(), "rows/s")
				b.ReportMetric(100*(busySeconds()-busy)/b.Elapsed().Seconds()/float64(runtime.GOMAXPROCS(0)), "%busy")
			})
		}
	}
}

// BenchmarkMerge builds graphs of made rows on a graph of half of them, and reports the processor
// time as a share of that of building anew.
func BenchmarkMerge(b *testing.B) {
	for _, size := range [][2]int{{100_000, 100}, {100_000, 384}, {26_000, 768}} {
		d := lowRankData(size[0], size[1])
		half := &data{vectors{Dim: d.Dim, Vecs: d.Vecs[:size[0]/2*d.Dim]}}
		places := make([]int32, half.Len())
		for i := range places {
			places[i] = int32(i)
		}
		for _, quiet := range []bool{true, false} {
			b.Run(fmt.Sprintf("%dx%d/calibrated=%t", size[0], size[1], !quiet), func(b *testing.B) {
				base := half.graph(b, fileformat.Cosine, Options{Planned: true, quiet: true})
				seconds := func(opts Options) float64 {
					busy := busySeconds()
					if _, err := create(b.Context(), d.ident(fileformat.Cosine), d.Source, opts); err != nil {
						b.Fatal(err)
					}
					return busySeconds() - busy
				}
				anew, merged := 0.0, 0.0
				for b.Loop() {
					anew += seconds(Options{Planned: true, quiet: quiet})
					merged += seconds(Options{Planned: true, quiet: quiet, Base: base, Rows: places})
				}
				b.ReportMetric(merged/anew, "of-anew")
				b.ReportMetric(anew/float64(b.N), "cpu-s-anew")
				b.ReportMetric(merged/float64(b.N), "cpu-s-merged")
			})
		}
	}
}

// busySeconds returns the processor time that Go code has had so far.
func busySeconds() float64 {
	runtime.GC() // the sample is of the end of the last collection
	s := []runtimemetrics.Sample{{Name: "/cpu/classes/total:cpu-seconds"}, {Name: "/cpu/classes/idle:cpu-seconds"}}
	runtimemetrics.Read(s)
	return s[0].Value.Float64() - s[1].Value.Float64()
}

// lowRankData returns rows of a hundred clusters in 48 directions, with some noise.
func lowRankData(n, dim int) *data {
	r := rand.New(rand.NewPCG(1, 2))
	const rank = 48
	basis := make([]float32, rank*dim)
	for i := range basis {
		basis[i] = float32(r.NormFloat64())
	}
	centres := make([]float32, 100*rank)
	for i := range centres {
		centres[i] = float32(r.NormFloat64())
	}
	d := &data{vectors{Dim: dim, Vecs: make([]float32, n*dim)}}
	for i := range n {
		c := r.IntN(100)
		v := d.Vecs[i*dim:][:dim]
		for j := range rank {
			w := centres[c*rank+j] + 0.7*float32(r.NormFloat64())
			for k := range v {
				v[k] += w * basis[j*dim+k]
			}
		}
		for k := range v {
			v[k] += 0.5 * float32(r.NormFloat64())
		}
	}
	return d
}

// benchLayouts returns the layouts in VECBOLT_BENCH_LAYOUTS, such as "12", or that by dimension.
func benchLayouts() []uint32 {
	var layouts []uint32
	for _, c := range os.Getenv("VECBOLT_BENCH_LAYOUTS") {
		layouts = append(layouts, uint32(c-'0'))
	}
	if layouts == nil {
		return []uint32{0}
	}
	return layouts
}

// common counts the hits that are in truth.
func common(got, truth []Hit) int {
	n := 0
	for _, h := range got {
		if slices.ContainsFunc(truth, func(t Hit) bool { return t.Row == h.Row }) {
			n++
		}
	}
	return n
}

// BenchmarkScanSketches prints what a scan of sketches takes for each row, and for each record that
// it reads, beside a scan of the codes. The best of several times counts. Prices of scans follow
// from it: see sketchPrice.
func BenchmarkScanSketches(b *testing.B) {
	const rows, k = 40_000, 10
	for _, dim := range []int{64, 100, 384, 768, 1536} {
		b.Run(fmt.Sprint(dim), func(b *testing.B) {
			d := lowRankData(rows, dim)
			g := d.graph(b, fileformat.Cosine, Options{quiet: true, layout: plain})
			scan := d.codes(b, fileformat.Cosine)
			var buf Buffer
			var found []codes.Candidate
			var memory codes.Buffer
			least := func(do func()) float64 {
				best := math.Inf(1)
				for range 20 {
					start := time.Now()
					do()
					best = min(best, float64(time.Since(start).Nanoseconds()))
				}
				return best
			}
			for b.Loop() {
				var times, read [2]float64
				q := g.Query(d.Row(0))
				for i, deviations := range []float32{0.5, 4} {
					s := levels.Setting{EF: k, Within: levels.AlwaysBeyond, Second: levels.Stage{Deviations: deviations}}
					times[i] = least(func() {
						_, stats, err := q.Find(k, s, nil, &buf)
						if err != nil {
							b.Fatal(err)
						}
						read[i] = float64(stats.Estimated)
					})
				}
				exact := scan.Query(d.Row(0))
				last := score(fileformat.Cosine, d.Row(0), d.Row(int(buf.rows[k-1])))
				whole := least(func() {
					var err error
					if found, err = exact.Candidates(found[:0], 0, rows, nil, last, &memory); err != nil {
						b.Fatal(err)
					}
				})
				record := (times[1] - times[0]) / (read[1] - read[0])
				b.ReportMetric((times[0]-read[0]*record)/rows, "ns/row")
				b.ReportMetric(record, "ns/record")
				b.ReportMetric(whole/rows, "ns/row-of-codes")
			}
		})
	}
}

// BenchmarkManyResults prints what scans of sketches for many results take in each set of
// formattest.Sets, and the records that they read. The best of several times counts for each query.
func BenchmarkManyResults(b *testing.B) {
	for _, set := range formattest.Sets(b, 300) {
		d := &data{set.Rows}
		g := d.graph(b, fileformat.Cosine, Options{quiet: true, layout: plain})
		for _, k := range []int{100, 200, 300, 400, 500, 1000} {
			b.Run(fmt.Sprintf("%s/k=%d", set.Name, k), func(b *testing.B) {
				s := levels.Setting{EF: k, Within: levels.AlwaysBeyond, Second: levels.Stage{Deviations: 1}}
				var buf Buffer
				for b.Loop() {
					us, read := 0.0, 0
					for i := range set.Queries.Len() {
						q, best := g.Query(set.Queries.Row(i)), math.Inf(1)
						for range 9 {
							start := time.Now()
							_, stats, err := q.Find(k, s, nil, &buf)
							if err != nil {
								b.Fatal(err)
							}
							best, read = min(best, time.Since(start).Seconds()*1e6), read+stats.Estimated
						}
						us += best
					}
					n := float64(set.Queries.Len())
					b.ReportMetric(us/n, "us/scan")
					b.ReportMetric(float64(read)/n/9, "records/scan")
				}
			})
		}
	}
}

// BenchmarkExpansions prints what a search without a stopping ratio takes for each expansion of the
// quick layout, and for each distance that it estimates, beside a scan of sketches. Prices of
// distances follow from it: see estimatePrice.
func BenchmarkExpansions(b *testing.B) {
	const queries = 300
	for _, size := range [][2]int{{25_000, 768}, {25_000, 1536}, {100_000, 384}, {100_000, 768}, {400_000, 384}} {
		b.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(b *testing.B) {
			d := lowRankData(size[0]+queries, size[1])
			rows := &data{vectors{Dim: d.Dim, Vecs: d.Vecs[:size[0]*d.Dim]}}
			g := rows.graph(b, fileformat.Cosine, Options{quiet: true, layout: quick})
			var buf Buffer
			run := func(s levels.Setting) (us, expanded, estimated float64) {
				us = math.Inf(1)
				for range 5 {
					expanded, estimated = 0, 0
					start := time.Now()
					for i := range queries {
						_, stats, err := g.Query(d.Row(size[0]+i)).Find(10, s, nil, &buf)
						if err != nil {
							b.Fatal(err)
						}
						expanded += float64(stats.Expanded) / queries
						estimated += float64(stats.Estimated) / queries
					}
					us = min(us, time.Since(start).Seconds()*1e6/queries)
				}
				return us, expanded, estimated
			}
			for b.Loop() {
				short, few, fewer := run(levels.Setting{EF: 100})
				long, many, more := run(levels.Setting{EF: 300})
				scan, _, _ := run(levels.Setting{EF: levels.FirstEF, Within: levels.AlwaysBeyond, Second: levels.Stage{Deviations: 1.5}})
				b.ReportMetric((long-short)*1e3/(many-few), "ns/expansion")
				b.ReportMetric((long-short)*1e3/(more-fewer), "ns/distance")
				b.ReportMetric(scan, "us/scan")
				b.ReportMetric(scan*(many-few)/(long-short), "expansions/scan")
				b.ReportMetric(g.SketchPrice(g.Len())/(degree*g.estimatePrice()), "expansions/scan-by-price")
			}
		})
	}
}
