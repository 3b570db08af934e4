package db

import (
	"context"
	"fmt"
	"slices"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/match"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/nearest"
	"github.com/vecbolt/vecbolt/internal/score"
)

// A search is one pass over a view for one or more queries.
type search struct {
	ctx     context.Context // of the call that it answers
	db      *DB
	ver     *engine.Version
	view    *engine.View
	queries []*probe
	near    nearest.Search // for the vectors of queries
}

// A probe is one query while it is being answered.
type probe struct {
	*Query
	nearest.Probe                 // its vector, the rows to consider, and its ledger
	vector        bool            // it asks for the neighbours of a vector
	text          *textLeg        // nil: it has no text
	where         filter.Expr     // simplified; nil: all
	examples      []nearest.Place // left out of the answer
	forms         []*probe        // the queries that SearchFused fuses
	rows          []ranked        // the best ones, in order
	scale         *[2]float64     // the best scores by vector and text, for Convex; nil: use its own rows
	fused         []ranked        // all fused rows, in order; only for Explain
}

// A ranked is a row with its score in an answer.
type ranked struct {
	nearest.Ranked
	group any   // the value of Group.Field
	legs  []Leg // of a fused row
}

// search answers queries on one view. The caller holds the version.
func (db *DB) search(ctx context.Context, ver *engine.Version, v *engine.View, queries []Query) (results []*Result, err error) {
	err = engine.RetryDerived(func() error {
		s := db.newSearch(ctx, ver, v)
		if results, err = s.answer(ctx, queries); err == nil {
			s.recheck()
		}
		return err
	})
	return results, err
}

// newSearch returns a search on one view. The caller holds the version.
func (db *DB) newSearch(ctx context.Context, ver *engine.Version, v *engine.View) *search {
	near := nearest.Search{Searcher: db.nearest, Version: ver, View: v, Workers: db.opts.Workers}
	return &search{ctx: ctx, db: db, ver: ver, view: v, near: near}
}

// answer answers queries. prepare validates each and finds the rows that match; best ranks the rows
// of all queries together, by vectors, by texts or by both; finish groups or diversifies the best
// rows of each query and reads their documents.
func (s *search) answer(ctx context.Context, queries []Query) ([]*Result, error) {
	if err := s.rankAll(ctx, queries); err != nil {
		return nil, err
	}
	results := make([]*Result, len(queries))
	return results, s.db.engine.Guard(func() (err error) {
		for i, p := range s.queries {
			if results[i], err = s.finish(ctx, p); err != nil {
				return err
			}
		}
		return nil
	})
}

// rankAll prepares queries and finds the best rows of all in one pass, so that they share scans.
func (s *search) rankAll(ctx context.Context, queries []Query) error {
	return s.db.engine.Guard(func() error {
		s.queries = make([]*probe, 0, len(queries))
		for i := range queries {
			p, err := s.prepare(ctx, &queries[i])
			if err != nil && len(queries) > 1 {
				err = fmt.Errorf("query %d: %w", i, err)
			}
			if err != nil {
				return err
			}
			s.queries = append(s.queries, p)
		}
		return s.best(ctx)
	})
}

// nearest finds the rows of probes by their vectors.
func (s *search) nearest(ctx context.Context, probes []*probe) error {
	s.near.Probes = make([]*nearest.Probe, len(probes))
	for i, p := range probes {
		s.near.Probes[i] = &p.Probe
	}
	if err := s.near.Run(ctx); err != nil {
		return err
	}
	for _, p := range probes {
		p.rows = rankedRows(p.Best)
	}
	return nil
}

// rankedRows returns the rows that a search for a vector found.
func rankedRows(best []nearest.Ranked) []ranked {
	rows := make([]ranked, len(best))
	for i, r := range best {
		rows[i].Ranked = r
	}
	return rows
}

// order returns the n best of rows, in order.
func (s *search) order(rows []ranked, n int) ([]ranked, error) {
	compare := func(a, b ranked) int { return nearest.Compare(a.Ranked, b.Ranked) }
	return nearest.Order(s.ctx, s.ver, s.view, rows, n, compare, func(r *ranked) *nearest.Ranked { return &r.Ranked })
}

// prepare validates a query and finds its vector and the rows to consider.
func (s *search) prepare(ctx context.Context, q *Query) (*probe, error) {
	if err := q.validate(s.view.Def); err != nil {
		return nil, err
	}
	p := &probe{Query: q, where: q.Where}
	p.Need, p.Least = q.limit(), engine.NegInf
	if q.Threshold != nil {
		p.Least = *q.Threshold
	}
	var err error
	if p.Goal, err = goalOf(q.Accuracy); err != nil {
		return nil, err
	}
	var vec []float32
	switch t := q.Near.(type) {
	case Vector:
		vec = t
	case Stored:
		vec, _, err = s.vectorOf(string(t))
	case heldOut:
		p.Unseen = new(nearest.Place)
		vec, *p.Unseen, err = s.vectorOf(string(t))
	case Examples:
		vec, p.examples, err = s.recommend(t)
	}
	if err != nil {
		return nil, err
	}
	p.Scorer, p.vector = score.New(s.view.Def.Schema.Metric, vec), len(vec) > 0
	if p.text, err = s.textLeg(ctx, q); err != nil {
		return nil, err
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
	if err := s.choose(ctx, p); err != nil {
		return nil, err
	}
	clock.Done(s.view.Vectors(), p.Matched, 0)
	return p, nil
}

// choose evaluates the filter of a probe on every part.
func (s *search) choose(ctx context.Context, p *probe) error {
	p.Parts, p.Matched = make([]nearest.PartSearch, len(s.view.Parts)), 0
	var where *match.Condition // nil until it is needed
	if p.where != nil {
		var err error
		if where, err = match.New(ctx, s.view, p.where); err != nil {
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
			if err := ctx.Err(); err != nil {
				return err
			}
			if where == nil {
				where, _ = match.New(ctx, s.view, nil) // no texts to prepare, no error
			}
			set, err := where.Rows(i)
			if err != nil {
				return err
			}
			if limits != nil {
				set.And(limits)
			}
			p.Parts[i].Set = set
			p.Matched += set.Count()
		}
	}
	for _, e := range p.examples {
		p.drop(s.view, e)
	}
	if p.Unseen != nil {
		i := slices.Index(s.view.Parts, p.Unseen.Part)
		p.Free = p.Parts[i].Set == nil
		p.drop(s.view, *p.Unseen)
	}
	return nil
}

// drop excludes one row from a probe.
func (p *probe) drop(v *engine.View, e nearest.Place) {
	i := slices.Index(v.Parts, e.Part)
	if p.Parts[i].Set == nil {
		p.Parts[i].Set = bitset.New(e.Part.N)
		p.Parts[i].Set.Fill(e.Part.N)
	}
	if p.Parts[i].Set.Has(e.Row) {
		p.Parts[i].Set.Clear(e.Row)
		p.Matched--
	}
}

// find returns the place of a document, or ErrNotFound.
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
		return nearest.Place{}, fmt.Errorf("%w: document %q in collection %q", ErrNotFound, id, s.view.Def.Name)
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
		return nil, at, invalidf("document %q has no vector", id)
	}
	vec, err := at.Part.Vector(at.Row)
	return vec, at, err
}
