package graph

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/simd"
)

// TestMidDirections has rows with nearly all of their length in some of their components. Queries
// without the directions that have most of it lie along the others, and are as far from the mean as
// rows are. Where no direction is stronger than others, there are no such queries.
func TestMidDirections(t *testing.T) {
	const dim, rows = 32, 600
	for _, c := range []struct {
		strong      int // components
		least, most int // directions left out
	}{{1, 1, 1}, {3, 2, 4}, {dim, dim / 2, dim / 2}} {
		r := rand.New(rand.NewPCG(7, uint64(c.strong)))
		d := &data{vectors{Dim: dim, Vecs: make([]float32, rows*dim)}}
		for i := range d.Vecs {
			if d.Vecs[i] = float32(r.NormFloat64()); i%dim < c.strong {
				d.Vecs[i] *= 30
			}
		}
		b := newBuilder(t.Context(), d.graph(t, fileformat.L2, Options{quiet: true}), 1)
		s := synthesizer{builder: b, rows: d.Source, rng: r}
		if err := s.order(); err != nil {
			t.Fatal(err)
		}
		s.findStrong()
		if s.middle < c.least || s.middle > c.most {
			t.Errorf("%d strong components: %d directions of %d have most of the length, want %d to %d", c.strong, s.middle,
				len(s.strong), c.least, c.most)
		}
		lengths, strong := 0.0, 0.0
		for range 50 {
			x := s.fromCentre(s.remainder(s.middle))
			lengths += simd.Dot64(x, x)
			strong += simd.Dot64(x[:c.strong], x[:c.strong])
		}
		for k, least := range map[kind]float64{weakDirections: 0, midDirections: 0.1} {
			total, along := 0.0, 0.0 // along the further strong directions, which the second kind keeps
			for i := range 50 {
				v, err := s.query(k, i)
				if err != nil {
					t.Fatal(err)
				}
				x := s.fromCentre(v)
				total += simd.Dot64(x, x)
				for _, y := range s.strong[s.middle:] {
					along += simd.Dot64(x, y) * simd.Dot64(x, y)
				}
			}
			if share := along / total; s.middle < len(s.strong) && (share < least || k == weakDirections && share > 1e-3) {
				t.Errorf("%d strong components, kind %d: %.3f of the squared length along further directions", c.strong, k, share)
			}
		}
		rowsLength := 0.0
		for i := range rows {
			x := s.fromCentre(d.Row(i))
			rowsLength += simd.Dot64(x, x)
		}
		if share := lengths / 50 / (rowsLength / rows); math.Abs(share-1) > 0.5 {
			t.Errorf("%d strong components: queries are %.2f times as far from the mean as rows, squared", c.strong, share)
		}
		if c.strong == 1 && strong > 0.05*lengths {
			t.Errorf("one strong component has %.2f of the squared length of the queries", strong/lengths)
		}
	}
	kinds := func(d *data, metric fileformat.Metric) (n [kinds]int) {
		b := newBuilder(t.Context(), d.graph(t, metric, Options{quiet: true}), 1)
		all, err := b.queries(d.Source)
		if err != nil {
			t.Fatal(err)
		}
		for _, t := range all {
			n[t.kind]++
		}
		return n
	}
	even, _ := make1("normal", 16, 800, 0)
	few, _ := make1("latent", 48, 800, 0)
	for _, c := range []struct {
		d                 *data
		metric            fileformat.Metric
		middle, weakKinds int
	}{{even, fileformat.Cosine, 0, 90}, {few, fileformat.Cosine, 90, 90}, {few, fileformat.L2, 90, 90}, {few, fileformat.Dot, 0, 0}} {
		n := kinds(c.d, c.metric)
		if n[midDirections] != c.middle || n[weakDirections] != c.weakKinds {
			t.Errorf("%d dimensions, metric %v: %d and %d trials, want %d and %d", c.d.Dim, c.metric, n[midDirections],
				n[weakDirections], c.middle, c.weakKinds)
		}
	}
}

// categories returns rows with n one-hot categories of the given width, and with some numbers.
func categories(r *rand.Rand, rows, n, width, numbers int) *data {
	d := &data{vectors{Dim: n*width + numbers, Vecs: make([]float32, rows*(n*width+numbers))}}
	for i := range rows {
		for c := range n {
			d.Row(i)[c*width+r.IntN(width)] = 1
		}
		for j := range numbers {
			d.Row(i)[n*width+j] = float32(r.Float64())
		}
	}
	return d
}

// TestNumbersAlone: queries with the numbers of rows, but none of their categories, get the recall
// asked for. Links lead to rows of the same categories, so no other kind of trials is as hard.
func TestNumbersAlone(t *testing.T) {
	const each, k, recall = 12, 10, 0.9
	r := rand.New(rand.NewPCG(3, 4))
	d := categories(r, 6000, 5, each, 8)
	first := d.Dim - 8
	g := d.created(t, fileformat.L2, Options{Planned: true, layout: plain})
	keepsRecall(t, g, d, fileformat.L2, k, recall, func() []float32 {
		x := make([]float32, d.Dim)
		for j := first; j < d.Dim; j++ {
			x[j] = float32(r.Float64())
		}
		return x
	})
}

// TestFilledTrials: such trials have the components that are seldom zero, and none or one of the
// others. There are none where no component is often zero, or fewer than two are seldom zero.
func TestFilledTrials(t *testing.T) {
	filledOf := func(d *data, metric fileformat.Metric) (some []trial) {
		b := newBuilder(t.Context(), d.graph(t, metric, Options{quiet: true}), 1)
		all, err := b.queries(d.Source)
		if err != nil {
			t.Fatal(err)
		}
		for _, t := range all {
			if t.kind == filled || t.kind == partlyFilled {
				some = append(some, t)
			}
		}
		return some
	}
	for _, c := range []struct{ numbers, want int }{{0, 0}, {1, 0}, {2, 180}, {8, 180}} {
		d := categories(rand.New(rand.NewPCG(5, 6)), 600, 3, 6, c.numbers)
		for _, metric := range []fileformat.Metric{fileformat.L2, fileformat.Cosine, fileformat.Dot} {
			some := filledOf(d, metric)
			if len(some) != c.want {
				t.Errorf("%d numbers, metric %v: %d trials, want %d", c.numbers, metric, len(some), c.want)
			}
			for _, trial := range some {
				kept := 0 // components of categories
				for j, v := range trial.vec {
					switch number := j >= d.Dim-c.numbers; {
					case number && v == 0:
						t.Fatalf("%d numbers, metric %v: component %d is zero", c.numbers, metric, j)
					case !number && v != 0:
						kept++
					}
				}
				if want := int(trial.kind - filled); kept != want {
					t.Fatalf("%d numbers, metric %v, kind %d: %d categories, want %d", c.numbers, metric, trial.kind, kept, want)
				}
			}
		}
	}
	d := categories(rand.New(rand.NewPCG(7, 8)), 600, 0, 1, 24)
	if n := len(filledOf(d, fileformat.L2)); n != 0 {
		t.Errorf("%d trials for rows without zeros", n)
	}
}

// TestLongMeans: queries along the mean of all rows, as long as a row, get the recall asked for.
// Rows are histograms of 60 kinds. The 300 nearest rows of such a query are nearly as far as many
// others. Without trials of this kind 0.86 is found.
func TestLongMeans(t *testing.T) {
	const dim, groups, rows, length, k, recall = 128, 60, 12_000, 500, 300, 0.9
	r := rand.New(rand.NewPCG(9, dim))
	var shares [groups][dim]float64
	for g := range shares {
		for i := range shares[g] {
			shares[g][i] = min(math.Pow(r.ExpFloat64(), 2), 4)
		}
	}
	scaled := func(x *[dim]float64) []float32 {
		squared := 0.0
		for _, v := range x {
			squared += v * v
		}
		y := make([]float32, dim)
		for i, v := range x {
			y[i] = float32(length * v / math.Sqrt(squared))
		}
		return y
	}
	d := &data{vectors{Dim: dim}}
	var mean [dim]float64
	for i := range rows {
		var x [dim]float64
		for j, share := range shares[i%groups] {
			x[j] = share*(r.ExpFloat64()+r.ExpFloat64()) + 0.1*r.ExpFloat64()
		}
		row := scaled(&x)
		for j, v := range row {
			mean[j] += float64(v) / rows
		}
		d.Vecs = append(d.Vecs, row...)
	}
	g := d.created(t, fileformat.L2, Options{Planned: true, layout: plain})
	keepsRecall(t, g, d, fileformat.L2, k, recall, func() []float32 {
		x := mean
		for i := range x {
			x[i] *= 1 + r.NormFloat64()/50
		}
		return scaled(&x)
	})
}
