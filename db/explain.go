package db

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/match"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/nearest"
)

// An Explanation is a Result together with the steps that led to it.
type Explanation struct {
	Result *Result `json:"result"`
	// Plan has one element for each part that was searched: each part with vectors or, if
	// the query has a text, every part.
	Plan []PartPlan `json:"plan"`
	// Stages are the steps of the search, in order. Their times do not overlap.
	Stages []Stage `json:"stages"`
	// WhyNot has one element for each id of the call, in that order.
	WhyNot []WhyNot `json:"why_not,omitempty"`
}

// A Stage is one step of a search.
type Stage struct {
	// Name is "filter", "graph", "scan", "score" (true scores of candidates), "text",
	// "fuse", "mmr", "group" or "fetch".
	Name string `json:"name"`
	// Rows is the number of rows that the stage considered, and Kept the number it left.
	Rows int `json:"rows"`
	Kept int `json:"kept"`
	// Bytes is the approximate size of the vectors and codes that were read.
	Bytes int64         `json:"bytes"`
	Time  time.Duration `json:"ns"`
}

// A WhyNot says where one document ranks in the answer, or why it is missing from it.
type WhyNot struct {
	ID string `json:"id"`
	// Hit is its position among the hits, from 1; 0 if it is not a hit.
	Hit int `json:"hit"`
	// Exists reports whether the document exists, and HasVector whether it has a vector.
	Exists    bool `json:"exists"`
	HasVector bool `json:"has_vector"`
	// Score is its true score.
	Score *float64 `json:"score,omitempty"`
	// Rank is its exact rank, from 1, among all documents that match Where. For a
	// document that does not match, it is the rank it would have. Offset, Threshold,
	// Group and MMR are not considered.
	Rank int `json:"rank,omitempty"`
	// Legs has its place in each ranking, if the query has a text. Score and Rank are
	// then those after fusion; both are missing if no list has the document.
	Legs []Leg `json:"legs,omitempty"`
	// Clause is the innermost part of Where that the document fails, as JSON, and Path is
	// the JSON pointer of that part; see filter.Why.
	Clause string `json:"clause,omitempty"`
	Path   string `json:"path,omitempty"`
	// Beyond is the number of ranks between it and the last rank that could have been a
	// hit.
	Beyond int `json:"beyond,omitempty"`
	// Stage is the stage that lost it: "missing", "vector", "text" (the text does not
	// match it, or excludes it), "depth" (no list is long enough to include it),
	// "example", "where", "field" (it has no group), "threshold", "k", "offset", "group",
	// "mmr" or "graph" (an approximate search did not find it); empty for a hit.
	Stage string `json:"stage,omitempty"`
	// Reason says the same in words.
	Reason string `json:"reason"`
}

// Explain answers a query as Search does and reports how: the work of each stage, and
// where the documents whyNot rank, whether they are hits or not. The latter takes one
// exact scan of all vectors that match.
func (c *Collection) Explain(ctx context.Context, q Query, whyNot ...string) (*Explanation, error) {
	ver, v, done, err := c.open()
	if err != nil {
		return nil, err
	}
	defer done()
	var e *Explanation
	err = engine.RetryDerived(func() error {
		s := c.db.newSearch(ctx, ver, v)
		s.near.Trace = &nearest.Trace{}
		results, err := s.answer(ctx, []Query{q})
		if err != nil {
			return err
		}
		p := s.queries[0]
		e = &Explanation{Result: results[0], Plan: s.partPlans(p), Stages: []Stage{}}
		for _, stage := range s.near.Trace.Stages {
			e.Stages = append(e.Stages, Stage(stage))
		}
		return c.db.engine.Guard(func() error {
			e.WhyNot, err = s.whyNot(ctx, p, results[0], whyNot)
			return err
		})
	})
	if err != nil {
		return nil, c.wrap("explain", err)
	}
	return e, nil
}

// clock begins a stage, which done ends.
func (s *search) clock(name string) nearest.Clock { return s.near.Trace.Clock(name) }

// A suspect is a document whose absence Explain explains.
type suspect struct {
	*WhyNot
	doc     ranked
	matches bool
	better  int      // number of matching documents ahead of it
	equal   []ranked // matching rows of the same score
}

// whyNot explains the ranks of documents. It must be called inside Engine.Guard.
func (s *search) whyNot(ctx context.Context, p *probe, r *Result, ids []string) ([]WhyNot, error) {
	if p.text != nil {
		return s.whyNotText(ctx, p, r, ids)
	}
	all := make([]WhyNot, len(ids))
	var suspects []*suspect
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
		w.Exists, w.HasVector = true, at.Part.Dim > 0
		if !w.HasVector {
			w.Stage, w.Reason = "vector", "the document has no vector"
			continue
		}
		vec, err := at.Part.Source.Vectors(at.Row, at.Row+1)
		if err != nil {
			return nil, err
		}
		x := &suspect{WhyNot: w, doc: ranked{Ranked: nearest.Ranked{Place: at, Score: p.Scorer.Score(vec), ID: id}}}
		w.Score = &x.doc.Score
		if err := s.whyFiltered(ctx, p, x); err != nil {
			return nil, err
		}
		suspects = append(suspects, x)
	}
	if len(suspects) == 0 {
		return all, nil
	}
	if err := s.countBetter(ctx, p, suspects); err != nil {
		return nil, err
	}
	for _, x := range suspects {
		x.Rank = x.better + 1
		x.Hit = 1 + slices.IndexFunc(r.Hits, func(h Hit) bool { return h.ID == x.doc.ID })
		s.whyLost(p, r, x)
	}
	return all, nil
}

// whyFiltered finds the clause of the filter that a document fails, if any, and its
// group.
func (s *search) whyFiltered(ctx context.Context, p *probe, x *suspect) error {
	if slices.Contains(p.examples, x.doc.Place) {
		x.Stage, x.Reason = "example", "examples are not among the hits"
		return nil
	}
	meta, err := s.metadata(x.doc.Place)
	if err != nil {
		return err
	}
	where, err := match.New(ctx, s.view, p.Where)
	if err != nil {
		return err
	}
	get := where.Get(x.doc.Part, x.doc.Row, meta)
	clause, path := filter.Why(p.Where, get)
	switch {
	case clause != nil:
		x.Stage, x.Clause, x.Path = "where", clause.String(), path
		x.Reason = fmt.Sprintf("it does not meet %s", clause)
	case p.Group != nil && !filter.Match(groupable(&Query{Group: p.Group}), get):
		x.Stage, x.Reason = "field", fmt.Sprintf("it has no value in %q to group by", p.Group.Field)
	default:
		x.matches = true
	}
	if p.Group != nil {
		x.doc.group, _ = get(p.Group.Field)
	}
	return nil
}

// metadata reads the metadata of one document.
func (s *search) metadata(at nearest.Place) (m Metadata, err error) {
	err = s.ver.Read(func(tx *meta.Tx) error {
		b, err := s.view.Stored(tx, at.Part, at.Row)
		if err != nil {
			return err
		}
		if m, err = document.MetadataOf(b); err != nil {
			return engine.CorruptDocument(at.Part.Nums[at.Row], err)
		}
		return nil
	})
	return m, err
}

// countBetter counts the rows ahead of each suspect by a scan of all matching rows. The
// float32 score decides most comparisons; only close ones need the true score.
func (s *search) countBetter(ctx context.Context, p *probe, suspects []*suspect) error {
	raw := make([]float32, engine.ChunkBytes/4)
	for i, part := range s.view.Parts {
		if part.Dim == 0 {
			continue
		}
		set := p.Parts[i].Set
		for lo := 0; lo < part.N; {
			if err := ctx.Err(); err != nil {
				return err
			}
			hi := min(lo+max(64, engine.ChunkBytes/(4*part.Dim)), part.Source.Run(lo), part.N)
			if set != nil && set.CountRange(lo, hi) == 0 {
				lo = hi
				continue
			}
			rows, err := part.Source.Vectors(lo, hi)
			if err != nil {
				return err
			}
			p.Scorer.KernelRows(raw[:hi-lo], rows)
			for row := lo; row < hi; row++ {
				if set != nil && !set.Has(row) {
					continue
				}
				lower, upper := p.Scorer.Bounds(raw[row-lo], part.Inv[row])
				for _, x := range suspects {
					switch {
					case upper < x.doc.Score || x.doc.Part == part && x.doc.Row == row:
						continue
					case lower <= x.doc.Score:
						score := p.Scorer.Score(rows[(row-lo)*part.Dim : (row-lo+1)*part.Dim])
						if score == x.doc.Score {
							x.equal = append(x.equal, ranked{Ranked: nearest.Ranked{Place: nearest.Place{Part: part, Row: row}}})
						}
						if score <= x.doc.Score {
							continue
						}
					}
					x.better++
				}
			}
			lo = hi
		}
	}
	return s.ver.Read(func(tx *meta.Tx) error {
		for _, x := range suspects {
			for _, e := range x.equal {
				if err := ctx.Err(); err != nil {
					return err
				}
				id, err := s.view.IDAt(tx, e.Part, e.Row)
				if err != nil {
					return err
				}
				if id < x.doc.ID {
					x.better++
				}
			}
		}
		return nil
	})
}

// whyLost finds the stage after the filter that lost a document.
func (s *search) whyLost(p *probe, r *Result, x *suspect) {
	lost := func(stage, format string, args ...any) { x.Stage, x.Reason = stage, fmt.Sprintf(format, args...) }
	last := p.limit()
	if p.MMR != nil {
		last = p.Need
	}
	switch {
	case x.Hit > 0:
		x.Reason = fmt.Sprintf("it is hit %d", x.Hit)
	case !x.matches: // whyFiltered has set the reason
	case p.Threshold != nil && x.doc.Score < *p.Threshold:
		lost("threshold", "its score %v is below the threshold %v", x.doc.Score, *p.Threshold)
	case p.Group != nil && slices.ContainsFunc(r.Hits, func(h Hit) bool { return groupKey(h.Group) == groupKey(x.doc.group) }):
		lost("group", "%d better documents of its group are hits", p.Group.size())
	case p.Group != nil:
		lost("k", "its group %v does not rank from %d to %d", x.doc.group, p.Offset+1, last)
	case x.Rank > last:
		x.Beyond = x.Rank - last
		what := "the last hit"
		if p.MMR != nil {
			what = "the last document that hits are chosen from"
		}
		lost("k", "its rank %d is %d behind %s", x.Rank, x.Beyond, what)
	case p.MMR != nil:
		lost("mmr", "the chosen hits differ more from each other")
	case x.Rank <= p.Offset:
		lost("offset", "the first %d hits are left out", p.Offset)
	default:
		lost("graph", "the approximate search did not find it")
	}
}
