package exchange

import (
	"context"
	"fmt"
	"iter"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// A Source yields documents to import. It can be read any number of times, each time from the
// start, but for a Stream.
type Source interface {
	// Items yields the documents in the order of the source. A file whose structure is broken ends
	// it with an error and a nil Item. Files are open, and goroutines run, only while the loop
	// does.
	Items(ctx context.Context) iter.Seq2[*Item, error]

	// Total is what Item.Done reaches at the end: bytes, rows or files. It is 0 when that is not
	// known.
	Total() int64
}

// An Item is one document of a source, or the reason why something there is none.
type Item struct {
	Document db.Document

	// Carries tells which parts of the document the source speaks of, as a set of the flags
	// WithText, WithMetadata and WithVector. The rest of the document is empty, and says nothing of
	// what it should be.
	Carries db.Select

	Position Position
	Skip     error // not nil: there is no document, and why
	Done     int64 // how much of Source.Total has been read
}

// A Position says where in a source a document stands.
type Position struct {
	File string
	Unit string // "line" (numbered from 1), "row" (from 0), or empty: the whole file
	N    int64
}

// String returns, for example, "corpus.jsonl: line 17".
func (p Position) String() string {
	if p.Unit == "" {
		return p.File
	}
	return fmt.Sprintf("%s: %s %d", p.File, p.Unit, p.N)
}

// FirstDim returns the dimension of the first vector in src, 0 if it has none. It reads no further.
func FirstDim(ctx context.Context, src Source) (int, error) {
	for item, err := range src.Items(ctx) {
		if err != nil {
			return 0, err
		}
		if n := len(item.Document.Vector); n > 0 && item.Skip == nil {
			return n, nil
		}
	}
	return 0, ctx.Err()
}

// ordered applies work to every job, on the given number of goroutines, and yields the results in
// the order of the jobs. The jobs run at most a few per goroutine ahead of the results. All
// goroutines have ended when the loop has. A panic in jobs or work is one of the loop.
func ordered[J, R any](workers int, jobs iter.Seq[J], work func(J) R) iter.Seq[R] {
	type outcome struct {
		value R
		err   error // a panic
	}
	type task struct {
		job    J
		result chan outcome
	}
	return func(yield func(R) bool) {
		pending := make(chan task, 2*workers) // in order
		todo := make(chan task)
		stop := make(chan struct{})
		var feeding, working vfs.Group
		defer func() { _, _ = feeding.Wait(), working.Wait() }()
		defer close(stop)
		feeding.Go("", func() error {
			defer close(pending)
			defer close(todo)
			for job := range jobs {
				t := task{job, make(chan outcome, 1)}
				select {
				case pending <- t:
				case <-stop:
					return nil
				}
				select {
				case todo <- t:
				case <-stop:
					return nil
				}
			}
			return nil
		})
		for range workers {
			working.Go("", func() error {
				for t := range todo {
					var o outcome
					o.err = vfs.Catch("", func() error {
						o.value = work(t.job)
						return nil
					})
					t.result <- o
				}
				return nil
			})
		}
		for t := range pending {
			o := <-t.result
			if o.err != nil {
				panic(o.err)
			}
			if !yield(o.value) {
				return
			}
		}
		if err := feeding.Wait(); err != nil {
			panic(err)
		}
	}
}
