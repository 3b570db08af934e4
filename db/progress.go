package db

import (
	"context"

	"github.com/vecbolt/vecbolt/internal/engine"
)

// WithProgress returns a context with which Check, CheckFiles and Publisher.Publish report how
// far they are: done of total, in rows for a check and in bytes of vectors for Publish. done grows
// to total, which is constant, unless something is wrong. A database that does not open has no
// progress to report. report is called by the goroutine of the call and must return soon.
func WithProgress(ctx context.Context, report func(done, total int64)) context.Context {
	return engine.WithProgress(ctx, report)
}
