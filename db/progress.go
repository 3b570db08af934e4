package db

import (
	"context"

	"github.com/vecbolt/vecbolt/internal/engine"
)

// WithProgress returns a context with which Check, CheckFiles, Compact and Publisher.Publish report
// how far they are: done of total, in bytes of vectors for Publish and in rows for the others. done
// reaches total unless something is wrong. total is constant, except that Compact adds the rows of
// each graph that is due after the segments are merged. A database that does not open has no
// progress to report. report is called by the goroutine of the call. It must return soon, and must
// not call Compact, which would wait for itself. A nil report means none.
func WithProgress(ctx context.Context, report func(done, total int64)) context.Context {
	return engine.WithProgress(ctx, report)
}
