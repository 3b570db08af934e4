package graph

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
	"github.com/vecbolt/vecbolt/simd"
)

// TestStages: a search of two stages is the first one if that finds rows near the query that are
// not near each other, and otherwise the second one, without more work than that, or in the quick
// layout with the work of both. Under a filter it is the first one too, and where the second would
// follow, it is an error.
func TestStages(t *testing.T) {
	for _, set := range []struct {
		layout uint32
		dim    int
	}{{plain, 24}, {shared, 24}, {quick, 160}, {quick, quickDim}, {quickShared, 160}, {quickShared, quickDim}} {
		layout := set.layout
		d, queries := make1("latent", set.dim, 2000, 30)
		g := d.graph(t, fileformat.L2, Options{quiet: true, layout: layout})
		half := bitset.New(d.Len())
		for i := 0; i < d.Len(); i += 2 {
			half.Set(i)
		}
		narrow, wide := levels.Setting{EF: 12, StopRatio: 1.1}, levels.Setting{EF: 150, StopRatio: 1.5}
		type answer struct {
			rows  []uint32
			stats Stats
			err   error
		}
		for i, vec := range queries {
			q := g.Query(vec)
			find := func(s levels.Setting, allowed bitset.Set) (answer, float32) {
				var buf Buffer
				rows, stats, err := q.Find(10, s, allowed, &buf)
				dist, _ := q.found(&buf).within(10)
				return answer{rows, stats, err}, dist
			}
			first, last := find(narrow, nil)
			second, _ := find(wide, nil)
			filtered, lastOfHalf := find(narrow, half)
			both := narrow
			both.Within, both.Second = last, wide.First()
			near, _ := find(both, nil)
			var buf Buffer
			if _, _, err := q.Find(10, narrow, nil, &buf); err != nil {
				t.Fatal(err)
			}
			spread := q.spread(&buf)
			both.Spread = spread
			spreadOut, _ := find(both, nil)
			both.Spread = math.Nextafter32(spread, math.MaxFloat32)
			between, _ := find(both, nil)
			both.Within, both.Spread = math.Nextafter32(last, 0), 0
			far, _ := find(both, nil)
			if g.Quick() {
				second.stats.Expanded += first.stats.Expanded
				second.stats.Estimated += first.stats.Estimated
			}
			for _, c := range []struct {
				name      string
				got, want answer
			}{{"near", near, first}, {"far", far, second}, {"spread out", spreadOut, first}, {"between", between, second}} {
				if !reflect.DeepEqual(c.got, c.want) || c.got.err != nil {
					t.Errorf("%+v, query %d, %s: %+v, want %+v", set, i, c.name, c.got, c.want)
				}
			}
			both.Second = levels.Stage{}
			scan, _ := find(both, nil)
			both.Within = last
			near, _ = find(both, nil)
			if scan.err != ErrBeyondHorizon || !reflect.DeepEqual(near, first) {
				t.Errorf("%+v, query %d, with a scan for far queries: far %v, near %+v, want %+v", set, i, scan.err, near, first)
			}
			both.Within = lastOfHalf
			near, _ = find(both, half)
			both.Spread = math.MaxFloat32
			between, _ = find(both, half)
			both.Within, both.Spread = math.Nextafter32(lastOfHalf, 0), 0
			far, _ = find(both, half)
			if !reflect.DeepEqual(near, filtered) || between.err != ErrBetween || far.err != ErrBetween {
				t.Errorf("%+v, query %d, under a filter: near %+v, want %+v; between %v, far %v", set, i, near, filtered,
					between.err, far.err)
			}
		}
	}
}

// TestSpread compares the spread with one computed from the points of the records, for rows around
// a query, and on one side of it.
func TestSpread(t *testing.T) {
	for _, set := range walks {
		r := rand.New(rand.NewPCG(3, 4))
		side := normal(r, set.dim, 1)
		d := &data{vectors{Dim: set.dim}}
		for i := range 600 {
			v := normal(r, set.dim, 0.1)
			if i%2 == 0 {
				for j := range v {
					v[j] += side[j]
				}
			}
			d.Vecs = append(d.Vecs, v...)
		}
		g := d.graph(t, fileformat.L2, Options{quiet: true, layout: set.layout})
		point := func(e simd.Neighbour) []float32 {
			p := make([]float32, set.dim)
			coded, tail := g.parts(e.ID &^ simd.Marked)
			scale, _ := numbers(tail)
			for i := range p {
				p[i] = scale * float32(int(coded[i])-128)
			}
			return p
		}
		beside := make([]float32, set.dim) // and the rows at side are behind those around zero
		for i := range beside {
			beside[i] = -side[i]
		}
		for _, c := range []struct {
			name     string
			query    []float32
			from, to float64
		}{{"around", make([]float32, set.dim), 0.9, 3}, {"on one side", beside, 0, 0.3}} {
			q := g.Query(c.query)
			var buf Buffer
			if _, _, err := q.Find(10, levels.Setting{EF: 40}, nil, &buf); err != nil {
				t.Fatal(err)
			}
			found := q.found(&buf).rows[:levels.SpreadRows]
			wide, far := 0.0, 0.0
			for _, e := range found[1:] {
				wide += simd.L264(point(found[0]), point(e))
				far += float64(e.Dist)
			}
			got := float64(q.spread(&buf))
			if math.Abs(got-wide/far) > 1e-3*got || got < c.from || got > c.to {
				t.Errorf("%+v, %s: spread %g, want %g, from %g to %g", set, c.name, got, wide/far, c.from, c.to)
			}
		}
	}
	d := &data{vectors{Dim: 2, Vecs: []float32{0, 0, 1, 1}}}
	q := d.graph(t, fileformat.L2, Options{quiet: true}).Query(d.Row(0))
	var buf Buffer
	if _, _, err := q.Find(1, levels.Setting{EF: 1}, nil, &buf); err != nil {
		t.Fatal(err)
	}
	if got := q.spread(&buf); got != 0 {
		t.Errorf("the spread of one row is %g", got)
	}
}

// TestStageOfFewRows: with fewer rows than the first stage asks about, a search has its second one.
func TestStageOfFewRows(t *testing.T) {
	d, queries := make1("latent", 24, 6, 1)
	g := d.graph(t, fileformat.L2, Options{quiet: true})
	s := levels.Setting{EF: 1, Within: math.MaxFloat32, Second: levels.Stage{EF: 20}}
	rows, _, err := g.Query(queries[0]).Find(5, s, nil, new(Buffer))
	if err != nil || len(rows) < 5 {
		t.Errorf("rows %v, %v", rows, err)
	}
}

// TestStagedLevels: levels of two stages state what searches do, whatever the second stage is.
func TestStagedLevels(t *testing.T) {
	const c, k = 1, 10
	staged, bounded := map[string]int{}, 0 // by the second stage; with a bound on the spread
	for _, set := range []struct {
		name      string
		dim, rows int
		layout    uint32
		sketched  bool
	}{{"normal", 24, 3000, plain, false}, {"clusters", 48, 8000, plain, false}, {"clusters", quickDim, 2500, quick, false},
		{"clusters", 48, 8000, plain, true}, {"clusters", middleDim, 2500, quick, true}} {
		d, _ := make1(set.name, set.dim, set.rows, 0)
		o := Options{Planned: true, layout: set.layout, unsketched: !set.sketched}
		g := d.created(t, fileformat.Cosine, o)
		g.extent.Store(&extent{}) // trials are measured without
		b, trials, score := trialsOf(t, g, d)
		trials = slices.DeleteFunc(trials, func(t trial) bool { return b.outside(&t, []int{0, 1}) })
		scanNodes := int(b.chooser(trials, c).ScanNodes())
		n, off := 0, 0.02
		if g.rough() { // easy trials are inferred
			off = 0.05
		}
		for _, l := range g.Levels(c) {
			if l.Within == 0 {
				continue
			}
			scan, sketches := l.Second == levels.Stage{}, l.Second.Deviations > 0
			switch {
			case scan:
				staged["scan"]++
			case sketches:
				staged["sketches"]++
			default:
				staged["walk"]++
			}
			if l.Spread > 0 {
				bounded++
			}
			n++
			if err := b.each(len(trials), func(w *workerScratch, i int) error {
				t := &trials[i]
				_, stats, err := t.query.Find(k, l.Setting(k, 1), nil, &w.buf)
				o := outcome{nodes: stats.Expanded}
				if scan && errors.Is(err, ErrBeyondHorizon) {
					o.nodes, o.found[c] = o.nodes+scanNodes, 1
					err = nil
				} else if err == nil {
					if o.found[c], err = t.count(c, w, score); t.isExact(c, &w.buf) {
						o.found[c] = 1
					}
				}
				t.whole = append(t.whole[:0], o)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			got := b.chooser(trials, c).Measure(levels.Setting{}, func(t int) levels.Sample { return trials[t].whole[0].sample(c) })
			// Where a ratio ends a walk, the calibration counts the rows of the narrowest beam, so
			// searches find no less.
			// What a scan of the sketches costs is not in the expansions.
			other := !sketches && (math.Abs(float64(got.MeanNodes/l.MeanNodes-1)) > off || math.Abs(float64(got.UsualNodes/l.UsualNodes-1)) > off)
			if got.Recall < l.Recall-0.005 || other {
				t.Errorf("%s, %v: recall %.4f, %.1f nodes and %.1f of rows, stated %.4f, %.1f and %.1f", set.name,
					l.Setting(k, 1), got.Recall, got.MeanNodes, got.UsualNodes, l.Recall, l.MeanNodes, l.UsualNodes)
			}
		}
		if n == 0 {
			t.Errorf("%+v: no level of two stages", set)
		}
	}
	if len(staged) < 3 || bounded == 0 {
		t.Errorf("levels by the second stage: %v; with a bound on the spread: %d", staged, bounded)
	}
}

// TestScanBesideWalk: where one column of the calibration has a whole scan and the other one a
// walk, a setting for both walks as far, scans, and costs as much as both.
func TestScanBesideWalk(t *testing.T) {
	const rows, k = 3000, 10
	d, queries := make1("normal", 24, rows, 1)
	for _, layout := range []uint32{plain, quick} {
		g := d.graph(t, fileformat.L2, Options{layout: layout, quiet: true})
		walk := levels.Level{EF: 200, StopRatio: 1.5, Recall: 0.99, MeanNodes: 150, UsualNodes: 150}
		staged := levels.Level{EF: 200, StopRatio: 1.5, Recall: 0.99, MeanNodes: 150, UsualNodes: 150, Within: 1,
			Second: levels.Stage{Deviations: 2}}
		scan := levels.Level{EF: levels.FirstEF, Recall: 0.99, MeanNodes: 90, UsualNodes: 90, Within: levels.AlwaysBeyond, Second: levels.Stage{Deviations: 1}}
		for _, c := range []struct {
			name       string
			one, ten   levels.Level
			deviations float32
			whole      bool
		}{
			{"walk, scan", walk, scan, 1, false},
			{"scan, walk", scan, walk, 1, false},
			{"two stages, scan", staged, scan, 2, false},
			{"scan, two stages", scan, staged, 2, false},
			{"scan, scan", scan, scan, 1, true},
		} {
			g.Table = levels.NewTable([levels.Columns][]levels.Level{{c.one}, {c.ten}})
			s, ok := g.SettingUpTo(0.99, k, levels.NoFilter)
			_, stats, err := g.Query(queries[0]).Find(k, s, nil, new(Buffer))
			if !ok || err != nil {
				t.Fatalf("layout %d, %s: %v, %v, %v", layout, c.name, s, ok, err)
			}
			name, nodes, least := fmt.Sprintf("a scan of sketches, %g deviations", c.deviations), 90.0, 1
			if !c.whole {
				name, nodes, least = "ef 200, stop ratio 1.5, then "+name, 240, 50
			}
			if s.String() != name || s.Scans() != c.whole || s.Expansions() != nodes || s.Second.Deviations != c.deviations {
				t.Errorf("layout %d, %s: %v with %g nodes, want %s with %g", layout, c.name, s, s.Expansions(), name, nodes)
			}
			if stats.Sketched != rows || stats.Expanded < least {
				t.Errorf("layout %d, %s: %+v", layout, c.name, stats)
			}
		}
	}
}

// TestTimesOfScan: a whole scan with more deviations looks at the same rows, so it costs about as
// much, with a filter and without. A walk costs more.
func TestTimesOfScan(t *testing.T) {
	const rows, k = 3000, 10
	d, _ := make1("normal", 24, rows, 0)
	g := d.graph(t, fileformat.L2, Options{quiet: true})
	scan := levels.Level{EF: levels.FirstEF, Recall: 0.99, UsualNodes: 300, Within: levels.AlwaysBeyond, Second: levels.Stage{Deviations: 1}}
	walk := levels.Level{EF: 300, Recall: 0.99, UsualNodes: 300}
	for _, allowed := range []int{rows, rows / 2, rows / 50} {
		cost := func(l levels.Level, times float64) float64 {
			return g.Cost(l.Setting(k, 1).Times(times), k, allowed, allowed < rows)
		}
		if one, two := cost(scan, 1), cost(scan, 2); two > 1.1*one {
			t.Errorf("%d allowed: %g, and %g with twice the deviations", allowed, one, two)
		}
		if one, two := cost(walk, 1), cost(walk, 2); allowed == rows && two < 1.1*one {
			t.Errorf("a walk costs %g, and %g if it goes twice as far", one, two)
		}
	}
	if s := scan.Setting(k, 1).Times(2); !s.Scans() || s.Second.Deviations != 2 {
		t.Errorf("%v", s)
	}
}

// TestBetweenSmallGroups: what lies between two of a few small groups gets the recall asked for,
// though such queries are few among any kind of trials: a level of one stage, which trials chose,
// finds 0.81 of ten where 0.90 is asked. Other queries pay little.
func TestBetweenSmallGroups(t *testing.T) {
	const dim, rows, groups, each, k, recall = 48, 6000, 6, 60, 10, 0.9
	d, like := make1("latent", dim, rows, 100)
	r := rand.New(rand.NewPCG(1, dim))
	var centres [groups][]float32
	for i := range centres {
		centres[i] = slices.Clone(d.Row(r.IntN(rows)))
	}
	for _, centre := range centres {
		for range each {
			d.Vecs = append(d.Vecs, near(r, centre, 0.01)...)
		}
	}
	g := d.created(t, fileformat.Cosine, Options{Planned: true, layout: plain})
	between := func() []float32 {
		at := r.IntN(groups)
		x, y := near(r, centres[at], 0.01), near(r, centres[(at+1+r.IntN(groups-1))%groups], 0.01)
		for i := range x {
			x[i] = (x[i] + y[i]) / 2
		}
		return x
	}
	s := keepsRecall(t, g, d, fileformat.Cosine, k, recall, between)
	var buf Buffer
	sketched := 0
	for _, vec := range like {
		_, stats, err := g.Query(vec).Find(k, s, nil, &buf)
		if err != nil {
			t.Fatal(err)
		}
		sketched += min(stats.Sketched, 1)
	}
	if sketched > len(like)/20 {
		t.Errorf("%v: %d of %d searches like the rows scan sketches", s, sketched, len(like))
	}
	one, ok := g.Setting(recall, k, levels.AnyFilter)
	if !ok || one.Within > 0 || one.Spread != s.Spread || one.Second != (levels.Stage{}) {
		t.Fatalf("under a filter: %v, %v", one, ok)
	}
	allowed := bitset.New(d.Len())
	for row := range d.Len() {
		if r.IntN(2) == 0 {
			allowed.Set(row)
		}
	}
	// search walks. Where the query may lie between groups, a scan of the rows follows.
	search := func(vec []float32) (found int, scanned bool) {
		rows, _, err := g.Query(vec).Find(k, one, allowed, &buf)
		if errors.Is(err, ErrBetween) {
			return k, true
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range exact(fileformat.Cosine, d, vec, k, allowed) {
			if slices.Contains(rows, uint32(h.Row)) {
				found++
			}
		}
		return found, false
	}
	const queries = 100
	found, scans, likeScans := 0, 0, 0
	for range queries {
		n, scanned := search(between())
		if found += n; scanned {
			scans++
		}
	}
	for _, vec := range like {
		if _, scanned := search(vec); scanned {
			likeScans++
		}
	}
	if found < recall*queries*k || scans == 0 || scans == queries || likeScans > len(like)/20 {
		t.Errorf("%v under a filter: %d of %d found, %d scans, %d of %d like the rows", one, found, queries*k, scans,
			likeScans, len(like))
	}
}

// TestBetweenTemplates: sums of two templates get the recall asked for. Rows are small integers in
// groups around templates. A wider walk as the second stage finds one of the groups: 0.72 where
// 0.85 is asked. In graphs with sketches, a second stage scans these.
func TestBetweenTemplates(t *testing.T) {
	const dim, rows, kinds, k, recall = 100, 20_000, 80, 1, 0.85
	r := rand.New(rand.NewPCG(2, dim))
	var templates [kinds][]float32
	shares, sum := [kinds]float64{}, 0.0 // up to a template
	for i := range templates {
		templates[i] = make([]float32, dim)
		for j := range dim {
			if r.IntN(10) == 0 {
				templates[i][j] = 1
			}
		}
		sum += 1 / float64(i+1)
		shares[i] = sum
	}
	d := &data{vectors{Dim: dim}}
	for range rows {
		at, _ := slices.BinarySearch(shares[:], sum*r.Float64())
		x := slices.Clone(templates[min(at, kinds-1)])
		for range 3 {
			x[r.IntN(dim)] += float32(r.IntN(2))
		}
		d.Vecs = append(d.Vecs, x...)
	}
	g := d.created(t, fileformat.L2, Options{Planned: true, layout: plain})
	keepsRecall(t, g, d, fileformat.L2, k, recall, func() []float32 {
		x := slices.Clone(templates[r.IntN(kinds)])
		for j, v := range templates[r.IntN(kinds)] {
			x[j] += v
		}
		return x
	})
	for c, k := range levels.Results {
		for _, l := range g.Levels(c) {
			if l.Within > 0 && l.Second.Deviations == 0 {
				t.Errorf("%d results: %v", k, l.Setting(k, 1))
			}
		}
	}
}

// TestManyOfWeakDirections: searches for 300 rows go on to a scan of the sketches, too, where the
// rows found lie close together. Rows differ little in their last components, and queries have
// much of these. A walk alone finds 0.90 where 0.95 is asked.
func TestManyOfWeakDirections(t *testing.T) {
	const dim, rows, k, recall = 96, 8000, 300, 0.95
	r := rand.New(rand.NewPCG(3, dim))
	var common [dim]float64
	for i := range common {
		common[i] = 0.6 * r.NormFloat64()
	}
	d := &data{vectors{Dim: dim}}
	for range rows {
		length := r.ExpFloat64()
		for i, x := range common {
			d.Vecs = append(d.Vecs, float32(length*x+r.NormFloat64()/math.Sqrt(1+float64(i)/4)))
		}
	}
	g := d.created(t, fileformat.L2, Options{Planned: true, layout: plain})
	keepsRecall(t, g, d, fileformat.L2, k, recall, func() []float32 {
		x := make([]float32, dim)
		for i := range x {
			if x[i] = float32(common[i]); i >= dim*3/5 {
				x[i] += float32(4 * r.NormFloat64())
			}
		}
		return x
	})
}
