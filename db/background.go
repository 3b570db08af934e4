package db

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/vecbolt/vecbolt/internal/vfs"
)

// background is the maintenance of an open database: one goroutine flushes,
// one compacts, one makes derived files, one syncs under SyncInterval; or one
// follows a published folder. They stop with Close. Each piece of work runs
// inside maintain, so that what goes wrong in it is on record and ends neither
// the goroutine nor the process.
type background struct {
	stopped context.Context
	cancel  context.CancelFunc
	group   vfs.Group
	flush   chan struct{}
	compact chan struct{}
	derive  chan struct{}
}

func (b *background) start(db *DB) {
	b.stopped, b.cancel = context.WithCancel(context.Background())
	if db.rechecks.queue != nil && !db.opts.recheckByHand {
		b.group.Go(segDir, func() error {
			db.rechecks.serve(b.stopped)
			return nil
		})
	}
	if db.following != nil && db.opts.Follow > 0 {
		b.group.Go(segDir, func() error {
			db.follow(b.stopped)
			return nil
		})
	}
	if db.opts.ReadOnly {
		return
	}
	b.flush, b.compact, b.derive = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	b.serve(db, b.flush, "flush", func() error { return db.flushFrozen() })
	if !db.opts.NoBackgroundCompaction {
		b.serve(db, b.compact, "compaction", func() error { return db.compactSome(b.stopped) })
		b.serve(db, b.derive, "upkeep of derived files", func() error {
			next, err := db.makeDerived(b.stopped, byCompact, settleTime)
			if next > 0 {
				derive := b.derive // the timer must not keep the database when it is closed
				time.AfterFunc(next, func() { wake(derive) })
			}
			return err
		})
		b.wakeCompact()
	}
	if db.opts.Sync == SyncInterval {
		b.group.Go(walDir, func() error {
			if err := vfs.Catch(walDir, func() error { return b.syncEvery(db) }); err != nil {
				return db.fail(err)
			}
			return nil
		})
	}
}

// serve starts a goroutine that does work whenever it is woken.
func (b *background) serve(db *DB, wake <-chan struct{}, name string, work func() error) {
	b.group.Go(segDir, func() error {
		for {
			select {
			case <-b.stopped.Done():
				return nil
			case <-wake:
				db.maintain(name, work)
			}
		}
	})
}

// maintain does a piece of background work. An error, and a panic, which
// becomes one, is kept for Stats until the same work succeeds.
func (db *DB) maintain(name string, work func() error) {
	err := vfs.Catch(segDir, work)
	if errors.Is(err, context.Canceled) {
		return
	}
	if err != nil {
		db.opts.Logger.Error(name+" failed", reasons(err)...)
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

// record keeps for Stats how a piece of background work has ended.
func (db *DB) record(name string, err error) {
	if err != nil {
		err = fmt.Errorf("%s: %w", name, translate(err))
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if err == nil {
		delete(db.troubles, name)
		return
	}
	if db.troubles == nil {
		db.troubles = map[string]error{}
	}
	db.troubles[name] = err
}

// trouble returns the errors of background work, in the order of its names.
func (db *DB) trouble() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(db.troubles)) {
		errs = append(errs, db.troubles[name])
	}
	return errors.Join(errs...)
}

// syncEvery syncs the log until the database is closed.
func (b *background) syncEvery(db *DB) error {
	ticker := time.NewTicker(db.opts.SyncEvery)
	defer ticker.Stop()
	for {
		select {
		case <-b.stopped.Done():
			return nil
		case <-ticker.C:
			if err := db.log.Sync(); err != nil {
				return err
			}
		}
	}
}

func (b *background) stop() {
	if b.cancel != nil {
		b.cancel()
		_ = b.group.Wait() // what went wrong is on record: see maintain
	}
}

func (b *background) wakeFlush()   { wake(b.flush) }
func (b *background) wakeCompact() { wake(b.compact) }
func (b *background) wakeDerive()  { wake(b.derive) }

// wake leaves a note for a goroutine, unless there is one already.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
