package db

import (
	"context"
	"fmt"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/meta"
)

// Get returns one document; ErrNotFound if it does not exist.
func (c *Collection) Get(ctx context.Context, id string, want Select) (*Document, error) {
	docs, err := c.GetMany(ctx, []string{id}, want)
	if err != nil {
		return nil, err
	}
	if docs[0] == nil {
		return nil, c.wrap("get", fmt.Errorf("%w: document %q", ErrNotFound, id))
	}
	return docs[0], nil
}

// GetMany returns the documents with these ids, in this order; nil for ids that
// do not exist.
func (c *Collection) GetMany(ctx context.Context, ids []string, want Select) ([]*Document, error) {
	ver, v, done, err := c.begin(ctx, "get")
	if err != nil {
		return nil, err
	}
	defer done()
	docs := make([]*Document, len(ids))
	for lo := 0; lo < len(ids) && err == nil; lo += docsPerTx {
		if err = ctx.Err(); err != nil {
			break
		}
		err = c.db.engine.Read(ver, func(tx *meta.Tx) error {
			return documentsByID(ctx, ver, v, tx, ids[lo:min(lo+docsPerTx, len(ids))], want, docs[lo:])
		})
	}
	if err != nil {
		return nil, c.wrap("get", err)
	}
	return docs, nil
}

// docsPerTx is the number of documents that one transaction of meta.bolt reads: a long transaction
// keeps pages from reuse.
const docsPerTx = 256

// documentsByID sets docs[i] to the document with ids[i], if it exists.
func documentsByID(
	ctx context.Context, ver *engine.Version, v *engine.View, tx *meta.Tx, ids []string, want Select, docs []*Document,
) error {
	type place struct {
		doc, row int
		part     *engine.Part
	}
	places := make([]place, 0, len(ids))
	for i, id := range ids {
		if err := ctx.Err(); err != nil {
			return err
		}
		num, err := ver.Num(tx, v, id)
		if err != nil {
			return err
		}
		if num == 0 {
			continue
		}
		part, row, ok := v.Locate(num)
		if !ok {
			return engine.MissingRow(v.Def.Name, id, num)
		}
		places = append(places, place{i, row, part})
	}
	stored, err := v.StoredAll(tx, len(places), func(i int) (*engine.Part, int) {
		return places[i].part, places[i].row
	})
	if err != nil {
		return err
	}
	for i, at := range places {
		docs[at.doc] = &Document{}
		if err := decodeDocument(at.part, at.row, stored[i], want, docs[at.doc]); err != nil {
			return err
		}
	}
	return nil
}
