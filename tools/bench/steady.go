package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vecbolt/vecbolt/db"
)

const (
	steadyBatch   = 10   // rows of one upsert
	steadyReplace = 10   // one row in this many replaces an older one
	steadyRecall  = 0.95 // asked for
	steadyWarm    = 3 * time.Second
	steadyIdle    = 10 * time.Second
	steadyAfter   = 120 * time.Second // watched after the last write
	steadySample  = 20 * time.Millisecond
)

// A timing is one call: when it returned, after the first write, and how long it took.
type timing struct {
	at, took time.Duration
}

// between returns the microseconds of the calls that returned from lo to hi.
func between(calls []timing, lo, hi time.Duration) []float64 {
	var us []float64
	for _, c := range calls {
		if c.at >= lo && c.at < hi {
			us = append(us, float64(c.took.Nanoseconds())/1e3)
		}
	}
	return us
}

// A serving says how far the database had come at a moment: how many rows had been written, how
// many of all rows searches compared in full, and the segments and graphs that there were.
type serving struct {
	at               time.Duration
	written, uncoded int
	segments, graphs int
}

// waits returns for each written row the seconds from its insertion until searches found it by a
// graph or by codes, to the next sample. Older rows are served first, so that the rows that are
// not served are the newest. inserted has the time of every row, in order. A row that no sample
// shows as served waits until the last one.
func waits(inserted []time.Duration, samples []serving) []float64 {
	var waits []float64
	for _, s := range samples {
		served := min(s.written-s.uncoded, len(inserted))
		for i := len(waits); i < served; i++ {
			waits = append(waits, max(0, s.at-inserted[i]).Seconds())
		}
	}
	for i := len(waits); i < len(inserted); i++ {
		waits = append(waits, (samples[len(samples)-1].at - inserted[i]).Seconds())
	}
	return waits
}

// back returns the seconds after end from which on the median of every whole second is at most
// limit, infinity if the last one is not.
func back(calls []timing, end, last time.Duration, limit float64) float64 {
	at := math.Inf(1)
	for lo := last - time.Second; lo >= end; lo -= time.Second {
		if !(median(between(calls, lo, lo+time.Second)) <= limit) {
			break
		}
		at = (lo - end).Seconds()
	}
	return at
}

// steadyFigure measures searches while rows are written at a steady rate, and afterwards.
func steadyFigure(e *env, r *report) error {
	r.Title = fmt.Sprintf("Searches while %d rows/s are written, %d dimensions", e.rate, e.dims)
	how := "without a pause"
	if e.asked > 0 {
		how = fmt.Sprintf("%d times a second", e.asked)
		r.Title += fmt.Sprintf(", %d searches/s", e.asked)
	}
	r.note("One caller searches %s, k = 10, recall %v asked, ids as answer, default options: a compacted database of %d rows for %v, then while rows are upserted in tens at a steady rate for %v, then for %v more. Nobody calls Compact or Flush.", how, steadyRecall, e.rows, steadyIdle, e.steady, steadyAfter)
	r.note("Rows like synth768, of another dimension. One row in %d replaces an older one. A write is timed from the call until it returns, durable.", steadyReplace)
	r.note("Served: from the return of the upsert until searches find a row by a graph or by codes, as DB.Stats tells (uncoded_rows), looked at every %v.", steadySample)
	batches := int(e.steady.Seconds() * float64(e.rate) / steadyBatch)
	m := synth(e.rows+batches*steadyBatch+synthQueries, e.dims)
	queries := matrix{m.dim, m.data[(m.rows()-synthQueries)*m.dim:]}
	dir, err := e.scratchDir("steady")
	if err != nil {
		return err
	}
	return withCollection(dir, e.dims, nil, func(ctx context.Context, d *db.DB, c *db.Collection) error {
		if err := e.fill(ctx, d, c, e.rows, m.row); err != nil {
			return err
		}
		s := &steadyRun{c: c, d: d, queries: queries, first: e.rows}
		if e.asked > 0 {
			s.every = time.Second / time.Duration(e.asked)
		}
		if err := s.search(ctx, steadyWarm); err != nil {
			return err
		}
		s.searches = nil
		if err := s.search(ctx, steadyIdle); err != nil {
			return err
		}
		idle := s.searches
		s.searches = nil
		if err := s.write(ctx, m, batches, e.rate); err != nil {
			return err
		}
		stats, err := d.Stats()
		if err != nil {
			return err
		}
		if stats.BackgroundError != "" {
			return errors.New(stats.BackgroundError)
		}
		recall, err := s.recall(ctx)
		if err != nil {
			return err
		}
		s.report(r, idle, recall, stats.Collections[0])
		return nil
	})
}

// A steadyRun is the state of the figure.
type steadyRun struct {
	c       *db.Collection
	d       *db.DB
	queries matrix
	first   int           // rows before the first write
	every   time.Duration // from search to search; 0: no pause
	begin   time.Time
	end     time.Duration // of the last write, after begin

	searches, writes []timing
	inserted         []time.Duration // by row
	samples          []serving
	next             int          // query
	written          atomic.Int64 // rows
}

// ask runs the next query.
func (s *steadyRun) ask(ctx context.Context, how db.Accuracy) (*db.Result, error) {
	q := s.queries.row(s.next % s.queries.rows())
	s.next++
	return s.c.Search(ctx, db.Query{Near: db.Vector(q), K: 10, Accuracy: how, Select: db.IDsOnly})
}

// search searches for a time.
func (s *steadyRun) search(ctx context.Context, d time.Duration) error {
	return s.searchWhile(ctx, func(at time.Duration) bool { return at < d })
}

// searchWhile searches until more returns false.
func (s *steadyRun) searchWhile(ctx context.Context, more func(time.Duration) bool) error {
	begin := time.Now()
	for i := 0; more(time.Since(begin)); i++ {
		time.Sleep(time.Until(begin.Add(time.Duration(i) * s.every)))
		now := time.Now()
		if _, err := s.ask(ctx, db.Recall(steadyRecall)); err != nil {
			return err
		}
		end := time.Now()
		s.searches = append(s.searches, timing{end.Sub(begin), end.Sub(now)})
	}
	return nil
}

// write upserts batches of rows of m at a rate, while another goroutine searches, until
// steadyAfter after the last write.
func (s *steadyRun) write(ctx context.Context, m matrix, batches, rate int) error {
	var stop atomic.Bool
	var wg sync.WaitGroup
	var failed [2]error
	s.begin = time.Now()
	wg.Go(func() {
		failed[0] = s.searchWhile(ctx, func(time.Duration) bool { return !stop.Load() })
	})
	wg.Go(func() {
		for !stop.Load() && failed[1] == nil {
			written := int(s.written.Load())
			var stats db.Stats
			if stats, failed[1] = s.d.Stats(); failed[1] == nil {
				s.samples = append(s.samples, serving{time.Since(s.begin), written,
					stats.Collections[0].Uncoded, stats.Collections[0].Segments, stats.Collections[0].Graphs})
				time.Sleep(steadySample)
			}
		}
	})
	err := s.upserts(ctx, m, batches, rate)
	s.end = time.Since(s.begin)
	if err == nil {
		time.Sleep(steadyAfter)
	}
	stop.Store(true)
	wg.Wait()
	return errors.Join(err, failed[0], failed[1])
}

func (s *steadyRun) upserts(ctx context.Context, m matrix, batches, rate int) error {
	row, fresh := s.first, s.first
	for i := range batches {
		time.Sleep(time.Until(s.begin.Add(time.Duration(i) * steadyBatch * time.Second / time.Duration(rate))))
		docs := make([]db.Document, steadyBatch)
		for j := range docs {
			id := fresh
			if j%steadyReplace == steadyReplace-1 {
				id = (i*7919 + j) % s.first
			} else {
				fresh++
			}
			docs[j] = db.Document{ID: strconv.Itoa(id), Vector: m.row(row)}
			row++
		}
		now := time.Now()
		if _, err := s.c.Upsert(ctx, docs...); err != nil {
			return err
		}
		end := time.Now()
		s.writes = append(s.writes, timing{end.Sub(s.begin), end.Sub(now)})
		s.inserted = append(s.inserted, slices.Repeat([]time.Duration{end.Sub(s.begin)}, steadyBatch)...)
		s.written.Add(steadyBatch)
	}
	return nil
}

// recall compares answers with exact ones.
func (s *steadyRun) recall(ctx context.Context) (float64, error) {
	found, wanted := 0, 0
	for range truthQueries {
		at := s.next
		near, err := s.ask(ctx, db.Recall(steadyRecall))
		if err != nil {
			return 0, err
		}
		s.next = at
		best, err := s.ask(ctx, db.Exact)
		if err != nil {
			return 0, err
		}
		for _, b := range best.Hits {
			wanted++
			if slices.ContainsFunc(near.Hits, func(h db.Hit) bool { return h.ID == b.ID }) {
				found++
			}
		}
	}
	return float64(found) / float64(max(wanted, 1)), nil
}

// partsAt returns the last sample before a moment.
func (s *steadyRun) partsAt(at time.Duration) (last serving) {
	for _, sample := range s.samples {
		if sample.at < at {
			last = sample
		}
	}
	return last
}

func (s *steadyRun) report(r *report, idle []timing, recall float64, stats db.CollectionStats) {
	last := s.end + steadyAfter
	const forever = time.Duration(math.MaxInt64)
	idles := between(idle, 0, forever)
	p50, p99 := median(idles), quantile(idles, 0.99)
	row := func(how string, us []float64, until time.Duration) {
		m := measurement{Set: "searches", Who: "vecbolt", How: how, Value: median(us) / 1e3, Unit: "ms at p50",
			Detail: map[string]float64{"p99 ms": quantile(us, 0.99) / 1e3, "p99.9 ms": quantile(us, 0.999) / 1e3,
				"calls": float64(len(us)), "p50 / idle": median(us) / p50, "p99 / idle": quantile(us, 0.99) / p99}}
		if parts := s.partsAt(until); parts.segments > 0 {
			m.Detail["segments, at the end"] = float64(parts.segments)
			m.Detail["graphs, at the end"] = float64(parts.graphs)
		}
		r.add(m)
	}
	during := between(s.searches, 0, s.end)
	row("before", idles, 0)
	row("while rows are written", during, s.end)
	third := s.end / 3
	for i, name := range []string{"first", "second", "last"} {
		lo := time.Duration(i) * third
		row("while rows are written, the "+name+" third", between(s.searches, lo, lo+third), lo+third)
	}
	const span = 10 * time.Second
	for lo := s.end; lo+span <= last; lo += span {
		row(fmt.Sprintf("%d to %d s after the last write", int((lo-s.end).Seconds()), int((lo-s.end+span).Seconds())),
			between(s.searches, lo, lo+span), lo+span)
	}
	writes := between(s.writes, 0, forever)
	r.add(measurement{Set: "writes", Who: "vecbolt", How: "upserts of 10 rows", Value: median(writes) / 1e3, Unit: "ms at p50",
		Detail: map[string]float64{"p99 ms": quantile(writes, 0.99) / 1e3, "p99.9 ms": quantile(writes, 0.999) / 1e3,
			"rows/s": float64(len(writes)*steadyBatch) / s.end.Seconds()}})
	served := waits(s.inserted, s.samples)
	r.add(measurement{Set: "served by a graph or by codes", Who: "vecbolt", How: "rows written", Value: median(served), Unit: "s at p50",
		Detail: map[string]float64{"p99 s": quantile(served, 0.99), "longest s": slices.Max(served)}})
	returned := back(s.searches, s.end, last, 1.2*p50)
	r.note("At the end: %d segments, %d with graphs, %d graphs due, %d rows compared in full, recall %.4f.", stats.Segments, stats.Graphs, stats.GraphsDue, stats.Uncoded, recall)
	if math.IsInf(returned, 1) {
		r.note("The p50 did not come back to 1.2 times the idle one within %v.", steadyAfter)
	}
	r.atMost("p50 while rows are written, of the idle one", 2, median(during)/p50)
	r.atMost("p99 while rows are written, of the idle one", 4, quantile(during, 0.99)/p99)
	r.atMost("seconds until every p50 of a second is within 1.2 of the idle one", 10, cmp.Or(returned, 0))
	r.atMost("seconds from insert to served, p99", 5, quantile(served, 0.99))
	r.atLeast("recall at the end", steadyRecall, recall)
}
