package db

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/topk"
	"github.com/vecbolt/vecbolt/segment/terms"
	"github.com/vecbolt/vecbolt/text"
)

// whyNotText explains the places of documents in the answer to a query with a
// text. It is called inside guard.
func (s *search) whyNotText(ctx context.Context, p *probe, r *Result, ids []string) ([]WhyNot, error) {
	all := make([]WhyNot, len(ids))
	var suspects, vectors []*suspect
	for i, id := range ids {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		w := &all[i]
		w.ID = id
		at, err := s.find(id)
		switch {
		case errors.Is(err, ErrNotFound):
			w.Stage, w.Reason = "missing", "there is no document of that id"
			continue
		case err != nil:
			return nil, err
		}
		w.Exists, w.HasVector = true, at.part.Dim > 0
		x := &suspect{WhyNot: w, ranked: ranked{place: at, id: id, legs: []Leg{{Name: "vector"}, {Name: "text"}}}}
		if err := s.whyFiltered(ctx, p, x); err != nil {
			return nil, err
		}
		if p.vector {
			if err := s.complete(p, &x.ranked, true, true); err != nil {
				return nil, err
			}
			if v := x.legs[0].Score; v != nil {
				x.score = *v
				vectors = append(vectors, x)
			}
		} else if score, err := p.text.Score(slices.Index(s.view.Parts, at.part), at.row); err != nil {
			return nil, p.text.Damaged(err)
		} else if score > 0 {
			x.legs[1].Score = &score
		}
		suspects = append(suspects, x)
	}
	if len(suspects) == 0 {
		return all, nil
	}
	if len(vectors) > 0 {
		if err := s.countBetter(ctx, p, vectors); err != nil {
			return nil, err
		}
	}
	for _, x := range vectors {
		x.legs[0].Rank = x.better + 1
	}
	if err := s.textRanks(ctx, p, suspects); err != nil {
		return nil, err
	}
	for _, x := range suspects {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		at := slices.IndexFunc(p.fused, func(h ranked) bool { return h.place == x.place })
		x.Hit = 1 + slices.IndexFunc(r.Hits, func(h Hit) bool { return h.ID == x.id })
		x.Legs = x.legs
		failed, err := p.text.Fails(slices.Index(s.view.Parts, x.part), x.row)
		if err != nil {
			return nil, p.text.Damaged(err)
		}
		switch {
		case p.vector && at >= 0:
			x.Rank, x.score, x.Score = at+1, p.fused[at].score, &p.fused[at].score
		case !p.vector && x.legs[1].Score != nil:
			x.Rank, x.score, x.Score = x.legs[1].Rank, *x.legs[1].Score, x.legs[1].Score
		}
		switch {
		case x.Hit == 0 && x.matches && failed != nil && failed.Occur == text.Must:
			x.Stage, x.Reason = "text", fmt.Sprintf("it lacks %q, which the text requires", failed.Raw)
		case x.Hit == 0 && x.matches && failed != nil:
			x.Stage, x.Reason = "text", fmt.Sprintf("it has %q, which the text excludes", failed.Raw)
		case x.Hit == 0 && x.matches && x.Rank == 0 && x.legs[0].Score == nil && x.legs[1].Score == nil:
			x.Stage, x.Reason = "text", "it has nothing of the text"
		case x.Hit == 0 && x.matches && x.Rank == 0:
			x.Stage, x.Reason = "depth", "it is not among the best of any ranking that was fused; see legs"
		default:
			s.whyLost(p, r, x)
		}
		if !p.vector {
			x.Legs = x.Legs[1:]
		}
	}
	return all, nil
}

// textRanks finds the ranks of documents by text, exactly.
func (s *search) textRanks(ctx context.Context, p *probe, suspects []*suspect) error {
	c := topk.New(math.MaxInt, engine.NegInf)
	var buf terms.Buffer
	for i, part := range s.view.Parts {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.text.Scan(i, 0, part.N, p.parts[i].set, c, &buf); err != nil {
			return p.text.Damaged(err)
		}
	}
	list, err := s.textScores(p, topk.Merge(c))
	if err != nil {
		return err
	}
	return s.ver.Read(func(tx *meta.Tx) error {
		for _, x := range suspects {
			if err := ctx.Err(); err != nil {
				return err
			}
			score := x.legs[1].Score
			if score == nil {
				continue
			}
			x.legs[1].Rank = 1 // a document that does not match gets the rank it would have
			for _, h := range list {
				if h.score == *score && h.place != x.place {
					id, err := s.view.IDAt(tx, h.part, h.row)
					if err != nil {
						return err
					}
					if id < x.id {
						x.legs[1].Rank++
					}
				} else if h.score > *score {
					x.legs[1].Rank++
				}
			}
		}
		return nil
	})
}
