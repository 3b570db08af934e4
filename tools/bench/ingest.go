package main

import (
	"os"
	"runtime"

	"github.com/vecbolt/vecbolt/db"
)

const (
	ingestBatch  = 1000
	ingestRounds = 3
	manyWriters  = 64
)

// ingestResult is the result of one way of writing.
type ingestResult struct {
	Rows    int       `json:"rows"`
	Seconds float64   `json:"seconds"`
	bytes   int64     // allocated on disk afterwards, 0 if not measured
	ms      []float64 // of each batch, where it is measured
}

func (i ingestResult) rate() float64 { return float64(i.Rows) / i.Seconds }

// ingestFigure measures durable writes of rows of 768 dimensions.
func ingestFigure(e *env, r *report) error {
	r.Title = "Durable ingest, 768 dimensions"
	r.note("Rows per second from the first call until the last returned, rows built before the clock starts, every database new. Full rows are a vector, a text of %d bytes and four metadata keys (string, integer, float, boolean).", textBytes)
	r.note("Vecbolt runs with default options: every acknowledged write has been fsynced. SQLite at synchronous=FULL syncs every commit, at NORMAL only checkpoints. LanceDB's add() and chromem-go do not fsync what they write (seen with strace), so their rows are not durable when the call returns.")
	r.note("The yardstick writes the bytes of a batch over a file that exists and calls fdatasync.")
	if r.Machine.Disk == "tmpfs" {
		r.note("THE SCRATCH DIRECTORY IS IN MEMORY: nothing here was durable. Use -cache to name one on a disk.")
	}
	set, err := e.set(synth768)
	if err != nil {
		return err
	}
	texts, err := e.textFile(set.base.rows())
	if err != nil {
		return err
	}
	full := rowDocuments(set.base, 0, e.rows, 1)
	bare := make([]db.Document, len(full))
	for i, d := range full {
		bare[i] = db.Document{ID: d.ID, Vector: d.Vector}
	}
	drivers, stop := e.start("lancedb", "sqlite-vec")
	defer stop()
	for _, d := range drivers {
		if err := d.call("rows", args{"base": set.basePath, "texts": texts}, nil); err != nil {
			return err
		}
	}
	driven := func(d *driver, n, batch int, a args) func(string) (ingestResult, error) {
		return func(dir string) (res ingestResult, err error) {
			all := args{"dir": dir, "n": n, "batch": batch, "step": 1, "budget_ms": (2 * e.budget).Milliseconds()}
			for k, v := range a {
				all[k] = v
			}
			err = d.call("ingest", all, &res)
			return res, err
		}
	}

	type way struct {
		who, how string
		single   bool
		write    func(dir string) (ingestResult, error)
	}
	ways := []way{
		{"vecbolt", "full rows, batches of 1,000", false, func(dir string) (ingestResult, error) { return vecboltIngest(dir, full, ingestBatch) }},
		{"vecbolt", "vectors only, batches of 1,000", false, func(dir string) (ingestResult, error) { return vecboltIngest(dir, bare, ingestBatch) }},
		{"vecbolt", "full rows, one by one, 1 goroutine", true, func(dir string) (ingestResult, error) { return vecboltSingles(dir, full, 1, e.budget) }},
		{"vecbolt", "full rows, one by one, 64 goroutines", true, func(dir string) (ingestResult, error) { return vecboltSingles(dir, full, manyWriters, e.budget) }},
		{"yardstick", "overwrite + fdatasync, batches of 1,000", false, func(dir string) (ingestResult, error) { return rawWrites(dir, e.rows, ingestBatch, e.budget) }},
		{"yardstick", "overwrite + fdatasync, one by one", true, func(dir string) (ingestResult, error) { return rawWrites(dir, e.rows, 1, e.budget) }},
	}
	for _, d := range drivers {
		switch d.name {
		case "lancedb":
			ways = append(ways,
				way{d.name, "full rows, batches of 1,000", false, driven(d, e.rows, ingestBatch, args{"meta": 1})},
				way{d.name, "vectors only, batches of 1,000", false, driven(d, e.rows, ingestBatch, args{"meta": 0})},
				way{d.name, "vectors only, batches of 10,000", false, driven(d, e.rows, 10*ingestBatch, args{"meta": 0})},
				way{d.name, "full rows, one by one", true, driven(d, 500, 1, args{"meta": 1})})
		case "sqlite-vec":
			ways = append(ways,
				way{d.name, "full rows, batches of 1,000, sync=NORMAL", false, driven(d, e.rows, ingestBatch, args{"sync": "NORMAL"})},
				way{d.name, "full rows, batches of 1,000, sync=FULL", false, driven(d, e.rows, ingestBatch, args{"sync": "FULL"})},
				way{d.name, "full rows, one by one, sync=FULL", true, driven(d, e.rows, 1, args{"sync": "FULL"})})
		}
	}
	if e.inProcess("chromem-go", "persistent, AddDocuments(concurrency=2), no compression") {
		ways = append(ways, way{"chromem-go", "full rows, batches of 1,000", false, func(dir string) (ingestResult, error) { return chromemIngest(dir, full) }})
	}

	rates := map[string][]float64{}
	perRow := map[string]float64{}
	for round := range min(e.rounds, ingestRounds) {
		for _, w := range ways {
			key := w.who + ", " + w.how
			e.logf("ingest: round %d, %s", round+1, key)
			dir, err := e.scratchDir("ingest")
			if err != nil {
				return err
			}
			runtime.GC()
			res, err := w.write(dir)
			if err != nil {
				return err
			}
			if _, res.bytes, err = diskUse(dir); err != nil {
				return err
			}
			rates[key] = append(rates[key], res.rate())
			if w.who != "yardstick" {
				perRow[key] = float64(res.bytes) / float64(res.Rows)
			}
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
		}
	}
	rate := func(key string) float64 { return median(rates[key]) }
	for _, w := range ways {
		key := w.who + ", " + w.how
		m := measurement{Set: "batches of rows", Who: w.who, How: w.how, Value: rate(key), Unit: "rows/s", Detail: map[string]float64{}}
		if v, ok := perRow[key]; ok {
			m.Detail["bytes/row on disk"] = v
		}
		ours := "vecbolt, full rows, batches of 1,000"
		if w.single {
			m.Set, ours = "row by row", "vecbolt, full rows, one by one, 1 goroutine"
		}
		if w.who != "vecbolt" {
			m.Ratio = rate(ours) / m.Value
		}
		r.add(m)
	}
	ours := rate("vecbolt, full rows, batches of 1,000")
	r.atLeast("full rows, rows/s", 40000, ours)
	r.atLeast("full rows, of LanceDB's vectors only, batches of 10,000", 40./53, ours/rate("lancedb, vectors only, batches of 10,000"))
	r.atLeast("full rows, times LanceDB's full rows", 1, ours/rate("lancedb, full rows, batches of 1,000"))
	r.atLeast("vectors only, times LanceDB's, batches of 1,000", 1, rate("vecbolt, vectors only, batches of 1,000")/rate("lancedb, vectors only, batches of 1,000"))
	r.atLeast("full rows, times sqlite-vec at sync=NORMAL", 8, ours/rate("sqlite-vec, full rows, batches of 1,000, sync=NORMAL"))
	r.atLeast("one by one, 64 goroutines over 1", 10, rate("vecbolt, full rows, one by one, 64 goroutines")/rate("vecbolt, full rows, one by one, 1 goroutine"))
	return nil
}
