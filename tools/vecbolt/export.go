package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/exchange"
)

type exportCmd struct {
	collection
	File      string `arg:"" optional:"" placeholder:"FILE|-" help:"Write to this file; default standard output."`
	Format    string `default:"auto" enum:"auto,jsonl,fvecs,npy" placeholder:"FORMAT" help:"One of ${enum}; auto decides by the file name, default jsonl."`
	Out       string `short:"o" placeholder:"FILE" help:"Same as the argument."`
	Documents string `placeholder:"FILE" help:"With fvecs and npy: write the id, text and metadata of row i as line i of this file, for import --documents."`
	condition
}

func (c *exportCmd) Help() string {
	return "Writes the documents of one moment, in the order in which they were last written. JSON lines contain " +
		"whole documents. The other formats contain vectors only: documents without a vector are skipped, and counted. Importing an export restores every bit."
}

// Validate is called by kong.
func (c *exportCmd) Validate() error {
	if c.File != "" && c.Out != "" {
		return errors.New("the file is given twice")
	}
	c.Out = cmp.Or(c.File, c.Out, "-")
	if c.Format == "auto" {
		switch ext := strings.ToLower(filepath.Ext(c.Out)); ext {
		case ".fvecs", ".npy":
			c.Format = ext[1:]
		case ".csv", ".tsv", ".parquet", ".pq", ".bvecs", ".gz", ".zst": // import would read another format
			return fmt.Errorf("%s: export writes no %s file: name a .jsonl, .fvecs or .npy file, or say --format", c.Out, ext)
		default:
			c.Format = "jsonl"
		}
	}
	if c.Documents != "" && sameFile(c.Documents, c.Out) {
		return fmt.Errorf("--documents %s: the vectors go there", c.Documents)
	}
	if c.Documents != "" && c.Format == "jsonl" {
		return errors.New("--documents goes with fvecs and npy; JSON lines hold all of a document")
	}
	return nil
}

func (c *exportCmd) Run(ctx context.Context, t *tool) error {
	if c.Out == "-" && c.Format != "jsonl" && t.json {
		return fmt.Errorf("%s is not JSON: with --json, name a file", c.Format)
	}
	if err := c.spare(c.Out, c.Documents); err != nil {
		return err
	}
	return c.read(c.export(ctx, t))
}

// export returns a function that writes a collection to the files. All of them have one state of
// it, though an .npy file takes two passes.
func (c *exportCmd) export(ctx context.Context, t *tool) func(*db.Collection) error {
	return frozen(func(coll *db.Collection) error {
		e := exporter{ctx: ctx, coll: coll, cmd: c}
		out, err := t.create(c.Out)
		if err != nil {
			return err
		}
		defer out.drop()
		files := []*outFile{out}
		if c.Documents != "" {
			beside, err := t.create(c.Documents)
			if err != nil {
				return err
			}
			defer beside.drop()
			e.beside = exchange.NewJSONLWriter(beside, db.WithText|db.WithMetadata)
			files = append(files, beside)
		}
		if err = e.run(t, out); err == nil {
			err = keep(files...)
		}
		if err != nil {
			return err
		}
		if c.Out == "-" {
			return nil
		}
		return t.answer(struct {
			Documents int `json:"documents"`
			LeftOut   int `json:"left_out"`
		}{e.written, e.leftOut}, "exported %s documents to %s", humanize.Comma(int64(e.written)), c.Out)
	})
}

// An exporter writes one export.
type exporter struct {
	ctx     context.Context
	coll    *db.Collection
	cmd     *exportCmd
	beside  *exchange.JSONLWriter // nil if not requested
	written int
	leftOut int // documents without a vector, in formats that cannot hold them
}

func (e *exporter) run(t *tool, out io.Writer) error {
	p := t.progress("export", func() int64 {
		n, err := e.coll.Count(e.ctx, e.cmd.Where.Expr)
		if err != nil {
			return 0 // the export reports the error
		}
		return int64(n)
	})
	defer p.end()
	write, finish, err := e.writer(out)
	if err != nil {
		return err
	}
	for d, err := range e.coll.All(e.ctx, e.cmd.Where.Expr, db.Everything) {
		if err != nil {
			return err
		}
		if len(d.Vector) == 0 && e.cmd.Format != "jsonl" {
			e.leftOut++
			continue
		}
		if err := write(d); err != nil {
			return err
		}
		if e.beside != nil {
			if err := e.beside.Write(d); err != nil {
				return err
			}
		}
		e.written++
		p.at(int64(e.written+e.leftOut), e.written)
	}
	if e.leftOut > 0 {
		p.notef("skipped %d documents without a vector", e.leftOut)
	}
	return finish()
}

// writer returns a function that writes a document in the format, and a function to call at the
// end.
func (e *exporter) writer(out io.Writer) (write func(*db.Document) error, finish func() error, err error) {
	finish = func() error { return nil }
	switch e.cmd.Format {
	case "fvecs":
		w := exchange.NewVecsWriter(out)
		return func(d *db.Document) error { return w.Write(d.Vector) }, finish, nil
	case "npy":
		rows, err := e.vectors()
		if err != nil {
			return nil, nil, err
		}
		info, err := e.coll.Info()
		if err != nil {
			return nil, nil, err
		}
		w, err := exchange.NewNPYWriter(out, rows, info.Schema.Dim)
		if err != nil {
			return nil, nil, err
		}
		return func(d *db.Document) error { return w.Write(d.Vector) }, w.Close, nil
	}
	w := exchange.NewJSONLWriter(out, db.Everything)
	return w.Write, finish, nil
}

// vectors counts the documents with a vector: an .npy file begins with their number.
func (e *exporter) vectors() (n int, err error) {
	for d, err := range e.coll.All(e.ctx, e.cmd.Where.Expr, db.WithVector) {
		if err != nil {
			return 0, err
		}
		if len(d.Vector) > 0 {
			n++
		}
	}
	return n, nil
}
