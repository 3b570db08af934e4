package meta

import (
	"errors"
	"fmt"

	"github.com/vecbolt/vecbolt/internal/boltcheck"
)

var (
	// ErrChecksum is wrapped when a value does not match its checksum.
	ErrChecksum = errors.New("checksum mismatch")
	// ErrVersion is wrapped when a later release wrote the file.
	ErrVersion = errors.New("unknown format version")
	// ErrFormat is wrapped when the checksums hold, if there are any, and the content is impossible nevertheless.
	ErrFormat = errors.New("invalid value")
	// ErrClosed is returned by every call after Close.
	ErrClosed = errors.New("meta: closed")
	// ErrReadOnly is returned by changes of a store opened read-only, or inside View.
	ErrReadOnly = errors.New("meta: read-only")
	// ErrNoCollection is returned by changes of a collection that does not exist.
	ErrNoCollection = errors.New("meta: no such collection")
	// ErrTooLong is returned by PutID and PutHistory for an id that is empty or longer than MaxID.
	ErrTooLong = errors.New("meta: id too long or empty")
)

// CorruptError says where the file is damaged.
type CorruptError struct {
	File   string // as given to Open
	Offset int64  // of the damage; -1 where only bucket and key are known, which Err then names
	Err    error
}

// Error names the file, and the offset if it is known.
func (e *CorruptError) Error() string {
	if e.Offset < 0 {
		return fmt.Sprintf("meta: corrupt file %q: %v", e.File, e.Err)
	}
	return fmt.Sprintf("meta: corrupt file %q at offset %d: %v", e.File, e.Offset, e.Err)
}

// Unwrap returns Err.
func (e *CorruptError) Unwrap() error { return e.Err }

// corrupt returns a CorruptError without an offset.
func (s *Store) corrupt(format string, args ...any) error {
	return &CorruptError{s.name, -1, fmt.Errorf(format, args...)}
}

// damage makes errors of boltcheck ours. Other errors, of reading, only get the name of the file.
func damage(name string, err error) error {
	var bad *boltcheck.Error
	if errors.As(err, &bad) {
		return &CorruptError{name, bad.Offset, err}
	}
	if err != nil {
		return fmt.Errorf("meta: %s: %w", name, err)
	}
	return nil
}
