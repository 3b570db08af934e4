package meta

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/vecbolt/vecbolt/internal/boltcheck"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// ErrRoot is returned by Open when the newest root of the file is not Options.Root: the process
// that writes the file has committed since, and has pinned a newer root.
var ErrRoot = errors.New("meta: the file has another root")

// errConfined is the error of a pin that might make a commit wait which needs more address space.
var errConfined = errors.New("the process may use too little address space to share the file")

const (
	// A process that opens the file for writing locks it for some microseconds.
	sharedTimeout = 10 * time.Second
	// Address space of a shared file. bbolt waits for all transactions before it maps a grown file
	// again, and pins do not end by themselves, so the first mapping must suffice: a commit beyond
	// it fails.
	sharedMap = 64 << 30
	// rootViews is the number of Views that can run at once on a store with Options.Root.
	rootViews = 32
)

// pins are transactions that keep the pages of their roots from reuse.
type pins struct {
	mu   sync.Mutex
	open map[*bbolt.Tx]struct{}
}

func (p *pins) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}

// release gives up all pins.
func (p *pins) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for tx := range p.open {
		_ = tx.Rollback() // of a read transaction: it fails only if it has ended
	}
	clear(p.open)
}

// Pin keeps the newest root of the file as it is, for other processes that read it, until unpin is
// called. Rewrite and Close give up all pins: they leave the file of these roots as it is, and
// Rewrite writes another one.
func (s *Store) Pin() (root uint64, unpin func(), err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.bolt == nil {
		return 0, nil, errClosed
	}
	if broken := s.broken.Load(); broken != nil {
		return 0, nil, *broken
	}
	if s.confined {
		return 0, nil, fmt.Errorf("meta: pin %s: %w", s.name, errConfined)
	}
	tx, err := s.bolt.Begin(false)
	if err != nil {
		return 0, nil, fmt.Errorf("meta: pin %s: %w", s.name, err)
	}
	p := &s.pins
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		p.open = map[*bbolt.Tx]struct{}{}
	}
	p.open[tx] = struct{}{}
	return uint64(tx.ID()), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if _, open := p.open[tx]; open {
			delete(p.open, tx)
			_ = tx.Rollback()
		}
	}, nil
}

// Pinned returns the number of pins that have not ended.
func (s *Store) Pinned() int { return s.pins.count() }

// Unread reports whether no other process has the file open.
func (s *Store) Unread() (bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.bolt == nil {
		return false, errClosed
	}
	return vfs.Unheld(s.file)
}

// openRoot opens the file at Options.Root. All transactions of View are begun here, because a later
// one would see the newest root.
func (s *Store) openRoot() (err error) {
	s.opts.ReadOnly, s.opts.Shared = true, true
	if err := s.open(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := s.atRoot(); err != nil {
		return err
	}
	s.views = make(chan *bbolt.Tx, rootViews)
	for range rootViews {
		err, _ := s.catch(func() error {
			tx, err := s.bolt.Begin(false)
			if err == nil {
				s.views <- tx
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	// A root is not overwritten before the next one is in force. So if the root is still the
	// newest, every transaction has it.
	if err := s.atRoot(); err != nil {
		return err
	}
	return s.View((*Tx).identify)
}

// atRoot returns ErrRoot unless Options.Root is the newest root of the file.
func (s *Store) atRoot() error {
	roots, newest, err := s.roots()
	if err != nil {
		return err
	}
	if id := roots[newest].TxID; id != s.opts.Root {
		return fmt.Errorf("%w: %d, not %d", ErrRoot, id, s.opts.Root)
	}
	return nil
}

// transactAtRoot runs fn in one of the transactions at Options.Root. mu is read-held.
func (s *Store) transactAtRoot(fn func(*bbolt.Tx) error) error {
	tx := <-s.views
	defer func() { s.views <- tx }()
	err, _ := s.catch(func() error { return fn(tx) })
	return err
}

// closeViews ends the transactions of View. mu is held, so none is in use.
func (s *Store) closeViews() {
	for len(s.views) > 0 {
		_ = (<-s.views).Rollback()
	}
}

// Copy replaces a file that other processes read by a copy of its newest root, which nobody reads.
// They keep the file that they have open. The lock of the database must be held.
func Copy(fsys *vfs.FS, name string) (err error) {
	tmp := "tmp/" + path.Base(name) + ".copy"
	if err := fsys.Mkdir(path.Dir(tmp)); err != nil {
		return err
	}
	if err := discard(fsys, tmp); err != nil {
		return err
	}
	if err := copyRoot(fsys, name, fsys, tmp); err != nil {
		return err
	}
	if err := fsys.Rename(tmp, name); err != nil {
		return errors.Join(err, discard(fsys, tmp))
	}
	return fsys.SyncDir(path.Dir(name))
}

// CopyTo copies the newest root of a file that other processes use to a new file of that name in
// another directory. The process that writes the file may end a commit during that, but begin none.
// Pages of the copy are verified, records are not.
func CopyTo(from *vfs.FS, name string, to *vfs.FS) error { return copyRoot(from, name, to, name) }

func copyRoot(from *vfs.FS, name string, to *vfs.FS, as string) (err error) {
	s, err := Open(from, name, Options{ReadOnly: true, Shared: true, Trusted: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.copyTo(context.Background(), to, as, false)
}

// Newest reports whether the newest root of the file of that name is the one that this store was
// opened with: neither another file nor another commit has taken its place.
func (s *Store) Newest() (bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.bolt == nil {
		return false, errClosed
	}
	f, err := s.fs.Open(s.name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return false, err
	}
	there, newest, err := boltcheck.Roots(f, size)
	if err != nil {
		return false, damage(s.name, err)
	}
	here, own, err := s.roots()
	if err != nil {
		return false, err
	}
	return there[newest].Sum == here[own].Sum, nil
}
