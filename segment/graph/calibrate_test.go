package graph

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
	"github.com/vecbolt/vecbolt/simd"
)

// TestCalibrationByScores has rows whose nearest ones are at nearly the same distance: of 160
// rows next to each other, codes cannot tell which is the nearest, and the calibration must not
// take one for another. The recall stated for queries like the rows must be the one that they get.
func TestCalibrationByScores(t *testing.T) {
	const dim, groups, tight, alone = 32, 12, 160, 60
	r := rand.New(rand.NewPCG(6, 6))
	d := &data{vectors{Dim: dim}}
	for range groups {
		centre := normal(r, dim, 3)
		for range tight {
			d.Vecs = append(d.Vecs, near(r, centre, 1e-6)...)
		}
		for range alone {
			v := normal(r, dim, 1)
			length := float32(math.Sqrt(simd.Dot64(v, v)))
			for i := range v {
				v[i] = centre[i] + v[i]/length
			}
			d.Vecs = append(d.Vecs, v...)
		}
	}
	g := d.graph(t, fileformat.L2, Options{})
	s, ok := g.Setting(0.2, 1, levels.NoFilter)
	if !ok {
		t.Fatal("no setting")
	}
	var buf Buffer
	found, asked := 0.0, 0.0
	for row := 0; row < d.Len(); row += 5 {
		vec := d.Row(row)
		hits, _, err := queryRow(g, vec, row).Search(1, s, nil, d.scorer(fileformat.L2, vec), &buf)
		if err != nil {
			t.Fatal(err)
		}
		asked++
		if truth := exact(fileformat.L2, d, vec, 2, nil); hits[0].Score == truth[1].Score { // the first is itself
			found++
		}
	}
	if got, usual := found/asked, s.UsualRecall(); math.Abs(usual-got) > 0.1 {
		t.Errorf("%.3f is stated for queries like the rows, which find %.3f", usual, got)
	} else {
		t.Logf("%.3f is stated for queries like the rows, which find %.3f", usual, got)
	}
}

// TestPlanned: a calibration for a planner offers searches that cost no more than those of a whole
// one wherever these cost clearly less than a scan, and measures fewer others.
func TestPlanned(t *testing.T) {
	for _, set := range []struct {
		dim, rows int
		metrics   []fileformat.Metric
	}{{50, 1500, []fileformat.Metric{fileformat.Cosine, fileformat.Dot}}, {quickDim, 3000, []fileformat.Metric{fileformat.L2}}} {
		dim, rows := set.dim, set.rows
		for _, m := range set.metrics {
			t.Run(fmt.Sprintf("dim=%d/metric=%d", dim, m), func(t *testing.T) {
				d, _ := make1("latent", dim, rows, 0)
				whole, planned := d.graph(t, m, Options{}), d.graph(t, m, Options{Planned: true})
				worth, dear := 0, 0
				for _, k := range []int{1, 10, 11, 100} {
					for _, recall := range []float64{0.7, 0.8, 0.9, 0.95, 0.98, 0.99} {
						want, ok := whole.Setting(recall, k, levels.AnyFilter)
						if !ok {
							continue
						}
						each, _ := codes.RowPrice(dim, true)
						scan := each*float64(rows) + codes.BestPrice(rows, k, dim)
						price := func(s levels.Setting) float64 { return whole.Price(whole.Work(s, rows), k, false) }
						got, ok := planned.Setting(recall, k, levels.AnyFilter)
						if scan, found := planned.ScanSetting(recall, k); found && (!ok || price(scan) < price(got)) {
							got, ok = scan, true
						}
						switch {
						case price(want) >= levels.WorthScan*scan:
							dear++
						case !ok || price(got) > price(want)*1.01:
							t.Errorf("recall %g of %d: %v, %v instead of %v", recall, k, got, ok, want)
						default:
							worth++
						}
					}
				}
				if worth == 0 || dear == 0 {
					t.Errorf("%d searches cost less than a scan, %d more", worth, dear)
				}
				for c := range levels.Results {
					most := func(g *Graph) (ef int) {
						for _, l := range g.Levels(c) {
							ef = max(ef, l.EF)
						}
						return ef
					}
					if most(planned) > most(whole) {
						t.Errorf("ef %d for %d rows, %d in a whole calibration", most(planned), levels.Results[c], most(whole))
					}
				}
			})
		}
	}
}

// TestWidths checks the widest beam of the calibration: it grows with the rows and the results, and
// is bounded.
func TestWidths(t *testing.T) {
	for _, c := range []struct{ rows, k, low, high int }{
		{500, 10, 500, 600}, {10_000, 10, 1400, lastEF}, {100_000, 10, 1400, lastEF}, {340_000, 10, 3000, 3400},
		{500_000, 10, 3500, 4000}, {1_000_000, 100, 5000, largestEF}, {50_000_000, 10, 5000, largestEF}, {1_000_000, 300, 8000, deepestEF}, {100_000, 1000, 3500, 4000},
	} {
		b := &builder{Graph: &Graph{head: header{ident: codes.Ident{Rows: c.rows}}}}
		efs := b.widths(c.k)
		if last := efs[len(efs)-1]; last < c.low || last > c.high || efs[0] < c.k {
			t.Errorf("%d rows, k = %d: beams of %d to %d rows, want %d to %d at most", c.rows, c.k, efs[0], last, c.low, c.high)
		}
	}
	b := &builder{Graph: &Graph{head: header{ident: codes.Ident{Rows: 1_000_000}}}}
	efs := b.widths(300)
	if got, want := efs[len(efs)-4:], []int{3162, 3831, 5623, 8254}; !slices.Equal(got, want) {
		t.Errorf("the widest beams for 300 results of 1,000,000 rows have %v rows, want %v", got, want)
	}
}
