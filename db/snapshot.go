package db

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/vecbolt/vecbolt/internal/engine"
)

// A Snapshot is the whole database at one moment, in every collection: all of
// each batch or none of it. It blocks nobody, and keeps the files and documents
// that it needs until Close. Its methods are safe for concurrent use.
type Snapshot struct {
	db  *DB
	ver *engine.Version

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup
}

// Snapshot returns a snapshot of the newest version. It must be closed.
func (db *DB) Snapshot() (*Snapshot, error) {
	ver, err := db.engine.Acquire(context.Background())
	if err != nil {
		return nil, fmt.Errorf("db: snapshot: %w", err)
	}
	defer db.engine.End()
	return &Snapshot{db: db, ver: ver}, nil
}

// Batch returns the number of the last batch in the snapshot. Batches are
// numbered from 1 in the order in which they took effect.
func (s *Snapshot) Batch() uint64 { return s.ver.LSN }

// Collection returns a collection as it was; ErrNotFound if it did not exist.
// The collection fails with ErrClosed once the snapshot is closed, and refuses
// writes with ErrReadOnly.
func (s *Snapshot) Collection(name string) (*Collection, error) {
	ver, done, err := s.open()
	if err != nil {
		return nil, fmt.Errorf("db: snapshot: %w", err)
	}
	defer done()
	id, ok := ver.Names[name]
	if !ok {
		return nil, fmt.Errorf("db: snapshot: %w", engine.Missing(name, ver.Names))
	}
	return &Collection{db: s.db, id: id, snap: s}, nil
}

// Of returns a collection as it was, whatever names it has had; ErrNotFound if it did not exist.
// What Collection says applies.
func (s *Snapshot) Of(c *Collection) (*Collection, error) {
	ver, done, err := s.open()
	if err != nil {
		return nil, fmt.Errorf("db: snapshot: %w", err)
	}
	defer done()
	if c == nil {
		return nil, fmt.Errorf("db: snapshot: %w", invalidf("no collection is given"))
	}
	if c.db != s.db {
		return nil, fmt.Errorf("db: snapshot: %w", invalidf("the collection is of another database"))
	}
	if ver.Views[c.id] == nil {
		return nil, fmt.Errorf("db: snapshot: %w: the collection", ErrNotFound)
	}
	return &Collection{db: s.db, id: c.id, snap: s}, nil
}

// Snapshot returns the collection as it is now, from a snapshot that end closes. It is for answers
// made of several reads that must not mix states. A collection of a snapshot returns itself.
func (c *Collection) Snapshot() (then *Collection, end func() error, err error) {
	if c.snap != nil {
		return c, func() error { return nil }, nil
	}
	s, err := c.db.Snapshot()
	if err != nil {
		return nil, nil, err
	}
	if then, err = s.Of(c); err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return then, s.Close, nil
}

// Collections describes every collection, in order of name.
func (s *Snapshot) Collections() ([]CollectionInfo, error) {
	ver, done, err := s.open()
	if err != nil {
		return nil, fmt.Errorf("db: snapshot: %w", err)
	}
	defer done()
	return infosOf(ver), nil
}

// open begins a call.
func (s *Snapshot) open() (*engine.Version, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, ErrClosed
	}
	if err := s.db.engine.Begin(); err != nil {
		return nil, nil, err
	}
	s.calls.Add(1)
	return s.ver, func() { s.db.engine.End(); s.calls.Done() }, nil
}

// Close releases the files and documents of the snapshot. It waits for running
// calls. Closing twice is fine.
func (s *Snapshot) Close() error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock() // a call that fails asks for the name of its collection
	s.calls.Wait()
	if !closed {
		s.db.engine.Drop(s.ver)
	}
	return nil
}
