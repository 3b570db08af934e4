package codes

import "sync/atomic"

// mostPaused is the largest number of chunks that are scanned by codes before cheaper ones are
// tried again.
const mostPaused = 16

// A pause decides which chunks of a scan are read as nibbles, or sketches, and which as codes. The
// cheaper reading does not pay where it leaves too many rows. That happens in the first chunks of
// every scan, while the best rows are not known yet, and in all chunks if very many are wanted. So
// a pause lasts for one chunk at first, and its length doubles until the cheaper reading pays.
// Goroutines share it, and a race only changes which chunk is tried.
type pause struct {
	left atomic.Int32 // chunks to pass over
	last atomic.Int32 // length of the last pause
}

// over reports whether to try the next chunk.
func (p *pause) over() bool { return p.left.Load() <= 0 || p.left.Add(-1) < 0 }

// tried records whether the cheaper reading of a chunk has paid.
func (p *pause) tried(paid bool) {
	if paid {
		p.last.Store(0)
		return
	}
	n := min(max(1, 2*p.last.Load()), mostPaused)
	p.last.Store(n)
	p.left.Store(n)
}
