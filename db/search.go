package db

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/topk"
	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/simd"
)

// DefaultK is the number of hits when Query.K is zero.
const DefaultK = 10

// A Query asks for the documents whose vectors are nearest to one vector.
type Query struct {
	// Vector is what to look for; or
	Vector []float32
	// ID names a stored document whose vector to look for. The document
	// itself is among the hits.
	ID string

	// K is the most hits wanted; 0 means DefaultK. If fewer documents match,
	// all of them are returned.
	K int
	// Offset skips that many of the best hits first.
	Offset int
	// Where restricts the search to documents that match; nil to all. It is
	// applied before ranking: K hits are found whenever K documents match.
	Where filter.Expr
	// Threshold is the least score wanted, inclusive; nil is no bound.
	Threshold *float64
	// Exact asks for the true answer whatever it costs.
	Exact bool
	// Select says what a hit carries; the zero value means text and metadata.
	Select Select
}

// A Hit is a document with its score.
type Hit struct {
	Document
	// Score is higher for better hits under every metric; see Metric. It is
	// computed in float64 by one definition: the same bits on every machine.
	Score float64 `json:"score"`
}

// A Result answers one Query.
type Result struct {
	// Hits are ordered by score, best first, and by id where scores are equal.
	Hits []Hit `json:"hits"`
	// Exact means that no other document of the collection belongs here.
	Exact bool `json:"exact"`
	// Complete means that there are as many hits as asked for, or as match.
	Complete bool `json:"complete"`
	// Matched is the number of documents with a vector that match Where.
	Matched int `json:"matched"`
	// Considered is the number of vectors whose score was looked at.
	Considered int `json:"considered"`
	// Plan says how the answer was found.
	Plan string `json:"plan"`
}

// limit returns how many of the best hits have to be known.
func (q *Query) limit() int { return cmp.Or(q.K, DefaultK) + q.Offset }

func (q *Query) validate(def *definition) error {
	switch {
	case q.K < 0:
		return invalidf("k is %d", q.K)
	case q.Offset < 0:
		return invalidf("offset is %d", q.Offset)
	case q.K > math.MaxInt32 || q.Offset > math.MaxInt32:
		return invalidf("k %d with offset %d is beyond 2^31", q.K, q.Offset)
	case q.ID != "" && q.Vector != nil:
		return invalidf("query has a vector and an id")
	case q.ID == "" && len(q.Vector) == 0:
		return invalidf("query has neither a vector nor an id")
	case q.Threshold != nil && math.IsNaN(*q.Threshold):
		return invalidf("threshold is NaN")
	}
	if q.ID == "" {
		if def.schema.Dim != 0 && len(q.Vector) != def.schema.Dim {
			return &DimensionError{Collection: def.name, Expected: def.schema.Dim, Got: len(q.Vector)}
		}
		if !simd.Finite(q.Vector) {
			return invalidf("query vector holds NaN or infinity")
		}
	}
	if q.Where != nil {
		if err := filter.Validate(q.Where); err != nil {
			return invalidf("where: %v", err)
		}
	}
	return nil
}

// A search is one pass over a view for one or more queries.
type search struct {
	db      *DB
	ver     *version
	view    *view
	queries []*probe
	codes   []*codes.Codes // by part; nil: scan the vectors
	workers int
}

// A probe is one query while it is being answered.
type probe struct {
	*Query
	scorer  scorer
	sets    []bitset.Set   // rows to consider, by part; nil: all
	codes   []*codes.Query // by part; nil: scan the vectors
	matched int
}

// search answers queries on one view. The caller holds the version.
func (db *DB) search(ctx context.Context, ver *version, v *view, queries []Query) (results []*Result, err error) {
	err = retryDerived(func() error {
		results, err = db.searchOnce(ctx, ver, v, queries)
		return err
	})
	return results, err
}

func (db *DB) searchOnce(ctx context.Context, ver *version, v *view, queries []Query) ([]*Result, error) {
	s := &search{db: db, ver: ver, view: v, workers: db.opts.Workers}
	results := make([]*Result, len(queries))
	err := db.guard(func() error {
		s.codes = v.codes()
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
		return nil
	})
	if err != nil {
		return nil, err
	}
	found, err := s.scan(ctx)
	if err != nil {
		return nil, err
	}
	err = db.guard(func() error {
		for i, p := range s.queries {
			if results[i], err = s.finish(ctx, p, found[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return results, err
}

// prepare validates a query, finds its vector and its rows.
func (s *search) prepare(ctx context.Context, q *Query) (*probe, error) {
	if err := q.validate(s.view.def); err != nil {
		return nil, err
	}
	vec := q.Vector
	if q.ID != "" {
		var err error
		if vec, err = s.vectorOf(q.ID); err != nil {
			return nil, err
		}
	}
	p := &probe{
		Query:  q,
		scorer: newScorer(s.view.def.schema.Metric, vec),
		sets:   make([]bitset.Set, len(s.view.parts)),
		codes:  make([]*codes.Query, len(s.view.parts)),
	}
	where := q.Where
	if where != nil {
		where = filter.Simplify(where)
	}
	for i, part := range s.view.parts {
		if s.codes[i] != nil {
			p.codes[i] = s.codes[i].Query(vec)
		}
		switch {
		case part.dim == 0:
		case where == nil && part.dead.Count() == 0:
			p.matched += part.n
		default:
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			set, err := part.rows(where)
			if err != nil {
				return nil, err
			}
			p.sets[i] = set
			p.matched += set.Count()
		}
	}
	return p, nil
}

func (s *search) vectorOf(id string) ([]float32, error) {
	var num uint64
	err := s.db.store.View(func(tx *meta.Tx) (err error) {
		num, err = s.ver.num(tx, s.view, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	if num == 0 {
		return nil, fmt.Errorf("%w: document %q in collection %q", ErrNotFound, id, s.view.def.name)
	}
	p, row, ok := s.view.locate(num)
	if !ok {
		return nil, missingDocument(s.view.def.name, num)
	}
	if p.dim == 0 {
		return nil, invalidf("document %q has no vector", id)
	}
	return p.vector(row)
}

// plan says how a query was answered.
func (q *probe) plan() string {
	for _, c := range q.codes {
		if c != nil {
			return "exact scan of codes"
		}
	}
	return "exact scan"
}

// finish computes true scores of the candidates, ranks them and fetches the
// documents.
func (s *search) finish(ctx context.Context, q *probe, candidates []topk.Candidate) (*Result, error) {
	type ranked struct {
		score float64
		id    string
		part  *part
		row   int
	}
	hits := make([]ranked, 0, len(candidates))
	for i, c := range candidates {
		if i%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
		p := s.view.parts[c.Part]
		vec, err := p.source.vectors(int(c.Row), int(c.Row)+1)
		if err != nil {
			return nil, err
		}
		if score := q.scorer.score(vec); q.Threshold == nil || score >= *q.Threshold {
			hits = append(hits, ranked{score: score, part: p, row: int(c.Row)})
		}
	}
	byScore := func(a, b ranked) int { return cmp.Compare(b.score, a.score) }
	slices.SortFunc(hits, byScore)
	// Rows that tie with the last one wanted compete by id.
	if n := q.limit(); len(hits) > n {
		end := n
		for end < len(hits) && hits[end].score == hits[n-1].score {
			end++
		}
		hits = hits[:end]
	}

	r := &Result{Exact: true, Complete: true, Matched: q.matched, Considered: q.matched, Plan: q.plan()}
	err := s.db.store.View(func(tx *meta.Tx) error {
		for i := range hits {
			h := &hits[i]
			var err error
			if h.id, err = s.view.idAt(tx, h.part, h.row); err != nil {
				return err
			}
		}
		slices.SortFunc(hits, func(a, b ranked) int { return cmp.Or(byScore(a, b), cmp.Compare(a.id, b.id)) })
		hits = hits[min(q.Offset, len(hits)):min(q.limit(), len(hits))]
		r.Hits = make([]Hit, len(hits))
		for i, h := range hits {
			d, err := s.view.read(tx, h.part, h.row, q.Select)
			if err != nil {
				return err
			}
			r.Hits[i] = Hit{Document: *d, Score: h.score}
		}
		return nil
	})
	return r, err
}

// read returns the selected parts of the document at a row.
func (v *view) read(tx *meta.Tx, p *part, row int, want Select) (*Document, error) {
	b, err := v.stored(tx, p, row)
	if err != nil {
		return nil, err
	}
	d, err := decodeDocument(b, want)
	if err != nil {
		return nil, corruptDocument(p.nums[row], err)
	}
	if want.has(WithVector) {
		d.Vector, err = p.vector(row)
	}
	return d, err
}
