package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vecbolt/vecbolt/db"
)

const (
	graphQueries = 1000 // the first word vectors are frequent words, which are easy to find
	graphBatch   = 50   // queries per call of a Python package
	graphK       = 100  // most results of a query
	// Larger settings are not asked once this recall is reached. It is above graphRecalls.
	graphEnough = 0.995
)

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
	if e.k > graphK {
		return fmt.Errorf("-k %d: at most %d here", e.k, graphK)
	}
	r.Title = fmt.Sprintf("Approximate search, k = %d", e.k)
	if e.k != truthK {
		r.Figure += fmt.Sprintf("-k%d", e.k)
	}
	r.note("Queries per second at a recall are interpolated, on logarithmic scales, between the settings around it: values of nprobe of FAISS, of ef of the other peers, and of ef or of the recall asked of vecbolt. For each recall the best counts, of a peer with several indexes or k_factors too. Of each %d queries the best time of all rounds counts on one thread, and of each setting the best round with two callers: other programs use the machine. Every round asks every contestant in turn; its first answers, while caches fill, are not counted.", graphBatch)
	r.note("Vecbolt, and the peers from Debian, are asked query by query; packages of PyPI in calls of %d queries, but FAISS, which works on the queries of a call together, query by query.", graphBatch)
	r.note("\"asked\" is what an application asks for: a recall, or an exact answer. Recall is that of %d held-out queries.", graphQueries)
	names := []string{glove, sentences, synth768, synth1536}
	if slices.Contains(e.sets, synth384m) { // takes too long for every run
		names = append(names, synth384m)
	}
	return e.eachSet(r, e.graphSet, names...)
}

// A peerIndex is one index of a peer: how it is built, and the settings that it is asked with.
type peerIndex struct {
	label     string // of the build, in the report
	build     args
	parameter string // the setting that varies
	settings  []float64
	variants  []peerVariant
}

// A peerVariant is a contestant: an index with settings that do not vary.
type peerVariant struct {
	name  string
	fixed args
}

var (
	graphEfs    = []float64{10, 14, 20, 28, 40, 56, 80, 112, 160, 224, 320, 448, 640}
	graphProbes = []float64{1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256}
	graphPeers  = []string{"hnswlib", "faiss", "hnswlib-pypi", "symphonyqg", "faiss-pypi", "glass"}
)

// efs returns the widths of beams for k results.
func efs(k int) []float64 {
	all := make([]float64, len(graphEfs))
	for i, ef := range graphEfs {
		all[i] = ef * float64(k) / 10
	}
	return all
}

// graphIndexes returns the indexes of a peer for a set. Of hnswlib from Debian it is the one that
// its documentation recommends, of FAISS the fastest on these sets, of the others a grid. Large
// sets get a smaller grid: builds take minutes there, and all indexes are in memory at once.
func graphIndexes(peer string, rows, dim, k int) []peerIndex {
	large := rows >= 500_000
	var all []peerIndex
	add := func(label string, build args, variants ...peerVariant) {
		if len(variants) == 0 {
			variants = []peerVariant{{name: label}}
		}
		all = append(all, peerIndex{label, build, "ef", efs(k), variants})
	}
	switch peer {
	case "hnswlib":
		add("HierarchicalNSW M=16 ef_construction=200", args{"m": 16, "construction": 200}, peerVariant{})
	case "faiss", "faiss-pypi":
		lists := 512
		if large {
			lists = 4096
		}
		index := peerIndex{parameter: "nprobe", settings: graphProbes}
		index.label = fmt.Sprintf("IVF%d,PQ%dx4fs,RFlat", lists, dim/2)
		index.build = args{"factory": index.label}
		for _, factor := range []int{4, 10, 20} {
			index.variants = append(index.variants, peerVariant{fmt.Sprintf("k_factor %d", factor), args{"k_factor": factor}})
		}
		all = append(all, index)
	case "hnswlib-pypi":
		for _, m := range []int{16, 32} {
			for _, construction := range []int{200, 500} {
				if !large || m == 16 == (construction == 200) {
					add(fmt.Sprintf("M=%d ef_construction=%d", m, construction), args{"m": m, "construction": construction})
				}
			}
		}
	case "symphonyqg":
		for _, shape := range []struct{ degree, bits int }{{32, 0}, {64, 0}, {32, 8}} {
			if large && shape.degree != 32 {
				continue
			}
			label := fmt.Sprintf("degree %d", shape.degree)
			if shape.bits > 0 {
				label += fmt.Sprintf(", %d bits", shape.bits)
			}
			add(label, args{"degree": shape.degree, "bits": shape.bits, "construction": 200, "metric": "l2"})
		}
	case "glass":
		for _, codes := range []string{"SQ8U", "SQ4U"} {
			add("R=32 L=200 "+codes+" and FP32", args{"degree": 32, "construction": 200, "codes": codes, "refined": "FP32"})
		}
	}
	return all
}

// built is the answer of a driver to the operation build.
type built struct {
	Seconds float64
	Kept    bool // from an earlier run
}

// A graphContestant answers the queries of a request with each of its settings.
type graphContestant struct {
	settings []float64
	ask      func(r scanRequest, setting float64) (scanResult, error)
}

// A curve is the results of a contestant, by mode and setting.
type curve struct {
	settings []float64
	best     map[string]map[float64][]float64 // microseconds
	recall   map[float64]float64
}

func newCurve(settings []float64) *curve {
	return &curve{settings, map[string]map[float64][]float64{modeOne: {}, modeCallers: {}}, map[float64]float64{}}
}

// A graphComparison measures Vecbolt and its peers on one set.
type graphComparison struct {
	*env
	set         *vectorSet
	report      *report
	took        float64                    // seconds that Vecbolt built its graph, 0 if it builds none
	drivers     []*driver                  // of the peers
	variants    map[string][]string        // of Vecbolt and of the peers
	contestants map[string]graphContestant // by name and variant
	curves      map[string]*curve          // likewise
}

func (e *env) graphSet(set *vectorSet, r *report) error {
	name := fmt.Sprintf("%s-graph-truth-%d.ivecs", set.name, graphQueries)
	if e.k != truthK {
		name = fmt.Sprintf("%s-graph-truth-%d-k%d.ivecs", set.name, graphQueries, e.k)
	}
	truth, err := e.truthOf(set, graphQueries, e.k, name)
	if err != nil {
		return err
	}
	c := &graphComparison{env: e, set: set, report: r, variants: map[string][]string{}, contestants: map[string]graphContestant{}}
	v, err := c.buildVecbolt()
	if err != nil {
		return err
	}
	drivers, stop := e.start(graphPeers...)
	defer stop()
	c.drivers = drivers
	for _, d := range drivers {
		if err := c.buildPeer(d); err != nil {
			return err
		}
	}
	if err := c.measure(truth); err != nil {
		return err
	}
	c.compare()
	for _, d := range drivers {
		if err := e.callCost(set, d, r); err != nil {
			return err
		}
	}
	return e.graphPromises(set, v, truth, r)
}

// buildVecbolt builds Vecbolt's graph and makes it a contestant.
func (c *graphComparison) buildVecbolt() (*vecboltScanner, error) {
	set, r := c.set, c.report
	dir, err := c.scratchDir("vecbolt")
	if err != nil {
		return nil, err
	}
	c.logf("%s: building the graph of vecbolt", set.name)
	took, err := buildVecbolt(dir, set)
	switch {
	case errors.Is(err, errNoGraph):
		r.note("Vecbolt builds no graph for %s, whose vectors have %d components together; from three million on it does. It answers every query exactly, by a scan.", set.name, len(set.base.data))
	case err != nil:
		return nil, err
	default:
		c.took = took
		r.add(measurement{Set: set.name, Who: "vecbolt", How: "build, 2 threads", Value: took, Unit: "s"})
	}
	v := &vecboltScanner{dir: dir, dim: set.base.dim, queries: set.queries}
	c.contest("vecbolt", "", graphContestant{graphAsked, func(q scanRequest, recall float64) (scanResult, error) {
		return v.ask(q, db.Query{Accuracy: db.Recall(recall)}, q.first, q.n)
	}})
	c.contest("vecbolt", "ef", graphContestant{efs(c.k), func(q scanRequest, ef float64) (scanResult, error) {
		return v.ask(q, db.Query{Accuracy: db.EF(ef)}, q.first, q.n)
	}})
	return v, nil
}

// contest makes a variant of Vecbolt or of a peer a contestant.
func (c *graphComparison) contest(who, variant string, contestant graphContestant) {
	c.variants[who] = append(c.variants[who], variant)
	c.contestants[who+variant] = contestant
}

// buildPeer builds all indexes of a peer, and makes each variant of each a contestant.
func (c *graphComparison) buildPeer(d *driver) error {
	set, r := c.set, c.report
	var labels []string
	for i, index := range graphIndexes(d.name, set.base.rows(), set.base.dim, c.k) {
		c.logf("%s: building %s of %s", set.name, index.label, d.name)
		what := maps.Clone(index.build)
		maps.Copy(what, args{"index": i, "base": set.basePath, "queries": set.queryPath, "threads": runtime.NumCPU()})
		if c.keep {
			folder := filepath.Join(c.cache, "indexes-"+set.name)
			if err := os.MkdirAll(folder, 0o777); err != nil {
				return err
			}
			what["keep"] = folder
		}
		var built built
		if err := d.call("build", what, &built); err != nil {
			return err
		}
		who := d.name
		if len(index.variants) == 1 && index.variants[0].name != "" {
			who += ", " + index.variants[0].name
		}
		how := "build, 2 threads"
		if built.Kept {
			how += ", in an earlier run"
		}
		m := measurement{Set: set.name, Who: who, How: how, Value: built.Seconds, Unit: "s"}
		if c.took > 0 && !built.Kept { // a ratio is of one run
			m.Ratio = built.Seconds / c.took
		}
		r.add(m)
		if c.took > 0 && d.name == "hnswlib" {
			r.atLeast(set.name+": times as fast to build as hnswlib", 1, built.Seconds/c.took)
		}
		labels = append(labels, index.label)
		for _, variant := range index.variants {
			c.contest(d.name, variant.name, graphContestant{index.settings, func(q scanRequest, setting float64) (res scanResult, err error) {
				err = d.call("walk", index.how(i, variant, q, setting), &res)
				return res, err
			}})
		}
	}
	d.settings += "; " + strings.Join(labels, "; ")
	for _, p := range c.peers {
		if p.Name == d.name {
			p.Setting = d.settings
		}
	}
	return nil
}

// measure asks all contestants in turn, round after round.
func (c *graphComparison) measure(truth [][]int) error {
	c.curves = map[string]*curve{}
	for round := range c.rounds {
		c.logf("%s: round %d of %d", c.set.name, round+1, c.rounds)
		for name, contestant := range c.contestants {
			curve := c.curves[name]
			if curve == nil {
				curve = newCurve(contestant.settings)
				c.curves[name] = curve
			}
			if err := curve.measure(contestant.ask, truth, c.k); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	for name, curve := range c.curves {
		for _, setting := range curve.settings {
			if curve.best[modeOne][setting] == nil { // not asked: a smaller one was enough
				continue
			}
			c.logf("%s: %s, %v: recall %.4f, %.0f and %.0f queries/s", c.set.name, name, setting, curve.recall[setting],
				1e6/mean(curve.best[modeOne][setting]), 1e6/mean(curve.best[modeCallers][setting]))
		}
	}
	return nil
}

// compare reports the queries per second at each recall, of each peer those of the best variant.
func (c *graphComparison) compare() {
	set, r := c.set, c.report
	var behind []string
	for _, mode := range []string{modeOne, modeCallers} {
		for i, want := range graphRecalls {
			how := fmt.Sprintf("%s, recall %.2f", modeTitles[mode], want)
			us, best := c.fastest("vecbolt", mode, want)
			m := measurement{Set: set.name, Who: "vecbolt", How: how, Value: us, Unit: "queries/s"}
			if best != "" {
				m.Who += ", " + best
			}
			r.add(m)
			for _, d := range c.drivers {
				theirs, best := c.fastest(d.name, mode, want)
				if theirs == 0 {
					r.note("%s does not reach recall %.2f on %s.", d.name, want, set.name)
					continue
				}
				m := measurement{Set: set.name, Who: d.name, How: how, Value: theirs, Unit: "queries/s", Ratio: us / theirs}
				if best != "" {
					m.Who += ", " + best
				}
				r.add(m)
				if us < theirs {
					behind = append(behind, fmt.Sprintf("%s × %s (%s)", number(us/theirs), d.name, how))
				}
				goal := 1.0
				if goals := graphGoals[set.name]; d.name == "hnswlib" && goals != nil && c.k == truthK {
					goal = goals[mode][i]
				}
				r.atLeast(fmt.Sprintf("%s, %s: times as fast as %s", set.name, how, d.name), goal, us/theirs)
			}
		}
	}
	if len(behind) > 0 {
		r.note("On %s Vecbolt is behind: %s.", set.name, strings.Join(behind, ", "))
	}
}

// fastest returns the most queries per second of Vecbolt or of a peer at a recall, and the variant
// that has them; 0 if none reaches it.
func (c *graphComparison) fastest(who, mode string, recall float64) (fast float64, variant string) {
	for _, v := range c.variants[who] {
		if f := c.curves[who+v].at(mode, recall); f > fast {
			fast, variant = f, v
		}
	}
	return fast, variant
}

// how returns the arguments of a request to the driver of a peer.
func (index peerIndex) how(number int, variant peerVariant, q scanRequest, setting float64) args {
	how := args{index.parameter: int(setting), "index": number, "mode": q.mode, "first": q.first, "n": q.n, "k": q.k, "budget_ms": q.budget.Milliseconds(), "batch": graphBatch}
	maps.Copy(how, variant.fixed)
	return how
}

// callCost notes the time of a call of a Python package, and what its two callers are.
func (e *env) callCost(set *vectorSet, d *driver, r *report) error {
	if !slices.ContainsFunc(e.peers, func(p *peer) bool { return p.Name == d.name && p.pypi != "" }) {
		return nil
	}
	index := graphIndexes(d.name, set.base.rows(), set.base.dim, e.k)[0]
	var cost struct {
		US               float64
		Released, Single bool
	}
	if err := d.call("overhead", index.how(0, index.variants[0], scanRequest{n: 200, k: e.k}, index.settings[0]), &cost); err != nil {
		return err
	}
	callers := "one call for all queries on two threads of the library"
	if cost.Released {
		callers = "two threads of Python; the library releases the interpreter's lock"
	}
	batch := graphBatch
	if cost.Single {
		batch, callers = 1, "two processes"
	}
	r.note("%s on %s: a call answers %s and costs %.2f µs a query. Two callers are %s.", d.name, set.name, queriesOf(batch), cost.US, callers)
	return nil
}

func queriesOf(n int) string {
	if n == 1 {
		return "a query"
	}
	return fmt.Sprintf("%d queries", n)
}

// measure runs all queries with each setting.
func (c *curve) measure(ask func(scanRequest, float64) (scanResult, error), truth [][]int, k int) error {
	// Warm up: another contestant ran last, and its memory is in the caches.
	if _, err := ask(scanRequest{mode: modeOne, n: graphQueries, k: k, budget: time.Minute}, c.settings[len(c.settings)/2]); err != nil {
		return err
	}
	for _, setting := range c.settings {
		for _, mode := range []string{modeOne, modeCallers} {
			res, err := ask(scanRequest{mode: mode, n: graphQueries, k: k, budget: time.Minute}, setting)
			if err != nil {
				return err
			}
			c.recall[setting] = recall(truth, res.IDs, k)
			us := res.US
			if len(us) == len(res.IDs) {
				us = batched(us)
			}
			best := c.best[mode][setting]
			if best == nil {
				best = slices.Repeat([]float64{math.Inf(1)}, len(us))
				c.best[mode][setting] = best
			}
			if len(us) != len(best) {
				return errors.New("a round answered fewer queries")
			}
			for i := range best {
				best[i] = min(best[i], us[i])
			}
		}
		if c.recall[setting] >= graphEnough {
			break
		}
	}
	return nil
}

// batched returns the mean of every graphBatch values, as drivers that are asked in batches do: the
// best of several rounds is better for single queries.
func batched(us []float64) []float64 {
	var means []float64
	for batch := range slices.Chunk(us, graphBatch) {
		means = append(means, mean(batch))
	}
	return means
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
			res, err := v.ask(scanRequest{mode: a.mode, n: a.n, k: e.k, budget: time.Minute}, a.query, 0, a.n)
			if err != nil {
				return err
			}
			got[i] = recall(truth, res.IDs, e.k)
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
			Detail: map[string]float64{fmt.Sprintf("recall@%d", e.k): got[i]}})
		if want, ok := a.query.Accuracy.(db.Recall); ok && want != db.Exact && a.mode == modeOne {
			r.atLeast(set.name+": found where "+a.how, float64(want)-0.01, got[i])
		}
	}
	return nil
}

var errNoGraph = errors.New("no graph was used")

// buildVecbolt makes a database of the set with a column for filters, and returns the build time of
// its graph in seconds. It fails with errNoGraph if the set is too small for a graph.
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
			err = fmt.Errorf("%w: %s", errNoGraph, res.Plan)
		}
		return err
	})
	return seconds, err
}
