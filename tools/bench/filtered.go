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

// checkFilters returns an error if a filter leaves fewer of the rows than a query asks for: recall
// has no truth then.
func checkFilters(rows int) error {
	for _, percent := range filteredShares {
		matched := 0
		for i := range rows {
			if filterColumn(i) < int(percent*10) {
				matched++
			}
		}
		if matched < truthK {
			return fmt.Errorf("the filter of %g %% matches %d of %d rows, and each query asks for %d", percent, matched, rows, truthK)
		}
	}
	return nil
}

func filteredFigure(e *env, r *report) error {
	r.Title = "Search under a filter, one query at a time on one thread, k = 10"
	r.note("Filters are \"less than\" on an integer column that has nothing to do with the vectors. Microseconds are the median of the best times of each query over all rounds; every round asks every contestant in turn.")
	r.note("Vecbolt is asked for a recall of 0.99 and, beside it, for the exact answer; peers have the settings named below, with an index of the column where they have such; those that have an ef get the least one whose recall is %v. The recall of each is that of all held-out queries, or of as many as it answers within the budget. usearch's client takes no filters; chromem-go only equality of strings.", filteredRecall)
	return e.eachSet(r, e.filteredSet, glove, synth768)
}

// A filteredFunc answers queries under the filter that a percentage of the rows match.
type filteredFunc func(q scanRequest, percent float64) (scanResult, error)

// filteredExact is the contestant whose answers are the truth.
const filteredExact = "vecbolt, exact"

// A filteredComparison asks Vecbolt and its peers on one set.
type filteredComparison struct {
	*env
	set    *vectorSet
	report *report
	names  []string // of the contestants, Vecbolt first
	ask    map[string]filteredFunc
	efs    map[string][]int // the settings of a peer to choose from
	ef     map[string]int   // the one that is chosen for the filter
}

func (e *env) filteredSet(set *vectorSet, r *report) error {
	if err := checkFilters(set.base.rows()); err != nil {
		return fmt.Errorf("%s: %w", set.name, err)
	}
	c := &filteredComparison{env: e, set: set, report: r, ask: map[string]filteredFunc{}, efs: map[string][]int{}, ef: map[string]int{}}
	if err := c.loadVecbolt(); err != nil {
		return err
	}
	drivers, stop := e.start("hnswlib", "faiss", "sqlite-vec", "lancedb", "zvec")
	defer stop()
	for _, d := range drivers {
		if err := c.loadPeer(d); err != nil {
			return err
		}
	}
	for _, percent := range filteredShares {
		if err := c.measure(percent); err != nil {
			return err
		}
	}
	return nil
}

func (c *filteredComparison) loadVecbolt() error {
	dir, err := c.scratchDir("vecbolt")
	if err != nil {
		return err
	}
	c.logf("%s: loading vecbolt", c.set.name)
	if _, err := buildVecbolt(dir, c.set); err != nil {
		return err
	}
	v := &vecboltScanner{dir: dir, dim: c.set.base.dim, queries: c.set.queries}
	search := func(how db.Query) filteredFunc {
		return func(q scanRequest, percent float64) (scanResult, error) {
			how.Where = filter.Lt("c", int(percent*10))
			return v.ask(q, how, q.first, filteredWarm)
		}
	}
	c.names = []string{"vecbolt", filteredExact}
	c.ask["vecbolt"] = search(db.Query{Accuracy: db.Recall(filteredRecall)})
	c.ask[filteredExact] = search(db.Query{Accuracy: db.Exact})
	return nil
}

func (c *filteredComparison) loadPeer(d *driver) error {
	c.logf("%s: loading %s", c.set.name, d.name)
	dir, err := c.scratchDir(d.name)
	if err != nil {
		return err
	}
	var loaded struct {
		Settings string
		Efs      []int // settings to choose from
	}
	if err := d.call("load_filtered", args{"base": c.set.basePath, "queries": c.set.queryPath, "dir": dir}, &loaded); err != nil {
		return err
	}
	for _, p := range c.peers {
		if p.Name == d.name {
			p.Setting = d.settings + "; " + loaded.Settings
		}
	}
	c.names = append(c.names, d.name)
	c.efs[d.name] = loaded.Efs
	c.ask[d.name] = func(q scanRequest, percent float64) (scanResult, error) {
		a := args{"below": int(percent * 10)}
		if len(loaded.Efs) > 0 {
			a["ef"] = c.ef[d.name]
		}
		return d.ask("filtered", q, a)
	}
	return nil
}

// answers lets a contestant answer a request.
func (c *filteredComparison) answers(name string, q scanRequest, percent float64) (scanResult, error) {
	res, err := c.ask[name](q, percent)
	if err != nil {
		return scanResult{}, fmt.Errorf("%s: %w", name, err)
	}
	return res, nil
}

// measure compares all contestants under the filter that a percentage of the rows match.
func (c *filteredComparison) measure(percent float64) error {
	c.logf("%s: filter of %g %%", c.set.name, percent)
	request := scanRequest{mode: modeOne, n: c.set.queries.rows(), k: truthK, budget: c.budget}
	whole := request
	whole.budget = 10 * time.Minute
	truth, err := c.answers(filteredExact, whole, percent)
	if err != nil {
		return err
	}
	if err := c.chooseEFs(request, percent, truth.IDs); err != nil {
		return err
	}
	best := map[string]scanResult{}
	for range c.rounds {
		for _, name := range c.names {
			res, err := c.answers(name, request, percent)
			if err != nil {
				return err
			}
			best[name] = best[name].best(res)
		}
	}
	c.compare(percent, truth.IDs, best)
	return nil
}

// chooseEFs gives each peer the least ef that finds enough under the filter, or its largest one.
func (c *filteredComparison) chooseEFs(request scanRequest, percent float64, truth [][]int) error {
	for name, efs := range c.efs {
		for _, c.ef[name] = range efs {
			res, err := c.answers(name, request, percent)
			if err != nil {
				return err
			}
			if recall(truth, res.IDs, truthK) >= filteredRecall {
				break
			}
		}
	}
	return nil
}

// best returns the best time of each query that both results have, in the order of the queries. The
// zero value has none yet.
func (s scanResult) best(other scanResult) scanResult {
	if s.US == nil {
		return scanResult{slices.Clone(other.US), other.IDs}
	}
	n := min(len(s.US), len(other.US)) // answered within the budget
	s.US, s.IDs = s.US[:n], s.IDs[:n]
	for i := range s.US {
		s.US[i] = min(s.US[i], other.US[i])
	}
	return s
}

func (c *filteredComparison) compare(percent float64, truth [][]int, best map[string]scanResult) {
	set, r := c.set, c.report
	ours := median(best["vecbolt"].US)
	for _, name := range c.names {
		m := measurement{Set: set.name, Who: name, How: fmt.Sprintf("filter of %g %%", percent), Value: median(best[name].US), Unit: "us",
			Detail: map[string]float64{"recall@10": recall(truth, best[name].IDs, truthK)}}
		if c.ef[name] > 0 {
			m.Detail["ef"] = float64(c.ef[name])
		}
		if name != "vecbolt" && name != filteredExact {
			m.Ratio = m.Value / ours
			r.atLeast(fmt.Sprintf("%s, %g %%: times as fast as %s", set.name, percent, name), 1, m.Ratio)
		}
		r.add(m)
	}
	r.atLeast(fmt.Sprintf("%s, %g %%: recall", set.name, percent), filteredRecall, recall(truth, best["vecbolt"].IDs, truthK))
}
