package main

import (
	"maps"
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
	ms      []float64 // of each batch, where it is measured
}

func (i ingestResult) rate() float64 { return float64(i.Rows) / i.Seconds }

// An ingestWay is a contestant: who writes how.
type ingestWay struct {
	who, how string
	single   bool // row by row
	write    func(dir string) (ingestResult, error)
}

func (w *ingestWay) name() string { return w.who + ", " + w.how }

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
	ways := e.ingestInProcess(set.base)
	drivers, stop := e.start("lancedb", "sqlite-vec")
	defer stop()
	for _, d := range drivers {
		if err := d.call("rows", args{"base": set.basePath, "texts": texts}, nil); err != nil {
			return err
		}
		ways = append(ways, e.ingestByDriver(d)...)
	}
	rates, perRow, err := e.measureIngest(ways)
	if err != nil {
		return err
	}
	reportIngest(r, ways, rates, perRow)
	return nil
}

// ingestInProcess returns the contestants in Go, and the yardstick.
func (e *env) ingestInProcess(base matrix) []ingestWay {
	full := rowDocuments(base, 0, e.rows, 1)
	bare := make([]db.Document, len(full))
	for i, d := range full {
		bare[i] = db.Document{ID: d.ID, Vector: d.Vector}
	}
	ways := []ingestWay{
		{"vecbolt", "full rows, batches of 1,000", false, func(dir string) (ingestResult, error) { return vecboltIngest(dir, full, ingestBatch) }},
		{"vecbolt", "vectors only, batches of 1,000", false, func(dir string) (ingestResult, error) { return vecboltIngest(dir, bare, ingestBatch) }},
		{"vecbolt", "full rows, one by one, 1 goroutine", true, func(dir string) (ingestResult, error) { return vecboltSingles(dir, full, 1, e.budget) }},
		{"vecbolt", "full rows, one by one, 64 goroutines", true, func(dir string) (ingestResult, error) { return vecboltSingles(dir, full, manyWriters, e.budget) }},
		{"yardstick", "overwrite + fdatasync, batches of 1,000", false, func(dir string) (ingestResult, error) { return rawWrites(dir, e.rows, ingestBatch, e.budget) }},
		{"yardstick", "overwrite + fdatasync, one by one", true, func(dir string) (ingestResult, error) { return rawWrites(dir, e.rows, 1, e.budget) }},
	}
	if e.inProcess("chromem-go", "persistent, AddDocuments(concurrency=2), no compression") {
		ways = append(ways, ingestWay{"chromem-go", "full rows, batches of 1,000", false, func(dir string) (ingestResult, error) { return chromemIngest(dir, full) }})
	}
	return ways
}

// ingestByDriver returns the contestants of a peer that has read the rows.
func (e *env) ingestByDriver(d *driver) []ingestWay {
	way := func(how string, rows, batch int, settings args) ingestWay {
		return ingestWay{d.name, how, batch == 1, func(dir string) (res ingestResult, err error) {
			all := args{"dir": dir, "n": rows, "batch": batch, "step": 1, "budget_ms": (2 * e.budget).Milliseconds()}
			maps.Copy(all, settings)
			err = d.call("ingest", all, &res)
			return res, err
		}}
	}
	switch d.name {
	case "lancedb":
		return []ingestWay{
			way("full rows, batches of 1,000", e.rows, ingestBatch, args{"meta": 1}),
			way("vectors only, batches of 1,000", e.rows, ingestBatch, args{"meta": 0}),
			way("vectors only, batches of 10,000", e.rows, 10*ingestBatch, args{"meta": 0}),
			way("full rows, one by one", 500, 1, args{"meta": 1}),
		}
	case "sqlite-vec":
		return []ingestWay{
			way("full rows, batches of 1,000, sync=NORMAL", e.rows, ingestBatch, args{"sync": "NORMAL"}),
			way("full rows, batches of 1,000, sync=FULL", e.rows, ingestBatch, args{"sync": "FULL"}),
			way("full rows, one by one, sync=FULL", e.rows, 1, args{"sync": "FULL"}),
		}
	}
	return nil
}

// measureIngest lets every contestant write in every round. It returns the rows per second of each
// round and the bytes per row on disk, by name.
func (e *env) measureIngest(ways []ingestWay) (rates map[string][]float64, perRow map[string]float64, err error) {
	rates, perRow = map[string][]float64{}, map[string]float64{}
	for round := range min(e.rounds, ingestRounds) {
		for i := range ways {
			w := &ways[i]
			e.logf("ingest: round %d, %s", round+1, w.name())
			dir, err := e.scratchDir("ingest")
			if err != nil {
				return nil, nil, err
			}
			runtime.GC()
			res, err := w.write(dir)
			if err != nil {
				return nil, nil, err
			}
			_, bytes, err := diskUse(dir)
			if err != nil {
				return nil, nil, err
			}
			rates[w.name()] = append(rates[w.name()], res.rate())
			if w.who != "yardstick" {
				perRow[w.name()] = float64(bytes) / float64(res.Rows)
			}
			if err := os.RemoveAll(dir); err != nil {
				return nil, nil, err
			}
		}
	}
	return rates, perRow, nil
}

func reportIngest(r *report, ways []ingestWay, rates map[string][]float64, perRow map[string]float64) {
	rate := func(name string) float64 { return median(rates[name]) }
	for i := range ways {
		w := &ways[i]
		m := measurement{Set: "batches of rows", Who: w.who, How: w.how, Value: rate(w.name()), Unit: "rows/s", Detail: map[string]float64{}}
		if v, ok := perRow[w.name()]; ok {
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
}
