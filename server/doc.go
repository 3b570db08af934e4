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
// A mistake of the client always gives a status below 500. The size of bodies, the numbers of
// documents, hits and concurrent requests, nesting and time are limited (Limits), JSON is read
// strictly, and a write is atomic. The token is checked before any other part of a request.
//
// Other APIs and pages for the same database are mounted as an Extension. They share tokens,
// limits, logs and metrics.
package server
