package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/exchange"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/vectorize"
)

type putCmd struct {
	collection
	File string `arg:"" optional:"" default:"-" placeholder:"FILE|-" help:"JSON lines; default standard input."`
	schema
	embedding
}

func (c *putCmd) Help() string {
	return `A line is an object with the keys "id" (generated if missing), "text", "metadata" and "vector" or ` +
		`"embedding", each optional; other keys become metadata. A document replaces the document with the same id as a whole. ` +
		`With --json the answer to each line is {"id":...} as soon as the document is durable, in order, without waiting ` +
		`for the end of the input. A bad line ends it with exit status 1; the lines before it are written and answered.`
}

func (c *putCmd) Run(ctx context.Context, t *tool) error {
	in, err := t.open(ctx, c.File)
	if err != nil {
		return err
	}
	defer in.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	next, end := iter.Pull(func(yield func([]inputLine) bool) { // reads nothing before the first call
		grouped(ctx, documents(ctx, in, inputName(c.File)))(yield)
	})
	defer end()
	first := sync.OnceValues(next)
	begin := func(model *embed.Config) error {
		lines, ok := first()
		switch {
		case !ok:
			return ctx.Err()
		case lines[0].err != nil:
			return lines[0].err
		}
		if err := c.storable(lines[0].Document, model); err != nil {
			return fmt.Errorf("%v: %w", lines[0].Position, err)
		}
		return nil
	}
	return c.embedding.create(ctx, t, c.collection, c.schema, begin, func(_ *db.DB, to *vectorize.Collection) error {
		written := 0
		var failed error
		for lines, ok := first(); ok; lines, ok = next() {
			var n int
			n, failed = c.write(ctx, t, to, lines)
			if written += n; failed != nil {
				break
			}
		}
		if failed == nil {
			failed = ctx.Err()
		}
		if t.json {
			return failed
		}
		_, err := fmt.Fprintf(t.out, "wrote %d\n", written) // also before an error: these stay
		return errors.Join(failed, err)
	})
}

// An inputLine is a document of the input, or the error that ends it.
type inputLine struct {
	*exchange.ImportedDocument
	err error
}

// documents reads ahead: documents that arrive while a batch is written form the next batch. The
// reader may be waiting for input when the verb ends; it then ends with the process.
func documents(ctx context.Context, in io.Reader, name string) <-chan inputLine {
	const ahead = 1000 // documents
	lines := make(chan inputLine, ahead)
	go func() {
		defer close(lines)
		r := exchange.NewJSONLReader(in, name)
		for {
			item, err := r.Next()
			if err == io.EOF {
				return
			}
			if err == nil && item.Skip != nil {
				err = fmt.Errorf("%v: %w", item.Position, item.Skip)
			}
			select {
			case lines <- inputLine{item, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return lines
}

// grouped yields all documents that have arrived, in order, as soon as there is one.
func grouped(ctx context.Context, lines <-chan inputLine) func(yield func([]inputLine) bool) {
	return func(yield func([]inputLine) bool) {
		for {
			var group []inputLine
			select {
			case line, ok := <-lines:
				if !ok {
					return
				}
				group = append(group, line)
			case <-ctx.Done():
				return
			}
			for n := len(lines); n > 0; n-- { // this goroutine is the only receiver
				group = append(group, <-lines)
			}
			if !yield(group) {
				return
			}
		}
	}
}

// write writes a group of documents as one batch, prints their ids, and returns the number written.
// If a line cannot be written, the whole batch fails: then the lines before it are written one by
// one.
func (c *putCmd) write(ctx context.Context, t *tool, coll *vectorize.Collection,
	lines []inputLine) (written int, err error) {
	var docs []db.Document
	for _, line := range lines {
		if line.err != nil {
			err = line.err // always the last line of the input
			break
		}
		docs = append(docs, line.Document)
	}
	put := func(docs ...db.Document) error {
		ids, err := coll.Upsert(ctx, docs...)
		if err == nil {
			written += len(ids)
			err = c.acknowledge(t, ids)
		}
		return err
	}
	if len(docs) == 0 {
		return 0, err
	}
	failed := put(docs...)
	if !errors.Is(failed, db.ErrInvalid) && !errors.Is(failed, db.ErrDimensionMismatch) {
		return written, errors.Join(failed, err)
	}
	for i := range docs {
		if err := put(docs[i]); err != nil {
			return written, fmt.Errorf("%v: %w", lines[i].Position, err)
		}
	}
	return written, err
}

// acknowledge prints the ids of durable documents immediately.
func (c *putCmd) acknowledge(t *tool, ids []string) error {
	if !t.json {
		return nil
	}
	for _, id := range ids {
		if err := t.line(struct {
			ID string `json:"id"`
		}{id}); err != nil {
			return err
		}
	}
	return t.out.Flush()
}
