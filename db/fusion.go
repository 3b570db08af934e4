package db

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/topk"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment/terms"
	"github.com/vecbolt/vecbolt/text"
)

// A FusionMethod says how ranked lists are made into one.
type FusionMethod uint8

// The methods.
const (
	// Convex is the sum of weight · score, each score as a share of the best
	// one, counted from the least that is possible and not from the least that
	// was found (Bruch, Gai and Ingber, TOIS 2023): a vector model whose
	// scores hardly differ then hardly counts. For the text that is s / best; for
	// Cosine (s + 1) / (best + 1); for Dot (s + |best|) / (best + |best|); for
	// L2, with squared distances, (1 + least) / (1 + d).
	Convex FusionMethod = iota
	// RRF is reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR
	// 2009): the sum, over the lists that have a document, of weight / (C +
	// its rank from 1).
	RRF
)

// String returns the name that ParseFusionMethod reads.
func (m FusionMethod) String() string {
	switch m {
	case RRF:
		return "rrf"
	case Convex:
		return "convex"
	}
	return fmt.Sprintf("fusion(%d)", uint8(m))
}

// MarshalText implements encoding.TextMarshaler.
func (m FusionMethod) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *FusionMethod) UnmarshalText(b []byte) (err error) {
	*m, err = ParseFusionMethod(string(b))
	return err
}

// ParseFusionMethod reads "rrf" or "convex".
func ParseFusionMethod(s string) (FusionMethod, error) {
	for _, m := range []FusionMethod{Convex, RRF} {
		if s == m.String() {
			return m, nil
		}
	}
	return 0, invalidf("fusion %q: want rrf or convex", s)
}

// A Fusion says how a query with a vector and a text combines the two. The
// zero value is the default.
type Fusion struct {
	Method FusionMethod
	// Vector and Text are the weights, not negative. If both are zero they
	// are equal for Convex, and 0.01 and 0.99 for RRF, which sees no scores and
	// could not keep a weak vector model from spoiling a good text ranking
	// (docs/eval.md has the measurements). For a model that is known to be
	// good, equal weights are a better start there.
	Vector, Text float64
	// C is the constant of RRF; 0 means 60.
	C float64
	// Depth is how many of the best documents of each kind are combined, never
	// fewer than are wanted. 0 means 100 for RRF; for Convex, which gives all of
	// them both scores, three times as many as are wanted and at least 30. Pages
	// of one answer should name it. For groups longer lists are fused if need be.
	Depth int
}

// rrfDepth is how many of each list RRF sees: beyond, ranks are worth little.
const rrfDepth = 100

func (f Fusion) withDefaults(need int) Fusion {
	if f.Vector == 0 && f.Text == 0 {
		if f.Vector = 0.5; f.Method == RRF {
			f.Vector = 0.01
		}
		f.Text = 1 - f.Vector
	}
	f.C = cmp.Or(f.C, 60)
	usual := rrfDepth
	if f.Method == Convex {
		usual = max(30, 3*need)
	}
	f.Depth = max(cmp.Or(f.Depth, usual), need)
	return f
}

func (f *Fusion) validate() error {
	positive := func(x float64) bool { return x >= 0 && x <= 1e6 }
	switch {
	case f.Method > RRF:
		return invalidf("unknown fusion method %d", f.Method)
	case !positive(f.Vector) || !positive(f.Text):
		return invalidf("weights of fusion are %v and %v", f.Vector, f.Text)
	case !positive(f.C):
		return invalidf("constant of fusion is %v", f.C)
	case f.Depth < 0 || f.Depth > math.MaxInt32:
		return invalidf("depth of fusion is %d", f.Depth)
	}
	return nil
}

// A Leg is what one ranked list says of a hit.
type Leg struct {
	// Name is "vector" or "text", or the number of the query of SearchFused.
	Name string `json:"name"`
	// Rank is the place in the list, from 1; 0 if it is not there.
	Rank int `json:"rank"`
	// Score is what the list ranks by; nil if the document has none: no
	// vector, or none of the words.
	Score *float64 `json:"score,omitempty"`
}

// A textLeg is the text of a query while it is being answered.
type textLeg struct {
	*textSearch
	query   text.Query
	scanner *text.Scanner
}

// textLeg prepares the text of a query; nil if it has none. The caller is
// inside guard.
func (s *search) textLeg(ctx context.Context, q *Query) (*textLeg, error) {
	if q.Text == "" {
		return nil, nil
	}
	a := s.view.def.analysis
	if a == nil {
		return nil, noText(s.view.def.name)
	}
	parsed := a.analyzer.Parse(q.Text)
	prepared, err := s.view.prepareText(ctx, a, parsed)
	return &textLeg{textSearch: prepared, query: parsed, scanner: a.analyzer.Scanner()}, err
}

// best returns, for each query, its best rows, as many as it needs, in order.
func (s *search) best(ctx context.Context) ([][]ranked, error) {
	if !slices.ContainsFunc(s.queries, func(p *probe) bool { return p.text != nil }) {
		return s.nearest(ctx)
	}
	vectors := *s
	vectors.queries = nil
	for _, p := range s.queries {
		if p.vector {
			vectors.queries = append(vectors.queries, p.vectorLeg())
		}
	}
	// Both rankings at the same time, unless Explain takes the time of each.
	texts := make([][]ranked, len(s.queries))
	rankTexts := func() error {
		return s.db.guard(func() (err error) {
			for i, p := range s.queries {
				if p.text != nil && err == nil {
					texts[i], err = s.bestTexts(ctx, p)
				}
			}
			return err
		})
	}
	var near [][]ranked
	var nearErr, textErr error
	var group vfs.Group
	defer group.Wait() // if this goroutine panics, too: its caller gives back what the other reads
	both := slices.ContainsFunc(s.queries, func(p *probe) bool { return p.text != nil && p.vector })
	if both && s.trace == nil && s.workers > 1 {
		group.Go(segDir, rankTexts)
	} else {
		textErr = rankTexts()
	}
	if len(vectors.queries) > 0 {
		near, nearErr = vectors.nearest(ctx)
		s.codes = vectors.codes
	}
	if err := cmp.Or(nearErr, textErr, group.Wait()); err != nil {
		return nil, err
	}
	best := texts
	err := s.db.guard(func() (err error) {
		for i, p := range s.queries {
			if !p.vector {
				continue
			}
			leg, list := vectors.queries[0], near[0]
			vectors.queries, near = vectors.queries[1:], near[1:]
			p.looked, p.scanned = leg.looked, leg.scanned
			if p.text == nil {
				best[i] = list
				continue
			}
			clock := s.clock("fuse")
			if best[i], err = s.fuse(p, p.Fusion.withDefaults(p.need), list, texts[i]); err != nil {
				return err
			}
			clock.done(len(list)+len(texts[i]), len(best[i]), 0)
		}
		return nil
	})
	return best, err
}

// vectorLeg returns the probe of the vector alone, which shares parts with p.
func (p *probe) vectorLeg() *probe {
	if p.text == nil {
		return p
	}
	leg, q := *p, *p.Query
	q.Threshold = nil // that of the fused score
	leg.Query, leg.need = &q, p.Fusion.withDefaults(p.need).Depth
	return &leg
}

// textRows is the number of rows that are searched between two looks at the
// context.
const textRows = 1 << 16

// bestTexts ranks by text: the best that are wanted, or that are to be fused.
func (s *search) bestTexts(ctx context.Context, p *probe) ([]ranked, error) {
	need, least := p.need, negInf
	switch {
	case p.vector:
		need = p.Fusion.withDefaults(p.need).Depth
	case p.Threshold != nil:
		least = *p.Threshold
	}
	clock := s.clock("text")
	c := topk.New(min(need, max(1, p.matched)), least)
	var buf terms.Buffer
	for i, part := range s.view.parts {
		for lo := 0; lo < part.n; lo += textRows {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if err := p.text.Scan(i, lo, min(lo+textRows, part.n), p.parts[i].set, c, &buf); err != nil {
				return nil, p.text.damaged(err)
			}
		}
	}
	hits, err := s.textScores(p, topk.Merge(c))
	if err != nil {
		return nil, err
	}
	best, err := s.order(slices.DeleteFunc(hits, func(h ranked) bool { return h.score < least }), need)
	clock.done(p.matched, len(best), 0)
	return best, err
}

// textScores computes the scores of candidates by text.
func (s *search) textScores(p *probe, found []topk.Candidate) ([]ranked, error) {
	slices.SortFunc(found, func(a, b topk.Candidate) int { return cmp.Or(cmp.Compare(a.Part, b.Part), cmp.Compare(a.Row, b.Row)) })
	hits := make([]ranked, 0, len(found))
	var rows []uint32
	var scores []float64
	for len(found) > 0 {
		part := int(found[0].Part)
		rows = rows[:0]
		for len(found) > 0 && int(found[0].Part) == part {
			rows = append(rows, uint32(found[0].Row))
			found = found[1:]
		}
		var err error
		if scores, err = p.text.Scores(scores[:0], part, rows); err != nil {
			return nil, p.text.damaged(err)
		}
		for i, row := range rows {
			hits = append(hits, ranked{place: place{s.view.parts[part], int(row)}, score: scores[i]})
		}
	}
	return hits, nil
}

// fuse makes one list of two.
func (s *search) fuse(p *probe, f Fusion, near, texts []ranked) ([]ranked, error) {
	var all []ranked
	at := map[place]int{}
	find := func(h ranked) *ranked {
		i, ok := at[h.place]
		if !ok {
			i = len(all)
			at[h.place] = i
			all = append(all, ranked{place: h.place, legs: []Leg{{Name: "vector"}, {Name: "text"}}})
		}
		return &all[i]
	}
	for leg, list := range [][]ranked{near, texts} {
		for i, h := range list {
			find(h).legs[leg] = Leg{Name: []string{"vector", "text"}[leg], Rank: i + 1, Score: new(h.score)}
		}
	}
	var bestVector, bestText float64
	if len(near) > 0 {
		bestVector = near[0].score
	}
	if len(texts) > 0 {
		bestText = texts[0].score
	}
	for i := range all {
		h := &all[i]
		if f.Method == Convex {
			if err := s.complete(p, h); err != nil {
				return nil, err
			}
		}
		h.score = f.Score(p.scorer.metric, h.legs[0], h.legs[1], bestVector, bestText)
	}
	all = slices.DeleteFunc(all, func(h ranked) bool { return p.Threshold != nil && h.score < *p.Threshold })
	all, err := s.order(all, p.need)
	for i := range all {
		if err == nil {
			err = s.complete(p, &all[i])
		}
	}
	return all, err
}

// Score returns what a document is worth by what the two rankings say of it; for
// those who have rankings from elsewhere. f is as WithDefaults returns it. The
// best scores are those of the first of each list, and not looked at if no
// document has a score in it.
func (f Fusion) Score(metric Metric, vector, text Leg, bestVector, bestText float64) (score float64) {
	if f.Method == RRF {
		return reciprocal(f.Vector, f.C, vector.Rank) + reciprocal(f.Text, f.C, text.Rank)
	}
	if vector.Score != nil {
		score = float64(f.Vector * share(metric, *vector.Score, bestVector))
	}
	if text.Score != nil && bestText > 0 {
		score += float64(f.Text * (*text.Score / bestText))
	}
	return score
}

// WithDefaults returns f with the values that zeros stand for, when so many hits
// are wanted.
func (f Fusion) WithDefaults(need int) (Fusion, error) {
	return f.withDefaults(need), f.validate()
}

// share returns a score as a share of the best one; see Convex.
func share(metric Metric, score, best float64) float64 {
	worst := -1.0
	switch metric {
	case L2:
		return (1 - best) / (1 - score)
	case Dot:
		worst = -math.Abs(best)
	}
	if best <= worst { // nothing is above the worst
		return 0
	}
	return max(0, (score-worst)/(best-worst))
}

// reciprocal is what a rank is worth; 0 is no rank.
func reciprocal(weight, c float64, rank int) float64 {
	if rank == 0 {
		return 0
	}
	return weight / (c + float64(rank))
}

// complete computes the scores that a fused document has in lists which are too
// short for it.
func (s *search) complete(p *probe, h *ranked) error {
	if v := &h.legs[0]; v.Score == nil && h.part.dim > 0 {
		vec, err := h.part.source.vectors(h.row, h.row+1)
		if err != nil {
			return err
		}
		v.Score = new(p.scorer.score(vec))
	}
	if t := &h.legs[1]; t.Score == nil {
		score, err := p.text.Score(slices.Index(s.view.parts, h.part), h.row)
		if err != nil {
			return p.text.damaged(err)
		}
		if score > 0 {
			t.Score = &score
		}
	}
	return nil
}

// snippet returns the best passage of a document.
func (s *search) snippet(tx *meta.Tx, p *probe, h ranked) (*text.Snippet, error) {
	b, err := s.view.stored(tx, h.part, h.row)
	if err != nil {
		return nil, err
	}
	d, err := decodeDocument(b, WithText)
	if err != nil {
		return nil, corruptDocument(h.part.nums[h.row], err)
	}
	leg, rank := p.text, math.MaxInt
	for i, f := range p.forms {
		if r := h.legs[i].Rank; f.text != nil && r > 0 && r < rank {
			leg, rank = f.text, r
		}
	}
	sn := leg.scanner.Highlight(&leg.query, d.Text, p.Snippet, leg.Weight)
	return &sn, nil
}

// SearchFused answers several queries, such as rewrites of one question, and
// fuses their hits by RRF into one answer. Each query gives its best documents,
// Fusion.Depth of them; those that meet its own Where and Threshold. The
// weights are those of the queries in order; without any, all are 1. K, Offset,
// Select and Snippet are those of the first query; a passage is the one that answers
// the text by which the hit ranks best.
func (c *Collection) SearchFused(ctx context.Context, queries []Query, weights ...float64) (*Result, error) {
	ver, v, done, err := c.open()
	if err != nil {
		return nil, err
	}
	defer done()
	var r *Result
	err = retryDerived(func() error {
		r, err = c.db.newSearch(ver, v).answerFused(ctx, queries, weights)
		return err
	})
	if err != nil {
		return nil, c.wrap("search", err)
	}
	return r, nil
}

func (s *search) answerFused(ctx context.Context, queries []Query, weights []float64) (*Result, error) {
	if len(queries) == 0 || len(weights) > 0 && len(weights) != len(queries) {
		return nil, invalidf("%d queries with %d weights", len(queries), len(weights))
	}
	first := queries[0]
	own := slices.Clone(queries)
	for i := range own {
		q := &own[i]
		if err := q.validate(s.view.def); err != nil {
			return nil, fmt.Errorf("query %d: %w", i, err)
		}
		if q.Group != nil || q.MMR != nil {
			return nil, invalidf("query %d: fused queries have no groups and no maximal marginal relevance", i)
		}
		q.K, q.Offset, q.Select, q.Snippet = max(first.limit(), cmp.Or(q.Fusion.Depth, rrfDepth)), 0, IDsOnly, 0
		if len(weights) > 0 && !(weights[i] >= 0 && weights[i] <= 1e6) {
			return nil, invalidf("weight of query %d is %v", i, weights[i])
		}
	}
	results, lists, err := s.answerRanked(ctx, own)
	if err != nil {
		return nil, err
	}
	c := first.Fusion.withDefaults(0).C
	at := map[place]int{}
	var all []ranked
	for i, list := range lists {
		weight := 1.0
		if len(weights) > 0 {
			weight = weights[i]
		}
		for rank, h := range list {
			j, ok := at[h.place]
			if !ok {
				j = len(all)
				at[h.place] = j
				fresh := ranked{place: h.place}
				for k := range lists {
					fresh.legs = append(fresh.legs, Leg{Name: fmt.Sprint(k)})
				}
				all = append(all, fresh)
			}
			all[j].legs[i].Rank, all[j].legs[i].Score = rank+1, new(h.score)
			all[j].score += reciprocal(weight, c, rank+1)
		}
	}
	err = s.db.guard(func() error {
		all, err = s.order(all, first.limit())
		return err
	})
	if err != nil {
		return nil, err
	}
	r := results[0]
	for _, o := range results[1:] {
		r.Exact, r.Complete = r.Exact && o.Exact, r.Complete && o.Complete
		r.Recall = min(r.Recall, o.Recall)
		r.Matched, r.Considered = max(r.Matched, o.Matched), r.Considered+o.Considered
	}
	r.Plan = fmt.Sprintf("%d queries fused by rrf, the first by %s", len(queries), r.Plan)
	all = all[min(first.Offset, len(all)):]
	p := *s.queries[0]
	p.Query, p.forms = &first, s.queries
	for _, form := range s.queries {
		if p.text == nil {
			p.text = form.text
		}
	}
	err = s.db.guard(func() (err error) {
		r.Hits, err = s.fetch(&p, all)
		return err
	})
	return r, err
}
