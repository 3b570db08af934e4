package main

import (
	"context"
	"encoding/json"
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
	memoryQueries = 20
	memoryLimit   = 512 // MiB
)

// memoryFigure searches more vectors than it has memory for: 1.5 GB of them within 512 MiB.
func memoryFigure(e *env, r *report) error {
	r.Title = fmt.Sprintf("Exact search of %s × %d within %d MiB", number(memoryRows), memoryDim, memoryLimit)
	r.note("A fresh process that may allocate %d MiB (RLIMIT_DATA) opens the database, whose files were dropped from the page cache, and asks %d queries, one at a time. The peak counts everything that was ever in its memory at once, mapped files included: a limit of that size on a control group would have evicted nothing.", memoryLimit, memoryQueries)
	r.note("The first answer reads the codes from disk and verifies their checksums. The vectors are %d MiB, of which a search reads those rows alone whose codes do not rule them out.", 4*memoryRows*memoryDim>>20)
	e.logf("generating %d vectors", memoryRows)
	m := synth(memoryRows+memoryQueries, memoryDim)
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
	var got searched
	if err := callChild(&got, "memory", dir, queries); err != nil {
		return err
	}
	r.add(measurement{Set: "cold files", Who: "vecbolt", How: "open to first answer", Value: got.FirstMS, Unit: "ms",
		Detail: map[string]float64{"disk MiB": float64(size) / (1 << 20)}})
	r.add(measurement{Set: "warm files", Who: "vecbolt", How: "one query, 2 threads", Value: median(got.MS), Unit: "ms",
		Detail: map[string]float64{"peak resident MiB": got.Peak, "anonymous MiB": got.Anonymous}})
	r.atMost("peak resident memory, MiB", memoryLimit, got.Peak)
	const sure = 3
	rec := recall(exactTop(base, asked.head(sure), truthK), got.IDs[:sure], truthK)
	r.goal("recall@10", "= 1", rec, rec == 1)
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

// searched is what the child saw.
type searched struct {
	FirstMS   float64 // from before open to the first answer
	MS        []float64
	Peak      float64 // MiB
	Anonymous float64
	IDs       [][]int
}

// memoryChild searches in a process that may not allocate more than the limit.
func memoryChild(dir, queries string) error {
	limit := unix.Rlimit{Cur: memoryLimit << 20, Max: memoryLimit << 20}
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &limit); err != nil {
		return err
	}
	q, err := readFvecs(queries)
	if err != nil {
		return err
	}
	var s searched
	start := time.Now()
	err = withCollection(dir, q.dim, &db.Options{Workers: 2, NoBackgroundCompaction: true}, func(ctx context.Context, _ *db.DB, c *db.Collection) error {
		for i := range q.rows() {
			t := time.Now()
			found, err := c.Search(ctx, db.Query{Vector: q.row(i), K: truthK, Exact: true, Select: db.IDsOnly})
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
				case "VmHWM:":
					s.Peak = kb / 1024
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
	return json.NewEncoder(os.Stdout).Encode(s)
}
