package query

import (
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/fusion"
	"github.com/vecbolt/vecbolt/internal/nearest"
)

// groupable restricts a query to documents with a string, a number or a boolean in the field: only
// they belong to a group.
func groupable(q *Query) filter.Expr {
	f := q.Group.Field
	in := filter.Or(filter.Gte(f, ""), filter.Gte(f, -math.MaxFloat64), filter.In(f, true, false))
	if q.Where == nil {
		return in
	}
	return filter.And(q.Where, in)
}

// firstRound returns the number of rows that the first round ranks: with some luck, enough to fill
// the wanted groups.
func firstRound(q *Query) int { return 4 * q.limit() * q.Group.size() }

// group returns the best hits of the best groups, without those that Offset skips, and whether the
// answer is complete: all wanted groups, or all that exist, each with all its hits.
//
// Groups are found in rounds. The best rows, in order, give groups in order. If there are too few
// groups, the next round ranks the rows of all other groups. A group whose best documents are not
// all among the rows seen then gets a query of its own. With RRF the score of a document depends on
// its ranks among all documents, so there each round fuses longer lists instead.
func (s *search) group(q *probe, best []Row) ([]Row, bool, error) {
	clock := s.clock("group")
	g := &grouper{
		search: s, q: q, byValue: map[any]*group{},
		longer: q.vector && q.text != nil && q.Fusion.Method == fusion.RRF,
	}
	enough, err := g.collect(best)
	if err != nil {
		return nil, false, err
	}
	groups := g.groups[:min(q.limit(), len(g.groups))]
	skipped := min(q.Offset, len(groups))
	for _, x := range groups[:skipped] {
		q.skipped = append(q.skipped, x.hits...)
	}
	groups = groups[skipped:]
	if !g.longer {
		if err := g.fill(groups); err != nil {
			return nil, false, err
		}
	}
	if q.Ledger.Approximate { // a later query may have found a better first hit
		if err := g.sort(groups); err != nil {
			return nil, false, err
		}
	}
	var hits []Row
	known, filled := 0, true
	for _, x := range groups {
		hits = append(hits, x.hits...)
		if x.complete {
			known += len(x.hits)
		} else {
			filled = false
		}
	}
	if !filled && g.longer {
		q.Ledger.Lose(float64(known) / float64(len(groups)*q.Group.size()))
	}
	clock.Done(g.rows, len(hits), s.near.Trace.Taken())
	return hits, enough && filled, nil
}

// A grouper divides the rows of one query into groups.
type grouper struct {
	*search
	q       *probe
	longer  bool           // each round fuses longer lists, instead of ranking the other groups
	groups  []*group       // in the order of their first rows
	values  []any          // of groups
	byValue map[any]*group // by groupKey
	rows    int            // looked at
}

// A group is the best documents with one value of the field.
type group struct {
	hits     []Row // in order, at most Group.Size
	complete bool  // no document of it is missing
}

// collect finds groups in rounds, the first of which ranked best. It reports whether it found as
// many groups as are wanted, or all that exist.
func (g *grouper) collect(best []Row) (bool, error) {
	for round := g.q; ; {
		g.rows += len(best)
		all := len(best) < round.Need // only rows below the threshold are left out
		whole := all && !round.Ledger.Approximate
		if err := g.add(best, whole); err != nil {
			return false, err
		}
		enough := len(g.groups) >= g.q.limit()
		if all || enough && g.filled() {
			return enough || whole, nil
		}
		next := g.nextRound(round)
		found, err := g.again(g.q, next)
		if err != nil {
			return false, err
		}
		if g.longer {
			g.q.fused = next.fused
		}
		round, best = next, found[0]
	}
}

// add adds rows, which are in order, to their groups. whole says that no other rows exist.
func (g *grouper) add(rows []Row, whole bool) error {
	if err := g.groupValues(g.q, rows); err != nil {
		return err
	}
	size := g.q.Group.size()
	for _, h := range rows {
		key := groupKey(h.Group)
		x := g.byValue[key]
		if x == nil {
			x = &group{}
			g.byValue[key] = x
			g.groups, g.values = append(g.groups, x), append(g.values, h.Group)
		}
		if len(x.hits) < size {
			x.hits = append(x.hits, h)
		}
		x.complete = whole || len(x.hits) == size
	}
	return nil
}

// filled reports whether the wanted groups need no further round. Only longer lists can fill them
// if fill does not; an approximate answer does without.
func (g *grouper) filled() bool {
	if !g.longer || !g.q.Exact() {
		return true
	}
	wanted := g.groups[:min(g.q.limit(), len(g.groups))]
	return !slices.ContainsFunc(wanted, func(x *group) bool { return !x.complete })
}

// nextRound returns the probe of the round after round. It ranks the rows of all other groups or,
// where rounds fuse longer lists, all rows from the start.
func (g *grouper) nextRound(round *probe) *probe {
	next := g.q.another()
	next.Need = 2 * round.Need
	if g.longer {
		g.groups, g.values = nil, nil
		clear(g.byValue)
	} else {
		next.where = filter.Simplify(filter.And(g.q.where, filter.Nin(g.q.Group.Field, g.values...)))
	}
	return next
}

// fill finds all hits of incomplete groups, by a query for each.
func (g *grouper) fill(groups []*group) error {
	size := g.q.Group.size()
	var asked []*group
	var probes []*probe
	for _, x := range groups {
		if !x.complete {
			own := g.q.another()
			own.Need = size
			own.where = filter.Simplify(filter.And(g.q.where, filter.Eq(g.q.Group.Field, x.hits[0].Group)))
			asked, probes = append(asked, x), append(probes, own)
		}
	}
	if len(probes) == 0 {
		return nil
	}
	found, err := g.again(g.q, probes...)
	if err != nil {
		return err
	}
	for i, x := range asked {
		hits, approximate := found[i], probes[i].Ledger.Approximate
		g.rows += len(hits)
		x.complete = !approximate || len(hits) == size
		if approximate { // it may have missed known hits
			known := slices.DeleteFunc(x.hits, func(h Row) bool {
				return slices.ContainsFunc(hits, func(f Row) bool { return f.Place == h.Place })
			})
			if hits, err = g.order(append(hits, known...), size); err != nil {
				return err
			}
		}
		x.hits = hits
		if err := g.groupValues(g.q, hits); err != nil {
			return err
		}
	}
	return nil
}

// sort orders groups by their first hits.
func (g *grouper) sort(groups []*group) error {
	byFirst, firsts := map[nearest.Place]*group{}, make([]Row, len(groups))
	for i, x := range groups {
		firsts[i], byFirst[x.hits[0].Place] = x.hits[0], x
	}
	firsts, err := g.order(firsts, len(firsts))
	if err != nil {
		return err
	}
	for i, h := range firsts {
		groups[i] = byFirst[h.Place]
	}
	return nil
}

// again finds the best rows of probes derived from q, which consider other rows. Their promises and
// costs are added to the ledger of q.
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

// groupKey returns the same Go value for all values that filter.Eq calls equal, and different
// values otherwise: a number that fits int64 becomes an int64.
func groupKey(v any) any {
	if f, ok := v.(float64); ok && f == math.Trunc(f) && -1<<63 <= f && f < 1<<63 {
		return int64(f)
	}
	return v
}
