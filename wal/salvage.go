package wal

import (
	"errors"
	"fmt"
	"math"

	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// A Gap is a range of records that are lost.
type Gap struct {
	First uint64
	Last  uint64 // 0 if nothing tells where the range ends
	Err   error  // the damage
}

// String counts the records.
func (g Gap) String() string {
	switch g.Last {
	case 0:
		return fmt.Sprintf("all from number %d on are lost, and nothing tells how many", g.First)
	case g.First:
		return fmt.Sprintf("number %d is lost", g.First)
	}
	return fmt.Sprintf("%d are lost, numbers %d to %d", g.Last-g.First+1, g.First, g.Last)
}

// Salvage is Replay of a log that may be damaged: it goes on behind damage. fn is called with every
// record that Replay would deliver if no byte had changed, in order, except for those that are
// lost; lost is called with these, in between. The log ends where it would without the damage: a
// frame behind the last record that no other frame or file proves to be durable is a torn tail.
func Salvage(o Options, after uint64, fn func(lsn uint64, payload []byte) error, lost func(Gap)) (Tail, error) {
	s := &salvager{o: &o, after: after, next: after + 1, fn: fn, lost: lost, tail: Tail{Last: after}}
	files, _, err := list(&o)
	if err != nil {
		return s.tail, err
	}
	s.tail.Files = len(files)
	start := 0
	for i, f := range files {
		if f.err == nil && f.base-1 <= after {
			start = i
		}
	}
	files = files[start:]
	for i := range files {
		if err := s.file(&files[i], files[i+1:]); err != nil {
			return s.tail, err
		}
	}
	return s.tail, nil
}

// salvager is one run of Salvage.
type salvager struct {
	o     *Options
	after uint64
	next  uint64 // the first record above after that is neither delivered nor lost
	fn    func(lsn uint64, payload []byte) error
	lost  func(Gap)
	tail  Tail
}

// gap notes that the records up to last are lost, as far as they are needed and not noted yet.
func (s *salvager) gap(last uint64, err error) {
	if last >= s.next {
		s.lost(Gap{s.next, last, err})
		s.next = last + 1
	}
}

// file reads one file. Its records end where the next file begins.
func (s *salvager) file(f *file, rest []file) error {
	var next *file
	for i := range rest {
		if rest[i].err == nil {
			next = &rest[i]
			break
		}
	}
	switch {
	case errors.Is(f.err, fileformat.ErrVersion):
		return f.err
	case f.err != nil && next != nil:
		s.gap(next.base-1, f.err)
		return nil
	case f.err != nil:
		if s.next < math.MaxUint64 { // otherwise an earlier file has the same gap
			s.lost(Gap{First: s.next, Err: f.err})
			s.next = math.MaxUint64
		}
		return nil
	}
	s.gap(f.base-1, &fileformat.CorruptError{File: f.name, Err: fmt.Errorf(
		"records %d to %d are missing: the file begins with record %d", s.next, f.base-1, f.base)})
	in, err := s.o.FS.Open(f.name)
	if err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	defer in.Close()
	r := reader{f: in, size: int64(f.size), salt: f.salt}
	end := uint64(math.MaxUint64)
	if next != nil {
		end = next.base
	}
	// Without the header of the next file, only the frames tell where the records end.
	followed := next != nil && next == &rest[0]
	lsn, prev, off := f.base, f.crc, int64(headerSize)
	for lsn < end {
		h, payload, ok, err := r.frame(off, lsn, prev)
		if err != nil {
			return err
		}
		if ok {
			if lsn >= s.next {
				if err := s.fn(lsn, payload); err != nil {
					return err
				}
				s.tail.Last, s.next = lsn, lsn+1
			}
			lsn, prev, off = lsn+1, h.crc, h.end(off, f.align)
			continue
		}
		var damage error
		if followed {
			damage = &fileformat.CorruptError{File: f.name, Offset: off, Err: fmt.Errorf(
				"record %d is damaged: %s begins with record %d", lsn, next.name, next.base)}
		} else {
			torn, witnessed := r.remains(off, lsn, s.after)
			if witnessed == nil {
				if s.tail.Torn = torn; torn {
					s.tail.TornFile, s.tail.TornOffset = f.name, off
				}
				return nil
			}
			if damage = witnessed; !errors.Is(damage, fileformat.ErrCorrupt) {
				return damage
			}
		}
		at, h, err := r.resume(off, lsn, end, f.align)
		switch {
		case err != nil:
			return err
		case at >= 0:
			s.gap(h.lsn-1, damage)
			lsn, prev, off = h.lsn, h.prev, at
		case followed:
			s.gap(end-1, damage)
			return nil
		default: // only record lsn is known to have been durable
			s.gap(lsn, damage)
			return nil
		}
	}
	return nil
}

// resume returns the first sound frame behind the damaged one at off, which should hold record lsn,
// or -1: the frame of a record between lsn and end. If the header of the damaged frame is sound,
// its payload is passed over.
func (r *reader) resume(off int64, lsn, end uint64, align int64) (at int64, h frameHeader, err error) {
	at = off
	if r.size-at >= frameSize {
		b, err := r.bytes(at, frameSize)
		if err != nil {
			return -1, h, err
		}
		if h, ok := decodeFrame(b, r.salt); ok && h.lsn == lsn && int64(h.length) <= r.size-at-frameSize {
			at = h.end(at, align)
		}
	}
	for r.size-at >= frameSize {
		b, err := r.bytes(at, int(min(r.size-at, readAhead/8)))
		if err != nil {
			return -1, h, err
		}
		for ; len(b) >= frameSize; b, at = b[frameAlign:], at+frameAlign {
			if le.Uint32(b) != frameMagic {
				continue
			}
			if h, ok := decodeFrame(b, r.salt); ok && h.lsn > lsn && h.lsn < end {
				return at, h, nil
			}
		}
	}
	return -1, h, nil
}
