package db

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/nearest"
)

// The planner takes the walk or the scan, whichever costs less by the distances
// that a walk turns out to estimate: at any selectivity and effort, in both
// layouts of graphs.
func TestPlanByWork(t *testing.T) {
	const queries, tolerance = 2, 1.6
	for _, set := range []struct {
		kind      string
		rows, dim int
	}{{"normal", 2500, 256}, {"clustered", 1500, 512}} {
		t.Run(fmt.Sprint(set.dim), func(t *testing.T) {
			kind, rows, dim := set.kind, set.rows, set.dim
			opts := walking
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
						vdb.nearest.GraphAlways = true
						w, s := costs(t, c, q)
						walk, scan = walk+w, scan+s
						vdb.nearest.GraphAlways = false
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
	s := c.db.newSearch(t.Context(), ver, v)
	s.near.Trace = &nearest.Trace{}
	if _, err := s.answer(t.Context(), []Query{q}); err != nil {
		t.Fatal(err)
	}
	p := s.queries[0]
	estimated := 0
	for _, stage := range s.near.Trace.Stages {
		if stage.Name == "graph" {
			estimated += stage.Rows
		}
	}
	price := v.Parts[0].Segment.Graph.Get().Price(p.Parts[0].Set != nil)
	return float64(estimated) * price, s.near.ScanCost(&p.Probe, 0)
}
