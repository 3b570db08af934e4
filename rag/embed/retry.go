package embed

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"time"
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
// the last error of e, or the context's.
func Retry(e Embedder, opts *RetryOptions) Embedder {
	r := &retry{Embedder: e}
	if opts != nil {
		r.o = *opts
	}
	r.o.Attempts = cmp.Or(r.o.Attempts, 5)
	r.o.Base = cmp.Or(r.o.Base, 500*time.Millisecond)
	r.o.Max = cmp.Or(r.o.Max, 30*time.Second)
	r.o.Patience = cmp.Or(r.o.Patience, 2*time.Minute)
	if r.o.Sleep == nil {
		r.o.Sleep = sleep
	}
	if r.o.Rand == nil {
		r.o.Rand = rand.Float64
	}
	if r.o.Logger == nil {
		r.o.Logger = slog.New(slog.DiscardHandler)
	}
	return r
}

type retry struct {
	Embedder
	o RetryOptions
}

func (r *retry) Unwrap() Embedder { return r.Embedder }

func (r *retry) Queries() Embedder {
	if q := queries(r.Embedder); q != nil {
		return &retry{q, r.o}
	}
	return nil
}

func (r *retry) Embed(ctx context.Context, text string) ([]float32, error) {
	return one(ctx, r.EmbedBatch, text)
}

func (r *retry) EmbedBatch(ctx context.Context, texts []string) ([][]float32, error) {
	for attempt := 1; ; attempt++ {
		vecs, err := r.Embedder.EmbedBatch(ctx, texts)
		if err == nil || attempt >= r.o.Attempts || ctx.Err() != nil || !temporary(err) {
			return vecs, err
		}
		// math.Ldexp saturates where a shift would overflow.
		pause := min(math.Ldexp(float64(r.o.Base), attempt-1), float64(r.o.Max)) * (1 - r.o.Rand()/2)
		var e *Error
		if errors.As(err, &e) && e.RetryAfter > 0 {
			if e.RetryAfter > r.o.Patience {
				return nil, err
			}
			pause = max(pause, float64(e.RetryAfter)+r.o.Rand()*float64(r.o.Base))
		}
		wait := time.Duration(pause)
		if end, ok := ctx.Deadline(); ok && time.Until(end) < wait {
			return nil, err // the deadline is before the end of the pause
		}
		r.o.Logger.WarnContext(ctx, "embedding failed, will retry", "attempt", attempt, "pause", wait, "error", err)
		if stop := r.o.Sleep(ctx, wait); stop != nil {
			return nil, &Error{Kind: contextKind(stop), Provider: r.Provider(), Model: r.Model(), Err: stop}
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// LimitOptions tune Limit.
type LimitOptions struct {
	PerSecond float64 // average rate of requests; must be positive
	Burst     int     // requests that may come at once; 0 means 1

	// Now and Sleep are the clock; nil means the system clock.
	Now   func() time.Time
	Sleep func(context.Context, time.Duration) error
}

// Limit returns an embedder that delays requests to e to keep within the limits of opts. When the
// provider asks for a pause, all requests pause. It panics if PerSecond is not positive.
func Limit(e Embedder, opts LimitOptions) Embedder {
	if !(opts.PerSecond > 0) {
		panic("embed: Limit: PerSecond is not positive")
	}
	l := &limiter{Embedder: e, now: opts.Now, sleep: opts.Sleep}
	l.interval = time.Duration(min(float64(time.Second)/opts.PerSecond, math.MaxInt32*float64(time.Second)))
	l.slack = time.Duration(cmp.Or(opts.Burst, 1)-1) * l.interval
	if l.now == nil {
		l.now = time.Now
	}
	if l.sleep == nil {
		l.sleep = sleep
	}
	return l
}

// A limiter implements the generic cell rate algorithm (ITU-T I.371, annex A): next is the due time
// of the next request at an even rate, and slack is how much earlier it may come.
type limiter struct {
	Embedder
	interval, slack time.Duration
	now             func() time.Time
	sleep           func(context.Context, time.Duration) error

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
	if wait := l.reserve(); wait > 0 {
		if err := l.sleep(ctx, wait); err != nil {
			return nil, &Error{Kind: contextKind(err), Provider: l.Provider(), Model: l.Model(), Err: err}
		}
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

// reserve reserves the next slot and returns the time until then.
func (l *limiter) reserve() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if l.next.Before(now) {
		l.next = now
	}
	wait := l.next.Sub(now) - l.slack
	l.next = l.next.Add(l.interval)
	return wait
}
