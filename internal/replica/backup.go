package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment"
	"github.com/vecbolt/vecbolt/wal"
)

// A Flush moves everything that any process has acknowledged to segments and meta.bolt, and returns
// the last batch of that, if this process may get it later. led is false if nobody leads the
// database, and the log may have more.
type Flush func() (lsn uint64, led bool, err error)

// Backup writes a consistent copy of the database to directory dir, which must be empty or missing
// and lie outside the database's own directory. The first file in it is engine.Unfinished, which
// becomes its meta.bolt with the last step, so an interrupted backup cannot be mistaken for a
// complete one, nor for an empty directory. An error before the last step leaves nothing.
func Backup(ctx context.Context, e *engine.Engine, dir string, flush Flush) error {
	if err := e.Begin(); err != nil {
		return err
	}
	defer e.End()
	entries, err := os.ReadDir(dir)
	switch {
	case len(entries) > 0:
		return errNotEmpty
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := outside(e, dir); err != nil {
		return err
	}
	lsn, led, err := flush()
	if err != nil {
		return err
	}
	made := engine.TopMissing(dir)
	if err = vfs.MakeDir(dir, nil); err == nil {
		err = begin(ctx, e, dir, lsn, led, flush)
	}
	if err != nil {
		err = errors.Join(err, engine.RemoveDirs(dir, made))
	}
	return err
}

// begin makes the copy in a directory that exists. An error before the last step leaves it empty.
func begin(ctx context.Context, e *engine.Engine, dir string, lsn uint64, led bool, flush Flush) error {
	to, err := vfs.Open(dir, e.Opts.Hook)
	if err != nil {
		return err
	}
	defer to.Close()
	// Meanwhile another backup may have begun there. Its files are not to be discarded.
	if names, err := to.ReadDir("."); err != nil || len(names) > 0 {
		return cmp.Or(err, errNotEmpty)
	}
	switch err := fill(ctx, e, to, lsn, led, flush); {
	case errors.Is(err, errNotEmpty):
		return err
	case err != nil:
		return errors.Join(err, discard(to))
	}
	return to.SyncDir(".")
}

var errNotEmpty = fmt.Errorf("%w: the directory is not empty", engine.ErrExists)

// discard removes an incomplete copy. The name that says that the copy is incomplete goes last.
func discard(to *vfs.FS) error {
	if err := engine.Empty(to); err != nil {
		return err
	}
	if err := to.Remove(engine.Unfinished); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// fill makes the copy in an empty directory. lsn and led are from the first flush.
func fill(ctx context.Context, e *engine.Engine, to *vfs.FS, lsn uint64, led bool, flush Flush) error {
	ver, err := copyState(ctx, e, to, lsn, led, flush)
	if err != nil {
		return err
	}
	defer e.Drop(ver)
	for _, s := range ver.Files.Segments {
		if err := copySegment(ctx, e, to, s); err != nil {
			return err
		}
	}
	if err := to.SyncDir(engine.SegDir); err != nil {
		return err
	}
	// This syncs the names of the directories as well, which a database must have.
	if err := ver.Files.Store.SealCopy(to, engine.Unfinished); err != nil {
		return err
	}
	return to.Rename(engine.Unfinished, engine.MetaName)
}

// copyState copies meta.bolt and, if nobody leads, the log of what is not flushed. It lays out the
// directories, and pins the version of the copy.
func copyState(ctx context.Context, e *engine.Engine, to *vfs.FS, lsn uint64, led bool,
	flush Flush) (*engine.Version, error) {
	for name := engine.Unfinished; ; {
		ver, from, err := copyStore(ctx, e, to, name, lsn)
		switch {
		case errors.Is(err, fs.ErrExist):
			return nil, errNotEmpty // another backup has begun this very moment
		case err != nil:
			return nil, err
		case ver != nil && name == engine.Unfinished:
			if err := lonely(to); err != nil {
				e.Drop(ver)
				return nil, err
			}
		}
		if ver != nil {
			fits := led
			if err = place(to, name); err == nil && !led {
				fits, err = copyLog(ctx, e, from, to, ver)
			}
			if err == nil && fits {
				return ver, nil
			}
			e.Drop(ver)
			if err != nil {
				return nil, err
			}
			name = engine.TmpDir + "/" + engine.MetaName
		}
		// Without a version, the root of a flush comes a moment later, or not if the lead changes.
		if lsn, led, err = flush(); err != nil {
			return nil, err
		}
	}
}

// lonely returns errNotEmpty if another backup has ended there before this one began. It removes
// what this one has made.
func lonely(to *vfs.FS) error {
	names, err := to.ReadDir(".")
	if err == nil && slices.Contains(names, engine.MetaName) {
		err = cmp.Or(to.Remove(engine.Unfinished), errNotEmpty)
	}
	return err
}

// place gives a copy of meta.bolt its name. The first one has it, and the directories follow:
// without that name, empty ones look like a database that is being created.
func place(to *vfs.FS, name string) error {
	if name != engine.Unfinished {
		return to.Rename(name, engine.Unfinished)
	}
	if err := to.SyncDir("."); err != nil {
		return err
	}
	return engine.LayOut(to)
}

// outside refuses a directory inside the database directory, whose files the database manages, and
// one in memory, which would end with the process.
func outside(e *engine.Engine, dir string) error { return apart(dir, e.Dir, e.FS.Path()) }

// apart is outside for a database with the given directory, which need not exist, and its path.
func apart(dir, db, path string) error {
	switch {
	case dir == engine.Memory:
		return document.Invalidf("a copy in memory would be lost")
	case db == engine.Memory:
		return nil
	}
	inside, err := vfs.Inside(dir, path)
	if err == nil && inside {
		err = document.Invalidf("the directory lies inside the database directory %q", db)
	}
	return err
}

// copyStore copies meta.bolt and pins the version that lists its segments. from is the file system
// that holds them. ver is nil if this process has no meta.bolt with batch lsn yet.
func copyStore(ctx context.Context, e *engine.Engine, to *vfs.FS, name string, lsn uint64) (
	ver *engine.Version, from *vfs.FS, err error) {
	err = e.BetweenCommits(func(uint64) (err error) {
		now := e.Current()
		if now.Applied >= lsn {
			if err = now.Files.Store.CopyTo(ctx, to, name); err == nil {
				ver, from = now, e.Files()
				return nil
			}
		}
		e.Drop(now)
		return err
	})
	return ver, from, err
}

// copyLog copies the log of a writer that was killed. Another process may take the lead during the
// copy, flush, and delete the log files of what it has flushed. If the rest does not follow on ver
// any more, fits is false and the copy is removed. Leaders are not kept away while a long log is
// read, because their Open would fail. Only a log that seems damaged is read a second time, alone.
func copyLog(ctx context.Context, e *engine.Engine, from, to *vfs.FS, ver *engine.Version) (fits bool, err error) {
	err = tryLog(ctx, e, from, to, ver)
	if err == nil || ctx.Err() != nil {
		return true, err
	}
	newest := true
	alone, unsure := e.Alone(func() error {
		now := e.Current()
		defer e.Drop(now)
		if newest = now == ver; newest {
			err = tryLog(ctx, e, from, to, ver)
		}
		return nil
	})
	if unsure == nil && !(alone && newest) {
		return false, removeLog(to)
	}
	return true, err
}

// tryLog copies the log and replays the copy, because a log that is cut short would lose
// acknowledged batches silently.
func tryLog(ctx context.Context, e *engine.Engine, from, to *vfs.FS, ver *engine.Version) error {
	if err := removeLog(to); err != nil {
		return err
	}
	names, err := logFiles(from)
	for _, name := range names {
		var size int64
		if err == nil {
			size, err = from.Size(name)
		}
		if err == nil {
			err = copyFile(ctx, from, to, name, size)
		}
	}
	if err == nil {
		err = to.SyncDir(engine.WALDir)
	}
	if err != nil {
		return err
	}
	tail, err := wal.Replay(wal.Options{FS: to, DB: e.Identity}, ver.Applied,
		func(uint64, []byte) error { return ctx.Err() })
	if err == nil && tail.Last < ver.LSN { // beyond it are batches of a process that leads by now
		err = &fileformat.CorruptError{File: engine.WALDir, Offset: -1,
			Err: fmt.Errorf("the copied log ends with batch %d, the version with %d", tail.Last, ver.LSN)}
	}
	return err
}

// logFiles returns the names of the files of a log.
func logFiles(f *vfs.FS) (names []string, err error) {
	all, err := f.ReadDir(engine.WALDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, name := range all {
		if strings.HasSuffix(name, ".wal") {
			names = append(names, engine.WALDir+"/"+name)
		}
	}
	return names, err
}

func removeLog(f *vfs.FS) error {
	names, err := logFiles(f)
	for _, name := range names {
		err = errors.Join(err, f.Remove(name))
	}
	return err
}

// copySegment copies a vector file and verifies the copy. It reads the file that is open: another
// process, which leads, may have removed its name. Columns are derived: the copy builds them when
// it first needs them.
func copySegment(ctx context.Context, e *engine.Engine, to *vfs.FS, s *engine.OpenSegment) error {
	if err := engine.CopyFile(ctx, s, to, s.Name(), s.Info.Size); err != nil {
		return err
	}
	written, err := segment.Open(to, e.Identity, s.Info)
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
	return engine.CopyFile(ctx, in, to, name, size)
}
