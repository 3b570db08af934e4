package embed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Defaults of OllamaOptions.
const (
	ollamaProvider = "ollama"
	ollamaBase     = "http://localhost:11434"
	ollamaHost     = "OLLAMA_HOST"    // environment variable with the host
	ollamaKey      = "OLLAMA_API_KEY" // environment variable with a key, for a proxy
)

var ollamaModels = []string{"nomic-embed-text", "mxbai-embed-large", "all-minilm", "bge-m3", "snowflake-arctic-embed"}

// OllamaOptions configure access to Ollama. The zero value, like nil, is the default.
type OllamaOptions struct {
	// Host is a URL, a host, or a host and a port; empty means the environment variable
	// OLLAMA_HOST, or http://localhost:11434 if that is empty too.
	Host string `json:"host"`

	// SendDimensions asks the server to shorten vectors to the wanted dimension and to scale them.
	// Few models are trained for that.
	SendDimensions bool `json:"send_dimensions"`

	// KeepAlive is how long the model stays in memory, such as "10m"; empty means the default of
	// the server.
	KeepAlive string `json:"keep_alive"`

	// Timeout limits a request; 0 means 60 s. The first request may have to load the
	// model.
	Timeout time.Duration `json:"-"`

	// Secret returns a key for a proxy; an empty key is not sent. nil means the environment
	// variable OLLAMA_API_KEY.
	Secret Secret `json:"-"`

	// Client sends requests; nil means a client that follows no redirects.
	Client *http.Client `json:"-"`
}

// Ollama returns an embedder over an Ollama server. With dim 0 the model determines the dimension.
// Ollama sends no request. Vectors have the length 1. Servers older than 0.3 have no batches and
// get one text per request.
func Ollama(model string, dim int, opts *OllamaOptions) (Embedder, error) {
	var o OllamaOptions
	if opts != nil {
		o = *opts
	}
	e := &ollama{keepAlive: o.KeepAlive}
	e.provider, e.model = ollamaProvider, model
	base, err := ollamaURL(cmp.Or(o.Host, os.Getenv(ollamaHost), ollamaBase))
	switch {
	case model == "":
		return nil, e.fail(ErrConfig, errors.New("a model is needed, such as "+ollamaModels[0]))
	case err != nil:
		return nil, e.fail(ErrConfig, fmt.Errorf("host: %w", err))
	case dim < 0 || dim > maxDimensions:
		return nil, e.fail(ErrConfig, fmt.Errorf("%d dimensions are outside 0..%d", dim, maxDimensions))
	}
	e.base = base
	e.dim.Store(int64(dim))
	if o.SendDimensions {
		e.dimensions = dim
	}
	if e.secret = o.Secret; e.secret == nil {
		e.secret = Env(ollamaKey)
	}
	e.client, e.timeout = (&Options{Client: o.Client}).client(), cmp.Or(o.Timeout, defaultTimeout)
	return e, nil
}

// ollamaURL parses a host as Ollama itself does: missing parts come from ollamaBase, and the
// address for listening on all interfaces means the local machine.
func ollamaURL(host string) (*url.URL, error) {
	host = strings.TrimSpace(host)
	if !strings.Contains(host, "://") {
		host = "http://" + host
		if u, err := url.Parse(host); err == nil && u.Port() == "" {
			u.Host += ":11434"
			host = u.String()
		}
	}
	u, err := parseBase(host)
	if err == nil && u.Hostname() == "0.0.0.0" {
		u.Host = strings.Replace(u.Host, "0.0.0.0", "127.0.0.1", 1)
	}
	return u, err
}

type ollama struct {
	remote
	base       *url.URL
	dimensions int // sent if not 0
	keepAlive  string
}

func (e *ollama) Embed(ctx context.Context, text string) ([]float32, error) {
	return one(ctx, e.EmbedBatch, text)
}

func (e *ollama) EmbedBatch(ctx context.Context, texts []string) ([][]float32, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	body := struct {
		Model      string   `json:"model"`
		Input      []string `json:"input"`
		Dimensions int      `json:"dimensions,omitempty"`
		KeepAlive  string   `json:"keep_alive,omitempty"`
	}{e.model, texts, e.dimensions, e.keepAlive}
	var reply struct {
		Embeddings []vector `json:"embeddings"`
	}
	err := e.post(ctx, e.base.JoinPath("api", "embed").String(), e.header, body, e.replyLimit(len(texts)), &reply)
	if noSuchPath(err) {
		return e.oneByOne(ctx, texts)
	}
	if err != nil {
		return nil, err
	}
	vecs := make([][]float32, len(reply.Embeddings))
	for i, v := range reply.Embeddings {
		vecs[i] = v
	}
	if err := e.check(vecs, len(texts)); err != nil {
		return nil, err
	}
	return vecs, nil
}

// oneByOne embeds text by text, for servers without batches.
func (e *ollama) oneByOne(ctx context.Context, texts []string) ([][]float32, error) {
	vecs := make([][]float32, len(texts))
	for i, text := range texts {
		body := struct {
			Model     string `json:"model"`
			Prompt    string `json:"prompt"`
			KeepAlive string `json:"keep_alive,omitempty"`
		}{e.model, text, e.keepAlive}
		var reply struct {
			Embedding vector `json:"embedding"`
		}
		if err := e.post(ctx, e.base.JoinPath("api", "embeddings").String(), e.header, body, e.replyLimit(1), &reply); err != nil {
			return nil, err
		}
		vecs[i] = reply.Embedding
	}
	if err := e.check(vecs, len(texts)); err != nil {
		return nil, err
	}
	for _, v := range vecs {
		normalize(v) // api/embed normalizes; this endpoint does not
	}
	return vecs, nil
}

// noSuchPath distinguishes a missing path from a missing model: only the latter error is JSON.
func noSuchPath(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Status == http.StatusNotFound && e.plain || e.Status == http.StatusMethodNotAllowed)
}

func (e *ollama) header(h http.Header, key string) {
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
}

func ollamaBuiltin() Provider {
	return Provider{
		Name:         ollamaProvider,
		Description:  "models that an Ollama server runs",
		Models:       ollamaModels,
		Capabilities: Capabilities{Network: true, Dimensions: true},
		Settings: &Schema{Type: "object", Closed: true, Properties: map[string]*Schema{
			"host":            {Type: "string", Description: "URL of the server; the environment variable " + ollamaHost + " or " + ollamaBase + " if empty"},
			"send_dimensions": {Type: "boolean", Description: "ask for vectors of the given dimension"},
			"keep_alive":      {Type: "string", Description: "how long the model stays in memory, such as 10m"},
			"timeout_secs":    timeoutSchema(),
			"api_key_env":     keySchema(ollamaKey),
		}},
		Open: func(_ context.Context, c Config, opts *Options) (Embedder, error) {
			s := struct {
				*OllamaOptions
				common
			}{OllamaOptions: &OllamaOptions{Client: opts.client()}}
			if err := decode(c, &s); err != nil {
				return nil, err
			}
			s.Timeout, s.Secret = s.timeout(), opts.secret(cmp.Or(s.KeyEnv, ollamaKey))
			return Ollama(c.Model, c.Dimensions, s.OllamaOptions)
		},
	}
}
