// Package inspector is a web page that shows a database: its collections, their documents, searches
// with scores, plans and reasons, a map, and the health of indexes and storage. On a server with
// knowledge bases (package server/bases) it also asks them and shows how answers came about, learnt
// and unreadable files, the configuration and statistics.
//
//	srv, err := server.New(vdb, &server.Options{Extensions: []server.Extension{inspector.Extension()}})
//
// The page is a single file. It talks only to the HTTP API of package server. It contains no data,
// so it is served without a token; it asks for one when the API does. A Content-Security-Policy
// with hashes keeps the browser from running anything else.
package inspector

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // of the page
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"

	"github.com/vecbolt/vecbolt/server"
)

//go:embed inspector.html
var frame []byte

//go:embed bases.js
var basesScript []byte

// page is the frame with the script of the bases in its place.
var page = bytes.Replace(frame, []byte("// bases.js is here.\n"), basesScript, 1)

// Extension returns the page, at the root of a server.
func Extension() server.Extension {
	return server.Extension{Pattern: "/{$}", Handler: Handler(), Public: true}
}

// Handler serves the page to GET and HEAD, whatever the path. The page uses relative URLs of the
// API, so the path should end in a slash.
func Handler() http.Handler {
	hash := sha256.Sum256(page)
	tag := `"` + hex.EncodeToString(hash[:8]) + `"`
	policy := fmt.Sprintf("default-src 'none'; script-src %s; style-src %s; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		source("script"), source("style"))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", policy)
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(page))
	})
}

// source returns the CSP hash of the only element with a name.
func source(element string) string {
	_, rest, _ := bytes.Cut(page, []byte("<"+element+">"))
	content, _, _ := bytes.Cut(rest, []byte("</"+element+">"))
	hash := sha256.Sum256(content)
	return "'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "'"
}
