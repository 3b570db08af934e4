package engine

import "context"

// A Progress counts the work of one long call. A nil Progress counts nothing.
type Progress struct {
	done, total int64
	report      func(done, total int64)
}

type progressKey struct{}

// WithProgress returns a context whose long calls report their progress.
func WithProgress(ctx context.Context, report func(done, total int64)) context.Context {
	return context.WithValue(ctx, progressKey{}, report)
}

type countKey struct{}

// with returns a context whose calls count their work as a part of p.
func (p *Progress) with(ctx context.Context) context.Context {
	if p == nil {
		return ctx
	}
	return context.WithValue(ctx, countKey{}, p)
}

// ProgressOf begins to count the work of a call, or goes on with the count of the call around it.
// It returns nil if nobody wants to know.
func ProgressOf(ctx context.Context) *Progress {
	if p, ok := ctx.Value(countKey{}).(*Progress); ok {
		return p
	}
	report, _ := ctx.Value(progressKey{}).(func(done, total int64))
	if report == nil {
		return nil
	}
	return &Progress{report: report}
}

// Expect adds n to the work of the call.
func (p *Progress) Expect(n int64) {
	if p != nil {
		p.total += n
	}
}

// Add reports that n more of the work is done.
func (p *Progress) Add(n int64) {
	if p != nil {
		p.done += n
		p.report(p.done, p.total)
	}
}
