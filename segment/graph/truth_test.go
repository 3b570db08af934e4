package graph

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/synthetic"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
)

// TestTruth: trials know their true neighbours, also where codes cannot tell rows apart, so that
// the bounds that follow from walks are wrong.
func TestTruth(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 9))
	coarse := &data{vectors{Dim: 16}} // one row makes the steps of codes long
	for i := range 3000 {
		for j := range coarse.Dim {
			v := float32(i%7*j%5) + 0.004*float32(r.NormFloat64())
			if i == 0 {
				v = 50
			}
			coarse.Vecs = append(coarse.Vecs, v)
		}
	}
	fine, _ := make1("clusters", 24, 3000, 0)
	for name, d := range map[string]*data{"fine": fine, "coarse": coarse} {
		for _, m := range metrics {
			g := d.graph(t, m, Options{quiet: true})
			b := newBuilder(t.Context(), g, 0)
			trials, err := b.queries(d.Source)
			if err != nil {
				t.Fatal(err)
			}
			trials = oneIn(6, trials, func(synthetic.Kind) bool { return true })
			if err := b.compareAll(trials, d.Source); err != nil {
				t.Fatal(err)
			}
			wrong := 0
			for i := range trials {
				x := &trials[i]
				want := exact(m, d, x.vec, x.most+1, nil)
				want = slices.DeleteFunc(want, func(h Hit) bool { return x.row != none && h.Row == int(x.row) })
				want = want[:x.most]
				if len(x.truth) != x.most || !x.full {
					t.Fatalf("%s, %v: %d neighbours of %d", name, m, len(x.truth), x.most)
				}
				for j, n := range x.truth {
					if int(n.row) != want[j].Row || n.score != want[j].Score {
						t.Fatalf("%s, %v, trial %d: neighbour %d is row %d at %v, want %+v", name, m, i, j, n.row, n.score, want[j])
					}
				}
				w := b.workers[0]
				if err := x.query.attempt(x.most, levels.Setting{EF: x.most}, nil, &w.buf); err != nil {
					t.Fatal(err)
				}
				if last, ok := x.query.found(&w.buf).within(x.most); ok && b.scoreAt(x, float64(widened*last)) > x.least {
					wrong++
				}
			}
			if name == "coarse" && m == fileformat.L2 && wrong == 0 {
				t.Error("no bound was wrong")
			}
		}
	}
}
