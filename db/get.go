package db

import (
	"context"
	"fmt"
	"iter"
	"math"

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
			_, err := documentsByID(ctx, ver, v, tx, ids[lo:min(lo+docsPerTx, len(ids))], want, docs[lo:], math.MaxInt)
			return err
		})
	}
	if err != nil {
		return nil, c.wrap("get", err)
	}
	return docs, nil
}

// GetSeq yields the documents with these ids, in this order, of the version at the start of the
// loop; nil for ids that do not exist. Unlike GetMany it holds few of them in memory, however large
// they are: it reads some MiB at once. An error ends the loop, with a nil document. GetSeq holds no
// lock and no transaction between documents. When ctx is done, those already read still come.
func (c *Collection) GetSeq(ctx context.Context, ids []string, want Select) iter.Seq2[*Document, error] {
	return c.sequence(ctx, "get", func(ver *engine.Version, v *engine.View, yield func(*Document) bool) error {
		read := func(fn func(*meta.Tx) error) error { return c.read(ctx, ver, fn) }
		for d, err := range inParts(ctx, ver, v, ids, want, read) {
			if err != nil || !yield(d) {
				return err
			}
		}
		return nil
	})
}

// inParts yields the documents with these ids, nil for ids that do not exist. read calls its
// argument with a transaction of ver.
func inParts(ctx context.Context, ver *engine.Version, v *engine.View, ids []string, want Select,
	read func(func(*meta.Tx) error) error) iter.Seq2[*Document, error] {
	return func(yield func(*Document, error) bool) {
		for most := 16; len(ids) > 0; {
			docs, n := make([]*Document, min(most, len(ids))), 0
			err := read(func(tx *meta.Tx) (err error) {
				n, err = documentsByID(ctx, ver, v, tx, ids[:len(docs)], want, docs, bytesPerTx)
				return err
			})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, d := range docs[:n] {
				if !yield(d, nil) {
					return
				}
			}
			if ids = ids[n:]; n == len(docs) {
				most = min(4*most, docsPerTx)
			} else { // the stored forms of the others were read in vain
				most = n
			}
		}
	}
}

// A transaction of meta.bolt reads this many documents at most: a long one keeps pages from reuse.
// Where a loop of the caller follows, it also ends after this many bytes of them.
const (
	docsPerTx  = 256
	bytesPerTx = 4 << 20
)

// documentsByID sets docs[i] to the document with ids[i], if it exists, for the first n ids. The
// others are left if those read have most bytes together, or more.
func documentsByID(ctx context.Context, ver *engine.Version, v *engine.View, tx *meta.Tx, ids []string, want Select,
	docs []*Document, most int) (n int, err error) {
	type place struct {
		doc, row int
		part     *engine.Part
	}
	places := make([]place, 0, len(ids))
	for i, id := range ids {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		num, err := ver.Num(tx, v, id)
		if err != nil {
			return 0, err
		}
		if num == 0 {
			continue
		}
		part, row, ok := v.Locate(num)
		if !ok {
			return 0, engine.MissingRow(v.Def.Name, id, num)
		}
		places = append(places, place{i, row, part})
	}
	stored, err := v.StoredAll(tx, len(places), func(i int) (*engine.Part, int) {
		return places[i].part, places[i].row
	})
	if err != nil {
		return 0, err
	}
	for i, at := range places {
		if most <= 0 {
			return at.doc, nil
		}
		d := &Document{}
		if err := decodeDocument(at.part, at.row, stored[i], want, d); err != nil {
			return 0, err
		}
		docs[at.doc] = d
		most -= len(stored[i]) + 4*len(d.Vector)
	}
	return len(ids), nil
}
