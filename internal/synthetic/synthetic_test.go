package synthetic

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/simd"
)

var metrics = []fileformat.Metric{fileformat.Cosine, fileformat.Dot, fileformat.L2}

// rowsOf returns what queries are made from, of rows one after another.
func rowsOf(vecs []float32, dim int, metric fileformat.Metric) *Rows {
	return &Rows{
		Metric: metric, Len: len(vecs) / dim, Dim: dim, Seed: 1, Results: [...]int{10, 100, 1000},
		Read: func(lo, hi int) ([]float32, error) { return vecs[lo*dim : hi*dim], nil },
		Each: func(n int, f func(i int) error) error {
			for i := range n {
				if err := f(i); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// normal returns rows with independent components.
func normal(r *rand.Rand, rows, dim int) []float32 {
	vecs := make([]float32, rows*dim)
	for i := range vecs {
		vecs[i] = float32(r.NormFloat64())
	}
	return vecs
}

// count returns the number of queries of each kind.
func count(t *testing.T, rows *Rows) (n [Kinds]int) {
	t.Helper()
	all, err := rows.Queries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range all {
		n[q.Kind]++
	}
	return n
}

// TestQueries: whatever the rows are, a kind has all its queries or no query, and a second call
// makes the same ones. All are finite.
func TestQueries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dim, n := rapid.IntRange(1, 12).Draw(t, "dim"), rapid.IntRange(1, 60).Draw(t, "rows")
		metric := rapid.SampledFrom(metrics).Draw(t, "metric")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		zeros := rapid.SampledFrom([]float64{0, 0.3, 0.9, 1}).Draw(t, "zeros")
		size := rapid.SampledFrom([]float32{1e-30, 1, 1e30, math.MaxFloat32 / 8}).Draw(t, "size")
		vecs := normal(r, n, dim)
		for i := range vecs {
			if vecs[i] *= size; r.Float64() < zeros {
				vecs[i] = 0
			}
		}
		rows := rowsOf(vecs, dim, metric)
		rows.Most = rapid.IntRange(0, 12).Draw(t, "most")
		all, err := rows.Queries(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		again, err := rows.Queries(t.Context())
		if err != nil || len(again) != len(all) {
			t.Fatalf("%d queries, then %d, %v", len(all), len(again), err)
		}
		var of [Kinds]int
		for i, q := range all {
			of[q.Kind]++
			if i > 0 && all[i-1].Kind > q.Kind {
				t.Fatalf("kind %d after %d", q.Kind, all[i-1].Kind)
			}
			if !slices.Equal(q.Vec, again[i].Vec) {
				t.Fatalf("query %d of kind %d differs: %v, %v", i, q.Kind, q.Vec, again[i].Vec)
			}
			if len(q.Vec) != dim || !simd.Finite(q.Vec) {
				t.Fatalf("query %d of kind %d: %v", i, q.Kind, q.Vec)
			}
			if q.Kind == LikeRows {
				if !slices.Equal(q.Vec, vecs[q.Row*dim:][:dim]) {
					t.Fatalf("query %d is not row %d", i, q.Row)
				}
			} else if q.Row != -1 {
				t.Fatalf("query %d of kind %d leaves out row %d", i, q.Kind, q.Row)
			}
			if !slices.Contains(rows.Results[:], q.Results) {
				t.Fatalf("query %d wants %d results", i, q.Results)
			}
		}
		for k := range Kinds {
			want := k.Queries()
			if rows.Most > 0 {
				want = min(want, rows.Most)
			}
			if k == LikeRows {
				want = min(want, n)
			}
			if of[k] != want && (recipes[k].made == nil || of[k] != 0) {
				t.Fatalf("%d queries of kind %d, want %d", of[k], k, want)
			}
		}
	})
}

// TestErrors: errors of reading and of the context are returned, wherever they occur.
func TestErrors(t *testing.T) {
	damaged := errors.New("damaged")
	rows := rowsOf(normal(rand.New(rand.NewPCG(2, 3)), 50, 4), 4, fileformat.L2)
	rows.Most = 5
	read, reads := rows.Read, 0
	rows.Read = func(lo, hi int) ([]float32, error) { reads++; return read(lo, hi) }
	if _, err := rows.Queries(t.Context()); err != nil {
		t.Fatal(err)
	}
	for fails := range reads {
		left := fails
		rows.Read = func(lo, hi int) ([]float32, error) {
			if left--; left < 0 {
				return nil, damaged
			}
			return read(lo, hi)
		}
		if _, err := rows.Queries(t.Context()); !errors.Is(err, damaged) {
			t.Fatalf("read %d of %d fails: %v", fails, reads, err)
		}
	}
	rows.Read = read
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := rows.Queries(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestMiddleDirections has rows with nearly all of their length in some components. Queries without
// the directions that have most of it lie along the others, and are as far from the mean as rows.
// They are not made where no direction is stronger than others.
func TestMiddleDirections(t *testing.T) {
	const dim, rows = 32, 600
	for _, c := range []struct {
		strong      int // components
		least, most int // directions left out
	}{{1, 1, 1}, {3, 2, 4}, {dim, dim / 2, dim / 2}} {
		r := rand.New(rand.NewPCG(7, uint64(c.strong)))
		vecs := normal(r, rows, dim)
		for i := range vecs {
			if i%dim < c.strong {
				vecs[i] *= 30
			}
		}
		m := maker{Rows: rowsOf(vecs, dim, fileformat.L2), rng: r}
		if err := m.survey(); err != nil {
			t.Fatal(err)
		}
		if m.middle < c.least || m.middle > c.most {
			t.Errorf("%d strong components: %d directions of %d have most of the length, want %d to %d", c.strong, m.middle,
				len(m.strong), c.least, c.most)
		}
		lengths, strong := 0.0, 0.0
		for range 50 {
			x := m.fromCentre(m.remainder(m.middle))
			lengths += simd.Dot64(x, x)
			strong += simd.Dot64(x[:c.strong], x[:c.strong])
		}
		for k, least := range map[Kind]float64{WeakDirections: 0, MiddleDirections: 0.1} {
			total, along := 0.0, 0.0 // along the further strong directions, which the second kind keeps
			for i := range 50 {
				v, err := m.query(k, i)
				if err != nil {
					t.Fatal(err)
				}
				x := m.fromCentre(v)
				total += simd.Dot64(x, x)
				for _, y := range m.strong[m.middle:] {
					along += simd.Dot64(x, y) * simd.Dot64(x, y)
				}
			}
			if share := along / total; m.middle < len(m.strong) && (share < least || k == WeakDirections && share > 1e-3) {
				t.Errorf("%d strong components, kind %d: %.3f of the squared length along further directions", c.strong, k, share)
			}
		}
		rowsLength := 0.0
		for i := range rows {
			x := m.fromCentre(vecs[i*dim:][:dim])
			rowsLength += simd.Dot64(x, x)
		}
		if share := lengths / 50 / (rowsLength / rows); math.Abs(share-1) > 0.5 {
			t.Errorf("%d strong components: queries are %.2f times as far from the mean as rows, squared", c.strong, share)
		}
		if c.strong == 1 && strong > 0.05*lengths {
			t.Errorf("one strong component has %.2f of the squared length of the queries", strong/lengths)
		}
	}
	few := make([]float32, 0, 800*48) // rows of six figures, with some noise
	for r := rand.New(rand.NewPCG(8, 9)); len(few) < cap(few); {
		var figures [6]float64
		for j := range figures {
			figures[j] = r.NormFloat64()
		}
		for i := range 48 {
			few = append(few, float32(figures[i%6]*math.Cos(float64(i))+figures[(i+1)%6]*math.Sin(float64(i*i))+
				0.05*r.NormFloat64()))
		}
	}
	even := normal(rand.New(rand.NewPCG(8, 10)), 800, 16)
	for _, c := range []struct {
		vecs         []float32
		dim          int
		metric       fileformat.Metric
		middle, weak int
	}{
		{even, 16, fileformat.Cosine, 0, 90}, {few, 48, fileformat.Cosine, 90, 90},
		{few, 48, fileformat.L2, 90, 90}, {few, 48, fileformat.Dot, 0, 0},
	} {
		n := count(t, rowsOf(c.vecs, c.dim, c.metric))
		if n[MiddleDirections] != c.middle || n[WeakDirections] != c.weak {
			t.Errorf("%d dimensions, metric %v: %d and %d queries, want %d and %d", c.dim, c.metric, n[MiddleDirections],
				n[WeakDirections], c.middle, c.weak)
		}
	}
}

// TestFilled: such queries keep the components that are seldom zero and at most one other. They are
// made only if some components are often zero, not all of these always, and at least two are not.
// It does not matter how many of all components are zero: a tag beside a text may be few.
func TestFilled(t *testing.T) {
	const rows, categories, width = 600, 3, 6
	for _, c := range []struct{ categories, numbers, empty, want int }{
		{categories, 0, 0, 0}, {categories, 1, 0, 0}, {categories, 2, 0, 180}, {categories, 8, 0, 180}, {0, 24, 0, 0},
		{1, 24, 0, 180}, {0, 24, 6, 0}, {1, 24, 2, 180},
	} {
		first := c.categories * width // one-hot, then numbers
		last := first + c.numbers
		dim := last + c.empty
		vecs, r := make([]float32, rows*dim), rand.New(rand.NewPCG(5, 6))
		for i := range rows {
			for j := range c.categories {
				vecs[i*dim+j*width+r.IntN(width)] = 1
			}
			for j := first; j < last; j++ {
				vecs[i*dim+j] = float32(r.Float64())
			}
		}
		for _, metric := range metrics {
			all, err := rowsOf(vecs, dim, metric).Queries(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			all = slices.DeleteFunc(all, func(q Query) bool { return q.Kind != Filled && q.Kind != PartlyFilled })
			if len(all) != c.want {
				t.Errorf("%+v, metric %v: %d queries", c, metric, len(all))
			}
			for _, q := range all {
				if slices.Contains(q.Vec[first:last], 0) {
					t.Fatalf("%+v, metric %v: a number is zero: %v", c, metric, q.Vec)
				}
				of := 0
				for _, v := range q.Vec[:first] {
					if v != 0 {
						of++
					}
				}
				if of != int(q.Kind-Filled) {
					t.Fatalf("%+v, metric %v: a query of kind %d has %d categories", c, metric, q.Kind, of)
				}
			}
		}
	}
}
