package db

import (
	"context"
	"errors"
	"sync"
	"time"
)

// background is the maintenance of an open database: one goroutine flushes,
// one compacts, one makes derived files, one syncs under SyncInterval; or one
// follows a published folder. They stop with Close.
type background struct {
	stopped context.Context
	cancel  context.CancelFunc
	wait    sync.WaitGroup
	flush   chan struct{}
	compact chan struct{}
	derive  chan struct{}
}

func (b *background) start(db *DB) {
	b.stopped, b.cancel = context.WithCancel(context.Background())
	if db.rechecks.queue != nil && !db.opts.recheckByHand {
		b.wait.Go(func() { db.rechecks.serve(b.stopped) })
	}
	if db.following != nil && db.opts.Follow > 0 {
		b.wait.Go(func() { db.follow(b.stopped) })
	}
	if db.opts.ReadOnly {
		return
	}
	b.flush, b.compact, b.derive = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	b.wait.Go(func() {
		b.serve(b.flush, func() {
			if err := db.flushFrozen(); err != nil {
				db.opts.Logger.Error("flush failed", "error", err)
			}
		})
	})
	if !db.opts.NoBackgroundCompaction {
		b.wait.Go(func() {
			b.serve(b.compact, func() {
				if err := db.compactSome(b.stopped); err != nil && !errors.Is(err, context.Canceled) {
					db.opts.Logger.Error("compaction failed", "error", err)
				}
			})
		})
		b.wait.Go(func() {
			b.serve(b.derive, func() {
				next, err := db.makeDerived(b.stopped, byCompact, settleTime)
				if err != nil && !errors.Is(err, context.Canceled) {
					db.opts.Logger.Error("making derived files failed", "error", err)
				}
				if next > 0 {
					derive := b.derive // the timer must not keep the database when it is closed
					time.AfterFunc(next, func() { wake(derive) })
				}
			})
		})
		b.wakeCompact()
	}
	if db.opts.Sync == SyncInterval {
		b.wait.Go(func() { b.syncEvery(db) })
	}
}

func (b *background) serve(wake <-chan struct{}, work func()) {
	for {
		select {
		case <-b.stopped.Done():
			return
		case <-wake:
			work()
		}
	}
}

func (b *background) syncEvery(db *DB) {
	ticker := time.NewTicker(db.opts.SyncEvery)
	defer ticker.Stop()
	for {
		select {
		case <-b.stopped.Done():
			return
		case <-ticker.C:
			if err := db.log.Sync(); err != nil {
				db.fail(err)
				return
			}
		}
	}
}

func (b *background) stop() {
	if b.cancel != nil {
		b.cancel()
		b.wait.Wait()
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
