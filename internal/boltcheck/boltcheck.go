// Package boltcheck decides whether bbolt may open a file. [Check] verifies the whole structure,
// [Roots] only the two meta pages and the pages they point to. Both accept any bytes, read them by
// ReadAt into bounds-checked memory, and return nil or an [*Error] with the page and the file
// offset.
//
// bbolt maps its file and trusts it: a damaged page number, count or length makes it panic, loop or
// access memory beyond the file, and its own Check makes the same assumptions. If Check returns
// nil, bbolt can open the file, iterate all buckets and run its own Check without failure.
//
// Check accepts only the layout that bbolt writes: pages with their own number, elements packed
// tightly, keys ascending within the bounds of the parent, and every page below the high-water
// mark used exactly once: by the tree, by the freelist, or as a free page. Apart from nested
// buckets it does not look into values. Memory is one bit per page, plus 64 KiB per level of a tree
// at most MaxDepth deep.
//
// Numbers are read in the byte order of the machine, because bbolt writes them so.
package boltcheck

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/bits"
)

const (
	// PageSize is the only accepted page size, in bytes, on every machine.
	PageSize = 4096
	// MaxDepth limits the total levels of nested trees between the root of the file and a page.
	MaxDepth = 64
)

// The format of bbolt, version 2 of its file (bbolt v1.5.0, internal/common/{meta,page,bucket}.go).
const (
	magic       = 0xED0CDAED
	boltVersion = 2

	headerSize  = 16 // of a page: id u64, flags u16, count u16, overflow u32
	elementSize = 16 // of both kinds of element
	bucketSize  = 16 // header of a nested bucket: root u64, sequence u64
	metaSize    = 64 // of a meta page behind its page header; the last 8 bytes are the checksum

	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagMeta     = 0x04
	flagFreelist = 0x10
	flagBucket   = 0x01 // of a leaf element

	maxKey    = 32768
	manyPages = 0xFFFF // marks a freelist whose count is in the first element
	// maxNode is bbolt's MaxAllocSize, the limit of its slices: 2 GiB, or 256 MiB on 32-bit
	// machines.
	maxNode = 0xFFFFFFF + (0x7FFFFFFF-0xFFFFFFF)*int64(^uint(0)>>63)

	bufferSize = 64 << 10 // bytes of a page and its overflow that are read ahead
)

// Error locates a violation of bbolt's file format.
type Error struct {
	Page   uint64 // number of the page
	Offset int64  // in the file, in bytes; -1 for a page outside it
	Msg    string
}

// Error returns the page, the offset and the reason.
func (e *Error) Error() string {
	if e.Offset < 0 {
		return fmt.Sprintf("page %d: %s", e.Page, e.Msg)
	}
	return fmt.Sprintf("page %d, offset %d: %s", e.Page, e.Offset, e.Msg)
}

// ReadError is the error of a reader, such as of a disk with a bad sector.
type ReadError struct {
	Offset int64 // of the bytes that were asked for, in the file
	Err    error
}

// Error returns the page, the offset and the cause.
func (e *ReadError) Error() string {
	return fmt.Sprintf("read page %d at offset %d: %v", e.Offset/PageSize, e.Offset, e.Err)
}

// Unwrap returns Err.
func (e *ReadError) Unwrap() error { return e.Err }

// Root is the content of a meta page.
type Root struct {
	TxID     uint64 // of the commit that wrote it
	Root     uint64 // page of the root bucket
	Freelist uint64 // page of the freelist
	Pages    uint64 // high-water mark: pages from here on are not in use
	Sum      uint64 // checksum of these fields; identifies a version of the file
	Err      error  // why bbolt does not use this page, or nil. A crash during a commit leaves such a page.
}

// Roots reads both meta pages, and checks that bbolt will find a usable root: the page size is
// right, the file is as long as the root requires, and the freelist fits its pages. One good root
// is enough. It returns the roots in the order of their pages, and the index of the root in force.
func Roots(r io.ReaderAt, size int64) (roots [2]Root, newest int, err error) {
	if size < 4*PageSize {
		return roots, 0, &Error{0, size, fmt.Sprintf("file of %d bytes is shorter than 4 pages", size)}
	}
	c := &checker{r: r}
	for i := range roots {
		b, err := c.read(int64(i)*PageSize, headerSize+metaSize)
		if err != nil {
			return roots, 0, err
		}
		root := &roots[i]
		if *root = decodeRoot(b[headerSize:]); root.Err != nil {
			continue
		}
		if id, flags := u64(b), u16(b[8:]); id != uint64(i) || flags != flagMeta {
			return roots, 0, fail(uint64(i), 0, "meta page says it is page %d with flags %#x", id, flags)
		}
		if ps := u32(b[headerSize+8:]); ps != PageSize {
			return roots, 0, fail(uint64(i), headerSize+8, "page size %d, want %d", ps, PageSize)
		}
	}
	if newest = 0; roots[0].Err != nil || roots[1].Err == nil && roots[1].TxID > roots[0].TxID {
		newest = 1
	}
	if roots[newest].Err != nil {
		return roots, 0, &Error{0, 0, fmt.Sprintf("no root: page 0 has a %v, page 1 a %v", roots[0].Err, roots[1].Err)}
	}
	if roots[0].Err != nil {
		// bbolt then looks for the second meta page at smaller page sizes too. It must not find
		// one.
		for at := int64(1024); at < PageSize; at *= 2 {
			b, err := c.read(at+headerSize, metaSize)
			if err != nil {
				return roots, 0, err
			}
			if decodeRoot(b).Err == nil {
				return roots, 0, fail(0, at, "a meta page inside page 0")
			}
		}
	}
	root := &roots[newest]
	if c.pages = root.Pages; c.pages > uint64(size)/PageSize {
		return roots, 0, fail(uint64(newest), headerSize+40, "high-water mark %d, but the file has %d pages",
			c.pages, size/PageSize)
	}
	if _, err := c.open(root.Root, nil); err != nil {
		return roots, 0, err
	}
	if _, _, err := c.openFreelist(root.Freelist); err != nil {
		return roots, 0, err
	}
	return roots, newest, nil
}

// decodeRoot decodes a meta page without its page header.
func decodeRoot(b []byte) Root {
	root := Root{TxID: u64(b[48:]), Root: u64(b[16:]), Freelist: u64(b[32:]), Pages: u64(b[40:]),
		Sum: u64(b[metaSize-8:])}
	sum := fnv.New64a()
	sum.Write(b[:metaSize-8])
	switch {
	case u32(b) != magic:
		root.Err = errors.New("wrong magic number")
	case u32(b[4:]) != boltVersion:
		root.Err = fmt.Errorf("wrong version %d", u32(b[4:]))
	case sum.Sum64() != u64(b[metaSize-8:]):
		root.Err = errors.New("wrong checksum")
	}
	return root
}

// Check verifies all pages that bbolt can read from the root in force, in a file of size bytes. An
// error that is not an *Error comes from r.
func Check(r io.ReaderAt, size int64) error {
	roots, newest, err := Roots(r, size)
	if err != nil {
		return err
	}
	root := &roots[newest]
	c := &checker{r: r, pages: root.Pages, seen: make([]uint64, root.Pages/64+1), scratch: make([]byte, bufferSize)}
	c.seen[0] = 3 // the meta pages
	if err := c.tree(root.Root, bounds{}, 1, true); err != nil {
		return err
	}
	if err := c.freelist(root.Freelist); err != nil {
		return err
	}
	for page := range c.pages {
		if c.seen[page/64]>>(page%64)&1 == 0 {
			return fail(page, 0, "neither in use nor free")
		}
	}
	return nil
}

type checker struct {
	r       io.ReaderAt
	pages   uint64   // high-water mark
	seen    []uint64 // a bit for each referenced page; nil without this check
	scratch []byte   // for leaf pages, which are not used after the next page is read
}

// fail returns an error at off within a page.
func fail(page uint64, off int64, format string, args ...any) error {
	return &Error{page, int64(page)*PageSize + off, fmt.Sprintf(format, args...)}
}

func u16(b []byte) uint16 { return binary.NativeEndian.Uint16(b) }
func u32(b []byte) uint32 { return binary.NativeEndian.Uint32(b) }
func u64(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }

// read returns n bytes at a file offset.
func (c *checker) read(off, n int64) ([]byte, error) {
	b := make([]byte, n)
	return b, c.readInto(b, off)
}

func (c *checker) readInto(b []byte, off int64) error {
	n, err := c.r.ReadAt(b, off)
	switch {
	case n == len(b):
		return nil
	case errors.Is(err, io.EOF):
		return &Error{uint64(off / PageSize), off, "the file ends here"}
	}
	return &ReadError{off, err}
}

// claim marks n pages as referenced, and fails if any of them was marked before.
func (c *checker) claim(page, n uint64) error {
	if c.seen == nil {
		return nil
	}
	for p := page; p < page+n; {
		// Set whole words, because a large value has many pages.
		from, count := p%64, min(64-p%64, page+n-p)
		mask := ^uint64(0) >> (64 - count) << from
		if twice := c.seen[p/64] & mask; twice != 0 {
			p = p/64*64 + uint64(bits.TrailingZeros64(twice))
			return fail(p, 0, "used twice, the second time as part of page %d", page)
		}
		c.seen[p/64] |= mask
		p += count
	}
	return nil
}

// A node is a page with its overflow pages, or the page-like value of an inline bucket.
type node struct {
	page  uint64 // its number
	off   int64  // file offset
	size  int64  // bytes
	flags uint16
	count int
	buf   []byte // the first bytes
}

// fail returns an error at off within the node.
func (n *node) fail(off int64, format string, args ...any) error {
	return &Error{n.page, n.off + off, fmt.Sprintf(format, args...)}
}

// open reads the beginning of a page other than a meta page into buf, or into new memory if buf is
// too small.
func (c *checker) open(page uint64, buf []byte) (*node, error) {
	if page < 2 || page >= c.pages {
		return nil, &Error{page, -1, fmt.Sprintf("referred to, but only pages 2 to %d are in use", c.pages-1)}
	}
	n := &node{page: page, off: int64(page) * PageSize}
	var head [headerSize]byte
	if err := c.readInto(head[:], n.off); err != nil {
		return nil, err
	}
	if id := u64(head[:]); id != page {
		return nil, n.fail(0, "page says it is page %d", id)
	}
	n.flags, n.count = u16(head[8:]), int(u16(head[10:]))
	total := uint64(u32(head[12:])) + 1
	if total > c.pages-page {
		return nil, n.fail(12, "%d overflow pages reach beyond page %d", total-1, c.pages)
	}
	if err := c.claim(page, total); err != nil {
		return nil, err
	}
	n.size = int64(total) * PageSize
	ahead := min(n.size, bufferSize)
	if int64(len(buf)) < ahead {
		buf = make([]byte, ahead)
	}
	n.buf = buf[:ahead]
	return n, c.readInto(n.buf, n.off)
}

// bytes returns size bytes at off of a node; the caller has checked that they are inside.
func (c *checker) bytes(n *node, off, size int64) ([]byte, error) {
	if end := off + size; end <= int64(len(n.buf)) {
		return n.buf[off:end], nil
	}
	return c.read(n.off+off, size)
}

// bounds limit the keys of a page: min <= key < max. nil is no bound.
type bounds struct{ min, max []byte }

// tree checks the pages of a bucket from one page down. atTop marks the root bucket of the file.
func (c *checker) tree(page uint64, within bounds, depth int, atTop bool) error {
	if depth > MaxDepth {
		return &Error{page, -1, fmt.Sprintf("more than %d levels deep", MaxDepth)}
	}
	n, err := c.open(page, c.scratch)
	if err != nil {
		return err
	}
	switch n.flags {
	case flagLeaf:
		nested, err := c.leaf(n, within, atTop, false)
		if err != nil {
			return err
		}
		if n.count == 0 && (within.min != nil || within.max != nil) {
			return n.fail(10, "empty page below a branch page")
		}
		for _, root := range nested {
			if err := c.tree(root, bounds{}, depth+1, false); err != nil {
				return err
			}
		}
		return nil
	case flagBranch:
		n.buf = bytes.Clone(n.buf) // must survive the reading of other pages
		return c.branch(n, within, depth, atTop)
	}
	return n.fail(8, "flags %#x are neither a branch nor a leaf page's", n.flags)
}

// An element is a key with its place in a node; val is empty in a branch page.
type element struct {
	key      []byte
	val, len int64
}

// element checks element i, whose key and value must begin at next.
func (c *checker) element(n *node, i int, next int64, pos, key, val uint32) (element, error) {
	at := headerSize + elementSize*int64(i)
	switch end := int64(pos) + int64(key) + int64(val); {
	case key == 0 || key > maxKey:
		return element{}, n.fail(at, "element %d: key of %d bytes", i, key)
	case at+int64(pos) != next:
		return element{}, n.fail(at, "element %d: data at %d, want %d", i, at+int64(pos), next)
	case at+end > n.size || end > maxNode:
		return element{}, n.fail(at, "element %d: ends at %d of %d", i, at+end, n.size)
	}
	b, err := c.bytes(n, next, int64(key))
	return element{b, next + int64(key), int64(val)}, err
}

// first returns the offset of the first element's data, after all elements.
func (n *node) first() (int64, error) {
	at := headerSize + elementSize*int64(n.count)
	if at > n.size {
		return 0, n.fail(10, "%d elements do not fit into %d bytes", n.count, n.size)
	}
	return at, nil
}

// order checks that key follows prev, or for the first element, that it is within the bounds.
func (n *node) order(i int, prev, key []byte, within bounds) error {
	at := headerSize + elementSize*int64(i)
	switch {
	case i == 0 && bytes.Compare(key, within.min) < 0:
		return n.fail(at, "element 0: key below its branch")
	case i > 0 && bytes.Compare(key, prev) <= 0:
		return n.fail(at, "element %d: keys not ascending", i)
	case within.max != nil && bytes.Compare(key, within.max) >= 0:
		return n.fail(at, "element %d: key above its branch", i)
	}
	return nil
}

// leaf checks a leaf page, and returns the root pages of its nested buckets that are not inline.
func (c *checker) leaf(n *node, within bounds, atTop, inline bool) (nested []uint64, err error) {
	next, err := n.first()
	if err != nil {
		return nil, err
	}
	var prev []byte
	for i := range n.count {
		at := headerSize + elementSize*int64(i)
		b, err := c.bytes(n, at, elementSize)
		if err != nil {
			return nil, err
		}
		flags := u32(b)
		e, err := c.element(n, i, next, u32(b[4:]), u32(b[8:]), u32(b[12:]))
		if err != nil {
			return nil, err
		}
		if err := n.order(i, prev, e.key, within); err != nil {
			return nil, err
		}
		prev, next = e.key, e.val+e.len
		switch {
		case flags == flagBucket && !inline:
			root, err := c.bucket(n, e)
			if err != nil {
				return nil, err
			}
			if root != 0 {
				nested = append(nested, root)
			}
		case flags != 0:
			return nil, n.fail(at, "element %d: flags %#x", i, flags)
		case atTop:
			return nil, n.fail(at, "element %d: not a bucket, in the root", i)
		}
	}
	if inline && next != n.size {
		return nil, n.fail(next, "%d bytes behind the last element", n.size-next)
	}
	return nested, nil
}

// bucket checks the value of a nested bucket. It returns the root page, or 0 if the bucket is
// inline: a page without overflow in the value itself.
func (c *checker) bucket(host *node, e element) (root uint64, err error) {
	if e.len < bucketSize {
		return 0, host.fail(e.val, "nested bucket of %d bytes", e.len)
	}
	b, err := c.bytes(host, e.val, bucketSize)
	if err != nil {
		return 0, err
	}
	if root = u64(b); root != 0 {
		if e.len != bucketSize {
			return 0, host.fail(e.val, "nested bucket of %d bytes with root page %d", e.len, root)
		}
		return root, nil
	}
	if e.len < bucketSize+headerSize {
		return 0, host.fail(e.val, "inline bucket of %d bytes", e.len)
	}
	at := e.val + bucketSize
	n := &node{page: host.page, off: host.off + at, size: e.len - bucketSize}
	if n.buf, err = c.bytes(host, at, min(n.size, bufferSize)); err != nil {
		return 0, err
	}
	id, overflow := u64(n.buf), u32(n.buf[12:])
	n.flags, n.count = u16(n.buf[8:]), int(u16(n.buf[10:]))
	if id != 0 || n.flags != flagLeaf || overflow != 0 {
		return 0, n.fail(0, "inline bucket with page %d, flags %#x, %d overflow pages", id, n.flags, overflow)
	}
	_, err = c.leaf(n, bounds{}, false, true)
	return 0, err
}

// branch checks a branch page and all below it.
func (c *checker) branch(n *node, within bounds, depth int, atTop bool) error {
	next, err := n.first()
	if err != nil {
		return err
	}
	if n.count == 0 {
		return n.fail(10, "empty branch page")
	}
	var page uint64 // the last child not yet checked, and its key
	var key []byte
	for i := range n.count {
		b, err := c.bytes(n, headerSize+elementSize*int64(i), elementSize)
		if err != nil {
			return err
		}
		e, err := c.element(n, i, next, u32(b), u32(b[4:]), 0)
		if err != nil {
			return err
		}
		if err := n.order(i, key, e.key, within); err != nil {
			return err
		}
		if i > 0 {
			if err := c.tree(page, bounds{key, e.key}, depth+1, atTop); err != nil {
				return err
			}
		}
		page, key, next = u64(b[8:]), e.key, e.val
	}
	return c.tree(page, bounds{key, within.max}, depth+1, atTop)
}

// openFreelist returns the freelist page, and the offset and number of its elements.
func (c *checker) openFreelist(page uint64) (n *node, ids [2]int64, err error) {
	if n, err = c.open(page, c.scratch); err != nil {
		return nil, ids, err
	}
	if n.flags != flagFreelist {
		return nil, ids, n.fail(8, "flags %#x are not a freelist page's", n.flags)
	}
	at, count := int64(headerSize), uint64(n.count)
	if count == manyPages {
		count = u64(n.buf[headerSize:])
		at += 8
	}
	if count > uint64(n.size-at)/8 {
		return nil, ids, n.fail(10, "%d free pages do not fit into %d bytes", count, n.size)
	}
	return n, [2]int64{at, int64(count)}, nil
}

// freelist checks that the free pages are in order and not used otherwise.
func (c *checker) freelist(page uint64) error {
	n, ids, err := c.openFreelist(page)
	if err != nil {
		return err
	}
	at, end := ids[0], ids[0]+8*ids[1]
	for prev := uint64(1); at < end; at += 8 {
		if at+8 > int64(len(n.buf)) {
			// The next stretch of a list longer than the buffer.
			n.off, at, end = n.off+at, 0, end-at
			n.buf = n.buf[:min(end, int64(len(n.buf)))]
			if err := c.readInto(n.buf, n.off); err != nil {
				return err
			}
		}
		id := u64(n.buf[at:])
		if id <= prev || id >= c.pages {
			return n.fail(at, "free page %d after %d, of %d pages", id, prev, c.pages)
		}
		if err := c.claim(id, 1); err != nil {
			return err
		}
		prev = id
	}
	return nil
}

// Free returns the number of free pages under a root, in a file that passes Roots.
func Free(r io.ReaderAt, root Root) (int64, error) {
	c := &checker{r: r, pages: root.Pages}
	_, ids, err := c.openFreelist(root.Freelist)
	return ids[1], err
}

// FreePages returns a bit for each page that is free under a root, in a file that passes Roots.
func FreePages(r io.ReaderAt, root Root) ([]uint64, error) {
	c := &checker{r: r, pages: root.Pages, seen: make([]uint64, root.Pages/64+1), scratch: make([]byte, bufferSize)}
	n, _, err := c.openFreelist(root.Freelist)
	if err != nil {
		return nil, err
	}
	clear(c.seen) // the freelist page itself is in use
	if err := c.freelist(root.Freelist); err != nil {
		return nil, err
	}
	for page := root.Freelist; page < root.Freelist+uint64(n.size)/PageSize; page++ {
		c.seen[page/64] &^= 1 << (page % 64)
	}
	return c.seen, nil
}
