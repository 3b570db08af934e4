package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
)

const (
	filteredRecall = 0.99
	filteredWarm   = 200 // queries
)

// filteredShares are the percentages of the rows that match.
var filteredShares = []float64{50, 10, 1, 0.1}

// filterColumn is the integer that the filters test for row i: from 0 to 999, independent of the
// vectors. The drivers compute the same.
func filterColumn(i int) int { return i * 7919 % 1000 }

func filteredFigure(e *env, r *report) error {
	r.Title = "Search under a filter, one query at a time on one thread, k = 10"
	r.note("Filters are \"less than\" on an integer column that has nothing to do with the vectors. Microseconds are the median of the best times of each query over all rounds; every round asks every contestant in turn.")
	r.note("Vecbolt is asked for a recall of 0.99 and, beside it, for the exact answer; peers have the settings named below, with an index of the column where they have such; those that have an ef get the least one whose recall is %v. The recall of each is that of all held-out queries, or of as many as it answers within the budget. usearch's client takes no filters; chromem-go only equality of strings.", filteredRecall)
	return e.eachSet(r, e.filteredSet, glove, synth768)
}

func (e *env) filteredSet(set *vectorSet, r *report) error {
	dir, err := e.scratchDir("vecbolt")
	if err != nil {
		return err
	}
	e.logf("%s: loading vecbolt", set.name)
	if _, err := buildVecbolt(dir, set); err != nil {
		return err
	}
	v := &vecboltScanner{dir: dir, dim: set.base.dim, queries: set.queries}
	ask := func(how db.Query) func(scanRequest, float64) (scanResult, error) {
		return func(q scanRequest, share float64) (scanResult, error) {
			how.Where = filter.Lt("c", int(share*10))
			return v.ask(q, how, q.first, filteredWarm)
		}
	}
	const exact = "vecbolt, exact"
	names := []string{"vecbolt", exact}
	contestants := map[string]func(scanRequest, float64) (scanResult, error){"vecbolt": ask(db.Query{Accuracy: db.Recall(filteredRecall)}), exact: ask(db.Query{Accuracy: db.Exact})}
	drivers, stop := e.start("hnswlib", "faiss", "sqlite-vec", "lancedb", "zvec")
	defer stop()
	efs, ef := map[string][]int{}, map[string]int{} // all settings, and the chosen one for a filter
	for _, d := range drivers {
		e.logf("%s: loading %s", set.name, d.name)
		dir, err := e.scratchDir(d.name)
		if err != nil {
			return err
		}
		var loaded struct {
			Settings string
			Efs      []int // settings to choose from
		}
		if err := d.call("load_filtered", args{"base": set.basePath, "queries": set.queryPath, "dir": dir}, &loaded); err != nil {
			return err
		}
		for _, p := range e.peers {
			if p.Name == d.name {
				p.Setting = d.settings + "; " + loaded.Settings
			}
		}
		names = append(names, d.name)
		efs[d.name] = loaded.Efs
		contestants[d.name] = func(q scanRequest, share float64) (scanResult, error) {
			a := args{"below": int(share * 10)}
			if len(loaded.Efs) > 0 {
				a["ef"] = ef[d.name]
			}
			return d.ask("filtered", q, a)
		}
	}
	type figure struct {
		best []float64
		ids  [][]int
	}
	for _, share := range filteredShares {
		e.logf("%s: filter of %g %%", set.name, share)
		request := scanRequest{mode: modeOne, n: set.queries.rows(), k: truthK, budget: e.budget}
		whole := request
		whole.budget = 10 * time.Minute
		truth, err := contestants[exact](whole, share)
		if err != nil {
			return fmt.Errorf("%s: %w", exact, err)
		}
		for name, some := range efs {
			for _, ef[name] = range some {
				res, err := contestants[name](request, share)
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				if recall(truth.IDs, res.IDs, truthK) >= filteredRecall {
					break
				}
			}
		}
		got := map[string]*figure{}
		for range e.rounds {
			for _, name := range names {
				res, err := contestants[name](request, share)
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				f := got[name]
				if f == nil {
					f = &figure{best: slices.Clone(res.US), ids: res.IDs}
					got[name] = f
				}
				n := min(len(f.best), len(res.US)) // answered within the budget
				f.best, f.ids = f.best[:n], f.ids[:n]
				for i := range f.best {
					f.best[i] = min(f.best[i], res.US[i])
				}
			}
		}
		ours := median(got["vecbolt"].best)
		for _, name := range names {
			f := got[name]
			m := measurement{Set: set.name, Who: name, How: fmt.Sprintf("filter of %g %%", share), Value: median(f.best), Unit: "us",
				Detail: map[string]float64{"recall@10": recall(truth.IDs, f.ids, truthK)}}
			if ef[name] > 0 {
				m.Detail["ef"] = float64(ef[name])
			}
			if name != "vecbolt" && name != exact {
				m.Ratio = m.Value / ours
				r.atLeast(fmt.Sprintf("%s, %g %%: times as fast as %s", set.name, share, name), 1, m.Ratio)
			}
			r.add(m)
		}
		r.atLeast(fmt.Sprintf("%s, %g %%: recall", set.name, share), filteredRecall, recall(truth.IDs, got["vecbolt"].ids, truthK))
	}
	return nil
}
