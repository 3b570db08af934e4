package graph

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/formattest"
)

// nearestByCodes returns the k nearest rows of a query by their records, without a row.
func nearestByCodes(q *Query, k int, without uint32) []uint32 {
	ids := make([]uint32, 0, q.g.Len())
	for row := range uint32(q.g.Len()) {
		if row != without {
			ids = append(ids, row)
		}
	}
	dists := make([]float32, len(ids))
	q.g.measureL2(dists, &q.point, ids)
	at := make(map[uint32]float32, len(ids))
	for i, id := range ids {
		at[id] = dists[i]
	}
	slices.SortStableFunc(ids, func(a, b uint32) int { return cmp.Compare(at[a], at[b]) })
	return ids[:min(k, len(ids))]
}

// TestScanSketches: a scan that mistrusts every estimate finds the rows that a comparison with all
// records finds, each of a chain of duplicates once, and without the row that is left out.
func TestScanSketches(t *testing.T) {
	const k = 10
	s := Setting{EF: 1, Within: nobody, Beyond: Stage{Deviations: 1000}}
	for _, layout := range []uint32{plain, quick, shared, quickShared} {
		for _, m := range metrics {
			for _, dim := range []int{9, 64} {
				d := withDuplicates(331, dim) // not a multiple of the rows of a block
				g := d.graph(t, m, Options{layout: layout, quiet: true})
				var buf Buffer
				for _, row := range []int{0, 3, 100, 330} {
					for _, left := range []bool{false, true} {
						q := g.Query(d.row(row))
						without := uint32(none)
						if left {
							q.Without(row)
							without = uint32(row)
						}
						got, _, err := q.Find(k, s, nil, &buf)
						if err != nil {
							t.Fatal(err)
						}
						got = slices.Clone(got)
						want := nearestByCodes(q, len(got), without)
						slices.Sort(got)
						slices.Sort(want)
						dist := func(rows []uint32) []float32 { // rows at one distance may stand for each other
							dists := make([]float32, len(rows))
							g.measureL2(dists, &q.point, rows)
							slices.Sort(dists)
							return dists
						}
						if len(got) < k || len(slices.Compact(slices.Clone(got))) < len(got) ||
							slices.Contains(got, without) || !slices.Equal(dist(got), dist(want)) {
							t.Errorf("layout %d, %v, %d dimensions, row %d, left out: %v: %v, want %v", layout, m, dim, row,
								left, got, want)
						}
					}
				}
			}
		}
	}
}

// TestSketchScans: scans of sketches find what the calibration says, on average over each kind of
// trial.
func TestSketchScans(t *testing.T) {
	const c, k = 1, 10
	for _, layout := range []uint32{plain, quick} {
		d, _ := make1("clusters", 48, 6000, 0)
		g, err := create(t.Context(), d.ident(fileformat.Cosine), d.source, Options{quiet: true, layout: layout})
		if err != nil {
			t.Fatal(err)
		}
		b, trials, score := trialsOf(t, g, d)
		scans, err := b.sketchScans(trials, c, score)
		if err != nil {
			t.Fatal(err)
		}
		last := 0.0
		for _, scan := range scans {
			var stated, found [kinds]moments
			s := Setting{EF: k, Within: nobody, Beyond: Stage{Deviations: scan.deviations}}
			if err := b.each(len(trials), func(w *workerScratch, i int) error {
				_, _, err := trials[i].query.Find(k, s, nil, &w.buf)
				if err != nil {
					return err
				}
				share, err := trials[i].count(c, w, score)
				trials[i].whole = []outcome{{found: [len(calibrated)]float32{c: share}}}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			sum := 0.0
			for i := range trials {
				kind := trials[i].kind
				stated[kind].add(sample{found: scan.samples[i].found}, 1)
				found[kind].add(sampleOf(&trials[i].whole[0], c), 1)
				sum += float64(scan.samples[i].found)
			}
			for kind := range kinds {
				if n := found[kind].n; n > 0 && found[kind].sum < stated[kind].sum-0.001*n {
					t.Errorf("layout %d, %g deviations: %.4f of the rows found for kind %d, %.4f stated", layout,
						scan.deviations, found[kind].sum/n, kind, stated[kind].sum/n)
				}
			}
			mean := sum / float64(len(trials))
			if mean < last || mean < 0.5 || scan.deviations == 3 && mean < 0.99 {
				t.Errorf("layout %d, %g deviations: %.4f stated, %.4f with fewer", layout, scan.deviations, mean, last)
			}
			last = mean
		}
	}
}

// TestDeviations: estimates are off by the deviations that a scan reckons with, whatever the rows
// are like. With three, fewer than one row in two hundred is refused wrongly.
func TestDeviations(t *testing.T) {
	for _, name := range []string{"normal", "clusters", "latent"} {
		d, queries := make1(name, 96, 3000, 20)
		g, err := create(t.Context(), d.ident(fileformat.L2), d.source, Options{quiet: true})
		if err != nil {
			t.Fatal(err)
		}
		b := newBuilder(t.Context(), g, 1)
		w, first := b.workers[0], b.firstRows()
		for _, limit := range []struct {
			deviations float32
			most       float64 // share of rows that are refused although they are nearer
		}{{0, 0.6}, {1, 0.25}, {2, 0.05}, {3, 0.005}} {
			refused, n := 0.0, 0.0
			for _, vec := range queries {
				q := g.Query(vec)
				for row := uint32(0); row < uint32(g.Len()); row += 7 { // some rows tell
					w.ids = append(w.ids[:0], row)
					var dist [1]float32
					g.measureL2(dist[:], &q.point, w.ids)
					found, _ := q.passing(w, limit.deviations, dist[0], first)
					refused, n = refused+float64(1-found), n+1
				}
			}
			if refused/n > limit.most {
				t.Errorf("%s, %g deviations: %.4f of the rows are refused, %g at most", name, limit.deviations,
					refused/n, limit.most)
			}
		}
	}
}

// TestSketchesDamaged: a sketch that stands for no row is damage, which a search names.
func TestSketchesDamaged(t *testing.T) {
	d, queries := make1("normal", 24, 40, 1)
	g, err := create(t.Context(), d.ident(fileformat.L2), d.source, Options{quiet: true})
	if err != nil {
		t.Fatal(err)
	}
	copy(g.sketchBlocks(1, 2)[4*(60-degree):], []byte{0, 0, 0, 0}) // of row 60
	s := Setting{EF: 1, Within: nobody, Beyond: Stage{Deviations: 3}}
	_, _, err = g.Query(queries[0]).Find(10, s, nil, new(Buffer))
	if !errors.Is(err, fileformat.ErrDamaged) || !strings.Contains(err.Error(), "a sketch of row 60 of 40") {
		t.Error(err)
	}
}

// TestNoSketches: without sketches, in files of earlier versions and of very many dimensions, such
// a stage is left to a scan. Under a filter, it always is.
func TestNoSketches(t *testing.T) {
	s := Setting{EF: 5, Within: nobody, Beyond: Stage{Deviations: 3}}
	wide, queries := make1("normal", 5000, 40, 1)
	g := wide.graph(t, fileformat.L2, Options{quiet: true})
	if _, _, err := g.Query(queries[0]).Find(10, s, nil, new(Buffer)); !errors.Is(err, ErrBeyondHorizon) {
		t.Error(err)
	}
	d, queries := make1("normal", 24, 40, 1)
	g = d.graph(t, fileformat.L2, Options{quiet: true})
	allowed := make([]uint64, 1)
	allowed[0] = math.MaxUint64 >> 24
	if _, _, err := g.Query(queries[0]).Find(10, s, allowed, new(Buffer)); !errors.Is(err, ErrBeyondHorizon) {
		t.Error(err)
	}
}

// TestScanCancelled: a scan of sketches ends with its context.
func TestScanCancelled(t *testing.T) {
	d, queries := make1("normal", 8, 20_000, 1)
	g := d.graph(t, fileformat.L2, Options{quiet: true})
	s := Setting{EF: 1, Within: nobody, Beyond: Stage{Deviations: 3}}
	search := func(looks int) (left int, err error) {
		ctx := formattest.NewCountdown(t.Context(), looks)
		q := g.Query(queries[0])
		q.Heed(ctx)
		_, _, err = q.Find(10, s, nil, new(Buffer))
		return ctx.Left(), err
	}
	const many = 1000
	left, err := search(many)
	if err != nil || many-left < 20_000/(chunkBlocks*degree) {
		t.Fatalf("%d looks, %v", many-left, err)
	}
	if _, err := search(many - left - 1); err == nil {
		t.Error("the search has not ended with its context")
	}
}
