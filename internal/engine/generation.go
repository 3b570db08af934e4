package engine

import (
	"errors"
	"io/fs"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment"
)

// commitMeta runs the transaction of a flush (v is its version) or of a compaction (v is
// nil). Afterwards it removes log and segment files that the previous commit made
// obsolete. metaMu is held.
func (e *Engine) commitMeta(v *Version, fn func(tx *meta.Tx) error) (err error) {
	if err := errors.Join(e.Err(), e.mayWrite()); err != nil {
		return err
	}
	defer func() {
		if r := recover(); r != nil { // memory may be between two states
			err = e.Fail(&vfs.PanicError{Value: r, Stack: debug.Stack()})
		}
	}()
	if err := e.fenced(); err != nil {
		return err
	}
	before, segments, stored := e.state, maps.Clone(e.segments), maps.Clone(e.stored)
	kept := before.Obsolete
	err = e.store.Update(func(tx *meta.Tx) error {
		e.state.Obsolete = slices.Clone(kept)
		if err := fn(tx); err != nil {
			return err
		}
		if v != nil {
			e.state.Applied, e.state.NextDoc = v.LSN, v.nextNum
			e.state.NextCollection = e.nextCollection()
		}
		return tx.SetState(e.state)
	})
	if (noSpace(err) || noDescriptor(err)) && e.store.Usable() { // meta.bolt is unchanged
		e.state, e.segments, e.stored = before, segments, stored
		return err
	}
	if err != nil {
		return e.Fail(err)
	}
	e.commits++
	e.committed = time.Now()
	for id, s := range segments {
		if e.segments[id] == nil {
			s.leave()
		}
	}
	// If the newest root of meta.bolt is damaged, the next Open uses the root before it.
	// The files of that root must stay until this commit replaces it.
	if log := e.log.Load(); log != nil {
		// A file that cannot be renamed, such as without a free descriptor, waits for the next
		// commit: nothing is lost by that.
		err := log.Release(before.Applied)
		if err != nil {
			e.Opts.Logger.Warn("cannot release the log, trying again later", "error", err)
		}
		e.record("release of the log", err)
	}
	e.announce()
	for _, id := range kept {
		if !e.inUse(id) {
			e.removeSegment(id)
			e.state.Obsolete = slices.DeleteFunc(e.state.Obsolete, func(o uint64) bool { return o == id })
		}
	}
	if len(e.state.Obsolete) > 0 {
		wake(e.background.tidy)
	}
	return nil
}

func (e *Engine) nextCollection() uint32 {
	e.commitMu.Lock()
	defer e.commitMu.Unlock()
	return e.nextColl
}

// retire takes a segment out of the database. Its files stay until the next commit,
// because the older root of meta.bolt needs them, and until no version has it. metaMu is
// held.
func (e *Engine) retire(tx *meta.Tx, id uint64) error {
	e.state.Obsolete = append(e.state.Obsolete, id)
	delete(e.segments, id)
	return tx.DeleteSegment(id)
}

// removeSegment removes the files of an unused segment. If that fails, for example
// without a free file handle, removeLitter tries again.
func (e *Engine) removeSegment(id uint64) { e.removeFiles(id, SegDir) }

// removeFiles removes the files of a segment from some directories.
func (e *Engine) removeFiles(id uint64, dirs ...string) {
	var names []string
	for _, ext := range DerivedExts {
		names = append(names, derivedName(id, ext))
	}
	names = append(names, segment.FileName(id))
	left := false
	for _, dir := range dirs {
		for _, name := range names {
			name = dir + name[len(SegDir):]
			_, err := e.FS.Size(name)
			if err == nil {
				err = e.FS.Remove(name)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				left = true
				e.Opts.Logger.Warn("cannot remove", "file", name, "error", err)
			}
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if left {
		e.litter[id] = struct{}{}
	} else {
		delete(e.litter, id)
	}
}

// removeLitter retries failed removals of segments.
func (e *Engine) removeLitter() {
	e.mu.Lock()
	ids := slices.Collect(maps.Keys(e.litter))
	e.mu.Unlock()
	for _, id := range ids {
		e.removeFiles(id, TmpDir, SegDir)
	}
}

// BetweenCommits runs fn while no flush or compaction commits to meta.bolt, and this process does
// not step down. So the files that fn reads belong to one state. commits is the number of commits
// since the database was opened. Writes go on.
func (e *Engine) BetweenCommits(fn func(commits uint64) error) error {
	e.metaMu.Lock()
	defer e.metaMu.Unlock()
	return fn(e.commits)
}

// Settle flushes and then commits once more. Both roots of meta.bolt then have the same
// content and need neither the log nor retired segments.
func (e *Engine) Settle() error {
	if err := e.Flush(); err != nil {
		return err
	}
	e.metaMu.Lock()
	defer e.metaMu.Unlock()
	return e.commitAgain()
}

// Tidy commits once more if that frees the files of segments that were replaced or dropped: the
// older root of meta.bolt needs them until then. Without it they would stay until the next flush or
// compaction, which may never come. It waits until the last commit has the given age, because
// another one often follows. It returns the time until it should be called again, 0 if a commit or
// the end of a reader calls it.
func (e *Engine) Tidy(age time.Duration) (next time.Duration, err error) {
	e.metaMu.Lock()
	defer e.metaMu.Unlock()
	if !slices.ContainsFunc(e.state.Obsolete, func(id uint64) bool { return !e.inUse(id) }) {
		return 0, nil
	}
	if wait := age - time.Since(e.committed); wait > 0 {
		return wait, nil
	}
	if err = e.commitAgain(); err != nil && e.Err() == nil {
		next = max(1, age)
	}
	return next, err
}

// commitAgain commits without changes, but for the documents that only older versions needed.
// metaMu is held.
func (e *Engine) commitAgain() error {
	return e.commitMeta(nil, func(tx *meta.Tx) error {
		oldest := e.oldest()
		if _, err := tx.PurgeHistory(oldest); err != nil {
			return err
		}
		for id, def := range maps.Clone(e.stored) {
			if def == nil && oldest >= e.state.Applied {
				if err := tx.DropCollection(id); err != nil {
					return err
				}
				delete(e.stored, id)
			}
		}
		return nil
	})
}
