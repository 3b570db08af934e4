package chroma

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/jsontext"
	"github.com/vecbolt/vecbolt/rag/vectorize"
	"github.com/vecbolt/vecbolt/server/internal/rest"
)

// Pattern is the path of the API, for http.ServeMux.
const Pattern = "/api/v2/"

// version is the version of the Chroma server that implements this API.
const version = "1.0.0"

// Options tune an API. Zero fields, like nil, mean the default.
type Options struct {
	Body    int64         // bytes of a request body: 64 MiB
	Records int           // records, or ids, in one request: 10,000
	Results int           // records in one answer, over all queries: 100,000
	Answer  int64         // bytes of texts, metadata and vectors in one answer: 128 MiB
	Time    time.Duration // to read a body: 30 s

	// Models, if set, makes the embeddings of records that have a document and none, in the
	// collections that are pinned to a model.
	Models *vectorize.Models
}

// An API is an http.Handler for the paths below Pattern. It is safe for
// concurrent use. It does not close the database.
type API struct {
	db   *db.DB
	opts Options
	mux  *http.ServeMux

	mu   sync.Mutex // held while a collection is renamed or a database is deleted
	byID sync.Map   // id of a collection to *db.Collection
}

// New returns the API of a database, which must stay open.
func New(vdb *db.DB, opts *Options) *API {
	a := &API{db: vdb, mux: http.NewServeMux()}
	if opts != nil {
		a.opts = *opts
	}
	o := &a.opts
	o.Body, o.Records = cmp.Or(o.Body, 64<<20), cmp.Or(o.Records, 10_000)
	o.Results, o.Answer, o.Time = cmp.Or(o.Results, 100_000), cmp.Or(o.Answer, 128<<20), cmp.Or(o.Time, 30*time.Second)

	const (
		tenants     = Pattern + "tenants"
		tenant      = tenants + "/{tenant}"
		databases   = tenant + "/databases"
		database    = databases + "/{database}"
		collections = database + "/collections"
		collection  = collections + "/{collection}"
	)
	for pattern, h := range map[string]handler{
		"GET " + Pattern + "heartbeat":           a.heartbeat,
		"GET " + Pattern + "healthcheck":         a.healthcheck,
		"GET " + Pattern + "version":             a.version,
		"GET " + Pattern + "pre-flight-checks":   a.preflight,
		"GET " + Pattern + "auth/identity":       a.identity,
		"POST " + tenants:                        a.createTenant,
		"GET " + tenant:                          a.getTenant,
		"GET " + databases:                       a.listDatabases,
		"POST " + databases:                      a.createDatabase,
		"GET " + database:                        a.getDatabase,
		"DELETE " + database:                     a.deleteDatabase,
		"GET " + database + "/collections_count": a.countCollections,
		"GET " + collections:                     a.listCollections,
		"POST " + collections:                    a.createCollection,
		"GET " + collection:                      a.getCollection,
		"PUT " + collection:                      a.updateCollection,
		"DELETE " + collection:                   a.deleteCollection,
		"GET " + collection + "/{part}":          a.part,
		"POST " + collection + "/add":            a.add,
		"POST " + collection + "/upsert":         a.upsert,
		"POST " + collection + "/update":         a.update,
		"POST " + collection + "/delete":         a.delete,
		"POST " + collection + "/get":            a.get,
		"POST " + collection + "/query":          a.query,
	} {
		a.mux.HandleFunc(pattern, a.serve(h))
	}
	return a
}

// part routes the paths below a collection, and the path by-id, which looks like a collection.
func (a *API) part(ctx context.Context, r *request) (any, error) {
	part := r.PathValue("part")
	switch {
	case r.PathValue("collection") == "by-id":
		r.SetPathValue("collection", part)
		return a.getCollection(ctx, r)
	case part == "count":
		return a.count(ctx, r)
	case part == "indexing_status":
		return a.indexingStatus(ctx, r)
	}
	return nil, unsupported(r.Request)
}

func unsupported(r *http.Request) error {
	return invalidf("%s %.300s is not supported", r.Method, r.URL.Path)
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, pattern := a.mux.Handler(r); pattern == "" {
		fail(w, r, unsupported(r))
		return
	}
	a.mux.ServeHTTP(w, r)
}

// Writes reports whether a request modifies data. To get or create a collection does not, for a
// client that a server.Server lets only read.
func Writes(r *http.Request) bool {
	if r.Method != http.MethodPost {
		return r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions
	}
	switch r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:] {
	case "get", "query":
		return false
	case "collections":
		return !rest.Denied(r.Context())
	}
	return true
}

// A handler returns the answer, which is encoded as JSON.
type handler func(ctx context.Context, r *request) (any, error)

// A request is the input of a handler.
type request struct {
	*http.Request
	body []byte
}

// decode reads the body. Unknown fields are ignored: they come from other client versions.
func (r *request) decode(into any) error {
	if at := jsontext.Bad(r.body); at >= 0 {
		return invalidf("request body: invalid UTF-8 or half a surrogate pair at byte %d", at)
	}
	err := json.Unmarshal(r.body, into)
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // its text has a type of Go
		where := "request body"
		if kind.Field != "" {
			where += ": " + kind.Field
		}
		return invalidf("%s: unexpected %s at byte %d", where, kind.Value, kind.Offset)
	}
	if err != nil {
		return invalidf("request body: %v", err)
	}
	return nil
}

func (a *API) serve(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		in := &request{Request: r}
		var err error
		if r.Method == http.MethodPost || r.Method == http.MethodPut {
			in.body, err = rest.Body(w, r, a.opts.Body, a.opts.Time)
		}
		var out any
		if err == nil {
			out, err = h(r.Context(), in)
		}
		if err != nil {
			fail(w, r, err)
			return
		}
		rest.JSON(w, http.StatusOK, out)
	}
}

// fail answers with an error in the form that Chroma's clients expect.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	rest.Report(r.Context(), err)
	status := rest.Status(err)
	if errors.Is(err, db.ErrSchema) {
		status = http.StatusBadRequest
	}
	kind := "InternalError"
	switch {
	case status == http.StatusNotFound:
		kind = "NotFoundError"
	case status == http.StatusConflict:
		kind = "UniqueConstraintError"
	case status == http.StatusForbidden:
		kind = "AuthorizationError"
	case status < 500:
		kind = "InvalidArgumentError"
	}
	if status == http.StatusRequestTimeout || status == http.StatusRequestEntityTooLarge {
		w.Header().Set("Connection", "close") // the rest of the body is not read
	}
	rest.JSON(w, status, struct {
		Error   string `json:"error"`
		Message string `json:"message"`
	}{kind, rest.Message(err)})
}

// invalidf returns the error for an invalid request.
func invalidf(format string, args ...any) error {
	return rest.Errorf(http.StatusBadRequest, format, args...)
}

func (a *API) heartbeat(context.Context, *request) (any, error) {
	return map[string]int64{"nanosecond heartbeat": time.Now().UnixNano()}, nil
}

func (a *API) healthcheck(context.Context, *request) (any, error) {
	return map[string]bool{"is_executor_ready": true, "is_log_client_ready": true}, nil
}

func (a *API) version(context.Context, *request) (any, error) { return version, nil }

func (a *API) preflight(context.Context, *request) (any, error) {
	return map[string]any{"max_batch_size": a.opts.Records, "supports_base64_encoding": true}, nil
}

func (a *API) identity(context.Context, *request) (any, error) {
	return map[string]any{"user_id": "", "tenant": defaultTenant, "databases": []string{defaultDatabase}}, nil
}
