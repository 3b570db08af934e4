package server

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// An upload is the body of a request, which the client may still be sending when the answer begins.
type upload struct {
	io.ReadCloser
	conn *http.ResponseController

	mu      sync.Mutex
	ended   bool // all of it was read
	bounded bool // by a deadline
}

// Read implements io.Reader.
func (u *upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if err == io.EOF {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.ended = true; u.bounded {
			_ = u.conn.SetReadDeadline(time.Time{})
		}
	}
	return n, err
}

// bound sets the time for the rest of the body. After the end of a body net/http watches the
// connection, and would take a deadline for the end of it.
func (u *upload) bound(within time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.ended {
		u.bounded = true
		_ = u.conn.SetReadDeadline(time.Now().Add(within))
	}
}

// discard sends the answer and reads the rest of the body. Many clients read no answer before they
// have sent everything, and net/http would close the connection under them.
func (u *upload) discard() {
	u.mu.Lock()
	ended := u.ended
	u.mu.Unlock()
	if !ended {
		_ = u.conn.Flush()
		_, _ = io.Copy(io.Discard, u)
	}
}
