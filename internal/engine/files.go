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
	engine *Engine
	Info   segment.Info
	metric fileformat.Metric
	made   time.Time // when the newest rows began to be written; zero if they existed at Open

	stays context.Context // ends when the segment leaves the database; old versions may still have it
	leave context.CancelFunc

	// dead has the dead rows that meta.bolt records, as of Version.Applied. Guarded by
	// Engine.metaMu.
	dead *bitset.Cow

	sets int // references: fileSets, and segments with this base; guarded by Engine.mu

	base     *OpenSegment // its graph is the start of this segment's graph; guarded by Engine.mu
	baseRows []int32      // new row of each row of base, or -1; guarded by Engine.mu

	Raised atomic.Int32 // number of times that the beam width was raised
	cold   atomic.Int32 // how many searches are to be cold: see Watch
	looks  atomic.Uint32

	Cols    *Derived[columns.Columns]
	Codes   *Derived[codes.Codes] // nil if the segment is too small for codes
	Graph   *Derived[graph.Graph] // nil if the segment is too small for a graph
	Terms   *segmentTerms
	Derived []derivedFile // all of the above
}

// whileStays returns a context that also ends when the segment leaves the database.
func (s *OpenSegment) whileStays(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.stays, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// openSegment maps a segment of a collection with the given metric.
func (e *Engine) openSegment(info segment.Info, metric fileformat.Metric, dead *bitset.Cow) (*OpenSegment, error) {
	seg, err := segment.Open(e.Files(), e.Identity, info)
	if err != nil {
		return nil, err
	}
	s := &OpenSegment{Segment: seg, engine: e, Info: info, metric: metric, dead: dead}
	s.stays, s.leave = context.WithCancel(context.Background())
	s.Cols = e.columnsOf(s)
	s.Terms = &segmentTerms{s: s}
	s.Derived = append(s.Derived, s.Cols, s.Terms)
	if s.wantsCodes() {
		s.Codes = e.codesOf(s)
		s.Derived = append(s.Derived, s.Codes)
	}
	if s.wantsGraph() {
		s.cold.Store(coldFirst)
		s.Graph = e.graphOf(s)
		s.Derived = append(s.Derived, s.Graph)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mapped[s] = struct{}{}
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
		d.close()
	}
	return s.Segment.Close()
}

// A fileSet has the segments of a version and the store of its documents. Versions share
// one until a flush or a compaction changes it.
type fileSet struct {
	Store    *meta.Store // Engine.Store when it was made
	IDs      *KnownIDs   // likewise: a restored database reuses DocNums
	Segments []*OpenSegment
	versions int // guarded by Engine.mu
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
		LSN: v.LSN, ahead: v.ahead, Applied: v.Applied, nextNum: v.nextNum, Names: v.Names, Files: v.Files,
		Views: make(map[uint32]*View, len(v.Views)+1),
	}
	for id, w := range v.Views {
		next.Views[id] = w
	}
	return next
}

// tip returns the newest version, the base of the next one. commitMu is held.
func (e *Engine) tip() *Version {
	if e.held != nil {
		return e.held
	}
	return e.cur
}

// publish makes v the current version, or the version that Refresh prepares. The caller
// may write to the heads.
func (e *Engine) publish(v *Version) {
	v.HeadBytes = e.headBytes()
	e.mu.Lock()
	defer e.mu.Unlock()
	if v.Files.versions == 0 {
		for _, s := range v.Files.Segments {
			s.sets++
		}
	}
	v.Files.versions++
	v.refs = 1
	e.live[v] = struct{}{}
	slot := &e.cur
	if e.holding {
		slot = &e.held
	}
	old := *slot
	*slot = v
	if old != nil {
		e.unref(old)
	}
}

// HeadBytes returns the approximate memory of writes that are not in segments yet.
func (e *Engine) HeadBytes() int64 {
	e.commitMu.Lock()
	defer e.commitMu.Unlock()
	return e.headBytes()
}

// headBytes is HeadBytes with commitMu held.
func (e *Engine) headBytes() int64 {
	bytes := e.head.bytes
	for _, older := range []*head{e.frozen, e.shared.received.frozen} {
		if older != nil {
			bytes += older.bytes
		}
	}
	return bytes
}

// Guard runs fn, which reads mapped files, on this goroutine. A memory fault becomes an
// error that names the file: a sector may be unreadable, or another program may have cut
// the file. A derived file with a fault is not used again: see RetryDerived.
func (e *Engine) Guard(fn func() error) error {
	err := vfs.Guard(SegDir, fn)
	if err == nil {
		return nil
	}
	fault, ok := errors.AsType[*vfs.FaultError](err)
	if !ok {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for s := range e.mapped {
		for _, d := range s.Derived {
			if err := d.fault(fault); err != nil {
				return err
			}
		}
		err = s.Fault(err)
	}
	return err
}

// Begin starts a call. Close waits until End ends it.
func (e *Engine) Begin() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return ErrClosed
	}
	e.running++
	return nil
}

// beginStep starts a step that calls which run may wait for, such as applying batches, and endStep
// ends it. While a call runs it works after Close or Refuse as well. Steps do not count as calls
// there, so one cannot make room for the next, and Close comes to its end.
func (e *Engine) beginStep() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed && e.running == e.steps {
		return ErrClosed
	}
	e.running++
	e.steps++
	return nil
}

// endStep ends a step.
func (e *Engine) endStep() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.steps--
	e.ended()
}

// End ends a call.
func (e *Engine) End() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended()
}

// Calls returns how many calls run that Close would wait for.
func (e *Engine) Calls() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.running
}

// ended is End with mu held.
func (e *Engine) ended() {
	if e.running--; e.running == 0 {
		e.idle.Broadcast()
		e.endRefusing()
	}
}

// mayWrite returns an error unless this process has the lock for writing.
func (e *Engine) mayWrite() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.writes {
		return errDeposed
	}
	return nil
}

// beginKeeping begins to write a file that belongs to no commit, which endKeeping ends. Only a
// leader does so, and StepDown waits for it.
func (e *Engine) beginKeeping() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.writes {
		return errDeposed
	}
	e.keeping++
	return nil
}

func (e *Engine) endKeeping() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.keeping--; e.keeping == 0 {
		e.idle.Broadcast()
	}
}

// KeepFile gives a file that belongs to no commit its content, durably.
func (e *Engine) KeepFile(name string, b []byte) error {
	if err := e.beginKeeping(); err != nil {
		return err
	}
	defer e.endKeeping()
	return e.FS.WriteFileAtomic(name, b)
}

// Acquire begins a call on the current version, which Done ends. A leader that was stopped waits
// until it follows the process that has taken its place, or ctx is done.
func (e *Engine) Acquire(ctx context.Context) (*Version, error) {
	if look := e.shared.look.Load(); look != nil {
		if err := (*look)(ctx); err != nil {
			return nil, err
		}
	}
	return e.AcquireKnown()
}

// AcquireKnown is Acquire of the newest version that this process knows. It waits for no other one.
func (e *Engine) AcquireKnown() (*Version, error) {
	if err := e.CatchUp(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, ErrClosed
	}
	e.active.Add(1)
	e.running++
	e.cur.refs++
	return e.cur, nil
}

// Done ends a call and releases its version.
func (e *Engine) Done(v *Version) {
	e.active.Add(-1)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unref(v)
	e.ended()
}

// Current returns the current version, which Drop releases. Close must already wait for
// the caller.
func (e *Engine) Current() *Version {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cur.refs++
	return e.cur
}

// Retain adds a reference to a version that the caller holds. Drop releases it.
func (e *Engine) Retain(v *Version) *Version {
	e.mu.Lock()
	defer e.mu.Unlock()
	v.refs++
	return v
}

// Drop releases a version.
func (e *Engine) Drop(v *Version) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unref(v)
}

// VersionsInUse returns how many versions somebody reads, the current one included.
func (e *Engine) VersionsInUse() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.live)
}

// unref drops one reference; mu is held. The last reader of a segment that no
// longer belongs to the database unmaps it.
func (e *Engine) unref(v *Version) {
	if v.refs--; v.refs > 0 {
		return
	}
	delete(e.live, v)
	if v.Files.versions--; v.Files.versions > 0 {
		return
	}
	for _, s := range v.Files.Segments {
		if s.sets--; s.sets > 0 || e.released { // which has closed it
			continue
		}
		e.shut(s)
	}
	if store := v.Files.Store; store != e.store && !e.reads(store) && !e.released { // likewise
		e.closeStore(store)
	}
}

// reads reports whether a version has the documents of a store. Those before and after a flush of
// this process, while it led, have the same one. mu is held.
func (e *Engine) reads(store *meta.Store) bool {
	for v := range e.live {
		if v.Files.Store == store {
			return true
		}
	}
	return false
}

// shut closes a segment that nobody reads; mu is held.
func (e *Engine) shut(s *OpenSegment) {
	delete(e.mapped, s)
	if err := s.Close(); err != nil {
		e.Opts.Logger.Warn("cannot close segment", "segment", s.Info.ID, "error", err)
	}
	e.dropBase(s)
	wake(e.background.tidy) // it may have been retired
}

// oldest returns the batch number of the oldest version in use.
func (e *Engine) oldest() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	lsn := e.cur.LSN
	for v := range e.live {
		lsn = min(lsn, v.LSN)
	}
	return lsn
}

// inUse reports whether a retired segment still has readers.
func (e *Engine) inUse(id uint64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for s := range e.mapped {
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
