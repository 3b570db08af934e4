package db

import (
	"flag"
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

var quickDims = flag.Int("quick.dims", 384, "the dimension of made rows in BenchmarkQuickLayout")

// quickKinds are queries unlike the rows, of those that syntheticQueries makes.
var quickKinds = []string{"means of 4", "means of 10", "beyond", "a third noise", "a fifth of the components"}

// BenchmarkQuickLayout compares the layouts of graphs in the middle dimensions, for which the
// number of rows decides: two databases of the same rows answer in turn, one query at a time on one
// core, queries like the rows and queries unlike them, with a growing recall asked. The table has
// the speed by the recall found, interpolated on logarithmic scales. Without -promise.data, a
// directory of data sets, the rows are made.
//
//	go test ./db -run '^$' -bench QuickLayout -benchtime 1x -timeout 1h -promise.rows 300000 -promise.out FILE
func BenchmarkQuickLayout(b *testing.B) {
	const queries = 500
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	out := new(strings.Builder)
	for b.Loop() {
		if *promiseData == "" {
			rows := madeRows(*promiseRows+queries, *quickDims)
			layoutsOf(b, promiseSet{name: "made", rows: rows[queries:], queries: rows[:queries]}, out)
		}
		only := regexp.MustCompile(*promiseOnly)
		fileSets(b, func(set promiseSet) {
			if only.MatchString(set.name) {
				set.rows = set.rows[:min(len(set.rows), *promiseRows)]
				set.queries = set.queries[:min(len(set.queries), queries)]
				layoutsOf(b, set, out)
			}
		})
	}
	b.Logf("\n%s", out)
	if *promiseOut != "" {
		if err := os.WriteFile(*promiseOut, []byte(out.String()), 0o644); err != nil {
			b.Fatal(err)
		}
	}
}

// layoutsOf builds databases of a set, one for each layout, and compares them.
func layoutsOf(b *testing.B, set promiseSet, out *strings.Builder) {
	kinds := []promiseQueries{{likeTheRows, set.queries}, {"unlike the rows", nil}}
	for _, kind := range syntheticQueries(set, len(set.queries)/len(quickKinds)) {
		if slices.Contains(quickKinds, kind.name) {
			kinds[1].vecs = append(kinds[1].vecs, kind.vecs...)
		}
	}
	layouts := []*layoutBench{{name: "plain", size: math.MaxInt64}, {name: "quick", size: 1}}
	fmt.Fprintf(out, "\n%s\n\n| rows | layout | compacted in | graph | all files |\n|---|---|---|---|---|\n", set.name)
	runtime.GOMAXPROCS(runtime.NumCPU())
	for _, l := range layouts {
		l.build(b, set)
		fmt.Fprintf(out, "| %d | %s | %.1f s | %.1f MB | %.1f MB |\n", len(set.rows), l.name, l.took.Seconds(), l.graph/1e6, l.all/1e6)
	}
	runtime.GOMAXPROCS(1)
	table, log := new(strings.Builder), new(strings.Builder)
	for _, kind := range kinds {
		compareLayouts(b, layouts, kind, table, log)
	}
	fmt.Fprintf(out, "\n| queries | recall found | plain, queries/s | quick, queries/s | ratio |\n|---|---|---|---|---|\n%s"+
		"\n| queries | layout | asked | found | queries/s | by graph |\n|---|---|---|---|---|---|\n%s", table, log)
}

// madeRows returns rows like the vectors of a text model: clusters in a space of few dimensions
// with a decaying spectrum, lifted at random, with noise in every dimension and a common mean.
// Their nearest rows are as near as in tools/bench.
func madeRows(n, dim int) [][]float32 {
	const clusters, latent, spread, noise, common = 1000, 48, 0.88, 0.28, 0.59
	r := rand.New(rand.NewPCG(3, 84))
	normal := func(length float64) []float32 {
		v := make([]float32, dim)
		for i := range v {
			v[i] = float32(length * r.NormFloat64() / math.Sqrt(float64(dim)))
		}
		return v
	}
	lift, size := make([][]float32, latent), 0.0
	for j := range lift {
		lift[j], size = normal(1), size+1/float64(j+1)
	}
	place := func(length float64) (at [latent]float32) {
		for j := range at {
			at[j] = float32(length * r.NormFloat64() / math.Sqrt(float64(j+1)*size))
		}
		return at
	}
	centres, mean := make([][latent]float32, clusters), normal(common)
	for i := range centres {
		centres[i] = place(1)
	}
	rows := make([][]float32, n)
	for i := range rows {
		v, centre, own := normal(noise), &centres[r.IntN(clusters)], place(spread)
		for k := range v {
			v[k] += mean[k]
		}
		for j, l := range lift {
			w := centre[j] + own[j]
			for k, x := range l {
				v[k] += w * x
			}
		}
		scale(v, 1/length(v))
		rows[i] = v
	}
	return rows
}

// A layoutBench is a database with graphs of one layout.
type layoutBench struct {
	name       string
	size       int64 // see graph.Options.QuickSize
	took       time.Duration
	graph, all float64 // bytes
	c          *Collection
}

func (l *layoutBench) build(b *testing.B, set promiseSet) {
	opts := Options{Sync: SyncNever, Compaction: Manual, Recheck: Manual, tests: testOptions{graphSize: 1, quickSize: l.size}}
	folder, took := compacted(b, opts, set.metric, set.rows)
	l.took = took
	err := filepath.Walk(folder, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			if l.all += float64(info.Size()); strings.HasSuffix(path, ".graph") {
				l.graph += float64(info.Size())
			}
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	opts.Workers = 1
	l.c = collectionOf(b, open(b, folder, &opts), "c")
}

// compacted makes a database with a collection "c" of rows, whose ids are their places. It returns
// the directory, and how long the compaction took.
func compacted(b *testing.B, opts Options, metric Metric, rows [][]float32) (folder string, took time.Duration) {
	folder = b.TempDir()
	vdb := open(b, folder, &opts)
	c := collection(b, vdb, "c", Schema{Dim: len(rows[0]), Metric: metric})
	docs := func(yield func(Document, error) bool) {
		for i, v := range rows {
			if !yield(Document{ID: fmt.Sprint(i), Vector: v}, nil) {
				return
			}
		}
	}
	if _, err := c.Load(b.Context(), docs, nil); err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	if err := vdb.Compact(b.Context()); err != nil {
		b.Fatal(err)
	}
	took = time.Since(start)
	if err := vdb.Close(); err != nil {
		b.Fatal(err)
	}
	return folder, took
}

// ask returns the result of a search and its time.
func (l *layoutBench) ask(b *testing.B, vec []float32, target Accuracy) (*Result, time.Duration) {
	start := time.Now()
	res, err := l.c.Search(b.Context(), Query{Near: Vector(vec), K: 10, Accuracy: target, Select: IDsOnly})
	took := time.Since(start)
	if err != nil {
		b.Fatal(err)
	}
	return res, took
}

// A layoutPoint is what queries found, as a share, and their speed.
type layoutPoint struct{ found, speed float64 }

// compareLayouts asks all queries several times, for each recall and of each layout in turn: so a
// query finds none of its rows in the caches of a core. The best time of each query counts.
func compareLayouts(b *testing.B, layouts []*layoutBench, kind promiseQueries, table, log *strings.Builder) {
	const rounds = 5
	least := make([]float64, len(kind.vecs)) // score of the last true hit
	for i, vec := range kind.vecs {
		res, _ := layouts[0].ask(b, vec, Exact)
		least[i] = res.Hits[len(res.Hits)-1].Score
	}
	points := make([][]layoutPoint, len(layouts))
	for _, asked := range []float64{0.3, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.88, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.985, 0.99, 0.995} {
		best, found, walked := make([][]time.Duration, len(layouts)), make([]int, len(layouts)), make([]int, len(layouts))
		for round := range rounds {
			for j, l := range layouts {
				for i, vec := range kind.vecs {
					res, took := l.ask(b, vec, Recall(asked))
					if round > 0 {
						best[j][i] = min(best[j][i], took)
						continue
					}
					best[j] = append(best[j], took)
					for _, h := range res.Hits {
						if h.Score >= least[i] {
							found[j]++
						}
					}
					if !res.Exact {
						walked[j]++
					}
				}
			}
		}
		for j, l := range layouts {
			sum := time.Duration(0)
			for _, took := range best[j] {
				sum += took
			}
			p := layoutPoint{float64(found[j]) / float64(10*len(kind.vecs)), float64(len(kind.vecs)) / sum.Seconds()}
			points[j] = append(points[j], p)
			fmt.Fprintf(log, "| %s | %s | %v | %.4f | %.0f | %d of %d |\n", kind.name, l.name, asked, p.found, p.speed, walked[j], len(kind.vecs))
			if p.found < asked-0.01 {
				b.Errorf("%s, %s: %.4f found, %v asked", kind.name, l.name, p.found, asked)
			}
		}
	}
	for _, found := range []float64{0.80, 0.90, 0.95, 0.99} {
		p, q := speedAt(points[0], found), speedAt(points[1], found)
		fmt.Fprintf(table, "| %s | %.2f | %.0f | %.0f | %.2f |\n", kind.name, found, p, q, q/p)
	}
}

// speedAt returns the speed at a share found, between the fastest points that found less and as
// much; of the latter if none found less.
func speedAt(points []layoutPoint, found float64) float64 {
	var below, above layoutPoint
	for _, p := range points {
		if p.found >= found && p.speed > above.speed {
			above = p
		}
	}
	for _, p := range points { // the most found, of the points that are faster
		if p.found < found && p.speed > above.speed && p.found > below.found {
			below = p
		}
	}
	if below.found == 0 || above.found == 0 {
		return above.speed
	}
	miss := func(found float64) float64 { return math.Log(1.0001 - found) }
	at := (miss(found) - miss(below.found)) / (miss(above.found) - miss(below.found))
	return math.Exp(math.Log(below.speed) + at*(math.Log(above.speed)-math.Log(below.speed)))
}
