package db

import (
	"context"
	"errors"
	"fmt"
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
	// Background compaction merges tierCount segments when the largest has at
	// most tierFactor times the rows of the smallest. Each row is then rewritten
	// a logarithmic number of times.
	tierFactor = 4
	tierCount  = 8
	// wholeBytes is the size from which Compact leaves a segment without dead rows alone.
	wholeBytes = 1 << 30
)

// Compact reclaims all space of deleted and replaced documents at once. It flushes,
// rewrites segments with dead rows, merges small segments, and rewrites meta.bolt if much
// of it is free. Readers and writers go on. Calling it is optional: the database compacts
// in the background.
func (db *DB) Compact(ctx context.Context) error {
	if err := db.usable(ctx); err != nil {
		return fmt.Errorf("db: compact: %w", err)
	}
	defer db.end()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(db.background.stopped, cancel)() // so that Close does not wait for the end
	err := db.compactAll(ctx)
	if errors.Is(err, context.Canceled) && db.background.stopped.Err() != nil {
		err = ErrClosed
	}
	if err != nil {
		return fmt.Errorf("db: compact: %w", translate(err))
	}
	return nil
}

func (db *DB) compactAll(ctx context.Context) error {
	db.compactMu.Lock()
	defer db.compactMu.Unlock()
	if err := db.settle(); err != nil {
		return err
	}
	for _, c := range db.plan(everyVictim) {
		if err := db.compact(ctx, c); err != nil {
			return err
		}
	}
	if file, free := db.store.Size(); free > 1<<20 && free > file/8 {
		err := db.rewriteMeta()
		if noSpace(err) && db.store.Usable() {
			return err // meta.bolt is unchanged
		}
		if err != nil {
			return db.fail(err)
		}
	}
	if err := db.settle(); err != nil {
		return err
	}
	if _, err := db.makeDerived(ctx, byCompact, 0); err != nil {
		return err
	}
	db.metaMu.Lock()
	rest := len(db.state.Obsolete) > 0 // segments whose graphs were reused by makeDerived
	db.metaMu.Unlock()
	if rest {
		return db.settle()
	}
	return nil
}

func (db *DB) rewriteMeta() error {
	db.metaMu.Lock()
	defer db.metaMu.Unlock()
	return db.store.Rewrite()
}

// compactSome runs background compactions until none is worthwhile.
func (db *DB) compactSome(ctx context.Context) error {
	db.compactMu.Lock()
	defer db.compactMu.Unlock()
	defer db.background.wakeDerive()
	for {
		jobs := db.plan(worthwhileVictims)
		if len(jobs) == 0 || db.err() != nil {
			return nil
		}
		if err := db.compact(ctx, jobs[0]); err != nil {
			return err
		}
	}
}

// A compaction merges the live rows of several segments of one collection into a new
// segment.
type compaction struct {
	coll    uint32
	dim     int
	victims []victim
}

// A victim is a segment with the dead rows that the compaction leaves out: the rows that
// are dead in meta.bolt. Rows that died later are copied and marked dead in the new
// segment, because meta.bolt maps ids to them until the next flush.
type victim struct {
	*openSegment
	dead *bitset.Cow
}

func (v victim) live() int { return v.info.Rows - v.dead.Count() }

// plan lists the compactions of the segments that choose selects.
func (db *DB) plan(choose func([]victim) []victim) []compaction {
	db.metaMu.Lock()
	defer db.metaMu.Unlock()
	type key struct {
		coll uint32
		dim  int
	}
	groups := map[key][]victim{}
	for _, s := range db.segments {
		k := key{s.info.Collection, s.info.Dim}
		groups[k] = append(groups[k], victim{s, s.dead})
	}
	var jobs []compaction
	for k, group := range groups {
		slices.SortFunc(group, func(a, b victim) int { return a.info.Rows - b.info.Rows })
		if victims := choose(group); len(victims) > 0 {
			jobs = append(jobs, compaction{coll: k.coll, dim: k.dim, victims: victims})
		}
	}
	return jobs
}

// everyVictim chooses every segment that frees space or can be merged with others.
func everyVictim(group []victim) []victim {
	victims := slices.DeleteFunc(slices.Clone(group), func(v victim) bool {
		return v.dead.Count() == 0 && v.info.Size >= wholeBytes
	})
	if len(victims) == 1 && victims[0].dead.Count() == 0 {
		return nil
	}
	return victims
}

// worthwhileVictims chooses from segments sorted by rows: several of similar size, or one
// with many dead rows.
func worthwhileVictims(group []victim) []victim {
	for lo := range group {
		hi := lo
		for hi < len(group) && group[hi].info.Rows <= tierFactor*max(1, group[lo].info.Rows) {
			hi++
		}
		if hi-lo >= tierCount {
			return group[lo:hi]
		}
	}
	for i, v := range group {
		if float64(v.dead.Count()) > deadShare*float64(v.info.Rows) {
			return group[i : i+1]
		}
	}
	return nil
}

// compact runs one compaction. compactMu is held.
func (db *DB) compact(ctx context.Context, c compaction) error {
	start := time.Now()
	db.removeLitter()
	defer db.drop(db.current()) // keeps the victims mapped
	db.metaMu.Lock()
	there := db.haveVictims(c) // a dropped victim may already be unmapped
	db.metaMu.Unlock()
	if !there {
		return nil
	}
	var fresh *openSegment
	err := retryDerived(func() error {
		return db.guard(func() (err error) {
			fresh, err = db.merge(ctx, c)
			return err
		})
	})
	if err != nil {
		return err
	}
	done := fresh == nil
	defer func() {
		if !done && db.err() == nil { // in doubt, meta.bolt may name fresh: the next Open decides
			db.unmap(fresh)
			db.removeSegment(fresh.info.ID)
		}
	}()
	db.metaMu.Lock()
	defer db.metaMu.Unlock()
	if !db.haveVictims(c) {
		return nil
	}
	var dead *bitset.Cow
	err = db.guard(func() error {
		for _, v := range c.victims {
			dead = carryOver(dead, v, v.openSegment.dead, fresh)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = db.commitMeta(nil, func(tx *meta.Tx) error {
		for _, v := range c.victims {
			if err := db.retire(tx, v.info.ID); err != nil {
				return err
			}
		}
		if fresh == nil {
			return nil
		}
		for chunk, words := range dead.Chunks() {
			if err := tx.PutDeadChunk(fresh.info.ID, chunk, words); err != nil {
				return err
			}
		}
		return tx.PutSegment(fresh.info)
	})
	if err != nil {
		return err
	}
	done = true
	if fresh != nil {
		fresh.dead = dead
		db.segments[fresh.info.ID] = fresh
	}
	if err := db.guard(func() error { return db.publishCompaction(c, fresh) }); err != nil {
		return db.fail(err) // meta.bolt is ahead of the state in memory
	}
	db.opts.Logger.Info("compacted", "collection", c.coll, "segments", len(c.victims), "took", time.Since(start))
	return nil
}

// haveVictims reports whether all victims are still in the database: a dropped collection
// takes its segments with it. metaMu is held.
func (db *DB) haveVictims(c compaction) bool {
	for _, v := range c.victims {
		if db.segments[v.info.ID] != v.openSegment {
			return false
		}
	}
	return true
}

// carryOver marks rows of fresh that died in victim v during the compaction. now is the
// newest set of dead rows of v.
func carryOver(dead *bitset.Cow, v victim, now *bitset.Cow, fresh *openSegment) *bitset.Cow {
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

func (db *DB) publishCompaction(c compaction, fresh *openSegment) error {
	db.commitMu.Lock()
	defer db.commitMu.Unlock()
	next := db.cur.successor()
	next.files = newFileSet(db.store, &db.ids, db.segments)
	if v := next.views[c.coll]; v != nil {
		v = v.clone()
		var dead *bitset.Cow
		for _, victim := range c.victims {
			for _, p := range v.parts {
				if p.segment == victim.openSegment {
					dead = carryOver(dead, victim, p.dead, fresh)
				}
			}
		}
		v.parts = slices.DeleteFunc(v.parts, func(p *part) bool {
			return slices.ContainsFunc(c.victims, func(v victim) bool { return v.openSegment == p.segment })
		})
		if fresh != nil {
			v.parts = append(v.parts, fresh.part(dead))
		}
		next.views[c.coll] = v
	}
	db.publish(next)
	return nil
}

// merge writes the new segment in order of DocNum. It returns nil if no row is left.
func (db *DB) merge(ctx context.Context, c compaction) (*openSegment, error) {
	rows := 0
	for _, v := range c.victims {
		rows += v.live()
	}
	if rows == 0 {
		return nil, nil
	}
	m := merger{ctx: ctx, docs: mergedDigest(c.victims), cols: columns.NewBuilder(), dim: c.dim, moved: map[*openSegment][]uint32{}}
	a := db.analysis(c.coll)
	base := graphBase(c.victims, rows)
	for _, v := range c.victims {
		if a != nil || v.openSegment == base {
			m.moved[v.openSegment] = slices.Repeat([]uint32{terms.Dropped}, v.info.Rows)
		}
	}
	newID := func() uint64 {
		db.metaMu.Lock()
		defer db.metaMu.Unlock()
		return db.newSegmentID()
	}
	return db.createSegment(newID, c.coll, c.dim, c.victims[0].metric, func(w *segment.Writer) ([16]byte, error) {
		m.w = w
		err := m.run(c.victims)
		return m.docs.sum(), err
	}, func(s *openSegment) {
		s.keepColumns(m.cols)
		if s.graph != nil && base != nil {
			db.keepBase(s, base, m.moved[base])
		}
		if a != nil {
			m.keepTerms(s, a, c.victims)
		}
	})
}

// keepTerms writes the full-text index of the new segment.
func (m *merger) keepTerms(s *openSegment, a *analysis, victims []victim) {
	inputs := make([]terms.Input, len(victims))
	for i, v := range victims {
		src, err := v.terms.of(a).need(m.ctx)
		if err != nil {
			return // the index is rebuilt later
		}
		inputs[i] = terms.Input{Source: src, Rows: m.moved[v.openSegment]}
	}
	s.terms.keep(a, inputs)
}

// merger copies rows from several segments, each sorted by DocNum, into one.
type merger struct {
	ctx  context.Context
	w    *segment.Writer
	docs *sourceDigest
	cols *columns.Builder
	dim  int
	rows int // written
	// moved maps each row of a segment to its new row or terms.Dropped. It has only the
	// segments whose full-text index or graph is reused.
	moved map[*openSegment][]uint32
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
		// Copy from the source with the smallest DocNum up to the next source's smallest.
		// Sources seldom overlap, so this mostly takes one run per source.
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
const copyRows = 4096

// copy appends the live rows of [c.row, end).
func (m *merger) copy(c *cursor, end int) error {
	cols, err := c.cols.need(m.ctx)
	if err != nil {
		return err
	}
	var kept []int
	for lo := c.row; lo < end; {
		if err := m.ctx.Err(); err != nil {
			return err
		}
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
		if moved := m.moved[c.openSegment]; moved != nil {
			moved[row] = uint32(m.rows + i)
		}
	}
	m.rows += len(kept)
	return nil
}
