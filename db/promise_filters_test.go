package db

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/nearest"
	"github.com/vecbolt/vecbolt/internal/score"
)

// A sieve is a filter for each query, and a random filter of the same form that matches as many
// rows, nil for itself.
type sieve struct {
	name    string
	queries [][]float32
	where   func(query int) filter.Expr
	random  func(query int) filter.Expr
}

// filterRows are rows whose metadata make filters of every correlation with the queries.
type filterRows struct {
	promiseSet
	kinds   []filterQueries
	near    [][]int // of each anchor, the rank of every row by its score for the anchor
	cluster []int   // of each row
	size    []int   // of each cluster
	random  []int   // of each row, a number below len(rows)
}

// filterQueries are queries of one kind. Filters by rank have queries near to a few anchors.
type filterQueries struct {
	name   string
	vecs   [][]float32
	home   []int   // of each query, its cluster
	seen   [][]any // of each query, the nearest rows
	beside [][]float32
	anchor []int // of each query beside one
}

const (
	anchors      = 8 // of each kind
	rowClusters  = 10
	mostExcluded = 2000
)

func newFilterRows(t *testing.T, set promiseSet) *filterRows {
	t.Helper()
	_, queries, _, _ := filterGrid()
	r := rand.New(rand.NewPCG(29, uint64(len(set.rows))))
	f := &filterRows{promiseSet: set, random: r.Perm(len(set.rows)), size: make([]int, rowClusters)}
	var centres []score.Scorer
	for range rowClusters {
		centres = append(centres, score.New(set.metric, set.rows[r.IntN(len(set.rows))]))
	}
	home := func(v []float32) int {
		best := 0
		for i := range centres {
			if centres[i].Score(v) > centres[best].Score(v) {
				best = i
			}
		}
		return best
	}
	for _, v := range set.rows {
		c := home(v)
		f.cluster = append(f.cluster, c)
		f.size[c]++
	}
	for _, kind := range filterKinds(t, set, queries) {
		q := filterQueries{name: kind.name, vecs: kind.vecs[:min(queries, len(kind.vecs))]}
		for _, v := range q.vecs {
			q.home = append(q.home, home(v))
		}
		for i := range queries {
			a := i % min(anchors, len(q.vecs))
			v, w := slices.Clone(q.vecs[a]), q.vecs[r.IntN(len(q.vecs))]
			for j := range v {
				v[j] += 0.15 * (w[j] - v[j])
			}
			q.beside, q.anchor = append(q.beside, v), append(q.anchor, len(f.near)+a)
		}
		for _, v := range q.vecs[:min(anchors, len(q.vecs))] {
			f.near = append(f.near, nearness(set, v))
		}
		f.kinds = append(f.kinds, q)
	}
	return f
}

// metadata returns what filters ask about a row.
func (f *filterRows) metadata(row int) Metadata {
	m := Metadata{"row": int64(row), "cluster": int64(f.cluster[row]), "random": int64(f.random[row])}
	for a := range f.near {
		m[fmt.Sprint("near", a)] = int64(f.near[a][row])
	}
	return m
}

// look finds the nearest rows of each query.
func (f *filterRows) look(t *testing.T, c *Collection) {
	t.Helper()
	for i := range f.kinds {
		q := &f.kinds[i]
		for _, v := range q.vecs {
			var seen []any
			for _, h := range mustSearch(t, c, Query{Near: Vector(v), K: mostExcluded, Accuracy: Exact, Select: IDsOnly}).Hits {
				seen = append(seen, must(strconv.Atoi(h.ID)))
			}
			q.seen = append(q.seen, seen)
		}
	}
}

func mustSearch(t *testing.T, c *Collection, q Query) *Result {
	t.Helper()
	r, err := c.Search(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// sieves returns the filters for one kind of queries: random ones, those that keep the
// neighbourhood of a query or a cluster, and those that exclude them.
func (f *filterRows) sieves(q *filterQueries) (all []sieve) {
	rows := float64(len(f.rows))
	below := func(share float64) func(int) filter.Expr {
		return func(int) filter.Expr { return filter.Lt("random", int(share*rows)) }
	}
	near := func(query int) string { return fmt.Sprint("near", q.anchor[query]) }
	for _, share := range []float64{0.001, 0.01, 0.1, 0.5, 0.9, 0.999} {
		all = append(all, sieve{fmt.Sprintf("random %g %%", 100*share), q.vecs, below(share), nil})
	}
	for _, share := range []float64{0.01, 0.1, 0.5} {
		all = append(all, sieve{fmt.Sprintf("the nearest %g %%", 100*share), q.beside, func(query int) filter.Expr {
			return filter.Lt(near(query), int(share*rows))
		}, below(share)}, sieve{fmt.Sprintf("not the nearest %g %%", 100*share), q.beside, func(query int) filter.Expr {
			return filter.Gte(near(query), int(share*rows))
		}, below(1 - share)})
	}
	for _, n := range []int{10, 100, 1000, mostExcluded} {
		if n > len(f.rows)/2 {
			continue
		}
		all = append(all, sieve{fmt.Sprintf("not the nearest %d", n), q.vecs, func(query int) filter.Expr {
			return filter.Nin("row", q.seen[query][:n]...)
		}, func(query int) filter.Expr {
			r, some := rand.New(rand.NewPCG(uint64(query), uint64(n))), make([]any, n)
			for i := range some {
				some[i] = r.IntN(len(f.rows))
			}
			return filter.Nin("row", some...)
		}})
	}
	its := func(query int) int { return q.home[query] }
	other := func(query int) int { return (q.home[query] + 1) % rowClusters }
	return append(all, sieve{"its cluster", q.vecs, func(query int) filter.Expr {
		return filter.Eq("cluster", its(query))
	}, func(query int) filter.Expr {
		return filter.Lt("random", f.size[its(query)])
	}}, sieve{"another cluster", q.vecs, func(query int) filter.Expr {
		return filter.Eq("cluster", other(query))
	}, func(query int) filter.Expr {
		return filter.Lt("random", f.size[other(query)])
	}}, sieve{"not its cluster", q.vecs, func(query int) filter.Expr {
		return filter.Ne("cluster", its(query))
	}, func(query int) filter.Expr {
		return filter.Gte("random", f.size[its(query)])
	}}, sieve{"a twentieth of its cluster, half of the others", q.vecs, func(query int) filter.Expr {
		return filter.Or(filter.And(filter.Ne("cluster", its(query)), filter.Lt("random", int(rows/2))),
			filter.And(filter.Eq("cluster", its(query)), filter.Lt("random", int(rows/20))))
	}, func(query int) filter.Expr {
		return filter.Lt("random", (len(f.rows)-f.size[its(query)])/2+f.size[its(query)]/20)
	}})
}

// hitsOf returns how many hits of an answer have at least the score of the last true hit.
func hitsOf(truth, got []Hit) (found int) {
	for _, h := range got {
		if h.Score >= truth[len(truth)-1].Score {
			found++
		}
	}
	return found
}

// filterGrid returns rows, queries, k and targets of the tests of filters and changes.
func filterGrid() (rows, queries int, ks []int, targets []float64) {
	rows, queries, ks, targets = promiseSample, 40, []int{1, 10, 100}, []float64{0.8, 0.95}
	if *promiseFull {
		rows, queries, targets = *promiseRows, 100, []float64{0.8, 0.9, 0.95, 0.99}
	}
	if *promiseK > 0 {
		ks = []int{*promiseK}
	}
	return rows, queries, ks, targets
}

// Promised recall is delivered under filters that keep or exclude the neighbourhood of the query,
// its cluster or another one, and under random ones. A promise is broken if the interval of 95 % is
// more than 0.01 below it. Graphs are searched wherever they promise the recall. All sets, with
// real ones in a directory:
//
//	go test ./db -run TestPromiseFilters -promise.full -promise.rows 50000 -promise.data DIR -promise.out FILE -timeout 12h
func TestPromiseFilters(t *testing.T) {
	t.Parallel() // one core each
	skipRecall(t)
	rows, queries, ks, targets := filterGrid()
	table := newPromiseTable("filter", targets)
	filterSets(t, rows, max(queries, promiseAsked), func(set promiseSet) {
		set.filtered = true
		f, p := newFilterRows(t, set), plantPromise(t, set)
		f.look(t, p.c)
		for i := range f.kinds {
			for _, s := range f.sieves(&f.kinds[i]) {
				for _, k := range ks {
					table.measure(t, p.c, set, f.kinds[i].name, s.name, k, s.queries, s.where)
				}
			}
		}
		if err := p.vdb.Close(); err != nil {
			t.Fatal(err)
		}
	})
	table.write(t)
}

// filterSets yields the sets that the flags choose, by default a small one of each layout of
// graphs.
func filterSets(t *testing.T, rows, queries int, yield func(promiseSet)) {
	only := regexp.MustCompile(*promiseOnly)
	promiseSets(t, rows, queries, func(set promiseSet) {
		if only.MatchString(set.name) && (*promiseFull || set.name == "text model" || set.name == "4,000 words") {
			yield(set)
		}
	})
}

// filterKinds returns queries like the rows and out-of-distribution ones: means of rows, and those
// in files.
func filterKinds(t *testing.T, set promiseSet, queries int) []promiseQueries {
	t.Helper()
	kinds := []promiseQueries{{likeTheRows, set.queries}}
	for _, kind := range syntheticQueries(set, queries) {
		if kind.name == "means of 4" || *promiseFull && kind.name == "means of 2" {
			kinds = append(kinds, kind)
		}
	}
	return append(kinds, queriesInFiles(t, set)...)
}

// A promiseTable is a table of recalls found, by target.
type promiseTable struct {
	bytes.Buffer
	targets []float64
	cells   []distributionCell
}

func newPromiseTable(what string, targets []float64) *promiseTable {
	p := &promiseTable{targets: targets}
	fmt.Fprintf(p, "| vectors | rows | dim | queries | %s | k | walked |", what)
	for _, target := range targets {
		fmt.Fprintf(p, " %g |", target)
	}
	p.WriteString("\n|---|---|---|---|---|---|---|")
	for range targets {
		p.WriteString("---|")
	}
	p.WriteString("\n")
	return p
}

// A question has a true answer, and asks for one with another accuracy.
type question struct {
	truth []Hit
	ask   func(Accuracy) (hits []Hit, exact bool)
}

// measure asks queries of one kind for every target and adds a line to the table. where may be nil.
func (p *promiseTable) measure(t *testing.T, c *Collection, set promiseSet, kind, name string, k int, queries [][]float32,
	where func(query int) filter.Expr) {
	t.Helper()
	var questions []question
	for i, v := range queries {
		q := Query{Near: Vector(v), K: k, Accuracy: Exact, Select: IDsOnly}
		if where != nil {
			q.Where = where(i)
		}
		truth := mustSearch(t, c, q).Hits
		questions = append(questions, question{truth, func(a Accuracy) ([]Hit, bool) {
			q.Accuracy = a
			r := mustSearch(t, c, q)
			if len(r.Hits) != len(truth) {
				t.Fatalf("%s, %s: %d hits of %d", set.name, name, len(r.Hits), len(truth))
			}
			return r.Hits, r.Exact
		}})
	}
	p.ask(t, set, kind, name, k, questions)
}

// ask asks questions for every target and adds a line to the table.
func (p *promiseTable) ask(t *testing.T, set promiseSet, kind, name string, k int, questions []question) {
	t.Helper()
	tallies, walked := make([]nearest.Tally, len(p.targets)), 0
	none, half := make([]int, len(p.targets)), make([]int, len(p.targets))
	for _, q := range questions {
		if len(q.truth) == 0 {
			continue
		}
		for j, target := range p.targets {
			hits, exact := q.ask(Recall(target))
			found := hitsOf(q.truth, hits)
			if tallies[j].Add(found, len(q.truth)); found == 0 {
				none[j]++
			}
			if 2*found < len(q.truth) {
				half[j]++
			}
			if !exact {
				walked++
			}
		}
	}
	fmt.Fprintf(p, "| %s | %d | %d | %s | %s | %d | %.0f %% |", set.name, len(set.rows), len(set.rows[0]), kind, name, k,
		100*float64(walked)/float64(len(p.targets)*len(questions)))
	for j, target := range p.targets {
		cell := distributionCell{set: set.name, kind: kind + ", " + name, k: k, target: target, none: none[j], half: half[j],
			Estimate: tallies[j].Estimate(nearest.Usual)}
		p.cells = append(p.cells, cell)
		fmt.Fprintf(p, " %.4f |", cell.Recall)
		if cell.High < target-0.01 {
			t.Errorf("%s, %d best: %+v", set.name, k, cell)
		}
	}
	p.WriteString("\n")
}

// write adds the worst cells and writes the table to the log and to the file of the flag.
func (p *promiseTable) write(t *testing.T) {
	t.Helper()
	slices.SortStableFunc(p.cells, func(a, b distributionCell) int {
		return cmp.Compare(a.Recall-a.target, b.Recall-b.target)
	})
	p.WriteString("\nThe worst cells:\n\n| vectors | cell | k | asked | found | 95 % | nothing found | less than half |\n" +
		"|---|---|---|---|---|---|---|---|\n")
	for _, c := range p.cells[:min(len(p.cells), 20)] {
		fmt.Fprintf(p, "| %s | %s | %d | %g | %.4f | %.4f to %.4f | %d of %d | %d |\n", c.set, c.kind, c.k, c.target,
			c.Recall, c.Low, c.High, c.none, c.Queries, c.half)
	}
	t.Logf("\n%s", p)
	if *promiseOut != "" {
		if err := os.WriteFile(*promiseOut, p.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFilterTimes compares the time of searches under filters that are correlated with the query
// with random filters of the same form and selectivity, and with the exact answer under the same
// filter. The database chooses between graph and scan. Medians of queries, asked in turn:
//
//	go test ./db -run TestFilterTimes -promise.full -promise.planned -promise.rows 50000 -promise.data DIR -promise.set '^NAME$' -promise.out FILE
func TestFilterTimes(t *testing.T) {
	if !*promiseFull || !*promisePlan {
		t.Skip("timings are reported, not asserted; -promise.full -promise.planned takes them")
	}
	rows, queries, _, _ := filterGrid()
	table := bytes.NewBufferString("| vectors | rows | dim | filter | k | asked | found | exact | time, µs | / random | / scan |\n" +
		"|---|---|---|---|---|---|---|---|---|---|---|\n")
	filterSets(t, rows, queries, func(set promiseSet) {
		set.filtered = true
		f, p := newFilterRows(t, set), plantPromise(t, set)
		f.look(t, p.c)
		none := sieve{"none", f.kinds[0].vecs, func(int) filter.Expr { return nil }, nil}
		for _, s := range append([]sieve{none}, f.sieves(&f.kinds[0])...) {
			for _, k := range []int{10, 100} {
				for _, target := range []float64{0.9, 0.99} {
					f.time(t, p.c, s, k, target, table)
				}
			}
		}
		if err := p.vdb.Close(); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("\n%s", table)
	if *promiseOut != "" {
		if err := os.WriteFile(*promiseOut, table.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// time measures one filter for one target.
func (f *filterRows) time(t *testing.T, c *Collection, s sieve, k int, target float64, table *bytes.Buffer) {
	t.Helper()
	var tally nearest.Tally
	var times, random, scans []time.Duration
	exact := 0
	timed := func(q Query) (*Result, time.Duration) {
		start := time.Now()
		r := mustSearch(t, c, q)
		return r, time.Since(start)
	}
	for i, v := range s.queries {
		q := Query{Near: Vector(v), K: k, Accuracy: Exact, Select: IDsOnly, Where: s.where(i)}
		other := Query{Near: Vector(v), K: k, Accuracy: Recall(target), Select: IDsOnly, Where: q.Where}
		if s.random != nil {
			other.Where = s.random(i)
		}
		truth, d := timed(q)
		scans = append(scans, d)
		_, d = timed(other)
		random = append(random, d)
		q.Accuracy = Recall(target)
		r, d := timed(q)
		times = append(times, d)
		if len(truth.Hits) > 0 {
			tally.Add(hitsOf(truth.Hits, r.Hits), len(truth.Hits))
		}
		if r.Exact {
			exact++
		}
	}
	median := func(all []time.Duration) float64 {
		slices.Sort(all)
		return float64(all[len(all)/2].Nanoseconds()) / 1000
	}
	at := median(times)
	fmt.Fprintf(table, "| %s | %d | %d | %s | %d | %g | %.4f | %.0f %% | %.0f | %.2f | %.2f |\n", f.name, len(f.rows), len(f.rows[0]),
		s.name, k, target, tally.Estimate(nearest.Usual).Recall, 100*float64(exact)/float64(len(s.queries)), at, at/median(random), at/median(scans))
}
