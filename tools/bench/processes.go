package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vecbolt/vecbolt/db"
)

const (
	processDim    = 384 // of the set of sentences, too
	processCount  = 8   // of the search part
	processBudget = 3 * time.Second
	readerGoal    = 20 // MiB
)

// work is what one process of the figure does for some time, as JSON on its command line.
type work struct {
	What      string `json:"what"` // write, search or idle
	Name      string `json:"name"` // begins its ids
	Exclusive bool   `json:"exclusive"`
	ReadOnly  bool   `json:"read_only"`
	Callers   int    `json:"callers"` // goroutines
	Millis    int64  `json:"ms"`
	Queries   string `json:"queries"`
}

// worked is its report.
type worked struct {
	N      int     `json:"n"`
	Second float64 `json:"seconds"`
	Micros []int   `json:"us"`          // of each write
	CPU    float64 `json:"cpu_seconds"` // of the process
	Anon   float64 `json:"anon_mib"`    // resident memory that no file backs
}

// processesFigure measures processes that share a database.
func processesFigure(e *env, r *report) error {
	r.Title = "Processes that share a database"
	r.note("Each process repeats two calls for %v: it inserts one document of %d components and a text of %d bytes, which is durable when the call returns, and reads it back. The time of a write is that of its call. Every database is new; contestants take turns, and rates and times are medians over %d rounds.",
		processBudget, processDim, textBytes, min(e.rounds, ingestRounds))
	r.note("SQLite is the one of python3, in WAL mode with synchronous=FULL: one row of an id, the bytes of the vector and the text, in a transaction begun with BEGIN IMMEDIATE, with a busy timeout of a minute. Python takes about 0.02 ms per row of its own.")
	r.note("The yardstick is one process that overwrites the bytes of a row in a file that exists and calls fdatasync.")
	if r.Machine.Disk == "tmpfs" {
		r.note("THE SCRATCH DIRECTORY IS IN MEMORY: nothing here was durable. Use -cache to name one on a disk.")
	}
	if err := e.processWrites(r); err != nil {
		return err
	}
	if err := e.processSearches(r); err != nil {
		return err
	}
	return e.alone(r)
}

// A process is one at work on a directory.
type process struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
}

// start runs a process and waits until it has opened the directory.
func start(argv []string, dir string, w work) (p *process, err error) {
	arg, err := json.Marshal(w)
	if err != nil {
		return nil, err
	}
	p = &process{name: w.Name, cmd: exec.Command(argv[0], append(slices.Clone(argv[1:]), dir, string(arg))...)}
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if line, err := p.out.ReadString('\n'); err != nil || line != "ready\n" {
		p.kill()
		return nil, fmt.Errorf("%s does not begin: %q, %w", w.Name, line, err)
	}
	return p, nil
}

// begin has a process do its work once.
func (p *process) begin() error {
	_, err := io.WriteString(p.in, "go\n")
	return err
}

// result waits for the report of the work.
func (p *process) result() (done worked, err error) {
	line, err := p.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &done)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", p.name, err)
	}
	return done, err
}

// end lets a process end, and waits for that.
func (p *process) end() error {
	p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

// kill ends a process that end has not ended, because something failed.
func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}

// together runs one process for each work on a directory. They begin when all have opened it.
func (e *env) together(argv []string, dir string, all []work) ([]worked, error) {
	var running []*process
	for _, w := range all {
		p, err := start(argv, dir, w)
		if err != nil {
			return nil, err
		}
		defer p.kill()
		running = append(running, p)
	}
	for _, p := range running {
		if err := p.begin(); err != nil {
			return nil, err
		}
	}
	results := make([]worked, len(all))
	for i, p := range running {
		var err error
		if results[i], err = p.result(); err != nil {
			return nil, err
		}
	}
	for _, p := range running { // all have measured
		if err := p.end(); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// sum returns the calls per second of all processes, and the times of their writes in milliseconds.
func sum(all []worked) (rate float64, ms []float64) {
	for _, w := range all {
		rate += float64(w.N) / w.Second
		for _, us := range w.Micros {
			ms = append(ms, float64(us)/1000)
		}
	}
	return rate, ms
}

func (e *env) processWrites(r *report) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ours := []string{self, childFlag, "processes"}
	sqlite := []string{"python3", filepath.Join(e.peersDir, "sqlite_processes.py")}
	type way struct {
		set, who, how string
		argv          []string
		n             int
	}
	var ways []way
	for _, n := range []int{1, 4, 8, 16} {
		how := fmt.Sprintf("%d processes", n)
		ways = append(ways, way{"single durable writes", "vecbolt", how, ours, n}, way{"single durable writes", "SQLite", how, sqlite, n})
	}
	ways = append(ways, way{"single durable writes", "yardstick", "overwrite + fdatasync", nil, 1})
	rates, times := make([][]float64, len(ways)), make([][]float64, len(ways))
	for round := range min(e.rounds, ingestRounds) {
		for i, w := range ways {
			e.logf("processes: round %d, %s, %s", round+1, w.who, w.how)
			dir, err := e.scratchDir("processes")
			if err != nil {
				return err
			}
			if w.argv == nil {
				res, err := rawWrites(dir, 1<<20, 1, processBudget)
				if err != nil {
					return err
				}
				rates[i], times[i] = append(rates[i], res.rate()), append(times[i], res.ms...)
			} else {
				var all []work
				for j := range w.n {
					all = append(all, work{What: "write", Name: fmt.Sprintf("p%d", j), Millis: processBudget.Milliseconds()})
				}
				results, err := e.together(w.argv, filepath.Join(dir, "db"), all)
				if err != nil {
					return err
				}
				rate, ms := sum(results)
				rates[i], times[i] = append(rates[i], rate), append(times[i], ms...)
			}
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
		}
	}
	slowest := max(10, 4*quantile(times[len(ways)-1], 0.999)) // of the disk
	for i, w := range ways {
		m := measurement{Set: w.set, Who: w.who, How: w.how, Value: median(rates[i]), Unit: "commits/s",
			Detail: map[string]float64{"p50 ms": quantile(times[i], 0.5), "p99.9 ms": quantile(times[i], 0.999)}}
		if w.who == "SQLite" {
			m.Ratio = median(rates[i-1]) / m.Value
			if w.n >= processCount {
				r.atLeast(fmt.Sprintf("%d processes: times the commits of SQLite", w.n), 3, m.Ratio)
				r.atMost(fmt.Sprintf("%d processes: p99.9 of a write, ms; the goal is 10, or 4 times that of the disk", w.n), slowest, quantile(times[i-1], 0.999))
			}
		}
		r.add(m)
	}
	return nil
}

func (e *env) processSearches(r *report) error {
	dir, set, err := e.sentencesDatabase("processes-search")
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ask := func(n, callers int) []work {
		all := make([]work, n)
		for i := range all {
			all[i] = work{What: "search", Name: fmt.Sprintf("p%d", i), Callers: callers, Millis: processBudget.Milliseconds(), Queries: set.queryPath}
		}
		return all
	}
	type way struct {
		set, how string
		all      []work
	}
	searches := fmt.Sprintf("searches, %s × %d", number(float64(set.base.rows())), set.base.dim)
	ways := []way{
		{searches, fmt.Sprintf("%d goroutines of one process", processCount), ask(1, processCount)},
		{searches, fmt.Sprintf("%d processes", processCount), ask(processCount, 1)},
	}
	rates, anon := make([][]float64, len(ways)), make([][]float64, len(ways))
	for round := range min(e.rounds, ingestRounds) {
		for i, w := range ways {
			e.logf("processes: round %d, %s, %s", round+1, w.set, w.how)
			results, err := e.together([]string{self, childFlag, "processes"}, dir, w.all)
			if err != nil {
				return err
			}
			rate, _ := sum(results)
			rates[i] = append(rates[i], rate)
			for _, w := range results[min(1, len(results)-1):] { // the first one leads
				anon[i] = append(anon[i], w.Anon)
			}
		}
	}
	for i, w := range ways {
		r.add(measurement{Set: w.set, Who: "vecbolt", How: w.how, Value: median(rates[i]), Unit: "searches/s",
			Detail: map[string]float64{"anonymous MiB per process": median(anon[i])}})
	}
	idle, err := e.together([]string{self, childFlag, "processes"}, dir, []work{{What: "idle", Name: "leader"}, {What: "idle", Name: "reader", ReadOnly: true}, {What: "empty", Name: "none"}})
	if err != nil {
		return err
	}
	r.add(measurement{Set: "memory", Who: "vecbolt", How: "a further process that reads, open and idle", Value: idle[1].Anon, Unit: "anonymous MiB",
		Detail: map[string]float64{"a process of the same program without a database": idle[2].Anon}})
	r.atLeast(fmt.Sprintf("searches of %d processes ÷ %d goroutines", processCount, processCount), 0.9, median(rates[1])/median(rates[0]))
	r.atMost("a further process that reads, anonymous MiB", readerGoal, idle[1].Anon)
	return nil
}

// sentencesDatabase makes a database of the set of sentences, with a graph.
func (e *env) sentencesDatabase(name string) (dir string, set *vectorSet, err error) {
	if set, err = e.set(sentences); err != nil {
		return "", nil, err
	}
	if dir, err = e.scratchDir(name); err != nil {
		return "", nil, err
	}
	e.logf("processes: filling")
	if _, err := vecboltIngest(dir, rowDocuments(set.base, 0, set.base.rows(), 1), ingestBatch); err != nil {
		return "", nil, err
	}
	err = withCollection(dir, set.base.dim, nil, func(ctx context.Context, d *db.DB, _ *db.Collection) error { return d.Compact(ctx) })
	return dir, set, err
}

// processesChild is one process of the figure.
func processesChild(dir, arg string) error {
	var w work
	if err := json.Unmarshal([]byte(arg), &w); err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	// serve measures once for each line.
	serve := func(measure func() (worked, error)) error {
		fmt.Println("ready")
		for {
			if _, err := in.ReadString('\n'); err == io.EOF { // nobody leaves while others measure
				return nil
			} else if err != nil {
				return err
			}
			done, err := measure()
			if err == nil {
				done.Anon, err = anonymous()
			}
			if err == nil {
				err = json.NewEncoder(os.Stdout).Encode(done)
			}
			if err != nil {
				return err
			}
		}
	}
	nothing := func() (worked, error) { return worked{Second: 1}, nil }
	if w.What == "empty" {
		return serve(nothing)
	}
	var queries matrix
	if w.Queries != "" {
		var err error
		if queries, err = readFvecs(w.Queries); err != nil {
			return err
		}
	}
	o := &db.Options{Exclusive: w.Exclusive, ReadOnly: w.ReadOnly}
	if w.What == "search" {
		o.Workers, o.Recheck = 1, db.Manual
	}
	vdb, err := db.Open(dir, o)
	if err != nil {
		return err
	}
	ctx := context.Background()
	var c *db.Collection
	if w.ReadOnly {
		c, err = vdb.Collection(collection)
	} else {
		c, err = vdb.OpenCollection(ctx, collection, db.Schema{Dim: processDim})
	}
	if err != nil {
		return err
	}
	limit := time.Duration(w.Millis) * time.Millisecond
	measure := nothing
	switch w.What {
	case "write":
		measure = writing(ctx, c, w.Name, max(1, w.Callers), limit)
	case "search":
		search := func(i int) error {
			_, err := c.Search(ctx, db.Query{Near: db.Vector(queries.row(i % queries.rows())), K: 10, Select: db.IDsOnly})
			return err
		}
		for i := range scanWarm {
			if err := search(i); err != nil {
				return err
			}
		}
		measure = func() (worked, error) {
			return inTurns(w.Callers, limit, func(caller, i int, _ *worked) error { return search(caller*7 + i) })
		}
	default:
		if _, err := c.Count(ctx, nil); err != nil {
			return err
		}
	}
	if err := serve(measure); err != nil {
		return err
	}
	return vdb.Close()
}

// inTurns runs calls for some time in some goroutines.
func inTurns(callers int, limit time.Duration, call func(caller, i int, done *worked) error) (all worked, err error) {
	var running sync.WaitGroup
	done, errs := make([]worked, callers), make([]error, callers)
	start, before := time.Now(), processorTime()
	for j := range callers {
		running.Go(func() {
			for time.Since(start) < limit && errs[j] == nil {
				errs[j] = call(j, done[j].N, &done[j])
				done[j].N++
			}
		})
	}
	running.Wait()
	all.Second = time.Since(start).Seconds()
	all.CPU = processorTime() - before
	for _, d := range done {
		all.N += d.N
		all.Micros = append(all.Micros, d.Micros...)
	}
	return all, errors.Join(errs...)
}

// writing returns a measurement that inserts documents and reads each back. Ids go on from one time
// to the next.
func writing(ctx context.Context, c *db.Collection, name string, callers int, limit time.Duration) func() (worked, error) {
	docs, next := writerDocuments(name), make([]int, callers)
	return func() (worked, error) {
		return inTurns(callers, limit, func(caller, _ int, done *worked) error {
			n := next[caller]
			next[caller]++
			d := docs[(n*callers+caller)%len(docs)]
			d.ID = fmt.Sprintf("%s-%d-%d", name, caller, n)
			t := time.Now()
			if _, err := c.Insert(ctx, d); err != nil {
				return err
			}
			done.Micros = append(done.Micros, int(time.Since(t).Microseconds()))
			_, err := c.Get(ctx, d.ID, db.WithText)
			return err
		})
	}
}

// writerDocuments returns some documents without ids.
func writerDocuments(name string) []db.Document {
	rng := rand.New(rand.NewPCG(1, uint64(len(name))))
	docs := make([]db.Document, 64)
	for i := range docs {
		vec := make([]float32, processDim)
		for j := range vec {
			vec[j] = rng.Float32() - 0.5
		}
		docs[i] = db.Document{Vector: vec, Text: rowText(i)}
	}
	return docs
}

// anonymous returns the resident memory of this process that no file backs, in MiB.
func anonymous() (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", unix.Getpid()))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("no RssAnon in /proc/%d/status", unix.Getpid())
}
