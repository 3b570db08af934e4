package synthetic

import (
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/simd"
)

// pick returns a random row, or its direction.
func (m *maker) pick() ([]float32, error) {
	return m.row(m.rng.IntN(m.Len))
}

// row returns a row, or its direction.
func (m *maker) row(row int) ([]float32, error) {
	x, err := m.Read(row, row+1)
	if err != nil {
		return nil, err
	}
	v := slices.Clone(x)
	if length := math.Sqrt(simd.Dot64(v, v)); m.directions && length > 0 {
		for i := range v {
			v[i] = float32(float64(v[i]) / length)
		}
	}
	return v, nil
}

// axis returns a vector as long as a random row, along one axis.
func (m *maker) axis(int) ([]float32, error) {
	x, err := m.pick()
	if err != nil {
		return nil, err
	}
	i := m.rng.IntN(m.Dim)
	v := make([]float32, len(x))
	v[i] = float32(min(math.Sqrt(simd.Dot64(x, x)), math.MaxFloat32))
	if x[i] < 0 {
		v[i] = -v[i]
	}
	return v, nil
}

// numbers makes rows without the components that are often zero, except for kept of those that are
// not zero in a row. Where those components stand for categories, links lead to rows of the same
// categories, and rows with nearly the same numbers are far apart.
func numbers(kept int) source {
	return func(m *maker, _ int) ([]float32, error) {
		v, err := m.pick()
		var others []int
		for i, x := range v {
			if m.often[i] && x != 0 {
				others = append(others, i)
			}
		}
		for ; len(others) > kept; others = others[1:] {
			at := m.rng.IntN(len(others))
			others[0], others[at] = others[at], others[0]
			v[others[0]] = 0
		}
		return v, err
	}
}

// opposite returns a random row times -1.
func (m *maker) opposite(int) ([]float32, error) {
	v, err := m.pick()
	for j := range v {
		v[j] = -v[j]
	}
	return v, err
}

// means makes means of random rows: of sizes[0] rows, then of sizes[1], and so on, in a cycle.
func means(sizes ...int) source {
	return func(m *maker, i int) ([]float32, error) {
		picks := make([]int, sizes[i%len(sizes)])
		for j := range picks {
			picks[j] = m.rng.IntN(m.Len)
		}
		return m.meanOf(picks)
	}
}

// meanOf returns the mean of rows, or of their directions.
func (m *maker) meanOf(rows []int) ([]float32, error) {
	sum := make([]float64, m.Dim)
	for _, row := range rows {
		x, err := m.row(row)
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
	away    change = iota // from another row
	noise                 // in all directions alike, even those that the rows hardly use
	erasing               // components become zero
)

// moved makes rows that are moved by about times their distance from another row.
func moved(how change, times float64) source {
	return func(m *maker, _ int) ([]float32, error) { return m.moved(how, times, 0) }
}

// erasedShare is the share of components that sparse queries lack.
const erasedShare = 0.8

// erased makes rows with most components erased, but not the one kept.
func erased(kept func(m *maker) int) source {
	return func(m *maker, _ int) ([]float32, error) { return m.moved(erasing, erasedShare, kept(m)) }
}

func anyComponent(m *maker) int { return m.rng.IntN(m.Dim) }
func largest(m *maker) int      { return m.largest }

// moved returns a changed row: moved by about times its distance from another row, or with that
// share of its components erased, but not the component kept, or the next one that is not zero.
func (m *maker) moved(how change, times float64, kept int) ([]float32, error) {
	x, err := m.pick()
	if err != nil {
		return nil, err
	}
	y, err := m.pick()
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
			x[i] = float32(v + float64(length*(float64(m.rng.Float64())-0.5)))
		case erasing:
			if i != kept && m.rng.Float64() < times {
				x[i] = 0
			}
		}
	}
	if !simd.Finite(x) { // the rows are as long as float32 permits
		return y, nil
	}
	return x, nil
}
