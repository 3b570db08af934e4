package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"runtime"
	"slices"
	"syscall"

	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/errtext"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/manifest"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// The errors of an engine, which package db describes to its users.
var (
	ErrClosed            = errors.New("closed")
	ErrLocked            = errors.New("locked by another process")
	ErrFollows           = fmt.Errorf("%w: it leads the database", ErrLocked)
	ErrReadOnly          = errors.New("read-only")
	ErrNotFound          = errors.New("not found")
	ErrExists            = errors.New("already exists")
	ErrSchema            = errors.New("schema mismatch")
	ErrTextIndex         = errors.New("text index")
	ErrDimensionMismatch = errors.New("dimension mismatch")
	ErrNoSpace           = errors.New("no space left on device")
	ErrUnknown           = errors.New("write outcome unknown")
)

// ErrReplaced says that the directory holds another database than the process has opened, or an
// earlier state of it.
var ErrReplaced = fmt.Errorf("%w: the directory was replaced", ErrClosed)

// ErrRemoved says that the directory holds no database any longer, or does not exist.
var ErrRemoved = fmt.Errorf("%w: the database was removed or renamed", ErrClosed)

// NewRemovedError returns ErrRemoved of the database that was opened in dir.
func NewRemovedError(dir string) error {
	return fmt.Errorf("%w: there is none in %q now: open it again", ErrRemoved, dir)
}

// A DimensionError says that a vector does not have the dimension of its collection. It matches
// ErrDimensionMismatch.
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

// A VersionError says why a version of a published folder cannot be taken.
type VersionError struct {
	Number uint64 // of the version
	Err    error
}

// NewVersionError says why a version cannot be opened. If a file is damaged, err then has the name
// of that file in the folder.
func NewVersionError(m *manifest.Manifest, err error) *VersionError {
	if bad := (*fileformat.CorruptError)(nil); errors.As(err, &bad) {
		if f := m.Find(bad.File); f != nil {
			bad.File = f.Path
		}
	}
	return &VersionError{m.Number, err}
}

// Error names the version and the reason.
func (e *VersionError) Error() string { return fmt.Sprintf("version %d: %v", e.Number, e.Err) }

// Unwrap returns Err.
func (e *VersionError) Unwrap() error { return e.Err }

// A textIndexError matches ErrTextIndex in addition to its cause.
type textIndexError struct{ error }

func (e textIndexError) Is(target error) bool { return target == ErrTextIndex }
func (e textIndexError) Unwrap() error        { return e.error }

// noSpace reports whether the disk is full or a quota is used up.
func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// noDescriptor reports whether the process, or the system, could open no further file.
func noDescriptor(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// A callersError is an error of a function or a sequence of the caller.
type callersError struct{ error }

func (e callersError) Unwrap() error { return e.error }

// CallersError marks an error of a function or a sequence of the caller; nil stays nil. It says
// nothing about the database, so Translate leaves it as it is.
func CallersError(err error) error {
	if err == nil {
		return nil
	}
	return callersError{err}
}

// Translate turns errors of lower packages into public errors, once, at the boundary of db.
func Translate(err error) error {
	var (
		fault *vfs.FaultError
		own   *fileformat.CorruptError
		other callersError
	)
	switch {
	case err == nil || errors.As(err, &own) || errors.As(err, &other):
		return err
	case errors.As(err, &fault):
		return &fileformat.CorruptError{File: fault.Name, Offset: -1, Err: err}
	case errors.Is(err, vfs.ErrLocked):
		if !CanShare {
			return fmt.Errorf("%w: %w; on %s processes do not share a database: let one have it open and ask that, "+
				"as with vecbolt serve", ErrLocked, err, runtime.GOOS)
		}
		return errtext.InGo(fmt.Errorf("%w: %w", ErrLocked, err),
			"without Options.Exclusive, processes share a database")
	case errors.Is(err, fileformat.ErrVersion):
		return err
	case noSpace(err):
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return err
}

// NoText is the error of a text query where there is no index.
func NoText(collection string) error {
	return textIndexError{errtext.InGo(document.Invalidf("collection %q has no text index", collection),
		"Schema.Text of a new collection, Collection.SetText of an existing one")}
}

// Missing is the error for a collection that does not exist; names has the ones that do.
func Missing(collection string, names map[string]uint32) error {
	instead := errtext.Instead(collection, slices.Collect(maps.Keys(names)))
	return errtext.InGo(fmt.Errorf("%w: collection %.200q%s", ErrNotFound, collection, instead),
		"DB.OpenCollection creates one")
}
