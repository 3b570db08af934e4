package engine

import (
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment/graph"
)

// A segment is cold while the system takes pages of its graph away again, because memory is short.
// Searches then ask for their pages ahead, all of an expansion at once. Otherwise each page is
// waited for, with 128 KiB or more of its neighbours, which take the place of pages that are
// needed. Where memory suffices, those neighbours are welcome: soon the whole file is in memory.
const (
	coldReads    = 64  // of 512 bytes: a search for which more was read looks whether pages are gone
	coldSearches = 64  // searches for which the segment then is cold
	coldFirst    = 16  // the same for a segment that was opened: its files may be on disk
	coldYoung    = 256 // of the first searches of a graph that was not read whole, this many count reads
	coldLook     = 8   // of the others, one in this many does
)

// A Watch follows one search of a graph.
type Watch struct {
	Cold bool // the search should ask for its pages ahead
	Look bool // it is one of coldLook

	s      *OpenSegment
	g      *graph.Graph
	counts bool
	before int64
}

// Watch begins a search of g, the graph of s.
func (s *OpenSegment) Watch(g *graph.Graph) Watch {
	n := s.looks.Add(1)
	w := Watch{s: s, g: g, Cold: s.cold.Load() > 0, Look: n%coldLook == 0}
	if w.counts = w.Cold || w.Look || n < coldYoung && !g.Verified(); w.counts {
		w.before = vfs.DiskReads()
	}
	return w
}

// End ends the search.
func (w *Watch) End() {
	if w.counts {
		w.s.waited(w.g, vfs.DiskReads()-w.before)
	}
}

// waited notes how much a search of g had read from disk.
func (s *OpenSegment) waited(g *graph.Graph, reads int64) {
	if reads >= coldReads && g.Evicted() {
		s.cold.Store(coldSearches)
	} else if n := s.cold.Load(); n > 0 {
		s.cold.CompareAndSwap(n, n-1)
	}
}
