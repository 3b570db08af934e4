package db

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// BenchmarkInnerProducts compares approximate answers under the metric dot with exact ones, in
// turn, one query at a time on one core: the recall found, whether the planner took the graph, and
// how many times as fast. The sets are directories with base.fvecs and query.fvecs in
// -promise.data: as they are, and with the lengths of the rows spread from 0.01 to 100. Among
// 400 queries are rows left out, means, and directions at random.
//
//	go test ./db -run '^$' -bench InnerProducts -benchtime 1x -promise.data DIR -promise.rows 100000 -promise.out FILE
func BenchmarkInnerProducts(b *testing.B) {
	if *promiseData == "" {
		b.Skip("no -promise.data")
	}
	dirs, err := filepath.Glob(filepath.Join(*promiseData, "*", "base.fvecs"))
	if err != nil || len(dirs) == 0 {
		b.Fatal("no data sets in ", *promiseData, err)
	}
	table := new(strings.Builder)
	table.WriteString("| rows | k | queries | exact, queries/s | asked | found | by graph | queries/s | ratio |\n|---|---|---|---|---|---|---|---|---|\n")
	only := regexp.MustCompile(*promiseOnly)
	for _, base := range dirs {
		dir := filepath.Dir(base)
		for _, spread := range []bool{false, true} {
			name := strings.TrimSuffix(filepath.Base(dir), ".dot")
			if spread {
				name += ", lengths of 0.01 to 100"
			}
			if only.MatchString(name) {
				b.Run(name, func(b *testing.B) { compareProducts(b, name, dir, spread, table) })
			}
		}
	}
	b.Logf("\n%s", table)
	if *promiseOut != "" {
		if err := os.WriteFile(*promiseOut, []byte(table.String()), 0o644); err != nil {
			b.Fatal(err)
		}
	}
}

func compareProducts(b *testing.B, name, dir string, spread bool, table *strings.Builder) {
	read := func(file string) [][]float32 {
		data, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			b.Fatal(err)
		}
		return readVecs(data)
	}
	r := rand.New(rand.NewPCG(3, 4))
	rows, held := read("base.fvecs"), read("query.fvecs")
	rows = rows[:min(len(rows), *promiseRows)]
	if spread {
		for _, v := range rows {
			scale(v, math.Pow(10, 4*r.Float64()-2)/max(length(v), 1e-30))
		}
	}
	const queries = 400
	kinds := []promiseQueries{{likeTheRows, held[:min(len(held), queries)]}}
	for _, kind := range syntheticQueries(promiseSet{metric: Dot, rows: rows}, queries) {
		if slices.Contains([]string{"means of 4", "in all directions alike"}, kind.name) {
			kinds = append(kinds, kind)
		}
	}
	opts := Options{Sync: SyncNever, Compaction: Manual, Recheck: Manual, tests: testOptions{graphSize: 1}}
	folder, took := compacted(b, opts, Dot, rows)
	b.Logf("%s: %d rows of %d, compacted in %.1f s", name, len(rows), len(rows[0]), took.Seconds())
	opts.Workers = 1
	vdb := open(b, folder, &opts)
	c := collectionOf(b, vdb, "c")
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for b.Loop() {
		for _, kind := range kinds {
			for _, k := range []int{10, 100} {
				timeProducts(b, c, name, kind, k, table)
			}
		}
	}
}

// timeProducts asks every query exactly and for each recall, three times, and takes the best time
// of each.
func timeProducts(b *testing.B, c *Collection, name string, kind promiseQueries, k int, table *strings.Builder) {
	targets := []Accuracy{Exact, Recall(0.8), Recall(0.9), Recall(0.95), Recall(0.98), Recall(0.99)}
	times, found, walked := make([]time.Duration, len(targets)), make([]int, len(targets)), make([]int, len(targets))
	for _, vec := range kind.vecs {
		var truth []Hit
		for i, target := range targets {
			best := time.Duration(math.MaxInt64)
			var res *Result
			for range 3 {
				start := time.Now()
				var err error
				res, err = c.Search(b.Context(), Query{Near: Vector(vec), K: k, Accuracy: target, Select: IDsOnly})
				best = min(best, time.Since(start))
				if err != nil {
					b.Fatal(err)
				}
			}
			if i == 0 {
				truth = res.Hits
			}
			times[i] += best
			for _, h := range res.Hits {
				if h.Score >= truth[len(truth)-1].Score {
					found[i]++
				}
			}
			if !res.Exact {
				walked[i]++
			}
		}
	}
	n := float64(len(kind.vecs))
	for i, target := range targets[1:] {
		i++
		fmt.Fprintf(table, "| %s | %d | %s | %.0f | %v | %.4f | %.0f %% | %.0f | %.2f |\n", name, k, kind.name,
			n/times[0].Seconds(), target, float64(found[i])/n/float64(k), 100*float64(walked[i])/n, n/times[i].Seconds(),
			times[0].Seconds()/times[i].Seconds())
	}
}
