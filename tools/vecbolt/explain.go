package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/vecbolt/vecbolt/db"
)

type explainCmd struct {
	searchArgs
	WhyNot []string `sep:"none" placeholder:"ID" help:"Explain the rank of this document, or why it is not a hit. May be repeated."`
}

func (c *explainCmd) Help() string {
	return "Answers as search does, and shows how each part of the collection was searched and why, and the work of each " +
		"stage. For each document in --why-not it shows the exact score, the exact rank among all that match, and " +
		"whether the filter (and which clause), the threshold, the groups or the number of hits excluded it."
}

func (c *explainCmd) Run(ctx context.Context, t *tool) error {
	return c.read(func(coll *db.Collection) error {
		asked, err := c.asked(ctx, t, coll)
		if err != nil {
			return err
		}
		n := 0
		for q, err := range c.queries(ctx, t) {
			if err == nil && !c.NoEmbed {
				q, err = asked.Ask(ctx, q)
			}
			if err != nil {
				return err
			}
			e, err := coll.Explain(ctx, q, c.WhyNot...)
			if err != nil {
				return err
			}
			if err := c.answer(t, n, e); err != nil {
				return err
			}
			n++
		}
		return nil
	})
}

// Validate is called by kong.
func (c *explainCmd) Validate() error {
	if len(c.Text) > 1 {
		return errors.New("--text is given twice: explain each form of a question by itself")
	}
	return c.searchArgs.Validate()
}

func (c *explainCmd) answer(t *tool, n int, e *db.Explanation) error {
	if !t.json {
		return c.text(t, n, e)
	}
	line, err := c.appendResult(nil, n, e.Result)
	if err != nil {
		return err
	}
	for _, field := range []struct {
		name  string
		value any
	}{{"parts", e.Plan}, {"stages", e.Stages}, {"why_not", append([]db.WhyNot{}, e.WhyNot...)}} {
		value, err := json.Marshal(field.value)
		if err != nil {
			return err
		}
		line = fmt.Appendf(line, `,%q:%s`, field.name, value)
	}
	_, err = t.out.Write(append(line, "}\n"...))
	return err
}

// text answers for people.
func (c *explainCmd) text(t *tool, n int, e *db.Explanation) error {
	count := func(n int) string { return humanize.Comma(int64(n)) }
	if err := c.table(t, n, e.Result); err != nil {
		return err
	}
	fmt.Fprintf(t.out, "\nplan: %s\n", e.Result.Plan)
	var rows []table.Row
	for _, p := range e.Plan {
		rows = append(rows, table.Row{p.Name, count(p.Rows), count(p.Matched), p.Plan, p.Reason})
	}
	if err := t.table(table.Row{"part", "rows", "match", "plan", "because"}, rows); err != nil {
		return err
	}
	rows = nil
	for _, s := range e.Stages {
		rows = append(rows, table.Row{s.Name, count(s.Rows), count(s.Kept),
			humanize.IBytes(uint64(s.Bytes)), s.Time.Round(time.Microsecond)})
	}
	fmt.Fprintln(t.out)
	if err := t.table(table.Row{"stage", "rows", "left", "read", "time"}, rows); err != nil {
		return err
	}
	for _, w := range e.WhyNot {
		fmt.Fprintf(t.out, "\n%s: %s\n", w.ID, w.Reason)
		if w.Score != nil {
			fmt.Fprintf(t.out, "  score  %v\n", *w.Score)
		}
		switch {
		case w.Rank > 0 && (w.Stage == "where" || w.Stage == "field" || w.Stage == "example" || w.Stage == "text"):
			fmt.Fprintf(t.out, "  rank   it would be %s, before %s that match\n", count(w.Rank),
				count(e.Result.Matched-w.Rank+1))
		case w.Rank > 0:
			fmt.Fprintf(t.out, "  rank   %s of %s that match\n", count(w.Rank), count(e.Result.Matched))
		}
		for _, leg := range w.Legs {
			switch {
			case leg.Rank > 0:
				fmt.Fprintf(t.out, "  %-6s rank %s, score %v\n", leg.Name, count(leg.Rank), *leg.Score)
			default:
				fmt.Fprintf(t.out, "  %-6s no rank\n", leg.Name)
			}
		}
		if w.Path != "" {
			fmt.Fprintf(t.out, "  where  %s\n", w.Path)
		}
	}
	return nil
}
