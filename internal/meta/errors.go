package meta

import (
	"errors"
	"fmt"

	"github.com/vecbolt/vecbolt/internal/boltcheck"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

var (
	// ErrClosed is returned by every call after Close.
	ErrClosed = errors.New("meta: closed")
	// ErrReadOnly is returned by changes to a store that is open read-only, or inside View.
	ErrReadOnly = errors.New("meta: read-only")
	// ErrNoCollection is returned by changes to a collection that does not exist.
	ErrNoCollection = errors.New("meta: no such collection")
	// ErrTooLong is returned by PutID and PutHistory for an id that is empty or longer than MaxID.
	ErrTooLong = errors.New("meta: id too long or empty")
)

// corrupt returns a fileformat.CorruptError without an offset.
func (s *Store) corrupt(format string, args ...any) error {
	return &fileformat.CorruptError{File: s.name, Offset: -1, Err: fmt.Errorf(format, args...)}
}

// damage converts errors of boltcheck to a CorruptError. I/O errors only get the name of the file.
func damage(name string, err error) error {
	var bad *boltcheck.Error
	if errors.As(err, &bad) {
		return &fileformat.CorruptError{File: name, Offset: bad.Offset, Err: err}
	}
	if err != nil {
		return fmt.Errorf("meta: %s: %w", name, err)
	}
	return nil
}
