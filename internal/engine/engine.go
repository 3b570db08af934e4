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
	store *meta.Store
	// Identity tells the database from others. It is set before the first version, once.
	Identity [16]byte
	log      atomic.Pointer[wal.Log] // nil in a process that does not lead

	queue  commitQueue
	within within

	// commitMu is held while a new version is made: by a group of writes, or at the end
	// of a flush or compaction. It guards the fields below.
	commitMu  sync.Mutex
	head      *head     // takes the writes
	lastWrite time.Time // of the last batch, or of Open
	frozen    *head     // being flushed, or nil
	frozenAt  *Version  // the version at the freeze; the engine holds a reference
	flushErr  error     // of the last flush, if it failed and can be retried
	nextNum   uint64
	nextColl  uint32
	flushed   *sync.Cond // signals frozen == nil or flushErr

	// metaMu is held during a commit to meta.bolt. It is taken before commitMu. It guards
	// the fields below.
	metaMu    sync.Mutex
	commits   uint64    // of meta.bolt, since it was opened
	committed time.Time // of the last of these
	state     meta.State
	segments  map[uint64]*OpenSegment
	stored    map[uint32]*Definition // definitions as in meta.bolt

	// compactMu is held during a compaction. It is taken before all others.
	compactMu sync.Mutex
	rested    time.Time // when idleVictims may be merged again; guarded by compactMu

	// mu guards the fields below. It is held only briefly.
	mu       sync.Mutex
	cur      *Version
	held     *Version // newer than cur, not yet visible; guarded by commitMu as well
	holding  bool     // publish sets held instead of cur
	live     map[*Version]struct{}
	mapped   map[*OpenSegment]struct{} // open segments, of the database or of old versions only
	litter   map[uint64]struct{}       // segments whose files could not be removed
	running  int                       // calls and steps of calls that Close waits for
	steps    int                       // of these, steps: see beginStep
	idle     *sync.Cond                // signals running == 0
	failed   error
	closed   bool            // calls are refused
	closing  bool            // Close was called
	refusing []chan struct{} // of Refuse: closed once running == 0

	released bool // release has closed all segments; versions that end later must not close them again

	active atomic.Int64 // calls on a version that run

	compacts     int                // calls of Compact that wait; guarded by mu
	stopBuilding context.CancelFunc // ends background building, for Compact; guarded by mu

	failures map[string]error // errors of background work by name; guarded by mu

	ids KnownIDs

	outcomes outcomes

	background background

	role     atomic.Uint32         // a Role
	behind   atomic.Bool           // the version is that of a directory which was fenced: see Fenced
	replaced atomic.Bool           // the last load found another database in the directory
	wentBack atomic.Pointer[error] // see WentBack
	shared   sharing
	writes   bool                 // from the lock to its end: this process may write; guarded by mu
	deposed  map[*func()]struct{} // see WhenDeposed; guarded by mu
	keeping  int                  // derived files that are being written; guarded by mu

	folder *folderReader          // nil unless the directory is a published folder
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
		head: newHead(), live: map[*Version]struct{}{}, mapped: map[*OpenSegment]struct{}{},
		litter: map[uint64]struct{}{}, deposed: map[*func()]struct{}{},
		segments: map[uint64]*OpenSegment{}, stored: map[uint32]*Definition{},
	}
	e.shared.roots = map[*meta.Store]Root{}
	e.lastWrite = time.Now() // so that a short open starts no merge
	e.flushed = sync.NewCond(&e.commitMu)
	e.idle = sync.NewCond(&e.mu)
	return e
}

// Close flushes, so that the next open is quick, and releases every resource. It waits for running
// calls; later ones fail with ErrClosed. A second close does nothing.
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.closing {
		e.mu.Unlock()
		return nil
	}
	e.closing, e.closed = true, true
	e.mu.Unlock()
	e.background.stop()
	e.commitMu.Lock()
	e.flushed.Broadcast() // to writers that wait for a flush: none will come
	e.commitMu.Unlock()

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

// Refuse ends calls that begin from now on, as Close does. Those that run go on, with the batches
// and roots that come for them. The channel is closed once none runs.
func (e *Engine) Refuse() (idle <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	last := make(chan struct{})
	if e.refusing = append(e.refusing, last); e.running == 0 {
		e.endRefusing()
	}
	return last
}

// endRefusing tells those who have called Refuse that no call runs. mu is held.
func (e *Engine) endRefusing() {
	for _, last := range e.refusing {
		close(last)
	}
	e.refusing = nil
}

// finish brings the files into a state that the next Open can use without recovery. A
// database without new writes is in it already.
func (e *Engine) finish() error {
	e.mu.Lock()
	for s := range e.mapped { // Close builds no graphs: they take too long
		e.dropBase(s)
	}
	e.mu.Unlock()
	e.metaMu.Lock()
	e.commitMu.Lock()
	idle := e.store.Sealed() && e.cur.LSN == e.state.Applied && len(e.state.Obsolete) == 0
	e.commitMu.Unlock()
	e.metaMu.Unlock()
	if !idle {
		if err := e.Settle(); err != nil {
			return err
		}
		if err := e.store.Seal(); err != nil {
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
	e.mu.Lock()
	e.closed = true
	for e.running > 0 { // without other locks, which they may wait for
		e.idle.Wait()
	}
	e.mu.Unlock()
	e.commitMu.Lock() // waits for a group that is being committed
	defer e.commitMu.Unlock()
	e.mu.Lock()
	e.released = true // later ends of snapshots close nothing
	for s := range e.mapped {
		errs = append(errs, s.Close())
	}
	for v := range e.live { // versions of a published folder may have stores of their own
		errs = append(errs, v.Files.Store.Close())
	}
	e.mu.Unlock()
	if log := e.log.Load(); log != nil {
		if err := log.Close(); e.Err() == nil { // otherwise the error is known
			errs = append(errs, err)
		}
	}
	if e.store != nil {
		errs = append(errs, e.store.Close())
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
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failed == nil {
		e.refuse(err)
	}
	return e.failed
}

// Err returns the reason that writes are refused, or nil.
func (e *Engine) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.refused()
}

// Present returns ErrRemoved or ErrReplaced if the directory does not hold the database any more.
// Its files are open, and can be read as before, but nobody will find them again. led says that
// this process leads, or follows a leader.
func (e *Engine) Present(led bool) error {
	if e.FS.Path() == "" {
		return nil
	}
	if err := e.WentBack(); err != nil {
		return err
	}
	if e.replaced.Load() {
		return e.replacedError()
	}
	name := MetaName
	if e.folder != nil {
		name = ManifestDir // every published folder has it, and it stays in its place
	}
	if _, err := e.FS.Size(name); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	_, err := os.Stat(filepath.Join(e.FS.Path(), name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return NewRemovedError(e.Dir)
	case err == nil && (led || e.folder != nil): // in the directory that is open here
		return e.replacedError()
	}
	return nil // a leader may have moved it, see fence.go
}

func (e *Engine) replacedError() error {
	return fmt.Errorf("%w: %q has another database, or an earlier state of it, now: open it again", ErrReplaced, e.Dir)
}

// refused is err with mu held. A directory that could not be synced is a reason, no
// matter which call met the failure: the kernel may have dropped the new names, and the
// next sync would still succeed.
func (e *Engine) refused() error {
	if e.failed == nil && e.Leads() {
		if err := e.FS.Failed(); err != nil {
			e.refuse(err)
		}
	}
	return e.failed
}

// refuse sets the reason that writes are refused from now on. Before this process leads it has
// written nothing whose outcome could be unknown, and Open or TryLead fails. mu is held.
func (e *Engine) refuse(err error) {
	if e.background.lost == nil {
		e.failed = err
		return
	}
	e.failed = fmt.Errorf("%w, reopen the database: %w", ErrUnknown, err)
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
