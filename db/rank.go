package db

import (
	"cmp"
	"context"
	"slices"

	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/topk"
)

// A ranked is a row with its true score.
type ranked struct {
	place
	score float64
	id    string
	group any // the value of Group.Field
}

// compareRanked is the order of hits.
func compareRanked(a, b ranked) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.id, b.id))
}

// best returns, for each query, its best rows, as many as it needs, in order.
func (s *search) best(ctx context.Context) ([][]ranked, error) {
	clock := s.clock("scan")
	found, err := s.scan(ctx)
	if err != nil {
		return nil, err
	}
	best := make([][]ranked, len(found))
	err = s.db.guard(func() error {
		for i, p := range s.queries {
			clock.done(p.matched, len(found[i]), s.trace.taken())
			clock = s.clock("score")
			if best[i], err = s.rank(ctx, p, found[i]); err != nil {
				return err
			}
			clock.done(len(found[i]), len(best[i]), int64(len(found[i]))*int64(4*len(p.scorer.query)))
		}
		return nil
	})
	return best, err
}

// rank computes true scores of the candidates and returns the best, in order.
func (s *search) rank(ctx context.Context, q *probe, candidates []topk.Candidate) ([]ranked, error) {
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
			hits = append(hits, ranked{place: place{p, int(c.Row)}, score: score})
		}
	}
	slices.SortFunc(hits, compareRanked)
	// Rows that tie with the last one wanted compete by id.
	if n := q.need; len(hits) > n {
		end := n
		for end < len(hits) && hits[end].score == hits[n-1].score {
			end++
		}
		hits = hits[:end]
	}
	err := s.db.store.View(func(tx *meta.Tx) (err error) {
		for i := range hits {
			h := &hits[i]
			if h.id, err = s.view.idAt(tx, h.part, h.row); err != nil {
				return err
			}
		}
		return nil
	})
	slices.SortFunc(hits, compareRanked)
	return hits[:min(q.need, len(hits))], err
}

// finish makes the answer of the best rows.
func (s *search) finish(ctx context.Context, q *probe, best []ranked) (*Result, error) {
	r := &Result{Exact: true, Complete: true, Recall: 1, Matched: q.matched, Considered: q.matched, Plan: q.plan()}
	var err error
	switch {
	case q.MMR != nil:
		best, err = s.diversify(ctx, q, best)
	case q.Group != nil:
		best, err = s.group(ctx, q, best)
	}
	if err != nil {
		return nil, err
	}
	if q.Group == nil {
		best = best[min(q.Offset, len(best)):min(q.limit(), len(best))]
	}
	clock := s.clock("fetch")
	r.Hits = make([]Hit, len(best))
	err = s.db.store.View(func(tx *meta.Tx) error {
		for i, h := range best {
			d, err := s.view.read(tx, h.part, h.row, q.Select)
			if err != nil {
				return err
			}
			r.Hits[i] = Hit{Document: *d, Score: h.score, Group: h.group}
		}
		return nil
	})
	clock.done(len(best), len(best), 0)
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
