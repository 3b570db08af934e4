package query

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/match"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/nearest"
	"github.com/vecbolt/vecbolt/internal/score"
)

// A Searcher answers the queries of a database. Its methods are safe for concurrent use. The caller
// holds the version that it passes.
type Searcher struct {
	Engine      *engine.Engine
	Nearest     *nearest.Searcher
	Rechecks    *nearest.Rechecks
	Workers     int // goroutines of one search
	CheapFusion int // see the constant
	ConvexTexts int // see the constant

	passes *sync.Pool // of *search; a pointer for the same reason as in nearest.Searcher
}

// Init makes s ready once its fields are set.
func (s *Searcher) Init() *Searcher {
	s.passes = &sync.Pool{}
	return s
}

// Search answers queries on one view in one pass, and passes each answer to use, which must not
// keep it. If one query is invalid, none is answered.
func (s *Searcher) Search(
	ctx context.Context, ver *engine.Version, v *engine.View, queries []Query, use func(i int, a *Answer) error,
) error {
	pass, _ := s.passes.Get().(*search)
	if pass == nil {
		pass = &search{}
	}
	err := engine.RetryDerived(func() error {
		pass.begin(s, ctx, ver, v)
		return pass.answer(queries)
	})
	if err == nil {
		pass.recheck()
	}
	for i := range pass.answers {
		if err == nil {
			err = use(i, &pass.answers[i])
		}
	}
	if len(queries) <= pooledQueries {
		pass.forget()
		s.passes.Put(pass)
	}
	return err
}

// pooledQueries is the number of queries up to which the memory of a pass is kept for others.
const pooledQueries = 16

// A search is one pass over a view for one or more queries.
type search struct {
	*Searcher
	ctx     context.Context // of the call that it answers
	ver     *engine.Version
	view    *engine.View
	queries []*probe
	near    nearest.Search // for the vectors of queries
	answers []Answer

	probes []probe // the memory of queries
}

// begin makes s a search on one view, and reuses its memory.
func (s *search) begin(on *Searcher, ctx context.Context, ver *engine.Version, v *engine.View) {
	s.Searcher, s.ctx, s.ver, s.view = on, ctx, ver, v
	s.queries, s.answers = s.queries[:0], s.answers[:0]
	s.near.Begin(on.Nearest, ver, v, on.Workers)
}

// forget drops all references, so that only memory is left.
func (s *search) forget() {
	for i := range s.probes {
		s.probes[i].reset(nil)
	}
	clear(s.answers)
	s.near.Begin(nil, nil, nil, 0)
	*s = search{queries: s.queries, near: s.near, answers: s.answers, probes: s.probes}
}

// A probe is one query while it is being answered.
type probe struct {
	*Query
	nearest.Probe                 // its vector, the rows to consider, and its ledger
	vector        bool            // it asks for the neighbours of a vector
	text          *textLeg        // nil: it has no text
	where         filter.Expr     // simplified; nil: all
	examples      []nearest.Place // left out of the answer
	rows          []Row           // the best ones, in order
	scale         *[2]float64     // the best scores by vector and text, for Convex; nil: use its own rows
	skipped       []Row           // the hits before Offset; of a group, only those known so far
	fused         []Row           // all fused rows, in order; only for Explain
}

// reset makes p the probe of q, and reuses its memory.
func (p *probe) reset(q *Query) {
	clear(p.rows)
	*p = probe{Query: q, Probe: p.Probe, rows: p.rows[:0]}
	p.Probe.Reset()
}

// another returns a copy of p that shares no memory which a search writes.
func (p *probe) another() *probe {
	c := *p
	c.Probe, c.rows = p.Probe.Another(), nil
	return &c
}

// on returns a search on one view.
func (s *Searcher) on(ctx context.Context, ver *engine.Version, v *engine.View) *search {
	pass := &search{}
	pass.begin(s, ctx, ver, v)
	return pass
}

// answer answers queries. prepare validates each and finds the rows that match; best ranks the rows
// of all queries together, by vectors, by texts or by both; finish groups or diversifies the best
// rows of each query.
func (s *search) answer(queries []Query) error {
	if err := s.rankAll(queries); err != nil {
		return err
	}
	s.answers = slices.Grow(s.answers, len(queries))[:len(queries)]
	return s.Engine.Guard(func() error {
		for i, p := range s.queries {
			if err := s.finish(p, &s.answers[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// rankAll prepares queries and finds the best rows of all in one pass, so that they share scans.
func (s *search) rankAll(queries []Query) error {
	return s.Engine.Guard(func() error {
		s.queries = s.queries[:0]
		s.probes = slices.Grow(s.probes[:0], len(queries))[:len(queries)]
		for i := range queries {
			p := &s.probes[i]
			err := s.prepare(p, &queries[i])
			if err != nil && len(queries) > 1 {
				err = fmt.Errorf("query %d: %w", i, err)
			}
			if err != nil {
				return err
			}
			s.queries = append(s.queries, p)
		}
		return s.best()
	})
}

// nearest finds the rows of probes by their vectors.
func (s *search) nearest(probes []*probe) error {
	s.near.Probes = s.near.Probes[:0]
	for _, p := range probes {
		s.near.Probes = append(s.near.Probes, &p.Probe)
	}
	if err := s.near.Run(s.ctx); err != nil {
		return err
	}
	for _, p := range probes {
		p.rows = slices.Grow(p.rows[:0], len(p.Best))
		for _, r := range p.Best {
			p.rows = append(p.rows, Row{Ranked: r})
		}
	}
	return nil
}

// settlePages answers queries by vector again, exactly, whose page begins with the score of the hit
// before it. Which of equal rows an approximate search finds depends on the number of hits, so
// pages would repeat some of them and leave out others.
func (s *search) settlePages() error {
	var tied []*probe
	for _, p := range s.queries {
		byVector := p.text == nil && p.MMR == nil && p.Group == nil
		if !byVector || p.Offset == 0 || p.Offset >= len(p.rows) || !p.Ledger.Approximate ||
			p.rows[p.Offset-1].Score != p.rows[p.Offset].Score {
			continue
		}
		q := *p.Query
		q.Accuracy = nearest.Goal{Recall: 1}
		if err := s.prepare(p, &q); err != nil {
			return err
		}
		tied = append(tied, p)
	}
	if len(tied) == 0 {
		return nil
	}
	return s.nearest(tied)
}

// order returns the n best of rows, in order.
func (s *search) order(rows []Row, n int) ([]Row, error) {
	compare := func(a, b Row) int { return nearest.Compare(a.Ranked, b.Ranked) }
	return nearest.Order(s.ctx, s.ver, s.view, rows, n, compare, func(r *Row) *nearest.Ranked { return &r.Ranked })
}

// prepare makes p the probe of a query: it validates the query and finds its vector and the rows
// to consider.
func (s *search) prepare(p *probe, q *Query) error {
	p.reset(q)
	if err := q.check(s.view.Def); err != nil {
		return err
	}
	p.where = q.Where
	p.Need, p.Least = q.limit(), engine.NegInf
	if q.Threshold != nil {
		p.Least = *q.Threshold
	}
	p.Goal = q.Accuracy
	var vec []float32
	var err error
	switch t := q.Near.(type) {
	case Vector:
		vec = t
	case Stored:
		vec, _, err = s.vectorOf(string(t))
	case HeldOut:
		p.Unseen = new(nearest.Place)
		vec, *p.Unseen, err = s.vectorOf(string(t))
	case Examples:
		vec, p.examples, err = s.recommend(t)
	}
	if err != nil {
		return err
	}
	p.Scorer, p.vector = score.New(s.view.Def.Schema.Metric, vec), len(vec) > 0
	if p.text, err = s.textLeg(q); err != nil {
		return err
	}
	switch {
	case q.MMR != nil:
		p.Need = q.MMR.fetch(p.Need)
	case q.Group != nil:
		p.where, p.Need = groupable(q), firstRound(q)
	}
	if p.where != nil {
		p.where = filter.Simplify(p.where)
	}
	clock := s.clock("filter")
	if err := s.choose(p); err != nil {
		return err
	}
	clock.Done(s.view.Vectors(), p.Matched, 0)
	return nil
}

// choose evaluates the filter of a probe on every part.
func (s *search) choose(p *probe) error {
	p.ResetParts(len(s.view.Parts))
	var where *match.Condition // nil until it is needed
	if p.where != nil {
		var err error
		if where, err = match.New(s.ctx, s.view, p.where); err != nil {
			return err
		}
	}
	for i, part := range s.view.Parts {
		var limits bitset.Set // by required and excluded terms
		if p.text != nil {
			limits = p.text.Restriction(i)
		}
		switch {
		case part.Dim == 0 && p.text == nil:
		case p.where == nil && part.Dead.Count() == 0 && limits == nil:
			p.Matched += part.N
		default:
			if err := s.ctx.Err(); err != nil {
				return err
			}
			if where == nil {
				where, _ = match.New(s.ctx, s.view, nil) // no texts to prepare, no error
			}
			set, err := where.Rows(i)
			if err != nil {
				return err
			}
			if limits != nil {
				set.And(limits)
			}
			p.Parts[i] = nearest.PartSearch{Set: set, Live: p.where == nil && limits == nil}
			p.Matched += set.Count()
		}
	}
	for _, e := range p.examples {
		p.drop(s.view, e).Live = false
	}
	if p.Unseen != nil {
		p.drop(s.view, *p.Unseen)
	}
	return nil
}

// drop excludes one row from a probe, and returns the search of its part.
func (p *probe) drop(v *engine.View, e nearest.Place) *nearest.PartSearch {
	part := &p.Parts[slices.Index(v.Parts, e.Part)]
	if part.Set == nil {
		*part = nearest.PartSearch{Set: bitset.New(e.Part.N), Live: true}
		part.Set.Fill(e.Part.N)
	}
	if part.Set.Has(e.Row) {
		part.Set.Clear(e.Row)
		p.Matched--
	}
	return part
}

// find returns the place of a document, or engine.ErrNotFound.
func (s *search) find(id string) (nearest.Place, error) {
	var num uint64
	err := s.ver.Read(func(tx *meta.Tx) (err error) {
		num, err = s.ver.Num(tx, s.view, id)
		return err
	})
	if err != nil {
		return nearest.Place{}, err
	}
	if num == 0 {
		return nearest.Place{}, fmt.Errorf("%w: document %q in collection %q", engine.ErrNotFound, id, s.view.Def.Name)
	}
	p, row, ok := s.view.Locate(num)
	if !ok {
		return nearest.Place{}, engine.MissingDocument(s.view.Def.Name, num)
	}
	return nearest.Place{Part: p, Row: row}, nil
}

// vectorOf returns the vector of a document, which must have one.
func (s *search) vectorOf(id string) ([]float32, nearest.Place, error) {
	at, err := s.find(id)
	if err != nil {
		return nil, at, err
	}
	if at.Part.Dim == 0 {
		return nil, at, document.Invalidf("document %q has no vector", id)
	}
	vec, err := at.Part.Vector(at.Row)
	return vec, at, err
}
