package levels

import (
	"math"
	"testing"

	"github.com/vecbolt/vecbolt/internal/synthetic"
)

// TestEndEarly: a level of two stages promises no more than the queries of each kind find that end
// with the first stage. Few of them say little.
func TestEndEarly(t *testing.T) {
	var nears [synthetic.Kinds]moments
	for range 20 {
		nears[synthetic.LikeRows].add(Sample{Found: 1}, 1)
		nears[synthetic.Midpoints].add(Sample{Found: 0.9}, 1)
	}
	nears[synthetic.Noisy].add(Sample{Found: 0.2}, 1)
	nears[synthetic.Sparse].add(Sample{Exact: true}, 1)
	for _, c := range []struct{ recall, want float32 }{{0.99, 0.84}, {0.8, 0.8}} {
		l := Candidate{Level: Level{Recall: c.recall}}
		if l.endEarly(&nears); math.Abs(float64(l.Recall-c.want)) > 1e-6 {
			t.Errorf("recall %g becomes %g, want %g", c.recall, l.Recall, c.want)
		}
	}
	nears[synthetic.Noisy] = moments{}
	l := Candidate{Level: Level{Recall: 0.99}}
	if l.endEarly(&nears); math.Abs(float64(l.Recall-0.9)) > 1e-6 {
		t.Errorf("recall %g, want 0.9, of the midpoints", l.Recall)
	}
}

// TestEndEarlyMeasured: levels are chosen and completed by what the queries find that end with the
// first stage. Here half of the midpoints do, and find half.
func TestEndEarlyMeasured(t *testing.T) {
	c := new(Chooser)
	var near, far []Sample
	for i := range 80 {
		s := Sample{Found: 1, Nodes: 10, Dist: 1}
		k := synthetic.LikeRows
		if i%2 == 0 {
			if k, s.Found = synthetic.Midpoints, 0.5; i%4 == 0 {
				s.Dist = 3
			}
		}
		c.Kinds, near, far = append(c.Kinds, k), append(near, s), append(far, Sample{Found: 1, Nodes: 20})
	}
	p := &pair{first: &Candidate{Level: Level{EF: 10}, samples: near}, second: &Candidate{Level: Level{EF: 20}, samples: far}}
	chosen, completed := map[float32]float32{}, map[float32]float32{} // by the bound on the distance
	for _, l := range c.stagedFrom([]*pair{p}, func(*Candidate, float32) bool { return true }) {
		chosen[l.Within] = l.Recall // the last one has seen all trials within
		c.complete(&l)
		completed[l.Within] = l.Recall
	}
	for _, within := range []float32{1, 3} {
		if chosen[within] != 0.5 || completed[within] != 0.5 {
			t.Errorf("within %g: recall %g, then %g, want 0.5", within, chosen[within], completed[within])
		}
	}
}

// TestDistanceInDoubt: where only the bound on the distance keeps trials from missing, a level
// promises less than they find, chosen and completed. What the spread tells counts in full.
func TestDistanceInDoubt(t *testing.T) {
	c := new(Chooser)
	var near, far []Sample
	for i := range 96 { // the farther half of the midpoints misses, and has smaller spreads
		s := Sample{Found: 1, Nodes: 10, Dist: 1, Spread: 2}
		k := synthetic.LikeRows
		if i%2 == 0 {
			if k = synthetic.Midpoints; i%4 == 0 {
				s.Found, s.Dist, s.Spread = 0, 3, 1
			}
		}
		c.Kinds, near, far = append(c.Kinds, k), append(near, s), append(far, Sample{Found: 1, Nodes: 20})
	}
	p := &pair{first: &Candidate{Level: Level{EF: 10}, samples: near}, second: &Candidate{Level: Level{EF: 20}, samples: far}}
	type bounds struct{ within, spread float32 }
	chosen, completed := map[bounds]float32{}, map[bounds]float32{}
	for _, l := range c.stagedFrom([]*pair{p}, func(*Candidate, float32) bool { return true }) {
		at := bounds{l.Within, l.Spread}
		chosen[at] = l.Recall
		c.complete(&l)
		completed[at] = l.Recall
	}
	for at, want := range map[bounds]float32{{1, 0}: 0.95, {1, 2}: 1, {AlwaysBeyond, 0}: 1} {
		if chosen[at] != want || completed[at] != want {
			t.Errorf("within %g, spread %g: recall %g, then %g, want %g", at.within, at.spread, chosen[at], completed[at], want)
		}
	}
}

// TestWatchSpread: searches go on to the second stage below the greatest spread for which queries
// like the rows take hardly more expansions. A level of one stage gets the first scan with its
// recall. No level promises more.
func TestWatchSpread(t *testing.T) {
	const n, between = 100, 50
	scans := []Scan{{Deviations: 1, Walked: make([]float32, n+between)}, {Deviations: 2, Walked: make([]float32, n+between)}}
	c := &Chooser{SketchScans: scans}
	var near []Sample
	for i := range n { // spreads from 1 to 1.99 in an order of their own
		spread := 1 + float32(i*37%n)/n
		c.Kinds, near = append(c.Kinds, synthetic.LikeRows), append(near, Sample{Found: 1, Nodes: 100, Dist: 1, Spread: spread})
		scans[0].Samples = append(scans[0].Samples, Sample{Found: 0.5, Nodes: 50})
		scans[1].Samples = append(scans[1].Samples, Sample{Found: 1, Nodes: 50})
	}
	for range between { // between groups
		c.Kinds, near = append(c.Kinds, synthetic.Midpoints), append(near, Sample{Found: 0.5, Nodes: 100, Dist: 1, Spread: 0.2})
		scans[0].Samples = append(scans[0].Samples, Sample{Found: 0.5, Nodes: 50})
		scans[1].Samples = append(scans[1].Samples, Sample{Found: 1, Nodes: 50})
	}
	one := Candidate{Level: Level{EF: 100, Recall: 0.8, UsualNodes: 100, MeanNodes: 100, Whole: 0.9}, samples: near}
	two := one
	two.Within, two.Second = 2, Stage{Deviations: 1}
	two.pair = &pair{first: &one, sketches: &scans[0]}
	farther, bounded, dear, dearest := two, two, one, one
	farther.Within, bounded.Spread, bounded.UsualNodes = 0.5, 1.5, 125
	dear.UsualNodes = 24     // expansions: a scan in 417 searches is affordable, and there are a hundred
	dearest.UsualNodes = 0.9 // one in 11,111
	for _, test := range []struct {
		name           string
		l              Candidate
		within, spread float32
		beyond         Stage
	}{
		{"one stage", one, AtAnyDistance, 1.03, Stage{Deviations: 2}}, // 200 expansions are four scans of 50
		{"two stages", two, 2, 1.03, Stage{Deviations: 1}},
		{"all are far", farther, 0.5, 0, Stage{Deviations: 1}},
		{"a greater bound", bounded, 2, 1.54, Stage{Deviations: 1}},         // 250 are five more
		{"dear scans", dear, AtAnyDistance, 1 / 1.04, Stage{Deviations: 2}}, // as far below the least as that below the fifth
		{"dearest scans", dearest, 0, 0, Stage{}},
	} {
		l := test.l
		c.watchSpread(&l)
		if l.Within != test.within || math.Abs(float64(l.Spread-test.spread)) > 1e-6 || l.Second != test.beyond || l.Recall != 0.8 ||
			l.Whole != 0.9 || l.EF != 100 || l.UsualNodes < test.l.UsualNodes || l.UsualNodes > (1+watching)*test.l.UsualNodes {
			t.Errorf("%s: %v, spread %g, within %g, recall %g, %g nodes", test.name, l.Setting(10, 1), l.Spread, l.Within,
				l.Recall, l.UsualNodes)
		}
	}
}

// TestExactBetween: trials whose answer is exact are no bounds on the distance, and do not keep
// those farther away from being bounds. For one result, a trial is exact by the distance of its
// first row, and bounds are distances of the tenth.
func TestExactBetween(t *testing.T) {
	c := new(Chooser)
	var near, far []Sample
	for i := range 96 {
		s := Sample{Found: 1, Nodes: 10, Dist: 1 + float32(i)}
		if i%3 == 1 {
			s.Exact = true
		} else if i > 48 {
			s.Found = 0.5
		}
		c.Kinds, near, far = append(c.Kinds, synthetic.LikeRows), append(near, s), append(far, Sample{Found: 1, Nodes: 20})
	}
	p := &pair{first: &Candidate{Level: Level{EF: 10}, samples: near}, second: &Candidate{Level: Level{EF: 20}, samples: far}}
	farthest, unbounded := float32(0), float32(0)
	for _, l := range c.stagedFrom([]*pair{p}, func(*Candidate, float32) bool { return true }) {
		if l.Within > 0 && l.Within < AtAnyDistance && near[max(0, int(l.Within)-1)].Exact {
			t.Errorf("an exact trial at %g is a bound", l.Within)
		}
		if l.Spread == 0 && l.Within > farthest {
			farthest, unbounded = l.Within, l.unbounded
		}
	}
	if farthest < 90 || math.Abs(float64(unbounded)-15.5/64) > 1e-6 {
		t.Errorf("the farthest bound is %g, and %g are missed without it; want 90 or more, and 15.5 of 64", farthest, unbounded)
	}
}
