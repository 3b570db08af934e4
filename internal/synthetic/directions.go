package synthetic

import (
	"cmp"
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/simd"
)

// Parameters of component, meanAlike and findFirst.
const (
	turns     = 12   // of the power iteration
	alikeRows = 64   // rows of a mean
	mostFirst = 16   // principal components
	leastHeld = 0.05 // part of the variance that each of these has
)

// component returns the next principal component of the sample, the direction of the largest
// differences, nearly at right angles to m.components. Power iteration finds it.
func (m *maker) component() []float32 {
	some := m.sample[:min(len(m.sample), placedRows)]
	most := make([]float32, m.Dim)
	for j := range most { // any start, if it is not at a right angle
		most[j] = 1 / float32(j+1)
	}
	far := make([]float64, len(some))
	for range turns {
		for _, y := range m.components {
			takeAway(most, y)
		}
		mean := 0.0
		for i, p := range some {
			far[i] = simd.Dot64(p.vec, most)
			mean += far[i] / float64(len(some))
		}
		next, largest := make([]float64, m.Dim), 0.0
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
	return most
}

// sort sorts the rows of the sample along their first principal component, which it returns.
func (m *maker) sort() (most []float32) {
	most, far := m.component(), make([]float64, len(m.sample))
	for i, p := range m.sample {
		far[i] = simd.Dot64(p.vec, most)
		m.sorted = append(m.sorted, i)
	}
	slices.SortStableFunc(m.sorted, func(i, j int) int { return cmp.Compare(far[i], far[j]) })
	return most
}

// meanAlike returns the mean of rows of the sample that follow each other along the first principal
// component, such as one day of a stream. They need not be near each other. The i-th trial is at
// the i-th of equal steps, so it draws no random number.
func (m *maker) meanAlike(i int) ([]float32, error) {
	n := min(alikeRows, len(m.sorted))
	first := i * (len(m.sorted) - n) / perKind
	rows := make([]int, n)
	for j, at := range m.sorted[first : first+n] {
		rows[j] = m.sample[at].row
	}
	return m.meanOf(rows)
}

// findFirst sets the first principal components of the sample, with length 1: those that have at
// least a twentieth of the variance each. x is the first one, of any length.
func (m *maker) findFirst(x []float32) {
	some := m.sample[:min(len(m.sample), placedRows)]
	mean := make([]float64, m.Dim)
	for _, p := range some {
		for j, v := range p.vec {
			mean[j] += float64(v) / float64(len(some))
		}
	}
	variance := 0.0
	for _, p := range some {
		for j, v := range p.vec {
			variance += float64((float64(v) - mean[j]) * (float64(v) - mean[j]))
		}
	}
	for ; len(m.components) < mostFirst; x = m.component() {
		length, middle, held := math.Sqrt(simd.Dot64(x, x)), 0.0, 0.0
		for j, v := range x {
			x[j] = float32(float64(v) / length)
			middle += float64(float64(x[j]) * mean[j])
		}
		for _, p := range some {
			along := simd.Dot64(p.vec, x) - middle
			held += float64(along * along)
		}
		if !(held >= leastHeld*variance && held > 0) {
			return
		}
		m.components = append(m.components, x)
	}
}

// lessFirst returns a row of the sample without its parts along the first principal components. The
// row is not centred before, so its share of the mean along these goes too: a text loses all that
// its language has in common. The i-th trial takes the i-th of rows at equal steps: it draws no
// random number, so trials of other kinds are as they were. Where nothing is left of a row, it
// returns the row.
func (m *maker) lessFirst(i int) ([]float32, error) {
	row := m.sample[i*len(m.sample)/perKind].vec
	x := slices.Clone(row)
	length := math.Sqrt(simd.Dot64(x, x))
	for _, y := range m.components {
		takeAway(x, y)
	}
	if left := math.Sqrt(simd.Dot64(x, x)); !(left > leastLeft*length) {
		return slices.Clone(row), nil
	}
	return x, nil
}

// Parameters of findLarge.
const (
	largeHeld = 0.5   // part of the squared length of rows that large components have at least
	mostLarge = 0.125 // part of all components that they are at most
)

// findLarge sets the few components that are clearly larger than the others and have most of the
// squared length of rows, as in some embeddings of language models. In the order of their mean
// squares the largest drop follows them.
func (m *maker) findLarge() {
	squares, total := make([]float64, m.Dim), 0.0
	for _, p := range m.sample[:min(len(m.sample), placedRows)] {
		for j, v := range p.vec {
			squares[j] += float64(float64(v) * float64(v))
		}
	}
	order := make([]int, m.Dim)
	for j, v := range squares {
		order[j] = j
		total += v
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(squares[j], squares[i]) })
	held, largest := 0.0, 0.0
	for n := 1; float64(n) <= mostLarge*float64(m.Dim); n++ {
		last := squares[order[n-1]]
		held += last
		if drop := last / squares[order[n]]; held >= largeHeld*total && drop > largest {
			m.large, largest = order[:n], drop
		}
	}
}

// largeOf returns a row of the sample with only its large components. Rows with nearly the same
// ones are in all places. The i-th trial takes the i-th of rows at equal steps: it draws no random
// number, so trials of other kinds are as they were.
func (m *maker) largeOf(i int) ([]float32, error) {
	row := m.sample[i*len(m.sample)/perKind].vec
	x := make([]float32, len(row))
	for _, j := range m.large {
		x[j] = row[j]
	}
	return x, nil
}

// direction returns a vector in any direction, for L2 as long as a random row.
func (m *maker) direction(int) ([]float32, error) {
	v := make([]float32, m.Dim)
	for j := range v {
		v[j] = float32(float64(m.rng.Float64()) - 0.5)
	}
	if m.Metric != fileformat.L2 {
		return v, nil
	}
	return v, m.lengthen(v)
}

// longRows is how many rows of the sample a long mean has. It is along the mean of all rows.
const longRows = 1000

// longMean returns the mean of many rows, made as long as a random row.
func (m *maker) longMean(int) ([]float32, error) {
	sum := make([]float64, m.Dim)
	for range longRows {
		for i, v := range m.sample[m.rng.IntN(len(m.sample))].vec {
			sum[i] += float64(v) / longRows
		}
	}
	v := make([]float32, len(sum))
	for i, x := range sum {
		v[i] = float32(x)
	}
	return v, m.lengthen(v)
}

// lengthen makes a vector as long as a random row, unless all its components are zero.
func (m *maker) lengthen(v []float32) error {
	x, err := m.pick()
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

func withoutAllStrong(m *maker, _ int) ([]float32, error) { return m.remainder(len(m.strong)), nil }
func withoutMiddle(m *maker, _ int) ([]float32, error)    { return m.remainder(m.middle), nil }

// remainder returns a row of the sample without the first n strong directions, as far from the mean
// as before. Where rows have no further directions, it returns a row.
func (m *maker) remainder(n int) []float32 {
	var row []float32
	for range 4 {
		row = m.sample[m.taken+m.rng.IntN(len(m.sample)-m.taken)].vec
		x := m.fromCentre(row)
		length, left := m.withoutStrong(x, n)
		if !(left > leastLeft*length) {
			continue
		}
		for i := range x {
			x[i] = float32(float64(m.centre[i]) + float64(length/left*float64(x[i])))
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
func (m *maker) findStrong() {
	sums := make([]float64, m.Dim)
	for _, p := range m.sample {
		for i, v := range p.vec {
			sums[i] += float64(v) / float64(len(m.sample))
		}
	}
	m.centre = make([]float32, len(sums))
	for i, v := range sums {
		m.centre[i] = float32(v)
	}
	m.taken = min(len(m.sample)/2, m.Dim/2, mostStrong)
	for _, p := range m.sample[:m.taken] {
		x := m.fromCentre(p.vec)
		if length, left := m.withoutStrong(x, len(m.strong)); left > leastLeft*length {
			for i := range x {
				x[i] = float32(float64(x[i]) / left)
			}
			m.strong = append(m.strong, x)
		}
	}
	left := make([]float64, len(m.strong)+1) // squared lengths without the first directions
	for _, p := range m.sample[m.taken:min(len(m.sample), m.taken+middleRows)] {
		x := m.fromCentre(p.vec)
		left[0] += simd.Dot64(x, x)
		for i, y := range m.strong {
			takeAway(x, y)
			left[i+1] += simd.Dot64(x, x)
		}
	}
	for m.middle = 0; m.middle < len(m.strong) && left[m.middle] > middleLeft*left[0]; {
		m.middle++
	}
}

// withoutStrong takes from x its parts along the first n strong directions, and returns its length
// before and after.
func (m *maker) withoutStrong(x []float32, n int) (before, after float64) {
	before = math.Sqrt(simd.Dot64(x, x))
	for _, y := range m.strong[:n] {
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
func (m *maker) fromCentre(x []float32) []float32 {
	y := make([]float32, len(x))
	for i := range y {
		y[i] = x[i] - m.centre[i]
	}
	return y
}
