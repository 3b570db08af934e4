package db

import (
	"context"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// How many queries are checked, and when a check has consequences.
const (
	recheckEvery = 64   // one in this many queries that search a graph is repeated
	recheckQueue = 16   // queries that can wait; more are dropped
	recheckPause = 100  // pause after a check, in multiples of its duration
	recheckNeed  = 1000 // queries for more hits are not repeated
	recheckMost  = 16   // targets that are counted per collection
	raiseAfter   = 20   // checks needed before searches go further
	raiseMost    = 20   // times
)

// rechecks repeat a few live queries that searched a graph, approximately and
// exactly, while a processor is idle. So the database measures its recall on
// the queries that it gets, and searches further where it misses the promise.
type rechecks struct {
	db    *DB
	queue chan recheck
	ctx   context.Context
	end   context.CancelFunc
	group vfs.Group

	mu      sync.Mutex
	tallies map[uint32]map[float64]*tally // by collection and target
	graphs  map[*engine.OpenSegment]*graphTally
}

// A recheck is a query to repeat.
type recheck struct {
	coll  uint32
	query Query
}

// A graphTally counts the hits that searches of one graph found since its beam width was raised.
type graphTally struct {
	tally
	promised float64 // hits
}

func newRechecks(db *DB) *rechecks {
	r := &rechecks{db: db, tallies: map[uint32]map[float64]*tally{}, graphs: map[*engine.OpenSegment]*graphTally{}}
	if !db.opts.NoRecheck {
		r.queue = make(chan recheck, recheckQueue)
	}
	return r
}

// start checks queued queries in the background until stop.
func (r *rechecks) start() {
	r.ctx, r.end = context.WithCancel(context.Background())
	if r.queue != nil && !r.db.opts.recheckByHand {
		r.group.Go(engine.SegDir, func() error {
			r.serve(r.ctx)
			return nil
		})
	}
}

// stop ends the checks. It waits for the present one to notice.
func (r *rechecks) stop() {
	r.end()
	_ = r.group.Wait() // maintain has recorded the errors
}

// offer queues some of the answered queries.
func (r *rechecks) offer(s *search) {
	if r.queue == nil {
		return
	}
	for _, p := range s.queries {
		if !p.walked() || p.ef > 0 || p.need > recheckNeed || rand.N(s.db.opts.recheckEvery) > 0 {
			continue
		}
		q := Query{Near: Vector(slices.Clone(p.scorer.Query)), K: p.need, Where: p.where, Accuracy: Recall(p.recall)}
		select {
		case r.queue <- recheck{s.view.Def.ID, q}:
		default: // busy
		}
	}
}

// serve checks the queued queries until ctx is done.
func (r *rechecks) serve(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-r.queue:
			if r.db.busy() {
				continue
			}
			start := time.Now()
			r.db.engine.Maintain("repeating a query", func() error { return r.Check(ctx, c) })
			select {
			case <-ctx.Done():
			case <-time.After(recheckPause * time.Since(start)):
			}
		}
	}
}

// busy reports whether every processor has a call to serve.
func (db *DB) busy() bool {
	db.engine.Mu.Lock()
	defer db.engine.Mu.Unlock()
	return db.engine.Running >= runtime.GOMAXPROCS(0)
}

// drain checks the queued queries and does not wait for more.
func (r *rechecks) drain(ctx context.Context) {
	for {
		select {
		case c := <-r.queue:
			r.db.engine.Maintain("repeating a query", func() error { return r.Check(ctx, c) })
		default:
			return
		}
	}
}

// check repeats a query, as it was asked and exactly.
func (r *rechecks) Check(ctx context.Context, c recheck) error {
	ver, err := r.db.engine.Acquire()
	if err != nil {
		return nil // closed
	}
	defer r.db.engine.Done(ver)
	v := ver.Views[c.coll]
	if v == nil { // dropped
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.tallies, c.coll)
		return nil
	}
	return engine.RetryDerived(func() error {
		truth, _, err := r.db.ranking(ctx, ver, v, []Query{c.query}, Exact, 1)
		if err != nil {
			return err
		}
		got, s, err := r.db.ranking(ctx, ver, v, []Query{c.query}, c.query.Accuracy, 1)
		if err == nil && s.queries[0].walked() {
			r.count(c, s, truth[0], got[0])
		}
		return err
	})
}

// count records how many of the true rows a query found.
func (r *rechecks) count(c recheck, s *search, truth, got []ranked) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, wanted, found := s.queries[0], map[*engine.Part]int{}, map[*engine.Part]int{}
	all := len(truth) - missed(truth, got, func(t ranked, ok bool) {
		wanted[t.part]++
		if ok {
			found[t.part]++
		}
	})
	byTarget := r.tallies[c.coll]
	if byTarget == nil {
		byTarget = map[float64]*tally{}
		r.tallies[c.coll] = byTarget
	}
	t := byTarget[p.recall]
	if t == nil && len(byTarget) < recheckMost {
		t = &tally{}
		byTarget[p.recall] = t
	}
	if t != nil {
		t.add(all, len(truth))
	}
	for i := range p.parts {
		if !p.walks(i) {
			continue
		}
		part := s.view.Parts[i]
		seg := part.Segment
		g := r.graphs[seg]
		if g == nil {
			r.forget(s.ver)
			g = &graphTally{}
			r.graphs[seg] = g
		}
		g.add(found[part], wanted[part])
		g.promised += p.parts[i].walk.recall * float64(wanted[part])
		e := g.estimate(strict)
		if promised := g.promised / float64(max(1, e.Wanted)); e.Queries < raiseAfter || e.High >= promised || seg.Raised.Load() >= raiseMost {
			continue
		}
		seg.Raised.Add(1)
		delete(r.graphs, seg)
		delete(r.tallies, c.coll) // measured with the narrower setting
		r.db.opts.Logger.Info("recall was less than promised, searching further", "segment", seg.Info.ID, "recall", e.Recall,
			"queries", e.Queries, "times", seg.Raise())
	}
}

// forget drops the tallies of segments that a version does not have. mu is held.
func (r *rechecks) forget(ver *engine.Version) {
	maps.DeleteFunc(r.graphs, func(s *engine.OpenSegment, _ *graphTally) bool { return !ver.Files.Holds(s) })
}

// observed returns the measured recall of a collection, by target.
func (r *rechecks) observed(coll uint32) []Rechecked {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := []Rechecked{}
	for _, target := range slices.Sorted(maps.Keys(r.tallies[coll])) {
		all = append(all, Rechecked{target, r.tallies[coll][target].estimate(usual)})
	}
	return all
}
