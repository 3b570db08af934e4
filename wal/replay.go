package wal

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

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
	seq  uint64
	fileHeader
	err error // if the header cannot be used: the error that Replay returns
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
		f := file{name: name, seq: seq}
		if f.fileHeader, f.err, err = readHeader(o, name, seq); err != nil {
			return nil, nil, fmt.Errorf("wal: read header: %w", err)
		}
		files = append(files, f)
	}
	// Sorted names are sorted numbers only up to 8 digits.
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.seq, b.seq) })
	return files, names, nil
}

// readHeader returns the header of a file, or bad if it is unusable; err is a failed read.
func readHeader(o *Options, name string, seq uint64) (h fileHeader, bad, err error) {
	f, err := o.FS.Open(name)
	if other, ok := errors.AsType[*vfs.NotRegularError](err); ok {
		return h, &fileformat.CorruptError{File: name, Offset: -1, Err: errors.New(other.Reason())}, nil
	}
	if err != nil {
		return h, nil, err
	}
	defer f.Close()
	// After a failed fsync the cache may differ from the disk: read the disk.
	f.DropCache()
	size, err := f.Size()
	if err != nil {
		return h, nil, err
	}
	corrupt := func(off int64, format string, args ...any) (fileHeader, error, error) {
		return h, &fileformat.CorruptError{File: name, Offset: off, Err: fmt.Errorf(format, args...)}, nil
	}
	if size < headerSize {
		return corrupt(size, "file ends within its header")
	}
	b := make([]byte, headerSize)
	if _, err := f.ReadAt(b, 0); err != nil {
		return h, nil, fmt.Errorf("%s: %w", name, err)
	}
	switch h, err = decodeHeader(b); {
	case errors.Is(err, fileformat.ErrVersion):
		return h, fmt.Errorf("wal: %s: %w", name, err), nil
	case err != nil:
		return corrupt(0, "%w", err)
	case h.db != o.DB:
		return corrupt(16, "belongs to database %x, not %x", h.db, o.DB)
	case h.seq != seq:
		return corrupt(32, "is file number %d under another name", h.seq)
	case uint64(size) < h.size:
		// Files get their full size before they get their name.
		return corrupt(size, "file ends before its size of %d bytes", h.size)
	}
	return h, nil, nil
}

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
	in, err := o.FS.Open(f.name)
	if err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	defer in.Close()
	r := reader{f: in, size: int64(f.size), salt: f.salt}
	end := uint64(math.MaxUint64)
	if next != nil {
		end = next.base
	}
	lsn, prev, off := f.base, f.crc, int64(headerSize)
	for lsn < end {
		h, payload, ok, err := r.frame(off, lsn, prev)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if lsn > after {
			if err := fn(lsn, payload); err != nil {
				return err
			}
			tail.Last = lsn
		}
		lsn, prev, off = lsn+1, h.crc, h.end(off, f.align)
	}
	if next != nil {
		if lsn < end {
			return &fileformat.CorruptError{File: f.name, Offset: off, Err: fmt.Errorf(
				"record %d is damaged: %s begins with record %d", lsn, next.name, next.base)}
		}
		return nil
	}
	torn, err := r.remains(off, lsn, after)
	if torn {
		tail.Torn, tail.TornFile, tail.TornOffset = true, f.name, off
	}
	return err
}

// reader reads a file through a window that moves forward.
type reader struct {
	f    *vfs.File
	size int64
	salt uint32
	buf  []byte // the bytes of the file from start on
	at   int64
}

const readAhead = 256 << 10

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
		if _, err := r.f.ReadAt(r.buf[keep:], off+int64(keep)); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("wal: read %s at offset %d: %w", r.f.Name(), off, err)
		}
	}
	return r.buf[off-r.at:][:n:n], nil
}

// frame reads the frame at off; ok is false if it is damaged or not the next frame of the chain.
func (r *reader) frame(off int64, lsn uint64, prev uint32) (h frameHeader, payload []byte, ok bool, err error) {
	if r.size-off < frameSize {
		return h, nil, false, nil
	}
	b, err := r.bytes(off, frameSize)
	if err != nil {
		return h, nil, false, err
	}
	h, ok = decodeFrame(b, r.salt)
	if !ok || h.lsn != lsn || h.prev != prev || h.length > MaxRecord || int64(h.length) > r.size-off-frameSize {
		return h, nil, false, nil
	}
	if payload, err = r.bytes(off+frameSize, int(h.length)); err != nil {
		return h, nil, false, err
	}
	return h, payload, codec.Update(r.salt, payload) == h.payload, nil
}

// remains examines the bytes after the last good frame of the last file: off is the expected place
// of record lsn. It reports whether frames of this file follow, that is, an incomplete write; and
// the error if one of them witnesses that record lsn was durable, so that records above after are
// lost. It looks at every possible frame, not only at the start of groups, because damage may
// extend to the first frame of the witnessing group.
func (r *reader) remains(off int64, lsn, after uint64) (torn bool, err error) {
	for at := off; r.size-at >= frameSize; {
		b, err := r.bytes(at, int(min(r.size-at, readAhead/8)))
		if err != nil {
			return torn, err
		}
		for ; len(b) >= frameSize; b, at = b[frameAlign:], at+frameAlign {
			if le.Uint32(b) != frameMagic { // nearly everywhere: decodeFrame would cost milliseconds
				continue
			}
			h, ok := decodeFrame(b, r.salt)
			if !ok {
				continue
			}
			torn = true
			if h.durable >= lsn && h.lsn > after {
				return torn, &fileformat.CorruptError{File: r.f.Name(), Offset: off, Err: fmt.Errorf(
					"record %d is damaged: the frame of record %d at offset %d says it was durable", lsn, h.lsn, at)}
			}
		}
	}
	return torn, nil
}
