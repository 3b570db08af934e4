package main

import (
	"context"

	"github.com/dustin/go-humanize"

	"github.com/vecbolt/vecbolt/db"
)

type deleteCmd struct {
	collection
	selector
}

func (c *deleteCmd) Help() string {
	return "Deletes the documents with these ids and all that meet the condition, and prints their number. " +
		"Missing ids are not an error."
}

func (c *deleteCmd) Run(ctx context.Context, t *tool) error {
	return c.change(func(coll *db.Collection) error {
		deleted, err := coll.Delete(ctx, c.IDs...)
		if err == nil && c.Where.Expr != nil {
			var n int
			n, err = coll.DeleteWhere(ctx, c.Where.Expr)
			deleted += n
		}
		if err != nil {
			return err
		}
		return t.answer(struct {
			Deleted int `json:"deleted"`
		}{deleted}, "deleted %s", humanize.Comma(int64(deleted)))
	})
}
