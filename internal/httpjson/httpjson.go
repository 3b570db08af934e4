// Package httpjson asks servers that speak JSON.
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

// A Caller sends requests. The zero value is good.
type Caller struct {
	// Client sends them; nil means one of its own, with Timeout, that follows
	// no redirects: they could take a key to another host.
	Client  *http.Client
	Timeout time.Duration
	// Secret returns the key when it is needed, for the header Authorization;
	// nil means none. It is neither kept nor part of an error.
	Secret func(context.Context) (string, error)
}

// maxReply bounds what is read of an answer, in bytes, and maxRefusal what is
// shown of one that is none.
const (
	maxReply   = 8 << 20
	maxRefusal = 200
)

// Post sends body as JSON and decodes the answer into reply. An answer with
// another status than 200 is an error that shows its beginning.
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
	client := cmp.Or(c.Client, &http.Client{Timeout: c.Timeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }})
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
