package db

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"
)

// How many queries are checked, and when a check has consequences.
const (
	recheckEvery = 64   // one in this many queries that search a graph is repeated
	recheckQueue = 16   // queries that can wait; more are dropped
	recheckPause = 100  // pause after a check, in multiples of its duration
	recheckNeed  = 1000 // queries for more hits are not repeated
	recheckMost  = 16   // targets that are counted per collection
	raiseAfter   = 20   // checks needed before searches go further
	raiseBy      = 1.5
	raiseMost    = 20 // times
)

// rechecks repeat a few live queries that searched a graph, approximately and
// exactly, while a processor is idle. So the database measures its recall on
// the queries that it gets, and searches further where it misses the promise.
type rechecks struct {
	db    *DB
	queue chan recheck

	mu      sync.Mutex
	tallies map[uint32]map[float64]*tally // by collection and target
}

// A recheck is a query to repeat.
type recheck struct {
	coll  uint32
	query Query
}

func newRechecks(db *DB) *rechecks {
	r := &rechecks{db: db, tallies: map[uint32]map[float64]*tally{}}
	if !db.opts.NoRecheck {
		r.queue = make(chan recheck, recheckQueue)
	}
	return r
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
		q := Query{Near: Vector(slices.Clone(p.scorer.query)), K: p.need, Where: p.where, Accuracy: Recall(p.recall)}
		select {
		case r.queue <- recheck{s.view.def.id, q}:
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
			r.db.maintain("repeating a query", func() error { return r.check(ctx, c) })
			select {
			case <-ctx.Done():
			case <-time.After(recheckPause * time.Since(start)):
			}
		}
	}
}

// busy reports whether every processor has a call to serve.
func (db *DB) busy() bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.running >= runtime.GOMAXPROCS(0)
}

// drain checks the queued queries and does not wait for more.
func (r *rechecks) drain(ctx context.Context) {
	for {
		select {
		case c := <-r.queue:
			r.db.maintain("repeating a query", func() error { return r.check(ctx, c) })
		default:
			return
		}
	}
}

// check repeats a query, as it was asked and exactly.
func (r *rechecks) check(ctx context.Context, c recheck) error {
	ver, err := r.db.acquire()
	if err != nil {
		return nil // closed
	}
	defer r.db.done(ver)
	v := ver.views[c.coll]
	if v == nil { // dropped
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.tallies, c.coll)
		return nil
	}
	return retryDerived(func() error {
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
	p, wanted, found := s.queries[0], map[*part]int{}, map[*part]int{}
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
		part := s.view.parts[i]
		seg := part.segment
		seg.checked.add(found[part], wanted[part])
		seg.promised += p.parts[i].walk.recall * float64(wanted[part])
		e := seg.checked.estimate(strict)
		if promised := seg.promised / float64(max(1, e.Wanted)); e.Queries < raiseAfter || e.High >= promised || seg.raised.Load() >= raiseMost {
			continue
		}
		seg.raised.Add(1)
		seg.checked, seg.promised = tally{}, 0
		delete(r.tallies, c.coll) // measured with the narrower setting
		r.db.opts.Logger.Info("recall was less than promised, searching further", "segment", seg.info.ID, "recall", e.Recall,
			"queries", e.Queries, "times", seg.raise())
	}
}

// raise returns the factor on the calibrated setting of the graph.
func (s *openSegment) raise() float64 { return math.Pow(raiseBy, float64(s.raised.Load())) }

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
