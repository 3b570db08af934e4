package graph

import (
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/synthetic"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
)

// TestInferConfirmed: what an easy trial would find and expand with a setting follows from those of
// its kind that were walked, and nothing follows if one of them missed a row.
func TestInferConfirmed(t *testing.T) {
	settings := []levels.Setting{{EF: 10, StopRatio: 1.1}, {EF: 40, StopRatio: 1.1}, {EF: 20, StopRatio: 1.2}}
	columns := []int{1}
	walked := func(nodes int, found float32, easy bool) confirmation {
		c := confirmation{easy: easy, walked: true}
		c.nodes, c.found[1] = nodes, found
		return c
	}
	unknown := confirmation{easy: true}
	var trials []trial
	for _, c := range [][3]confirmation{
		{walked(10, 1, false), walked(30, 1, true), walked(20, 1, true)},
		{walked(10, 1, false), walked(50, 1, true), walked(40, 1, true)},
		{walked(12, 1, false), walked(60, 1, true), unknown}, // 1.29 times as many as the sample
		{walked(9, 1, false), unknown, unknown},
		{walked(10, 0.5, false), walked(80, 0.9, false), walked(70, 1, false)},
	} {
		trials = append(trials, trial{confirmed: c[:]})
	}
	for _, i := range []int{0, 1, 2, 3} {
		for j := range settings {
			if got := trials[i].reference(settings, j, columns) != nil; got != trials[i].confirmed[j].easy {
				t.Errorf("trial %d, %v: easy is %v", i, settings[j], got)
			}
		}
	}
	samples := easySamples(trials, columns, len(settings))
	for j, n := range []int{0, 3, 2} { // the last one is too small
		if s := samples[j][synthetic.LikeRows]; s.n != n || s.tells() != (n == leastSample) {
			t.Errorf("%v: a sample of %d, tells: %v", settings[j], s.n, s.tells())
		}
	}
	for i := range trials {
		trials[i].inferConfirmed(settings, columns, samples)
	}
	for i, want := range [][3]int{{10, 30, 20}, {10, 50, 40}, {12, 60, 39}, {9, 47, 30}, {10, 80, 70}} {
		for j := range settings {
			c := trials[i].confirmed[j]
			if c.nodes != want[j] || c.found[1] != 1 && i < 4 {
				t.Errorf("trial %d, %v: %d nodes, %g found, want %d nodes", i, settings[j], c.nodes, c.found[1], want[j])
			}
		}
	}
	trials[0].confirmed[1].found[1] = 0.9
	if samples = easySamples(trials, columns, len(settings)); samples[1][synthetic.LikeRows].tells() {
		t.Error("a sample tells that missed a row")
	}
}

// TestToConfirm: the settings that a sweep leaves to confirm are some of those it tried, each once,
// and each after all that are narrower.
func TestToConfirm(t *testing.T) {
	d, _ := make1("clusters", middleDim, 1500, 0)
	g := d.created(t, fileformat.Cosine, Options{quiet: true, QuickSize: 1})
	b, all, score := trialsOf(t, g, d)
	b.planned = true
	b.setHorizons(all)
	if err := b.measureWork(all); err != nil {
		t.Fatal(err)
	}
	if err := b.scanTrials(all, score); err != nil {
		t.Fatal(err)
	}
	for _, columns := range [...][]int{{0, 1}, {2}} {
		trials := b.trialsFor(all, columns)
		sweep := b.newSweep(trials, columns, score)
		for ; len(sweep.efs) > 0 && sweep.least < levels.Enough && sweep.vain < mostVain; sweep.turn++ {
			if err := sweep.round(); err != nil {
				t.Fatal(err)
			}
		}
		tried := map[levels.Setting]bool{}
		for _, c := range columns {
			for _, l := range sweep.tried[c] {
				tried[levels.Setting{EF: l.EF, StopRatio: l.StopRatio}] = true
			}
		}
		settings := b.toConfirm(trials, columns, &sweep.tried)
		if len(settings) < 2 || 3*len(settings) > len(tried) {
			t.Errorf("columns %v: %d of %d settings are confirmed", columns, len(settings), len(tried))
		}
		for i, wide := range settings {
			if !tried[wide] {
				t.Errorf("columns %v: %v was not tried", columns, wide)
			}
			if i == 0 {
				continue
			}
			if narrow := settings[i-1]; ratio(narrow) > ratio(wide) || ratio(narrow) == ratio(wide) && narrow.EF >= wide.EF {
				t.Errorf("columns %v: %v is before %v", columns, narrow, wide)
			}
		}
	}
}
