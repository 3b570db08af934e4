package meta

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/vecbolt/vecbolt/internal/boltcheck"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// Options of Open. The zero value opens an existing store for reading and writing.
type Options struct {
	ReadOnly bool     // change nothing, not even the directory
	Create   bool     // make a new store; a file of that name is an error (fs.ErrExist)
	DB       [16]byte // with Create: identity of the database
	Lenient  bool     // for repair: counts and digests need not match, and meta.sums is ignored; every page is read
	Verify   bool     // verify the structure of the whole file on disk first

	// Shared lets other processes read the file meanwhile, each at a Root that this one has pinned.
	// The lock of the database excludes other writers then, and the lock of the file says that
	// somebody reads it: opening it for writing fails with vfs.ErrLocked, because a commit may
	// reuse pages that this process knows nothing of. See Copy.
	Shared bool
	// Trusted skips the verification of pages: a process that has ended without a power cut used
	// the file until then.
	Trusted bool
	// Root opens the file read-only at exactly this root: the id of a transaction that another
	// process, which writes, has pinned. ErrRoot says that the newest root is another. The file is
	// not verified: the process that writes it has done so.
	Root uint64
}

// Store is an open meta.bolt. It is safe for concurrent use: any number of Views, and one Update at
// a time. Transactions must be short and must not be nested: an open transaction prevents the reuse
// of pages, and Rewrite and Close wait for it.
type Store struct {
	fs   *vfs.FS
	name string
	opts Options
	torn bool // see Torn
	old  bool // see Old

	identity [16]byte                 // of the database
	sums     atomic.Pointer[pageSums] // of the pages, while valid; nil: none
	sumsFile *vfs.File                // read by sums; nil if there were no checksums

	writing  sync.Mutex // held by Update, Rewrite and Check
	failed   error      // of the first commit that failed; guarded by writing
	unsealed bool       // there is no meta.sums; guarded by writing

	mu   sync.RWMutex // read-held by every transaction, write-held to replace the fields below
	bolt *bbolt.DB    // nil when closed
	file *os.File     // the file of bolt

	pins     pins
	confined bool           // there is no address space for sharedMap; guarded by mu
	views    chan *bbolt.Tx // with Options.Root: the transactions of View

	broken atomic.Pointer[error] // bbolt panicked while it held its locks and must not be called again
	free   atomic.Int64          // bytes in free pages after the last commit
}

const (
	lockTimeout = 100 * time.Millisecond // of bbolt's own lock; the database lock is taken first, so this never waits
	growBy      = 1 << 20                // minimum growth of the file in bytes
	// minimum address space in bytes, because bbolt waits for all readers before it maps again
	initialMap = 1 << 30
)

// Open opens the store in the file name. Without Create it first verifies the pages that bbolt
// reads while opening. If Seal has written page checksums and they are still valid, pages are
// verified on first use; otherwise Open looks for missing and extra records. Without them, or with
// Verify, it also verifies the structure of every page in use.
func Open(fsys *vfs.FS, name string, opts Options) (_ *Store, err error) {
	if opts.Create && opts.ReadOnly {
		return nil, errReadOnly
	}
	s := &Store{fs: fsys, name: name, opts: opts}
	if opts.Root > 0 {
		if err := s.openRoot(); err != nil {
			return nil, err
		}
		return s, nil
	}
	if opts.Create {
		f, err := fsys.Create(name)
		if err != nil {
			return nil, err
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, fsys.Remove(name))
			}
		}()
	} else if err := s.validate(); err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if opts.Create {
		if err := s.create(); err != nil {
			return nil, err
		}
		if err := fsys.SyncDir(path.Dir(name)); err != nil {
			return nil, err
		}
	}
	if err := s.View((*Tx).identify); err != nil {
		return nil, err
	}
	if !opts.Create && !s.Sealed() && !opts.Lenient && !opts.Trusted {
		if err := s.View(func(tx *Tx) error { return tx.checkTallies(context.Background(), false) }); err != nil {
			return nil, err
		}
	}
	if p := s.sums.Load(); p != nil && p.db != s.identity {
		return nil, s.corrupt("%w: %s is of another database", fileformat.ErrFormat, sumsName(name))
	}
	s.countFree()
	return s, nil
}

// create writes the records of an empty store.
func (s *Store) create() error {
	err := s.transact(true, func(b *bbolt.Tx) error {
		for _, tag := range append(globalTags[:], tagSystem) {
			if _, err := b.CreateBucket([]byte(bucketNames[tag])); err != nil {
				return err
			}
		}
		tx := &Tx{store: s, bolt: b, writable: true, dirty: true}
		for _, tag := range globalTags {
			tx.global[tag] = new(table)
		}
		tx.state = State{DB: s.opts.DB, NextDoc: 1, NextSegment: 1, NextCollection: 1}
		if err := tx.putRecord(tagSystem, keyFormat, encodeFormat()); err != nil {
			return err
		}
		return tx.finish()
	})
	if err != nil {
		return err
	}
	// If the newest root is damaged later, the previous root must belong to a complete store too.
	return s.transact(true, func(*bbolt.Tx) error { return nil })
}

// validate verifies the file before bbolt reads it.
func (s *Store) validate() error {
	f, err := s.fs.Open(s.name)
	if err != nil {
		return err
	}
	defer func() {
		if f != s.sumsFile {
			f.Close()
		}
	}()
	size, err := f.Size()
	if err != nil {
		return err
	}
	if s.opts.Verify {
		f.DropCache() // after a failed fsync the cache may differ from the disk
	}
	roots, newest, err := boltcheck.Roots(f, size)
	s.torn = roots[0].Err != nil || roots[1].Err != nil
	if err == nil && !s.torn && !s.opts.Lenient {
		if err := contradicted(s.fs, s.name, roots[newest]); err != nil {
			return err
		}
	}
	if err == nil && !s.opts.Lenient {
		if err := s.loadSums(f, roots[newest]); err != nil {
			return err
		}
	}
	if err == nil && (s.opts.Verify || !s.Sealed() && !s.opts.Trusted) {
		err = boltcheck.Check(f, size)
	}
	if err == nil && s.opts.Lenient {
		// Check passes over large values, and bbolt's mapping of a page that the disk cannot read
		// faults.
		return eachPage(f, roots[newest].Pages, func(uint64, []byte) error { return nil })
	}
	return damage(s.name, err)
}

// Torn reports whether one of the two roots was unreadable when the store was opened: a commit was
// interrupted, or the page is damaged. The other root is in force, and the next Update repairs the
// first.
func (s *Store) Torn() bool { return s.torn }

// Old reports whether the file had an earlier format version when it was opened. It can be read;
// call Tx.Upgrade before putting a segment into it.
func (s *Store) Old() bool { return s.old }

// open opens the file with bbolt.
func (s *Store) open() error {
	bolt, file, err := s.openBolt(s.name, s.opts.ReadOnly)
	if s.opts.Shared && !s.confined && errors.Is(err, syscall.ENOMEM) {
		s.confined = true
		bolt, file, err = s.openBolt(s.name, s.opts.ReadOnly)
	}
	if err == nil {
		s.bolt, s.file = bolt, file
	}
	return err
}

func (s *Store) openBolt(name string, readOnly bool) (bolt *bbolt.DB, file *os.File, err error) {
	flag := os.O_RDWR
	if readOnly {
		flag = os.O_RDONLY
	}
	if file, err = s.fs.OS(name, flag); err != nil {
		return nil, nil, fmt.Errorf("meta: open %s: %w", name, err)
	}
	o := &bbolt.Options{
		ReadOnly: readOnly, Timeout: lockTimeout,
		PageSize: boltcheck.PageSize, FreelistType: bbolt.FreelistMapType, PreLoadFreelist: !readOnly,
		NoStatistics: true,
		OpenFile:     func(string, int, os.FileMode) (*os.File, error) { return file, nil },
	}
	if s.opts.Shared {
		o.Timeout = time.Millisecond // one attempt
		if readOnly {
			o.Timeout = sharedTimeout
		}
	}
	// elsewhere the map size becomes the file size
	if strconv.IntSize == 64 && (runtime.GOOS == "linux" || runtime.GOOS == "darwin") {
		o.InitialMmapSize = initialMap
		if st, err := file.Stat(); err == nil {
			o.InitialMmapSize = max(initialMap, int(2*st.Size()))
			if s.opts.Shared && !s.confined {
				o.InitialMmapSize = max(sharedMap, int(2*st.Size()))
				o.MaxSize = o.InitialMmapSize
			}
		}
	}
	err, panicked := s.catch(func() (err error) {
		bolt, err = bbolt.Open(name, 0o600, o)
		return err
	})
	if panicked {
		file.Close() // releases the lock; the mapping leaks
	}
	if errors.Is(err, berrors.ErrTimeout) {
		err = vfs.ErrLocked
	}
	if err != nil {
		var bad *fileformat.CorruptError
		if !errors.As(err, &bad) {
			err = fmt.Errorf("meta: open %s: %w", name, err)
		}
		return nil, nil, err
	}
	bolt.AllocSize = growBy
	if s.opts.Shared && !readOnly {
		if err := vfs.Unlock(file); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("meta: open %s: %w", name, err), bolt.Close())
		}
	}
	return bolt, file, nil
}

// catch runs fn and turns panics and memory faults into CorruptErrors.
func (s *Store) catch(fn func() error) (err error, panicked bool) {
	panicked = true
	defer func() {
		if !panicked {
			return
		}
		if r := recover(); r != nil {
			err = s.corrupt("panic: %v", r)
		}
	}()
	err = vfs.Guard(s.name, func() error {
		err := fn()
		panicked = false
		return err
	})
	if panicked {
		err = s.corrupt("%w", err)
	}
	return err, panicked
}

// transact runs fn in a transaction of bbolt. It calls Begin, Commit and Rollback itself instead of
// bbolt's View and Update, to know where a panic happened: bbolt may then hold its locks forever.
func (s *Store) transact(writable bool, fn func(*bbolt.Tx) error) (err error) {
	if broken := s.broken.Load(); broken != nil {
		return *broken
	}
	if s.views != nil && !writable {
		return s.transactAtRoot(fn)
	}
	var tx *bbolt.Tx
	unlocked := false
	defer func() { // also runs when fn ends the goroutine
		if tx != nil {
			_, panicked := s.catch(func() error { return tx.Rollback() }) // does nothing after Commit
			unlocked = !panicked
		}
		if !unlocked {
			s.broken.CompareAndSwap(nil, &err)
		}
	}()
	err, _ = s.catch(func() (err error) {
		tx, err = s.bolt.Begin(writable)
		if err != nil {
			unlocked = true
			return err
		}
		if err := fn(tx); err != nil || !writable {
			return err
		}
		return tx.Commit()
	})
	return err
}

// View calls fn with a transaction that sees the last Update. A panic inside, of fn too, and a
// fault of the mapped file become a *fileformat.CorruptError with the text of the panic. Results of
// the transaction are valid until it ends, unless documented otherwise.
func (s *Store) View(fn func(*Tx) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.bolt == nil {
		return errClosed
	}
	return s.transact(false, func(b *bbolt.Tx) error { return fn(s.reader(b, s.sums.Load())) })
}

// reader returns a Tx that reads, and verifies pages by sums.
func (s *Store) reader(b *bbolt.Tx, sums *pageSums) *Tx {
	tx := &Tx{store: s, bolt: b, pages: pagesOf(b, s.name, sums)}
	tx.buckets = tree{pages: &tx.pages, root: uint64(b.Cursor().Bucket().Root())}
	return tx
}

// Update calls fn with a transaction that may change the store, and commits it durably when fn
// returns nil. If fn returns an error, or the disk is full before the commit has written its root,
// nothing is changed. If the commit fails otherwise or something panics, the content on disk is
// unknown: this and every later Update return the error, and View may see the old or the new one,
// until the store is reopened. Usable distinguishes the two cases.
func (s *Store) Update(fn func(*Tx) error) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	id, uncommitted, err := s.update(fn)
	if uncommitted && !(isFull(err) && s.forget(id)) {
		s.failed = err
	}
	return err
}

// update is Update; writing is held. id is the transaction id; uncommitted reports that err comes
// from its commit.
func (s *Store) update(fn func(*Tx) error) (id uint64, uncommitted bool, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.changeable(); err != nil {
		return 0, false, err
	}
	if err := s.unseal(); err != nil {
		return 0, false, err
	}
	undone := false
	err = s.transact(true, func(b *bbolt.Tx) error {
		id = uint64(b.ID())
		tx := &Tx{store: s, bolt: b, writable: true}
		err := tx.begin()
		if err == nil {
			err = fn(tx)
		}
		if err == nil {
			err = tx.finish()
		}
		undone = err != nil
		return err
	})
	switch {
	case err == nil:
		s.countFree()
		return id, false, nil
	case undone:
		return id, false, err
	}
	var bad *fileformat.CorruptError
	if !errors.As(err, &bad) {
		err = fmt.Errorf("meta: commit %s: %w", s.name, err)
	}
	return id, true, err
}

// isFull reports whether a commit failed because a page write found no space. A failed sync does
// not count.
func isFull(err error) bool {
	write := (*fs.PathError)(nil)
	return errors.As(err, &write) && write.Op == "write" &&
		(errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT))
}

// forget undoes a transaction whose commit found no space, and reports whether that is certain: the
// file must hold both roots, and neither of this transaction. No root then refers to its pages. It
// reopens the file, because bbolt's list of free pages may come from the new root: after a failed
// write, some file systems show bytes in a mapping that are not in the file, until these are read.
// Reopening would give up the pinned roots, so while there are any, it compares the lists instead.
func (s *Store) forget(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bolt == nil || s.broken.Load() != nil {
		return false
	}
	roots, newest, err := s.roots()
	if err != nil || roots[0].Err != nil || roots[1].Err != nil || roots[newest].TxID >= id {
		return false
	}
	if s.Pinned() > 0 {
		return s.isAt(roots[newest])
	}
	return s.close() == nil && s.open() == nil
}

// Outcomes of a comparison, which ends its transaction with them.
var (
	errEqual   = errors.New("meta: bbolt is at the root of the file")
	errUnequal = errors.New("meta: bbolt is not at the root of the file")
)

// isAt reports whether bbolt goes on from a root of the file, with the pages that are free there.
// mu and writing are held.
func (s *Store) isAt(root boltcheck.Root) bool {
	free, err := boltcheck.FreePages(s.file, root)
	if err != nil {
		return false
	}
	err = s.transact(true, func(tx *bbolt.Tx) error {
		if uint64(tx.ID()) != root.TxID+1 {
			return errUnequal
		}
		for page := range root.Pages {
			info, err := tx.Page(int(page))
			if err != nil || info == nil {
				return errUnequal
			}
			if listed := free[page/64]>>(page%64)&1 == 1; listed != (info.Type == "free") {
				return errUnequal
			}
		}
		return errEqual
	})
	return errors.Is(err, errEqual)
}

// Usable reports whether Updates are still possible, that is, whether failed Updates changed
// nothing.
func (s *Store) Usable() bool {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.changeable() == nil
}

// changeable returns the reason why changes are refused, or nil. writing and mu are held.
func (s *Store) changeable() error {
	switch {
	case s.bolt == nil:
		return errClosed
	case s.opts.ReadOnly:
		return errReadOnly
	case s.broken.Load() != nil:
		return *s.broken.Load()
	case s.failed != nil:
		return fmt.Errorf("meta: refused until reopened: %w", s.failed)
	}
	return nil
}

// roots reads the roots of the open file, and which of them is in force, as boltcheck.Roots does.
func (s *Store) roots() (roots [2]boltcheck.Root, newest int, err error) {
	st, err := s.file.Stat()
	if err != nil {
		return roots, 0, err
	}
	if roots, newest, err = boltcheck.Roots(s.file, st.Size()); err != nil {
		err = damage(s.name, err)
	}
	return roots, newest, err
}

// countFree updates the number of free bytes. A failure is ignored: the number is informational.
func (s *Store) countFree() {
	roots, newest, err := s.roots()
	if err != nil {
		return
	}
	if n, err := boltcheck.Free(s.file, roots[newest]); err == nil {
		s.free.Store(n * boltcheck.PageSize)
	}
}

// Size returns the size of the file and the free space inside it, both in bytes. Only Rewrite makes
// the file smaller.
func (s *Store) Size() (file, free int64) {
	file, err := s.fs.Size(s.name)
	if err != nil {
		return 0, 0
	}
	return file, s.free.Load()
}

// Close waits for transactions and closes the file. Closing twice is allowed.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeSums()
	return s.close()
}

// closeSums closes the file from which page checksums are computed. Windows does not replace a file
// that is open. mu is held.
func (s *Store) closeSums() {
	if s.sumsFile != nil {
		s.sumsFile.Close()
		s.sumsFile = nil
	}
}

// close closes the file. mu is held.
func (s *Store) close() error {
	bolt := s.bolt
	s.bolt = nil
	switch {
	case bolt == nil:
		return nil
	case s.broken.Load() != nil:
		return s.file.Close() // bolt.Close would wait forever; its mapping leaks
	}
	s.pins.release()
	s.closeViews()
	err, _ := s.catch(bolt.Close)
	return err
}
