package httpjson

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestPost(t *testing.T) {
	const key = "sk-123"
	answer, status := "", http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+key || r.Header.Get("Content-Type") != "application/json" {
			t.Error(r.Header)
		}
		if status == http.StatusFound {
			w.Header().Set("Location", "http://elsewhere.invalid/")
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	c := Caller{Secret: func(context.Context) (string, error) { return key + "\n", nil }}
	post := func() (reply struct{ A int }, err error) {
		err = c.Post(t.Context(), server.URL, map[string]int{"q": 1}, &reply)
		return reply, err
	}
	answer = `{"a":7}`
	if reply, err := post(); err != nil || reply.A != 7 {
		t.Error(reply, err)
	}
	for _, tt := range []struct {
		status int
		answer string
		want   string
	}{
		{http.StatusOK, "", "invalid response"},
		{http.StatusOK, `{"a":"` + strings.Repeat("x", maxReply) + `"}`, "invalid response: more than"},
		{http.StatusFound, "", "status 302"},
		{http.StatusUnauthorized, "wrong key " + key + strings.Repeat("!", 1000), "status 401 Unauthorized: wrong key [secret]!"},
		{http.StatusServiceUnavailable, "overloaded\nline2\x1b[31mred", "status 503 Service Unavailable: overloaded line2 [31mred"},
	} {
		status, answer = tt.status, tt.answer
		_, err := post()
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), key) || len(err.Error()) > 300 {
			t.Errorf("status %d: %v", tt.status, err)
		}
	}
	down := errors.New("no key")
	c.Secret = func(context.Context) (string, error) { return "", down }
	if _, err := post(); !errors.Is(err, down) {
		t.Error(err)
	}
}

func TestTemporary(t *testing.T) {
	for _, tt := range []struct {
		status        int
		answer, pause string
		want          bool
		after         time.Duration
	}{
		{429, "slow down", "7", true, 7 * time.Second},
		{429, strings.Repeat(" ", maxRefusal) + "insufficient_quota", "", false, 0},
		{500, "", "", true, 0},
		{503, "", "2", true, 2 * time.Second},
		{501, "", "", false, 0},
		{408, "", "", true, 0},
		{401, "", "", false, 0},
		{200, "no JSON", "", false, 0},
		{0, "", "", true, 0}, // the connection breaks
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if tt.status == 0 {
				panic(http.ErrAbortHandler)
			}
			w.Header().Set("Retry-After", tt.pause)
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, tt.answer)
		}))
		err := Caller{}.Post(t.Context(), server.URL, nil, new(int))
		server.Close()
		if after, ok := Temporary(err); err == nil || ok != tt.want || after != tt.after {
			t.Errorf("%d %.20q: %v, %v, %v", tt.status, tt.answer, err, after, ok)
		}
	}
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // it would log the failed handshake
	secure.StartTLS()
	defer secure.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for url, want := range map[string]bool{
		secure.URL: false, // an unknown authority
		strings.Replace(server.URL, "http:", "https:", 1): false,
		gone.URL: true, // it may be starting again
	} {
		err := Caller{}.Post(t.Context(), url, nil, new(int))
		if _, ok := Temporary(err); err == nil || ok != want {
			t.Errorf("%v: %v", err, ok)
		}
	}
	unknown := connectionError{&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}}
	if _, ok := Temporary(unknown); ok {
		t.Error(unknown)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := Caller{}.Post(ctx, server.URL, nil, new(int))
	if _, ok := Temporary(err); err == nil || ok {
		t.Error(err)
	}
}

// TestAnonymous: no error shows a name or a password in a URL.
func TestAnonymous(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	host := strings.TrimPrefix(gone.URL, "http://")
	for address, want := range map[string]string{
		"http://bob:hunter2@" + host + "/v1?a=b": `Post "http://` + host + `/v1?a=b": dial`,
		"http://bob@" + host:                     `Post "http://` + host + `": dial`,
		"http://bob:hunter2@localhost:x/v1":      `invalid URL`,
		"http://bob:hunter2/x@" + host:           `invalid URL`,
		"http://bob:hunter2%zz@" + host:          `invalid URL`,
	} {
		err := Caller{}.Post(t.Context(), address, nil, new(int))
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "bob") ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
