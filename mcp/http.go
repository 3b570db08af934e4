package mcp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// HandlerFunc serves over streamable HTTP, without sessions. choose returns the server for a
// request. The handler checks neither tokens nor hosts nor origins; the caller must.
func HandlerFunc(choose func(*http.Request) *sdk.Server) http.Handler {
	return overHTTP(choose, &sdk.StreamableHTTPOptions{DisableLocalhostProtection: true})
}

// overHTTP is HandlerFunc with some options.
func overHTTP(choose func(*http.Request) *sdk.Server, opts *sdk.StreamableHTTPOptions) http.Handler {
	opts.Stateless, opts.JSONResponse, opts.PropagateRequestCancellation = true, true, true
	return refuseBodies(trackRequests(sdk.NewStreamableHTTPHandler(choose, opts)))
}

// refuseBodies refuses bodies that the SDK would take: batches, whose answers together have no
// limit, and requests whose id it would change.
func refuseBodies(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			h.ServeHTTP(w, r)
			return
		}
		// The SDK refuses a body above its limit, or one that cannot be read.
		start, err := io.ReadAll(io.LimitReader(r.Body, sdk.DefaultMaxRequestBodyBytes+1))
		var bad *jsonrpc.Error
		if text := bytes.TrimLeft(start, " \t\r\n"); len(text) > 0 && text[0] == '[' {
			bad = &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the body is no object; batches are not supported"}
		} else if id := idOf(start); isChanged(id) {
			bad = changedID(id)
		}
		if err == nil && bad != nil {
			if text, err := encodeError(nil, bad); err == nil {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusBadRequest)
				_, _ = w.Write(text) // the client may have gone
			}
			return
		}
		r.Body = &unread{io.MultiReader(bytes.NewReader(start), &failing{err}, r.Body), r.Body}
		h.ServeHTTP(w, r)
	})
}

// unread is the body of a request of which a part had been read.
type unread struct {
	io.Reader
	io.Closer
}

// failing is a reader that ends with an error, or at once if that is nil.
type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, cmp.Or(f.err, io.EOF) }

// requests maps the names of HTTP requests to their contexts. The SDK cancels a tool with its HTTP
// request only for clients of its newest protocol. To cancel it for all clients, trackRequests
// names each request in a header that tools can read, and keeps the context here.
var requests sync.Map // request name to context.Context

const requestName = "Vecbolt-Request"

func trackRequests(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := rand.Text()
		requests.Store(name, r.Context())
		defer requests.Delete(name)
		r.Header = r.Header.Clone()
		r.Header.Set(requestName, name) // overwrites a header from the client
		h.ServeHTTP(w, r)
	})
}

// follow returns a context that also ends when the HTTP request of the call ends, if there is one.
func follow(ctx context.Context, req *sdk.CallToolRequest) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if req.Extra == nil {
		return ctx, cancel
	}
	name := req.Extra.Header.Get(requestName)
	request, ok := requests.Load(name)
	if !ok {
		if name != "" { // the request has ended already
			cancel()
		}
		return ctx, cancel
	}
	stop := context.AfterFunc(request.(context.Context), cancel)
	return ctx, func() { stop(); cancel() }
}

// Handler serves one server over streamable HTTP, without sessions. If token is not empty, requests
// must have it as bearer token. Handler refuses requests from pages of other origins, and requests
// to a loopback address by another host name.
func Handler(server *sdk.Server, token string) http.Handler {
	h := overHTTP(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{})
	h = http.NewCrossOriginProtection().Handler(h)
	if token == "" {
		return h
	}
	want := sha256.Sum256([]byte(token)) // hashed, so that the comparison does not reveal the length
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, have, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(have))
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a bearer token is required", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}
