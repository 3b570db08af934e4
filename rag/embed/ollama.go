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

// The defaults of OllamaOptions.
const (
	OllamaProvider = "ollama"
	OllamaBase     = "http://localhost:11434"
	OllamaHost     = "OLLAMA_HOST"    // environment variable with the host
	OllamaKey      = "OLLAMA_API_KEY" // environment variable with a key, which a proxy may want
)

var ollamaModels = []string{"nomic-embed-text", "mxbai-embed-large", "all-minilm", "bge-m3", "snowflake-arctic-embed"}

// OllamaOptions say how Ollama is reached. The zero value, like nil, is good.
type OllamaOptions struct {
	// Host is a URL, a host or a host and a port; empty means the environment
	// variable OllamaHost, or else OllamaBase.
	Host string `json:"host"`

	// SendDimensions asks for vectors of the wanted dimension, which the
	// server then cuts off and scales. Few models are made for that.
	SendDimensions bool `json:"send_dimensions"`

	// KeepAlive is how long the model stays in memory, such as "10m"; empty
	// means what the server thinks.
	KeepAlive string `json:"keep_alive"`

	// Timeout of a request; 0 means DefaultTimeout. The first request may have
	// to load the model.
	Timeout time.Duration `json:"-"`

	// Secret returns a key for a proxy; one that is empty is not sent. nil
	// means the environment variable OllamaKey.
	Secret Secret `json:"-"`

	// Client sends requests; nil means one that follows no redirects.
	Client *http.Client `json:"-"`
}

// Ollama returns an embedder that asks an Ollama server. dim is 0 if the model
// decides. Nobody is contacted yet. Vectors have the length 1, also those of
// servers older than 0.3, which know nothing of batches and are asked for one
// text at a time.
func Ollama(model string, dim int, opts *OllamaOptions) (Embedder, error) {
	var o OllamaOptions
	if opts != nil {
		o = *opts
	}
	e := &ollama{keepAlive: o.KeepAlive}
	e.provider, e.model = OllamaProvider, model
	base, err := ollamaURL(cmp.Or(o.Host, os.Getenv(OllamaHost), OllamaBase))
	switch {
	case model == "":
		return nil, e.fail(ErrConfig, errors.New("a model is needed, such as "+ollamaModels[0]))
	case err != nil:
		return nil, e.fail(ErrConfig, fmt.Errorf("host: %w", err))
	case dim < 0 || dim > MaxDimensions:
		return nil, e.fail(ErrConfig, fmt.Errorf("%d dimensions are outside 0..%d", dim, MaxDimensions))
	}
	e.base = base
	e.dim.Store(int64(dim))
	if o.SendDimensions {
		e.dimensions = dim
	}
	if e.secret = o.Secret; e.secret == nil {
		e.secret = Env(OllamaKey)
	}
	e.client, e.timeout = (&Options{Client: o.Client}).client(), cmp.Or(o.Timeout, DefaultTimeout)
	return e, nil
}

// ollamaURL reads a host as Ollama itself does: what is missing is that of
// OllamaBase, and the address to listen on at all interfaces means this one.
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
	dimensions int // sent, unless 0
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

// oneByOne asks a server that is too old for batches.
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
		normalize(v) // as api/embed does
	}
	return vecs, nil
}

// noSuchPath tells a server that does not know a path from one that does not
// have a model: only the latter answers with JSON.
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
		Name:         OllamaProvider,
		Description:  "models that an Ollama server runs",
		Models:       ollamaModels,
		Capabilities: Capabilities{Network: true, Dimensions: true},
		Settings: &Schema{Type: "object", Closed: true, Properties: map[string]*Schema{
			"host":            {Type: "string", Description: "URL of the server; the environment variable " + OllamaHost + ", or else " + OllamaBase + ", if empty"},
			"send_dimensions": {Type: "boolean", Description: "ask for vectors of the given dimension"},
			"keep_alive":      {Type: "string", Description: "how long the model stays in memory, such as 10m"},
			"timeout_secs":    timeoutSchema(),
			"api_key_env":     keySchema(OllamaKey),
		}},
		Open: func(_ context.Context, c Config, opts *Options) (Embedder, error) {
			s := struct {
				*OllamaOptions
				common
			}{OllamaOptions: &OllamaOptions{Client: opts.client()}}
			if err := decode(c, &s); err != nil {
				return nil, err
			}
			s.Timeout, s.Secret = s.timeout(), opts.secret(cmp.Or(s.KeyEnv, OllamaKey))
			return Ollama(c.Model, c.Dimensions, s.OllamaOptions)
		},
	}
}
