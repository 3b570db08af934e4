package fsck

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/vecbolt/vecbolt/internal/boltcheck"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/manifest"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/wal"
)

// A place holds the files of a database that is examined without its engine.
type place struct {
	root     *vfs.FS            // the directory
	fs       *vfs.FS            // names files as a database directory does
	version  *manifest.Manifest // of a published folder; nil in a database
	rejected []error            // why newer versions were passed over, the newest first
	store    *meta.Store        // nil if meta.bolt does not open
	why      error              // why meta.bolt did not open
	unlocked error              // LOCK is no regular file, so nobody can hold it; nil otherwise
	close    func()             // does not close store
}

// lenient has every page verified first: bbolt trusts the pages that it reads.
var lenient = meta.Options{ReadOnly: true, Verify: true, Lenient: true}

// Damaged reports whether a database does not open with err because of the bytes of its files: they
// are wrong, or the disk cannot read a page of meta.bolt.
func Damaged(err error) bool {
	unread := (*boltcheck.ReadError)(nil)
	return errors.Is(err, fileformat.ErrCorrupt) || errors.As(err, &unread)
}

// look opens the directory of a database that no process writes, and keeps writers out until close
// is called, or a published folder, whose files nobody changes. hook may be nil.
func look(dir string, hook vfs.Hook) (*place, error) {
	root, err := vfs.Open(dir, hook)
	if err != nil {
		return nil, err
	}
	_, err = root.Size(engine.MetaName)
	if errors.Is(err, fs.ErrNotExist) {
		numbers, err := engine.Manifests(root)
		if err == nil {
			p, err := newest(root, numbers)
			if err != nil {
				return nil, errors.Join(err, root.Close())
			}
			p.close = func() { root.Close() }
			return p, nil
		}
	}
	held, err := root.Lock(engine.LockName, false)
	other, notRegular := errors.AsType[*vfs.NotRegularError](err)
	if err != nil && !notRegular {
		return nil, errors.Join(err, root.Close())
	}
	p := &place{root: root, fs: root, close: func() { held.Close(); root.Close() }}
	if notRegular {
		p.unlocked, p.close = other, func() { root.Close() }
	}
	p.store, p.why = meta.Open(root, engine.MetaName, lenient)
	return p, nil
}

// newest returns the newest version of a published folder whose meta.bolt opens. If no meta.bolt
// does, it returns the newest version that has one. Segments and batches of it may be missing.
func newest(root *vfs.FS, numbers []uint64) (*place, error) {
	var rejected []error
	var wreck *place
	for _, number := range slices.Backward(numbers) {
		m, err := engine.ReadManifest(root, number)
		if err != nil {
			rejected = append(rejected, &engine.VersionError{Number: number, Err: err})
			continue
		}
		names := m.Names()
		maps.DeleteFunc(names, func(_, path string) bool {
			_, err := root.Size(path)
			return errors.Is(err, fs.ErrNotExist)
		})
		p := &place{root: root, fs: root.Named(names), version: m, rejected: slices.Clone(rejected)}
		if _, ok := names[engine.MetaName]; !ok {
			p.why = fmt.Errorf("%s: %w", engine.MetaName, fs.ErrNotExist)
		} else if p.store, p.why = meta.Open(p.fs, engine.MetaName, lenient); p.why == nil {
			return p, nil
		}
		p.why = engine.NewVersionError(m, p.why)
		rejected = append(rejected, p.why)
		if wreck == nil && Damaged(p.why) {
			wreck = p
		}
	}
	if wreck != nil {
		return wreck, nil
	}
	if len(rejected) == 0 {
		return nil, fmt.Errorf("%w: the published folder holds no version", engine.ErrNotFound)
	}
	return nil, errors.Join(rejected...)
}

// log calls fn with the batches that only the log has, and lost with those that cannot be read, or
// in which fn finds damage.
func (p *place) log(s meta.State, fn func(engine.Batch) error, lost func(wal.Gap)) error {
	last := uint64(0)
	if p.version != nil {
		last = p.version.Batch
	}
	o := wal.Options{FS: p.fs, DB: s.DB, ReadOnly: true}
	_, err := wal.Salvage(o, s.Applied, last, func(lsn uint64, b []byte) error {
		batch, err := engine.DecodeRecord(b)
		if err != nil {
			err = engine.BadBatch(lsn, err)
		} else {
			err = fn(batch)
		}
		if !errors.Is(engine.Translate(err), fileformat.ErrCorrupt) {
			return err
		}
		lost(wal.Gap{First: lsn, Last: lsn, Err: err})
		return nil
	}, lost)
	return err
}

// gapOf describes lost batches.
func gapOf(g wal.Gap) Problem {
	p := problemOf(g.Err)
	p.Detail += fmt.Sprintf("; of the batches, %v", g)
	return p
}

// passedOver returns the problems of newer versions.
func (p *place) passedOver() (all []Problem) {
	for _, err := range p.rejected {
		all = append(all, passedOver(err, p.version.Number))
	}
	return all
}

// located gives the file of a problem the name that it has in the folder of version m. m is nil for
// a database, whose files have one name only.
func located(p Problem, m *manifest.Manifest) Problem {
	if m != nil {
		if f := m.Find(p.File); f != nil {
			p.File = f.Path
		}
	}
	return p
}
