package main

import (
	"context"
	"fmt"

	"github.com/dustin/go-humanize"

	"github.com/vecbolt/vecbolt/db"
)

type repairCmd struct {
	database
	To string `arg:"" name:"dir" help:"Directory of the new database: empty or missing."`
}

func (c *repairCmd) Help() string {
	return "The damaged database is not changed. If pages of meta.bolt are destroyed, the records in all other pages are saved. " +
		"Of a published folder, the newest version that can be read is saved. " +
		"Lost documents are listed, one by one where they are known; the exit status is 0 also then. " +
		"Derived data need no repair: they are rebuilt."
}

func (c *repairCmd) Run(ctx context.Context, t *tool) error {
	p := t.copying("repair", c.DB, c.To)
	report, err := db.Repair(ctx, c.DB, c.To)
	p.end()
	if err != nil {
		return err
	}
	if t.json {
		return t.line(report)
	}
	for _, p := range report.Problems {
		fmt.Fprintf(t.out, "damage: %v\n", p)
	}
	for _, l := range report.Lost {
		fmt.Fprintf(t.out, "lost: %v\n", l)
	}
	count := func(n int) string { return humanize.Comma(int64(n)) }
	of := ""
	if report.Version > 0 {
		of = fmt.Sprintf(" of version %d", report.Version)
	}
	_, err = fmt.Fprintf(t.out, "saved %s documents%s, %s of them with a vector, in %d collections to %s; lost: %s\n",
		count(report.Documents), of, count(report.Vectors), report.Collections, c.To, count(len(report.Lost)))
	return err
}
