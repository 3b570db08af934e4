package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/wal"
)

// One process leads a database: it holds the lock and writes the files. Followers map the same
// files, read meta.bolt at a root that the leader has pinned, and get the records of the log after
// that root from the leader. They send their writes to it. When the leader ends, one of them takes
// its place.
//
// This file is the part of an engine for leading and following. Package share connects processes.

// CanShare reports whether processes can share databases on this system. It needs sockets that tell
// the process at the other end, files that are replaced while others read them, and directories
// that are exchanged.
const CanShare = runtime.GOOS == "linux" || runtime.GOOS == "darwin"

// A Role is the part of a process in a database that several share.
type Role uint32

// The roles of an engine. A Follower may become a Leader. A Reader follows while another process
// leads.
const (
	Reader   Role = iota // reads a database that nothing writes, or a published folder
	Leader               // writes
	Follower             // reads beside a leader, which writes for it
)

// String returns "reader", "leader" or "follower".
func (r Role) String() string {
	switch r {
	case Reader:
		return "reader"
	case Leader:
		return "leader"
	case Follower:
		return "follower"
	}
	return fmt.Sprintf("Role(%d)", uint32(r))
}

// Role returns the present role.
func (e *Engine) Role() Role { return Role(e.role.Load()) }

// Leads reports whether this process writes the files of the database.
func (e *Engine) Leads() bool { return e.Role() == Leader }

// LogBytes returns the size of the log in bytes, 0 for a process that does not lead.
func (e *Engine) LogBytes() int64 {
	if log := e.log.Load(); log != nil {
		return log.Size()
	}
	return 0
}

// A Root is a state of meta.bolt that the leader keeps for followers.
type Root struct {
	DB      [16]byte // identity of the database
	Leader  string   // token of the lock
	Link    uint64   // of a follower: the connection that it came over
	Tx      uint64   // transaction of meta.bolt
	Applied uint64   // the last batch in it
}

// An Observer hears of changes, for followers. Its methods are called in the order of events and
// must not block: writers wait for them.
type Observer interface {
	// Committed reports batches that have become visible, from number first on, and Record.Replaced
	// of each. The memory of the records belongs to the caller.
	Committed(first uint64, records []wal.Record, replaced [][]byte)
	// Froze reports that the head was frozen after a batch. The next root with more batches than
	// the present one ends with it.
	Froze(lsn uint64)
	// Rooted reports that meta.bolt has a new root. Its pages are kept until unpin is called. The
	// segments that it names are kept until a later root was reported, and nobody in this process
	// reads them.
	Rooted(root Root, unpin func())
	// Made reports that a derived file has been written.
	Made()
	// Submitted reports that a request waits, and nobody commits it: an own one, of this process,
	// or one of Submit. It returns true if the observer calls CommitSubmitted. For own requests it
	// does so while followers write.
	Submitted(own bool) bool
}

// An Upstream takes the writes of a follower to the leader.
type Upstream interface {
	// Forward applies ops, whose documents and vectors have size bytes, or the ops that decide
	// returns while no other write happens. It returns once the batch is visible here. done is
	// false if the leader has not begun the write, and this process may now lead.
	Forward(ctx context.Context, ops []Op, size int, decide func() ([]Op, error)) (deleted int, done bool, err error)
	// OwnID returns an id for a write of this process while it leads; zero if no other process
	// follows.
	OwnID() RequestID
	// Outcome tells whether a write of this process with an id, which it made after batch seen when
	// it had lost the lead without knowing, has been applied, with the number of documents that it
	// deleted. ErrUnknown says that nobody knows.
	Outcome(ctx context.Context, id RequestID, seen uint64) (deleted int, applied bool, err error)
	// Left reports that no version of this process reads a root any more. It must not block.
	Left(root Root)
	// Broken reports that batches which were received cannot be applied: the process has to join
	// again.
	Broken(err error)
}

// sharing is the part of an engine that other processes are concerned with.
type sharing struct {
	observer Observer             // guarded by mu
	roots    map[*meta.Store]Root // of followers; guarded by mu
	look     atomic.Pointer[func(context.Context) error]
	mark     atomic.Pointer[string] // of the lock, when this process last read the files alone
	received received
}

// sharing reports whether other processes may use the database at the same time.
func (e *Engine) sharing() bool { return CanShare && e.Opts.Shared && e.Dir != Memory }

// Observe sets the observer of a leader.
func (e *Engine) Observe(o Observer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.shared.observer = o
}

// observer returns the observer; nil if no other process follows.
func (e *Engine) observer() Observer {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.shared.observer
}

// announce reports a new root of meta.bolt. metaMu is held. Without a pin, followers stay on the
// root that they have.
func (e *Engine) announce() {
	o := e.observer()
	if o == nil {
		return
	}
	tx, unpin, err := e.store.Pin()
	if err != nil {
		e.Opts.Logger.Warn("cannot show followers a new root", "error", err)
		return
	}
	o.Rooted(e.root(tx), unpin)
}

// root describes a root of meta.bolt. metaMu is held.
func (e *Engine) root(tx uint64) Root {
	return Root{DB: e.Identity, Leader: e.lock.Load().Token(), Tx: tx, Applied: e.state.Applied}
}

// Join gives a new follower the state of the database: first a root and the number of the newest
// batch, then the records between them in order. begin is called while nothing is written, so that
// an observer that begins there misses no event.
func (e *Engine) Join(begin func(root Root, lsn uint64, unpin func()), each func(record []byte) error) error {
	if err := e.Usable(context.Background()); err != nil {
		return err
	}
	defer e.End()
	e.metaMu.Lock() // keeps the log
	defer e.metaMu.Unlock()
	tx, unpin, err := e.store.Pin()
	if err != nil {
		return err
	}
	root := e.root(tx)
	e.commitMu.Lock()
	lsn := e.cur.LSN
	begin(root, lsn, unpin)
	e.commitMu.Unlock()
	if lsn == root.Applied {
		return nil
	}
	all := errors.New("all")
	o := wal.Options{FS: e.FS, DB: e.Identity, ReadOnly: true}
	_, err = wal.Replay(o, root.Applied, func(n uint64, record []byte) error {
		if err := each(record); err != nil {
			return err
		}
		if n == lsn {
			return all
		}
		return nil
	})
	if err == nil {
		err = &fileformat.CorruptError{File: WALDir, Offset: -1, Err: fmt.Errorf("batch %d is missing", lsn)}
	}
	if errors.Is(err, all) {
		return nil
	}
	return err
}

// LeaveMeta reports whether no other process reads the roots that are pinned, except for followers
// that have been told a new root since: no process has meta.bolt open, or LeaveMeta has replaced it
// by a copy, and those that have it open keep the file before. It makes no copy until enough pages
// are free that the copy saves space.
func (e *Engine) LeaveMeta() (left bool, err error) {
	if e.Usable(context.Background()) != nil {
		return false, nil // it writes nothing
	}
	defer e.End()
	e.metaMu.Lock()
	left, err = e.store.Unread()
	e.metaMu.Unlock()
	if left || err != nil {
		return left, err
	}
	return e.shrinkMeta()
}

// openMeta opens meta.bolt. If processes that followed an earlier leader still read it, or read it
// before anybody led, it leaves the file to them and opens a copy, unless it is to keep others out.
// The lock of the database is held.
func (e *Engine) openMeta(o meta.Options) (*meta.Store, error) {
	o.Shared = e.sharing()
	store, err := meta.Open(e.FS, MetaName, o)
	if !errors.Is(err, vfs.ErrLocked) || o.ReadOnly || !o.Shared {
		return store, err
	}
	if err := meta.Copy(e.FS, MetaName); err != nil {
		return nil, err
	}
	return meta.Open(e.FS, MetaName, o)
}

// NewFollower prepares an engine without a version. Adopt gives it the first one.
func NewFollower(dir string, opts Options) (_ *Engine, err error) {
	e := newEngine(dir, opts)
	e.role.Store(uint32(Follower))
	if e.FS, err = vfs.Open(dir, opts.Hook); err != nil {
		return nil, errors.Join(err, e.release())
	}
	return e, nil
}

// Adopt makes a root of meta.bolt and the records after it the current version, in a process that
// has joined a leader. The records must begin at the batch after the root or before it, and have no
// gap. Readers see the version before until all is ready. meta.ErrRoot says that the leader has a
// newer root meanwhile. One goroutine at a time calls Adopt, AdoptNext, Receive and Freeze.
func (e *Engine) Adopt(root Root, records []Record) error {
	_ = e.CatchUp() // on an error, records has the batches as well
	batches, err := readRecords(records)
	if err != nil {
		return err
	}
	return e.adopt(root, batches, false)
}

// AdoptNext is Adopt for the next root of the same leader. The records after it were received.
func (e *Engine) AdoptNext(root Root) error {
	if err := e.CatchUp(); err != nil {
		return err
	}
	r := &e.shared.received
	r.mu.Lock()
	since := r.since
	r.mu.Unlock()
	var batches []logBatch
	for _, some := range since {
		if some[len(some)-1].lsn > root.Applied {
			batches = append(batches, some...)
		}
	}
	return e.adopt(root, batches, true)
}

// Freeze begins a new head when the leader has frozen its own after a batch, and keeps the rows of
// the one before until a root has them. Without that, all batches after the root would have to be
// applied once more.
func (e *Engine) Freeze(lsn uint64) error {
	if err := e.CatchUp(); err != nil {
		return err
	}
	e.commitMu.Lock()
	defer e.commitMu.Unlock()
	r := &e.shared.received
	if e.cur == nil || e.cur.LSN != lsn || r.frozen != nil || e.head.empty() {
		return nil // AdoptNext applies the batches again
	}
	r.frozen, r.split, e.head = e.head, lsn, newHead()
	return nil
}

// keepHead makes what the head has after a root the whole head, and reports whether it could: the
// root must end where the head begins, or where it was split. commitMu is held.
func (e *Engine) keepHead(root Root) bool {
	r := &e.shared.received
	switch {
	case root.Applied == r.applied:
	case r.frozen != nil && root.Applied == r.split:
		r.frozen = nil
	default:
		return false
	}
	return true
}

// adopt makes a root and the batches after it the current version. kept says that the present head
// has these batches.
func (e *Engine) adopt(root Root, batches []logBatch, kept bool) error {
	e.metaMu.Lock()
	defer e.metaMu.Unlock()
	if err := e.beginStep(); err != nil {
		return err
	}
	defer e.endStep()
	first := e.cur == nil
	err := e.replace(func() (*meta.Store, error) {
		store, err := meta.Open(e.FS, MetaName, meta.Options{Root: root.Tx})
		if err != nil {
			return nil, err
		}
		// A later leader may have opened the file before this process did, and knows nothing of it.
		// It has put its token into the file of the lock before.
		if token, err := e.FS.LockToken(LockName); err != nil || token == "" || token != root.Leader {
			return nil, errors.Join(meta.ErrRoot, err, store.Close())
		}
		e.mu.Lock()
		e.shared.roots[store] = root
		e.mu.Unlock()
		e.commitMu.Lock()
		kept = kept && e.keepHead(root)
		e.commitMu.Unlock()
		if !kept {
			e.reset()
		}
		if err := e.load(store); err != nil {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.closeStore(store)
			return nil, err
		}
		if e.state.DB != root.DB || e.state.Applied != root.Applied {
			return nil, &fileformat.CorruptError{File: MetaName, Offset: -1,
				Err: fmt.Errorf("has batch %d of database %x, the leading process %d of %x",
					e.state.Applied, e.state.DB, root.Applied, root.DB)}
		}
		e.commitMu.Lock()
		defer e.commitMu.Unlock()
		batches, err = e.replayAll(batches, kept)
		return store, err
	})
	if err != nil {
		return err
	}
	e.commitMu.Lock()
	e.shared.received.applied = root.Applied
	e.commitMu.Unlock()
	e.shared.received.restart(batches)
	e.role.Store(uint32(Follower)) // it may have been a Reader
	e.Opts.Logger.Debug("took a root of the leader", "dir", e.Dir, "lsn", e.cur.LSN, "applied", root.Applied,
		"segments", len(e.segments))
	if first {
		e.background.start(e)
	}
	return nil
}

// Retry looks for derived files that were absent: the leader has made some.
func (e *Engine) Retry() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for s := range e.mapped {
		for _, d := range s.Derived {
			d.retry()
		}
	}
}

// decide runs a function on the newest version.
func (e *Engine) decide(decide func(*Group) ([]Op, error)) (ops []Op, err error) {
	if err := e.CatchUp(); err != nil {
		return nil, err
	}
	e.commitMu.Lock()
	defer e.commitMu.Unlock()
	g := newGroup(e)
	err = e.Guard(func() (err error) {
		ops, err = decide(g)
		return err
	})
	return ops, err
}

// forward sends a request to the leader. done is false if this process may lead now.
func (e *Engine) forward(ctx context.Context, r *request) (done bool, err error) {
	if err := e.Begin(); err != nil {
		return true, err
	}
	defer e.End()
	var decide func() ([]Op, error)
	if r.decide != nil {
		decide = func() ([]Op, error) { return e.decide(r.decide) }
	}
	r.deleted, done, err = e.Opts.Upstream.Forward(ctx, r.ops, r.size, decide)
	return done, err
}

// Fresh reports whether no process has led since this one, which reads alone, has read the files.
// Whoever leads takes the lock first. If load found another database in the directory, the answer
// is no, so that Reload sees when the right one is back.
func (e *Engine) Fresh() (bool, error) {
	if err := e.WentBack(); err != nil {
		return false, err
	}
	read := e.shared.mark.Load()
	if read == nil { // a published folder, which nobody leads
		return e.folder != nil, nil
	}
	if moved, err := e.FS.Moved(); moved || err != nil {
		return false, err
	}
	mark, err := e.FS.LockMark(LockName)
	return err == nil && mark == *read && !e.replaced.Load(), err
}

// Reload loads the files again in a process that only reads, once a leader has ended. It fails with
// ErrLocked while another process leads.
func (e *Engine) Reload() error {
	e.metaMu.Lock()
	defer e.metaMu.Unlock()
	if err := e.Begin(); err != nil {
		return err
	}
	defer e.End()
	lock, err := e.takeLock()
	if err != nil {
		return Translate(err)
	}
	e.catchUpLast()
	mark, err := lock.Mark()
	if err == nil {
		err = e.replace(func() (*meta.Store, error) {
			store, _, err := e.loadAgain(meta.Options{ReadOnly: true, Trusted: true}, e.logOptions())
			return store, err
		})
	}
	if err == nil {
		e.shared.received.restart(nil)
		e.Retry() // a leader may have made files
		e.shared.mark.Store(&mark)
		e.role.Store(uint32(Reader))
		e.Opts.Logger.Info("reads alone", "dir", e.Dir, "lsn", e.cur.LSN, "segments", len(e.segments))
	}
	return errors.Join(err, lock.Close())
}

// Alone runs fn while no process can lead, if this one reads the newest state of the files.
// Otherwise it returns false.
func (e *Engine) Alone(fn func() error) (alone bool, err error) {
	if !e.sharing() {
		return true, fn() // Open has excluded leaders
	}
	lock, err := e.FS.Lock(LockName, false)
	if errors.Is(err, vfs.ErrLocked) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if moved, err := e.FS.Moved(); err != nil || moved {
		return false, err
	}
	e.metaMu.Lock()
	store := e.store
	e.metaMu.Unlock()
	if newest, err := store.Newest(); err != nil || !newest {
		return false, err
	}
	return true, fn()
}

// CheckLog reads the log from the first batch that is not flushed (I5: no hole; frames whole), and
// returns the damage in it, while writers pause. err says that it could not be read: it matches
// ErrLocked if another process may write the log. Ask that one.
func (e *Engine) CheckLog(ctx context.Context) (damage, err error) {
	if e.Leads() {
		if err := e.CheckLead(); err != nil {
			return nil, err
		}
		return e.readLog(ctx, true)
	}
	if damage, err = e.readLog(ctx, false); e.folder != nil {
		return damage, err
	}
	// To keep leaders away while a long log is read would make their Open fail. It is read again
	// for damage only.
	alone, unsure := e.Alone(func() (err error) {
		if damage != nil {
			damage, err = e.readLog(ctx, false)
		}
		return err
	})
	if unsure == nil && !alone {
		return nil, errLed
	}
	return damage, nil // if meta.bolt cannot be read, that is not about the log
}

// errLed is the error of a process that does not lead, and finds that another one may.
var errLed = fmt.Errorf("%w: it may be writing the log", ErrLocked)

// readLog is CheckLog of a process that leads, and fails if it no longer does, or of another one.
func (e *Engine) readLog(ctx context.Context, leads bool) (damage, err error) {
	e.metaMu.Lock() // keeps log files from being removed
	defer e.metaMu.Unlock()
	e.commitMu.Lock() // keeps batches from being written
	defer e.commitMu.Unlock()
	if leads {
		if err := e.mayWrite(); err != nil {
			return nil, err
		}
	}
	_, damage = wal.Replay(wal.Options{FS: e.Files(), DB: e.state.DB}, e.cur.Applied,
		func(_ uint64, b []byte) error {
			_, err := DecodeRecord(b)
			return errors.Join(err, ctx.Err())
		})
	return damage, nil
}

// Look sets a function that every call runs first, and whose error ends the call; nil ends that. A
// process that has begun to lead meanwhile is found there.
func (e *Engine) Look(look func(context.Context) error) {
	if look == nil {
		e.shared.look.Store(nil)
		return
	}
	e.shared.look.Store(&look)
}

// reset empties the head, for a version that is loaded again.
func (e *Engine) reset() {
	e.commitMu.Lock()
	defer e.commitMu.Unlock()
	e.head, e.shared.received.frozen = newHead(), nil
}
