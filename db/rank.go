package db

import (
	"cmp"
	"context"
	"slices"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/topk"
)

// A ranked is a row with its true score.
type ranked struct {
	place
	score float64
	id    string // read only to break ties
	group any    // the value of Group.Field
	legs  []Leg  // of a fused row

	completed bool // all scores of legs that exist are known
}

// compareRanked is the order of hits.
func compareRanked(a, b ranked) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.id, b.id))
}

// nearest returns, for each query, the best rows by vector that it needs, in
// order.
func (s *search) nearest(ctx context.Context) ([][]ranked, error) {
	for _, p := range s.queries {
		s.planWalks(p)
	}
	if err := s.walk(ctx); err != nil {
		return nil, err
	}
	clock := s.clock("scan")
	scanned, kept := 0, 0
	for _, p := range s.queries {
		scanned += p.prepareScan(s)
	}
	found := make([][]topk.Candidate, len(s.queries))
	if scanned > 0 {
		if err := s.scan(ctx, found); err != nil {
			return nil, err
		}
	}
	best := make([][]ranked, len(found))
	for i, p := range s.queries {
		if scanned == 0 {
			found[i] = p.found
		}
		kept += max(0, len(found[i])-len(p.found))
	}
	clock.done(scanned, kept, s.trace.taken())
	for i, p := range s.queries {
		clock := s.clock("score")
		var err error
		if best[i], err = s.rank(ctx, p, found[i]); err != nil {
			return nil, err
		}
		clock.done(len(found[i]), len(best[i]), int64(len(found[i]))*int64(4*len(p.scorer.Query)))
	}
	return best, nil
}

// prepareScan prepares a query for the parts that are scanned, and returns how
// many of their rows it wants. It adds the promise of each part to the ledger.
func (p *probe) prepareScan(s *search) int {
	for i, part := range s.view.Parts {
		switch {
		case p.walks(i):
			p.ledger.add(ledger{approximate: true, share: p.parts[i].walk.recall, walked: true})
		case part.Dim > 0 && part.N > 0:
			s.openCodes()
			n := p.matchedIn(s.view, i)
			p.ledger.add(ledger{scanned: n, considered: n, coded: s.codes[i] != nil})
			if s.codes[i] != nil {
				p.parts[i].codes = s.codes[i].Query(p.scorer.Query)
			}
		}
	}
	return p.ledger.scanned
}

// rank computes true scores of the candidates and returns the best, in order.
func (s *search) rank(ctx context.Context, q *probe, candidates []topk.Candidate) ([]ranked, error) {
	return s.rankBy(ctx, q.need, candidates, func(c topk.Candidate) (float64, bool, error) {
		if q.walks(int(c.Part)) { // graph searches return true scores
			return c.Upper, q.Threshold == nil || c.Upper >= *q.Threshold, nil
		}
		vec, err := s.view.Parts[c.Part].Source.Vectors(int(c.Row), int(c.Row)+1)
		if err != nil {
			return 0, false, err
		}
		score := q.scorer.Score(vec)
		return score, q.Threshold == nil || score >= *q.Threshold, nil
	})
}

// rankBy returns the n best candidates by score, in order. score also says
// whether a candidate is wanted at all.
func (s *search) rankBy(
	ctx context.Context, n int, candidates []topk.Candidate, score func(topk.Candidate) (float64, bool, error),
) ([]ranked, error) {
	hits := make([]ranked, 0, len(candidates))
	for i, c := range candidates {
		if i%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
		score, wanted, err := score(c)
		if err != nil {
			return nil, err
		}
		if wanted {
			hits = append(hits, ranked{place: place{s.view.Parts[c.Part], int(c.Row)}, score: score})
		}
	}
	return s.order(hits, n)
}

// order returns the n best of hits, in order.
func (s *search) order(hits []ranked, n int) ([]ranked, error) {
	slices.SortFunc(hits, compareRanked)
	// Rows that tie with the last one wanted compete by id.
	if len(hits) > n {
		end := n
		for end < len(hits) && n > 0 && hits[end].score == hits[n-1].score {
			end++
		}
		hits = hits[:end]
	}
	tied := false
	for i := range hits[min(1, len(hits)):] {
		tied = tied || hits[i].score == hits[i+1].score
	}
	if !tied { // ids decide nothing
		return hits[:min(n, len(hits))], nil
	}
	err := s.ver.Read(func(tx *meta.Tx) (err error) {
		for i := range hits {
			h := &hits[i]
			tied := i > 0 && hits[i-1].score == h.score || i+1 < len(hits) && hits[i+1].score == h.score
			if !tied || s.known(h) {
				continue
			}
			if err = s.stopped(); err != nil {
				return err
			}
			if h.id, err = s.view.IDAt(tx, h.part, h.row); err != nil {
				return err
			}
			s.ver.Files.IDs.Put(h.part.Nums[h.row], h.id)
		}
		return nil
	})
	slices.SortFunc(hits, compareRanked)
	return hits[:min(n, len(hits))], err
}

// known reports whether the id of a row is known without reading meta.bolt.
func (s *search) known(h *ranked) bool {
	if h.id == "" {
		h.id = s.ver.Files.IDs.Get(h.part.Nums[h.row])
	}
	return h.id != ""
}

// finish turns the best rows into a Result.
func (s *search) finish(ctx context.Context, q *probe, best []ranked) (*Result, error) {
	var err error
	complete := q.ledger.complete(len(best), min(q.limit(), q.matched))
	switch {
	case q.MMR != nil:
		best, err = s.diversify(ctx, q, best)
	case q.Group != nil:
		best, complete, err = s.group(ctx, q, best)
	}
	if err != nil {
		return nil, err
	}
	if q.Group == nil {
		best = best[min(q.Offset, len(best)):min(q.limit(), len(best))]
	}
	r := q.ledger.result(q.matched, complete, q.plan())
	r.Hits, err = s.fetch(q, best)
	return r, err
}

// fetch reads the documents of hits. It skips meta.bolt if neither text nor
// metadata is wanted and all ids are known.
func (s *search) fetch(q *probe, best []ranked) ([]Hit, error) {
	clock := s.clock("fetch")
	hits := make([]Hit, len(best))
	stored := q.Select.has(WithText) || q.Select.has(WithMetadata) || q.Snippet > 0 && q.text != nil
	unknown := false
	for i := range best {
		h := &best[i]
		hits[i] = Hit{Score: h.score, Group: h.group, Legs: h.legs}
		unknown = !stored && !s.known(h) || unknown
	}
	read := func(tx *meta.Tx) (err error) {
		for i := range best {
			if err = s.stopped(); err != nil {
				return err
			}
			h, d := &best[i], &hits[i].Document
			switch {
			case stored || h.id == "":
				if err = readDocument(tx, s.view, h.part, h.row, q.Select, d); err == nil {
					s.ver.Files.IDs.Put(h.part.Nums[h.row], d.ID)
				}
			default:
				d.ID = h.id
				if q.Select.has(WithVector) {
					d.Vector, err = h.part.Vector(h.row)
				}
			}
			if err == nil && q.Snippet > 0 && q.text != nil {
				hits[i].Snippet, err = s.snippet(tx, q, *h)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	var err error
	if stored || unknown {
		err = s.ver.Read(read)
	} else {
		err = read(nil)
	}
	clock.done(len(best), len(best), 0)
	return hits, err
}

// readDocument sets d to the selected parts of the document at a row.
func readDocument(tx *meta.Tx, v *engine.View, p *engine.Part, row int, want Select, d *Document) error {
	b, err := v.Stored(tx, p, row)
	if err != nil {
		return err
	}
	if err := d.decode(b, want); err != nil {
		return engine.CorruptDocument(p.Nums[row], err)
	}
	if want.has(WithVector) {
		d.Vector, err = p.Vector(row)
	}
	return err
}
