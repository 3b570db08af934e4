package db

import (
	"context"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/query"
)

// result turns an answer into a Result. It alone shows ledgers to callers.
func (db *DB) result(
	ctx context.Context, ver *engine.Version, v *engine.View, q *Query, a *query.Answer,
) (*Result, error) {
	r := &Result{
		Exact: !a.Ledger.Approximate, Complete: a.Complete, Recall: a.Ledger.Recall(),
		UsualRecall: a.Ledger.Usual(), Poor: a.Ledger.Poor(),
		Matched: a.Matched, Considered: a.Ledger.Considered, Plan: a.Plan,
	}
	return r, db.engine.Guard(func() (err error) {
		r.Hits, err = fetch(ctx, ver, v, q, a)
		return err
	})
}

// fetch reads the documents of hits. It skips meta.bolt if neither text nor
// metadata is wanted and all ids are known.
func fetch(ctx context.Context, ver *engine.Version, v *engine.View, q *Query, a *query.Answer) ([]Hit, error) {
	clock := a.Trace.Clock("fetch")
	hits := make([]Hit, len(a.Rows))
	passages := q.Snippet > 0 && a.Passages != nil
	stored := q.Select.has(WithText) || q.Select.has(WithMetadata) || passages
	if !stored {
		ver.Files.IDs.GetAll(len(a.Rows), func(i int) uint64 {
			return a.Rows[i].Part.Nums[a.Rows[i].Row]
		}, func(i int, id string) { a.Rows[i].ID = id })
	}
	unknown := false
	for i := range a.Rows {
		r, h := &a.Rows[i], &hits[i]
		h.Score, h.Group, h.Legs = r.Score, r.Group, legsOf(r.Legs)
		unknown = unknown || r.ID == ""
	}
	read := func(tx *meta.Tx) (err error) {
		var all [][]byte
		if stored {
			all, err = v.StoredAll(tx, len(a.Rows), func(i int) (*engine.Part, int) {
				return a.Rows[i].Part, a.Rows[i].Row
			})
			if err != nil {
				return err
			}
		}
		for i := range a.Rows {
			if err = ctx.Err(); err != nil {
				return err
			}
			h, d := &a.Rows[i], &hits[i].Document
			switch {
			case stored:
				err = decodeDocument(h.Part, h.Row, all[i], q.Select, d)
			case h.ID == "":
				if err = readDocument(tx, v, h.Part, h.Row, q.Select, d); err == nil {
					ver.Files.IDs.Put(h.Part.Nums[h.Row], d.ID)
				}
			default:
				d.ID = h.ID
				if q.Select.has(WithVector) {
					d.Vector, err = h.Part.Vector(h.Row)
				}
			}
			if err == nil && passages {
				hits[i].Snippet, err = a.Passages.Best(tx, *h, q.Snippet)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	var err error
	if stored || unknown {
		err = ver.Read(read)
	} else {
		err = read(nil)
	}
	clock.Done(len(hits), len(hits), 0)
	return hits, err
}

// readDocument sets d to the selected parts of the document at a row.
func readDocument(tx *meta.Tx, v *engine.View, p *engine.Part, row int, want Select, d *Document) error {
	b, err := v.Stored(tx, p, row)
	if err != nil {
		return err
	}
	return decodeDocument(p, row, b, want, d)
}

// decodeDocument is readDocument for a document whose stored form is at hand.
func decodeDocument(p *engine.Part, row int, stored []byte, want Select, d *Document) (err error) {
	if err := d.decode(stored, want); err != nil {
		return engine.CorruptDocument(p.Nums[row], err)
	}
	if want.has(WithVector) {
		d.Vector, err = p.Vector(row)
	}
	return err
}
