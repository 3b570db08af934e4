package embed

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Defaults of GeminiOptions.
const (
	geminiProvider = "gemini"
	geminiHost     = "generativelanguage.googleapis.com"
	geminiBase     = "https://" + geminiHost + "/v1beta"
	geminiKey      = "GEMINI_API_KEY"
	geminiDefault  = "gemini-embedding-001"
	geminiMaxBatch = 100
)

var geminiTasks = []string{"RETRIEVAL_QUERY", "RETRIEVAL_DOCUMENT", "SEMANTIC_SIMILARITY", "CLASSIFICATION", "CLUSTERING",
	"QUESTION_ANSWERING", "FACT_VERIFICATION", "CODE_RETRIEVAL_QUERY"}

// GeminiOptions configure access to Google's Gemini API. The zero value, like nil, is the default.
type GeminiOptions struct {
	// Base is the URL before /models; empty means
	// https://generativelanguage.googleapis.com/v1beta.
	Base string `json:"api_base"`

	// Task is the purpose of the vectors, such as "RETRIEVAL_DOCUMENT"; empty means the default of
	// the model.
	Task string `json:"task_type"`

	// Timeout limits a request; 0 means 60 s.
	Timeout time.Duration `json:"-"`

	// Secret returns the key. nil means the environment variable
	// GEMINI_API_KEY.
	Secret Secret `json:"-"`

	keyName string // where Secret comes from, for an error

	// Client sends requests; nil means a client that follows no redirects.
	Client *http.Client `json:"-"`
}

// Gemini returns an embedder over Google's Gemini API. A dim other than 0 requests vectors with dim
// components. Gemini sends no request. Shortened vectors do not have the length 1: see
// Config.Normalize.
func Gemini(model string, dim int, opts *GeminiOptions) (Embedder, error) {
	var o GeminiOptions
	if opts != nil {
		o = *opts
	}
	e := &gemini{task: o.Task, dimensions: dim}
	e.provider, e.model = geminiProvider, strings.TrimPrefix(cmp.Or(model, geminiDefault), "models/")
	base, err := parseBase(cmp.Or(o.Base, geminiBase))
	switch {
	case err != nil:
		return nil, e.fail(ErrConfig, fmt.Errorf("api_base: %w", err))
	case dim < 0 || dim > maxDimensions:
		return nil, e.fail(ErrConfig, fmt.Errorf("%d dimensions are outside 0..%d", dim, maxDimensions))
	}
	e.url = base.JoinPath("models", url.PathEscape(e.model)+":batchEmbedContents").String()
	e.dim.Store(int64(dim))
	if base.Host == geminiHost && o.Client == nil { // which may add a key
		e.needsKey = "Gemini"
	}
	e.secret, e.keyName = o.Secret, cmp.Or(o.keyName, "Secret")
	if e.secret == nil {
		e.secret, e.keyName = Env(geminiKey), geminiKey
	}
	e.client = (&Options{Client: o.Client}).client()
	e.timeout, e.maxBatch = cmp.Or(o.Timeout, defaultTimeout), geminiMaxBatch
	return e, nil
}

type gemini struct {
	remote
	url, task  string
	dimensions int // sent if not 0
}

func (e *gemini) Embed(ctx context.Context, text string) ([]float32, error) {
	return one(ctx, e.EmbedBatch, text)
}

func (e *gemini) EmbedBatch(ctx context.Context, texts []string) ([][]float32, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	if len(texts) > e.maxBatch {
		return nil, e.fail(ErrBatchSize, fmt.Errorf("%d texts, at most %d", len(texts), e.maxBatch))
	}
	type part struct {
		Text string `json:"text"`
	}
	type content struct {
		Parts []part `json:"parts"`
	}
	type request struct {
		Model      string  `json:"model"`
		Content    content `json:"content"`
		Task       string  `json:"taskType,omitempty"`
		Dimensions int     `json:"outputDimensionality,omitempty"`
	}
	var body struct {
		Requests []request `json:"requests"`
	}
	for _, text := range texts {
		body.Requests = append(body.Requests, request{"models/" + e.model, content{[]part{{text}}}, e.task, e.dimensions})
	}
	var reply struct {
		Embeddings []struct {
			Values vector `json:"values"`
		} `json:"embeddings"`
	}
	if err := e.post(ctx, e.url, e.header, body, e.replyLimit(len(texts)), &reply); err != nil {
		return nil, err
	}
	vecs := make([][]float32, len(reply.Embeddings))
	for i, v := range reply.Embeddings {
		vecs[i] = v.Values
	}
	if err := e.check(vecs, len(texts)); err != nil {
		return nil, err
	}
	return vecs, nil
}

func (e *gemini) header(h http.Header, key string) {
	if key != "" {
		h.Set("X-Goog-Api-Key", key)
	}
}

func geminiBuiltin() Provider {
	return Provider{
		Name:         geminiProvider,
		Description:  "Google's Gemini API",
		Models:       []string{geminiDefault},
		Capabilities: Capabilities{Network: true, Secret: true, Dimensions: true, MaxBatch: geminiMaxBatch},
		Settings: &Schema{Type: "object", Closed: true, Properties: map[string]*Schema{
			"api_base":     {Type: "string", Format: "uri", Description: "URL before /models", Default: geminiBase},
			"task_type":    {Type: "string", Description: "purpose of the vectors", Enum: geminiTasks},
			"timeout_secs": timeoutSchema(),
			"api_key_env":  keySchema(geminiKey),
		}},
		Open: func(_ context.Context, c Config, opts *Options) (Embedder, error) {
			s := struct {
				*GeminiOptions
				common
			}{GeminiOptions: &GeminiOptions{Client: opts.given()}}
			if err := decode(c, &s); err != nil {
				return nil, err
			}
			s.Timeout, s.keyName = s.timeout(), cmp.Or(s.KeyEnv, geminiKey)
			s.Secret = opts.secret(s.keyName)
			return Gemini(c.Model, c.Dimensions, s.GeminiOptions)
		},
	}
}
