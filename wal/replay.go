package wal

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

const (
	dir     = "wal"
	suffix  = ".wal"
	newName = dir + "/new" // a file being made
)

var (
	// ErrClosed is returned by the methods of a closed Log.
	ErrClosed = errors.New("wal: log is closed")
	// ErrReadOnly is returned by Create with Options.ReadOnly.
	ErrReadOnly = errors.New("wal: read-only")
	// ErrTooLarge is returned by Append for a record above MaxRecord, or for 4 GiB at once; nothing
	// is then written.
	ErrTooLarge = errors.New("wal: record too large")
)

// Options say where a log is. Files lie in wal/ below FS.
type Options struct {
	FS       *vfs.FS
	DB       [16]byte // identity of the database; files of another one are refused
	FileSize int64    // bytes of a new file; 0 means 16 MiB; at least 8 KiB, at most 4 GiB
	Spares   int      // released files kept to be written again, which is faster than making new ones; 0 means 1
	ReadOnly bool     // refuse Create; Replay never writes anyway

	salt func() uint32 // nil: random
}

func (o *Options) fileSize() int64 {
	if o.FileSize == 0 {
		return 16 << 20
	}
	return roundUp(min(max(o.FileSize, 2*headerSize), maxFile), headerSize)
}

func (o *Options) spares() int { return max(1, o.Spares) }

// spareName returns the name of a recycled file, whose content is void: wal/spare, wal/spare1,
// wal/spare2, …
func spareName(i int) string {
	if i == 0 {
		return dir + "/spare"
	}
	return dir + "/spare" + strconv.Itoa(i)
}

// spareNumber returns the number of the spare with a name in wal/, or -1 for other names.
func spareNumber(name string) int {
	digits, ok := strings.CutPrefix(name, path.Base(spareName(0)))
	i, err := strconv.Atoi(cmp.Or(digits, "0"))
	if !ok || err != nil || i < 0 || path.Base(spareName(i)) != name {
		return -1
	}
	return i
}

// Tail describes how a replay ended.
type Tail struct {
	Last       uint64 // LSN of the last record, or `after` without later records
	Torn       bool   // remains of an incomplete write follow the last record
	TornFile   string // where they are, if Torn
	TornOffset int64
	Files      int // files of the log
}

// file is a file of the log as found in the directory.
type file struct {
	name string
	fileHeader
	there int64 // bytes of the file, at most its size; 0 if nothing tells which records it has
	err   error // damage of the header or the size, or why the header could not be read: Replay returns it
}

// readError is the error of a read. Replay ends with it, because the next read may succeed. For
// Salvage the bytes are lost.
type readError struct {
	name string
	off  int64
	err  error
}

// Error names the file and the offset.
func (e *readError) Error() string {
	return fmt.Sprintf("wal: read %s at offset %d: %v", e.name, e.off, e.err)
}

// Unwrap returns the error of the system.
func (e *readError) Unwrap() error { return e.err }

// damage returns the error as damage of the file.
func (e *readError) damage() error {
	return &fileformat.CorruptError{File: e.name, Offset: e.off, Err: e.err}
}

// fileName returns the name of the file with number seq, below the database directory.
func fileName(seq uint64) string { return fmt.Sprintf("%s/%08x%s", dir, seq, suffix) }

// list reads the headers of all files of the log, in the order of their numbers. names are all
// names in wal/; foreign ones are ignored. A missing wal/ is an empty log.
func list(o *Options) (files []file, names []string, err error) {
	names, err = o.FS.ReadDir(dir)
	if other, ok := errors.AsType[*vfs.NotRegularError](err); ok { // the log may be elsewhere
		return nil, nil, &fileformat.CorruptError{File: dir, Offset: -1, Err: errors.New(other.Reason())}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("wal: list files: %w", err)
	}
	for _, base := range names {
		seq, err := strconv.ParseUint(strings.TrimSuffix(base, suffix), 16, 63)
		name := fileName(seq)
		if err != nil || name != dir+"/"+base {
			continue
		}
		f := file{name: name, fileHeader: fileHeader{seq: seq}}
		if err := f.readHeader(o); err != nil {
			return nil, nil, fmt.Errorf("wal: read header: %w", err)
		}
		files = append(files, f)
	}
	// Sorted names are sorted numbers only up to 8 digits.
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.seq, b.seq) })
	return files, names, nil
}

// readHeader reads the header of a file, whose name and number are set. The returned error says
// that nothing is known about the file.
func (f *file) readHeader(o *Options) error {
	in, err := o.FS.Open(f.name)
	if other, ok := errors.AsType[*vfs.NotRegularError](err); ok {
		f.err = &fileformat.CorruptError{File: f.name, Offset: -1, Err: errors.New(other.Reason())}
		return nil
	}
	if errors.Is(err, syscall.EIO) {
		f.err = &readError{f.name, -1, err}
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	// After a failed fsync the cache may differ from the disk: read the disk.
	in.DropCache()
	size, err := in.Size()
	if err != nil {
		return err
	}
	corrupt := func(off int64, format string, args ...any) {
		f.err = &fileformat.CorruptError{File: f.name, Offset: off, Err: fmt.Errorf(format, args...)}
	}
	if size < headerSize {
		corrupt(size, "file ends within its header")
		return nil
	}
	b := make([]byte, headerSize)
	if _, err := in.ReadAt(b, 0); err != nil {
		f.err = &readError{f.name, 0, err}
		f.restoreHeader(fileHeader{}, in, size, o)
		return nil
	}
	h, err := decodeHeader(b)
	switch {
	case errors.Is(err, fileformat.ErrVersion):
		f.err = fmt.Errorf("wal: %s: %w", f.name, err)
		return nil
	case err != nil:
		corrupt(0, "%w", err)
		f.restoreHeader(headerFields(b), in, size, o)
		return nil
	case h.db != o.DB:
		corrupt(16, "belongs to database %x, not %x", h.db, o.DB)
		return nil
	case h.seq != f.seq:
		corrupt(32, "is file number %d under another name", h.seq)
		return nil
	case uint64(size) < h.size:
		// Files get their full size before they get their name.
		corrupt(size, "file ends before its size of %d bytes", h.size)
	}
	f.fileHeader, f.there = h, min(size, int64(h.size))
	return nil
}

// restoreHeader sets the header of a file whose header is damaged, by the first frame. If the frame
// tells the whole header, as for one of zeros, that one counts: see remakeHeader. Otherwise h, the
// damaged header, counts if the frame has a valid checksum under its salt. LSN and checksum come
// from the frame. Nothing confirms the size, so the file counts as whole, nor the version: see
// realign. Without a valid frame nothing is set.
func (f *file) restoreHeader(h fileHeader, in *vfs.File, size int64, o *Options) {
	b := make([]byte, frameSize)
	if _, err := in.ReadAt(b, headerSize); err != nil {
		return
	}
	if remade, ok := remakeHeader(b, o.DB, f.seq, size); ok {
		f.fileHeader, f.there = remade, size
	} else if first, ok := decodeFrame(b, h.salt); ok && first.lsn > 0 && h.db == o.DB {
		h.seq, h.base, h.crc = f.seq, first.lsn, first.prev
		h.size = uint64(min(size, maxFile))
		f.fileHeader, f.there = h, int64(h.size)
	}
}

// cut reports whether bytes of the file are missing.
func (f *file) cut() bool { return uint64(f.there) < f.size }

// Replay calls fn for every record with an LSN above after, in order and without omission. payload
// is valid during the call only. An error of fn ends the replay and is returned as it is. Replay
// changes nothing on disk.
//
// Files that hold no record above after are not read, apart from their headers. A
// *fileformat.CorruptError means that records above after have been lost; those before the damage
// have been delivered.
func Replay(o Options, after uint64, fn func(lsn uint64, payload []byte) error) (Tail, error) {
	tail := Tail{Last: after}
	files, _, err := list(&o)
	if err != nil {
		return tail, err
	}
	tail.Files = len(files)

	// Begin with the last file that can hold record after+1: earlier files are not needed, damaged
	// or not.
	start := 0
	for i, f := range files {
		if f.err == nil && f.base-1 <= after {
			start = i
		}
	}
	files = files[start:]
	for i, f := range files {
		if f.err != nil {
			return tail, f.err
		}
		if i == 0 && f.base-1 > after {
			return tail, &fileformat.CorruptError{File: f.name, Err: fmt.Errorf(
				"records %d to %d are missing: the log begins with record %d", after+1, f.base-1, f.base)}
		}
		var next *file
		if i+1 < len(files) {
			if next = &files[i+1]; next.err != nil {
				return tail, next.err
			}
		}
		if err := replayFile(&o, &f, next, after, fn, &tail); err != nil {
			return tail, err
		}
	}
	return tail, nil
}

// replayFile replays one file. Its records end where the next file begins: if a tail was torn when
// the next file was made, the tail is void, even if it is readable today.
func replayFile(o *Options, f, next *file, after uint64, fn func(uint64, []byte) error, tail *Tail) error {
	r, err := openReader(o, f, next)
	if err != nil {
		return err
	}
	defer r.f.Close()
	for ok := true; ok && r.lsn < r.end; {
		lsn := r.lsn
		var payload []byte
		if payload, ok, err = r.next(); err != nil {
			return err
		}
		if ok && lsn > after {
			if err := fn(lsn, payload); err != nil {
				return err
			}
			tail.Last = lsn
		}
	}
	if next != nil {
		if r.lsn < next.base {
			return r.damaged(begins(next, f.seq))
		}
		return nil
	}
	torn, w, err := r.remains(after)
	if torn {
		tail.Torn, tail.TornFile, tail.TornOffset = true, f.name, r.off
	}
	if err == nil && w != nil {
		err = r.damaged(w.proof())
	}
	return err
}

// reader reads a file frame by frame, through a window that moves forward.
type reader struct {
	f     *vfs.File
	size  int64
	salt  uint32
	align int64  // of groups
	buf   []byte // the bytes of the file from at on
	at    int64

	// The next frame of the chain.
	lsn  uint64 // of its record
	prev uint32 // crc of the frame before
	off  int64
	stop int64  // end of the payload before, without padding
	end  uint64 // the records of the file end before this one

	// patient says that bytes which cannot be read count as zeros, noted in holes.
	patient bool
	holes   []*readError
}

// openReader opens a file whose header is sound. next is the file with the records behind, or nil.
func openReader(o *Options, f, next *file) (*reader, error) {
	in, err := o.FS.Open(f.name)
	if err != nil {
		return nil, fmt.Errorf("wal: %w", err)
	}
	r := &reader{f: in, size: f.there, salt: f.salt, align: f.align, lsn: f.base, prev: f.crc, off: headerSize,
		end: math.MaxUint64}
	if next != nil {
		r.end = next.base
	}
	return r, nil
}

const (
	readAhead = 256 << 10
	// readUnit is the number of bytes that count as unreadable where a larger read fails.
	readUnit = 4096
)

// bytes returns n bytes at off, which the caller has compared with the size of the file. They are
// valid until the next call.
func (r *reader) bytes(off int64, n int) ([]byte, error) {
	if off < r.at || off+int64(n) > r.at+int64(len(r.buf)) {
		keep := 0
		if skip := off - r.at; skip >= 0 && skip < int64(len(r.buf)) {
			keep = copy(r.buf, r.buf[skip:])
		}
		want := int(min(max(int64(n), int64(keep)+readAhead), r.size-off))
		r.buf = slices.Grow(r.buf[:keep], want-keep)[:want]
		r.at = off
		if err := r.read(r.buf[keep:], off+int64(keep)); err != nil {
			return nil, err
		}
	}
	return r.buf[off-r.at:][:n:n], nil
}

// read fills b with the bytes at off.
func (r *reader) read(b []byte, off int64) error {
	_, err := r.f.ReadAt(b, off)
	switch {
	case err == nil:
		return nil
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	failed := &readError{r.f.Name(), off, err}
	if !r.patient {
		return failed
	}
	if int64(len(b)) <= readUnit-off%readUnit {
		clear(b)
		r.holes = append(r.holes, failed)
		return nil
	}
	for len(b) > 0 {
		n := min(int64(len(b)), readUnit-off%readUnit)
		_ = r.read(b[:n], off) // a patient reader has no errors
		b, off = b[n:], off+n
	}
	return nil
}

// hole returns the first unreadable place from off to end as damage, or nil.
func (r *reader) hole(off, end int64) error {
	for _, h := range r.holes {
		if h.off >= off/readUnit*readUnit && h.off < end {
			return h.damage()
		}
	}
	return nil
}

// header reads the header of a frame; ok is false if off has none that fits.
func (r *reader) header(off int64) (h frameHeader, ok bool, err error) {
	if r.size-off < frameSize {
		return h, false, nil
	}
	b, err := r.bytes(off, frameSize)
	if err != nil {
		return h, false, err
	}
	h, ok = decodeFrame(b, r.salt)
	return h, ok && h.length <= MaxRecord && int64(h.length) <= r.size-off-frameSize, nil
}

// next reads the next frame of the chain and goes on to the one behind; ok is false if it is
// damaged or not the next one.
func (r *reader) next() (payload []byte, ok bool, err error) {
	h, ok, err := r.header(r.off)
	if !ok || h.lsn != r.lsn || h.prev != r.prev {
		return nil, false, err
	}
	if payload, err = r.bytes(r.off+frameSize, int(h.length)); err != nil {
		return nil, false, err
	}
	if codec.Update(r.salt, payload) != h.payload {
		return nil, false, nil
	}
	r.stop = r.off + frameSize + int64(h.length)
	r.lsn, r.prev, r.off = r.lsn+1, h.crc, h.end(r.off, r.align)
	return payload, true, nil
}

// damaged returns the error for the next record, with the proof that it was durable.
func (r *reader) damaged(proof string) error {
	return &fileformat.CorruptError{File: r.f.Name(), Offset: r.off,
		Err: fmt.Errorf("record %d is damaged: %s", r.lsn, proof)}
}

// begins is the proof that a file gives for all records before it. The file before it has the
// number before: if there are numbers between the two, the files of these were removed.
func begins(f *file, before uint64) string {
	proof := fmt.Sprintf("%s begins with record %d", f.name, f.base)
	if f.seq > before+1 {
		proof += fmt.Sprintf(", and %s is not there", fileName(f.seq-1))
	}
	return proof
}

// A witness is a frame that says up to which record the log was durable.
type witness struct {
	frameHeader
	at int64
}

func (w *witness) proof() string {
	return fmt.Sprintf("the frame of record %d at offset %d says it was durable", w.lsn, w.at)
}

// remains examines the bytes after the last good frame of the last file. It reports whether frames
// of this file follow, that is, an incomplete write; and a witness that the next record was
// durable, so that records above after are lost. It looks at every possible frame, not only at the
// start of groups, because damage may extend to the first frame of the witnessing group.
func (r *reader) remains(after uint64) (torn bool, w *witness, err error) {
	at, h, err := r.search(r.off, func(h frameHeader) bool {
		torn = true
		return h.durable >= r.lsn && h.lsn > after
	})
	if at < r.size {
		w = &witness{h, at}
	}
	return torn, w, err
}

// search returns the first sound frame header from off on that fn accepts, or the size of the file.
func (r *reader) search(off int64, fn func(frameHeader) bool) (at int64, h frameHeader, err error) {
	for at = off; r.size-at >= frameSize; {
		b, err := r.bytes(at, int(min(r.size-at, readAhead/8)))
		if err != nil {
			return r.size, h, err
		}
		for ; len(b) >= frameSize; b, at = b[frameAlign:], at+frameAlign {
			if le.Uint32(b) != frameMagic { // nearly everywhere: decodeFrame would cost milliseconds
				continue
			}
			if h, ok := decodeFrame(b, r.salt); ok && fn(h) {
				return at, h, nil
			}
		}
	}
	return r.size, h, nil
}
