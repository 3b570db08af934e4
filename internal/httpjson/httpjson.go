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

// Post sends body as JSON and decodes the response into reply. A response with a status other than
// 200 is an error that shows its beginning.
func (c Caller) Post(ctx context.Context, url string, body, reply any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(b))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	key := ""
	if c.Secret != nil {
		if key, err = c.Secret(ctx); err != nil {
			return fmt.Errorf("secret: %w", err)
		}
		if key = strings.TrimSpace(key); key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
	}
	client := cmp.Or(c.Client, &http.Client{Timeout: c.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }})
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		text := string(answer)
		if key != "" {
			text = strings.ReplaceAll(text, key, "[secret]") // some servers repeat it
		}
		return fmt.Errorf("status %s: %.*s", resp.Status, maxRefusal, text)
	}
	if len(answer) > maxReply {
		return fmt.Errorf("invalid response: more than %d bytes", maxReply)
	}
	if err := json.Unmarshal(answer, reply); err != nil {
		return fmt.Errorf("invalid response: %w", err)
	}
	return nil
}
