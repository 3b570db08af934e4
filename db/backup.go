package db

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment"
	"github.com/vecbolt/vecbolt/wal"
)

// Backup writes a consistent copy of the database, as of now, to directory dir. The
// directory must be empty or missing, and must not lie inside the database directory.
// Readers and writers go on. The copy is an ordinary database. It becomes one only with
// the last step, so an interrupted backup cannot be mistaken for a complete one. A
// read-only database may still have the log of a killed writer: the log is then copied
// too, and the copy recovers when it is opened.
func (db *DB) Backup(ctx context.Context, dir string) error {
	if err := db.backup(ctx, dir); err != nil {
		return fmt.Errorf("db: backup to %q: %w", dir, translate(err))
	}
	return nil
}

func (db *DB) backup(ctx context.Context, dir string) error {
	if err := db.begin(); err != nil {
		return err
	}
	defer db.end()
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("%w: the directory is not empty", ErrExists)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := db.outside(dir); err != nil {
		return err
	}
	if !db.opts.ReadOnly {
		if err := db.flush(); err != nil {
			return err
		}
	}
	if err := makeDir(dir); err != nil {
		return err
	}
	to, err := vfs.Open(dir, db.opts.hook)
	if err != nil {
		return err
	}
	defer to.Close()
	if err := layOut(to); err != nil {
		return err
	}
	// The directories must be durable before meta.bolt makes the copy a database.
	if err := to.SyncDir("."); err != nil {
		return err
	}
	const fresh = tmpDir + "/" + metaName
	ver, from, err := db.copyStore(to, fresh)
	if err != nil {
		return err
	}
	defer db.drop(ver)
	for _, s := range ver.files.segments {
		if err := db.copySegment(ctx, from, to, s); err != nil {
			return err
		}
	}
	if err := to.SyncDir(segDir); err != nil {
		return err
	}
	if db.opts.ReadOnly { // no writer can change the log; a writer would have flushed it
		if err := db.copyLog(ctx, from, to, ver); err != nil {
			return err
		}
	}
	if err := ver.files.store.SealCopy(to, fresh); err != nil {
		return err
	}
	if err := to.Rename(fresh, metaName); err != nil {
		return err
	}
	return to.SyncDir(".")
}

// outside refuses a directory inside the database directory, whose files the database
// manages.
func (db *DB) outside(dir string) error {
	own, err := os.Stat(db.dir)
	if err != nil {
		return err
	}
	at, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	for {
		if info, err := os.Stat(at); err == nil && os.SameFile(info, own) {
			return invalidf("the directory lies inside the database directory %q", db.dir)
		}
		up := filepath.Dir(at)
		if up == at {
			return nil
		}
		at = up
	}
}

// copyStore copies meta.bolt and pins the version that lists its segments. from is the
// file system that holds them.
func (db *DB) copyStore(to *vfs.FS, name string) (_ *version, from *vfs.FS, err error) {
	db.metaMu.Lock()
	defer db.metaMu.Unlock()
	ver := db.current()
	if err := ver.files.store.CopyTo(to, name); err != nil {
		db.drop(ver)
		return nil, nil, err
	}
	return ver, db.files(), nil
}

// copyLog copies the log that a killed writer left behind. It replays the copy, because a
// log that is cut short would lose acknowledged batches silently.
func (db *DB) copyLog(ctx context.Context, from, to *vfs.FS, ver *version) error {
	names, err := from.ReadDir(walDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		if err == nil && strings.HasSuffix(name, ".wal") {
			var size int64
			if size, err = from.Size(walDir + "/" + name); err == nil {
				err = copyFile(ctx, from, to, walDir+"/"+name, size)
			}
		}
	}
	if err == nil {
		err = to.SyncDir(walDir)
	}
	if err != nil {
		return err
	}
	tail, err := wal.Replay(wal.Options{FS: to, DB: db.state.DB}, ver.applied, func(uint64, []byte) error { return ctx.Err() })
	if err == nil && tail.Last != ver.lsn {
		err = &CorruptError{File: walDir, Offset: -1, Err: fmt.Errorf("the copied log ends with batch %d, the version with %d", tail.Last, ver.lsn)}
	}
	return err
}

const copyBytes = 1 << 20

// copySegment copies a vector file and verifies the copy. Columns are derived:
// the copy builds them when it first needs them.
func (db *DB) copySegment(ctx context.Context, from, to *vfs.FS, s *openSegment) error {
	if err := copyFile(ctx, from, to, segment.FileName(s.info.ID), s.info.Size); err != nil {
		return err
	}
	written, err := segment.Open(to, db.state.DB, s.info)
	if err != nil {
		return err
	}
	return errors.Join(written.Verify(ctx), written.Close())
}

// copyFile copies the first size bytes of a file and syncs the copy.
func copyFile(ctx context.Context, from, to *vfs.FS, name string, size int64) error {
	in, err := from.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := to.Create(name)
	if err != nil {
		return err
	}
	defer out.Close()
	buf := make([]byte, copyBytes)
	for off := int64(0); off < size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(int64(len(buf)), size-off)
		if got, err := in.ReadAt(buf[:n], off); errors.Is(err, io.EOF) {
			return &CorruptError{File: name, Offset: off + int64(got), Err: io.ErrUnexpectedEOF}
		} else if err != nil {
			return fmt.Errorf("read %s at offset %d: %w", name, off, err)
		}
		if _, err := out.WriteAt(buf[:n], off); err != nil {
			return fmt.Errorf("write %s at offset %d: %w", name, off, err)
		}
		off += n
	}
	return out.Sync()
}
