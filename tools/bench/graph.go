package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/vecbolt/vecbolt/db"
)

const graphQueries = 1000 // the first word vectors are frequent words, which are easy to find

var (
	graphRecalls = []float64{0.90, 0.95, 0.99}
	// Recalls requested from vecbolt.
	graphAsked = []float64{0.20, 0.30, 0.40, 0.50, 0.60, 0.70, 0.75, 0.80, 0.85, 0.88, 0.90, 0.92,
		0.94, 0.95, 0.96, 0.97, 0.98, 0.985, 0.99, 0.993, 0.995}
	// graphGoals are speeds relative to hnswlib at the recalls above: the speed of Glass, with its
	// best setting for each recall and the same number of threads, where both were measured (on
	// real vectors for 1,536 dimensions); otherwise 2.5 on 768 and 1,536 dimensions.
	graphGoals = map[string]map[string][]float64{
		synth768:  {modeOne: {2.85, 2.5, 3.13}, modeCallers: {2.63, 2.62, 3.74}},
		synth1536: {modeOne: {3.43, 3.80, 2.5}, modeCallers: {3.06, 2.87, 2.73}},
		glove:     {modeOne: {2.72, 2.90, 2.32}, modeCallers: {2.22, 2.29, 2.01}},
	}
)

func graphFigure(e *env, r *report) error {
	r.Title = "Approximate search, k = 10"
	r.note("Queries per second at a recall are interpolated, on logarithmic scales, between the settings around it: values of ef of hnswlib and of nprobe of FAISS, of which the best k_factor counts for each recall, recalls asked of vecbolt. Of each query the best time of all rounds counts on one thread, and of each setting the best round with two callers: other programs use the machine. Every round asks every contestant in turn, and once before what is measured.")
	r.note("\"asked\" is what an application asks for: a recall, which finds its own effort, or an exact answer. Recall is that of %d held-out queries.", graphQueries)
	return e.eachSet(r, e.graphSet, glove, sentences, synth768, synth1536)
}

// A rival is a peer in one configuration with one varying setting.
type rival struct {
	peer     string
	variant  string // distinguishes configurations of the same peer
	fixed    args
	turned   string
	settings []float64
}

var (
	graphEfs    = []float64{10, 14, 20, 28, 40, 56, 80, 112, 160, 224, 320, 448, 640}
	graphProbes = []float64{1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256}

	graphRivals = []rival{
		{peer: "hnswlib", turned: "ef", settings: graphEfs},
		{peer: "faiss", variant: "k_factor 4", fixed: args{"k_factor": 4}, turned: "nprobe", settings: graphProbes},
		{peer: "faiss", variant: "k_factor 10", fixed: args{"k_factor": 10}, turned: "nprobe", settings: graphProbes},
		{peer: "faiss", variant: "k_factor 20", fixed: args{"k_factor": 20}, turned: "nprobe", settings: graphProbes},
	}
)

// graphBuild returns the build arguments of a peer for vectors of dim, and describes them: for
// hnswlib the values that its documentation recommends, for FAISS the fastest configuration on
// these sets.
func graphBuild(peer string, dim int) (args, string) {
	if peer == "hnswlib" {
		return args{"m": 16, "construction": 200}, "HierarchicalNSW M=16 ef_construction=200"
	}
	factory := fmt.Sprintf("IVF512,PQ%dx4fs,RFlat", dim/2)
	return args{"factory": factory}, factory + ", k_factor 4, 10 and 20"
}

// A walker is a contestant: it answers the queries of a request with each of its settings.
type walker struct {
	settings []float64
	ask      func(r scanRequest, setting float64) (scanResult, error)
}

// A curve is the results of a contestant, by mode and setting.
type curve struct {
	settings []float64
	best     map[string]map[float64][]float64 // microseconds
	recall   map[float64]float64
}

func (e *env) graphSet(set *vectorSet, r *report) error {
	truth, err := e.truthOf(set, graphQueries, fmt.Sprintf("%s-graph-truth-%d.ivecs", set.name, graphQueries))
	if err != nil {
		return err
	}
	dir, err := e.scratchDir("vecbolt")
	if err != nil {
		return err
	}
	e.logf("%s: building the graph of vecbolt", set.name)
	took, err := buildVecbolt(dir, set)
	if err != nil {
		return err
	}
	r.add(measurement{Set: set.name, Who: "vecbolt", How: "build, 2 threads", Value: took, Unit: "s"})
	v := &vecboltScanner{dir: dir, dim: set.base.dim, queries: set.queries}
	walkers := map[string]walker{"vecbolt": {graphAsked, func(q scanRequest, recall float64) (scanResult, error) {
		return v.ask(q, db.Query{Accuracy: db.Recall(recall)}, q.first, q.n)
	}}}
	drivers, stop := e.start("hnswlib", "faiss")
	defer stop()
	for _, d := range drivers {
		e.logf("%s: building the index of %s", set.name, d.name)
		what, told := graphBuild(d.name, set.base.dim)
		maps.Copy(what, args{"base": set.basePath, "queries": set.queryPath, "threads": runtime.NumCPU()})
		var built struct{ Seconds float64 }
		if err := d.call("build", what, &built); err != nil {
			return err
		}
		d.settings += "; " + told
		for _, p := range e.peers {
			if p.Name == d.name {
				p.Setting = d.settings
			}
		}
		r.add(measurement{Set: set.name, Who: d.name, How: "build, 2 threads", Value: built.Seconds, Unit: "s", Ratio: built.Seconds / took})
		if d.name == "hnswlib" { // the other peers have no graphs
			r.atLeast(set.name+": times as fast to build as hnswlib", 1, built.Seconds/took)
		}
		for _, v := range graphRivals {
			if v.peer == d.name {
				walkers[v.peer+v.variant] = walker{v.settings, func(q scanRequest, setting float64) (res scanResult, err error) {
					how := args{v.turned: int(setting), "mode": q.mode, "first": q.first, "n": q.n, "k": q.k, "budget_ms": q.budget.Milliseconds()}
					maps.Copy(how, v.fixed)
					err = d.call("walk", how, &res)
					return res, err
				}}
			}
		}
	}
	curves := map[string]*curve{}
	for round := range e.rounds {
		e.logf("%s: round %d of %d", set.name, round+1, e.rounds)
		for name, walk := range walkers {
			c := curves[name]
			if c == nil {
				c = &curve{walk.settings, map[string]map[float64][]float64{modeOne: {}, modeCallers: {}}, map[float64]float64{}}
				curves[name] = c
			}
			if err := c.measure(walk.ask, truth); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	for name, c := range curves {
		for _, setting := range c.settings {
			e.logf("%s: %s, %v: recall %.4f, %.0f and %.0f queries/s", set.name, name, setting, c.recall[setting],
				1e6/mean(c.best[modeOne][setting]), 1e6/mean(c.best[modeCallers][setting]))
		}
	}
	for _, mode := range []string{modeOne, modeCallers} {
		for i, want := range graphRecalls {
			how := fmt.Sprintf("%s, recall %.2f", modeTitles[mode], want)
			us := curves["vecbolt"].at(mode, want)
			r.add(measurement{Set: set.name, Who: "vecbolt", How: how, Value: us, Unit: "queries/s"})
			for _, d := range drivers {
				theirs, best := 0.0, ""
				for _, v := range graphRivals {
					if v.peer == d.name {
						if fast := curves[v.peer+v.variant].at(mode, want); fast > theirs {
							theirs, best = fast, v.variant
						}
					}
				}
				if theirs == 0 {
					r.note("%s does not reach recall %.2f on %s.", d.name, want, set.name)
					continue
				}
				m := measurement{Set: set.name, Who: d.name, How: how, Value: theirs, Unit: "queries/s", Ratio: us / theirs}
				if best != "" {
					m.Who += ", " + best
				}
				r.add(m)
				goal := 1.0
				if goals := graphGoals[set.name]; d.name == "hnswlib" && goals != nil {
					goal = goals[mode][i]
				}
				r.atLeast(fmt.Sprintf("%s, %s: times as fast as %s", set.name, how, d.name), goal, us/theirs)
			}
		}
	}
	return e.graphPromises(set, v, truth, r)
}

// measure runs all queries with each setting.
func (c *curve) measure(ask func(scanRequest, float64) (scanResult, error), truth [][]int) error {
	// Warm up: another contestant ran last, and its memory is in the caches.
	if _, err := ask(scanRequest{mode: modeOne, n: graphQueries, k: truthK, budget: time.Minute}, c.settings[len(c.settings)/2]); err != nil {
		return err
	}
	for _, setting := range c.settings {
		for _, mode := range []string{modeOne, modeCallers} {
			res, err := ask(scanRequest{mode: mode, n: graphQueries, k: truthK, budget: time.Minute}, setting)
			if err != nil {
				return err
			}
			c.recall[setting] = recall(truth, res.IDs, truthK)
			best := c.best[mode][setting]
			if best == nil {
				best = slices.Repeat([]float64{math.Inf(1)}, len(res.US))
				c.best[mode][setting] = best
			}
			for i := range best {
				best[i] = min(best[i], res.US[i])
			}
		}
	}
	return nil
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// at returns the queries per second at a recall, or NaN if no setting reaches it.
func (c *curve) at(mode string, want float64) float64 {
	last := 0.0
	for _, setting := range c.settings {
		if c.recall[setting] < want {
			last = setting
			continue
		}
		fast := 1e6 / mean(c.best[mode][setting])
		if last == 0 { // the first setting is sufficient
			return fast
		}
		share := (want - c.recall[last]) / (c.recall[setting] - c.recall[last])
		before := 1e6 / mean(c.best[mode][last])
		return math.Exp((1-share)*math.Log(before) + share*math.Log(fast))
	}
	return math.NaN()
}

// graphPromises measures queries with a requested recall.
func (e *env) graphPromises(set *vectorSet, v *vecboltScanner, truth [][]int, r *report) error {
	type asked struct {
		how   string
		query db.Query
		mode  string
		n     int
	}
	var all []asked
	for _, mode := range []string{modeOne, modeCallers} {
		all = append(all, asked{"exact", db.Query{Accuracy: db.Exact}, mode, graphQueries / 6})
		for _, want := range []float64{0.90, 0.95, 0.98, 0.99} {
			all = append(all, asked{fmt.Sprintf("recall %.2f asked", want), db.Query{Accuracy: db.Recall(want)}, mode, graphQueries})
		}
	}
	best := make([][]float64, len(all))
	got := make([]float64, len(all))
	for range e.rounds {
		for i, a := range all {
			res, err := v.ask(scanRequest{mode: a.mode, n: a.n, k: truthK, budget: time.Minute}, a.query, 0, a.n)
			if err != nil {
				return err
			}
			got[i] = recall(truth, res.IDs, truthK)
			if best[i] == nil {
				best[i] = slices.Clone(res.US)
			}
			for j := range best[i] {
				best[i][j] = min(best[i][j], res.US[j])
			}
		}
	}
	for i, a := range all {
		r.add(measurement{Set: set.name, Who: "vecbolt", How: modeTitles[a.mode] + ", " + a.how, Value: 1e6 / mean(best[i]), Unit: "queries/s",
			Detail: map[string]float64{"recall@10": got[i]}})
		if want, ok := a.query.Accuracy.(db.Recall); ok && want != db.Exact && a.mode == modeOne {
			r.atLeast(set.name+": found where "+a.how, float64(want)-0.01, got[i])
		}
	}
	return nil
}

// buildVecbolt makes a database of the set with a column for filters, and returns the build time of
// its graph in seconds.
func buildVecbolt(dir string, s *vectorSet) (seconds float64, err error) {
	err = withCollection(dir, s.base.dim, &db.Options{Compaction: db.Manual}, func(ctx context.Context, d *db.DB, c *db.Collection) error {
		docs := func(yield func(db.Document, error) bool) {
			for i := range s.base.rows() {
				if !yield(db.Document{ID: strconv.Itoa(i), Vector: s.base.row(i), Metadata: db.Metadata{"c": int64(filterColumn(i))}}, nil) {
					return
				}
			}
		}
		if _, err := c.Load(ctx, docs, nil); err != nil {
			return err
		}
		start := time.Now()
		if err := d.Compact(ctx); err != nil {
			return err
		}
		seconds = time.Since(start).Seconds()
		res, err := c.Search(ctx, db.Query{Near: db.Vector(s.queries.row(0)), Accuracy: db.EF(10)})
		if err == nil && res.Exact {
			err = errors.New("no graph was used: " + res.Plan)
		}
		return err
	})
	return seconds, err
}
