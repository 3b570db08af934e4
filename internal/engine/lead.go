package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/wal"
)

// takeLock takes the lock of the database, as a reader or to lead, in the directory where the
// database is now. It fails if that is an earlier state.
func (e *Engine) takeLock() (*vfs.Lock, error) {
	if err := e.WentBack(); err != nil {
		return nil, err
	}
	for {
		lock, err := e.lockHere()
		moved, here := false, error(nil)
		switch {
		case err == nil:
			moved, here = e.unfence()
		case e.sharing(): // that directory may have been removed
			moved, here = e.FS.Moved()
		}
		if here == nil && !moved {
			return lock, err
		}
		if err == nil {
			here = errors.Join(here, lock.Close())
		}
		if here == nil {
			here = e.reopen()
		}
		if here != nil {
			return nil, here
		}
	}
}

func (e *Engine) lockHere() (*vfs.Lock, error) {
	if e.Opts.ReadOnly || e.sharing() {
		return e.FS.Lock(LockName, !e.Opts.ReadOnly)
	}
	return e.FS.LockAlone(LockName)
}

// takeLead lets other processes find this one.
func (e *Engine) takeLead(lock *vfs.Lock) {
	if e.Opts.OnLead != nil && !e.Opts.OnLead(e) {
		lock.Alone()
	}
}

func (e *Engine) abandon() {
	if e.Opts.OnAbandon != nil {
		e.Opts.OnAbandon()
	}
}

// left reports a store of a follower that is closed; mu is held.
func (e *Engine) left(s *meta.Store) {
	if root, ok := e.shared.roots[s]; ok {
		delete(e.shared.roots, s)
		e.Opts.Upstream.Left(root)
	}
}

// TryLead makes a follower the leader. It fails with ErrLocked, and the engine stays a follower,
// while another process leads. It recovers the files of the leader before, as Open does. Readers go
// on with the version before.
func (e *Engine) TryLead() error {
	if err := e.Begin(); err != nil {
		return err
	}
	defer e.End()
	lock, err := e.takeLock()
	if err != nil {
		return Translate(err)
	}
	start, o := time.Now(), e.logOptions()
	e.catchUpLast()
	e.lock.Store(lock)
	e.setWrites(true)
	e.takeLead(lock)
	tail, err := e.inherit(o)
	if err == nil {
		if err = e.startLog(o, tail, true); err != nil {
			err = errors.Join(err, e.retreat())
		}
	}
	if err != nil {
		e.setWrites(false)
		e.abandon()
		e.lock.Store(nil)
		return errors.Join(err, lock.Close())
	}
	e.shared.received.restart(nil)
	e.Retry()        // the leader before may have replaced files
	lsn := e.cur.LSN // before anybody else publishes versions
	e.background.lead(e)
	e.role.Store(uint32(Leader))
	e.Opts.Logger.Info("leads", "dir", e.Dir, "lsn", lsn, "took", time.Since(start))
	return nil
}

// catchUpLast applies the last records of a leader that has ended. The files have all of them, but
// after a flush they do not tell whose writes these were.
func (e *Engine) catchUpLast() {
	if err := e.CatchUp(); err != nil {
		e.Opts.Logger.Warn("cannot apply the last batches of the leader, reading the files", "error", err)
	}
}

// inherit loads the files of the leader before.
func (e *Engine) inherit(o wal.Options) (tail wal.Tail, err error) {
	e.metaMu.Lock()
	defer e.metaMu.Unlock()
	err = e.replace(func() (store *meta.Store, err error) {
		store, tail, err = e.loadAgain(meta.Options{Trusted: true}, o)
		return store, err
	})
	return tail, err
}

// loadAgain loads the files and replays the log. The lock of the database and metaMu are held.
func (e *Engine) loadAgain(m meta.Options, o wal.Options) (store *meta.Store, tail wal.Tail, err error) {
	if store, err = e.openMeta(m); err != nil {
		return nil, tail, err
	}
	e.reset()
	if err := e.load(store); err != nil {
		return nil, tail, errors.Join(err, store.Close())
	}
	if !m.ReadOnly {
		err = e.sweep()
	}
	if err == nil {
		tail, err = e.replayLog(o)
	}
	return store, tail, err
}

// retreat makes a follower again of a process that has begun to lead and cannot. Others may write
// meta.bolt from now on, so it is opened for reading.
func (e *Engine) retreat() error {
	e.metaMu.Lock()
	defer e.metaMu.Unlock()
	err := e.endWriting()
	return errors.Join(err, e.replace(func() (*meta.Store, error) {
		store, _, err := e.loadAgain(meta.Options{ReadOnly: true, Trusted: true}, e.logOptions())
		return store, err
	}))
}

// endWriting gives up the log and the head that is being flushed. Nobody may be writing.
func (e *Engine) endWriting() error {
	e.commitMu.Lock()
	defer e.commitMu.Unlock()
	if e.frozen != nil {
		e.Drop(e.frozenAt)
		e.frozen, e.frozenAt, e.flushErr = nil, nil, nil
	}
	if log := e.log.Swap(nil); log != nil {
		return log.Close()
	}
	return nil
}

// setWrites notes whether this process may write.
func (e *Engine) setWrites(may bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.writes = may
}

// checkLater returns ErrReplaced if the version that replace has prepared lacks batches of the
// present one: somebody has put a backup in the place of the directory. Every batch of a version
// is in the log, and the end of a process takes nothing from that: a power cut, which may, ends
// this process as well. A published folder may go back, see folderReader.ahead. The finding is for
// good, see WentBack.
func (e *Engine) checkLater() error {
	e.commitMu.Lock()
	defer e.commitMu.Unlock()
	if e.folder != nil || e.cur == nil || e.held == nil || e.held.LSN >= e.cur.LSN {
		return nil
	}
	err := fmt.Errorf("%w: when it was looked at, %q had an earlier state of it, batch %d instead of %d: open it again",
		ErrReplaced, e.Dir, e.held.LSN, e.cur.LSN)
	e.wentBack.Store(&err)
	return err
}

// WentBack returns ErrReplaced once the directory has been found to hold an earlier state of the
// database. Others may write to that one, until it has the number of batches that this process has
// seen: it looks like a later state then, and is another history. So this process never takes a
// version from the directory again.
func (e *Engine) WentBack() error {
	if err := e.wentBack.Load(); err != nil {
		return *err
	}
	return nil
}
