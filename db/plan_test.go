package db

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/match"
	"github.com/vecbolt/vecbolt/internal/nearest"
	"github.com/vecbolt/vecbolt/internal/score"
)

// The planner takes the walk or the scan, whichever costs less by the distances
// that a walk turns out to estimate: at any selectivity and effort, in every
// kind of graph.
func TestPlanByWork(t *testing.T) {
	const queries, tolerance = 2, 1.6
	for _, set := range []struct {
		kind      string
		rows, dim int
		quickSize int64
	}{{"normal", 2500, 256, 0}, {"clustered", 5000, 256, 1}, {"clustered", 1500, 512, 0}} {
		t.Run(fmt.Sprintf("%s/%d", set.kind, set.dim), func(t *testing.T) {
			kind, rows, dim := set.kind, set.rows, set.dim
			opts := walking
			opts.quickSize = set.quickSize
			vdb := open(t, t.TempDir(), &opts)
			c := collection(t, vdb, "c", Schema{Dim: dim})
			rng := rand.New(rand.NewPCG(21, uint64(dim)))
			vecs := vectorsOf(kind, rng, rows+queries, dim)
			var docs []Document
			for i, v := range vecs[:rows] {
				docs = append(docs, Document{ID: fmt.Sprint(i), Vector: v, Metadata: Metadata{"i": i * 7919 % rows}})
			}
			upsert(t, c, docs...)
			if err := vdb.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
			walked, scanned := 0, 0
			for _, share := range []float64{1, 0.5, 0.2, 0.05, 0.01} {
				for _, effort := range []int{10, 20, 40, 160} {
					q := Query{K: 10, Accuracy: EF(effort)}
					if share < 1 {
						q.Where = filter.Lt("i", int(share*float64(rows)))
					}
					var walk, scan, graphs float64
					for _, vec := range vecs[rows:] {
						q.Near = Vector(vec)
						vdb.searcher.Nearest.GraphAlways = true
						w, s := costs(t, c, q)
						walk, scan = walk+w, scan+s
						vdb.searcher.Nearest.GraphAlways = false
						if e, err := c.Explain(t.Context(), q); err != nil {
							t.Fatal(err)
						} else if e.Plan[0].Plan == "graph" {
							graphs++
						}
					}
					switch {
					case graphs > 0 && walk > tolerance*scan:
						t.Errorf("%v of the rows, effort %d: walks for %.2g times the cost of scans", share, effort, walk/scan)
					case graphs == 0 && scan > tolerance*walk:
						t.Errorf("%v of the rows, effort %d: scans for %.2g times the cost of walks", share, effort, scan/walk)
					case graphs > 0:
						walked++
					default:
						scanned++
					}
				}
			}
			if walked < 2 || scanned < 5 {
				t.Errorf("%d walks and %d scans: there was no choice", walked, scanned)
			}
		})
	}
}

// costs returns the cost of a beam search by the distances that it estimates, and
// the cost of a scan.
func costs(t *testing.T, c *Collection, q Query) (walk, scan float64) {
	t.Helper()
	ver, v, done, err := c.open()
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	probe := &nearest.Probe{
		Scorer: score.New(v.Def.Schema.Metric, q.Near.(Vector)), Goal: nearest.Goal{EF: int(q.Accuracy.(EF))},
		Need: q.K, Least: engine.NegInf, Parts: make([]nearest.PartSearch, len(v.Parts)), Matched: v.Count,
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
	s := nearest.Search{
		Searcher: c.db.searcher.Nearest, Version: ver, View: v, Workers: c.db.opts.Workers,
		Probes: []*nearest.Probe{probe}, Trace: &nearest.Trace{},
	}
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	estimated := 0
	for _, stage := range s.Trace.Stages {
		if stage.Name == "graph" {
			estimated += stage.Rows
		}
	}
	price := v.Parts[0].Segment.Graph.Get().Price(probe.Parts[0].Set != nil)
	return float64(estimated) * price, s.ScanCost(probe, 0)
}
