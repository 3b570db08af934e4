package levels

import (
	"math"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/internal/synthetic"
)

// TestMoments: recall is the mean over trials whose answer is not exact. If few are not, exact ones
// make up the number, but no more than there are.
func TestMoments(t *testing.T) {
	for _, c := range []struct {
		exact  int
		found  []float32
		recall float64
		spread float64 // standard error
	}{
		{exact: 90, recall: 1},
		{exact: 90, found: []float32{0.5, 0.5, 0.5, 0.5, 0.5}, recall: 0.5},
		{exact: 90, found: []float32{0, 0, 1, 1, 1, 1, 1, 1}, recall: 0.75, spread: math.Sqrt(0.1875 / 8)},
		{exact: 90, found: []float32{0, 1, 0, 1}, recall: 0.6, spread: math.Sqrt(0.24 / 5)},
		{exact: 1, found: []float32{0.5, 0.5}, recall: 2.0 / 3, spread: math.Sqrt((0.5 - 4.0/9) / 3)},
		{found: []float32{0.25, 0.75}, recall: 0.5, spread: math.Sqrt(0.0625 / 2)},
	} {
		var m moments
		for range c.exact {
			m.add(Sample{Exact: true}, 1)
		}
		for _, f := range c.found {
			m.add(Sample{Found: f}, 1)
		}
		least := max(0, c.recall-mostErrors*c.spread)
		if math.Abs(m.recall()-c.recall) > 1e-9 || math.Abs(m.least()-least) > 1e-9 {
			t.Errorf("%d exact, found %v: recall %g, at least %g, want %g and %g", c.exact, c.found, m.recall(),
				m.least(), c.recall, least)
		}
	}
}

// prices returns prices by which an expansion costs 1, and a scan of the codes as much as scan.
func prices(scan float64) Prices {
	return Prices{Rows: 1000, Degree: 32, Inserts: 160,
		Walk:     func(s Setting, k int) float64 { return s.Expansions() },
		CodeScan: func(k int) float64 { return scan }}
}

// TestPickBest: the level of the highest recall is chosen, though it is hardly better than the one
// before. float32 rounds one less the recall if that is below one half, so levels must be compared
// by the recall itself.
func TestPickBest(t *testing.T) {
	c := &Chooser{Prices: prices(1)}
	for _, best := range []float32{0.1, 0.1234, 0.3, 0.4321, 0.6, 0.987} {
		all := []Candidate{{Level: Level{EF: 10, MeanNodes: 10, Recall: best - 0.001}}, {Level: Level{EF: 20, MeanNodes: 20, Recall: best}}}
		if chosen := c.pick(all, 0.1); len(chosen) == 0 || chosen[len(chosen)-1].Recall != best {
			t.Errorf("of recalls %g and %g, %d levels were picked, and not the best", best-0.001, best, len(chosen))
		}
	}
}

// TestPickFirst has settings that find ever more, but for one kind far from all rows. The wider
// ones are of no use alone, but can be the first of two stages.
func TestPickFirst(t *testing.T) {
	c := &Chooser{Prices: prices(1), Column: 1}
	tried := func() (all []Candidate) {
		for i, recall := range []float32{0.8, 0.9, 0.97} {
			l := Candidate{Level: Level{EF: 100, StopRatio: 1 + float32(i)/100, MeanNodes: float32(20 + 10*i), Recall: 0.3},
				recalls: new([synthetic.Kinds]float32)}
			for k := range l.recalls {
				l.recalls[k] = recall
			}
			l.recalls[synthetic.WeakDirections] = 0.3
			all = append(all, l)
		}
		return all
	}
	if n := len(c.pick(tried(), stepToConfirm)); n != 1 {
		t.Errorf("%d levels picked, want the cheapest", n)
	}
	for _, planned := range []bool{true, false} { // searches without a planner have one stage
		c.Planned = planned
		want := 1
		if planned {
			want = 3
		}
		if n := len(c.pickFirst(tried(), stepToConfirm)); n != want {
			t.Errorf("planned %v: %d levels to begin with, want %d", planned, n, want)
		}
	}
}

// TestToConfirm: levels are left out that a scan of the sketches or of the codes beats. The
// cheapest stays, and the one with the highest recall if no scan of the codes costs less.
func TestToConfirm(t *testing.T) {
	const n = 20 // trials
	same := func(found, nodes float32) (all []Sample) {
		for range n {
			all = append(all, Sample{Found: found, Nodes: nodes})
		}
		return all
	}
	sketches := []Scan{{Deviations: 1, Samples: same(0.75, 50), Walked: make([]float32, n)},
		{Deviations: 3, Samples: same(0.9995, 60), Walked: make([]float32, n)}}
	for i := range n {
		sketches[0].Walked[i], sketches[1].Walked[i] = 20, 20
	}
	for _, test := range []struct {
		name  string
		scans []Scan
		scan  float64 // price
		want  []int   // beam widths
	}{
		{"no scan costs less", nil, 10_000, []int{20, 40, 70, 90, 120, 600}},
		{"a scan of the sketches costs 80", sketches, 10_000, []int{20, 40, 70, 600}},
		{"a scan of the codes costs 100", nil, 100, []int{20, 40, 70}},
		{"both", sketches, 700, []int{20, 40, 70}},
		{"all scans cost less", sketches, 1, []int{20}},
	} {
		c := &Chooser{Prices: prices(test.scan), Column: 1, Kinds: make([]synthetic.Kind, n), Planned: true, SketchScans: test.scans}
		var tried []Candidate
		for ef, found := range map[int]float32{20: 0.5, 40: 0.8, 70: 0.95, 90: 0.97, 120: 0.99, 600: 1} {
			samples := same(found, float32(ef))
			tried = append(tried, c.Measure(Setting{EF: ef}, func(t int) Sample { return samples[t] }))
		}
		var got []int
		for _, s := range c.ToConfirm(tried) {
			got = append(got, s.EF)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// TestMost: what all kinds but the hardest get, whatever these do.
func TestMost(t *testing.T) {
	for poor, want := range map[int]float32{0: 0.9, hardest: 0.9, hardest + 1: 0.3} {
		l := Candidate{recalls: new([synthetic.Kinds]float32)}
		for k := range l.recalls {
			if l.recalls[k] = 0.9; k < poor {
				l.recalls[k] = 0.3
			}
		}
		if got := l.most(); got != want || poor > 0 && l.recalls[0] != 0.3 {
			t.Errorf("%d synthetic.Kinds find little: %g, want %g", poor, got, want)
		}
	}
}
