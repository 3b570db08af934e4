package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync/atomic"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/simd"
)

// Segment is an open segment file. Its methods may be used concurrently, except Close.
type Segment struct {
	file  *vfs.File
	m     *vfs.Mapping
	head  header
	lay   layout
	data  []byte // the mapped file
	vecs  []byte // the vectors in it
	docs  []uint64
	invs  []float32
	table []uint32
	seen  []atomic.Uint64 // bit b: block b was verified
}

// Open maps the segment that info describes in the database db. It verifies everything except the
// vectors, in time proportional to the rows. A file that is damaged, missing or of another segment
// gives a *fileformat.CorruptError.
func Open(fsys *vfs.FS, db [16]byte, info Info) (*Segment, error) {
	s := &Segment{head: header{db: db, info: info}}
	var err error
	if s.lay, err = layoutOf(info.Rows, info.Dim); err != nil {
		return nil, s.corrupt(0, fmt.Errorf("manifest: %w", err))
	}
	if s.file, err = fsys.Open(s.Name()); errors.Is(err, fs.ErrNotExist) {
		return nil, s.corrupt(0, err)
	} else if err != nil {
		return nil, fmt.Errorf("segment: open: %w", err)
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Segment) open() error {
	size, err := s.file.Size()
	if err != nil {
		return fmt.Errorf("segment: open: %w", err)
	}
	if size != s.head.info.Size || size != s.lay.size {
		return s.corrupt(min(size, s.lay.size), s.wrongSize(size))
	}
	if s.m, err = s.file.Map(size); err != nil {
		return fmt.Errorf("segment: open: %w", err)
	}
	return s.Guard(s.verifyOpen)
}

// wrongSize says why the file has a size that it should not have: it is another file, or damaged.
func (s *Segment) wrongSize(size int64) error {
	h, _, err := readHeader(s.file)
	h.info.Docs = s.head.info.Docs // the file does not have it
	switch {
	case err == nil && (h.db != s.head.db || h.info != s.head.info):
		return fmt.Errorf("%w: %d bytes, manifest %d, want %d",
			fileformat.ErrMismatch, size, s.head.info.Size, s.lay.size)
	case size < s.lay.size:
		return fmt.Errorf("%w: cut short, %d of %d bytes", fileformat.ErrDamaged, size, s.lay.size)
	}
	return fmt.Errorf("%w: %d bytes, should have %d", fileformat.ErrDamaged, size, s.lay.size)
}

// verifyOpen checks all but the vectors.
func (s *Segment) verifyOpen() error {
	s.data = s.m.Bytes()
	l := &s.lay
	h, _, err := decodeHeader(s.Name(), s.data)
	if err != nil {
		return err
	}
	if h.db != s.head.db {
		return s.corrupt(0, fmt.Errorf("%w: database %x, manifest %x", fileformat.ErrMismatch, h.db, s.head.db))
	}
	want := s.head.info
	want.Docs = h.info.Docs // the file does not have it
	if h.info != want {
		return s.corrupt(0, fmt.Errorf("%w: %+v, manifest %+v", fileformat.ErrMismatch, h.info, s.head.info))
	}
	s.head.tableCRC = h.tableCRC
	if codec.CRC(s.data[l.table:]) != h.tableCRC {
		return s.corrupt(l.table, fmt.Errorf("checksums: %w", fileformat.ErrChecksum))
	}
	s.table = codec.U32sFromBytes(s.data[l.table:])
	s.seen = make([]atomic.Uint64, (l.blocks+63)/64)
	if err := s.touch(l.docs, l.table); err != nil {
		return err
	}
	end := l.vec(l.rows)
	s.vecs = s.data[headerSize:end:end]
	s.docs = codec.U64sFromBytes(s.data[l.docs:l.invs])
	s.invs = codec.F32sFromBytes(s.data[l.invs:l.table])
	if s.docs[0] != h.info.MinDoc || s.docs[l.rows-1] != h.info.MaxDoc {
		return s.corrupt(l.docs, fmt.Errorf("%w: documents %d to %d, header %d to %d",
			fileformat.ErrFormat, s.docs[0], s.docs[l.rows-1], h.info.MinDoc, h.info.MaxDoc))
	}
	var last uint64
	for row, doc := range s.docs {
		if doc <= last {
			return s.corrupt(l.doc(row), fmt.Errorf("%w: document %d after %d", fileformat.ErrFormat, doc, last))
		}
		last = doc
	}
	for row, inv := range s.invs {
		if !validNorm(inv) {
			return s.corrupt(l.inv(row), fmt.Errorf("%w: inverse norm %v", fileformat.ErrFormat, inv))
		}
	}
	return nil
}

// Close unmaps the file: every slice the segment has returned becomes invalid.
func (s *Segment) Close() error {
	var err error
	if s.m != nil {
		err = s.m.Close()
	}
	return errors.Join(err, s.file.Close())
}

// ReadAt reads the bytes of the file, not through the map, as io.ReaderAt. It works after the file
// has lost its name.
func (s *Segment) ReadAt(b []byte, off int64) (int, error) { return s.file.ReadAt(b, off) }

// Name returns the name of the file within the database directory.
func (s *Segment) Name() string { return FileName(s.head.info.ID) }

// Info returns the description that the segment was opened with.
func (s *Segment) Info() Info { return s.head.info }

// Len returns the number of rows.
func (s *Segment) Len() int { return s.lay.rows }

// Dim returns the components per vector.
func (s *Segment) Dim() int { return s.lay.dim }

// DocNums returns the document number of each row, ascending. Mapped memory.
func (s *Segment) DocNums() []uint64 { return s.docs }

// InvNorms returns the InvNorm of each row's vector. Mapped memory.
func (s *Segment) InvNorms() []float32 { return s.invs }

// Find returns the row of a document.
func (s *Segment) Find(doc uint64) (row int, ok bool) {
	if doc < s.head.info.MinDoc || doc > s.head.info.MaxDoc {
		return 0, false
	}
	return slices.BinarySearch(s.docs, doc)
}

// Rows returns the vectors of rows lo to hi-1, one after the other: mapped memory on little-endian
// machines, a copy elsewhere. It verifies blocks that are read for the first time; damage gives a
// *fileformat.CorruptError. Indexes out of range panic.
func (s *Segment) Rows(lo, hi int) ([]float32, error) {
	vecs := s.vecs[lo*s.lay.dim*floatSize : hi*s.lay.dim*floatSize]
	if len(vecs) == 0 {
		return nil, nil
	}
	if err := s.touch(s.lay.vec(lo), s.lay.vec(hi)); err != nil {
		return nil, err
	}
	return codec.F32sFromBytes(vecs), nil
}

// Prefetch loads the vector of a row into the cache, ahead of Rows. It is a hint without any other
// effect.
func (s *Segment) Prefetch(row int) {
	simd.Prefetch(s.vecs[row*s.lay.dim*floatSize : (row+1)*s.lay.dim*floatSize])
}

// ReadAhead has the vector of a row read from disk, ahead of Rows, and the blocks that have to be
// verified with it. It is a hint, as Prefetch is, and does not wait.
func (s *Segment) ReadAhead(row int) {
	start, end := s.lay.vec(row), s.lay.vec(row+1)
	if start == end {
		return
	}
	for _, b := range [2]int64{s.lay.blockAt(start), s.lay.blockAt(end - 1)} {
		if s.seen[b/64].Load()>>(b%64)&1 == 0 {
			from, to := s.lay.block(b)
			start, end = min(start, from), max(end, to)
		}
	}
	vfs.ReadAhead(s.data[start:end])
}

// touch verifies the blocks of the file range [start, end), which is not empty, unless they were
// verified before. Several goroutines may verify the same block at once; that is harmless.
func (s *Segment) touch(start, end int64) error {
	for b := s.lay.blockAt(start); b <= s.lay.blockAt(end-1); b++ {
		word, bit := &s.seen[b/64], uint64(1)<<(b%64)
		if word.Load()&bit != 0 {
			continue
		}
		from, to := s.lay.block(b)
		if codec.CRC(s.data[from:to]) != s.table[b] {
			return s.corrupt(from, fileformat.ErrChecksum)
		}
		word.Or(bit)
	}
	return nil
}

// Guard runs fn, which reads the segment's memory, and returns its error. A memory fault in the
// segment's file becomes a *fileformat.CorruptError. It guards the calling goroutine only.
func (s *Segment) Guard(fn func() error) error { return s.Fault(vfs.Guard(s.Name(), fn)) }

// Fault turns an error of vfs.Guard into a *fileformat.CorruptError if the fault was in this
// segment. It returns any other error unchanged.
func (s *Segment) Fault(err error) error {
	if fault, ok := errors.AsType[*vfs.FaultError](err); ok {
		if off, ok := codec.OffsetIn(s.data, fault.Addr); ok {
			return s.corrupt(off, err)
		}
	}
	return err
}

func (s *Segment) corrupt(off int64, err error) error {
	return &fileformat.CorruptError{File: s.Name(), Offset: off, Err: err}
}
