// Package vfs is the only way the engine touches files. An [FS] is rooted at one directory and
// cannot leave it, neither by ".." nor by a symbolic link. A [File] reads and writes at offsets and
// syncs, a [Mapping] is a read-only view of a file in memory, and a [Lock] keeps a second process
// out. The files are always real ones, on disk or in memory ([NewMemory]). A [Hook] sees every
// operation before it happens and can make it fail: so tests trace the order of syncs, and inject
// faults.
//
// Guarantees:
//
//   - Only regular files are opened. Anything else is a *NotRegularError, and named pipes do not
//     block.
//   - Names are slash-separated paths relative to the root. Files are made with mode 0600 and
//     directories with 0700.
//   - Every error names the file and wraps the cause: errors.Is works with fs.ErrNotExist and with
//     system error numbers.
//   - After a failed write or sync a File refuses further writes and syncs with [ErrPoisoned],
//     because a second fsync may report success for bytes that the first one lost. Likewise an FS
//     no longer syncs a directory once that has failed.
//
// Code that reads a Mapping must run under [Guard], which turns the fault of a missing page into an
// error.
//
// All types are safe for concurrent use unless a method says otherwise.
package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	_ "github.com/vecbolt/vecbolt/internal/needs64bit" // the only check for unsupported targets
)

var (
	// ErrPoisoned is returned by writes and syncs of a File after one of them has failed, and by
	// SyncDir after a failed sync of that directory.
	ErrPoisoned = errors.New("an earlier write or sync of it has failed")
	// ErrLocked is returned by FS.Lock when another handle holds the lock in a conflicting mode.
	ErrLocked = errors.New("locked")
	// ErrTooLarge is returned by FS.ReadFile for a file above the caller's limit.
	ErrTooLarge = errors.New("file too large")
)

// Kind says which operation an [Op] is.
type Kind uint8

// The operations a hook sees. Closing files, locks and mappings is not shown, because its failures
// do not matter.
const (
	OpOpen        Kind = iota + 1 // open an existing file, for reading or writing
	OpCreate                      // create a new file
	OpRead                        // read Len bytes at Off
	OpWrite                       // write Len bytes at Off
	OpSync                        // make a file's bytes durable
	OpTruncate                    // set the size to Len
	OpPreallocate                 // reserve Len bytes
	OpRename                      // rename Name to To
	OpRemove                      // remove a file or an empty directory
	OpMkdir                       // make a directory
	OpSyncDir                     // make a directory's entries durable
	OpReadDir                     // list a directory
	OpStat                        // ask for a size
	OpMap                         // map Len bytes
	OpDropCache                   // forget cached pages
	OpLock                        // take the lock
)

var kindNames = [...]string{"", "open", "create", "read", "write", "sync", "truncate", "preallocate",
	"rename", "remove",
	"mkdir", "syncdir", "readdir", "stat", "map", "dropcache", "lock"}

// String returns the lower-case name of the operation, as used in traces and errors.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("op%d", uint8(k))
}

// Op is one operation on a file. To is set for OpRename only; Off and Len, in bytes, for the kinds
// that have them.
type Op struct {
	Kind     Kind
	Name, To string
	Off      int64
	Len      int
}

// Hook is called with every operation before it happens, from the goroutine that performs it and
// possibly from several at once. A nil error lets it go on; with any other error the operation is
// not performed and fails with that error, except that a [*Short] performs part of a read or write
// first.
type Hook func(Op) error

// Short is the error with which a Hook makes a read or write stop after N bytes and fail with Err.
type Short struct {
	N   int
	Err error
}

// Error describes the fault.
func (s *Short) Error() string { return fmt.Sprintf("stopped after %d bytes: %v", s.N, s.Err) }

// Unwrap returns Err.
func (s *Short) Unwrap() error { return s.Err }

// FS gives access to the files below one directory.
type FS struct {
	dir   string
	path  string // of dir, from the root of the system
	root  atomic.Pointer[directory]
	hook  Hook
	names map[string]string // of a view: see Named
	tmp   atomic.Uint64     // number of the last temporary file

	mu     sync.Mutex
	failed []failedDir // directories whose sync failed, in order of failure
}

// A failedDir is a directory some of whose names may never become durable.
type failedDir struct {
	name string
	err  error
}

// Open returns the FS rooted at dir, which must exist. hook may be nil.
func Open(dir string, hook Hook) (*FS, error) {
	// os.OpenRoot would block on a named pipe.
	if st, err := os.Stat(dir); err == nil && !st.IsDir() {
		return nil, &fs.PathError{Op: OpOpen.String(), Path: dir, Err: errNotDir}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	f := newFS(rooted{root}, hook)
	f.dir = dir
	if f.path, err = filepath.Abs(dir); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return f, nil
}

// Inside reports whether a path is a directory or lies in it, by whatever names and through links.
// Neither need be there.
func Inside(path, dir string) (bool, error) {
	own, err := os.Stat(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return false, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return false, err
	}
	if below(path, dir, own) {
		return true, nil
	}
	for { // the part of the path that is there may be links to elsewhere
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return below(real, dir, own), nil
		}
		up := filepath.Dir(path)
		if up == path {
			return false, nil
		}
		path = up
	}
}

// below reports whether a path or a directory above it is dir, which own describes if it is there.
func below(path, dir string, own fs.FileInfo) bool {
	for {
		if info, err := os.Stat(path); path == dir || err == nil && own != nil && os.SameFile(info, own) {
			return true
		}
		up := filepath.Dir(path)
		if up == path {
			return false
		}
		path = up
	}
}

func newFS(root directory, hook Hook) *FS {
	f := &FS{hook: hook}
	f.root.Store(&root)
	return f
}

// in returns the directory where the files lie.
func (f *FS) in() directory { return *f.root.Load() }

// Dir returns the directory given to Open; "" if the files lie in memory.
func (f *FS) Dir() string { return f.dir }

// Path returns the absolute path of that directory when it was opened; "" if the files lie in
// memory.
func (f *FS) Path() string { return f.path }

// Named returns a view of f for reading. Opening, measuring or listing a key of names uses the file
// of its value; other files do not exist in the view. The view shares the root of f; close only f.
// Operations that change files do not map names. names must no longer be changed.
func (f *FS) Named(names map[string]string) *FS {
	view := newFS(f.in(), f.hook)
	view.dir, view.path, view.names = f.dir, f.path, names
	return view
}

// Real returns the real name, below the directory, of the file called name.
func (f *FS) Real(name string) (string, error) {
	if f.names == nil {
		return name, nil
	}
	real, ok := f.names[name]
	if !ok {
		return "", &fs.PathError{Op: OpOpen.String(), Path: name, Err: fs.ErrNotExist}
	}
	return real, nil
}

// Close releases the root. Files opened through it stay usable.
func (f *FS) Close() error { return f.in().Close() }

// A directory is where the files of an FS lie.
type directory interface {
	open(name string, flag int, perm fs.FileMode) (*os.File, error) // of a regular file
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	Rename(oldname, newname string) error
	Remove(name string) error
	Mkdir(name string, perm fs.FileMode) error
	list(name string) ([]string, error) // base names, in no order
	sync(name string) (tried bool, err error)
	Close() error
}

// rooted is a directory of the system.
type rooted struct{ *os.Root }

func (r rooted) open(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return OpenIn(r.Root, name, flag, perm)
}

func (r rooted) list(name string) ([]string, error) {
	d, err := openDir(r.Root, name)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

func (r rooted) sync(name string) (tried bool, err error) { return syncDir(r.Root, name) }

// before runs the hook.
func (f *FS) before(op Op) error {
	if f.hook == nil {
		return nil
	}
	if err := f.hook(op); err != nil {
		return &fs.PathError{Op: op.Kind.String(), Path: op.Name, Err: err}
	}
	return nil
}

func (f *FS) open(kind Kind, name string, flag int) (*File, error) {
	if kind == OpOpen {
		real, err := f.Real(name)
		if err != nil {
			return nil, err
		}
		name = real
	}
	if err := f.before(Op{Kind: kind, Name: name}); err != nil {
		return nil, err
	}
	of, err := f.in().open(name, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return &File{fs: f, f: of, name: name}, nil
}

// Create makes a new file for reading and writing; a file of that name is an error (fs.ErrExist).
func (f *FS) Create(name string) (*File, error) {
	return f.open(OpCreate, name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

// Open opens an existing file for reading.
func (f *FS) Open(name string) (*File, error) { return f.open(OpOpen, name, os.O_RDONLY) }

// OpenRW opens an existing file for reading and writing.
func (f *FS) OpenRW(name string) (*File, error) { return f.open(OpOpen, name, os.O_RDWR) }

// OS opens an existing regular file for a library that needs an *os.File. No hook sees what happens
// to it.
func (f *FS) OS(name string, flag int) (*os.File, error) {
	name, err := f.Real(name)
	if err != nil {
		return nil, err
	}
	return f.in().open(name, flag&^os.O_CREATE, 0)
}

// Rename renames a file, replacing one that already has the new name. Durable only after SyncDir of
// the directories.
func (f *FS) Rename(oldname, newname string) error {
	if err := f.before(Op{Kind: OpRename, Name: oldname, To: newname}); err != nil {
		return err
	}
	return f.in().Rename(oldname, newname)
}

// Remove removes a file or an empty directory. Durable only after SyncDir.
func (f *FS) Remove(name string) error {
	if err := f.before(Op{Kind: OpRemove, Name: name}); err != nil {
		return err
	}
	return f.in().Remove(name)
}

// Mkdir makes a directory; an existing one is no error. Durable only after SyncDir of its parent.
func (f *FS) Mkdir(name string) error {
	if err := f.before(Op{Kind: OpMkdir, Name: name}); err != nil {
		return err
	}
	err := f.in().Mkdir(name, 0o700)
	if errors.Is(err, fs.ErrExist) {
		switch st, serr := f.in().Stat(name); {
		case errors.Is(serr, fs.ErrNotExist): // of its target: the name itself is taken
			return &NotRegularError{name, fs.ModeSymlink, reason(err)}
		case serr != nil:
			return astray(name, serr, func() (fs.FileInfo, error) { return f.in().Lstat(name) })
		case st.IsDir():
			return nil
		}
	}
	return err
}

// SyncDir makes the entries of a directory durable: its files created, renamed and removed so far.
// The root is ".". On Windows it does nothing: NTFS has no such call and needs none.
//
// After a failed sync the directory is never synced again: the entries may be lost, and a second
// sync would report success. (If the directory cannot be opened, because descriptors have run out,
// it was not synced, and may be retried.) Later calls return ErrPoisoned and the first failure.
func (f *FS) SyncDir(name string) error {
	if err := f.failedDir(name); err != nil {
		return fmt.Errorf("%s %s: %w: %w", OpSyncDir, name, ErrPoisoned, err)
	}
	err := f.before(Op{Kind: OpSyncDir, Name: name})
	tried := err != nil
	if err == nil {
		tried, err = f.in().sync(name)
	}
	if tried && err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.failed = append(f.failed, failedDir{name, err})
	}
	return err
}

// failedDir returns the error of the first failed sync of a directory, if any.
func (f *FS) failedDir(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.failed {
		if d.name == name {
			return d.err
		}
	}
	return nil
}

// Failed returns the error of the first failed directory sync, or nil. After a failure, changes
// that rely on the directory must no longer be acknowledged as durable.
func (f *FS) Failed() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.failed) == 0 {
		return nil
	}
	return f.failed[0].err
}

// ReadDir returns the sorted base names of a directory's entries; a missing directory is
// fs.ErrNotExist.
func (f *FS) ReadDir(name string) ([]string, error) {
	if err := f.before(Op{Kind: OpReadDir, Name: name}); err != nil {
		return nil, err
	}
	if f.names != nil {
		return f.list(name)
	}
	names, err := f.in().list(name)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

// list is ReadDir of a view.
func (f *FS) list(dir string) (names []string, err error) {
	for name := range f.names {
		if path.Dir(name) == path.Clean(dir) {
			names = append(names, path.Base(name))
		}
	}
	if names == nil {
		return nil, &fs.PathError{Op: OpReadDir.String(), Path: dir, Err: fs.ErrNotExist}
	}
	slices.Sort(names)
	return names, nil
}

// Size returns the size of a file in bytes.
func (f *FS) Size(name string) (int64, error) {
	name, err := f.Real(name)
	if err != nil {
		return 0, err
	}
	if err := f.before(Op{Kind: OpStat, Name: name}); err != nil {
		return 0, err
	}
	st, err := f.in().Stat(name)
	if err != nil {
		return 0, astray(name, err, func() (fs.FileInfo, error) { return f.in().Lstat(name) })
	}
	if !st.Mode().IsRegular() {
		return 0, &NotRegularError{Name: name, Mode: st.Mode()}
	}
	return st.Size(), nil
}

// ReadFile returns the content of a file of at most limit bytes; a larger one is ErrTooLarge.
func (f *FS) ReadFile(name string, limit int64) ([]byte, error) {
	file, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("%s: %w: %d bytes, limit %d", name, ErrTooLarge, size, limit)
	}
	b := make([]byte, size)
	if _, err := file.ReadAt(b, 0); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b, nil
}

// WriteFileAtomic gives name the content b: after a crash the file has its old content or b, and b
// once it has returned nil. The bytes go to a new file in tmp/ (made when missing), which is synced
// and renamed; the directory of name is then synced.
func (f *FS) WriteFileAtomic(name string, b []byte) error {
	if err := f.Mkdir("tmp"); err != nil {
		return err
	}
	tmp, file, err := f.createTemp(path.Base(name))
	if err != nil {
		return err
	}
	return f.replace(name, tmp, file, b)
}

// WriteFileBy is WriteFileAtomic with the new file tmp, instead of one in tmp/. What an interrupted
// call has left at tmp is removed first. Nobody else may write tmp at the same time.
func (f *FS) WriteFileBy(tmp, name string, b []byte) error {
	if err := f.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := f.Create(tmp)
	if err != nil {
		return err
	}
	return f.replace(name, tmp, file, b)
}

// replace writes b to the new file tmp, gives it the name, and makes that durable.
func (f *FS) replace(name, tmp string, file *File, b []byte) error {
	_, err := file.WriteAt(b, 0)
	if err == nil {
		err = file.Sync()
	}
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = f.Rename(tmp, name)
	}
	if err != nil {
		_ = f.Remove(tmp) // may fail: tmp/ is wiped at the next open, and WriteFileBy removes it
		return err
	}
	return f.SyncDir(path.Dir(name))
}

// createTemp creates tmp/base.N for the first N that is free.
func (f *FS) createTemp(base string) (string, *File, error) {
	for {
		name := fmt.Sprintf("tmp/%s.%d", base, f.tmp.Add(1))
		file, err := f.Create(name)
		if !errors.Is(err, fs.ErrExist) {
			return name, file, err
		}
	}
}

// File is an open file.
type File struct {
	fs       *FS
	f        *os.File
	name     string
	poisoned atomic.Pointer[error] // the first failure of a write or sync
	cached   atomic.Int64          // bytes written that the disk was not yet told to take
}

// burst is the number of bytes after which a file that is being written begins to go to the disk. A
// file that waits for its Sync as a whole makes the syncs of other files, such as the log, wait for
// all of it.
const burst = 1 << 20

// Name returns the name the file was opened with, relative to the root.
func (f *File) Name() string { return f.name }

// ReadAt reads len(b) bytes at off; fewer only with an error (io.EOF at the end of the file), as
// io.ReaderAt.
func (f *File) ReadAt(b []byte, off int64) (int, error) {
	if err := f.fs.before(Op{Kind: OpRead, Name: f.name, Off: off, Len: len(b)}); err != nil {
		n := 0
		if short := (*Short)(nil); errors.As(err, &short) {
			n, _ = f.f.ReadAt(b[:clamp(short.N, len(b))], off)
		}
		return n, err
	}
	return f.f.ReadAt(b, off)
}

// WriteAt writes b at off. After an error any part of b may have been written and the file is
// poisoned.
func (f *File) WriteAt(b []byte, off int64) (int, error) {
	var n int
	err := f.change(Op{Kind: OpWrite, Name: f.name, Off: off, Len: len(b)}, func() (err error) {
		n, err = f.f.WriteAt(b, off)
		if err == nil && f.cached.Add(int64(n)) >= burst {
			f.cached.Store(0)
			startWriting(f.f)
		}
		return err
	})
	if short := (*Short)(nil); errors.As(err, &short) && !errors.Is(err, ErrPoisoned) {
		n, _ = f.f.WriteAt(b[:clamp(short.N, len(b))], off)
	}
	return n, err
}

// Sync makes the bytes and the size of the file durable (fdatasync on Linux, F_FULLFSYNC on
// Darwin). After an error the file is poisoned: all writes since the last successful Sync must be
// considered lost.
func (f *File) Sync() error {
	return f.change(Op{Kind: OpSync, Name: f.name}, func() error {
		f.cached.Store(0)
		return datasync(f.f)
	})
}

// Removed reports whether the file has lost its last name, so that nobody can open it again. Files
// in memory have none, and Windows keeps the name of a file that is open.
func (f *File) Removed() bool {
	if f.fs.path == "" || links(f.f) > 0 {
		return false
	}
	// Not every file system counts links.
	own, err := f.f.Stat()
	if err != nil {
		return false
	}
	there, err := f.fs.in().Stat(f.name)
	return errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(own, there)
}

// Truncate sets the size. A file that is mapped anywhere must never be made shorter.
func (f *File) Truncate(size int64) error {
	return f.change(Op{Kind: OpTruncate, Name: f.name, Len: int(size)}, func() error { return f.f.Truncate(size) })
}

// change runs a modification unless an earlier one has failed, and poisons the file when it fails.
func (f *File) change(op Op, do func() error) error {
	if first := f.poisoned.Load(); first != nil {
		return fmt.Errorf("%s %s: %w: %w", op.Kind, f.name, ErrPoisoned, *first)
	}
	err := f.fs.before(op)
	if err == nil {
		err = do()
	}
	if err != nil {
		f.poisoned.CompareAndSwap(nil, &err)
	}
	return err
}

// Preallocate reserves disk space for the first n bytes without changing the size, and reports
// whether the file system can do that. A full disk is an error and does not poison the file.
func (f *File) Preallocate(n int64) (reserved bool, err error) {
	if err := f.fs.before(Op{Kind: OpPreallocate, Name: f.name, Len: int(n)}); err != nil {
		return false, err
	}
	if reserved, err = preallocate(f.f, n); err != nil {
		return false, &fs.PathError{Op: OpPreallocate.String(), Path: f.name, Err: err}
	}
	return reserved, nil
}

// Size returns the size in bytes.
func (f *File) Size() (int64, error) {
	if err := f.fs.before(Op{Kind: OpStat, Name: f.name}); err != nil {
		return 0, err
	}
	st, err := f.f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// DropCache asks the system to forget the cached clean pages of the file, so that the next reads
// see the disk and not the memory that a failed fsync has left. Errors are ignored. It works on
// Linux only, and dirty pages stay.
func (f *File) DropCache() {
	if f.fs.before(Op{Kind: OpDropCache, Name: f.name}) == nil {
		dropCache(f.f)
	}
}

// Close closes the file; mappings of it stay valid. It does not sync.
func (f *File) Close() error { return f.f.Close() }

// Map maps the first n bytes read-only; n above the size of the file is an error, as touching those
// bytes would be.
func (f *File) Map(n int64) (*Mapping, error) {
	if err := f.fs.before(Op{Kind: OpMap, Name: f.name, Len: int(n)}); err != nil {
		return nil, err
	}
	fail := func(err error) (*Mapping, error) {
		return nil, &fs.PathError{Op: OpMap.String(), Path: f.name, Err: err}
	}
	st, err := f.f.Stat()
	if err != nil {
		return fail(err)
	}
	if n < 0 || n > st.Size() {
		return fail(fmt.Errorf("%d bytes of %d: %w", n, st.Size(), io.ErrUnexpectedEOF))
	}
	if int64(int(n)) != n {
		return fail(fmt.Errorf("%d bytes: %w", n, ErrTooLarge))
	}
	if n == 0 {
		return &Mapping{}, nil // systems refuse empty mappings
	}
	b, err := mmap(f.f, int(n))
	if err != nil {
		return fail(err)
	}
	return &Mapping{b: b}, nil
}

// Mapping is a read-only view of a file. Writing to Bytes faults; reading it must happen under
// [Guard].
type Mapping struct{ b []byte }

// Bytes returns the mapped memory. It must not be used after Close.
func (m *Mapping) Bytes() []byte { return m.b }

// Pattern tells the system how mapped memory will be read.
type Pattern uint8

// The access patterns of Advise.
const (
	Normal     Pattern = iota // the system's default read-ahead
	Random                    // no read-ahead
	Sequential                // aggressive read-ahead
	WillNeed                  // start reading now
	Forget                    // not read again soon: no longer part of the process' memory
)

// Advise tells the system how the mapping will be read. It is a hint; nothing on Windows.
func (m *Mapping) Advise(p Pattern) {
	if len(m.b) > 0 {
		madvise(m.b, p)
	}
}

// Close unmaps the memory. Closing twice is fine; closing while somebody reads is not.
func (m *Mapping) Close() error {
	b := m.b
	m.b = nil
	if len(b) == 0 {
		return nil
	}
	return munmap(b)
}

func clamp(n, limit int) int { return max(0, min(n, limit)) }
