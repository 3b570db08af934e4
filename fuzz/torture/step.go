package torture

import (
	"context"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
)

// A step is one call of the database. It depends only on seed, track, number and the content
// before, so any process can compute it again.
type step struct {
	kind     stepKind
	coll, to string
	writes   []write
	where    filter.Expr
	group    int64 // value of the field group in where
	metadata db.Metadata
	dim      int
	words    bool
}

// A write is one line of a batch.
type write struct {
	coll  string
	put   *db.Document // of a patch: the document afterwards
	patch *db.Patch
	del   string
}

// effect returns the content after the step.
func (s *step) effect(c content) content {
	c = c.next()
	switch s.kind {
	case stepCreate:
		c[s.coll] = &table{dim: s.dim, docs: map[string]*db.Document{}}
	case stepDrop:
		delete(c, s.coll)
	case stepRename:
		c[s.to] = c[s.coll]
		delete(c, s.coll)
	case stepMeta:
		c.edit(s.coll).metadata = s.metadata
	case stepText:
		c.edit(s.coll).words = s.words
	case stepWhere:
		t := c.edit(s.coll)
		for _, d := range c[s.coll].docs {
			if d.Metadata["group"] == s.group {
				t.remove(d.ID)
			}
		}
	default:
		edited := map[string]*table{}
		for _, w := range s.writes {
			t := edited[w.coll]
			if t == nil {
				t = c.edit(w.coll)
				edited[w.coll] = t
			}
			if w.put != nil {
				t.put(w.put)
				if len(w.put.Vector) > 0 {
					t.dim = len(w.put.Vector)
				}
			} else {
				t.remove(w.del)
			}
		}
	}
	return c
}

// write executes the step if it writes.
func (s *step) write(ctx context.Context, vdb *db.DB) error {
	switch s.kind {
	case stepCreate:
		_, err := vdb.CreateCollection(ctx, s.coll, db.Schema{Dim: s.dim}, nil)
		return err
	case stepDrop:
		return vdb.Drop(ctx, s.coll)
	case stepRename:
		return vdb.Rename(ctx, s.coll, s.to)
	case stepMeta, stepWhere, stepText:
		c, err := vdb.Collection(s.coll)
		if err != nil {
			return err
		}
		if s.kind == stepMeta {
			return c.SetMetadata(ctx, s.metadata)
		}
		if s.kind == stepText {
			if !s.words {
				return c.SetText(ctx, nil)
			}
			return c.SetText(ctx, &db.TextIndex{Language: "none"})
		}
		_, err = c.DeleteWhere(ctx, s.where)
		return err
	}
	b := &db.Batch{}
	for _, w := range s.writes {
		switch {
		case w.patch != nil:
			b.Patch(w.coll, *w.patch)
		case w.put != nil:
			b.Upsert(w.coll, *w.put)
		default:
			b.Delete(w.coll, w.del)
		}
	}
	return vdb.Apply(ctx, b)
}
