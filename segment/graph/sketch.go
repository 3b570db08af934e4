package graph

import (
	"math"
	"math/bits"
	"slices"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
	"github.com/vecbolt/vecbolt/simd"
)

// A sketch of a row is one bit per component and two factors. A quick node keeps the same of each
// neighbour, relative to the node; a sketch is relative to the mean of all rows. Blocks of 32
// sketches, in the order of the rows, let a search estimate its distance from every row, in a half
// to a fifth of the time of a scan of the codes. It then reads the records of the rows that may be
// among the best.
//
// Such a scan misses a row only if its estimate is too large by some standard deviations. The
// points are rotated at random, so this depends neither on how the rows lie, nor on the query.
// Where a walk of the graph finds too little, as between groups of rows, a scan of the sketches
// finds nearly everything.

// signDeviation is the standard deviation of (q.sgn), besides the part of q along d, in parts of
// the length of q. The vector sgn has the length √D, and its part along d about √(2D/π).
const signDeviation = 0.6028

const (
	chunkBlocks = 128 // blocks between two looks at the rows that may be among the best
	counted     = 64  // blocks that tell how many rows pass
	walkBefore  = 20  // beam width of the walk before a scan under a filter,
	mostWalked  = 4   // which keeps this many times the rows that will be scored
	fewer       = 3   // no scan follows if this many times fewer of these are allowed than of all rows
	mostAgain   = 500 // results up to which a scan is repeated for more

	sampledNearest = 32 // rows to be scored that a sample of the blocks should have
	leastEvery     = 8  // at most one block in so many is in a sample
	savedReads     = 4  // records that a first pass saves for each row to be scored: 3 among words, 4.5 among texts
)

// Prices of a scan of sketches, in the unit of codes.RowPrice.
const (
	sketchPrice  = 17    // of a row,
	signPrice    = 0.115 // and of each of its components
	passPrice    = 450   // of a row whose record is read,
	passingPrice = 1.5   // and of each of its components
)

// SketchPrice returns the price of a scan of the sketches of this many rows, in the unit of
// codes.RowPrice. The records that it reads have a price of their own.
func (g *Graph) SketchPrice(rows int) float64 {
	return float64(float64(rows) * (sketchPrice + float64(signPrice*float64(g.Dim()))))
}

// readPrice returns the price of a row that passes: of its record.
func (g *Graph) readPrice() float64 { return passPrice + float64(passingPrice*float64(g.Dim())) }

// SketchSize returns the bytes of the sketches of this many rows.
func (g *Graph) SketchSize(rows int) int64 {
	return int64(rows) * int64(simd.BlockSize(simd.PaddedDim(g.Dim()))) / degree
}

// sketchBlocks returns the number of blocks of sketches.
func (h *header) sketchBlocks() int64 {
	if !h.sketched {
		return 0
	}
	return (int64(h.ident.Rows) + degree - 1) / degree
}

// sketchRows makes the sketches of all rows. A duplicate has none: its first row stands for it.
func (b *builder) sketchRows() error {
	n := int(b.head.sketchBlocks())
	per := simd.BlockSize(simd.PaddedDim(b.Dim())) / 4
	words := make([]uint32, n*per)
	later := bitset.New(b.Len())
	for _, row := range b.duplicates {
		if row != none {
			later.Set(int(row))
		}
	}
	err := b.each(n, func(w *workerScratch, i int) error {
		w.sketchBlock(b.Graph, words[i*per:][:per], i, later)
		return nil
	})
	b.sketches = codec.BytesFromU32s(words)
	return err
}

// sketchBlock writes a block of sketches. later are the duplicates of earlier rows. words must be
// zero.
func (w *workerScratch) sketchBlock(g *Graph, words []uint32, block int, later bitset.Set) {
	w.ids = w.ids[:0]
	for row := block * degree; row < min(g.Len(), (block+1)*degree); row++ {
		w.ids = append(w.ids, uint32(row))
	}
	w.centre.y, w.centre.extra = slices.Grow(w.centre.y[:0], simd.PaddedDim(g.Dim()))[:simd.PaddedDim(g.Dim())], 0
	clear(w.centre.y)
	w.sketchFrom(g, words, w.ids)
	for i := range degree {
		if i >= len(w.ids) || later.Has(int(w.ids[i])) {
			words[i] = math.Float32bits(float32(math.Inf(1)))
		}
	}
}

// sketchBlocks returns some blocks of sketches.
func (g *Graph) sketchBlocks(from, to int) []byte {
	size := simd.BlockSize(simd.PaddedDim(g.Dim()))
	return g.sketches[from*size : to*size]
}

// touchSketches verifies blocks of sketches. It announces them to the disk if they may be there.
func (g *Graph) touchSketches(from, to int, cold bool) error {
	if g.file == nil {
		return nil
	}
	size := int64(simd.BlockSize(simd.PaddedDim(g.Dim())))
	start, end := g.geo.sketches+int64(from)*size, g.geo.sketches+int64(to)*size
	if cold {
		g.readAhead(start, end-start)
	}
	if g.Verified() {
		return nil
	}
	return g.file.Touch(start, end)
}

// A sketchBuffer is memory of scans of sketches.
type sketchBuffer struct {
	table simd.Table
	y     []float32
	found []simd.Neighbour // by the walk before; the estimates of likelyLast

	passing  []uint32 // rows
	excluded []uint32 // some of the excluded rows that pass
	met      int      // all of these
}

// sketchTable returns the table of the query for sketches.
func (q *Query) sketchTable(b *Buffer) *simd.Table {
	if q.g.Quick() {
		return &q.table
	}
	s := &b.sketch
	s.y = append(s.y[:0], q.y...)
	q.g.rotation.Apply(s.y[:q.g.Dim()])
	s.table.Set(s.y)
	return &s.table
}

// sketchSlack returns what an estimate may be too large, with this many standard deviations, in
// parts of the factor of a row.
func (q *Query) sketchSlack(deviations float32) float32 {
	return deviations * float32(signDeviation*math.Sqrt(float64(q.point.Level)))
}

// scanAll scans the sketches instead of walking, as under a filter. What it misses depends on
// neither the filter nor the query. It begins with a short walk that ignores the filter, because
// the distances of the rows found there bound which other records the scan must read.
func (q *Query) scanAll(k int, deviations float32, allowed bitset.Set, b *Buffer) error {
	if !q.g.head.sketched {
		return ErrBeyondHorizon
	}
	beam := rescored(k)
	if allowed != nil {
		beam *= mostWalked
	}
	// No front: all rows are wanted in order, though the walk expands few of them.
	if err := q.startWith(k, levels.Stage{EF: beam}, nil, 0, b); err != nil {
		return err
	}
	b.ef = min(walkBefore, b.ef)
	if err := q.walk(nil, b); err != nil {
		return err
	}
	if allowed != nil && q.guard.want > 0 {
		if few, err := q.fewAllowed(allowed, b); err != nil {
			return err
		} else if few {
			return ErrFar
		}
	}
	if err := q.scanSketches(k, deviations, allowed, b); err != nil || allowed == nil || q.guard.want == 0 {
		return err
	}
	// The more excluded rows are nearer, the farther away are the allowed ones. Far rows differ
	// less in distance than codes can tell, so more of them are scored.
	passed, err := q.passedOver(k, b)
	if b.stats.Passed = passed; err != nil || passed <= q.guard.passed {
		return err
	}
	if k+passed > mostAgain {
		return ErrFar
	}
	b.more = passed
	return q.scanSketches(k+passed, deviations, allowed, b)
}

// fewAllowed reports whether the filter allows a much smaller share of the rows that a walk has
// found than of all rows. A scan of the sketches would then begin without a bound, read many
// records, and take as long as a scan of the codes.
func (q *Query) fewAllowed(allowed bitset.Set, b *Buffer) (bool, error) {
	all, in := 0, 0
	for _, e := range q.found(b).rows {
		n, excluded, err := q.count(e.ID&^simd.Marked, allowed)
		if err != nil {
			return false, err
		}
		in, all = in+n, all+n+excluded
	}
	share := float64(q.g.Len()-q.guard.excluded) / float64(q.g.Len())
	return fewer*(in+1) < int(share*float64(all)), nil
}

// passedOver returns about how many excluded rows are nearer than the k-th row found, by a sample
// of those that the scan has met.
func (q *Query) passedOver(k int, b *Buffer) (int, error) {
	last, ok := b.near.within(k)
	all := b.sketch.excluded
	if !ok || len(all) == 0 {
		return 0, nil
	}
	ids := b.ids[:0]
	for i, n := 0, min(samples, len(all)); i < n; i++ {
		ids = append(ids, all[i*len(all)/n])
	}
	b.ids = ids
	if err := q.g.touchRecords(ids); err != nil {
		return 0, err
	}
	b.others = slices.Grow(b.others[:0], len(ids))[:len(ids)]
	q.g.measureL2(b.others, &q.point, ids)
	nearer := 0
	for i, d := range b.others {
		if d < last && ids[i] != q.without {
			nearer++
		}
	}
	return nearer * b.sketch.met / len(ids), nil
}

// scanSketches adds to the rows found those that a scan of the sketches finds: the allowed rows
// whose estimated distance, less some standard deviations, is below the distance of the last row
// that would be scored so far. For many results a walk has not found enough rows to begin with, and
// nearly all rows of the first blocks would pass. So a first pass reads those that are likely
// among the best.
func (q *Query) scanSketches(k int, deviations float32, allowed bitset.Set, b *Buffer) error {
	if err := q.keepMeasured(k, allowed, b); err != nil {
		return err
	}
	table := q.sketchTable(b)
	likely, err := q.likelyLast(k, table, allowed, b)
	if err != nil {
		return err
	}
	if likely < b.lastScored(k) {
		sketched := b.stats.Sketched
		if err := q.readPassing(k, table, likely, 0, allowed, b); err != nil {
			return err
		}
		b.stats.Sketched = sketched // the second pass counts these rows
	}
	return q.readPassing(k, table, math.MaxFloat32, q.sketchSlack(deviations), allowed, b)
}

// likelyLast estimates the squared distance of the last row that will be scored for k results, from
// a sample of the blocks. It errs on the large side. It is MaxFloat32 where a first pass costs more
// than it saves, and where the sample has too few allowed rows.
func (q *Query) likelyLast(k int, table *simd.Table, allowed bitset.Set, b *Buffer) (float32, error) {
	const n = sampledNearest
	g, every := q.g, rescored(k)/n
	saved := float64(savedReads*rescored(k)) * g.readPrice()
	if every < leastEvery || saved < g.SketchPrice(g.Len()) {
		return math.MaxFloat32, nil
	}
	found := b.sketch.found[:0]
	var estimates [degree]float32
	for block := 0; block < int(g.head.sketchBlocks()); block += every {
		if err := g.touchSketches(block, block+1, b.cold); err != nil {
			return 0, err
		}
		in := simd.Estimate(&estimates, table, g.sketchBlocks(block, block+1), nil, q.point.Level, math.MaxFloat32, 0)
		if allowed != nil {
			in &= allowed.Half(block)
		}
		for ; in != 0; in &= in - 1 {
			found = append(found, simd.Neighbour{Dist: estimates[bits.TrailingZeros32(in)]})
		}
	}
	b.sketch.found = found
	if len(found) < 2*n {
		return math.MaxFloat32, nil
	}
	selectNearest(found, n+n/4)
	last := float32(0)
	for _, e := range found[:n+n/4] {
		last = max(last, e.Dist)
	}
	return last, nil
}

// readPassing reads the records of the allowed rows whose estimated distance, less the slack, is
// below most, and nearer than the last row that would be scored so far.
func (q *Query) readPassing(k int, table *simd.Table, most, slack float32, allowed bitset.Set, b *Buffer) error {
	g := q.g
	var below [chunkBlocks]uint32
	blocks, chunk := int(g.head.sketchBlocks()), chunkBlocks
	heads, err := g.duplicatesOf(allowed)
	if err != nil {
		return err
	}
	every := max(1, blocks/counted/4) // blocks from which one gives a sample of excluded rows
	b.sketch.excluded, b.sketch.met = b.sketch.excluded[:0], 0
	if min(most, b.lastScored(k)) == math.MaxFloat32 { // all rows pass until enough are known
		chunk = 1
	}
	for from, to := 0, 0; from < blocks; from = to {
		to = min(from+chunk, blocks)
		chunk = min(2*chunk, chunkBlocks)
		passing := b.sketch.passing[:0]
		if err := q.scanBlocks(below[:to-from], table, from, min(most, b.lastScored(k)), slack, b); err != nil {
			return err
		}
		for i, below := range below[:to-from] {
			block := from + i
			if allowed != nil {
				in := allowed.Half(block)
				out := below &^ in
				b.sketch.met += bits.OnesCount32(out)
				if below &= in | heads.Half(block); block%every == 0 {
					for ; out != 0; out &= out - 1 {
						b.sketch.excluded = append(b.sketch.excluded, uint32(block*degree+bits.TrailingZeros32(out)))
					}
				}
			}
			for ; below != 0; below &= below - 1 {
				row := block*degree + bits.TrailingZeros32(below)
				if allowed != nil && !allowed.Has(row) { // perhaps a duplicate is
					if ok, err := g.anyAllowed(uint32(row), allowed); err != nil {
						return err
					} else if !ok {
						continue
					}
				}
				passing = append(passing, uint32(row))
			}
		}
		b.sketch.passing = passing
		if err := g.measure(&q.point, passing, b); err != nil {
			return err
		}
		b.near.offerAll(b.ids, b.dists, math.MaxFloat32)
	}
	return nil
}

// scanBlocks sets each word of below to the rows of a block of sketches, from a block on, whose
// estimated distance, less the slack, is less than a bound. A sketch that stands for no row is
// damage: there is no record to read.
func (q *Query) scanBlocks(below []uint32, table *simd.Table, from int, bound, slack float32, b *Buffer) error {
	if b.ctx != nil && b.ctx.Err() != nil {
		return b.ctx.Err()
	}
	g, to := q.g, from+len(below)
	if err := g.touchSketches(from, to, b.cold); err != nil {
		return err
	}
	simd.Below(below, table, g.sketchBlocks(from, to), q.point.Level, bound, slack)
	b.stats.Sketched += min(to*degree, g.Len()) - from*degree
	left := g.Len() - (to-1)*degree // rows from the last block on
	if beyond := below[len(below)-1] >> left; beyond != 0 {
		return corrupt(g.geo.sketches, "a sketch of row %d of %d", g.Len()+bits.TrailingZeros32(beyond), g.Len())
	}
	return nil
}

// duplicatesOf returns the rows with duplicates if there is a filter. They are looked up once.
func (g *Graph) duplicatesOf(allowed bitset.Set) (bitset.Set, error) {
	if allowed == nil {
		return nil, nil
	}
	if heads := g.heads.Load(); heads != nil {
		return *heads, nil
	}
	heads := bitset.New(g.Len())
	for row := range uint32(g.Len()) {
		next, err := g.duplicate(row)
		if err != nil {
			return nil, err
		}
		if next != none {
			heads.Set(int(row))
		}
	}
	g.heads.Store(&heads)
	return heads, nil
}

// lastScored returns the distance of the last row that would be scored, for k results.
func (b *Buffer) lastScored(k int) float32 {
	if dist, ok := b.near.within(rescored(k)); ok {
		return dist
	}
	return math.MaxFloat32
}

// keepMeasured leaves in b.near the nearest allowed rows whose records the walk has read, and in
// b.visited no others.
func (q *Query) keepMeasured(k int, allowed bitset.Set, b *Buffer) error {
	switch p := q.found(b); {
	case allowed != nil:
		found := append(b.sketch.found[:0], p.rows...)
		b.sketch.found = found
		b.near.reset(q.g.kept(k), 0)
		for _, e := range found {
			if ok, err := q.g.anyAllowed(e.ID&^simd.Marked, allowed); err != nil {
				return err
			} else if ok {
				b.near.offer(e.Dist, e.ID&^simd.Marked)
			}
		}
	case p != &b.near:
		p.order(min(b.near.limit, len(p.rows)+len(p.rest)))
		for _, e := range p.rows[:min(len(p.rows), b.near.limit)] {
			b.near.offer(e.Dist, e.ID&^simd.Marked)
		}
	}
	b.scanned = true
	b.visited.Reset()
	b.marked = b.marked[:0]
	b.sketch.passing = b.sketch.passing[:0]
	for _, e := range b.near.rows {
		b.sketch.passing = append(b.sketch.passing, e.ID&^simd.Marked)
	}
	if b.bridge != nil {
		b.sketch.passing = append(b.sketch.passing, q.without)
	}
	for _, id := range b.sketch.passing {
		b.visited.Set(int(id))
	}
	b.mark(b.sketch.passing)
	return nil
}

// anyWithin reports whether at least want rows, excluded ones included, are within the squared
// distance bound of the query. Estimates tell which records to read.
func (q *Query) anyWithin(bound float32, want int, allowed bitset.Set, b *Buffer) (bool, error) {
	g := q.g
	table := q.sketchTable(b)
	var below [chunkBlocks]uint32
	blocks := int(g.head.sketchBlocks())
	for from := 0; from < blocks && want > 0; from += chunkBlocks {
		to := min(from+chunkBlocks, blocks)
		if err := q.scanBlocks(below[:to-from], table, from, bound, 0, b); err != nil {
			return false, err
		}
		ids := b.sketch.passing[:0]
		for i, below := range below[:to-from] {
			for ; below != 0; below &= below - 1 {
				ids = append(ids, uint32((from+i)*degree+bits.TrailingZeros32(below)))
			}
		}
		b.sketch.passing = ids
		if err := g.touchRecords(ids); err != nil {
			return false, err
		}
		b.others = slices.Grow(b.others[:0], len(ids))[:len(ids)]
		g.measureL2(b.others, &q.point, ids)
		b.stats.Estimated += len(ids)
		for i, d := range b.others {
			if d <= bound {
				in, excluded, err := q.count(ids[i], allowed)
				if err != nil {
					return false, err
				}
				want -= in + excluded
			}
		}
	}
	return want <= 0, nil
}
