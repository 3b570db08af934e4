package db

import (
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// The errors that callers tell apart with errors.Is.
var (
	// ErrClosed is returned by every method of a database, a snapshot or a
	// collection whose database or snapshot has been closed. Writes of a process that
	// follows also return it after the directory was removed, renamed or given another
	// database. Its reads still see the former database. Open the directory again.
	ErrClosed = engine.ErrClosed

	// ErrLocked is returned by Open when another process has the database open in a way
	// that excludes this one: see Options.Exclusive. Calls that only the leading process
	// can run return it in other processes. Calls that wait for the leading process return it
	// after 10 s, if that process is stopped and this one cannot take its place.
	ErrLocked = engine.ErrLocked

	// ErrReadOnly is returned by writes to a database that was opened
	// read-only and to a collection of a Snapshot.
	ErrReadOnly = engine.ErrReadOnly

	// ErrNotFound is returned when a database, a collection or a document
	// does not exist.
	ErrNotFound = engine.ErrNotFound

	// ErrExists is returned by Insert for an id that is taken, and by
	// CreateCollection and Rename for a name that is taken.
	ErrExists = engine.ErrExists

	// ErrSchema is returned when a collection exists with another metric, embedding lineage,
	// text index or index than the caller asks for.
	ErrSchema = engine.ErrSchema

	// ErrTextIndex is returned for a query by text in a collection without a text index,
	// together with ErrInvalid, and when a caller asks for another text index than the
	// collection has, together with ErrSchema. Collection.SetText makes or changes the index.
	ErrTextIndex = engine.ErrTextIndex

	// ErrDimensionMismatch is matched by every *DimensionError.
	ErrDimensionMismatch = engine.ErrDimensionMismatch

	// ErrInvalid is returned for arguments that break a documented limit or
	// rule. The message names the field or the id, and the reason. Nothing
	// was written.
	ErrInvalid = document.ErrInvalid

	// ErrVersion is returned when the files were written by a newer release.
	ErrVersion = fileformat.ErrVersion

	// ErrNoSpace is returned when the disk is full. The write did not happen;
	// reads go on, and writes succeed again once there is room.
	ErrNoSpace = engine.ErrNoSpace

	// ErrUnknown is returned when the outcome of a write is not known, for two reasons.
	// The disk failed while the write was being made durable: the next Open decides whether
	// it survives, and until then the database answers reads and refuses writes. Or the write
	// was on its way to the leading process when that process or the context ended, or when
	// Close had waited for its answer, and no process can tell its outcome: it took effect as
	// a whole or not at all, and a read shows which. The database takes further writes.
	ErrUnknown = engine.ErrUnknown

	// ErrCorrupt is matched by every *CorruptError.
	ErrCorrupt = fileformat.ErrCorrupt
)

// A CorruptError locates damaged bytes on disk: File is relative to the database
// directory, Offset is in bytes, or -1 if unknown. It matches ErrCorrupt and wraps Err,
// which describes the damage.
type CorruptError = fileformat.CorruptError

// A DimensionError says that a vector does not have the dimension of its
// collection. It matches ErrDimensionMismatch.
type DimensionError = engine.DimensionError

// invalidf builds an error that matches ErrInvalid.
func invalidf(format string, args ...any) error {
	return document.Invalidf(format, args...)
}
