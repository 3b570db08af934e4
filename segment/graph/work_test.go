package graph

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
)

// TestWork compares the distances that Work expects with those that searches estimate, among rows
// whose nodes share few of their neighbours or many.
func TestWork(t *testing.T) {
	const rows, queries, tolerance = 6000, 60, 1.3
	r := rand.New(rand.NewPCG(31, 32))
	noise := &data{vectors{Dim: 24, Vecs: normal(r, 24*(rows+queries), 1)}}
	for name, all := range map[string]*data{"clusters": lowRankData(rows+queries, 64), "noise": noise} {
		t.Run(name, func(t *testing.T) {
			d := &data{vectors{Dim: all.Dim, Vecs: all.Vecs[:rows*all.Dim]}}
			g := d.graph(t, fileformat.Cosine, Options{layout: plain})
			var buf Buffer
			for _, ef := range []int{12, 30, 100, 400, 2000} {
				s := levels.Setting{EF: ef}
				sum := 0
				for i := range queries {
					_, stats, err := g.Query(all.Row(rows+i)).Find(1, s, nil, &buf)
					if err != nil {
						t.Fatal(err)
					}
					sum += stats.Estimated
				}
				got, want := g.Work(s, rows), float64(sum)/queries
				if math.Abs(math.Log(got/want)) > math.Log(tolerance) {
					t.Errorf("ef %d: %.0f distances expected, %.0f estimated", ef, got, want)
				}
			}
		})
	}
}

// TestMeasureWork: one worker measures what many do, yields to others, and heeds the context.
func TestMeasureWork(t *testing.T) {
	const rows, dim = 600, 24
	d := &data{vectors{Dim: dim, Vecs: normal(rand.New(rand.NewPCG(33, 34)), dim*rows, 1)}}
	for _, layout := range []uint32{plain, quick} {
		g := d.created(t, fileformat.L2, Options{layout: layout})
		want := g.head.work
		if measured := want[0] != (walkWork{}); measured != (layout == plain) {
			t.Errorf("layout %d: %v measured", layout, want)
		}
		yields := 0
		ctx, cancel := context.WithCancel(t.Context())
		b := newBuilder(ctx, g, 1)
		b.yield = func() { yields++ }
		trials, err := b.trials(d.Source)
		if err != nil {
			t.Fatal(err)
		}
		yields, b.workers[0].rested = 0, time.Time{}
		if err := b.measureWork(trials); err != nil || g.head.work != want {
			t.Errorf("layout %d: %v after %v, %v", layout, g.head.work, want, err)
		}
		if yields == 0 {
			t.Errorf("layout %d: no yield", layout)
		}
		if cancel(); !errors.Is(b.measureWork(trials), context.Canceled) {
			t.Errorf("layout %d: measured after the end of the context", layout)
		}
	}
}

// TestPriceUnderFilter: a search costs no less under a filter than without one, and no less of more
// rows, in every layout.
func TestPriceUnderFilter(t *testing.T) {
	for _, layout := range []uint32{plain, quick, shared, quickShared} {
		for _, dim := range []int{1, 100, 200, 384, 768, 1536, codes.MaxDim} {
			least := [2]float64{}
			for rows := 1; rows <= 1<<30; rows += 1 + rows/2 {
				g := &Graph{head: header{layout: layout, ident: codes.Ident{Rows: rows, Dim: dim}}}
				free, filtered := g.Price(1000, 10, false), g.Price(1000, 10, true)
				if !(filtered >= free) {
					t.Errorf("layout %d, %d rows of dimension %d: %g under a filter, %g without", layout, rows, dim, filtered, free)
				}
				if free < least[0] || filtered < least[1] {
					t.Errorf("layout %d, %d rows of dimension %d: %g and %g, of fewer rows %v", layout, rows, dim, free, filtered, least)
				}
				least = [2]float64{free, filtered}
			}
		}
	}
}

// TestCostOfScan: a scan under a filter reads the sketches and scores the rows found, however few
// rows the filter allows. Only the rows that pass beside excluded ones become more.
func TestCostOfScan(t *testing.T) {
	g := &Graph{head: header{layout: quick, ident: codes.Ident{Rows: 100_000, Dim: 384}}}
	s := levels.Setting{EF: levels.FirstEF, Within: levels.AlwaysBeyond, Second: levels.Stage{Deviations: 2}}
	scan := g.SketchPrice(g.Len()) / (degree * g.estimatePrice())
	s.UsualNodes = scan // none passes
	all, few := g.Cost(s, 100, g.Len(), true), g.Cost(s, 100, 10, true)
	if math.Abs(few/all-1) > 1e-3 {
		t.Errorf("the cost is %g where all rows are allowed, %g where ten are", all, few)
	}
	s.UsualNodes = 1.1 * scan
	if more, most := g.Cost(s, 100, 1000, true), g.Cost(s, 100, 10, true); !(more > few && most > more) {
		t.Errorf("costs %g where no row passes, %g and %g with ever fewer allowed", few, more, most)
	}
}

// TestWalked: wider walks have more expansions and meet more rows, but not all.
func TestWalked(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		narrower []walkWork
		w        walkWork
		ok       bool
	}{
		{nil, walkWork{}, true},
		{nil, walkWork{10, 90}, true},
		{nil, walkWork{10, 100}, false}, // all rows
		{nil, walkWork{101, 90}, false},
		{nil, walkWork{0, 90}, false},
		{nil, walkWork{10, nan}, false},
		{nil, walkWork{nan, 90}, false},
		{nil, walkWork{-1, -1}, false},
		{[]walkWork{{10, 50}}, walkWork{20, 60}, true},
		{[]walkWork{{10, 50}}, walkWork{20, 50}, false},
		{[]walkWork{{10, 50}}, walkWork{10, 60}, false},
		{[]walkWork{{10, 50}}, walkWork{}, true},
		{[]walkWork{{}}, walkWork{20, 60}, false},
	} {
		if got := c.w.follows(c.narrower, 100); got != c.ok {
			t.Errorf("%v behind %v: %v", c.w, c.narrower, got)
		}
		h := header{}
		h.work[0] = c.w
		g := &Graph{head: h}
		g.head.ident.Rows, g.head.ident.Dim = 100, 4
		if work := g.Work(levels.Setting{EF: 30}, 100); c.ok && len(c.narrower) == 0 && !(work > 0 && work <= 100) {
			t.Errorf("%v: %v distances", c.w, work)
		}
	}
	g := &Graph{}
	g.head.ident.Rows, g.head.ident.Dim = 100, 4
	copy(g.head.work[:], []walkWork{{10, 20}, {50, 60}})
	last := 0.0
	for _, ef := range []int{1, 5, 10, 30, 50, 100} {
		work := g.Work(levels.Setting{EF: ef}, 100)
		if !(work > last && work <= 100) {
			t.Errorf("%d expansions: %v distances after %v", ef, work, last)
		}
		last = work
	}
	if at := g.Work(levels.Setting{EF: 50}, 100); fmt.Sprintf("%.3f", at) != "60.000" {
		t.Errorf("%v distances where 60 were measured", at)
	}
}
