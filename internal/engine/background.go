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
// Close stops them all. Each piece of work runs inside maintain, which records its failure, so that
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

func (b *background) start(db *Engine) {
	b.stopped, b.cancel = context.WithCancel(context.Background())
	b.flush, b.compact, b.derive = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	b.idle, b.code, b.settled = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	b.sketch, b.tidy = make(chan struct{}, 1), make(chan struct{}, 1)
	if db.Folder != nil && db.Opts.Follow > 0 {
		b.group.Go(SegDir, func() error {
			db.follow(b.stopped)
			return nil
		})
	}
	if db.Leads() {
		b.lead(db)
	}
}

// lead starts the work of the process that writes the files.
func (b *background) lead(db *Engine) {
	lost, end := context.WithCancel(b.stopped)
	db.Mu.Lock()
	b.lost, b.endWork = lost, end
	db.Mu.Unlock()
	b.serve(db, b.flush, "flush", func() error { return db.flushFrozen() })
	if db.Opts.Compaction {
		given := db.givingWay(lost)
		b.serve(db, b.compact, "compaction", func() error { return db.CompactSome(given) })
		b.serve(db, b.derive, "upkeep of derived files", func() error {
			next, err := db.MakeDerived(given, ByCompact, db.Opts.Settle)
			if wakeAfter(next, b.derive); next == 0 {
				wake(b.settled)
			}
			wake(b.sketch)
			return err
		})
		b.serve(db, b.settled, "compaction of settled segments", later(b.settled, func() (time.Duration, error) {
			return db.CompactSettled(given, db.Opts.Settle)
		}))
		b.serve(db, b.code, "codes of the head", func() error { return db.codeHeads(given) })
		b.serve(db, b.sketch, "sketches", func() error { return db.SketchSegments(given) })
		b.serve(db, b.idle, "flush", func() error {
			next, err := db.FlushIdle(db.Opts.Settle)
			wakeAfter(next, b.idle)
			return err
		})
		b.serve(db, b.tidy, "removal of segments", later(b.tidy, func() (time.Duration, error) {
			return db.Tidy(db.Opts.Settle)
		}))
		b.WakeCompact()
	}
	if db.Opts.SyncEvery > 0 {
		b.work.Go(WALDir, func() error {
			if err := vfs.Catch(WALDir, func() error { return b.syncEvery(db) }); err != nil {
				return db.Fail(err)
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
func (b *background) serve(db *Engine, wake <-chan struct{}, name string, work func() error) {
	lost := b.lost
	b.work.Go(SegDir, func() error {
		for {
			select {
			case <-lost.Done():
				return nil
			case <-wake:
				db.Maintain(name, work)
			}
		}
	})
}

// Maintain does one piece of background work. Its error, or its panic as an error, is kept for
// Stats until the same work succeeds.
func (db *Engine) Maintain(name string, work func() error) {
	err := vfs.Catch(SegDir, work)
	if errors.Is(err, context.Canceled) {
		return
	}
	if err != nil {
		db.Opts.Logger.Error(name+" failed", reasons(err)...)
	}
	db.record(name, err)
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
func (db *Engine) record(name string, err error) {
	if err != nil {
		err = fmt.Errorf("%s: %w", name, Translate(err))
	}
	db.Mu.Lock()
	defer db.Mu.Unlock()
	if err == nil {
		delete(db.failures, name)
		return
	}
	if db.failures == nil {
		db.failures = map[string]error{}
	}
	db.failures[name] = err
}

// BackgroundErr returns the errors of background work, sorted by the name of the work.
func (db *Engine) BackgroundErr() error {
	db.Mu.Lock()
	defer db.Mu.Unlock()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(db.failures)) {
		errs = append(errs, db.failures[name])
	}
	return errors.Join(errs...)
}

// syncEvery syncs the log until the database is closed.
func (b *background) syncEvery(db *Engine) error {
	ticker := time.NewTicker(db.Opts.SyncEvery)
	defer ticker.Stop()
	lost := b.lost
	for {
		select {
		case <-lost.Done():
			return nil
		case <-ticker.C:
			if err := db.Log.Load().Sync(); err != nil {
				return err
			}
		}
	}
}

func (b *background) stop() {
	if b.cancel != nil {
		b.cancel()
		_, _ = b.group.Wait(), b.work.Wait() // maintain has recorded the errors
	}
}

// endLead ends the work of a leader, and waits for it.
func (b *background) endLead() {
	b.endWork()
	_ = b.work.Wait() // maintain has recorded the errors
}

// leading returns a context that ends with the lead of this process.
func (db *Engine) leading() context.Context {
	db.Mu.Lock()
	defer db.Mu.Unlock()
	return db.Background.lost
}

func (b *background) wakeFlush()   { wake(b.flush) }
func (b *background) WakeCompact() { wake(b.compact) }
func (b *background) wakeDerive()  { wake(b.derive) }

// wake signals a goroutine. The channel holds one signal, so several wakes cause one run.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
