package meta

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/vecbolt/vecbolt/internal/boltcheck"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

const rewriteTx = 16 << 20 // bytes that a rewrite holds in memory

// Rewrite replaces the file by a copy without free pages. After a crash the file is the old or the
// new one, with the same content. View continues during the copy and waits while the files are
// swapped. After an error the store is unchanged, unless later Updates return the same error.
func (s *Store) Rewrite() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.rewrite(); err != nil {
		return fmt.Errorf("meta: rewrite %s: %w", s.name, err)
	}
	return nil
}

func (s *Store) rewrite() error {
	tmp := "tmp/" + path.Base(s.name) + ".rewrite"
	if err := s.compactTo(tmp); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bolt == nil {
		return errors.Join(errClosed, discard(s.fs, tmp))
	}
	// Windows does not rename over an open file, so close it first. The lock of the database keeps
	// other processes out.
	pinned := s.Pinned() > 0
	s.closeSums()
	if err := s.close(); err != nil {
		s.failed = err
		return err
	}
	renamed := s.fs.Rename(tmp, s.name)
	var synced error
	if renamed == nil {
		synced = s.fs.SyncDir(path.Dir(s.name))
	}
	err := s.open()
	if err == nil {
		s.countFree()
	}
	// Commits must not be acknowledged as durable if the name of their file may not survive.
	if s.failed = errors.Join(synced, err); s.failed != nil {
		return s.failed
	}
	if renamed != nil {
		if pinned { // close has released the roots: a commit would reuse pages that others read
			s.failed = renamed
		}
		return errors.Join(renamed, discard(s.fs, tmp))
	}
	return nil
}

// compactTo makes a verified and durable copy. writing is held.
func (s *Store) compactTo(tmp string) (err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.changeable(); err != nil {
		return err
	}
	if err := s.unseal(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, discard(s.fs, tmp))
		}
	}()
	if err := s.fs.Mkdir(path.Dir(tmp)); err != nil {
		return err
	}
	if err := discard(s.fs, tmp); err != nil {
		return err
	}
	f, err := s.fs.Create(tmp)
	if err != nil {
		return err
	}
	defer f.Close()
	to, file, err := s.openBolt(tmp, false)
	if err != nil {
		return err
	}
	to.NoSync, to.NoGrowSync = true, true // synced once, at the end
	panicked := true
	err = s.transact(false, func(from *bbolt.Tx) error {
		err := s.copyRecords(to, from)
		if err == nil {
			err = to.Update(func(*bbolt.Tx) error { return nil }) // writes the other root, as in create
		}
		panicked = false
		return err
	})
	if panicked {
		return errors.Join(err, file.Close()) // to.Close might wait forever
	}
	if err := errors.Join(err, to.Close()); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return check(f, tmp)
}

// copyRecords copies all records of a transaction into an empty file, in order, so that pages are
// full.
func (s *Store) copyRecords(to *bbolt.DB, from *bbolt.Tx) error {
	tx, err := to.Begin(true)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // of the last transaction, unless committed
	held := 0
	err = from.ForEach(func(name []byte, b *bbolt.Bucket) error {
		dst, err := tx.CreateBucket(name)
		if err != nil {
			return err
		}
		dst.FillPercent = fillDocuments
		return b.ForEach(func(k, v []byte) error {
			if v == nil {
				return s.corrupt("%w: bucket %q in bucket %q", fileformat.ErrFormat, k, name)
			}
			if held += len(k) + len(v); held > rewriteTx {
				if err := tx.Commit(); err != nil {
					return err
				}
				if tx, err = to.Begin(true); err != nil {
					return err
				}
				dst = tx.Bucket(name)
				dst.FillPercent = fillDocuments
				held = 0
			}
			return dst.Put(k, v)
		})
	})
	if err != nil {
		return err
	}
	return tx.Commit()
}

// check validates a new file, and blames the file name for damage.
func check(f *vfs.File, name string) error { return checkUntil(context.Background(), f, name) }

// checkUntil is check, which the end of ctx ends.
func checkUntil(ctx context.Context, f *vfs.File, name string) error {
	size, err := f.Size()
	if err != nil {
		return err
	}
	err = boltcheck.Check(&cancelled{ctx, f}, size)
	return cmp.Or(ctx.Err(), damage(name, err))
}

// cancelled is a reader that fails when a context has ended.
type cancelled struct {
	ctx context.Context
	r   io.ReaderAt
}

func (c *cancelled) ReadAt(b []byte, off int64) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.ReadAt(b, off)
}

// discard removes a file that may not exist. A non-empty directory of that name counts as absent.
func discard(fsys *vfs.FS, name string) error {
	err := fsys.Remove(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, derr := fsys.ReadDir(name); derr == nil {
		return nil
	}
	return err
}

// CopyTo writes a synced copy of the last Update to a new file in another directory, and verifies
// its pages and each record. The copy gets new page checksums, so later checks would miss a record
// that was damaged before. View and Update continue. The caller makes the name durable, and renames
// the file if a partial file must not be visible. The end of ctx ends the copy, which is removed.
func (s *Store) CopyTo(ctx context.Context, to *vfs.FS, name string) error {
	return s.copyTo(ctx, to, name, true)
}

// copyTo is CopyTo. Only with records, it verifies each of these.
func (s *Store) copyTo(ctx context.Context, to *vfs.FS, name string, records bool) (err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.bolt == nil {
		return errClosed
	}
	if err := s.whole(); err != nil {
		return err
	}
	f, err := to.Create(name)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err != nil {
			err = errors.Join(err, to.Remove(name))
		}
	}()
	return s.transact(false, func(tx *bbolt.Tx) error {
		w := &appender{ctx: ctx, f: f}
		_, err := tx.WriteTo(w)
		if err = cmp.Or(w.err, err); err == nil { // bbolt does not wrap it
			err = placeRoots(f)
		}
		if err != nil {
			return fmt.Errorf("meta: copy %s: %w", s.name, err)
		}
		if err := f.Sync(); err != nil {
			return err
		}
		if err := checkUntil(ctx, f, s.name); err != nil || !records {
			return err
		}
		return s.reader(tx, nil).checkTallies(ctx, true)
	})
}

// placeRoots puts the roots of a copy where commits put them: the root of a transaction belongs in
// page id modulo 2. bbolt copies the newer root to page 0 in any case. If that page were damaged
// later, the next commit could overwrite the other root, which would then be in force.
func placeRoots(f *vfs.File) error {
	const at, length, txid = 16, 64, 48 // offset and length of a root in its page, and offset of its transaction id
	b := make([]byte, 2*boltcheck.PageSize)
	if _, err := f.ReadAt(b, 0); err != nil {
		return err
	}
	first, second := b[at:at+length], b[boltcheck.PageSize+at:boltcheck.PageSize+at+length]
	if binary.NativeEndian.Uint64(first[txid:])%2 == 0 {
		return nil
	}
	newer := slices.Clone(first)
	copy(first, second)
	copy(second, newer)
	_, err := f.WriteAt(b, 0)
	return err
}

// appender is the io.Writer of a new file. It fails when the context has ended.
type appender struct {
	ctx context.Context
	f   *vfs.File
	off int64
	err error
}

func (a *appender) Write(b []byte) (n int, err error) {
	if a.err = a.ctx.Err(); a.err != nil {
		return 0, a.err
	}
	n, a.err = a.f.WriteAt(b, a.off)
	a.off += int64(n)
	return n, a.err
}
