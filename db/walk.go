package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/topk"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment/graph"
)

// A walk is the decision to search the graph of a part for a query.
type walk struct {
	graph   *graph.Graph // nil: scan the part
	setting graph.Setting
	recall  float64 // promised
}

// walks reports whether a query searches the graph of a part.
func (p *probe) walks(part int) bool { return p.parts[part].walk.graph != nil }

// planWalks chooses the parts whose graph a query searches: where that costs
// less than an exact answer, and more rows match than are needed.
func (s *search) planWalks(p *probe) {
	p.ledger = ledger{}
	for i, part := range s.view.Parts {
		if part.Segment == nil || part.Segment.Graph == nil {
			continue
		}
		if p.exact() {
			p.parts[i].reason = "the query wants an exact answer"
		} else if g := part.Segment.Graph.Get(); g != nil {
			s.planWalk(p, i, g)
		} else {
			p.parts[i].reason = "the graph is not built yet"
		}
	}
}

// planWalk decides whether a query searches the graph of a part, and says why.
func (s *search) planWalk(p *probe, i int, g *graph.Graph) {
	matched := p.matchedIn(s.view, i)
	because := func(format string, args ...any) {
		p.parts[i].reason = fmt.Sprintf(format, args...)
	}
	if matched <= p.need {
		p.parts[i].reason = "no more rows match than are wanted"
		return
	}
	w, raise := walk{graph: g}, 1.0
	if p.ef > 0 {
		w.setting.EF = max(p.ef, p.need)
		w.recall = g.Recall(w.setting.EF, p.need)
	} else {
		ok := false
		w.recall = p.recall
		if w.setting, ok = g.Setting(w.recall, p.need); !ok {
			if s.trace != nil {
				because("no setting of the graph was measured to reach a recall of %v", w.recall)
			}
			return
		}
		if raise = s.view.Parts[i].Segment.Raise(); raise > 1 {
			w.setting = w.setting.Times(raise)
		}
	}
	cost, scan := s.walkCost(p, i, w), s.scanCost(p, i)
	dear := cost > scan && !s.db.opts.walkAlways
	if !dear {
		p.parts[i].walk = w
	}
	if s.trace == nil { // nobody asks why
		return
	}
	raised := ""
	if raise > 1 {
		raised = fmt.Sprintf(", %.3g times the calibrated one because queries found less than promised", raise)
	}
	if dear {
		because("a beam search with %v%s would cost %.2g of a scan", w.setting, raised, cost/scan)
	} else {
		because("a beam search with %v%s costs %.2g of a scan and promises a recall of %.4g", w.setting, raised, cost/scan, w.recall)
	}
}

// walkCost returns the cost of a graph search of a part, in the unit of
// scanCost.
func (s *search) walkCost(p *probe, i int, w walk) float64 {
	work := w.graph.Work(w.setting, p.matchedIn(s.view, i))
	return work * w.graph.Price(p.parts[i].set != nil)
}

// A walkJob is the graph search of one query in one part, and its result.
type walkJob struct {
	query *probe
	part  int
	found []topk.Candidate
	stats graph.Stats
}

// walk does the graph searches of all queries, and stores the results with each
// query. If a graph turns out to be damaged, the part is scanned instead.
func (s *search) walk(ctx context.Context) error {
	var jobs []walkJob
	for _, q := range s.queries {
		q.found = nil
		for i := range q.parts {
			if q.walks(i) {
				jobs = append(jobs, walkJob{query: q, part: i})
			}
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	clock := s.clock("graph")
	var err error
	const each = 4 // fewer searches are not worth another goroutine
	if workers := min(s.workers, len(jobs)/each); workers > 1 {
		err = s.walkTogether(ctx, jobs, workers)
	} else {
		err = s.walkSome(ctx, jobs)
	}
	looked, found := 0, 0
	for i := range jobs {
		j := &jobs[i]
		if j.query.found == nil {
			j.query.found = j.found
		} else {
			j.query.found = append(j.query.found, j.found...)
		}
		j.query.ledger.considered += j.stats.Estimated
		looked, found = looked+j.stats.Estimated, found+len(j.found)
	}
	clock.done(looked, found, s.trace.taken())
	return err
}

// walkTogether does jobs on several goroutines.
func (s *search) walkTogether(ctx context.Context, jobs []walkJob, workers int) error {
	var next atomic.Int64
	work := func() error {
		return s.db.engine.Guard(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(jobs) {
					return nil
				}
				if err := s.walkSome(ctx, jobs[i:i+1]); err != nil {
					next.Store(int64(len(jobs))) // stop the other goroutines
					return err
				}
			}
		})
	}
	var group vfs.Group
	defer group.Wait() // also after a panic: the caller releases memory that the others read
	for range workers - 1 {
		group.Go(engine.SegDir, work)
	}
	err := work()
	return errors.Join(err, group.Wait())
}

// A walker is the scratch memory of one goroutine that searches graphs, reused
// through DB.walkers.
type walker struct {
	query graph.Query
	buf   graph.Buffer
}

// walkSome does jobs one after the other. The caller is inside guard.
func (s *search) walkSome(ctx context.Context, jobs []walkJob) error {
	w, _ := s.db.walkers.Get().(*walker)
	if w == nil {
		w = &walker{}
	}
	defer s.db.walkers.Put(w)
	for i := range jobs {
		err := ctx.Err()
		if err == nil {
			err = s.walkPart(&jobs[i], w)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// walkPart searches the graph of one part.
func (s *search) walkPart(j *walkJob, memory *walker) error {
	q, i := j.query, j.part
	w, part := q.parts[i].walk, s.view.Parts[i]
	query, set := &memory.query, q.parts[i].set
	query.Reset(w.graph, q.scorer.Query)
	if q.unseen != nil && q.unseen.part == part {
		query.Without(q.unseen.row)
		if q.free { // no filter, as for a vector that is not stored
			set = nil
		}
	}
	matched := q.matchedIn(s.view, i)
	query.Guard(q.need, w.setting, matched)
	rows, stats, err := query.Find(q.need, w.setting, set, &memory.buf)
	if errors.Is(err, graph.ErrFar) {
		// The rows near the query do not match, so the promise does not hold:
		// search again, for more rows.
		more, setting, ok := w.graph.Longer(w.recall, q.need, stats)
		if raise := part.Segment.Raise(); raise > 1 {
			setting = setting.Times(raise)
		}
		longer := walk{graph: w.graph, setting: setting}
		if ok && (s.walkCost(q, i, longer) <= s.scanCost(q, i) || s.db.opts.walkAlways) {
			before := stats.Estimated
			query.Guard(more, setting, matched)
			rows, stats, err = query.Find(more, setting, set, &memory.buf)
			stats.Estimated += before
		}
	}
	j.stats = stats
	s.trace.read(int64(stats.Estimated)*int64(part.Dim) + int64(len(rows))*int64(4*part.Dim))
	why := ""
	switch {
	case errors.Is(err, graph.ErrFar):
		why = fmt.Sprintf("the rows near the query do not match, and then a beam search with %v promises no recall", w.setting)
	case errors.Is(err, fileformat.ErrDamaged):
		part.Segment.Graph.Distrust(err)
		why = "the graph is damaged"
	case err != nil:
		return err
	case len(rows) < q.need: // although more rows match: see planWalk
		why = "the beam search found too few rows"
	default:
		j.found, err = q.score(part, i, rows)
		return err
	}
	q.parts[i].walk, q.parts[i].reason = walk{}, why
	return nil
}

// score computes the true scores of rows of a part and returns the p.need best,
// best first.
func (p *probe) score(part *engine.Part, at int, rows []uint32) ([]topk.Candidate, error) {
	const ahead = 12 // rows prefetched ahead: all that most queries score
	for _, row := range rows[:min(ahead, len(rows))] {
		part.Segment.Prefetch(int(row))
	}
	found := make([]topk.Candidate, len(rows))
	for n, row := range rows {
		if n+ahead < len(rows) {
			part.Segment.Prefetch(int(rows[n+ahead]))
		}
		vec, err := part.Source.Vectors(int(row), int(row)+1)
		if err != nil {
			return nil, err
		}
		found[n] = topk.Candidate{Upper: p.scorer.Score(vec), Part: int32(at), Row: int32(row)}
	}
	slices.SortFunc(found, func(a, b topk.Candidate) int {
		return cmp.Or(cmp.Compare(b.Upper, a.Upper), cmp.Compare(a.Row, b.Row))
	})
	return found[:min(p.need, len(found))], nil
}
