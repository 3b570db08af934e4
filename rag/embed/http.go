package embed

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/vecbolt/vecbolt/internal/errtext"
	"github.com/vecbolt/vecbolt/internal/httpjson"
	"github.com/vecbolt/vecbolt/internal/retry"
)

// defaultTimeout limits a request to a provider.
const defaultTimeout = 60 * time.Second

// A remote is the common part of the embedders over HTTP.
type remote struct {
	provider, model string
	dim             atomic.Int64
	client          *http.Client
	timeout         time.Duration
	secret          Secret
	keyName         string // where the secret comes from
	needsKey        string // names a service that answers nobody without a key; empty: others
	maxBatch        int
}

func (r *remote) Provider() string { return r.provider }
func (r *remote) Model() string    { return r.model }
func (r *remote) Dimensions() int  { return int(r.dim.Load()) }

// check checks the answer to n texts. If the dimension is unknown, the first answer sets it.
func (r *remote) check(vecs [][]float32, n int) error {
	if err := checkReply(vecs, n, r.Dimensions()); err != nil {
		return r.fail(ErrInvalidResponse, err)
	}
	if r.dim.CompareAndSwap(0, int64(len(vecs[0]))) {
		return nil
	}
	if dim := r.Dimensions(); dim != len(vecs[0]) { // another call set it first
		return r.fail(ErrInvalidResponse, &DimensionError{Expected: dim, Got: len(vecs[0])})
	}
	return nil
}

func (r *remote) fail(kind, err error) *Error {
	return &Error{Kind: kind, Provider: r.provider, Model: r.model, Err: err}
}

// replyLimit bounds the size of the answer to n texts, in bytes. An indented JSON number takes less
// than 64, and the rest of the answer is small.
func (r *remote) replyLimit(n int) int64 {
	dim := int64(r.Dimensions())
	if dim == 0 {
		dim = 16 << 10
	}
	return 64<<10 + int64(n)*(dim*64+1<<10)
}

// maxRefusal is the maximum number of bytes read from an error response.
const maxRefusal = 64 << 10

// maxMessage is the maximum number of bytes that an error shows of it.
const maxMessage = 300

// post sends a JSON body and decodes the answer, of at most limit bytes, into reply. header sets
// the headers of the request; key is empty without a secret.
func (r *remote) post(ctx context.Context, url string, header func(h http.Header, key string), body any, limit int64, reply any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return r.fail(ErrOther, err)
	}
	key := ""
	if r.secret != nil {
		if key, err = r.secret(ctx); err != nil {
			return r.fail(ErrOther, fmt.Errorf("get secret: %w", err))
		}
		key = strings.TrimSpace(key)
	}
	if key == "" && r.needsKey != "" {
		return r.fail(ErrConfig, fmt.Errorf("%s requires an API key, and there is none in %s", r.needsKey, r.keyName))
	}
	inner, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(inner, http.MethodPost, url, bytes.NewReader(b))
	if err != nil {
		return r.fail(ErrConfig, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "vecbolt")
	header(req.Header, key)
	resp, err := r.client.Do(req)
	if err != nil {
		return r.broken(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // read errors do not matter here
		return r.refused(resp, answer, key)
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return r.broken(ctx, err)
	}
	if int64(len(answer)) > limit {
		return r.fail(ErrInvalidResponse, fmt.Errorf("more than %d bytes", limit))
	}
	if err := json.Unmarshal(answer, reply); err != nil {
		return r.fail(ErrInvalidResponse, err)
	}
	var failed struct{ Error json.RawMessage }
	if json.Unmarshal(answer, &failed) == nil && !httpjson.Blank(failed.Error) {
		return r.refused(resp, answer, key) // some servers send errors with status 200
	}
	return nil
}

// broken classifies an error of the connection.
func (r *remote) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return r.fail(contextKind(ctx.Err()), ctx.Err())
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err // drop the URL, which may contain a password
	}
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return r.fail(ErrTimeout, fmt.Errorf("no answer within %v", r.timeout))
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return r.fail(ErrInvalidResponse, fmt.Errorf("%w: %w", errConnection, err))
	}
	return r.fail(ErrOther, fmt.Errorf("%w: %w", errConnection, err))
}

// refused returns the error for a status other than 2xx.
func (r *remote) refused(resp *http.Response, body []byte, key string) error {
	e := r.fail(ErrProvider, nil)
	e.Status = resp.StatusCode
	message := ""
	message, e.Code, e.RetryAfter = explain(body)
	e.plain = !json.Valid(body)
	if key != "" {
		message = strings.ReplaceAll(message, key, "[secret]")
		e.Code = strings.ReplaceAll(e.Code, key, "[secret]")
	}
	if message != "" {
		e.Err = errors.New(message)
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		e.Kind = ErrRateLimited
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		e.Kind = ErrTimeout
	}
	if d := retry.After(resp.Header, time.Now()); d > 0 {
		e.RetryAfter = d
	}
	return e
}

// explain extracts message, code and retry pause from the body of an error. Known forms are
// {"error":{"message":…,"code":…}}, {"error":"…"}, {"message":…} and plain text. Google adds
// "status", and the pause among "details".
func explain(body []byte) (message, code string, pause time.Duration) {
	type detail struct {
		Message string          `json:"message"`
		Code    json.RawMessage `json:"code"`
		Type    string          `json:"type"`
		Status  json.RawMessage `json:"status"`
		Details json.RawMessage `json:"details"`
	}
	var reply struct {
		detail
		Error  json.RawMessage `json:"error"`
		Detail json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &reply) != nil {
		return errtext.OneLine(string(body), maxMessage), "", 0
	}
	d := reply.detail
	for _, raw := range []json.RawMessage{reply.Error, reply.Detail} {
		if len(raw) > 0 && json.Unmarshal(raw, &d) != nil {
			d.Message = ""
			if json.Unmarshal(raw, &d.Message) != nil {
				d.Message = string(raw)
			}
		}
	}
	if json.Unmarshal(d.Code, &code) != nil || code == "" { // null or a number, which repeats the status
		if code = d.Type; code == "" && json.Unmarshal(d.Status, &code) != nil {
			code = ""
		}
	}
	var details []struct {
		RetryDelay string `json:"retryDelay"`
	}
	if json.Unmarshal(d.Details, &details) != nil {
		details = nil
	}
	for _, x := range details {
		if t, err := time.ParseDuration(x.RetryDelay); err == nil {
			pause = max(pause, t)
		}
	}
	return errtext.OneLine(d.Message, maxMessage), errtext.OneLine(code, maxMessage), pause
}

// parseBase parses the URL of a server.
func parseBase(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("want a URL that begins with http:// or https://")
	case u.User != nil:
		return nil, errors.New("the URL contains a name or a password, which must not be in a configuration")
	}
	return u, nil
}

// common holds the settings of all remote providers.
type common struct {
	TimeoutSeconds float64 `json:"timeout_secs"`
	KeyEnv         string  `json:"api_key_env"`
}

func (c common) timeout() time.Duration { return retry.Seconds(c.TimeoutSeconds) }

func timeoutSchema() *Schema {
	return &Schema{Type: "number", Description: "seconds that a request may take", Default: defaultTimeout.Seconds(), Minimum: limit(0), Maximum: limit(3600)}
}

func keySchema(usual string) *Schema {
	return &Schema{Type: "string", Description: "name of the environment variable that holds the key; " + usual + " if empty"}
}

// A vector decodes an array of numbers, or base64 of little-endian float32 values.
type vector []float32

func (v *vector) UnmarshalJSON(b []byte) error {
	switch {
	case len(b) > 1 && b[0] == '"':
		text := b[1 : len(b)-1]
		if bytes.IndexByte(text, '\\') >= 0 { // PHP writes \/, and others \u002B
			var s string
			if err := json.Unmarshal(b, &s); err != nil {
				return err
			}
			text = []byte(s)
		}
		raw, err := base64.StdEncoding.AppendDecode(nil, text)
		if err != nil {
			return err
		}
		if len(raw)%4 != 0 {
			return fmt.Errorf("vector of %d bytes", len(raw))
		}
		*v = make(vector, len(raw)/4)
		for i := range *v {
			(*v)[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
		return nil
	case len(b) == 0 || b[0] != '[' || bytes.IndexByte(b, 'n') >= 0: // null would decode as 0
		return errors.New("want an array of numbers")
	}
	return json.Unmarshal(b, (*[]float32)(v))
}
