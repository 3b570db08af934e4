package engine

import (
	"context"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// makeRoom waits until the head has room for a group of writes, or returns the reason to
// refuse them. A full head is frozen and flushed in the background. While the previous
// head is still being flushed, writers wait. A failed flush is retried once before a
// writer gets its error. commitMu is held.
func (e *Engine) makeRoom() error {
	for tried := false; ; {
		e.mu.Lock()
		closed, failed, writes := e.closed, e.refused(), e.Leads()
		e.mu.Unlock()
		switch {
		case closed:
			return ErrClosed
		case !writes:
			return errDeposed
		case failed != nil:
			return failed
		case e.head.bytes < e.Opts.HeadSize && e.head.logged < max(minLogged, logShare*e.Opts.HeadSize):
			e.noteWrite()
			return nil
		case e.frozen == nil:
			if err := e.freeze(); err != nil {
				return err
			}
			continue // the new head has room, and its first write is noted
		case e.flushErr != nil && tried:
			return e.flushErr
		case e.flushErr != nil:
			tried, e.flushErr = true, nil
			e.background.wakeFlush()
		}
		e.flushed.Wait()
	}
}

// A head is also full when its batches take this much of the log: single small writes take a block
// of 4 KiB each, far more than their share of the head.
const (
	logShare  = 4        // times Options.HeadSize
	minLogged = 16 << 20 // bytes
)

// noteWrite notes the time of a batch that the active head is about to get, and has FlushIdle
// called later. commitMu is held.
func (e *Engine) noteWrite() {
	h := e.head
	if e.lastWrite = time.Now(); h.first.IsZero() {
		h.first = e.lastWrite
	}
	if !h.watched {
		h.watched = true
		wake(e.background.idle)
	}
}

// FlushIdle flushes a head that was not written to for the given time, if it is worth a segment
// with codes: until then a database that is only read would keep rows in memory, outside of every
// graph, and in the log. It returns the time until it should be called again, 0 if the next batch
// calls it.
//
// A segment gets codes from Options.CodedBytes, 1 MiB of vectors. So a flush for idleness writes at
// least that much, however rarely a batch arrives, and adds at most two merges of eight segments to
// the rewriting of a row: from 1 MiB to a full head.
//
// A head that drops collections is flushed after the same time, whatever else is written, if that
// frees more than it writes: only a flush takes their segments out of meta.bolt.
func (e *Engine) FlushIdle(idle time.Duration) (next time.Duration, err error) {
	e.commitMu.Lock()
	h := e.head
	wait, frees := idle-time.Since(e.lastWrite), h.frees(e.tip())
	if frees {
		wait = min(wait, idle-time.Since(h.drop))
	}
	switch {
	case e.frozen != nil && e.flushErr != nil: // of a flush for idleness, which no writer waits for
		e.commitMu.Unlock()
		return e.flushAgain(idle)
	case wait > 0 && !h.first.IsZero():
		e.commitMu.Unlock()
		return wait, nil
	case h.vecs < max(1, e.Opts.CodedBytes) && !frees:
		h.watched = false
		e.commitMu.Unlock()
		return 0, nil
	case e.frozen != nil:
		e.commitMu.Unlock()
		return max(1, idle), nil
	}
	err = e.Err()
	if err == nil {
		err = e.freeze()
	}
	e.commitMu.Unlock()
	if err != nil {
		return 0, err
	}
	return e.flushAgain(idle)
}

// flushAgain flushes the frozen head. If that fails, it returns the time until the next attempt.
func (e *Engine) flushAgain(idle time.Duration) (next time.Duration, err error) {
	if err = e.flushFrozen(); err != nil && e.Err() == nil {
		next = max(1, idle)
	}
	return next, err
}

// freeze replaces the active head by an empty one. It rotates the log, so that the log
// files of the frozen head can be removed after its flush. commitMu is held and no head
// is frozen.
func (e *Engine) freeze() error {
	if log := e.log.Load(); log != nil {
		if err := log.Rotate(); err != nil {
			return e.Fail(err)
		}
	}
	e.frozen, e.head = e.head, newHead()
	e.frozenAt = e.Retain(e.cur)
	e.flushErr = nil
	if o := e.observer(); o != nil {
		o.Froze(e.cur.LSN)
	}
	e.background.wakeFlush()
	return nil
}

// Flush moves all writes before the call out of the head.
func (e *Engine) Flush() error {
	if err := e.flushFrozen(); err != nil {
		return err
	}
	e.commitMu.Lock()
	err := e.mayWrite()
	if err == nil && e.frozen == nil && !e.head.empty() {
		err = e.freeze()
	}
	e.commitMu.Unlock()
	if err != nil {
		return err
	}
	return e.flushFrozen()
}

// flushFrozen writes the frozen head, if any, to segments, makes it durable by one commit
// of meta.bolt, and publishes a version without it.
//
// The commit brings meta.bolt to the state at frozenAt, where the log then continues.
// Later writes may already have killed rows that are being flushed. These kills are in
// the log, so only memory carries them over.
func (e *Engine) flushFrozen() (err error) {
	e.metaMu.Lock()
	defer e.metaMu.Unlock()
	e.commitMu.Lock()
	frozen, v := e.frozen, e.frozenAt
	e.commitMu.Unlock()
	if frozen == nil {
		return nil
	}
	defer func() {
		// Writers wait for the end of a flush, so every outcome must wake them, even a
		// panic.
		if r := recover(); r != nil {
			err = e.Fail(&vfs.PanicError{Value: r, Stack: debug.Stack()})
		}
		e.commitMu.Lock()
		e.flushErr = err
		e.flushed.Broadcast()
		e.commitMu.Unlock()
	}()
	if err := e.Err(); err != nil {
		return err
	}
	start := time.Now()
	e.removeLitter()
	f := &flusher{engine: e, head: frozen, v: v, built: map[*table]*OpenSegment{}}
	if err := f.writeSegments(); err != nil {
		f.discard()
		return err
	}
	if err := e.Guard(f.commit); err != nil {
		if e.Err() == nil { // nothing was committed; in doubt, the next Open decides
			f.discard()
		}
		return err
	}
	if err := e.Guard(f.publish); err != nil {
		return e.Fail(err) // meta.bolt is ahead of the state in memory
	}
	e.Drop(v)
	e.Opts.Logger.Info("flushed", "lsn", v.LSN, "segments", len(f.built), "took", time.Since(start))
	e.WakeCompact()
	wake(e.background.sketch)
	return nil
}

// flusher is one running flush.
type flusher struct {
	engine *Engine
	head   *head
	v      *Version // ends with head
	mu     sync.Mutex
	built  map[*table]*OpenSegment // guarded by mu while segments are written
	dead   map[uint64]*bitset.Cow  // new state of the segments that lost rows
}

// discard removes the segments of a flush that failed before its commit.
func (f *flusher) discard() {
	for _, s := range f.built {
		f.engine.unmap(s)
		f.engine.removeSegment(s.Info.ID)
	}
}

// unmap closes a segment that no version has.
func (e *Engine) unmap(s *OpenSegment) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.shut(s)
}

const (
	// A segment with fewer bytes of vectors and documents is small: its syncs take longer than its
	// content.
	smallBytes = 1 << 20
	// Small segments are written by smallWriters goroutines, because the disk takes many syncs at
	// once in hardly more time than one. For fewer than manySmall segments it makes no difference.
	smallWriters = 16
	manySmall    = 8
)

// writeSegments writes a segment for each part of the frozen head.
func (f *flusher) writeSegments() error {
	var small, large []tenant
	for _, v := range f.v.Views {
		for _, p := range v.Parts {
			switch {
			case p.table == nil || p.Live() == 0:
			case p.small():
				small = append(small, tenant{v.Def, p})
			default:
				large = append(large, tenant{v.Def, p})
			}
		}
	}
	if len(small) < manySmall {
		large, small = append(large, small...), nil
	}
	for _, t := range large {
		if err := f.writeSegment(t); err != nil {
			return err
		}
	}
	return f.writeTogether(small)
}

// small reports whether a part of the head makes a small segment.
func (p *Part) small() bool {
	size := 4 * p.N * p.Dim
	for _, doc := range p.docs[:p.N] {
		if size += len(doc); size >= smallBytes {
			return false
		}
	}
	return size < smallBytes
}

// A tenant is a part of a head with the definition of its collection.
type tenant struct {
	def  *Definition
	part *Part
}

// writeTogether writes small segments, several at once, until one of them fails.
func (f *flusher) writeTogether(small []tenant) error {
	var group vfs.Group
	var next atomic.Int64
	for range min(smallWriters, len(small)) {
		group.Go(SegDir, func() error {
			for {
				i := next.Add(1) - 1
				if i >= int64(len(small)) {
					return nil
				}
				if err := f.writeSegment(small[i]); err != nil {
					next.Store(int64(len(small)))
					return err
				}
			}
		})
	}
	return group.Wait()
}

// yieldCompares is the number of comparisons of a sort that take as long as yieldRows.
const yieldCompares = 2048

// writeSegment writes one part. Several goroutines may call it.
func (f *flusher) writeSegment(t tenant) error {
	s, err := f.engine.writeSegment(t.def, t.part, func() uint64 {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.engine.newSegmentID()
	})
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.built[t.part.table] = s
	f.mu.Unlock()
	s.made = f.head.first // a head that was filled slowly is settled already
	if settle := f.engine.Opts.Settle; s.Codes != nil && settle > 0 && time.Since(s.made) >= settle {
		f.engine.makeNow(context.Background(), s.Codes) // searches found the rows by codes before
	}
	return nil
}

// commit makes the flush durable, in one transaction.
func (f *flusher) commit() error {
	e := f.engine
	old := e.oldest() < f.v.LSN // a reader still needs the replaced documents
	return e.commitMeta(f.v, func(tx *meta.Tx) error {
		if err := f.commitDefinitions(tx, old); err != nil {
			return err
		}
		for _, s := range f.built {
			if err := tx.PutSegment(s.Info); err != nil {
				return err
			}
		}
		for id, c := range f.head.colls {
			if f.v.Views[id] == nil {
				continue // dropped
			}
			if err := f.commitDocuments(tx, id, c, old); err != nil {
				return err
			}
		}
		if err := f.commitDead(tx); err != nil {
			return err
		}
		_, err := tx.PurgeHistory(e.oldest())
		return err
	})
}

// commitDefinitions updates the definitions of collections. The documents of a dropped
// collection stay while an older version may read them.
func (f *flusher) commitDefinitions(tx *meta.Tx, old bool) error {
	e := f.engine
	for id, v := range f.v.Views {
		if e.stored[id] == v.Def {
			continue
		}
		b, err := v.Def.Encode()
		if err != nil {
			return err
		}
		if err := tx.PutCollection(id, v.Def.Name, b); err != nil {
			return err
		}
		e.stored[id] = v.Def
	}
	for id := range maps.Clone(e.stored) {
		if f.v.Views[id] != nil {
			continue
		}
		for segID, s := range e.segments {
			if s.Info.Collection == id {
				if err := e.retire(tx, segID); err != nil {
					return err
				}
			}
		}
		if old {
			if err := tx.PutCollection(id, "", nil); err != nil {
				return err
			}
			e.stored[id] = nil
			continue
		}
		if err := tx.DropCollection(id); err != nil {
			return err
		}
		delete(e.stored, id)
	}
	return nil
}

// commitDocuments writes the documents and ids of one collection.
func (f *flusher) commitDocuments(tx *meta.Tx, coll uint32, c *collHead, old bool) error {
	v := f.v.Views[coll]
	for _, p := range v.Parts {
		if p.table == nil {
			continue
		}
		live := p.Alive()
		for row := range live.All() {
			if row%yieldRows == 0 {
				runtime.Gosched()
			}
			if err := tx.PutDocument(coll, p.Nums[row], p.docs[row]); err != nil {
				return err
			}
		}
	}
	for i, e := range c.sorted() {
		if i%yieldRows == 0 {
			runtime.Gosched()
		}
		id, num := e.id, e.num
		replaced, had, err := tx.ID(coll, id)
		if err != nil {
			return err
		}
		switch {
		case had && old:
			err = tx.PutHistory(coll, id, f.v.LSN, replaced)
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

// sorted returns the ids of a frozen head with their DocNums, in the order of the tree.
func (c *collHead) sorted() []numbered {
	ids := make([]numbered, 0, c.latest.used)
	for id, num := range c.IDs(len(c.entries)) {
		if ids = append(ids, numbered{id, num}); len(ids)%yieldRows == 0 {
			runtime.Gosched()
		}
	}
	compared := 0
	slices.SortFunc(ids, func(a, b numbered) int {
		if compared++; compared%yieldCompares == 0 {
			runtime.Gosched()
		}
		return strings.Compare(a.id, b.id)
	})
	return ids
}

// numbered is an id and its DocNum, 0 if it was deleted.
type numbered struct {
	id  string
	num uint64
}

// commitDead records the rows that died in segments. It looks rows up by DocNum, because
// their segment may have been compacted since the version was made.
func (f *flusher) commitDead(tx *meta.Tx) error {
	e := f.engine
	f.dead = map[uint64]*bitset.Cow{}
	for coll, v := range f.v.Views {
		died := map[*OpenSegment][]int{}
		for _, p := range v.Parts {
			if p.Segment == nil || p.Dead == p.Segment.dead {
				continue
			}
			for row := range p.Dead.All() {
				if p.Segment.dead.Has(row) {
					continue
				}
				if s, at, ok := e.findRow(coll, p.Nums[row]); ok {
					died[s] = append(died[s], at)
				}
			}
		}
		for s, rows := range died {
			dead := s.dead.With(rows...)
			for _, chunk := range dead.Changed(s.dead) {
				if err := tx.PutDeadChunk(s.Info.ID, chunk, dead.Chunk(chunk)); err != nil {
					return err
				}
			}
			f.dead[s.Info.ID] = dead
		}
	}
	return nil
}

// findRow finds the row of a DocNum in the current segments. metaMu is held.
func (e *Engine) findRow(coll uint32, num uint64) (*OpenSegment, int, bool) {
	for _, s := range e.segments {
		if s.Info.Collection == coll && s.Info.MinDoc <= num && num <= s.Info.MaxDoc {
			if row, ok := s.Find(num); ok {
				return s, row, true
			}
		}
	}
	return nil, 0, false
}

// publish replaces the frozen head by its segments.
func (f *flusher) publish() error {
	e := f.engine
	for id, dead := range f.dead {
		e.segments[id].dead = dead
	}
	for _, s := range f.built {
		e.segments[s.Info.ID] = s
	}
	e.commitMu.Lock()
	defer e.commitMu.Unlock()
	next := e.cur.successor()
	next.Applied = f.v.LSN
	next.Files = newFileSet(e.store, &e.ids, e.segments)
	for id, v := range next.Views {
		c := f.head.colls[id]
		if c == nil {
			continue
		}
		v = v.clone()
		v.Heads = slices.DeleteFunc(v.Heads, func(h headView) bool { return h.Coll == c })
		v.Parts = slices.DeleteFunc(v.Parts, func(p *Part) bool {
			return p.table != nil && (p.table == c.vec || p.table == c.bare) && f.built[p.table] == nil
		})
		for i, p := range v.Parts {
			if p.table == nil {
				continue
			}
			if s := f.built[p.table]; s != nil {
				v.Parts[i] = s.part(carryDead(p, s))
			}
		}
		next.Views[id] = v
	}
	e.frozen, e.frozenAt = nil, nil
	e.publish(next)
	return nil
}

// carryDead returns the rows of s that died in p while s was written from p.
func carryDead(p *Part, s *OpenSegment) *bitset.Cow {
	var rows []int
	nums := s.DocNums()
	for row := range p.Dead.All() {
		if at, ok := slices.BinarySearch(nums, p.Nums[row]); ok {
			rows = append(rows, at)
		}
	}
	return (*bitset.Cow)(nil).With(rows...)
}
