package nearest

import (
	"cmp"
	"context"
	"math"
	mathbits "math/bits"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/score"
	"github.com/vecbolt/vecbolt/internal/topk"
	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/simd"
)

// openCodes opens the codes of every part that has them, for the whole search. It
// must be called inside Engine.Guard. Many queries share the vectors of parts in memory instead of
// their codes, which are in blocks.
func (s *Search) openCodes() {
	if s.codes != nil {
		return
	}
	s.codes = make([]*codes.Codes, len(s.View.Parts))
	s.heads = make([]engine.HeadCodes, len(s.View.Parts))
	for i, p := range s.View.Parts {
		switch {
		case p.Dim == 0:
		case p.Segment != nil:
			s.codes[i] = p.Segment.Codes.Get()
		case len(s.Probes) < minBatch:
			s.heads[i] = s.engine.HeadCodes(s.View, p, true)
		}
	}
}

// A unit is a range of rows that one worker scans while it is in the cache.
type unit struct {
	part   int
	lo, hi int
}

// units divides the parts that a probe scans into units with about engine.ChunkBytes to read each.
func (s *Search) units() []unit {
	var units []unit
	for i, p := range s.View.Parts {
		if p.Dim == 0 || p.N == 0 {
			continue
		}
		rowBytes := 4 * float64(p.Dim)
		if s.codes[i] != nil {
			rowBytes /= 4
		}
		share, scanned := 1/float64(p.N), false
		for _, q := range s.Probes {
			if !q.usesGraph(i) {
				share, scanned = max(share, q.share(i, p.N)), true
			}
		}
		if !scanned {
			continue
		}
		step := p.N
		if rows := engine.ChunkBytes / (rowBytes * share); rows < float64(p.N) {
			step = max(64, int(rows)&^63)
		}
		head := &s.heads[i]
		for lo := 0; lo < head.Len(); lo += head.Rows {
			units = append(units, unit{i, lo, lo + head.Rows})
		}
		for lo := head.Len(); lo < p.N; {
			hi := min(lo+step, p.Source.Run(lo), p.N)
			units = append(units, unit{i, lo, hi})
			lo = hi
		}
	}
	return units
}

// A queryBatch holds the queries that share the scan of one part through a
// codes.Batch or a simd.RowTile. The other queries scan the part one by one.
type queryBatch struct {
	queries []int // indexes in Search.Probes
	others  []int
	codes   *codes.Batch
	rows    *simd.RowTile
}

// minBatch is the number of queries from which on a block of rows is compared
// with all of them at once.
const minBatch = 4

// queryBatches forms a query batch for every part.
func (s *Search) queryBatches() []queryBatch {
	batches := make([]queryBatch, len(s.View.Parts))
	for i, p := range s.View.Parts {
		c := &batches[i]
		for j, q := range s.Probes {
			switch {
			case q.usesGraph(i): // the graph search has found its rows
			case q.share(i, p.N) >= s.sparse(i):
				c.queries = append(c.queries, j)
			default:
				c.others = append(c.others, j)
			}
		}
		switch n := len(c.queries); {
		case n < minBatch || p.Dim == 0:
			c.others, c.queries = append(c.others, c.queries...), nil
		case s.codes[i] != nil:
			coded := make([]*codes.Query, n)
			for at, j := range c.queries {
				coded[at] = s.Probes[j].Parts[i].codes
			}
			c.codes = s.codes[i].Batch(coded)
		default:
			tile := simd.NewDotTile
			if s.View.Def.Schema.Metric == fileformat.L2 {
				tile = simd.NewL2Tile
			}
			c.rows = tile(n, p.Dim)
			for at, j := range c.queries {
				c.rows.Set(at, s.Probes[j].fast.Vector)
			}
		}
	}
	return batches
}

// rowCosts returns the cost of a row of a part in a scan of all rows, and its cost when it is read
// alone, in the unit of codes.RowPrice.
func (s *Search) rowCosts(part int) (each, alone float64) {
	p := s.View.Parts[part]
	dim := float64(p.Dim)
	var c *codes.Codes
	if s.codes != nil {
		c = s.codes[part]
	} else if p.Segment != nil { // nothing is scanned yet
		c = p.Segment.Codes.Get()
	}
	switch {
	case s.heads != nil && s.heads[part].Len() > 0:
		coded := float64(s.heads[part].Len()) / float64(p.N)
		each, alone = codes.RowPrice(p.Dim, false)
		return coded*each + (1-coded)*4*dim, coded*alone + (1-coded)*4*dim/sparseRows
	case c == nil:
		return 4 * dim, 4 * dim / sparseRows
	default:
		return codes.RowPrice(p.Dim, c.HasNibbles())
	}
}

// ScanCost returns the cost of scanning a part for a probe, in the unit of codes.RowPrice.
func (s *Search) ScanCost(q *Probe, part int) float64 {
	each, alone := s.rowCosts(part)
	p, n := s.View.Parts[part], q.MatchedIn(s.View, part)
	return min(each*float64(p.N), alone*float64(n)) + codes.BestPrice(n, q.Need, p.Dim)
}

// sparse returns the share of a part below which matching rows are read one by
// one.
func (s *Search) sparse(part int) float64 {
	each, alone := s.rowCosts(part)
	return each / max(alone, 1)
}

// sparseRows is the same share for vectors without codes.
const sparseRows = 0.25

// WorthHelp is the least expected duration of a scan for which other goroutines
// are woken: waking them costs some tens of microseconds.
const WorthHelp = 200 * time.Microsecond

// scan adds to found, for each probe, the rows that may be among its best. It returns how many
// there are.
func (s *Search) scan(ctx context.Context) (kept int, err error) {
	units := s.units()
	workers := max(1, min(s.Workers, len(units)))
	batches := s.queryBatches()
	if err := s.raiseFloors(ctx, batches); err != nil {
		return 0, err
	}
	collectors := make([][]*topk.Collector, len(s.Probes)) // by query, by worker
	for i, q := range s.Probes {
		collectors[i] = topk.Group(workers, min(q.Need, max(1, q.Matched)), q.floor)
		for _, c := range q.found {
			collectors[i][0].Offer(c.Upper, c.Upper, c.Part, c.Row)
		}
	}
	var next atomic.Int64
	work := func(n int, each func(scanned int)) error {
		return s.engine.Guard(func() error {
			w := newWorker(s, batches)
			defer w.done()
			for i, group := range collectors {
				w.collectors[i] = group[n]
			}
			for {
				i := int(next.Add(1)) - 1
				if i >= len(units) {
					return nil
				}
				err := ctx.Err()
				if err == nil {
					err = w.scan(units[i])
				}
				if err != nil {
					next.Store(int64(len(units))) // stop the other workers
					return err
				}
				each(i + 1)
			}
		})
	}
	var help helpers
	defer help.wait() // also after a panic: the caller releases memory that the others read
	start, alone := time.Now(), workers > 1
	err = work(0, func(scanned int) {
		if !alone || time.Since(start)/time.Duration(scanned)*time.Duration(len(units)-scanned) < s.worthHelp {
			return
		}
		alone = false
		for n := 1; n < workers; n++ {
			help.start(func() error { return work(n, func(int) {}) })
		}
	})
	// The other workers end within one unit: sooner than this goroutine could
	// be woken up.
	help.drop()
	for end := time.Now().Add(WorthHelp / 4); help.left.Load() > 0 && time.Now().Before(end); {
		runtime.Gosched()
	}
	if err = cmp.Or(err, help.wait()); err != nil {
		return 0, err
	}
	for i, q := range s.Probes {
		before := len(q.found)
		q.found = topk.Merge(collectors[i]...)
		kept += max(0, len(q.found)-before)
	}
	return kept, nil
}

// rawRows is the number of rows whose vectors are compared before the cut is
// updated.
const rawRows = 1024

// A worker is one goroutine of a scan.
type worker struct {
	*Search
	collectors []*topk.Collector // by query
	batches    []queryBatch      // by part
	ours       []bool            // batches that this worker has forked
	offers     []rowOffer
	read       int64 // bytes of codes and vectors

	*scanScratch
}

// scanScratch is the memory of a worker, reused through Searcher.scans.
type scanScratch struct {
	raw        [rawRows]float32
	bits       [rawRows / 64]uint64
	buffer     codes.Buffer
	candidates []codes.Candidate
	among      []int32
	block      simd.RowBlock
	factors    [simd.BlockRows]float32
	words      []uint64
}

func newWorker(s *Search, batches []queryBatch) *worker {
	memory, _ := s.scans.Get().(*scanScratch)
	if memory == nil {
		memory = &scanScratch{}
	}
	return &worker{Search: s, collectors: make([]*topk.Collector, len(s.Probes)),
		batches: append([]queryBatch(nil), batches...), ours: make([]bool, len(batches)), scanScratch: memory}
}

// done returns the scratch memory and records how much was read.
func (w *worker) done() {
	w.Trace.Read(w.read)
	w.scans.Put(w.scanScratch)
}

// scan offers the rows of a unit to all queries.
func (w *worker) scan(u unit) error {
	c := &w.batches[u.part]
	if !w.ours[u.part] {
		w.ours[u.part] = true
		if c.codes != nil {
			c.codes = c.codes.Fork()
		}
		if c.rows != nil {
			c.rows = c.rows.Fork()
		}
	}
	for _, j := range c.others {
		if err := w.scanOne(j, u); err != nil {
			return err
		}
	}
	if c.codes != nil {
		done, err := w.scanBatchCodes(c, u)
		w.read += int64(done-u.lo) * int64(w.View.Parts[u.part].Dim)
		if err == nil {
			return nil
		}
		w.View.Parts[u.part].Segment.Codes.Distrust(err)
		u.lo = done
		for _, j := range c.queries {
			if err := w.scanVectors(j, u); err != nil {
				return err
			}
		}
	}
	if c.rows != nil {
		return w.scanBatchRows(c, u)
	}
	return nil
}

// scanOne offers the rows of a unit to query j.
func (w *worker) scanOne(j int, u unit) error {
	q := w.Probes[j]
	wanted := u.hi - u.lo
	if set := q.Parts[u.part].Set; set != nil {
		if wanted = set.CountRange(u.lo, u.hi); wanted == 0 {
			return nil
		}
	}
	coded, first := q.Parts[u.part].codes, 0
	if head := &w.heads[u.part]; u.lo < head.Len() {
		first = u.lo
		coded = coded.On(head.Blocks[first/head.Rows])
	} else if coded == nil || head.Len() > 0 {
		return w.scanVectors(j, u)
	}
	scan, read := w.scanCodes, u.hi-u.lo
	if float64(wanted) < w.sparse(u.part)*float64(read) {
		scan, read = w.scanAmong, wanted
	}
	w.read += int64(read) * int64(w.View.Parts[u.part].Dim)
	done, err := scan(coded, j, u, first)
	if err == nil || w.View.Parts[u.part].Segment == nil {
		return err
	}
	w.View.Parts[u.part].Segment.Codes.Distrust(err)
	u.lo = done // the rest by vectors
	return w.scanVectors(j, u)
}

// firstRows returns how many rows to compare before the floor is read again:
// few at first, because every row is a candidate until k are known.
func firstRows(c *topk.Collector, most int) int {
	if math.IsInf(c.Floor(), -1) {
		return 64
	}
	return most
}

// scanCodes offers to query j the rows of a unit that their codes do not rule
// out. The codes begin with row first. On an error it returns the first row
// that was not scanned.
func (w *worker) scanCodes(coded *codes.Query, j int, u unit, first int) (int, error) {
	c, set := w.collectors[j], w.Probes[j].Parts[u.part].Set
	if set != nil {
		set = set[first/64:]
	}
	step := firstRows(c, 1024)
	for lo := u.lo; lo < u.hi; step = min(2*step, 4096) {
		hi := min(lo+step, u.hi)
		candidates, err := coded.Candidates(w.candidates[:0], lo-first, hi-first, set, c.Floor(), &w.buffer)
		w.candidates = candidates
		if err != nil {
			return lo, err
		}
		offerCodes(coded, candidates, c, u.part, first)
		lo = hi
	}
	return u.hi, nil
}

func offerCodes(coded *codes.Query, candidates []codes.Candidate, c *topk.Collector, part, first int) {
	for _, row := range candidates {
		lower, upper := coded.Interval(row)
		c.Offer(lower, upper, int32(part), int32(first+row.Row))
	}
}

// scanAmong is scanCodes for a unit with few matching rows.
func (w *worker) scanAmong(coded *codes.Query, j int, u unit, first int) (int, error) {
	c, set := w.collectors[j], w.Probes[j].Parts[u.part].Set
	step := firstRows(c, 1024)
	for lo := u.lo; lo < u.hi; step = min(2*step, 1024) {
		w.among = w.among[:0]
		hi := lo
		for ; hi < u.hi && len(w.among) < step; hi += 64 {
			for word := set[hi/64]; word != 0; word &= word - 1 {
				w.among = append(w.among, int32(hi-first+mathbits.TrailingZeros64(word)))
			}
		}
		candidates, err := coded.Among(w.candidates[:0], w.among, c.Floor(), &w.buffer)
		w.candidates = candidates
		if err != nil {
			return lo, err
		}
		offerCodes(coded, candidates, c, u.part, first)
		lo = hi
	}
	return u.hi, nil
}

// scanVectors offers rows of a unit to query j by their vectors.
func (w *worker) scanVectors(j int, u unit) error {
	p, q, n := w.View.Parts[u.part], w.Probes[j], u.hi-u.lo
	if n == 0 {
		return nil
	}
	rows, err := p.Source.Vectors(u.lo, u.hi)
	if err != nil {
		return err
	}
	set := q.Parts[u.part].Set
	scan := w.newRowOffer(j, u.part)
	if set != nil && float64(set.CountRange(u.lo, u.hi)) < sparseRows*float64(n) {
		w.read += int64(set.CountRange(u.lo, u.hi)) * int64(4*p.Dim)
		for row := set.NextSet(u.lo); row >= 0 && row < u.hi; row = set.NextSet(row + 1) {
			vec := rows[(row-u.lo)*p.Dim : (row-u.lo+1)*p.Dim]
			scan.offer(q.fast.Kernel(vec), p.Inv[row], row)
		}
		return nil
	}
	w.read += int64(n) * int64(4*p.Dim)
	step := firstRows(scan.c, rawRows)
	for lo := u.lo; lo < u.hi; step = min(2*step, rawRows) {
		n := min(step-lo%64, u.hi-lo)
		raw, bits, inv := w.raw[:n], w.bits[:(n+63)/64], p.Inv[lo:lo+n]
		q.fast.KernelRows(raw, rows[(lo-u.lo)*p.Dim:(lo-u.lo+n)*p.Dim])
		simd.RowsAbove(bits, raw, inv, scan.Plain, scan.Scaled, scan.Least, scan.Most, scan.cut)
		for i, word := range bits {
			// A unit may begin within a word of the set, but then it ends there too.
			if set != nil {
				word &= set[lo/64+i] >> (lo % 64)
			}
			for ; word != 0; word &= word - 1 {
				at := i*64 + mathbits.TrailingZeros64(word)
				scan.offer(raw[at], inv[at], lo+at)
			}
		}
		lo += n
	}
	return nil
}

// A rowOffer offers the rows of one part to a collector. Most rows are far
// below the floor: one comparison of the raw value, scaled as scorer says, with
// cut drops them.
type rowOffer struct {
	*score.Fast
	c       *topk.Collector
	part    int32
	maxNorm float32
	cut     float32
}

// raise sets cut from the collector's floor, rounded so that no row is dropped
// that could matter.
func (s *rowOffer) raise() {
	floor := s.c.Floor()
	switch s.Metric {
	case fileformat.Cosine:
		s.cut = score.Below(floor - 1.01*s.Rel)
	case fileformat.Dot:
		s.cut = score.Below(floor - 1.02*s.Rel*s.Norm*float64(s.maxNorm) - 2*s.Abs)
	case fileformat.L2:
		s.cut = float32(math.Inf(-1))
		if far := (-floor + s.Abs) * (1 + 2.1*s.Rel); far < math.MaxFloat32/2 {
			s.cut = score.Below(-far)
		}
	}
}

func (s *rowOffer) offer(raw, inv float32, row int) {
	lower, upper := s.Bounds(raw, inv)
	if s.c.Offer(lower, upper, s.part, int32(row)) {
		s.raise()
	}
}

func (w *worker) newRowOffer(j, part int) rowOffer {
	scan := rowOffer{Fast: &w.Probes[j].fast, c: w.collectors[j], part: int32(part),
		maxNorm: w.View.Parts[part].MaxNorm}
	scan.raise()
	return scan
}

// scanBatchCodes offers the rows of a unit to a query batch by codes. On an
// error it returns the first row that was not scanned.
func (w *worker) scanBatchCodes(c *queryBatch, u unit) (int, error) {
	for i, j := range c.queries {
		c.codes.SetCut(i, w.collectors[j].Floor())
	}
	for lo := u.lo; lo < u.hi; lo += codes.BlockRows {
		words, err := c.codes.Scan(lo, min(lo+codes.BlockRows, u.hi))
		if err != nil {
			return lo, err
		}
		for i, word := range words {
			if word == 0 {
				continue
			}
			j := c.queries[i]
			if set := w.Probes[j].Parts[u.part].Set; set != nil {
				word &= set[lo/64]
			}
			kept := false
			for ; word != 0; word &= word - 1 {
				row := lo + mathbits.TrailingZeros64(word)
				lower, upper := c.codes.Interval(i, row)
				kept = w.collectors[j].Offer(lower, upper, int32(u.part), int32(row)) || kept
			}
			if kept {
				c.codes.SetCut(i, w.collectors[j].Floor())
			}
		}
	}
	return u.hi, nil
}

// scanBatchRows offers the rows of a unit to a query batch by vectors.
func (w *worker) scanBatchRows(c *queryBatch, u unit) error {
	p := w.View.Parts[u.part]
	rows, err := p.Source.Vectors(u.lo, u.hi)
	if err != nil {
		return err
	}
	w.read += int64(u.hi-u.lo) * int64(4*p.Dim)
	if cap(w.words) < c.rows.Words() {
		w.words = make([]uint64, c.rows.Words())
	}
	words := w.words[:c.rows.Words()]
	w.offers = w.offers[:0]
	least, most := float32(math.Inf(-1)), float32(math.Inf(1)) // the narrowest of all queries
	for i, j := range c.queries {
		scan := w.newRowOffer(j, u.part)
		w.offers = append(w.offers, scan)
		c.rows.SetCut(i, scan.cut)
		least, most = max(least, scan.Least), min(most, scan.Most)
	}
	for lo := u.lo; lo < u.hi; {
		n := min(simd.BlockRows-lo%64, u.hi-lo) // within one word of a set
		for i, inv := range p.Inv[lo : lo+n] {
			w.factors[i] = w.offers[0].Plain + w.offers[0].Scaled*inv
			if !(inv > least && inv < most) {
				w.factors[i] = float32(math.NaN()) // always a candidate
			}
		}
		w.block.Pack(p.Dim, rows[(lo-u.lo)*p.Dim:(lo-u.lo+n)*p.Dim], w.factors[:n])
		c.rows.Above(words, &w.block)
		for i, word := range words[:len(c.queries)] {
			q := w.Probes[c.queries[i]]
			if set := q.Parts[u.part].Set; set != nil {
				word &= set[lo/64] >> (lo % 64)
			}
			if word == 0 {
				continue
			}
			scan := &w.offers[i]
			for ; word != 0; word &= word - 1 {
				row := lo + mathbits.TrailingZeros64(word)
				scan.offer(q.fast.Kernel(rows[(row-u.lo)*p.Dim:(row-u.lo+1)*p.Dim]), p.Inv[row], row)
			}
			c.rows.SetCut(i, scan.cut)
		}
		lo += n
	}
	return nil
}
