package db

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/wal"
)

// A DB is an open database. Its methods are safe for concurrent use. Readers never wait
// for writers, flushes or compactions, nor do these wait for readers.
type DB struct {
	dir   string
	opts  Options
	fs    *vfs.FS
	lock  *vfs.Lock
	store *meta.Store
	log   *wal.Log // nil when read-only

	queue commitQueue

	// commitMu is held while a new version is made: by a group of writes, or at the end
	// of a flush or compaction. It guards the fields below.
	commitMu sync.Mutex
	active   *head
	frozen   *head    // being flushed, or nil
	frozenAt *version // the version at the freeze; the DB holds a reference
	flushErr error    // of the last flush, if it failed and can be retried
	nextNum  uint64
	nextColl uint32
	flushed  *sync.Cond // signals frozen == nil or flushErr

	// metaMu is held during a commit to meta.bolt. It is taken before commitMu. It guards
	// the fields below.
	metaMu   sync.Mutex
	commits  uint64 // of meta.bolt, since it was opened
	state    meta.State
	segments map[uint64]*openSegment
	stored   map[uint32]*definition // definitions as in meta.bolt

	// compactMu is held during a compaction. It is taken before all others.
	compactMu sync.Mutex

	// mu guards the fields below. It is held only briefly.
	mu      sync.Mutex
	cur     *version
	held    *version // newer than cur, not yet visible; guarded by commitMu as well
	holding bool     // publish sets held instead of cur
	live    map[*version]struct{}
	mapped  map[*openSegment]struct{} // open segments, of the database or of old versions only
	litter  map[uint64]struct{}       // segments whose files could not be removed
	running int                       // calls that Close waits for
	idle    *sync.Cond                // signals running == 0
	failed  error
	closed  bool

	troubles map[string]error // errors of background work by name; guarded by mu

	// Pointers, because the runtime refers to every sync.Pool for two garbage
	// collections. An embedded pool would keep a closed database in memory as long.
	walkers  *sync.Pool // of *walker
	scratch  *sync.Pool // of *scratch
	ids      knownIDs
	rechecks *rechecks

	background background
	following  *follower              // nil unless the directory is a published folder
	names      atomic.Pointer[vfs.FS] // the file names of its newest version
}

// Open opens the database in directory dir and creates it if it does not exist. It fails
// at once with ErrLocked when another process excludes this one. After a crash, Open
// recovers every acknowledged write.
func Open(dir string, opts *Options) (*DB, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("db: open %q: %w", dir, err)
	}
	db := &DB{
		walkers: &sync.Pool{}, scratch: &sync.Pool{},
		dir: dir, opts: o.withDefaults(),
		active: newHead(), live: map[*version]struct{}{}, mapped: map[*openSegment]struct{}{}, litter: map[uint64]struct{}{},
		segments: map[uint64]*openSegment{}, stored: map[uint32]*definition{},
	}
	db.flushed = sync.NewCond(&db.commitMu)
	db.idle = sync.NewCond(&db.mu)
	db.rechecks = newRechecks(db)
	if err := db.open(); err != nil {
		db.release()
		return nil, fmt.Errorf("db: open %q: %w", dir, translate(err))
	}
	return db, nil
}

// Close flushes, so that the next Open is quick, and releases every resource. It waits
// for running calls; later calls fail with ErrClosed. A second Close does nothing. Close
// snapshots first: afterwards they fail.
func (db *DB) Close() error {
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return nil
	}
	db.closed = true
	db.mu.Unlock()
	db.background.stop()
	if db.following != nil {
		db.metaMu.Lock() // waits for a running Refresh
		defer db.metaMu.Unlock()
	}
	db.commitMu.Lock()
	db.flushed.Broadcast() // to writers that wait for a flush: none will come
	db.commitMu.Unlock()

	var err error
	if !db.opts.ReadOnly && db.err() == nil {
		err = db.finish()
	}
	err = errors.Join(err, db.release())
	db.opts.Logger.Info("closed", "dir", db.dir)
	if err != nil {
		return fmt.Errorf("db: close %q: %w", db.dir, translate(err))
	}
	return nil
}

// finish brings the files into a state that the next Open can use without recovery. A
// database without new writes is in it already.
func (db *DB) finish() error {
	db.mu.Lock()
	for s := range db.mapped { // Close builds no graphs: they take too long
		db.dropBase(s)
	}
	db.mu.Unlock()
	db.metaMu.Lock()
	db.commitMu.Lock()
	idle := db.store.Sealed() && db.cur.lsn == db.state.Applied && len(db.state.Obsolete) == 0
	db.commitMu.Unlock()
	db.metaMu.Unlock()
	if !idle {
		if err := db.settle(); err != nil {
			return err
		}
		if err := db.store.Seal(); err != nil {
			db.opts.Logger.Warn("cannot keep checksums of pages", "error", err) // the next Open then takes longer
		}
	}
	_, err := db.makeDerived(context.Background(), byClose, 0)
	db.removeLitter()
	return err
}

// release frees what open took, in reverse.
func (db *DB) release() error {
	var errs []error
	db.commitMu.Lock() // waits for a group that is being committed
	defer db.commitMu.Unlock()
	db.mu.Lock()
	db.closed = true
	for db.running > 0 {
		db.idle.Wait()
	}
	for s := range db.mapped {
		errs = append(errs, s.close())
	}
	for v := range db.live { // versions of a published folder may have stores of their own
		errs = append(errs, v.files.store.Close())
	}
	db.mu.Unlock()
	if db.log != nil {
		if err := db.log.Close(); db.err() == nil { // otherwise the error is known
			errs = append(errs, err)
		}
	}
	if db.store != nil {
		errs = append(errs, db.store.Close())
	}
	if db.lock != nil {
		errs = append(errs, db.lock.Close())
	}
	if db.fs != nil {
		errs = append(errs, db.fs.Close())
	}
	return errors.Join(errs...)
}

// fail makes the database read-only until it is reopened: the disk failed at a point
// where the outcome of a write is unknown.
func (db *DB) fail(err error) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.failed == nil {
		db.refuse(err)
	}
	return db.failed
}

// err returns the reason that writes are refused, or nil.
func (db *DB) err() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.refused()
}

// refused is err with mu held. A directory that could not be synced is a reason, no
// matter which call met the failure: the kernel may have dropped the new names, and the
// next sync would still succeed.
func (db *DB) refused() error {
	if db.failed == nil && !db.opts.ReadOnly {
		if err := db.fs.Failed(); err != nil {
			db.refuse(err)
		}
	}
	return db.failed
}

// refuse sets the reason that writes are refused from now on. mu is held.
func (db *DB) refuse(err error) {
	db.failed = fmt.Errorf("%w: %w", ErrUnknown, err)
	db.opts.Logger.Error("disk failed, refusing writes until reopened", "error", err)
}

// Flush moves everything written so far from the log to segments and meta.bolt. Calling
// it is optional: it bounds the recovery work of the next Open after a crash, and makes
// writes durable under every SyncPolicy.
func (db *DB) Flush(ctx context.Context) error {
	if err := db.usable(ctx); err != nil {
		return fmt.Errorf("db: flush: %w", err)
	}
	defer db.end()
	if err := db.flush(); err != nil {
		return fmt.Errorf("db: flush: %w", translate(err))
	}
	return nil
}

// usable begins a maintenance call, which end ends, or returns the reason that it cannot
// run.
func (db *DB) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if db.opts.ReadOnly {
		return ErrReadOnly
	}
	if err := db.err(); err != nil {
		return err
	}
	return db.begin()
}
