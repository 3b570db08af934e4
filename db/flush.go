package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment"
	"github.com/vecbolt/vecbolt/segment/columns"
	"github.com/vecbolt/vecbolt/segment/terms"
)

// makeRoom lets a group of writes go on, or says why not. When the head is
// full it is frozen and flushed in the background; when the one before it is
// still being flushed, writers wait; a flush that failed is tried once more
// before a writer is told. commitMu is held.
func (db *DB) makeRoom() error {
	for tried := false; ; {
		db.mu.Lock()
		closed, failed := db.closed, db.refused()
		db.mu.Unlock()
		switch {
		case closed:
			return ErrClosed
		case failed != nil:
			return failed
		case db.active.bytes < db.opts.HeadSize && db.active.logged < max(minLogged, logShare*db.opts.HeadSize):
			return nil
		case db.frozen == nil:
			return db.freeze()
		case db.flushErr != nil && tried:
			return db.flushErr
		case db.flushErr != nil:
			tried, db.flushErr = true, nil
			db.background.wakeFlush()
		}
		db.flushed.Wait()
	}
}

// A head is also full when its batches take this much of the log: single small writes take a block
// of 4 KiB each, far more than their share of the head.
const (
	logShare  = 4        // times Options.HeadSize
	minLogged = 16 << 20 // bytes
)

// freeze ends the active head and starts an empty one. commitMu is held and
// no head is frozen.
func (db *DB) freeze() error {
	if db.log != nil {
		if err := db.log.Rotate(); err != nil {
			return db.fail(err)
		}
	}
	db.frozen, db.active = db.active, newHead()
	db.frozenAt = db.retain(db.cur)
	db.flushErr = nil
	db.background.wakeFlush()
	return nil
}

// flush moves all that was written before the call out of the head.
func (db *DB) flush() error {
	if err := db.flushFrozen(); err != nil {
		return err
	}
	db.commitMu.Lock()
	if db.frozen == nil && !db.active.empty() {
		if err := db.freeze(); err != nil {
			db.commitMu.Unlock()
			return err
		}
	}
	db.commitMu.Unlock()
	return db.flushFrozen()
}

// flushFrozen writes the frozen head, if there is one, to segments, makes it
// durable by one commit of meta.bolt, and publishes a version without it.
//
// Whatever is visible in meta.bolt is as of frozenAt: later writes, which may
// already have killed rows that are being flushed, are in the log, and carry
// over in memory only.
func (db *DB) flushFrozen() (err error) {
	db.metaMu.Lock()
	defer db.metaMu.Unlock()
	db.commitMu.Lock()
	frozen, v := db.frozen, db.frozenAt
	db.commitMu.Unlock()
	if frozen == nil {
		return nil
	}
	defer func() {
		// Writers wait for the end of a flush, however it comes.
		if r := recover(); r != nil {
			err = db.fail(&vfs.PanicError{Value: r, Stack: debug.Stack()})
		}
		db.commitMu.Lock()
		db.flushErr = err
		db.flushed.Broadcast()
		db.commitMu.Unlock()
	}()
	if err := db.err(); err != nil {
		return err
	}
	start := time.Now()
	db.removeLitter()
	f := &flusher{db: db, head: frozen, v: v, built: map[*table]*openSegment{}}
	if err := f.writeSegments(); err != nil {
		f.discard()
		return err
	}
	if err := db.guard(f.commit); err != nil {
		if db.err() == nil { // nothing; else that is for the next Open to see
			f.discard()
		}
		return err
	}
	if err := db.guard(f.publish); err != nil {
		return db.fail(err) // meta.bolt is ahead of what this process knows
	}
	db.drop(v)
	db.opts.Logger.Info("flushed", "lsn", v.lsn, "segments", len(f.built), "took", time.Since(start))
	db.background.wakeCompact()
	return nil
}

// flushing is one flush on its way.
type flusher struct {
	db    *DB
	head  *head
	v     *version // ends with head
	built map[*table]*openSegment
	dead  map[uint64]*bitset.Cow // new state of the segments that lost rows
}

// discard removes the segments of a flush that did not come to its commit.
func (f *flusher) discard() {
	for _, s := range f.built {
		f.db.unmap(s)
		f.db.removeSegment(s.info.ID)
	}
}

// unmap closes a segment that no version knows.
func (db *DB) unmap(s *openSegment) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.shut(s)
}

func (f *flusher) writeSegments() error {
	for _, v := range f.v.views {
		for _, p := range v.parts {
			if p.table == nil || p.live() == 0 {
				continue
			}
			s, err := f.db.writeSegment(v.def, p)
			if err != nil {
				return err
			}
			f.built[p.table] = s
		}
	}
	return nil
}

// newSegmentID returns an unused segment number. metaMu is held; the number
// is on record with the next commit, until when its file is a leftover.
func (db *DB) newSegmentID() uint64 {
	id := db.state.NextSegment
	db.state.NextSegment++
	return id
}

// createSegment writes a new segment, whose number newID gives: fill gives it rows;
// finish gives the open segment its derived files. Whatever fails in between, by an
// error, by a fault of mapped memory or by a panic, no file stays behind. Where
// something of that name is in the way, which is not of this database, it takes the
// next number.
func (db *DB) createSegment(newID func() uint64, coll uint32, dim int, metric Metric,
	fill func(w *segment.Writer) (docs [16]byte, err error), finish func(s *openSegment)) (s *openSegment, err error) {
	var w *segment.Writer
	var id uint64
	for range 1000 {
		id = newID()
		if w, err = segment.Create(db.fs, db.state.DB, id, coll, dim); !errors.Is(err, fs.ErrExist) {
			break
		}
		db.opts.Logger.Warn("cannot create segment, taking the next number", "segment", id, "error", err)
	}
	if err != nil {
		return nil, err
	}
	done := false
	defer func() {
		if done {
			return
		}
		_ = w.Abort() // removeFiles tries again, and removeLitter keeps trying
		if s != nil {
			db.unmap(s)
			s = nil
		}
		db.removeFiles(id, tmpDir, segDir)
	}()
	docs, err := fill(w)
	if err != nil {
		return nil, err
	}
	info, err := w.Finish()
	if err != nil {
		return nil, err
	}
	info.Docs = docs
	if s, err = db.openSegment(info, metric, nil); err != nil {
		return nil, err
	}
	s.made = time.Now()
	finish(s)
	done = true
	return s, nil
}

// writeSegment writes the live rows of a head part, vectors and columns.
func (db *DB) writeSegment(def *definition, p *part) (*openSegment, error) {
	cols := columns.NewBuilder()
	live := p.alive()
	return db.createSegment(db.newSegmentID, def.id, p.dim, def.schema.Metric, func(w *segment.Writer) ([16]byte, error) {
		return fillSegment(w, cols, p, live)
	}, func(s *openSegment) {
		s.keepColumns(cols)
		if def.analysis != nil {
			s.keepTerms(def.analysis, p, live)
		}
	})
}

// fillSegment writes live rows of a head part, and gathers their columns.
func fillSegment(w *segment.Writer, cols *columns.Builder, p *part, live bitset.Set) ([16]byte, error) {
	docs := newSourceDigest("flush")
	rows := 0
	for row := range live.All() {
		vec, err := []float32(nil), error(nil)
		if p.dim > 0 {
			vec, err = p.source.vectors(row, row+1)
		}
		switch {
		case err != nil:
		case p.inv[row] == 0: // which is also that of a vector that is not finite: Append refuses it
			err = w.Append(p.nums[row], vec)
		default:
			err = w.AppendRows(p.nums[row:row+1], p.inv[row:row+1], vec)
		}
		var m Metadata
		if err == nil {
			m, err = document.MetadataOf(p.docs[row])
		}
		if err == nil {
			err = cols.Add(rows, m)
		}
		if err != nil {
			return [16]byte{}, err
		}
		docs.document(p.nums[row], p.docs[row])
		rows++
	}
	return docs.sum(), nil
}

// keepTerms writes the full-text index of a segment made of live rows of a
// head part.
func (s *openSegment) keepTerms(a *analysis, p *part, live bitset.Set) {
	src, err := p.terms(context.Background(), a)
	if err != nil {
		s.db.opts.Logger.Warn("cannot index texts", "segment", s.info.ID, "error", err)
		return
	}
	in := terms.Input{Source: src, Rows: make([]uint32, p.n)}
	next := uint32(0)
	for row := range in.Rows {
		in.Rows[row] = terms.Dropped
		if live.Has(row) {
			in.Rows[row] = next
			next++
		}
	}
	s.terms.keep(a, []terms.Input{in})
}

// commit is the one transaction that makes the flush true.
func (f *flusher) commit() error {
	db := f.db
	old := db.oldest() < f.v.lsn // somebody reads what this replaces
	return db.commitMeta(f.v, func(tx *meta.Tx) error {
		if err := f.commitDefinitions(tx, old); err != nil {
			return err
		}
		for _, s := range f.built {
			if err := tx.PutSegment(s.info); err != nil {
				return err
			}
		}
		for id, c := range f.head.colls {
			if f.v.views[id] == nil {
				continue // dropped
			}
			if err := f.commitDocuments(tx, id, c, old); err != nil {
				return err
			}
		}
		if err := f.commitDead(tx); err != nil {
			return err
		}
		_, err := tx.PurgeHistory(db.oldest())
		return err
	})
}

// commitDefinitions brings collections up to date. The documents of a dropped
// one stay as long as an older version may read them.
func (f *flusher) commitDefinitions(tx *meta.Tx, old bool) error {
	db := f.db
	for id, v := range f.v.views {
		if db.stored[id] == v.def {
			continue
		}
		b, err := v.def.encode()
		if err != nil {
			return err
		}
		if err := tx.PutCollection(id, v.def.name, b); err != nil {
			return err
		}
		db.stored[id] = v.def
	}
	for id := range maps.Clone(db.stored) {
		if f.v.views[id] != nil {
			continue
		}
		for segID, s := range db.segments {
			if s.info.Collection == id {
				if err := db.retire(tx, segID); err != nil {
					return err
				}
			}
		}
		if old {
			if err := tx.PutCollection(id, "", nil); err != nil {
				return err
			}
			db.stored[id] = nil
			continue
		}
		if err := tx.DropCollection(id); err != nil {
			return err
		}
		delete(db.stored, id)
	}
	return nil
}

// commitDocuments writes the documents and ids of one collection.
func (f *flusher) commitDocuments(tx *meta.Tx, coll uint32, c *collHead, old bool) error {
	v := f.v.views[coll]
	for _, p := range v.parts {
		if p.table == nil {
			continue
		}
		live := p.alive()
		for row := range live.All() {
			if err := tx.PutDocument(coll, p.nums[row], p.docs[row]); err != nil {
				return err
			}
		}
	}
	var ids []headID
	for id, num := range c.ids(len(c.entries)) {
		ids = append(ids, headID{id, num})
	}
	sortIDs(ids) // in tree order
	for _, h := range ids {
		id, num := h.id, h.num
		replaced, had, err := tx.ID(coll, id)
		if err != nil {
			return err
		}
		switch {
		case had && old:
			err = tx.PutHistory(coll, id, f.v.lsn, replaced)
		case had:
			err = tx.DeleteDocument(coll, replaced)
		}
		if err != nil {
			return err
		}
		if num != 0 {
			err = tx.PutID(coll, id, num)
		} else if had {
			err = tx.DeleteID(coll, id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// commitDead records the rows that died in segments. A segment may have been
// compacted since the version was made, so that rows are looked up by DocNum.
func (f *flusher) commitDead(tx *meta.Tx) error {
	db := f.db
	f.dead = map[uint64]*bitset.Cow{}
	for coll, v := range f.v.views {
		died := map[*openSegment][]int{}
		for _, p := range v.parts {
			if p.segment == nil || p.dead == p.segment.dead {
				continue
			}
			for row := range p.dead.All() {
				if p.segment.dead.Has(row) {
					continue
				}
				if s, at, ok := db.findRow(coll, p.nums[row]); ok {
					died[s] = append(died[s], at)
				}
			}
		}
		for s, rows := range died {
			dead := s.dead.With(rows...)
			for _, chunk := range dead.Changed(s.dead) {
				if err := tx.PutDeadChunk(s.info.ID, chunk, dead.Chunk(chunk)); err != nil {
					return err
				}
			}
			f.dead[s.info.ID] = dead
		}
	}
	return nil
}

// findRow finds a DocNum in the present segments. metaMu is held.
func (db *DB) findRow(coll uint32, num uint64) (*openSegment, int, bool) {
	for _, s := range db.segments {
		if s.info.Collection == coll && s.info.MinDoc <= num && num <= s.info.MaxDoc {
			if row, ok := s.Find(num); ok {
				return s, row, true
			}
		}
	}
	return nil, 0, false
}

// publish replaces the frozen head by the segments made of it.
func (f *flusher) publish() error {
	db := f.db
	for id, dead := range f.dead {
		db.segments[id].dead = dead
	}
	for _, s := range f.built {
		db.segments[s.info.ID] = s
	}
	db.commitMu.Lock()
	defer db.commitMu.Unlock()
	next := db.cur.successor()
	next.applied = f.v.lsn
	next.files = newFileSet(db.store, &db.ids, db.segments)
	for id, v := range next.views {
		c := f.head.colls[id]
		if c == nil {
			continue
		}
		v = v.clone()
		v.heads = slices.DeleteFunc(v.heads, func(h headView) bool { return h.coll == c })
		v.parts = slices.DeleteFunc(v.parts, func(p *part) bool {
			return p.table != nil && (p.table == c.vec || p.table == c.bare) && f.built[p.table] == nil
		})
		for i, p := range v.parts {
			if p.table == nil {
				continue
			}
			if s := f.built[p.table]; s != nil {
				v.parts[i] = s.part(carryDead(p, s))
			}
		}
		next.views[id] = v
	}
	db.frozen, db.frozenAt = nil, nil
	db.publish(next)
	return nil
}

// carryDead returns which rows of s, written from p some time ago, have died
// in p since.
func carryDead(p *part, s *openSegment) *bitset.Cow {
	var rows []int
	nums := s.DocNums()
	for row := range p.dead.All() {
		if at, ok := slices.BinarySearch(nums, p.nums[row]); ok {
			rows = append(rows, at)
		}
	}
	return (*bitset.Cow)(nil).With(rows...)
}

// commitMeta runs the one transaction of a flush (v is its version) or of a
// compaction (v is nil) and does what may follow it. metaMu is held.
func (db *DB) commitMeta(v *version, fn func(tx *meta.Tx) error) (err error) {
	if err := db.err(); err != nil {
		return err
	}
	defer func() {
		if r := recover(); r != nil { // on the way from one state to another
			err = db.fail(&vfs.PanicError{Value: r, Stack: debug.Stack()})
		}
	}()
	before, segments, stored := db.state, maps.Clone(db.segments), maps.Clone(db.stored)
	kept := before.Obsolete
	err = db.store.Update(func(tx *meta.Tx) error {
		db.state.Obsolete = slices.Clone(kept)
		if err := fn(tx); err != nil {
			return err
		}
		if v != nil {
			db.state.Applied, db.state.NextDoc = v.lsn, v.nextNum
			db.state.NextCollection = db.nextCollection()
		}
		return tx.SetState(db.state)
	})
	if noSpace(err) && db.store.Usable() { // nothing has happened
		db.state, db.segments, db.stored = before, segments, stored
		return err
	}
	if err != nil {
		return db.fail(err)
	}
	db.commits++
	// The newest root may rot: what the one before it needs stays until now.
	if db.log != nil {
		if err := db.log.Release(before.Applied); err != nil {
			return db.fail(err)
		}
	}
	for _, id := range kept {
		if !db.inUse(id) {
			db.removeSegment(id)
			db.state.Obsolete = slices.DeleteFunc(db.state.Obsolete, func(o uint64) bool { return o == id })
		}
	}
	return nil
}

func (db *DB) nextCollection() uint32 {
	db.commitMu.Lock()
	defer db.commitMu.Unlock()
	return db.nextColl
}

// retire takes a segment out of the database. Its files stay until the next
// commit, and until the last version that has it is gone. metaMu is held.
func (db *DB) retire(tx *meta.Tx, id uint64) error {
	db.state.Obsolete = append(db.state.Obsolete, id)
	delete(db.segments, id)
	return tx.DeleteSegment(id)
}

// removeSegment removes the files of a segment that nothing names. What cannot
// be removed, as without a free file handle, is tried again by removeLitter.
func (db *DB) removeSegment(id uint64) { db.removeFiles(id, segDir) }

// removeFiles removes those of a segment in some directories.
func (db *DB) removeFiles(id uint64, dirs ...string) {
	var names []string
	for _, ext := range derivedExts {
		names = append(names, derivedName(id, ext))
	}
	names = append(names, segment.FileName(id))
	left := false
	for _, dir := range dirs {
		for _, name := range names {
			name = dir + name[len(segDir):]
			_, err := db.fs.Size(name)
			if err == nil {
				err = db.fs.Remove(name)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				left = true
				db.opts.Logger.Warn("cannot remove", "file", name, "error", err)
			}
		}
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if left {
		db.litter[id] = struct{}{}
	} else {
		delete(db.litter, id)
	}
}

// removeLitter tries again to remove the segments that could not be.
func (db *DB) removeLitter() {
	db.mu.Lock()
	ids := slices.Collect(maps.Keys(db.litter))
	db.mu.Unlock()
	for _, id := range ids {
		db.removeFiles(id, tmpDir, segDir)
	}
}

// settle flushes and then commits once more, so that both roots of meta.bolt
// say the same and neither the log nor retired segments are needed.
func (db *DB) settle() error {
	if err := db.flush(); err != nil {
		return err
	}
	db.metaMu.Lock()
	defer db.metaMu.Unlock()
	return db.commitMeta(nil, func(tx *meta.Tx) error {
		oldest := db.oldest()
		if _, err := tx.PurgeHistory(oldest); err != nil {
			return err
		}
		for id, def := range maps.Clone(db.stored) {
			if def == nil && oldest >= db.state.Applied {
				if err := tx.DropCollection(id); err != nil {
					return err
				}
				delete(db.stored, id)
			}
		}
		return nil
	})
}

// missingDocument is the error for a row without its document.
func missingDocument(collection string, num uint64) error {
	return &CorruptError{File: metaName, Offset: -1,
		Err: fmt.Errorf("document %d of collection %q is missing", num, collection)}
}
