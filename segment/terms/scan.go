package terms

import (
	"cmp"
	"slices"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/topk"
)

// window is the number of rows that are scored together.
const window = 2048

// A Buffer is memory that Scan uses again. The zero value is ready.
type Buffer struct {
	cursors []unitCursor
	order   []*unitCursor
	scores  [window]float64
	seen    [window / 64]uint64
}

// A unitCursor walks forward over the rows of a part that have a unit.
type unitCursor struct {
	cursor
	weight float64 // of the unit
	ahead  int     // first block that may have rows from the present window on
	bound  float64 // of the share of any row in the window
	below  float64 // sum of the bounds of the cursors before it, in the order of bounds
}

// look computes the bound for rows from lo to hi-1.
func (g *unitCursor) look(s *Search, lo, hi int) {
	g.bound = 0
	for g.ahead < g.full() && int64(g.at(g.ahead).last) < int64(lo) {
		g.ahead++
	}
	for block := g.ahead; block < g.blocks(); block++ {
		last, freq, length := g.bounds(block)
		g.bound = max(g.bound, share(g.weight, freq, s.norm(length))*(1+0x1p-40))
		if int64(last) >= int64(hi)-1 {
			break
		}
	}
}

// Scan offers the rows lo to hi-1 of a part to c: the rows in set, which must be live. A set of nil
// means all rows, and is for parts without dead ones. It leaves out rows that cannot reach the
// floor of c, and rows that contain no unit of the query. Rows are offered with bounds that hold
// their Score. The scheme is block-max indexes by Ding and Suel (Faster top-k document retrieval
// using block-max indexes, 2011), with MaxScore for each window of rows.
func (s *Search) Scan(part, lo, hi int, set bitset.Set, c *topk.Collector, buf *Buffer) error {
	p := s.parts[part]
	buf.cursors = slices.Grow(buf.cursors[:0], len(s.units))[:0]
	for i := range s.units {
		if p.lists[i].df > 0 {
			buf.cursors = append(buf.cursors, unitCursor{weight: s.units[i].weight})
			buf.cursors[len(buf.cursors)-1].init(p.lists[i], p.Rows())
		}
	}
	for start := lo; start < hi && len(buf.cursors) > 0; start += window {
		end := min(start+window, hi)
		if err := s.ctx.Err(); err != nil {
			return err
		}
		if set != nil && set.CountRange(start, end) == 0 {
			continue
		}
		if err := s.window(p, int32(part), start, end, set, c, buf); err != nil {
			return inPart(part, err)
		}
	}
	return nil
}

// window offers the rows start to end-1 of a part, at most window rows: see Scan.
func (s *Search) window(p *part, number int32, start, end int, set bitset.Set, c *topk.Collector, buf *Buffer) error {
	cursors := buf.order[:0]
	total := 0.0
	for i := range buf.cursors {
		g := &buf.cursors[i]
		if g.look(s, start, end); g.bound > 0 {
			cursors = append(cursors, g)
			total += g.bound
		}
	}
	buf.order = cursors
	if total*(1+s.slack) < c.Floor() {
		return nil
	}
	// Rows that have only the units of the first, optional cursors cannot reach the floor.
	slices.SortStableFunc(cursors, func(a, b *unitCursor) int { return cmp.Compare(a.bound, b.bound) })
	optional, rest := 0, 0.0
	for _, g := range cursors {
		g.below = rest
		rest += g.bound
		if rest*(1+s.slack) < c.Floor() {
			optional++
		}
	}
	if optional < len(cursors) {
		rest = cursors[optional].below
	}
	clear(buf.seen[:])
	if wanted := end - start; set != nil && 64*set.CountRange(start, end) < wanted {
		// So few that each is looked up.
		for row := set.NextSet(start); row >= 0 && row < end; row = set.NextSet(row + 1) {
			buf.scores[row-start] = 0
			buf.seen[(row-start)/64] |= 1 << ((row - start) % 64)
		}
		optional, rest = len(cursors), total*(1+s.slack)
	} else {
		for _, g := range cursors[optional:] {
			if err := s.collect(p, g, start, end, set, buf); err != nil {
				return err
			}
		}
	}
	for i := bitset.Set(buf.seen[:]).NextSet(0); i >= 0; i = bitset.Set(buf.seen[:]).NextSet(i + 1) {
		score, norm := buf.scores[i], s.norm(p.lens[start+i])
		hopeless := (score+rest)*(1+s.slack) < c.Floor()
		for j := optional - 1; j >= 0 && !hopeless; j-- {
			g := cursors[j]
			f, err := g.frequency(uint32(start + i))
			if err != nil {
				return err
			}
			if f > 0 {
				score += share(g.weight, f, norm)
			}
			hopeless = (score+g.below)*(1+s.slack) < c.Floor()
		}
		if !hopeless && score > 0 {
			c.Offer(score*(1-s.slack), score*(1+s.slack), number, int32(start+i))
		}
	}
	return nil
}

// collect adds the shares of one unit to the scores of rows start to end-1.
func (s *Search) collect(p *part, g *unitCursor, start, end int, set bitset.Set, buf *Buffer) error {
	ok, err := g.seek(uint32(start))
	for ok && err == nil {
		i, n := g.i, g.n
		for ; i < n; i++ {
			row := int(g.rows[i])
			if row >= end {
				g.i = i
				return nil
			}
			if set != nil && !set.Has(row) {
				continue
			}
			at := row - start
			add := share(g.weight, g.freqs[i], s.norm(p.lens[row]))
			if bit := uint64(1) << (at % 64); buf.seen[at/64]&bit == 0 {
				buf.seen[at/64] |= bit
				buf.scores[at] = add
			} else {
				buf.scores[at] += add
			}
		}
		g.i = n - 1
		ok, err = g.seek(g.rows[n-1] + 1)
	}
	return err
}
