package db

import (
	"context"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/nearest"
)

// finish turns the best rows of a query into a Result.
func (s *search) finish(ctx context.Context, q *probe) (*Result, error) {
	var err error
	best := q.rows
	complete := q.Ledger.Complete(len(best), min(q.limit(), q.Matched))
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
	r := result(&q.Ledger, q.Matched, complete, q.plan())
	r.Hits, err = s.fetch(q, best)
	return r, err
}

// result returns a Result without hits. It alone shows ledgers to callers.
func result(l *nearest.Ledger, matched int, complete bool, plan string) *Result {
	return &Result{
		Exact: !l.Approximate, Complete: complete, Recall: l.Recall(),
		Matched: matched, Considered: l.Considered, Plan: plan,
	}
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
		hits[i] = Hit{Score: h.Score, Group: h.group, Legs: h.legs}
		unknown = !stored && !h.Known(s.ver) || unknown
	}
	read := func(tx *meta.Tx) (err error) {
		for i := range best {
			if err = s.ctx.Err(); err != nil {
				return err
			}
			h, d := &best[i], &hits[i].Document
			switch {
			case stored || h.ID == "":
				if err = readDocument(tx, s.view, h.Part, h.Row, q.Select, d); err == nil {
					s.ver.Files.IDs.Put(h.Part.Nums[h.Row], d.ID)
				}
			default:
				d.ID = h.ID
				if q.Select.has(WithVector) {
					d.Vector, err = h.Part.Vector(h.Row)
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
	clock.Done(len(best), len(best), 0)
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
