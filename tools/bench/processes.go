package main

import (
	"bufio"
	"context"
	"encoding/json"
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
	Callers   int    `json:"callers"` // goroutines of search
	Millis    int64  `json:"ms"`
	Queries   string `json:"queries"`
}

// worked is its report.
type worked struct {
	N      int     `json:"n"`
	Second float64 `json:"seconds"`
	Micros []int   `json:"us"`       // of each write
	Anon   float64 `json:"anon_mib"` // resident memory that no file backs
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
	return e.processSearches(r)
}

// together runs one process for each work on a directory. They begin when all have opened it.
func (e *env) together(argv []string, dir string, all []work) ([]worked, error) {
	type process struct {
		cmd *exec.Cmd
		in  io.WriteCloser
		out *bufio.Reader
	}
	var running []*process
	defer func() {
		for _, p := range running {
			_ = p.cmd.Process.Kill() // it has ended unless something failed
			_ = p.cmd.Wait()
		}
	}()
	for _, w := range all {
		arg, err := json.Marshal(w)
		if err != nil {
			return nil, err
		}
		p := &process{cmd: exec.Command(argv[0], append(slices.Clone(argv[1:]), dir, string(arg))...)}
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
		running = append(running, p)
		if line, err := p.out.ReadString('\n'); err != nil || line != "ready\n" {
			return nil, fmt.Errorf("%s does not begin: %q, %w", w.Name, line, err)
		}
	}
	for _, p := range running {
		if _, err := io.WriteString(p.in, "go\n"); err != nil {
			return nil, err
		}
	}
	results := make([]worked, len(all))
	for i, p := range running {
		if err := json.NewDecoder(p.out).Decode(&results[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", all[i].Name, err)
		}
	}
	for i, p := range running { // all have measured
		p.in.Close()
		if err := p.cmd.Wait(); err != nil {
			return nil, fmt.Errorf("%s: %w", all[i].Name, err)
		}
	}
	running = nil
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
		exclusive     bool
	}
	var ways []way
	for _, n := range []int{1, 4, 8, 16} {
		how := fmt.Sprintf("%d processes", n)
		ways = append(ways, way{"single durable writes", "vecbolt", how, ours, n, false}, way{"single durable writes", "SQLite", how, sqlite, n, false})
	}
	ways = append(ways, way{"single durable writes", "yardstick", "overwrite + fdatasync", nil, 1, false},
		way{"a process alone", "vecbolt", "writes, shared", ours, 1, false}, way{"a process alone", "vecbolt", "writes, exclusive", ours, 1, true})
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
					all = append(all, work{What: "write", Name: fmt.Sprintf("p%d", j), Exclusive: w.exclusive, Millis: processBudget.Milliseconds()})
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
	n := len(ways)
	slowest := max(10, 4*quantile(times[n-3], 0.999)) // of the disk
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
	r.atLeast("a process alone: writes, shared ÷ exclusive", 0.98, median(rates[n-2])/median(rates[n-1]))
	return nil
}

func (e *env) processSearches(r *report) error {
	set, err := e.set(sentences)
	if err != nil {
		return err
	}
	dir, err := e.scratchDir("processes-search")
	if err != nil {
		return err
	}
	e.logf("processes: filling")
	if _, err := vecboltIngest(dir, rowDocuments(set.base, 0, set.base.rows(), 1), ingestBatch); err != nil {
		return err
	}
	err = withCollection(dir, set.base.dim, nil, func(ctx context.Context, d *db.DB, _ *db.Collection) error { return d.Compact(ctx) })
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ask := func(n, callers int, exclusive bool) []work {
		all := make([]work, n)
		for i := range all {
			all[i] = work{What: "search", Name: fmt.Sprintf("p%d", i), Exclusive: exclusive, Callers: callers, Millis: processBudget.Milliseconds(), Queries: set.queryPath}
		}
		return all
	}
	type way struct {
		set, how string
		all      []work
	}
	searches := fmt.Sprintf("searches, %s × %d", number(float64(set.base.rows())), set.base.dim)
	ways := []way{
		{searches, fmt.Sprintf("%d goroutines of one process", processCount), ask(1, processCount, false)},
		{searches, fmt.Sprintf("%d processes", processCount), ask(processCount, 1, false)},
		{"a process alone", "searches, shared", ask(1, 1, false)},
		{"a process alone", "searches, exclusive", ask(1, 1, true)},
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
	r.atLeast("a process alone: searches, shared ÷ exclusive", 0.98, median(rates[2])/median(rates[3]))
	r.atMost("a further process that reads, anonymous MiB", readerGoal, idle[1].Anon)
	return nil
}

// processesChild is one process of the figure.
func processesChild(dir, arg string) error {
	var w work
	if err := json.Unmarshal([]byte(arg), &w); err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	begin := func() error {
		fmt.Println("ready")
		_, err := in.ReadString('\n')
		return err
	}
	end := func(done worked) error {
		var err error
		if done.Anon, err = anonymous(); err != nil {
			return err
		}
		if err := json.NewEncoder(os.Stdout).Encode(done); err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, in) // nobody leaves while others measure
		return nil
	}
	if w.What == "empty" {
		if err := begin(); err != nil {
			return err
		}
		return end(worked{Second: 1})
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
	var done worked
	limit := time.Duration(w.Millis) * time.Millisecond
	switch w.What {
	case "write":
		docs := writerDocuments(w.Name)
		if err := begin(); err != nil {
			return err
		}
		start := time.Now()
		for i := 0; time.Since(start) < limit; i++ {
			d := docs[i%len(docs)]
			d.ID = w.Name + "-" + strconv.Itoa(i)
			t := time.Now()
			if _, err := c.Insert(ctx, d); err != nil {
				return err
			}
			done.Micros = append(done.Micros, int(time.Since(t).Microseconds()))
			if _, err := c.Get(ctx, d.ID, db.WithText); err != nil {
				return err
			}
			done.N++
		}
		done.Second = time.Since(start).Seconds()
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
		if err := begin(); err != nil {
			return err
		}
		start := time.Now()
		counts, errs := make([]int, w.Callers), make([]error, w.Callers)
		var all sync.WaitGroup
		for j := range w.Callers {
			all.Go(func() {
				for i := j * 7; time.Since(start) < limit && errs[j] == nil; i++ {
					errs[j] = search(i)
					counts[j]++
				}
			})
		}
		all.Wait()
		done.Second = time.Since(start).Seconds()
		for j, n := range counts {
			done.N += n
			if errs[j] != nil {
				return errs[j]
			}
		}
	default:
		if _, err := c.Count(ctx, nil); err != nil {
			return err
		}
		if err := begin(); err != nil {
			return err
		}
		done.Second = 1
	}
	if err := end(done); err != nil {
		return err
	}
	return vdb.Close()
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
