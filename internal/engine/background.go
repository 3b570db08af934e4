package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/vecbolt/vecbolt/internal/vfs"
)

// background maintains an open database. One goroutine each flushes, compacts, makes derived files,
// and syncs the log under SyncInterval; in a published folder, one follows new versions instead.
// Close stops them all. Each piece of work runs inside Maintain, which records its failure, so that
// neither the goroutine nor the process ends with it.
type background struct {
	stopped context.Context
	cancel  context.CancelFunc
	group   vfs.Group
	lost    context.Context // ends with the lead
	endWork context.CancelFunc
	work    vfs.Group // of a leader
	flush   chan struct{}
	idle    chan struct{} // the head may have been idle for long enough
	code    chan struct{} // a search met a full block of the head without codes
	sketch  chan struct{} // segments have come to wait for a graph, or have got one
	compact chan struct{}
	settled chan struct{} // all segments have settled
	derive  chan struct{}
	tidy    chan struct{} // retired segments may have no readers left
}

func (b *background) start(e *Engine) {
	b.stopped, b.cancel = context.WithCancel(context.Background())
	b.flush, b.compact, b.derive = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	b.idle, b.code, b.settled = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	b.sketch, b.tidy = make(chan struct{}, 1), make(chan struct{}, 1)
	if e.folder != nil && e.Opts.Follow > 0 {
		b.group.Go(SegDir, func() error {
			e.follow(b.stopped)
			return nil
		})
	}
	if e.Leads() {
		b.lead(e)
	}
}

// lead starts the work of the process that writes the files.
func (b *background) lead(e *Engine) {
	lost, end := context.WithCancel(b.stopped)
	e.mu.Lock()
	b.lost, b.endWork = lost, end
	e.mu.Unlock()
	b.serve(e, b.flush, "flush", func() error { return e.flushFrozen() })
	if e.Opts.Compaction {
		given := e.givingWay(lost)
		b.serve(e, b.compact, "compaction", func() error { return e.CompactSome(given) })
		b.serve(e, b.derive, "upkeep of derived files", func() error {
			next, err := e.MakeDerived(given, ByCompact, e.Opts.Settle)
			if wakeAfter(next, b.derive); next == 0 {
				wake(b.settled)
			}
			wake(b.sketch)
			return err
		})
		b.serve(e, b.settled, "compaction of settled segments", later(b.settled, func() (time.Duration, error) {
			return e.CompactSettled(given, e.Opts.Settle)
		}))
		b.serve(e, b.code, "codes of the head", func() error { return e.codeHeads(given) })
		b.serve(e, b.sketch, "sketches", func() error { return e.SketchSegments(given) })
		b.serve(e, b.idle, "flush", func() error {
			next, err := e.FlushIdle(e.Opts.Settle)
			wakeAfter(next, b.idle)
			return err
		})
		b.serve(e, b.tidy, "removal of segments", later(b.tidy, func() (time.Duration, error) {
			return e.Tidy(e.Opts.Settle)
		}))
		wake(b.compact)
	}
	if e.Opts.SyncEvery > 0 {
		b.work.Go(WALDir, func() error {
			if err := vfs.Catch(WALDir, func() error { return b.syncEvery(e) }); err != nil {
				return e.Fail(err)
			}
			return nil
		})
	}
}

// wakeAfter signals a goroutine when a time has passed, unless that is 0. The timer, nil for 0,
// must not keep a closed database in memory.
func wakeAfter(next time.Duration, c chan<- struct{}) *time.Timer {
	if next <= 0 {
		return nil
	}
	return time.AfterFunc(next, func() { wake(c) })
}

// later returns work that is repeated after the time that it returns, by one timer however often it
// runs.
func later(c chan<- struct{}, work func() (next time.Duration, err error)) func() error {
	var again *time.Timer
	return func() error {
		next, err := work()
		if again != nil {
			again.Stop()
		}
		again = wakeAfter(next, c)
		return err
	}
}

// serve starts a goroutine that does work whenever it is woken.
func (b *background) serve(e *Engine, wake <-chan struct{}, name string, work func() error) {
	lost := b.lost
	b.work.Go(SegDir, func() error {
		for {
			select {
			case <-lost.Done():
				return nil
			case <-wake:
				e.Maintain(name, work)
			}
		}
	})
}

// Maintain does one piece of background work. Its error, or its panic as an error, is kept for
// Stats until the same work succeeds.
func (e *Engine) Maintain(name string, work func() error) {
	err := vfs.Catch(SegDir, work)
	if errors.Is(err, context.Canceled) {
		return
	}
	if err != nil {
		e.Opts.Logger.Error(name+" failed", reasons(err)...)
	}
	e.record(name, err)
}

// reasons are the attributes of a log line about an error.
func reasons(err error) []any {
	attrs := []any{"error", err}
	if p, ok := errors.AsType[*vfs.PanicError](err); ok {
		attrs = append(attrs, "stack", string(p.Stack))
	}
	return attrs
}

// record keeps the outcome of a piece of background work for Stats.
func (e *Engine) record(name string, err error) {
	if err != nil {
		err = fmt.Errorf("%s: %w", name, Translate(err))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil {
		delete(e.failures, name)
		return
	}
	if e.failures == nil {
		e.failures = map[string]error{}
	}
	e.failures[name] = err
}

// BackgroundErr returns the errors of background work, sorted by the name of the work.
func (e *Engine) BackgroundErr() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(e.failures)) {
		errs = append(errs, e.failures[name])
	}
	return errors.Join(errs...)
}

// syncEvery syncs the log until the database is closed.
func (b *background) syncEvery(e *Engine) error {
	ticker := time.NewTicker(e.Opts.SyncEvery)
	defer ticker.Stop()
	lost := b.lost
	for {
		select {
		case <-lost.Done():
			return nil
		case <-ticker.C:
			if err := e.log.Load().Sync(); err != nil {
				return err
			}
		}
	}
}

func (b *background) stop() {
	if b.cancel != nil {
		b.cancel()
		_, _ = b.group.Wait(), b.work.Wait() // Maintain has recorded the errors
	}
}

// endLead ends the work of a leader, and waits for it.
func (b *background) endLead() {
	b.endWork()
	_ = b.work.Wait() // Maintain has recorded the errors
}

// leading returns a context that ends with the lead of this process.
func (e *Engine) leading() context.Context {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.background.lost
}

func (b *background) wakeFlush()  { wake(b.flush) }
func (b *background) wakeDerive() { wake(b.derive) }

// WakeCompact makes the background look for segments to merge, and for derived files to make.
func (e *Engine) WakeCompact() { wake(e.background.compact) }

// wake signals a goroutine. The channel holds one signal, so several wakes cause one run.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
