package graph

import (
	"cmp"
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
	directions bool   // rows are divided by their length

	sample []place // of random rows
	places []place // of the first of these, crowded ones first

	populous []place // the same, those with the most rows around them first
	dense    bool    // the first of these are of a region of more dimensions: see findDense

	sorted []int // rows of the sample, along their first principal component

	centre []float32   // mean of the sample
	strong [][]float32 // directions in which rows differ most: see remainder
	taken  int         // rows of the sample that these are of
	middle int         // the first of these have most of the length of rows
}

// A place is where a row lies among others.
type place struct {
	row   int
	vec   []float32 // or its direction
	apart float64   // squared distance of a near row of the sample

	wider  float64 // the same of a less near one
	around int     // rows of the sample within a radius that is the same for all
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
	s.sort()
	if b.head.ident.Metric != fileformat.Dot {
		s.findStrong()
	}
	l2 := b.head.ident.Metric == fileformat.L2
	for k := meansOfFew; k < kinds; k++ {
		switch {
		case k >= single && k <= partlyFilled && !zeroed,
			k >= filled && k <= partlyFilled && numbers < leastFilled,
			k >= meansDense && k <= awayDense && !s.dense,
			k == weakDirections && s.strong == nil,
			k == midDirections && s.middle == len(s.strong),
			k == opposite && l2,
			k == longMeans && !l2:
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
		return s.inside(s.populous, first, 1)
	case meansPopulous:
		return s.inside(s.populous, first, 4)
	case betweenPopulous:
		return s.between(s.populous, first, first, 0.5)
	case nearPopulous:
		return s.between(s.populous, first, all, 1./3)
	case insideLonely:
		return s.inside(s.places, last, 1)
	case meansLonely:
		return s.inside(s.places, last, 4)
	case betweenTight:
		return s.between(s.places, first, first, 0.5)
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
	case longMeans:
		return s.longMean()
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

// Sizes of samples of the rows.
const (
	sampleRows = 4096 // of a region with a two-hundredth of all rows there are some twenty
	insideRows = 2048 // of these, for queries inside a region
	placedRows = 1024 // each is compared with each

	around = 1.3 // times the median of place.apart: the radius of place.around
)

// order samples rows and sorts the places of some by the distance of a near one. Rows of a region
// with few rows have none nearby. Only for L2 do the lengths of rows count.
func (s *synthesizer) order() error {
	const rank = 3
	s.directions = s.head.ident.Metric != fileformat.L2
	s.sample = make([]place, min(s.Len(), sampleRows))
	for i, row := range s.rng.Perm(s.Len())[:len(s.sample)] {
		vec, err := s.row(row)
		if err != nil {
			return err
		}
		s.sample[i] = place{row: row, vec: vec}
	}
	s.places = slices.Clone(s.sample[:min(len(s.sample), placedRows)])
	apart := make([][]float64, len(s.places)) // the workers read the places
	err := s.each(len(s.places), func(_ *workerScratch, i int) error {
		apart[i] = distances(s.places, s.places[i].vec)
		slices.Sort(apart[i])
		return nil
	})
	if err != nil {
		return err
	}
	for i, dists := range apart {
		s.places[i].apart = dists[min(rank, len(dists)-1)]
		s.places[i].wider = dists[min(widerRank, len(dists)-1)]
	}
	order := slices.Clone(s.places)
	slices.SortStableFunc(order, func(a, b place) int { return cmp.Compare(a.apart, b.apart) })
	radius := around * order[len(order)/2].apart
	for i, dists := range apart {
		s.places[i].around, _ = slices.BinarySearch(dists, radius)
	}
	s.populous = slices.Clone(s.places)
	slices.SortStableFunc(s.populous, func(a, b place) int { return cmp.Compare(b.around, a.around) })
	s.findDense()
	slices.SortStableFunc(s.places, func(a, b place) int { return cmp.Compare(a.apart, b.apart) })
	return nil
}

// distances returns the squared distances of places from a vector.
func distances(places []place, from []float32) []float64 {
	dists := make([]float64, len(places))
	for i := range dists {
		if dists[i] = simd.L264(from, places[i].vec); math.IsNaN(dists[i]) {
			dists[i] = math.Inf(1)
		}
	}
	return dists
}

// A stretch is a part of the places, from a share of them to another.
type stretch struct{ from, to float64 }

var (
	crowdedHalf, lonelyHalf = stretch{0, 0.5}, stretch{0.5, 1}
	mostCrowded, loneliest  = stretch{0, 0.25}, stretch{0.75, 1}
	first, last, all        = stretch{0, 0.125}, stretch{0.875, 1}, stretch{0, 1}
)

// among returns a random place of a stretch.
func (s *synthesizer) among(places []place, t stretch) *place {
	n := float64(len(places))
	first := int(t.from * n)
	return &places[first+s.rng.IntN(max(1, int(t.to*n)-first))]
}

// between returns a point between rows of two stretches of places, at a share of the way from the
// first. It tries a few times to find two rows: a row itself is no query between rows.
func (s *synthesizer) between(places []place, from, to stretch, share float64) ([]float32, error) {
	first, second := s.among(places, from), s.among(places, to)
	for tries := 0; first == second && tries < 4; tries++ {
		second = s.among(places, to)
	}
	x, err := s.row(first.row)
	if err != nil {
		return nil, err
	}
	y, err := s.row(second.row)
	if err != nil {
		return nil, err
	}
	for i := range x {
		x[i] = float32(float64((1-share)*float64(x[i])) + float64(share*float64(y[i])))
	}
	return x, nil
}

// The other rows of a query inside a region are neither among the nearest, nor of another region if
// this one has a tenth of all rows.
const insideFrom, insideTo = 1. / 64, 1. / 12 // of the sample, nearest first

// Parameters of a dense region.
const (
	widerRank  = 12      // of place.wider
	densest    = 1 / 64. // of the places, the ones with the most rows around them
	leastApart = 1 / 16. // least ratio of its squared distances to those elsewhere

	// The other rows of a query are among these nearest ones of the sample, up to the same share.
	denseFrom, denseTo = 8, sampleRows / 64
)

// findDense sets whether the places with the most rows around them are of a region of more than
// twice the dimensions of where most rows are, such as noise among rows that depend on a few
// figures. Walks miss more there, and the mean of every other kind hides a region with a fiftieth
// of the rows. The number of dimensions is proportional to 1 / log(wider / apart): where it
// doubles, wider / apart becomes its square root. Rows that are much nearer to each other than
// usual are no such region: codes cannot tell nearly equal rows apart, so all searches would be
// scans.
func (s *synthesizer) findDense() {
	medians := func(places []place) (ratio, apart float64) {
		var ratios, aparts []float64
		for _, p := range places {
			if p.apart > 0 && p.wider < math.Inf(1) {
				ratios, aparts = append(ratios, p.wider/p.apart), append(aparts, p.apart)
			}
		}
		if len(ratios) == 0 {
			return 1, 0
		}
		slices.Sort(ratios)
		slices.Sort(aparts)
		return ratios[len(ratios)/2], aparts[len(aparts)/2]
	}
	ratio, apart := medians(s.populous[:int(densest*float64(len(s.populous)))])
	usual, usuallyApart := medians(s.populous)
	s.dense = ratio > 1 && usual > ratio*ratio && apart > leastApart*usuallyApart
}

// insideDense returns a point between a row of the dense region and the mean of others of it, at a
// share of the way, or beyond the row.
func (s *synthesizer) insideDense(others int, share float64) ([]float32, error) {
	p := s.among(s.populous, stretch{0, densest})
	near := nearest(s.sample, p.vec, denseTo)
	rows := make([]int, others)
	for i := range rows {
		rows[i] = near[min(len(near)-1, denseFrom+s.rng.IntN(denseTo-denseFrom))]
	}
	x, err := s.row(p.row)
	if err != nil {
		return nil, err
	}
	y, err := s.meanOf(rows)
	if err != nil {
		return nil, err
	}
	for i := range x {
		x[i] = float32(float64((1-share)*float64(x[i])) + float64(share*float64(y[i])))
	}
	if !simd.Finite(x) { // the rows are as long as float32 permits
		return y, nil
	}
	return x, nil
}

// inside returns the mean of a row of a stretch of the places and of others of its region.
func (s *synthesizer) inside(places []place, t stretch, others int) ([]float32, error) {
	p := s.among(places, t)
	sample := s.sample[:min(len(s.sample), insideRows)]
	n := float64(len(sample))
	from := int(insideFrom*n) + 1 // the first may be the row itself
	near := nearest(sample, p.vec, max(from+1, int(insideTo*n)))
	rows := []int{p.row}
	for range others {
		rows = append(rows, near[min(len(near)-1, from+s.rng.IntN(max(1, len(near)-from)))])
	}
	return s.meanOf(rows)
}

// nearest returns the n rows of a sample that are nearest to a vector, in order, or all if they are
// fewer.
func nearest(sample []place, x []float32, n int) (rows []int) {
	dists := distances(sample, x)
	sorted := slices.Clone(dists)
	slices.Sort(sorted)
	most := sorted[min(n, len(sorted))-1]
	var near []int
	for i, d := range dists {
		if d <= most {
			near = append(near, i)
		}
	}
	slices.SortStableFunc(near, func(a, b int) int { return cmp.Compare(dists[a], dists[b]) })
	for _, i := range near[:min(n, len(near))] {
		rows = append(rows, sample[i].row)
	}
	return rows
}

// nearRows is how many rows a mean of near rows has.
const nearRows = 16

// meanNear returns the mean of a row of the sample and of those nearest to it.
func (s *synthesizer) meanNear() ([]float32, error) {
	near := nearest(s.sample, s.sample[s.rng.IntN(len(s.sample))].vec, nearRows)
	s.directions = s.head.ident.Metric != fileformat.L2
	return s.meanOf(near)
}

// Parameters of sort and of meanAlike.
const (
	turns     = 12 // of the power iteration
	alikeRows = 64 // rows of a mean
)

// sort sorts the rows of the sample along their first principal component, the direction of their
// largest differences. Power iteration finds it.
func (s *synthesizer) sort() {
	some := s.sample[:min(len(s.sample), placedRows)]
	most := make([]float32, s.Dim())
	for j := range most { // any start, if it is not at a right angle
		most[j] = 1 / float32(j+1)
	}
	far := make([]float64, len(s.sample))
	for range turns {
		mean := 0.0
		for i, p := range some {
			far[i] = simd.Dot64(p.vec, most)
			mean += far[i] / float64(len(some))
		}
		next, largest := make([]float64, s.Dim()), 0.0
		for i, p := range some {
			for j, v := range p.vec {
				next[j] += float64((far[i] - mean) * float64(v))
			}
		}
		for _, v := range next {
			largest = max(largest, math.Abs(v))
		}
		if !(largest > 0 && largest < math.Inf(1)) { // the rows are equal
			break
		}
		for j, v := range next {
			most[j] = float32(v / largest)
		}
	}
	for i, p := range s.sample {
		far[i] = simd.Dot64(p.vec, most)
		s.sorted = append(s.sorted, i)
	}
	slices.SortStableFunc(s.sorted, func(i, j int) int { return cmp.Compare(far[i], far[j]) })
}

// meanAlike returns the mean of rows of the sample that follow each other along the first principal
// component, such as one day of a stream. They need not be near each other. The i-th trial is at
// the i-th of equal steps, so it draws no random number.
func (s *synthesizer) meanAlike(i int) ([]float32, error) {
	n := min(alikeRows, len(s.sorted))
	first := i * (len(s.sorted) - n) / sampled[alike]
	rows := make([]int, n)
	for j, at := range s.sorted[first : first+n] {
		rows[j] = s.sample[at].row
	}
	return s.meanOf(rows)
}

// direction returns a vector in any direction, for L2 as long as a random row.
func (s *synthesizer) direction() ([]float32, error) {
	v := make([]float32, s.Dim())
	for j := range v {
		v[j] = float32(s.rng.Float64() - 0.5)
	}
	if s.head.ident.Metric != fileformat.L2 {
		return v, nil
	}
	return v, s.lengthen(v)
}

// longRows is how many rows of the sample a long mean has. It is along the mean of all rows.
const longRows = 1000

// longMean returns the mean of many rows, made as long as a random row.
func (s *synthesizer) longMean() ([]float32, error) {
	sum := make([]float64, s.Dim())
	for range longRows {
		for i, v := range s.sample[s.rng.IntN(len(s.sample))].vec {
			sum[i] += float64(v) / longRows
		}
	}
	v := make([]float32, len(sum))
	for i, x := range sum {
		v[i] = float32(x)
	}
	return v, s.lengthen(v)
}

// lengthen makes a vector as long as a random row, unless all its components are zero.
func (s *synthesizer) lengthen(v []float32) error {
	x, err := s.pick()
	if err != nil {
		return err
	}
	if length := simd.Dot64(v, v); length > 0 {
		times := math.Sqrt(simd.Dot64(x, x) / length)
		for j := range v {
			v[j] = float32(max(-math.MaxFloat32, min(float64(v[j])*times, math.MaxFloat32)))
		}
	}
	return nil
}

// Parameters of remainder.
const (
	mostStrong = 192  // rows whose directions are taken at most
	leastLeft  = 1e-3 // part of the length below which the rest is rounding
	middleRows = 64   // rows that tell how many directions have most of the length,
	middleLeft = 0.25 // of whose squared length this part is left
)

// remainder returns a row of the sample without the first n strong directions, as far from the mean
// as before. Where rows have no further directions, it returns a row.
func (s *synthesizer) remainder(n int) []float32 {
	var row []float32
	for range 4 {
		row = s.sample[s.taken+s.rng.IntN(len(s.sample)-s.taken)].vec
		x := s.fromCentre(row)
		length, left := s.withoutStrong(x, n)
		if !(left > leastLeft*length) {
			continue
		}
		for i := range x {
			x[i] = float32(float64(s.centre[i]) + float64(length/left*float64(x[i])))
		}
		if simd.Finite(x) { // or the rows are as long as float32 permits
			return x
		}
	}
	return slices.Clone(row)
}

// findStrong sets the mean of the sample, and directions at right angles that its first rows have
// from there: half of all, at most. It also sets how many of these have most of the length of
// other rows.
func (s *synthesizer) findStrong() {
	sums := make([]float64, s.Dim())
	for _, p := range s.sample {
		for i, v := range p.vec {
			sums[i] += float64(v) / float64(len(s.sample))
		}
	}
	s.centre = make([]float32, len(sums))
	for i, v := range sums {
		s.centre[i] = float32(v)
	}
	s.taken = min(len(s.sample)/2, s.Dim()/2, mostStrong)
	for _, p := range s.sample[:s.taken] {
		x := s.fromCentre(p.vec)
		if length, left := s.withoutStrong(x, len(s.strong)); left > leastLeft*length {
			for i := range x {
				x[i] = float32(float64(x[i]) / left)
			}
			s.strong = append(s.strong, x)
		}
	}
	left := make([]float64, len(s.strong)+1) // squared lengths without the first directions
	for _, p := range s.sample[s.taken:min(len(s.sample), s.taken+middleRows)] {
		x := s.fromCentre(p.vec)
		left[0] += simd.Dot64(x, x)
		for i, y := range s.strong {
			takeAway(x, y)
			left[i+1] += simd.Dot64(x, x)
		}
	}
	for s.middle = 0; s.middle < len(s.strong) && left[s.middle] > middleLeft*left[0]; {
		s.middle++
	}
}

// withoutStrong takes from x its parts along the first n strong directions, and returns its length
// before and after.
func (s *synthesizer) withoutStrong(x []float32, n int) (before, after float64) {
	before = math.Sqrt(simd.Dot64(x, x))
	for _, y := range s.strong[:n] {
		takeAway(x, y)
	}
	return before, math.Sqrt(simd.Dot64(x, x))
}

// takeAway takes from x its part along y, a vector of length 1.
func takeAway(x, y []float32) {
	along := simd.Dot64(x, y)
	for i := range x {
		x[i] = float32(float64(x[i]) - float64(along*float64(y[i])))
	}
}

// fromCentre returns a vector less the mean of the sample.
func (s *synthesizer) fromCentre(x []float32) []float32 {
	y := make([]float32, len(x))
	for i := range y {
		y[i] = x[i] - s.centre[i]
	}
	return y
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
			x[i] = float32(v + float64(length*(s.rng.Float64()-0.5)))
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
