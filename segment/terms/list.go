package terms

import (
	"encoding/binary"
	"math"

	"github.com/vecbolt/vecbolt/internal/bitset"
)

// A list holds the postings of one term, in a file or in memory: rows in ascending order, in blocks
// of perBlock.
//
// docs has for each row the uvarint 2·(row - previous row - 1), plus 1 if the frequency is above 1;
// in that case the uvarint frequency - 2 follows. pos has the positions in each row, as differences
// within the row. skip has an entry for each full block.
type list struct {
	df              int
	maxFreq, minLen uint32 // over all rows
	skip, docs, pos []byte
}

func (l *list) full() int   { return len(l.skip) / skipSize }
func (l *list) blocks() int { return (l.df + perBlock - 1) / perBlock }

func (l *list) at(block int) skip { return decodeSkip(l.skip[block*skipSize:]) }

// bounds returns the last row that block may have, the largest frequency and the least length.
func (l *list) bounds(block int) (last, maxFreq, minLen uint32) {
	if block < l.full() {
		s := l.at(block)
		return s.last, s.maxFreq, s.minLen
	}
	return math.MaxUint32, l.maxFreq, l.minLen
}

// A lister makes a list.
type lister struct {
	list
	last       int64 // row
	blockFreq  uint32
	blockLen   uint32
	row        int64 // being collected by Index.Add
	freq, from uint32
}

func newLister() lister {
	return lister{list: list{minLen: math.MaxUint32}, last: -1, blockLen: math.MaxUint32, row: -1}
}

// add appends a row whose positions are in pos already. Nothing that was there before is written
// to.
func (l *lister) add(row int, freq, length uint32) {
	gap := 2 * uint64(int64(row)-l.last-1)
	if freq > 1 {
		l.docs = binary.AppendUvarint(l.docs, gap+1)
		l.docs = binary.AppendUvarint(l.docs, uint64(freq-2))
	} else {
		l.docs = binary.AppendUvarint(l.docs, gap)
	}
	l.last = int64(row)
	l.maxFreq, l.minLen = max(l.maxFreq, freq), min(l.minLen, length)
	l.blockFreq, l.blockLen = max(l.blockFreq, freq), min(l.blockLen, length)
	if l.df++; l.df%perBlock == 0 {
		s := skip{last: uint32(row), maxFreq: l.blockFreq, minLen: l.blockLen,
			docs: uint32(len(l.docs)), pos: uint64(len(l.list.pos))}
		l.skip = s.append(l.skip)
		l.blockFreq, l.blockLen = 0, math.MaxUint32
	}
}

// A cursor walks forward over the rows of a list that are below limit.
type cursor struct {
	list
	limit uint32
	block int // that is decoded; -1: none
	i, n  int // the posting it stands at, and the postings of the block
	rows  [perBlock]uint32
	freqs [perBlock]uint32

	posBlock, posIndex int // of the posting at which the next positions in posRest begin
	posRest            []byte
}

func (c *cursor) init(l list, limit int) {
	c.list, c.limit, c.block, c.i, c.n, c.posBlock = l, uint32(limit), -1, 0, 0, -1
}

// load decodes a block.
func (c *cursor) load(block int) error {
	row, from, to := int64(-1), uint64(0), uint64(len(c.docs))
	if block > 0 {
		s := c.at(block - 1)
		row, from = int64(s.last), uint64(s.docs)
	}
	n := c.df - block*perBlock
	if block < c.full() {
		n, to = perBlock, min(to, uint64(c.at(block).docs))
	}
	n = min(n, perBlock)
	if from > to {
		return corrupt(from, "block %d of postings ends before it begins", block)
	}
	b := c.docs[from:to]
	c.block, c.i, c.n = block, 0, 0
	at := 0
	for i := range n {
		var gap uint64
		if at < len(b) && b[at] < 0x80 {
			gap = uint64(b[at])
			at++
		} else {
			v, size := binary.Uvarint(b[at:])
			if size <= 0 {
				return corrupt(from+uint64(at), "postings end early")
			}
			gap = v
			at += size
		}
		freq := uint32(1)
		if gap&1 != 0 {
			v, size := uint64(0), 0
			if at < len(b) && b[at] < 0x80 {
				v, size = uint64(b[at]), 1
			} else if v, size = binary.Uvarint(b[at:]); size <= 0 || v > math.MaxUint32-2 {
				return corrupt(from+uint64(at), "postings end early")
			}
			freq = uint32(v) + 2
			at += size
		}
		if gap>>1 >= uint64(c.limit) { // also keeps row from overflow
			return nil
		}
		row += int64(gap>>1) + 1
		if row >= int64(c.limit) {
			return nil // not there yet in the view that asks
		}
		c.rows[i], c.freqs[i] = uint32(row), freq
		c.n = i + 1
	}
	return nil
}

// seek moves to the first row that is row or later, and reports whether there is one. It never
// moves back.
func (c *cursor) seek(row uint32) (bool, error) {
	if c.block >= 0 && c.n > 0 && row <= c.rows[c.n-1] {
		for c.rows[c.i] < row {
			c.i++
		}
		return true, nil
	}
	block := c.block + 1
	if full := c.full(); block < full && c.at(block).last < row {
		lo, hi := block+1, full // the first block whose last row is row or later, or the one that is not full
		for lo < hi {
			if mid := (lo + hi) / 2; c.at(mid).last < row {
				lo = mid + 1
			} else {
				hi = mid
			}
		}
		block = lo
	}
	for ; block < c.blocks(); block++ {
		if err := c.load(block); err != nil {
			return false, err
		}
		if c.n > 0 && c.rows[c.n-1] >= row {
			for c.rows[c.i] < row {
				c.i++
			}
			return true, nil
		}
	}
	c.block, c.n = c.blocks(), 0
	return false, nil
}

// next moves to the next row.
func (c *cursor) next() (bool, error) {
	if c.block >= 0 && c.i+1 < c.n {
		c.i++
		return true, nil
	}
	if c.n > 0 {
		return c.seek(c.rows[c.n-1] + 1)
	}
	return c.seek(0)
}

// frequency returns how often the term is in a row, 0 if it is not. The cursor moves there.
func (c *cursor) frequency(row uint32) (uint32, error) {
	ok, err := c.seek(row)
	if !ok || c.rows[c.i] != row {
		return 0, err
	}
	return c.freqs[c.i], nil
}

// raw returns the encoded positions of the present posting.
func (c *cursor) raw() ([]byte, error) {
	if c.posBlock != c.block || c.posIndex > c.i {
		from := uint64(0)
		if c.block > 0 {
			from = c.at(c.block - 1).pos
		}
		if from > uint64(len(c.pos)) {
			return nil, corrupt(from, "positions end early")
		}
		c.posBlock, c.posIndex, c.posRest = c.block, 0, c.pos[from:]
	}
	for ; c.posIndex < c.i; c.posIndex++ {
		n, err := c.span(c.freqs[c.posIndex])
		if err != nil {
			return nil, err
		}
		c.posRest = c.posRest[n:]
	}
	n, err := c.span(c.freqs[c.i])
	return c.posRest[:n], err
}

// span returns the bytes of the first n positions in posRest.
func (c *cursor) span(n uint32) (int, error) {
	for i, b := range c.posRest {
		if b < 0x80 {
			if n--; n == 0 {
				return i + 1, nil
			}
		}
	}
	return 0, corrupt(uint64(len(c.pos)), "positions end early")
}

// positions appends the positions in the present row to dst.
func (c *cursor) positions(dst []uint32) ([]uint32, error) {
	b, err := c.raw()
	p := uint64(0)
	for len(b) > 0 {
		v, size := binary.Uvarint(b)
		if size <= 0 || v > math.MaxUint32 || p+v > math.MaxUint32 {
			return dst, corrupt(0, "position beyond 2^32")
		}
		p += v
		dst = append(dst, uint32(p))
		b = b[size:]
	}
	return dst, err
}

// count returns how many rows of the list are below limit and live; nil live: all. whole tells that
// no row of the list is beyond limit.
func (l *list) count(limit int, whole bool, live bitset.Set) (int, error) {
	if live == nil && whole {
		return l.df, nil
	}
	var c cursor
	c.init(*l, limit)
	n, start := 0, 0 // start is the first row that block may have
	for block := range l.blocks() {
		last, _, _ := l.bounds(block)
		end := min(int(min(last, math.MaxInt32-1))+1, limit)
		// A block among live rows only needs not be read.
		if block < l.full() && int64(last) < int64(limit) && start < end &&
			(live == nil || live.CountRange(start, end) == end-start) {
			n += perBlock
			start = end
			continue
		}
		start = end
		if err := c.load(block); err != nil {
			return 0, err
		}
		if live == nil {
			n += c.n
			continue
		}
		for _, row := range c.rows[:c.n] {
			if live.Has(int(row)) {
				n++
			}
		}
	}
	return n, nil
}
