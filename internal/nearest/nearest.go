package nearest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/score"
	"github.com/vecbolt/vecbolt/internal/topk"
	"github.com/vecbolt/vecbolt/segment/codes"
)

// A Searcher holds what all searches of a database share: settings, and the memory of their
// goroutines.
type Searcher struct {
	engine      *engine.Engine
	worthHelp   time.Duration // see WorthHelp
	GraphAlways bool          // search graphs even where scans cost less; for tests

	// Pointers, because the runtime refers to every sync.Pool for two garbage
	// collections. An embedded pool would keep a closed database in memory as long.
	graphs *sync.Pool // of *graphScratch
	scans  *sync.Pool // of *scanScratch
}

// NewSearcher returns the searcher of a database.
func NewSearcher(e *engine.Engine, worthHelp time.Duration) *Searcher {
	return &Searcher{engine: e, worthHelp: worthHelp, graphs: &sync.Pool{}, scans: &sync.Pool{}}
}

// A Search is one pass over a view for one or more probes.
type Search struct {
	*Searcher
	Version *engine.Version // held by the caller
	View    *engine.View
	Probes  []*Probe
	Workers int
	Trace   *Trace // nil: nobody asks

	codes []*codes.Codes     // by part, opened by the first scan; nil: scan the vectors
	heads []engine.HeadCodes // by part, of parts in memory

	jobs []graphJob // the memory of searchGraphs
}

// Begin makes s a search on one view without probes, and reuses its memory.
func (s *Search) Begin(on *Searcher, ver *engine.Version, v *engine.View, workers int) {
	clear(s.Probes)
	for i := range s.jobs {
		s.jobs[i] = graphJob{found: s.jobs[i].found[:0]}
	}
	*s = Search{Searcher: on, Version: ver, View: v, Probes: s.Probes[:0], Workers: workers, jobs: s.jobs[:0]}
}

// A Probe asks for the rows nearest to one vector.
type Probe struct {
	Scorer  score.Scorer
	Goal                 // the accuracy wanted
	Need    int          // number of best rows to find
	Least   float64      // no row with a lower score is wanted
	Parts   []PartSearch // by part of the view
	Matched int          // rows to consider, of all parts
	Unseen  *Place       // the row of the query vector, treated as not stored

	// The search sets these:
	Best     []Ranked // in order
	Ledger   Ledger
	Sketched int        // of Ledger.Considered: rows whose sketches were scanned
	fast     score.Fast // if a part is scanned
	found    []topk.Candidate
	floor    float64 // no row with a lower score is among the best: see raiseFloors
}

// Reset makes p a probe that asks for nothing, and reuses its memory.
func (p *Probe) Reset() {
	clear(p.Parts)
	clear(p.Best)
	*p = Probe{Parts: p.Parts[:0], Best: p.Best[:0]}
}

// Another returns a copy of p that shares no memory which a search writes.
func (p *Probe) Another() Probe {
	c := *p
	c.Parts, c.Best, c.found = slices.Clone(p.Parts), nil, nil
	return c
}

// ResetParts makes room for the parts of a view: each without a set, and no row counted in Matched.
func (p *Probe) ResetParts(parts int) {
	p.Parts, p.Matched = slices.Grow(p.Parts[:0], parts)[:parts], 0
	clear(p.Parts)
}

// A PartSearch is the search for a probe in one part.
type PartSearch struct {
	Set    bitset.Set   // rows to consider; nil: all
	Live   bool         // Set leaves out dead rows and Probe.Unseen alone
	plan   graphPlan    // of the graph search; zero: scan the part
	reason string       // why, or why not; only with a trace
	codes  *codes.Query // nil: scan the vectors
}

// A Goal is the accuracy that a probe wants: a recall above 0 or a beam width above 0.
type Goal struct {
	Recall float64
	EF     int
}

// Exact reports whether nothing but the true answer is enough.
func (g Goal) Exact() bool { return g.Recall == 1 }

// MatchedIn returns how many rows of a part a probe considers.
func (p *Probe) MatchedIn(v *engine.View, part int) int {
	if p.Parts[part].Set == nil {
		return v.Parts[part].N
	}
	return p.Parts[part].Set.Count()
}

// share returns the share of the n rows of a part that a probe considers.
func (p *Probe) share(part, n int) float64 {
	if p.Parts[part].Set == nil {
		return 1
	}
	return float64(p.Parts[part].Set.Count()) / float64(max(n, 1))
}

// Run finds the best rows of each probe: by graph searches, then by one scan of all other parts,
// and at last by true scores.
func (s *Search) Run(ctx context.Context) error {
	for _, p := range s.Probes {
		s.planGraphs(p)
	}
	if err := s.searchGraphs(ctx); err != nil {
		return err
	}
	clock := s.Trace.Clock("scan")
	scanned, kept := 0, 0
	for _, p := range s.Probes {
		scanned += s.prepareScan(p)
	}
	if scanned > 0 {
		var err error
		if kept, err = s.scan(ctx); err != nil {
			return err
		}
	}
	clock.Done(scanned, kept, s.Trace.Taken())
	for _, p := range s.Probes {
		clock := s.Trace.Clock("score")
		if err := s.rank(ctx, p); err != nil {
			return err
		}
		clock.Done(len(p.found), len(p.Best), int64(len(p.found))*int64(4*len(p.Scorer.Query)))
	}
	return nil
}

// prepareScan prepares a probe for the parts that are scanned, and returns how many of their rows
// it wants. It adds the promise of each part to the ledger.
func (s *Search) prepareScan(p *Probe) int {
	// The answer is approximate anyway, and the scan misses less than it may.
	estimate := p.UsesGraphs() && p.Recall <= codes.SketchRecall && len(s.Probes) < minBatch
	for i, part := range s.View.Parts {
		switch {
		case p.usesGraph(i):
			w := &p.Parts[i].plan
			p.Ledger.Add(Ledger{Approximate: true, share: w.recall, usual: max(w.recall, w.setting.UsualRecall()),
				poor: w.setting.Poor(), graph: true})
		case part.Dim > 0 && part.N > 0:
			if p.Ledger.scanned == 0 {
				p.fast = p.Scorer.Fast()
			}
			s.openCodes()
			n := p.MatchedIn(s.View, i)
			coded := s.codes[i]
			if blocks := s.heads[i].Blocks; len(blocks) > 0 {
				coded = blocks[0] // the query serves all
			}
			l := Ledger{scanned: n, Considered: n, coded: coded != nil}
			if coded != nil {
				p.Parts[i].codes = coded.Query(p.Scorer.Query)
				if estimate && p.Parts[i].codes.Estimate(p.Scorer.Query) {
					l.Approximate, l.sketched = true, true
					l.share, l.usual = codes.SketchRecall, codes.SketchRecall
				}
			}
			p.Ledger.Add(l)
		}
	}
	return p.Ledger.scanned
}
