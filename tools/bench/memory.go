package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vecbolt/vecbolt/db"
)

const (
	memoryRows    = 1_000_000
	memoryDim     = 384
	memoryQueries = 20  // exact ones
	memoryLimit   = 512 // MiB
	memoryGoal    = 30  // ms

	// Searches of the graph for each recall asked, and for how many of them the true rows are computed.
	memorySearches, memoryTruths = 600, 100
)

var memoryAsked = []float64{0.90, 0.95}

// memoryFigure searches 1.5 GB of vectors with 512 MiB of memory.
func memoryFigure(e *env, r *report) error {
	r.Title = fmt.Sprintf("Search of %s × %d within %d MiB", number(memoryRows), memoryDim, memoryLimit)
	r.note("A fresh process in a control group that is limited to %d MiB, its page cache included, opens the database, whose files were dropped from the page cache, and asks %d queries, one at a time. Beyond the limit the system takes pages of mapped files away, which come from disk again; more than the limit without files would end the process.", memoryLimit, memoryQueries)
	r.note("The first answer reads the codes from disk and verifies their checksums. The vectors are %d MiB, of which a search reads those rows alone whose codes do not rule them out.", 4*memoryRows*memoryDim>>20)
	e.logf("generating %d vectors", memoryRows)
	m := synth(memoryRows+memorySearches, memoryDim)
	base := m.head(memoryRows)
	queries := filepath.Join(e.scratch, "query.fvecs")
	asked := matrix{m.dim, m.data[memoryRows*memoryDim:]}
	if err := writeFvecs(queries, asked); err != nil {
		return err
	}
	vb := &vecboltScanner{flush: true}
	dir, err := e.scratchDir("memory-vecbolt")
	if err != nil {
		return err
	}
	e.logf("loading")
	if err := vb.load(&vectorSet{base: base, queries: asked}, dir); err != nil {
		return err
	}
	size, _, err := diskUse(dir)
	if err != nil {
		return err
	}
	if err := evict(dir); err != nil {
		return err
	}
	e.logf("searching")
	var got memoryResult
	if err := callChild(&got, "memory", dir, queries); err != nil {
		return err
	}
	r.add(measurement{Set: "cold files", Who: "vecbolt", How: "open to first answer", Value: got.FirstMS, Unit: "ms",
		Detail: map[string]float64{"disk MiB": float64(size) / (1 << 20)}})
	r.add(measurement{Set: "next ones", Who: "vecbolt", How: "one query, 2 threads", Value: median(got.MS), Unit: "ms",
		Detail: map[string]float64{"peak of the group MiB": got.Peak, "anonymous MiB": got.Anonymous}})
	r.atMost("peak of the control group, MiB", memoryLimit, got.Peak)
	const sure = 3
	rec := recall(exactTop(base, asked.head(sure), truthK), got.IDs[:sure], truthK)
	r.goal("recall@10", "= 1", rec, rec == 1)
	return e.memoryGraph(r, dir, queries, base, asked)
}

// memoryGraph searches the same rows through a graph.
func (e *env) memoryGraph(r *report, dir, queries string, base, asked matrix) error {
	r.note("Then Compact makes a graph, and for each recall asked a fresh process, likewise from cold files, asks %d queries of one caller. Searches are slowest at first, because a block of 64 KiB is read whole for its checksum when it is first used. The time also depends on the read-ahead of the disk (/sys/block/*/queue/read_ahead_kb).", memorySearches)
	e.logf("making a graph")
	err := withCollection(dir, base.dim, &db.Options{Compaction: db.Manual}, func(ctx context.Context, d *db.DB, _ *db.Collection) error {
		return d.Compact(ctx)
	})
	if err != nil {
		return err
	}
	size, _, err := diskUse(dir)
	if err != nil {
		return err
	}
	truth := exactTop(base, asked.head(memoryTruths), truthK)
	for _, ask := range memoryAsked {
		if err := evict(dir); err != nil {
			return err
		}
		e.logf("searching the graph, recall %.2f", ask)
		var got memoryResult
		if err := callChild(&got, fmt.Sprintf("memory-graph %g", ask), dir, queries); err != nil {
			return err
		}
		set := fmt.Sprintf("graph, recall %.2f asked", ask)
		found := recall(truth, got.IDs[:memoryTruths], truthK)
		r.add(measurement{Set: set, Who: "vecbolt", How: "open to first answer", Value: got.FirstMS, Unit: "ms",
			Detail: map[string]float64{"disk MiB": float64(size) / (1 << 20)}})
		const early = 100
		for _, part := range []struct {
			how string
			ms  []float64
		}{{fmt.Sprintf("searches 2 to %d, p50", early), got.MS[:early-1]}, {fmt.Sprintf("searches %d to %d, p50", early+1, memorySearches), got.MS[early-1:]}} {
			r.add(measurement{Set: set, Who: "vecbolt", How: part.how, Value: median(part.ms), Unit: "ms",
				Detail: map[string]float64{"p99 ms": quantile(part.ms, 0.99), "peak of the group MiB": got.Peak, "recall@10": found}})
		}
		r.atMost(set+": p50 of all searches, ms", memoryGoal, median(got.MS))
	}
	return nil
}

// evict drops the files of a directory from the page cache.
func evict(dir string) error {
	return filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := f.Sync(); err != nil {
			return err
		}
		return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	})
}

// memoryResult is the result of the child.
type memoryResult struct {
	FirstMS   float64 // from before open until the first answer
	MS        []float64
	Peak      float64 // of the control group, in whole MiB
	Anonymous float64
	IDs       [][]int
}

// A memoryGroup is a control group with a limit.
type memoryGroup struct{ dir, peak string }

// joinMemoryGroup moves this process into a new control group (version 1 or 2). It needs a
// privileged user.
func joinMemoryGroup(limit int64) (memoryGroup, error) {
	var errs []error
	for _, g := range []struct{ root, limit, peak string }{
		{"/sys/fs/cgroup", "memory.max", "memory.peak"},
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes"},
	} {
		dir := filepath.Join(g.root, fmt.Sprintf("vecbolt-bench-%d", os.Getpid()))
		err := os.Mkdir(dir, 0o755)
		if err == nil {
			err = tell(filepath.Join(dir, g.limit), limit)
		}
		if err == nil {
			err = tell(filepath.Join(dir, "cgroup.procs"), int64(os.Getpid()))
		}
		if err == nil {
			return memoryGroup{dir, filepath.Join(dir, g.peak)}, nil
		}
		errs = append(errs, err, os.Remove(dir))
	}
	return memoryGroup{}, fmt.Errorf("no control group that limits memory: %w", errors.Join(errs...))
}

// leave moves this process to the parent group and removes the group.
func (g memoryGroup) leave() error {
	if err := tell(filepath.Join(filepath.Dir(g.dir), "cgroup.procs"), int64(os.Getpid())); err != nil {
		return err
	}
	return os.Remove(g.dir)
}

// tell writes a number to an existing system file.
func tell(name string, n int64) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strconv.FormatInt(n, 10))
	return errors.Join(err, f.Close())
}

// memoryChild searches in a process with limited memory: exactly, or through the graph.
func memoryChild(dir, queries string, want db.Accuracy, searches, workers int) error {
	group, err := joinMemoryGroup(memoryLimit << 20)
	if err != nil {
		return err
	}
	q, err := readFvecs(queries)
	if err != nil {
		return err
	}
	var s memoryResult
	start := time.Now()
	err = withCollection(dir, q.dim, &db.Options{Workers: workers, Compaction: db.Manual, Recheck: db.Manual}, func(ctx context.Context, _ *db.DB, c *db.Collection) error {
		for i := range searches {
			t := time.Now()
			found, err := c.Search(ctx, db.Query{Near: db.Vector(q.row(i)), K: truthK, Accuracy: want, Select: db.IDsOnly})
			if err != nil {
				return err
			}
			if i == 0 {
				s.FirstMS = float64(time.Since(start).Nanoseconds()) / 1e6
			} else {
				s.MS = append(s.MS, float64(time.Since(t).Nanoseconds())/1e6)
			}
			var ids []int
			for _, h := range found.Hits {
				id, err := strconv.Atoi(h.ID)
				if err != nil {
					return err
				}
				ids = append(ids, id)
			}
			s.IDs = append(s.IDs, ids)
		}
		status, err := os.ReadFile("/proc/self/status")
		for line := range strings.Lines(string(status)) {
			var key string
			var kb float64
			if n, _ := fmt.Sscan(line, &key, &kb); n == 2 {
				switch key {
				case "RssAnon:":
					s.Anonymous = kb / 1024
				}
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	peak, err := os.ReadFile(group.peak)
	if err != nil {
		return err
	}
	bytes, err := strconv.ParseInt(strings.TrimSpace(string(peak)), 10, 64)
	if err != nil {
		return err
	}
	s.Peak = float64(bytes >> 20)
	if err := group.leave(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(s)
}
