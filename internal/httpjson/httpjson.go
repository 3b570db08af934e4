// Package httpjson is a client for JSON over HTTP.
package httpjson

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
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
}

// Error shows the status and the beginning of the response.
func (e *StatusError) Error() string { return fmt.Sprintf("status %s: %s", e.Status, e.Text) }

// Open sends body as JSON and returns the response. The caller closes its Body. A response with a
// status other than 200 is a *StatusError.
func (c Caller) Open(ctx context.Context, url string, body any) (*Answer, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(b))
	if err != nil {
		return nil, err
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
		return nil, err
	}
	a := &Answer{resp, key}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxReply)) // as much of the reason as there is
		return nil, &StatusError{Status: resp.Status, Text: a.Shown(text)}
	}
	return a, nil
}

// Shown returns the beginning of a text of the response, for an error. It has no key, which some
// servers repeat.
func (a *Answer) Shown(text []byte) string {
	if a.key != "" {
		text = bytes.ReplaceAll(text, []byte(a.key), []byte("[secret]"))
	}
	return fmt.Sprintf("%.*s", maxRefusal, text)
}

// Decode decodes the response into reply.
func (a *Answer) Decode(reply any) error {
	text, err := io.ReadAll(io.LimitReader(a.Body, maxReply+1))
	if err != nil {
		return err
	}
	if len(text) > maxReply {
		return fmt.Errorf("invalid response: more than %d bytes", maxReply)
	}
	if err := json.Unmarshal(text, reply); err != nil {
		return fmt.Errorf("invalid response: %w", err)
	}
	return nil
}

// Post sends body as JSON and decodes the response into reply.
func (c Caller) Post(ctx context.Context, url string, body, reply any) error {
	a, err := c.Open(ctx, url, body)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	return a.Decode(reply)
}
