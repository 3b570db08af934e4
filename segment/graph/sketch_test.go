package graph

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/formattest"
	"github.com/vecbolt/vecbolt/internal/synthetic"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
)

// nearestByCodes returns the k nearest allowed rows of a query by their records, without a row.
func nearestByCodes(q *Query, k int, without uint32, allowed bitset.Set) []uint32 {
	ids := make([]uint32, 0, q.g.Len())
	for row := range uint32(q.g.Len()) {
		if row != without && (allowed == nil || allowed.Has(int(row))) {
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
// records finds, each of a chain of duplicates once, without the row that is left out, and only
// rows that a filter allows.
func TestScanSketches(t *testing.T) {
	const k, rows = 10, 331 // not a multiple of the rows of a block
	s := levels.Setting{EF: 1, Within: levels.AlwaysBeyond, Second: levels.Stage{Deviations: 1000}}
	odd := bitset.New(rows) // of duplicates, perhaps not the first
	for row := 1; row < rows; row += 2 {
		odd.Set(row)
	}
	for _, layout := range []uint32{plain, quick, shared, quickShared} {
		for _, m := range metrics {
			for _, dim := range []int{9, 64} {
				d := withDuplicates(rows, dim)
				g := d.graph(t, m, Options{layout: layout, quiet: true})
				var buf Buffer
				for _, row := range []int{0, 3, 100, 330} {
					far := bitset.New(rows) // without the neighbourhood of the query
					far.Fill(rows)
					for _, near := range nearestByCodes(g.Query(d.Row(row)), 200, none, nil) {
						far.Clear(int(near))
					}
					for _, allowed := range []bitset.Set{nil, odd, far} {
						for _, left := range []bool{false, true} {
							q := g.Query(d.Row(row))
							without := uint32(none)
							if left {
								q.Without(row)
								without = uint32(row)
							}
							got, _, err := q.Find(k, s, allowed, &buf)
							if err != nil {
								t.Fatal(err)
							}
							got = slices.Clone(got)
							want := nearestByCodes(q, len(got), without, allowed)
							slices.Sort(got)
							slices.Sort(want)
							dist := func(rows []uint32) []float32 { // rows at one distance may stand for each other
								dists := make([]float32, len(rows))
								g.measureL2(dists, &q.point, rows)
								slices.Sort(dists)
								return dists
							}
							if len(got) < k || len(slices.Compact(slices.Clone(got))) < len(got) ||
								slices.Contains(got, without) || !slices.Equal(dist(got), dist(want)) ||
								allowed != nil && slices.ContainsFunc(got, func(row uint32) bool { return !allowed.Has(int(row)) }) {
								t.Errorf("layout %d, %v, %d dimensions, row %d, %d allowed, left out: %v: %v, want %v", layout, m,
									dim, row, allowed.Count(), left, got, want)
							}
						}
					}
				}
			}
		}
	}
}

// TestScanForManyResults: a scan for many results reads few records beside those of the rows that
// it finds, though the walk before it found few of these.
func TestScanForManyResults(t *testing.T) {
	const k, rows, queries = 500, 9000, 5
	d, vecs := make1("clusters", 64, rows, queries)
	s := levels.Setting{EF: 1, Within: levels.AlwaysBeyond, Second: levels.Stage{Deviations: 0.5}}
	most := bitset.New(rows)
	for row := range rows {
		if row%10 > 0 {
			most.Set(row)
		}
	}
	for _, layout := range []uint32{plain, quick} {
		g := d.graph(t, fileformat.L2, Options{layout: layout, quiet: true})
		var buf Buffer
		for _, allowed := range []bitset.Set{nil, most} {
			found, read := 0, 0
			for _, vec := range vecs {
				q := g.Query(vec)
				got, stats, err := q.Find(k, s, allowed, &buf)
				if err != nil {
					t.Fatal(err)
				}
				for _, row := range nearestByCodes(q, k, none, allowed) {
					if slices.Contains(got, row) {
						found++
					}
				}
				read += stats.Estimated
			}
			if found < queries*k*97/100 || read > 4*queries*rescored(k) {
				t.Errorf("layout %d, filter %t: %d of %d found, %d records read", layout, allowed != nil, found, queries*k, read)
			}
		}
	}
}

// TestScanSetting: a scan of sketches keeps its promise under filters, whether these are
// independent of the query or exclude its neighbourhood, for rows like those of the graph and for
// others.
func TestScanSetting(t *testing.T) {
	const k = 10
	for _, set := range []struct {
		layout    uint32
		dim, rows int
		metrics   []fileformat.Metric
	}{{plain, 160, 12_000, []fileformat.Metric{fileformat.Cosine, fileformat.Dot}}, {quick, quickDim, 6000, []fileformat.Metric{fileformat.L2}}} {
		layout, rows := set.layout, set.rows
		for _, m := range set.metrics {
			d, queries := make1("clusters", set.dim, rows, 60)
			g := d.graph(t, m, Options{layout: layout, Planned: true})
			for i := range 60 { // between two rows
				x, y := d.Row(i), d.Row(rows-1-i)
				mean := make([]float32, len(x))
				for j := range mean {
					mean[j] = (x[j] + y[j]) / 2
				}
				queries = append(queries, mean)
			}
			near := make([][]uint32, len(queries))
			for i := 1; i < len(queries); i += 2 {
				near[i] = nearestByCodes(g.Query(queries[i]), 300, none, nil)
			}
			r := rand.New(rand.NewPCG(7, uint64(m)))
			type question struct {
				allowed bitset.Set
				truth   []Hit
			}
			shares := []float64{0.9, 0.4, 0.05}
			asked := make([][]question, len(shares)) // of every query
			for at, share := range shares {
				for i, vec := range queries {
					allowed := bitset.New(rows)
					for row := range rows {
						if r.Float64() < share {
							allowed.Set(row)
						}
					}
					for _, row := range near[i] {
						allowed.Clear(int(row))
					}
					asked[at] = append(asked[at], question{allowed, exact(m, d, vec, k, allowed)})
				}
			}
			var buf Buffer
			for _, recall := range []float64{0.8, 0.9, 0.95, 0.99} {
				s, ok := g.ScanSetting(recall, k)
				if !ok {
					if recall <= 0.95 { // above, 8 bits may not tell which rows are nearest
						t.Errorf("layout %d, %v: no scan of sketches for %g", layout, m, recall)
					}
					continue
				}
				for at, share := range shares {
					found, all := 0, 0
					for i, vec := range queries {
						q, about := g.Query(vec), asked[at][i]
						q.Guard(k, s, about.allowed.Count())
						hits, _, err := q.Search(k, s, about.allowed, d.scorer(m, vec), &buf)
						if errors.Is(err, ErrBeyondHorizon) || errors.Is(err, ErrFar) { // the caller scans
							continue
						}
						if err != nil {
							t.Fatal(err)
						}
						found, all = found+common(hits, about.truth), all+k
					}
					deviation := math.Sqrt(recall * (1 - recall) / float64(all))
					if got := float64(found) / float64(all); all < len(queries)*k/3 || got < recall-2*deviation {
						t.Errorf("layout %d, %v, %.0f %% allowed: %v finds %.3f of %d, promised %g", layout, m, 100*share, s, got, all, recall)
					}
				}
			}
		}
	}
}

// TestScanKeepsWalked: before a scan under a filter, the walk keeps mostWalked times the rows that
// will be scored, if it meets as many.
func TestScanKeepsWalked(t *testing.T) {
	d, queries := make1("latent", quickDim, 8000, 20)
	g := d.graph(t, fileformat.Cosine, Options{quiet: true, layout: plain})
	some := bitset.New(d.Len())
	for row := 0; row < d.Len(); row += 4 {
		some.Set(row)
	}
	var buf Buffer
	for _, k := range []int{1, 10, 100} {
		for i, vec := range queries {
			s := levels.Setting{Within: levels.AlwaysBeyond, Second: levels.Stage{Deviations: 2}}
			if _, _, err := g.Query(vec).Find(k, s, some, &buf); err != nil {
				t.Fatal(err)
			}
			if got, want := len(buf.sketch.found), mostWalked*rescored(k); got != want && (k < 100 || got <= inRegisters) {
				t.Errorf("k %d, query %d: the walk left %d rows, want %d", k, i, got, want)
			}
		}
	}
}

// TestScanHorizon: under a filter that moves the last row beyond the horizon of the calibration, a
// query that is beyond it is left to a scan of the rows. One near rows that are excluded is not.
func TestScanHorizon(t *testing.T) {
	const rows, k = 12_000, 10
	d, queries := make1("clusters", 160, rows, 1)
	g := d.graph(t, fileformat.L2, Options{Planned: true})
	s, ok := g.ScanSetting(0.9, k)
	if !ok {
		t.Fatal("no scan of sketches")
	}
	g.head.horizons[1] = 2 // between the rows of a cluster and those of others
	search := func(vec []float32) (Stats, error) {
		q := g.Query(vec)
		some := bitset.New(rows)
		for row := 0; row < rows; row += 100 {
			some.Set(row)
		}
		q.Guard(k, s, some.Count())
		var buf Buffer
		_, stats, err := q.Find(k, s, some, &buf)
		if horizon := g.horizon(k, k); len(buf.dists) < k || buf.dists[k-1] <= horizon {
			t.Errorf("the last row is at %v, not beyond the horizon at %g", buf.dists, horizon)
		}
		return stats, err
	}
	if _, err := search(queries[0]); err != nil {
		t.Error(err)
	}
	away := slices.Clone(queries[0])
	for i := range away {
		away[i] = 100 * (1 + away[i])
	}
	// The scan for rows within the horizon counts too.
	if stats, err := search(away); !errors.Is(err, ErrBeyondHorizon) || stats.Sketched != 2*rows {
		t.Errorf("%+v, %v", stats, err)
	}
}

// TestSketchScans: scans of sketches find what the calibration says, on average over each kind of
// trial.
func TestSketchScans(t *testing.T) {
	const c, k = 1, 10
	for _, layout := range []uint32{plain, quick} {
		d, _ := make1("clusters", 48, 6000, 0)
		g := d.created(t, fileformat.Cosine, Options{quiet: true, layout: layout})
		b, trials, score := trialsOf(t, g, d)
		b.planned = true
		if err := b.scanTrials(trials, score); err != nil {
			t.Fatal(err)
		}
		scans := b.sketchScans(trials, c)
		last := 0.0
		for _, scan := range scans {
			var stated, found [synthetic.Kinds]answered
			s := levels.Setting{EF: k, Within: levels.AlwaysBeyond, Second: levels.Stage{Deviations: scan.Deviations}}
			if err := b.each(len(trials), func(w *workerScratch, i int) error {
				_, _, err := trials[i].query.Find(k, s, nil, &w.buf)
				if err != nil {
					return err
				}
				share, err := trials[i].count(c, w, score)
				trials[i].whole = []outcome{{found: [levels.Columns]float32{c: share}}}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			sum := 0.0
			for i := range trials {
				kind := trials[i].kind
				stated[kind].add(scan.Samples[i].Found)
				found[kind].add(trials[i].whole[0].found[c])
				sum += float64(scan.Samples[i].Found)
			}
			for kind := range synthetic.Kinds {
				if n := found[kind].n; n > 0 && found[kind].sum < stated[kind].sum-0.001*n {
					t.Errorf("layout %d, %g deviations: %.4f of the rows found for kind %d, %.4f stated", layout,
						scan.Deviations, found[kind].sum/n, kind, stated[kind].sum/n)
				}
			}
			mean := sum / float64(len(trials))
			if mean < last || mean < 0.5 || scan.Deviations == 3 && mean < 0.99 {
				t.Errorf("layout %d, %g deviations: %.4f stated, %.4f with fewer", layout, scan.Deviations, mean, last)
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
		g := d.created(t, fileformat.L2, Options{quiet: true})
		b := newBuilder(t.Context(), g, 1)
		w, first := b.workers[0], b.firstRows()
		for _, limit := range []struct {
			deviations float32
			most       float64 // share of rows that are refused although they are nearer
		}{{1, 0.25}, {2, 0.05}, {3, 0.005}} {
			at := slices.Index(levels.Deviations[:], limit.deviations)
			refused, n := 0.0, 0.0
			for _, vec := range queries {
				q := g.Query(vec)
				for row := uint32(0); row < uint32(g.Len()); row += 7 { // some rows tell
					w.ids = append(w.ids[:0], row)
					var dist [1]float32
					g.measureL2(dist[:], &q.point, w.ids)
					found, _ := q.passing(w, dist[0], first)
					refused, n = refused+float64(1-found[at]), n+1
				}
			}
			if refused/n > limit.most {
				t.Errorf("%s, %g deviations: %.4f of the rows are refused, %g at most", name, limit.deviations,
					refused/n, limit.most)
			}
		}
	}
}

// TestSketchesDamaged: a sketch that stands for no row is damage, which a search names: without a
// filter, under one, and where it looks for rows within the horizon.
func TestSketchesDamaged(t *testing.T) {
	d, queries := make1("normal", 24, 40, 1)
	even := bitset.New(40)
	for row := 0; row < 40; row += 2 {
		even.Set(row)
	}
	for _, c := range []struct {
		name    string
		allowed bitset.Set
		horizon float32
		factor  float32 // of row 60
	}{
		{"no filter", nil, 0, 0},
		{"filter", even, 0, 0},
		{"far sketch", nil, 0, -1e6},
		{"horizon", even, 1e-3, -1e6},
	} {
		g := d.created(t, fileformat.L2, Options{quiet: true})
		g.head.horizons[1] = c.horizon
		binary.LittleEndian.PutUint32(g.sketchBlocks(1, 2)[4*(60-degree):], math.Float32bits(c.factor))
		s := levels.Setting{EF: 1, Within: levels.AlwaysBeyond, Second: levels.Stage{Deviations: 3}}
		q := g.Query(queries[0])
		q.Guard(10, s, 20)
		_, _, err := q.Find(10, s, c.allowed, new(Buffer))
		if !errors.Is(err, fileformat.ErrDamaged) || !strings.Contains(err.Error(), "a sketch of row 60 of 40") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestNoSketches: without sketches, in files of earlier versions and of very many dimensions, such
// a stage is left to a scan of the rows, with a filter and without.
func TestNoSketches(t *testing.T) {
	d, queries := make1("normal", 5000, 40, 1)
	g := d.graph(t, fileformat.L2, Options{quiet: true})
	allowed := bitset.New(40)
	allowed.Fill(16)
	var buf Buffer
	if rows, _, err := g.Query(queries[0]).Find(10, levels.Setting{EF: 10}, nil, &buf); err != nil || len(rows) < 10 {
		t.Fatal(rows, err)
	}
	for _, within := range []float32{levels.AlwaysBeyond, 1} {
		for _, filter := range []bitset.Set{nil, allowed} {
			s := levels.Setting{EF: 5, Within: within, Second: levels.Stage{Deviations: 3}}
			rows, stats, err := g.Query(queries[0]).Find(10, s, filter, &buf)
			want, walks := ErrBeyondHorizon, within != levels.AlwaysBeyond
			if walks && filter != nil {
				want = ErrBetween
			}
			if !errors.Is(err, want) {
				t.Errorf("within %g, %d allowed: %v", within, filter.Count(), err)
			}
			if len(rows) > 0 != (want == ErrBetween) || (stats != Stats{}) != walks {
				t.Errorf("within %g, %d allowed: rows %v and %+v, of an earlier search", within, filter.Count(), rows, stats)
			}
		}
	}
}

// TestScanCancelled: a scan of sketches ends with its context.
func TestScanCancelled(t *testing.T) {
	d, queries := make1("normal", 8, 20_000, 1)
	g := d.graph(t, fileformat.L2, Options{quiet: true})
	s := levels.Setting{EF: 1, Within: levels.AlwaysBeyond, Second: levels.Stage{Deviations: 3}}
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
