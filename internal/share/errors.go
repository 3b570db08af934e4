package share

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// errNotLeader refuses a request before anything was done: the process does not lead, or no longer.
// Ask the next leader.
var errNotLeader = errors.New("this process does not lead the database")

// ErrStopped is the error of a call that has waited for a leader which is stopped, where this
// process cannot take its place.
var ErrStopped = fmt.Errorf("%w that is stopped", engine.ErrLocked)

// sentinels are the errors that are matched in the other process as in this one. The place of an
// error is its bit in the protocol: a new one goes to the end.
var sentinels = [...]error{
	engine.ErrClosed,
	engine.ErrLocked,
	engine.ErrReadOnly,
	engine.ErrNotFound,
	engine.ErrExists,
	engine.ErrSchema,
	engine.ErrTextIndex,
	engine.ErrDimensionMismatch,
	engine.ErrNoSpace,
	engine.ErrUnknown,
	engine.ErrDerived,
	document.ErrInvalid,
	fileformat.ErrCorrupt,
	fileformat.ErrDamaged,
	fileformat.ErrChecksum,
	fileformat.ErrFormat,
	fileformat.ErrVersion,
	fileformat.ErrMismatch,
	context.Canceled,
	context.DeadlineExceeded,
	fs.ErrNotExist,
	fs.ErrPermission,
	syscall.ENOSPC,
	syscall.EDQUOT,
	syscall.EIO,
	errNotLeader,
	errTooLarge,
}

// A remoteError is an error of another process. It has the same text and matches the same errors.
type remoteError struct {
	text    string
	matches []error // sentinels, *engine.DimensionError, *fileformat.CorruptError
}

func (e *remoteError) Error() string   { return e.text }
func (e *remoteError) Unwrap() []error { return e.matches }

// encodeError appends err: its text, the sentinels that it matches, and the fields of the first
// DimensionError and CorruptError in it. depth counts the errors around it.
func encodeError(e *codec.Encoder, err error, depth int) {
	e.String(cut(err.Error(), maxErrorText))
	bits := uint64(0)
	for i, s := range sentinels {
		if errors.Is(err, s) {
			bits |= 1 << i
		}
	}
	e.U64(bits)
	var (
		dim     *engine.DimensionError
		corrupt *fileformat.CorruptError
		flags   uint8
	)
	if depth < maxNesting {
		if errors.As(err, &dim) && dim.Expected >= 0 && dim.Got >= 0 {
			flags |= flagDimension
		}
		if errors.As(err, &corrupt) {
			flags |= flagCorrupt
		}
	}
	e.U8(flags)
	if flags&flagDimension != 0 {
		e.String(cut(dim.Collection, maxErrorText))
		e.String(cut(dim.ID, maxErrorText))
		e.Uvarint(uint64(dim.Expected))
		e.Uvarint(uint64(dim.Got))
	}
	if flags&flagCorrupt != 0 {
		e.String(cut(corrupt.File, maxErrorText))
		e.U64(uint64(corrupt.Offset))
		encodeBool(e, corrupt.Err != nil)
		if corrupt.Err != nil {
			encodeError(e, corrupt.Err, depth+1)
		}
	}
}

// decodeError is the inverse. An error that is nothing but one of the known errors is that one.
func decodeError(d *codec.Decoder, depth int) error {
	e := &remoteError{text: decodeText(d)}
	bits, flags := d.U64(), d.U8()
	if bits>>len(sentinels) != 0 || flags&^(flagDimension|flagCorrupt) != 0 || flags != 0 && depth >= maxNesting {
		d.Fail(fmt.Errorf("error of kind %#x, %#x", bits, flags))
	}
	if d.Err() != nil {
		return nil
	}
	if flags&flagDimension != 0 {
		dim := &engine.DimensionError{Collection: decodeText(d), ID: decodeText(d)}
		dim.Expected, dim.Got = decodeInt(d), decodeInt(d)
		e.matches = append(e.matches, dim)
	}
	if flags&flagCorrupt != 0 {
		corrupt := &fileformat.CorruptError{File: decodeText(d), Offset: int64(d.U64())}
		if decodeBool(d) {
			corrupt.Err = decodeError(d, depth+1)
		}
		e.matches = append(e.matches, corrupt)
	}
	if d.Err() != nil {
		return nil
	}
	for i, s := range sentinels {
		if bits&(1<<i) == 0 {
			continue
		}
		if !e.is(s) {
			e.matches = append(e.matches, s)
		}
	}
	if len(e.matches) == 1 && e.matches[0].Error() == e.text {
		return e.matches[0]
	}
	return e
}

func (e *remoteError) is(target error) bool {
	for _, m := range e.matches {
		if errors.Is(m, target) {
			return true
		}
	}
	return false
}

// cut returns the beginning of s, in max bytes at most, that ends with a whole character.
func cut(s string, max int) string {
	if len(s) <= max {
		return s
	}
	for max > 0 && !utf8.RuneStart(s[max]) {
		max--
	}
	return strings.Clone(s[:max])
}

func decodeText(d *codec.Decoder) string {
	s := d.Bytes()
	if len(s) > maxErrorText {
		d.Fail(fmt.Errorf("text of %d bytes, the limit is %d", len(s), maxErrorText))
		return ""
	}
	return string(s)
}

// decodeInt reads a uvarint within the range of int.
func decodeInt(d *codec.Decoder) int {
	v := d.Uvarint()
	if v > math.MaxInt {
		d.Fail(fmt.Errorf("number %d", v))
		return 0
	}
	return int(v)
}

func encodeBool(e *codec.Encoder, v bool) {
	if v {
		e.U8(1)
	} else {
		e.U8(0)
	}
}

func decodeBool(d *codec.Decoder) bool {
	v := d.U8()
	if v > 1 {
		d.Fail(fmt.Errorf("boolean %d", v))
	}
	return v == 1
}
