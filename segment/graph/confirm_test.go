package graph

import (
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/synthetic"
)

// TestInferConfirmed: what an easy trial would find and expand with a setting follows from those of
// its kind that were walked, and nothing follows if one of them missed a row.
func TestInferConfirmed(t *testing.T) {
	settings := []Setting{{EF: 10, StopRatio: 1.1}, {EF: 40, StopRatio: 1.1}, {EF: 20, StopRatio: 1.2}}
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

// TestToConfirm: of the levels that a sweep of planned trials brings, those are left out that a
// scan of the sketches or of the codes beats. The cheapest stays, and the one with the highest
// recall if no scan of the codes costs less.
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
	bySketches, byCodes, cheapest, highestKept := 0, 0, 0, 0
	check := func(trials []trial, columns []int, share float32, tried *[len(calibrated)][]level) {
		t.Helper()
		wanted := map[Setting]bool{}
		for _, c := range columns {
			recall, usual := b.usualScan(trials, c)
			for i, l := range b.pickFirst(tried[c], c, share) {
				s := Setting{EF: l.ef, StopRatio: l.stopRatio}
				dear, worse := !b.worth(&l, c), l.recall <= recall && l.usual >= usual
				switch {
				case i == 0 && dear:
					wanted[s] = true
					cheapest++
				case dear:
					byCodes++
				case i == 0 || !worse:
					wanted[s] = true
				case l.recall == highest(tried[c]):
					wanted[s] = true
					highestKept++
				default:
					bySketches++
				}
			}
		}
		settings := b.toConfirm(trials, columns, tried)
		for i, wide := range settings[1:] {
			if narrow := settings[i]; narrow.ratio() > wide.ratio() || narrow.ratio() == wide.ratio() && narrow.EF >= wide.EF {
				t.Errorf("columns %v: %v is before %v", columns, narrow, wide)
			}
		}
		for _, s := range settings {
			if !wanted[s] {
				t.Errorf("columns %v: %v is confirmed, though a scan beats it", columns, s)
			}
			delete(wanted, s)
		}
		if len(wanted) > 0 {
			t.Errorf("columns %v: %v are not confirmed", columns, wanted)
		}
	}
	for _, shared := range []struct {
		columns []int
		share   float32
	}{{[]int{0, 1}, stepToConfirm}, {[]int{2}, stepForHundred}} {
		trials := b.trialsFor(all, shared.columns)
		sweep := b.newSweep(trials, shared.columns, score)
		for ; len(sweep.efs) > 0 && sweep.least < enough && sweep.vain < mostVain; sweep.turn++ {
			if err := sweep.round(); err != nil {
				t.Fatal(err)
			}
		}
		check(trials, shared.columns, shared.share, &sweep.tried)
		for _, c := range shared.columns { // scans that find half as much beat few levels
			for i := range trials {
				for j := range trials[i].scanned[c] {
					trials[i].scanned[c][j].found /= 2
				}
			}
		}
		check(trials, shared.columns, shared.share, &sweep.tried)
		for _, c := range shared.columns { // scans of codes beat searches that expand all nodes
			for i := range sweep.tried[c] {
				sweep.tried[c][i].nodes += float32(g.Len())
				sweep.tried[c][i].usual += float32(g.Len())
			}
		}
		check(trials, shared.columns, shared.share, &sweep.tried)
	}
	if bySketches == 0 || byCodes == 0 || cheapest == 0 || highestKept == 0 {
		t.Errorf("%d levels are beaten by sketches, %d by codes; %d stay as the cheapest, %d for their recall",
			bySketches, byCodes, cheapest, highestKept)
	}
}
