package main

import (
	"context"
	"errors"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/vecbolt/vecbolt/db"
)

// page are the flags that choose a part of a list.
type page struct {
	Limit  int `placeholder:"N" help:"Maximum number of documents; 0 means all."`
	Offset int `placeholder:"N" help:"Number of documents to skip."`
}

// Validate is called by kong.
func (p *page) Validate() error {
	if p.Limit < 0 || p.Offset < 0 {
		return errors.New("--limit and --offset must not be negative")
	}
	return nil
}

type listCmd struct {
	collection
	condition
	page
	After string `placeholder:"ID" help:"Start after this id."`
	parts
}

func (c *listCmd) Run(ctx context.Context, t *tool) error {
	return c.read(func(coll *db.Collection) error {
		q := db.ListQuery{Where: c.Where.Expr, Limit: c.Limit, Offset: c.Offset, After: c.After, Select: c.selection()}
		long := &longTable{header: c.columns()}
		const part = 1000 // rows of a table that are in memory
		var rows []table.Row
		for d, err := range coll.ListSeq(ctx, q) {
			if err != nil {
				return err
			}
			if t.json {
				if err := t.document(d, c.parts); err != nil {
					return err
				}
				continue
			}
			if rows = append(rows, c.cells(d)); len(rows) == part {
				if err := long.add(t, rows); err != nil {
					return err
				}
				rows = nil
			}
		}
		if len(rows) == 0 {
			return nil
		}
		return long.add(t, rows)
	})
}

type countCmd struct {
	collection
	condition
	page
}

func (c *countCmd) Help() string {
	return "With --limit and --offset, counts the documents that list prints."
}

func (c *countCmd) Run(ctx context.Context, t *tool) error {
	return c.read(func(coll *db.Collection) error {
		n, err := coll.Count(ctx, c.Where.Expr)
		if err != nil {
			return err
		}
		if n = max(n-c.Offset, 0); c.Limit > 0 {
			n = min(n, c.Limit)
		}
		return t.answer(struct {
			Count int `json:"count"`
		}{n}, "%s", humanize.Comma(int64(n)))
	})
}
