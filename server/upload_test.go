package server_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/server"
)

// A deadlines is a ResponseWriter that records the last read deadline.
type deadlines struct {
	*httptest.ResponseRecorder
	last time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.last = at
	return nil
}

// While an answer is sent there is a deadline only if the rest of the body is still to come:
// net/http would take it for the end of the connection.
func TestDeadlineOfUploads(t *testing.T) {
	vdb, err := db.Open(db.Memory, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	if _, err := vdb.CreateCollection(t.Context(), "c", db.Schema{}, nil); err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(vdb, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		method, path, body string
		status             int
		bounded            bool
	}{
		{"POST", "/collections/c/documents/get", `{"ids":["a"]}`, 200, false},
		{"POST", "/collections/c/search", `{"vector":[1,2]}`, 200, false},
		{"POST", "/collections/c/search", `{"vector":`, 400, false},
		{"POST", "/collections/none/search", `{"vector":[1,2]}`, 404, true},
		{"POST", "/nothing", "{}", 404, true},
		{"GET", "/collections", "", 200, false},
	} {
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		r := httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, strings.NewReader(tt.body))
		during := time.Time{}
		r.Body = &watchedBody{r.Body, func() { during = w.last }}
		if tt.body == "" {
			r.Body = http.NoBody
		}
		srv.ServeHTTP(w, r)
		if w.Code != tt.status {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, w.Code, w.Body)
		}
		if tt.bounded { // the rest is read after the answer
			w.last = during
		}
		if tt.bounded == w.last.IsZero() {
			t.Errorf("%s %s: deadline %v", tt.method, tt.path, w.last)
		}
	}
}

// A watchedBody calls a function before each Read.
type watchedBody struct {
	io.ReadCloser
	before func()
}

func (b *watchedBody) Read(p []byte) (int, error) {
	b.before()
	return b.ReadCloser.Read(p)
}

// Clients that send all of a body before they read are told why it is refused.
func TestRefusedUploads(t *testing.T) {
	vdb, err := db.Open(db.Memory, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	srv, err := server.New(vdb, &server.Options{Limits: server.Limits{Body: 1 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(srv)
	defer web.Close()
	if _, err := vdb.CreateCollection(t.Context(), "c", db.Schema{}, nil); err != nil {
		t.Fatal(err)
	}
	body := bytes.Repeat([]byte(" "), 10<<20)
	for _, tt := range []struct {
		path, kind string
		status     string
	}{
		{"/collections/none/documents", "application/json", "404"},
		{"/collections/none/import", "application/x-ndjson", "404"},
		{"/collections/c/documents", "text/plain", "415"},
		{"/collections/c/documents", "application/json", "413"},
	} {
		answer, err := sendFirst(t, web.Listener.Addr().String(), tt.path, tt.kind, body)
		if err != nil || !strings.HasPrefix(answer, "HTTP/1.1 "+tt.status) {
			t.Errorf("%s: %q, %v", tt.path, answer, err)
		}
	}
}

// sendFirst sends a whole request and then reads the answer.
func sendFirst(t *testing.T, addr, path, kind string, body []byte) (string, error) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n",
		path, kind, len(body))
	if _, err := conn.Write(append([]byte(head), body...)); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}
