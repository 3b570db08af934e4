package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/docjson"
	"github.com/vecbolt/vecbolt/rag/provider"
	"github.com/vecbolt/vecbolt/rag/vectorize"
	"github.com/vecbolt/vecbolt/server/internal/rest"
)

// MinTokenLen is the least number of bytes of a token.
const MinTokenLen = 16

// Options tune a Server. The zero value, like nil, serves everyone who can reach it.
type Options struct {
	// ReadToken lets requests read; WriteToken lets them read and write. Clients send a token as
	// "Authorization: Bearer <token>". If either is set, requests without a token get only
	// /healthz, /readyz and public pages.
	ReadToken, WriteToken string

	// ReadOnly refuses every write, whatever the token.
	ReadOnly bool

	// Origins are the origins, such as "https://app.example.com", whose pages may send requests
	// from a browser (CORS); "*" allows every origin. By default no origin is allowed; pages of
	// other origins cannot make a browser write either.
	Origins []string

	// Hosts are the names and addresses, without ports, that requests may name as the host; empty
	// allows any. On a loopback address, list the loopback names: this stops DNS rebinding, where a
	// foreign page points its own name at this machine.
	Hosts []string

	// Limits bound the cost of one request and of all requests together.
	Limits Limits

	// Logger receives a line for each request and each failure; nil disables logging.
	Logger *slog.Logger

	// Providers are shown by /providers; nil means provider.Embedded alone, the database of the
	// service.
	Providers *provider.Registry

	// Models, if set, makes the vectors of documents with a text and no embedding, and of queries
	// by text, in the collections that are pinned to a model.
	Models *vectorize.Models

	// Extensions are other APIs and pages for the same database.
	Extensions []Extension
}

// Limits bound the cost of requests. Zero fields mean the default; New refuses negative ones with
// db.ErrInvalid.
type Limits struct {
	Body int64 // bytes of a request body, except streams: 32 MiB
	// Memory bounds the estimated bytes of all request bodies and their decoded values, and of the
	// vectors of maps; other answers are not counted. The request that would exceed it gets 429;
	// one that alone needs more than half gets 413. The default is 1 GiB, and at least four bodies.
	Memory    int64
	Documents int           // documents, or ids, in one request: 10,000
	Hits      int           // hits of one query, including those skipped by an offset: 10,000
	Queries   int           // queries in one batch: 256
	Requests  int           // concurrent requests that read; further ones are answered with 429: 256
	Writes    int           // concurrent requests that write, likewise: 64
	Time      time.Duration // to read a body, and to answer: 30 s; for streams: without progress
}

func (l Limits) validate() error {
	v := reflect.ValueOf(l)
	for i := range v.NumField() {
		if n := v.Field(i); n.CanInt() && n.Int() < 0 {
			return fmt.Errorf("%w: limit %s: %v is negative", db.ErrInvalid, v.Type().Field(i).Name, n)
		}
	}
	return nil
}

func (l Limits) withDefaults() Limits {
	body := cmp.Or(l.Body, 32<<20)
	return Limits{
		Body: body, Memory: max(4*body, cmp.Or(l.Memory, 1<<30)),
		Documents: cmp.Or(l.Documents, 10_000), Hits: cmp.Or(l.Hits, 10_000),
		Queries: cmp.Or(l.Queries, 256), Requests: cmp.Or(l.Requests, 256),
		Writes: cmp.Or(l.Writes, 64), Time: cmp.Or(l.Time, 30*time.Second),
	}
}

// An Extension is another API or page on the same server.
type Extension struct {
	// Pattern is a pattern of http.ServeMux without a method: "/api/v2/" matches all paths below,
	// "/{$}" only the root. It must not be a path of this package.
	Pattern string
	// Handler answers. Its panics are logged and answered with 500.
	Handler http.Handler
	// Writes reports whether a request writes, and therefore needs the write token. nil means
	// all methods except GET, HEAD and OPTIONS.
	Writes func(*http.Request) bool
	// Public lets GET and HEAD be answered without a token, for pages that contain no data and ask
	// for a token themselves.
	Public bool
	// Mixed says that some requests write although Writes does not report it, because only the
	// handler knows. Such requests get slots of their own, Limits.Writes of them, and an answer in
	// time even if their write is held up. Answers are buffered until they are complete.
	Mixed bool
	// Stream lifts the time limit of an answer. The handler must set deadlines as it proceeds, with
	// http.ResponseController.
	Stream bool
	// Owns names the collections that belong to the handler. All other paths refuse to create,
	// change or drop them.
	Owns []string
	// Metrics, if set, appends metrics to /metrics, in the text format of Prometheus.
	Metrics func(io.Writer)
}

// MayWrite reports whether r, a request that a Server has passed to the handler of an Extension,
// may write: it has the write token, or none is configured, and the server is not read-only. A
// request that did not come through a Server may not write.
func MayWrite(r *http.Request) bool { return rest.MayWrite(r.Context()) }

// A Server answers HTTP requests on one database. It is safe for concurrent use. It does not close
// the database.
type Server struct {
	db      *db.DB
	opts    Options
	limits  Limits
	log     *slog.Logger
	mux     *http.ServeMux
	access  map[string]access // by pattern
	streams map[string]bool   // patterns of routes without a time limit, as long as they make progress
	tokens  [2][sha256.Size]byte
	cross   *http.CrossOriginProtection
	metrics metrics
	closing atomic.Bool

	reads, writes, mixed, checks *slots
	memory                       atomic.Int64         // reserved by requests
	extensions                   map[string]Extension // by pattern
	owners                       map[string]string    // patterns of extensions, by collection
}

// access is the permission that a route requires.
type access uint8

const (
	public access = iota // no token
	reads
	writes
	decides // by Extension.Writes
)

// A route is a method and a path of the API, with its access.
type route struct {
	pattern string
	access  access
	handle  func(http.ResponseWriter, *http.Request) error
}

// Validate returns the error that New would return for the tokens, the origins and the limits, so
// that a program can see it before it opens, or creates, a database.
func (o *Options) Validate() error {
	if err := o.Limits.validate(); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	for _, token := range []string{o.ReadToken, o.WriteToken} {
		if token != "" && len(token) < MinTokenLen {
			return fmt.Errorf("server: a token has %d bytes, want %d or more", len(token), MinTokenLen)
		}
	}
	_, err := o.crossOrigin()
	return err
}

// crossOrigin returns the protection against pages of origins that are not allowed.
func (o *Options) crossOrigin() (*http.CrossOriginProtection, error) {
	p := http.NewCrossOriginProtection()
	for _, origin := range o.Origins {
		if origin == "*" {
			continue
		}
		if err := p.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("server: %w", err)
		}
	}
	return p, nil
}

// New returns the service of a database, which must stay open. It fails if a token is too short, an
// origin is malformed, a limit is negative, or a pattern is taken.
func New(vdb *db.DB, opts *Options) (*Server, error) {
	s := &Server{db: vdb, mux: http.NewServeMux(), access: map[string]access{},
		streams: map[string]bool{}, extensions: map[string]Extension{}, owners: map[string]string{}}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Providers == nil {
		s.opts.Providers = provider.NewRegistry()
	}
	err := s.opts.Validate()
	if err != nil {
		return nil, err
	}
	s.limits = s.opts.Limits.withDefaults()
	s.reads, s.writes = newSlots("requests", s.limits.Requests), newSlots("writes", s.limits.Writes)
	s.mixed, s.checks = newSlots("requests of this kind", s.limits.Writes), newSlots("requests of this kind", maxChecks)
	s.log = cmp.Or(s.opts.Logger, slog.New(slog.DiscardHandler))
	for i, token := range []string{s.opts.ReadToken, s.opts.WriteToken} {
		s.tokens[i] = sha256.Sum256([]byte(token))
	}
	if s.cross, err = s.opts.crossOrigin(); err != nil {
		return nil, err
	}
	for _, r := range s.routes() {
		s.access[r.pattern] = r.access
		s.mux.Handle(r.pattern, s.handler(r.handle))
	}
	s.streams["GET /collections/{name}/export"], s.streams["POST /collections/{name}/import"] = true, true
	for _, e := range s.opts.Extensions {
		if err := s.mount(e); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Server) routes() []route {
	return []route{
		{"GET /healthz", public, s.live},
		{"GET /readyz", public, s.ready},
		{"GET /collections", reads, s.listCollections},
		{"POST /collections", writes, s.createCollection},
		{"GET /collections/{name}", reads, s.of(s.getCollection)},
		{"PATCH /collections/{name}", writes, s.of(s.renameCollection)},
		{"DELETE /collections/{name}", writes, s.of(s.dropCollection)},
		{"PUT /collections/{name}/text_index", writes, s.of(s.setTextIndex)},
		{"PUT /collections/{name}/index", writes, s.of(s.setIndex)},
		{"PUT /collections/{name}/metadata", writes, s.of(s.setMetadata)},

		{"POST /collections/{name}/documents", writes, s.of(s.addDocuments)},
		{"GET /collections/{name}/documents", reads, s.listDocuments},
		{"DELETE /collections/{name}/documents", writes, s.of(s.deleteWhere)},
		{"POST /collections/{name}/documents/get", reads, s.getDocuments},
		{"POST /collections/{name}/documents/delete", writes, s.of(s.deleteDocuments)},
		{"GET /collections/{name}/documents/{id}", reads, s.of(s.getDocument)},
		{"PATCH /collections/{name}/documents/{id}", writes, s.of(s.patchDocument)},
		{"DELETE /collections/{name}/documents/{id}", writes, s.of(s.deleteDocument)},

		{"POST /collections/{name}/search", reads, s.search},
		{"POST /collections/{name}/search/batch", reads, s.searchBatch},
		{"POST /collections/{name}/explain", reads, s.explain},
		{"GET /collections/{name}/map", reads, s.of(s.showMap)},

		{"GET /collections/{name}/export", reads, s.of(s.export)},
		{"POST /collections/{name}/import", writes, s.of(s.load)},

		{"GET /providers", reads, s.listProviders},
		{"GET /providers/{provider}", reads, s.getProvider},
		{"GET /providers/{provider}/capabilities", reads, s.getCapabilities},
		{"GET /providers/{provider}/schema", reads, s.getSchema},
		{"POST /providers/{provider}/validate", reads, s.validateConfig},
		{"GET /providers/{provider}/health", reads, s.providerHealth},
		{"GET /health", reads, s.health},
		{"GET /stats", reads, s.stats},
		{"GET /metrics", reads, s.showMetrics},
		{"GET /openapi.json", reads, s.showOpenAPI},
	}
}

// mount adds an extension. The mux panics on a pattern that is malformed or taken.
func (s *Server) mount(e Extension) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("server: extension: %v", p)
		}
	}()
	if e.Handler == nil || strings.ContainsAny(e.Pattern, " \t") {
		return fmt.Errorf("server: extension %q: want a handler, and a pattern without method", e.Pattern)
	}
	writing := e.Writes
	if writing == nil {
		writing = func(r *http.Request) bool {
			return r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions
		}
	}
	e.Writes = writing
	s.access[e.Pattern], s.streams[e.Pattern], s.extensions[e.Pattern] = decides, e.Stream, e
	for _, name := range e.Owns {
		s.owners[name] = e.Pattern
	}
	if e.Public {
		s.access[e.Pattern] = public
	}
	s.mux.HandleFunc(e.Pattern, func(w http.ResponseWriter, r *http.Request) {
		get := r.Method == http.MethodGet || r.Method == http.MethodHead
		if writing(r) && !rest.MayWrite(r.Context()) || !get && !s.mayRead(r) {
			s.fail(w, r, s.refusal(r))
			return
		}
		e.Handler.ServeHTTP(w, r)
	})
	return nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	out := &response{ResponseWriter: w}
	ctx := context.WithValue(r.Context(), requestKey{}, &request{})
	r = r.WithContext(ctx)
	within := min(drainTime, s.limits.Time)
	if r.ContentLength != 0 {
		out.within = within
		out.upload = &upload{ReadCloser: r.Body, conn: http.NewResponseController(w)}
		r.Body = out.upload
	}
	// A deadline of an earlier request on this connection would still apply. Some ResponseWriters
	// have no connection, which is fine.
	_ = http.NewResponseController(w).SetWriteDeadline(start.Add(s.limits.Time + 5*time.Second))
	defer func() {
		p := recover()
		if p != nil && p != http.ErrAbortHandler {
			s.caught(r, p)
			if out.status == 0 {
				s.fail(out, r, errors.New("panic"))
			} else {
				p = http.ErrAbortHandler // the client must not take half an answer for a complete one
			}
		}
		s.done(r, out, time.Since(start))
		if out.upload != nil {
			out.upload.bound(within)
		}
		if p == http.ErrAbortHandler {
			panic(p)
		}
		// A client of HTTP/2 reads while it sends. One that waits to be asked for its body sends
		// none.
		if out.upload != nil && r.ProtoMajor == 1 && r.Header.Get("Expect") == "" {
			out.upload.discard()
		}
	}()
	s.serve(out, r)
}

// caught logs and counts a panic.
func (s *Server) caught(r *http.Request, p any) {
	if p == http.ErrAbortHandler {
		return
	}
	where := stack()
	if other, ok := p.(*caughtPanic); ok {
		p, where = other.value, other.stack
	}
	s.metrics.mu.Lock()
	s.metrics.panics++
	s.metrics.mu.Unlock()
	s.log.Error("panic", "method", r.Method, "path", r.URL.Path, "panic", fmt.Sprint(p), "stack", where)
}

// serve routes and authorises a request before it reads anything else of it.
func (s *Server) serve(w *response, r *http.Request) {
	if err := s.admit(w, r); err != nil {
		s.fail(w, r, err)
		return
	}
	if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" &&
		w.Header().Get("Access-Control-Allow-Origin") != "" {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	_, pattern := s.mux.Handler(r)
	requestOf(r).pattern = pattern
	need := reads
	if pattern != "" {
		need = s.access[pattern]
	}
	write := s.mayWrite(r)
	r = r.WithContext(rest.WithReport(rest.WithAccess(r.Context(), write), failed))
	if need != public && !s.mayRead(r) || need == writes && !write {
		s.fail(w, r, s.refusal(r))
		return
	}
	if clean := path.Clean("/" + r.URL.EscapedPath()); clean != r.URL.EscapedPath() &&
		clean+"/" != r.URL.EscapedPath() {
		pattern = "" // the mux would redirect
	}
	if pattern == "" {
		s.fail(w, r, s.unmatched(r))
		return
	}
	s.work(w, r, pattern)
}

// work answers an authorised request within its limits.
func (s *Server) work(w *response, r *http.Request, pattern string) {
	slots := s.slotsFor(pattern, r)
	if slots != nil {
		if err := slots.take(w); err != nil {
			s.fail(w, r, err)
			return
		}
	}
	held := &reservation{server: s}
	done := func() {
		held.release()
		if slots != nil {
			slots.give()
		}
	}
	_, extension := s.extensions[pattern]
	if extension && s.streams[pattern] { // which may read on while it answers
		w.within = 0
	}
	ctx, cancel := r.Context(), context.CancelFunc(func() {})
	switch {
	case !s.streams[pattern]:
		ctx, cancel = context.WithTimeout(ctx, s.limits.Time)
		b := &body{ReadCloser: r.Body, held: held, weight: 1}
		if slots == s.mixed {
			b.weight = mixedWeight
		}
		r.Body = b
	case !extension:
		ctx, cancel = s.watched(ctx)
	}
	defer cancel()
	r = r.WithContext(rest.WithMemory(ctx, held.add))
	if (slots == s.writes || slots == s.mixed) && !(extension && s.streams[pattern]) {
		s.detached(w, r, s.mux.ServeHTTP, done)
		return
	}
	defer done()
	s.mux.ServeHTTP(w, r)
}

// A body is a request body. The bytes read count as memory until the request ends.
type body struct {
	io.ReadCloser
	held   *reservation
	weight int64 // bytes of memory per byte of the body
}

// mixedWeight is the weight where the handler decodes by itself: about the size of JSON decoded
// into maps.
const mixedWeight = 32

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if full := b.held.add(b.weight * int64(n)); full != nil {
		return 0, full
	}
	return n, err
}

// unmatched returns the error for a request that no route takes: a wrong path or a wrong method.
func (s *Server) unmatched(r *http.Request) error {
	var answer rest.Discard
	h, _ := s.mux.Handler(r)
	h.ServeHTTP(&answer, r)
	if answer.Status == http.StatusMethodNotAllowed {
		return &methodError{allow: answer.Header().Get("Allow")}
	}
	return rest.Errorf(http.StatusNotFound, "there is nothing at %s", r.URL.Path)
}

// A methodError lists the methods of a path.
type methodError struct{ allow string }

func (e *methodError) Error() string { return "method not allowed; there are " + e.allow }

// handler makes an http.Handler of a route's function.
func (s *Server) handler(handle func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := handle(w, r); err != nil {
			s.fail(w, r, err)
		}
	})
}

// fail answers with an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	err = late(r.Context(), err)
	if method, ok := errors.AsType[*methodError](err); ok {
		w.Header().Set("Allow", method.allow)
		err = rest.Errorf(http.StatusMethodNotAllowed, "%s", method.Error())
	}
	requestOf(r).err = err
	status := rest.Status(err)
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if status == http.StatusRequestTimeout || status == http.StatusRequestEntityTooLarge {
		w.Header().Set("Connection", "close") // the rest of the body is not read
	}
	rest.JSON(w, status, rest.Failed(err))
}

// Drain makes /readyz ask for no more requests. Requests that still arrive are answered.
func (s *Server) Drain() { s.closing.Store(true) }

func (s *Server) live(w http.ResponseWriter, _ *http.Request) error {
	rest.JSON(w, http.StatusOK, map[string]string{"status": "ok"})
	return nil
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) error {
	if s.closing.Load() {
		return rest.Errorf(http.StatusServiceUnavailable, "shutting down")
	}
	if h := provider.Connect(s.db).Health(r.Context()); h.Error != nil {
		return fmt.Errorf("%w: %s", rest.Errorf(http.StatusServiceUnavailable, "the database cannot be used"), *h.Error)
	}
	rest.JSON(w, http.StatusOK, map[string]string{"status": "ready"})
	return nil
}

// object reads a body that is a JSON object: see docjson.ReadObject. Requests with a body say
// everything there, and have no parameters.
func (s *Server) object(w http.ResponseWriter, r *http.Request,
	member func(key string, v *docjson.Reader) error) error {
	if err := rest.NoParameters(r); err != nil {
		return err
	}
	body, err := rest.Body(w, r, s.limits.Body, s.limits.Time)
	if err != nil {
		return err
	}
	return docjson.ReadObject(body, member)
}

// field reads a body that is a JSON object with one field at most, and reports whether it is there.
func (s *Server) field(
	w http.ResponseWriter, r *http.Request, name string, read func(v *docjson.Reader) error,
) (given bool, err error) {
	err = s.object(w, r, func(key string, v *docjson.Reader) error {
		if key != name {
			return unknown(key, name)
		}
		given = true
		return named(key, read(v))
	})
	return given, err
}

// of passes the collection named in the path to a handler.
func (s *Server) of(handle func(http.ResponseWriter, *http.Request,
	*db.Collection) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		c, err := s.collection(r)
		if err != nil {
			return err
		}
		return handle(w, r, c)
	}
}

// free returns an error for a collection that belongs to an extension.
func (s *Server) free(name string) error {
	if owner, ok := s.owners[name]; ok {
		return rest.Errorf(http.StatusForbidden, "Collection '%s' belongs to the API at %s", name, owner)
	}
	return nil
}

// collection returns the collection named in the path.
func (s *Server) collection(r *http.Request) (*db.Collection, error) {
	name := r.PathValue("name")
	if s.access[r.Pattern] == writes {
		if err := s.free(name); err != nil {
			return nil, err
		}
	}
	c, err := s.db.Collection(name)
	if errors.Is(err, db.ErrNotFound) { // another process may just have created it
		if err := s.db.Barrier(r.Context()); err != nil {
			return nil, err
		}
		c, err = s.db.Collection(name)
	}
	if errors.Is(err, db.ErrNotFound) {
		infos, err := s.db.Collections()
		if err != nil {
			return nil, err
		}
		names := make([]string, len(infos))
		for i, info := range infos {
			names[i] = info.Name
		}
		return nil, rest.Unknown(http.StatusNotFound, fmt.Sprintf("Collection '%s' not found", name), name, names)
	}
	return c, err
}
