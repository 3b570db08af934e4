package db

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/meta"
)

// An Explanation is a Result with how it came about.
type Explanation struct {
	Result *Result `json:"result"`
	// Plan has one entry for each part of the collection that is searched: those
	// that hold vectors or, if the query has a text, all.
	Plan []PartPlan `json:"plan"`
	// Stages are the steps of the search, in order. Their times do not overlap.
	Stages []Stage `json:"stages"`
	// WhyNot has one entry for each id that was asked about, in that order.
	WhyNot []WhyNot `json:"why_not,omitempty"`
}

// A Stage is one step of a search.
type Stage struct {
	// Name is "filter", "graph", "scan", "score" (true scores of candidates), "text",
	// "fuse", "mmr", "group" or "fetch".
	Name string `json:"name"`
	// Rows is how many rows the stage considered, and Kept how many it left.
	Rows int `json:"rows"`
	Kept int `json:"kept"`
	// Bytes is about how much of vectors and codes was read.
	Bytes int64         `json:"bytes"`
	Time  time.Duration `json:"ns"`
}

// A WhyNot says where one document stands in the answer, or what kept it out.
type WhyNot struct {
	ID string `json:"id"`
	// Hit is its position among the hits, from 1; 0 if it is not one.
	Hit int `json:"hit"`
	// Exists and HasVector say whether there is such a document and whether
	// it has a vector.
	Exists    bool `json:"exists"`
	HasVector bool `json:"has_vector"`
	// Score is its true score.
	Score *float64 `json:"score,omitempty"`
	// Rank is its exact rank, from 1, among all documents that match Where: the
	// rank that it would have, if it does not match. Offset, Threshold, Group
	// and MMR do not enter.
	Rank int `json:"rank,omitempty"`
	// Legs is what each ranking says of it, if the query has a text; then Score
	// and Rank are those of the fusion, and missing if it is in no list.
	Legs []Leg `json:"legs,omitempty"`
	// Clause is the innermost part of Where that it fails, as JSON, and Path
	// the JSON pointer of that part; see filter.Why.
	Clause string `json:"clause,omitempty"`
	Path   string `json:"path,omitempty"`
	// Beyond is how many places it is behind the last rank that could have
	// made it a hit.
	Beyond int `json:"beyond,omitempty"`
	// Stage is what lost it: "missing", "vector", "text" (it has nothing of the text, or what that
	// excludes), "depth" (no list is long enough for it), "example", "where", "field" (it is in no
	// group), "threshold", "k", "offset", "group", "mmr" or "graph" (an approximate search did not
	// find it); empty for a hit.
	Stage string `json:"stage,omitempty"`
	// Reason says the same in words.
	Reason string `json:"reason"`
}

// Explain answers a query as Search does and says how: what each stage looked
// at, and where the documents whyNot stand, whether they are hits or not. The
// latter takes one exact look at every vector that matches.
func (c *Collection) Explain(ctx context.Context, q Query, whyNot ...string) (*Explanation, error) {
	ver, v, done, err := c.open()
	if err != nil {
		return nil, err
	}
	defer done()
	var e *Explanation
	err = retryDerived(func() error {
		s := c.db.newSearch(ver, v)
		s.trace = &trace{}
		results, err := s.answer(ctx, []Query{q})
		if err != nil {
			return err
		}
		p := s.queries[0]
		e = &Explanation{Result: results[0], Plan: s.partPlans(p), Stages: s.trace.stages}
		return c.db.guard(func() error {
			e.WhyNot, err = s.whyNot(ctx, p, results[0], whyNot)
			return err
		})
	})
	if err != nil {
		return nil, c.wrap("explain", err)
	}
	return e, nil
}

// A trace notes what a search does. A nil trace notes nothing.
type trace struct {
	stages []Stage
	bytes  atomic.Int64 // read by scans, and not yet taken
}

// read counts bytes; it is safe for concurrent use.
func (t *trace) read(bytes int64) {
	if t != nil {
		t.bytes.Add(bytes)
	}
}

// taken returns the bytes that were read since the last call.
func (t *trace) taken() int64 {
	if t == nil {
		return 0
	}
	return t.bytes.Swap(0)
}

// clock begins a stage, which done ends.
func (s *search) clock(name string) clock {
	if s.trace == nil {
		return clock{}
	}
	return clock{s.trace, name, time.Now()}
}

type clock struct {
	*trace
	name  string
	start time.Time
}

func (c clock) done(rows, kept int, bytes int64) {
	if c.trace != nil {
		c.stages = append(c.stages, Stage{c.name, rows, kept, bytes, time.Since(c.start)})
	}
}

// A suspect is a document whose absence is to be explained.
type suspect struct {
	*WhyNot
	ranked
	matches bool
	better  int      // matching documents that are ahead of it
	equal   []ranked // matching rows of the same score
}

// whyNot explains where documents stand. It is called inside guard.
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
		w.Exists, w.HasVector = true, at.part.dim > 0
		if !w.HasVector {
			w.Stage, w.Reason = "vector", "the document has no vector"
			continue
		}
		vec, err := at.part.source.vectors(at.row, at.row+1)
		if err != nil {
			return nil, err
		}
		x := &suspect{WhyNot: w, ranked: ranked{place: at, score: p.scorer.score(vec), id: id}}
		w.Score = &x.score
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
		x.Hit = 1 + slices.IndexFunc(r.Hits, func(h Hit) bool { return h.ID == x.id })
		s.whyLost(p, r, x)
	}
	return all, nil
}

// whyFiltered says which clause of the filter a document fails, if any, and
// which group it is in.
func (s *search) whyFiltered(ctx context.Context, p *probe, x *suspect) error {
	if slices.Contains(p.examples, x.place) {
		x.Stage, x.Reason = "example", "examples are not among the hits"
		return nil
	}
	meta, err := s.metadata(x.place)
	if err != nil {
		return err
	}
	where, err := s.view.condition(ctx, p.Where)
	if err != nil {
		return err
	}
	get := where.get(x.place, meta)
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
		x.group, _ = get(p.Group.Field)
	}
	return nil
}

// metadata reads that of one document.
func (s *search) metadata(at place) (m Metadata, err error) {
	err = s.ver.read(func(tx *meta.Tx) error {
		b, err := s.view.stored(tx, at.part, at.row)
		if err != nil {
			return err
		}
		if m, err = document.MetadataOf(b); err != nil {
			return corruptDocument(at.part.nums[at.row], err)
		}
		return nil
	})
	return m, err
}

// countBetter counts, by a scan of all rows that match, those ahead of each
// suspect. Most are told apart by their float32 score.
func (s *search) countBetter(ctx context.Context, p *probe, suspects []*suspect) error {
	raw := make([]float32, chunkBytes/4)
	for i, part := range s.view.parts {
		if part.dim == 0 {
			continue
		}
		set := p.parts[i].set
		for lo := 0; lo < part.n; {
			if err := ctx.Err(); err != nil {
				return err
			}
			hi := min(lo+max(64, chunkBytes/(4*part.dim)), part.source.run(lo), part.n)
			if set != nil && set.CountRange(lo, hi) == 0 {
				lo = hi
				continue
			}
			rows, err := part.source.vectors(lo, hi)
			if err != nil {
				return err
			}
			p.scorer.kernelRows(raw[:hi-lo], rows)
			for row := lo; row < hi; row++ {
				if set != nil && !set.Has(row) {
					continue
				}
				lower, upper := p.scorer.bounds(raw[row-lo], part.inv[row])
				for _, x := range suspects {
					switch {
					case upper < x.score || x.part == part && x.row == row:
						continue
					case lower <= x.score:
						score := p.scorer.score(rows[(row-lo)*part.dim : (row-lo+1)*part.dim])
						if score == x.score {
							x.equal = append(x.equal, ranked{place: place{part, row}})
						}
						if score <= x.score {
							continue
						}
					}
					x.better++
				}
			}
			lo = hi
		}
	}
	return s.ver.read(func(tx *meta.Tx) error {
		for _, x := range suspects {
			for _, e := range x.equal {
				if err := ctx.Err(); err != nil {
					return err
				}
				id, err := s.view.idAt(tx, e.part, e.row)
				if err != nil {
					return err
				}
				if id < x.id {
					x.better++
				}
			}
		}
		return nil
	})
}

// whyLost says which stage after the filter lost a document.
func (s *search) whyLost(p *probe, r *Result, x *suspect) {
	lost := func(stage, format string, args ...any) { x.Stage, x.Reason = stage, fmt.Sprintf(format, args...) }
	last := p.limit()
	if p.MMR != nil {
		last = p.need
	}
	switch {
	case x.Hit > 0:
		x.Reason = fmt.Sprintf("it is hit %d", x.Hit)
	case !x.matches: // said already
	case p.Threshold != nil && x.score < *p.Threshold:
		lost("threshold", "its score %v is below the threshold %v", x.score, *p.Threshold)
	case p.Group != nil && slices.ContainsFunc(r.Hits, func(h Hit) bool { return groupKey(h.Group) == groupKey(x.group) }):
		lost("group", "%d better documents of its group are hits", p.Group.size())
	case p.Group != nil:
		lost("k", "its group %v is not among those from %d to %d", x.group, p.Offset+1, last)
	case x.Rank > last:
		x.Beyond = x.Rank - last
		what := "the last hit"
		if p.MMR != nil {
			what = "the last document that hits are chosen from"
		}
		lost("k", "its rank %d is %d behind %s", x.Rank, x.Beyond, what)
	case p.MMR != nil:
		lost("mmr", "others were preferred because they differ more from each other")
	case x.Rank <= p.Offset:
		lost("offset", "the first %d hits are left out", p.Offset)
	default:
		lost("graph", "the approximate search did not find it")
	}
}
