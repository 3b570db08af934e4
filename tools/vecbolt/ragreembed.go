package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/dustin/go-humanize"

	"github.com/vecbolt/vecbolt/rag/eval"
	"github.com/vecbolt/vecbolt/rag/knowledge"
)

type ragReembedCmd struct {
	Base string `arg:"" help:"Name of the base."`
	ragEmbedder
	Queries string `placeholder:"FILE" help:"Questions to compare both models by: JSON lines with _id and text. Default: the neighbours of a sample of the chunks."`
	Qrels   string `placeholder:"FILE" help:"Judgements (BEIR or TREC) of files, chunks or rows, or of values of a metadata field: adds nDCG."`
	K       int    `short:"k" default:"10" help:"Number of chunks per question to compare (${default})."`
	Switch  bool   `help:"Switch to the new vectors."`
	Discard bool   `help:"Remove the new vectors."`
}

func (c *ragReembedCmd) Help() string {
	return "The new vectors are stored in a second database, while the first one answers. Without --switch they stay there, to be " +
		"compared again, switched to, or discarded: the next call needs no provider or model, and embeds only new chunks. " +
		"The switch is one rename: after an interruption, the base is the old one or the new one. If the model refuses texts, " +
		"it names them, embeds all other files, and leaves the base as it is: change the files, learn, and call it again."
}

// Validate is called by kong.
func (c *ragReembedCmd) Validate() error {
	switch {
	case c.Discard && (c.Switch || c.Queries != "" || c.Qrels != "" || c.given()):
		return errors.New("--discard excludes other flags")
	case c.Qrels != "" && c.Queries == "":
		return errors.New("--qrels needs --queries")
	case c.K < 1:
		return fmt.Errorf("-k %d: not positive", c.K)
	}
	return nil
}

func (c *ragReembedCmd) Run(ctx context.Context, t *tool, r *ragCmd) error {
	e, err := r.engine(t)
	if err != nil {
		return err
	}
	if c.Discard {
		if err := e.Discard(c.Base); err != nil {
			return err
		}
		return t.answer(map[string]any{"base": c.Base, "discarded": true}, "%s: discarded", c.Base)
	}
	o := knowledge.ReembedOptions{K: c.K, Switch: func(*knowledge.Reembedding) bool { return c.Switch }}
	if c.given() {
		cfg, err := e.Config(c.Base)
		if err != nil {
			return err
		}
		if c.Model != "" && c.Model != cfg.Model && c.Provider == "" {
			cfg.Embedding.Dimensions = 0
		}
		c.apply(&cfg)
		o.Config = &cfg
	}
	if c.Queries != "" {
		if o.Queries, err = readQuestions(c.Queries); err != nil {
			return err
		}
	}
	if c.Qrels != "" {
		if o.Qrels, err = readFile(c.Qrels, eval.ReadQrels); err != nil {
			return err
		}
	}
	p := t.bar("reembed", func() int64 {
		s, err := e.Status(ctx, c.Base)
		if err != nil {
			return 0 // Reembed reports the error
		}
		return int64(s.Files)
	})
	done := 0
	o.Progress = func(files int) { p.add(files - done); done = files }
	report, err := e.Reembed(ctx, c.Base, o)
	p.end()
	if err != nil {
		return err
	}
	if t.json {
		return t.line(report)
	}
	by := "questions"
	if report.Sampled {
		by = "chunks and their neighbours"
	}
	t.notef("before: %s", report.From)
	t.notef("after:  %s", report.To)
	t.notef("overlap@%d %.3f, by %d %s", report.K, report.Overlap, report.Questions, by)
	if report.Compare != nil {
		t.notef("nDCG@%d %.4f, was %.4f (p = %.3f)", report.K, *report.After, *report.Before, report.Compare.P)
	}
	switched := "not switched: --switch does, --discard gives up"
	if report.Switched {
		switched = "switched"
	}
	return t.answer(report, "%s: %s files, %s chunks; embedded %s; %.1f s; %s", c.Base,
		humanize.Comma(int64(report.Files)), humanize.Comma(int64(report.Chunks)),
		humanize.Comma(int64(report.Embedded)), report.Seconds, switched)
}
