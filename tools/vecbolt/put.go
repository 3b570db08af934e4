package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"sync/atomic"

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
		documents(ctx, in, inputName(c.File)).grouped(ctx)(yield)
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
	err  error
	size int // of the document in memory, about
}

// The limits of reading ahead.
const (
	aheadDocuments = 1000
	aheadBytes     = 8 << 20
)

// A readAhead holds the documents that have arrived while a batch is written. They form the next
// batch.
type readAhead struct {
	lines chan inputLine
	bytes atomic.Int64  // of the documents in lines
	room  chan struct{} // has a value after documents were taken
}

// documents reads ahead. The reader may be waiting for input when the verb ends; it then ends with
// the process.
func documents(ctx context.Context, in io.Reader, name string) *readAhead {
	a := &readAhead{lines: make(chan inputLine, aheadDocuments), room: make(chan struct{}, 1)}
	go func() {
		defer close(a.lines)
		r := exchange.NewJSONLReader(in, name)
		for {
			for a.bytes.Load() >= aheadBytes {
				select {
				case <-a.room:
				case <-ctx.Done():
					return
				}
			}
			item, err := r.Next()
			if err == io.EOF {
				return
			}
			line := inputLine{ImportedDocument: item, err: err}
			if err == nil {
				line.size = sizeOf(&item.Document)
			}
			if err == nil && item.Skip != nil {
				line.err = fmt.Errorf("%v: %w", item.Position, item.Skip)
			}
			a.bytes.Add(int64(line.size))
			select {
			case a.lines <- line:
			case <-ctx.Done():
				return
			}
			if line.err != nil {
				return
			}
		}
	}()
	return a
}

// took makes room for more documents.
func (a *readAhead) took(line inputLine) {
	a.bytes.Add(-int64(line.size))
	select {
	case a.room <- struct{}{}:
	default: // the reader has not seen the last one yet
	}
}

// grouped yields all documents that have arrived, in order, as soon as there is one.
func (a *readAhead) grouped(ctx context.Context) func(yield func([]inputLine) bool) {
	return func(yield func([]inputLine) bool) {
		for {
			var group []inputLine
			select {
			case line, ok := <-a.lines:
				if !ok {
					return
				}
				group = append(group, line)
			case <-ctx.Done():
				return
			}
			for n := len(a.lines); n > 0; n-- { // this goroutine is the only receiver
				group = append(group, <-a.lines)
			}
			for _, line := range group {
				a.took(line)
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
