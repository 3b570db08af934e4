package db

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/internal/nearest"
)

var promiseK = flag.Int("promise.k", 0, "result count of tests of promises, in place of several")

var promiseFull = flag.Bool("promise.full", false,
	"TestPromiseOutOfDistribution: all sets, every k and 400 queries of each kind; an hour")

// syntheticQueries returns out-of-distribution queries by kind: means of rows, as averages of
// the words of a sentence are; what lies beyond rows; rows with noise in all directions, and with
// most components erased.
func syntheticQueries(set promiseSet, n int) (kinds []promiseQueries) {
	r := rand.New(rand.NewPCG(17, uint64(len(set.rows))))
	dim := len(set.rows[0])
	pick := func() []float32 {
		v := slices.Clone(set.rows[r.IntN(len(set.rows))])
		if set.metric == Cosine {
			scale(v, 1/max(length(v), 1e-30))
		}
		return v
	}
	mean := func(m int) func() []float32 {
		return func() []float32 {
			sum := make([]float32, dim)
			for range m {
				for i, x := range pick() {
					sum[i] += x / float32(m)
				}
			}
			return sum
		}
	}
	noisy := func(times float64) func() []float32 {
		return func() []float32 {
			v, w := pick(), pick()
			for i := range w {
				w[i] -= v[i]
			}
			sd := times * length(w) / math.Sqrt(float64(dim))
			for i := range v {
				v[i] += float32(sd * r.NormFloat64())
			}
			return v
		}
	}
	for _, k := range []struct {
		name string
		next func() []float32
	}{
		{"means of 2", mean(2)},
		{"means of 4", mean(4)},
		{"means of 10", mean(10)},
		{"means of 30", mean(30)},
		{"beyond", func() []float32 {
			v, w := pick(), pick()
			for i := range v {
				v[i] += 0.7 * (v[i] - w[i])
			}
			return v
		}},
		{"a third noise", noisy(0.33)},
		{"noise", noisy(1.2)},
		{"a fifth of the components", func() []float32 {
			v := pick()
			for i := range v {
				if i != 0 && r.IntN(5) > 0 {
					v[i] = 0
				}
			}
			return v
		}},
		{"in all directions alike", func() []float32 {
			v := make([]float32, dim)
			for i := range v {
				v[i] = float32(r.NormFloat64())
			}
			return v
		}},
		{"opposite to a row", func() []float32 {
			v := pick()
			scale(v, -1)
			return v
		}},
		{"opposite to means", func() []float32 {
			v := mean(10)()
			scale(v, -1)
			return v
		}},
	} {
		if set.metric == L2 && strings.HasPrefix(k.name, "opposite") {
			continue
		}
		q := promiseQueries{name: k.name}
		for range n {
			q.vecs = append(q.vecs, k.next())
		}
		kinds = append(kinds, q)
	}
	return kinds
}

const likeTheRows = "like the rows"

type promiseQueries struct {
	name string
	vecs [][]float32
}

func length(v []float32) float64 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	return math.Sqrt(sum)
}

func scale(v []float32, by float64) {
	for i := range v {
		v[i] = float32(float64(v[i]) * by)
	}
}

// Promised recall is delivered on the first ask to out-of-distribution queries, of every kind
// by itself, for every k. A promise is broken if the 95 % interval of the recall found is more than
// 0.01 below it. The test prints the worst cells. The whole grid, with the data sets in a
// directory, where files q-NAME.fvecs beside base.fvecs and query.fvecs are further queries:
//
//	go test ./db -run TestPromiseOutOfDistribution -promise.full -promise.data DIR -timeout 12h
func TestPromiseOutOfDistribution(t *testing.T) {
	t.Parallel() // one core each
	skipRecall(t)
	only := regexp.MustCompile(*promiseOnly)
	rows, queries, ks, targets := promiseSample, promiseAsked, []int{1, 10, 100, 1000}, []float64{0.8, 0.9, 0.98}
	if *promiseK > 0 {
		ks = []int{*promiseK}
	}
	if *promiseFull {
		rows, queries, targets = *promiseRows, 400, []float64{0.8, 0.9, 0.95, 0.98, 0.99}
	}
	table := new(bytes.Buffer)
	table.WriteString("| vectors | rows | dim | metric | queries | k | walked |")
	for _, target := range targets {
		fmt.Fprintf(table, " %g |", target)
	}
	fmt.Fprintf(table, "\n|---|---|---|---|---|---|---|%s\n", strings.Repeat("---|", len(targets)))
	var cells []distributionCell
	promiseSets(t, rows, queries, func(set promiseSet) {
		short := []string{"text model", "drift", "text model, middle dimension", "4,000 words", "lengths of 0.01 to 100", "giants and zeros", "words of unequal length"}
		if !only.MatchString(set.name) || !*promiseFull && !slices.Contains(short, set.name) {
			return
		}
		p := plantPromise(t, set)
		kinds := append([]promiseQueries{{likeTheRows, set.queries}}, syntheticQueries(set, queries)...)
		for _, kind := range queriesInFiles(t, set) {
			kinds = append(kinds, promiseQueries{kind.name, kind.vecs[:min(len(kind.vecs), queries)]})
		}
		for _, kind := range kinds {
			for _, k := range ks {
				fmt.Fprintf(table, "| %s | %d | %d | %v | %s | %d |", set.name, len(set.rows), len(set.rows[0]), set.metric, kind.name, k)
				cells = append(cells, p.ask(t, kind, k, targets, table)...)
			}
		}
		if err := p.vdb.Close(); err != nil {
			t.Fatal(err)
		}
	})
	overshoot(table, cells, targets)
	slices.SortFunc(cells, func(a, b distributionCell) int {
		return cmp.Compare(a.Recall-a.target, b.Recall-b.target)
	})
	table.WriteString("\nThe worst cells:\n\n| vectors | queries | k | asked | found | 95 % | nothing found | less than half | stated |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, c := range cells[:min(len(cells), 20)] {
		fmt.Fprintf(table, "| %s | %s | %d | %g | %.4f | %.4f to %.4f | %d of %d | %d | %.0f |\n", c.set, c.kind, c.k, c.target, c.Recall,
			c.Low, c.High, c.none, c.Queries, c.half, c.poor*float64(c.Queries))
	}
	worstWalks(table, cells)
	t.Logf("\n%s", table)
	if *promiseOut != "" {
		if err := os.WriteFile(*promiseOut, table.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// worstWalks writes the cells whose answers that are not exact are furthest below the recall asked.
// Cells with few of these tell little.
func worstWalks(table *bytes.Buffer, cells []distributionCell) {
	const fewest = 30
	cells = slices.DeleteFunc(slices.Clone(cells), func(c distributionCell) bool { return c.walked.Queries < fewest })
	slices.SortFunc(cells, func(a, b distributionCell) int {
		return cmp.Compare(a.walked.Recall-a.target, b.walked.Recall-b.target)
	})
	table.WriteString("\nThe worst cells, by answers that are not exact:\n\n" +
		"| vectors | queries | k | asked | answers | found | 95 % |\n|---|---|---|---|---|---|---|\n")
	for _, c := range cells[:min(len(cells), 20)] {
		fmt.Fprintf(table, "| %s | %s | %d | %g | %d | %.4f | %.4f to %.4f |\n", c.set, c.kind, c.k, c.target,
			c.walked.Queries, c.walked.Recall, c.walked.Low, c.walked.High)
	}
}

// queriesInFiles returns the further queries of a data set: see TestPromiseOutOfDistribution.
func queriesInFiles(t *testing.T, set promiseSet) (kinds []promiseQueries) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(*promiseData, set.name, "q-*.fvecs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		name, _ = strings.CutPrefix(strings.TrimSuffix(filepath.Base(name), ".fvecs"), "q-")
		kinds = append(kinds, promiseQueries{name, readVecs(b)})
	}
	return kinds
}

// A distributionCell is the recall found by queries of one kind.
type distributionCell struct {
	set, kind string
	k         int
	target    float64
	nearest.Estimate
	walked     nearest.Estimate // of answers that are not exact
	none, half int              // queries that found nothing, less than half

	usual, poor float64 // what Result states: the sum over the queries, and the most of any
}

// overshoot writes by how much the cells exceed their targets, in parts of the share that a target
// leaves to be missed.
func overshoot(table *bytes.Buffer, cells []distributionCell, targets []float64) {
	table.WriteString("\nThe median cell: recall found, and (found - asked) / (1 - asked).\n\n" +
		"| k | asked | cells | found | exceeds by |\n|---|---|---|---|---|\n")
	line := func(name string, some []distributionCell) {
		if len(some) == 0 {
			return
		}
		var found, over []float64
		for _, c := range some {
			found, over = append(found, c.Recall), append(over, (c.Recall-c.target)/(1-c.target))
		}
		slices.Sort(found)
		slices.Sort(over)
		fmt.Fprintf(table, "| %s | %d | %.4f | %.2f |\n", name, len(some), found[len(some)/2], over[len(some)/2])
	}
	var ks []int
	for _, c := range cells {
		if !slices.Contains(ks, c.k) {
			ks = append(ks, c.k)
		}
	}
	for _, k := range ks {
		for _, target := range targets {
			line(fmt.Sprintf("%d | %g", k, target), slices.DeleteFunc(slices.Clone(cells), func(c distributionCell) bool { return c.k != k || c.target != target }))
		}
	}
	line("all | all", cells)
}

// ask asks queries of one kind for every target.
func (p *promised) ask(t *testing.T, kind promiseQueries, k int, targets []float64, table *bytes.Buffer) (cells []distributionCell) {
	t.Helper()
	tallies, walks := make([]nearest.Tally, len(targets)), make([]nearest.Tally, len(targets))
	cells = make([]distributionCell, len(targets))
	walked := 0
	for _, vec := range kind.vecs {
		search := func(a Accuracy) *Result {
			r, err := p.c.Search(t.Context(), Query{Near: Vector(vec), K: k, Accuracy: a, Select: IDsOnly})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		truth := search(Exact).Hits
		for i, target := range targets {
			r := search(Recall(target))
			found := 0
			for _, h := range r.Hits {
				if h.Score >= truth[len(truth)-1].Score {
					found++
				}
			}
			tallies[i].Add(found, len(truth))
			if found == 0 {
				cells[i].none++
			}
			if 2*found < len(truth) {
				cells[i].half++
			}
			if !r.Exact {
				walked++
				walks[i].Add(found, len(truth))
			}
			cells[i].usual += r.UsualRecall
			cells[i].poor = max(cells[i].poor, r.Poor)
		}
	}
	fmt.Fprintf(table, " %.0f %% |", 100*float64(walked)/float64(len(targets)*len(kind.vecs)))
	for i, target := range targets {
		c := &cells[i]
		c.set, c.kind, c.k, c.target, c.Estimate = p.name, kind.name, k, target, tallies[i].Estimate(nearest.Usual)
		c.walked = walks[i].Estimate(nearest.Usual)
		fmt.Fprintf(table, " %.4f |", c.Recall)
		n := float64(len(kind.vecs))
		if kind.name == likeTheRows && p.name != "drift" && (c.usual/n > c.High+0.03 || c.usual/n < c.Low-0.05) {
			t.Errorf("%s, %d best: usual recall %.4f, %+v", p.name, k, c.usual/n, *c)
		}
		if float64(c.half)/n > c.poor+0.1 {
			t.Errorf("%s, %s, %d best: less than half in %.3f of the queries was stated, %+v", p.name, kind.name, k, c.poor, *c)
		}
		if c.High < target-0.01 {
			t.Errorf("%s, %s, %d best: %+v", p.name, kind.name, k, *c)
		}
	}
	table.WriteString("\n")
	return cells
}
