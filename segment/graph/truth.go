package graph

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
	"github.com/vecbolt/vecbolt/simd"
)

// Parameters of the comparison of all trials with all rows.
const (
	trialsPerBatch = 120     // compared together: many for each block that is packed, and enough batches for all cores
	blockBytes     = 1 << 23 // of vectors that are coded at once, about: each block rounds the weights of all trials
	widened        = 1.02    // by how much a bound may be too small, because walks measure distances of codes
)

// A neighbour is a row with its true score for a trial. Which rows a search should find is decided
// by scores, and only equal scores are ties, because distances of points are rounded.
type neighbour struct {
	row   uint32
	score float64
	dist  float32 // squared, of the points
}

// trials makes queries and finds the true neighbours of each.
func (b *builder) trials(rows codes.Source) ([]trial, error) {
	trials, err := b.queries(rows)
	if err != nil {
		return nil, err
	}
	return trials, b.compareAll(trials, rows)
}

// compareAll finds the true neighbours of trials. A walk for each tells first how far they are at
// most, so that few other rows are scored. If it was wrong, too few rows are found, and the trial
// is compared again without a bound.
func (b *builder) compareAll(trials []trial, rows codes.Source) error {
	err := b.each(len(trials), func(w *workerScratch, i int) error {
		t := &trials[i]
		if t.query = b.Query(t.vec); t.row != none {
			t.query.Without(int(t.row))
		}
		t.point = make([]float32, b.Dim()+1)
		t.point[b.Dim()] = b.space.point(t.point[:b.Dim()], t.vec, true)
		t.norm, t.cut = b.norm(t.vec), math.Inf(-1)
		if err := t.query.attempt(t.most, levels.Setting{EF: t.most}, nil, &w.buf); err != nil {
			return err
		}
		if last, ok := t.query.found(&w.buf).within(t.most); ok {
			t.cut = b.scoreAt(t, float64(widened*last))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := b.compareAbove(trials, rows); err != nil {
		return err
	}
	var short []int
	for i := range trials {
		if t := &trials[i]; !math.IsInf(t.cut, -1) && !(t.full && t.least >= t.cut) {
			short = append(short, i)
		}
	}
	again := make([]trial, len(short))
	for j, i := range short {
		again[j] = trials[i]
		again[j].cut, again[j].truth, again[j].full = math.Inf(-1), nil, false
	}
	if len(again) > 0 {
		err = b.compareAbove(again, rows)
	}
	for j, i := range short {
		trials[i] = again[j]
	}
	return err
}

// A rowBlock holds consecutive rows: their vectors for true scores, their points for distances, and
// codes that rule out most of them.
type rowBlock struct {
	lo     int // the first row
	x      []float32
	norms  []float64
	points []float32 // including the extra components
	codes  *codes.Codes
}

// compareAbove finds the true neighbours of trials whose scores reach their cuts. Codes rule out
// most rows, by bounds that hold for certain; the others are scored.
func (b *builder) compareAbove(trials []trial, rows codes.Source) error {
	var c rowBlock
	queries := make([]*codes.Query, len(trials))
	err := read(b.ctx, &b.head.ident, rows, blockBytes, func(lo int, x []float32) error {
		first := c.codes
		if err := b.fillBlock(&c, lo, x); err != nil {
			return err
		}
		return b.each((len(trials)+trialsPerBatch-1)/trialsPerBatch, func(w *workerScratch, i int) error {
			from, to := i*trialsPerBatch, min((i+1)*trialsPerBatch, len(trials))
			for j := from; j < to; j++ {
				if first == nil {
					queries[j] = c.codes.Query(trials[j].vec)
				} else {
					queries[j] = queries[j].On(c.codes)
				}
			}
			return b.compare(trials[from:to], queries[from:to], &c, w)
		})
	})
	if err != nil {
		return err
	}
	return b.each(len(trials), func(_ *workerScratch, i int) error {
		t := &trials[i]
		t.prune()
		t.ranks, t.others = make(map[uint32]int, len(t.truth)), map[uint32]bool{}
		for rank, e := range t.truth {
			t.ranks[e.row] = rank
		}
		return nil
	})
}

// fillBlock sets a block to x, the rows from lo on. It reuses the memory of all but the codes.
func (b *builder) fillBlock(c *rowBlock, lo int, x []float32) (err error) {
	dim := b.Dim()
	n := len(x) / dim
	c.lo, c.x = lo, x
	c.codes, err = codes.NewBlock(b.head.ident.Metric, dim, n, func(lo, hi int) ([]float32, error) {
		return x[lo*dim : hi*dim], nil
	}, c.codes)
	if err != nil {
		return err
	}
	c.norms = slices.Grow(c.norms[:0], n)[:n]
	c.points = slices.Grow(c.points[:0], n*(dim+1))[:n*(dim+1)]
	return b.each(n, func(_ *workerScratch, i int) error {
		v, p := x[i*dim:][:dim], c.points[i*(dim+1):][:dim+1]
		p[dim] = b.space.point(p[:dim], v, false)
		c.norms[i] = b.norm(v)
		return nil
	})
}

// compare offers each trial the rows of a block that may be among its neighbours.
func (b *builder) compare(trials []trial, queries []*codes.Query, c *rowBlock, w *workerScratch) error {
	dim, batch := b.Dim(), c.codes.Batch(queries)
	for i := range trials {
		batch.SetCut(i, trials[i].wants())
	}
	for lo, n := 0, c.codes.Len(); lo < n; lo += codes.BlockRows {
		b.rest(w)
		words, err := batch.Scan(lo, min(lo+codes.BlockRows, n))
		if err != nil {
			return err
		}
		for i, word := range words {
			t := &trials[i]
			for ; word != 0; word &= word - 1 {
				at := lo + bits.TrailingZeros64(word)
				row := uint32(c.lo + at)
				if row == t.row {
					continue
				}
				score := b.score(t, c.x[at*dim:][:dim], c.norms[at])
				if score < t.cut || t.full && score <= t.least {
					continue
				}
				dist := float32(simd.L264(t.point, c.points[at*(dim+1):][:dim+1]))
				if t.offer(neighbour{row, score, dist}) {
					batch.SetCut(i, t.wants())
				}
			}
		}
	}
	return nil
}

// wants returns the least score of a row that may be a neighbour.
func (t *trial) wants() float64 {
	if t.full {
		return max(t.cut, t.least)
	}
	return t.cut
}

// scoreAt returns about the score of a row at a squared distance of points.
func (b *builder) scoreAt(t *trial, dist float64) float64 {
	dist *= b.head.unit * b.head.unit
	switch b.head.ident.Metric {
	case fileformat.L2:
		return -dist
	case fileformat.Dot: // both points are as long as the longest row
		length := math.Sqrt(simd.Dot64(t.vec, t.vec))
		return length * (b.head.maxNorm - float64(dist/(2*b.head.maxNorm)))
	}
	return 1 - float64(dist/2)
}

// norm returns the length of a vector, for score; 0 if the metric needs none.
func (g *Graph) norm(x []float32) float64 {
	if g.head.ident.Metric != fileformat.Cosine {
		return 0
	}
	return math.Sqrt(simd.Dot64(x, x))
}

// score returns the true score of x, whose length is norm, for the vector of a trial, with the same
// bits as a search of a collection.
func (g *Graph) score(t *trial, x []float32, norm float64) float64 {
	switch g.head.ident.Metric {
	case fileformat.Dot:
		return simd.Dot64(t.vec, x)
	case fileformat.L2:
		return -simd.L264(t.vec, x)
	}
	if norm == 0 || t.norm == 0 {
		return 0
	}
	return max(-1, min(1, simd.Dot64(t.vec, x)/(norm*t.norm)))
}

// offer adds a row to the truth of a trial that may belong there, and reports whether least
// may have changed. Rows are offered in ascending order: of equal scores the lower row is better.
func (t *trial) offer(n neighbour) bool {
	if t.truth = append(t.truth, n); len(t.truth) < 2*t.most {
		return false
	}
	t.prune()
	return true
}

// prune keeps the best rows of truth, in order.
func (t *trial) prune() {
	slices.SortFunc(t.truth, func(a, b neighbour) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.row, b.row))
	})
	t.truth = t.truth[:min(t.most, len(t.truth))]
	if t.full = len(t.truth) == t.most; t.full {
		t.least = t.truth[t.most-1].score
	}
}
