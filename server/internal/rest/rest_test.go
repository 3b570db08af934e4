package rest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/docjson"
	"github.com/vecbolt/vecbolt/server/internal/rest"
)

func TestErrors(t *testing.T) {
	_, where := filter.Parse([]byte(`{"a":{"$x":1}}`))
	_, vector := docjson.ParseVector(nil, []byte("[1e39]"))
	path := &fs.PathError{Op: "write", Path: "/home/ann/notes.vdb/wal", Err: errors.New("full")}
	for _, tt := range []struct {
		err     error
		status  int
		message string
	}{
		{rest.Errorf(418, "I am %s", "a teapot"), 418, "I am a teapot"},
		{fmt.Errorf("documents: %w", rest.Errorf(400, "to the letter")), 400, "to the letter"},
		{fmt.Errorf("db: get: %w: document %q", db.ErrNotFound, "x"), 404, `get: not found: document "x"`},
		{fmt.Errorf("db: %w", db.ErrExists), 409, "already exists"},
		{db.ErrSchema, 409, "schema mismatch"},
		{&db.DimensionError{Collection: "c", Expected: 2, Got: 3}, 400, `dimension mismatch in collection "c": expected 2, got 3`},
		{where, 400, strings.TrimPrefix(where.Error(), "filter: ")},
		{vector, 400, vector.Error()},
		{&docjson.FormatError{Offset: 3, Err: io.ErrUnexpectedEOF}, 400, "offset 3: unexpected EOF"},
		{db.ErrReadOnly, 403, "read-only"},
		{&http.MaxBytesError{Limit: 7}, 413, "request body is larger than 7 bytes"},
		{os.ErrDeadlineExceeded, 408, "request timeout"},
		{context.Canceled, rest.StatusClientClosed, "context canceled"},
		// Internal errors are named, and their paths stay in the log.
		{fmt.Errorf("%w: %w", db.ErrNoSpace, path), 507, "no space left on device"},
		{fmt.Errorf("%w: %w", db.ErrUnknown, path), 504, "write outcome unknown"},
		{fmt.Errorf("%w: %w", db.ErrUnknown, context.DeadlineExceeded), 504, "write outcome unknown"},
		{&db.CorruptError{File: "meta.bolt", Err: fmt.Errorf("%w: %w", db.ErrNotFound, path)}, 500, "corrupt"},
		{fmt.Errorf("db: search: %w", db.ErrClosed), 503, "closed"},
		{context.DeadlineExceeded, 503, "the request took longer than it may"},
		{path, 500, "internal server error"},
	} {
		if got := rest.Status(tt.err); got != tt.status {
			t.Errorf("%v: status %d, want %d", tt.err, got, tt.status)
		}
		if got := rest.Message(tt.err); got != tt.message {
			t.Errorf("%v: message %q, want %q", tt.err, got, tt.message)
		}
	}
}

func TestBody(t *testing.T) {
	for _, tt := range []struct {
		body, media string
		encodings   []string
		length      int64
		want        string
		status      int
	}{
		{body: "{}", media: "application/json", length: 2, want: "{}"},
		{body: "{}", media: "application/json; charset=utf-8", length: -1, want: "{}"},
		{body: "", length: 0},
		{body: "12345678", length: 8, want: "12345678"},
		{body: "123456789", length: 9, status: 413},
		{body: "123456789", length: -1, status: 413},
		{body: "123", length: 4, status: 400},
		{body: "{}", media: "text/plain", length: 2, status: 415},
		{body: "{}", media: "a/b/c", length: 2, status: 415},
		{body: "{}", encodings: []string{"identity"}, length: 2, want: "{}"},
		{body: "{}", encodings: []string{"gzip"}, length: 2, status: 415},
		{body: "{}", encodings: []string{"identity", "gzip"}, length: 2, status: 415},
	} {
		r := httptest.NewRequest("POST", "/", strings.NewReader(tt.body))
		r.ContentLength = tt.length
		r.Header.Set("Content-Type", tt.media)
		r.Header["Content-Encoding"] = tt.encodings
		got, err := rest.Body(httptest.NewRecorder(), r, 8, time.Minute)
		if tt.status == 0 && (err != nil || string(got) != tt.want) || tt.status != 0 && (err == nil || rest.Status(err) != tt.status) {
			t.Errorf("%+v: %q, %v", tt, got, err)
		}
	}
}

func TestAccess(t *testing.T) {
	ctx := t.Context()
	if rest.MayWrite(ctx) || rest.MayWrite(rest.WithAccess(ctx, false)) || !rest.MayWrite(rest.WithAccess(ctx, true)) {
		t.Error("a request may write if and only if the server has said so")
	}
	if rest.Denied(ctx) || !rest.Denied(rest.WithAccess(ctx, false)) || rest.Denied(rest.WithAccess(ctx, true)) {
		t.Error("a request is denied writes if and only if the server has said so")
	}
}
