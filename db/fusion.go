package db

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/match"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/nearest"
	"github.com/vecbolt/vecbolt/internal/topk"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment/terms"
	"github.com/vecbolt/vecbolt/text"
)

// A FusionMethod is a way to combine ranked lists.
type FusionMethod uint8

// The methods.
const (
	// Convex is the sum of weight · score, with each score scaled by the best one. The
	// scale starts at the least possible score, not at the least found (Bruch, Gai and
	// Ingber, TOIS 2023), so a vector model whose scores hardly differ has little
	// influence. The scaled score is s / best for the text; (s + 1) / (best + 1) for
	// Cosine; (s + |best|) / (best + |best|) for Dot; and (1 + least) / (1 + d), with
	// squared distances, for L2.
	Convex FusionMethod = iota
	// RRF is reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009): the sum
	// of weight / (C + rank) over the lists that have the document, with ranks from 1.
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
	return 0, engine.Invalidf("fusion %q: want rrf or convex", s)
}

// A Fusion says how a query with a vector and a text combines the two rankings. The zero
// value is the default.
//
// The true answer is the fusion of complete rankings of all matching documents. For
// Convex, a document with a vector or a match of the text counts with both scores, scaled
// by the best of all documents. For RRF, it counts with its ranks among all documents.
//
// Search first fuses the best documents of each ranking. The answer is exact if no other
// document can reach the last hit and, for RRF, if all ranks of the hits are known.
// Otherwise the search looks at more documents. It continues until the answer is exact if
// the query asks for an exact answer, or if few documents match. Any other search stops:
// for Convex after the best 1,024 texts or eight times Depth, whichever is more, for RRF
// at once. Its answer is not exact: Result.Recall is the share of it that is certain, and
// RRF counts unknown ranks as nothing.
type Fusion struct {
	Method FusionMethod
	// Vector and Text are the weights, not negative. If both are zero, Convex uses equal
	// weights, and RRF uses 0.01 and 0.99: RRF sees no scores, so with more weight a weak
	// vector model would spoil a good text ranking (docs/eval.md has the measurements).
	// For a model that is known to be good, start RRF with equal weights.
	Vector, Text float64
	// C is the constant of RRF; 0 means 60.
	C float64
	// Depth is the number of the best documents of each ranking that are combined at
	// first, at least the number of wanted hits. 0 means 100 for RRF. For Convex, which
	// looks up both scores of every document, 0 means three times the number of wanted
	// hits and at least 30. Depth does not change exact answers. Pages of one inexact
	// answer should all set the same Depth. Grouping fuses longer lists if necessary.
	Depth int
}

// rrfDepth is the length of the lists that RRF fuses: ranks beyond it are worth little.
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
		return engine.Invalidf("unknown fusion method %d", f.Method)
	case !positive(f.Vector) || !positive(f.Text):
		return engine.Invalidf("fusion weights are %v and %v, not between 0 and 1e6", f.Vector, f.Text)
	case !positive(f.C):
		return engine.Invalidf("fusion constant is %v, not between 0 and 1e6", f.C)
	case f.Depth < 0 || f.Depth > math.MaxInt32:
		return engine.Invalidf("fusion depth is %d, not between 0 and 2147483647", f.Depth)
	}
	return nil
}

// A Leg is the place of a hit in one ranked list.
type Leg struct {
	// Name is "vector" or "text", or the index of the query in SearchFused.
	Name string `json:"name"`
	// Rank is the place in the list, from 1; 0 if the document is not among the ranked
	// ones.
	Rank int `json:"rank"`
	// Score is the score in this list; nil if the document has none: no vector, or none
	// of the words.
	Score *float64 `json:"score,omitempty"`
}

// A textLeg is the prepared text of a query.
type textLeg struct {
	*match.Text
	query   text.Query
	scanner *text.Scanner
}

// textLeg prepares the text of a query; nil if it has none. It must be called inside
// guard.
func (s *search) textLeg(ctx context.Context, q *Query) (*textLeg, error) {
	if q.Text == "" {
		return nil, nil
	}
	a := s.view.Def.Analysis
	if a == nil {
		return nil, engine.NoText(s.view.Def.Name)
	}
	parsed, err := match.Parse(a, "text", q.Text)
	if err != nil {
		return nil, err
	}
	prepared, err := match.Prepare(ctx, s.view, a, parsed)
	return &textLeg{Text: prepared, query: parsed, scanner: a.Analyzer.Scanner()}, err
}

// best finds the rows of each query: the best ones in order, as many as the query needs.
func (s *search) best(ctx context.Context) error {
	if !slices.ContainsFunc(s.queries, func(p *probe) bool { return p.text != nil }) {
		return s.nearest(ctx, s.queries)
	}
	var legs []*probe
	for _, p := range s.queries {
		if p.vector {
			legs = append(legs, p.vectorLeg())
		}
	}
	// Both rankings run at the same time, unless Explain measures each.
	texts := make([][]ranked, len(s.queries))
	rankTexts := func() error {
		return s.db.engine.Guard(func() (err error) {
			for i, p := range s.queries {
				if p.text != nil && err == nil {
					need, least := p.Need, engine.NegInf
					switch {
					case p.vector:
						need = p.Fusion.withDefaults(p.Need).Depth
					case p.Threshold != nil:
						least = *p.Threshold
					}
					texts[i], err = s.bestTexts(ctx, p, need, least)
				}
			}
			return err
		})
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
		nearErr = s.nearest(ctx, legs)
	}
	if err := cmp.Or(nearErr, textErr, group.Wait()); err != nil {
		return err
	}
	return s.db.engine.Guard(func() (err error) {
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
			if p.rows, err = s.fuse(ctx, p, leg, leg.rows, texts[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// vectorLeg returns the probe for the vector alone. It shares parts with p.
func (p *probe) vectorLeg() *probe {
	if p.text == nil {
		return p
	}
	leg := *p
	leg.Need = p.Fusion.withDefaults(p.Need).Depth
	leg.Least = engine.NegInf // Threshold applies to the fused score
	return &leg
}

// textRows is the number of rows that are searched between two checks of the context.
const textRows = 1 << 16

// bestTexts returns the best documents by text with at least the score least, at most
// need of them, in order.
func (s *search) bestTexts(ctx context.Context, p *probe, need int, least float64) ([]ranked, error) {
	hits, err := s.textsAbove(ctx, p, need, least)
	if err != nil {
		return nil, err
	}
	return s.order(hits, need)
}

// textsAbove finds the documents with at least the score least by text, in no order. If
// there are more than need, it finds at least the best need of them.
func (s *search) textsAbove(ctx context.Context, p *probe, need int, least float64) ([]ranked, error) {
	clock := s.clock("text")
	c := topk.New(min(need, max(1, p.Matched)), least)
	var buf terms.Buffer
	for i, part := range s.view.Parts {
		for lo := 0; lo < part.N; lo += textRows {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if err := p.text.Scan(i, lo, min(lo+textRows, part.N), p.Parts[i].Set, c, &buf); err != nil {
				return nil, p.text.Damaged(err)
			}
		}
	}
	hits, err := s.textScores(p, topk.Merge(c))
	if err != nil {
		return nil, err
	}
	hits = slices.DeleteFunc(hits, func(h ranked) bool { return h.Score < least })
	clock.Done(p.Matched, min(need, len(hits)), 0)
	return hits, nil
}

// textScores computes the text scores of candidates.
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
			return nil, p.text.Damaged(err)
		}
		for i, row := range rows {
			hits = append(hits, ranked{Ranked: nearest.Ranked{Place: nearest.Place{Part: s.view.Parts[part], Row: int(row)}, Score: scores[i]}})
		}
	}
	return hits, nil
}

// fuse combines two lists into one, and extends them while they do not determine the best
// documents.
//
// The true answer is the fusion of complete lists. Short lists are enough if the last
// wanted document beats every document outside them. Such a document is worth at most the
// sum of the last ones of each list. This is the threshold algorithm of Fagin, Lotem and
// Naor ("Optimal aggregation algorithms for middleware", PODS 2001). Convex looks missing
// scores up; RRF bounds unknown ranks (their NRA).
func (s *search) fuse(ctx context.Context, p, leg *probe, near, texts []ranked) ([]ranked, error) {
	f := &fuser{search: s, p: p, leg: leg, Fusion: p.Fusion.withDefaults(p.Need), at: map[nearest.Place]int{}}
	cost := 0
	for i, part := range s.view.Parts {
		n := p.MatchedIn(s.view, i)
		cost += n * max(part.Dim, 64)
		if part.Dim > 0 {
			f.vectors += n
		}
	}
	f.thorough = p.Exact() || cost <= s.db.opts.cheapFusion && !leg.Ledger.Approximate
	p.Ledger.Add(leg.Ledger)
	f.take(0, near, len(near) >= f.vectors)
	f.take(1, texts, len(texts) < f.Depth || len(texts) >= p.Matched)
	if p.scale == nil {
		p.scale = new([2]float64)
		for leg, list := range [][]ranked{near, texts} {
			if len(list) > 0 {
				p.scale[leg] = list[0].Score
			}
		}
	}
	for {
		clock := s.clock("fuse")
		hits, err := f.rank()
		clock.Done(len(f.all), len(hits), 0)
		if err != nil {
			return nil, err
		}
		doubt := f.doubt(hits)
		if doubt.none(hits, p) {
			return hits, f.trace(hits)
		}
		more, err := f.deepen(ctx, hits, doubt)
		if err != nil {
			return nil, err
		}
		if !more {
			p.Ledger.Lose(doubt.kept(hits, p))
			return hits, f.trace(hits)
		}
	}
}

// cheapFusion is the number of components of matching vectors, counting at least 64 per
// row, up to which every fusion is made exact, because a scan of them takes a fraction of
// a millisecond.
const cheapFusion = 1 << 20

// convexTexts or 8·Depth, whichever is more, limits the texts that Convex looks at to
// make an answer exact if the query does not ask for exactness.
const convexTexts = 1024

// A fuser combines the two rankings of one query.
type fuser struct {
	*search
	Fusion // with defaults
	p, leg *probe

	all      []ranked // every document seen so far, in no order
	at       map[nearest.Place]int
	vectors  int  // number of matching rows with a vector
	thorough bool // continue until the answer is exact
	deeper   bool // moreTexts ran with the current list of vectors

	// Of each list: the number of ranked documents, the largest score that a document
	// outside it can have, and whether it has every document.
	depth   [2]int
	ceiling [2]float64
	whole   [2]bool
}

// take adds a list in order. whole says that the list has every document.
func (f *fuser) take(leg int, list []ranked, whole bool) {
	for i, h := range list {
		f.find(h.Place).legs[leg] = Leg{Name: legNames[leg], Rank: i + 1, Score: new(h.Score)}
	}
	f.depth[leg], f.whole[leg] = len(list), whole
	if len(list) > 0 {
		f.ceiling[leg] = list[len(list)-1].Score
	}
}

var legNames = [2]string{"vector", "text"}

// find returns the state of a document. The caller may change its legs.
func (f *fuser) find(at nearest.Place) *ranked {
	i, ok := f.at[at]
	if !ok {
		i = len(f.all)
		f.at[at] = i
		f.all = append(f.all, ranked{Ranked: nearest.Ranked{Place: at}, legs: []Leg{{Name: legNames[0]}, {Name: legNames[1]}}})
	}
	return &f.all[i]
}

// rank fuses the known ranks and scores of every document in the lists and returns the best.
func (f *fuser) rank() ([]ranked, error) {
	hits := make([]ranked, 0, len(f.all))
	for i := range f.all {
		h := &f.all[i]
		if f.Method == Convex {
			if err := f.complete(h); err != nil {
				return nil, err
			}
		}
		h.Score = f.score(h.legs[0], h.legs[1])
		if f.p.Threshold == nil || h.Score >= *f.p.Threshold {
			hits = append(hits, *h)
		}
	}
	hits, err := f.order(hits, f.p.Need)
	for i := range hits {
		if err == nil {
			err = f.complete(f.find(hits[i].Place))
		}
	}
	return hits, err
}

func (f *fuser) score(vector, text Leg) float64 {
	return f.Score(Metric(f.p.Scorer.Metric), vector, text, f.p.scale[0], f.p.scale[1])
}

// complete looks up the missing scores of a document.
func (f *fuser) complete(h *ranked) error {
	if h.completed {
		return nil
	}
	h.completed = true
	missing := [2]bool{}
	for i := range h.legs {
		missing[i] = h.legs[i].Score == nil && !f.whole[i]
	}
	if missing[0] && h.Part.Dim > 0 {
		f.p.Ledger.Considered++
	}
	return f.search.complete(f.p, h, missing[0], missing[1])
}

// most returns an upper bound of the score of a document.
func (f *fuser) most(h *ranked) float64 {
	if f.Method == Convex {
		return h.Score
	}
	legs := [2]Leg{h.legs[0], h.legs[1]}
	for i := range legs {
		if l := &legs[i]; l.Rank == 0 && !f.whole[i] && !(h.completed && l.Score == nil) {
			l.Rank = f.depth[i] + 1
		}
	}
	return f.score(legs[0], legs[1])
}

// unseen returns an upper bound of the score of a document in no list. It uses the
// operations of Score, and rounding is monotonic, so it bounds the very bits of the
// score.
func (f *fuser) unseen() float64 {
	var legs [2]Leg
	for i := range legs {
		if !f.whole[i] {
			legs[i] = Leg{Rank: f.depth[i] + 1, Score: &f.ceiling[i]}
		}
	}
	return f.score(legs[0], legs[1])
}

// doubt returns the uncertainty about the best rows.
func (f *fuser) doubt(hits []ranked) doubt {
	d := doubt{}
	if !f.whole[0] || !f.whole[1] {
		d.rival(f.unseen())
	}
	if f.Method == Convex { // all scores are known
		return d
	}
	chosen := make(map[nearest.Place]bool, len(hits))
	for _, h := range hits {
		chosen[h.Place] = true
	}
	for i := range f.all {
		h := &f.all[i]
		if most := f.most(h); most == h.Score {
			continue
		} else if chosen[h.Place] {
			d.rough = true
		} else {
			d.rival(most)
		}
	}
	return d
}

// deepen looks at more documents and reports whether it did.
func (f *fuser) deepen(ctx context.Context, hits []ranked, d doubt) (bool, error) {
	bar := d.bar(hits, f.p)
	switch {
	case f.Method == RRF && !f.thorough:
		return false, nil
	case f.Method == RRF && !(f.unseen() < bar) && !(f.whole[0] && f.whole[1]):
		return true, f.lengthen(ctx)
	case f.Method == RRF:
		return true, f.ranks(ctx, bar, hits)
	case f.deeper && (!f.thorough || f.whole[0]):
		return false, nil
	}
	// A document with a lower text score cannot be among the best, even with the best
	// vector score outside the list.
	least := engine.NegInf
	if !math.IsInf(bar, -1) && f.Text > 0 {
		vector := Leg{}
		if !f.whole[0] {
			vector.Score = &f.ceiling[0]
		}
		least = (bar - f.score(vector, Leg{})) / f.Text * f.p.scale[1] * (1 - 1e-9)
	}
	if !f.whole[1] && !f.deeper && (least > 0 || f.whole[0]) {
		f.deeper = true
		return true, f.moreTexts(ctx, max(0, least))
	}
	if !f.thorough || f.whole[0] {
		return false, nil
	}
	f.deeper = false
	return true, f.allVectors(ctx)
}

// moreTexts looks at the documents with at least the text score least: at all of them, or
// at a reasonable number.
func (f *fuser) moreTexts(ctx context.Context, least float64) error {
	limit := f.p.Matched
	if !f.thorough {
		limit = min(limit, max(f.db.opts.convexTexts, 8*f.Depth))
	}
	found, err := f.textsAbove(ctx, f.p, limit, least)
	if err != nil {
		return err
	}
	for _, h := range found {
		f.find(h.Place).legs[1].Score = new(h.Score)
	}
	if limit == f.p.Matched || len(found) < limit { // the list has all of them
		f.ceiling[1], f.whole[1] = least, least == 0
		return nil
	}
	slices.SortFunc(found, func(a, b ranked) int { return cmp.Compare(b.Score, a.Score) })
	f.ceiling[1] = found[limit-1].Score
	return nil
}

// allVectors adds every matching document with a vector.
func (f *fuser) allVectors(ctx context.Context) error {
	for i, part := range f.view.Parts {
		if part.Dim == 0 {
			continue
		}
		set := f.p.Parts[i].Set
		for row := range part.N {
			if row%textRows == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			if set == nil || set.Has(row) {
				f.find(nearest.Place{Part: part, Row: row})
			}
		}
	}
	for i := range f.all { // before whole[0] is set, because complete then skips vectors
		if err := f.complete(&f.all[i]); err != nil {
			return err
		}
	}
	f.whole[0] = true
	return nil
}

// lengthen extends both lists.
func (f *fuser) lengthen(ctx context.Context) error {
	f.Depth = min(8*f.Depth, max(f.p.Matched, f.Depth))
	leg := *f.leg
	leg.Need, leg.Parts = f.Depth, slices.Clone(leg.Parts)
	if err := f.nearest(ctx, []*probe{&leg}); err != nil {
		return err
	}
	f.p.Ledger.Add(leg.Ledger)
	texts, err := f.bestTexts(ctx, f.p, f.Depth, engine.NegInf)
	if err != nil {
		return err
	}
	f.take(0, leg.rows, len(leg.rows) >= f.vectors)
	f.take(1, texts, len(texts) < f.Depth || len(texts) >= f.p.Matched)
	return nil
}

// ranks finds the true ranks of the documents that may be among the best.
func (f *fuser) ranks(ctx context.Context, bar float64, hits []ranked) error {
	chosen := map[nearest.Place]bool{}
	for _, h := range hits {
		chosen[h.Place] = true
	}
	var lists [2][]*suspect
	err := f.ver.Read(func(tx *meta.Tx) error {
		for i := range f.all {
			h := &f.all[i]
			if most := f.most(h); most == h.Score || most < bar && !chosen[h.Place] {
				continue
			}
			if err := f.complete(h); err != nil {
				return err
			}
			if !h.Known(f.ver) {
				var err error
				if h.ID, err = f.view.IDAt(tx, h.Part, h.Row); err != nil {
					return err
				}
			}
			x := &suspect{doc: *h}
			for leg, l := range h.legs {
				if l.Rank == 0 && l.Score != nil {
					lists[leg] = append(lists[leg], x)
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, x := range lists[0] {
		x.doc.Score = *x.doc.legs[0].Score
	}
	if len(lists[0]) > 0 {
		if err := f.countBetter(ctx, f.p, lists[0]); err != nil {
			return err
		}
		f.p.Ledger.Considered += f.vectors
	}
	for _, x := range lists[0] {
		x.doc.legs[0].Rank = x.better + 1
	}
	if len(lists[1]) == 0 {
		return nil
	}
	return f.textRanks(ctx, f.p, lists[1])
}

// trace keeps all fused documents in order, in case Explain asks about them.
func (f *fuser) trace(hits []ranked) (err error) {
	if f.near.Trace != nil {
		for _, h := range hits {
			f.find(h.Place).ID = h.ID
		}
		f.p.fused, err = f.order(slices.Clone(f.all), len(f.all))
	}
	return err
}

// A doubt describes what may be wrong about the best fused rows. The zero doubt means
// that they are certain.
type doubt struct {
	rivals bool    // other rows may be better
	most   float64 // upper bound of their scores
	rough  bool    // some scores are only lower bounds
}

// rival adds rows outside the best with scores of at most most.
func (d *doubt) rival(most float64) {
	if !d.rivals || most > d.most {
		d.rivals, d.most = true, most
	}
}

// bar is the score that a row needs to be among the best.
func (d *doubt) bar(hits []ranked, p *probe) float64 {
	switch {
	case len(hits) >= p.Need:
		return hits[len(hits)-1].Score
	case p.Threshold != nil:
		return *p.Threshold
	}
	return engine.NegInf
}

// none reports whether hits and their scores are certain. A rival with the score of the
// last hit counts, because its id may be smaller.
func (d *doubt) none(hits []ranked, p *probe) bool {
	return !d.rough && (!d.rivals || d.most < d.bar(hits, p))
}

// kept returns the share of the true answer that hits certainly has.
func (d *doubt) kept(hits []ranked, p *probe) float64 {
	if !d.rivals {
		return 1
	}
	sure := 0
	for sure < len(hits) && hits[sure].Score > d.most {
		sure++
	}
	return float64(sure) / float64(max(1, min(p.Need, p.Matched)))
}

// Score returns the fused score of a document from its place in two rankings, for callers
// with rankings of their own. f is a result of WithDefaults. bestVector and bestText are
// the scores of the first document of each list. They are ignored for a list that has no
// score for any document.
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

// WithDefaults returns f with its defaults for need wanted hits filled in.
func (f Fusion) WithDefaults(need int) (Fusion, error) {
	return f.withDefaults(need), f.validate()
}

// share returns a score scaled by the best one; see Convex.
func share(metric Metric, score, best float64) float64 {
	worst := -1.0
	switch metric {
	case L2:
		return (1 - best) / (1 - score)
	case Dot:
		worst = -math.Abs(best)
	}
	if best <= worst { // all scores are the worst one
		return 0
	}
	return max(0, (score-worst)/(best-worst))
}

// reciprocal is the RRF score of one rank; 0 means unranked.
func reciprocal(weight, c float64, rank int) float64 {
	if rank == 0 {
		return 0
	}
	return weight / (c + float64(rank))
}

// complete computes the selected scores of a fused document.
func (s *search) complete(p *probe, h *ranked, vector, text bool) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	if vector && h.Part.Dim > 0 {
		vec, err := h.Part.Source.Vectors(h.Row, h.Row+1)
		if err != nil {
			return err
		}
		h.legs[0].Score = new(p.Scorer.Score(vec))
	}
	if !text {
		return nil
	}
	score, err := p.text.Score(slices.Index(s.view.Parts, h.Part), h.Row)
	if err != nil {
		return p.text.Damaged(err)
	}
	if score > 0 {
		h.legs[1].Score = &score
	}
	return nil
}

// snippet returns the passage of a document that best answers the text.
func (s *search) snippet(tx *meta.Tx, p *probe, h ranked) (*text.Snippet, error) {
	b, err := s.view.Stored(tx, h.Part, h.Row)
	if err != nil {
		return nil, err
	}
	d, err := document.Decode(b, document.Text)
	if err != nil {
		return nil, engine.CorruptDocument(h.Part.Nums[h.Row], err)
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

// SearchFused answers several queries, such as rewrites of one question, and fuses their
// hits by RRF into one answer.
//
// Each query contributes its best documents that meet its own Where and Threshold:
// Fusion.Depth of them or 100, and at least the number of wanted hits. The true answer is
// again the fusion of complete lists: see Fusion. If all queries want an exact answer,
// the lists are extended until it is exact.
//
// weights are the weights of the queries in order; without any, all are 1. K, Offset,
// Select and Snippet of the first query apply. A snippet answers the text that ranks the
// hit best.
func (c *Collection) SearchFused(ctx context.Context, queries []Query, weights ...float64) (*Result, error) {
	ver, v, done, err := c.open()
	if err != nil {
		return nil, err
	}
	defer done()
	var r *Result
	err = engine.RetryDerived(func() error {
		r, err = c.db.newSearch(ctx, ver, v).answerFused(ctx, queries, weights)
		return err
	})
	if err != nil {
		return nil, c.wrap("search", err)
	}
	return r, nil
}

func (s *search) answerFused(ctx context.Context, queries []Query, weights []float64) (*Result, error) {
	if len(queries) == 0 || len(weights) > 0 && len(weights) != len(queries) {
		return nil, engine.Invalidf("%d queries with %d weights", len(queries), len(weights))
	}
	f := &multiFuser{first: queries[0], own: slices.Clone(queries), weights: weights, exact: true}
	for i := range f.own {
		q := &f.own[i]
		if err := q.validate(s.view.Def); err != nil {
			return nil, fmt.Errorf("query %d: %w", i, err)
		}
		if q.Group != nil || q.MMR != nil {
			return nil, engine.Invalidf("query %d: fused queries have no groups and no maximal marginal relevance", i)
		}
		q.K, q.Offset, q.Select, q.Snippet = max(f.first.limit(), cmp.Or(q.Fusion.Depth, rrfDepth)), 0, IDsOnly, 0
		how, _ := goalOf(q.Accuracy) // it is valid
		f.exact = f.exact && how.Exact()
		if len(weights) > 0 && !(weights[i] >= 0 && weights[i] <= 1e6) {
			return nil, engine.Invalidf("weight of query %d is %v", i, weights[i])
		}
	}
	f.c = f.first.Fusion.withDefaults(0).C
	// Ranks beyond the ends of the lists count, as in fuse: if the true answer is wanted,
	// the lists are extended until these ranks are known.
	worth, matched := nearest.Ledger{}, 0
	for {
		if err := s.rankAll(ctx, f.own); err != nil {
			return nil, err
		}
		lists := make([][]ranked, len(s.queries))
		for i, p := range s.queries {
			lists[i] = p.rows
		}
		f.take(lists)
		var hits []ranked
		if err := s.db.engine.Guard(func() (err error) {
			hits, err = s.order(slices.Clone(f.all), f.first.limit())
			return err
		}); err != nil {
			return nil, err
		}
		for _, p := range s.queries {
			worth.Add(p.Ledger)
			matched = max(matched, p.Matched)
		}
		doubt := f.doubt(hits)
		p := *s.queries[0]
		p.Query, p.Need, p.Matched, p.forms = &Query{}, f.first.limit(), matched, s.queries
		certain := doubt.none(hits, &p)
		if !certain && f.exact && f.lengthen(lists) {
			continue
		}
		if !certain {
			worth.Lose(doubt.kept(hits, &p))
		}
		plan := fmt.Sprintf("%d queries fused by rrf, the first by %s", len(queries), s.queries[0].plan())
		r := result(&worth, matched, worth.Complete(len(hits), min(f.first.limit(), matched)), plan)
		p.Query = &f.first
		for _, form := range s.queries {
			if p.text == nil {
				p.text = form.text
			}
		}
		err := s.db.engine.Guard(func() (err error) {
			r.Hits, err = s.fetch(&p, hits[min(f.first.Offset, len(hits)):])
			return err
		})
		return r, err
	}
}

// multiFuser combines the lists of several queries.
type multiFuser struct {
	first   Query
	own     []Query // the queries as they run
	weights []float64
	c       float64
	exact   bool // every query wants an exact answer

	all   []ranked
	depth []int  // length of each list
	whole []bool // whether the list has every document
}

func (f *multiFuser) weight(list int) float64 {
	if len(f.weights) == 0 {
		return 1
	}
	return f.weights[list]
}

// take fuses lists from scratch.
func (f *multiFuser) take(lists [][]ranked) {
	f.all, f.depth, f.whole = nil, make([]int, len(lists)), make([]bool, len(lists))
	at := map[nearest.Place]int{}
	for i, list := range lists {
		f.depth[i], f.whole[i] = len(list), len(list) < f.own[i].K
		for rank, h := range list {
			j, ok := at[h.Place]
			if !ok {
				j = len(f.all)
				at[h.Place] = j
				fresh := ranked{Ranked: nearest.Ranked{Place: h.Place}}
				for k := range lists {
					fresh.legs = append(fresh.legs, Leg{Name: fmt.Sprint(k)})
				}
				f.all = append(f.all, fresh)
			}
			f.all[j].legs[i].Rank, f.all[j].legs[i].Score = rank+1, new(h.Score)
			f.all[j].Score += reciprocal(f.weight(i), f.c, rank+1)
		}
	}
}

// most returns an upper bound of the score of a document with these legs. nil legs mean a
// document in no list.
func (f *multiFuser) most(legs []Leg) (sum float64) {
	for i := range f.own {
		rank := 0
		if legs != nil {
			rank = legs[i].Rank
		}
		if rank == 0 && !f.whole[i] {
			rank = f.depth[i] + 1
		}
		sum += reciprocal(f.weight(i), f.c, rank)
	}
	return sum
}

// doubt returns the uncertainty about the best documents.
func (f *multiFuser) doubt(hits []ranked) doubt {
	d := doubt{}
	if slices.Contains(f.whole, false) {
		d.rival(f.most(nil))
	}
	chosen := make(map[nearest.Place]bool, len(hits))
	for _, h := range hits {
		chosen[h.Place] = true
	}
	for _, h := range f.all {
		if most := f.most(h.legs); most == h.Score {
			continue
		} else if chosen[h.Place] {
			d.rough = true
		} else {
			d.rival(most)
		}
	}
	return d
}

// lengthen asks for longer lists where more documents exist, and reports whether any do.
func (f *multiFuser) lengthen(lists [][]ranked) (more bool) {
	for i := range lists {
		if q := &f.own[i]; !f.whole[i] && q.K < math.MaxInt32 {
			q.K, more = min(8*q.K, math.MaxInt32), true
		}
	}
	return more
}
