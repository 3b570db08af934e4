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
// obsolete. MetaMu is held.
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
	before, segments, stored := e.State, maps.Clone(e.Segments), maps.Clone(e.stored)
	kept := before.Obsolete
	err = e.Store.Update(func(tx *meta.Tx) error {
		e.State.Obsolete = slices.Clone(kept)
		if err := fn(tx); err != nil {
			return err
		}
		if v != nil {
			e.State.Applied, e.State.NextDoc = v.LSN, v.nextNum
			e.State.NextCollection = e.nextCollection()
		}
		return tx.SetState(e.State)
	})
	if noSpace(err) && e.Store.Usable() { // meta.bolt is unchanged
		e.State, e.Segments, e.stored = before, segments, stored
		return err
	}
	if err != nil {
		return e.Fail(err)
	}
	e.Commits++
	e.committed = time.Now()
	// If the newest root of meta.bolt is damaged, the next Open uses the root before it.
	// The files of that root must stay until this commit replaces it.
	if log := e.Log.Load(); log != nil {
		if err := log.Release(before.Applied); err != nil {
			return e.Fail(err)
		}
	}
	e.announce()
	for _, id := range kept {
		if !e.inUse(id) {
			e.removeSegment(id)
			e.State.Obsolete = slices.DeleteFunc(e.State.Obsolete, func(o uint64) bool { return o == id })
		}
	}
	if len(e.State.Obsolete) > 0 {
		wake(e.Background.tidy)
	}
	return nil
}

func (e *Engine) nextCollection() uint32 {
	e.CommitMu.Lock()
	defer e.CommitMu.Unlock()
	return e.nextColl
}

// retire takes a segment out of the database. Its files stay until the next commit,
// because the older root of meta.bolt needs them, and until no version has it. MetaMu is
// held.
func (e *Engine) retire(tx *meta.Tx, id uint64) error {
	e.State.Obsolete = append(e.State.Obsolete, id)
	delete(e.Segments, id)
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
	e.Mu.Lock()
	defer e.Mu.Unlock()
	if left {
		e.litter[id] = struct{}{}
	} else {
		delete(e.litter, id)
	}
}

// removeLitter retries failed removals of segments.
func (e *Engine) removeLitter() {
	e.Mu.Lock()
	ids := slices.Collect(maps.Keys(e.litter))
	e.Mu.Unlock()
	for _, id := range ids {
		e.removeFiles(id, TmpDir, SegDir)
	}
}

// Settle flushes and then commits once more. Both roots of meta.bolt then have the same
// content and need neither the log nor retired segments.
func (e *Engine) Settle() error {
	if err := e.Flush(); err != nil {
		return err
	}
	e.MetaMu.Lock()
	defer e.MetaMu.Unlock()
	return e.commitAgain()
}

// Tidy commits once more if that frees the files of segments that were replaced or dropped: the
// older root of meta.bolt needs them until then. Without it they would stay until the next flush or
// compaction, which may never come. It waits until the last commit has the given age, because
// another one often follows. It returns the time until it should be called again, 0 if a commit or
// the end of a reader calls it.
func (e *Engine) Tidy(age time.Duration) (next time.Duration, err error) {
	e.MetaMu.Lock()
	defer e.MetaMu.Unlock()
	if !slices.ContainsFunc(e.State.Obsolete, func(id uint64) bool { return !e.inUse(id) }) {
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
// MetaMu is held.
func (e *Engine) commitAgain() error {
	return e.commitMeta(nil, func(tx *meta.Tx) error {
		oldest := e.oldest()
		if _, err := tx.PurgeHistory(oldest); err != nil {
			return err
		}
		for id, def := range maps.Clone(e.stored) {
			if def == nil && oldest >= e.State.Applied {
				if err := tx.DropCollection(id); err != nil {
					return err
				}
				delete(e.stored, id)
			}
		}
		return nil
	})
}
