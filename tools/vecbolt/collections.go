package main

import (
	"cmp"
	"context"
	"errors"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/vecbolt/vecbolt/db"
)

type collectionsCmd struct{ database }

func (c *collectionsCmd) Run(t *tool) error {
	return c.read(func(vdb *db.DB) error {
		infos, err := vdb.Collections()
		if err != nil {
			return err
		}
		var rows []table.Row
		for _, info := range infos {
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

type textIndexCmd struct {
	collection
	Language string   `default:"english" placeholder:"NAME" help:"The language of the texts, for stemming and stop words (english); none for no language."`
	Field    []string `sep:"none" placeholder:"FIELD" help:"Index this metadata field as well. May be repeated."`
	bm25
	Remove bool `help:"Remove the full-text index."`
}

func (c *textIndexCmd) Run(ctx context.Context, t *tool) error {
	if c.Remove && (len(c.Field) > 0 || c.given()) {
		return errors.New("--remove and --field, --k1 or --b exclude each other")
	}
	return c.change(func(coll *db.Collection) error {
		want, done := &db.TextIndex{Language: c.Language, Fields: c.Field, K1: c.K1, B: c.B}, "texts are indexed:"
		if c.Remove {
			want, done = nil, "texts are not indexed any more:"
		}
		if err := coll.SetText(ctx, want); err != nil {
			return err
		}
		info, err := coll.Info()
		if err != nil {
			return err
		}
		return t.answer(struct {
			Text *db.TextIndex `json:"text"`
		}{info.Schema.Text}, "%s %s", done, c.Collection)
	})
}

type indexCmd struct {
	collection
	To db.Index `arg:"" name:"index" help:"fast, small or none."`
}

func (c *indexCmd) Help() string {
	return "fast, the default, keeps graphs in the layout that is searched fastest. small keeps smaller graphs and codes, " +
		"which searches of 512 dimensions and more take longer with. none keeps no graphs, and scans. " +
		"An open database replaces the files in the background; compact does so at once."
}

func (c *indexCmd) Run(ctx context.Context, t *tool) error {
	return c.change(func(coll *db.Collection) error {
		if err := coll.SetIndex(ctx, c.To); err != nil {
			return err
		}
		return t.answer(struct {
			Index db.Index `json:"index"`
		}{c.To}, "index %v: %s", c.To, c.Collection)
	})
}
