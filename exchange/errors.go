package exchange

import (
	"errors"

	"github.com/vecbolt/vecbolt/internal/docjson"
)

var (
	// ErrFormat is matched by every *FormatError: the input violates its format.
	ErrFormat = docjson.ErrFormat

	// ErrNotFinite is wrapped by the error for a vector that holds NaN, an infinity, or a number
	// beyond the range of float32.
	ErrNotFinite = docjson.ErrNotFinite

	// ErrIgnored is the Skip of a file that does not belong to the source, such as a database in a
	// cache directory.
	ErrIgnored = errors.New("not a cache entry")
)

// A FormatError locates a violation of an input format. Name is the file and may be empty. Line
// counts from 1 and is 0 in formats without lines. Offset is in bytes, from the start of the line
// or, without lines, of the file. It matches ErrFormat and wraps the reason.
type FormatError = docjson.FormatError

// locate names the file and the line of an error of docjson.
func locate(err error, name string, line int64) error {
	if f, ok := errors.AsType[*FormatError](err); ok {
		f.Name, f.Line = name, line
	}
	return err
}
