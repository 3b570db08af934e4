// Package server is the HTTP service of a database: an http.Handler that a Go
// program mounts, and that `vecbolt serve` runs.
//
//	vdb, err := db.Open("notes.vdb", nil)
//	srv, err := server.New(vdb, &server.Options{WriteToken: token})
//	http.Handle("/", srv)
//
// Requests and answers are JSON; docs/http.md describes them, and the OpenAPI
// document at /openapi.json is tested to have the same routes. An error is
// {"error": "..."}.
//
// Whatever a client sends, the answer to a mistake is a status below 500:
// bodies, numbers of documents and hits, nesting, time and requests at once are
// limited (Limits), JSON is read strictly, and a write takes effect as a whole
// or not at all. Nothing of a request is looked at before its token was.
//
// Other APIs and pages for the same database go beside this one as an
// Extension: the same tokens, limits, logs and metrics hold for them.
package server
