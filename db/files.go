package db

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment"
	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/segment/columns"
	"github.com/vecbolt/vecbolt/segment/graph"
)

// An openSegment is a segment with its derived files.
type openSegment struct {
	*segment.Segment
	db     *DB
	info   segment.Info
	metric Metric
	made   time.Time // creation time by this process; zero if it existed at Open

	// dead has the dead rows that meta.bolt records, as of version.applied. Guarded by
	// DB.metaMu.
	dead *bitset.Cow

	sets int // references: fileSets, and segments with this base; guarded by DB.mu

	base     *openSegment // its graph is the start of this segment's graph; guarded by DB.mu
	baseRows []int32      // new row of each row of base, or -1; guarded by DB.mu

	raised   atomic.Int32 // number of times that the beam width was raised
	checked  tally        // hits found by searches since then; guarded by rechecks.mu
	promised float64      // number of hits promised by these searches; guarded by rechecks.mu

	cols    *derived[columns.Columns]
	codes   *derived[codes.Codes] // nil if the segment is too small for codes
	graph   *derived[graph.Graph] // nil if the segment is too small for a graph
	terms   *segmentTerms
	derived []derivedFile // all of the above
}

// openSegment maps a segment of a collection with the given metric.
func (db *DB) openSegment(info segment.Info, metric Metric, dead *bitset.Cow) (*openSegment, error) {
	seg, err := segment.Open(db.files(), db.state.DB, info)
	if err != nil {
		return nil, err
	}
	s := &openSegment{Segment: seg, db: db, info: info, metric: metric, dead: dead}
	s.cols = db.columnsOf(s)
	s.terms = &segmentTerms{s: s}
	s.derived = append(s.derived, s.cols, s.terms)
	if s.wantsCodes() {
		s.codes = db.codesOf(s)
		s.derived = append(s.derived, s.codes)
	}
	if s.wantsGraph() {
		s.graph = db.graphOf(s)
		s.derived = append(s.derived, s.graph)
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.mapped[s] = struct{}{}
	return s, nil
}

func (s *openSegment) part(dead *bitset.Cow) *part {
	return &part{
		source: s, segment: s, n: s.info.Rows, dim: s.info.Dim,
		nums: s.DocNums(), inv: s.InvNorms(), maxNorm: s.info.MaxNorm, dead: dead,
	}
}

func (s *openSegment) vectors(lo, hi int) ([]float32, error) { return s.Rows(lo, hi) }

func (s *openSegment) run(int) int { return s.info.Rows }

func (s *openSegment) match(ctx context.Context, e filter.Expr, dst bitset.Set) error {
	cols, err := s.cols.need(ctx)
	if err != nil {
		return err
	}
	return cols.EvalContext(ctx, e, dst)
}

func (s *openSegment) close() error {
	for _, d := range s.derived {
		d.close()
	}
	return s.Segment.Close()
}

// A fileSet has the segments of a version and the store of its documents. Versions share
// one until a flush or a compaction changes it.
type fileSet struct {
	store    *meta.Store // DB.store, except for versions of a published folder
	ids      *knownIDs   // likewise: a restored database reuses DocNums
	segments []*openSegment
	versions int // guarded by DB.mu
}

// newFileSet returns a fileSet with the segments in order of number.
func newFileSet(store *meta.Store, ids *knownIDs, segments map[uint64]*openSegment) *fileSet {
	set := &fileSet{store: store, ids: ids}
	for _, id := range slices.Sorted(maps.Keys(segments)) {
		set.segments = append(set.segments, segments[id])
	}
	return set
}

// successor returns a copy of a version, to be changed before it is published.
func (v *version) successor() *version {
	next := &version{
		lsn: v.lsn, applied: v.applied, nextNum: v.nextNum, names: v.names, files: v.files,
		views: make(map[uint32]*view, len(v.views)+1),
	}
	for id, w := range v.views {
		next.views[id] = w
	}
	return next
}

// tip returns the newest version, the base of the next one. commitMu is held.
func (db *DB) tip() *version {
	if db.held != nil {
		return db.held
	}
	return db.cur
}

// publish makes v the current version, or the version that Refresh prepares. The caller
// may write to the heads.
func (db *DB) publish(v *version) {
	v.headBytes = db.active.bytes
	if db.frozen != nil {
		v.headBytes += db.frozen.bytes
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if v.files.versions == 0 {
		for _, s := range v.files.segments {
			s.sets++
		}
	}
	v.files.versions++
	v.refs = 1
	db.live[v] = struct{}{}
	slot := &db.cur
	if db.holding {
		slot = &db.held
	}
	old := *slot
	*slot = v
	if old != nil {
		db.unref(old)
	}
}

// guard runs fn, which reads mapped files, on this goroutine. A memory fault becomes an
// error that names the file: a sector may be unreadable, or another program may have cut
// the file. A derived file with a fault is not used again: see retryDerived.
func (db *DB) guard(fn func() error) error {
	err := vfs.Guard(segDir, fn)
	if err == nil {
		return nil
	}
	fault, ok := errors.AsType[*vfs.FaultError](err)
	if !ok {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	for s := range db.mapped {
		for _, d := range s.derived {
			if err := d.fault(fault); err != nil {
				return err
			}
		}
		err = s.Fault(err)
	}
	return err
}

// begin starts a call. Close waits until end ends it.
func (db *DB) begin() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return ErrClosed
	}
	db.running++
	return nil
}

// end ends a call.
func (db *DB) end() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.ended()
}

// ended is end with mu held.
func (db *DB) ended() {
	if db.running--; db.running == 0 {
		db.idle.Broadcast()
	}
}

// acquire begins a call on the current version, which done ends.
func (db *DB) acquire() (*version, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return nil, ErrClosed
	}
	db.running++
	db.cur.refs++
	return db.cur, nil
}

// done ends a call and releases its version.
func (db *DB) done(v *version) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.unref(v)
	db.ended()
}

// current returns the current version, which drop releases. Close must already wait for
// the caller.
func (db *DB) current() *version {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.cur.refs++
	return db.cur
}

// retain adds a reference to a version that the caller holds. drop releases it.
func (db *DB) retain(v *version) *version {
	db.mu.Lock()
	defer db.mu.Unlock()
	v.refs++
	return v
}

// drop releases a version.
func (db *DB) drop(v *version) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.unref(v)
}

// unref drops one reference; mu is held. The last reader of a segment that no
// longer belongs to the database unmaps it.
func (db *DB) unref(v *version) {
	if v.refs--; v.refs > 0 {
		return
	}
	delete(db.live, v)
	if v.files.versions--; v.files.versions > 0 {
		return
	}
	for _, s := range v.files.segments {
		if s.sets--; s.sets > 0 || db.closed { // release closes the rest
			continue
		}
		db.shut(s)
	}
	if v.files.store != db.store && !db.closed {
		db.closeStore(v.files.store)
	}
}

// shut closes a segment that nobody reads; mu is held.
func (db *DB) shut(s *openSegment) {
	delete(db.mapped, s)
	if err := s.close(); err != nil {
		db.opts.Logger.Warn("cannot close segment", "segment", s.info.ID, "error", err)
	}
	db.dropBase(s)
}

// oldest returns the batch number of the oldest version in use.
func (db *DB) oldest() uint64 {
	db.mu.Lock()
	defer db.mu.Unlock()
	lsn := db.cur.lsn
	for v := range db.live {
		lsn = min(lsn, v.lsn)
	}
	return lsn
}

// inUse reports whether a retired segment still has readers.
func (db *DB) inUse(id uint64) bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	for s := range db.mapped {
		if s.info.ID == id {
			return true
		}
	}
	return false
}
