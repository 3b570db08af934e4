package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/vecbolt/vecbolt/internal/topk"
	"github.com/vecbolt/vecbolt/segment/graph"
)

// Segments of at least so many rows times dimensions get a graph: to scan the
// codes of one takes a core about a millisecond, and a walk a tenth of that.
const graphSize = 10_000_000

// wantsGraph reports whether the segment is large enough for a graph, and has
// a metric for which the recall of walks can be promised. For Dot it cannot:
// among rows of nearly equal products, of vectors of different lengths, walks
// find fewer than the calibration says.
func (s *openSegment) wantsGraph() bool {
	size := int64(s.info.Dim) * int64(s.info.Rows)
	return s.metric != Dot && size > 0 && size >= s.db.opts.graphSize
}

// graphOf returns the graph of a segment. As long as it is absent, and wherever
// it would not pay, all rows that match are looked at.
func (db *DB) graphOf(s *openSegment) *derived[graph.Graph] {
	ident := s.codesIdent()
	return &derived[graph.Graph]{
		db: db, name: derivedName(s.info.ID, "graph"), when: byCompact,
		parse:  func(b []byte) (*graph.Graph, error) { return graph.Parse(b, ident) },
		verify: (*graph.Graph).Verify,
		deep:   func(ctx context.Context, g *graph.Graph) error { return g.Compare(ctx, s.Rows) },
		write:  func(ctx context.Context, w io.WriterAt) error { return db.writeGraph(ctx, w, s) },
		newer:  graph.ErrVersion,
	}
}

// writeGraph builds the graph of a segment, upon its base if it has one.
func (db *DB) writeGraph(ctx context.Context, w io.WriterAt, s *openSegment) error {
	opts := graph.Options{Workers: db.opts.Workers, Seed: s.info.ID} // a merge renews other nodes than the one before
	db.mu.Lock()
	base := s.base
	if base != nil {
		opts.Rows = s.baseRows
		base.sets++ // Close may drop it meanwhile
	}
	db.mu.Unlock()
	if base != nil {
		opts.Base = base.graph.get()
	}
	_, err := graph.Write(ctx, w, s.codesIdent(), s.Rows, opts)
	if opts.Base != nil && errors.Is(err, graph.ErrCorrupt) {
		base.graph.distrust(err)
		opts.Base = nil
		_, err = graph.Write(ctx, w, s.codesIdent(), s.Rows, opts)
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if base != nil {
		db.letGo(base)
	}
	if err == nil {
		db.dropBase(s)
	}
	return err
}

// graphBase returns the victim of a compaction upon whose graph that of the
// new segment of so many rows is to be built: the one with most rows, if it has
// a graph and half of the rows. It is nil if there is none.
func graphBase(victims []victim, rows int) *openSegment {
	most := slices.MaxFunc(victims, func(a, b victim) int { return a.live() - b.live() })
	if most.graph.get() == nil || 2*most.live() < rows {
		return nil
	}
	return most.openSegment
}

// keepBase keeps base open until the graph of s is built, although it is no
// part of the database any more. rows says what has become of its rows.
func (db *DB) keepBase(s, base *openSegment, rows []uint32) {
	s.baseRows = make([]int32, len(rows))
	for i, row := range rows {
		s.baseRows[i] = int32(row) // terms.Dropped becomes -1
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	s.base = base
	base.sets++
}

// dropBase gives the base of a segment back; mu is held.
func (db *DB) dropBase(s *openSegment) {
	if base := s.base; base != nil {
		s.base, s.baseRows = nil, nil
		db.letGo(base)
	}
}

// letGo gives a segment back; mu is held.
func (db *DB) letGo(s *openSegment) {
	if s.sets--; s.sets == 0 {
		db.shut(s)
	}
}

// A walk is the decision to search a part for a query in its graph.
type walk struct {
	graph  *graph.Graph
	effort int
	recall float64 // promised
}

// planWalks decides for which parts a query uses the graph: where that costs
// less than an exact answer, and as many rows as are wanted are sure to be
// found.
func (s *search) planWalks(p *probe) {
	p.walks, p.reasons, p.looked = make([]*walk, len(s.view.parts)), make([]string, len(s.view.parts)), 0
	for i, part := range s.view.parts {
		if part.segment == nil || part.segment.graph == nil {
			continue
		}
		if p.Exact || p.Recall == 1 {
			p.reasons[i] = "the query wants an exact answer"
		} else if g := part.segment.graph.get(); g != nil {
			p.walks[i], p.reasons[i] = s.planWalk(p, i, g)
		} else {
			p.reasons[i] = "the graph is not built yet"
		}
	}
}

// scanEach is what a byte of codes costs in a scan of all rows: most rows are
// ruled out by codes of four bits, which are read in order (docs/bench, graph).
const scanEach = 0.25

// planWalk decides whether a part is searched in its graph, and says why.
// Costs are in units of scanning one byte of codes of eight bits; a row that is not the
// next one costs twice its length and 400 of them: see search.sparse.
func (s *search) planWalk(p *probe, i int, g *graph.Graph) (*walk, string) {
	rows, matched, dim := float64(s.view.parts[i].n), p.matchedIn(s.view, i), float64(s.view.parts[i].dim)
	if matched <= p.need {
		return nil, "no more rows match than are wanted"
	}
	w := &walk{graph: g, effort: max(p.Effort, p.need)}
	if p.Effort > 0 {
		w.recall = promised(g, w.effort, p.need)
	} else {
		ok := false
		w.recall = cmp.Or(p.Recall, DefaultRecall)
		if w.effort, ok = g.Effort(w.recall, p.need); !ok {
			return nil, fmt.Sprintf("no effort in the graph was measured to give a recall of %v", w.recall)
		}
	}
	raise, raised := s.view.parts[i].segment.raise(), ""
	if raise > 1 && p.Effort == 0 {
		w.effort = int(math.Ceil(float64(w.effort) * raise))
		raised = fmt.Sprintf(", %.3g times that of the calibration because queries found less than promised", raise)
	}
	far := 2*dim + 400
	scan := min(rows*dim*scanEach, float64(matched)*far)
	cost := g.Work(w.effort, matched) * far
	if cost > scan && !s.db.opts.walkAlways {
		return nil, fmt.Sprintf("a walk of effort %d%s through the graph would cost %.2g of a scan", w.effort, raised, cost/scan)
	}
	return w, fmt.Sprintf("a walk of effort %d%s costs %.2g of a scan and promises a recall of %.4g", w.effort, raised, cost/scan, w.recall)
}

// promised returns the recall that searches with an effort were measured to
// give.
func promised(g *graph.Graph, effort, k int) float64 {
	lo, hi := 0.0, 1.0
	for range 20 {
		mid := (lo + hi) / 2
		if e, ok := g.Effort(mid, k); ok && e <= effort {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// walk searches the graphs of all queries that use one, and leaves with each
// query what was found. A graph that turns out to be damaged is not used: the
// part is scanned.
func (s *search) walk(ctx context.Context) error {
	type job struct {
		query *probe
		part  int
		found []topk.Candidate
		stats graph.Stats
	}
	var jobs []*job
	for _, q := range s.queries {
		q.found = nil
		for i, w := range q.walks {
			if w != nil {
				jobs = append(jobs, &job{query: q, part: i})
			}
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	clock := s.clock("graph")
	var next atomic.Int64
	work := func() error {
		return s.db.guard(func() error {
			buf, _ := s.db.walkers.Get().(*graph.Buffer)
			if buf == nil {
				buf = &graph.Buffer{}
			}
			defer s.db.walkers.Put(buf)
			for {
				n := int(next.Add(1)) - 1
				if n >= len(jobs) {
					return nil
				}
				err := ctx.Err()
				if j := jobs[n]; err == nil {
					j.found, j.stats, err = s.walkPart(j.query, j.part, buf)
				}
				if err != nil {
					next.Store(int64(len(jobs))) // the others need not go on
					return err
				}
			}
		})
	}
	const each = 4 // fewer walks are not worth another goroutine
	errs := make([]error, max(1, min(s.workers, len(jobs)/each)))
	var wait sync.WaitGroup
	for n := 1; n < len(errs); n++ {
		wait.Go(func() { errs[n] = work() })
	}
	errs[0] = work()
	wait.Wait()
	looked, found := 0, 0
	for _, j := range jobs {
		j.query.found = append(j.query.found, j.found...)
		j.query.looked += j.stats.Estimated
		looked, found = looked+j.stats.Estimated, found+len(j.found)
	}
	clock.done(looked, found, s.trace.taken())
	return errors.Join(errs...)
}

// walkPart searches the graph of one part.
func (s *search) walkPart(q *probe, i int, buf *graph.Buffer) ([]topk.Candidate, graph.Stats, error) {
	w, part := q.walks[i], s.view.parts[i]
	score := func(row int) (float64, error) {
		vec, err := part.source.vectors(row, row+1)
		if err != nil {
			return 0, err
		}
		return q.scorer.score(vec), nil
	}
	query, set := w.graph.Query(q.scorer.query), q.sets[i]
	if q.unseen != nil && q.unseen.part == part {
		query = w.graph.QueryRow(q.scorer.query, q.unseen.row)
		if q.free { // no filter, as for a vector that is not stored
			set = nil
		}
	}
	query.Most = w.graph.Most(w.effort, q.matchedIn(s.view, i))
	hits, stats, err := query.Search(q.need, w.effort, set, score, buf)
	s.trace.read(int64(stats.Estimated)*int64(part.dim) + int64(stats.Scored)*int64(4*part.dim))
	if errors.Is(err, graph.ErrFar) {
		q.walks[i], q.reasons[i] = nil, fmt.Sprintf("what is near does not match: a walk of effort %d went too far for its promise", w.effort)
		return nil, stats, nil
	}
	if errors.Is(err, graph.ErrCorrupt) {
		part.segment.graph.distrust(err)
		q.walks[i], q.reasons[i] = nil, "the graph is damaged"
		return nil, stats, nil
	}
	if err != nil {
		return nil, stats, err
	}
	if len(hits) < q.need { // although more match: see planWalk
		q.walks[i], q.reasons[i] = nil, "the graph has too few of the rows"
		return nil, stats, nil
	}
	found := make([]topk.Candidate, len(hits))
	for n, h := range hits {
		found[n] = topk.Candidate{Upper: h.Score, Part: int32(i), Row: int32(h.Row)}
	}
	return found, stats, nil
}
