package synthetic

import (
	"cmp"
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/simd"
)

// A place is where a row lies among others.
type place struct {
	row   int
	vec   []float32 // or its direction
	apart float64   // squared distance of a near row of the sample

	wider  float64 // the same of a less near one
	around int     // rows of the sample within a radius that is the same for all
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
func (m *maker) order() error {
	const rank = 3
	m.directions = m.Metric != fileformat.L2
	m.sample = make([]place, min(m.Len, sampleRows))
	for i, row := range m.rng.Perm(m.Len)[:len(m.sample)] {
		vec, err := m.row(row)
		if err != nil {
			return err
		}
		m.sample[i] = place{row: row, vec: vec}
	}
	m.places = slices.Clone(m.sample[:min(len(m.sample), placedRows)])
	apart := make([][]float64, len(m.places)) // the workers read the places
	err := m.Each(len(m.places), func(i int) error {
		apart[i] = distances(m.places, m.places[i].vec)
		slices.Sort(apart[i])
		return nil
	})
	if err != nil {
		return err
	}
	for i, dists := range apart {
		m.places[i].apart = dists[min(rank, len(dists)-1)]
		m.places[i].wider = dists[min(widerRank, len(dists)-1)]
	}
	order := slices.Clone(m.places)
	slices.SortStableFunc(order, func(a, b place) int { return cmp.Compare(a.apart, b.apart) })
	radius := around * order[len(order)/2].apart
	for i, dists := range apart {
		m.places[i].around, _ = slices.BinarySearch(dists, radius)
	}
	m.populous = slices.Clone(m.places)
	slices.SortStableFunc(m.populous, func(a, b place) int { return cmp.Compare(b.around, a.around) })
	m.findDense()
	slices.SortStableFunc(m.places, func(a, b place) int { return cmp.Compare(a.apart, b.apart) })
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
	firstEighth, lastEighth = stretch{0, 0.125}, stretch{0.875, 1}
	anyPlace                = stretch{0, 1}
)

// lists are the places in one of two orders.
type lists func(m *maker) []place

func places(m *maker) []place   { return m.places }
func populous(m *maker) []place { return m.populous }

// among returns a random place of a stretch.
func (m *maker) among(places []place, t stretch) *place {
	n := float64(len(places))
	first := int(t.from * n)
	return &places[first+m.rng.IntN(max(1, int(t.to*n)-first))]
}

// between makes points between rows of two stretches of places, at a share of the way from the
// first. It tries a few times to find two rows: a row itself is no query between rows.
func between(of lists, from, to stretch, share float64) source {
	return func(m *maker, _ int) ([]float32, error) {
		first, second := m.among(of(m), from), m.among(of(m), to)
		for tries := 0; first == second && tries < 4; tries++ {
			second = m.among(of(m), to)
		}
		x, err := m.row(first.row)
		if err != nil {
			return nil, err
		}
		y, err := m.row(second.row)
		if err != nil {
			return nil, err
		}
		moveTo(x, y, share)
		return x, nil
	}
}

// moveTo moves x a share of the way to y.
func moveTo(x, y []float32, share float64) {
	for i := range x {
		x[i] = float32(float64((1-share)*float64(x[i])) + float64(share*float64(y[i])))
	}
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
func (m *maker) findDense() {
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
	ratio, apart := medians(m.populous[:int(densest*float64(len(m.populous)))])
	usual, usuallyApart := medians(m.populous)
	m.dense = ratio > 1 && usual > ratio*ratio && apart > leastApart*usuallyApart
}

// insideDense makes points between a row of the dense region and the mean of others of it, at a
// share of the way, or beyond the row.
func insideDense(others int, share float64) source {
	return func(m *maker, _ int) ([]float32, error) {
		p := m.among(m.populous, stretch{0, densest})
		near := nearest(m.sample, p.vec, denseTo)
		rows := make([]int, others)
		for i := range rows {
			rows[i] = near[min(len(near)-1, denseFrom+m.rng.IntN(denseTo-denseFrom))]
		}
		x, err := m.row(p.row)
		if err != nil {
			return nil, err
		}
		y, err := m.meanOf(rows)
		if err != nil {
			return nil, err
		}
		moveTo(x, y, share)
		if !simd.Finite(x) { // the rows are as long as float32 permits
			return y, nil
		}
		return x, nil
	}
}

// inside makes means of a row of a stretch of the places and of others of its region.
func inside(of lists, t stretch, others int) source {
	return func(m *maker, _ int) ([]float32, error) {
		p := m.among(of(m), t)
		sample := m.sample[:min(len(m.sample), insideRows)]
		n := float64(len(sample))
		from := int(insideFrom*n) + 1 // the first may be the row itself
		near := nearest(sample, p.vec, max(from+1, int(insideTo*n)))
		rows := []int{p.row}
		for range others {
			rows = append(rows, near[min(len(near)-1, from+m.rng.IntN(max(1, len(near)-from)))])
		}
		return m.meanOf(rows)
	}
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
func (m *maker) meanNear(int) ([]float32, error) {
	near := nearest(m.sample, m.sample[m.rng.IntN(len(m.sample))].vec, nearRows)
	m.directions = m.Metric != fileformat.L2
	return m.meanOf(near)
}
