package query

import (
	"cmp"
	"slices"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/fusion"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/nearest"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// best finds the rows of each query: the best ones in order, as many as the query needs.
func (s *search) best() error {
	if !slices.ContainsFunc(s.queries, func(p *probe) bool { return p.text != nil }) {
		if err := s.nearest(s.queries); err != nil {
			return err
		}
		return s.settlePages()
	}
	var legs []*probe
	for _, p := range s.queries {
		if p.vector {
			legs = append(legs, p.vectorLeg())
		}
	}
	texts := make([][]Row, len(s.queries))
	if err := s.bothRankings(legs, texts); err != nil {
		return err
	}
	if err := s.Engine.Guard(func() error { return s.fuseAll(legs, texts) }); err != nil {
		return err
	}
	return s.settlePages()
}

// bothRankings ranks legs by vector, and into texts the queries by text, at the same time unless
// Explain measures each.
func (s *search) bothRankings(legs []*probe, texts [][]Row) error {
	rankTexts := func() error {
		return s.Engine.Guard(func() error { return s.rankTexts(texts) })
	}
	var nearErr, textErr error
	var group vfs.Group
	defer group.Wait() // also on a panic: the caller releases memory that the other goroutine reads
	both := slices.ContainsFunc(s.queries, func(p *probe) bool { return p.text != nil && p.vector })
	if both && s.near.Trace == nil && s.near.Workers > 1 {
		group.Go(engine.SegDir, rankTexts)
	} else {
		textErr = rankTexts()
	}
	if len(legs) > 0 {
		nearErr = s.nearest(legs)
	}
	return cmp.Or(nearErr, textErr, group.Wait())
}

// rankTexts ranks the queries that have a text by it.
func (s *search) rankTexts(texts [][]Row) (err error) {
	for i, p := range s.queries {
		if p.text == nil {
			continue
		}
		need, least := p.Need, engine.NegInf
		switch {
		case p.vector:
			need = p.Fusion.WithDefaults(p.Need).Depth
		case p.Threshold != nil:
			least = *p.Threshold
		}
		if texts[i], err = s.bestTexts(p, need, least); err != nil {
			return err
		}
	}
	return nil
}

// fuseAll sets the rows of queries by text: the ranking by text, alone or fused with their leg. The
// other queries are legs themselves, and have their rows.
func (s *search) fuseAll(legs []*probe, texts [][]Row) (err error) {
	for i, p := range s.queries {
		if !p.vector {
			p.rows = texts[i]
			continue
		}
		leg := legs[0]
		legs = legs[1:]
		if p.text == nil {
			continue
		}
		if p.rows, err = s.fuse(p, leg, leg.rows, texts[i]); err != nil {
			return err
		}
	}
	return nil
}

// vectorLeg returns the probe for the vector alone. It shares parts with p.
func (p *probe) vectorLeg() *probe {
	if p.text == nil {
		return p
	}
	leg := *p
	leg.Need = p.Fusion.WithDefaults(p.Need).Depth
	leg.Least = engine.NegInf // Threshold applies to the fused score
	return &leg
}

// A hybrid is a query by vector and by text while its two rankings are fused.
type hybrid struct {
	*search
	p, leg  *probe // leg asks for the vector alone
	depth   int    // of both rankings
	vectors int    // number of matching rows with a vector
}

// fuse combines the rankings of a query by vector and by text.
func (s *search) fuse(p, leg *probe, near, texts []Row) ([]Row, error) {
	rules := p.Fusion.WithDefaults(p.Need)
	h := &hybrid{search: s, p: p, leg: leg, depth: rules.Depth}
	cost := 0
	for i, part := range s.view.Parts {
		n := p.MatchedIn(s.view, i)
		cost += n * max(part.Dim, 64)
		if part.Dim > 0 {
			h.vectors += n
		}
	}
	thorough := p.Exact() || cost <= s.CheapFusion && !leg.Ledger.Approximate
	p.Ledger.Add(leg.Ledger)
	if p.scale == nil {
		p.scale = new([2]float64)
		for leg, list := range [][]Row{near, texts} {
			if len(list) > 0 {
				p.scale[leg] = list[0].Score
			}
		}
	}
	out, err := fusion.Fuse(fusion.Input[nearest.Place]{
		Method: rules.Method, C: rules.C, K: p.Need, Least: p.Threshold, Matched: p.Matched,
		Thorough: thorough, Texts: max(s.ConvexTexts, 8*rules.Depth),
		Lists: []fusion.List[nearest.Place]{
			h.vectorList(near, rules.Weights[0]), h.textList(texts, rules.Weights[1]),
		},
		Longer: h.longer,
		Names:  s.names,
		Clock: func() func(rows, kept int) {
			clock := s.clock("fuse")
			return func(rows, kept int) { clock.Done(rows, kept, 0) }
		},
		Everything: s.near.Trace != nil, // in case Explain asks about a row
	})
	if err != nil {
		return nil, err
	}
	if !out.Certain {
		p.Ledger.Lose(out.Kept)
	}
	if s.near.Trace != nil {
		p.fused = fusedRows(out.All, legName)
	}
	return fusedRows(out.Hits, legName), nil
}

// vectorList returns the ranking by vector, and how to complete it.
func (h *hybrid) vectorList(near []Row, weight float64) fusion.List[nearest.Place] {
	p := h.p
	return fusion.List[nearest.Place]{
		Ranking: h.nearest(near), Weight: weight, Scale: vectorScale(p.Scorer.Metric, p.scale[0]),
		Score: func(at nearest.Place) (float64, bool, error) {
			if at.Part.Dim > 0 {
				p.Ledger.Considered++
			}
			return h.vectorScore(p, at)
		},
		Ranks: func(rows []fusion.Entry[nearest.Place]) ([]int, error) {
			p.Ledger.Considered += h.vectors
			return h.ranks(0, rows, func(x []*suspect) error { return h.countBetter(p, x) })
		},
		All: h.withVectors,
	}
}

// textList returns the ranking by text, and how to complete it.
func (h *hybrid) textList(texts []Row, weight float64) fusion.List[nearest.Place] {
	p := h.p
	return fusion.List[nearest.Place]{
		Ranking: h.texts(texts), Weight: weight, Scale: fusion.Linear(0, p.scale[1]),
		Score: func(at nearest.Place) (float64, bool, error) { return h.textScore(p, at) },
		Ranks: func(rows []fusion.Entry[nearest.Place]) ([]int, error) {
			return h.ranks(1, rows, func(x []*suspect) error { return h.textRanks(p, x) })
		},
		Above: func(least float64, limit int) ([]fusion.Entry[nearest.Place], error) {
			found, err := h.textsAbove(p, limit, least)
			return entries(found), err
		},
	}
}

func legName(list int) string { return [2]string{"vector", "text"}[list] }

// CheapFusion is the number of components of matching vectors, counting at least 64 per
// row, up to which every fusion is made exact, because a scan of them takes a fraction of
// a millisecond.
const CheapFusion = 1 << 20

// ConvexTexts or 8·Depth, whichever is more, limits the texts that Convex looks at to
// make an answer exact if the query does not ask for exactness.
const ConvexTexts = 1024

// vectorScale returns the scale of vector scores; see Convex.
func vectorScale(metric fileformat.Metric, best float64) fusion.Scale {
	switch metric {
	case fileformat.L2:
		return fusion.Distance(best)
	case fileformat.Dot:
		switch {
		case best < 0:
			return fusion.Ratio(best)
		case best == 0: // then no scale is independent of the lengths of the vectors
			return fusion.Distance(best)
		}
		return fusion.Linear(-best, best)
	}
	return fusion.Linear(-1, best)
}

// nearest and texts say whether a ranking has every row.
func (h *hybrid) nearest(list []Row) fusion.Ranking[nearest.Place] {
	return fusion.Ranking[nearest.Place]{Best: entries(list), Whole: len(list) >= h.vectors}
}

func (h *hybrid) texts(list []Row) fusion.Ranking[nearest.Place] {
	return fusion.Ranking[nearest.Place]{Best: entries(list), Whole: len(list) < h.depth || len(list) >= h.p.Matched}
}

// longer returns rankings eight times as deep; nil if they hold all rows already.
func (h *hybrid) longer() ([]fusion.Ranking[nearest.Place], error) {
	if h.depth >= h.p.Matched {
		return nil, nil
	}
	h.depth = min(8*h.depth, h.p.Matched)
	leg := h.leg.another()
	leg.Need = h.depth
	if err := h.search.nearest([]*probe{leg}); err != nil {
		return nil, err
	}
	h.p.Ledger.Add(leg.Ledger)
	texts, err := h.bestTexts(h.p, h.depth, engine.NegInf)
	if err != nil {
		return nil, err
	}
	return []fusion.Ranking[nearest.Place]{h.nearest(leg.rows), h.texts(texts)}, nil
}

// withVectors passes every matching row with a vector to add.
func (h *hybrid) withVectors(add func(nearest.Place)) error {
	for i, part := range h.view.Parts {
		if part.Dim == 0 {
			continue
		}
		set := h.p.Parts[i].Set
		for row := range part.N {
			if row%textRows == 0 && h.ctx.Err() != nil {
				return h.ctx.Err()
			}
			if set == nil || set.Has(row) {
				add(nearest.Place{Part: part, Row: row})
			}
		}
	}
	return nil
}

// ranks returns the true ranks of rows in a list, which count finds.
func (h *hybrid) ranks(list int, rows []fusion.Entry[nearest.Place], count func([]*suspect) error) ([]int, error) {
	places := make([]nearest.Place, len(rows))
	for i, e := range rows {
		places[i] = e.Key
	}
	ids, err := h.names(places)
	if err != nil {
		return nil, err
	}
	suspects := make([]*suspect, len(rows))
	for i, e := range rows {
		legs := make([]Leg, 2)
		legs[list].Score = new(e.Score)
		suspects[i] = &suspect{doc: Row{Ranked: nearest.Ranked{Place: e.Key, Score: e.Score, ID: ids[i]}, Legs: legs}}
	}
	if err := count(suspects); err != nil {
		return nil, err
	}
	ranks := make([]int, len(rows))
	for i, x := range suspects {
		if ranks[i] = x.doc.Legs[list].Rank; list == 0 {
			ranks[i] = x.better + 1
		}
	}
	return ranks, nil
}

// vectorScore returns the score of a row by vector; false if it has no vector.
func (s *search) vectorScore(p *probe, at nearest.Place) (float64, bool, error) {
	if err := s.ctx.Err(); err != nil || at.Part.Dim == 0 {
		return 0, false, err
	}
	vec, err := at.Part.Source.Vectors(at.Row, at.Row+1)
	if err != nil {
		return 0, false, err
	}
	return p.Scorer.Score(vec), true, nil
}

// textScore returns the score of a row by text; false if it has nothing of the text.
func (s *search) textScore(p *probe, at nearest.Place) (float64, bool, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, false, err
	}
	score, err := p.text.Score(slices.Index(s.view.Parts, at.Part), at.Row)
	if err != nil {
		return 0, false, p.text.Damaged(err)
	}
	return score, score > 0, nil
}

// newLegs returns legs of a fused row with names.
func newLegs(legs []fusion.Leg, name func(list int) string) []Leg {
	named := make([]Leg, len(legs))
	for i, l := range legs {
		named[i] = Leg{Name: name(i), Rank: l.Rank}
		if l.Scored {
			named[i].Score = new(l.Score)
		}
	}
	return named
}

// entries returns a ranking as package fusion takes it.
func entries(list []Row) []fusion.Entry[nearest.Place] {
	e := make([]fusion.Entry[nearest.Place], len(list))
	for i, h := range list {
		e[i] = fusion.Entry[nearest.Place]{Key: h.Place, Score: h.Score}
	}
	return e
}

// fusedRows returns the hits of a fusion as rows.
func fusedRows(hits []fusion.Hit[nearest.Place], name func(list int) string) []Row {
	rows := make([]Row, len(hits))
	for i, h := range hits {
		rows[i] = Row{Ranked: nearest.Ranked{Place: h.Key, Score: h.Score}, Legs: newLegs(h.Legs, name)}
	}
	return rows
}

// names returns the ids of rows, which order equal scores.
func (s *search) names(rows []nearest.Place) ([]string, error) {
	ids := make([]string, len(rows))
	err := s.ver.Read(func(tx *meta.Tx) (err error) {
		for i, at := range rows {
			r := nearest.Ranked{Place: at}
			if r.Known(s.ver) {
				ids[i] = r.ID
				continue
			}
			if err = s.ctx.Err(); err != nil {
				return err
			}
			if ids[i], err = s.view.IDAt(tx, at.Part, at.Row); err != nil {
				return err
			}
			s.ver.Files.IDs.Put(at.Part.Nums[at.Row], ids[i])
		}
		return nil
	})
	return ids, err
}
