package graph

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
	"github.com/vecbolt/vecbolt/simd"
)

// A Query is a prepared query vector for one graph. It must not be changed during a search.
type Query struct {
	guard   guard
	g       *Graph
	point   simd.CodedVector
	table   simd.Table // for quick nodes
	length  float64    // of the vector, if searches depend on it: see header.minLength
	without uint32     // a row treated as absent, or none
	bridge  *bridge    // bridge links around without; nil until they are needed

	cold bool            // see Cold
	ctx  context.Context // see Heed; nil: none was given

	y   []float32 // memory that Reset reuses
	rec []byte
}

// Query prepares a search for vec. It panics if the length of vec is not Dim. It does not keep vec.
func (g *Graph) Query(vec []float32) *Query {
	q := new(Query)
	q.Reset(g, vec)
	return q
}

// Reset prepares q as g.Query(vec) does, and reuses q's memory.
func (q *Query) Reset(g *Graph, vec []float32) {
	dim := g.Dim()
	if len(vec) != dim {
		panic(fmt.Sprintf("graph: query of dimension %d, want %d", len(vec), dim))
	}
	q.guard, q.g, q.without, q.bridge, q.cold, q.ctx = guard{}, g, none, nil, false, nil
	if q.length = 0; g.head.minLength > 0 {
		q.length = math.Sqrt(simd.Dot64(vec, vec))
	}
	q.y = slices.Grow(q.y[:0], simd.PaddedDim(dim))[:simd.PaddedDim(dim)]
	clear(q.y[dim:])
	extra := g.space.point(q.y[:dim], vec, true)
	if g.rotates() {
		g.rotation.Apply(q.y[:dim])
	}
	size := int(recordSize(dim))
	q.rec = slices.Grow(q.rec[:0], size)[:size]
	record(q.rec, q.y[:dim], extra)
	if g.Quick() {
		if !g.rotates() {
			g.rotation.Apply(q.y[:dim])
		}
		q.table.Set(q.y)
	}
	if g.codes != nil {
		simd.LoadSplitVector(&q.point, q.rec[:align(int64(dim))], dim, q.rec[size-simd.RecordTail:])
	} else {
		simd.LoadVector(&q.point, q.rec)
	}
}

// Without makes searches ignore row, whose vector q is: they neither return it nor pass through it,
// unless its node stands for duplicates too. So a row serves as a query that is like the rows but
// is not one of them. From then on q is for one goroutine.
func (q *Query) Without(row int) { q.without, q.bridge = uint32(row), nil }

// Cold says whether searches expect their memory on disk. They then ask the system for all pages of
// an expansion at once, and wait for the disk once instead of once per page.
func (q *Query) Cold(cold bool) { q.cold = cold }

// Heed makes searches look at ctx now and then, and return its error once it has ended.
func (q *Query) Heed(ctx context.Context) { q.ctx = ctx }

// Price returns the price of a search for k rows that estimates this many distances, in the unit of
// codes.RowPrice. In the plain layout, a filtered search costs more, because its candidates wait in
// an unbounded heap instead of a pool. So does a search for many rows: it expands each of them and
// inserts them into a long beam, but has visited most of their neighbours before, so that distances
// tell little. In the quick layout few neighbours of a node become candidates, and all are
// estimated. Prices decide about levels, which are the same on every machine: so products are
// rounded, because some processors would fuse them with a sum.
func (g *Graph) Price(estimated float64, k int, filtered bool) float64 {
	dim, rows := float64(g.Dim()), float64(k)
	each, expansion := 900+float64(3*dim), min(beamPrice*rows, wideBeamPrice)
	switch {
	case g.Quick() && filtered:
		each, expansion = max(900+float64(0.9*dim), g.estimatePrice()), 0
	case g.Quick():
		each, expansion = g.estimatePrice(), 0
	case filtered:
		each = 1800 + float64(3*dim)
	}
	return float64(estimated*each) + float64(rows*expansion) + g.scorePrice(k)
}

// scorePrice returns the price of the vectors that a search for k rows scores, about.
func (g *Graph) scorePrice(k int) float64 {
	return float64((10 + float64(1.5*float64(k))) * codes.VectorPrice * float64(g.Dim()))
}

// estimatePrice returns the price of a distance that is estimated in the quick layout, without a
// filter: the more rows, the fewer of their blocks are in the caches of the processor.
func (g *Graph) estimatePrice() float64 {
	const (
		least     = 250
		doubled   = 117 // more for twice the rows,
		from      = 11.4
		component = 0.5
	)
	n := g.Len()
	whole := bits.Len(uint(n)) - 1
	log := float64(whole) + float64(n)/float64(int(1)<<whole) - 1 // to base 2, about: the same on every machine
	return max(least, float64(doubled*(log-from))) + float64(component*float64(g.Dim()))
}

// Prices of an expansion in the plain layout, beside the distances.
const (
	beamPrice     = 3      // for each row of the beam
	wideBeamPrice = 20_000 // at most: the wider a beam, the nearer to its end are most rows inserted
)

// A Hit is a row with the score that the caller's function gave it.
type Hit struct {
	Row   int
	Score float64
}

// Stats count the work of a search.
type Stats struct {
	Expanded  int // expansions
	Estimated int // distances estimated from codes
	Sketched  int // rows whose sketches were scanned
	Scored    int // rows that were scored
	Passed    int // under a guard: excluded rows that are nearer than the last row wanted, estimated
}

// Search returns the k rows with the highest scores among the candidates of a beam search, best
// first; of equal scores the lower row comes first. There are fewer only if fewer rows are allowed.
// The beam width is at least k. allowed is the set of rows that may be returned, nil for all; the
// search passes through excluded nodes too, as far as the guard of q permits. score returns the
// true score of a row, higher is better; it is called for somewhat more than k rows. Hits are in
// the memory of buf: they are valid until its next use. Search returns the error of score or of the
// context, or an error that wraps fileformat.ErrDamaged.
func (q *Query) Search(k int, s levels.Setting, allowed bitset.Set, score func(row int) (float64, error),
	buf *Buffer) ([]Hit, Stats, error) {
	rows, stats, err := q.Find(k, s, allowed, buf)
	if err != nil {
		return nil, stats, err
	}
	buf.hits = buf.hits[:0]
	for _, row := range rows {
		v, err := score(int(row))
		if err != nil {
			return nil, stats, err
		}
		buf.hits = append(buf.hits, Hit{int(row), v})
	}
	stats.Scored = len(buf.hits)
	slices.SortFunc(buf.hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Row, b.Row))
	})
	return buf.hits[:min(k, len(buf.hits))], stats, nil
}

// Find returns the rows that Search would score, nearest first by their codes. They are in the
// memory of buf.
func (q *Query) Find(k int, s levels.Setting, allowed bitset.Set, buf *Buffer) (rows []uint32, stats Stats, err error) {
	if k < 1 {
		return nil, Stats{}, nil
	}
	buf.rows, buf.dists, buf.stats = buf.rows[:0], buf.dists[:0], Stats{} // an attempt may end before it starts
	err = q.attempt(k, s, allowed, buf)
	if err == nil {
		err = q.collect(k+buf.more, allowed, buf)
	}
	if err == nil {
		err = q.checkHorizon(allowed, buf)
	}
	if err == nil && allowed != nil && !buf.scanned { // a scan leaves out no place
		err = q.checkFilter(allowed, buf)
	}
	if err == nil { // what checkFilter tells is more
		var needs bool
		if needs, err = q.needsSecondStage(&s, allowed, buf); needs {
			err = ErrBetween
		}
	}
	buf.ctx = nil // the memory of a search outlives its context
	return buf.rows, buf.stats, err
}

// More returns the rows that Find would have returned for k results, as far as the last search met
// them: those that Find returned come first. They are in the memory of buf.
func (q *Query) More(k int, allowed bitset.Set, buf *Buffer) (rows []uint32, err error) {
	err = q.collect(k, allowed, buf)
	return buf.rows, err
}

// FindLive is Find for the live rows of a graph that has few dead ones: deleted or replaced. It
// walks as if there were no filter, so that every setting serves it, and leaves out the dead rows
// that it meets. It returns ErrFar if more of these than a guard tolerates are nearer than the k-th
// live row: what the setting finds of k rows then says too little about the live ones.
func (q *Query) FindLive(k int, s levels.Setting, live bitset.Set, buf *Buffer) (rows []uint32, stats Stats,
	err error) {
	if k < 1 {
		return nil, Stats{}, nil
	}
	buf.rows, buf.dists, buf.stats = buf.rows[:0], buf.dists[:0], Stats{}
	err = q.attempt(k, s, nil, buf)
	if err == nil {
		err = q.collect(k+buf.more, live, buf)
	}
	if err == nil {
		far := len(buf.rows) < k || buf.excluded > k/tolerated
		if !far {
			far, err = q.needsSecondStage(&s, nil, buf)
		}
		if far {
			err = ErrFar
		}
	}
	if err == nil {
		err = q.checkHorizon(nil, buf)
	}
	buf.ctx = nil
	return buf.rows, buf.stats, err
}

// front returns how many rows of the beam a search for k rows may keep in order at first, 0 for
// all. Where the beam has distances of codes, these hold the rows to be found. With the room behind
// them they fit into the pools that a processor keeps in registers.
func (g *Graph) front(k int) int {
	switch n := rescored(g.Rank(k)); {
	case n <= shortFront:
		return shortFront
	case n <= longFront || g.rough():
		return longFront
	}
	return 0
}

// attempt walks, in the stages of the setting.
func (q *Query) attempt(k int, s levels.Setting, allowed bitset.Set, buf *Buffer) error {
	first := s.First()
	buf.wentOn, buf.outside = false, false
	switch {
	case s.Scans():
		return q.scanAll(k, s.Second.Deviations, allowed, buf)
	case s.Within == 0 || allowed != nil: // see needsSecondStage
		return q.run(k, first, first, s.FewRatio, allowed, buf)
	}
	widest := first
	switch {
	case q.g.Quick():
	case s.Second.EF > 0:
		widest = s.Second
	case s.Second.Deviations > 0 && k <= levels.MostStaged:
		// A scan of the sketches begins with all rows that may be scored. For more results few
		// searches scan, and a wider beam would cost all of them more.
		widest.EF = max(first.EF, rescored(k))
	}
	if err := q.run(k, first, widest, s.FewRatio, nil, buf); err != nil {
		return err
	}
	if easy, err := q.easy(&s, buf); easy || err != nil {
		return err
	}
	err := q.secondStage(k, s.Second, buf)
	buf.wentOn = err == nil && s.Within > levels.WalkThenScan
	return err
}

// secondStage is the second stage of a search.
func (q *Query) secondStage(k int, s levels.Stage, buf *Buffer) error {
	var err error
	switch {
	case s.EF == 0 && s.Deviations == 0, s.Deviations > 0 && !q.g.head.sketched:
		return ErrBeyondHorizon
	case s.EF == 0:
	case q.g.Quick(): // by estimates, the narrow beam has refused rows that the wide one wants
		before := buf.stats
		err = q.run(k, s, s, buf.fewRatio, nil, buf)
		buf.stats.Expanded += before.Expanded
		buf.stats.Estimated += before.Estimated
	default:
		q.limit(k, s, buf)
		err = q.goOn(buf)
	}
	if err == nil && s.Deviations > 0 {
		err = q.scanSketches(k, s.Deviations, nil, buf)
	}
	return err
}

// run walks until stage s ends the walk, unless fewRatio keeps it going: see Setting.FewRatio. The
// buffer gets room for the beam of widest, so that a wider stage can continue the walk.
func (q *Query) run(k int, s, widest levels.Stage, fewRatio float32, allowed bitset.Set, buf *Buffer) error {
	if err := q.start(k, widest, allowed, buf); err != nil {
		return err
	}
	q.limit(k, s, buf)
	buf.fewRatio = fewRatio
	return q.walk(allowed, buf)
}

// rescored returns how many candidates a search looks for, for k results. They are more than k
// because codes may order near rows wrongly: see collect.
func rescored(k int) int { return k + max(k/2, 10) }

// mostRescored is the multiple of rescored from which on no further node is scored.
const mostRescored = 4

// Numbers of rows that it is very cheap, and cheap, to keep in order.
const (
	inRegisters = 192
	shortFront  = 64 - room
	longFront   = inRegisters - room
)

// kept returns how many of the rows that were measured a search for k rows keeps: those that may be
// scored, as far as that is cheap.
func (g *Graph) kept(k int) int {
	return max(rescored(k), g.Rank(k), min(mostRescored*rescored(k), inRegisters))
}

// Codes round every component of both points by up to half of a step. The difference of two
// distances from a query then has about this standard deviation, in steps: the projections of the
// errors of two rows, and of the error of the query on the way from one to the other.
const (
	roundingDeviation = 0.58
	roundings         = 3 // standard deviations by which a row may be nearer than by its codes
)

// blurred returns the squared distance of codes within which a row may be nearer than the given
// one, at dist; 0 for Dot: there codes can tell apart none of many short rows, and a level that
// finds them among all rows finds too few under a filter.
func (q *Query) blurred(row uint32, dist float32) float32 {
	if q.g.head.ident.Metric == fileformat.Dot {
		return 0
	}
	_, tail := q.g.parts(row)
	step := max(q.point.Scale, math.Float32frombits(binary.LittleEndian.Uint32(tail)))
	d := math.Sqrt(float64(max(dist, 0))) + float64(roundings*roundingDeviation*float64(step))
	return float32(d * d)
}

// beam returns the beam width of a search for k rows: a beam wider than the graph would be empty at
// its end.
func (g *Graph) beam(k int, s levels.Stage) int { return min(max(k, s.EF), g.Len()) }

// limit makes the walk of buf end as s says.
func (q *Query) limit(k int, s levels.Stage, buf *Buffer) {
	buf.ef, buf.stopRatio = q.g.beam(k, s), s.StopRatio
}

// start prepares buf for walk.
func (q *Query) start(k int, s levels.Stage, allowed bitset.Set, buf *Buffer) error {
	front := 0
	if allowed == nil {
		front = q.g.front(k)
	}
	return q.startWith(k, s, allowed, front, buf)
}

// startWith is start with a front of this length: see pool.
func (q *Query) startWith(k int, s levels.Stage, allowed bitset.Set, front int, buf *Buffer) error {
	near := q.g.beam(k, s)
	if allowed == nil {
		near = q.g.kept(k)
	}
	buf.start(q.g.Len(), q.g.beam(k, s), near, front)
	buf.marks = q.g.file != nil
	buf.cold = q.cold && buf.marks
	buf.ctx = q.ctx
	buf.rank = q.g.Rank(k)
	q.limit(k, s, buf)
	if margin := q.g.margin(k); margin > 0 && s.StopRatio > 0 {
		buf.keepRatio = max(s.StopRatio, margin)
	}
	if q.without == none {
		return nil
	}
	duplicate, err := q.g.duplicate(q.without)
	if err == nil && duplicate == none {
		buf.visited.Set(int(q.without))
		buf.mark([]uint32{q.without})
		if q.bridge == nil {
			q.bridge = newBridge(q.without)
		}
		buf.bridge = q.bridge
	}
	return err
}

// found returns the pool that holds the results of a search.
func (q *Query) found(buf *Buffer) *pool {
	if q.g.rough() || buf.scanned {
		return &buf.near
	}
	return &buf.pool
}

// walk offers the overflow rows and runs the beam search of the layout. buf must be started.
func (q *Query) walk(allowed bitset.Set, buf *Buffer) error {
	g, found := q.g, q.found(buf)
	for over := g.over; len(over) > 0; {
		n := min(len(over), degree)
		if err := g.measure(&q.point, over[:n], buf); err != nil {
			return err
		}
		for i, id := range buf.ids {
			ok := allowed == nil
			if !ok {
				var err error
				if ok, err = g.anyAllowed(id, allowed); err != nil {
					return err
				}
			}
			if ok {
				found.offer(buf.dists[i], id|simd.Marked)
			}
		}
		over = over[n:]
	}
	switch {
	case g.rough():
		return q.walkQuick(allowed, buf)
	case g.sifts && allowed == nil:
		return q.walkSift(buf)
	case allowed == nil:
		return g.walk(&q.point, buf)
	}
	return q.walkAllowed(allowed, buf)
}

// goOn continues an unfiltered search as far as ef and stopRatio of the buffer now allow.
func (q *Query) goOn(buf *Buffer) error {
	switch {
	case q.g.rough():
		return q.goOnQuick(nil, buf)
	case q.g.sifts:
		return q.goOnSift(buf)
	}
	return q.g.goOn(&q.point, buf)
}

// collect leaves the nearest allowed rows in buf.rows and their distances in buf.dists: k rows, and
// the rows of some further nodes that are within the margin, because they may be nearer by their
// true vectors, and of all that codes cannot tell from the k-th. Duplicates do not take the places
// of further nodes: of two rows with many, codes cannot tell which is nearer to a query between
// them.
func (q *Query) collect(k int, allowed bitset.Set, buf *Buffer) (err error) {
	buf.rows, buf.dists, buf.excluded = buf.rows[:0], buf.dists[:0], 0
	margin, most, blurred := q.g.margin(k), float32(math.MaxFloat32), float32(0)
	want := rescored(k)
	further := want - k // nodes
	from := q.found(buf)
	found := math.MaxInt
	if from == &buf.pool { // only rows within the beam count as found
		found = buf.ef
	}
	q.g.expectDuplicates(from.rows[:min(want, found, len(from.rows))])
	for i := 0; i < found && from.order(i+1); i++ {
		e := from.rows[i]
		before := len(buf.rows)
		if e.Dist > most || before >= mostRescored*want || before >= k && further <= 0 && e.Dist > blurred {
			break
		}
		for row := e.ID &^ simd.Marked; row != none && len(buf.rows) < before+want; {
			switch {
			case row == q.without:
			case allowed != nil && !allowed.Has(int(row)):
				if len(buf.rows) < k {
					buf.excluded++
				}
			default:
				buf.rows, buf.dists = append(buf.rows, row), append(buf.dists, e.Dist)
				if len(buf.rows) == k {
					if blurred = q.blurred(e.ID&^simd.Marked, e.Dist); margin > 0 {
						most = margin * e.Dist
					}
				}
			}
			if row, err = q.g.duplicate(row); err != nil {
				return err
			}
		}
		if before >= k && len(buf.rows) > before {
			further--
		}
	}
	return nil
}

// margin returns the factor on the squared code distance of the k-th row within which further rows
// are worth scoring; 0: there is no such bound.
func (g *Graph) margin(k int) float32 {
	i, _ := g.Column(k)
	m := g.head.margins[i]
	if i > 0 && k < levels.Results[i] && m > 0 { // the nearer rows are, the less codes tell
		if m = max(m, g.head.margins[i-1]); g.head.margins[i-1] == 0 {
			m = 0
		}
	}
	return m
}
