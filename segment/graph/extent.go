package graph

import (
	"math"
	"math/rand/v2"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/simd"
)

// An extent is how far rows reach along the directions in which they differ most. A query beyond
// it, as one twice as far from the mean as rows, has its best rows at the rim. Few links lead
// along the rim, so a walk finds fewer than for other queries, though the rows that it finds need
// be neither far from the query nor close together. No kind of trials is as far out for certain.
// So such a search has a second stage.
type extent struct {
	directions [][]float32 // of length 1
	low, high  []float64   // bounds of the products of points with these
}

// Parameters of an extent.
const (
	reachRows  = 1024    // rows whose reach counts, or fewer
	reachBytes = 8 << 20 // of their points, beyond which strongRows suffice
	strongRows = 128     // of these tell the directions
	mostStrong = 8       // directions
	leastHeld  = 0.02    // part of the variance that each of these has
	reachTurns = 8       // of the power iteration
	outside    = 1.1     // times as far from the mean as any of these rows is beyond the extent
	rounding   = 1e-9    // variance, in parts of the squared mean, up to which rows are equal
	leastCoded = 0.01    // length of a row, in parts of the longest, from which codes tell its direction
)

// outlying reports whether the query is beyond the extent of the rows.
func (q *Query) outlying(b *Buffer) (bool, error) {
	e := q.g.extent.Load()
	if e == nil { // this is the first search
		var err error
		if e, err = q.g.newExtent(b); err != nil {
			return false, err
		}
		q.g.extent.Store(e)
	}
	if len(e.directions) == 0 {
		return false, nil
	}
	dim := q.g.Dim()
	b.point.read(q.rec[:align(int64(dim))], tailOf(q.rec), dim)
	for i, y := range e.directions {
		if along := simd.Dot64(b.point.y[:dim], y); along < e.low[i] || along > e.high[i] {
			b.outside = true
			return true, nil
		}
	}
	return false, nil
}

// newExtent measures the extent of some rows.
func (g *Graph) newExtent(b *Buffer) (*extent, error) {
	points, err := g.somePoints(b)
	if err != nil || len(points) < 2 {
		return &extent{}, err
	}
	dim := g.Dim()
	mean := make([]float64, dim)
	for _, y := range points {
		for j, v := range y {
			mean[j] += float64(v) / float64(len(points))
		}
	}
	variance, square := 0.0, dot(mean, mean)
	for _, y := range points {
		for j, v := range y {
			y[j] = float32(float64(v) - mean[j])
		}
		variance += simd.Dot64(y, y) / float64(len(points))
	}
	if !(variance > rounding*square) { // the rows are equal
		return &extent{}, nil
	}
	e := &extent{}
	for _, d := range strongest(points[:min(strongRows, len(points))]) {
		low, high, held, middle := 0.0, 0.0, 0.0, 0.0
		for _, y := range points {
			along := simd.Dot64(y, d)
			low, high = min(low, along), max(high, along)
			held += float64(along*along) / float64(len(points))
		}
		if !(held >= leastHeld*variance && held > 0) {
			break
		}
		for j, v := range d {
			middle += float64(float64(v) * mean[j])
		}
		e.directions = append(e.directions, d)
		e.low = append(e.low, middle+float64(outside*low))
		e.high = append(e.high, middle+float64(outside*high))
	}
	return e, nil
}

// someRows returns rows from all parts of the graph, in an order in which the first of them are
// from all parts, too. Each is a random one of a part: rows at equal steps may all be of one kind,
// if kinds follow each other in turn.
func (g *Graph) someRows(rows []uint32) []uint32 {
	n := int64(min(reachRows, max(strongRows, reachBytes/4/g.Dim()), g.Len()))
	r := rand.New(rand.NewPCG(g.head.seed, 2))
	places := make([]int64, n)
	for i := range places {
		lo, hi := int64(i)*int64(g.Len())/n, int64(i+1)*int64(g.Len())/n
		places[i] = lo + r.Int64N(hi-lo)
	}
	step := (n + strongRows - 1) / strongRows
	for first := range step {
		for i := first; i < n; i += step {
			rows = append(rows, uint32(places[i]))
		}
	}
	return rows
}

// somePoints returns the points of someRows. For Dot, where only the direction of a query counts,
// they are as long as the longest row, and rows too short for codes to tell their directions are
// left out.
func (g *Graph) somePoints(b *Buffer) (points [][]float32, err error) {
	dim := g.Dim()
	b.ids = g.someRows(b.ids[:0])
	g.expectRecords(b.ids, b)
	if err := g.touchRecords(b.ids); err != nil {
		return nil, err
	}
	middle := make([]float32, dim)
	for j, m := range g.space.mean {
		middle[j] = float32(m)
	}
	if g.rotates() {
		g.rotation.Apply(middle)
	}
	longest := g.head.maxNorm / g.head.unit
	for _, row := range b.ids {
		coded, tail := g.parts(row)
		b.point.read(coded, tail, dim)
		y := append([]float32(nil), b.point.y[:dim]...)
		if g.head.ident.Metric == fileformat.Dot {
			for j := range y {
				y[j] += middle[j]
			}
			length := math.Sqrt(simd.Dot64(y, y))
			if !(length > leastCoded*longest) {
				continue
			}
			for j := range y {
				y[j] = float32(float64(float64(y[j])*(longest/length)) - float64(middle[j]))
			}
		}
		points = append(points, y)
	}
	return points, nil
}

// strongest returns the first principal components of points around zero, about, of length 1.
// Power iteration finds them by the products of all pairs, which are fewer than the components. The
// one of internal/synthetic reads all rows at each turn, and graph files depend on its bits.
func strongest(points [][]float32) (directions [][]float32) {
	n := len(points)
	products := make([][]float64, n)
	for i := range products {
		products[i] = make([]float64, n)
		for j := range i + 1 {
			products[i][j] = simd.Dot64(points[i], points[j])
			products[j][i] = products[i][j]
		}
	}
	var found [][]float64 // weights of the points
	for range min(mostStrong, n) {
		x := make([]float64, n)
		for i := range x { // any start, if it is not at a right angle
			x[i] = 1 / float64(i+1)
		}
		for range reachTurns {
			next, largest := make([]float64, n), 0.0
			for i := range next {
				next[i] = dot(products[i], x)
			}
			for _, w := range found {
				along := dot(next, w)
				for i := range next {
					next[i] -= float64(along * w[i])
				}
			}
			for _, v := range next {
				largest = max(largest, math.Abs(v))
			}
			if !(largest > 0 && largest < math.Inf(1)) { // no further direction
				return directions
			}
			for i, v := range next {
				x[i] = v / largest
			}
		}
		length := math.Sqrt(dot(x, x))
		sum := make([]float64, len(points[0]))
		for i := range x {
			x[i] /= length
			for j, v := range points[i] {
				sum[j] += float64(x[i] * float64(v))
			}
		}
		length = math.Sqrt(dot(sum, sum))
		if !(length > 0) {
			return directions
		}
		d := make([]float32, len(sum))
		for j, v := range sum {
			d[j] = float32(v / length)
		}
		found, directions = append(found, x), append(directions, d)
	}
	return directions
}

// dot returns the inner product, with the same bits on every machine.
func dot(x, y []float64) (sum float64) {
	for i, v := range x {
		sum += float64(v * y[i])
	}
	return sum
}
