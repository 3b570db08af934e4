package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/vecbolt/vecbolt/internal/rest"
)

// A lane holds the slots of one kind of request. Each kind has its own, so that requests that wait
// for a disk leave those alone that do not need it.
type lane struct {
	slots chan struct{}
	kind  string // in the plural, for errors
}

func newLane(kind string, n int) *lane { return &lane{make(chan struct{}, n), kind} }

// maxChecks is how many requests for /health, /stats and /metrics are answered at once.
const maxChecks = 16

// checks are the routes by which a service is watched. They answer however busy the others are.
var checks = map[string]bool{"GET /health": true, "GET /stats": true, "GET /metrics": true}

// lane returns the lane of a request that may be answered; nil if it needs none.
func (s *Server) lane(pattern string, r *http.Request) *lane {
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

// take takes a slot, which give returns, or says that there is none.
func (l *lane) take(w http.ResponseWriter) error {
	select {
	case l.slots <- struct{}{}:
		return nil
	default:
		w.Header().Set("Retry-After", "1")
		return rest.Errorf(http.StatusTooManyRequests, "more than %d %s at once", cap(l.slots), l.kind)
	}
}

func (l *lane) give() { <-l.slots }

// reservation is what one request holds of the memory for all of them.
type reservation struct {
	server *Server
	mu     sync.Mutex // a body may be read by another goroutine than the one that answers
	bytes  int64
}

// add takes more of it. A request may take half of all: others have to find room beside the largest
// one.
func (m *reservation) add(n int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	most := m.server.limits.Memory
	if m.bytes+n > most/2 {
		return rest.Errorf(http.StatusRequestEntityTooLarge, "the request takes about %d bytes of memory, the limit is %d", m.bytes+n, most/2)
	}
	if m.server.memory.Add(n) > most {
		m.server.memory.Add(-n)
		return &rest.Error{Status: http.StatusTooManyRequests, Message: fmt.Sprintf("requests take more than %d bytes of memory at once", most)}
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

// grace is how long a request whose time has ended may take to notice it.
const grace = time.Second

// errLate is the answer to a write whose outcome is not known in time.
var errLate = rest.Errorf(http.StatusGatewayTimeout, "the write took longer than it may: whether it took effect is not known")

// detached answers as handle does, but not later than the context of the request allows: a write
// cannot be called back once it waits for the disk. It then goes on behind the answer, and done is
// called when it has ended.
func (s *Server) detached(w *response, r *http.Request, handle func(http.ResponseWriter, *http.Request), done func()) {
	out := &detachedWriter{inner: w, header: http.Header{}}
	own := &request{pattern: requestOf(r).pattern}
	ended := make(chan any, 1)
	go func() {
		defer func() {
			p := recover()
			done() // first: the next request of the client finds the slot free
			if p != nil && p != http.ErrAbortHandler {
				p = &caught{p, stack()}
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
			if out.leave() { // nothing more comes from there
				s.fail(w, r, errLate)
				return
			}
			p = <-ended
		}
	}
	if p != nil {
		panic(p)
	}
	if err := r.Context().Err(); err != nil && out.status == 0 { // the handler has given up without a word
		s.fail(w, r, err)
		return
	}
	requestOf(r).err = own.err
	out.send(w)
}

// A caught panic is one of another goroutine.
type caught struct {
	value any
	stack string
}

// detachedWriter keeps an answer until it is whole.
type detachedWriter struct {
	header http.Header
	status int
	body   bytes.Buffer

	mu    sync.Mutex
	inner http.ResponseWriter // for deadlines; nil once the request was answered without this
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

// Flush implements http.Flusher: the answer is sent as a whole.
func (w *detachedWriter) Flush() {}

// SetReadDeadline is for http.ResponseController.
func (w *detachedWriter) SetReadDeadline(t time.Time) error {
	return w.control(func(c *http.ResponseController) error { return c.SetReadDeadline(t) })
}

// SetWriteDeadline is for http.ResponseController.
func (w *detachedWriter) SetWriteDeadline(t time.Time) error {
	return w.control(func(c *http.ResponseController) error { return c.SetWriteDeadline(t) })
}

// control leaves the connection alone once it may be that of another request.
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

// leave cuts the writer off, and reports that it was not before.
func (w *detachedWriter) leave() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.inner != nil
	w.inner = nil
	return before
}

// send sends the answer.
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
		_, _ = to.Write(w.body.Bytes()) // nobody is left to be told
	}
}

type progressKey struct{}

// A progress ends the context of a stream that does not get on.
type progress struct {
	timer *time.Timer
	time  time.Duration
}

// watched returns a context that ends, with the cause context.DeadlineExceeded, when nothing moves
// for longer than the limit, and what ends it at once.
func (s *Server) watched(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	p := &progress{time: s.limits.Time + grace}
	p.timer = time.AfterFunc(p.time, func() { cancel(context.DeadlineExceeded) })
	return context.WithValue(ctx, progressKey{}, p), func() { p.timer.Stop(); cancel(nil) }
}

// moved notes that a stream gets on.
func moved(ctx context.Context) {
	if p, ok := ctx.Value(progressKey{}).(*progress); ok {
		p.timer.Reset(p.time)
	}
}

// late makes a deadline of the end of a context that had one as its cause.
func late(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", context.DeadlineExceeded, errors.New("nothing moved"))
	}
	return err
}
