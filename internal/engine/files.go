package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment"
	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/segment/columns"
	"github.com/vecbolt/vecbolt/segment/graph"
)

// An OpenSegment is a segment with its derived files.
type OpenSegment struct {
	*segment.Segment
	db     *Engine
	Info   segment.Info
	metric fileformat.Metric
	made   time.Time // when the newest rows began to be written; zero if they existed at Open

	// dead has the dead rows that meta.bolt records, as of version.applied. Guarded by
	// Engine.MetaMu.
	dead *bitset.Cow

	sets int // references: fileSets, and segments with this base; guarded by Engine.Mu

	Base     *OpenSegment // its graph is the start of this segment's graph; guarded by Engine.Mu
	baseRows []int32      // new row of each row of base, or -1; guarded by Engine.Mu

	Raised atomic.Int32 // number of times that the beam width was raised
	cold   atomic.Int32 // how many searches are to be cold: see Watch
	looks  atomic.Uint32

	Cols    *Derived[columns.Columns]
	Codes   *Derived[codes.Codes] // nil if the segment is too small for codes
	Graph   *Derived[graph.Graph] // nil if the segment is too small for a graph
	Terms   *segmentTerms
	Derived []derivedFile // all of the above
}

// openSegment maps a segment of a collection with the given metric.
func (db *Engine) openSegment(info segment.Info, metric fileformat.Metric, dead *bitset.Cow) (*OpenSegment, error) {
	seg, err := segment.Open(db.Files(), db.Identity, info)
	if err != nil {
		return nil, err
	}
	s := &OpenSegment{Segment: seg, db: db, Info: info, metric: metric, dead: dead}
	s.Cols = db.columnsOf(s)
	s.Terms = &segmentTerms{s: s}
	s.Derived = append(s.Derived, s.Cols, s.Terms)
	if s.wantsCodes() {
		s.Codes = db.codesOf(s)
		s.Derived = append(s.Derived, s.Codes)
	}
	if s.wantsGraph() {
		s.cold.Store(coldFirst)
		s.Graph = db.graphOf(s)
		s.Derived = append(s.Derived, s.Graph)
	}
	db.Mu.Lock()
	defer db.Mu.Unlock()
	db.Mapped[s] = struct{}{}
	return s, nil
}

func (s *OpenSegment) part(dead *bitset.Cow) *Part {
	return &Part{
		Source: s, Segment: s, N: s.Info.Rows, Dim: s.Info.Dim,
		Nums: s.DocNums(), Inv: s.InvNorms(), MaxNorm: s.Info.MaxNorm, Dead: dead,
	}
}

func (s *OpenSegment) Vectors(lo, hi int) ([]float32, error) { return s.Rows(lo, hi) }

func (s *OpenSegment) Run(int) int { return s.Info.Rows }

func (s *OpenSegment) Match(ctx context.Context, e filter.Expr, dst bitset.Set) error {
	cols, err := s.Cols.Need(ctx)
	if err != nil {
		return err
	}
	return cols.EvalContext(ctx, e, dst)
}

func (s *OpenSegment) Close() error {
	for _, d := range s.Derived {
		d.Close()
	}
	return s.Segment.Close()
}

// A fileSet has the segments of a version and the store of its documents. Versions share
// one until a flush or a compaction changes it.
type fileSet struct {
	Store    *meta.Store // Engine.Store when it was made
	IDs      *KnownIDs   // likewise: a restored database reuses DocNums
	Segments []*OpenSegment
	versions int // guarded by Engine.Mu
}

// newFileSet returns a fileSet with the segments in order of number.
func newFileSet(store *meta.Store, ids *KnownIDs, segments map[uint64]*OpenSegment) *fileSet {
	set := &fileSet{Store: store, IDs: ids}
	for _, id := range slices.Sorted(maps.Keys(segments)) {
		set.Segments = append(set.Segments, segments[id])
	}
	return set
}

// successor returns a copy of a version, to be changed before it is published.
func (v *Version) successor() *Version {
	next := &Version{
		LSN: v.LSN, Applied: v.Applied, nextNum: v.nextNum, Names: v.Names, Files: v.Files,
		Views: make(map[uint32]*View, len(v.Views)+1),
	}
	for id, w := range v.Views {
		next.Views[id] = w
	}
	return next
}

// tip returns the newest version, the base of the next one. CommitMu is held.
func (db *Engine) tip() *Version {
	if db.held != nil {
		return db.held
	}
	return db.Cur
}

// publish makes v the current version, or the version that Refresh prepares. The caller
// may write to the heads.
func (db *Engine) publish(v *Version) {
	v.HeadBytes = db.Active.Bytes
	if db.Frozen != nil {
		v.HeadBytes += db.Frozen.Bytes
	}
	if h := db.shared.received.frozen; h != nil {
		v.HeadBytes += h.Bytes
	}
	db.Mu.Lock()
	defer db.Mu.Unlock()
	if v.Files.versions == 0 {
		for _, s := range v.Files.Segments {
			s.sets++
		}
	}
	v.Files.versions++
	v.Refs = 1
	db.Live[v] = struct{}{}
	slot := &db.Cur
	if db.holding {
		slot = &db.held
	}
	old := *slot
	*slot = v
	if old != nil {
		db.unref(old)
	}
}

// Guard runs fn, which reads mapped files, on this goroutine. A memory fault becomes an
// error that names the file: a sector may be unreadable, or another program may have cut
// the file. A derived file with a fault is not used again: see RetryDerived.
func (db *Engine) Guard(fn func() error) error {
	err := vfs.Guard(SegDir, fn)
	if err == nil {
		return nil
	}
	fault, ok := errors.AsType[*vfs.FaultError](err)
	if !ok {
		return err
	}
	db.Mu.Lock()
	defer db.Mu.Unlock()
	for s := range db.Mapped {
		for _, d := range s.Derived {
			if err := d.fault(fault); err != nil {
				return err
			}
		}
		err = s.Fault(err)
	}
	return err
}

// Begin starts a call. Close waits until end ends it.
func (db *Engine) Begin() error {
	db.Mu.Lock()
	defer db.Mu.Unlock()
	if db.closed {
		return ErrClosed
	}
	db.Running++
	return nil
}

// End ends a call.
func (db *Engine) End() {
	db.Mu.Lock()
	defer db.Mu.Unlock()
	db.ended()
}

// ended is end with mu held.
func (db *Engine) ended() {
	if db.Running--; db.Running == 0 {
		db.idle.Broadcast()
	}
}

// mayWrite returns an error unless this process has the lock for writing.
func (db *Engine) mayWrite() error {
	db.Mu.Lock()
	defer db.Mu.Unlock()
	if !db.writes {
		return errDeposed
	}
	return nil
}

// beginKeeping begins to write a file that belongs to no commit, which endKeeping ends. Only a
// leader does so, and StepDown waits for it.
func (db *Engine) beginKeeping() error {
	db.Mu.Lock()
	defer db.Mu.Unlock()
	if !db.writes {
		return errDeposed
	}
	db.keeping++
	return nil
}

func (db *Engine) endKeeping() {
	db.Mu.Lock()
	defer db.Mu.Unlock()
	if db.keeping--; db.keeping == 0 {
		db.idle.Broadcast()
	}
}

// KeepFile gives a file that belongs to no commit its content, durably.
func (db *Engine) KeepFile(name string, b []byte) error {
	if err := db.beginKeeping(); err != nil {
		return err
	}
	defer db.endKeeping()
	return db.FS.WriteFileAtomic(name, b)
}

// Acquire begins a call on the current version, which Done ends. A leader that was stopped waits
// until it follows the process that has taken its place, or ctx is done.
func (db *Engine) Acquire(ctx context.Context) (*Version, error) {
	if look := db.shared.look.Load(); look != nil {
		if err := (*look)(ctx); err != nil {
			return nil, err
		}
	}
	if err := db.CatchUp(); err != nil {
		return nil, err
	}
	db.Mu.Lock()
	defer db.Mu.Unlock()
	if db.closed {
		return nil, ErrClosed
	}
	db.active.Add(1)
	db.Running++
	db.Cur.Refs++
	return db.Cur, nil
}

// Done ends a call and releases its version.
func (db *Engine) Done(v *Version) {
	db.active.Add(-1)
	db.Mu.Lock()
	defer db.Mu.Unlock()
	db.unref(v)
	db.ended()
}

// Current returns the current version, which drop releases. Close must already wait for
// the caller.
func (db *Engine) Current() *Version {
	db.Mu.Lock()
	defer db.Mu.Unlock()
	db.Cur.Refs++
	return db.Cur
}

// Retain adds a reference to a version that the caller holds. drop releases it.
func (db *Engine) Retain(v *Version) *Version {
	db.Mu.Lock()
	defer db.Mu.Unlock()
	v.Refs++
	return v
}

// Drop releases a version.
func (db *Engine) Drop(v *Version) {
	db.Mu.Lock()
	defer db.Mu.Unlock()
	db.unref(v)
}

// unref drops one reference; Mu is held. The last reader of a segment that no
// longer belongs to the database unmaps it.
func (db *Engine) unref(v *Version) {
	if v.Refs--; v.Refs > 0 {
		return
	}
	delete(db.Live, v)
	if v.Files.versions--; v.Files.versions > 0 {
		return
	}
	for _, s := range v.Files.Segments {
		if s.sets--; s.sets > 0 || db.released { // which has closed it
			continue
		}
		db.shut(s)
	}
	if store := v.Files.Store; store != db.Store && !db.reads(store) && !db.released { // likewise
		db.closeStore(store)
	}
}

// reads reports whether a version has the documents of a store. Those before and after a flush of
// this process, while it led, have the same one. Mu is held.
func (db *Engine) reads(store *meta.Store) bool {
	for v := range db.Live {
		if v.Files.Store == store {
			return true
		}
	}
	return false
}

// shut closes a segment that nobody reads; Mu is held.
func (db *Engine) shut(s *OpenSegment) {
	delete(db.Mapped, s)
	if err := s.Close(); err != nil {
		db.Opts.Logger.Warn("cannot close segment", "segment", s.Info.ID, "error", err)
	}
	db.dropBase(s)
	wake(db.Background.tidy) // it may have been retired
}

// oldest returns the batch number of the oldest version in use.
func (db *Engine) oldest() uint64 {
	db.Mu.Lock()
	defer db.Mu.Unlock()
	lsn := db.Cur.LSN
	for v := range db.Live {
		lsn = min(lsn, v.LSN)
	}
	return lsn
}

// inUse reports whether a retired segment still has readers.
func (db *Engine) inUse(id uint64) bool {
	db.Mu.Lock()
	defer db.Mu.Unlock()
	for s := range db.Mapped {
		if s.Info.ID == id {
			return true
		}
	}
	return false
}

// copyBytes is the number of bytes that CopyFile copies at once: see vfs.Gather.
const copyBytes = vfs.HugePage

// CopyFile copies the first size bytes of a file to a new one of that name, and syncs it.
func CopyFile(ctx context.Context, in io.ReaderAt, to *vfs.FS, name string, size int64) error {
	out, err := to.Create(name)
	if err != nil {
		return err
	}
	defer out.Close()
	buf := make([]byte, min(copyBytes, size))
	for off := int64(0); off < size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(int64(len(buf)), size-off)
		if got, err := in.ReadAt(buf[:n], off); errors.Is(err, io.EOF) {
			return &fileformat.CorruptError{File: name, Offset: off + int64(got), Err: io.ErrUnexpectedEOF}
		} else if err != nil {
			return fmt.Errorf("read %s at offset %d: %w", name, off, err)
		}
		if _, err := out.WriteAt(buf[:n], off); err != nil {
			return fmt.Errorf("write %s at offset %d: %w", name, off, err)
		}
		off += n
	}
	return out.Sync()
}
