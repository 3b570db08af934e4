package docjson

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrFormat is matched by every *FormatError and *VectorError: the input violates its format.
	ErrFormat = errors.New("malformed input")

	// ErrNotFinite is wrapped by the error for a vector that holds NaN, an infinity, or a number
	// beyond the range of float32.
	ErrNotFinite = errors.New("not a finite float32")
)

// A FormatError locates a violation of an input format.
type FormatError struct {
	Name   string // of the file, may be empty
	Line   int64  // from 1; 0 in formats without lines
	Offset int64  // in bytes, from the start of the line or, without lines, of the file
	Err    error
}

// Error returns the file name, the position and the violation.
func (e *FormatError) Error() string {
	var s strings.Builder
	if e.Name != "" {
		s.WriteString(e.Name + ": ")
	}
	_, says := errors.AsType[*VectorError](e.Err) // it has the byte
	switch {
	case e.Line > 0 && says:
		fmt.Fprintf(&s, "line %d: ", e.Line)
	case e.Line > 0:
		fmt.Fprintf(&s, "line %d, byte %d: ", e.Line, e.Offset)
	case !says:
		fmt.Fprintf(&s, "offset %d: ", e.Offset)
	}
	s.WriteString(e.Err.Error())
	return s.String()
}

// Unwrap returns the reason.
func (e *FormatError) Unwrap() error { return e.Err }

// Is reports whether target is ErrFormat.
func (e *FormatError) Is(target error) bool { return target == ErrFormat }

// A VectorError locates an invalid element of a JSON array of numbers.
type VectorError struct {
	Index  int // of the element, from 0
	Offset int // of the offending byte
	Err    error
}

// Error returns the element, its position and the reason.
func (e *VectorError) Error() string {
	return fmt.Sprintf("element %d at byte %d: %v", e.Index, e.Offset, e.Err)
}

// Unwrap returns the reason.
func (e *VectorError) Unwrap() error { return e.Err }

// Is reports whether target is ErrFormat; ErrNotFinite is found by Unwrap.
func (e *VectorError) Is(target error) bool {
	return target == ErrFormat && !errors.Is(e.Err, ErrNotFinite)
}
