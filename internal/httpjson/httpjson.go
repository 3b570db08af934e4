// Package httpjson is a client for JSON over HTTP.
package httpjson

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/vecbolt/vecbolt/internal/errtext"
	"github.com/vecbolt/vecbolt/internal/retry"
)

// A Caller sends requests. The zero value is ready to use.
type Caller struct {
	// Client sends the requests; nil means a client with Timeout that follows no redirects, because
	// they could take a key to another host.
	Client  *http.Client
	Timeout time.Duration
	// Secret returns the key for the header Authorization, per request; nil means none. The key is
	// neither kept nor part of an error.
	Secret func(context.Context) (string, error)
}

// maxReply limits the bytes read of a response, and maxRefusal the bytes shown of an error
// response.
const (
	maxReply   = 8 << 20
	maxRefusal = 200
)

// An Answer is a response with status 200.
type Answer struct {
	*http.Response
	key string
}

// A StatusError is a response with another status.
type StatusError struct {
	Status string
	Text   string // its beginning

	after     time.Duration // pause that the server asks for
	temporary bool
}

// Error shows the status and the beginning of the response.
func (e *StatusError) Error() string { return fmt.Sprintf("status %s: %s", e.Status, e.Text) }

// Temporary reports whether a request may succeed when it is sent again, and the pause that the
// server asks for: it limits the rate, or failed internally, or the connection broke before the
// response. It is false if the quota is used up, if the server did not answer in time, and if the
// connection fails for good (retry.Final).
func Temporary(err error) (after time.Duration, ok bool) {
	var refused *StatusError
	if errors.As(err, &refused) {
		return refused.after, refused.temporary
	}
	var broken connectionError
	if !errors.As(err, &broken) || retry.Final(err) || errors.Is(err, context.Canceled) {
		return 0, false
	}
	var late interface{ Timeout() bool }
	return 0, !errors.As(err, &late) || !late.Timeout()
}

// A connectionError is the failure of a request that got no response.
type connectionError struct{ error }

func (e connectionError) Unwrap() error { return e.error }

// refused returns the error for a response with a status other than 200.
func refused(a *Answer) *StatusError {
	text, _ := io.ReadAll(io.LimitReader(a.Body, maxReply)) // as much of the reason as there is
	e := &StatusError{Status: a.Shown([]byte(a.Status)), Text: a.Shown(text), after: retry.After(a.Header, time.Now())}
	switch code := a.StatusCode; code {
	case http.StatusTooManyRequests:
		e.temporary = !bytes.Contains(text, []byte("insufficient_quota"))
	default:
		e.temporary = code == http.StatusRequestTimeout || code >= 500 && code != http.StatusNotImplemented
	}
	return e
}

// Open sends body as JSON and returns the response. The caller closes its Body. A response with a
// status other than 200 is a *StatusError.
func (c Caller) Open(ctx context.Context, address string, body any) (*Answer, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(b))
	if err != nil {
		return nil, errtext.Anonymous(err)
	}
	req.Header.Set("Content-Type", "application/json")
	key := ""
	if c.Secret != nil {
		if key, err = c.Secret(ctx); err != nil {
			return nil, fmt.Errorf("secret: %w", err)
		}
		if key = strings.TrimSpace(key); key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
	}
	client := cmp.Or(c.Client, &http.Client{Timeout: c.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }})
	resp, err := client.Do(req)
	if err != nil {
		return nil, connectionError{errtext.Anonymous(err)}
	}
	a := &Answer{resp, key}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, refused(a)
	}
	return a, nil
}

// Shown returns the beginning of a text of the response, for an error, on one line. It has no
// key, which some servers repeat.
func (a *Answer) Shown(text []byte) string {
	if a.key != "" {
		text = bytes.ReplaceAll(text, []byte(a.key), []byte("[secret]"))
	}
	return errtext.OneLine(string(text), maxRefusal)
}

// Failure returns the error that a response reports with status 200, such as its member "error", or
// nil if text is Blank.
func (a *Answer) Failure(text json.RawMessage) error {
	if Blank(text) {
		return nil
	}
	return fmt.Errorf("the server gave up: %s", a.Shown(text))
}

// Blank reports whether the error in an answer says nothing. Some servers send an empty one, of any
// type, beside each good answer.
func Blank(value json.RawMessage) bool {
	var v any
	if len(value) == 0 || json.Unmarshal(value, &v) != nil {
		return true
	}
	switch v := v.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return v == nil || v == "" || v == false || v == 0.0
}

// Decode decodes the response into reply. A response whose member "error" is not Blank is its
// Failure.
func (a *Answer) Decode(reply any) error {
	text, err := io.ReadAll(io.LimitReader(a.Body, maxReply+1))
	if err != nil {
		return err
	}
	if len(text) > maxReply {
		return fmt.Errorf("invalid response: more than %d bytes", maxReply)
	}
	var failed struct{ Error json.RawMessage }
	if json.Unmarshal(text, &failed) == nil {
		if err := a.Failure(failed.Error); err != nil {
			return err
		}
	}
	if err := json.Unmarshal(text, reply); err != nil {
		return fmt.Errorf("invalid response: %w", err)
	}
	return nil
}

// Post sends body as JSON and decodes the response into reply.
func (c Caller) Post(ctx context.Context, address string, body, reply any) error {
	a, err := c.Open(ctx, address, body)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	return a.Decode(reply)
}
