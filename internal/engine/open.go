package engine

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
	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment"
	"github.com/vecbolt/vecbolt/wal"
)

// Memory is the directory of a database that lives in memory.
const Memory = ":memory:"

// The names inside a database directory.
const (
	LockName   = "LOCK"
	SocketName = "leader.sock"
	MetaName   = "meta.bolt"
	SumsName   = "meta.sums"
	TallyName  = "recall.tally" // measured recalls
	SegDir     = "seg"
	WALDir     = "wal"
	TmpDir     = "tmp"
	Unfinished = ".unfinished" // in the directory of a backup or repair until it is a database
)

func (e *Engine) open() (err error) {
	start := time.Now()
	if err := e.openFS(); err != nil {
		return err
	}
	if _, err := e.FS.Size(MetaName); errors.Is(err, fs.ErrNotExist) {
		if published, err := e.isPublished(); err != nil {
			return err
		} else if published {
			return e.openPublished(start)
		}
		if err := e.mayCreate(); err != nil {
			if _, absent := e.FS.Size(MetaName); absent != nil { // otherwise another process has made it since
				return err
			}
		}
	} else if err != nil {
		return err
	} else if e.Opts.Follow > 0 {
		return document.Invalidf("directory %q is a database, not a published folder", e.Dir)
	}
	lock, err := e.takeLock()
	if err != nil {
		return err
	}
	e.lock.Store(lock)
	if !e.Opts.ReadOnly {
		e.role.Store(uint32(Leader))
		e.setWrites(true)
		e.takeLead(lock)
	}
	created := false
	if _, err := e.FS.Size(MetaName); errors.Is(err, fs.ErrNotExist) {
		if err := e.create(); err != nil {
			return err
		}
		created = true
	} else if err != nil {
		return err
	}
	// Only a crash leaves log files behind. After a crash, meta.bolt is
	// verified before it is trusted.
	crashed, err := e.hasLog()
	if err != nil {
		return err
	}
	if e.store, err = e.openMeta(meta.Options{ReadOnly: e.Opts.ReadOnly, Verify: crashed}); err != nil {
		return err
	}
	if err := e.load(e.store); err != nil {
		return err
	}
	if !e.Opts.ReadOnly {
		if err := e.sweep(); err != nil {
			return err
		}
		if err := e.upgrade(); err != nil {
			return err
		}
	}
	if err := e.recover(!created && !e.store.Sealed()); err != nil {
		return err
	}
	if e.Opts.ReadOnly && e.sharing() {
		// Reads need no lock: a process that begins to lead goes on in a copy of meta.bolt and does
		// not change this one, segments are mapped, and the rows of the log are in memory.
		mark, err := lock.Mark()
		if err := errors.Join(err, lock.Close()); err != nil {
			return err
		}
		e.shared.mark.Store(&mark)
	}
	e.Opts.Logger.Info("opened", "dir", e.Dir, "lsn", e.cur.LSN, "segments", len(e.segments),
		"took", time.Since(start))
	e.background.start(e)
	return nil
}

// openFS opens the directory of the database, and makes it if it may.
func (e *Engine) openFS() (err error) {
	switch {
	case e.Dir == "":
		return document.Invalidf("the name of the directory is empty")
	case e.Dir == Memory:
		e.FS = vfs.NewMemory(e.Opts.Hook)
		return nil
	case !e.Opts.ReadOnly && !e.Opts.MustExist:
		if err := vfs.MakeDir(e.Dir, nil); err != nil {
			return err
		}
	}
	e.FS, err = vfs.Open(e.Dir, e.Opts.Hook)
	return err
}

// mayCreate decides whether to create a database in a directory without
// meta.bolt. It refuses if other files of a database are there, because then
// the root was lost and a new database would hide that, and the rest of an
// interrupted backup or repair. It also refuses a directory with foreign files,
// and fails with ErrNotFound if the options forbid creation.
func (e *Engine) mayCreate() error {
	names, err := e.FS.ReadDir(".")
	if err != nil {
		return err
	}
	if slices.Contains(names, ManifestDir) && !e.Opts.ReadOnly {
		return fmt.Errorf("%w: directory %q is a published folder", ErrReadOnly, e.Dir)
	}
	if err := RootLost(e.FS); err != nil {
		return err
	}
	other := ""
	for _, name := range names {
		switch {
		case name == SegDir || name == WALDir || name == LockName || name == FenceName || name == SocketName ||
			name == TmpDir || strings.HasPrefix(name, "."):
		default:
			other = name
		}
	}
	switch {
	case e.Opts.ReadOnly || e.Opts.MustExist:
		return fmt.Errorf("%w: %s is not there", ErrNotFound, MetaName)
	case other != "":
		return document.Invalidf("directory %q holds %q and no database", e.Dir, other)
	}
	return nil
}

// RootLost returns an error if a directory without meta.bolt holds other files of a database, or
// the rest of an interrupted backup or repair.
func RootLost(f *vfs.FS) error {
	names, err := f.ReadDir(".")
	if err != nil {
		return err
	}
	if slices.Contains(names, Unfinished) {
		return fmt.Errorf("%w: a backup or repair to this directory was interrupted, and %s is left: "+
			"remove the directory", ErrNotFound, Unfinished)
	}
	for _, name := range names {
		left := ""
		switch name {
		case SegDir, WALDir:
			files, err := f.ReadDir(name)
			if err != nil {
				return err
			}
			if len(files) > 0 {
				left = name + "/" + files[0]
			}
		case SumsName:
			left = name
		}
		if left != "" {
			return &fileformat.CorruptError{File: MetaName, Offset: -1,
				Err: fmt.Errorf("missing, but %s is there", left)}
		}
	}
	return nil
}

func (e *Engine) create() error {
	if err := LayOut(e.FS); err != nil {
		return err
	}
	if err := e.wipe(TmpDir); err != nil {
		return err
	}
	const fresh = TmpDir + "/" + MetaName
	store, err := meta.Open(e.FS, fresh, meta.Options{Create: true, DB: uuid.New()})
	if err != nil {
		return err
	}
	if err := store.Close(); err != nil {
		return err
	}
	if err := e.FS.Rename(fresh, MetaName); err != nil {
		return err
	}
	return e.FS.SyncDir(".")
}

// LayOut creates the missing directories of a database.
func LayOut(f *vfs.FS) error {
	for _, dir := range []string{SegDir, WALDir, TmpDir} {
		if err := f.Mkdir(dir); err != nil {
			return err
		}
	}
	return nil
}

// TopMissing returns the topmost of dir and its parents that does not exist, which vfs.MakeDir
// would make first; "" if dir exists.
func TopMissing(dir string) (top string) {
	missing := func(name string) bool { _, err := os.Lstat(name); return errors.Is(err, fs.ErrNotExist) }
	for up := filepath.Clean(dir); up != top && missing(up); up = filepath.Dir(up) {
		top = up
	}
	return top
}

// RemoveDirs removes dir and its parents up to top, which TopMissing gave before they were made. It
// leaves those that somebody else uses by now.
func RemoveDirs(dir, top string) error {
	if top == "" {
		return nil
	}
	for up := filepath.Clean(dir); ; up = filepath.Dir(up) {
		err := RemoveDir(up)
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		if err != nil || up == top {
			return err
		}
	}
}

// RemoveDir removes an empty directory that may be missing.
func RemoveDir(dir string) error {
	f, err := vfs.Open(filepath.Dir(dir), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err = f.Remove(filepath.Base(dir)); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

func (e *Engine) hasLog() (bool, error) {
	names, err := e.FS.ReadDir(WALDir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, ".wal") }), err
}

// load builds a version from meta.bolt and the segments. It reuses segments that are open already.
func (e *Engine) load(store *meta.Store) error {
	c, err := readCatalogue(store)
	if err != nil {
		return err
	}
	switch {
	case e.cur == nil:
		e.Identity = c.state.DB
	case e.Identity != c.state.DB: // its segments are sound, but not of this database
		e.replaced.Store(true)
		return fmt.Errorf("%w: %q has database %x now, not %x: open it again",
			ErrReplaced, e.Dir, c.state.DB, e.Identity)
	}
	e.replaced.Store(false)
	ids := &e.ids
	if e.folder == nil || e.cur == nil {
		e.state = c.state
	} else {
		ids = new(KnownIDs)
	}
	open, err := e.openSegments(c)
	if err != nil {
		return err
	}
	e.nextNum, e.nextColl = c.state.NextDoc, c.state.NextCollection
	e.outcomes.known(c.state.Applied)
	e.segments, e.stored = open, c.defs
	version := &Version{
		Views: c.views, Names: c.names, LSN: c.state.Applied, Applied: c.state.Applied, nextNum: c.state.NextDoc,
		Files: newFileSet(store, ids, open),
	}
	if e.folder != nil {
		version.ahead = e.folder.ahead
	}
	e.publish(version)
	return nil
}

// A catalogue is the part of meta.bolt that a version is built from.
type catalogue struct {
	state    meta.State
	defs     map[uint32]*Definition // nil: dropped, its documents wait for removal
	names    map[string]uint32
	views    map[uint32]*View // openSegments adds their parts
	segments []storedSegment
}

// A storedSegment is a segment as meta.bolt records it.
type storedSegment struct {
	info segment.Info
	dead map[int][]uint64 // see bitset.FromChunks
}

func readCatalogue(store *meta.Store) (*catalogue, error) {
	c := &catalogue{defs: map[uint32]*Definition{}, names: map[string]uint32{}, views: map[uint32]*View{}}
	return c, store.View(func(tx *meta.Tx) (err error) {
		if c.state, err = tx.State(); err != nil {
			return err
		}
		colls, err := tx.Collections()
		if err != nil {
			return err
		}
		for _, coll := range colls {
			if coll.Name == "" {
				c.defs[coll.ID] = nil
				continue
			}
			def, err := DecodeDefinition(coll.ID, coll.Schema)
			if err != nil {
				return &fileformat.CorruptError{File: MetaName, Offset: -1, Err: err}
			}
			c.defs[coll.ID] = def
			c.names[def.Name] = coll.ID
			c.views[coll.ID] = &View{Def: def, Count: int(coll.IDs)}
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
			c.segments = append(c.segments, storedSegment{info, dead})
		}
		return nil
	})
}

// openSegments opens the segments of a catalogue, except those that are open already, and adds them
// to its views. After an error, none is open that was not before.
func (e *Engine) openSegments(c *catalogue) (_ map[uint64]*OpenSegment, err error) {
	open, fresh := map[uint64]*OpenSegment{}, []*OpenSegment(nil)
	defer func() {
		if err != nil {
			for _, s := range fresh {
				e.unmap(s)
			}
		}
	}()
	for _, s := range c.segments {
		view := c.views[s.info.Collection]
		if view == nil {
			return nil, &fileformat.CorruptError{File: MetaName, Offset: -1,
				Err: fmt.Errorf("segment %d belongs to unknown collection %d", s.info.ID, s.info.Collection)}
		}
		dead := bitset.FromChunks(s.dead)
		seg := e.segments[s.info.ID]
		if seg == nil || seg.Info != s.info {
			if seg, err = e.openSegment(s.info, view.Def.Schema.Metric, dead); err != nil {
				return nil, err
			}
			fresh = append(fresh, seg)
		}
		seg.dead = dead
		open[s.info.ID] = seg
		view.Parts = append(view.Parts, seg.part(dead))
	}
	return open, nil
}

func (e *Engine) wipe(dir string) error {
	names, err := e.FS.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := e.clear(dir + "/" + name); err != nil {
			return err
		}
	}
	return nil
}

// clear removes a file that a crash left. A directory with something in it does
// not belong to this database, whatever its name, and is left alone.
func (e *Engine) clear(name string) error {
	err := e.FS.Remove(name)
	if err == nil {
		return nil
	}
	if _, derr := e.FS.ReadDir(name); derr != nil {
		return err
	}
	e.Opts.Logger.Warn("a directory is in the place of a file, and is left alone", "name", name)
	return nil
}

// ParseSegmentName splits "0000002a.vec" into 42 and ".vec".
func ParseSegmentName(name string) (id uint64, ext string, ok bool) {
	hex, ext, _ := strings.Cut(name, ".")
	if ext != "vec" && !slices.Contains(DerivedExts, ext) {
		return 0, "", false
	}
	if _, err := fmt.Sscanf(hex, "%x", &id); err != nil || segment.FileName(id) != SegDir+"/"+hex+".vec" {
		return 0, "", false
	}
	return id, "." + ext, true
}

// recover replays the part of the log that meta.bolt and the segments lack. A
// writer flushes it before it serves, so that nothing durable is built on bytes
// that may exist in the page cache only. It also commits once if the database
// was not closed (unclean): an interrupted commit may have overwritten pages of
// the older root, which must be valid in case the newest root decays.
func (e *Engine) recover(unclean bool) error {
	o := e.logOptions()
	tail, err := e.replayLog(o)
	if err != nil || e.Opts.ReadOnly {
		return err
	}
	return e.startLog(o, tail, unclean)
}

func (e *Engine) logOptions() wal.Options {
	// Starting a log file takes a few syncs, so a file should last for many writes.
	// Released files are reused instead of created: enough files for a full head
	// are kept.
	o := wal.Options{FS: e.FS, DB: e.Identity, FileSize: max(wal.FirstSize, e.Opts.HeadSize/4)}
	o.Spares = int(2 * e.Opts.HeadSize / o.FileSize)
	return o
}

func (e *Engine) replayLog(o wal.Options) (wal.Tail, error) {
	if !e.Opts.ReadOnly {
		if err := e.syncLog(); err != nil {
			return wal.Tail{}, err
		}
	}
	return wal.Replay(o, e.state.Applied, e.replay)
}

// startLog begins a new log behind the recovered one, and flushes the recovered batches.
func (e *Engine) startLog(o wal.Options, tail wal.Tail, unclean bool) error {
	log, err := wal.Create(o, e.cur.LSN+1, e.cur.LSN)
	if err != nil {
		return err
	}
	e.log.Store(log)
	if tail.Torn || tail.Files > 0 || !e.head.empty() || e.store.Torn() || unclean {
		e.Opts.Logger.Info("recovered", "lsn", e.cur.LSN, "files", tail.Files, "torn", tail.Torn)
		return e.Settle()
	}
	return nil
}

// syncLog makes writes durable that a killed writer left in the page cache only.
// Replayed batches are flushed, and a segment must not outlive the log that
// explains it.
func (e *Engine) syncLog() error {
	names, err := e.FS.ReadDir(WALDir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".wal") {
			continue
		}
		f, err := e.FS.OpenRW(WALDir + "/" + name)
		if errors.As(err, new(*vfs.NotRegularError)) {
			continue // the replay says whether it is in the place of a file that is needed
		}
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// BadBatch is the error for a batch of the log that does not fit or was written
// by a newer release.
func BadBatch(lsn uint64, err error) error {
	err = fmt.Errorf("batch %d: %w", lsn, err)
	if errors.Is(err, fileformat.ErrVersion) {
		return err
	}
	return &fileformat.CorruptError{File: WALDir, Offset: -1, Err: err}
}

// replay applies one record of the log.
func (e *Engine) replay(lsn uint64, record []byte) error {
	e.commitMu.Lock()
	full := e.Leads() && e.head.bytes >= e.Opts.HeadSize
	e.commitMu.Unlock()
	if full {
		if err := e.Flush(); err != nil {
			return err
		}
	}
	e.commitMu.Lock()
	defer e.commitMu.Unlock()
	batches, err := readRecords([]Record{{LSN: lsn, Data: record}})
	if err == nil {
		_, err = e.replayTogether(batches, false)
	}
	return err
}

// A logBatch is a batch of the log that becomes part of a version.
type logBatch struct {
	Batch
	lsn      uint64
	replaced []byte // Record.Replaced
	resolved bool   // Record.Resolved
	// settled says that the batch was in a version already: it knows which documents it replaces,
	// and shares the memory of the head instead of its record's.
	settled bool
}

// readRecords decodes records, whose memory the batches share.
func readRecords(records []Record) ([]logBatch, error) {
	batches := make([]logBatch, 0, len(records))
	room := make([]Op, 0, len(records)) // most batches have one
	for _, r := range records {
		b, err := readRecord(r.Data, room)
		if err != nil {
			return nil, BadBatch(r.LSN, err)
		}
		if n := len(b.Ops); n <= cap(room) {
			room = room[n:n]
		}
		batches = append(batches, logBatch{Batch: b, lsn: r.LSN, replaced: r.Replaced, resolved: r.Resolved})
	}
	return batches, nil
}

// replayTogether makes batches of the log visible in one version, and returns those that need
// another one: from the first one on that changes the collections. kept says that the head has the
// batches. commitMu is held.
func (e *Engine) replayTogether(batches []logBatch, kept bool) (rest []logBatch, err error) {
	n := 1
	for n < len(batches) && !batches[0].defines() && !batches[n].defines() {
		n++
	}
	batches, rest = batches[:n], batches[n:]
	g := newGroup(e)
	g.kept = kept
	again := func(tx *meta.Tx) error {
		g.tx = tx
		for i := range batches {
			if err := g.again(&batches[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if slices.ContainsFunc(batches, func(b logBatch) bool { return !b.resolved && !b.settled }) {
		err = e.Read(g.Base, again)
	} else {
		err = again(nil)
	}
	if err != nil {
		return nil, err
	}
	ownDocuments(batches)
	err = e.Guard(func() error {
		for i := range batches {
			g.apply(batches[i].Ops)
		}
		g.publish(batches[n-1].lsn)
		for i := range batches {
			b := &batches[i]
			b.settled, b.replaced = true, nil
			if !e.Opts.ReadOnly { // it may lead, and be asked
				e.outcomes.note(b.lsn, b.Request, b.Deleted())
			}
		}
		return nil
	})
	return rest, err
}

// ownDocuments moves documents from the memory of records to memory of their own.
func ownDocuments(batches []logBatch) {
	size := 0
	for _, b := range batches {
		for i := range b.Ops {
			if !b.settled {
				size += len(b.Ops[i].Doc)
			}
		}
	}
	all := make([]byte, 0, size)
	for _, b := range batches {
		for i := range b.Ops {
			if o := &b.Ops[i]; !b.settled && len(o.Doc) > 0 {
				all = append(all, o.Doc...)
				o.Doc = all[len(all)-len(o.Doc) : len(all) : len(all)]
			}
		}
	}
}

// again resolves the writes of a batch that was committed before, by g.tx if there is one, and by
// its record otherwise.
func (g *Group) again(b *logBatch) error {
	lsn, replaced := b.lsn, codec.NewDecoder(b.replaced)
	if b.First != g.nextNum {
		return BadBatch(lsn, fmt.Errorf("begins with docnum %d, expected %d", b.First, g.nextNum))
	}
	for i := range b.Ops {
		o := &b.Ops[i]
		switch o.Kind {
		case OpDefine:
			g.defs[o.Coll] = o.Def
			g.NextID = max(g.NextID, o.Coll+1)
			continue
		case OpDrop:
			g.defs[o.Coll] = nil
			continue
		}
		if g.defs[o.Coll] == nil && g.Base.Views[o.Coll] == nil {
			return BadBatch(lsn, fmt.Errorf("writes to unknown collection %d", o.Coll))
		}
		switch {
		case b.settled:
		case g.tx == nil:
			o.old = replaced.Uvarint()
			if o.old >= g.nextNum {
				replaced.Fail(fmt.Errorf("docnum %d is replaced before %d is given out", o.old, g.nextNum))
			}
		default:
			var err error
			if o.old, _, err = g.current(o.Coll, o.ID); err != nil {
				return err
			}
		}
		if g.tx != nil {
			g.pending[docKey{o.Coll, o.ID}] = o
		}
		if o.Kind == OpPut {
			g.nextNum = o.Num + 1
		}
	}
	if g.tx == nil && replaced.Len() > 0 {
		replaced.Fail(errors.New("replaces more documents than it writes"))
	}
	if err := replaced.Err(); err != nil {
		return BadBatch(lsn, err)
	}
	return nil
}
