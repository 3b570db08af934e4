package db

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/match"
	"github.com/vecbolt/vecbolt/internal/nearest"
	"github.com/vecbolt/vecbolt/internal/score"
)

// The planner takes the beam search or the scan, whichever costs less by the distances that the
// search turns out to estimate: at any selectivity, recall or beam width, and number of results, in
// every kind of graph. Most rows of a graph are found by scans: walks would keep them all in order.
// Work is counted, not timed. BenchmarkPrices measures the prices.
func TestPlanByWork(t *testing.T) {
	// A choice whose cost exceeds the other one's by this factor is wrong.
	const tolerance = 1.2
	for _, set := range []struct {
		name      string
		rows, dim int
		quickSize int64
	}{{"plain", 6000, 100, 0}, {"sifts", 8000, 192, 1}, {"quick", 2500, 512, 0}} {
		t.Run(set.name, func(t *testing.T) {
			if testing.Short() && set.name != "plain" {
				t.Skip("-short: a graph of the quick layout takes seconds to build")
			}
			const queries = 12
			opts := briefly()
			opts.tests.quickSize, opts.tests.walkAlways = set.quickSize, false
			vdb := open(t, t.TempDir(), &opts)
			c := collection(t, vdb, "c", Schema{Dim: set.dim})
			vecs := madeRows(set.rows+queries, set.dim)
			order := rand.New(rand.NewPCG(21, uint64(set.dim))).Perm(set.rows)
			var docs []Document
			for i, v := range vecs[queries:] {
				docs = append(docs, Document{ID: fmt.Sprint(i), Vector: v, Metadata: Metadata{"i": order[i]}})
			}
			upsert(t, c, docs...)
			if err := vdb.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
			walked, scanned := 0, 0
			for _, share := range []float64{1, 0.5, 0.2, 0.05} {
				for _, k := range []int{10, 100} {
					for _, a := range []Accuracy{Recall(0.8), Recall(0.95), Recall(0.99), EF(20), EF(80)} {
						q := Query{K: k, Accuracy: a}
						if share < 1 {
							q.Where = filter.Lt("i", int(share*float64(set.rows)))
						}
						walk, scan, graphs := 0.0, 0.0, 0
						for _, vec := range vecs[:queries] {
							q.Near = Vector(vec)
							w, s, planned := costs(t, c, q)
							walk, scan = walk+w, scan+s
							if planned {
								graphs++
							}
						}
						cell := fmt.Sprintf("%v of the rows, k = %d, %v", share, k, a)
						switch {
						case graphs != 0 && graphs != queries:
							t.Errorf("%s: %d of %d plans are walks", cell, graphs, queries)
						case graphs > 0 && walk > tolerance*scan:
							t.Errorf("%s: walks for %.2g times the cost of scans", cell, walk/scan)
						case graphs == 0 && scan > tolerance*walk:
							t.Errorf("%s: scans for %.2g times the cost of walks", cell, scan/walk)
						case graphs > 0:
							walked++
						default:
							scanned++
						}
					}
				}
			}
			if walked < 5 || scanned < 5 {
				t.Errorf("%d walks and %d scans: there was no choice", walked, scanned)
			}
			if set.name == "plain" { // see docs/bench/2026-11-27-long-answers.md
				for k, want := range map[int]bool{1000: true, set.rows * 2 / 3: false} {
					q := Query{Near: Vector(vecs[0]), K: k, Accuracy: Recall(0.95)}
					if _, _, planned := costs(t, c, q); planned != want {
						t.Errorf("%d results: the plan is a walk: %v, want %v", k, planned, want)
					}
				}
			}
		})
	}
}

// Under a filter the planner scans the sketches of a graph where that costs least, and Explain says
// so. The answers have the recall, also where the filter excludes the rows near the query.
func TestFilterScansSketches(t *testing.T) {
	const rows, dim, queries, k = 16_000, 256, 40, 10
	opts := promising
	opts.tests.walkAlways = false
	vdb := open(t, t.TempDir(), &opts)
	c := collection(t, vdb, "c", Schema{Dim: dim})
	vecs := madeRows(rows+queries, dim)
	order := rand.New(rand.NewPCG(3, 5)).Perm(rows)
	var docs []Document
	for i, v := range vecs[queries:] {
		docs = append(docs, Document{ID: fmt.Sprint(i), Vector: v, Metadata: Metadata{"i": order[i], "row": i}})
	}
	upsert(t, c, docs...)
	if err := vdb.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, recall := range []float64{0.9, 0.99} {
		var tally [2]nearest.Tally
		scans := 0
		for i, vec := range vecs[:queries] {
			q := Query{Near: Vector(vec), K: 100, Accuracy: Exact, Select: IDsOnly}
			var near []any
			for _, h := range mustSearch(t, c, q).Hits {
				near = append(near, must(strconv.Atoi(h.ID)))
			}
			q.K = k
			most := filter.Lt("i", rows*4/5)
			for j, where := range []filter.Expr{most, filter.And(most, filter.Nin("row", near...))} {
				q.Where, q.Accuracy = where, Exact
				truth := mustSearch(t, c, q).Hits
				q.Accuracy = Recall(recall)
				e, err := c.Explain(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				tally[j].Add(hitsOf(truth, e.Result.Hits), len(truth))
				if strings.HasPrefix(e.Plan[0].Reason, "a scan of sketches, ") {
					if scans++; e.Result.Exact || e.Result.Considered < rows {
						t.Fatalf("query %d: exact %v, %d considered: %+v", i, e.Result.Exact, e.Result.Considered, e.Plan)
					}
				}
			}
		}
		for j := range tally {
			if found := tally[j].Estimate(nearest.Usual); found.High < recall {
				t.Errorf("filter %d: %.4f found, asked for %g", j, found.Recall, recall)
			}
		}
		if recall > 0.95 && scans < queries {
			t.Errorf("%d of %d searches scanned the sketches", scans, 2*queries)
		}
	}
	// The rows that reach a threshold are few or many, so walks for them have one stage, too.
	least := 0.0
	q := Query{Near: Vector(vecs[0]), K: 100, Threshold: &least, Accuracy: Recall(0.98), Select: IDsOnly}
	e, err := c.Explain(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(e.Plan[0].Reason, "a scan of sketches, ") || e.Result.Exact {
		t.Errorf("with a threshold: %+v", e.Plan)
	}
}

// Under a filter, what lies between two of a few small groups has the recall too: where a walk
// finds one of them, a scan of the sketches or of the rows follows.
func TestFilterBetweenGroups(t *testing.T) {
	const rows, dim, groups, each, queries, k, recall = 20_000, 128, 6, 60, 60, 10, 0.9
	opts := promising
	opts.tests.walkAlways = false
	c := collection(t, open(t, t.TempDir(), &opts), "c", Schema{Dim: dim})
	vecs := madeRows(rows, dim)
	r := rand.New(rand.NewPCG(4, dim))
	near := func(x []float32) []float32 {
		y := slices.Clone(x)
		for i := range y {
			y[i] += 0.01 * float32(r.NormFloat64())
		}
		return y
	}
	for i := range groups * each {
		vecs = append(vecs, near(vecs[i%groups]))
	}
	var docs []Document
	for i, v := range vecs {
		docs = append(docs, Document{ID: fmt.Sprint(i), Vector: v, Metadata: Metadata{"half": r.IntN(2)}})
	}
	upsert(t, c, docs...)
	if err := c.db.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	var tally nearest.Tally
	scans := 0
	for i := range queries {
		x, y := near(vecs[i%groups]), near(vecs[(i+1+i/groups%(groups-1))%groups])
		for j := range x {
			x[j] = (x[j] + y[j]) / 2
		}
		q := Query{Near: Vector(x), K: k, Where: filter.Eq("half", 1), Accuracy: Exact, Select: IDsOnly}
		truth := mustSearch(t, c, q).Hits
		q.Accuracy = Recall(recall)
		e, err := c.Explain(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		tally.Add(hitsOf(truth, e.Result.Hits), len(truth))
		if reason := e.Plan[0].Reason; !strings.Contains(reason, "between groups: a scan") {
			t.Fatalf("query %d: %s", i, reason)
		}
		if e.Result.Considered >= rows {
			scans++
		}
	}
	if found := tally.Estimate(nearest.Usual); found.High < recall || scans < queries/10 {
		t.Errorf("%.3f found, asked for %g, %d of %d by a scan", found.Recall, recall, scans, queries)
	}
}

// Under filters that allow many rows, sums of two templates have the recall: a walk that ends far
// from the query, or in one group, is followed by a scan of the sketches. So is the longer walk
// that follows where the nearest rows are excluded.
func TestFilterBetweenTemplates(t *testing.T) {
	const rows, queries, k = 31_000, 150, 10
	c, between := templateRows(t, rows)
	const most, unseen = 0, 1
	recalls := [...]float64{most: 0.97, unseen: 0.95}
	var tallies [len(recalls)]nearest.Tally
	var walks [len(recalls)]int
	for range queries {
		q := Query{Near: Vector(between()), K: k, Accuracy: Exact, Select: IDsOnly}
		var seen []any
		for _, h := range mustSearch(t, c, q).Hits {
			seen = append(seen, must(strconv.Atoi(h.ID)))
		}
		for i, where := range [...]filter.Expr{most: filter.Gte("i", rows/10), unseen: filter.Nin("i", seen...)} {
			q.Where, q.Accuracy = where, Exact
			truth := mustSearch(t, c, q).Hits
			q.Accuracy = Recall(recalls[i])
			got := mustSearch(t, c, q)
			tallies[i].Add(hitsOf(truth, got.Hits), len(truth))
			if !got.Exact {
				walks[i]++
			}
		}
	}
	for i, recall := range recalls {
		if found := tallies[i].Estimate(nearest.Usual); found.Recall < recall || walks[i] < queries/2 {
			t.Errorf("filter %d: %.3f found, asked for %g, %d of %d by the graph", i, found.Recall, recall, walks[i], queries)
		}
	}
}

// templateRows returns a collection of rows in groups around templates, all small integers, and a
// function that returns sums of two templates.
func templateRows(t *testing.T, rows int) (c *Collection, between func() []float32) {
	const dim, kinds = 100, 80
	opts := promising
	opts.tests.walkAlways = false
	c = collection(t, open(t, t.TempDir(), &opts), "c", Schema{Dim: dim, Metric: L2})
	r := rand.New(rand.NewPCG(0, dim))
	templates := make([][]float32, kinds)
	for i := range templates {
		templates[i] = make([]float32, dim)
		for j := range dim {
			if r.IntN(10) == 0 {
				templates[i][j] = 1
			}
		}
	}
	var docs []Document
	for i := range rows {
		x := slices.Clone(templates[int(math.Exp(math.Log(kinds+1)*r.Float64()))-1]) // by Zipf's law
		for range 3 {
			x[r.IntN(dim)] += float32(r.IntN(2))
		}
		docs = append(docs, Document{ID: fmt.Sprint(i), Vector: x, Metadata: Metadata{"i": i}})
	}
	upsert(t, c, docs...)
	if err := c.db.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c, func() []float32 {
		x := slices.Clone(templates[r.IntN(kinds)])
		for j, v := range templates[r.IntN(kinds)] {
			x[j] += v
		}
		return x
	}
}

// costs returns the cost of a beam search by the distances that it estimates and the sketches that
// it scans, together with the scan that follows if it gives up, the cost of a scan, and whether the
// planner takes the search.
func costs(t *testing.T, c *Collection, q Query) (walk, scan float64, planned bool) {
	t.Helper()
	ver, v, done, err := c.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	probe := &nearest.Probe{
		Scorer: score.New(v.Def.Schema.Metric, q.Near.(Vector)), Need: q.K, Least: engine.NegInf,
		Parts: make([]nearest.PartSearch, len(v.Parts)), Matched: v.Count,
	}
	switch a := q.Accuracy.(type) {
	case EF:
		probe.Goal.EF = int(a)
	case Recall:
		probe.Goal.Recall = float64(a)
	}
	if q.Where != nil {
		where, err := match.New(t.Context(), v, q.Where)
		if err != nil {
			t.Fatal(err)
		}
		if probe.Parts[0].Set, err = where.Rows(0); err != nil {
			t.Fatal(err)
		}
		probe.Matched = probe.Parts[0].Set.Count()
	}
	searcher := *c.db.searcher.Nearest
	s := nearest.Search{
		Searcher: &searcher, Version: ver, View: v, Workers: c.db.opts.Workers, Probes: []*nearest.Probe{probe},
	}
	for _, searcher.GraphAlways = range []bool{false, true} {
		s.Trace = &nearest.Trace{}
		if err := s.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		compared := 0
		for _, stage := range s.Trace.Stages {
			if stage.Name == "graph" {
				compared += stage.Rows
			}
		}
		planned = planned || compared > 0 && !searcher.GraphAlways
		scan = s.ScanCost(probe, 0)
		g, estimated := v.Parts[0].Segment.Graph.Get(), compared-probe.Sketched
		walk = g.Price(float64(estimated), probe.Need, probe.Parts[0].Set != nil) + g.SketchPrice(probe.Sketched)
		if !probe.UsesGraphs() {
			walk += scan
		}
	}
	return walk, scan, planned
}
