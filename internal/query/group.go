package query

import (
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/fusion"
	"github.com/vecbolt/vecbolt/internal/nearest"
)

// groupable restricts a query to documents with a string, a number or a boolean
// in the field: only they belong to a group.
func groupable(q *Query) filter.Expr {
	f := q.Group.Field
	in := filter.Or(filter.Gte(f, ""), filter.Gte(f, -math.MaxFloat64), filter.In(f, true, false))
	if q.Where == nil {
		return in
	}
	return filter.And(q.Where, in)
}

// firstRound is how many rows the first round ranks: with some luck, enough to
// fill the wanted groups.
func firstRound(q *Query) int { return 4 * q.limit() * q.Group.size() }

// group returns the best hits of the best groups, without those that Offset
// skips, and whether the answer is complete: all wanted groups, or all that
// exist, each with all its hits.
//
// Groups are found in rounds. The best rows, in order, give groups in order. If
// there are too few groups, the next round ranks the rows of all other groups.
// A group whose best documents are not all among the rows seen then gets a
// query of its own. With RRF the score of a document depends on its ranks among
// all documents, so there each round fuses longer lists instead.
func (s *search) group(q *probe, best []Row) ([]Row, bool, error) {
	clock := s.clock("group")
	rows := len(best)
	type group struct {
		hits     []Row
		complete bool // no document of it is missing
	}
	var groups []*group
	byValue := map[any]*group{}
	var values []any
	lists := q.vector && q.text != nil && q.Fusion.Method == fusion.RRF
	enough, whole := false, false
	for round := q; ; {
		all := len(best) < round.Need // only rows below the threshold are left out
		whole = all && !round.Ledger.Approximate
		if err := s.groupValues(q, best); err != nil {
			return nil, false, err
		}
		for _, h := range best {
			key := groupKey(h.Group)
			g := byValue[key]
			if g == nil {
				g = &group{}
				byValue[key] = g
				groups = append(groups, g)
				values = append(values, h.Group)
			}
			if len(g.hits) < q.Group.size() {
				g.hits = append(g.hits, h)
			}
			g.complete = whole || len(g.hits) == q.Group.size()
		}
		enough = len(groups) >= q.limit()
		filled := true
		for _, g := range groups[:min(q.limit(), len(groups))] {
			filled = filled && g.complete || !lists || !q.Exact() // otherwise own queries fill them
		}
		if all || enough && filled {
			break
		}
		next := q.another()
		next.Need = 2 * round.Need
		if lists {
			groups, values = nil, nil
			clear(byValue)
		} else {
			next.where = filter.Simplify(filter.And(q.where, filter.Nin(q.Group.Field, values...)))
		}
		found, err := s.again(q, next)
		if err != nil {
			return nil, false, err
		}
		if lists {
			q.fused = next.fused
		}
		round, best = next, found[0]
		rows += len(best)
	}
	groups = groups[:min(q.limit(), len(groups))]
	for _, g := range groups[:min(q.Offset, len(groups))] {
		q.skipped = append(q.skipped, g.hits...)
	}
	groups = groups[min(q.Offset, len(groups)):]

	var asked []*group
	var probes []*probe
	for _, g := range groups {
		if !g.complete && !lists {
			own := q.another()
			own.Need = q.Group.size()
			own.where = filter.Simplify(filter.And(q.where, filter.Eq(q.Group.Field, g.hits[0].Group)))
			asked, probes = append(asked, g), append(probes, own)
		}
	}
	if len(probes) > 0 {
		found, err := s.again(q, probes...)
		if err != nil {
			return nil, false, err
		}
		for i, g := range asked {
			rows += len(found[i])
			g.complete = !probes[i].Ledger.Approximate || len(found[i]) == q.Group.size()
			if probes[i].Ledger.Approximate { // the approximate query may miss known hits
				found[i] = append(found[i], slices.DeleteFunc(g.hits, func(h Row) bool {
					return slices.ContainsFunc(found[i], func(f Row) bool { return f.Place == h.Place })
				})...)
				if found[i], err = s.order(found[i], q.Group.size()); err != nil {
					return nil, false, err
				}
			}
			g.hits = found[i]
			if err := s.groupValues(q, g.hits); err != nil {
				return nil, false, err
			}
		}
	}
	if q.Ledger.Approximate { // a later query may have found a better first hit
		byFirst, firsts := map[nearest.Place]*group{}, make([]Row, len(groups))
		for i, g := range groups {
			firsts[i], byFirst[g.hits[0].Place] = g.hits[0], g
		}
		firsts, err := s.order(firsts, len(firsts))
		if err != nil {
			return nil, false, err
		}
		for i, h := range firsts {
			groups[i] = byFirst[h.Place]
		}
	}
	var hits []Row
	known := 0
	filled := true
	for _, g := range groups {
		hits = append(hits, g.hits...)
		filled = filled && g.complete
		if g.complete {
			known += len(g.hits)
		}
	}
	if !filled && lists {
		q.Ledger.Lose(float64(known) / float64(len(groups)*q.Group.size()))
	}
	clock.Done(rows, len(hits), s.near.Trace.Taken())
	return hits, (enough || whole) && filled, nil
}

// again finds the best rows of probes derived from q, which consider other
// rows. Their promises and costs are added to the ledger of q.
func (s *search) again(q *probe, probes ...*probe) ([][]Row, error) {
	sub := s.on(s.ctx, s.ver, s.view)
	sub.queries, sub.near.Workers = probes, s.near.Workers
	if s.near.Trace != nil {
		sub.near.Trace = &nearest.Trace{}
	}
	for _, p := range probes {
		p.Ledger, p.fused = nearest.Ledger{}, nil
		if err := s.choose(p); err != nil {
			return nil, err
		}
	}
	err := sub.best()
	best := make([][]Row, len(probes))
	for i, p := range probes {
		q.Ledger.Add(p.Ledger)
		best[i] = p.rows
	}
	s.near.Trace.Read(sub.near.Trace.Taken())
	return best, err
}

// groupValues reads the field of each row.
func (s *search) groupValues(q *probe, rows []Row) error {
	for i := range rows {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		m, err := s.metadata(rows[i].Place)
		if err != nil {
			return err
		}
		rows[i].Group, _ = filter.Lookup(m, q.Group.Field)
	}
	return nil
}

// groupKey returns the same Go value for all values that filter.Eq calls equal,
// and different values otherwise: a number that fits int64 becomes an int64.
func groupKey(v any) any {
	if f, ok := v.(float64); ok && f == math.Trunc(f) && -1<<63 <= f && f < 1<<63 {
		return int64(f)
	}
	return v
}
