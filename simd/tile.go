package simd

import (
	"fmt"
	"math"
)

// BlockRows is the number of rows of a full block.
const BlockRows = 64

// The tile kernels compare all queries with one block of rows. They read 32-bit words: one word per
// step of a query or row. A word is one float32, or 4 codes and one-byte weights under AVX-512, or
// 2 codes and two-byte weights under AVX2. The words of one step lie side by side for all rows of a
// block, so that a vector register holds one step of many rows; likewise for the queries of a
// group. See _asm/tile.go.

// A shape is how an implementation arranges queries and rows.
type shape struct {
	rows  int // rows side by side
	group int // queries
	codes int // per word
}

func (l level) shape() shape {
	if l == avx512 {
		return shape{rows: 64, group: 6, codes: 4}
	}
	return shape{rows: 16, group: 5, codes: 2}
}

// tile is the common part of CodeTile and RowTile.
type tile struct {
	level  level
	shape  shape
	n, dim int
	steps  int
	words  []uint32 // of queries, by group, step and query
	params []uint32 // by group, parameter and query; the cut is the last parameter
	each   int      // parameters of a query
}

func newTile(l level, n, dim, perWord, params int) tile {
	if n < 0 || dim < 1 {
		panic(fmt.Sprintf("simd: tile of %d queries of dimension %d", n, dim))
	}
	t := tile{level: l, shape: l.shape(), n: n, dim: dim, each: params}
	if l != generic {
		t.steps = (dim + perWord - 1) / perWord
		t.words = make([]uint32, t.Words()*t.steps)
	}
	t.params = make([]uint32, t.Words()*params)
	return t
}

// Len returns the number of queries.
func (t *tile) Len() int { return t.n }

// Words returns the number of words that Above writes: one per query, and padding.
func (t *tile) Words() int { return (t.n + t.shape.group - 1) / t.shape.group * t.shape.group }

// at returns the index of a step of query i in words.
func (t *tile) at(i, step int) int {
	g := t.shape.group
	return (i/g*t.steps+step)*g + i%g
}

// param returns parameter p of query i.
func (t *tile) param(i, p int) *uint32 {
	g := t.shape.group
	return &t.params[(i/g*t.each+p)*g+i%g]
}

// SetCut sets the cut of query i. It is 0 initially.
func (t *tile) SetCut(i int, cut float32) { *t.param(i, t.each-1) = math.Float32bits(cut) }

func (t *tile) cut(i int) float32 { return math.Float32frombits(*t.param(i, t.each-1)) }

// check panics if the arguments of Above do not fit.
func (t *tile) check(dst []uint64, b *block) {
	if b.level != t.level || b.dim != t.dim || len(dst) < t.Words() {
		panic(fmt.Sprintf("simd: Above of %d queries of dimension %d with a block of dimension %d and %d words", t.n, t.dim, b.dim, len(dst)))
	}
}

// queriesPerCall limits one call of the assembly, which cannot be preempted, to about 50
// microseconds.
func (t *tile) queriesPerCall() int {
	return t.shape.group * max(1, 1<<16/(t.shape.group*t.steps))
}

// block is the common part of CodeBlock and RowBlock.
type block struct {
	level  level
	dim, n int
	words  []uint32
}

func (b *block) reset(l level, n, dim, perWord int) {
	if n > BlockRows || dim < 1 {
		panic(fmt.Sprintf("simd: block of %d rows of dimension %d", n, dim))
	}
	b.level, b.n, b.dim = l, n, dim
	if l == generic {
		return
	}
	size := BlockRows * ((dim + perWord - 1) / perWord)
	if cap(b.words) < size {
		b.words = make([]uint32, size)
	}
	b.words = b.words[:size]
}

// trim clears the bits beyond the rows of the block.
func (b *block) trim(dst []uint64) {
	if b.n < BlockRows {
		for i := range dst {
			dst[i] &= 1<<b.n - 1
		}
	}
}

// A CodeTile compares many queries at once with blocks of codes. Weights have one byte: for more
// exact products, score the remaining rows with DotCodes. A tile is for one
// goroutine.
type CodeTile struct {
	tile
	exact []*Weights // for the generic kernel
}

// NewCodeTile returns a tile of n queries of dimension dim, to be filled by Set.
func NewCodeTile(n, dim int) *CodeTile {
	l := dotCodesLevel()
	t := &CodeTile{tile: newTile(l, n, dim, l.shape().codes, 3)}
	if l == generic {
		t.exact = make([]*Weights, n)
	}
	return t
}

// Fork returns a tile of the same queries that has cuts of its own: for another goroutine. The
// queries must be set.
func (t *CodeTile) Fork() *CodeTile {
	f := *t
	f.params = append([]uint32(nil), t.params...)
	return &f
}

// Set sets query i; see Above. It copies w, and panics if w has a value below -127.
func (t *CodeTile) Set(i int, w []int8, add int32, per float32) {
	if len(w) != t.dim {
		panic(fmt.Sprintf("simd: CodeTile of dimension %d with %d weights", t.dim, len(w)))
	}
	for j, v := range w {
		if v == math.MinInt8 {
			panic(fmt.Sprintf("simd: CodeTile with %d at %d", v, j))
		}
	}
	*t.param(i, 1) = math.Float32bits(per)
	switch t.level {
	case avx512: // the codes are 128 too large
		for j, v := range w {
			t.words[t.at(i, j/4)] |= uint32(uint8(v)) << (j % 4 * 8)
			add -= 128 * int32(v)
		}
	case avx2:
		for j, v := range w {
			t.words[t.at(i, j/2)] |= uint32(uint16(v)) << (j % 2 * 16)
		}
	default:
		wide := make([]int16, len(w))
		for j, v := range w {
			wide[j] = int16(v)
		}
		t.exact[i] = NewWeights(wide)
	}
	*t.param(i, 0) = uint32(add)
}

// A CodeBlock holds up to BlockRows rows of codes, arranged for tiles. The zero value is ready for
// Pack.
type CodeBlock struct {
	block
	codes          []uint8 // for the generic kernel
	scales, levels [BlockRows]float32
}

// Pack fills the block with copies of len(scales) rows of dim codes; codes must be as long as
// DotCodes requires.
func (b *CodeBlock) Pack(dim int, codes []uint8, scales, levels []float32) {
	n := len(scales)
	if CodesSize(n, dim) > len(codes) || len(levels) != n {
		panic(fmt.Sprintf("simd: block of %d rows of %d codes with only %d, and %d levels", n, dim, len(codes), len(levels)))
	}
	l := dotCodesLevel()
	b.reset(l, n, dim, l.shape().codes)
	copy(b.scales[:], scales)
	copy(b.levels[:], levels)
	switch l {
	case avx512:
		packCodes4(b.words, codes, n, dim)
	case avx2:
		packCodes2(b.words, codes, n, dim)
	default:
		b.codes = append(b.codes[:0], codes[:CodesSize(n, dim)]...)
	}
}

// packCodes4 arranges n rows in words of 4 codes. Bytes of the last word beyond the row meet
// weights of zero.
func packCodes4(words []uint32, codes []uint8, n, dim int) {
	steps := len(words) / BlockRows
	for r := range n {
		row := codes[r*dim:][:4*steps]
		for s := 0; len(row) >= 4; s, row = s+BlockRows, row[4:] {
			words[s+r] = uint32(row[0]) | uint32(row[1])<<8 | uint32(row[2])<<16 | uint32(row[3])<<24
		}
	}
}

// packCodes2 arranges n rows, sixteen at a time, in words of 2 codes minus 128.
func packCodes2(words []uint32, codes []uint8, n, dim int) {
	steps := len(words) / BlockRows
	for r := range n {
		row := codes[r*dim:][:2*steps]
		to := words[r/16*16*steps+r%16:]
		for s := 0; len(row) >= 2; s, row = s+16, row[2:] {
			to[s] = uint32(uint16(row[0])-128) | uint32(uint16(row[1])-128)<<16
		}
	}
}

// Above sets bit j of dst[i], for query i and row j of the block, unless
//
//	scales[j]*(sum of w[k]*(codes[j][k]-128) + add) + per*levels[j] < cut
//
// where the inner sum is an integer modulo 2^32 and is then rounded to float32, like the result of
// every other operation: a NaN sets the bit. Bits beyond the rows of the block are zero. dst must
// have Words words; words beyond the queries get any value. The result is the same from every
// implementation on every CPU.
func (t *CodeTile) Above(dst []uint64, b *CodeBlock) {
	t.check(dst, &b.block)
	dst = dst[:t.Words()]
	if t.level == generic {
		tileCodesGeneric(dst[:t.n], t, b)
	} else {
		for i, per := 0, t.queriesPerCall(); i < len(dst); i += per {
			end := min(i+per, len(dst))
			tileCodes(t.level, dst[i:end], b.words, t.words[i*t.steps:], t.steps, t.params[i*t.each:], b.scales[:], b.levels[:])
		}
	}
	b.trim(dst)
}

// A RowTile compares many queries at once with blocks of rows. It is for one goroutine.
type RowTile struct {
	tile
	l2    bool
	exact [][]float32 // for the generic kernel
}

// NewDotTile returns a tile of n queries of dimension dim, to be filled by Set, for dot products.
func NewDotTile(n, dim int) *RowTile {
	return &RowTile{tile: newTile(active, n, dim, 1, 1), exact: make([][]float32, n)}
}

// NewL2Tile returns a tile of n queries of dimension dim, to be filled by Set, for squared
// distances.
func NewL2Tile(n, dim int) *RowTile {
	t := NewDotTile(n, dim)
	t.l2 = true
	return t
}

// Fork returns a tile of the same queries that has cuts of its own: for another goroutine. The
// queries must be set.
func (t *RowTile) Fork() *RowTile {
	f := *t
	f.params = append([]uint32(nil), t.params...)
	return &f
}

// Set sets query i, which the tile keeps.
func (t *RowTile) Set(i int, q []float32) {
	if len(q) != t.dim {
		panic(fmt.Sprintf("simd: RowTile of dimension %d with a query of %d", t.dim, len(q)))
	}
	t.exact[i] = q
	if t.level != generic {
		for j, v := range q {
			t.words[t.at(i, j)] = math.Float32bits(v)
		}
	}
}

// A RowBlock holds up to BlockRows rows, arranged for tiles. The zero value is ready for Pack.
type RowBlock struct {
	block
	rows    []float32 // for the generic kernel
	factors [BlockRows]float32
}

// Pack fills the block with copies of len(factors) rows of dim floats.
func (b *RowBlock) Pack(dim int, rows, factors []float32) {
	n := len(factors)
	if n*dim != len(rows) {
		panic(fmt.Sprintf("simd: block of %d rows of %d floats with %d", n, dim, len(rows)))
	}
	b.reset(active, n, dim, 1)
	copy(b.factors[:], factors)
	if active == generic {
		b.rows = append(b.rows[:0], rows...)
		return
	}
	side := active.shape().rows
	for r := range n {
		to := b.words[r/side*side*dim+r%side:]
		for j, v := range rows[r*dim : (r+1)*dim] {
			to[j*side] = math.Float32bits(v)
		}
	}
}

// Above sets bit j of dst[i], for query i and row j of the block, unless factors[j] times their dot
// product, or squared distance, is below cut: a NaN sets the bit. Both are rounded to float32 and
// within ErrorBound. Bits beyond rows and queries are as in CodeTile.Above.
func (t *RowTile) Above(dst []uint64, b *RowBlock) {
	t.check(dst, &b.block)
	dst = dst[:t.Words()]
	if t.level == generic {
		tileRowsGeneric(dst[:t.n], t, b)
	} else {
		for i, per := 0, t.queriesPerCall(); i < len(dst); i += per {
			end := min(i+per, len(dst))
			tileRows(t.level, t.l2, dst[i:end], b.words, t.words[i*t.steps:], t.steps, t.params[i:], b.factors[:])
		}
	}
	b.trim(dst)
}
