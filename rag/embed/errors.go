package embed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// The kinds of errors.
var (
	// ErrInvalidResponse is returned when an answer cannot be understood or
	// contradicts the question: cut off, too large, another number of vectors, a
	// component that is not a number.
	ErrInvalidResponse = errors.New("invalid response")

	// ErrRateLimited is returned when the provider asks for fewer requests.
	ErrRateLimited = errors.New("rate limited")

	// ErrTimeout is returned when the answer took too long. If that was the
	// deadline of the caller's context, the error matches
	// context.DeadlineExceeded, too.
	ErrTimeout = errors.New("timeout")

	// ErrProvider is returned when the provider answers with an error.
	ErrProvider = errors.New("provider error")

	// ErrOther is returned for everything else: no connection, no such file, a
	// context that was cancelled.
	ErrOther = errors.New("embedding failed")

	// ErrProviderNotFound is returned for a Config whose provider is unknown.
	ErrProviderNotFound = errors.New("provider not found")

	// ErrConfig is returned for a Config that is invalid. Nothing was opened.
	ErrConfig = errors.New("invalid configuration")

	// ErrConfigMismatch is matched by a *MismatchError.
	ErrConfigMismatch = errors.New("configuration mismatch")

	// ErrDimension is matched by a *DimensionError.
	ErrDimension = errors.New("dimension mismatch")

	// ErrBatchSize is matched by a *BatchSizeError.
	ErrBatchSize = errors.New("batch size exceeded")
)

// An Error is the failure of an embedder. errors.Is finds its kind.
type Error struct {
	Kind     error // one of the Err values
	Provider string
	Model    string

	// What the provider said, if it did.
	Status     int           // of HTTP
	Code       string        // its own name of the error
	RetryAfter time.Duration // how long to wait before the next request

	Err error // the cause; it holds no secret

	plain bool // the provider said it in something else than JSON
}

// Error names the provider, the model, the kind of the error and what caused it.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "embed: %s", e.Provider)
	if e.Model != "" {
		fmt.Fprintf(&b, " %q", e.Model)
	}
	fmt.Fprintf(&b, ": %v", e.Kind)
	if e.Status != 0 {
		fmt.Fprintf(&b, ": status %d", e.Status)
	}
	if e.Code != "" {
		fmt.Fprintf(&b, " (%s)", e.Code)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, "; retry after %v", e.RetryAfter)
	}
	return b.String()
}

// Is reports whether target is the kind of e.
func (e *Error) Is(target error) bool { return target == e.Kind }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Temporary reports whether err may go away when the same texts are sent
// again: the provider limits the rate, took too long, failed within, or the
// connection broke. It does not if the quota is used up, or if the caller's
// context ended.
func Temporary(err error) bool {
	var e *Error
	if !errors.As(err, &e) || errors.Is(err, context.Canceled) {
		return false
	}
	switch e.Kind {
	case ErrRateLimited:
		return e.Code != "insufficient_quota"
	case ErrTimeout:
		return true
	case ErrProvider:
		return e.Status >= 500 && e.Status != 501
	}
	return errors.Is(err, errConnection)
}

// contextKind returns the kind of the error of a context that ended.
func contextKind(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return ErrTimeout
	}
	return ErrOther
}

// errConnection is matched by errors of a connection that broke.
var errConnection = errors.New("connection failed")

// A DimensionError says that a vector has the wrong number of components. It
// matches ErrDimension.
type DimensionError struct{ Expected, Got int }

// Error names both dimensions.
func (e *DimensionError) Error() string {
	return fmt.Sprintf("%v: expected %d, got %d", ErrDimension, e.Expected, e.Got)
}

// Is reports whether target is ErrDimension.
func (e *DimensionError) Is(target error) bool { return target == ErrDimension }

// A BatchSizeError says that there are more texts than the provider takes at
// once; Batches splits them. It matches ErrBatchSize.
type BatchSizeError struct{ Size, Max int }

// Error names the size of the batch and the limit.
func (e *BatchSizeError) Error() string {
	return fmt.Sprintf("%v: %d texts, at most %d", ErrBatchSize, e.Size, e.Max)
}

// Is reports whether target is ErrBatchSize.
func (e *BatchSizeError) Is(target error) bool { return target == ErrBatchSize }

// A MismatchError says that vectors of two configurations cannot be compared.
// It matches ErrConfigMismatch.
type MismatchError struct{ Expected, Found Config }

// Error names both configurations.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("embed: %v: expected %v, found %v", ErrConfigMismatch, e.Expected, e.Found)
}

// Is reports whether target is ErrConfigMismatch.
func (e *MismatchError) Is(target error) bool { return target == ErrConfigMismatch }
