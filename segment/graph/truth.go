package graph

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/simd"
)

// trialsPerTile is the number of trials that are compared together with blocks of rows: a multiple
// of what every kernel takes at once, whose points stay in the second-level cache.
const trialsPerTile = 30

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

// widened is by how much a bound may be too small, because walks measure distances of codes.
const widened = 1.02

// compareAll finds the true neighbours of trials by brute force. A walk for each tells first how
// far they are at most, so that few other rows are scored. If it was wrong, too few rows are found,
// and the trial is compared again without a bound.
func (b *builder) compareAll(trials []trial, rows codes.Source) error {
	err := b.each(len(trials), func(w *workerScratch, i int) error {
		t := &trials[i]
		if t.query = b.Query(t.vec); t.row != none {
			t.query.Without(int(t.row))
		}
		t.bound = math.MaxFloat32
		if err := t.query.attempt(t.most, Setting{EF: t.most}, nil, &w.buf); err != nil {
			return err
		}
		if last, ok := t.query.found(&w.buf).within(t.most); ok {
			t.bound = widened * last
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := b.compareWithin(trials, rows); err != nil {
		return err
	}
	var short []int
	for i := range trials {
		if t := &trials[i]; t.bound < math.MaxFloat32 && (!t.full || t.worst > t.bound) {
			short = append(short, i)
		}
	}
	again := make([]trial, len(short))
	for j, i := range short {
		again[j] = trials[i]
		again[j].bound, again[j].truth, again[j].full = math.MaxFloat32, nil, false
	}
	if len(again) > 0 {
		err = b.compareWithin(again, rows)
	}
	for j, i := range short {
		trials[i] = again[j]
	}
	return err
}

// compareWithin finds the true neighbours of trials that are not beyond their bounds.
func (b *builder) compareWithin(trials []trial, rows codes.Source) error {
	dim := b.Dim()
	tiles := make([]*simd.RowTile, (len(trials)+trialsPerTile-1)/trialsPerTile)
	err := b.each(len(tiles), func(_ *workerScratch, i int) error {
		group := trials[i*trialsPerTile:]
		group = group[:min(len(group), trialsPerTile)]
		tiles[i] = simd.NewL2Tile(len(group), dim+1)
		for j := range group {
			t := &group[j]
			t.point, t.norm = make([]float32, dim+1), b.norm(t.vec)
			t.point[dim] = b.space.point(t.point[:dim], t.vec, true)
			tiles[i].Set(j, t.point)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var c rowChunk
	longest := 0.0 // length of the longest point
	err = read(b.ctx, &b.head.ident, rows, func(lo int, x []float32) error {
		if err := b.packChunk(&c, lo, x); err != nil {
			return err
		}
		for p := c.points; len(p) > 0; p = p[dim+1:] {
			longest = max(longest, simd.Dot64(p[:dim+1], p[:dim+1]))
		}
		blur := b.blur(math.Sqrt(longest))
		return b.each(len(tiles), func(w *workerScratch, i int) error {
			from := i * trialsPerTile
			b.compare(trials[from:min(from+trialsPerTile, len(trials))], tiles[i], &c, blur, w)
			return nil
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

// A rowChunk holds consecutive rows: their vectors for true scores, and their points for distances.
type rowChunk struct {
	lo     int // the first row
	x      []float32
	norms  []float64
	points []float32       // including the extra components
	blocks []simd.RowBlock // of points
}

// packChunk sets a chunk to x, the rows from lo on. The chunk reuses its memory.
func (b *builder) packChunk(c *rowChunk, lo int, x []float32) error {
	dim := b.Dim()
	n := len(x) / dim
	c.lo, c.x = lo, x
	c.norms = slices.Grow(c.norms[:0], n)[:n]
	c.points = slices.Grow(c.points[:0], n*(dim+1))[:n*(dim+1)]
	err := b.each(n, func(_ *workerScratch, i int) error {
		v, p := x[i*dim:][:dim], c.points[i*(dim+1):][:dim+1]
		p[dim] = b.space.point(p[:dim], v, false)
		c.norms[i] = b.norm(v)
		return nil
	})
	if err != nil {
		return err
	}
	all := (n + simd.BlockRows - 1) / simd.BlockRows
	for len(c.blocks) < all {
		c.blocks = append(c.blocks, simd.RowBlock{})
	}
	c.blocks = c.blocks[:all]
	minus := slices.Repeat([]float32{-1}, simd.BlockRows)
	return b.each(all, func(_ *workerScratch, i int) error {
		lo, hi := i*simd.BlockRows, min((i+1)*simd.BlockRows, n)
		c.blocks[i].Pack(dim+1, c.points[lo*(dim+1):hi*(dim+1)], minus[:hi-lo])
		return nil
	})
}

// compare offers the rows of a chunk that are near enough to the trials of a tile.
func (b *builder) compare(trials []trial, tile *simd.RowTile, c *rowChunk, blur float64, w *workerScratch) {
	dim := b.Dim()
	cut := func(i int) { tile.SetCut(i, -b.beyond(&trials[i], blur)) }
	for i := range trials {
		cut(i)
	}
	w.above = slices.Grow(w.above[:0], tile.Words())[:tile.Words()]
	for at := range c.blocks {
		b.rest(w)
		tile.Above(w.above, &c.blocks[at])
		for i := range trials {
			t := &trials[i]
			for word := w.above[i]; word != 0; word &= word - 1 {
				j := at*simd.BlockRows + bits.TrailingZeros64(word)
				row := uint32(c.lo + j)
				if row == t.row {
					continue
				}
				score := b.score(t, c.x[j*dim:][:dim], c.norms[j])
				if t.full && score <= t.least {
					continue
				}
				// The distance of the tile depends on the kernel; what the file keeps must not.
				dist := float32(simd.L264(t.point, c.points[j*(dim+1):][:dim+1]))
				if t.offer(neighbour{row, score, dist}) {
					cut(i)
				}
			}
		}
	}
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

// blur returns the rounding error of the distance between two points of at most this length.
func (b *builder) blur(longest float64) float64 {
	blur := 2 * longest * 0x1p-24 // for each component of both points
	if b.head.ident.Metric == fileformat.Dot {
		blur += 2e-6 * b.head.maxNorm / b.head.unit // for the extra components: see space.point
	}
	return blur
}

// beyond returns a squared distance beyond which no row can be a true neighbour of the trial within
// its bound: the largest one in truth, plus rounding errors.
func (b *builder) beyond(t *trial, blur float64) float32 {
	worst := t.bound
	if t.full {
		worst = min(worst, t.worst)
	}
	relative := 1.01*simd.ErrorBound(b.Dim()+1) + 0x1p-40 // of sums, and of scores
	d := math.Sqrt(float64(worst)*(1+2*relative)) + 2*blur
	return float32(min(d*d*(1+2*relative), math.MaxFloat32))
}

// offer adds a row to the truth of a trial that may belong there, and reports whether worst has
// changed. Rows are offered in ascending order: of equal scores the lower row is better.
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
	t.worst = 0
	for _, e := range t.truth {
		t.worst = max(t.worst, e.dist)
	}
	if t.full = len(t.truth) == t.most; t.full {
		t.least = t.truth[t.most-1].score
	}
}
