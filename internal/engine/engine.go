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
	frozenAt  *Version  // the version at the freeze; the engine holds a reference
	flushErr  error     // of the last flush, if it failed and can be retried
	nextNum   uint64
	nextColl  uint32
	flushed   *sync.Cond // signals Frozen == nil or flushErr

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
	held    *Version // newer than Cur, not yet visible; guarded by CommitMu as well
	holding bool     // publish sets held instead of Cur
	Live    map[*Version]struct{}
	Mapped  map[*OpenSegment]struct{} // open segments, of the database or of old versions only
	litter  map[uint64]struct{}       // segments whose files could not be removed
	Running int                       // calls that Close waits for
	idle    *sync.Cond                // signals Running == 0
	Failed  error
	closed  bool

	released bool // release has closed all segments; versions that end later must not close them again

	active atomic.Int64 // calls on a version that run

	compacts     int                // calls of Compact that wait; guarded by Mu
	stopBuilding context.CancelFunc // ends background building, for Compact; guarded by Mu

	failures map[string]error // errors of background work by name; guarded by Mu

	ids KnownIDs

	outcomes outcomes

	Background background

	role     atomic.Uint32 // a Role
	behind   atomic.Bool   // the version is that of a directory which was fenced: see Fenced
	replaced atomic.Bool   // load found another database in the directory
	shared   sharing
	writes   bool                 // from the lock to its end: this process may write; guarded by Mu
	deposed  map[*func()]struct{} // see WhenDeposed; guarded by Mu
	keeping  int                  // derived files that are being written; guarded by Mu

	Folder *folderReader          // nil unless the directory is a published folder
	names  atomic.Pointer[vfs.FS] // the file names of its newest version
}

// Open opens the database in a directory, and creates one unless Options.MustExist is set. After a
// crash it recovers every acknowledged write.
func Open(dir string, opts Options) (*Engine, error) {
	e := newEngine(dir, opts)
	if err := e.open(); err != nil {
		e.abandon()
		e.release()
		return nil, err
	}
	return e, nil
}

func newEngine(dir string, opts Options) *Engine {
	e := &Engine{
		Dir: dir, Opts: opts,
		Active: newHead(), Live: map[*Version]struct{}{}, Mapped: map[*OpenSegment]struct{}{},
		litter: map[uint64]struct{}{}, deposed: map[*func()]struct{}{},
		Segments: map[uint64]*OpenSegment{}, stored: map[uint32]*Definition{},
	}
	e.shared.roots = map[*meta.Store]Root{}
	e.lastWrite = time.Now() // so that a short open starts no merge
	e.flushed = sync.NewCond(&e.CommitMu)
	e.idle = sync.NewCond(&e.Mu)
	return e
}

// Close flushes, so that the next open is quick, and releases every resource. It waits for running
// calls; later ones fail with ErrClosed. A second close does nothing.
func (e *Engine) Close() error {
	e.Mu.Lock()
	if e.closed {
		e.Mu.Unlock()
		return nil
	}
	e.closed = true
	e.Mu.Unlock()
	e.Background.stop()
	e.CommitMu.Lock()
	e.flushed.Broadcast() // to writers that wait for a flush: none will come
	e.CommitMu.Unlock()

	var err error
	if e.Leads() && e.Err() == nil {
		if err = e.finish(); errors.Is(err, errDeposed) {
			err = nil // the new leader has all that was acknowledged
		}
	}
	err = errors.Join(err, e.release())
	e.Opts.Logger.Info("closed", "dir", e.Dir)
	return err
}

// finish brings the files into a state that the next Open can use without recovery. A
// database without new writes is in it already.
func (e *Engine) finish() error {
	e.Mu.Lock()
	for s := range e.Mapped { // Close builds no graphs: they take too long
		e.dropBase(s)
	}
	e.Mu.Unlock()
	e.MetaMu.Lock()
	e.CommitMu.Lock()
	idle := e.Store.Sealed() && e.Cur.LSN == e.State.Applied && len(e.State.Obsolete) == 0
	e.CommitMu.Unlock()
	e.MetaMu.Unlock()
	if !idle {
		if err := e.Settle(); err != nil {
			return err
		}
		if err := e.Store.Seal(); err != nil {
			e.Opts.Logger.Warn("cannot keep checksums of pages", "error", err) // the next Open then takes longer
		}
	}
	_, err := e.MakeDerived(context.Background(), ByClose, 0)
	e.removeLitter()
	return err
}

// release frees what open took, in reverse.
func (e *Engine) release() error {
	var errs []error
	e.Mu.Lock()
	e.closed = true
	for e.Running > 0 { // without other locks, which they may wait for
		e.idle.Wait()
	}
	e.Mu.Unlock()
	e.CommitMu.Lock() // waits for a group that is being committed
	defer e.CommitMu.Unlock()
	e.Mu.Lock()
	e.released = true // later ends of snapshots close nothing
	for s := range e.Mapped {
		errs = append(errs, s.Close())
	}
	for v := range e.Live { // versions of a published folder may have stores of their own
		errs = append(errs, v.Files.Store.Close())
	}
	e.Mu.Unlock()
	if log := e.Log.Load(); log != nil {
		if err := log.Close(); e.Err() == nil { // otherwise the error is known
			errs = append(errs, err)
		}
	}
	if e.Store != nil {
		errs = append(errs, e.Store.Close())
	}
	if lock := e.lock.Load(); lock != nil {
		errs = append(errs, lock.Close())
	}
	if e.FS != nil {
		errs = append(errs, e.FS.Close())
	}
	return errors.Join(errs...)
}

// Fail makes the database read-only until it is reopened: the disk failed at a point
// where the outcome of a write is unknown.
func (e *Engine) Fail(err error) error {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	if e.Failed == nil {
		e.refuse(err)
	}
	return e.Failed
}

// Err returns the reason that writes are refused, or nil.
func (e *Engine) Err() error {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	return e.refused()
}

// Present returns ErrRemoved or ErrReplaced if the directory does not hold the database any more.
// Its files are open, and can be read as before, but nobody will find them again. led says that
// this process leads, or follows a leader.
func (e *Engine) Present(led bool) error {
	if e.FS.Path() == "" {
		return nil
	}
	if e.replaced.Load() {
		return e.replacedError()
	}
	name := MetaName
	if e.Folder != nil {
		name = ManifestDir // every published folder has it, and it stays in its place
	}
	if _, err := e.FS.Size(name); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	_, err := os.Stat(filepath.Join(e.FS.Path(), name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return NewRemovedError(e.Dir)
	case err == nil && (led || e.Folder != nil): // in the directory that is open here
		return e.replacedError()
	}
	return nil // a leader may have moved it, see fence.go
}

func (e *Engine) replacedError() error {
	return fmt.Errorf("%w: %q has another database now: open it again", ErrReplaced, e.Dir)
}

// refused is err with mu held. A directory that could not be synced is a reason, no
// matter which call met the failure: the kernel may have dropped the new names, and the
// next sync would still succeed.
func (e *Engine) refused() error {
	if e.Failed == nil && e.Leads() {
		if err := e.FS.Failed(); err != nil {
			e.refuse(err)
		}
	}
	return e.Failed
}

// refuse sets the reason that writes are refused from now on. Before this process leads it has
// written nothing whose outcome could be unknown, and Open or TryLead fails. Mu is held.
func (e *Engine) refuse(err error) {
	if e.Background.lost == nil {
		e.Failed = err
		return
	}
	e.Failed = fmt.Errorf("%w, reopen the database: %w", ErrUnknown, err)
	e.Opts.Logger.Error("disk failed, refusing writes until reopened", "error", err)
}

// Usable begins a maintenance call, which end ends, or returns the reason that it cannot
// run.
func (e *Engine) Usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.Opts.ReadOnly {
		return ErrReadOnly
	}
	if !e.Leads() {
		return ErrFollows
	}
	if err := e.Err(); err != nil {
		return err
	}
	return e.Begin()
}
