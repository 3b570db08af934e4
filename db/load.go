package db

import (
	"context"
	"errors"
	"iter"
	"math"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// LoadOptions tune Load. nil is the default.
type LoadOptions struct {
	// BatchSize is the number of documents per batch. 0 means batches of about 4 MiB; a
	// negative number is invalid. Each batch is atomic and durable by itself.
	BatchSize int
	// Progress, if set, is called after each batch with the number of
	// documents written so far.
	Progress func(n int)
}

// validate is the only check of LoadOptions.
func (o *LoadOptions) validate() error {
	return within("BatchSize", o.BatchSize, 0, math.MaxInt)
}

// Load upserts all documents of a sequence in batches and returns the number written. It
// stops at the first error of the sequence or of a write; batches written before it stay.
// Load gathers the next batch while it writes the current one, so the sequence must not
// reuse the documents it yields.
func (c *Collection) Load(ctx context.Context, docs iter.Seq2[Document, error], opts *LoadOptions) (int, error) {
	var o LoadOptions
	if opts != nil {
		o = *opts
	}
	if err := o.validate(); err != nil {
		return 0, c.wrap("load", err)
	}
	if docs == nil {
		return 0, c.wrap("load", invalidf("no documents are given"))
	}
	err := c.db.engine.MayWait() // other goroutines write
	var name string
	if err == nil {
		name, err = c.writable(ctx)
	}
	if err != nil {
		return 0, c.wrap("load", err)
	}
	l := loader{c: c, name: name, opts: o, next: &Batch{}, writing: new(vfs.Group)}
	defer func() { l.writing.Wait() }() // also when the sequence panics
	for d, failed := range docs {
		if err = engine.CallersError(failed); err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = l.add(ctx, d)
		}
		if err != nil {
			break
		}
	}
	if err == nil && l.next.Len() > 0 {
		err = l.write(ctx)
	}
	err = errors.Join(err, engine.Translate(l.finish()))
	return l.written, c.wrap("load", err)
}

// loadBytes is the size of a batch when LoadOptions.BatchSize is zero.
const loadBytes = 4 << 20

// A loader writes the batches of one Load. It gathers a batch while the one before is written.
type loader struct {
	c       *Collection
	name    string // of the collection when Load began
	opts    LoadOptions
	next    *Batch     // being gathered
	writing *vfs.Group // writes the batch before
	waiting int        // documents in the batch that is written
	written int        // documents in the batches before it
}

// add adds a document to the next batch, and begins to write the batch once it is full.
func (l *loader) add(ctx context.Context, d Document) error {
	l.next.Upsert(l.name, d)
	if l.next.err != nil {
		return l.next.err
	}
	full := l.next.len >= loadBytes
	if l.opts.BatchSize > 0 {
		full = l.next.Len() >= l.opts.BatchSize || l.next.len >= MaxBatchLen/2
	}
	if full {
		return l.write(ctx)
	}
	return nil
}

// write begins to write the next batch, after the one before is written.
func (l *loader) write(ctx context.Context) error {
	if err := l.finish(); err != nil {
		return err
	}
	b := l.next
	l.next, l.writing, l.waiting = &Batch{}, new(vfs.Group), b.Len()
	l.writing.Go(engine.WALDir, func() error {
		_, err := l.c.apply(ctx, b)
		return err
	})
	return nil
}

// finish waits for the batch that is written, if any, and reports the progress.
func (l *loader) finish() error {
	if l.waiting == 0 {
		return nil
	}
	n := l.waiting
	l.waiting = 0
	if err := l.writing.Wait(); err != nil {
		return err
	}
	l.written += n
	if l.opts.Progress != nil {
		l.opts.Progress(l.written)
	}
	return nil
}
