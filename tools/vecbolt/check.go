package main

import (
	"context"
	"fmt"

	"github.com/dustin/go-humanize"

	"github.com/vecbolt/vecbolt/db"
)

type checkCmd struct {
	database
	Deep bool `help:"Also recompute derived files and follow every id: finds errors of programs, not of disks."`
}

func (c *checkCmd) Help() string {
	return "Verifies every checksum and the consistency of all files; changes nothing. Other processes may " +
		"use the database; files that belong to nothing are found only if none of them writes. A database that " +
		"does not open is examined file by file. The exit status is 1 if anything is wrong."
}

func (c *checkCmd) Run(ctx context.Context, t *tool) error {
	level := db.CheckBytes
	if c.Deep {
		level = db.CheckDeep
	}
	ctx, p := t.working(ctx, "check")
	report, err := db.CheckFiles(ctx, c.DB, level)
	p.end()
	switch {
	case err != nil:
		return err
	case t.json:
		err = t.line(struct {
			OK       bool         `json:"ok"`
			Problems []db.Problem `json:"problems"`
		}{report.OK(), report.Problems})
	case report.OK():
		_, err = fmt.Fprintf(t.out, "ok: %s documents in %d collections, %d segments\n",
			humanize.Comma(int64(report.Documents)), report.Collections, report.Segments)
	default:
		for _, p := range report.Problems {
			fmt.Fprintln(t.out, p)
		}
		_, err = fmt.Fprintf(t.out, "problems: %d\n", len(report.Problems))
	}
	if err == nil && !report.OK() {
		err = errReported
	}
	return err
}
