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
	"github.com/vecbolt/vecbolt/internal/score"
	"github.com/vecbolt/vecbolt/internal/topk"
	"github.com/vecbolt/vecbolt/segment/codes"
)

// A search is one pass over a view for one or more queries.
type search struct {
	ctx     context.Context // of the call that it answers; nil before
	db      *DB
	ver     *engine.Version
	view    *engine.View
	queries []*probe
	codes   []*codes.Codes // by part, opened by the first scan; nil: scan the vectors
	workers int
	trace   *trace // of Explain; otherwise nil
}

// A probe is one query while it is being answered.
type probe struct {
	*Query
	goal     // its Accuracy
	scorer   score.Scorer
	vector   bool        // it asks for the neighbours of a vector
	text     *textLeg    // nil: it has no text
	where    filter.Expr // simplified; nil: all
	examples []place     // left out of the answer
	unseen   *place      // the document of the query, treated as not stored
	need     int         // number of best rows to find
	parts    []probePart
	matched  int
	free     bool     // unseen is the only excluded row of its part
	forms    []*probe // the queries that SearchFused fuses

	// Of the search for the vector:
	found []topk.Candidate // by graph searches, with true scores

	ledger ledger      // of all its searches
	scale  *[2]float64 // the best scores by vector and text, for Convex; nil: use its own rows
	fused  []ranked    // all fused rows, in order; only for Explain
}

// A probePart is the plan of a probe for one part.
type probePart struct {
	set bitset.Set // rows to consider; nil: all

	// Of the search for the vector:
	walk   walk         // in the graph; zero: scan
	reason string       // why, or why not; only for Explain
	codes  *codes.Query // nil: scan the vectors
}

// search answers queries on one view. The caller holds the version.
func (db *DB) search(ctx context.Context, ver *engine.Version, v *engine.View, queries []Query) (results []*Result, err error) {
	err = engine.RetryDerived(func() error {
		s := db.newSearch(ver, v)
		if results, err = s.answer(ctx, queries); err == nil {
			db.rechecks.offer(s)
		}
		return err
	})
	return results, err
}

func (db *DB) newSearch(ver *engine.Version, v *engine.View) *search {
	return &search{db: db, ver: ver, view: v, workers: db.opts.Workers}
}

// stopped returns the error of the context, if there is one.
func (s *search) stopped() error {
	if s.ctx == nil {
		return nil
	}
	return s.ctx.Err()
}

// answer answers queries: it ranks the rows of all queries together, so that
// they share scans, and then makes the results one by one.
func (s *search) answer(ctx context.Context, queries []Query) ([]*Result, error) {
	results, _, err := s.answerRanked(ctx, queries)
	return results, err
}

// answerRanked is answer that also returns the best rows of each query.
func (s *search) answerRanked(ctx context.Context, queries []Query) (results []*Result, best [][]ranked, err error) {
	s.ctx = ctx
	err = s.db.engine.Guard(func() error {
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
		if best, err = s.best(ctx); err != nil {
			return err
		}
		results = make([]*Result, len(queries))
		for i, p := range s.queries {
			if results[i], err = s.finish(ctx, p, best[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return results, best, err
}

// prepare validates a query and finds its vector and the rows to consider.
func (s *search) prepare(ctx context.Context, q *Query) (*probe, error) {
	if err := q.validate(s.view.Def); err != nil {
		return nil, err
	}
	p := &probe{Query: q, where: q.Where, need: q.limit()}
	var err error
	if p.goal, err = goalOf(q.Accuracy); err != nil {
		return nil, err
	}
	var vec []float32
	switch t := q.Near.(type) {
	case Vector:
		vec = t
	case Stored:
		vec, _, err = s.vectorOf(string(t))
	case heldOut:
		p.unseen = new(place)
		vec, *p.unseen, err = s.vectorOf(string(t))
	case Examples:
		vec, p.examples, err = s.recommend(t)
	}
	if err != nil {
		return nil, err
	}
	p.scorer, p.vector = score.New(s.view.Def.Schema.Metric, vec), len(vec) > 0
	if p.text, err = s.textLeg(ctx, q); err != nil {
		return nil, err
	}
	switch {
	case q.MMR != nil:
		p.need = q.MMR.fetch(p.need)
	case q.Group != nil:
		p.where, p.need = groupable(q), firstRound(q)
	}
	if p.where != nil {
		p.where = filter.Simplify(p.where)
	}
	clock := s.clock("filter")
	if err := s.choose(ctx, p); err != nil {
		return nil, err
	}
	clock.done(s.view.Vectors(), p.matched, 0)
	return p, nil
}

// choose evaluates the filter of a probe on every part.
func (s *search) choose(ctx context.Context, p *probe) error {
	p.parts, p.matched = make([]probePart, len(s.view.Parts)), 0
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
			p.matched += part.N
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
			p.parts[i].set = set
			p.matched += set.Count()
		}
	}
	for _, e := range p.examples {
		p.drop(s.view, e)
	}
	if p.unseen != nil {
		i := slices.Index(s.view.Parts, p.unseen.part)
		p.free = p.parts[i].set == nil
		p.drop(s.view, *p.unseen)
	}
	return nil
}

// matchedIn returns how many rows of a part a probe considers.
func (p *probe) matchedIn(v *engine.View, part int) int {
	if p.parts[part].set == nil {
		return v.Parts[part].N
	}
	return p.parts[part].set.Count()
}

// drop excludes one row from a probe.
func (p *probe) drop(v *engine.View, e place) {
	i := slices.Index(v.Parts, e.part)
	if p.parts[i].set == nil {
		p.parts[i].set = bitset.New(e.part.N)
		p.parts[i].set.Fill(e.part.N)
	}
	if p.parts[i].set.Has(e.row) {
		p.parts[i].set.Clear(e.row)
		p.matched--
	}
}

// place locates a document.
type place struct {
	part *engine.Part
	row  int
}

// find returns the place of a document, or ErrNotFound.
func (s *search) find(id string) (place, error) {
	var num uint64
	err := s.ver.Read(func(tx *meta.Tx) (err error) {
		num, err = s.ver.Num(tx, s.view, id)
		return err
	})
	if err != nil {
		return place{}, err
	}
	if num == 0 {
		return place{}, fmt.Errorf("%w: document %q in collection %q", ErrNotFound, id, s.view.Def.Name)
	}
	p, row, ok := s.view.Locate(num)
	if !ok {
		return place{}, engine.MissingDocument(s.view.Def.Name, num)
	}
	return place{p, row}, nil
}

// vectorOf returns the vector of a document, which must have one.
func (s *search) vectorOf(id string) ([]float32, place, error) {
	at, err := s.find(id)
	if err != nil {
		return nil, at, err
	}
	if at.part.Dim == 0 {
		return nil, at, engine.Invalidf("document %q has no vector", id)
	}
	vec, err := at.part.Vector(at.row)
	return vec, at, err
}
