package meta

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/vecbolt/vecbolt/internal/boltcheck"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/simd"
)

// Transactions that read look records up in the trees of bbolt themselves, in the memory where
// bbolt has mapped the file. Its cursors need objects for each bucket, and pages that were verified
// on a walk of their own; they are for iteration and for changes.

// Layout of a page of bbolt (see internal/boltcheck): a header, then the elements. An element of a
// branch is position and size of its key, and the page of the child. One of a leaf is flags,
// position of the key, and sizes of key and value. The value follows the key. Positions count from
// the element.
const (
	pageSize     = boltcheck.PageSize
	pageHeader   = 16
	elementSize  = 16
	bucketHeader = 16 // of the value of a bucket: page of its root, and a sequence
	flagBranch   = 1
	flagLeaf     = 2
	flagBucket   = 1 // of an element
	maxDepth     = boltcheck.MaxDepth
)

// A node is a page with its overflow pages, or the page that a small bucket has instead of a root:
// it is part of the bucket's value.
type node []byte

func (n node) page() uint64 { return binary.NativeEndian.Uint64(n) } // 0 if it is part of a value
func (n node) leaf() bool   { return binary.NativeEndian.Uint16(n[8:])&flagLeaf != 0 }
func (n node) count() int   { return int(binary.NativeEndian.Uint16(n[10:])) }
func (n node) more() uint64 { return uint64(binary.NativeEndian.Uint32(n[12:])) } // overflow pages

// check returns an error unless n is of a tree and has room for its elements.
func (n node) check() error {
	if len(n) >= pageHeader {
		flags := binary.NativeEndian.Uint16(n[8:])
		if (flags == flagLeaf || flags == flagBranch && n.count() > 0) && pageHeader+elementSize*n.count() <= len(n) {
			return nil
		}
	}
	return fmt.Errorf("%w: not a node: %x", fileformat.ErrFormat, n[:min(pageHeader, len(n))])
}

// part returns size bytes from a position of an element on, nil if they are not all there.
func (n node) part(element, at, size int) []byte {
	if from := pageHeader + elementSize*element + at; from+size <= len(n) {
		return n[from : from+size : from+size]
	}
	return nil
}

// field returns a number of an element.
func (n node) field(i, at int) int {
	return int(binary.NativeEndian.Uint32(n[pageHeader+elementSize*i+at:]))
}

// key returns the key of an element, nil if it is beyond the node.
func (n node) key(i int) []byte {
	if n.leaf() {
		return n.part(i, n.field(i, 4), n.field(i, 8))
	}
	return n.part(i, n.field(i, 0), n.field(i, 4))
}

// value returns the value of an element of a leaf, nil if it is beyond the node.
func (n node) value(i int) []byte { return n.part(i, n.field(i, 4)+n.field(i, 8), n.field(i, 12)) }

// bucket reports whether an element of a leaf is a bucket.
func (n node) bucket(i int) bool { return n.field(i, 0)&flagBucket != 0 }

// child returns the page of a child of a branch.
func (n node) child(i int) uint64 {
	return binary.NativeEndian.Uint64(n[pageHeader+elementSize*i+8:])
}

// after returns the number of elements whose keys are not greater than key.
func (n node) after(key []byte) (int, error) {
	lo, hi := 0, n.count()
	near := n.guess(key) // the first probe; the next ones are farther and farther from it
	for step := 1; lo < hi; step *= 4 {
		at := int(uint(lo+hi) / 2)
		if lo <= near && near < hi {
			at = near
		}
		k := n.key(at)
		if k == nil {
			return 0, fmt.Errorf("%w: key %d is beyond its node", fileformat.ErrFormat, at)
		}
		switch order := bytes.Compare(k, key); {
		case order == 0:
			return at + 1, nil
		case order > 0:
			hi, near = at, at-step
		default:
			lo, near = at+1, at+step
		}
	}
	return lo, nil
}

// guess returns about where the key is if keys are numbers of documents, which have few gaps: each
// probe of a search waits for memory. It returns -1 for other keys.
func (n node) guess(key []byte) int {
	last := n.count() - 1
	if len(key) != 8 || last < 2 {
		return -1
	}
	first, want := n.number(0), binary.BigEndian.Uint64(key)
	if want <= first {
		return 0
	}
	at := float64(want - first)
	if !n.leaf() {
		at *= float64(last) / float64(n.number(last)-first)
	}
	if !(at < float64(last)) {
		return last
	}
	return int(at)
}

// number returns a key as the number of a document, 0 for other keys.
func (n node) number(i int) uint64 {
	if k := n.key(i); len(k) == 8 {
		return binary.BigEndian.Uint64(k)
	}
	return 0
}

// announce loads the record of a document from memory, if it is where it is guessed.
func (n node) announce(key []byte) {
	const most = 2048 // bytes
	if i := n.guess(key); i >= 0 {
		record := n.part(i, n.field(i, 4), n.field(i, 8)+n.field(i, 12))
		simd.Prefetch(record[:min(most, len(record))])
	}
}

// pages are the pages of the file in a transaction that reads, until it ends.
type pages struct {
	name string
	mem  []byte
	sums *pageSums // verifies nodes before they are used; nil: that is not needed
}

func pagesOf(tx *bbolt.Tx, name string, sums *pageSums) pages {
	return pages{name, vfs.MappedAt(tx.DB().Info().Data, tx.Size()), sums}
}

func (p *pages) invalid(page uint64, err error) error { return badPage(p.name, page, err) }

// badPage returns the error of a damaged page; 0 is a page that is not known.
func badPage(file string, page uint64, err error) *fileformat.CorruptError {
	if page == 0 {
		return &fileformat.CorruptError{File: file, Offset: -1, Err: err}
	}
	return &fileformat.CorruptError{File: file, Offset: int64(page) * pageSize,
		Err: fmt.Errorf("page %d: %w", page, err)}
}

// node returns the node of a page.
func (p *pages) node(page uint64) (node, error) {
	all := uint64(len(p.mem)) / pageSize
	if page < 2 || page >= all {
		return nil, p.invalid(page, fmt.Errorf("%w: one of %d pages", fileformat.ErrFormat, all))
	}
	if p.sums != nil {
		if err := p.sums.check(page); err != nil {
			return nil, err
		}
	}
	n := node(p.mem[page*pageSize:])
	more := n.more()
	if more >= all-page {
		return nil, p.invalid(page, fmt.Errorf("%w: %d overflow pages", fileformat.ErrFormat, more))
	}
	n = n[:(1+more)*pageSize]
	err := n.check()
	if err == nil && n.page() != page {
		err = fmt.Errorf("%w: it says that it is page %d", fileformat.ErrFormat, n.page())
	}
	if err != nil {
		return nil, p.invalid(page, err)
	}
	return n, nil
}

// A tree holds the records of a bucket.
type tree struct {
	*pages
	root   uint64 // page of its root; 0: it has one node
	inline node
}

// down returns the child of a branch where a key is, if it is in the tree, and the first key of the
// next child, nil for the last one.
func (n node) down(key []byte) (child uint64, next []byte, err error) {
	i, err := n.after(key)
	if err != nil {
		return 0, nil, err
	}
	i = max(i, 1) // a key before all others belongs to the first child
	if i < n.count() {
		next = n.key(i)
	}
	return n.child(i - 1), next, nil
}

// leaf returns the leaf that has key if any has it, and the first key of the next leaf, nil for
// the last one.
func (t *tree) leaf(key []byte) (leaf node, next []byte, err error) {
	if t.root == 0 {
		return t.inline, nil, nil
	}
	page := t.root
	for range maxDepth {
		n, err := t.node(page)
		if err != nil || n.leaf() {
			return n, next, err
		}
		child, after, err := n.down(key)
		if err != nil {
			return nil, nil, t.invalid(page, err)
		}
		if page = child; after != nil {
			next = after
		}
	}
	return nil, nil, t.tooDeep()
}

func (t *tree) tooDeep() error {
	return t.invalid(t.root, fmt.Errorf("%w: more than %d levels", fileformat.ErrFormat, maxDepth))
}

// together is how many keys leaves takes at most.
const together = 16

// leaves sets leaves[i] to the leaf that has document docs[i] if any has it. A walk waits for
// memory at each level; these go from level to level together, so that they wait at the same time.
func (t *tree) leaves(docs []uint64, leaves *[together]node) error {
	const head = 384 // bytes of a page that have its first elements
	var pages [together]uint64
	for i := range docs {
		leaves[i], pages[i] = t.inline, t.root
	}
	var key [8]byte
	for range maxDepth {
		on := false
		for i, doc := range docs {
			if pages[i] == 0 { // its leaf is found
				continue
			}
			n, err := t.node(pages[i])
			if err != nil {
				return err
			}
			if n.leaf() {
				leaves[i], pages[i] = n, 0
				continue
			}
			binary.BigEndian.PutUint64(key[:], doc)
			child, _, err := n.down(key[:])
			if err != nil {
				return t.invalid(pages[i], err)
			}
			if at := child * pageSize; child < uint64(len(t.mem))/pageSize {
				simd.Prefetch(t.mem[at : at+head])
			}
			pages[i], on = child, true
		}
		if !on {
			for i, doc := range docs {
				binary.BigEndian.PutUint64(key[:], doc)
				leaves[i].announce(key[:])
			}
			return nil
		}
	}
	return t.tooDeep()
}

// get returns the value of key, nil if the tree does not have it, and whether it is a bucket.
func (t *tree) get(key []byte) (value []byte, bucket bool, err error) {
	leaf, _, err := t.leaf(key)
	if err != nil {
		return nil, false, err
	}
	return t.in(leaf, key)
}

// in is get for the leaf that may have the key.
func (t *tree) in(leaf node, key []byte) (value []byte, bucket bool, err error) {
	i, err := leaf.after(key)
	if err == nil && (i == 0 || !bytes.Equal(leaf.key(i-1), key)) {
		return nil, false, nil
	}
	if err == nil {
		if value = leaf.value(i - 1); value == nil {
			err = fmt.Errorf("%w: value %d is beyond its node", fileformat.ErrFormat, i-1)
		}
	}
	if err != nil {
		return nil, false, t.invalid(leaf.page(), err)
	}
	return value, leaf.bucket(i - 1), nil
}

// bucket returns the tree of a bucket of t; ok is false if t has no bucket of that name.
func (t *tree) bucket(name []byte) (b tree, ok bool, err error) {
	v, bucket, err := t.get(name)
	if v == nil || err != nil {
		return tree{}, false, err
	}
	if !bucket || len(v) < bucketHeader {
		return tree{}, false, t.invalid(t.root, fmt.Errorf("%w: %q is not a bucket", fileformat.ErrFormat, name))
	}
	b = tree{pages: t.pages, root: binary.NativeEndian.Uint64(v)}
	if b.root == 0 {
		b.inline = node(v[bucketHeader:])
		if err := b.inline.check(); err != nil || !b.inline.leaf() {
			return tree{}, false, t.invalid(t.root, fmt.Errorf("%w: bucket %q has no leaf", fileformat.ErrFormat, name))
		}
	}
	return b, true, nil
}
