package wal

import (
	"errors"
	"fmt"
	"math"
	"syscall"

	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// A Gap is damage of the log, with the range of records that are lost there.
type Gap struct {
	First uint64 // 0 if no record is lost
	Last  uint64 // 0 if nothing tells where the range ends
	Err   error  // the damage
}

// String counts the records.
func (g Gap) String() string {
	switch {
	case g.First == 0:
		return "none is lost"
	case g.Last == 0:
		return fmt.Sprintf("any from number %d on are lost, and nothing tells how many", g.First)
	case g.First == g.Last:
		return fmt.Sprintf("number %d is lost", g.First)
	}
	return fmt.Sprintf("%d are lost, numbers %d to %d", g.Last-g.First+1, g.First, g.Last)
}

// Salvage is Replay of a log that may be damaged: it goes on behind damage. fn is called with every
// record that Replay would deliver if no byte had changed, in order, except for those that are
// lost; lost is called with these, in between. Bytes that cannot be read count as damaged.
//
// last is the number of the last record, or 0 if the caller does not know it. Without it, the log
// ends where it would without the damage: a frame behind the last record that no other frame or
// file proves to be durable is a torn tail.
func Salvage(o Options, after, last uint64, fn func(lsn uint64, payload []byte) error, lost func(Gap)) (Tail, error) {
	s := &salvager{o: &o, after: after, last: last, due: after + 1, fn: fn, lost: lost, tail: Tail{Last: after}}
	files, _, err := list(&o)
	if errors.Is(err, fileformat.ErrCorrupt) || errors.Is(err, syscall.EIO) {
		if !errors.Is(err, fileformat.ErrCorrupt) {
			err = &fileformat.CorruptError{File: dir, Offset: -1, Err: err}
		}
		s.rest(err)
		return s.tail, nil
	}
	if err != nil {
		return s.tail, err
	}
	s.tail.Files = len(files)
	start := 0
	for i, f := range files {
		if f.there > 0 && f.base-1 <= after {
			start = i
		}
	}
	files = files[start:]
	for i := range files {
		if err := s.file(&files[i], files[i+1:]); err != nil {
			return s.tail, err
		}
	}
	s.gap(s.last, &fileformat.CorruptError{File: dir, Offset: -1,
		Err: fmt.Errorf("the log ends with record %d, but ended with record %d", s.due-1, s.last)})
	return s.tail, nil
}

// salvager is one run of Salvage.
type salvager struct {
	o     *Options
	after uint64
	last  uint64 // 0: unknown
	due   uint64 // the first record above after that is neither delivered nor lost
	fn    func(lsn uint64, payload []byte) error
	lost  func(Gap)
	told  error // of the last call of lost
	tail  Tail
}

func (s *salvager) tell(g Gap) {
	s.told = g.Err
	s.lost(g)
}

// gap notes that the records up to last are lost, as far as they are needed and not noted yet.
func (s *salvager) gap(last uint64, err error) {
	if last >= s.due {
		s.tell(Gap{s.due, last, err})
		s.due = last + 1
	}
}

// rest is gap for all records from here on. Only the caller may have said how many there are.
func (s *salvager) rest(err error) {
	switch {
	case s.last > 0:
		s.gap(s.last, err)
	case s.due < math.MaxUint64: // otherwise an earlier file has the same gap
		s.tell(Gap{First: s.due, Err: err})
		s.due = math.MaxUint64
	}
}

// file reads one file. Its records end where the next file begins.
func (s *salvager) file(f *file, behind []file) error {
	p := part{salvager: s, file: f}
	for i := range behind {
		if behind[i].there > 0 {
			p.next = &behind[i]
			break
		}
	}
	if unread, ok := errors.AsType[*readError](f.err); ok {
		f.err = unread.damage()
	}
	switch {
	case errors.Is(f.err, fileformat.ErrVersion):
		return f.err
	case f.there == 0:
		p.lose(f.err)
		return nil
	}
	s.gap(f.base-1, &fileformat.CorruptError{File: f.name, Err: fmt.Errorf(
		"records %d to %d are missing: the file begins with record %d", s.due, f.base-1, f.base)})
	r, err := openReader(s.o, f, p.next)
	if err != nil {
		return err
	}
	defer r.f.Close()
	r.patient = true
	p.r = r
	if p.next == nil && s.last > 0 {
		r.end = s.last + 1
	}
	// Without the header of the next file, only frames tell where the records end.
	switch {
	case p.next == nil && s.last > 0 && len(behind) == 0:
		p.proof = fmt.Sprintf("the log ended with record %d", s.last)
	case p.next != nil && p.next == &behind[0]:
		p.proof = begins(p.next, f.seq)
	}
	s.tail.Torn, s.tail.TornFile, s.tail.TornOffset = false, "", 0
	if err := p.read(); err != nil {
		return err
	}
	if f.err != nil && s.told != f.err {
		s.tell(Gap{Err: f.err})
	}
	return nil
}

// part is the part of the log in one file.
type part struct {
	*salvager
	file  *file
	next  *file // with a sound header; nil: none
	r     *reader
	proof string // that all records of the file were durable, if something tells
	w     *witness
}

// lose notes that the rest of the records is lost.
func (p *part) lose(err error) {
	if p.next != nil {
		p.gap(p.next.base-1, err)
	} else {
		p.rest(err)
	}
}

// read delivers the records.
func (p *part) read() error {
	for p.r.lsn < p.r.end {
		lsn := p.r.lsn
		payload, ok, err := p.r.next()
		switch {
		case err != nil:
			return err
		case !ok:
			if more, err := p.pass(); !more || err != nil {
				return err
			}
		case lsn >= p.due:
			if err := p.fn(lsn, payload); err != nil {
				return err
			}
			p.tail.Last, p.due = lsn, lsn+1
		}
	}
	return nil
}

// pass goes on behind a damaged frame. It reports whether there is a sound one, which must have
// been durable, or one before it.
func (p *part) pass() (more bool, err error) {
	r, durable, proof := p.r, p.r.end-1, p.proof
	if p.file.err != nil { // perhaps the header
		if found, err := r.realign(); found || err != nil {
			return found, err
		}
	}
	if proof == "" {
		torn := false
		if p.w == nil || p.w.durable < r.lsn {
			if torn, p.w, err = r.remains(p.after); err != nil {
				return false, err
			}
		}
		if p.w == nil { // the log ends here, as far as can be seen
			switch hole := r.hole(r.off, r.size); {
			case hole != nil:
				p.lose(hole)
			case p.file.cut():
				p.lose(p.file.err)
			case torn:
				p.tail.Torn, p.tail.TornFile, p.tail.TornOffset = true, p.file.name, r.off
			}
			return false, nil
		}
		durable, proof = min(durable, p.w.durable), p.w.proof()
	}
	at, h, err := r.resume()
	if err != nil {
		return false, err
	}
	damage := r.damaged(proof)
	if hole := r.hole(r.off, at); hole != nil {
		damage = hole
	} else if at == r.size && p.file.cut() {
		damage = p.file.err
	}
	if at == r.size {
		p.gap(durable, damage)
		return false, nil
	}
	p.gap(h.lsn-1, damage)
	r.lsn, r.prev, r.off = h.lsn, h.prev, at
	return true, nil
}

// realign looks for the next frame where the other version has its groups, because a damaged header
// may name the wrong one. It reports whether the frame is there. A frame that continues the chain
// is the next one, wherever it lies.
func (r *reader) realign() (found bool, err error) {
	for _, align := range []int64{sector, groupAlign} {
		at := roundUp(r.stop, align)
		if at == r.off {
			continue
		}
		h, ok, err := r.header(at)
		if err != nil {
			return false, err
		}
		if ok && h.lsn == r.lsn && h.prev == r.prev {
			r.off, r.align = at, align
			return true, nil
		}
	}
	return false, nil
}

// resume returns the first sound frame behind the damaged one, or the size of the file: the frame
// of a later record. If the header of the damaged frame is sound, its payload is passed over.
func (r *reader) resume() (at int64, h frameHeader, err error) {
	at = r.off
	if h, ok, err := r.header(at); err != nil {
		return at, h, err
	} else if ok && h.lsn == r.lsn {
		at = h.end(at, r.align)
	}
	return r.search(at, func(h frameHeader) bool { return h.lsn > r.lsn && h.lsn < r.end })
}
