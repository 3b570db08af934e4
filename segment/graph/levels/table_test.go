package levels

import (
	"math"
	"testing"
)

func TestSetting(t *testing.T) {
	lv := func(ef int, stop, nodes, recall, whole float32) Level {
		return Level{EF: ef, StopRatio: stop, MeanNodes: 2 * nodes, UsualNodes: nodes, Recall: recall, Whole: whole}
	}
	st := func(ef int, stop float32, nodes float64) Setting {
		return Setting{EF: ef, StopRatio: stop, UsualNodes: nodes}
	}
	three := [Columns][]Level{
		{lv(10, 1.5, 8, 0.75, 0.8125), lv(20, 0, 20, 0.875, 0.875), lv(100, 1.25, 70, 1, 1)},
		{lv(10, 0, 10, 0.5, 0.5), lv(40, 1.25, 18, 0.75, 0.875), lv(100, 0, 100, 0.96875, 0.96875)},
		{lv(100, 0, 100, 0.5, 0.5), lv(150, 1.25, 130, 0.875, 0.9375)}}
	all := three
	all[3] = []Level{lv(300, 1.5, 300, 0.75, 0.75)}
	all[4] = []Level{lv(1000, 0, 1000, 0.75, 0.875), lv(2000, 1.25, 1500, 0.96875, 0.96875)}
	for _, c := range []struct {
		levels [Columns][]Level
		recall float64
		k      int
		want   Setting
		ok     bool
	}{
		{three, 0.5, 1, st(10, 1.5, 8), true}, {three, 0.75, 1, st(10, 1.5, 8), true}, {three, 0.875, 1, st(20, 0, 20), true},
		{three, 1, 1, st(100, 1.25, 70), true}, {three, 0.75, 10, st(40, 1.25, 18), true},
		{three, 0.96875, 2, st(100, 0, 100), true}, {three, 0.97, 2, Setting{}, false}, {three, 0.5, 100, st(100, 0, 100), true},
		{three, 0.875, 11, st(150, 1.25, 130), true}, {three, 0.875, 300, st(450, 1.25, 390), true},
		{all, 0.75, 10, st(40, 1.25, 18), true}, {all, 0.875, 100, st(150, 1.25, 130), true}, {all, 0.75, 101, st(300, 1.5, 300), true},
		{all, 0.8, 300, Setting{}, false}, {all, 0.8, 301, st(2000, 1.25, 1500), true}, {all, 0.75, 2000, st(2000, 0, 2000), true},
	} {
		table := NewTable(c.levels)
		if s, ok := table.Setting(c.recall, c.k, NoFilter); s != c.want || ok != c.ok {
			t.Errorf("recall %g of %d: %+v, %v, want %+v, %v", c.recall, c.k, s, ok, c.want, c.ok)
		}
	}
	// 2 and 3 rows need what 1 and 10 need. An answer that may have any number of rows needs what
	// each of these numbers needs.
	fewRatio := func(s Setting, ratio float32) Setting {
		s.FewRatio = ratio
		return s
	}
	dear := all
	dear[0] = []Level{lv(30, 1.25, 30, 0.875, 1), lv(120, 1.75, 110, 1, 1)}
	whole := all
	whole[0] = []Level{lv(200, 0, 200, 0.875, 1)}
	for _, c := range []struct {
		levels   [Columns][]Level
		recall   float64
		k        int
		upTo, ok bool
		want     Setting
	}{
		{dear, 0.75, 10, false, true, st(40, 1.25, 18)}, {dear, 0.75, 4, false, true, st(40, 1.25, 18)},
		{dear, 0.75, 3, false, true, st(40, 1.25, 30)}, {dear, 0.9, 2, false, true, st(120, 0, 120)},
		{dear, 0.75, 10, true, true, st(40, 1.25, 30)}, {dear, 0.75, 1, true, true, st(30, 1.25, 30)},
		{dear, 0.8, 100, false, true, st(150, 1.25, 130)}, {dear, 0.8, 100, true, true, st(150, 0, 150)},
		{dear, 0.75, 100, true, true, fewRatio(st(150, 1.25, 130), 1.25)}, {dear, 0.75, 300, true, true, fewRatio(st(300, 1.5, 300), 1.25)},
		{whole, 0.75, 100, true, true, st(200, 0, 200)}, {whole, 0.9, 100, true, false, Setting{}},
		{all, 0.8, 300, true, false, Setting{}},
	} {
		table := NewTable(c.levels)
		setting := table.Setting
		if c.upTo {
			setting = table.SettingUpTo
		}
		if s, ok := setting(c.recall, c.k, NoFilter); s != c.want || ok != c.ok {
			t.Errorf("recall %g of %d, up to %v: %+v, %v, want %+v, %v", c.recall, c.k, c.upTo, s, ok, c.want, c.ok)
		}
	}
	for _, c := range []struct {
		levels [Columns][]Level
		ef, k  int
		want   float64
	}{
		{three, 9, 1, 0}, {three, 10, 1, 0.8125}, {three, 99, 1, 0.875}, {three, 500, 1, 1}, {three, 39, 10, 0.5}, {three, 40, 2, 0.875},
		{three, 99, 100, 0}, {three, 449, 300, 0.5}, {three, 450, 300, 0.9375},
		{all, 450, 300, 0.75}, {all, 1999, 1000, 0.875}, {all, 2000, 500, 0.96875},
	} {
		table := NewTable(c.levels)
		if got := table.Recall(c.ef, c.k); got != c.want {
			t.Errorf("walked %d has recall %g of %d, want %g", c.ef, got, c.k, c.want)
		}
	}
	few, many := NewTable(three), NewTable(all)
	for k, want := range map[int][2]int{1: {10, 10}, 10: {10, 10}, 11: {100, 100}, 101: {101, 300}, 1000: {1000, 1000}, 1001: {1001, 1001}} {
		if a, b := few.Rank(k), many.Rank(k); a != want[0] || b != want[1] {
			t.Errorf("for %d: ranks %d and %d, want %d", k, a, b, want)
		}
	}
	if s := st(10, 1.5, 8).Times(1.5); s != st(15, 1.75, 12) {
		t.Errorf("%+v", s)
	}
	if s := fewRatio(st(10, 1.5, 8), 1.25).Times(2); s != fewRatio(st(20, 2, 16), 1.5) || s.String() != "ef 20, stop ratio 2 or 1.5 of the 10th row" {
		t.Errorf("%+v: %[1]v", s)
	}
	if s := st(11, 0, 8).Times(1.5); s != st(17, 0, 12) {
		t.Errorf("%+v", s)
	}
	staged := lv(10, 1.5, 18, 0.75, 0)
	staged.Within, staged.Second = 2, Stage{EF: 40, StopRatio: 1.25}
	table := NewTable([Columns][]Level{nil, {staged, lv(100, 0, 100, 0.875, 0.875)}, {staged, lv(100, 0, 100, 0.875, 0.875)}})
	want := Setting{EF: 10, StopRatio: 1.5, Within: 2, Second: Stage{EF: 40, StopRatio: 1.25}, UsualNodes: 18}
	if s, ok := table.Setting(0.75, 10, NoFilter); s != want || !ok || s.String() != "ef 10, stop ratio 1.5 (far from all rows: ef 40, stop ratio 1.25)" {
		t.Errorf("two stages: %+v, %v: %[1]v", s, ok)
	}
	if s := want.Times(1.5); s.EF != 15 || s.StopRatio != 1.75 || s.Within != 2 || s.Second != (Stage{EF: 60, StopRatio: 1.375}) {
		t.Errorf("%+v", s)
	}
	want.Spread = 0.5
	if got := want.String(); got != "ef 10, stop ratio 1.5 (far from all rows, or between groups: ef 40, stop ratio 1.25)" {
		t.Error(got)
	}
	if s := want.Times(1.5); s.Spread != 0.5 {
		t.Errorf("%+v", s)
	}
	if s, ok := table.Setting(0.75, 10, AnyFilter); s.Within != 0 || s.EF != 100 || !ok {
		t.Errorf("under a filter: %+v, %v", s, ok)
	}
	watched := staged
	watched.Within, watched.Spread, watched.Second = AtAnyDistance, 0.5, Stage{Deviations: 2}
	table.levels[1][0] = watched
	if s, ok := table.Setting(0.75, 10, NoFilter); s.Within != AtAnyDistance || !ok ||
		s.String() != "ef 10, stop ratio 1.5 (between groups: a scan of sketches, 2 deviations)" {
		t.Errorf("by the spread alone: %+v, %v: %[1]v", s, ok)
	}
	want = st(10, 1.5, 18)
	want.Spread = 0.5
	s, ok := table.Setting(0.75, 10, AnyFilter)
	if s != want || !ok || s.String() != "ef 10, stop ratio 1.5 (between groups: a scan)" {
		t.Errorf("under a filter, by the spread alone: %+v, %v: %[1]v", s, ok)
	}
	// Under a mild filter a level of two stages serves if the second is a scan of the sketches that
	// the first decides about, unless a whole scan costs less.
	for _, c := range []struct {
		within float32
		beyond Stage
		two    bool
	}{{2, Stage{Deviations: 2}, true}, {AtAnyDistance, Stage{Deviations: 2}, false}, {AlwaysBeyond, Stage{Deviations: 2}, false},
		{2, Stage{}, false}, {2, Stage{EF: 40, StopRatio: 1.25}, false},
		{2, Stage{EF: 40, Deviations: 2}, false}} {
		table.levels[1][0].Within, table.levels[1][0].Second = c.within, c.beyond
		if s, ok := table.Setting(0.75, 10, MildFilter); (s.Within > 0) != c.two || !ok || s.EF == 10 != (c.within == AtAnyDistance || c.two) || c.two && (s.Within != c.within || s.Second != c.beyond) {
			t.Errorf("under a mild filter, %+v: %+v, %v", c, s, ok)
		}
	}
	// A scan whose deviations are too few for the recall is no such whole scan.
	for deviations, within := range map[float32]float32{2: 0, 0.5: 2} {
		scan, dearer := staged, staged
		scan.Within, scan.Second, dearer.Second = AlwaysBeyond, Stage{Deviations: deviations}, Stage{Deviations: 2}
		behind := NewTable([Columns][]Level{{scan}, {scan, dearer, lv(100, 0, 100, 0.875, 0.875)}, {dearer}})
		if s, ok := behind.Setting(0.75, 10, MildFilter); s.Within != within || !ok {
			t.Errorf("under a mild filter, behind a scan with %g deviations: %+v, %v", deviations, s, ok)
		}
	}
	other := s
	if other.Spread = 1; s.and(other).Spread != 1 || other.and(s).Spread != 1 {
		t.Errorf("%+v and %+v: %+v", s, other, s.and(other))
	}
	table.levels[1][0] = staged
	table = NewTable(table.levels)
	if got := table.Recall(99, 10); got != 0 {
		t.Errorf("a level of two stages tells a recall of %g for ef 99", got)
	}
	// Queries that are easy for both end with the first stage, and a scan is the widest stage.
	sketched := func(ef int, deviations float32) Setting {
		return Setting{EF: ef, Within: 1, Second: Stage{Deviations: deviations}, UsualNodes: float64(ef)}
	}
	if s := sketched(20, 2).Times(1.5); s.EF != 30 || s.Second != (Stage{Deviations: 3}) ||
		s.String() != "ef 30 (far from all rows: a scan of sketches, 3 deviations)" {
		t.Errorf("%+v: %[1]v", s)
	}
	one := Setting{EF: 20, StopRatio: 1.25, Within: 1, Spread: 0.5, UsualNodes: 10}
	for _, c := range []struct{ s, t, want Setting }{
		{one, st(30, 1.5, 12), Setting{EF: 30, StopRatio: 1.5, Within: 1, Spread: 0.5, UsualNodes: 12}},
		{st(30, 1.5, 12), one, Setting{EF: 30, StopRatio: 1.5, Within: 1, Spread: 0.5, UsualNodes: 12}},
		{one, Setting{EF: 10, StopRatio: 1.5, Within: 2, Spread: 1, Second: Stage{EF: 40, StopRatio: 1.25}, UsualNodes: 8},
			Setting{EF: 20, StopRatio: 1.5, Within: 1, Spread: 1, UsualNodes: 10}},
		{Setting{EF: 10, StopRatio: 1.5, Within: 2, Second: Stage{EF: 40, StopRatio: 1.25}, UsualNodes: 8}, st(30, 1.125, 12),
			Setting{EF: 30, StopRatio: 1.5, Within: 2, Second: Stage{EF: 40, StopRatio: 1.5}, UsualNodes: 12}},
		{Setting{EF: 10, StopRatio: 1.5, Within: 2, Second: Stage{EF: 40, StopRatio: 1.25}, UsualNodes: 8}, st(50, 0, 50),
			Setting{EF: 50, Within: 2, Second: Stage{EF: 50, StopRatio: 0}, UsualNodes: 50}},
		// A scan of the sketches goes on behind the wider of two walks.
		{sketched(20, 2), sketched(10, 3), sketched(20, 3)},
		{sketched(20, 2), st(10, 1.25, 8), sketched(20, 2)},
		{sketched(20, 2), st(200, 1.25, 8), sketched(200, 2)},
		{sketched(200, 1), Setting{EF: 20, Within: 1, Second: Stage{EF: 50}, UsualNodes: 8},
			Setting{EF: 200, Within: 1, Second: Stage{Deviations: 1}, UsualNodes: 200}},
		{sketched(20, 1), Setting{EF: 20, Within: 1, Second: Stage{EF: 50}, UsualNodes: 8},
			Setting{EF: 20, Within: 1, Second: Stage{EF: 50, Deviations: 1}, UsualNodes: 20}},
		{sketched(20, 1), Setting{EF: 20, Within: 1, UsualNodes: 8}, Setting{EF: 20, Within: 1, UsualNodes: 20}},
	} {
		if got := c.s.and(c.t); got != c.want {
			t.Errorf("%v and %v: %+v, want %+v", c.s, c.t, got, c.want)
		}
	}
	// Files of earlier versions do not say how far usual searches go.
	for nodes, want := range map[float32]float64{5: 5, 12: 12, 1000: 1.4 * math.Pow(1000, 0.8)} {
		if got := (&Level{StopRatio: 1.5, MeanNodes: nodes}).expansions(10); got != want {
			t.Errorf("of %g nodes %g are usual, want %g", nodes, got, want)
		}
	}
	if got := (&Level{MeanNodes: 1000}).expansions(10); got != 1000 {
		t.Errorf("without a ratio %g of 1,000 nodes are usual", got)
	}
	// How far the last of more than 100 rows may be is not known.
	if s, ok := table.Setting(0.75, 300, NoFilter); s.Within != 0 || s.EF != 300 || !ok {
		t.Errorf("extrapolated: %+v, %v", s, ok)
	}
}
