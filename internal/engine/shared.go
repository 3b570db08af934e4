package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

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
func (db *Engine) Role() Role { return Role(db.role.Load()) }

// Leads reports whether this process writes the files of the database.
func (db *Engine) Leads() bool { return db.Role() == Leader }

// LogBytes returns the size of the log in bytes, 0 for a process that does not lead.
func (db *Engine) LogBytes() int64 {
	if log := db.Log.Load(); log != nil {
		return log.Size()
	}
	return 0
}

// A Root is a state of meta.bolt that the leader keeps for followers.
type Root struct {
	DB      [16]byte // identity of the database
	Leader  string   // token of the lock
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
	// Rooted reports that meta.bolt has a new root. Its pages and the files that it names are kept
	// until unpin is called.
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
	observer Observer             // guarded by Mu
	roots    map[*meta.Store]Root // of followers; guarded by Mu
	look     atomic.Pointer[func(context.Context) error]
	mark     atomic.Pointer[string] // of the lock, when this process last read the files alone
	received received
}

// received holds the batches of the leader that are in no version yet. They are applied together
// when a call needs the newest version: a process that only writes, or waits, spends little on the
// writes of others.
type received struct {
	waiting atomic.Bool // there are records, or err

	mu      sync.Mutex // taken after CommitMu
	records []Record
	bytes   int
	memory  []byte       // of the records; when it is full, another one takes its place
	last    uint64       // number of the last batch that was received
	err     error        // why batches could not be applied; until Adopt
	since   [][]logBatch // after the root, applied

	// Guarded by CommitMu.
	applied uint64 // last batch in the root: the head begins after it
	frozen  *head  // the older part of the head, which ends where the leader froze its own; or nil
	split   uint64 // last batch in frozen
}

// maxReceived is the size of records that wait. It takes a millisecond to apply as much.
const maxReceived = 1 << 20

// leastReceived is the size of the first memory for records.
const leastReceived = 16 << 10

// sharing reports whether other processes may use the database at the same time.
func (db *Engine) sharing() bool { return db.Opts.Shared && db.Dir != Memory }

// Observe sets the observer of a leader.
func (db *Engine) Observe(o Observer) {
	db.Mu.Lock()
	defer db.Mu.Unlock()
	db.shared.observer = o
}

// observer returns the observer; nil if no other process follows.
func (db *Engine) observer() Observer {
	db.Mu.Lock()
	defer db.Mu.Unlock()
	return db.shared.observer
}

// announce reports a new root of meta.bolt. MetaMu is held. Without a pin, followers stay on the
// root that they have.
func (db *Engine) announce() {
	o := db.observer()
	if o == nil {
		return
	}
	tx, unpin, err := db.Store.Pin()
	if err != nil {
		db.Opts.Logger.Warn("cannot show followers a new root", "error", err)
		return
	}
	o.Rooted(db.root(tx), unpin)
}

// root describes a root of meta.bolt. MetaMu is held.
func (db *Engine) root(tx uint64) Root {
	return Root{DB: db.Identity, Leader: db.lock.Load().Token(), Tx: tx, Applied: db.State.Applied}
}

// Join gives a new follower the state of the database: first a root and the number of the newest
// batch, then the records between them in order. begin is called while nothing is written, so that
// an observer that begins there misses no event.
func (db *Engine) Join(begin func(root Root, lsn uint64, unpin func()), each func(record []byte) error) error {
	if err := db.Usable(context.Background()); err != nil {
		return err
	}
	defer db.End()
	db.MetaMu.Lock() // keeps the log
	defer db.MetaMu.Unlock()
	tx, unpin, err := db.Store.Pin()
	if err != nil {
		return err
	}
	root := db.root(tx)
	db.CommitMu.Lock()
	lsn := db.Cur.LSN
	begin(root, lsn, unpin)
	db.CommitMu.Unlock()
	if lsn == root.Applied {
		return nil
	}
	all := errors.New("all")
	o := wal.Options{FS: db.FS, DB: db.Identity, ReadOnly: true}
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

// takeLock takes the lock of the database, as a reader or to lead, in the directory where the
// database is now.
func (db *Engine) takeLock() (*vfs.Lock, error) {
	for {
		lock, err := db.lockHere()
		moved, here := false, error(nil)
		switch {
		case err == nil:
			moved, here = db.unfence()
		case db.sharing(): // that directory may have been removed
			moved, here = db.FS.Moved()
		}
		if here == nil && !moved {
			return lock, err
		}
		if err == nil {
			here = errors.Join(here, lock.Close())
		}
		if here == nil {
			here = db.FS.Reopen()
		}
		if here != nil {
			return nil, here
		}
	}
}

func (db *Engine) lockHere() (*vfs.Lock, error) {
	if db.Opts.ReadOnly || db.sharing() {
		return db.FS.Lock(LockName, !db.Opts.ReadOnly)
	}
	return db.FS.LockAlone(LockName)
}

// takeLead lets other processes find this one.
func (db *Engine) takeLead(lock *vfs.Lock) {
	if db.Opts.OnLead != nil && !db.Opts.OnLead(db) {
		lock.Alone()
	}
}

func (db *Engine) abandon() {
	if db.Opts.OnAbandon != nil {
		db.Opts.OnAbandon()
	}
}

// openMeta opens meta.bolt. If processes that followed an earlier leader still read it, or read it
// before anybody led, it leaves the file to them and opens a copy, unless it is to keep others out.
// The lock of the database is held.
func (db *Engine) openMeta(o meta.Options) (*meta.Store, error) {
	o.Shared = db.sharing()
	store, err := meta.Open(db.FS, MetaName, o)
	if !errors.Is(err, vfs.ErrLocked) || o.ReadOnly || !o.Shared {
		return store, err
	}
	if err := meta.Copy(db.FS, MetaName); err != nil {
		return nil, err
	}
	return meta.Open(db.FS, MetaName, o)
}

// NewFollower prepares an engine without a version. Adopt gives it the first one.
func NewFollower(dir string, opts Options) (_ *Engine, err error) {
	db := newEngine(dir, opts)
	db.role.Store(uint32(Follower))
	if db.FS, err = vfs.Open(dir, opts.Hook); err != nil {
		return nil, errors.Join(err, db.release())
	}
	return db, nil
}

// A Record is one batch of the log.
type Record struct {
	LSN  uint64
	Data []byte
	// Replaced are the DocNums that its puts and deletes replace, a uvarint for each, 0 for none,
	// if Resolved is set. Otherwise they are looked up.
	Replaced []byte
	Resolved bool
}

// Adopt makes a root of meta.bolt and the records after it the current version, in a process that
// has joined a leader. The records must begin at the batch after the root or before it, and have no
// gap. Readers see the version before until all is ready. meta.ErrRoot says that the leader has a
// newer root meanwhile. One goroutine at a time calls Adopt, AdoptNext, Receive and Freeze.
func (db *Engine) Adopt(root Root, records []Record) error {
	_ = db.CatchUp() // on an error, records has the batches as well
	batches, err := readRecords(records)
	if err != nil {
		return err
	}
	return db.adopt(root, batches, false)
}

// AdoptNext is Adopt for the next root of the same leader. The records after it were received.
func (db *Engine) AdoptNext(root Root) error {
	if err := db.CatchUp(); err != nil {
		return err
	}
	r := &db.shared.received
	r.mu.Lock()
	since := r.since
	r.mu.Unlock()
	var batches []logBatch
	for _, some := range since {
		if some[len(some)-1].lsn > root.Applied {
			batches = append(batches, some...)
		}
	}
	return db.adopt(root, batches, true)
}

// Freeze begins a new head when the leader has frozen its own after a batch, and keeps the rows of
// the one before until a root has them. Without that, all batches after the root would have to be
// applied once more.
func (db *Engine) Freeze(lsn uint64) error {
	if err := db.CatchUp(); err != nil {
		return err
	}
	db.CommitMu.Lock()
	defer db.CommitMu.Unlock()
	r := &db.shared.received
	if db.Cur == nil || db.Cur.LSN != lsn || r.frozen != nil || db.Active.empty() {
		return nil // AdoptNext applies the batches again
	}
	r.frozen, r.split, db.Active = db.Active, lsn, newHead()
	return nil
}

// keepHead makes what the head has after a root the whole head, and reports whether it could: the
// root must end where the head begins, or where it was split. CommitMu is held.
func (db *Engine) keepHead(root Root) bool {
	r := &db.shared.received
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
func (db *Engine) adopt(root Root, batches []logBatch, kept bool) error {
	db.MetaMu.Lock()
	defer db.MetaMu.Unlock()
	if err := db.Begin(); err != nil {
		return err
	}
	defer db.End()
	first := db.Cur == nil
	err := db.replace(func() (*meta.Store, error) {
		store, err := meta.Open(db.FS, MetaName, meta.Options{Root: root.Tx})
		if err != nil {
			return nil, err
		}
		// A later leader may have opened the file before this process did, and knows nothing of it.
		// It has put its token into the file of the lock before.
		if token, err := db.FS.LockToken(LockName); err != nil || token == "" || token != root.Leader {
			return nil, errors.Join(meta.ErrRoot, err, store.Close())
		}
		db.Mu.Lock()
		db.shared.roots[store] = root
		db.Mu.Unlock()
		db.CommitMu.Lock()
		kept = kept && db.keepHead(root)
		db.CommitMu.Unlock()
		if !kept {
			db.reset()
		}
		if err := db.load(store); err != nil {
			db.Mu.Lock()
			defer db.Mu.Unlock()
			db.closeStore(store)
			return nil, err
		}
		if db.State.DB != root.DB || db.State.Applied != root.Applied {
			return nil, &fileformat.CorruptError{File: MetaName, Offset: -1,
				Err: fmt.Errorf("has batch %d of database %x, the leading process %d of %x",
					db.State.Applied, db.State.DB, root.Applied, root.DB)}
		}
		db.CommitMu.Lock()
		defer db.CommitMu.Unlock()
		batches, err = db.replayAll(batches, kept)
		return store, err
	})
	if err != nil {
		return err
	}
	db.CommitMu.Lock()
	db.shared.received.applied = root.Applied
	db.CommitMu.Unlock()
	db.shared.received.restart(batches)
	db.role.Store(uint32(Follower)) // it may have been a Reader
	db.Opts.Logger.Debug("took a root of the leader", "dir", db.Dir, "lsn", db.Cur.LSN, "applied", root.Applied,
		"segments", len(db.Segments))
	if first {
		db.Background.start(db)
	}
	return nil
}

// restart forgets the records: a version has been loaded that has all of them, those since its root
// as batches.
func (r *received) restart(since []logBatch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records, r.bytes, r.memory, r.err, r.since = nil, 0, nil, nil, nil
	if len(since) > 0 {
		r.since = [][]logBatch{since}
	}
	r.waiting.Store(false)
}

// Receive takes the next batches of the leader. They are in the version that a later call gets. The
// memory of the records stays with the caller.
func (db *Engine) Receive(records []Record) error {
	r := &db.shared.received
	r.mu.Lock()
	for _, record := range records {
		record.Data, record.Replaced = r.copied(record.Data), r.copied(record.Replaced)
		r.records = append(r.records, record)
		r.bytes += len(record.Data)
		r.last = record.LSN
	}
	r.waiting.Store(true)
	full := r.bytes > maxReceived
	r.mu.Unlock()
	if full {
		return db.CatchUp()
	}
	return nil
}

// copied returns a copy of b. mu is held.
func (r *received) copied(b []byte) []byte {
	if cap(r.memory)-len(r.memory) < len(b) {
		r.memory = make([]byte, 0, max(len(b), min(2*cap(r.memory), maxReceived), leastReceived))
	}
	at := len(r.memory)
	r.memory = append(r.memory, b...)
	return r.memory[at:len(r.memory):len(r.memory)]
}

// take returns the records that wait and their memory, or the reason why they cannot be applied.
func (r *received) take() (records []Record, memory []byte, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	records, memory = r.records, r.memory
	r.records, r.bytes, r.memory = nil, 0, nil
	return records, memory, r.err
}

// done notes that the records of take are in the version, as batches, or why they are not. Their
// memory is used again.
func (r *received) done(batches []logBatch, records []Record, memory []byte, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err = err; len(batches) > 0 {
		r.since = append(r.since, batches)
	}
	if err == nil && r.records == nil && cap(memory) <= maxReceived {
		clear(records)
		r.records, r.memory = records[:0], memory[:0]
	}
	r.waiting.Store(err != nil || len(r.records) > 0)
}

// CatchUp makes all batches visible that were received.
func (db *Engine) CatchUp() error {
	r := &db.shared.received
	if !r.waiting.Load() {
		return nil
	}
	if err := db.Begin(); err != nil {
		return err
	}
	defer db.End()
	db.CommitMu.Lock()
	defer db.CommitMu.Unlock()
	records, memory, err := r.take()
	var batches []logBatch
	if err == nil && len(records) > 0 {
		if batches, err = readRecords(records); err == nil {
			batches, err = db.replayAll(batches, false)
		}
		if err != nil {
			batches = nil
			db.Opts.Upstream.Broken(err)
		}
	}
	r.done(batches, records, memory, err)
	return err
}

// replayAll replays batches and returns them without those that this process has: a root came after
// them. kept says that the head has them. CommitMu is held.
func (db *Engine) replayAll(batches []logBatch, kept bool) ([]logBatch, error) {
	last := db.tip().LSN
	for len(batches) > 0 && batches[0].lsn <= last {
		batches = batches[1:]
	}
	for i := range batches {
		if lsn := batches[i].lsn; lsn != last+1 {
			return nil, BadBatch(lsn, fmt.Errorf("comes after batch %d", last))
		}
		last++
	}
	for rest := batches; len(rest) > 0; {
		var err error
		if rest, err = db.replayTogether(rest, kept); err != nil {
			return nil, err
		}
	}
	return batches, nil
}

// Retry looks for derived files that were absent: the leader has made some.
func (db *Engine) Retry() {
	db.Mu.Lock()
	defer db.Mu.Unlock()
	for s := range db.Mapped {
		for _, d := range s.Derived {
			d.retry()
		}
	}
}

// Decide runs decide on the newest version.
func (db *Engine) Decide(decide func(*Group) ([]Op, error)) (ops []Op, err error) {
	if err := db.CatchUp(); err != nil {
		return nil, err
	}
	db.CommitMu.Lock()
	defer db.CommitMu.Unlock()
	g := newGroup(db)
	err = db.Guard(func() (err error) {
		ops, err = decide(g)
		return err
	})
	return ops, err
}

// forward sends a request to the leader. done is false if this process may lead now.
func (db *Engine) forward(ctx context.Context, r *request) (done bool, err error) {
	if err := db.Begin(); err != nil {
		return true, err
	}
	defer db.End()
	var decide func() ([]Op, error)
	if r.decide != nil {
		decide = func() ([]Op, error) { return db.Decide(r.decide) }
	}
	r.deleted, done, err = db.Opts.Upstream.Forward(ctx, r.ops, r.size, decide)
	return done, err
}

// left reports a store of a follower that is closed; Mu is held.
func (db *Engine) left(s *meta.Store) {
	if root, ok := db.shared.roots[s]; ok {
		delete(db.shared.roots, s)
		db.Opts.Upstream.Left(root)
	}
}

// TryLead makes a follower the leader. It fails with ErrLocked, and the engine stays a follower,
// while another process leads. It recovers the files of the leader before, as Open does. Readers go
// on with the version before.
func (db *Engine) TryLead() error {
	if err := db.Begin(); err != nil {
		return err
	}
	defer db.End()
	lock, err := db.takeLock()
	if err != nil {
		return Translate(err)
	}
	start, o := time.Now(), db.logOptions()
	db.catchUpLast()
	db.lock.Store(lock)
	db.setWrites(true)
	db.takeLead(lock)
	tail, err := db.inherit(o)
	if err == nil {
		if err = db.startLog(o, tail, true); err != nil {
			err = errors.Join(err, db.retreat())
		}
	}
	if err != nil {
		db.setWrites(false)
		db.abandon()
		db.lock.Store(nil)
		return errors.Join(err, lock.Close())
	}
	db.shared.received.restart(nil)
	db.Retry()        // the leader before may have replaced files
	lsn := db.Cur.LSN // before anybody else publishes versions
	db.Background.lead(db)
	db.role.Store(uint32(Leader))
	db.Opts.Logger.Info("leads", "dir", db.Dir, "lsn", lsn, "took", time.Since(start))
	return nil
}

// catchUpLast applies the last records of a leader that has ended. The files have all of them, but
// after a flush they do not tell whose writes these were.
func (db *Engine) catchUpLast() {
	if err := db.CatchUp(); err != nil {
		db.Opts.Logger.Warn("cannot apply the last batches of the leader, reading the files", "error", err)
	}
}

// inherit loads the files of the leader before.
func (db *Engine) inherit(o wal.Options) (tail wal.Tail, err error) {
	db.MetaMu.Lock()
	defer db.MetaMu.Unlock()
	err = db.replace(func() (store *meta.Store, err error) {
		store, tail, err = db.loadAgain(meta.Options{Trusted: true}, o)
		return store, err
	})
	return tail, err
}

// loadAgain loads the files and replays the log. The lock of the database and MetaMu are held.
func (db *Engine) loadAgain(m meta.Options, o wal.Options) (store *meta.Store, tail wal.Tail, err error) {
	if store, err = db.openMeta(m); err != nil {
		return nil, tail, err
	}
	db.reset()
	if err := db.load(store); err != nil {
		return nil, tail, errors.Join(err, store.Close())
	}
	if !m.ReadOnly {
		err = db.sweep()
	}
	if err == nil {
		tail, err = db.replayLog(o)
	}
	return store, tail, err
}

// retreat makes a follower again of a process that has begun to lead and cannot. Others may write
// meta.bolt from now on, so it is opened for reading.
func (db *Engine) retreat() error {
	db.MetaMu.Lock()
	defer db.MetaMu.Unlock()
	err := db.endWriting()
	return errors.Join(err, db.replace(func() (*meta.Store, error) {
		store, _, err := db.loadAgain(meta.Options{ReadOnly: true, Trusted: true}, db.logOptions())
		return store, err
	}))
}

// endWriting gives up the log and the head that is being flushed. Nobody may be writing.
func (db *Engine) endWriting() error {
	db.CommitMu.Lock()
	defer db.CommitMu.Unlock()
	if db.Frozen != nil {
		db.Drop(db.frozenAt)
		db.Frozen, db.frozenAt, db.flushErr = nil, nil, nil
	}
	if log := db.Log.Swap(nil); log != nil {
		return log.Close()
	}
	return nil
}

// setWrites notes whether this process may write.
func (db *Engine) setWrites(may bool) {
	db.Mu.Lock()
	defer db.Mu.Unlock()
	db.writes = may
}

// Fresh reports whether no process has led since this one, which reads alone, has read the files.
// Whoever leads takes the lock first.
func (db *Engine) Fresh() (bool, error) {
	read := db.shared.mark.Load()
	if read == nil { // a published folder, which nobody leads
		return db.Folder != nil, nil
	}
	if moved, err := db.FS.Moved(); moved || err != nil {
		return false, err
	}
	mark, err := db.FS.LockMark(LockName)
	return err == nil && mark == *read, err
}

// Reload loads the files again in a process that only reads, once a leader has ended. It fails with
// ErrLocked while another process leads.
func (db *Engine) Reload() error {
	db.MetaMu.Lock()
	defer db.MetaMu.Unlock()
	if err := db.Begin(); err != nil {
		return err
	}
	defer db.End()
	lock, err := db.takeLock()
	if err != nil {
		return Translate(err)
	}
	db.catchUpLast()
	mark, err := lock.Mark()
	if err == nil {
		err = db.replace(func() (*meta.Store, error) {
			store, _, err := db.loadAgain(meta.Options{ReadOnly: true, Trusted: true}, db.logOptions())
			return store, err
		})
	}
	if err == nil {
		db.shared.received.restart(nil)
		db.Retry() // a leader may have made files
		db.shared.mark.Store(&mark)
		db.role.Store(uint32(Reader))
		db.Opts.Logger.Info("reads alone", "dir", db.Dir, "lsn", db.Cur.LSN, "segments", len(db.Segments))
	}
	return errors.Join(err, lock.Close())
}

// Alone runs fn while no process can lead, if this one reads the newest state of the files.
// Otherwise it returns false.
func (db *Engine) Alone(fn func() error) (alone bool, err error) {
	if !db.sharing() {
		return true, fn() // Open has excluded leaders
	}
	lock, err := db.FS.Lock(LockName, false)
	if errors.Is(err, vfs.ErrLocked) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if moved, err := db.FS.Moved(); err != nil || moved {
		return false, err
	}
	db.MetaMu.Lock()
	store := db.Store
	db.MetaMu.Unlock()
	if newest, err := store.Newest(); err != nil || !newest {
		return false, err
	}
	return true, fn()
}

// CheckLog reads the log from the first batch that is not flushed (I5: no hole; frames whole), and
// returns the damage in it, while writers pause. err says that it could not be read: it matches
// ErrLocked if another process may write the log. Ask that one.
func (db *Engine) CheckLog(ctx context.Context) (damage, err error) {
	if db.Leads() {
		if err := db.CheckLead(); err != nil {
			return nil, err
		}
		return db.readLog(ctx, true)
	}
	if damage, err = db.readLog(ctx, false); db.Folder != nil {
		return damage, err
	}
	// To keep leaders away while a long log is read would make their Open fail. It is read again
	// for damage only.
	alone, unsure := db.Alone(func() (err error) {
		if damage != nil {
			damage, err = db.readLog(ctx, false)
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
func (db *Engine) readLog(ctx context.Context, leads bool) (damage, err error) {
	db.MetaMu.Lock() // keeps log files from being removed
	defer db.MetaMu.Unlock()
	db.CommitMu.Lock() // keeps batches from being written
	defer db.CommitMu.Unlock()
	if leads {
		if err := db.mayWrite(); err != nil {
			return nil, err
		}
	}
	_, damage = wal.Replay(wal.Options{FS: db.Files(), DB: db.State.DB}, db.Cur.Applied,
		func(_ uint64, b []byte) error {
			_, err := DecodeRecord(b)
			return errors.Join(err, ctx.Err())
		})
	return damage, nil
}

// Look sets a function that every call runs first, and whose error ends the call; nil ends that. A
// process that has begun to lead meanwhile is found there.
func (db *Engine) Look(look func(context.Context) error) {
	if look == nil {
		db.shared.look.Store(nil)
		return
	}
	db.shared.look.Store(&look)
}

// reset empties the head, for a version that is loaded again.
func (db *Engine) reset() {
	db.CommitMu.Lock()
	defer db.CommitMu.Unlock()
	db.Active, db.shared.received.frozen = newHead(), nil
}
