package wal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// Record is the payload of one record: the concatenation of Parts, at most MaxRecord bytes. The log
// does not keep it.
type Record struct {
	Parts [][]byte
}

// File describes a file of the log and the records in it.
type File struct {
	Name        string // relative to the database directory
	Size        int64  // bytes on disk
	First, Last uint64 // LSNs; Last is First-1 when it holds no record
}

// Log appends records. It is safe for concurrent use; calls wait for each other, Append for a
// running Sync as well. Only Size waits for nobody.
type Log struct {
	mu      sync.Mutex
	o       Options
	err     error // the first failed write or sync: the end of this Log
	closed  bool
	hasDir  bool   // wal/ exists and is durable
	spares  int    // files spareName(0) to spareName(spares-1) exist and have the size of new files
	seq     uint64 // number of the next file
	last    uint64 // LSN of the last appended record
	durable uint64 // LSN up to which records are known durable
	files   []File // finished files, oldest first

	size atomic.Int64 // what Size returns: read without mu, which is held while the disk syncs

	// The file being written; f is nil when the next Append has to make one.
	f    *vfs.File
	cur  File
	salt uint32
	prev uint32 // crc of the last frame, or of the file header
	off  int64  // where the next group goes
	buf  []byte // bytes of the current group that are not written yet; at most chunk
	at   int64  // where buf goes
	raw  int64  // from here on the file is reserved space that was never written
}

// chunk is the largest single write, in bytes.
const chunk = 1 << 20

// ahead is the number of zeros written behind a smaller group that reaches reserved space. Syncing
// overwritten blocks costs the disk less than syncing blocks that were never written.
const ahead = 1 << 20

// FirstSize is the maximum size of a file while it is the only one. The log may stay small, and a
// new file is written as zeros where space cannot be reserved.
const FirstSize = 4 << 20

// page is the unit of the system's cache: a smaller write has to read the rest of the page first.
const page = 4096

// zeros pads frames and pages.
var zeros [page]byte

// Create returns a Log whose first record will have the LSN next: Tail.Last + 1 after a Replay.
// durable is the LSN up to which everything is known to be durable elsewhere (flushed). If it is
// below next-1, the last file is synced, so that records which Replay has read from a cache can be
// built upon.
//
// The log always continues in a new file. It is made at the first Append: creating and closing a
// Log leaves nothing.
func Create(o Options, next, durable uint64) (*Log, error) {
	if o.ReadOnly {
		return nil, ErrReadOnly
	}
	if next == 0 || durable >= next {
		return nil, fmt.Errorf("wal: next record %d, durable %d: out of order", next, durable)
	}
	found, names, err := list(&o)
	if err != nil {
		return nil, err
	}
	// A file in wal/ proves that the entry of wal/ itself was synced.
	l := &Log{o: o, hasDir: len(found) > 0, seq: 1, last: next - 1, durable: next - 1}
	for slices.Contains(names, path.Base(spareName(l.spares))) {
		size, err := o.FS.Size(spareName(l.spares))
		if err != nil {
			if err := evict(&o, err, spareName(l.spares)); err != nil {
				return nil, err
			}
			break
		}
		if size != o.fileSize() {
			break
		}
		l.spares++
	}
	// Other spares are useless: they are of another size of files, or follow one that is.
	for _, name := range names {
		if i := spareNumber(name); i >= l.spares {
			_ = o.FS.Remove(spareName(i)) // if it stays, the next spare takes its place
		}
	}
	// A file ends where the next one begins. A file with a damaged header is no longer needed, or
	// Replay would have failed: it takes the range of its successor and is released with it. A
	// directory with the name of a log file is not needed either. It is removed, because a later
	// Replay would begin with it.
	last := l.last
	for _, f := range slices.Backward(found) {
		l.seq = max(l.seq, f.seq+1)
		size, err := o.FS.Size(f.name)
		if err != nil {
			if err := evict(&o, err, f.name); err != nil {
				return nil, err
			}
			continue
		}
		file := File{Name: f.name, Size: size, First: last + 1, Last: last}
		if f.err == nil {
			file.First = f.base
			last = min(last, f.base-1)
		}
		l.files = append(l.files, file)
	}
	slices.Reverse(l.files)
	if n := len(l.files); n > 0 && durable < next-1 {
		if err := syncFile(o.FS, l.files[n-1].Name); err != nil {
			return nil, fmt.Errorf("wal: sync %s: %w", l.files[n-1].Name, err)
		}
	}
	l.measure()
	return l, nil
}

// evict removes something other than a regular file, such as a directory, that has the name of a
// file of the log, which the log does not need. err is the error of reading its size. A directory
// that is not empty stays, and is an error.
func evict(o *Options, err error, name string) error {
	if _, ok := errors.AsType[*vfs.NotRegularError](err); !ok {
		return fmt.Errorf("wal: %w", err)
	}
	if rerr := o.FS.Remove(name); rerr != nil {
		return fmt.Errorf("wal: %w; the log does not need it, but cannot remove it: %w", err, rerr)
	}
	return nil
}

func syncFile(fsys *vfs.FS, name string) error {
	f, err := fsys.OpenRW(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// usable returns the reason why the log cannot be written, or nil. mu is held.
func (l *Log) usable() error {
	if l.closed {
		return ErrClosed
	}
	return l.err
}

// Append writes records with the next LSNs and returns the LSN of the last one. They are durable
// after Sync.
//
// The records of one call form a group: one write, unless they exceed 1 MiB. A failed write poisons
// the log, and a later Replay may find any of the records. An error while a new file is being made
// (errors.Is tells syscall.ENOSPC), and ErrTooLarge, mean that nothing was written and that the log
// can still be used.
func (l *Log) Append(records []Record) (lastLSN uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.measure()
	if err := l.usable(); err != nil {
		return 0, err
	}
	for i, r := range records {
		if n := r.size(); n > MaxRecord {
			return 0, fmt.Errorf("%w: record %d of %d has %d bytes, limit %d", ErrTooLarge, i+1,
				len(records), n, MaxRecord)
		}
	}
	group := GroupSize(records)
	if group == 0 {
		return l.last, nil
	}
	if headerSize+group > maxFile {
		return 0, fmt.Errorf("%w: %d bytes in one group", ErrTooLarge, group)
	}
	if l.f != nil && group > l.cur.Size-l.off {
		if err := l.finish(); err != nil {
			return 0, err
		}
	}
	if l.f == nil {
		size := l.o.fileSize()
		if len(l.files) == 0 && l.spares == 0 {
			size = min(size, FirstSize)
		}
		if err := l.begin(max(size, headerSize+group)); err != nil {
			return 0, fmt.Errorf("wal: make file %d: %w", l.seq, err)
		}
	}
	if err := l.write(records); err != nil {
		l.err = fmt.Errorf("wal: append: %w", err)
		return 0, l.err
	}
	return l.last, nil
}

// GroupSize returns how many bytes of a file the records take when they are appended together.
func GroupSize(records []Record) (n int64) {
	for _, r := range records {
		n = roundUp(n+frameSize+r.size(), frameAlign)
	}
	return roundUp(n, groupAlign)
}

// size returns the number of payload bytes.
func (r *Record) size() (n int64) {
	for _, p := range r.Parts {
		n += int64(len(p))
	}
	return n
}

// write writes a group into the current file, which has room for it.
func (l *Log) write(records []Record) error {
	l.at = l.off
	lsn, off := l.last, l.off
	for i, r := range records {
		lsn++
		h := frameHeader{length: uint32(r.size()), lsn: lsn, durable: l.durable, prev: l.prev, payload: l.salt}
		for _, p := range r.Parts {
			h.payload = codec.Update(h.payload, p)
		}
		if i == len(records)-1 {
			h.flags = flagLast
		}
		var b [frameSize]byte
		h.encode(b[:], l.salt)
		if err := l.put(b[:]); err != nil {
			return err
		}
		for _, p := range r.Parts {
			if err := l.put(p); err != nil {
				return err
			}
		}
		end := h.end(off, groupAlign)
		if err := l.put(zeros[:end-off-frameSize-int64(h.length)]); err != nil {
			return err
		}
		off, l.prev = end, h.crc
	}
	if err := l.put(zeros[:min(roundUp(off, page), l.cur.Size)-off]); err != nil {
		return err
	}
	if err := l.flush(); err != nil {
		return err
	}
	if err := l.writeAhead(off); err != nil {
		return err
	}
	l.off, l.last, l.cur.Last = off, lsn, lsn
	return nil
}

// writeAhead writes zeros behind a group that ends at end, if the next groups of its size would
// otherwise write to new space each.
func (l *Log) writeAhead(end int64) error {
	if end <= l.raw {
		return nil
	}
	if end-l.off < ahead {
		for stop := min(end+ahead, l.cur.Size); l.at < stop; {
			n := int(min(chunk, stop-l.at))
			l.buf = slices.Grow(l.buf, n)[:n]
			clear(l.buf)
			if err := l.flush(); err != nil {
				return err
			}
		}
	}
	l.raw = l.at
	return nil
}

// put adds bytes to the group. Whole chunks go to the file without a copy.
func (l *Log) put(b []byte) error {
	for len(b) > 0 {
		if len(l.buf) == 0 && len(b) >= chunk {
			if _, err := l.f.WriteAt(b[:chunk], l.at); err != nil {
				return err
			}
			l.at += chunk
			b = b[chunk:]
			continue
		}
		n := min(len(b), chunk-len(l.buf))
		l.buf = append(l.buf, b[:n]...)
		b = b[n:]
		if len(l.buf) == chunk {
			if err := l.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *Log) flush() error {
	if len(l.buf) == 0 {
		return nil
	}
	_, err := l.f.WriteAt(l.buf, l.at)
	l.at += int64(len(l.buf))
	l.buf = l.buf[:0]
	return err
}

// Sync makes all appended records durable. If it fails, it is unknown which of them are; the log is
// then poisoned. It fails if somebody has removed the file.
func (l *Log) Sync() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	return l.sync()
}

func (l *Log) sync() error {
	if l.durable == l.last {
		return nil
	}
	if err := l.f.Sync(); err != nil {
		l.err = fmt.Errorf("wal: sync: %w", err)
		return l.err
	}
	if l.f.Removed() { // with the whole directory, say: no Replay will find it
		l.err = fmt.Errorf("wal: sync: the file %s was removed from %s", l.f.Name(), l.o.FS.Path())
		return l.err
	}
	l.durable = l.last
	return nil
}

// Rotate syncs and finishes the current file; the next Append begins a new one.
func (l *Log) Rotate() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.measure()
	if err := l.usable(); err != nil {
		return err
	}
	return l.finish()
}

// finish syncs and closes the current file, if any: the existence of a file proves that all records
// before it are durable.
func (l *Log) finish() error {
	if l.f == nil {
		return nil
	}
	if err := l.sync(); err != nil {
		return err
	}
	l.f.DropCache() // only a Replay after a crash reads it, and the next file needs the memory
	_ = l.f.Close() // synced: there is nothing left that could fail
	l.f = nil
	l.files = append(l.files, l.cur)
	return nil
}

// begin makes the next file and opens it for writing. A file gets its name when it is complete and
// synced, so that any defect of a named file is damage. After an error only meaningless leftovers
// remain.
func (l *Log) begin(size int64) error {
	fsys := l.o.FS
	if !l.hasDir {
		if err := errors.Join(fsys.Mkdir(dir), fsys.SyncDir(".")); err != nil {
			return err
		}
		l.hasDir = true
	}
	h := fileHeader{db: l.o.DB, seq: l.seq, base: l.last + 1, size: uint64(size), salt: l.newSalt()}
	var made string
	var err error
	raw := size
	if l.spares > 0 && size == l.o.fileSize() {
		l.spares--
		made = spareName(l.spares)
		err = l.recycle(made, &h)
	} else {
		made = newName
		raw, err = l.make(&h)
	}
	name := fileName(l.seq)
	if err == nil {
		err = fsys.Rename(made, name)
	}
	if err != nil {
		_ = fsys.Remove(made) // gives the space back; a file that stays is replaced by the next attempt
		return err
	}
	l.seq++
	f, err := fsys.OpenRW(name)
	if err == nil {
		err = fsys.SyncDir(dir)
	}
	if err != nil {
		if f != nil {
			f.Close()
		}
		_ = fsys.Remove(name) // if that fails: the file holds no record, and the next one begins with the same record
		return err
	}
	l.f, l.salt, l.prev, l.off, l.raw = f, h.salt, h.crc, headerSize, raw
	l.cur = File{Name: name, Size: size, First: h.base, Last: l.last}
	return nil
}

// recycle gives a spare a new header. Its old frames are void under the new salt.
func (l *Log) recycle(name string, h *fileHeader) error {
	// Until the removal of the old name is durable, a crash could restore it, with the new header.
	if err := l.o.FS.SyncDir(dir); err != nil {
		return err
	}
	f, err := l.o.FS.OpenRW(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteAt(h.encode(), 0); err != nil {
		return err
	}
	return f.Sync()
}

// make creates wal/new with a header. The rest reads as zeros and can be written even when the disk
// is full: it is reserved or, where the file system cannot do that, written. It returns where
// reserved space begins.
func (l *Log) make(h *fileHeader) (raw int64, err error) {
	f, err := l.o.FS.Create(newName)
	if errors.Is(err, fs.ErrExist) { // left by a crash
		if err := l.o.FS.Remove(newName); err != nil {
			return 0, err
		}
		f, err = l.o.FS.Create(newName)
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	size := int64(h.size)
	reserved, err := f.Preallocate(size)
	if err != nil {
		return 0, err
	}
	if reserved {
		raw = headerSize
		err = f.Truncate(size)
	} else {
		raw = size
		for off := int64(headerSize); off < size && err == nil; off += chunk {
			_, err = f.WriteAt(make([]byte, min(size-off, chunk)), off)
		}
	}
	if err != nil {
		return 0, err
	}
	if _, err := f.WriteAt(h.encode(), 0); err != nil {
		return 0, err
	}
	return raw, f.Sync()
}

func (l *Log) newSalt() uint32 {
	if l.o.salt != nil {
		return l.o.salt()
	}
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return le.Uint32(b[:])
}

// Release gives up the finished files whose records all have LSNs of at most upTo, because those
// records are durable elsewhere. Up to Options.Spares files are kept for reuse, so that a full disk
// does not stop the log; others are removed. The current file is never released: Rotate first. A
// failure loses nothing and may be retried.
func (l *Log) Release(upTo uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.measure()
	if l.closed {
		return ErrClosed
	}
	for len(l.files) > 0 && l.files[0].Last <= upTo {
		f := l.files[0]
		keep := l.spares < l.o.spares() && f.Size == l.o.fileSize()
		var err error
		if keep {
			err = l.o.FS.Rename(f.Name, spareName(l.spares))
		} else {
			err = l.o.FS.Remove(f.Name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("wal: release: %w", err)
		}
		if keep && err == nil {
			l.spares++
		}
		l.files = l.files[1:]
	}
	return nil
}

// Files returns the files of the log, oldest first, without the spares.
func (l *Log) Files() []File {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all()
}

func (l *Log) all() []File {
	files := slices.Clone(l.files)
	if l.f != nil {
		files = append(files, l.cur)
	}
	return files
}

// Size returns the bytes that the files of the log occupy, spares included, after the last
// completed call. It does not wait for a running one.
func (l *Log) Size() int64 { return l.size.Load() }

// measure updates the result of Size. mu is held.
func (l *Log) measure() {
	n := int64(l.spares) * l.o.fileSize()
	for _, f := range l.files {
		n += f.Size
	}
	if l.f != nil {
		n += l.cur.Size
	}
	l.size.Store(n)
}

// Close syncs the appended records and closes the log. If all files have been released, it removes
// the spares too. A poisoned log is only closed, and the poisoning error returned. Closing twice is
// allowed.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.measure()
	if l.closed {
		return nil
	}
	l.closed = true
	if l.f == nil {
		for l.err == nil && len(l.files) == 0 && l.spares > 0 {
			l.spares--
			if err := l.o.FS.Remove(spareName(l.spares)); err != nil {
				return fmt.Errorf("wal: close: %w", err)
			}
		}
		return l.err
	}
	if l.err == nil {
		_ = l.sync() // sets l.err
	}
	_ = l.f.Close()
	l.f = nil
	return l.err
}
