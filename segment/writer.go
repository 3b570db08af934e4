package segment

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/simd"
)

// bufferSize is the size of a Writer's buffer: whole blocks, and small enough to stay in the L2
// cache between filling, checksum and write.
const bufferSize = 4 * blockSize

// InvNorm returns 1/‖vec‖ as segments store it: computed in float64 from the canonical simd.Dot64,
// then rounded. It is 0 for a zero or empty vector and +Inf where float32 ends. The components must
// be finite.
func InvNorm(vec []float32) float32 {
	if len(vec) == 0 {
		return 0
	}
	return invNorm(simd.Dot64(vec, vec))
}

func invNorm(square float64) float32 {
	if square == 0 {
		return 0
	}
	return float32(1 / math.Sqrt(square))
}

// validNorm tells whether v can be a norm or an inverse norm: not negative, not NaN.
func validNorm(v float32) bool { return math.Float32bits(v) <= 0x7f800000 }

// maxNorm returns Info.MaxNorm for rows with the given inverse norms. Rounding moved an inverse
// norm by less than the distance to its lower neighbour, so the reciprocal of that neighbour is an
// upper bound.
func maxNorm(invs []float32) float32 {
	var least float32 // of those above 0
	for _, v := range invs {
		if v > 0 && (least == 0 || v < least) {
			least = v
		}
	}
	if least == 0 {
		return 0
	}
	bound := 1 / float64(math.Nextafter32(least, 0))
	norm := float32(bound)
	if float64(norm) < bound {
		norm = math.Nextafter32(norm, float32(math.Inf(1)))
	}
	return norm
}

// Writer writes one segment. After an error, every later call returns that error, and the caller
// must Abort. It holds 12 bytes per row and a fixed buffer in memory.
type Writer struct {
	fs    *vfs.FS
	file  *vfs.File // nil once closed
	name  string    // of the file as it is now; empty when it is no longer ours
	head  header
	docs  []uint64
	invs  []float32
	buf   []byte // without checksums yet; its capacity is bufferSize
	out   *vfs.Gather
	table []uint32
	err   error
}

// Create starts segment id of a collection in the database db, in a file under tmp/. The
// directories tmp and seg must exist, and no segment of that id.
func Create(fsys *vfs.FS, db [16]byte, id uint64, collection uint32, dim int) (*Writer, error) {
	if _, err := layoutOf(1, dim); err != nil {
		return nil, fmt.Errorf("segment: create: %w", err)
	}
	if _, err := fsys.Size(FileName(id)); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("segment: create %q: %w", FileName(id), cmp.Or(err, fs.ErrExist))
	}
	f, err := fsys.Create(tempName(id))
	if err != nil {
		return nil, fmt.Errorf("segment: create: %w", err)
	}
	return &Writer{
		fs:   fsys,
		file: f,
		name: tempName(id),
		head: header{db: db, info: Info{ID: id, Collection: collection, Dim: dim}},
		buf:  make([]byte, 0, bufferSize),
		out:  vfs.NewGather(f, headerSize),
	}, nil
}

// Len returns the number of rows so far.
func (w *Writer) Len() int { return len(w.docs) }

// Append adds a row. doc must be above the previous row's, and vec must have the segment's
// dimension and finite components.
func (w *Writer) Append(doc uint64, vec []float32) error {
	if w.err != nil {
		return w.err
	}
	var square float64
	if len(vec) > 0 {
		square = simd.Dot64(vec, vec) // cannot overflow from finite components
	}
	if !(square <= math.MaxFloat64) {
		return w.fail(fmt.Errorf("%w: vector of document %d is not finite", fileformat.ErrFormat, doc))
	}
	return w.AppendRows([]uint64{doc}, []float32{invNorm(square)}, vec)
}

// AppendRows adds len(docs) rows whose inverse norms (see InvNorm) are known, such as rows of other
// segments. rows holds the vectors one after the other. The caller guarantees that invs are right
// and the vectors finite.
func (w *Writer) AppendRows(docs []uint64, invs, rows []float32) error {
	if w.err != nil {
		return w.err
	}
	if len(invs) != len(docs) || len(rows) != len(docs)*w.head.info.Dim {
		return w.fail(fmt.Errorf("%w: %d documents of dimension %d with %d inverse norms and %d components",
			fileformat.ErrFormat, len(docs), w.head.info.Dim, len(invs), len(rows)))
	}
	if len(w.docs) > MaxRows-len(docs) {
		return w.fail(fmt.Errorf("%w: more than %d rows", fileformat.ErrFormat, MaxRows))
	}
	var last uint64
	if n := len(w.docs); n > 0 {
		last = w.docs[n-1]
	}
	for i, doc := range docs {
		if doc <= last {
			return w.fail(fmt.Errorf("%w: document %d after %d", fileformat.ErrFormat, doc, last))
		}
		if !validNorm(invs[i]) {
			return w.fail(fmt.Errorf("%w: inverse norm %v of document %d", fileformat.ErrFormat, invs[i], doc))
		}
		last = doc
	}
	w.docs = append(w.docs, docs...)
	w.invs = append(w.invs, invs...)
	return w.write(codec.BytesFromF32s(rows))
}

// fail keeps the first error.
func (w *Writer) fail(err error) error {
	w.err = fmt.Errorf("segment: write %q: %w", FileName(w.head.info.ID), err)
	return w.err
}

// write appends b to the blocks.
func (w *Writer) write(b []byte) error {
	for len(b) > 0 && w.err == nil {
		free := w.buf[len(w.buf):cap(w.buf)]
		n := copy(free, b)
		w.buf, b = w.buf[:len(w.buf)+n], b[n:]
		if n == len(free) {
			w.flush()
		}
	}
	return w.err
}

// flush computes the checksums of the buffer, which ends where a block does, and writes it.
func (w *Writer) flush() {
	for block := range slices.Chunk(w.buf, blockSize) {
		w.table = append(w.table, codec.CRC(block))
	}
	w.add(w.buf)
	w.buf = w.buf[:0]
}

func (w *Writer) add(b []byte) {
	if w.err == nil {
		if _, err := w.out.Write(b); err != nil {
			w.fail(err)
		}
	}
}

// Finish makes the segment durable under its final name and returns its description. A segment
// without rows is an error. Whatever fails, nothing stays behind as far as the file system allows.
func (w *Writer) Finish() (Info, error) {
	if err := w.finish(); err != nil {
		return Info{}, errors.Join(err, w.Abort())
	}
	w.name = ""
	w.fail(fs.ErrClosed)
	return w.head.info, nil
}

// Abort removes the file. It does nothing after Finish or another Abort.
func (w *Writer) Abort() error {
	var err error
	if w.file != nil {
		err = w.file.Close()
		w.file = nil
	}
	if w.name != "" {
		err = errors.Join(err, w.fs.Remove(w.name))
		w.name = ""
	}
	if w.err == nil {
		w.fail(fs.ErrClosed)
	}
	return err
}

func (w *Writer) finish() error {
	if w.err != nil {
		return w.err
	}
	info := &w.head.info
	info.Rows = len(w.docs)
	l, err := layoutOf(info.Rows, info.Dim)
	if err != nil {
		return w.fail(err)
	}
	w.write(make([]byte, l.docs-l.vec(info.Rows)))
	w.flush() // the block of vectors ends here
	w.write(codec.BytesFromU64s(w.docs))
	w.write(codec.BytesFromF32s(w.invs))
	w.flush()
	table := codec.BytesFromU32s(w.table)
	w.add(table)

	info.Size = l.size
	info.MinDoc, info.MaxDoc = w.docs[0], w.docs[info.Rows-1]
	info.MaxNorm = maxNorm(w.invs)
	w.head.tableCRC = codec.CRC(table)
	if w.err != nil {
		return w.err
	}
	if err := w.out.Flush(); err != nil {
		return w.fail(err)
	}
	// Last, because a file is invalid without its header.
	if _, err := w.file.WriteAt(w.head.encode(), 0); err != nil {
		return w.fail(err)
	}
	if err := w.file.Sync(); err != nil {
		return w.fail(err)
	}
	err = w.file.Close() // first, because Windows does not rename open files
	w.file = nil
	if err != nil {
		return w.fail(err)
	}
	if err := w.fs.Rename(tempName(info.ID), FileName(info.ID)); err != nil {
		return w.fail(err)
	}
	w.name = FileName(info.ID)
	if err := w.fs.SyncDir("seg"); err != nil {
		return w.fail(err)
	}
	return nil
}
