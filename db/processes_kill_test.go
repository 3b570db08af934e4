//go:build linux || darwin

package db

import (
	"bufio"
	"context"
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
	"testing"
	"time"
)

// TestProcessesKilled lets several processes insert documents into one database, each with an id of
// its own, and kills the one that leads, again and again. A document whose Insert was acknowledged
// must be there at the end and in every later read of any process, one whose outcome is unknown may
// be, and no Insert may fail: a write that was applied twice would meet its own document.
func TestProcessesKilled(t *testing.T) {
	if dir := os.Getenv("VECBOLT_SHARED"); dir != "" {
		if err := insertUntilKilled(dir, os.Getenv("VECBOLT_NAME")); err != nil {
			fmt.Println("error", err)
		}
		return
	}
	disturbLeaders(t, 4, max(3, *kills/4), func(k *killed, w *worker, _ *rand.Rand) (again bool) {
		start := time.Now()
		k.kill(t, w)
		k.disturbed(start)
		return false
	})
}

// insertUntilKilled inserts documents until standard input ends. It prints "try id time", then
// "done id" or "unknown id", and "leads" whenever it finds itself leading.
func insertUntilKilled(dir, name string) error {
	stop := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(stop)
	}()
	ctx := context.Background()
	vdb, err := Open(dir, &Options{HeadSize: 64 << 10})
	if err != nil {
		return err
	}
	c, err := vdb.OpenCollection(ctx, "docs", Schema{Dim: 8})
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(1, uint64(len(name))))
	for i := 0; ; i++ {
		select {
		case <-stop:
			return vdb.Close()
		default:
		}
		id := fmt.Sprintf("%s-%d", name, i)
		vec := make([]float32, 8)
		for j := range vec {
			vec[j] = rng.Float32()
		}
		fmt.Println("try", id, time.Now().UnixNano())
		_, err := c.Insert(ctx, Document{ID: id, Text: strings.Repeat(id, 20), Vector: vec})
		switch {
		case errors.Is(err, ErrUnknown):
			fmt.Println("unknown", id)
			continue
		case err != nil:
			return fmt.Errorf("%s: insert: %w", id, err)
		}
		fmt.Println("done", id)
		d, err := c.Get(ctx, id, WithText)
		if err != nil || d.Text != strings.Repeat(id, 20) {
			return fmt.Errorf("%s is acknowledged, and not there: %w", id, err)
		}
		if i%16 == 0 {
			r, err := c.Search(ctx, Query{Near: Vector(vec), K: 3})
			if err != nil {
				return fmt.Errorf("%s: search: %w", id, err)
			}
			if len(r.Hits) == 0 || r.Hits[0].Score < 0.999 {
				return fmt.Errorf("%s: a search for its vector does not find it", id)
			}
		}
		list, err := vdb.Processes(ctx)
		if err != nil {
			return fmt.Errorf("processes: %w", err)
		}
		if list[0].PID == os.Getpid() {
			fmt.Println("leads")
		}
	}
}

// A worker is a process of killLeaders.
type worker struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer
	ended chan struct{} // its output has ended
}

// killed is the knowledge of the parent about all workers.
type killed struct {
	mu      sync.Mutex
	done    map[string]bool // acknowledged
	by      map[string]int  // number of them by worker
	tried   map[string]time.Time
	unknown int
	leader  *worker
	last    time.Time // when the leader was disturbed, until a document shows that another one leads
	silent  time.Time // since when it surely answers nothing: a document shows it that was tried later
	took    []time.Duration
	failed  []string
	changed chan struct{}
}

// disturbLeaders runs workers on one database, and calls disturb with the one that leads, again and
// again. If that returns false the worker has ended, and another one is started.
func disturbLeaders(t *testing.T, workers, times int,
	disturb func(k *killed, w *worker, rng *rand.Rand) (again bool)) {
	dir := filepath.Join(t.TempDir(), "db")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	k := &killed{
		done:    map[string]bool{},
		by:      map[string]int{},
		tried:   map[string]time.Time{},
		changed: make(chan struct{}, 1),
	}
	var running []*worker
	started := 0
	start := func() {
		w := startWorker(t, k, dir, fmt.Sprintf("p%d", started))
		running = append(running, w)
		started++
	}
	for range workers {
		start()
	}
	for range times {
		wait := k.count("") + 20 + rng.IntN(200)
		k.await(t, func() bool { return k.count("") >= wait && k.leading(running) != nil })
		w := k.leading(running)
		k.mu.Lock()
		k.leader = nil
		k.mu.Unlock()
		if !disturb(k, w, rng) {
			running = slices.DeleteFunc(running, func(o *worker) bool { return o == w })
			start()
		}
	}
	bounded(t) // await has bounded the rest
	for _, w := range running {
		w.stdin.Close()
		<-w.ended
		if err := w.cmd.Wait(); err != nil {
			t.Error(w.name, err)
		}
	}
	if f := k.failures(); len(f) > 0 {
		t.Fatal(f)
	}
	vdb := open(t, dir, nil)
	c, err := vdb.OpenCollection(t.Context(), "docs", Schema{Dim: 8})
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for d, err := range c.All(t.Context(), nil, IDsOnly) {
		if err != nil {
			t.Fatal(err)
		}
		if there[d.ID] || k.tried[d.ID].IsZero() {
			t.Errorf("%s is there twice, or nobody wrote it", d.ID)
		}
		there[d.ID] = true
	}
	for id := range k.done {
		if !there[id] {
			t.Errorf("%s was acknowledged and is lost", id)
		}
	}
	check(t, vdb)
	left, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(left) != 1 {
		t.Errorf("beside the database: %v, %v", left, err)
	}
	slices.Sort(k.took)
	n := len(k.took)
	t.Logf("%d times, %d documents, %d of unknown outcome", times, len(there), k.unknown)
	t.Logf("to the next document: least %v, median %v, p99 %v, most %v",
		k.took[0], k.took[n/2], k.took[n*99/100], k.took[n-1])
}

func startWorker(t *testing.T, k *killed, dir, name string) *worker {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProcessesKilled$")
	cmd.Env = append(os.Environ(), "VECBOLT_SHARED="+dir, "VECBOLT_NAME="+name)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := &worker{name: name, cmd: cmd, stdin: stdin, ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			k.said(w, lines.Text())
		}
	}()
	return w
}

func (k *killed) said(w *worker, line string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	what, id, _ := strings.Cut(line, " ")
	switch what {
	case "try":
		id, at, _ := strings.Cut(id, " ")
		ns, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			k.failed = append(k.failed, w.name+": "+line)
		}
		k.tried[id] = time.Unix(0, ns)
	case "done":
		k.done[id] = true
		k.by[w.name]++
		if !k.last.IsZero() && k.tried[id].After(k.silent) {
			k.took = append(k.took, time.Since(k.last))
			k.last = time.Time{}
		}
	case "unknown":
		k.unknown++
	case "leads":
		k.leader = w
	case "error":
		k.failed = append(k.failed, w.name+": "+id)
	}
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// disturbed notes that the leader was killed or stopped: begun at start, and done now.
func (k *killed) disturbed(start time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last, k.silent = start, time.Now()
}

// await waits for a condition, which may change with the output of a worker.
func (k *killed) await(t *testing.T, condition func() bool) {
	t.Helper()
	for !condition() {
		select {
		case <-k.changed:
		case <-time.After(time.Minute):
			t.Fatal("nothing has happened for a minute")
		}
		if f := k.failures(); len(f) > 0 {
			t.Fatal(f)
		}
	}
}

// kill ends a worker.
func (k *killed) kill(t *testing.T, w *worker) {
	t.Helper()
	if err := w.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-w.ended
	_ = w.cmd.Wait()
}

// count returns the number of documents that were acknowledged, to the worker of that name or to
// any.
func (k *killed) count(worker string) (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if worker == "" {
		return len(k.done)
	}
	return k.by[worker]
}

func (k *killed) failures() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failed
}

// leading returns the running worker that has said last that it leads.
func (k *killed) leading(running []*worker) *worker {
	k.mu.Lock()
	defer k.mu.Unlock()
	if slices.Contains(running, k.leader) {
		return k.leader
	}
	return nil
}
