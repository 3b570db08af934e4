package db

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment"
	"github.com/vecbolt/vecbolt/wal"
)

// The names inside a database directory.
const (
	lockName = "LOCK"
	metaName = "meta.bolt"
	sumsName = "meta.sums"
	segDir   = "seg"
	walDir   = "wal"
	tmpDir   = "tmp"
)

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
	created := false
	if _, err := db.fs.Size(metaName); errors.Is(err, fs.ErrNotExist) {
		if err := db.create(); err != nil {
			return err
		}
		created = true
	} else if err != nil {
		return err
	}
	// Only a crash leaves log files behind. After a crash, meta.bolt is
	// verified before it is trusted.
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
		if err := db.upgrade(); err != nil {
			return err
		}
	}
	if err := db.recover(!created && !db.store.Sealed()); err != nil {
		return err
	}
	db.opts.Logger.Info("opened", "dir", db.dir, "lsn", db.cur.lsn, "segments", len(db.segments), "took", time.Since(start))
	db.background.start(db)
	return nil
}

// mayCreate decides whether to create a database in a directory without
// meta.bolt. It refuses if other files of a database are there, because then
// the root was lost and a new database would hide that. It also refuses a
// directory with foreign files, and fails with ErrNotFound if the options
// forbid creation.
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
	if err := layOut(db.fs); err != nil {
		return err
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

// layOut creates the missing directories of a database.
func layOut(f *vfs.FS) error {
	for _, dir := range []string{segDir, walDir, tmpDir} {
		if err := f.Mkdir(dir); err != nil {
			return err
		}
	}
	return nil
}

// makeDir creates dir and its parents and makes their names durable.
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

// load builds a version from meta.bolt and the segments. It reuses segments
// that are open already.
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
				defs[c.ID] = nil // dropped: its documents wait for removal
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

func (db *DB) wipe(dir string) error {
	names, err := db.fs.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := db.clear(dir + "/" + name); err != nil {
			return err
		}
	}
	return nil
}

// clear removes a file that a crash left. A directory with something in it does
// not belong to this database, whatever its name, and is left alone.
func (db *DB) clear(name string) error {
	err := db.fs.Remove(name)
	if err == nil {
		return nil
	}
	if _, derr := db.fs.ReadDir(name); derr != nil {
		return err
	}
	db.opts.Logger.Warn("a directory is in the place of a file, and is left alone", "name", name)
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

// recover replays the part of the log that meta.bolt and the segments lack. A
// writer flushes it before it serves, so that nothing durable is built on bytes
// that may exist in the page cache only. It also commits once if the database
// was not closed (unclean): an interrupted commit may have overwritten pages of
// the older root, which must be valid in case the newest root decays.
func (db *DB) recover(unclean bool) error {
	// Starting a log file takes a few syncs, so a file should last for many writes.
	// Released files are reused instead of created: enough files for a full head
	// are kept.
	o := wal.Options{FS: db.fs, DB: db.state.DB, FileSize: max(wal.FirstSize, db.opts.HeadSize/4)}
	o.Spares = int(2 * db.opts.HeadSize / o.FileSize)
	if !db.opts.ReadOnly {
		if err := db.syncLog(); err != nil {
			return err
		}
	}
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
	if tail.Torn || tail.Files > 0 || !db.active.empty() || db.store.Torn() || unclean {
		db.opts.Logger.Info("recovered", "lsn", db.cur.lsn, "files", tail.Files, "torn", tail.Torn)
		return db.settle()
	}
	return nil
}

// syncLog makes durable what a killed writer left in the page cache only.
// Replayed batches are flushed, and a segment must not outlive the log that
// explains it.
func (db *DB) syncLog() error {
	names, err := db.fs.ReadDir(walDir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".wal") {
			continue
		}
		f, err := db.fs.OpenRW(walDir + "/" + name)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// badBatch is the error for a batch of the log that does not fit or was written
// by a newer release.
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
