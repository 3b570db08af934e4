package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vecbolt/vecbolt/db"
)

const (
	openRuns     = 7
	openGoalMS   = 50
	openGoalHeap = 64 // MiB
)

// openResult is the result of a fresh process that opens a database and asks it one question.
type openResult struct {
	OpenMS   float64 `json:"open_ms"` // until the collection is open
	MS       float64 `json:"ms"`      // until the first answer
	HeapOpen float64 `json:"heap_open_mib"`
	Heap     float64 `json:"heap_mib"` // after the first answer
	rss      float64
	anon     float64
}

// openFigure measures the time from opening a database of full rows to its first answer, in fresh
// processes with a warm page cache.
func openFigure(e *env, r *report) error {
	r.Title = fmt.Sprintf("Open %s × %d to the first answer", number(float64(e.rows)), synthDim)
	r.note("Medians of %d fresh processes each after one that warms the page cache; process start and loading of libraries not counted. Heap is the Go heap in use after a collection.", openRuns)
	set, err := e.set(synth768)
	if err != nil {
		return err
	}
	texts, err := e.textFile(set.base.rows())
	if err != nil {
		return err
	}
	dir, err := e.scratchDir("open-vecbolt")
	if err != nil {
		return err
	}
	docs := rowDocuments(set.base, 0, e.rows, 1)
	e.logf("open: filling vecbolt")
	if _, err := vecboltIngest(dir, docs, ingestBatch); err != nil {
		return err
	}
	runs, err := repeat(openRuns+1, func() (openResult, error) { return runChild("vecbolt", dir, set.queryPath) })
	if err != nil {
		return err
	}
	ours := reportOpen(r, "vecbolt", runs)
	r.atMost("open to first answer, ms", openGoalMS, ours.MS)
	r.atMost("Go heap after open, MiB", openGoalHeap, ours.HeapOpen)

	drivers, stop := e.start("lancedb", "sqlite-vec")
	for _, d := range drivers {
		dir, err := e.scratchDir("open-" + d.name)
		if err != nil {
			return err
		}
		e.logf("open: filling %s", d.name)
		if err := fill(d, set.basePath, texts, dir, e.rows, 1); err != nil {
			return err
		}
	}
	stop()
	for _, d := range drivers {
		dir := filepath.Join(e.scratch, "open-"+d.name)
		runs, err := repeat(openRuns+1, func() (openResult, error) { return e.openByDriver(d.name, dir, set.queryPath) })
		if err != nil {
			return err
		}
		reportOpen(r, d.name, runs)
	}

	if e.inProcess("chromem-go", "persistent, no compression") {
		dir, err := e.scratchDir("open-chromem")
		if err != nil {
			return err
		}
		e.logf("open: filling chromem-go")
		if _, err := chromemIngest(dir, docs); err != nil {
			return err
		}
		runs, err := repeat(3, func() (openResult, error) { return runChild("chromem-go", dir, set.queryPath) })
		if err != nil {
			return err
		}
		reportOpen(r, "chromem-go", runs)
	}
	for i, m := range r.Rows {
		if m.Who != "vecbolt" {
			r.Rows[i].Ratio = m.Value / ours.MS
		}
	}
	return nil
}

// reportOpen adds the medians of all runs but the first, which warms the page cache, and returns
// them.
func reportOpen(r *report, who string, runs []openResult) openResult {
	medianOf := func(of func(openResult) float64) float64 {
		var v []float64
		for _, o := range runs[1:] {
			v = append(v, of(o))
		}
		return median(v)
	}
	o := openResult{
		OpenMS:   medianOf(func(o openResult) float64 { return o.OpenMS }),
		MS:       medianOf(func(o openResult) float64 { return o.MS }),
		HeapOpen: medianOf(func(o openResult) float64 { return o.HeapOpen }),
		Heap:     medianOf(func(o openResult) float64 { return o.Heap }),
		rss:      medianOf(func(o openResult) float64 { return o.rss }),
		anon:     medianOf(func(o openResult) float64 { return o.anon }),
	}
	m := measurement{Set: "warm page cache", Who: who, How: "open to first answer", Value: o.MS, Unit: "ms",
		Detail: map[string]float64{"first run ms": runs[0].MS}}
	for k, v := range map[string]float64{"open alone ms": o.OpenMS, "heap after open MiB": o.HeapOpen,
		"heap after answer MiB": o.Heap, "resident MiB": o.rss, "resident anonymous MiB": o.anon} {
		if v != 0 {
			m.Detail[k] = v
		}
	}
	r.add(m)
	return o
}

// openByDriver starts a peer, and lets it open the database in dir and answer one question.
func (e *env) openByDriver(name, dir, queries string) (o openResult, err error) {
	fresh, stop := e.start(name)
	defer stop()
	if len(fresh) == 0 {
		return openResult{}, fmt.Errorf("%s does not start again", name)
	}
	err = fresh[0].call("open", args{"dir": dir, "queries": queries}, &o)
	all, anon := fresh[0].resident()
	o.rss, o.anon = float64(all)/(1<<20), float64(anon)/(1<<20)
	return o, err
}

// fill writes full rows 0, step, 2*step, ... through a driver, and then optimises as the product
// advises.
func fill(d *driver, base, texts, dir string, n, step int) error {
	if err := d.call("rows", args{"base": base, "texts": texts}, nil); err != nil {
		return err
	}
	err := d.call("ingest", args{"dir": dir, "n": n, "batch": ingestBatch, "step": step, "meta": 1, "sync": "NORMAL", "budget_ms": callLimit.Milliseconds()}, nil)
	if err == nil && d.name == "lancedb" {
		err = d.call("compact", args{"dir": dir}, nil)
	}
	return err
}

func repeat[T any](n int, fn func() (T, error)) ([]T, error) {
	var all []T
	for range n {
		v, err := fn()
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// childFlag makes this program open a database in a fresh process and report.
const childFlag = "-child"

func runChild(who, dir, queries string) (o openResult, err error) {
	err = callChild(&o, who, dir, queries)
	return o, err
}

// callChild runs this program as a child and decodes its report.
func callChild(reply any, who, dir, queries string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var stderr strings.Builder
	cmd := exec.Command(self, childFlag, who, dir, queries)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w: %.300s", who, err, stderr.String())
	}
	return json.Unmarshal(out, reply)
}

func child(args []string) int {
	var err error
	who, how, _ := strings.Cut(args[0], " ")
	switch who {
	case "processes":
		err = processesChild(args[1], args[2])
	case "memory":
		err = memoryChild(args[1], args[2], db.Exact, memoryQueries, 2)
	case "memory-graph":
		var asked float64
		if asked, err = strconv.ParseFloat(how, 64); err == nil {
			err = memoryChild(args[1], args[2], db.Recall(asked), memorySearches, 1)
		}
	case "rag":
		err = ragChild(args[1], args[2])
	case "encoder":
		err = encoderChild(args[1], args[2])
	case "kernels":
		err = kernelsChild(args[1], args[2])
	default:
		var o openResult
		if o, err = openOnce(args[0], args[1], args[2]); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(o)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func openOnce(who, dir, queries string) (openResult, error) {
	q, err := readFvecs(queries)
	if err != nil {
		return openResult{}, err
	}
	first := slices.Clone(q.row(0))
	w := &watch{start: time.Now()}
	switch who {
	case "vecbolt":
		err = openVecbolt(w, dir, first)
	case "chromem-go":
		err = openChromem(w, dir, first)
	default:
		err = errUnsupported
	}
	return w.seen, err
}

// watch records the time since its start and the heap at each event. Its clock stops while it
// measures the heap.
type watch struct {
	start time.Time
	seen  openResult
}

func (w *watch) opened()   { w.note(&w.seen.OpenMS, &w.seen.HeapOpen) }
func (w *watch) answered() { w.note(&w.seen.MS, &w.seen.Heap) }

func (w *watch) note(ms, heap *float64) {
	t := time.Now()
	*ms = float64(t.Sub(w.start).Nanoseconds()) / 1e6
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	*heap = float64(m.HeapAlloc) / (1 << 20)
	w.start = w.start.Add(time.Since(t))
}
