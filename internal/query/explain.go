package query

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/match"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/nearest"
)

// An Explanation is an Answer together with how it was found.
type Explanation struct {
	*Answer
	Plan   []PartPlan
	WhyNot []WhyNot // one for each id that was asked about
}

// A PartPlan says how a query searches one part of a collection; see db.PartPlan.
type PartPlan struct {
	Name    string
	Rows    int
	Matched int
	Plan    string
	Reason  string
}

// A WhyNot says where one document ranks in the answer, or why it is missing from it; see
// db.WhyNot.
type WhyNot struct {
	ID        string
	Hit       int
	Exists    bool
	HasVector bool
	Score     *float64
	Rank      int
	Legs      []Leg
	Clause    string
	Path      string
	Beyond    int
	Stage     string
	Reason    string
}

// Explain answers a query as Search does, and says how, and where documents rank. The latter takes
// an exact scan of all vectors that match.
func (s *Searcher) Explain(
	ctx context.Context, ver *engine.Version, v *engine.View, q Query, whyNot []string,
) (e *Explanation, err error) {
	err = engine.RetryDerived(func() error {
		pass := s.on(ctx, ver, v)
		pass.near.Trace = &nearest.Trace{}
		if err := pass.answer([]Query{q}); err != nil {
			return err
		}
		p := pass.queries[0]
		e = &Explanation{Answer: &pass.answers[0], Plan: pass.partPlans(p)}
		return s.Engine.Guard(func() error {
			e.WhyNot, err = pass.whyNot(p, e.Rows, whyNot)
			return err
		})
	})
	return e, err
}

// partPlans explains the plan part by part.
func (s *search) partPlans(q *probe) []PartPlan {
	plans := []PartPlan{}
	for i, p := range s.view.Parts {
		if p.Live() == 0 || p.Dim == 0 && q.text == nil {
			continue
		}
		plan := PartPlan{Name: "memory", Rows: p.Live(), Matched: q.MatchedIn(s.view, i)}
		if p.Segment != nil {
			plan.Name = p.Segment.Name()
		}
		switch {
		case !q.vector:
			plan.Plan, plan.Reason = "text index", "the query has no vector"
		case p.Dim == 0:
			plan.Plan, plan.Reason = "text index", "no row has a vector"
		default:
			plan.Plan, plan.Reason = s.near.Explain(&q.Probe, i)
		}
		plans = append(plans, plan)
	}
	return plans
}

// clock begins a stage, which Clock.Done ends.
func (s *search) clock(name string) nearest.Clock { return s.near.Trace.Clock(name) }

// A suspect is a document whose absence Explain explains.
type suspect struct {
	*WhyNot
	doc     Row
	matches bool
	better  int // number of matching documents ahead of it
}

// whyNot explains the ranks of documents. It must be called inside Engine.Guard.
func (s *search) whyNot(p *probe, rows []Row, ids []string) ([]WhyNot, error) {
	if p.text != nil {
		return s.whyNotText(p, rows, ids)
	}
	all, found, err := s.suspects(p, ids)
	if err != nil {
		return nil, err
	}
	suspects := found[:0]
	for _, x := range found {
		if !x.HasVector {
			*x.WhyNot = WhyNot{ID: x.ID, Exists: true, Stage: "vector", Reason: "the document has no vector"}
			continue
		}
		at := x.doc.Place
		vec, err := at.Part.Source.Vectors(at.Row, at.Row+1)
		if err != nil {
			return nil, err
		}
		x.doc.Score = p.Scorer.Score(vec)
		x.Score = &x.doc.Score
		suspects = append(suspects, x)
	}
	if len(suspects) == 0 {
		return all, nil
	}
	if err := s.countBetter(p, suspects); err != nil {
		return nil, err
	}
	outcome := s.outcome(p, rows)
	for _, x := range suspects {
		x.Rank, x.Hit = x.better+1, outcome.hit(x)
		if err := outcome.explain(x); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// suspects looks up the documents of ids and asks the filter about each. The first result has an
// element for each id, in that order; the second leaves out the documents that do not exist.
func (s *search) suspects(p *probe, ids []string) (all []WhyNot, found []*suspect, err error) {
	all = make([]WhyNot, len(ids))
	for i, id := range ids {
		if err := s.ctx.Err(); err != nil {
			return nil, nil, err
		}
		w := &all[i]
		w.ID = id
		at, err := s.find(id)
		switch {
		case errors.Is(err, engine.ErrNotFound):
			w.Stage, w.Reason = "missing", "there is no document of that id"
			continue
		case err != nil:
			return nil, nil, err
		}
		w.Exists, w.HasVector = true, at.Part.Dim > 0
		x := &suspect{WhyNot: w, doc: Row{Ranked: nearest.Ranked{Place: at, ID: id}}}
		if err := s.whyFiltered(p, x); err != nil {
			return nil, nil, err
		}
		found = append(found, x)
	}
	return all, found, nil
}

// whyFiltered finds the clause of the filter that a document fails, if any, and its
// group.
func (s *search) whyFiltered(p *probe, x *suspect) error {
	if slices.Contains(p.examples, x.doc.Place) {
		x.Stage, x.Reason = "example", "examples are not among the hits"
		return nil
	}
	meta, err := s.metadata(x.doc.Place)
	if err != nil {
		return err
	}
	where, err := match.New(s.ctx, s.view, p.Where)
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
		x.doc.Group, _ = get(p.Group.Field)
	}
	return nil
}

// metadata reads the metadata of one document.
func (s *search) metadata(at nearest.Place) (m map[string]any, err error) {
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
func (s *search) countBetter(p *probe, suspects []*suspect) error {
	var scores []float64
	for _, x := range suspects {
		scores = append(scores, x.doc.Score)
	}
	all := newStanding(scores)
	raw, fast := make([]float32, engine.ChunkBytes/4), p.Scorer.Fast()
	for i, part := range s.view.Parts {
		if part.Dim == 0 {
			continue
		}
		set := p.Parts[i].Set
		for lo := 0; lo < part.N; {
			if err := s.ctx.Err(); err != nil {
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
			fast.KernelRows(raw[:hi-lo], rows)
			for row := lo; row < hi; row++ {
				if set != nil && !set.Has(row) || all.decided(fast.Bounds(raw[row-lo], part.Inv[row])) {
					continue
				}
				vec := rows[(row-lo)*part.Dim : (row-lo+1)*part.Dim]
				all.add(p.Scorer.Score(vec), nearest.Place{Part: part, Row: row})
			}
			lo = hi
		}
	}
	if err := s.settle(all); err != nil {
		return err
	}
	for _, x := range suspects {
		x.better = all.before(x.doc.Score, x.doc.ID)
	}
	return nil
}

// settle reads the ids that a standing needs.
func (s *search) settle(all *standing) error {
	return s.ver.Read(func(tx *meta.Tx) error {
		return all.settle(s.ctx, func(at nearest.Place) (string, error) { return s.view.IDAt(tx, at.Part, at.Row) })
	})
}

// An outcome is the end of the search for a probe.
type outcome struct {
	*search
	p     *probe
	hits  []Row
	exact func() ([]Row, error) // the hits of the exact answer, with those that Offset skips
}

func (s *search) outcome(p *probe, hits []Row) *outcome {
	return &outcome{search: s, p: p, hits: hits, exact: sync.OnceValues(func() ([]Row, error) {
		q := *p.Query
		q.K, q.Offset, q.Accuracy = min(p.limit(), math.MaxInt32), 0, nearest.Goal{Recall: 1}
		pass := s.on(s.ctx, s.ver, s.view)
		if err := pass.answer([]Query{q}); err != nil {
			return nil, err
		}
		return pass.answers[0].Rows, nil
	})}
}

// lost names the stage that lost a document.
func (x *suspect) lost(stage, format string, args ...any) {
	x.Stage, x.Reason = stage, fmt.Sprintf(format, args...)
}

// hit returns the place of a document among the hits, from 1; 0 if it is not a hit.
func (o *outcome) hit(x *suspect) int {
	return 1 + slices.IndexFunc(o.hits, func(h Row) bool { return h.Place == x.doc.Place })
}

// explain says that a document is a hit, or finds the stage after the filter that lost it. An
// approximate search may lose any document, and may also find one whose true rank is too low: the
// rows that it found decide, and the rank only says why it did not find the others.
func (o *outcome) explain(x *suspect) error {
	p := o.p
	same := func(h Row) bool { return h.Place == x.doc.Place }
	wanted, last := p.limit(), "the last hit"
	if p.MMR != nil {
		wanted, last = p.Need, "the last document that hits are chosen from"
	}
	switch {
	case x.Hit > 0:
		x.Reason = fmt.Sprintf("it is hit %d", x.Hit)
	case !x.matches: // whyFiltered has set the reason
	case p.Threshold != nil && x.doc.Score < *p.Threshold:
		x.lost("threshold", "its score %v is below the threshold %v", x.doc.Score, *p.Threshold)
	case p.Group != nil:
		return o.explainGroup(x)
	case slices.ContainsFunc(p.skipped, same):
		x.lost("offset", "the first %d hits are left out", p.Offset)
	case p.MMR != nil && slices.ContainsFunc(p.rows, same):
		x.lost("mmr", "the chosen hits differ more from each other")
	case x.Rank > wanted:
		x.Beyond = x.Rank - wanted
		x.lost("k", "its rank %d is %d behind %s", x.Rank, x.Beyond, last)
	default:
		x.lost("graph", "the approximate search did not find it")
	}
	return nil
}

// explainGroup finds the stage that lost a document of a group which matches.
func (o *outcome) explainGroup(x *suspect) error {
	p := o.p
	sameGroup := func(h Row) bool { return groupKey(h.Group) == groupKey(x.doc.Group) }
	if i := slices.IndexFunc(o.hits, sameGroup); i >= 0 {
		n := 0
		for i+n < len(o.hits) && sameGroup(o.hits[i+n]) {
			n++
		}
		full := n == p.Group.size()
		if full && p.Ledger.Approximate {
			var err error
			if full, err = o.behind(x, o.hits[i+n-1]); err != nil {
				return err
			}
		}
		if full {
			x.lost("group", "%d better documents of its group are hits", n)
		} else {
			o.notFound(x, "it")
		}
		return nil
	}
	if slices.ContainsFunc(p.skipped, sameGroup) {
		x.lost("offset", "its group %v is one of the first %d, which are left out", x.doc.Group, p.Offset)
		return nil
	}
	if p.Ledger.Approximate {
		exact, err := o.exact()
		if err != nil {
			return err
		}
		if slices.ContainsFunc(exact, sameGroup) {
			o.notFound(x, "the best documents of its group")
			return nil
		}
	}
	x.lost("k", "its group %v does not rank from %d to %d", x.doc.Group, p.Offset+1, p.limit())
	return nil
}

// behind reports whether a document ranks behind a hit.
func (o *outcome) behind(x *suspect, h Row) (bool, error) {
	if x.doc.Score != h.Score {
		return x.doc.Score < h.Score, nil
	}
	ids, err := o.names([]nearest.Place{h.Place})
	return err == nil && x.doc.ID > ids[0], err
}

// notFound says that an approximate search did not find a row without which a document is no hit.
func (o *outcome) notFound(x *suspect, what string) {
	if o.p.text == nil || o.p.UsesGraphs() {
		x.lost("graph", "the approximate search did not find %s", what)
	} else {
		x.lost("depth", "the rankings that were fused are too short for %s; see legs", what)
	}
}
