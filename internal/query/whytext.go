package query

import (
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/topk"
	"github.com/vecbolt/vecbolt/segment/terms"
	"github.com/vecbolt/vecbolt/text"
)

// whyNotText explains the places of documents in the answer to a query with a text. It is called
// inside Engine.Guard.
func (s *search) whyNotText(p *probe, rows []Row, ids []string) ([]WhyNot, error) {
	all, suspects, err := s.suspects(p, ids)
	if err != nil {
		return nil, err
	}
	if len(suspects) == 0 {
		return all, nil
	}
	if err := s.findLegs(p, suspects); err != nil {
		return nil, err
	}
	outcome := s.outcome(p, rows)
	for _, x := range suspects {
		if err := s.ctx.Err(); err != nil {
			return nil, err
		}
		if err := outcome.explainText(x); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// findLegs finds the scores and ranks of documents by vector and by text, exactly.
func (s *search) findLegs(p *probe, suspects []*suspect) error {
	var vectors []*suspect // documents with a vector
	for _, x := range suspects {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		at := x.doc.Place
		x.doc.Legs = []Leg{{Name: "vector"}, {Name: "text"}}
		if p.vector {
			score, ok, err := s.vectorScore(p, at)
			if err != nil {
				return err
			}
			if ok {
				x.doc.Score, x.doc.Legs[0].Score = score, &score
				vectors = append(vectors, x)
			}
		}
		score, ok, err := s.textScore(p, at)
		if err != nil {
			return err
		}
		if ok {
			x.doc.Legs[1].Score = &score
		}
	}
	if len(vectors) > 0 {
		if err := s.countBetter(p, vectors); err != nil {
			return err
		}
	}
	for _, x := range vectors {
		x.doc.Legs[0].Rank = x.better + 1
	}
	return s.textRanks(p, suspects)
}

// explainText is explain for a query with a text, after findLegs.
func (o *outcome) explainText(x *suspect) error {
	p := o.p
	x.Legs = x.doc.Legs
	near, found := x.doc.Legs[0], x.doc.Legs[1]
	failed, err := p.text.Fails(slices.Index(o.view.Parts, x.doc.Part), x.doc.Row)
	if err != nil {
		return p.text.Damaged(err)
	}
	at := slices.IndexFunc(p.fused, func(h Row) bool { return h.Place == x.doc.Place })
	switch {
	case p.vector && at >= 0:
		x.Rank, x.doc.Score, x.Score = at+1, p.fused[at].Score, &p.fused[at].Score
	case !p.vector && found.Score != nil:
		x.Rank, x.doc.Score, x.Score = found.Rank, *found.Score, found.Score
	}
	x.Hit = o.hit(x)
	switch {
	case x.Hit > 0 || !x.matches:
		err = o.explain(x)
	case failed != nil && failed.Occur == text.Must:
		x.lost("text", "it lacks %q, which the text requires", failed.Raw)
	case failed != nil:
		x.lost("text", "it has %q, which the text excludes", failed.Raw)
	case x.Rank > 0:
		err = o.explain(x)
	case near.Score == nil && found.Score == nil:
		x.lost("text", "it has nothing of the text")
	case p.UsesGraphs() && near.Score != nil && near.Rank <= p.Fusion.WithDefaults(p.Need).Depth:
		x.lost("graph", "the approximate search by vector did not find it; see legs")
	default:
		x.lost("depth", "it is not among the best of any ranking that was fused; see legs")
	}
	if !p.vector {
		x.Legs = x.Legs[1:]
	}
	return err
}

// textRanks finds the ranks of documents by text, exactly.
func (s *search) textRanks(p *probe, suspects []*suspect) error {
	c := topk.New(math.MaxInt, engine.NegInf)
	var buf terms.Buffer
	for i, part := range s.view.Parts {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		if err := p.text.Scan(i, 0, part.N, p.Parts[i].Set, c, &buf); err != nil {
			return p.text.Damaged(err)
		}
	}
	list, err := s.textScores(p, topk.Merge(c))
	if err != nil {
		return err
	}
	var scores []float64
	for _, x := range suspects {
		if score := x.doc.Legs[1].Score; score != nil {
			scores = append(scores, *score)
		}
	}
	ranks := newStanding(scores)
	for _, h := range list {
		ranks.add(h.Score, h.Place)
	}
	if err := s.settle(ranks); err != nil {
		return err
	}
	for _, x := range suspects { // a document that does not match gets the rank it would have
		if score := x.doc.Legs[1].Score; score != nil {
			x.doc.Legs[1].Rank = 1 + ranks.before(*score, x.doc.ID)
		}
	}
	return nil
}
