package meta

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"
	"sync/atomic"

	"github.com/vecbolt/vecbolt/internal/boltcheck"
	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// bbolt's pages have no checksums. Seal writes checksums of all pages in use to a separate file,
// valid until the next commit. A store that opens with them verifies each page before bbolt first
// reads it, so the cost of verification is proportional to the pages read. A transaction that
// writes, and operations on the whole file, verify all pages first, so that no commit builds on a
// damaged page.

// sumsName returns the name of the checksum file that belongs to the store in name.
func sumsName(name string) string { return path.Join(path.Dir(name), "meta.sums") }

// pageSums are the page checksums of a file that has not changed since they were computed. Safe for
// concurrent use.
type pageSums struct {
	db   [16]byte
	name string
	file *vfs.File
	sums []uint32
	seen []atomic.Uint64 // a bit for each page that was verified, or is free
	// nodes has a bit for each page that was verified with its overflow pages.
	nodes []atomic.Uint64
	all   atomic.Bool // every page was verified
}

// encodeSums returns the checksum file for the pages of f that are in use under root.
func encodeSums(db [16]byte, f *vfs.File, root boltcheck.Root) ([]byte, error) {
	free, err := boltcheck.FreePages(f, root)
	if err != nil {
		return nil, err
	}
	e := codec.Encoder{B: make([]byte, 0, sumsHeader+4*root.Pages+4)}
	e.Raw([]byte(sumsMagic))
	e.U32(sumsVersion)
	e.Raw(db[:])
	e.U64(root.Sum)
	e.U64(root.Pages)
	err = eachPage(f, root.Pages, func(page uint64, b []byte) error {
		if page < 2 || free[page/64]>>(page%64)&1 != 0 {
			e.U32(0)
		} else {
			e.U32(codec.CRC(b))
		}
		return nil
	})
	e.U32(codec.CRC(e.B))
	return e.B, err
}

// eachPage calls fn with every page of a file in turn.
func eachPage(f *vfs.File, pages uint64, fn func(page uint64, b []byte) error) error {
	const at = 64 // pages read at once
	buf := make([]byte, at*boltcheck.PageSize)
	for page := uint64(0); page < pages; page += at {
		b := buf[:min(at, pages-page)*boltcheck.PageSize]
		if _, err := f.ReadAt(b, int64(page)*boltcheck.PageSize); err != nil {
			return readError(f.Name(), page, err)
		}
		for i := uint64(0); len(b) > 0; i, b = i+1, b[boltcheck.PageSize:] {
			if err := fn(page+i, b[:boltcheck.PageSize]); err != nil {
				return err
			}
		}
	}
	return nil
}

// readError names the unreadable page. A truncated file is damage.
func readError(name string, page uint64, err error) error {
	if errors.Is(err, io.EOF) {
		return &fileformat.CorruptError{File: name, Offset: int64(page) * boltcheck.PageSize, Err: io.ErrUnexpectedEOF}
	}
	return fmt.Errorf("meta: %s: %w", name, &boltcheck.ReadError{Offset: int64(page) * boltcheck.PageSize, Err: err})
}

// decodeSums returns the checksums in b and the identity of their database. They must match the
// root.
func decodeSums(b []byte, root boltcheck.Root) (db [16]byte, sums []uint32, err error) {
	if len(b) < sumsHeader+4 || codec.CRC(b[:len(b)-4]) != binary.LittleEndian.Uint32(b[len(b)-4:]) {
		return db, nil, fileformat.ErrChecksum
	}
	d := codec.NewDecoder(b[:len(b)-4])
	magic, version := string(d.Raw(len(sumsMagic))), d.U32()
	copy(db[:], d.Raw(len(db)))
	sum, pages := d.U64(), d.U64()
	switch {
	case magic != sumsMagic:
		return db, nil, fmt.Errorf("%w: magic %q", fileformat.ErrFormat, magic)
	case version != sumsVersion:
		return db, nil, fmt.Errorf("%w %d", fileformat.ErrVersion, version)
	case sum != root.Sum || pages != root.Pages || uint64(d.Len()) != 4*pages:
		return db, nil, fmt.Errorf("%w: of another state", fileformat.ErrFormat)
	}
	sums = make([]uint32, pages)
	for i := range sums {
		sums[i] = d.U32()
	}
	return db, sums, nil
}

// newPageSums returns the checksums in b if they belong to the file, whose root is intact. It
// verifies the freelist, which bbolt reads when it opens.
func newPageSums(b []byte, f *vfs.File, root boltcheck.Root) (*pageSums, error) {
	db, sums, err := decodeSums(b, root)
	if err != nil {
		return nil, err
	}
	p := &pageSums{db: db, name: f.Name(), file: f, sums: sums,
		seen: make([]atomic.Uint64, len(sums)/64+1), nodes: make([]atomic.Uint64, len(sums)/64+1)}
	if err := p.check(root.Freelist); err != nil {
		return nil, err
	}
	free, err := boltcheck.FreePages(f, root)
	if err != nil {
		return nil, damage(f.Name(), err)
	}
	for i, word := range free {
		p.seen[i].Or(word)
	}
	p.seen[0].Or(3) // the roots, which have checksums of their own
	return p, nil
}

func (p *pageSums) verified(page uint64) bool { return p.seen[page/64].Load()>>(page%64)&1 != 0 }

// verify compares a page with its checksum.
func (p *pageSums) verify(page uint64, b []byte) error {
	if p.verified(page) {
		return nil
	}
	if codec.CRC(b) != p.sums[page] {
		return badPage(p.name, page, fileformat.ErrChecksum)
	}
	p.seen[page/64].Or(1 << (page % 64))
	return nil
}

// verifyAll verifies every page that was not verified yet.
func (p *pageSums) verifyAll() error {
	if p.all.Load() {
		return nil
	}
	if err := eachPage(p.file, uint64(len(p.sums)), p.verify); err != nil {
		return err
	}
	p.all.Store(true)
	return nil
}

// bad returns an error for each damaged page.
func (p *pageSums) bad() (errs []*fileformat.CorruptError, err error) {
	err = eachPage(p.file, uint64(len(p.sums)), func(page uint64, b []byte) error {
		if page >= 2 && p.sums[page] != 0 && codec.CRC(b) != p.sums[page] {
			errs = append(errs, badPage(p.name, page, fileformat.ErrChecksum))
		}
		return nil
	})
	return errs, err
}

// check verifies a page with its overflow pages.
func (p *pageSums) check(page uint64) error {
	if page < 2 || page >= uint64(len(p.sums)) {
		return badPage(p.name, page, fmt.Errorf("%w: one of %d pages", fileformat.ErrFormat, len(p.sums)))
	}
	if p.all.Load() || p.nodes[page/64].Load()>>(page%64)&1 != 0 {
		return nil
	}
	buf := make([]byte, pageSize)
	read := func(page uint64) error {
		if _, err := p.file.ReadAt(buf, int64(page)*pageSize); err != nil {
			return readError(p.name, page, err)
		}
		return p.verify(page, buf)
	}
	if err := read(page); err != nil {
		return err
	}
	more := node(buf).more()
	if more >= uint64(len(p.sums))-page {
		return badPage(p.name, page, fmt.Errorf("%w: %d overflow pages", fileformat.ErrFormat, more))
	}
	for next := page + 1; next <= page+more; next++ {
		if p.verified(next) {
			continue
		}
		if err := read(next); err != nil {
			return err
		}
	}
	p.nodes[page/64].Or(1 << (page % 64))
	return nil
}

// A verifiedRange is the range of keys around a cursor whose leaves are verified. bbolt may move to
// the next leaf before it returns a key of the current one, so the range is always one leaf ahead.
type verifiedRange struct {
	tree  *tree // nil: nothing to verify
	known bool
	from  []byte // first key of the range; a copy
	leaf  []byte // end of the range: first key of the next leaf; nil: the last leaf
	ahead []byte // first key of the leaf after the next, which is verified too
}

// extendTo verifies the pages that a cursor needs to seek key and to take one step from there.
func (r *verifiedRange) extendTo(key []byte) (err error) {
	if r.tree == nil || r.tree.sums == nil || r.tree.sums.all.Load() || r.known && r.contains(key) {
		return nil
	}
	r.known, r.from = false, append(r.from[:0], key...)
	if _, r.leaf, err = r.tree.leaf(key); err == nil && r.leaf != nil {
		_, r.ahead, err = r.tree.leaf(r.leaf)
	}
	r.known = err == nil
	return err
}

func (r *verifiedRange) contains(key []byte) bool {
	return string(key) >= string(r.from) && (r.leaf == nil || string(key) < string(r.leaf))
}

// advance verifies the pages that the cursor, now at key, needs for its next step.
func (r *verifiedRange) advance(key []byte) (err error) {
	if !r.known || r.contains(key) {
		return nil
	}
	r.known, r.from, r.leaf = false, append(r.from[:0], r.leaf...), r.ahead
	if r.leaf != nil {
		_, r.ahead, err = r.tree.leaf(r.leaf)
	}
	r.known = err == nil
	return err
}

// loadSums opens the page checksums if they are usable. Unusable checksums are ignored, but damage
// that they reveal is returned. On success f stays open.
func (s *Store) loadSums(f *vfs.File, root boltcheck.Root) error {
	b, err := s.fs.ReadFile(sumsName(s.name), int64(sumsHeader+4*root.Pages+4))
	if err != nil {
		return nil
	}
	p, err := newPageSums(b, f, root)
	var bad *fileformat.CorruptError
	if errors.As(err, &bad) {
		return err
	}
	if err == nil {
		s.sums.Store(p)
		s.sumsFile = f
	}
	return nil
}

// Contradicted looks for an intact checksum file of another version of the store in the file name.
// The checksums are removed before the first commit, so the store is then not the file they were
// written for, but another copy. It returns a *fileformat.CorruptError that says so. A damaged root
// also explains the difference, and gives no error.
func Contradicted(fsys *vfs.FS, name string) error {
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	roots, newest, err := boltcheck.Roots(f, size)
	if err != nil || roots[0].Err != nil || roots[1].Err != nil {
		return nil
	}
	return contradicted(fsys, name, roots[newest])
}

// contradicted is Contradicted for the root in force.
func contradicted(fsys *vfs.FS, name string, root boltcheck.Root) error {
	f, err := fsys.Open(sumsName(name))
	if err != nil {
		return nil // there are no checksums; opening only takes longer
	}
	defer f.Close()
	if err := otherState(f, root); err != nil {
		return &fileformat.CorruptError{File: name, Offset: -1,
			Err: fmt.Errorf("%w; it may be an older copy: put back the one that belongs to %s, "+
				"or repair into a new database, or remove %[2]s if this is the right one", err, sumsName(name))}
	}
	return nil
}

// otherState returns an error if a checksum file is intact and belongs to another root.
func otherState(f *vfs.File, root boltcheck.Root) error {
	var head [sumsHeader]byte
	size, err := f.Size()
	if err != nil || size < sumsHeader+4 {
		return nil
	}
	if _, err := f.ReadAt(head[:], 0); err != nil {
		return nil
	}
	d := codec.NewDecoder(head[:])
	magic, version := string(d.Raw(len(sumsMagic))), d.U32()
	d.Raw(len(pageSums{}.db))
	sum, pages := d.U64(), d.U64()
	if magic != sumsMagic || version != sumsVersion || uint64(size-sumsHeader-4)/4 != pages || size%4 != 0 ||
		sum == root.Sum && pages == root.Pages {
		return nil
	}
	crc, buf := uint32(0), make([]byte, boltcheck.PageSize)
	for off := int64(0); off < size-4; {
		b := buf[:min(int64(len(buf)), size-4-off)]
		if _, err := f.ReadAt(b, off); err != nil {
			return nil
		}
		crc = codec.Update(crc, b)
		off += int64(len(b))
	}
	if _, err := f.ReadAt(buf[:4], size-4); err != nil || binary.LittleEndian.Uint32(buf) != crc {
		return nil
	}
	return fmt.Errorf("%w: this is not the state that %s was written for", fileformat.ErrFormat, f.Name())
}

// whole verifies all pages that were not verified yet. Operations that read or write the whole file
// call it first.
func (s *Store) whole() error {
	if p := s.sums.Load(); p != nil {
		return p.verifyAll()
	}
	return nil
}

// unseal prepares a change: it verifies all pages once, and invalidates the checksums. Their file
// must be removed durably before the first commit, because the root in the file identifies a
// version but not the content of the pages. If that root were damaged later, the next commit on the
// previous root could produce an equal root over other pages.
func (s *Store) unseal() error {
	if s.unsealed {
		return nil
	}
	if err := s.whole(); err != nil {
		return err
	}
	if err := discard(s.fs, sumsName(s.name)); err != nil {
		return err
	}
	if err := s.fs.SyncDir(path.Dir(s.name)); err != nil {
		return err
	}
	s.sums.Store(nil)
	s.unsealed = true
	return nil
}

// Sealed reports whether the store has valid page checksums on disk.
func (s *Store) Sealed() bool { return s.sums.Load() != nil }

// Seal writes the page checksums to meta.sums beside the store, for the next Open. They are valid
// until the next Update. Without them Open verifies the structure of every page.
func (s *Store) Seal() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.changeable(); err != nil || s.Sealed() {
		return err
	}
	s.unsealed = false
	return s.seal(s.fs, s.name)
}

// SealCopy is Seal for a file that CopyTo has made.
func (s *Store) SealCopy(to *vfs.FS, name string) error { return s.seal(to, name) }

// seal writes the checksums of this store's file, or of a copy that nobody changes.
func (s *Store) seal(fsys *vfs.FS, name string) error {
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	roots, newest, err := boltcheck.Roots(f, size)
	if err != nil {
		return damage(name, err)
	}
	b, err := encodeSums(s.identity, f, roots[newest])
	if err != nil {
		return damage(name, err)
	}
	return fsys.WriteFileAtomic(sumsName(s.name), b)
}
