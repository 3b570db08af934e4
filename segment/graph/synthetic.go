package graph

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/simd"
)

// Which trials of a kind search for many rows. Numbers are prime to the cycles of query.
const (
	middleEvery = 5 // two trials in five have 100 results
	deepEvery   = 7 // one in seven has 1,000
	midwayEvery = 5 // of midpoints and long means one in five: the few that find little were in none of 13
)

// manyZeros is the share of components that are zero from which rows have queries along an axis: a
// component may be a word then. Components of dense embeddings mean nothing by themselves, and with
// inner products searches for such queries go four times as far as those for others. A component
// that is zero in fewer rows than this is no word, but a number that all rows have.
const manyZeros = 0.25

// leastFilled is how many components must be seldom zero for queries that have only these. One is
// an axis.
const leastFilled = 2

// A synthesizer makes out-of-distribution queries from rows.
type synthesizer struct {
	*builder
	rows codes.Source
	rng  *rand.Rand

	largest    int    // the component in which rows are largest, by a sample
	often      []bool // by component, whether it is often zero
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

// queries returns trials of all kinds that have vectors only. Means of rows stand for averages of
// words and for what lies between documents, the others for questions from another source.
func (b *builder) queries(rows codes.Source) (all []trial, err error) {
	s := synthesizer{builder: b, rows: rows, rng: rand.New(rand.NewPCG(b.head.seed, 2))}
	picks := s.rng.Perm(b.Len())[:min(b.Len(), b.trialsOf(likeRows))]
	slices.Sort(picks)
	depth := func(k kind, i int) int { // rows of truth of the i-th trial of a kind
		every := deepEvery
		if k >= midpoints && k <= mixedMidpoints || k == longMeans {
			every = midwayEvery
		}
		switch {
		case i%every == 0:
			return calibrated[len(calibrated)-1]
		case i%middleEvery%2 == 1:
			return calibrated[always-1]
		}
		return calibrated[always-2]
	}
	sizes, zeros, zerosOf := make([]float64, b.Dim()), 0, make([]int, b.Dim())
	for i, row := range picks {
		x, err := rows(row, row+1)
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
		all = append(all, trial{kind: likeRows, most: depth(likeRows, i), row: uint32(row), vec: slices.Clone(x)})
	}
	s.largest = slices.Index(sizes, slices.Max(sizes))
	zeroed := float64(zeros) >= manyZeros*float64(len(picks)*b.Dim())
	numbers := 0 // components that are seldom zero
	s.often = make([]bool, b.Dim())
	for j, n := range zerosOf {
		if s.often[j] = float64(n) >= manyZeros*float64(len(picks)); !s.often[j] {
			numbers++
		}
	}
	if err := s.order(); err != nil {
		return nil, err
	}
	first := s.sort()
	if b.head.ident.Metric == fileformat.Cosine {
		s.findFirst(first)
	}
	if b.head.ident.Metric != fileformat.Dot {
		s.findStrong()
	}
	l2 := b.head.ident.Metric == fileformat.L2
	if l2 {
		s.findLarge()
	}
	for k := meansOfFew; k < kinds; k++ {
		switch {
		case k >= single && k <= partlyFilled && !zeroed,
			k >= filled && k <= partlyFilled && numbers < leastFilled,
			k >= meansDense && k <= awayDense && !s.dense,
			k == weakDirections && s.strong == nil,
			k == midDirections && s.middle == len(s.strong),
			k == withoutFirst && s.components == nil,
			k == opposite && l2,
			k == longMeans && !l2,
			k == largeAlone && s.large == nil:
			continue
		}
		if err := b.ctx.Err(); err != nil {
			return nil, err
		}
		for i := range b.trialsOf(k) {
			vec, err := s.query(k, i)
			if err != nil {
				return nil, err
			}
			all = append(all, trial{kind: k, most: depth(k, i), row: none, vec: vec})
		}
	}
	return all, nil
}

// trialsOf returns the number of trials of a kind.
func (b *builder) trialsOf(k kind) int {
	if b.most > 0 {
		return min(b.most, sampled[k])
	}
	return sampled[k]
}

// query returns the i-th query of a kind. For Dot, the longest row would dominate a mean of rows,
// so half of the queries are made of the directions of rows.
func (s *synthesizer) query(k kind, i int) ([]float32, error) {
	const half = 12 // a multiple of the cycles below
	s.directions = s.head.ident.Metric == fileformat.Cosine || s.head.ident.Metric == fileformat.Dot && i/half%2 == 1
	switch k {
	case meansOfFew:
		return s.mean([...]int{3, 4, 6}[i%3])
	case meansOfMany:
		return s.mean(10)
	case perturbed:
		return s.moved(noise, 0.5, 0)
	case extrapolated:
		return s.moved(away, 0.5, 0)
	case noisy:
		return s.moved(noise, 1, 0)
	case sparse:
		return s.moved(erased, 0.8, s.rng.IntN(s.Dim()))
	case popular:
		return s.moved(erased, 0.8, s.largest)
	case single:
		return s.axis()
	case filled:
		return s.numbers(0)
	case partlyFilled:
		return s.numbers(1)
	case midpoints:
		return s.between(s.places, crowdedHalf, crowdedHalf, 0.5)
	case lonelyMidpoints:
		return s.between(s.places, lonelyHalf, lonelyHalf, 0.5)
	case mixedMidpoints:
		return s.between(s.places, mostCrowded, loneliest, 0.5)
	case nearCrowded:
		return s.between(s.places, mostCrowded, loneliest, 1./3)
	case nearLonely:
		return s.between(s.places, loneliest, mostCrowded, 1./3)
	case central:
		return s.mean(30)
	case nearby:
		return s.meanNear()
	case insidePopulous:
		return s.inside(s.populous, firstEighth, 1)
	case meansPopulous:
		return s.inside(s.populous, firstEighth, 4)
	case betweenPopulous:
		return s.between(s.populous, firstEighth, firstEighth, 0.5)
	case nearPopulous:
		return s.between(s.populous, firstEighth, anyPlace, 1./3)
	case insideLonely:
		return s.inside(s.places, lastEighth, 1)
	case meansLonely:
		return s.inside(s.places, lastEighth, 4)
	case betweenTight:
		return s.between(s.places, firstEighth, firstEighth, 0.5)
	case meansDense:
		return s.insideDense(4, 0.8)
	case betweenDense:
		return s.insideDense(1, 0.5)
	case awayDense:
		return s.insideDense(1, -0.5)
	case alike:
		return s.meanAlike(i)
	case anywhere:
		return s.direction()
	case weakDirections:
		return s.remainder(len(s.strong)), nil
	case midDirections:
		return s.remainder(s.middle), nil
	case withoutFirst:
		return s.lessFirst(i), nil
	case longMeans:
		return s.longMean()
	case largeAlone:
		return s.largeOf(i), nil
	default:
		v, err := s.pick()
		for j := range v {
			v[j] = -v[j]
		}
		return v, err
	}
}

// pick returns a random row, or its direction.
func (s *synthesizer) pick() ([]float32, error) {
	return s.row(s.rng.IntN(s.Len()))
}

// row returns a row, or its direction.
func (s *synthesizer) row(row int) ([]float32, error) {
	x, err := s.rows(row, row+1)
	if err != nil {
		return nil, err
	}
	v := slices.Clone(x)
	if length := math.Sqrt(simd.Dot64(v, v)); s.directions && length > 0 {
		for i := range v {
			v[i] = float32(float64(v[i]) / length)
		}
	}
	return v, nil
}

// axis returns a vector as long as a random row, along one axis.
func (s *synthesizer) axis() ([]float32, error) {
	x, err := s.pick()
	if err != nil {
		return nil, err
	}
	i := s.rng.IntN(s.Dim())
	v := make([]float32, len(x))
	v[i] = float32(min(math.Sqrt(simd.Dot64(x, x)), math.MaxFloat32))
	if x[i] < 0 {
		v[i] = -v[i]
	}
	return v, nil
}

// numbers returns a row without the components that are often zero, except for kept of those that
// are not zero in it. Where those components stand for categories, links lead to rows of the same
// categories, and rows with nearly the same numbers are far apart.
func (s *synthesizer) numbers(kept int) ([]float32, error) {
	v, err := s.pick()
	var others []int
	for i, x := range v {
		if s.often[i] && x != 0 {
			others = append(others, i)
		}
	}
	for ; len(others) > kept; others = others[1:] {
		at := s.rng.IntN(len(others))
		others[0], others[at] = others[at], others[0]
		v[others[0]] = 0
	}
	return v, err
}

// mean returns the mean of n random rows.
func (s *synthesizer) mean(n int) ([]float32, error) {
	picks := make([]int, n)
	for i := range picks {
		picks[i] = s.rng.IntN(s.Len())
	}
	return s.meanOf(picks)
}

// meanOf returns the mean of rows, or of their directions.
func (s *synthesizer) meanOf(rows []int) ([]float32, error) {
	sum := make([]float64, s.Dim())
	for _, row := range rows {
		x, err := s.row(row)
		if err != nil {
			return nil, err
		}
		for i, v := range x {
			sum[i] += float64(v) / float64(len(rows))
		}
	}
	v := make([]float32, len(sum))
	for i := range v {
		v[i] = float32(sum[i])
	}
	return v, nil
}

// A change makes an out-of-distribution query from a row.
type change int

const (
	away   change = iota // from another row
	noise                // in all directions alike, even those that the rows hardly use
	erased               // components are zero
)

// moved returns a changed row: moved by about times its distance from another row, or with that
// share of its components erased, but not the component kept, or the next one that is not zero.
func (s *synthesizer) moved(how change, times float64, kept int) ([]float32, error) {
	x, err := s.pick()
	if err != nil {
		return nil, err
	}
	y, err := s.pick()
	if err != nil {
		return nil, err
	}
	for n := 0; n < len(x) && x[kept] == 0; n++ { // every row is a nearest one of a zero vector
		kept = (kept + 1) % len(x)
	}
	// Noise is uniform, with the variance that gives the length.
	length := 2 * math.Sqrt(3/float64(len(x))*simd.L264(x, y)) * times
	for i := range x {
		switch v := float64(x[i]); how {
		case away:
			x[i] = float32(v + float64(times*(v-float64(y[i]))))
		case noise:
			x[i] = float32(v + float64(length*(float64(s.rng.Float64())-0.5)))
		case erased:
			if i != kept && s.rng.Float64() < times {
				x[i] = 0
			}
		}
	}
	if !simd.Finite(x) { // the rows are as long as float32 permits
		return y, nil
	}
	return x, nil
}
