// Package rest holds the parts that all HTTP interfaces of a database share: the status of an error
// and the message a client may read, bodies within limits, and the permissions of a request.
package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/docjson"
	"github.com/vecbolt/vecbolt/internal/errtext"
)

// ChromaField is the field of the metadata of a collection in which server/chroma keeps its id.
const ChromaField = "chroma:collection"

// StatusClientClosed is the logged status of a request whose client has disconnected.
const StatusClientClosed = 499

// An Error is a response with its own status and a message that the client gets verbatim.
type Error struct {
	Status  int
	Message string
	// For a name that does not exist: the first names that do, and the nearest one.
	Existing []string
	Nearest  string
}

func (e *Error) Error() string { return e.Message }

// Because returns an error of the server, as clients are told of it, with its cause for the log.
func Because(told, cause error) error {
	if status := Status(told); status >= 500 && told != cause {
		return fmt.Errorf("%w: %w", Errorf(status, "%s", Message(told)), cause)
	}
	return told
}

// ModelFailed returns the error for the model of a collection that makes no vectors. A wrong
// configuration is an error of this server, which the same request meets again.
func ModelFailed(misconfigured bool) error {
	if misconfigured {
		return Errorf(http.StatusInternalServerError, "the model of the collection is not configured correctly")
	}
	return Errorf(http.StatusBadGateway, "the model of the collection failed")
}

// Errorf returns an *Error.
func Errorf(status int, format string, args ...any) error {
	return &Error{Status: status, Message: fmt.Sprintf(format, args...)}
}

// Missing returns the error for a field that a body must have, or must not leave empty. Errors of
// fields that need more words begin in the same way.
func Missing(key string) error { return Errorf(http.StatusBadRequest, "'%s' is required", key) }

// mostNames is the number of existing names in an answer.
const mostNames = 20

// A Failure is the body of an answer to a request that failed.
type Failure struct {
	Error string `json:"error"`
	// For a name that does not exist: the first names that do, and the nearest one where it is
	// plain.
	Existing []string `json:"existing,omitempty"`
	Nearest  string   `json:"nearest,omitempty"`
}

// Unknown returns the error for a name that does not exist; the answer lists the existing ones.
func Unknown(status int, message, name string, existing []string) error {
	existing = slices.Sorted(slices.Values(existing))
	return &Error{Status: status, Message: message, Nearest: errtext.Nearest(name, existing),
		Existing: existing[:min(len(existing), mostNames)]}
}

// Failed returns the answer for an error.
func Failed(err error) Failure {
	f := Failure{Error: Message(err)}
	var own *Error
	if errors.As(err, &own) {
		f.Existing, f.Nearest = own.Existing, own.Nearest
	}
	return f
}

// Status returns the HTTP status of an error of the database, a filter or a body.
func Status(err error) int {
	var (
		own   *Error
		where *filter.SyntaxError
		large *http.MaxBytesError
		is    = func(target error) bool { return errors.Is(err, target) }
	)
	switch {
	case errors.As(err, &own):
		return own.Status
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge
	case is(os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout
	case is(db.ErrCorrupt), is(db.ErrVersion): // before the errors they may wrap
		return http.StatusInternalServerError
	case is(db.ErrNoSpace):
		return http.StatusInsufficientStorage
	case is(db.ErrUnknown): // before the deadline that it may wrap
		return http.StatusGatewayTimeout
	case is(db.ErrClosed), is(db.ErrLocked), is(context.DeadlineExceeded):
		return http.StatusServiceUnavailable
	case is(context.Canceled):
		return StatusClientClosed
	case is(db.ErrNotFound):
		return http.StatusNotFound
	case is(db.ErrExists), is(db.ErrSchema):
		return http.StatusConflict
	case is(db.ErrReadOnly):
		return http.StatusForbidden
	case errors.As(err, &where), is(db.ErrInvalid), is(db.ErrDimensionMismatch), is(docjson.ErrFormat),
		is(docjson.ErrNotFinite), is(io.ErrUnexpectedEOF):
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// Message returns the message of an error for the client. Internal errors are named but not
// described: their details may hold paths and belong in the log.
func Message(err error) string {
	var own *Error
	if errors.As(err, &own) {
		return own.Message
	}
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return fmt.Sprintf("request body is larger than %d bytes", large.Limit)
	}
	if status := Status(err); status >= 500 || status == http.StatusRequestTimeout {
		for _, known := range []error{db.ErrNoSpace, db.ErrUnknown, db.ErrCorrupt, db.ErrVersion,
			db.ErrClosed, db.ErrLocked} {
			if errors.Is(err, known) {
				return known.Error()
			}
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return "the request took longer than it may"
		}
		return strings.ToLower(http.StatusText(status))
	}
	return errtext.Plain(err.Error())
}

// JSON responds with v as JSON.
func JSON(w http.ResponseWriter, status int, v any) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil { // a bug in the server: it built v itself
		panic(fmt.Sprintf("rest: answer: %v", err))
	}
	Bytes(w, status, body.Bytes())
}

// Bytes responds with a body that is JSON already.
func Bytes(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", fmt.Sprint(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a failed write means that the client is gone
}

// Body reads the body of a request, JSON of at most limit bytes that must arrive in time.
func Body(w http.ResponseWriter, r *http.Request, limit int64, within time.Duration) ([]byte, error) {
	if err := ContentType(r, "application/json"); err != nil {
		return nil, err
	}
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	// Some ResponseWriters do not support deadlines; they have no connection that needs one.
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(within))
	var body []byte
	var err error
	in := http.MaxBytesReader(w, r.Body, limit)
	if r.ContentLength > 0 && r.ContentLength <= 1<<20 {
		body = make([]byte, r.ContentLength)
		_, err = io.ReadFull(in, body)
	} else {
		body, err = io.ReadAll(in)
	}
	if err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if Status(err) == http.StatusInternalServerError {
			err = Errorf(http.StatusBadRequest, "request body cannot be read")
		}
		return nil, err
	}
	_ = c.SetReadDeadline(time.Time{}) // otherwise it would end the request during its work
	if err := Reserve(r.Context(), docjson.Footprint(body)); err != nil {
		return nil, err
	}
	return body, nil
}

// ContentType returns an error if the request declares a body of a type other than the given ones,
// or a compressed body. A missing declaration is accepted.
func ContentType(r *http.Request, types ...string) error {
	for _, e := range r.Header.Values("Content-Encoding") {
		if e != "" && e != "identity" {
			return Errorf(http.StatusUnsupportedMediaType, "content encoding %q is not supported", e)
		}
	}
	given := r.Header.Get("Content-Type")
	if given == "" {
		return nil
	}
	media, _, err := mime.ParseMediaType(given)
	for _, t := range types {
		if err == nil && media == t {
			return nil
		}
	}
	return Errorf(http.StatusUnsupportedMediaType, "content type %q is not supported; send %s", given,
		strings.Join(types, " or "))
}

type mayWrite struct{}

// WithAccess returns a context for a request that may write or not.
func WithAccess(ctx context.Context, write bool) context.Context {
	return context.WithValue(ctx, mayWrite{}, write)
}

// MayWrite reports whether a request may write. The server has decided so, by the token and its
// configuration; a request that did not come through the server may not write.
func MayWrite(ctx context.Context) bool {
	write, _ := ctx.Value(mayWrite{}).(bool)
	return write
}

// Denied reports whether the server that a request came through has decided that it may not write.
func Denied(ctx context.Context) bool {
	write, decided := ctx.Value(mayWrite{}).(bool)
	return decided && !write
}

type report struct{}

// WithReport returns a context for a request whose error is passed to fn, with that context.
func WithReport(ctx context.Context, fn func(context.Context, error)) context.Context {
	return context.WithValue(ctx, report{}, fn)
}

// Report passes the error of a request to the log of the server that it came through, if any.
func Report(ctx context.Context, err error) {
	if fn, ok := ctx.Value(report{}).(func(context.Context, error)); ok {
		fn(ctx, err)
	}
}

type memory struct{}

// WithMemory returns a context for a request that reserves memory through reserve.
func WithMemory(ctx context.Context, reserve func(bytes int64) error) context.Context {
	return context.WithValue(ctx, memory{}, reserve)
}

// Reserve counts memory that a request is about to use until it ends. It returns an error if too
// little is left. A request that did not come through the server is not limited.
func Reserve(ctx context.Context, bytes int64) error {
	if reserve, ok := ctx.Value(memory{}).(func(int64) error); ok {
		return reserve(bytes)
	}
	return nil
}
