package embed

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/vecbolt/vecbolt/internal/retry"
)

// Kinds of errors.
var (
	// ErrInvalidResponse is returned when an answer is malformed or does not fit the request: cut
	// off, too large, a wrong number of vectors, or a component that is not a number.
	ErrInvalidResponse = errors.New("invalid response")

	// ErrRateLimited is returned when the provider asks for fewer requests.
	ErrRateLimited = errors.New("rate limited")

	// ErrTimeout is returned when the answer took too long. If the deadline of the caller's context
	// passed, the error also matches context.DeadlineExceeded.
	ErrTimeout = errors.New("timeout")

	// ErrProvider is returned when the provider answers with an error.
	ErrProvider = errors.New("provider error")

	// ErrOther is returned for all other failures: no connection, no such file, a cancelled
	// context.
	ErrOther = errors.New("embedding failed")

	// ErrProviderNotFound is returned for a Config whose provider is unknown.
	ErrProviderNotFound = errors.New("provider not found")

	// ErrConfig is returned for a Config that is invalid. Nothing was opened.
	ErrConfig = errors.New("invalid configuration")

	// ErrMismatch is returned when vectors of two models would be compared: the model that is
	// configured is not the model of the stored vectors. Bases and pinned collections return it
	// too.
	ErrMismatch = errors.New("configuration mismatch")

	// ErrBatchSize is returned for more texts than the provider accepts in one request, before a
	// request is sent. Batches splits them.
	ErrBatchSize = errors.New("batch size exceeded")
)

// An Error is the failure of an embedder. errors.Is finds its kind.
type Error struct {
	Kind     error // one of the Err values
	Provider string
	Model    string

	// The provider's part of the error, if it answered.
	Status     int           // HTTP status
	Code       string        // the provider's error code
	RetryAfter time.Duration // pause that the provider asks for before the next request

	Err error // the cause, without secrets

	plain bool // the answer was not JSON
}

// Error names the provider, the model, the kind of the error and its cause.
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

// Misconfigured reports whether the configuration must change before the embedder can answer: it is
// invalid, its provider is unknown, or the server refuses the key or has no such model or path.
func (e *Error) Misconfigured() bool {
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return true
	}
	return errors.Is(e, ErrConfig) || errors.Is(e, ErrProviderNotFound)
}

// temporary reports whether err may go away when the same texts are sent again, and the pause that
// the provider asks for: it limits the rate, took too long or failed internally, or the connection
// broke. It is false if the quota is used up, the caller's context ended, or the connection fails
// for good.
func temporary(err error) (after time.Duration, ok bool) {
	var e *Error
	if !errors.As(err, &e) || errors.Is(err, context.Canceled) {
		return 0, false
	}
	switch e.Kind {
	case ErrRateLimited:
		ok = e.Code != "insufficient_quota"
	case ErrTimeout:
		ok = true
	case ErrProvider:
		ok = e.Status >= 500 && e.Status != 501
	default:
		ok = errors.Is(err, errConnection) && !retry.Final(err)
	}
	return e.RetryAfter, ok
}

// contextKind returns the kind of error for a context that ended.
func contextKind(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return ErrTimeout
	}
	return ErrOther
}

// errConnection is matched by errors of a broken connection.
var errConnection = errors.New("connection failed")

// A DimensionError reports a vector with the wrong number of components.
type DimensionError struct{ Expected, Got int }

// Error names both dimensions.
func (e *DimensionError) Error() string {
	return fmt.Sprintf("dimension mismatch: expected %d, got %d", e.Expected, e.Got)
}
