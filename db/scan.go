package db

import (
	"context"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/vecbolt/vecbolt/internal/topk"
	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/simd"
)

// codes returns the codes of every part that has them. It must be called
// inside guard.
func (v *view) codes() []*codes.Codes {
	all := make([]*codes.Codes, len(v.parts))
	for i, p := range v.parts {
		if p.dim > 0 && p.segment != nil {
			all[i] = p.segment.codes.get()
		}
	}
	return all
}

// A unit is a stretch of rows that one worker scans while it is in the cache.
type unit struct {
	part   int
	lo, hi int
}

func (s *search) units() []unit {
	var units []unit
	for i, p := range s.view.parts {
		if p.dim == 0 {
			continue
		}
		rowBytes := 4 * p.dim
		if s.codes[i] != nil {
			rowBytes = p.dim
		}
		step := max(64, chunkBytes/rowBytes&^63)
		for lo := 0; lo < p.n; {
			hi := min(lo+step, p.source.run(lo), p.n)
			units = append(units, unit{i, lo, hi})
			lo = hi
		}
	}
	return units
}

// A crowd is the queries that share the scan of one part: see codes.Batch and
// simd.RowTile, of which it has one. The others scan the part one by one.
type crowd struct {
	queries []int // which ones
	others  []int
	codes   *codes.Batch
	rows    *simd.RowTile
}

// crowded is the number of queries from which on they are compared with blocks
// of rows at once.
const crowded = 4

// crowds forms a crowd for every part.
func (s *search) crowds() []crowd {
	crowds := make([]crowd, len(s.view.parts))
	for i, p := range s.view.parts {
		c := &crowds[i]
		for j, q := range s.queries {
			if q.share(i, p.n) >= s.sparse(i) {
				c.queries = append(c.queries, j)
			} else {
				c.others = append(c.others, j)
			}
		}
		switch n := len(c.queries); {
		case n < crowded || p.dim == 0:
			c.others, c.queries = append(c.others, c.queries...), nil
		case s.codes[i] != nil:
			coded := make([]*codes.Query, n)
			for at, j := range c.queries {
				coded[at] = s.queries[j].codes[i]
			}
			c.codes = s.codes[i].Batch(coded)
		default:
			c.rows = simd.NewRowTile(n, p.dim, s.view.def.schema.Metric == L2)
			for at, j := range c.queries {
				c.rows.Set(at, s.queries[j].scorer.fast)
			}
		}
	}
	return crowds
}

// share returns which share of the n rows of a part q wants.
func (q *probe) share(part, n int) float64 {
	if q.sets[part] == nil {
		return 1
	}
	return float64(q.sets[part].Count()) / float64(max(n, 1))
}

// Below these shares, wanted rows are scored one by one; codes are a quarter
// of the bytes.
const (
	sparseRows  = 0.25
	sparseCodes = sparseRows / 4
)

func (s *search) sparse(part int) float64 {
	if s.codes[part] != nil {
		return sparseCodes
	}
	return sparseRows
}

// scan offers every row that matters to the collectors and returns, for each
// query, the candidates that may be among its best.
func (s *search) scan(ctx context.Context) ([][]topk.Candidate, error) {
	units := s.units()
	workers := max(1, min(s.workers, len(units)))
	crowds := s.crowds()
	collectors := make([][]*topk.Collector, len(s.queries)) // by query, by worker
	for i, q := range s.queries {
		least := negInf
		if q.Threshold != nil {
			least = *q.Threshold
		}
		collectors[i] = topk.Group(workers, min(q.limit(), max(1, q.matched)), least)
	}
	var next atomic.Int64
	work := func(n int) error {
		return s.db.guard(func() error {
			w := newWorker(s, crowds)
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
					next.Store(int64(len(units))) // the others need not go on
					return err
				}
			}
		})
	}
	errs := make([]error, workers)
	var wait sync.WaitGroup
	for n := 1; n < workers; n++ {
		wait.Go(func() { errs[n] = work(n) })
	}
	errs[0] = work(0)
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	found := make([][]topk.Candidate, len(s.queries))
	for i := range s.queries {
		found[i] = topk.Merge(collectors[i]...)
	}
	return found, nil
}

// A worker is one goroutine of a scan.
type worker struct {
	*search
	collectors []*topk.Collector // by query
	crowds     []crowd           // by part
	ours       []bool            // crowds that were made this worker's own

	raw        []float32
	codes      codes.Buffer
	candidates []codes.Candidate
	block      simd.RowBlock
	factors    [simd.BlockRows]float32
	words      []uint64
	scans      []scanning
}

func newWorker(s *search, crowds []crowd) *worker {
	return &worker{search: s, collectors: make([]*topk.Collector, len(s.queries)),
		crowds: append([]crowd(nil), crowds...), ours: make([]bool, len(crowds))}
}

// scan offers the rows of a unit to all queries.
func (w *worker) scan(u unit) error {
	c := &w.crowds[u.part]
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
		done, err := w.crowdCodes(c, u)
		if err == nil {
			return nil
		}
		w.view.parts[u.part].segment.codes.distrust(err)
		u.lo = done
		for _, j := range c.queries {
			if err := w.scanVectors(j, u); err != nil {
				return err
			}
		}
	}
	if c.rows != nil {
		return w.crowdRows(c, u)
	}
	return nil
}

// scanOne offers the rows of a unit to query j.
func (w *worker) scanOne(j int, u unit) error {
	q := w.queries[j]
	wanted := u.hi - u.lo
	if set := q.sets[u.part]; set != nil {
		if wanted = set.CountRange(u.lo, u.hi); wanted == 0 {
			return nil
		}
	}
	if coded := q.codes[u.part]; coded != nil && float64(wanted) >= sparseCodes*float64(u.hi-u.lo) {
		done, err := w.scanCodes(coded, j, u)
		if err == nil {
			return nil
		}
		w.view.parts[u.part].segment.codes.distrust(err)
		u.lo = done // the rest by vectors
	}
	return w.scanVectors(j, u)
}

// scanCodes offers to query j the rows of a unit that their codes do not rule
// out. The first steps are small, because every row is a candidate until k are
// known. On an error it returns the first row that was not looked at.
func (w *worker) scanCodes(coded *codes.Query, j int, u unit) (int, error) {
	c, set := w.collectors[j], w.queries[j].sets[u.part]
	step := 64
	if c.Floor() > negInf {
		step = 1024
	}
	for lo := u.lo; lo < u.hi; step = min(2*step, 4096) {
		hi := min(lo+step, u.hi)
		candidates, err := coded.Candidates(w.candidates[:0], lo, hi, set, c.Floor(), &w.codes)
		w.candidates = candidates
		if err != nil {
			return lo, err
		}
		for _, row := range candidates {
			lower, upper := coded.Interval(row)
			c.Offer(lower, upper, int32(u.part), int32(row.Row))
		}
		lo = hi
	}
	return u.hi, nil
}

// scanVectors offers rows of a unit to query j by their vectors.
func (w *worker) scanVectors(j int, u unit) error {
	p, q, n := w.view.parts[u.part], w.queries[j], u.hi-u.lo
	if n == 0 {
		return nil
	}
	rows, err := p.source.vectors(u.lo, u.hi)
	if err != nil {
		return err
	}
	set := q.sets[u.part]
	scan := w.scanning(j, u.part)
	if set != nil && float64(set.CountRange(u.lo, u.hi)) < sparseRows*float64(n) {
		for row := set.NextSet(u.lo); row >= 0 && row < u.hi; row = set.NextSet(row + 1) {
			vec := rows[(row-u.lo)*p.dim : (row-u.lo+1)*p.dim]
			scan.offer(q.scorer.kernel(vec), p.inv[row], row)
		}
		return nil
	}
	if cap(w.raw) < n {
		w.raw = make([]float32, n)
	}
	out := w.raw[:n]
	q.scorer.kernelRows(out, rows)
	scan.block(out, p.inv[u.lo:u.hi], set, u.lo)
	return nil
}

func (w *worker) scanning(j, part int) scanning {
	scan := scanning{scorer: &w.queries[j].scorer, c: w.collectors[j], part: int32(part), maxNorm: w.view.parts[part].maxNorm}
	scan.raise()
	return scan
}

// crowdCodes offers the rows of a unit to the queries of a crowd by codes. On
// an error it returns the first row that was not looked at.
func (w *worker) crowdCodes(c *crowd, u unit) (int, error) {
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
			if set := w.queries[j].sets[u.part]; set != nil {
				word &= set[lo/64]
			}
			kept := false
			for ; word != 0; word &= word - 1 {
				row := lo + bits.TrailingZeros64(word)
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

// crowdRows offers the rows of a unit to the queries of a crowd by vectors.
func (w *worker) crowdRows(c *crowd, u unit) error {
	p := w.view.parts[u.part]
	rows, err := p.source.vectors(u.lo, u.hi)
	if err != nil {
		return err
	}
	if cap(w.words) < c.rows.Words() {
		w.words = make([]uint64, c.rows.Words())
	}
	words := w.words[:c.rows.Words()]
	w.scans = w.scans[:0]
	var least, most float32 // the narrowest of all queries
	for i, j := range c.queries {
		scan := w.scanning(j, u.part)
		w.scans = append(w.scans, scan)
		c.rows.SetCut(i, scan.tileCut())
		least, most = max(least, scan.least), scan.most
	}
	for lo := u.lo; lo < u.hi; {
		n := min(simd.BlockRows-lo%64, u.hi-lo) // within one word of a set
		w.block.Pack(p.dim, rows[(lo-u.lo)*p.dim:(lo-u.lo+n)*p.dim], tileFactors(w.factors[:n], w.scans[0].metric, p.inv[lo:lo+n], least, most))
		c.rows.Above(words, &w.block)
		for i, word := range words[:len(c.queries)] {
			q := w.queries[c.queries[i]]
			if set := q.sets[u.part]; set != nil {
				word &= set[lo/64] >> (lo % 64)
			}
			if word == 0 {
				continue
			}
			scan := &w.scans[i]
			for ; word != 0; word &= word - 1 {
				row := lo + bits.TrailingZeros64(word)
				scan.offer(q.scorer.kernel(rows[(row-u.lo)*p.dim:(row-u.lo+1)*p.dim]), p.inv[row], row)
			}
			c.rows.SetCut(i, scan.tileCut())
		}
		lo += n
	}
	return nil
}
