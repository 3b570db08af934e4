package db

import (
	"context"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/match"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// Delete removes documents and returns how many existed. Unknown ids are no error.
func (c *Collection) Delete(ctx context.Context, ids ...string) (int, error) {
	_, deleted, err := c.write(ctx, func(b *Batch, name string) { b.Delete(name, ids...) })
	return deleted, c.wrap("delete", err)
}

// DeleteWhere removes all documents that match and returns their number. A nil filter is
// an error: to remove everything, use filter.And() or Drop.
func (c *Collection) DeleteWhere(ctx context.Context, where filter.Expr) (int, error) {
	_, deleted, err := c.write(ctx, func(b *Batch, name string) { b.DeleteWhere(name, where) })
	return deleted, c.wrap("delete", err)
}

// appendTo appends deletes of the documents that match in a version.
func (d *deletion) appendTo(ctx context.Context, ops []engine.Op, ver *engine.Version) ([]engine.Op, error) {
	if !d.bound {
		var known bool
		if d.coll, known = ver.Names[d.collection]; !known {
			return nil, engine.Missing(d.collection, ver.Names)
		}
	}
	v := ver.Views[d.coll]
	if v == nil {
		return nil, errDropped
	}
	ids, err := match.IDs(ctx, ver.Files.Store, v, d.where)
	for _, id := range ids {
		ops = append(ops, engine.Op{Kind: engine.OpDelete, Collection: v.Def.Name, ID: id})
	}
	return ops, err
}

// DeleteFunc removes the documents that match where (nil: all) and for which del returns true. It
// returns their number. No write comes between the decision and the deletes. An error or a panic of
// del is returned as an error, and nothing is deleted.
//
// del gets the id, the text and the metadata of a document, and may get and search others. Writers
// wait for it, so it must be quick. If the leading process ends, del is called again from the first
// document on: a function that counts must then start over.
//
// Calls of the same DB that would wait for del fail at once in it, with ErrInvalid: all writes,
// Load, Flush, Compact, Check, Barrier, Processes, Backup, NewPublisher, Publish and Close, also of
// a Publisher. Made in other goroutines, or by another DB, they wait for del, and del must not wait
// for them. In a process that does not lead, Flush, Compact, Check, Barrier, Processes and Backup
// then fail once del has run for 5 s, with context.DeadlineExceeded.
func (c *Collection) DeleteFunc(ctx context.Context, where filter.Expr,
	del func(*Document) (bool, error)) (int, error) {
	if del == nil {
		return 0, c.wrap("delete", invalidf("no function decides what to delete"))
	}
	if where != nil {
		if err := filter.Validate(where); err != nil {
			return 0, c.wrap("delete", invalidf("where: %v", err))
		}
		where = filter.Simplify(where)
	}
	return c.deleteIDs(ctx, func(g *engine.Group, v *engine.View) ([]string, error) {
		defer c.db.engine.Within("DeleteFunc")()
		var ids []string
		err := match.Visit(ctx, g.Base.Files.Store, v, where, func(stored []byte) error {
			var d Document
			if err := d.decode(stored, WithText|WithMetadata); err != nil {
				return err
			}
			id := d.ID
			deletes, err := decided("DeleteFunc", &d, del)
			if deletes {
				ids = append(ids, id)
			}
			return err
		})
		return ids, err
	})
}

// DeleteIf is DeleteFunc for the documents with these ids, in this order. It reads no others, and
// deletes at most limit of them; 0 means all. del may be called again from the start here as well.
func (c *Collection) DeleteIf(ctx context.Context, ids []string, limit int,
	del func(*Document) (bool, error)) (int, error) {
	if del == nil {
		return 0, c.wrap("delete", invalidf("no function decides what to delete"))
	}
	if limit < 0 {
		return 0, c.wrap("delete", invalidf("limit is %d", limit))
	}
	return c.deleteIDs(ctx, func(g *engine.Group, v *engine.View) (chosen []string, err error) {
		defer c.db.engine.Within("DeleteIf")()
		seen := make(map[string]bool, len(ids))
		i := -1
		for d, err := range inParts(ctx, g.Base, v, ids, WithText|WithMetadata, g.Base.Read) {
			if err != nil {
				return nil, err
			}
			if i++; d == nil || seen[ids[i]] {
				continue
			}
			seen[ids[i]] = true
			deletes, err := decided("DeleteIf", d, del)
			if err != nil {
				return nil, err
			}
			if deletes {
				chosen = append(chosen, ids[i])
			}
			if limit > 0 && len(chosen) == limit {
				break
			}
		}
		return chosen, nil
	})
}

// decided calls the function of a delete. A panic is an error.
func decided(call string, d *Document, del func(*Document) (bool, error)) (deletes bool, err error) {
	err = vfs.Catch(call, func() (err error) {
		deletes, err = del(d)
		return engine.CallersError(err)
	})
	return deletes && err == nil, err
}

// deleteIDs deletes the documents whose ids choose returns, while all other writes wait.
func (c *Collection) deleteIDs(ctx context.Context,
	choose func(*engine.Group, *engine.View) ([]string, error)) (int, error) {
	deleted, err := c.changed(ctx, func(g *engine.Group, v *engine.View) ([]engine.Op, error) {
		ids, err := choose(g, v)
		ops := make([]engine.Op, len(ids))
		for i, id := range ids {
			ops[i] = engine.Op{Kind: engine.OpDelete, Collection: v.Def.Name, ID: id}
		}
		return ops, err
	})
	return deleted, c.wrap("delete", err)
}
