package db

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/nearest"
	"github.com/vecbolt/vecbolt/internal/score"
	"github.com/vecbolt/vecbolt/segment/graph"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
)

var pricesDir = flag.String("prices.dir", "", "directory that keeps the databases of BenchmarkPrices for later runs")

// A priceBase is a database of BenchmarkPrices.
type priceBase struct {
	set       string // of -promise.data, otherwise made rows
	rows, dim int
	index     Index
}

func (p priceBase) String() string {
	return fmt.Sprintf("%d×%d,%v", p.rows, p.dim, p.index)
}

var priceBases = []priceBase{
	{"glove100k", 10_000, 100, IndexFast}, {"glove100k", 30_000, 100, IndexFast}, {"glove100k", 100_000, 100, IndexFast},
	{"", 60_000, 64, IndexFast}, {"", 200_000, 128, IndexFast},
	{"bgemicro_ml_384", 26_000, 384, IndexFast},
	{"", 10_000, 384, IndexFast}, {"", 50_000, 384, IndexFast}, {"", 80_000, 384, IndexFast},
	{"", 5_000, 768, IndexFast}, {"", 30_000, 768, IndexFast}, {"", 30_000, 768, IndexSmall},
	{"", 5_000, 1536, IndexFast}, {"", 15_000, 1536, IndexFast}, {"", 15_000, 1536, IndexSmall},
}

// BenchmarkPrices compares the costs that the planner expects of beam searches and scans with their
// times: the same queries by both, one at a time on one core, without the evaluation of the filter.
// The first table has a line for each base, number of results, share of rows allowed at random,
// recall and kind of query. Times are means over queries of the best of several rounds. The regret
// is the time of the planner's choice, as a multiple of the better one.
//
//	go test ./db -run '^$' -bench BenchmarkPrices -benchtime 1x -timeout 1h -promise.data DIR -prices.dir DIR2 -promise.out FILE
func BenchmarkPrices(b *testing.B) {
	head := "| base | layout | k | recall | allowed | queries | setting | expanded | estimated | of work | gave up | walk, µs | scan, µs | " +
		"walk/scan | expected | chosen | regret |\n" + strings.Repeat("|---", 17) + "|\n"
	var all strings.Builder
	defer func() {
		if *promiseOut != "" {
			if err := os.WriteFile(*promiseOut, []byte(head+all.String()), 0o644); err != nil {
				b.Error(err)
			}
		}
	}()
	for _, base := range priceBases {
		b.Run(base.String(), func(b *testing.B) {
			c, kinds := base.open(b)
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			for b.Loop() {
				table := new(strings.Builder)
				for _, kind := range kinds {
					for _, share := range []float64{1, 0.5, 0.2, 0.1, 0.01} {
						for _, recall := range []float64{0.8, 0.95, 0.99} {
							timePlans(b, c, base, kind, 10, share, recall, table)
						}
						timePlans(b, c, base, kind, 100, share, 0.95, table)
					}
					some := promiseQueries{name: kind.name, vecs: kind.vecs[:10]}
					for _, k := range []int{1000, 3000, 5000, 10_000, 20_000, 30_000, 45_000} {
						timePlans(b, c, base, some, k, 1, 0.95, table)
					}
				}
				b.Logf("\n%s%s", head, table)
				all.WriteString(table.String())
			}
		})
	}
}

// open returns the collection of a base, built unless it was kept, and queries.
func (p priceBase) open(b *testing.B) (*Collection, []promiseQueries) {
	const queries = 100
	var rows, like [][]float32
	if p.set != "" {
		read := func(file string) [][]float32 {
			data, err := os.ReadFile(filepath.Join(*promiseData, p.set, file))
			if err != nil {
				b.Skip("no data: ", err)
			}
			return readVecs(data)
		}
		rows, like = read("base.fvecs")[:p.rows], read("query.fvecs")[:queries]
	} else {
		rows = madeRows(p.rows+queries, p.dim)
		rows, like = rows[queries:], rows[:queries]
	}
	kinds := []promiseQueries{{likeTheRows, like}}
	for _, kind := range syntheticQueries(promiseSet{metric: Cosine, rows: rows}, queries/2) {
		if kind.name == "means of 4" {
			kinds = append(kinds, kind)
		}
	}
	opts := Options{Sync: SyncNever, Compaction: Manual, Recheck: Manual, tests: testOptions{graphSize: 1}}
	folder := ""
	if *pricesDir != "" {
		folder = filepath.Join(*pricesDir, fmt.Sprintf("%d-%d-%v", p.rows, p.dim, p.index))
	}
	if _, err := os.Stat(folder); err != nil {
		built, took := compacted(b, opts, Cosine, rows)
		b.Logf("%v: compacted in %.1f s", p, took.Seconds())
		if p.index != IndexFast {
			vdb := open(b, built, &opts)
			if err := errors.Join(collectionOf(b, vdb, "c").SetIndex(b.Context(), p.index), vdb.Compact(b.Context()), vdb.Close()); err != nil {
				b.Fatal(err)
			}
		}
		if folder == "" {
			folder = built
		} else if err := os.CopyFS(folder, os.DirFS(built)); err != nil {
			b.Fatal(err)
		}
	}
	opts.Workers = 1
	return collectionOf(b, open(b, folder, &opts), "c"), kinds
}

// timePlans writes a line: the queries of a kind by beam search and by scan, of the rows of a
// random set, and the expectations of the planner.
func timePlans(b *testing.B, c *Collection, base priceBase, kind promiseQueries, k int, share, recall float64, table *strings.Builder) {
	ver, v, done, err := c.open(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer done()
	if len(v.Parts) != 1 || v.Parts[0].Segment == nil {
		b.Fatalf("%d parts, want one segment", len(v.Parts))
	}
	g := v.Parts[0].Segment.Graph.Get()
	var allowed bitset.Set
	matched := v.Count
	if share < 1 {
		r := rand.New(rand.NewPCG(8, uint64(share*100)))
		allowed = bitset.New(v.Count)
		for row := range v.Count {
			if r.Float64() < share {
				allowed.Set(row)
			}
		}
		matched = allowed.Count()
	}
	if matched <= k {
		return
	}
	run := func(vec []float32, goal nearest.Goal) (*nearest.Search, time.Duration) {
		p := &nearest.Probe{Scorer: score.New(v.Def.Schema.Metric, vec), Goal: goal, Need: k, Least: engine.NegInf,
			Parts: []nearest.PartSearch{{Set: allowed}}, Matched: matched}
		s := &nearest.Search{Searcher: c.db.searcher.Nearest, Version: ver, View: v, Workers: 1, Probes: []*nearest.Probe{p}}
		start := time.Now()
		err := s.Run(b.Context())
		took := time.Since(start)
		if err != nil {
			b.Fatal(err)
		}
		return s, took
	}
	goals := []nearest.Goal{{Recall: recall}, {Recall: 1}}
	walks := 0
	for _, vec := range kind.vecs {
		if s, _ := run(vec, goals[0]); s.Probes[0].UsesGraphs() {
			walks++
		}
	}
	c.db.searcher.Nearest.GraphAlways = true
	defer func() { c.db.searcher.Nearest.GraphAlways = false }()
	// The plan and its expected cost are the same for all queries. They are read from the first one
	// that the graph answers.
	var setting levels.Setting
	var cost float64
	ok := false
	for i := 0; i < len(kind.vecs) && !ok; i++ {
		s, _ := run(kind.vecs[i], goals[0])
		setting, cost, ok = s.GraphPlan(s.Probes[0], 0)
	}
	if !ok {
		b.Logf("%v %v %v %v: the graph answers no query", base, kind.name, recall, share)
		return
	}
	// The work of a beam search, and whether it gave up and a scan followed.
	var query graph.Query
	var buf graph.Buffer
	expanded, estimated, gaveUp := 0, 0, 0
	for _, vec := range kind.vecs {
		query.Reset(g, vec)
		query.Guard(k, setting, matched)
		_, stats, err := query.Find(k, setting, allowed, &buf)
		if errors.Is(err, graph.ErrFar) || errors.Is(err, graph.ErrBetween) || errors.Is(err, graph.ErrBeyondHorizon) {
			gaveUp++
		} else if err != nil {
			b.Fatal(err)
		}
		expanded, estimated = expanded+stats.Expanded, estimated+stats.Estimated
	}
	var sums [2]time.Duration
	rounds := 3
	best := make([][2]time.Duration, len(kind.vecs))
	for round := 0; round < rounds; round++ {
		for i, goal := range goals {
			for j, vec := range kind.vecs {
				_, took := run(vec, goal)
				if round == 0 || took < best[j][i] {
					best[j][i] = took
				}
			}
		}
		if sums = [2]time.Duration{}; round == 0 {
			for j := range best {
				sums[0], sums[1] = sums[0]+best[j][0], sums[1]+best[j][1]
			}
			if math.Abs(math.Log(sums[0].Seconds()/sums[1].Seconds())) > math.Log(4) {
				rounds = 1 // a clear case
			}
		}
	}
	sums = [2]time.Duration{}
	for j := range best {
		sums[0], sums[1] = sums[0]+best[j][0], sums[1]+best[j][1]
	}
	n := float64(len(kind.vecs))
	s, _ := run(kind.vecs[0], goals[1])
	scanCost := s.ScanCost(s.Probes[0], 0)
	work := g.Work(setting, matched)
	walk, scan := sums[0].Seconds()/n*1e6, sums[1].Seconds()/n*1e6
	expected := cost / scanCost
	chosen, regret := "graph", walk/min(walk, scan)
	if expected > 1 {
		chosen, regret = "scan", scan/min(walk, scan)
	}
	if (walks > 0) != (expected <= 1) && gaveUp < len(kind.vecs) { // a graph search may end as a scan
		b.Logf("%v %v %v %v: %d walks, %.2f expected", base, kind.name, recall, share, walks, expected)
	}
	layout, _, _ := strings.Cut(g.Layout(), ":")
	fmt.Fprintf(table, "| %v | %s | %d | %v | %v | %s | %v | %.0f | %.0f | %.2f | %.0f %% | %.1f | %.1f | %.2f | %.2f | %s | %.2f |\n",
		base, layout, k, recall, share, kind.name, setting, float64(expanded)/n, float64(estimated)/n, float64(estimated)/n/work,
		100*float64(gaveUp)/n, walk, scan, walk/scan, expected, chosen, regret)
}
