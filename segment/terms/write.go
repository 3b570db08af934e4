package terms

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/vecbolt/vecbolt/internal/blocks"
	"github.com/vecbolt/vecbolt/internal/codec"
)

// Dropped is the new row of a row that is left out.
const Dropped = math.MaxUint32

// An Input is a source from which a file is made.
type Input struct {
	Source
	// Rows maps the rows of the source to new rows, ascending except for Dropped ones. nil keeps
	// the numbers.
	Rows []uint32
}

func (in *Input) row(old uint32) uint32 {
	if in.Rows == nil {
		return old
	}
	return in.Rows[old]
}

// Write writes the file of a segment from the given inputs to w, which must be empty, and returns
// its size. Rows that appear in no input are empty. It needs memory for the dictionary, the lengths
// of rows and the postings of one term. It does not sync.
func Write(w io.WriterAt, ident Ident, inputs ...Input) (int64, error) {
	if ident.Rows < 1 || ident.Rows > MaxRows {
		return 0, fmt.Errorf("terms: cannot index %d rows", ident.Rows)
	}
	e := encoder{file: w, Writer: blocks.NewWriter(w, headerSize), inputs: inputs,
		head: header{ident: ident}, lens: make([]uint32, ident.Rows)}
	for _, step := range []func() error{e.lengths, e.postings, e.dictionary, e.finish} {
		if err := step(); err != nil {
			return 0, err
		}
	}
	return int64(e.head.size()), nil
}

// Build returns the file that Write writes.
func Build(ident Ident, inputs ...Input) ([]byte, error) {
	var m blocks.Memory
	_, err := Write(&m, ident, inputs...)
	return m, err
}

// An encoder is a file while it is being written.
type encoder struct {
	head   header
	inputs []Input
	lens   []uint32

	*blocks.Writer
	file io.WriterAt

	dict   []byte
	groups []uint64 // offsets in dict
	prev   string
	done   uint64 // bytes of postings
}

// at returns the file offset at which the next byte is written.
func (e *encoder) at() uint64 { return uint64(e.At()) }

// put writes b. An error is noticed soon, not at once.
func (e *encoder) put(b []byte) error {
	e.Add(b)
	if err := e.Spill(); err != nil {
		return format.Failed(err)
	}
	return nil
}

func (e *encoder) lengths() error {
	for i := range e.inputs {
		in := &e.inputs[i]
		lens, err := in.lengths()
		if err != nil {
			return err
		}
		if in.Rows != nil && len(in.Rows) != len(lens) {
			return fmt.Errorf("terms: %d new rows for %d rows", len(in.Rows), len(lens))
		}
		for old, n := range lens {
			row := in.row(uint32(old))
			if row == Dropped {
				continue
			}
			if int64(row) >= int64(len(e.lens)) {
				return fmt.Errorf("terms: row %d of %d", row, len(e.lens))
			}
			e.lens[row] = n
		}
	}
	for _, n := range e.lens {
		if n > 0 {
			e.head.texts++
		}
		e.head.tokens += uint64(n)
	}
	if err := e.put(codec.BytesFromU32s(e.lens)); err != nil {
		return err
	}
	e.Pad(sectionEnd)
	return nil
}

// A stream is the terms of an input while they are merged.
type stream struct {
	*Input
	next   func() (named, error, bool)
	term   named
	done   bool
	cursor cursor
	row    uint32 // new row of the posting at which cursor stands; Dropped at the end
}

func (s *stream) advance() error {
	n, err, ok := s.next()
	s.term, s.done = n, !ok
	return err
}

// move takes the cursor to the next row that is not dropped.
func (s *stream) move() error {
	for {
		ok, err := s.cursor.next()
		if err != nil || !ok {
			s.row = Dropped
			return err
		}
		if s.row = s.Input.row(s.cursor.rows[s.cursor.i]); s.row != Dropped {
			return nil
		}
	}
}

func (e *encoder) postings() error {
	streams := make([]*stream, len(e.inputs))
	for i := range e.inputs {
		next, stop := pull(e.inputs[i].Source)
		defer stop()
		streams[i] = &stream{Input: &e.inputs[i], next: next}
		if err := streams[i].advance(); err != nil {
			return err
		}
	}
	l := newLister()
	var same []*stream
	for {
		// The streams that have the least term.
		same = same[:0]
		for _, s := range streams {
			switch {
			case s.done || len(same) > 0 && s.term.term > same[0].term.term:
				continue
			case len(same) > 0 && s.term.term < same[0].term.term:
				same = same[:0]
			}
			same = append(same, s)
		}
		if len(same) == 0 {
			break
		}
		l = lister{list: list{minLen: math.MaxUint32, skip: l.skip[:0], docs: l.docs[:0],
			pos: l.list.pos[:0]}, last: -1, blockLen: math.MaxUint32}
		if err := e.merge(&l, same); err != nil {
			return err
		}
		if l.df > 0 {
			if err := e.term(same[0].term.term, &l.list); err != nil {
				return err
			}
		}
		for _, s := range same {
			if err := s.advance(); err != nil {
				return err
			}
		}
	}
	return nil
}

// merge appends the rows of a term in all streams to l.
func (e *encoder) merge(l *lister, streams []*stream) error {
	for _, s := range streams {
		s.cursor.init(s.term.list, s.Source.Rows())
		if err := s.move(); err != nil {
			return err
		}
	}
	for {
		first := streams[0]
		for _, s := range streams[1:] {
			if s.row < first.row {
				first = s
			}
		}
		row := first.row
		if row == Dropped {
			return nil
		}
		if int64(row) <= l.last {
			return fmt.Errorf("terms: row %d comes twice", row)
		}
		pos, err := first.cursor.raw()
		if err != nil {
			return err
		}
		l.list.pos = append(l.list.pos, pos...)
		l.add(int(row), first.cursor.freqs[first.cursor.i], e.lens[row])
		if int64(len(l.docs)) > math.MaxUint32 {
			return fmt.Errorf("terms: rows of %q take more than 4 GiB", first.term.term)
		}
		if err := first.move(); err != nil {
			return err
		}
	}
}

// term writes the postings of a term and adds it to the dictionary.
func (e *encoder) term(term string, l *list) error {
	if e.head.terms == math.MaxUint32 {
		return fmt.Errorf("terms: more than 2^32 terms")
	}
	if e.head.terms%perGroup == 0 {
		e.groups = append(e.groups, uint64(len(e.dict)))
		e.dict = binary.AppendUvarint(e.dict, e.done)
		e.prev = ""
	}
	shared := 0
	for shared < min(len(term), len(e.prev)) && term[shared] == e.prev[shared] {
		shared++
	}
	e.dict = binary.AppendUvarint(e.dict, uint64(shared))
	e.dict = binary.AppendUvarint(e.dict, uint64(len(term)-shared))
	e.dict = append(e.dict, term[shared:]...)
	x := entry{df: uint64(l.df), maxFreq: uint64(l.maxFreq), minLen: uint64(l.minLen),
		docs: uint64(len(l.docs)), pos: uint64(len(l.pos))}
	e.dict = x.append(e.dict)
	e.done += x.skips() + x.docs + x.pos
	e.prev = term
	e.head.terms++
	for _, b := range [][]byte{l.skip, l.docs, l.pos} {
		if err := e.put(b); err != nil {
			return err
		}
	}
	return nil
}

func (e *encoder) dictionary() error {
	e.head.dictionary = e.at()
	if err := e.put(e.dict); err != nil {
		return err
	}
	e.Pad(offsetSize)
	e.head.index = e.at()
	var index codec.Encoder
	for _, g := range e.groups {
		index.U64(e.head.dictionary + g)
	}
	return e.put(index.B)
}

func (e *encoder) finish() error {
	return format.Finish(e.file, func(end int64, tableCRC uint32) []byte {
		e.head.table, e.head.tableCRC = uint64(end), tableCRC
		return e.head.encode()
	}, e.Writer)
}
