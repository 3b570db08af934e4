package server

import (
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/vecbolt/vecbolt/server/internal/rest"
)

// A request collects facts about a request for its log line.
type request struct {
	pattern string // of the route
	err     error  // of the answer
}

type requestKey struct{}

func requestOf(r *http.Request) *request { return r.Context().Value(requestKey{}).(*request) }

// failed notes the error of a request that an extension answers.
func failed(ctx context.Context, err error) { ctx.Value(requestKey{}).(*request).err = err }

// A response records status and size of an answer.
type response struct {
	http.ResponseWriter
	status int
	bytes  int64
	upload *upload       // nil for a request without a body
	within time.Duration // in which the rest of the body must arrive once the answer begins; 0: any
}

func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) begin(status int) {
	w.status = status
	if w.upload != nil && w.within > 0 {
		w.upload.bound(w.within)
	}
}

func (w *response) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.begin(http.StatusOK)
	}
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// done logs and counts an answered request.
func (s *Server) done(r *http.Request, w *response, took time.Duration) {
	q := requestOf(r)
	status := w.status
	if status == 0 {
		status = http.StatusOK
	}
	s.metrics.observe(r.Method, q.pattern, status, took)
	if !s.log.Enabled(r.Context(), slog.LevelInfo) && (q.err == nil || rest.Status(q.err) < 500) {
		return
	}
	args := []any{"method", r.Method, "path", r.URL.Path, "status", status, "bytes", w.bytes, "ms",
		float64(took.Microseconds()) / 1e3,
		"remote", r.RemoteAddr}
	switch {
	case q.err != nil && rest.Status(q.err) >= 500:
		s.log.Error("request failed", append(args, "error", q.err)...)
	case q.err != nil:
		s.log.Info("request refused", append(args, "error", rest.Message(q.err))...)
	default:
		s.log.Info("request", args...)
	}
}

func stack() string { return string(debug.Stack()) }
