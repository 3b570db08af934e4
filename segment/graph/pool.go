package graph

import (
	"cmp"
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/simd"
)

// A pool is the beam of a search: the nearest rows so far. Expanded rows are marked.
//
// The nearest rows are in order. A wide beam keeps only some in order at first, its front, and the
// others apart: most searches end before they expand all rows of the front, and it is cheap to keep
// few rows in order. Once a row behind the front is needed, the front becomes longer.
type pool struct {
	rows  []simd.Neighbour // the rows in order, nearest first
	slots []simd.Neighbour // rows and vacant slots
	limit int              // of rows
	next  int              // all rows before it are marked
	rest  []simd.Neighbour // the rows behind a full front, also some that lie behind the beam
	ef    int              // limit without a front; 0 if all rows are in order
	all   []simd.Neighbour // memory of lengthen
}

const (
	longer = 4      // multiple by which a front becomes longer
	room   = degree // slots behind a front, for the rows that one expansion pushes out
)

// reset makes p a pool of at most limit rows. If front is not 0, it may keep that many in order.
func (p *pool) reset(limit, front int) {
	p.ef, p.rest = 0, p.rest[:0]
	if front > 0 && front+room < limit {
		p.ef, limit = limit, front
	}
	p.vacate(limit)
}

// vacate makes p an empty pool of at most limit rows in order. A front gets room behind it.
func (p *pool) vacate(limit int) {
	n := limit
	if p.ef > limit {
		n += room
	}
	n = simd.PoolLen(n)
	p.slots = slices.Grow(p.slots[:0], n)[:n]
	for i := range p.slots {
		p.slots[i] = simd.Vacant
	}
	p.rows, p.limit, p.next = p.slots[:0], limit, 0
}

// lengthen brings the nearest rows behind the front into order.
func (p *pool) lengthen() {
	limit, next := min(p.ef, longer*p.limit), p.next
	n := min(limit-len(p.rows), len(p.rest))
	selectNearest(p.rest, n)
	nearest := p.rest[:n]
	if limit == p.ef { // the others lie behind the beam
		p.ef, p.rest = 0, nearest
	}
	p.all = append(p.all[:0], p.rows...)
	p.vacate(limit)
	p.rows = p.slots[:copy(p.slots, p.all)]
	if n > inRegisters {
		slices.SortFunc(nearest, func(a, b simd.Neighbour) int { return cmp.Compare(a.Dist, b.Dist) })
		p.rows = append(p.rows, nearest...)
	} else { // to insert few is faster
		p.insertRows(nearest)
	}
	p.rest = slices.Delete(p.rest, 0, n)
	for p.next = next; p.next < len(p.rows) && p.rows[p.next].ID >= simd.Marked; {
		p.next++
	}
}

// insertRows is insert for rows that all find a place.
func (p *pool) insertRows(rows []simd.Neighbour) {
	var ids [room]uint32
	var dists [room]float32
	for some := range slices.Chunk(rows, room) {
		for i, e := range some {
			ids[i], dists[i] = e.ID, e.Dist
		}
		p.insert(ids[:len(some)], dists[:len(some)], math.MaxFloat32)
	}
}

// selectNearest brings the n nearest rows before the others, by Hoare's quickselect.
func selectNearest(rows []simd.Neighbour, n int) {
	for n > 0 && n < len(rows) {
		first, middle, last := rows[0].Dist, rows[len(rows)/2].Dist, rows[len(rows)-1].Dist
		pivot := max(min(first, middle), min(max(first, middle), last)) // their median
		i, j := 0, len(rows)-1
		for i <= j {
			for rows[i].Dist < pivot {
				i++
			}
			for rows[j].Dist > pivot {
				j--
			}
			if i <= j {
				rows[i], rows[j] = rows[j], rows[i]
				i, j = i+1, j-1
			}
		}
		switch { // rows between j and i are as far as the pivot
		case n <= j+1:
			rows = rows[:j+1]
		case n >= i:
			rows, n = rows[i:], n-i
		default:
			return
		}
	}
}

// worst returns the distance at and beyond which rows are refused.
func (p *pool) worst() float32 {
	if p.ef > 0 {
		return math.MaxFloat32
	}
	return p.slots[p.limit-1].Dist
}

// full reports whether a row at this distance would be refused.
func (p *pool) full(dist float32) bool { return !(dist < p.worst()) }

// within returns the distance of the row of a rank; false if there are fewer rows.
func (p *pool) within(rank int) (float32, bool) {
	if !p.order(rank) {
		return 0, false
	}
	return p.rows[rank-1].Dist, true
}

// order brings the n nearest rows into order; false if there are fewer rows.
func (p *pool) order(n int) bool {
	for n > len(p.rows) && n <= len(p.rows)+len(p.rest) {
		p.lengthen()
	}
	return n <= len(p.rows)
}

// offer inserts a row unless it is too far.
func (p *pool) offer(dist float32, id uint32) {
	p.offerAll([]uint32{id}, []float32{dist}, math.MaxFloat32)
}

// offerAll inserts the rows ids, at dists, that are not farther than most and find a place.
func (p *pool) offerAll(ids []uint32, dists []float32, most float32) {
	if p.ef == 0 {
		p.insert(ids, dists, most)
		return
	}
	for len(dists) > room {
		p.offerFront(ids[:room], dists[:room], most)
		ids, dists = ids[room:], dists[room:]
	}
	p.offerFront(ids, dists, most)
}

// offerFront is offerAll for a pool with a front, and for no more rows than it has room for.
func (p *pool) offerFront(ids []uint32, dists []float32, most float32) {
	most = min(most, math.MaxFloat32)
	last := p.slots[p.limit-1].Dist // infinite while the front is not full
	for i, d := range dists {
		if d = max(d, 0); d >= last && d <= most {
			p.rest = append(p.rest, simd.Neighbour{ID: ids[i], Dist: d})
		}
	}
	p.insert(ids, dists, min(most, math.Nextafter32(last, -1)))
	if len(p.rows) > p.limit {
		pushed := p.rows[p.limit:]
		p.rest = append(p.rest, pushed...)
		for i := range pushed {
			pushed[i] = simd.Vacant
		}
		p.rows, p.next = p.rows[:p.limit], min(p.next, p.limit)
	}
}

// insert inserts rows in order.
func (p *pool) insert(ids []uint32, dists []float32, most float32) {
	limit := p.limit
	if p.ef > 0 {
		limit += room
	}
	if rows, next := simd.Offer(p.slots, limit, p.next, ids, dists, most); rows > 0 {
		p.rows, p.next = p.slots[:rows], min(next, rows) // next is the limit if all are marked
	}
}

// pop marks and returns the nearest unmarked row. It returns false if that row is not among the
// first nearest rows of the pool, or is farther than most.
func (p *pool) pop(nearest int, most float32) (uint32, bool) {
	for {
		for n := min(nearest, len(p.rows)); p.next < n; p.next++ {
			if e := &p.rows[p.next]; e.ID < simd.Marked {
				if e.Dist > most {
					return 0, false
				}
				id := e.ID
				e.ID |= simd.Marked
				p.next++
				return id, true
			}
		}
		if nearest <= len(p.rows) || !p.behind(most) {
			return 0, false
		}
		p.lengthen()
	}
}

// behind reports whether an unmarked row behind the front is not farther than most.
func (p *pool) behind(most float32) bool {
	for _, e := range p.rest {
		if e.ID < simd.Marked && e.Dist <= most {
			return true
		}
	}
	return false
}
