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
	Language string   `placeholder:"NAME" help:"The language of the texts, for stemming and stop words (english); none for no language."`
	Field    []string `sep:"none" placeholder:"FIELD" help:"Index this metadata field as well. May be repeated; the given fields replace those of the index."`
	bm25
	Remove bool `help:"Remove the full-text index."`
}

func (c *textIndexCmd) Help() string {
	return "What the flags do not name stays as it is in an index that is there; --remove it first to begin with the defaults."
}

// Validate is called by kong.
func (c *textIndexCmd) Validate() error {
	if c.Remove && (c.Language != "" || len(c.Field) > 0 || c.given()) {
		return errors.New("--remove and --language, --field, --k1 or --b exclude each other")
	}
	return nil
}

func (c *textIndexCmd) Run(ctx context.Context, t *tool) error {
	return c.change(func(coll *db.Collection) error {
		info, err := coll.Info()
		if err != nil {
			return err
		}
		want, done := c.over(info.Schema.Text), "texts are indexed:"
		if c.Remove {
			want, done = nil, "texts are not indexed any more:"
		}
		if err := coll.SetText(ctx, want); err != nil {
			return err
		}
		if info, err = coll.Info(); err != nil {
			return err
		}
		return t.answer(struct {
			Text *db.TextIndex `json:"text"`
		}{info.Schema.Text}, "%s %s", done, c.Collection)
	})
}

// over returns the index that the flags make of the one that is there, or of none.
func (c *textIndexCmd) over(have *db.TextIndex) *db.TextIndex {
	var want db.TextIndex
	if have != nil {
		want = *have
	}
	want.Language = cmp.Or(c.Language, want.Language)
	want.K1, want.B = cmp.Or(c.K1, want.K1), cmp.Or(c.B, want.B)
	if len(c.Field) > 0 {
		want.Fields = c.Field
	}
	return &want
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
