package rest

import "net/http"

// A Discard is a ResponseWriter that records header and status and discards the body: what a mux
// would answer.
type Discard struct {
	Status int
	header http.Header
}

// Header returns the recorded header.
func (w *Discard) Header() http.Header {
	if w.header == nil {
		w.header = http.Header{}
	}
	return w.header
}

// WriteHeader records the status.
func (w *Discard) WriteHeader(status int) { w.Status = status }

// Write discards b.
func (w *Discard) Write(b []byte) (int, error) { return len(b), nil }
