package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/vecbolt/vecbolt/server/internal/rest"
)

// slots limits the concurrent requests of one kind. Each kind has its own slots, so that requests
// that wait for the disk do not block the rest.
type slots struct {
	taken chan struct{}
	kind  string // in the plural, for errors
}

func newSlots(kind string, n int) *slots { return &slots{make(chan struct{}, n), kind} }

// maxChecks is the number of concurrent requests for /health, /stats and /metrics.
const maxChecks = 16

// checks are the routes of monitoring. They answer even if all slots for reads and writes are
// taken.
var checks = map[string]bool{"GET /health": true, "GET /stats": true, "GET /metrics": true}

// slotsFor returns the slots for an authorised request; nil if it needs none.
func (s *Server) slotsFor(pattern string, r *http.Request) *slots {
	e, extension := s.extensions[pattern]
	switch {
	case checks[pattern]:
		return s.checks
	case extension && e.Mixed:
		return s.mixed
	case extension && e.Writes(r), s.access[pattern] == writes:
		return s.writes
	case s.access[pattern] == public && pattern != "":
		return nil
	}
	return s.reads
}

// take takes a slot, which the caller gives back with give. It fails if all slots are taken.
func (l *slots) take(w http.ResponseWriter) error {
	select {
	case l.taken <- struct{}{}:
		return nil
	default:
		w.Header().Set("Retry-After", "1")
		return rest.Errorf(http.StatusTooManyRequests, "more than %d %s at once", cap(l.taken), l.kind)
	}
}

func (l *slots) give() { <-l.taken }

// reservation is one request's share of the memory limit.
type reservation struct {
	server *Server
	mu     sync.Mutex // the body may be read by another goroutine than the handler
	bytes  int64
}

// add reserves n more bytes. One request may take at most half, so that other requests fit beside
// the largest one.
func (m *reservation) add(n int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	most := m.server.limits.Memory
	if m.bytes+n > most/2 {
		return rest.Errorf(http.StatusRequestEntityTooLarge,
			"the request takes about %d bytes of memory, the limit is %d", m.bytes+n, most/2)
	}
	if m.server.memory.Add(n) > most {
		m.server.memory.Add(-n)
		return &rest.Error{Status: http.StatusTooManyRequests,
			Message: fmt.Sprintf("requests take more than %d bytes of memory at once", most)}
	}
	m.bytes += n
	return nil
}

func (m *reservation) release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.server.memory.Add(-m.bytes)
	m.bytes = 0
}

// grace is the time that a request has to notice that its time is up.
const grace = time.Second

// errLate is the answer to a write whose outcome is not known in time.
var errLate = rest.Errorf(http.StatusGatewayTimeout,
	"the write took longer than it may: whether it took effect is not known")

// detached calls handle, but answers at the latest when the request's context ends: a write that
// waits for the disk cannot be cancelled. Such a write continues after the answer. done is called
// when it ends.
func (s *Server) detached(w *response, r *http.Request, handle func(http.ResponseWriter, *http.Request), done func()) {
	out := &detachedWriter{inner: w, header: http.Header{}}
	own := &request{pattern: requestOf(r).pattern}
	ended := make(chan any, 1)
	go func() {
		defer func() {
			p := recover()
			done() // first, so that the client's next request finds the slot free
			if p != nil && p != http.ErrAbortHandler {
				p = &caughtPanic{p, stack()}
			}
			ended <- p
			if out.isGone() && p != nil {
				s.caught(r, p)
			}
		}()
		handle(out, r.WithContext(context.WithValue(r.Context(), requestKey{}, own)))
	}()
	var p any
	select {
	case p = <-ended:
	case <-r.Context().Done():
		late := time.NewTimer(grace)
		defer late.Stop()
		select {
		case p = <-ended:
		case <-late.C:
			if out.leave() { // nothing more comes from the handler
				s.fail(w, r, errLate)
				return
			}
			p = <-ended
		}
	}
	if p != nil {
		panic(p)
	}
	if err := r.Context().Err(); err != nil && out.status == 0 { // the handler gave up without an answer
		s.fail(w, r, err)
		return
	}
	requestOf(r).err = own.err
	out.send(w)
}

// A caughtPanic is a panic of another goroutine.
type caughtPanic struct {
	value any
	stack string
}

// detachedWriter buffers an answer until it is complete.
type detachedWriter struct {
	header http.Header
	status int
	body   bytes.Buffer

	mu    sync.Mutex
	inner http.ResponseWriter // for deadlines; nil once the request was answered without the handler
}

// Header implements http.ResponseWriter.
func (w *detachedWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *detachedWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write implements http.ResponseWriter.
func (w *detachedWriter) Write(b []byte) (int, error) {
	if w.isGone() {
		return 0, http.ErrHandlerTimeout
	}
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// Flush implements http.Flusher. It does nothing: the answer is sent as a whole.
func (w *detachedWriter) Flush() {}

// SetReadDeadline is for http.ResponseController.
func (w *detachedWriter) SetReadDeadline(t time.Time) error {
	return w.control(func(c *http.ResponseController) error { return c.SetReadDeadline(t) })
}

// SetWriteDeadline is for http.ResponseController.
func (w *detachedWriter) SetWriteDeadline(t time.Time) error {
	return w.control(func(c *http.ResponseController) error { return c.SetWriteDeadline(t) })
}

// control calls fn, unless the connection may already serve another request.
func (w *detachedWriter) control(fn func(*http.ResponseController) error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inner == nil {
		return http.ErrHandlerTimeout
	}
	return fn(http.NewResponseController(w.inner))
}

func (w *detachedWriter) isGone() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.inner == nil
}

// leave detaches the writer from the connection, and reports whether it was attached.
func (w *detachedWriter) leave() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.inner != nil
	w.inner = nil
	return before
}

// send writes the buffered answer.
func (w *detachedWriter) send(to http.ResponseWriter) {
	for key, values := range w.header {
		for _, v := range values {
			to.Header().Add(key, v)
		}
	}
	if w.status != 0 {
		to.WriteHeader(w.status)
	}
	if w.body.Len() > 0 {
		_, _ = to.Write(w.body.Bytes()) // the client is gone; nobody to report to
	}
}

type progressKey struct{}

// A progress ends the context of a stream that has stalled.
type progress struct {
	timer *time.Timer
	time  time.Duration
}

// watched returns a context that ends, with the cause context.DeadlineExceeded, when the stream
// makes no progress for longer than the limit. The function ends it at once.
func (s *Server) watched(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	p := &progress{time: s.limits.Time + grace}
	p.timer = time.AfterFunc(p.time, func() { cancel(context.DeadlineExceeded) })
	return context.WithValue(ctx, progressKey{}, p), func() { p.timer.Stop(); cancel(nil) }
}

// moved records progress of a stream.
func moved(ctx context.Context) {
	if p, ok := ctx.Value(progressKey{}).(*progress); ok {
		p.timer.Reset(p.time)
	}
}

// late turns the end of a context into a deadline error if a deadline was its cause.
func late(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", context.DeadlineExceeded, errors.New("nothing moved"))
	}
	return err
}
