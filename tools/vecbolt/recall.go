package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/vecbolt/vecbolt/db"
)

type recallCmd struct {
	collection
	Queries string    `xor:"queries" placeholder:"FILE.fvecs" help:"Search for every vector of this .fvecs file."`
	Sample  int       `xor:"queries" placeholder:"N" help:"Search for this number of stored vectors, each as if it were not stored; default 1000 without --queries."`
	Seed    uint64    `placeholder:"N" help:"Seed of the sample."`
	K       int       `short:"k" default:"10" help:"Number of hits (${default})."`
	Recall  []float64 `xor:"how" placeholder:"R,..." help:"Measure searches that promise these recalls. The default is 0.9, 0.95, 0.98 and 0.99."`
	Ef      int       `xor:"how" placeholder:"N" help:"Measure searches with this beam width (ef in HNSW)."`
	condition
}

func (c *recallCmd) Help() string {
	return "Also answers every query exactly, and compares. The interval contains the mean over all such queries with a confidence " +
		"of 95 %. Where an exact answer costs no more than an approximate one, the answer is exact; \"exact\" counts these queries."
}

// Validate is called by kong.
func (c *recallCmd) Validate() error {
	switch {
	case c.K < 1:
		return fmt.Errorf("-k %d: not positive", c.K)
	case c.Sample < 0:
		return fmt.Errorf("--sample %d: negative", c.Sample)
	case c.Ef < 0:
		return fmt.Errorf("--ef %d: negative", c.Ef)
	}
	return shares(c.Recall)
}

func (c *recallCmd) Run(ctx context.Context, t *tool) error {
	return c.read(func(coll *db.Collection) error {
		test := db.RecallTest{Sample: c.Sample, Seed: c.Seed, K: c.K, Where: c.Where.Expr}
		for _, r := range c.Recall {
			test.Accuracies = append(test.Accuracies, db.Recall(r))
		}
		if c.Ef > 0 {
			test.Accuracies = append(test.Accuracies, db.EF(c.Ef))
		}
		if c.Queries != "" {
			var err error
			if test.Queries, err = readVectors(ctx, c.Queries); err != nil {
				return err
			}
		}
		measured, err := coll.MeasureRecall(ctx, test)
		if err != nil {
			return err
		}
		if measured[0].Queries == 0 { // their recall would be 1
			return errors.New("nothing to measure: no document that matches has a vector")
		}
		var rows []table.Row
		for _, m := range measured {
			if t.json {
				if err := t.line(m); err != nil {
					return err
				}
				continue
			}
			setting := fmt.Sprintf("recall=%v", m.Target)
			if m.EF > 0 {
				setting = fmt.Sprintf("ef=%d", m.EF)
			}
			rows = append(rows, table.Row{setting, fmt.Sprintf("%.4f", m.Promised), fmt.Sprintf("%.4f", m.Recall),
				fmt.Sprintf("%.4f to %.4f", m.Low, m.High), humanize.Comma(int64(m.Queries)),
				humanize.Comma(int64(m.Exact))})
		}
		if t.json {
			return nil
		}
		return t.table(table.Row{"setting", "promised", fmt.Sprintf("recall@%d", c.K), "95 %",
			"queries", "exact"}, rows)
	})
}
