package embed_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/rag/embed"
)

const secret = "sk-not-to-be-seen-0123456789"

func key(context.Context) (string, error) { return secret, nil }

// A request is a request that a fake server received.
type request struct {
	Path, Query string
	Header      http.Header
	Body        map[string]any
}

// serve starts a server that answers every request with what reply writes.
func serve(t *testing.T, reply func(w http.ResponseWriter, r request)) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req := request{Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, Header: r.Header}
		if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s with %q", r.Method, r.Header.Get("Content-Type"))
		}
		if err := json.NewDecoder(r.Body).Decode(&req.Body); err != nil {
			t.Error(err)
		}
		reply(w, req)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func openAI(t *testing.T, model string, dim int, opts embed.OpenAIOptions) embed.Embedder {
	t.Helper()
	if opts.Secret == nil {
		opts.Secret = key
	}
	e, err := embed.OpenAI(model, dim, &opts)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func ollama(t *testing.T, model string, dim int, opts embed.OllamaOptions) embed.Embedder {
	t.Helper()
	e, err := embed.Ollama(model, dim, &opts)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// openAIReply is the shape of OpenAI's answers.
const openAIReply = `{
  "object": "list",
  "data": [
    {
      "object": "embedding",
      "index": 0,
      "embedding": [
        -0.5,
        0.25
      ]
    },
    {
      "object": "embedding",
      "index": 1,
      "embedding": [
        1,
        2e-3
      ]
    }
  ],
  "model": "text-embedding-3-small",
  "usage": {
    "prompt_tokens": 4,
    "total_tokens": 4
  }
}
`

func TestOpenAI(t *testing.T) {
	var got request
	url := serve(t, func(w http.ResponseWriter, r request) { got = r; io.WriteString(w, openAIReply) })
	e := openAI(t, "text-embedding-3-small", 2, embed.OpenAIOptions{Base: url + "/v1/", Organization: "org-1", Project: "proj-1"})
	vecs, err := e.EmbedBatch(t.Context(), []string{"one", "two"})
	if err != nil || !cmp.Equal(vecs, [][]float32{{-0.5, 0.25}, {1, 0.002}}) {
		t.Error(vecs, err)
	}
	want := map[string]any{"model": "text-embedding-3-small", "input": []any{"one", "two"}, "dimensions": 2.0}
	if got.Path != "/v1/embeddings" || got.Query != "" || !cmp.Equal(got.Body, want) {
		t.Errorf("%+v", got)
	}
	for name, want := range map[string]string{"Authorization": "Bearer " + secret, "OpenAI-Organization": "org-1", "OpenAI-Project": "proj-1", "Api-Key": ""} {
		if got.Header.Get(name) != want {
			t.Errorf("%s: %q", name, got.Header.Get(name))
		}
	}
	if e.Provider() != "openai" || e.Model() != "text-embedding-3-small" || e.Dimensions() != 2 {
		t.Error(e.Provider(), e.Model(), e.Dimensions())
	}
	if vecs, err := e.EmbedBatch(t.Context(), nil); len(vecs) != 0 || err != nil {
		t.Error(vecs, err)
	}
}

func TestOpenAIAsksForDimensionsOnlyWhereItMay(t *testing.T) {
	for _, tt := range []struct {
		model string
		dim   int
		send  bool
		want  any
		known int
	}{
		{"text-embedding-3-large", 0, false, nil, 3072},
		{"text-embedding-3-large", 256, false, 256.0, 256},
		{"text-embedding-ada-002", 1536, false, nil, 1536},
		{"bge-m3", 1024, false, nil, 1024},
		{"bge-m3", 512, true, 512.0, 512},
		{"bge-m3", 0, true, nil, 0},
	} {
		var got request
		url := serve(t, func(w http.ResponseWriter, r request) { got = r; w.WriteHeader(500) })
		e := openAI(t, tt.model, tt.dim, embed.OpenAIOptions{Base: url, SendDimensions: tt.send})
		if e.Dimensions() != tt.known {
			t.Errorf("%+v: knows %d", tt, e.Dimensions())
		}
		e.Embed(t.Context(), "x")
		if got.Body["dimensions"] != tt.want {
			t.Errorf("%+v: sent %v", tt, got.Body["dimensions"])
		}
	}
}

func TestAzure(t *testing.T) {
	var got request
	url := serve(t, func(w http.ResponseWriter, r request) { got = r; io.WriteString(w, openAIReply) })
	e := openAI(t, "text-embedding-ada-002", 2, embed.OpenAIOptions{Base: url, Azure: true, Deployment: "my ada/2", APIVersion: "2023-05-15"})
	if _, err := e.EmbedBatch(t.Context(), []string{"one", "two"}); err != nil {
		t.Fatal(err)
	}
	if got.Path != "/openai/deployments/my%20ada%2F2/embeddings" || got.Query != "api-version=2023-05-15" ||
		got.Header.Get("Api-Key") != secret || got.Header.Get("Authorization") != "" {
		t.Errorf("%+v", got)
	}
}

func TestBase64(t *testing.T) {
	want := []float32{-0.1, 3e-39, 7}
	var raw []byte
	for _, x := range want {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	reply := base64.StdEncoding.EncodeToString(raw)
	url := serve(t, func(w http.ResponseWriter, r request) {
		if r.Body["encoding_format"] != "base64" {
			t.Error(r.Body)
		}
		io.WriteString(w, `{"data":[{"index":0,"embedding":"`+reply+`"}]}`)
	})
	e := openAI(t, "m", 0, embed.OpenAIOptions{Base: url, Base64: true})
	v, err := e.Embed(t.Context(), "x")
	if err != nil || !cmp.Equal(v, want) || e.Dimensions() != 3 {
		t.Error(v, err, e.Dimensions())
	}
	plain := reply
	reply = ""
	for _, c := range plain { // JSON may escape any character
		reply += fmt.Sprintf(`\u%04x`, c)
	}
	if v, err := e.Embed(t.Context(), "x"); err != nil || !cmp.Equal(v, want) {
		t.Error(reply, v, err)
	}
	for _, bad := range []string{"AAA=", "A", base64.StdEncoding.EncodeToString([]byte{0, 0, 0xc0, 0x7f}), ""} {
		reply = bad
		if _, err := e.Embed(t.Context(), "x"); !errors.Is(err, embed.ErrInvalidResponse) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// Any order of the answers will do, and so will none.
func TestOpenAIOrder(t *testing.T) {
	for _, reply := range []string{
		`{"data":[{"index":2,"embedding":[3]},{"index":0,"embedding":[1]},{"index":1,"embedding":[2]}]}`,
		`{"data":[{"embedding":[1]},{"embedding":[2]},{"embedding":[3]}]}`,
	} {
		url := serve(t, func(w http.ResponseWriter, _ request) { io.WriteString(w, reply) })
		vecs, err := openAI(t, "m", 0, embed.OpenAIOptions{Base: url}).EmbedBatch(t.Context(), []string{"a", "b", "c"})
		if err != nil || !cmp.Equal(vecs, [][]float32{{1}, {2}, {3}}) {
			t.Errorf("%s: %v %v", reply, vecs, err)
		}
	}
}

// Some servers send an empty error beside each answer.
func TestErrorBesideAnswer(t *testing.T) {
	beside := ""
	url := serve(t, func(w http.ResponseWriter, _ request) {
		fmt.Fprintf(w, `{"data":[{"embedding":[1]}],"error":%s}`, beside)
	})
	e := openAI(t, "m", 0, embed.OpenAIOptions{Base: url})
	for _, beside = range []string{`null`, `""`, `{}`, `[ ]`, `false`, `0`} {
		if v, err := e.Embed(t.Context(), "x"); err != nil || !cmp.Equal(v, []float32{1}) {
			t.Errorf("%s: %v %v", beside, v, err)
		}
	}
	for _, beside = range []string{`"no memory"`, `{"message":"no memory"}`, `["no memory"]`} {
		if _, err := e.Embed(t.Context(), "x"); !errors.Is(err, embed.ErrProvider) || !strings.Contains(err.Error(), "no memory") {
			t.Errorf("%s: %v", beside, err)
		}
	}
}

func TestInvalidResponses(t *testing.T) {
	for _, reply := range []string{
		``, `{`, `null`, `[]`, `<html>hello</html>`, `{}`, `{"data":null}`,
		`{"data":[{"index":0,"embedding":[1,2]}]}`,                                    // too few
		`{"data":[{"index":0,"embedding":[1,2]},{"index":1,"embedding":[1,2]},{}]}`,   // too many
		`{"data":[{"index":0,"embedding":[1,2]},{"index":0,"embedding":[1,2]}]}`,      // the same twice
		`{"data":[{"index":0,"embedding":[1,2]},{"index":2,"embedding":[1,2]}]}`,      // out of range
		`{"data":[{"index":-1,"embedding":[1,2]},{"index":0,"embedding":[1,2]}]}`,     // likewise
		`{"data":[{"index":0,"embedding":[1,2]},{"index":1,"embedding":[1]}]}`,        // another dimension
		`{"data":[{"index":0,"embedding":[1,2]},{"index":1,"embedding":[]}]}`,         // none
		`{"data":[{"index":0,"embedding":[1,2]},{"index":1}]}`,                        // likewise
		`{"data":[{"index":0,"embedding":[1,2]},{"index":1,"embedding":[1,NaN]}]}`,    // not JSON
		`{"data":[{"index":0,"embedding":[1,2]},{"index":1,"embedding":[1,null]}]}`,   // not a number
		`{"data":[{"index":0,"embedding":[1,2]},{"index":1,"embedding":[1,"2"]}]}`,    // likewise
		`{"data":[{"index":0,"embedding":[1,2]},{"index":1,"embedding":[1,1e39]}]}`,   // beyond float32
		`{"data":[{"index":0,"embedding":[1,2]},{"index":1,"embedding":{"0":1}}]}`,    // an object
		`{"data":[{"index":0,"embedding":[1,2,3]},{"index":1,"embedding":[1,2,3]}]}`,  // not the dimension wanted
		`{"data":[{"index":0,"embedding":[1,2]},{"index":1,"embedding":[1,2]}]} more`, // more than one value
	} {
		url := serve(t, func(w http.ResponseWriter, _ request) { io.WriteString(w, reply) })
		vecs, err := openAI(t, "m", 2, embed.OpenAIOptions{Base: url}).EmbedBatch(t.Context(), []string{"a", "b"})
		if !errors.Is(err, embed.ErrInvalidResponse) || vecs != nil || embed.Temporary(err) {
			t.Errorf("%s: %v %v", reply, vecs, err)
		}
	}
	url := serve(t, func(w http.ResponseWriter, _ request) { io.WriteString(w, openAIReply) })
	_, err := openAI(t, "m", 3, embed.OpenAIOptions{Base: url}).EmbedBatch(t.Context(), []string{"a", "b"})
	var dim *embed.DimensionError
	if !errors.As(err, &dim) || *dim != (embed.DimensionError{Expected: 3, Got: 2}) {
		t.Error(err)
	}
}

// The first answer decides on the dimension if nobody did.
func TestDimensionIsLearnt(t *testing.T) {
	reply := `{"data":[{"embedding":[1,2,3]}]}`
	url := serve(t, func(w http.ResponseWriter, _ request) { io.WriteString(w, reply) })
	e := openAI(t, "m", 0, embed.OpenAIOptions{Base: url})
	if _, err := e.Embed(t.Context(), "a"); err != nil || e.Dimensions() != 3 {
		t.Fatal(err, e.Dimensions())
	}
	reply = `{"data":[{"embedding":[1,2]}]}`
	if _, err := e.Embed(t.Context(), "a"); !dimension(err) {
		t.Error(err)
	}
}

func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		status    int
		header    string
		body      string
		kind      error
		temporary bool
		after     time.Duration
		want      string
	}{
		{401, "", `{"error":{"message":"Incorrect API key provided: ` + secret + `. See\n\tthe docs.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`,
			embed.ErrProvider, false, 0, `embed: openai "m": provider error: status 401 (invalid_api_key): Incorrect API key provided: [secret]. See the docs.`},
		{429, "Retry-After: 20", `{"error":{"message":"Rate limit reached","type":"requests","param":null,"code":"rate_limit_exceeded"}}`,
			embed.ErrRateLimited, true, 20 * time.Second, `embed: openai "m": rate limited: status 429 (rate_limit_exceeded): Rate limit reached; retry after 20s`},
		{429, "Retry-After-Ms: 1500", `{"error":{"code":"429","message":"Requests to Azure exceeded the limit."}}`,
			embed.ErrRateLimited, true, 1500 * time.Millisecond, `(429): Requests to Azure exceeded the limit.; retry after 1.5s`},
		{429, "", `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`,
			embed.ErrRateLimited, false, 0, `status 429 (insufficient_quota)`},
		{429, "Retry-After: -5", ``, embed.ErrRateLimited, true, 0, `rate limited: status 429`},
		{429, "Retry-After: NaN", ``, embed.ErrRateLimited, true, 0, ``},
		{429, "Retry-After: 1e300", ``, embed.ErrRateLimited, true, 1e9 * time.Second, ``},
		{429, "Retry-After: Thu, 01 Jan 1970 00:00:00 GMT", ``, embed.ErrRateLimited, true, 0, ``},
		{429, "", `{"error":{"code":429,"message":"Quota exceeded","status":"RESOURCE_EXHAUSTED","details":[{"@type":"x.Help"},{"@type":"x.RetryInfo","retryDelay":"34s"}]}}`,
			embed.ErrRateLimited, true, 34 * time.Second, `status 429 (RESOURCE_EXHAUSTED): Quota exceeded; retry after 34s`},
		{503, "Retry-After: 2", `<html><h1>Unavailable</h1></html>`, embed.ErrProvider, true, 2 * time.Second, `status 503: <html><h1>Unavailable</h1></html>; retry after 2s`},
		{500, "", strings.Repeat("x", 5000), embed.ErrProvider, true, 0, "xxx…"},
		{504, "", "", embed.ErrTimeout, true, 0, "timeout: status 504"},
		{400, "", `{"error":"input is too long"}`, embed.ErrProvider, false, 0, `status 400: input is too long`},
		{422, "", `{"detail":[{"msg":"field required"}]}`, embed.ErrProvider, false, 0, `status 422: [{"msg":"field required"}]`},
		{404, "", `{"error":{"message":"not here","status":404,"details":"none"}}`, embed.ErrProvider, false, 0, `status 404: not here`},
		{404, "", `{"message":"no such model","code":404}`, embed.ErrProvider, false, 0, `status 404: no such model`},
		{307, "Location: http://elsewhere.invalid/", ``, embed.ErrProvider, false, 0, `status 307`},
		{200, "", `{"error":{"message":"no ` + secret + ` here","code":400}}`, embed.ErrProvider, false, 0, `status 200: no [secret] here`},
	} {
		url := serve(t, func(w http.ResponseWriter, _ request) {
			if name, value, ok := strings.Cut(tt.header, ": "); ok {
				w.Header().Set(name, value)
			}
			w.WriteHeader(tt.status)
			io.WriteString(w, tt.body)
		})
		_, err := openAI(t, "m", 2, embed.OpenAIOptions{Base: url}).Embed(t.Context(), "a")
		var e *embed.Error
		if !errors.As(err, &e) {
			t.Fatalf("%d %s: %v", tt.status, tt.body, err)
		}
		if !errors.Is(err, tt.kind) || embed.Temporary(err) != tt.temporary || e.RetryAfter != tt.after || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 500 {
			t.Errorf("%d %s: %v (temporary %v, after %v)", tt.status, tt.body, err, embed.Temporary(err), e.RetryAfter)
		}
	}
}

// A date in the future is as good as a number of seconds.
func TestRetryAfterDate(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ request) {
		w.Header().Set("Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
		w.WriteHeader(429)
	})
	var e *embed.Error
	_, err := openAI(t, "m", 2, embed.OpenAIOptions{Base: url}).Embed(t.Context(), "a")
	if !errors.As(err, &e) || e.RetryAfter > time.Hour || e.RetryAfter < 50*time.Minute {
		t.Error(err)
	}
}

func TestTruncatedAndHugeBodies(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ request) {
		w.Header().Set("Content-Length", "10000")
		io.WriteString(w, openAIReply)
	})
	_, err := openAI(t, "m", 2, embed.OpenAIOptions{Base: url}).Embed(t.Context(), "a")
	if !errors.Is(err, embed.ErrInvalidResponse) || !embed.Temporary(err) {
		t.Error("truncated:", err)
	}
	sent := make(chan int, 1)
	url = serve(t, func(w http.ResponseWriter, _ request) {
		n, total := 0, 0
		for err := error(nil); err == nil && total < 1<<30; total += n {
			n, err = w.Write(bytes.Repeat([]byte("1,"), 32<<10))
		}
		sent <- total
	})
	_, err = openAI(t, "m", 2, embed.OpenAIOptions{Base: url}).Embed(t.Context(), "a")
	if total := <-sent; !errors.Is(err, embed.ErrInvalidResponse) || total > 100<<20 {
		t.Error("huge:", total, err)
	}
}

func TestConnectionsThatBreak(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }))
	e := openAI(t, "m", 2, embed.OpenAIOptions{Base: srv.URL})
	if _, err := e.Embed(t.Context(), "a"); !errors.Is(err, embed.ErrOther) || !embed.Temporary(err) {
		t.Error("aborted:", err)
	}
	srv.Close()
	if _, err := e.Embed(t.Context(), "a"); !errors.Is(err, embed.ErrOther) || !embed.Temporary(err) || strings.Contains(err.Error(), "http://") {
		t.Error("refused:", err)
	}
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	e = openAI(t, "m", 2, embed.OpenAIOptions{Base: secure.URL})
	if _, err := e.Embed(t.Context(), "a"); !errors.Is(err, embed.ErrOther) || embed.Temporary(err) {
		t.Error("unknown authority:", err)
	}
}

func TestSlowServers(t *testing.T) {
	release := make(chan struct{})
	slow := serve(t, func(http.ResponseWriter, request) { <-release })
	stuck := serve(t, func(w http.ResponseWriter, _ request) { // in the middle of the answer
		io.WriteString(w, openAIReply[:100])
		w.(http.Flusher).Flush()
		<-release
	})
	t.Cleanup(func() { close(release) })
	for _, url := range []string{slow, stuck} {
		_, err := openAI(t, "m", 2, embed.OpenAIOptions{Base: url, Timeout: time.Millisecond}).Embed(t.Context(), "a")
		if !errors.Is(err, embed.ErrTimeout) || !embed.Temporary(err) || !strings.Contains(err.Error(), "within 1ms") {
			t.Error("timeout:", err)
		}
		e := openAI(t, "m", 2, embed.OpenAIOptions{Base: url})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		_, err = e.Embed(ctx, "a")
		if !errors.Is(err, embed.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
			t.Error("deadline:", err)
		}
		cancel()
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		_, err = e.Embed(ctx, "a")
		if !errors.Is(err, embed.ErrOther) || !errors.Is(err, context.Canceled) || embed.Temporary(err) {
			t.Error("cancelled:", err)
		}
	}
}

func TestBatchSizeExceeded(t *testing.T) {
	e := openAI(t, "m", 2, embed.OpenAIOptions{Base: "http://localhost:1", MaxBatch: 3})
	_, err := e.EmbedBatch(t.Context(), make([]string, 4))
	if !errors.Is(err, embed.ErrBatchSize) || !strings.HasSuffix(err.Error(), "batch size exceeded: 4 texts, at most 3") {
		t.Error(err)
	}
}

// A key is sent to the server it is meant for, and appears nowhere else.
func TestSecretsStaySecret(t *testing.T) {
	elsewhere := serve(t, func(_ http.ResponseWriter, r request) { t.Errorf("followed a redirect with %v", r.Header) })
	asked := 0
	url := serve(t, func(w http.ResponseWriter, r request) {
		asked++
		if r.Header.Get("Authorization") != "Bearer "+secret && r.Header.Get("Api-Key") != secret {
			t.Errorf("%v", r.Header)
		}
		w.Header().Set("Location", elsewhere)
		w.WriteHeader(http.StatusTemporaryRedirect)
		fmt.Fprintf(w, `{"error":{"message":"bad key %s","code":"%s"}}`, secret, secret)
	})
	names := []string{}
	opts := &embed.Options{Secret: func(_ context.Context, name string) (string, error) {
		names = append(names, name)
		return secret + "\n", nil
	}}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("options", "opts", opts)
	for _, settings := range []map[string]any{{"api_base": url}, {"api_base": url, "azure": true}, {"api_base": url, "api_key_env": "MINE"}} {
		c := embed.Config{Provider: "openai", Model: "m", Settings: settings}
		e, err := embed.Open(t.Context(), c, opts)
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.Embed(t.Context(), "x")
		if err == nil {
			t.Fatal("a redirect is no answer")
		}
		stored, jsonErr := json.Marshal(c)
		if jsonErr != nil {
			t.Fatal(jsonErr)
		}
		fmt.Fprintf(&log, "%v %+v %#v %s %v", err, err, e, stored, c)
	}
	if strings.Contains(log.String(), secret) {
		t.Errorf("the key is in %s", log.String())
	}
	if asked != 3 || !cmp.Equal(names, []string{"OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "MINE"}) {
		t.Error(asked, names)
	}
	opts.Secret = func(context.Context, string) (string, error) { return "", errors.New("vault is locked") }
	e, err := embed.Open(t.Context(), embed.Config{Provider: "openai", Settings: map[string]any{"api_base": url}}, opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Embed(t.Context(), "x"); !errors.Is(err, embed.ErrOther) || !strings.Contains(err.Error(), "vault is locked") {
		t.Error(err)
	}
}

func TestSecretFromEnvironment(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", secret)
	t.Setenv("OLLAMA_API_KEY", secret)
	count := 0
	url := serve(t, func(w http.ResponseWriter, r request) {
		if r.Header.Get("Authorization") == "Bearer "+secret {
			count++
		}
		w.WriteHeader(500)
	})
	for _, c := range []embed.Config{
		{Provider: "openai", Model: "m", Settings: map[string]any{"api_base": url}},
		{Provider: "ollama", Model: "m", Settings: map[string]any{"host": url}},
	} {
		e, err := embed.Open(t.Context(), c, nil)
		if err != nil {
			t.Fatal(err)
		}
		e.Embed(t.Context(), "x")
	}
	if count != 2 {
		t.Error(count)
	}
}

// OpenAI, Azure and Gemini are not asked without a key, unless by a client that may add one.
func TestKeyIsNeeded(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", " ")
	t.Setenv("AZURE_OPENAI_API_KEY", "")
	t.Setenv("GEMINI_API_KEY", "")
	for want, c := range map[string]embed.Config{
		"OpenAI requires an API key, and there is none in OPENAI_API_KEY":      {Provider: "openai"},
		"OpenAI requires an API key, and there is none in MY_KEY":              {Provider: "openai", Settings: map[string]any{"api_key_env": "MY_KEY"}},
		"Azure requires an API key, and there is none in AZURE_OPENAI_API_KEY": {Provider: "openai", Settings: map[string]any{"azure": true, "api_base": "https://x.openai.azure.com"}},
		"Gemini requires an API key, and there is none in GEMINI_API_KEY":      {Provider: "gemini"},
	} {
		e, err := embed.Open(t.Context(), c, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = embed.Retry(e, nil).Embed(t.Context(), "x")
		if !errors.Is(err, embed.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	e, err := embed.OpenAI("", 0, &embed.OpenAIOptions{Secret: func(context.Context) (string, error) { return "", nil }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Embed(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "there is none in Secret") {
		t.Error(err)
	}
	asked := 0
	adds := roundTrip(func(*http.Request) (*http.Response, error) {
		asked++
		return nil, errors.New("no network")
	})
	for _, c := range []embed.Config{{Provider: "openai"}, {Provider: "gemini"}} {
		e, err := embed.Open(t.Context(), c, &embed.Options{Client: &http.Client{Transport: adds}})
		if err != nil {
			t.Fatal(err)
		}
		e.Embed(t.Context(), "x")
	}
	if asked != 2 {
		t.Errorf("%d requests by clients that may add a key", asked)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A server on this machine needs no key.
func TestNoKey(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "")
	url := serve(t, func(w http.ResponseWriter, r request) {
		if len(r.Header["Authorization"]) > 0 {
			t.Error(r.Header)
		}
		io.WriteString(w, `{"data":[{"embedding":[1]}]}`)
	})
	e, err := embed.OpenAI("m", 0, &embed.OpenAIOptions{Base: url})
	if err != nil {
		t.Fatal(err)
	}
	vector(t, e, "x")
}

func TestRemoteConfigErrors(t *testing.T) {
	for _, c := range []embed.Config{
		{Provider: "openai", Settings: map[string]any{"api_base": "localhost:8080"}},
		{Provider: "openai", Settings: map[string]any{"api_base": "http://me:" + secret + "@x/v1"}},
		{Provider: "openai", Settings: map[string]any{"api_key": secret}},
		{Provider: "openai", Settings: map[string]any{"azure": true}},
		{Provider: "openai", Settings: map[string]any{"max_batch": 0}},
		{Provider: "openai", Settings: map[string]any{"timeout_secs": -1}},
		{Provider: "openai", BatchSize: 4096},
		{Provider: "ollama"},
		{Provider: "ollama", Model: "m", Settings: map[string]any{"host": "ftp://x"}},
		{Provider: "ollama", Model: "m", Settings: map[string]any{"host": "http://me:" + secret + "@x"}},
	} {
		if _, err := embed.Open(t.Context(), c, nil); !errors.Is(err, embed.ErrConfig) || strings.Contains(err.Error(), secret) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, dim := range []int{-1, 1<<16 + 1} {
		if _, err := embed.OpenAI("m", dim, nil); !errors.Is(err, embed.ErrConfig) {
			t.Error(err)
		}
		if _, err := embed.Ollama("m", dim, nil); !errors.Is(err, embed.ErrConfig) {
			t.Error(err)
		}
	}
}

// Every setting of a schema reaches the provider.
func TestSettingsAreKnown(t *testing.T) {
	samples := map[string]any{"string": "x", "boolean": false, "integer": 1, "number": 1.5}
	for _, p := range embed.Builtin() {
		if p.Settings == nil || p.Capabilities.Files {
			continue
		}
		c := embed.Config{Provider: p.Name, Model: "m", Settings: map[string]any{}}
		for name, s := range p.Settings.Properties {
			c.Settings[name] = samples[s.Type]
			if s.Format == "uri" {
				c.Settings[name] = "http://x"
			}
			if len(s.Enum) > 0 {
				c.Settings[name] = s.Enum[0]
			}
		}
		if _, err := embed.Open(t.Context(), c, nil); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
}

func TestOllama(t *testing.T) {
	var got request
	url := serve(t, func(w http.ResponseWriter, r request) {
		got = r
		io.WriteString(w, `{"model":"nomic-embed-text","embeddings":[[0.6,0.8],[1,0]],"total_duration":65535,"load_duration":1234,"prompt_eval_count":4}`)
	})
	e := ollama(t, "nomic-embed-text", 2, embed.OllamaOptions{Host: url, KeepAlive: "10m", SendDimensions: true})
	vecs, err := e.EmbedBatch(t.Context(), []string{"one", "two"})
	if err != nil || !cmp.Equal(vecs, [][]float32{{0.6, 0.8}, {1, 0}}) {
		t.Error(vecs, err)
	}
	want := map[string]any{"model": "nomic-embed-text", "input": []any{"one", "two"}, "keep_alive": "10m", "dimensions": 2.0}
	if got.Path != "/api/embed" || !cmp.Equal(got.Body, want) {
		t.Errorf("%+v", got)
	}
	if e.Provider() != "ollama" || e.Model() != "nomic-embed-text" || e.Dimensions() != 2 {
		t.Error(e.Provider(), e.Model(), e.Dimensions())
	}
	if vecs, err := e.EmbedBatch(t.Context(), nil); len(vecs) != 0 || err != nil {
		t.Error(vecs, err)
	}
}

// A server older than 0.3 answers batches with the router's 404.
func TestOllamaFallsBack(t *testing.T) {
	for _, status := range []int{404, 405} {
		var prompts []any
		url := serve(t, func(w http.ResponseWriter, r request) {
			if r.Path != "/api/embeddings" {
				http.Error(w, "404 page not found", status)
				return
			}
			prompts = append(prompts, r.Body["prompt"])
			fmt.Fprintf(w, `{"embedding":[%d,0]}`, 3*len(prompts))
		})
		vecs, err := ollama(t, "m", 0, embed.OllamaOptions{Host: url}).EmbedBatch(t.Context(), []string{"one", "two"})
		if err != nil || !cmp.Equal(vecs, [][]float32{{1, 0}, {1, 0}}) || !cmp.Equal(prompts, []any{"one", "two"}) {
			t.Error(vecs, err, prompts)
		}
	}
}

func TestOllamaErrors(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
		kind   error
		want   string
	}{
		{404, `{"error":"model \"m\" not found, try pulling it first"}`, embed.ErrProvider, `status 404: model "m" not found, try pulling it first`},
		{400, `{"error":"the input length exceeds the context length"}`, embed.ErrProvider, `exceeds the context length`},
		{503, `{"error":"server busy, please try again.  maximum pending requests exceeded"}`, embed.ErrProvider, `server busy`},
		{200, `{"embeddings":[[1,2]]}`, embed.ErrInvalidResponse, `1 vectors for 2 texts`},
		{200, `{"embeddings":[[1,2],[1,2,3]]}`, embed.ErrInvalidResponse, `expected 2, got 3`},
		{200, `{"embeddings":null}`, embed.ErrInvalidResponse, `0 vectors for 2 texts`},
		{200, `{"embeddings":[[1,2],[1,`, embed.ErrInvalidResponse, `unexpected end`},
		{200, `{"embeddings":[[1,2],null]}`, embed.ErrInvalidResponse, ``},
	} {
		url := serve(t, func(w http.ResponseWriter, r request) { w.WriteHeader(tt.status); io.WriteString(w, tt.body) })
		_, err := ollama(t, "m", 2, embed.OllamaOptions{Host: url}).EmbedBatch(t.Context(), []string{"a", "b"})
		if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.body, err)
		}
	}
}

func TestOllamaHost(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r request) { fmt.Fprintf(w, `{"embeddings":[[%d]]}`, len(r.Path)) })
	host := strings.TrimPrefix(url, "http://")
	for _, tt := range []struct {
		option, env string
		path        string
	}{
		{url, "", "/api/embed"},
		{host, "nowhere.invalid", "/api/embed"},
		{url + "/proxy/", "", "/proxy/api/embed"},
		{"", url, "/api/embed"},
		{"", strings.Replace(host, "127.0.0.1", "0.0.0.0", 1), "/api/embed"},
	} {
		t.Setenv("OLLAMA_HOST", tt.env)
		if v := vector(t, ollama(t, "m", 0, embed.OllamaOptions{Host: tt.option}), "x"); v[0] != float32(len(tt.path)) {
			t.Errorf("%+v: %v", tt, v)
		}
	}
}

// A recording is a request and its answer.
type recording struct {
	method, url string
	body        map[string]any
	response    *http.Response
	answer      []byte
}

// recorded reads an httprr trace of langchaingo.
func recorded(t *testing.T, name string) []recording {
	t.Helper()
	file := filepath.Join("../../../shared/data/wire", filepath.FromSlash(name))
	b, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("skipped: no recording %s here", file)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, b, _ = bytes.Cut(b, []byte("\n"))
	var all []recording
	for len(b) > 0 {
		var in, out int
		head, rest, _ := bytes.Cut(b, []byte("\n"))
		if _, err := fmt.Sscan(string(head), &in, &out); err != nil {
			t.Fatal(err)
		}
		req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(rest[:in])))
		if err != nil {
			t.Fatal(err)
		}
		x := recording{method: req.Method, url: req.URL.Path}
		if err := json.NewDecoder(req.Body).Decode(&x.body); err != nil {
			t.Fatal(err)
		}
		x.response, err = http.ReadResponse(bufio.NewReader(bytes.NewReader(rest[in:in+out])), req)
		if err != nil {
			t.Fatal(err)
		}
		if x.answer, err = io.ReadAll(x.response.Body); err != nil {
			t.Fatal(err)
		}
		all = append(all, x)
		b = rest[in+out:]
	}
	if len(all) == 0 {
		t.Fatalf("%s is empty", file)
	}
	return all
}

func TestRecordedOpenAI(t *testing.T) {
	for _, name := range []string{
		"llms/openai/internal/openaiclient/testdata/TestClient_CreateEmbedding.httprr",
		"llms/openai/internal/openaiclient/testdata/TestClient_CreateEmbeddingWithDimensions.httprr",
		"embeddings/testdata/TestOpenaiEmbeddings.httprr",
		"embeddings/testdata/TestOpenaiEmbeddingsQueryVsDocuments.httprr",
		"embeddings/testdata/TestOpenaiEmbeddingsWithOptions.httprr",
	} {
		for _, x := range recorded(t, name) {
			url := serve(t, func(w http.ResponseWriter, r request) {
				if r.Path != x.url || !cmp.Equal(r.Body, x.body) {
					t.Errorf("%s %v, recorded %s %v", r.Path, r.Body, x.url, x.body)
				}
				w.WriteHeader(x.response.StatusCode)
				w.Write(x.answer)
			})
			dim, _ := x.body["dimensions"].(float64)
			e := openAI(t, x.body["model"].(string), int(dim), embed.OpenAIOptions{Base: url + "/v1"})
			var texts []string
			for _, text := range x.body["input"].([]any) {
				texts = append(texts, text.(string))
			}
			vecs, err := e.EmbedBatch(t.Context(), texts)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			for _, v := range vecs {
				if n := cosineLength(v); math.Abs(n-1) > 1e-3 || len(v) != e.Dimensions() {
					t.Errorf("%s: %d components of length %v", name, len(v), n)
				}
			}
		}
	}
}

func TestRecordedOllama(t *testing.T) {
	for _, name := range []string{
		"llms/ollama/testdata/TestCreateEmbedding.httprr",
		"llms/ollama/internal/ollamaclient/testdata/TestClient_CreateEmbedding.httprr",
	} {
		for _, x := range recorded(t, name) {
			url := serve(t, func(w http.ResponseWriter, r request) {
				if r.Path != x.url || r.Body["model"] != x.body["model"] || !cmp.Equal(r.Body["input"], []any{x.body["input"]}) {
					t.Errorf("%s %v, recorded %s %v", r.Path, r.Body, x.url, x.body)
				}
				w.WriteHeader(x.response.StatusCode)
				w.Write(x.answer)
			})
			v := vector(t, ollama(t, x.body["model"].(string), 768, embed.OllamaOptions{Host: url}), x.body["input"].(string))
			if n := cosineLength(v); math.Abs(n-1) > 1e-3 {
				t.Errorf("%s: length %v", name, n)
			}
		}
	}
}

func TestGemini(t *testing.T) {
	var got request
	url := serve(t, func(w http.ResponseWriter, r request) {
		got = r
		io.WriteString(w, "{\n  \"embeddings\": [\n    {\n      \"values\": [\n        0.5,\n        -1\n      ]\n    },\n    {\n      \"values\": [2, 3]\n    }\n  ]\n}")
	})
	e, err := embed.Gemini("models/gemini-embedding-001", 2, &embed.GeminiOptions{Base: url + "/v1beta", Task: "RETRIEVAL_QUERY", Secret: key})
	if err != nil {
		t.Fatal(err)
	}
	vecs, err := e.EmbedBatch(t.Context(), []string{"one", "two"})
	if err != nil || !cmp.Equal(vecs, [][]float32{{0.5, -1}, {2, 3}}) {
		t.Error(vecs, err)
	}
	want := map[string]any{"requests": []any{}}
	for _, text := range []string{"one", "two"} {
		want["requests"] = append(want["requests"].([]any), map[string]any{"model": "models/gemini-embedding-001", "taskType": "RETRIEVAL_QUERY",
			"outputDimensionality": 2.0, "content": map[string]any{"parts": []any{map[string]any{"text": text}}}})
	}
	if got.Path != "/v1beta/models/gemini-embedding-001:batchEmbedContents" || got.Header.Get("X-Goog-Api-Key") != secret || !cmp.Equal(got.Body, want) {
		t.Errorf("%+v", got)
	}
	if e.Provider() != "gemini" || e.Model() != "gemini-embedding-001" || e.Dimensions() != 2 {
		t.Error(e.Provider(), e.Model(), e.Dimensions())
	}
	if vecs, err := e.EmbedBatch(t.Context(), nil); len(vecs) != 0 || err != nil {
		t.Error(vecs, err)
	}
	if _, err := e.EmbedBatch(t.Context(), make([]string, 101)); !errors.Is(err, embed.ErrBatchSize) {
		t.Error(err)
	}
	if _, err := e.EmbedBatch(t.Context(), make([]string, 3)); !errors.Is(err, embed.ErrInvalidResponse) {
		t.Error(err)
	}
	for _, dim := range []int{-1, 1<<16 + 1} {
		if _, err := embed.Gemini("m", dim, nil); !errors.Is(err, embed.ErrConfig) {
			t.Error(err)
		}
	}
	if _, err := embed.Gemini("m", 0, &embed.GeminiOptions{Base: "x"}); !errors.Is(err, embed.ErrConfig) {
		t.Error(err)
	}
}

func TestRecordedGemini(t *testing.T) {
	for _, name := range []string{"llms/googleai/testdata/TestGoogleAICreateEmbedding.httprr", "llms/googleai/testdata/TestGoogleAIBatchEmbedding.httprr"} {
		for _, x := range recorded(t, name) {
			var texts []string
			for _, r := range x.body["requests"].([]any) {
				texts = append(texts, r.(map[string]any)["content"].(map[string]any)["parts"].([]any)[0].(map[string]any)["text"].(string))
			}
			url := serve(t, func(w http.ResponseWriter, r request) {
				if r.Path != x.url || len(r.Body["requests"].([]any)) != len(texts) {
					t.Errorf("%s for %d texts, recorded %s for %d", r.Path, len(r.Body["requests"].([]any)), x.url, len(texts))
				}
				w.WriteHeader(x.response.StatusCode)
				w.Write(x.answer)
			})
			e, err := embed.Gemini(x.body["model"].(string), 768, &embed.GeminiOptions{Base: url + "/v1beta", Secret: key})
			if err != nil {
				t.Fatal(err)
			}
			if vecs, err := e.EmbedBatch(t.Context(), texts); err != nil || len(vecs) != len(texts) {
				t.Errorf("%s: %d vectors, %v", name, len(vecs), err)
			}
		}
	}
}

func cosineLength(v []float32) float64 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	return math.Sqrt(sum)
}

// TestLive asks real servers, which takes a key or a server.
func TestLive(t *testing.T) {
	for _, tt := range []struct {
		variable string
		config   embed.Config
	}{
		{"VECBOLT_LIVE_OPENAI", embed.Config{Provider: "openai", Model: "text-embedding-3-small", Dimensions: 256}},
		{"VECBOLT_LIVE_GEMINI", embed.Config{Provider: "gemini", Model: "gemini-embedding-001", Dimensions: 768}},
		{"VECBOLT_LIVE_OLLAMA", embed.Config{Provider: "ollama", Model: "nomic-embed-text"}},
	} {
		t.Run(tt.config.Provider, func(t *testing.T) {
			if os.Getenv(tt.variable) == "" {
				t.Skipf("skipped: %s is not set", tt.variable)
			}
			e, err := embed.Open(t.Context(), tt.config, nil)
			if err != nil {
				t.Fatal(err)
			}
			vecs, err := e.EmbedBatch(t.Context(), []string{"a dog", "a puppy", "corporate tax law"})
			if err != nil {
				t.Fatal(err)
			}
			if near, far := cosine(vecs[0], vecs[1]), cosine(vecs[0], vecs[2]); near <= far {
				t.Errorf("near %.3f, far %.3f", near, far)
			}
		})
	}
}
