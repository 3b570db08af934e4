package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// A leader that is stopped keeps its lock, and when it goes on it ends the call that it was in. So
// another process that takes its place first makes a fence, a file next to the lock, and rings: a
// leader that hears it and finds the fence acknowledges nothing and commits nothing any more. Calls
// that it has begun still reach its files. So the other process copies what leaders change, gives
// the rest, which nobody changes, a second name, and exchanges the two directories. The leader
// before still has the one that it had opened, and nothing that it does there matters.

// FenceName is the file that ends the lead of the process which has the lock. The process that
// makes it has it locked until it has exchanged the directories. It stays in the old one.
const FenceName = "LOCK.fence"

// maxFenced is the number of directories of leaders that were fenced which a database can have.
const maxFenced = 16

// errDeposed is the error of a process that led and was fenced.
var errDeposed = fmt.Errorf("%w: another process leads since this one was stopped", ErrLocked)

// fenced returns errDeposed if another process has taken the lead from this one, and notes that.
func (e *Engine) fenced() error {
	if !e.sharing() {
		return nil
	}
	// To look for a file after a sync, with cold caches, would cost 7 us of each commit.
	if lock := e.lock.Load(); lock != nil && !lock.Rung() {
		return nil
	}
	_, err := e.FS.Size(FenceName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	e.setWrites(false)
	if e.role.CompareAndSwap(uint32(Leader), uint32(Follower)) {
		e.behind.Store(true) // before anybody removes the fence
		e.Opts.Logger.Warn("another process has taken the lead, because this one was stopped", "dir", e.Dir)
		if e.Opts.OnDeposed != nil {
			e.Opts.OnDeposed()
		}
	}
	return errDeposed
}

// CheckLead returns an error if this process has lost the lead without having noticed.
func (e *Engine) CheckLead() error {
	if !e.Leads() {
		return errDeposed
	}
	return e.fenced()
}

// Fenced reports whether the version that readers get may be of a leader that was fenced. So it is
// until another version takes its place, also once this process has the next directory open.
func (e *Engine) Fenced() bool {
	if e.behind.Load() {
		return true
	}
	_, err := e.FS.Size(FenceName)
	return !errors.Is(err, fs.ErrNotExist)
}

// Moved reports whether the database is in another directory than this process has open, because
// the leader before was fenced.
func (e *Engine) Moved() bool {
	if !e.Fenced() {
		return false
	}
	moved, err := e.FS.Moved()
	return moved && err == nil
}

// Reopen goes on in the directory that the database has now. No call may write files.
func (e *Engine) Reopen() error {
	moved, err := e.FS.Moved()
	if err != nil || !moved {
		return err
	}
	return e.reopen()
}

func (e *Engine) reopen() error {
	e.behind.Store(true)
	return e.FS.Reopen()
}

// lockFence takes the lock of the fence, and makes it if it is not there.
func lockFence(dir *vfs.FS) (*vfs.Lock, error) {
	for {
		lock, err := dir.LockAlone(FenceName)
		if err != nil {
			return nil, err
		}
		holds, err := lock.Holds(dir, FenceName) // it may have been removed before
		if holds {
			return lock, nil
		}
		if err := errors.Join(err, lock.Close()); err != nil {
			return nil, err
		}
	}
}

// unfence makes sure that the process which has just taken the lock of the database may lead: it
// removes a fence whose maker has ended, and returns ErrLocked while that one is at work. moved
// says that the database is in another directory by now; otherwise this one is durable in its
// place.
func (e *Engine) unfence() (moved bool, err error) {
	if !e.sharing() {
		return false, nil
	}
	_, err = e.FS.Size(FenceName)
	switch fence := !errors.Is(err, fs.ErrNotExist); {
	case e.Opts.ReadOnly:
		return e.FS.Moved()
	case !fence:
		if moved, err = e.FS.Moved(); err == nil && !moved {
			err = syncExchange(e.FS.Path())
		}
		return moved, err
	}
	fence, err := lockFence(e.FS)
	if err != nil {
		return false, err
	}
	if moved, err = e.FS.Moved(); err == nil && !moved {
		err = e.FS.Remove(FenceName)
	}
	return moved, errors.Join(err, fence.Close())
}

// Depose takes the lead from the process whose lock has the given token. It must have been stopped:
// otherwise it steps down as well, but for nothing. Afterwards nobody holds the lock, and the
// database is as after a crash of that process. Depose fails with ErrLocked while another process
// does the same, or if a process with another token leads.
func Depose(dir, token string) (err error) {
	from, err := vfs.Open(dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	fence, err := lockFence(from)
	if err != nil {
		return Translate(err)
	}
	exchanged := false
	defer func() {
		if !exchanged {
			err = errors.Join(err, from.Remove(FenceName))
		}
		err = errors.Join(err, fence.Close())
	}()
	// From here on nobody begins to lead.
	if now, err := from.LockToken(LockName); err != nil || now != token {
		return errors.Join(fmt.Errorf("%w: another process leads", ErrLocked), err)
	}
	if moved, err := from.Moved(); err != nil || moved {
		return errors.Join(fmt.Errorf("%w: another process has taken the lead", ErrLocked), err)
	}
	if err := from.Ring(LockName); err != nil {
		return err
	}
	path, parent, err := beside(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, parent.Close()) }()
	next, to, lock, err := newPlace(path)
	if err != nil {
		return err
	}
	defer func() {
		if !exchanged {
			err = errors.Join(err, Empty(to), parent.Remove(filepath.Base(next)))
		}
		err = errors.Join(err, lock.Close(), to.Close())
	}()
	if err := copyDatabase(from, to); err != nil {
		return err
	}
	if err := vfs.Exchange(path, next); err != nil {
		return err
	}
	exchanged = true
	return parent.SyncDir(".")
}

// beside returns the path of a directory without symbolic links, and the directory that it is in.
func beside(dir string) (path string, parent *vfs.FS, err error) {
	if path, err = filepath.Abs(dir); err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err == nil {
		parent, err = vfs.Open(filepath.Dir(path), nil)
	}
	return path, parent, err
}

// syncExchange makes an exchange durable, if there was one: the process that made it may have ended
// before it could. Otherwise a power cut would restore the former directory, which lacks all later
// commits.
func syncExchange(dir string) (err error) {
	path, parent, err := beside(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, parent.Close()) }()
	for n := range maxFenced {
		if _, err := os.Lstat(fencedPath(path, n)); err == nil {
			return parent.SyncDir(".")
		}
	}
	return nil
}

// fencedPath returns the path of a directory that takes part in an exchange.
func fencedPath(path string, n int) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".fenced-"+strconv.Itoa(n))
}

// newPlace makes a directory beside the one of a database, with the same permissions, and locks it.
func newPlace(path string) (next string, dir *vfs.FS, lock *vfs.Lock, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", nil, nil, err
	}
	// ClearFenced in another process may remove a directory that is not locked yet, but not always.
	for n, tries := 0, 0; n < maxFenced && tries < 1000; tries++ {
		next = fencedPath(path, n)
		if err = os.Mkdir(next, 0o700); errors.Is(err, fs.ErrExist) {
			n++
			continue
		}
		if err == nil {
			dir, lock, err = lockPlace(next, info.Mode().Perm())
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, vfs.ErrLocked) {
			break
		}
	}
	return next, dir, lock, err
}

// lockPlace locks a new directory. It fails with fs.ErrNotExist if the directory has been removed.
func lockPlace(next string, mode fs.FileMode) (dir *vfs.FS, lock *vfs.Lock, err error) {
	if err = os.Chmod(next, mode); err != nil {
		return nil, nil, err
	}
	if dir, err = vfs.Open(next, nil); err != nil {
		return nil, nil, err
	}
	if lock, err = dir.LockAlone(LockName); err != nil {
		return nil, nil, errors.Join(err, dir.Close())
	}
	holds, err := lock.Holds(dir, LockName)
	if err == nil && !holds {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, nil, errors.Join(err, lock.Close(), dir.Close())
	}
	return dir, lock, nil
}

// copyDatabase makes what a crash of the leader would leave. A leader that goes on ends the commit
// of meta.bolt that it has begun, and begins no other: such a commit changes no page of the root
// before, and removes no file that this root needs.
func copyDatabase(from, to *vfs.FS) error {
	if err := LayOut(to); err != nil {
		return err
	}
	if err := meta.CopyTo(from, MetaName, to); err != nil {
		return err
	}
	logs, err := from.ReadDir(WALDir)
	if err != nil {
		return err
	}
	for _, name := range logs {
		if filepath.Ext(name) != ".wal" {
			continue
		}
		err := copyFile(from, WALDir+"/"+name, to)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // no longer needed
			return err
		}
	}
	if err := copyFile(from, TallyName, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	segments, err := from.ReadDir(SegDir)
	if err != nil {
		return err
	}
	for _, name := range segments {
		if err := from.LinkTo(to, SegDir+"/"+name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, dir := range []string{WALDir, SegDir, "."} {
		if err := to.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies a file, as long as it was when that began.
func copyFile(from *vfs.FS, name string, to *vfs.FS) error {
	in, err := from.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	size, err := in.Size()
	if err != nil {
		return err
	}
	return CopyFile(context.Background(), in, to, name, size)
}

// ownNames are the names at the top of the directory of a database.
var ownNames = []string{LockName, SocketName, MetaName, SumsName, TallyName, SegDir, WALDir, TmpDir, FenceName}

// ClearFenced removes the directories of leaders that were fenced and have ended, or have stepped
// down. Before that it moves files that are not the database's to the directory of the database.
func ClearFenced(dir string) (err error) {
	path, parent, err := beside(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, parent.Close()) }()
	var errs []error
	for n := range maxFenced {
		old := fencedPath(path, n)
		if info, err := os.Lstat(old); err == nil && info.IsDir() {
			errs = append(errs, clearFenced(parent, path, old, info))
		}
	}
	return errors.Join(errs...)
}

func clearFenced(parent *vfs.FS, path, old string, info fs.FileInfo) (err error) {
	dir, err := vfs.Open(old, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	if same, err := dir.Is(info); !same { // a symbolic link may lead to any directory
		return err
	}
	_, err = dir.Size(FenceName)
	if fenced := err == nil; fenced { // otherwise an exchange was prepared only
		// The process that made the exchange may have ended before it was durable: a power cut
		// would bring this directory back.
		if err = parent.SyncDir("."); err == nil {
			err = moveForeign(dir, parent, path, old)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	lock, err := dir.LockAlone(LockName)
	if errors.Is(err, vfs.ErrLocked) {
		return nil // by a process that is still stopped, or prepares an exchange
	}
	if err != nil {
		return err
	}
	return errors.Join(Empty(dir), lock.Close(), parent.Remove(filepath.Base(old)))
}

// moveForeign moves files that are not the database's from a directory to the one at path.
func moveForeign(dir, parent *vfs.FS, path, old string) error {
	names, err := dir.ReadDir(".")
	if err != nil {
		return err
	}
	for _, name := range names {
		if slices.Contains(ownNames, name) {
			continue
		}
		if _, err := os.Lstat(filepath.Join(path, name)); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := parent.Rename(filepath.Base(old)+"/"+name, filepath.Base(path)+"/"+name); err != nil {
			return err
		}
	}
	return nil
}

// Empty removes the files of a database.
func Empty(dir *vfs.FS) error {
	for _, sub := range []string{SegDir, WALDir, TmpDir} {
		names, err := dir.ReadDir(sub)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := dir.Remove(sub + "/" + name); err != nil {
				return err
			}
		}
	}
	var errs []error
	for _, name := range ownNames {
		if err := dir.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// WhenDeposed has fn called each time this process has lost the lead, until forget is called. fn
// must not block: this process follows the next leader only afterwards.
func (e *Engine) WhenDeposed(fn func()) (forget func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.deposed[&fn] = struct{}{}
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.deposed, &fn)
	}
}

// StepDown makes a leader that was fenced a follower. Adopt gives it the version of the new leader;
// until then it serves the one that it has. Calls that write files end first.
func (e *Engine) StepDown() error {
	e.setWrites(false)
	e.role.Store(uint32(Follower))
	e.mu.Lock()
	deposed := slices.Collect(maps.Keys(e.deposed))
	e.mu.Unlock()
	for _, fn := range deposed {
		(*fn)()
	}
	e.commitMu.Lock()
	e.flushed.Broadcast() // to writers that wait for a flush: none will come
	e.commitMu.Unlock()
	e.background.endLead()
	e.mu.Lock()
	for e.keeping > 0 {
		e.idle.Wait()
	}
	e.mu.Unlock()
	e.compactMu.Lock()
	defer e.compactMu.Unlock()
	e.metaMu.Lock()
	defer e.metaMu.Unlock()
	e.mu.Lock()
	e.shared.observer = nil
	e.mu.Unlock()
	lock := e.lock.Swap(nil)
	return errors.Join(e.endWriting(), lock.Close())
}
