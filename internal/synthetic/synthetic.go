// Package synthetic makes queries from the rows of a segment. A graph measures its recall by them
// before users ask their own, so there are many kinds: some queries are rows, most are unlike all
// rows. docs/calibration.md lists the kinds and says what each stands for.
//
// Equal rows and seeds give equal queries, on every machine.
package synthetic

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment/codes"
)

// Rows are the rows that queries are made from, and how they are made.
type Rows struct {
	Metric   fileformat.Metric
	Len, Dim int // at least 1
	Read     codes.Source
	Seed     uint64
	// Results are the numbers of results that queries want, ascending. Many cost more to compare,
	// so most queries want the first number, two in five the second, and one in seven the third,
	// of some kinds one in five.
	Results [3]int
	// Most is the largest number of queries of each kind; 0 is no limit.
	Most int
	// Each calls f for 0 to n-1, on any goroutines, and returns an error of f.
	Each func(n int, f func(i int) error) error
}

// A Query is one that a user might ask.
type Query struct {
	Kind Kind
	Row  int // for LikeRows the row that it is, and must not find; else -1
	Vec  []float32
	// Results is how many results it wants.
	Results int
}

// manyZeros is the share of components that are zero from which rows have queries along an axis: a
// component may be a word then. Components of dense embeddings mean nothing by themselves, and with
// inner products searches for such queries go four times as far as those for others. A component
// that is zero in fewer rows than this is no word, but a number that all rows have.
const manyZeros = 0.25

// leastFilled is how many components must be seldom zero for queries that have only these. One is
// an axis.
const leastFilled = 2

// A maker knows the properties of rows that the kinds need.
type maker struct {
	*Rows
	rng *rand.Rand

	largest    int    // the component in which rows are largest, by a sample
	zeroed     bool   // many components are zero
	often      []bool // by component, whether it is often zero
	numbers    int    // components that are seldom zero
	tagged     bool   // some component is often zero, but not always
	large      []int  // the few components that have most of the length of rows: see findLarge
	directions bool   // rows are divided by their length

	sample []place // of random rows
	places []place // of the first of these, crowded ones first

	populous []place // the same, those with the most rows around them first
	dense    bool    // the first of these are of a region of more dimensions: see findDense

	sorted     []int       // rows of the sample, along their first principal component
	components [][]float32 // the first principal components of the sample: see findFirst

	centre []float32   // mean of the sample
	strong [][]float32 // directions in which rows differ most: see remainder
	taken  int         // rows of the sample that these are of
	middle int         // the first of these have most of the length of rows
}

// Queries returns queries of all kinds that the rows have, kind by kind. It returns an error of
// Rows.Read, Rows.Each or the context.
func (r *Rows) Queries(ctx context.Context) (all []Query, err error) {
	m := maker{Rows: r, rng: rand.New(rand.NewPCG(r.Seed, 2))}
	if all, err = m.likeRows(); err != nil {
		return nil, err
	}
	if err := m.survey(); err != nil {
		return nil, err
	}
	for k := LikeRows + 1; k < Kinds; k++ {
		if made := recipes[k].made; made != nil && !made(&m) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for i := range m.queriesOf(k) {
			vec, err := m.query(k, i)
			if err != nil {
				return nil, err
			}
			all = append(all, Query{Kind: k, Row: -1, Vec: vec, Results: m.Results[k.depth(i)]})
		}
	}
	return all, nil
}

// queriesOf returns the number of queries of a kind.
func (m *maker) queriesOf(k Kind) int {
	if m.Most > 0 {
		return min(m.Most, k.Queries())
	}
	return k.Queries()
}

// query returns the i-th query of a kind. For Dot, the longest row would dominate a mean of rows,
// so half of the queries are made of the directions of rows.
func (m *maker) query(k Kind, i int) ([]float32, error) {
	const half = 12 // a multiple of the cycles of the kinds
	m.directions = m.Metric == fileformat.Cosine || m.Metric == fileformat.Dot && i/half%2 == 1
	return recipes[k].query(m, i)
}

// likeRows returns random rows as queries, and learns from them which components are large, and
// which are often zero.
func (m *maker) likeRows() (all []Query, err error) {
	picks := m.rng.Perm(m.Len)[:min(m.Len, m.queriesOf(LikeRows))]
	slices.Sort(picks)
	sizes, zeros, zerosOf := make([]float64, m.Dim), 0, make([]int, m.Dim)
	for i, row := range picks {
		x, err := m.Read(row, row+1)
		if err != nil {
			return nil, err
		}
		for j, v := range x {
			if size := math.Abs(float64(v)); size-size == 0 {
				sizes[j] += size
			}
			if v == 0 {
				zeros++
				zerosOf[j]++
			}
		}
		all = append(all, Query{Kind: LikeRows, Row: row, Vec: slices.Clone(x), Results: m.Results[LikeRows.depth(i)]})
	}
	m.largest = slices.Index(sizes, slices.Max(sizes))
	m.zeroed = float64(zeros) >= manyZeros*float64(len(picks)*m.Dim)
	m.often = make([]bool, m.Dim)
	for j, n := range zerosOf {
		m.tagged = m.tagged || float64(n) >= manyZeros*float64(len(picks)) && n < len(picks)
		if m.often[j] = float64(n) >= manyZeros*float64(len(picks)); !m.often[j] {
			m.numbers++
		}
	}
	return all, nil
}

// survey samples the rows, and finds the places and the directions that the kinds need.
func (m *maker) survey() error {
	if err := m.order(); err != nil {
		return err
	}
	first := m.sort()
	if m.Metric == fileformat.Cosine {
		m.findFirst(first)
	}
	if m.Metric != fileformat.Dot {
		m.findStrong()
	}
	if m.Metric == fileformat.L2 {
		m.findLarge()
	}
	return nil
}
