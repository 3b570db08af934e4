package boltcheck

import (
	"errors"
	"io"
)

// Origin is the evidence that a salvaged record is current.
type Origin int

const (
	// Reached means that the root in force leads to the record.
	Reached Origin = iota
	// Unreached means that nothing refers to the page, and that the freelist, if readable, does not
	// list it: damage has cut it off. If the freelist is unreadable, the record may be outdated.
	Unreached
	// Freed means that the page is free: the record was current once.
	Freed
)

// Salvage calls fn with every decodable element of the leaf pages of a file that may be damaged
// anywhere: first the Reached elements, then the Unreached, then the Freed. If the tree of the root
// in force is intact, it stops after Reached. bucket is the name of the bucket in the root on the
// path to the element, nil if there is no path. Elements are not verified; the caller must do that,
// and may not keep them. A page that r cannot read is damaged, and reads as zeros. An error of fn
// ends the salvage. bad are the damaged places; listed reports that the freelist was readable, so
// that no Unreached element is outdated. Memory is two bits per page plus the largest value; time
// grows with the size of the file.
func Salvage(r io.ReaderAt, size int64,
	fn func(from Origin, bucket, key, value []byte) error) (bad []*Error, listed bool, err error) {
	pages := uint64(max(size, 0)) / PageSize
	s := &salvager{checker: checker{pages: pages, seen: make([]uint64, pages/64+1)}, fn: fn, unread: map[uint64]bool{}}
	s.r = &patched{r, s}
	s.seen[0] = 3
	var free []uint64
	if root, ok := s.root(); ok {
		before := len(s.bad)
		s.pages = min(pages, root.Pages)
		s.tree(root.Root, nil, 1, true)
		whole := len(s.bad) == before
		if root.Pages <= pages {
			if free, err = FreePages(r, root); err != nil {
				s.note(root.Freelist, err)
			}
		}
		if whole { // all current records are reached, so others are not needed
			return s.bad, true, s.err
		}
	}
	for from := Unreached; from <= Freed; from++ {
		s.from = from
		for page := uint64(2); page < s.pages; page++ {
			isFree := free != nil && free[page/64]>>(page%64)&1 != 0
			if s.err == nil && isFree == (from == Freed) && s.seen[page/64]>>(page%64)&1 == 0 {
				s.stray(page)
			}
		}
	}
	return s.bad, free != nil, s.err
}

type salvager struct {
	checker
	fn   func(from Origin, bucket, key, value []byte) error
	from Origin
	bad  []*Error
	err  error // returned by fn

	unread map[uint64]bool // pages that the disk cannot read, as far as they were asked for
}

// patched reads zeros in place of pages that cannot be read. So a bad sector costs the elements in
// its page, and no others of a node or a value that is read at once.
type patched struct {
	r io.ReaderAt
	s *salvager
}

func (p *patched) ReadAt(b []byte, off int64) (n int, err error) {
	if n, err = p.r.ReadAt(b, off); err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	for n = 0; n < len(b); {
		at := off + int64(n)
		part := b[n:min(len(b), n+PageSize-int(at%PageSize))]
		got, err := p.r.ReadAt(part, at)
		switch {
		case got == len(part):
		case errors.Is(err, io.EOF):
			return n + got, err
		default:
			clear(part)
			p.s.lose(uint64(at/PageSize), err)
		}
		n += len(part)
	}
	return n, nil
}

// lose notes a page that cannot be read, once.
func (s *salvager) lose(page uint64, err error) {
	if !s.unread[page] {
		s.note(page, &Error{page, int64(page) * PageSize, "cannot be read: " + err.Error()})
		s.unread[page] = true
	}
}

const maxBad = 1000 // limits the damaged places reported

func (s *salvager) note(page uint64, err error) {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{page, int64(page) * PageSize, err.Error()} // of the freelist, which is read without patches
	}
	if !s.unread[e.Page] && len(s.bad) < maxBad { // the zeros in place of an unread page tell nothing more
		s.bad = append(s.bad, e)
	}
}

// root returns the newest root with a valid checksum.
func (s *salvager) root() (newest Root, ok bool) {
	for page := range uint64(2) {
		b, err := s.read(int64(page)*PageSize+headerSize, metaSize)
		if err == nil {
			root := decodeRoot(b)
			if err = root.Err; err == nil && (!ok || root.TxID > newest.TxID) {
				newest, ok = root, true
			}
		}
		if err != nil {
			s.note(page, err)
		}
	}
	return newest, ok
}

// tree salvages all pages reachable from a page.
func (s *salvager) tree(page uint64, bucket []byte, depth int, top bool) {
	if s.err != nil || s.from != Reached && page < s.pages && s.seen[page/64]>>(page%64)&1 != 0 {
		return // an outdated page may refer to pages in use
	}
	n, err := s.open(page, nil)
	switch {
	case err != nil:
		s.note(page, err)
	case depth > MaxDepth:
		s.note(page, n.fail(0, "more than %d levels deep", MaxDepth))
	case n.flags == flagLeaf:
		s.leaf(n, bucket, depth, top)
	case n.flags == flagBranch:
		for i := range n.count {
			b, err := s.part(n, headerSize+elementSize*int64(i), elementSize)
			if err != nil {
				s.note(page, err)
				return
			}
			s.tree(u64(b[8:]), bucket, depth+1, top)
		}
	default:
		s.note(page, n.fail(8, "flags %#x are neither a branch nor a leaf page's", n.flags))
	}
}

// stray salvages a page without references.
func (s *salvager) stray(page uint64) {
	head, err := s.read(int64(page)*PageSize, headerSize)
	if err != nil {
		s.note(page, err)
		return
	}
	if u64(head) != page || u16(head[8:]) != flagLeaf {
		return // a branch page, whose leaves are found without it, or part of a large value
	}
	if n, err := s.open(page, nil); err == nil { // an error means overlap with other pages
		s.leaf(n, nil, 1, true)
	}
}

// part returns bytes of a node at any offset, checked.
func (s *salvager) part(n *node, off, size int64) ([]byte, error) {
	if off < 0 || size < 0 || size > n.size || off > n.size-size {
		return nil, n.fail(min(max(off, 0), n.size), "%d bytes do not fit into %d", size, n.size)
	}
	return s.bytes(n, off, size)
}

// leaf salvages the elements of a leaf page. top means that they may be buckets.
func (s *salvager) leaf(n *node, bucket []byte, depth int, top bool) {
	budget := 4 * n.size // overlapping elements must not take forever
	for i := range n.count {
		if s.err != nil {
			return
		}
		at := headerSize + elementSize*int64(i)
		b, err := s.part(n, at, elementSize)
		if err != nil {
			s.note(n.page, err)
			return
		}
		flags, pos, key, val := u32(b), int64(u32(b[4:])), int64(u32(b[8:])), int64(u32(b[12:]))
		if key == 0 || key > maxKey || budget < key+val {
			s.note(n.page, n.fail(at, "element %d: key of %d bytes, value of %d", i, key, val))
			continue
		}
		e, err := s.part(n, at+pos, key+val)
		if err != nil {
			s.note(n.page, err)
			continue
		}
		budget -= key + val
		switch {
		case flags&flagBucket == 0:
			s.err = s.fn(s.from, bucket, e[:key], e[key:])
		case !top || val < bucketSize:
			s.note(n.page, n.fail(at, "element %d: a bucket of %d bytes", i, val))
		case u64(e[key:]) != 0:
			s.tree(u64(e[key:]), append([]byte(nil), e[:key]...), depth+1, false)
		case val >= bucketSize+headerSize:
			inline := &node{page: n.page, off: n.off + at + pos + key + bucketSize,
				size: val - bucketSize, buf: e[key+bucketSize:]}
			inline.flags, inline.count = u16(inline.buf[8:]), int(u16(inline.buf[10:]))
			s.leaf(inline, append([]byte(nil), e[:key]...), depth+1, false)
		}
	}
}
