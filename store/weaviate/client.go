package weaviate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// A client sends requests to the nodes of a cluster. Every call is idempotent, and is retried on
// one endpoint after the other.
type client struct {
	http      *http.Client
	endpoints []string
	key       string
	timeout   time.Duration // of one attempt
	attempts  int
	pause     time.Duration // before the second round of the endpoints

	mu   sync.Mutex
	next int
	down map[string]time.Time // endpoints that failed, and when
}

// retryDown is how long a failed endpoint is tried last.
const retryDown = 5 * time.Second

// maxAnswer is the largest number of bytes read from an answer.
const maxAnswer = 1 << 30

// A statusError is an answer with an error status.
type statusError struct {
	status  int
	message string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.message) }

// A request is one call.
type request struct {
	method, path string
	query        url.Values
	body         any
	timeout      time.Duration // of one attempt; 0: the client's timeout
	patient      bool          // doubles the attempts, to outlast the detection of a dead node
}

// order returns the endpoints in the order of the attempts: each call starts with the next
// endpoint, and endpoints that failed recently come last.
func (c *client) order() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := slices.Concat(c.endpoints[c.next:], c.endpoints[:c.next])
	c.next = (c.next + 1) % len(c.endpoints)
	bad := func(e string) int {
		if at, ok := c.down[e]; ok && time.Since(at) < retryDown {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(list, func(a, b string) int { return cmp.Compare(bad(a), bad(b)) })
	return list
}

func (c *client) mark(endpoint string, failed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if failed {
		c.down[endpoint] = time.Now()
	} else {
		delete(c.down, endpoint)
	}
}

// do makes a call and decodes the answer into out, unless out is nil. It returns the number of
// attempts. read, if not nil, checks the answer: its error is the error of the attempt.
func (c *client) do(ctx context.Context, r request, out any, read func() error) (attempts int, err error) {
	var body []byte
	if r.body != nil {
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(r.body); err != nil {
			return 0, fmt.Errorf("weaviate: encode %s %s: %w", r.method, r.path, err)
		}
		body = buf.Bytes()
	}
	endpoints, most := c.order(), c.attempts
	if r.patient {
		most *= 2
	}
	for attempt := range most {
		if attempt > 0 && attempt%len(endpoints) == 0 {
			wait := time.NewTimer(c.pause << (attempt/len(endpoints) - 1))
			select {
			case <-ctx.Done():
				wait.Stop()
			case <-wait.C:
			}
		}
		if ctx.Err() != nil {
			return attempt, fmt.Errorf("weaviate: %s %s: %w", r.method, r.path, errors.Join(ctx.Err(), err))
		}
		endpoint := endpoints[attempt%len(endpoints)]
		err = c.try(ctx, endpoint, r, body, out)
		if err == nil && read != nil {
			err = read()
		}
		again := err != nil && transient(err)
		c.mark(endpoint, again)
		if !again {
			if err != nil {
				err = fmt.Errorf("weaviate: %s %s: %w", r.method, r.path, err)
			}
			return attempt + 1, err
		}
		err = fmt.Errorf("%s: %w", endpoint, err)
	}
	return most, fmt.Errorf("weaviate: %s %s: after %d attempts: %w", r.method, r.path, most, err)
}

func (c *client) try(ctx context.Context, endpoint string, r request, body []byte, out any) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.timeout, c.timeout))
	defer cancel()
	u := endpoint + r.path
	if len(r.query) > 0 {
		u += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, u, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return &networkError{err}
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return &networkError{err}
	}
	if resp.StatusCode >= 300 {
		return &statusError{resp.StatusCode, message(answer)}
	}
	if out == nil || len(answer) == 0 {
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("answer of %s: %w", endpoint, err)
	}
	return nil
}

// A networkError is an attempt without an answer.
type networkError struct{ err error }

func (e *networkError) Error() string { return e.err.Error() }
func (e *networkError) Unwrap() error { return e.err }

// A remoteError is an error message in an answer with status 200.
type remoteError struct {
	message string
	again   bool // a repetition may succeed
}

func (e *remoteError) Error() string { return e.message }

// transient reports whether the same call may succeed elsewhere or later.
func transient(err error) bool {
	var network *networkError
	var status *statusError
	var remote *remoteError
	switch {
	case errors.As(err, &network):
		return true
	case errors.As(err, &status):
		return status.status >= 500 || status.status == http.StatusTooManyRequests || unsettled(status.message)
	case errors.As(err, &remote):
		return remote.again || unsettled(remote.message)
	}
	return false
}

// unsettled reports whether a message is about the state of the cluster and not about the call: a
// node has died and the rest has not noticed, or a node does not know a newly created class yet
// (the last messages).
func unsettled(message string) bool {
	message = strings.ToLower(message)
	return slices.ContainsFunc([]string{"connection refused", "connection reset", "broken pipe",
		"deadline exceeded", "eof", "timeout", "timed out",
		"no such host", "not ready", "leader", "replica", "consistency level", "broadcast",
		"unavailable", "shutting down", "too many requests",
		"context canceled", "connect:", "dial tcp", "no healthy", "not enough", "request not found",
		"could not find index for class", "not found in schema", "could not find class",
		"no such class", "cannot query field"},
		func(s string) bool { return strings.Contains(message, s) })
}

// message returns the error message of an answer.
func message(answer []byte) string {
	var e struct {
		Error []struct{ Message string }
	}
	if json.Unmarshal(answer, &e) == nil && len(e.Error) > 0 {
		var all []string
		for _, m := range e.Error {
			all = append(all, m.Message)
		}
		return strings.Join(all, "; ")
	}
	return string(answer[:min(len(answer), 500)])
}

// graphQL sends a query and decodes data.kind.class into out.
func (c *client) graphQL(ctx context.Context, query, kind, class string, out any) error {
	var answer struct {
		Data   map[string]map[string]json.RawMessage
		Errors []struct{ Message string }
	}
	r := request{method: http.MethodPost, path: "/v1/graphql", body: map[string]string{"query": query}}
	_, err := c.do(ctx, r, &answer, func() error {
		errs := answer.Errors
		data, ok := answer.Data[kind][class]
		answer.Data, answer.Errors = nil, nil // set by this attempt only
		if len(errs) > 0 {
			var all []string
			for _, e := range errs {
				all = append(all, e.Message)
			}
			return &remoteError{message: strings.Join(all, "; ")}
		}
		if !ok {
			return fmt.Errorf("answer without data.%s.%s", kind, class)
		}
		return json.Unmarshal(data, out)
	})
	return err
}
