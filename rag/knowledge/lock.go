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
// chunks that belong to no file, and the later one of two notes about a run replaces the other.
// Configurations are shared in the same way: if one was written after another process had changed
// it, that change would be lost, and with the switch of Reembed the base. The locks are files in
// the directory of the base: the system releases them when the process ends.

// A lockFile is a file in the directory of a base that one run at a time holds.
type lockFile struct {
	name  string
	busy  string // says that another run holds it
	waits string // is logged while it is waited for
}

var (
	// toReembed is held while the next database of a base is made or removed. Who holds it may wait
	// for the other two.
	toReembed = lockFile{"reembed.lock", "the base is being embedded again", ""}
	// toLearn is held while the base is learnt or removed.
	toLearn = lockFile{"learning.lock", "the base is being learnt", "waiting: another run learns the base"}
	// toConfigure is held while a configuration is read, changed and written. Who holds it does
	// not wait for toLearn, so that runs which have that one can wait for it.
	toConfigure = lockFile{"config.lock", "the configuration is being changed", "waiting: the configuration is being changed"}
)

const (
	minPause = 5 * time.Millisecond // between attempts to get the lock
	maxPause = 100 * time.Millisecond
	maxLost  = 100 // attempts that find the lock removed by its last holder, one after the other
)

// busyError says that another run has a lock of a base. It matches db.ErrLocked.
type busyError struct {
	busy string
	err  error
}

func (e *busyError) Error() string   { return fmt.Sprintf("%s: %v", e.busy, e.err) }
func (e *busyError) Unwrap() []error { return []error{db.ErrLocked, e.err} }

// lock keeps others, of this process or another, from the same lock of a base until unlock is
// called. While another has the lock, it waits, or fails with a busyError unless wait is true.
// Questions never wait, because the run that has the lock may wait for them.
func (e *Engine) lock(ctx context.Context, name string, file lockFile, wait bool) (unlock func(), err error) {
	pause, waits, lost := minPause, false, 0
	for {
		unlock, err := e.tryLock(name, file)
		var busy *busyError
		switch {
		case err == nil:
			return unlock, nil
		case errors.Is(err, os.ErrNotExist) && lost < maxLost:
			lost++
		case !errors.As(err, &busy) || !wait || ctx.Value(questionKey{}) != nil:
			return nil, fmt.Errorf("knowledge: base %q: %w", name, err)
		case !waits && ctx.Err() == nil:
			waits, lost = true, 0
			e.opts.Logger.WarnContext(ctx, file.waits, "base", name, "lock", busy.err)
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

// tryLock takes the lock or fails with a busyError. It makes the directory of the base durable, as
// the files in it are. os.ErrNotExist says that the holder removed the file, or the directory, at
// the same moment.
func (e *Engine) tryLock(name string, file lockFile) (unlock func(), err error) {
	if err := vfs.MakeDir(e.dir(name), e.hook); err != nil {
		return nil, err
	}
	dir, err := vfs.Open(e.dir(name), nil)
	if err != nil {
		return nil, err
	}
	held, err := dir.Lock(file.name, true)
	if errors.Is(err, vfs.ErrLocked) {
		err = &busyError{file.busy, err}
	}
	if err == nil {
		// The file may be one that its holder has removed since it was opened.
		var token string
		if token, err = dir.LockToken(file.name); err == nil && token != held.Token() {
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
		_ = dir.Remove(file.name)
		_ = held.Close()
		_ = dir.Close()
		_ = os.Remove(e.dir(name)) // fails unless it is empty: no base was made, or it was removed
	}, nil
}
