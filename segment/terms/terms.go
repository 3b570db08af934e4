package terms

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"sort"

	"github.com/vecbolt/vecbolt/internal/blocks"
	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// Terms is the file of a segment.
type Terms struct {
	b    []byte
	file *blocks.Content
	head header
	lens []uint32
}

// Parse opens the file b for the segment ident. It verifies the header and the checksums of blocks;
// each block when it is first used. b is kept: it must stay readable and unchanged while the Terms
// are used. Its address must be a multiple of 8, as mappings have it; otherwise, and on big-endian
// machines, the lengths of rows are copied. The error wraps fileformat.ErrDamaged,
// fileformat.ErrVersion or fileformat.ErrMismatch.
func Parse(b []byte, ident Ident) (*Terms, error) {
	h, err := decodeHeader(b)
	if err != nil {
		return nil, err
	}
	if h.ident != ident {
		return nil, fmt.Errorf("terms: %w: have %+v, want %+v", fileformat.ErrMismatch, h.ident, ident)
	}
	file, err := format.Content(b, int64(h.table), h.tableCRC)
	if err != nil {
		return nil, err
	}
	return &Terms{b: b, file: file, head: h, lens: codec.U32sFromBytes(b[headerSize:][:wordSize*ident.Rows])}, nil
}

// Rows returns the number of rows.
func (t *Terms) Rows() int { return t.head.ident.Rows }

// Len returns the number of different terms.
func (t *Terms) Len() int { return int(t.head.terms) }

// touch verifies what lies in the file range [start, end).
func (t *Terms) touch(start, end uint64) error { return t.file.Touch(int64(start), int64(end)) }

func (t *Terms) lengths() ([]uint32, error) {
	return t.lens, t.touch(headerSize, headerSize+wordSize*uint64(len(t.lens)))
}

func (t *Terms) totals() (texts, tokens uint64, ok bool) {
	return uint64(t.head.texts), t.head.tokens, true
}

func (t *Terms) whole() bool { return true }

// group returns where group i of the dictionary begins and ends.
func (t *Terms) group(i int) (start, end uint64, err error) {
	at := func(i int) (uint64, error) {
		if i == int(t.head.groups()) {
			return t.head.index, nil
		}
		off := t.head.index + offsetSize*uint64(i)
		if err := t.touch(off, off+offsetSize); err != nil {
			return 0, err
		}
		return binary.LittleEndian.Uint64(t.b[off:]), nil
	}
	if start, err = at(i); err != nil {
		return 0, 0, err
	}
	if end, err = at(i + 1); err != nil {
		return 0, 0, err
	}
	end = min(end, t.head.index) // the index begins at a multiple of its entries
	if start < t.head.dictionary || start >= end {
		return 0, 0, corrupt(t.head.index, "group %d of the dictionary from %d to %d", i, start, end)
	}
	return start, end, t.touch(start, end)
}

// A reader walks over a group of the dictionary.
type reader struct {
	t     *Terms
	start uint64 // of the group
	d     *codec.Decoder
	left  int // terms not read yet
	term  []byte
	off   uint64 // of the postings of the next term
	entry entry
}

func (t *Terms) reader(group int) (*reader, error) {
	start, end, err := t.group(group)
	if err != nil {
		return nil, err
	}
	r := &reader{t: t, start: start, d: codec.NewDecoder(t.b[start:end])}
	r.left = min(perGroup, int(t.head.terms)-group*perGroup)
	r.off = r.d.Uvarint()
	return r, nil
}

// next reads the next term and skips its postings.
func (r *reader) next() error {
	r.left--
	shared := r.d.Uvarint()
	suffix := r.d.Bytes()
	r.entry.decode(r.d)
	if err := r.d.Err(); err != nil {
		return corrupt(r.start+uint64(r.d.Offset()), "%v", err)
	}
	if shared > uint64(len(r.term)) {
		return corrupt(r.start, "term shares %d bytes with one of %d", shared, len(r.term))
	}
	x := &r.entry
	r.term = append(r.term[:shared], suffix...)
	room := r.t.head.dictionary - r.t.head.postings()
	rows := uint64(r.t.Rows())
	if x.df < 1 || x.df > rows || x.maxFreq > math.MaxUint32 || x.minLen > math.MaxUint32 ||
		x.docs > room || x.pos > room || r.off > room || x.skips()+x.docs+x.pos > room-r.off {
		return corrupt(r.start, "term %q: %+v at %d", r.term, *x, r.off)
	}
	r.off += x.skips() + x.docs + x.pos
	return nil
}

// list returns the postings of the term read last.
func (r *reader) list() (list, error) {
	x := r.entry
	end := r.t.head.postings() + r.off
	start := end - x.skips() - x.docs - x.pos
	if err := r.t.touch(start, end); err != nil {
		return list{}, err
	}
	docs := start + x.skips()
	pos := docs + x.docs
	b := r.t.b
	return list{
		df: int(x.df), maxFreq: uint32(x.maxFreq), minLen: uint32(x.minLen),
		skip: b[start:docs:docs], docs: b[docs:pos:pos], pos: b[pos:end:end],
	}, nil
}

// find returns the group that may contain a term: the last one whose first term is not above it.
func (t *Terms) find(term string) (group int, err error) {
	n := sort.Search(int(t.head.groups()), func(i int) bool {
		if err != nil {
			return true
		}
		var r *reader
		if r, err = t.reader(i); err == nil {
			err = r.next()
		}
		return err == nil && string(r.term) > term
	})
	return n - 1, err
}

func (t *Terms) lookup(term string) (list, error) {
	group, err := t.find(term)
	if err != nil || group < 0 {
		return list{}, err
	}
	r, err := t.reader(group)
	for err == nil && r.left > 0 && string(r.term) < term {
		if err = r.next(); err == nil && string(r.term) == term {
			return r.list()
		}
	}
	return list{}, err
}

func (t *Terms) withPrefix(prefix string) iter.Seq2[named, error] {
	return func(yield func(named, error) bool) {
		group, err := t.find(prefix)
		for group = max(group, 0); group < int(t.head.groups()) && err == nil; group++ {
			var r *reader
			for r, err = t.reader(group); err == nil && r.left > 0; {
				if err = r.next(); err != nil || string(r.term) < prefix {
					continue
				}
				if !bytes.HasPrefix(r.term, []byte(prefix)) {
					return
				}
				var l list
				if l, err = r.list(); err == nil && !yield(named{string(r.term), l}, nil) {
					return
				}
			}
		}
		if err != nil {
			yield(named{}, err)
		}
	}
}

// Verify compares all checksums that were not compared yet and reads all postings: every row and
// position is where it may be, and the numbers of the header and dictionary are right.
func (t *Terms) Verify() error {
	if err := t.file.Verify(); err != nil {
		return err
	}
	var texts, tokens, terms uint64
	lens := make([]uint32, t.Rows())
	var c cursor
	var positions []uint32
	prev := ""
	for n, err := range t.withPrefix("") {
		if err != nil {
			return err
		}
		if terms > 0 && n.term <= prev {
			return corrupt(t.head.dictionary, "term %q after %q", n.term, prev)
		}
		prev = n.term
		terms++
		rows, docs := 0, 0
		var maxFreq, minLen uint32 = 0, math.MaxUint32
		c.init(n.list, t.Rows())
		for {
			ok, err := c.next()
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			rows++
			row := c.rows[c.i]
			if positions, err = c.positions(positions[:0]); err != nil {
				return err
			}
			docs += len(positions)
			lens[row] += c.freqs[c.i]
			maxFreq, minLen = max(maxFreq, c.freqs[c.i]), min(minLen, t.lens[row])
			if last, most, least := n.list.bounds(c.block); row > last || c.freqs[c.i] > most || t.lens[row] < least {
				return corrupt(t.head.postings(), "term %q, row %d: block says otherwise", n.term, row)
			}
		}
		if rows != n.list.df || maxFreq != n.list.maxFreq || minLen != n.list.minLen {
			return corrupt(t.head.dictionary, "term %q: %d rows, frequency %d, length %d, dictionary says %d, %d, %d",
				n.term, rows, maxFreq, minLen, n.list.df, n.list.maxFreq, n.list.minLen)
		}
	}
	for row, n := range lens {
		if n != t.lens[row] {
			return corrupt(headerSize+wordSize*uint64(row), "row %d has %d terms, not %d", row, n, t.lens[row])
		}
		tokens += uint64(n)
		if n > 0 {
			texts++
		}
	}
	if terms != uint64(t.head.terms) || texts != uint64(t.head.texts) || tokens != t.head.tokens {
		return corrupt(64, "%d terms, %d rows with terms, length %d", terms, texts, tokens)
	}
	return nil
}
