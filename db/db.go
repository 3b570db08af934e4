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

// A DB is an open database. Its methods are safe for concurrent use. Readers
// never wait for writers, flushes or compactions, nor the reverse.
type DB struct {
	dir   string
	opts  Options
	fs    *vfs.FS
	lock  *vfs.Lock
	store *meta.Store
	log   *wal.Log // nil when read-only

	queue commitQueue

	// commitMu is held by whoever makes a new version: a group of writes, or
	// the end of a flush or compaction. It guards the fields below.
	commitMu sync.Mutex
	active   *head
	frozen   *head    // being flushed; nil when none is
	frozenAt *version // the version that ends with frozen, retained
	flushErr error    // of the last flush, if it failed and can be tried again
	nextNum  uint64
	nextColl uint32
	flushed  *sync.Cond // signals frozen == nil or flushErr

	// metaMu is held by whoever commits to meta.bolt. It is taken before
	// commitMu. It guards the fields below.
	metaMu   sync.Mutex
	commits  uint64 // of meta.bolt, since it was opened
	state    meta.State
	segments map[uint64]*openSegment
	stored   map[uint32]*definition // as in meta.bolt

	// compactMu is held by the compaction that runs. It is taken first.
	compactMu sync.Mutex

	// mu guards the fields below; it is held for moments only.
	mu      sync.Mutex
	cur     *version
	held    *version // newer than cur, on its way; guarded by commitMu as well
	holding bool     // publish makes versions held
	live    map[*version]struct{}
	mapped  map[*openSegment]struct{} // segments to close, in the database or only in old versions
	litter  map[uint64]struct{}       // segments whose files could not be removed
	running int                       // calls that Close waits for
	idle    *sync.Cond                // signals running == 0
	failed  error
	closed  bool

	troubles map[string]error // of background work, by its name; guarded by mu

	// Pointers, because the runtime keeps every sync.Pool over two collections of
	// garbage, and would keep a closed database with it.
	walkers  *sync.Pool // of *walker
	scratch  *sync.Pool // of *scratch
	ids      knownIDs
	rechecks *rechecks

	background background
	following  *follower              // nil unless the directory is a published folder
	names      atomic.Pointer[vfs.FS] // with the names of the newest version of it
}

// Open opens the database in directory dir, and creates it unless it exists.
// It fails at once with ErrLocked when another process excludes this one.
// After a crash, Open recovers: what was acknowledged is there.
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

// Close flushes, so that the next Open is quick, and releases every resource.
// It waits for calls that are running; later ones fail with ErrClosed. Closing
// twice is fine. Snapshots should be closed before: they fail afterwards.
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
		db.metaMu.Lock() // a Refresh has ended
		defer db.metaMu.Unlock()
	}
	db.commitMu.Lock()
	db.flushed.Broadcast() // to writers who wait for a flush that will not come
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

// finish leaves a database that the next Open has no work with. One that was
// not written to is that already.
func (db *DB) finish() error {
	db.mu.Lock()
	for s := range db.mapped { // graphs take too long for Close
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
			db.opts.Logger.Warn("cannot keep checksums of pages", "error", err) // Open then takes longer
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
	for v := range db.live { // of a published folder, each may have its own
		errs = append(errs, v.files.store.Close())
	}
	db.mu.Unlock()
	if db.log != nil {
		if err := db.log.Close(); db.err() == nil { // else it is known already
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

// fail makes the database read-only until it is reopened, because the disk
// failed at a point where the outcome of a write is unknown.
func (db *DB) fail(err error) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.failed == nil {
		db.refuse(err)
	}
	return db.failed
}

// err returns why writes are refused, if they are.
func (db *DB) err() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.refused()
}

// refused is err with mu held. A directory that could not be synced is a
// reason, whoever met that: its names may be lost although the next sync
// succeeds.
func (db *DB) refused() error {
	if db.failed == nil && !db.opts.ReadOnly {
		if err := db.fs.Failed(); err != nil {
			db.refuse(err)
		}
	}
	return db.failed
}

// refuse notes why writes are refused from now on. mu is held.
func (db *DB) refuse(err error) {
	db.failed = fmt.Errorf("%w: %w", ErrUnknown, err)
	db.opts.Logger.Error("disk failed, refusing writes until reopened", "error", err)
}

// Flush moves everything written so far from the log to segments and
// meta.bolt. There is no need to call it: it bounds the work of the next
// Open after a crash, and makes writes durable under every SyncPolicy.
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

// usable begins a maintenance call, which end ends, or says why it cannot be.
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
