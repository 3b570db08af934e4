package nearest

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

// How many probes are checked, and when a check has consequences.
const (
	RecheckEvery   = 64   // one in this many probes that search a graph is repeated
	RecheckQueue   = 16   // probes that can wait; more are dropped
	recheckPause   = 100  // pause after a check, in multiples of its duration
	RecheckMaxNeed = 1000 // probes for more rows are not repeated
	recheckTargets = 16   // targets that are counted per collection
	RaiseAfter     = 20   // checks needed before searches go further
	maxRaise       = 20   // times
	tallyQueries   = 2000 // queries that count about a graph; then all earlier ones count half
)

// Rechecks repeat a few live queries that searched a graph, approximately and exactly, while a
// processor is idle. So the database measures its recall on the queries that it gets, and widens
// the beams of graphs that miss their promise. Wants, Offer and Observed are safe for concurrent
// use.
type Rechecks struct {
	engine *engine.Engine
	every  int          // one in this many queries is repeated; 0: none
	queue  chan recheck // nil: no query is repeated
	ctx    context.Context
	end    context.CancelFunc
	group  vfs.Group

	mu      sync.Mutex
	tallies map[uint32]map[float64]*Tally // by collection and target
	graphs  map[*engine.OpenSegment]*graphTally

	stored []byte // content of the file; nil: there is none
}

// A Repeat answers a probe again, with the same accuracy or exactly. The search that it
// returns has that one probe.
type Repeat func(ctx context.Context, ver *engine.Version, v *engine.View, exact bool) (*Search, error)

// A recheck is a probe to repeat.
type recheck struct {
	coll   uint32
	repeat Repeat
}

// A graphTally counts the hits that searches of one graph found since its beam width was raised.
type graphTally struct {
	Tally
	promised float64 // hits
}

// NewRechecks returns the rechecks of a database, of one in every probes that search a graph; 0
// means never. It restores what earlier processes have learnt.
func NewRechecks(e *engine.Engine, every int) *Rechecks {
	r := &Rechecks{
		engine: e, every: every,
		tallies: map[uint32]map[float64]*Tally{}, graphs: map[*engine.OpenSegment]*graphTally{},
	}
	r.ctx, r.end = context.WithCancel(context.Background())
	if every > 0 {
		r.queue = make(chan recheck, RecheckQueue)
	}
	r.load()
	return r
}

// Active reports whether probes are repeated at all.
func (r *Rechecks) Active() bool { return r.queue != nil }

// Start checks queued probes in the background until Stop.
func (r *Rechecks) Start() {
	if !r.Active() {
		return
	}
	r.group.Go(engine.SegDir, func() error {
		r.serve(r.ctx)
		return nil
	})
}

// Stop ends the checks, waits for the running one, and stores the measured recalls.
func (r *Rechecks) Stop() {
	r.end()
	_ = r.group.Wait() // Maintain has recorded the errors
	r.save()
}

// Wants reports whether an answered probe is one of those to repeat.
func (r *Rechecks) Wants(p *Probe) bool {
	return r.Active() && p.UsesGraphs() && p.EF == 0 && p.Need <= RecheckMaxNeed && rand.N(r.every) == 0
}

// Offer queues a probe.
func (r *Rechecks) Offer(coll uint32, repeat Repeat) {
	select {
	case r.queue <- recheck{coll, repeat}:
	default: // busy
	}
}

// serve checks the queued probes until ctx is done.
func (r *Rechecks) serve(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-r.queue:
			if r.busy() {
				continue
			}
			start := time.Now()
			r.engine.Maintain("repeating a query", func() error { return r.check(ctx, c) })
			select {
			case <-ctx.Done():
			case <-time.After(recheckPause * time.Since(start)):
			}
		}
	}
}

// busy reports whether every processor has a call to serve.
func (r *Rechecks) busy() bool { return r.engine.Calls() >= runtime.GOMAXPROCS(0) }

// Drain checks the queued probes and does not wait for more.
func (r *Rechecks) Drain(ctx context.Context) {
	for {
		select {
		case c := <-r.queue:
			r.engine.Maintain("repeating a query", func() error { return r.check(ctx, c) })
		default:
			return
		}
	}
}

// check repeats a probe, as it was asked and exactly.
func (r *Rechecks) check(ctx context.Context, c recheck) error {
	ver, err := r.engine.Acquire(ctx)
	if err != nil {
		return nil // closed
	}
	defer r.engine.Done(ver)
	v := ver.Views[c.coll]
	if v == nil { // dropped
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.tallies, c.coll)
		return nil
	}
	return engine.RetryDerived(func() error {
		truth, err := c.repeat(ctx, ver, v, true)
		if err != nil {
			return err
		}
		got, err := c.repeat(ctx, ver, v, false)
		if err == nil && got.Probes[0].UsesGraphs() && r.count(c.coll, got, truth.Probes[0].Best) {
			r.save() // a process that is killed has learnt it, too
		}
		return err
	})
}

// count records how many of the true rows a probe found. It raises the beam width of a graph that
// keeps missing its promise, and reports whether it raised one.
func (r *Rechecks) count(coll uint32, s *Search, truth []Ranked) (raised bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, wanted, found := s.Probes[0], map[*engine.Part]int{}, map[*engine.Part]int{}
	all := len(truth) - Missed(truth, p.Best, func(t Ranked, ok bool) {
		wanted[t.Part]++
		if ok {
			found[t.Part]++
		}
	})
	byTarget := r.tallies[coll]
	if byTarget == nil {
		byTarget = map[float64]*Tally{}
		r.tallies[coll] = byTarget
	}
	t := byTarget[p.Recall]
	if t == nil && len(byTarget) < recheckTargets {
		t = &Tally{}
		byTarget[p.Recall] = t
	}
	if t != nil {
		t.Add(all, len(truth))
	}
	for i := range p.Parts {
		if !p.usesGraph(i) {
			continue
		}
		part := s.View.Parts[i]
		seg := part.Segment
		g := r.graphs[seg]
		if g == nil {
			r.forget(s.Version)
			g = &graphTally{}
			r.graphs[seg] = g
		}
		g.Add(found[part], wanted[part])
		g.promised += p.Parts[i].plan.recall * float64(wanted[part])
		if g.queries >= tallyQueries {
			g.halve()
			g.promised /= 2
		}
		e := g.Estimate(strict)
		if promised := g.promised / float64(max(1, e.Wanted)); e.Queries < RaiseAfter ||
			e.High >= promised || seg.Raised.Load() >= maxRaise {
			continue
		}
		seg.Raised.Add(1)
		raised = true
		delete(r.graphs, seg)
		delete(r.tallies, coll) // measured with the narrower setting
		r.engine.Opts.Logger.Info("recall was less than promised, searching further", "segment",
			seg.Info.ID, "recall", e.Recall,
			"queries", e.Queries, "times", seg.Raise())
	}
	return raised
}

// forget drops the tallies of segments that a version does not have. mu is held.
func (r *Rechecks) forget(ver *engine.Version) {
	maps.DeleteFunc(r.graphs, func(s *engine.OpenSegment, _ *graphTally) bool { return !ver.Files.Holds(s) })
}

// A TargetRecall is the recall measured on repeated probes with one target.
type TargetRecall struct {
	Target float64
	Estimate
}

// Observed returns the measured recall of a collection, by target.
func (r *Rechecks) Observed(coll uint32) []TargetRecall {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []TargetRecall
	for _, target := range slices.Sorted(maps.Keys(r.tallies[coll])) {
		all = append(all, TargetRecall{target, r.tallies[coll][target].Estimate(Usual)})
	}
	return all
}
