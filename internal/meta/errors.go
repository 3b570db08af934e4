package meta

import (
	"errors"
	"fmt"

	"github.com/vecbolt/vecbolt/internal/boltcheck"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

var (
	// errClosed is returned by every call after Close.
	errClosed = errors.New("meta: closed")
	// errReadOnly is returned by changes to a store that is open read-only, or inside View.
	errReadOnly = errors.New("meta: read-only")
	// errNoCollection is returned by changes to a collection that does not exist.
	errNoCollection = errors.New("meta: no such collection")
	// errTooLong is returned by PutID and PutHistory for an id that is empty or longer than maxID.
	errTooLong = errors.New("meta: id too long or empty")
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
