package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/wal"
)

// An Engine keeps the versions of a database: it writes, recovers, flushes and compacts. Its
// methods are safe for concurrent use.
type Engine struct {
	Dir   string
	Opts  Options
	FS    *vfs.FS
	lock  atomic.Pointer[vfs.Lock] // nil unless it is held
	Store *meta.Store
	// Identity tells the database from others. It is set before the first version, once.
	Identity [16]byte
	Log      atomic.Pointer[wal.Log] // nil in a process that does not lead

	Queue  commitQueue
	within within

	// CommitMu is held while a new version is made: by a group of writes, or at the end
	// of a flush or compaction. It guards the fields below.
	CommitMu  sync.Mutex
	Active    *head
	lastWrite time.Time // of the last batch, or of Open
	Frozen    *head     // being flushed, or nil
	frozenAt  *Version  // the version at the freeze; the DB holds a reference
	flushErr  error     // of the last flush, if it failed and can be retried
	nextNum   uint64
	nextColl  uint32
	flushed   *sync.Cond // signals frozen == nil or flushErr

	// MetaMu is held during a commit to meta.bolt. It is taken before CommitMu. It guards
	// the fields below.
	MetaMu    sync.Mutex
	Commits   uint64    // of meta.bolt, since it was opened
	committed time.Time // of the last of these
	State     meta.State
	Segments  map[uint64]*OpenSegment
	stored    map[uint32]*Definition // definitions as in meta.bolt

	// compactMu is held during a compaction. It is taken before all others.
	compactMu sync.Mutex
	rested    time.Time // when idleVictims may be merged again; guarded by compactMu

	// Mu guards the fields below. It is held only briefly.
	Mu      sync.Mutex
	Cur     *Version
	held    *Version // newer than cur, not yet visible; guarded by CommitMu as well
	holding bool     // publish sets held instead of cur
	Live    map[*Version]struct{}
	Mapped  map[*OpenSegment]struct{} // open segments, of the database or of old versions only
	litter  map[uint64]struct{}       // segments whose files could not be removed
	Running int                       // calls that Close waits for
	idle    *sync.Cond                // signals running == 0
	Failed  error
	closed  bool

	released bool // release has closed all segments; versions that end later must not close them again

	active atomic.Int64 // calls on a version that run

	compacts     int                // calls of Compact that wait; guarded by Mu
	stopBuilding context.CancelFunc // ends background building, for Compact; guarded by Mu

	failures map[string]error // errors of background work by name; guarded by mu

	ids KnownIDs

	outcomes outcomes

	Background background

	role    atomic.Uint32 // a Role
	shared  sharing
	writes  bool // from the lock to its end: this process may write; guarded by Mu
	keeping int  // derived files that are being written; guarded by Mu

	Folder *folderReader          // nil unless the directory is a published folder
	names  atomic.Pointer[vfs.FS] // the file names of its newest version
}

// Open opens the database in a directory, and creates one unless Options.MustExist is set. After a
// crash it recovers every acknowledged write.
func Open(dir string, opts Options) (*Engine, error) {
	db := newEngine(dir, opts)
	if err := db.open(); err != nil {
		db.abandon()
		db.release()
		return nil, err
	}
	return db, nil
}

func newEngine(dir string, opts Options) *Engine {
	db := &Engine{
		Dir: dir, Opts: opts,
		Active: newHead(), Live: map[*Version]struct{}{}, Mapped: map[*OpenSegment]struct{}{},
		litter:   map[uint64]struct{}{},
		Segments: map[uint64]*OpenSegment{}, stored: map[uint32]*Definition{},
	}
	db.shared.roots = map[*meta.Store]Root{}
	db.lastWrite = time.Now() // so that a short open starts no merge
	db.flushed = sync.NewCond(&db.CommitMu)
	db.idle = sync.NewCond(&db.Mu)
	return db
}

// Close flushes, so that the next open is quick, and releases every resource. It waits for running
// calls; later ones fail with ErrClosed. A second close does nothing.
func (db *Engine) Close() error {
	db.Mu.Lock()
	if db.closed {
		db.Mu.Unlock()
		return nil
	}
	db.closed = true
	db.Mu.Unlock()
	db.Background.stop()
	db.CommitMu.Lock()
	db.flushed.Broadcast() // to writers that wait for a flush: none will come
	db.CommitMu.Unlock()

	var err error
	if db.Leads() && db.Err() == nil {
		if err = db.finish(); errors.Is(err, errDeposed) {
			err = nil // the new leader has all that was acknowledged
		}
	}
	err = errors.Join(err, db.release())
	db.Opts.Logger.Info("closed", "dir", db.Dir)
	return err
}

// finish brings the files into a state that the next Open can use without recovery. A
// database without new writes is in it already.
func (db *Engine) finish() error {
	db.Mu.Lock()
	for s := range db.Mapped { // Close builds no graphs: they take too long
		db.dropBase(s)
	}
	db.Mu.Unlock()
	db.MetaMu.Lock()
	db.CommitMu.Lock()
	idle := db.Store.Sealed() && db.Cur.LSN == db.State.Applied && len(db.State.Obsolete) == 0
	db.CommitMu.Unlock()
	db.MetaMu.Unlock()
	if !idle {
		if err := db.Settle(); err != nil {
			return err
		}
		if err := db.Store.Seal(); err != nil {
			db.Opts.Logger.Warn("cannot keep checksums of pages", "error", err) // the next Open then takes longer
		}
	}
	_, err := db.MakeDerived(context.Background(), ByClose, 0)
	db.removeLitter()
	return err
}

// release frees what open took, in reverse.
func (db *Engine) release() error {
	var errs []error
	db.Mu.Lock()
	db.closed = true
	for db.Running > 0 { // without other locks, which they may wait for
		db.idle.Wait()
	}
	db.Mu.Unlock()
	db.CommitMu.Lock() // waits for a group that is being committed
	defer db.CommitMu.Unlock()
	db.Mu.Lock()
	db.released = true // later ends of snapshots close nothing
	for s := range db.Mapped {
		errs = append(errs, s.Close())
	}
	for v := range db.Live { // versions of a published folder may have stores of their own
		errs = append(errs, v.Files.Store.Close())
	}
	db.Mu.Unlock()
	if log := db.Log.Load(); log != nil {
		if err := log.Close(); db.Err() == nil { // otherwise the error is known
			errs = append(errs, err)
		}
	}
	if db.Store != nil {
		errs = append(errs, db.Store.Close())
	}
	if lock := db.lock.Load(); lock != nil {
		errs = append(errs, lock.Close())
	}
	if db.FS != nil {
		errs = append(errs, db.FS.Close())
	}
	return errors.Join(errs...)
}

// Fail makes the database read-only until it is reopened: the disk failed at a point
// where the outcome of a write is unknown.
func (db *Engine) Fail(err error) error {
	db.Mu.Lock()
	defer db.Mu.Unlock()
	if db.Failed == nil {
		db.refuse(err)
	}
	return db.Failed
}

// Err returns the reason that writes are refused, or nil.
func (db *Engine) Err() error {
	db.Mu.Lock()
	defer db.Mu.Unlock()
	return db.refused()
}

// Present returns ErrRemoved or ErrReplaced if the directory does not hold the database any more.
// Its files are open, and can be read as before, but nobody will find them again. led says that
// this process leads, or follows a leader.
func (db *Engine) Present(led bool) error {
	if db.Folder != nil || db.FS.Path() == "" {
		return nil
	}
	if _, err := db.FS.Size(MetaName); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	_, err := os.Stat(filepath.Join(db.FS.Path(), MetaName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return NewRemovedError(db.Dir)
	case err == nil && led: // in the directory that is open here
		return fmt.Errorf("%w: %q has another database now: open it again", ErrReplaced, db.Dir)
	}
	return nil // a leader may have moved it, see fence.go
}

// refused is err with mu held. A directory that could not be synced is a reason, no
// matter which call met the failure: the kernel may have dropped the new names, and the
// next sync would still succeed.
func (db *Engine) refused() error {
	if db.Failed == nil && db.Leads() {
		if err := db.FS.Failed(); err != nil {
			db.refuse(err)
		}
	}
	return db.Failed
}

// refuse sets the reason that writes are refused from now on. Before this process leads it has
// written nothing whose outcome could be unknown, and Open or TryLead fails. Mu is held.
func (db *Engine) refuse(err error) {
	if db.Background.lost == nil {
		db.Failed = err
		return
	}
	db.Failed = fmt.Errorf("%w, reopen the database: %w", ErrUnknown, err)
	db.Opts.Logger.Error("disk failed, refusing writes until reopened", "error", err)
}

// Usable begins a maintenance call, which end ends, or returns the reason that it cannot
// run.
func (db *Engine) Usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if db.Opts.ReadOnly {
		return ErrReadOnly
	}
	if !db.Leads() {
		return fmt.Errorf("%w: it leads the database", ErrLocked)
	}
	if err := db.Err(); err != nil {
		return err
	}
	return db.Begin()
}
