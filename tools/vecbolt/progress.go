package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
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
