package graph

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
	"github.com/vecbolt/vecbolt/simd"
)

func TestLayoutOf(t *testing.T) {
	for _, c := range []struct {
		rows, dim int
		want      uint32
	}{
		{1, quickDim, quick}, {1, simd.MaxSign, quick}, {1_000_000, simd.MaxSign + 1, plain},
		{28_000, 384, plain}, {29_000, 384, quick}, {21_000, quickDim - 1, plain}, {22_000, quickDim - 1, quick},
		{49_000, middleDim, plain}, {50_000, middleDim, quick}, {10_000_000, middleDim - 1, plain},
	} {
		if got := layoutOf(&codes.Ident{Rows: c.rows, Dim: c.dim}, quickSize); got != c.want {
			t.Errorf("%d rows of %d: layout %d, want %d", c.rows, c.dim, got, c.want)
		}
	}
}

// TestSift expands nodes under bounds of all sizes, and compares with estimates of one neighbour at
// a time: only neighbours that may be within the bound are read, all of them or the most promising
// ones, and none twice. Their distances come from their records. Without a bound all are read.
func TestSift(t *testing.T) {
	d, queries := make1("latent", 160, 2000, 20)
	g := d.graph(t, fileformat.L2, Options{quiet: true, layout: quick})
	if !g.sifts {
		t.Fatal("the graph does not sift")
	}
	refused, some, all := 0, 0, 0
	for i, vec := range queries {
		q := g.Query(vec)
		var buf Buffer
		for _, share := range []float32{0.1, 0.7, 1, 1.5, 1e9} {
			if err := q.startWith(10, levels.Stage{EF: 50}, nil, 0, &buf); err != nil {
				t.Fatal(err)
			}
			node := simd.Neighbour{ID: uint32(i)}
			distance := func(id uint32) float32 {
				var dist [1]float32
				simd.GatherL2(dist[:], &q.point, g.records, []uint32{id})
				return dist[0]
			}
			node.Dist = distance(node.ID)
			ids, err := g.neighbours(node.ID)
			if err != nil {
				t.Fatal(err)
			}
			buf.visited.Set(int(ids[0]))
			most := share * node.Dist
			if share == 1e9 {
				most = math.MaxFloat32
			}
			var low [degree]float32
			simd.Estimate(&low, &q.table, g.block(node.ID), nil, node.Dist, most, siftSlack*float32(math.Sqrt(float64(node.Dist))))
			var want []simd.Neighbour
			for j, id := range ids[:count(ids)] {
				if j > 0 && low[j] < most {
					want = append(want, simd.Neighbour{ID: id, Dist: low[j]})
				}
			}
			switch {
			case most == math.MaxFloat32 && len(want) == count(ids)-1:
				all++
			case len(want) > siftMost:
				slices.SortStableFunc(want, func(a, b simd.Neighbour) int { return cmp.Compare(a.Dist, b.Dist) })
				want = want[:siftMost]
				some++
			case len(want) == 0:
				refused++
			}
			if err := q.sift(node, most, true, &buf); err != nil {
				t.Fatal(err)
			}
			got := make([]uint32, len(want))
			for j, e := range want {
				if got[j] = e.ID; !buf.visited.Has(int(e.ID)) {
					t.Errorf("row %d is not marked", e.ID)
				}
			}
			read := slices.Clone(buf.ids)
			slices.Sort(read)
			if slices.Sort(got); !slices.Equal(read, got) {
				t.Fatalf("query %d, most %g: read %v, want %v", i, most, read, got)
			}
			for j, id := range buf.ids {
				if buf.dists[j] != distance(id) {
					t.Errorf("row %d: distance %g, want %g", id, buf.dists[j], distance(id))
				}
			}
			if err := q.sift(node, most, true, &buf); err != nil {
				t.Fatal(err)
			}
			for _, id := range buf.ids {
				if slices.Contains(read, id) {
					t.Errorf("row %d is read twice", id)
				}
			}
		}
	}
	if refused == 0 || some == 0 || all != len(queries) {
		t.Errorf("%d bounds refuse all neighbours, %d all but some, and %d none", refused, some, all)
	}
}

// TestLevelsOfSifting repeats the calibration of a graph that sifts with the searches that queries
// get: every level has nearly the recall, the number of nodes and the shares that it states. The
// outcomes of most easy trials are inferred.
func TestLevelsOfSifting(t *testing.T) {
	d, _ := make1("latent", middleDim, 1500, 0)
	for _, m := range []fileformat.Metric{fileformat.Cosine, fileformat.L2} {
		built, err := construct(t.Context(), d.ident(m), d.Source, Options{QuickSize: 1})
		if err != nil {
			t.Fatal(err)
		}
		g := built.Graph
		b, trials, score := trialsOf(t, g, d)
		b.easy = built.easy
		shared := [...][]int{{0, 1}, {0, 1}, {2}, {3}, {4}}
		for c, k := range levels.Results[:g.Columns()] {
			deep := b.trialsFor(trials, shared[c])
			ratios := 0
			for _, l := range g.Levels(c) {
				s := l.Setting(k, 1)
				if s.StopRatio > 0 {
					ratios++
				}
				err := b.each(len(deep), func(w *workerScratch, i int) error {
					_, stats, err := deep[i].query.Find(k, s, nil, &w.buf)
					if err != nil {
						return err
					}
					o := outcome{nodes: stats.Expanded}
					if o.found[c], err = deep[i].count(c, w, score); deep[i].isExact(c, &w.buf) {
						o.found[c] = 1
					}
					deep[i].whole = append(deep[i].whole[:0], o)
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				got := b.chooser(deep, c).Measure(s, func(t int) levels.Sample { return deep[t].whole[0].sample(c) })
				off := math.Abs(float64(got.Recall - l.Recall))
				for i, r := range got.Measured.Recall {
					off = max(off, math.Abs(float64(r-l.Measured.Recall[i])))
				}
				if off > 0.003 || math.Abs(float64(got.MeanNodes/l.MeanNodes)-1) > 0.04 || got.Measured.Poor != l.Measured.Poor {
					t.Errorf("metric %d, k %d, %v: %+v %+v, stated %+v %+v", m, k, s, got.Level, *got.Measured, l, *l.Measured)
				}
			}
			if len(g.Levels(c)) == 0 || k == 10 && ratios == 0 {
				t.Errorf("metric %d, k %d: %d levels, %d with a stopping ratio", m, k, len(g.Levels(c)), ratios)
			}
		}
	}
}

// trialsOf returns the trials that the calibration of g, a graph of d, has, with their true scores.
func trialsOf(t *testing.T, g *Graph, d *data) (*builder, []trial, scoreFunc) {
	b := newBuilder(t.Context(), g, 0)
	trials, err := b.trials(d.Source)
	if err != nil {
		t.Fatal(err)
	}
	return b, trials, func(t *trial, row uint32) (float64, error) {
		x := d.Row(int(row))
		return g.score(t, x, g.norm(x)), nil
	}
}
