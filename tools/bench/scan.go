package main

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"time"
)

// The modes of a scan.
const (
	modeOne     = "one"     // one query at a time on one thread
	modeSplit   = "split"   // one query at a time on two threads
	modeCallers = "callers" // two queries at a time; reported as elapsed time per query
)

var modeTitles = map[string]string{
	modeOne: "1 thread", modeSplit: "2 threads, one query", modeCallers: "2 threads, two callers",
}

// errUnsupported means that a contestant does not support a request; its line is left out.
var errUnsupported = errors.New("not supported")

type scanRequest struct {
	mode     string
	first, n int // queries [first, first+n)
	k        int
	budget   time.Duration // no new query starts after it, but at least three are answered
}

// scanResult holds the microseconds of each query, or with two callers only the mean, and the row
// found.
type scanResult struct {
	US  []float64 `json:"us"`
	IDs [][]int   `json:"ids"`
}

// scanner is a contestant of the scan figure.
type scanner interface {
	title() string
	load(s *vectorSet, dir string) error // dir is an empty directory for the contestant
	scan(r scanRequest) (scanResult, error)
	close()
}

// scanGoals are the target speeds of Vecbolt relative to each peer; libraries is for peers that
// only keep vectors in memory, by set.
var (
	scanGoals = map[string]float64{"chromem-go": 20, "lancedb": 20, "sqlite-vec": 20}
	libraries = map[string]float64{glove: 5, sentences: 3.5, synth768: 3.5}
)

// streamGoal is the target share of the streaming sum's bandwidth.
const streamGoal = 0.85

func scanFigure(e *env, r *report) error {
	r.Title = "Exact search, one query at a time, k = 10"
	r.note("Microseconds are medians over all queries of all rounds; every round asks every contestant in turn, so that a busy moment of the machine hits all of them.")
	r.note("Vecbolt is opened anew for every line of every round and asked up to %d other queries first: a block of a file is verified when it is first used. The others stay loaded.", scanWarm)
	r.note("GB/s is the size of the float32 vectors divided by the median latency. The yardstick is the sum of all bytes of Vecbolt's own segment files, mapped as Vecbolt maps them; its fastest loop counts.")
	r.note("Ratios compare the same way of asking. On two threads the goal holds for one query shared by two threads and for two callers, whichever is worse for Vecbolt; a peer that cannot share a query is compared by callers alone.")
	return e.eachSet(r, e.scanSet, glove, sentences, synth768)
}

// contest holds the answers by contestant and mode.
type contest struct {
	us     map[string]map[string][]float64
	recall map[string]float64
}

func (e *env) scanSet(set *vectorSet, r *report) error {
	drivers, stop := e.start("hnswlib", "faiss", "sqlite-vec", "lancedb", "usearch", "zvec")
	defer stop()
	vb := &vecboltScanner{}
	contestants := []scanner{vb}
	if e.inProcess("chromem-go", "in memory, QueryEmbedding") {
		contestants = append(contestants, &chromemScanner{})
	}
	for _, d := range drivers {
		contestants = append(contestants, d)
	}
	for i, c := range contestants {
		dir, err := e.scratchDir(c.title())
		if err != nil {
			return err
		}
		e.logf("%s: loading %s", set.name, c.title())
		if err := c.load(set, dir); err != nil {
			if i == 0 {
				return err
			}
			r.note("%s: %v", set.name, err)
			contestants[i] = nil
		}
	}
	str, err := openStream(vb.dir)
	if err != nil {
		return err
	}
	defer str.close()

	con := contest{us: map[string]map[string][]float64{}, recall: map[string]float64{}}
	speed := map[int]map[string][]float64{1: {}, 2: {}}
	for round := range e.rounds {
		e.logf("%s: round %d of %d", set.name, round+1, e.rounds)
		for _, threads := range []int{1, 2} {
			for name, v := range str.measure(threads, 9) {
				speed[threads][name] = append(speed[threads][name], v...)
			}
		}
		for _, c := range contestants {
			if c == nil {
				continue
			}
			for _, mode := range []string{modeOne, modeSplit, modeCallers} {
				if err := e.scanOnce(set, c, mode, round, &con); errors.Is(err, errUnsupported) {
					continue
				} else if err != nil {
					return fmt.Errorf("%s: %w", set.name, err)
				}
			}
		}
	}
	for _, c := range contestants[1:] {
		if in, ok := c.(*chromemScanner); ok {
			in.close()
		}
	}
	e.scanReport(set, con, speed, r)
	return nil
}

func (e *env) scanOnce(set *vectorSet, c scanner, mode string, round int, con *contest) error {
	req := scanRequest{mode: mode, first: 0, n: 3, k: truthK, budget: e.budget}
	runtime.GC() // so that the benchmark's own garbage is not collected during a scan
	if _, err := c.scan(req); err != nil {
		return err
	}
	// Every round uses other queries, among those with exact answers.
	req.n = truthQueries / e.rounds
	req.first = round * req.n
	res, err := c.scan(req)
	if err != nil {
		return err
	}
	name := c.title()
	if con.us[name] == nil {
		con.us[name] = map[string][]float64{}
		con.recall[name] = 1
	}
	con.us[name][mode] = append(con.us[name][mode], res.US...)
	con.recall[name] = min(con.recall[name], recall(set.truth[req.first:], res.IDs, truthK))
	return nil
}

func (e *env) scanReport(set *vectorSet, con contest, speed map[int]map[string][]float64, r *report) {
	bytes := float64(4 * len(set.base.data))
	best := map[int]float64{}
	for _, threads := range []int{1, 2} {
		for _, loop := range slices.Sorted(maps.Keys(speed[threads])) {
			gbs := median(speed[threads][loop])
			best[threads] = max(best[threads], gbs)
			r.add(measurement{Set: set.name, Who: "yardstick", How: fmt.Sprintf("%d thread(s), streaming sum, %s", threads, loop),
				Value: bytes / gbs / 1e3, Unit: "us", Detail: map[string]float64{"GB/s": gbs}})
		}
	}
	const us = "vecbolt"
	ratio := func(name, mode string) float64 { return median(con.us[name][mode]) / median(con.us[us][mode]) }
	for _, name := range orderedNames(con.us) {
		for _, mode := range []string{modeOne, modeSplit, modeCallers} {
			v := con.us[name][mode]
			if len(v) == 0 {
				continue
			}
			m := measurement{Set: set.name, Who: name, How: modeTitles[mode], Value: median(v), Unit: "us",
				Detail: map[string]float64{"GB/s": bytes / median(v) / 1e3, "recall@10": con.recall[name]}}
			if mode != modeCallers {
				m.Detail["p05 us"], m.Detail["p95 us"] = quantile(v, 0.05), quantile(v, 0.95)
			}
			if name != us {
				m.Ratio = ratio(name, mode)
			} else if mode != modeCallers { // two callers scanning the same rows share the cache, so a stream is not comparable
				m.Detail["of yardstick"] = bytes / median(v) / 1e3 / best[threadsOf(mode)]
			}
			r.add(m)
		}
	}
	for _, mode := range []string{modeOne, modeSplit} {
		what := fmt.Sprintf("%s, %s: share of the streaming sum's bandwidth", set.name, modeTitles[mode])
		r.atLeast(what, streamGoal, bytes/median(con.us[us][mode])/1e3/best[threadsOf(mode)])
	}
	for _, name := range orderedNames(con.us) {
		want, ok := scanGoals[name]
		if name == "hnswlib" || name == "faiss" {
			want, ok = libraries[set.name]
		}
		if !ok {
			continue
		}
		r.atLeast(fmt.Sprintf("%s, 1 thread: times as fast as %s", set.name, name), want, ratio(name, modeOne))
		r.atLeast(fmt.Sprintf("%s, 2 threads: times as fast as %s", set.name, name), want, math.Min(or(ratio(name, modeSplit), math.Inf(1)), or(ratio(name, modeCallers), math.Inf(1))))
	}
	r.goal(set.name+": recall@10 of Vecbolt", "= 1", con.recall[us], con.recall[us] == 1)
}

func threadsOf(mode string) int {
	if mode == modeOne {
		return 1
	}
	return 2
}

// or returns v, or instead if v is NaN.
func or(v, instead float64) float64 {
	if math.IsNaN(v) {
		return instead
	}
	return v
}

// orderedNames returns Vecbolt first, then the peers as knownPeers lists them.
func orderedNames(us map[string]map[string][]float64) []string {
	names := []string{"vecbolt"}
	for _, p := range knownPeers() {
		if us[p.Name] != nil {
			names = append(names, p.Name)
		}
	}
	return names
}

// each answers the queries of a request by calling search from the given number of callers, as the
// drivers do.
func each(r scanRequest, queries matrix, callers int, search func(q []float32, k int) ([]int, error)) (scanResult, error) {
	us := make([]float64, r.n)
	ids := make([][]int, r.n)
	errs := make([]error, callers)
	next := make(chan int, r.n)
	for i := range r.n {
		next <- i
	}
	close(next)
	start := time.Now()
	done := make(chan struct{})
	for c := range callers {
		go func() {
			defer func() { done <- struct{}{} }()
			for i := range next {
				if i >= 3 && time.Since(start) > r.budget {
					return
				}
				t := time.Now()
				if ids[i], errs[c] = search(queries.row((r.first+i)%queries.rows()), r.k); errs[c] != nil {
					return
				}
				us[i] = float64(time.Since(t).Nanoseconds()) / 1e3
			}
		}()
	}
	for range callers {
		<-done
	}
	elapsed := float64(time.Since(start).Nanoseconds()) / 1e3
	n := 0
	for n < r.n && ids[n] != nil {
		n++
	}
	if err := errors.Join(errs...); err != nil || n == 0 {
		return scanResult{}, err
	}
	if callers > 1 {
		return scanResult{[]float64{elapsed / float64(n)}, ids[:n]}, nil
	}
	return scanResult{us[:n], ids[:n]}, nil
}

func (e *env) scratchDir(name string) (string, error) {
	return freshDir(filepath.Join(e.scratch, name))
}
