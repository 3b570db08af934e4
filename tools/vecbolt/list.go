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
		return eachPage(ctx, coll, q, func(docs []*db.Document) error {
			var rows []table.Row
			for _, d := range docs {
				if !t.json {
					rows = append(rows, c.cells(d))
				} else if err := t.document(d, c.parts); err != nil {
					return err
				}
			}
			if t.json {
				return nil
			}
			return long.add(t, rows)
		})
	})
}

// eachPage calls fn with one page of documents after another. A limit of 0 means no limit.
func eachPage(ctx context.Context, coll *db.Collection, q db.ListQuery, fn func([]*db.Document) error) error {
	const most = 1000
	for left := q.Limit; ; {
		q.Limit = most
		if left > 0 {
			q.Limit = min(left, most)
		}
		page, err := coll.List(ctx, q)
		if err != nil {
			return err
		}
		if len(page.Documents) > 0 {
			if err := fn(page.Documents); err != nil {
				return err
			}
		}
		if page.Next == "" || left == len(page.Documents) {
			return nil
		}
		if left > 0 {
			left -= len(page.Documents)
		}
		q.After, q.Offset = page.Next, 0
	}
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
