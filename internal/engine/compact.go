package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/segment"
	"github.com/vecbolt/vecbolt/segment/columns"
	"github.com/vecbolt/vecbolt/segment/terms"
)

// Thresholds of background compaction.
const (
	// deadShare is the share of dead rows at which a segment is rewritten.
	deadShare = 0.3
	// Background compaction merges tierCount segments when the largest has at most tierFactor times
	// the rows of the smallest. Each row is then rewritten a logarithmic number of times.
	tierFactor = 4
	tierCount  = 8
	// wholeBytes is the size from which Compact leaves a segment without dead rows alone.
	wholeBytes = 1 << 30
)

// Compact compacts everything. It ends early with ctx, and with ErrClosed when the database closes.
func (e *Engine) Compact(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lost := e.leading()
	defer context.AfterFunc(lost, cancel)() // so that Close does not wait for the end
	err := e.compactAll(ctx)
	switch {
	case !errors.Is(err, context.Canceled) || lost.Err() == nil:
		return err
	case e.background.stopped.Err() != nil:
		return ErrClosed
	}
	return errDeposed
}

func (e *Engine) compactAll(ctx context.Context) error {
	e.mu.Lock()
	e.compacts++
	if e.stopBuilding != nil {
		e.stopBuilding()
	}
	e.mu.Unlock()
	e.compactMu.Lock()
	defer e.compactMu.Unlock()
	e.mu.Lock()
	e.compacts--
	e.mu.Unlock()
	if err := e.Settle(); err != nil {
		return err
	}
	progress := ProgressOf(ctx)
	ctx = progress.with(ctx)
	plan := e.plan(everyVictim)
	for _, c := range plan {
		progress.Expect(c.rows())
	}
	for _, c := range plan {
		if err := e.compactPart(ctx, c); err != nil {
			return err
		}
		progress.Add(c.rows())
	}
	if _, err := e.shrinkMeta(); err != nil {
		return err
	}
	if err := e.Settle(); err != nil {
		return err
	}
	if err := e.renewDerived(ctx); err != nil {
		return err
	}
	e.metaMu.Lock()
	rest := len(e.state.Obsolete) > 0 // segments whose graphs were reused by MakeDerived
	e.metaMu.Unlock()
	if rest {
		if err := e.Settle(); err != nil {
			return err
		}
	}
	_, err := e.shrinkMeta() // without the documents of versions that have ended since
	return err
}

// shrinkMeta replaces meta.bolt by a copy without free pages if these are many.
func (e *Engine) shrinkMeta() (done bool, err error) {
	file, free := e.store.Size()
	if free <= 1<<20 || free <= file/8 {
		return false, nil
	}
	err = e.rewriteMeta()
	if err == nil || errors.Is(err, errDeposed) || e.store.Usable() {
		return err == nil, err // after an error, such as no free descriptor, meta.bolt is unchanged
	}
	return false, e.Fail(err)
}

func (e *Engine) rewriteMeta() error {
	e.metaMu.Lock()
	defer e.metaMu.Unlock()
	if err := errors.Join(e.mayWrite(), e.fenced()); err != nil {
		return err
	}
	if err := e.store.Rewrite(); err != nil {
		return err
	}
	e.announce()
	return nil
}

// CompactSome runs background compactions until none is worthwhile.
func (e *Engine) CompactSome(ctx context.Context) error {
	e.compactMu.Lock()
	defer e.compactMu.Unlock()
	defer e.background.wakeDerive()
	for {
		jobs := e.plan(worthwhileVictims)
		if len(jobs) == 0 || e.Err() != nil {
			return nil
		}
		jobs[0].whole = true
		if err := e.compactPart(ctx, jobs[0]); err != nil {
			return err
		}
	}
}

// A compaction merges the live rows of several segments of one collection into a new segment.
type compaction struct {
	coll    uint32
	dim     int
	victims []victim
	// whole says that the new segment gets the codes and the graph that most of its rows had before
	// it takes the place of the victims. Otherwise searches would scan them in full for a while.
	whole bool
}

// A victim is a segment with the dead rows that the compaction leaves out: the rows that are dead
// in meta.bolt. Rows that died later are copied and marked dead in the new segment, because
// meta.bolt maps ids to them until the next flush.
type victim struct {
	*OpenSegment
	dead *bitset.Cow
}

func (v victim) live() int { return v.Info.Rows - v.dead.Count() }

// plan lists the compactions of the segments that choose selects.
func (e *Engine) plan(choose func([]victim) []victim) []compaction {
	e.metaMu.Lock()
	defer e.metaMu.Unlock()
	type key struct {
		coll uint32
		dim  int
	}
	groups := map[key][]victim{}
	for _, s := range e.segments {
		k := key{s.Info.Collection, s.Info.Dim}
		groups[k] = append(groups[k], victim{s, s.dead})
	}
	var jobs []compaction
	for k, group := range groups {
		slices.SortFunc(group, func(a, b victim) int { return a.Info.Rows - b.Info.Rows })
		if victims := choose(group); len(victims) > 0 {
			jobs = append(jobs, compaction{coll: k.coll, dim: k.dim, victims: victims})
		}
	}
	return jobs
}

// everyVictim chooses every segment that frees space or can be merged with others.
func everyVictim(group []victim) []victim {
	victims := slices.DeleteFunc(slices.Clone(group), func(v victim) bool {
		return v.dead.Count() == 0 && v.Info.Size >= wholeBytes
	})
	if len(victims) == 1 && victims[0].dead.Count() == 0 {
		return nil
	}
	return victims
}

// worthwhileVictims chooses from segments sorted by rows: several of similar size, or one with many
// dead rows.
func worthwhileVictims(group []victim) []victim {
	for lo := range group {
		hi := lo
		for hi < len(group) && group[hi].Info.Rows <= tierFactor*max(1, group[lo].Info.Rows) {
			hi++
		}
		if hi-lo >= tierCount {
			return group[lo:hi]
		}
	}
	for i, v := range group {
		if float64(v.dead.Count()) > deadShare*float64(v.Info.Rows) {
			return group[i : i+1]
		}
	}
	return nil
}

// CompactSettled merges segments of at least the given age that searches would otherwise visit one
// by one for ever if nothing else were written: first those too small for a graph, then, if nothing
// was written for as long, the others. It returns the time until it should be called again, 0 if
// nothing is left.
func (e *Engine) CompactSettled(ctx context.Context, age time.Duration) (next time.Duration, err error) {
	e.compactMu.Lock()
	defer e.compactMu.Unlock()
	for e.Err() == nil {
		start := time.Now()
		jobs, err := e.planSettled(strayVictims, age)
		all := err == nil && len(jobs) == 0
		if all {
			jobs, err = e.planSettled(idleVictims, age)
		}
		if err != nil || len(jobs) == 0 {
			return 0, err
		}
		if all {
			if wait := e.untilIdle(age); wait > 0 {
				return wait, nil
			}
		}
		jobs[0].whole = true
		if err := e.compactPart(ctx, jobs[0]); err != nil {
			return 0, err
		}
		if all {
			e.rest(time.Since(start))
		}
		e.background.wakeDerive()
	}
	return 0, nil
}

// planSettled is plan for CompactSettled, whose choices depend on the graphs that are there. One
// that cannot be read is built again, and its segment waits for that.
func (e *Engine) planSettled(choose func([]victim, time.Duration) []victim, age time.Duration) (
	jobs []compaction, err error) {
	err = RetryDerived(func() error {
		return e.Guard(func() error {
			jobs = e.plan(func(group []victim) []victim { return choose(group, age) })
			return nil
		})
	})
	return jobs, err
}

const (
	// strayShare: segments without a graph are merged when they have at least one in this many of
	// the vector components that make a graph pay. Fewer are scanned as fast as a graph is
	// searched.
	strayShare = 8
	// strayFactor bounds the rows of a segment that is rewritten to take in the strays: at most
	// this many times theirs. So it grows by a quarter at least whenever its rows are rewritten.
	strayFactor = 4
)

// graphRows returns the number of rows from which a segment of a group gets a graph. ok is false if
// the collection has none.
func graphRows(group []victim) (rows int, ok bool) {
	if len(group) == 0 || group[0].Info.Dim == 0 || group[0].index() == IndexNone {
		return 0, false
	}
	return int(group[0].engine.Opts.GraphSize / int64(group[0].Info.Dim)), true
}

// strayVictims chooses from segments sorted by rows those that are too small for a graph: all of
// them, if they get a graph together, and otherwise with the smallest segment that has one. It must
// be called inside Guard, as idleVictims.
func strayVictims(group []victim, age time.Duration) []victim {
	least, ok := graphRows(group)
	if !ok {
		return nil
	}
	var strays []victim
	rows := 0
	for _, v := range group {
		settled := time.Since(v.made) >= age
		switch {
		case v.Graph == nil && settled:
			strays, rows = append(strays, v), rows+v.live()
		case v.Graph == nil:
			return nil // soon: one merge is cheaper than two
		case rows*strayShare < least:
			return nil
		case rows <= least && settled && v.Info.Rows <= strayFactor*rows && v.Graph.Get() != nil:
			return append(strays, v)
		}
	}
	if rows > least && len(strays) > 1 {
		return strays
	}
	return nil
}

const (
	// idleFactor bounds the rows of the largest segment that is rewritten while the database is
	// idle: at most this many times the rows of the smaller ones together.
	idleFactor = 64
	// restFactor: after such a merge there is a rest of this many times its duration. So they take
	// a twentieth of the time at most, however often a few rows are written.
	restFactor = 20
)

// rest postpones the next merge of idleVictims after one that took this long. compactMu is held.
func (e *Engine) rest(took time.Duration) { e.rested = time.Now().Add(restFactor * took) }

// untilIdle returns the time until idleVictims may be merged, 0 or less if that is now. compactMu
// is held.
func (e *Engine) untilIdle(age time.Duration) time.Duration {
	e.commitMu.Lock()
	defer e.commitMu.Unlock()
	return max(age-time.Since(e.lastWrite), time.Until(e.rested))
}

// idleVictims chooses from segments sorted by rows: all up to the largest that the smaller ones are
// worth. A search then has one graph to visit instead of several.
func idleVictims(group []victim, age time.Duration) []victim {
	least, ok := graphRows(group)
	if !ok {
		return nil
	}
	group = slices.DeleteFunc(slices.Clone(group), func(v victim) bool { return v.Info.Size >= wholeBytes })
	last, rows := 0, 0
	for i, v := range group {
		if time.Since(v.made) < age || v.Graph != nil && v.Graph.Get() == nil {
			return nil // its graph is due, and serves while the segments are merged
		}
		if v.Graph != nil && rows*strayShare >= least && v.live() <= idleFactor*rows {
			last = i
		}
		rows += v.live()
	}
	if last == 0 {
		return nil
	}
	return group[:last+1]
}

// rows returns the number of rows that the compaction reads.
func (c *compaction) rows() (n int64) {
	for _, v := range c.victims {
		n += int64(v.Info.Rows)
	}
	return n
}

// compactPart runs one compaction. compactMu is held.
func (e *Engine) compactPart(ctx context.Context, c compaction) error {
	start := time.Now()
	e.removeLitter()
	defer e.Drop(e.Current()) // keeps the victims mapped
	e.metaMu.Lock()
	there := e.haveVictims(c) // a dropped victim may already be unmapped
	e.metaMu.Unlock()
	if !there {
		return nil
	}
	var fresh *OpenSegment
	err := RetryDerived(func() error {
		return e.Guard(func() (err error) {
			fresh, err = e.merge(ctx, c)
			return err
		})
	})
	if err != nil {
		return err
	}
	done := fresh == nil
	defer func() {
		if !done && e.Err() == nil { // in doubt, meta.bolt may name fresh: the next Open decides
			e.unmap(fresh)
			e.removeSegment(fresh.Info.ID)
		}
	}()
	e.metaMu.Lock()
	defer e.metaMu.Unlock()
	if !e.haveVictims(c) {
		return nil
	}
	var dead *bitset.Cow
	err = e.Guard(func() error {
		for _, v := range c.victims {
			dead = carryOver(dead, v, v.OpenSegment.dead, fresh)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = e.commitMeta(nil, func(tx *meta.Tx) error {
		for _, v := range c.victims {
			if err := e.retire(tx, v.Info.ID); err != nil {
				return err
			}
		}
		if fresh == nil {
			return nil
		}
		for chunk, words := range dead.Chunks() {
			if err := tx.PutDeadChunk(fresh.Info.ID, chunk, words); err != nil {
				return err
			}
		}
		return tx.PutSegment(fresh.Info)
	})
	if err != nil {
		return err
	}
	done = true
	if fresh != nil {
		fresh.dead = dead
		e.segments[fresh.Info.ID] = fresh
	}
	if err := e.Guard(func() error { return e.publishCompaction(c, fresh) }); err != nil {
		return e.Fail(err) // meta.bolt is ahead of the state in memory
	}
	e.Opts.Logger.Info("compacted", "collection", c.coll, "segments", len(c.victims), "took", time.Since(start))
	return nil
}

// haveVictims reports whether all victims are still in the database: a dropped collection takes its
// segments with it. metaMu is held.
func (e *Engine) haveVictims(c compaction) bool {
	for _, v := range c.victims {
		if e.segments[v.Info.ID] != v.OpenSegment {
			return false
		}
	}
	return true
}

// carryOver marks rows of fresh that died in victim v during the compaction. now is the newest set
// of dead rows of v.
func carryOver(dead *bitset.Cow, v victim, now *bitset.Cow, fresh *OpenSegment) *bitset.Cow {
	if fresh == nil || now == v.dead {
		return dead
	}
	var rows []int
	nums := v.DocNums()
	for row := range now.All() {
		if v.dead.Has(row) {
			continue
		}
		if at, ok := fresh.Find(nums[row]); ok {
			rows = append(rows, at)
		}
	}
	return dead.With(rows...)
}

func (e *Engine) publishCompaction(c compaction, fresh *OpenSegment) error {
	e.commitMu.Lock()
	defer e.commitMu.Unlock()
	next := e.cur.successor()
	next.Files = newFileSet(e.store, &e.ids, e.segments)
	if v := next.Views[c.coll]; v != nil {
		v = v.clone()
		var dead *bitset.Cow
		for _, victim := range c.victims {
			for _, p := range v.Parts {
				if p.Segment == victim.OpenSegment {
					dead = carryOver(dead, victim, p.Dead, fresh)
				}
			}
		}
		v.Parts = slices.DeleteFunc(v.Parts, func(p *Part) bool {
			return slices.ContainsFunc(c.victims, func(v victim) bool { return v.OpenSegment == p.Segment })
		})
		if fresh != nil {
			v.Parts = append(v.Parts, fresh.part(dead))
		}
		next.Views[c.coll] = v
	}
	e.publish(next)
	return nil
}

// merge writes the new segment in order of DocNum. It returns nil if no row is left.
func (e *Engine) merge(ctx context.Context, c compaction) (*OpenSegment, error) {
	rows := 0
	for _, v := range c.victims {
		rows += v.live()
	}
	if rows == 0 {
		return nil, nil
	}
	m := merger{ctx: ctx, docs: mergedDigest(c.victims), cols: columns.NewBuilder(), dim: c.dim,
		moved: map[*OpenSegment][]uint32{}}
	a := e.Analysis(c.coll)
	base := graphBase(c.victims, rows)
	for _, v := range c.victims {
		if a != nil || v.OpenSegment == base {
			m.moved[v.OpenSegment] = slices.Repeat([]uint32{terms.Dropped}, v.Info.Rows)
		}
	}
	newID := func() uint64 {
		e.metaMu.Lock()
		defer e.metaMu.Unlock()
		return e.newSegmentID()
	}
	return e.createSegment(newID, c.coll, c.dim, c.victims[0].metric, func(w *segment.Writer) ([16]byte, error) {
		m.w = w
		err := m.run(c.victims)
		return m.docs.sum(), err
	}, func(s *OpenSegment) {
		s.keepColumns(m.cols)
		s.made = newest(c.victims)
		for _, v := range c.victims { // the queries stay as they are
			s.Raised.Store(max(s.Raised.Load(), v.Raised.Load()))
		}
		if s.Graph != nil && base != nil {
			e.keepBase(s, base, m.moved[base])
		}
		if a != nil {
			m.keepTerms(s, a, c.victims)
		}
		if c.whole {
			e.keepServing(ctx, s, c.victims, rows)
		}
	})
}

// newest returns the time at which the youngest victim was made.
func newest(victims []victim) (made time.Time) {
	for _, v := range victims {
		if v.made.After(made) {
			made = v.made
		}
	}
	return made
}

// keepServing builds the codes and the graph of a new segment, each if at least half of its rows
// had them in the victims. While documents are being loaded, most segments have none yet. A call of
// Compact ends the building: it would wait for it, and make another segment then.
func (e *Engine) keepServing(ctx context.Context, s *OpenSegment, victims []victim, rows int) {
	coded, linked := 0, 0
	for _, v := range victims {
		if v.Codes.Get() != nil {
			coded += v.live()
		}
		if v.Graph.Get() != nil {
			linked += v.live()
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e.mu.Lock()
	e.stopBuilding = cancel
	wanted := e.compacts > 0
	e.mu.Unlock()
	if wanted {
		return
	}
	if s.Codes != nil && 2*coded >= rows {
		e.makeNow(ctx, s.Codes)
	}
	if s.Graph != nil && 2*linked >= rows {
		e.makeNow(ctx, s.Graph)
	}
}

// keepTerms writes the full-text index of the new segment.
func (m *merger) keepTerms(s *OpenSegment, a *Analysis, victims []victim) {
	inputs := make([]terms.Input, len(victims))
	for i, v := range victims {
		src, err := v.Terms.Of(a).Need(m.ctx)
		if err != nil {
			return // the index is rebuilt later
		}
		inputs[i] = terms.Input{Source: src, Rows: m.moved[v.OpenSegment]}
	}
	s.Terms.Keep(a, inputs)
}

// merger copies rows from several segments, each sorted by DocNum, into one.
type merger struct {
	ctx  context.Context
	w    *segment.Writer
	docs *sourceDigest
	cols *columns.Builder
	dim  int
	rows int // written
	// moved maps each row of a segment to its new row or terms.Dropped. It has only the segments
	// whose full-text index or graph is reused.
	moved map[*OpenSegment][]uint32
}

// cursor is the next row of one source.
type cursor struct {
	victim
	nums []uint64
	row  int
}

func (m *merger) run(victims []victim) error {
	var sources []*cursor
	for _, v := range victims {
		sources = append(sources, &cursor{victim: v, nums: v.DocNums()})
	}
	for len(sources) > 0 {
		// Copy from the source with the smallest DocNum up to the next source's smallest. Sources
		// seldom overlap, so this mostly takes one run per source.
		slices.SortFunc(sources, func(a, b *cursor) int {
			if a.nums[a.row] < b.nums[b.row] {
				return -1
			}
			return 1
		})
		first, end := sources[0], len(sources[0].nums)
		if len(sources) > 1 {
			end, _ = slices.BinarySearch(first.nums, sources[1].nums[sources[1].row])
		}
		if err := m.copy(first, end); err != nil {
			return err
		}
		if first.row = end; end == len(first.nums) {
			sources = sources[1:]
		}
	}
	return nil
}

// copyRows is the largest number of rows copied between two checks of the context.
const copyRows = 1024

// copy appends the live rows of [c.row, end).
func (m *merger) copy(c *cursor, end int) error {
	cols, err := c.Cols.Need(m.ctx)
	if err != nil {
		return err
	}
	var kept []int
	yield := yielderOf(m.ctx)
	for lo := c.row; lo < end; {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		yield.yield()
		if c.dead.Has(lo) {
			lo++
			continue
		}
		hi := lo + 1
		for hi < end && hi-lo < copyRows && !c.dead.Has(hi) {
			hi++
		}
		var vecs []float32
		if m.dim > 0 {
			if vecs, err = c.Rows(lo, hi); err != nil {
				return err
			}
		}
		if err := m.w.AppendRows(c.nums[lo:hi], c.InvNorms()[lo:hi], vecs); err != nil {
			return err
		}
		for row := lo; row < hi; row++ {
			m.docs.number(c.nums[row])
			kept = append(kept, row)
		}
		lo = hi
	}
	if err := m.cols.AddFrom(cols, kept, m.rows); err != nil {
		return err
	}
	for i, row := range kept {
		if moved := m.moved[c.OpenSegment]; moved != nil {
			moved[row] = uint32(m.rows + i)
		}
	}
	m.rows += len(kept)
	return nil
}
