package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/dustin/go-humanize"

	"github.com/vecbolt/vecbolt/db"
)

type checkCmd struct{ database }

func (c *checkCmd) Help() string {
	return "Verifies every checksum and that everything fits together; changes nothing. The exit status is 1 if anything " +
		"is wrong."
}

func (c *checkCmd) Run(ctx context.Context, t *tool) error {
	var report *db.CheckReport
	err := c.read(func(vdb *db.DB) (err error) {
		report, err = vdb.Check(ctx)
		return err
	})
	var corrupt *db.CorruptError
	if errors.As(err, &corrupt) { // so damaged that it does not open
		p := db.Problem{File: corrupt.File, Offset: corrupt.Offset, Detail: message(err)}
		report, err = &db.CheckReport{Problems: []db.Problem{p}}, nil
	}
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
