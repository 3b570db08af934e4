package main

import (
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Every Python package that is installed answers the protocol, and finds what the truth says.
func TestPypiDrivers(t *testing.T) {
	const rows, dim, k, many = 2000, 64, 10, 100
	dir := t.TempDir()
	base, queries := filepath.Join(dir, "base.fvecs"), filepath.Join(dir, "query.fvecs")
	if err := writeSynth(base, dim, 0, rows); err != nil {
		t.Fatal(err)
	}
	if err := writeSynth(queries, dim, rows, 120); err != nil {
		t.Fatal(err)
	}
	all := synth(rows+120, dim)
	truth := exactTop(all.head(rows), matrix{dim, all.data[rows*dim:]}, many) // its first ten are those for k
	for _, p := range knownPeers() {
		if p.pypi == "" {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			argv, err := p.argv("peers", dir)
			if err != nil {
				t.Skipf("%s does not take part: %v", p.Name, err)
			}
			d, err := startDriver(p.Name, argv, dir)
			if err != nil {
				t.Fatal(err)
			}
			defer d.close()
			if d.version == "" {
				t.Error("no version")
			}
			if err := d.call("nonsense", nil, nil); err == nil {
				t.Error("an unknown operation was answered")
			}
			for i, index := range graphIndexes(p.Name, rows, dim, k) {
				what := args{"index": i, "base": base, "queries": queries, "threads": 2}
				for key, value := range index.build {
					what[key] = value
				}
				if i == 0 {
					what["keep"] = t.TempDir()
				}
				first, err := build(d, what)
				if err != nil || first.Seconds <= 0 || first.Kept {
					t.Fatalf("%s: built %+v, %v", index.label, first, err)
				}
				if i == 0 { // the rest is about the kept index
					again, err := build(d, what)
					if kept := p.Name != "glass"; err != nil || again.Kept != kept || kept && again.Seconds != first.Seconds {
						t.Fatalf("%s: built %+v, then %+v, %v", index.label, first, again, err)
					}
				}
				variant := index.variants[len(index.variants)-1]
				checkWalk(t, d, index, i, variant, truth, k)
				var cost struct{ US float64 }
				if i == 0 {
					checkWalk(t, d, graphIndexes(p.Name, rows, dim, many)[0], i, variant, truth, many)
				}
				if err := d.call("overhead", index.how(i, variant, scanRequest{n: 50, k: k}, index.settings[0]), &cost); err != nil || cost.US < 0 {
					t.Fatalf("%s: a call costs %v us, %v", index.label, cost.US, err)
				}
			}
		})
	}
}

func build(d *driver, what args) (b built, err error) {
	err = d.call("build", what, &b)
	return b, err
}

// checkWalk asks queries 10 to 119 of an index, with its smallest and its largest setting.
func checkWalk(t *testing.T, d *driver, index peerIndex, number int, variant peerVariant, truth [][]int, k int) {
	t.Helper()
	const first, n = 10, 110
	found := map[string][]float64{}
	for mode, times := range map[string]int{modeOne: 3, modeCallers: 1} { // 50 + 50 + 10 queries
		for _, setting := range []float64{index.settings[0], index.settings[len(index.settings)-1]} {
			var res scanResult
			if err := d.call("walk", index.how(number, variant, scanRequest{mode: mode, first: first, n: n, k: k, budget: time.Minute}, setting), &res); err != nil {
				t.Fatal(err)
			}
			if len(res.US) != times || slices.Min(res.US) <= 0 || len(res.IDs) != n {
				t.Fatalf("%s, %s: times %v of %d answers", index.label, mode, res.US, len(res.IDs))
			}
			for q, ids := range res.IDs {
				rows := slices.DeleteFunc(slices.Sorted(slices.Values(ids)), func(id int) bool { return id < 0 }) // not found
				if len(ids) != k || len(slices.Compact(slices.Clone(rows))) != len(rows) {
					t.Fatalf("%s, %s: answers of query %d are %v", index.label, mode, q, ids)
				}
			}
			found[mode] = append(found[mode], recall(truth[first:], res.IDs, k))
		}
	}
	if !slices.Equal(found[modeOne], found[modeCallers]) {
		t.Errorf("%s: recall %v on one thread, %v of two callers", index.label, found[modeOne], found[modeCallers])
	}
	if got := found[modeOne]; got[0] <= 0 || got[1] < 0.97 || got[0] > got[1] {
		t.Errorf("%s, %s, k = %d: recall %.3f and %.3f", index.label, variant.name, k, got[0], got[1])
	}
}
