package graph

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// TestStages: a search of two stages is the first one if that finds rows near the query, and
// otherwise the second one, without more work than that. Under a filter it is the second one.
func TestStages(t *testing.T) {
	for _, layout := range []uint32{plain, shared} {
		d, queries := make1("latent", 24, 2000, 30)
		g := d.graph(t, fileformat.L2, Options{quiet: true, layout: layout})
		half := bitset.New(d.rows())
		for i := 0; i < d.rows(); i += 2 {
			half.Set(i)
		}
		narrow, wide := Setting{EF: 12, StopRatio: 1.1}, Setting{EF: 150, StopRatio: 1.5}
		type answer struct {
			rows  []uint32
			stats Stats
			err   error
		}
		for i, vec := range queries {
			q := g.Query(vec)
			find := func(s Setting, allowed bitset.Set) (answer, float32) {
				var buf Buffer
				rows, stats, err := q.Find(10, s, allowed, &buf)
				dist, _ := q.found(&buf).within(10)
				return answer{rows, stats, err}, dist
			}
			first, last := find(narrow, nil)
			second, _ := find(wide, nil)
			filtered, _ := find(wide, half)
			both := narrow
			both.Within, both.Beyond = last, wide.stage()
			near, _ := find(both, nil)
			under, _ := find(both, half)
			both.Within = math.Nextafter32(last, 0)
			far, _ := find(both, nil)
			for _, c := range []struct {
				name      string
				got, want answer
			}{{"near", near, first}, {"far", far, second}, {"filtered", under, filtered}} {
				if !reflect.DeepEqual(c.got, c.want) || c.got.err != nil {
					t.Errorf("layout %d, query %d, %s: %+v, want %+v", layout, i, c.name, c.got, c.want)
				}
			}
			both.Beyond = Stage{}
			scan, _ := find(both, nil)
			under, _ = find(both, half)
			both.Within = last
			near, _ = find(both, nil)
			if scan.err != ErrBeyondHorizon || under.err != ErrBeyondHorizon || !reflect.DeepEqual(near, first) {
				t.Errorf("layout %d, query %d, with a scan for far queries: far %v, filtered %v, near %+v, want %+v",
					layout, i, scan.err, under.err, near, first)
			}
		}
	}
}

// TestStageOfFewRows: with fewer rows than the first stage asks about, a search has its second one.
func TestStageOfFewRows(t *testing.T) {
	d, queries := make1("latent", 24, 6, 1)
	g := d.graph(t, fileformat.L2, Options{quiet: true})
	s := Setting{EF: 1, Within: math.MaxFloat32, Beyond: Stage{EF: 20}}
	rows, _, err := g.Query(queries[0]).Find(5, s, nil, new(Buffer))
	if err != nil || len(rows) < 5 {
		t.Errorf("rows %v, %v", rows, err)
	}
}

// TestStagedLevels: levels of two stages state what searches do, also with a scan for far queries.
// Graphs that estimate have none.
func TestStagedLevels(t *testing.T) {
	const c, k = 1, 10
	staged := map[bool]int{} // with a scan or without
	for _, set := range []struct {
		name      string
		dim, rows int
	}{{"normal", 24, 3000}, {"clusters", 48, 8000}} {
		d, _ := make1(set.name, set.dim, set.rows, 0)
		g, err := create(t.Context(), d.ident(fileformat.Cosine), d.source, Options{Planned: true})
		if err != nil {
			t.Fatal(err)
		}
		b, trials, score := trialsOf(t, g, d)
		trials = slices.DeleteFunc(trials, func(t trial) bool { return b.outside(&t, []int{0, 1}) })
		for _, l := range g.levels[c] {
			if l.within == 0 {
				continue
			}
			scan := l.beyond == Stage{}
			staged[scan]++
			if err := b.each(len(trials), func(w *workerScratch, i int) error {
				t := &trials[i]
				_, stats, err := t.query.Find(k, l.setting(k, 1), nil, &w.buf)
				o := outcome{nodes: stats.Expanded}
				if scan && errors.Is(err, ErrBeyondHorizon) {
					o.nodes, o.found[c] = o.nodes+int(g.scanNodes(k)), 1
					err = nil
				} else if err == nil {
					if o.found[c], err = t.count(c, w, score); t.beyond(c, &w.buf) {
						o.found[c] = 1
					}
				}
				t.whole = append(t.whole[:0], o)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			got := levelOf(trials, c, Setting{}, func(t *trial) *outcome { return &t.whole[0] })
			// Where a ratio ends a walk, the calibration counts the rows of the narrowest beam, so
			// searches find no less.
			if got.recall < l.recall-0.005 || math.Abs(float64(got.nodes/l.nodes-1)) > 0.02 ||
				math.Abs(float64(got.usual/l.usual-1)) > 0.02 {
				t.Errorf("%s, %v: recall %.4f, %.1f nodes and %.1f of rows, stated %.4f, %.1f and %.1f", set.name,
					l.setting(k, 1), got.recall, got.nodes, got.usual, l.recall, l.nodes, l.usual)
			}
		}
	}
	if staged[false] == 0 || staged[true] == 0 {
		t.Errorf("levels of two stages, by whether the second is a scan: %v", staged)
	}
	for _, opts := range []Options{{layout: quick, Planned: true}, {QuickSize: 1, Planned: true}} {
		d, _ := make1("clusters", middleDim, 500, 0)
		g, err := create(t.Context(), d.ident(fileformat.Cosine), d.source, opts)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range slices.Concat(g.levels[:]...) {
			if l.within > 0 {
				t.Errorf("layout %d: %v", g.head.layout, l.setting(k, 1))
			}
		}
	}
}
