package main

import (
	"context"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/vecbolt/vecbolt/db"
)

type compactCmd struct{ database }

func (c *compactCmd) Help() string {
	return "The database does so by itself while a program has it open; this does it now. It also builds derived files that " +
		"are missing or damaged: columns, full-text indexes, codes, and the graphs of large collections, which take minutes for " +
		"a million vectors."
}

func (c *compactCmd) Run(ctx context.Context, t *tool) error {
	start := time.Now()
	var before, after int64
	err := c.change(func(vdb *db.DB) (err error) {
		stats, err := vdb.Stats()
		if err != nil {
			return err
		}
		before = stats.MetaBytes + stats.VectorBytes
		due := 0
		for _, s := range stats.Collections {
			due += s.GraphsDue
		}
		verb := "compact"
		if due > 0 {
			t.notef("%s to build, which takes minutes for a million vectors", counted(due, "graph"))
			verb = "compact and build " + counted(due, "graph")
		}
		ctx, b := t.working(ctx, verb)
		err = vdb.Compact(ctx)
		b.end()
		if err != nil {
			return err
		}
		after, err = stored(vdb)
		return err
	})
	if err != nil {
		return err
	}
	return t.answer(struct {
		Before  int64   `json:"before_bytes"`
		After   int64   `json:"after_bytes"`
		Seconds float64 `json:"seconds"`
	}{before, after, time.Since(start).Seconds()},
		"compacted %s to %s", humanize.IBytes(uint64(before)), humanize.IBytes(uint64(after)))
}

// counted returns a number with its noun.
func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return humanize.Comma(int64(n)) + " " + noun
}

// stored returns the bytes of documents and vectors on disk, without the log.
func stored(vdb *db.DB) (int64, error) {
	s, err := vdb.Stats()
	return s.MetaBytes + s.VectorBytes, err
}
