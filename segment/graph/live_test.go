package graph

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
)

// TestFindLive: a search that passes over dead rows has the rows of a search without a filter, less
// the dead ones, and in the same order. It refuses where more than one in four of the rows wanted
// are dead and nearer.
func TestFindLive(t *testing.T) {
	settings := []levels.Setting{
		{EF: 40},
		{EF: 20, StopRatio: 1.05},
		{EF: 20, StopRatio: 1.05, Within: levels.AlwaysBeyond, Second: levels.Stage{EF: 60}},
		{EF: 20, Within: levels.AlwaysBeyond, Second: levels.Stage{Deviations: 3}},
		{Within: levels.AlwaysBeyond, Second: levels.Stage{Deviations: 3}},
	}
	tested := make(map[bool]int)
	for _, w := range walks {
		d, queries := make1("latent", w.dim, 3000, 10)
		g := d.graph(t, fileformat.Cosine, Options{Planned: true, Trials: 8, layout: w.layout})
		clear(g.head.margins[:]) // so that searches find further rows
		var buf Buffer
		for _, vec := range queries {
			for _, s := range settings {
				if s.Second.Deviations > 0 && !g.head.sketched {
					continue
				}
				for _, c := range []struct {
					k    int
					dead []int // by rank in the answer without a filter
					far  bool
				}{
					{10, nil, false},
					{10, []int{0}, false},
					{10, []int{3, 9}, false},
					{10, []int{0, 1, 12}, false}, // behind the tenth live row
					{10, []int{0, 1, 11}, true},
					{10, []int{0, 1, 2}, true},
					{4, []int{1}, false},
					{4, []int{1, 2}, true},
					{3, []int{3}, false},
					{3, []int{2}, true},
					{1, []int{0}, true},
				} {
					name := fmt.Sprintf("%+v, %v, k %d without ranks %v", w, s, c.k, c.dead)
					all, _, err := g.Query(vec).Find(c.k, s, nil, &buf)
					if err != nil {
						t.Fatal(name, err)
					}
					if len(c.dead) > 0 && len(all) <= c.dead[len(c.dead)-1] {
						continue
					}
					want, live := slices.Clone(all), bitset.New(d.Len())
					live.Fill(d.Len())
					for _, rank := range slices.Backward(c.dead) {
						live.Clear(int(all[rank]))
						want = slices.Delete(want, rank, rank+1)
					}
					far := c.far || len(want) < c.k
					got, _, err := g.Query(vec).FindLive(c.k, s, live, &buf)
					if errors.Is(err, ErrFar) != far || err != nil && !far {
						t.Fatalf("%s: %v", name, err)
					}
					if tested[far]++; !far && (len(got) < c.k || !slices.Equal(got[:c.k], want[:c.k])) {
						t.Fatalf("%s: rows %d, want %d", name, got, want)
					}
				}
			}
		}
	}
	if tested[false] < 500 || tested[true] < 500 {
		t.Errorf("tested %v", tested)
	}
}

// TestFindLiveWithout: the row of the query does not count as dead, and is not found.
func TestFindLiveWithout(t *testing.T) {
	d, _ := make1("latent", 24, 3000, 0)
	g := d.graph(t, fileformat.Cosine, Options{quiet: true})
	var buf Buffer
	for row := range 20 {
		q, live := g.Query(d.Row(row)), bitset.New(d.Len())
		live.Fill(d.Len())
		live.Clear(row)
		q.Without(row)
		got, _, err := q.FindLive(1, levels.Setting{EF: 40}, live, &buf)
		if err != nil || slices.Contains(got, uint32(row)) {
			t.Errorf("row %d: %d, %v", row, got, err)
		}
	}
}

// TestFindLiveHorizon: dead rows do not hide that the query is far from all rows.
func TestFindLiveHorizon(t *testing.T) {
	d, queries := make1("latent", 24, 3000, 1)
	g := d.graph(t, fileformat.Cosine, Options{quiet: true})
	g.head.horizons[1] = 1e-9
	live := bitset.New(d.Len())
	live.Fill(d.Len())
	live.Clear(7)
	q, s := g.Query(queries[0]), levels.Setting{EF: 40}
	q.Guard(10, s, d.Len())
	if _, _, err := q.FindLive(10, s, live, new(Buffer)); !errors.Is(err, ErrBeyondHorizon) {
		t.Error(err)
	}
}
