package knowledge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// Processes share the database of a base, but one run of Learn at a time writes it. A file is
// replaced by what its record says of its chunks, so two runs that read the same record would leave
// chunks that belong to no file, and the later one of two notes about a run replaces the other. The
// lock is a file in the directory of the base: the system releases it when the process ends.

// lockName is the file that the process that learns holds.
const lockName = "learning.lock"

const (
	minPause = 5 * time.Millisecond // between attempts to get the lock
	maxPause = 100 * time.Millisecond
	maxLost  = 100 // attempts that find the lock removed by its last holder, one after the other
)

// busyError says that another run of Learn has the lock of a base. It matches db.ErrLocked.
type busyError struct{ err error }

func (e *busyError) Error() string   { return fmt.Sprintf("the base is being learnt: %v", e.err) }
func (e *busyError) Unwrap() []error { return []error{db.ErrLocked, e.err} }

// lock keeps others, of this process or another, from learning a base until unlock is called. While
// another has the lock, it waits, or fails with a busyError unless wait is true. Questions never
// wait, because the run that has the lock may wait for them.
func (e *Engine) lock(ctx context.Context, name string, wait bool) (unlock func(), err error) {
	pause, waits, lost := minPause, false, 0
	for {
		unlock, err := e.tryLock(name)
		var busy *busyError
		switch {
		case err == nil:
			return unlock, nil
		case errors.Is(err, os.ErrNotExist) && lost < maxLost:
			lost++
		case !errors.As(err, &busy) || !wait || ctx.Value(questionKey{}) != nil:
			return nil, fmt.Errorf("knowledge: base %q: %w", name, err)
		case !waits:
			waits, lost = true, 0
			e.opts.Logger.WarnContext(ctx, "waiting: another run learns the base", "base", name, "lock", busy.err)
			e.at("waits")
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("knowledge: base %q: %w", name, errors.Join(err, ctx.Err()))
		case <-time.After(pause):
			pause = min(2*pause, maxPause)
		}
	}
}

// tryLock takes the lock or fails with a busyError. os.ErrNotExist says that the holder removed the
// file, or the directory, at the same moment.
func (e *Engine) tryLock(name string) (unlock func(), err error) {
	if err := os.MkdirAll(e.dir(name), 0o700); err != nil {
		return nil, err
	}
	dir, err := vfs.Open(e.dir(name), nil)
	if err != nil {
		return nil, err
	}
	held, err := dir.Lock(lockName, true)
	if errors.Is(err, vfs.ErrLocked) {
		err = &busyError{err}
	}
	if err == nil {
		// The file may be one that its holder has removed since it was opened.
		var token string
		if token, err = dir.LockToken(lockName); err == nil && token != held.Token() {
			err = os.ErrNotExist
		}
		if err != nil {
			err = errors.Join(err, held.Close())
		}
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return func() {
		// Before the lock is released, so that it is this one that is removed. It stays where the
		// system does not remove open files, and that does no harm.
		_ = dir.Remove(lockName)
		_ = held.Close()
		_ = dir.Close()
		_ = os.Remove(e.dir(name)) // fails unless it is empty: no base was made, or it was removed
	}, nil
}
