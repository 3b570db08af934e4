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

// makeRoom waits until the head has room for a group of writes, or returns the reason to
// refuse them. A full head is frozen and flushed in the background. While the previous
// head is still being flushed, writers wait. A failed flush is retried once before a
// writer gets its error. commitMu is held.
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

// freeze replaces the active head by an empty one. It rotates the log, so that the log
// files of the frozen head can be removed after its flush. commitMu is held and no head
// is frozen.
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

// flush moves all writes before the call out of the head.
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

// flushFrozen writes the frozen head, if any, to segments, makes it durable by one commit
// of meta.bolt, and publishes a version without it.
//
// The commit brings meta.bolt to the state at frozenAt, where the log then continues.
// Later writes may already have killed rows that are being flushed. These kills are in
// the log, so only memory carries them over.
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
		// Writers wait for the end of a flush, so every outcome must wake them, even a
		// panic.
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
		if db.err() == nil { // nothing was committed; in doubt, the next Open decides
			f.discard()
		}
		return err
	}
	if err := db.guard(f.publish); err != nil {
		return db.fail(err) // meta.bolt is ahead of the state in memory
	}
	db.drop(v)
	db.opts.Logger.Info("flushed", "lsn", v.lsn, "segments", len(f.built), "took", time.Since(start))
	db.background.wakeCompact()
	return nil
}

// flusher is one running flush.
type flusher struct {
	db    *DB
	head  *head
	v     *version // ends with head
	built map[*table]*openSegment
	dead  map[uint64]*bitset.Cow // new state of the segments that lost rows
}

// discard removes the segments of a flush that failed before its commit.
func (f *flusher) discard() {
	for _, s := range f.built {
		f.db.unmap(s)
		f.db.removeSegment(s.info.ID)
	}
}

// unmap closes a segment that no version has.
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

// newSegmentID returns an unused segment number. metaMu is held. The next commit records
// the number; until then its file is a leftover, which the next Open removes.
func (db *DB) newSegmentID() uint64 {
	id := db.state.NextSegment
	db.state.NextSegment++
	return id
}

// createSegment writes a new segment. newID returns its number, fill writes its rows, and
// finish gives the open segment its derived files. If anything fails, by an error, a
// fault of mapped memory or a panic, no file stays behind. If a foreign file has the
// name, createSegment takes the next number.
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

// fillSegment writes the live rows of a head part and collects their columns.
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
		case p.inv[row] == 0: // also the value for a vector that is not finite, which Append refuses
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

// keepTerms writes the full-text index of a segment made from the live rows of a head
// part.
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

// commit makes the flush durable, in one transaction.
func (f *flusher) commit() error {
	db := f.db
	old := db.oldest() < f.v.lsn // a reader still needs the replaced documents
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

// commitDefinitions updates the definitions of collections. The documents of a dropped
// collection stay while an older version may read them.
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

// commitDead records the rows that died in segments. It looks rows up by DocNum, because
// their segment may have been compacted since the version was made.
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

// findRow finds the row of a DocNum in the current segments. metaMu is held.
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

// publish replaces the frozen head by its segments.
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

// carryDead returns the rows of s that died in p while s was written from p.
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

// commitMeta runs the transaction of a flush (v is its version) or of a compaction (v is
// nil). Afterwards it removes log and segment files that the previous commit made
// obsolete. metaMu is held.
func (db *DB) commitMeta(v *version, fn func(tx *meta.Tx) error) (err error) {
	if err := db.err(); err != nil {
		return err
	}
	defer func() {
		if r := recover(); r != nil { // memory may be between two states
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
	if noSpace(err) && db.store.Usable() { // meta.bolt is unchanged
		db.state, db.segments, db.stored = before, segments, stored
		return err
	}
	if err != nil {
		return db.fail(err)
	}
	db.commits++
	// If the newest root of meta.bolt is damaged, the next Open uses the root before it.
	// The files of that root must stay until this commit replaces it.
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

// retire takes a segment out of the database. Its files stay until the next commit,
// because the older root of meta.bolt needs them, and until no version has it. metaMu is
// held.
func (db *DB) retire(tx *meta.Tx, id uint64) error {
	db.state.Obsolete = append(db.state.Obsolete, id)
	delete(db.segments, id)
	return tx.DeleteSegment(id)
}

// removeSegment removes the files of an unused segment. If that fails, for example
// without a free file handle, removeLitter tries again.
func (db *DB) removeSegment(id uint64) { db.removeFiles(id, segDir) }

// removeFiles removes the files of a segment from some directories.
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

// removeLitter retries failed removals of segments.
func (db *DB) removeLitter() {
	db.mu.Lock()
	ids := slices.Collect(maps.Keys(db.litter))
	db.mu.Unlock()
	for _, id := range ids {
		db.removeFiles(id, tmpDir, segDir)
	}
}

// settle flushes and then commits once more. Both roots of meta.bolt then have the same
// content and need neither the log nor retired segments.
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
