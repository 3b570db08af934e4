package db

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// The errors that callers tell apart with errors.Is.
var (
	// ErrClosed is returned by every method of a database, a snapshot or a
	// collection whose database or snapshot has been closed.
	ErrClosed = errors.New("closed")

	// ErrLocked is returned by Open, at once, when another process has the
	// database open in a way that excludes this one.
	ErrLocked = errors.New("locked by another process")

	// ErrReadOnly is returned by writes to a database that was opened
	// read-only and to a collection of a Snapshot.
	ErrReadOnly = errors.New("read-only")

	// ErrNotFound is returned when a database, a collection or a document
	// does not exist.
	ErrNotFound = errors.New("not found")

	// ErrExists is returned by Insert for an id that is taken, and by
	// CreateCollection and Rename for a name that is taken.
	ErrExists = errors.New("already exists")

	// ErrSchema is returned when a collection exists with another metric or embedding
	// lineage than the caller asks for.
	ErrSchema = errors.New("schema mismatch")

	// ErrTextIndex is matched by two errors. A text query in a collection without a text
	// index also matches ErrInvalid; SetText makes the index. A request for a different
	// text index than the collection has also matches ErrSchema; SetText changes the
	// index.
	ErrTextIndex = errors.New("text index")

	// ErrDimensionMismatch is matched by every *DimensionError.
	ErrDimensionMismatch = errors.New("dimension mismatch")

	// ErrInvalid is returned for arguments that break a documented limit or
	// rule. The message names the field or the id, and the reason. Nothing
	// was written.
	ErrInvalid = document.ErrInvalid

	// ErrVersion is returned when the files were written by a newer release.
	ErrVersion = fileformat.ErrVersion

	// ErrNoSpace is returned when the disk is full. The write did not happen;
	// reads go on, and writes succeed again once there is room.
	ErrNoSpace = errors.New("no space left on device")

	// ErrUnknown is returned when the disk failed while a write was being made durable:
	// the next Open decides whether the write survives. Until then the database answers
	// reads and refuses writes.
	ErrUnknown = errors.New("write outcome unknown, reopen the database")

	// ErrCorrupt is matched by every *CorruptError.
	ErrCorrupt = fileformat.ErrCorrupt
)

// A CorruptError locates damaged bytes on disk: File is relative to the database
// directory, Offset is in bytes, or -1 if unknown. It matches ErrCorrupt and wraps Err,
// which describes the damage.
type CorruptError = fileformat.CorruptError

// A DimensionError says that a vector does not have the dimension of its
// collection. It matches ErrDimensionMismatch.
type DimensionError struct {
	Collection string
	ID         string // of the document; empty for queries and schemas
	Expected   int
	Got        int
}

// Error names the collection, both dimensions and the document.
func (e *DimensionError) Error() string {
	s := fmt.Sprintf("dimension mismatch in collection %q: expected %d, got %d", e.Collection, e.Expected, e.Got)
	if e.ID != "" {
		s += fmt.Sprintf(" (document %q)", e.ID)
	}
	return s
}

// Is reports whether target is ErrDimensionMismatch.
func (e *DimensionError) Is(target error) bool { return target == ErrDimensionMismatch }

// invalidf builds an error that matches ErrInvalid.
func invalidf(format string, args ...any) error {
	return document.Invalidf(format, args...)
}

// A textIndexError matches ErrTextIndex in addition to its cause.
type textIndexError struct{ error }

func (e textIndexError) Is(target error) bool { return target == ErrTextIndex }
func (e textIndexError) Unwrap() error        { return e.error }

// noSpace reports whether the disk is full or a quota is used up.
func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// translate turns errors of lower packages into public errors, once, at the boundary of
// db.
func translate(err error) error {
	var (
		fault *vfs.FaultError
		own   *CorruptError
	)
	switch {
	case err == nil || errors.As(err, &own) || errors.Is(err, ErrVersion):
		return err
	case errors.As(err, &fault):
		return &CorruptError{File: fault.Name, Offset: -1, Err: err}
	case errors.Is(err, vfs.ErrLocked):
		return fmt.Errorf("%w: %w", ErrLocked, err)
	case noSpace(err):
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return err
}
