package graph

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/synthetic"
	"github.com/vecbolt/vecbolt/simd"
)

// usualNoise gives noise among the rows of defects that has neighbours at distances as usual.
const usualNoise = 0.03

// defects returns rows that depend on three figures, and noise around one of them as a share of the
// rows. further returns more of the noise.
func defects(rows, dim int, share, noise float64) (d *data, further func() []float32) {
	r := rand.New(rand.NewPCG(23, uint64(dim)))
	d = &data{vectors{Dim: dim}}
	waves, phases := make([][3]float64, dim), make([]float64, dim)
	for i := range waves {
		waves[i] = [3]float64{r.NormFloat64(), r.NormFloat64(), r.NormFloat64()}
		phases[i] = 2 * math.Pi * r.Float64()
	}
	usual := func() []float32 {
		x := make([]float32, dim)
		figures := [3]float64{1.3 * r.Float64(), 1.3 * r.Float64(), 1.3 * r.Float64()}
		for i, w := range waves {
			x[i] = float32(math.Cos(w[0]*figures[0] + w[1]*figures[1] + w[2]*figures[2] + phases[i]))
		}
		return x
	}
	centre := usual()
	further = func() []float32 {
		x := make([]float32, dim)
		for i := range x {
			x[i] = centre[i] + float32(noise*r.NormFloat64())
		}
		return x
	}
	for range rows {
		if r.Float64() < share {
			d.Vecs = append(d.Vecs, further()...)
		} else {
			d.Vecs = append(d.Vecs, usual()...)
		}
	}
	return d, further
}

// TestDefects: queries of a small region of many dimensions get the recall asked for. The other
// rows depend on three figures, so short walks find their neighbours, and the mean of every other
// kind of trials hides the region: 0.87 was found. Where there is no such region, or its rows are
// nearly equal, there are no such trials.
func TestDefects(t *testing.T) {
	const k, dim, recall = 10, 96, 0.9
	d, further := defects(20_000, dim, 0.04, usualNoise)
	g := d.created(t, fileformat.L2, Options{Planned: true, layout: plain})
	keepsRecall(t, g, d, fileformat.L2, k, recall, further)
	for _, c := range []struct {
		share, noise float64
		dense        bool
	}{{0, usualNoise, false}, {0.04, usualNoise, true}, {1, usualNoise, false}, {0.04, usualNoise / 100, false}} {
		d, _ := defects(2000, dim, c.share, c.noise)
		b := newBuilder(t.Context(), d.graph(t, fileformat.L2, Options{quiet: true}), 1)
		trials, err := b.queries(d.Source)
		if err != nil {
			t.Fatal(err)
		}
		var n [synthetic.Kinds]int
		for _, t := range trials {
			n[t.kind]++
		}
		if (n[synthetic.MeansDense] > 0) != c.dense || (n[synthetic.BetweenDense] > 0) != c.dense || (n[synthetic.AwayDense] > 0) != c.dense {
			t.Errorf("%+v: %d trials of a dense region", c, n[synthetic.MeansDense:synthetic.Anywhere])
		}
	}
}

// TestHugeDefects: where the rows of a dense region are as long as float32 permits, none of its
// trials is infinite.
func TestHugeDefects(t *testing.T) {
	d, _ := defects(2000, 96, 0.04, usualNoise)
	most := float32(0)
	for _, v := range d.Vecs {
		most = max(most, v, -v)
	}
	for i, v := range d.Vecs {
		d.Vecs[i] = float32(float64(v) / float64(most) * math.MaxFloat32)
	}
	for _, m := range metrics {
		trials, err := newBuilder(t.Context(), d.graph(t, m, Options{quiet: true}), 1).queries(d.Source)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, trial := range trials {
			if trial.kind < synthetic.MeansDense || trial.kind > synthetic.AwayDense {
				continue
			}
			if n++; !simd.Finite(trial.vec) {
				t.Errorf("metric %d, kind %d: an infinite query", m, trial.kind)
			}
		}
		if n == 0 && m == fileformat.L2 {
			t.Error("no trials of a dense region")
		}
	}
}
