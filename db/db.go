package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment"
	"github.com/vecbolt/vecbolt/wal"
)

// A SyncPolicy says when an acknowledged write is safe from power loss. A
// write is safe from a killed process under every policy.
type SyncPolicy uint8

const (
	// SyncAlways makes a call that returned nil survive power loss. It is the
	// default. Writers that wait together share one fsync.
	SyncAlways SyncPolicy = iota
	// SyncInterval syncs every Options.SyncEvery: power loss costs at most
	// the writes of that long, always the newest ones, whole batches.
	SyncInterval
	// SyncNever leaves it to the operating system, to Flush and to Close.
	// Power loss costs the newest writes, whole batches.
	SyncNever
)

// String returns "always", "interval" or "never".
func (p SyncPolicy) String() string {
	switch p {
	case SyncAlways:
		return "always"
	case SyncInterval:
		return "interval"
	case SyncNever:
		return "never"
	}
	return fmt.Sprintf("SyncPolicy(%d)", uint8(p))
}

// Options tune a database. The zero value, like nil, is the default. Options
// are read by Open and never written to.
type Options struct {
	// ReadOnly opens without writing a byte. Any number of processes can have
	// a database open read-only while none has it open for writing. A folder
	// that a Publisher fills can be opened so at any time, and in no other way.
	ReadOnly bool
	// Follow, if positive, looks for a newer version of such a folder this
	// often, as Refresh does, and compares the content of every file with its
	// SHA-256 before it is used for the first time, by Open as well.
	Follow time.Duration
	// MustExist makes Open fail with ErrNotFound instead of creating.
	MustExist bool
	// Sync says when writes reach the disk.
	Sync SyncPolicy
	// SyncEvery is the period of SyncInterval; 0 means 100 ms.
	SyncEvery time.Duration
	// HeadSize is about how many bytes of new documents and vectors are kept
	// in memory, beside the log, before they are flushed to a segment; 0
	// means 64 MiB. Twice as much can be held while a flush runs.
	HeadSize int64
	// Workers is the number of goroutines that one search may use; 0 means
	// GOMAXPROCS.
	Workers int
	// NoBackgroundCompaction leaves compaction to calls of Compact.
	NoBackgroundCompaction bool
	// NoRecheck leaves out the check of promises: else a few of the queries that
	// a graph answers are repeated, exactly, when a processor is idle, on one
	// goroutine and for about a hundredth of its time. See CollectionStats.Recall.
	NoRecheck bool
	// Logger receives one line per open, flush, compaction, repair of derived
	// data and close. nil is silent.
	Logger *slog.Logger

	hook          vfs.Hook      // faults and traces, for tests
	codedBytes    int64         // see the constant
	worthHelp     time.Duration // see the constant
	graphSize     int64         // see the constant
	recheckEvery  int           // see the constant
	recheckByHand bool          // by rechecks.drain, not in the background
	walkAlways    bool          // search graphs even where scans cost less
}

func (o Options) withDefaults() Options {
	o.SyncEvery = cmp.Or(o.SyncEvery, 100*time.Millisecond)
	o.HeadSize = cmp.Or(o.HeadSize, 64<<20)
	o.codedBytes = cmp.Or(o.codedBytes, codedBytes)
	o.worthHelp = cmp.Or(o.worthHelp, worthHelp)
	o.graphSize = cmp.Or(o.graphSize, graphSize)
	o.recheckEvery = cmp.Or(o.recheckEvery, recheckEvery)
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

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
	running int                       // calls that Close waits for
	idle    *sync.Cond                // signals running == 0
	failed  error
	closed  bool

	// Pointers, because the runtime keeps every sync.Pool over two collections of
	// garbage, and would keep a closed database with it.
	walkers  *sync.Pool // of *walker
	scratch  *sync.Pool // of *scratch
	ids      knownIDs
	rechecks *rechecks

	background background
	following  *following             // nil unless the directory is a published folder
	names      atomic.Pointer[vfs.FS] // with the names of the newest version of it
}

// The names inside a database directory.
const (
	lockName = "LOCK"
	metaName = "meta.bolt"
	sumsName = "meta.sums"
	segDir   = "seg"
	walDir   = "wal"
	tmpDir   = "tmp"
)

// Open opens the database in directory dir, and creates it unless it exists.
// It fails at once with ErrLocked when another process excludes this one.
// After a crash, Open recovers: what was acknowledged is there.
func Open(dir string, opts *Options) (*DB, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	db := &DB{
		walkers: &sync.Pool{}, scratch: &sync.Pool{},
		dir: dir, opts: o.withDefaults(),
		active: newHead(), live: map[*version]struct{}{}, mapped: map[*openSegment]struct{}{},
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

func (db *DB) open() (err error) {
	start := time.Now()
	if db.dir == "" {
		return invalidf("the name of the directory is empty")
	}
	if !db.opts.ReadOnly && !db.opts.MustExist {
		if err := makeDir(db.dir); err != nil {
			return err
		}
	}
	if db.fs, err = vfs.Open(db.dir, db.opts.hook); err != nil {
		return err
	}
	if _, err := db.fs.Size(metaName); errors.Is(err, fs.ErrNotExist) {
		if published, err := db.isPublished(); err != nil {
			return err
		} else if published {
			return db.openPublished(start)
		}
		if err := db.mayCreate(); err != nil {
			return err
		}
	} else if err != nil {
		return err
	} else if db.opts.Follow > 0 {
		return invalidf("directory %q is a database, not a published folder", db.dir)
	}
	if db.lock, err = db.fs.Lock(lockName, !db.opts.ReadOnly); err != nil {
		return err
	}
	if _, err := db.fs.Size(metaName); errors.Is(err, fs.ErrNotExist) {
		if err := db.create(); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	// Log files are left behind by a crash only: then nothing is believed
	// without a look.
	crashed, err := db.hasLog()
	if err != nil {
		return err
	}
	if db.store, err = meta.Open(db.fs, metaName, meta.Options{ReadOnly: db.opts.ReadOnly, Verify: crashed}); err != nil {
		return err
	}
	if err := db.load(db.store); err != nil {
		return err
	}
	if !db.opts.ReadOnly {
		if err := db.sweep(); err != nil {
			return err
		}
	}
	if err := db.recover(); err != nil {
		return err
	}
	db.opts.Logger.Info("opened", "dir", db.dir, "lsn", db.cur.lsn, "segments", len(db.segments), "took", time.Since(start))
	db.background.start(db)
	return nil
}

// mayCreate refuses to make an empty database, or to call it not there, where
// one has lost its root, and to make one in a directory full of something else.
func (db *DB) mayCreate() error {
	names, err := db.fs.ReadDir(".")
	if err != nil {
		return err
	}
	if slices.Contains(names, manifestDir) && !db.opts.ReadOnly {
		return fmt.Errorf("%w: directory %q is a published folder", ErrReadOnly, db.dir)
	}
	other := ""
	for _, name := range names {
		left := "" // a file of a database
		switch {
		case name == segDir || name == walDir:
			files, err := db.fs.ReadDir(name)
			if err != nil {
				return err
			}
			if len(files) > 0 {
				left = name + "/" + files[0]
			}
		case name == sumsName:
			left = name
		case name == lockName || name == tmpDir || strings.HasPrefix(name, "."):
		default:
			other = name
		}
		if left != "" {
			return &CorruptError{File: metaName, Offset: -1, Err: fmt.Errorf("missing, but %s is there", left)}
		}
	}
	switch {
	case db.opts.ReadOnly || db.opts.MustExist:
		return fmt.Errorf("%w: %s is not there", ErrNotFound, metaName)
	case other != "":
		return invalidf("directory %q holds %q and no database", db.dir, other)
	}
	return nil
}

func (db *DB) create() error {
	for _, dir := range []string{segDir, walDir, tmpDir} {
		if err := db.fs.Mkdir(dir); err != nil {
			return err
		}
	}
	if err := db.wipe(tmpDir); err != nil {
		return err
	}
	const fresh = tmpDir + "/" + metaName
	store, err := meta.Open(db.fs, fresh, meta.Options{Create: true, DB: uuid.New()})
	if err != nil {
		return err
	}
	if err := store.Close(); err != nil {
		return err
	}
	if err := db.fs.Rename(fresh, metaName); err != nil {
		return err
	}
	return db.fs.SyncDir(".")
}

// makeDir creates dir and makes its entry in its parent durable.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	parent := filepath.Dir(filepath.Clean(dir))
	if err := makeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := vfs.Open(parent, nil)
	if err != nil {
		return err
	}
	return errors.Join(f.SyncDir("."), f.Close())
}

func (db *DB) hasLog() (bool, error) {
	names, err := db.fs.ReadDir(walDir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, ".wal") }), err
}

// load builds a version from meta.bolt and the segments, of which those that
// are open are not opened again.
func (db *DB) load(store *meta.Store) (err error) {
	v := &version{views: map[uint32]*view{}, names: map[string]uint32{}}
	type stored struct {
		info segment.Info
		dead map[int][]uint64
	}
	var segments []stored
	var state meta.State
	defs := map[uint32]*definition{}
	err = store.View(func(tx *meta.Tx) (err error) {
		if state, err = tx.State(); err != nil {
			return err
		}
		colls, err := tx.Collections()
		if err != nil {
			return err
		}
		for _, c := range colls {
			if c.Name == "" {
				defs[c.ID] = nil // dropped, its documents wait for removal
				continue
			}
			def, err := decodeDefinition(c.ID, c.Schema)
			if err != nil {
				return &CorruptError{File: metaName, Offset: -1, Err: err}
			}
			defs[c.ID] = def
			v.names[def.name] = c.ID
			v.views[c.ID] = &view{def: def, count: int(c.IDs)}
		}
		infos, err := tx.Segments()
		if err != nil {
			return err
		}
		for _, info := range infos {
			dead, err := tx.DeadChunks(info.ID)
			if err != nil {
				return err
			}
			segments = append(segments, stored{info, dead})
		}
		return nil
	})
	if err != nil {
		return err
	}
	ids := &db.ids
	if db.cur == nil {
		db.state = state
	} else {
		ids = new(knownIDs)
	}
	open, fresh := map[uint64]*openSegment{}, []*openSegment(nil)
	defer func() {
		if err != nil {
			for _, s := range fresh {
				db.unmap(s)
			}
		}
	}()
	for _, s := range segments {
		w := v.views[s.info.Collection]
		if w == nil {
			return &CorruptError{File: metaName, Offset: -1,
				Err: fmt.Errorf("segment %d belongs to unknown collection %d", s.info.ID, s.info.Collection)}
		}
		dead := bitset.FromChunks(s.dead)
		seg := db.segments[s.info.ID]
		if seg == nil || seg.info != s.info {
			if seg, err = db.openSegment(s.info, w.def.schema.Metric, dead); err != nil {
				return err
			}
			fresh = append(fresh, seg)
		}
		open[s.info.ID] = seg
		w.parts = append(w.parts, seg.part(dead))
	}
	v.lsn, v.applied, v.nextNum = state.Applied, state.Applied, state.NextDoc
	db.nextNum, db.nextColl = state.NextDoc, state.NextCollection
	db.segments, db.stored = open, defs
	v.files = newFileSet(store, ids, open)
	db.publish(v)
	return nil
}

// sweep removes what a crash left behind: temporary files and segments that
// nothing names. Files that are not ours are left alone.
func (db *DB) sweep() error {
	for _, dir := range []string{segDir, walDir, tmpDir} {
		if err := db.fs.Mkdir(dir); err != nil {
			return err
		}
	}
	if err := db.wipe(tmpDir); err != nil {
		return err
	}
	names, err := db.fs.ReadDir(segDir)
	if err != nil {
		return err
	}
	for _, name := range names {
		id, _, ok := parseSegmentName(name)
		if !ok || db.segments[id] != nil || slices.Contains(db.state.Obsolete, id) {
			continue
		}
		db.opts.Logger.Info("removing leftover", "file", segDir+"/"+name)
		if err := db.fs.Remove(segDir + "/" + name); err != nil {
			return err
		}
	}
	return nil
}

func (db *DB) wipe(dir string) error {
	names, err := db.fs.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := db.fs.Remove(dir + "/" + name); err != nil {
			return err
		}
	}
	return nil
}

// parseSegmentName splits "0000002a.vec" into 42 and ".vec".
func parseSegmentName(name string) (id uint64, ext string, ok bool) {
	hex, ext, _ := strings.Cut(name, ".")
	if ext != "vec" && !slices.Contains(derivedExts, ext) {
		return 0, "", false
	}
	if _, err := fmt.Sscanf(hex, "%x", &id); err != nil || segment.FileName(id) != segDir+"/"+hex+".vec" {
		return 0, "", false
	}
	return id, "." + ext, true
}

// recover brings back, from the log, what meta.bolt and the segments do not
// have. A writer flushes it before serving, so that nothing durable is built
// on bytes that may exist in the page cache only.
func (db *DB) recover() error {
	// Released files are written again rather than made anew: as many are
	// kept as a full head takes.
	o := wal.Options{FS: db.fs, DB: db.state.DB, FileSize: max(minLogFile, db.opts.HeadSize/4)}
	o.Spares = int(2 * db.opts.HeadSize / o.FileSize)
	tail, err := wal.Replay(o, db.state.Applied, db.replay)
	if err != nil {
		return err
	}
	if db.opts.ReadOnly {
		return nil
	}
	if db.log, err = wal.Create(o, db.cur.lsn+1, db.cur.lsn); err != nil {
		return err
	}
	if tail.Torn || tail.Files > 0 || !db.active.empty() || db.store.Torn() {
		db.opts.Logger.Info("recovered", "lsn", db.cur.lsn, "files", tail.Files, "torn", tail.Torn)
		return db.settle()
	}
	return nil
}

// minLogFile is the least size of a log file, in bytes. To begin one takes a
// few syncs, so that it should last for many writes.
const minLogFile = 4 << 20

// badBatch is the error for a batch of the log that does not fit, or that a
// newer release wrote.
func badBatch(lsn uint64, err error) error {
	err = fmt.Errorf("batch %d: %w", lsn, err)
	if errors.Is(err, ErrVersion) {
		return err
	}
	return &CorruptError{File: walDir, Offset: -1, Err: err}
}

// replay applies one log record.
func (db *DB) replay(lsn uint64, record []byte) error {
	first, ops, err := decodeRecord(record)
	if err != nil {
		return badBatch(lsn, err)
	}
	db.commitMu.Lock()
	full := !db.opts.ReadOnly && db.active.bytes >= db.opts.HeadSize
	db.commitMu.Unlock()
	if full {
		if err := db.flush(); err != nil {
			return err
		}
	}
	db.commitMu.Lock()
	defer db.commitMu.Unlock()
	g := newGroup(db)
	if first != g.nextNum {
		return badBatch(lsn, fmt.Errorf("begins with docnum %d, expected %d", first, g.nextNum))
	}
	err = db.read(g.base, func(tx *meta.Tx) error {
		g.tx = tx
		for i := range ops {
			o := &ops[i]
			switch o.kind {
			case opDefine:
				g.defs[o.coll] = o.def
				g.nextID = max(g.nextID, o.coll+1)
				continue
			case opDrop:
				g.defs[o.coll] = nil
				continue
			}
			if g.defs[o.coll] == nil && g.base.views[o.coll] == nil {
				return badBatch(lsn, fmt.Errorf("writes to unknown collection %d", o.coll))
			}
			var err error
			if o.old, _, err = g.current(o.coll, o.id); err != nil {
				return err
			}
			if o.kind == opPut {
				g.nextNum = o.num + 1
			}
			g.own[docKey{o.coll, o.id}] = o
		}
		return nil
	})
	if err != nil {
		return err
	}
	return db.guard(func() error {
		g.apply(ops)
		g.publish(lsn)
		return nil
	})
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
		db.failed = fmt.Errorf("%w: %w", ErrUnknown, err)
		db.opts.Logger.Error("disk failed, refusing writes until reopened", "error", err)
	}
	return db.failed
}

// err returns why writes are refused, if they are.
func (db *DB) err() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.failed
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
