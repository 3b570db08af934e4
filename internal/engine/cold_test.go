package engine

import (
	"testing"

	"github.com/vecbolt/vecbolt/segment/graph"
)

// The first searches of a segment expect its files on disk. After them, the segment is cold only
// where pages of its graph were evicted; this graph is in the heap, so none were.
func TestCold(t *testing.T) {
	s, g := new(OpenSegment), new(graph.Graph)
	search := func(reads int64) (cold bool) {
		w := s.Watch(g)
		if w.counts {
			s.waited(g, reads)
		}
		return w.Cold
	}
	for i := range 3 * coldLook {
		if search(0) {
			t.Fatalf("search %d of an open segment is cold", i)
		}
	}
	for _, first := range []int32{coldFirst, coldSearches} {
		for _, reads := range []int64{0, coldReads - 1, 1 << 20} {
			s.cold.Store(first)
			for i := range first {
				if !search(reads) {
					t.Errorf("search %d of %d is not cold", i, first)
				}
			}
			if search(reads) {
				t.Errorf("cold after %d searches", first)
			}
		}
	}
	w := s.Watch(g)
	w.End()
	if counted := s.looks.Load(); counted == 0 {
		t.Error("no search was counted")
	}
}
