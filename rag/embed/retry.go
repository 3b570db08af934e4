package embed

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/vecbolt/vecbolt/internal/retry"
)

// RetryOptions tune Retry. The zero value, like nil, is the default.
type RetryOptions struct {
	Attempts int           // requests in total; 0 means 5
	Base     time.Duration // maximum pause before the second request; 0 means 500 ms
	Max      time.Duration // maximum pause, if the provider asks for none; 0 means 30 s

	// Patience is the maximum pause that a provider may ask for; 0 means two minutes. If it asks
	// for more, its error is returned at once.
	Patience time.Duration

	// Sleep waits, or returns the context's error if the context ends first; nil means to wait in
	// real time.
	Sleep func(context.Context, time.Duration) error

	// Rand returns a number in [0, 1); nil means math/rand/v2.Float64. It must be safe for
	// concurrent use.
	Rand func() float64

	// Logger receives a warning before each pause; nil means none.
	Logger *slog.Logger
}

// Retry returns an embedder that repeats calls of e after temporary errors: the provider limits the
// rate, took too long or failed internally, or the connection broke. Pauses double each
// time; a random part of up to one half is subtracted, so that clients that failed together do not
// retry together. If the provider asks for a pause, the pause is at least that long. The error is
// the last error of e, with the number of calls if there were several, or the context's.
func Retry(e Embedder, opts *RetryOptions) Embedder {
	r := &retrier{Embedder: e}
	if opts != nil {
		r.o = *opts
	}
	return r
}

type retrier struct {
	Embedder
	o RetryOptions
}

func (r *retrier) Unwrap() Embedder { return r.Embedder }

func (r *retrier) Queries() Embedder {
	if q := queries(r.Embedder); q != nil {
		return &retrier{q, r.o}
	}
	return nil
}

func (r *retrier) Embed(ctx context.Context, text string) ([]float32, error) {
	return one(ctx, r.EmbedBatch, text)
}

func (r *retrier) EmbedBatch(ctx context.Context, texts []string) ([][]float32, error) {
	policy := retry.Policy(r.o)
	if policy.Sleep == nil {
		policy.Sleep = retry.Sleep
	}
	wait := policy.Sleep
	policy.Sleep = func(ctx context.Context, d time.Duration) error {
		if err := wait(ctx, d); err != nil {
			return &Error{Kind: contextKind(err), Provider: r.Provider(), Model: r.Model(), Err: err}
		}
		return nil
	}
	var vecs [][]float32
	err := policy.Do(ctx, "embedding", func() (err error) {
		vecs, err = r.Embedder.EmbedBatch(ctx, texts)
		return err
	}, temporary)
	return vecs, err
}

// LimitOptions tune Limit.
type LimitOptions struct {
	PerSecond float64 // average rate of requests; must be positive
	Burst     int     // requests that may come at once; 0 means 1

	// Now and Sleep are the clock; nil means the system clock.
	Now   func() time.Time
	Sleep func(context.Context, time.Duration) error
}

// Limit returns an embedder that delays requests to e to keep within the limits of opts, in the
// order of the calls. When the provider asks for a pause, all requests pause. A call whose context
// ends while it waits makes no request and delays no other. It panics if PerSecond is not positive.
func Limit(e Embedder, opts LimitOptions) Embedder {
	if !(opts.PerSecond > 0) {
		panic("embed: Limit: PerSecond is not positive")
	}
	l := &limiter{Embedder: e, now: opts.Now, sleep: opts.Sleep, turn: make(chan struct{}, 1)}
	l.interval = time.Duration(min(float64(time.Second)/opts.PerSecond, math.MaxInt32*float64(time.Second)))
	l.slack = time.Duration(cmp.Or(opts.Burst, 1)-1) * l.interval
	if l.now == nil {
		l.now = time.Now
	}
	if l.sleep == nil {
		l.sleep = retry.Sleep
	}
	return l
}

// A limiter implements the generic cell rate algorithm (ITU-T I.371, annex A): next is the due time
// of the next request at an even rate, and slack is how much earlier it may come. One call waits
// for that time, and the others for their turn. So a call that gives up has taken nothing.
type limiter struct {
	Embedder
	interval, slack time.Duration
	now             func() time.Time
	sleep           func(context.Context, time.Duration) error
	turn            chan struct{} // full while a call has its turn; the others queue

	mu   sync.Mutex
	next time.Time
}

func (l *limiter) Unwrap() Embedder { return l.Embedder }

// Queries counts requests for questions and for passages together.
func (l *limiter) Queries() Embedder {
	if q := queries(l.Embedder); q != nil {
		return &limitedQueries{q, l}
	}
	return nil
}

func (l *limiter) Embed(ctx context.Context, text string) ([]float32, error) {
	return one(ctx, l.EmbedBatch, text)
}

func (l *limiter) EmbedBatch(ctx context.Context, texts []string) ([][]float32, error) {
	return l.call(ctx, l.Embedder, texts)
}

// limitedQueries embeds questions at the pace of a limiter.
type limitedQueries struct {
	Embedder
	l *limiter
}

func (q *limitedQueries) Unwrap() Embedder { return q.Embedder }

func (q *limitedQueries) Embed(ctx context.Context, text string) ([]float32, error) {
	return one(ctx, q.EmbedBatch, text)
}

func (q *limitedQueries) EmbedBatch(ctx context.Context, texts []string) ([][]float32, error) {
	return q.l.call(ctx, q.Embedder, texts)
}

func (l *limiter) call(ctx context.Context, e Embedder, texts []string) ([][]float32, error) {
	if err := l.wait(ctx); err != nil {
		return nil, &Error{Kind: contextKind(err), Provider: l.Provider(), Model: l.Model(), Err: err}
	}
	vecs, err := e.EmbedBatch(ctx, texts)
	var failure *Error
	if errors.As(err, &failure) && failure.RetryAfter > 0 {
		l.mu.Lock()
		if t := l.now().Add(failure.RetryAfter + l.slack); t.After(l.next) {
			l.next = t
		}
		l.mu.Unlock()
	}
	return vecs, err
}

// wait waits until a request may be made, or returns the error of a context that ends first.
func (l *limiter) wait(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.turn }()
	var waited time.Time // the due time that the call has waited for; zero before
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		due, pause := l.take(waited)
		if pause <= 0 {
			return nil
		}
		if err := l.sleep(ctx, pause); err != nil {
			return err
		}
		waited = due
	}
}

// take takes the next due time if it has come, or has been waited for. Otherwise it returns it, and
// the pause until a request may be made. While a call waits, the provider may ask for a later time.
func (l *limiter) take(waited time.Time) (due time.Time, pause time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if waited.IsZero() || !l.next.Equal(waited) {
		now := l.now()
		if l.next.Before(now) {
			l.next = now
		}
		if pause = l.next.Sub(now) - l.slack; pause > 0 {
			return l.next, pause
		}
	}
	l.next = l.next.Add(l.interval)
	return due, 0
}
