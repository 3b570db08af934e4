package main

import (
	"cmp"
	"context"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/vecbolt/vecbolt/db"
)

type collectionsCmd struct{ database }

func (c *collectionsCmd) Run(t *tool) error {
	return c.read(func(vdb *db.DB) error {
		var rows []table.Row
		for _, info := range vdb.Collections() {
			if t.json {
				if err := t.line(info); err != nil {
					return err
				}
			}
			rows = append(rows, table.Row{info.Name, humanize.Comma(int64(info.Documents)), info.Schema.Dim,
				info.Schema.Metric, cmp.Or(info.Schema.Lineage.Model, "-")})
		}
		if t.json {
			return nil
		}
		return t.table(table.Row{"collection", "documents", "dimension", "metric", "model"}, rows)
	})
}

type renameCmd struct {
	collection
	To string `arg:"" help:"The new name."`
}

func (c *renameCmd) Run(ctx context.Context, t *tool) error {
	return c.database.change(func(vdb *db.DB) error {
		if err := vdb.Rename(ctx, c.Collection, c.To); err != nil {
			return err
		}
		return t.answer(struct {
			Renamed string `json:"renamed"`
			To      string `json:"to"`
		}{c.Collection, c.To}, "renamed %s to %s", c.Collection, c.To)
	})
}

type dropCmd struct{ collection }

func (c *dropCmd) Run(ctx context.Context, t *tool) error {
	return c.database.change(func(vdb *db.DB) error {
		if err := vdb.Drop(ctx, c.Collection); err != nil {
			return err
		}
		return t.answer(struct {
			Dropped string `json:"dropped"`
		}{c.Collection}, "dropped %s", c.Collection)
	})
}
