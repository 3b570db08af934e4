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

// A progress shows how far a long verb has come: as a bar on a terminal, else as a line now and
// then. It is safe for concurrent use.
type progress struct {
	verb string

	mu    sync.Mutex // guards what follows
	w     io.Writer  // for messages: above the bar, if there is one
	bars  *mpb.Progress
	bar   *mpb.Bar // nil without a terminal
	start time.Time
	last  time.Time // when a line was written
}

const (
	progressPeriod = 5 * time.Second // between two lines
	progressWidth  = 40              // of a bar, in characters
)

// progress begins to show the progress of something that reaches total in the end; a total of 0 is
// not known. The caller must call end.
func (t *tool) progress(verb string, total func() int64) *progress {
	now := time.Now()
	p := &progress{w: t.report, verb: verb, start: now, last: now}
	if f, ok := terminal(t.report); ok {
		p.bars = mpb.New(mpb.WithOutput(f), mpb.WithWidth(progressWidth))
		p.bar = p.bars.AddBar(total(), mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Name(verb+" ")),
			mpb.AppendDecorators(decor.Percentage(decor.WC{W: 5}), decor.Name("  "), decor.AverageETA(decor.ET_STYLE_GO)))
		p.w = p.bars
	}
	return p
}

// at says how much of the total is done, and how many documents that made.
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

// notef reports something on the way.
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
