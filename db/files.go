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
	made   time.Time // by this process; zero if it was there

	// dead is what meta.bolt says: the dead rows as of version.applied.
	// Guarded by DB.metaMu.
	dead *bitset.Cow

	sets int // who holds it: fileSets, and segments whose base it is; guarded by DB.mu

	base     *openSegment // whose graph that of this one is to be built upon; guarded by DB.mu
	baseRows []int32      // the row that each of its rows has become here, or -1; likewise

	raised   atomic.Int32 // how often the effort of walks was raised
	checked  tally        // what walks found, since then; guarded by rechecks.mu
	promised float64      // how much they should have; likewise

	cols    *derived[columns.Columns]
	codes   *derived[codes.Codes] // nil if they would not pay
	graph   *derived[graph.Graph] // likewise
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

// A fileSet is the segments of a version, and where its documents are. Versions
// share one until a flush or a compaction changes it.
type fileSet struct {
	store    *meta.Store // that of the database, but where published versions are followed;
	ids      *knownIDs   // likewise: a database that was restored gives DocNums again
	segments []*openSegment
	versions int // guarded by DB.mu
}

// newFileSet lists segments by number.
func newFileSet(store *meta.Store, ids *knownIDs, segments map[uint64]*openSegment) *fileSet {
	set := &fileSet{store: store, ids: ids}
	for _, id := range slices.Sorted(maps.Keys(segments)) {
		set.segments = append(set.segments, segments[id])
	}
	return set
}

// successor returns a version that differs in nothing yet.
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

// tip returns the newest version, for the holder of commitMu to build upon.
func (db *DB) tip() *version {
	if db.held != nil {
		return db.held
	}
	return db.cur
}

// publish makes v the current version, or the one that Refresh prepares. Who
// calls it may write to the heads.
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

// guard runs fn, which reads mapped files, on this goroutine. A fault of the
// memory, because a sector cannot be read or a file was cut, becomes an error
// that names the file. A derived file that failed so is not used again: see
// retryDerived.
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

// begin starts a call that reads; Close waits for its end.
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

// ended is end for the holder of mu.
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

// done ends a call and gives its version back.
func (db *DB) done(v *version) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.unref(v)
	db.ended()
}

// current returns the current version, to be given back by drop. The caller
// is part of what Close waits for.
func (db *DB) current() *version {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.cur.refs++
	return db.cur
}

// retain takes another reference to a version that the caller holds, to be
// given back by drop.
func (db *DB) retain(v *version) *version {
	db.mu.Lock()
	defer db.mu.Unlock()
	v.refs++
	return v
}

// drop gives a version back.
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
		if s.sets--; s.sets > 0 || db.closed { // Close sees to the rest
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

// oldest returns the batch number of the oldest version that is in use.
func (db *DB) oldest() uint64 {
	db.mu.Lock()
	defer db.mu.Unlock()
	lsn := db.cur.lsn
	for v := range db.live {
		lsn = min(lsn, v.lsn)
	}
	return lsn
}

// inUse reports whether a segment that left the database still has readers.
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
