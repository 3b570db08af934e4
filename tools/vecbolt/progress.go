package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// A progress shows the progress of a long verb: as a bar on a terminal, otherwise as a line at
// intervals. It is safe for concurrent use.
type progress struct {
	verb string

	mu    sync.Mutex // guards the fields below
	w     io.Writer  // for messages: above the bar, if there is one
	bars  *mpb.Progress
	bar   *mpb.Bar // nil without a terminal
	start time.Time
	last  time.Time // time of the last line
}

const (
	progressPeriod = 5 * time.Second // between two lines
	progressWidth  = 40              // of a bar, in characters
)

// progress starts to show progress towards total; a total of 0 is unknown. The caller must call
// end.
func (t *tool) progress(verb string, total func() int64) *progress {
	now := time.Now()
	p := &progress{w: t.report, verb: verb, start: now, last: now}
	if f, ok := terminal(t.report); ok {
		p.bars = mpb.New(mpb.WithOutput(f), mpb.WithWidth(progressWidth))
		p.bar = p.bars.AddBar(total(), mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Name(verb+" ")),
			mpb.AppendDecorators(decor.Percentage(decor.WC{W: 5}), decor.Name("  "),
				decor.AverageETA(decor.ET_STYLE_GO)))
		p.w = p.bars
	}
	return p
}

// at reports the part of the total that is done, and the number of documents so far.
func (p *progress) at(done int64, documents int) {
	if p.bar != nil {
		p.bar.SetCurrent(done)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(p.last) >= progressPeriod {
		p.last = now
		fmt.Fprintf(p.w, "vecbolt: %s: %s documents in %v\n",
			p.verb, humanize.Comma(int64(documents)), now.Sub(p.start).Round(time.Second))
	}
}

// notef reports an event.
func (p *progress) notef(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.w, "vecbolt: "+format+"\n", args...)
}

// end removes the bar.
func (p *progress) end() {
	if p.bar != nil {
		p.bar.Abort(true)
		p.bars.Wait()
	}
}

// A bar is a progress bar on a terminal. Elsewhere it is nil, and shows nothing. It is safe for
// concurrent use.
type bar struct {
	bars *mpb.Progress
	bar  *mpb.Bar
	stop func() // of what watches the progress
}

// bar starts a bar. total is called only if there is a terminal; 0 is unknown. The caller must call
// end.
func (t *tool) bar(verb string, total func() int64) *bar {
	f, ok := terminal(t.report)
	if !ok {
		return nil
	}
	b := &bar{bars: mpb.New(mpb.WithOutput(f), mpb.WithWidth(progressWidth))}
	name := mpb.PrependDecorators(decor.Name(verb + " "))
	if n := total(); n > 0 {
		b.bar = b.bars.AddBar(n, mpb.BarRemoveOnComplete(), name,
			mpb.AppendDecorators(decor.Percentage(decor.WC{W: 5}), decor.Name("  "),
				decor.AverageETA(decor.ET_STYLE_GO)))
	} else {
		b.bar = b.bars.AddSpinner(0, mpb.BarRemoveOnComplete(), name,
			mpb.AppendDecorators(decor.Elapsed(decor.ET_STYLE_GO)))
	}
	return b
}

// working starts a bar for a call of package db that reports its progress by the context.
func (t *tool) working(ctx context.Context, verb string) (context.Context, *bar) {
	b := t.bar(verb, func() int64 { return math.MaxInt64 }) // until the call knows
	if b == nil {
		return ctx, nil
	}
	return db.WithProgress(ctx, func(done, total int64) {
		b.bar.SetTotal(total, false)
		b.bar.SetCurrent(done)
	}), b
}

// busy shows that a verb is running whose progress is unknown.
func (t *tool) busy(verb string) *bar { return t.bar(verb, func() int64 { return 0 }) }

// copying shows how large a directory is, compared with the one that it is made from.
func (t *tool) copying(verb, from, to string) *bar {
	bytes := func(dir string) int64 {
		n, _ := vfs.DirSize(dir) // files come and go
		return n
	}
	b := t.bar(verb, func() int64 { return bytes(from) })
	if b == nil {
		return nil
	}
	b.stop = repeat(context.Background(), watchPeriod, func(context.Context) { b.bar.SetCurrent(bytes(to)) })
	return b
}

// repeat calls f once per period, in the background, until ctx is done or stop is called. stop
// waits for a running call, whose context it ends.
func repeat(ctx context.Context, period time.Duration, f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(period)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				f(ctx)
			}
		}
	}()
	return func() { cancel(); <-done }
}

// watchPeriod is the time between two looks at the size of a directory.
const watchPeriod = 200 * time.Millisecond

// add reports that n more of the total are done.
func (b *bar) add(n int) {
	if b != nil {
		b.bar.IncrBy(n)
	}
}

// end removes the bar.
func (b *bar) end() {
	if b == nil {
		return
	}
	if b.stop != nil {
		b.stop()
	}
	b.bar.Abort(true)
	b.bars.Wait()
}
