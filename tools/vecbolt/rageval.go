package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/dustin/go-humanize"

	"github.com/vecbolt/vecbolt/rag/knowledge"
)

type ragEvalCmd struct {
	Base string `arg:"" help:"Name of the base."`
	judgedQueries
	Sweep  []string `placeholder:"RUN,..." help:"Ways to ask: base (as configured), or dense, text, hybrid, mmr, hyde or multi-query, with a reranker and keys as in hybrid+lexical+rerank_weight=0.3. Default: base, and all that need no model."`
	Judged string   `placeholder:"WHAT" help:"What the judged ids are: file, row (FILE:ROW), chunk, or the name of a metadata field. Default: what knows most of them."`
	ragKeys
	condition
}

func (c *ragEvalCmd) Help() string {
	return metricsHelp + "The best chunk of a judged id counts, once. A run that names a strategy has no reranker unless it names one; " +
		"other keys are those of the base, or set by --config. See docs/eval.md."
}

func (c *ragEvalCmd) Run(ctx context.Context, t *tool, r *ragCmd) error {
	e, err := r.engine(t)
	if err != nil {
		return err
	}
	if _, err := e.Config(c.Base); err != nil {
		return err
	}
	if err := (database{filepath.Dir(e.ConfigPath(c.Base))}).spare(c.HTML, c.Out); err != nil {
		return err
	}
	lab, err := c.lab()
	if err != nil {
		return err
	}
	o := knowledge.EvalOptions{Runs: slices.Clone(c.Sweep), Judged: c.Judged, Set: c.keys(), Where: c.Where.Expr}
	if len(o.Runs) == 0 {
		o.Runs = knowledge.DefaultRuns()
	}
	if err := c.baseline(lab, o.Runs); err != nil {
		return err
	}
	p := t.bar("eval", func() int64 { return int64(len(o.Runs) * len(lab.Qrels.Only(lab.Queries))) })
	o.Progress = func(int, int) { p.add(1) }
	report, err := e.Eval(ctx, c.Base, *lab, o)
	p.end()
	if err != nil {
		return err
	}
	what := map[string]string{"file": "files", "row": "rows", "chunk": "chunks"}[report.Judged]
	if what == "" {
		what = fmt.Sprintf("values of the field %q", report.Judged)
	}
	t.notef("the judged ids are %s; the base has %s of %s", what,
		humanize.Comma(int64(report.IDs-report.Unknown)), humanize.Comma(int64(report.IDs)))
	return c.answer(t, report.Report)
}
