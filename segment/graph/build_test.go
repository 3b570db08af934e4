package graph

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/simd"
)

// Links are pruned to those that choose selects, which compares all of them.
func TestPrune(t *testing.T) {
	const rows, dim = 2000, 24
	d := lowRankData(rows, dim)
	copy(d.Row(7), d.Row(8)) // two rows at the same distance from others
	g := d.graph(t, fileformat.L2, Options{quiet: true})
	b := newBuilder(t.Context(), g, 1)
	w := b.workers[0]
	r := rand.New(rand.NewPCG(3, 4))
	refused := 0
	for range 200 {
		me := uint32(r.IntN(rows))
		simd.LoadVector(&w.self, b.record(me))
		var known, links []simd.Neighbour
		for range 4 { // links come in batches
			for range 20 {
				id := uint32(r.IntN(rows))
				same := func(e simd.Neighbour) bool { return e.ID&^simd.Marked == id }
				if id == me || slices.ContainsFunc(links, same) {
					continue
				}
				simd.GatherL2(w.dists[:], &w.self, b.records, []uint32{id})
				links = append(links, simd.Neighbour{ID: id, Dist: w.dists[0]})
			}
			known = append(known[:0], links...)
			for i := range links {
				links[i].ID &^= simd.Marked
			}
			sorted := slices.Clone(links)
			slices.SortFunc(sorted, func(x, y simd.Neighbour) int {
				return cmp.Or(cmp.Compare(x.Dist, y.Dist), cmp.Compare(x.ID, y.ID))
			})
			w.chosen = w.chosen[:0]
			b.choose(w, sorted, degree)
			want := slices.Clone(w.chosen)
			w.candidates = append(w.candidates[:0], known...)
			b.prune(w)
			if !slices.Equal(w.chosen, want) {
				t.Fatalf("links %v, want %v, of %v", w.chosen, want, known)
			}
			refused += len(known) - len(want)
			links = slices.DeleteFunc(links, func(e simd.Neighbour) bool { return !slices.Contains(want, e.ID) })
			for i := range links {
				links[i].ID |= simd.Marked
			}
		}
	}
	if refused == 0 {
		t.Error("no candidate was refused")
	}
}
