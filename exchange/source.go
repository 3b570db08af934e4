package exchange

import (
	"context"
	"fmt"
	"iter"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// A Source yields documents to import. Every source of regular files can be read any number of
// times, each time from the start. A Stream, and what Open returns for a pipe, can be read once: a
// second loop ends with db.ErrInvalid.
type Source interface {
	// Documents yields the documents in the order of the source. A broken file structure ends the
	// sequence with an error and a nil document. Goroutines run, and regular files are open, only
	// during the loop.
	Documents(ctx context.Context) iter.Seq2[*ImportedDocument, error]

	// Total is the final value of ImportedDocument.Done: bytes, rows or files; 0 if unknown.
	Total() int64
}

// An ImportedDocument is one document of a source, or the reason why it is skipped.
type ImportedDocument struct {
	Document db.Document

	// Carries is the set of parts that the source has: WithText, WithMetadata and WithVector. The
	// other parts of Document are empty, and an import keeps the stored ones.
	Carries db.Select

	Position Position
	Skip     error // if not nil: why there is no document
	Done     int64 // progress towards Source.Total
}

// A Position is the place of a document in a source.
type Position struct {
	File string
	Unit string // "line" (numbered from 1), "row" (from 0), or empty: the whole file
	N    int64
}

// String returns, for example, "corpus.jsonl: line 17", or "line 17" without a file name.
func (p Position) String() string {
	if p.Unit == "" {
		return p.File
	}
	place := fmt.Sprintf("%s %d", p.Unit, p.N)
	if p.File == "" {
		return place
	}
	return p.File + ": " + place
}

// ordered applies work to every job, on the given number of goroutines, and yields the results in
// the order of the jobs. Jobs run at most a few per goroutine ahead of the results. All goroutines
// have ended when the loop ends. A panic in jobs or work panics in the loop.
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
