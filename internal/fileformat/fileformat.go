// Package fileformat holds the errors that all file formats of a database share: which bytes are
// damaged, or why a file does not fit its reader.
//
// Its inputs are the name of a file, an offset and a reason. It never reads a file, and knows no
// format.
package fileformat

import (
	"errors"
	"fmt"
)

var (
	// ErrCorrupt is matched by every CorruptError.
	ErrCorrupt = errors.New("corrupt")
	// ErrDamaged is wrapped by decoders, which know no file name, for bytes that cannot be right.
	// It is not ErrCorrupt, so that callers can distinguish damage in the decoded bytes from a
	// CorruptError of another file that the decoder read.
	ErrDamaged = errors.New("damaged")
	// ErrChecksum is wrapped when bytes do not match their checksum.
	ErrChecksum = errors.New("checksum mismatch")
	// ErrFormat is wrapped when checksums match, but the values are impossible.
	ErrFormat = errors.New("invalid value")
	// ErrVersion is wrapped when a later release wrote the file. Its bytes are intact.
	ErrVersion = errors.New("unsupported format version")
	// ErrMismatch is wrapped when an intact file belongs to another database, segment or text
	// analysis.
	ErrMismatch = errors.New("file of another owner")
)

// A CorruptError locates damage in a file. It matches ErrCorrupt. Err wraps one of the errors
// above, or an I/O error.
type CorruptError struct {
	File   string // relative to the database directory
	Offset int64  // in bytes; -1 when it is not known
	Err    error
}

// Error names the file, the offset if it is known, and the damage.
func (e *CorruptError) Error() string {
	if e.Offset < 0 {
		return fmt.Sprintf("corrupt file %s: %v", e.File, e.Err)
	}
	return fmt.Sprintf("corrupt file %s at offset %d: %v", e.File, e.Offset, e.Err)
}

// Unwrap returns Err.
func (e *CorruptError) Unwrap() error { return e.Err }

// Is reports whether target is ErrCorrupt. An error that wraps ErrVersion does not match, because a
// file of a later release is intact.
func (e *CorruptError) Is(target error) bool {
	return target == ErrCorrupt && !errors.Is(e.Err, ErrVersion)
}
