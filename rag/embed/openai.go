package embed

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Defaults of OpenAIOptions.
const (
	openAIProvider   = "openai"
	openAIHost       = "api.openai.com"
	openAIBase       = "https://" + openAIHost + "/v1"
	openAIKey        = "OPENAI_API_KEY"
	azureKey         = "AZURE_OPENAI_API_KEY"
	azureAPIVersion  = "2024-10-21"
	openAIMaxBatch   = 2048
	openAIDefault    = "text-embedding-3-small"
	openAIAdjustable = "text-embedding-3"
)

var openAIDimensions = map[string]int{
	"text-embedding-3-small": 1536,
	"text-embedding-3-large": 3072,
	"text-embedding-ada-002": 1536,
}

// OpenAIOptions configure access to OpenAI, Azure, or any other server with OpenAI's protocol. The
// zero value, like nil, means OpenAI.
type OpenAIOptions struct {
	// Base is the URL before /embeddings, such as "http://localhost:8080/v1"; for Azure, the URL of
	// the resource. Empty means https://api.openai.com/v1.
	Base string `json:"api_base"`

	// Azure requests https://RESOURCE/openai/deployments/MODEL/embeddings with the key in the
	// header api-key.
	Azure bool `json:"azure"`

	// APIVersion is the API version for Azure; empty means 2024-10-21.
	APIVersion string `json:"api_version"`

	// Deployment is the deployment on Azure; empty means the model.
	Deployment string `json:"deployment"`

	Organization string `json:"org_id"`  // organization to bill, if the key has several
	Project      string `json:"project"` // project to bill, if the key has several

	// SendDimensions asks the server for vectors of the configured dimension. Models whose name
	// begins with "text-embedding-3" are always asked.
	SendDimensions bool `json:"send_dimensions"`

	// Base64 requests vectors in base64, which is smaller and exact. Not all servers support it;
	// answers in either form are accepted.
	Base64 bool `json:"base64"`

	// MaxBatch is the maximum number of texts per request; 0 means 2048.
	MaxBatch int `json:"max_batch"`

	// Timeout limits a request; 0 means 60 s.
	Timeout time.Duration `json:"-"`

	// Secret returns the key. OpenAI and Azure are asked without one only by a Client, which may
	// add it. nil means the environment variable OPENAI_API_KEY, or AZURE_OPENAI_API_KEY for Azure.
	Secret Secret `json:"-"`

	keyName string // where Secret comes from, for an error

	// Client sends requests; nil means a client that follows no redirects.
	Client *http.Client `json:"-"`
}

// OpenAI returns an embedder over a server with OpenAI's protocol. With dim 0 the server determines
// the dimension. OpenAI sends no request.
func OpenAI(model string, dim int, opts *OpenAIOptions) (Embedder, error) {
	var o OpenAIOptions
	if opts != nil {
		o = *opts
	}
	e := &openAI{organization: o.Organization, project: o.Project, azure: o.Azure}
	e.provider, e.model = openAIProvider, cmp.Or(model, openAIDefault)
	base, err := parseBase(cmp.Or(o.Base, openAIBase))
	switch {
	case err != nil:
		return nil, e.fail(ErrConfig, fmt.Errorf("api_base: %w", err))
	case o.Azure && o.Base == "":
		return nil, e.fail(ErrConfig, fmt.Errorf("api_base: Azure needs the URL of the resource"))
	case dim < 0 || dim > maxDimensions:
		return nil, e.fail(ErrConfig, fmt.Errorf("%d dimensions are outside 0..%d", dim, maxDimensions))
	}
	key := openAIKey
	if o.Azure {
		base = base.JoinPath("openai", "deployments", url.PathEscape(cmp.Or(o.Deployment, e.model)), "embeddings")
		base.RawQuery = url.Values{"api-version": {cmp.Or(o.APIVersion, azureAPIVersion)}}.Encode()
		key, e.needsKey = azureKey, "Azure"
	} else {
		base = base.JoinPath("embeddings")
		if base.Host == openAIHost {
			e.needsKey = "OpenAI"
		}
	}
	if o.Client != nil { // it may add one
		e.needsKey = ""
	}
	e.url = base.String()
	e.secret, e.keyName = o.Secret, cmp.Or(o.keyName, "Secret")
	if e.secret == nil {
		e.secret, e.keyName = Env(key), key
	}
	if dim == 0 {
		dim = openAIDimensions[e.model]
	} else if o.SendDimensions || strings.HasPrefix(e.model, openAIAdjustable) {
		e.dimensions = dim
	}
	e.dim.Store(int64(dim))
	if o.Base64 {
		e.encoding = "base64"
	}
	e.client = (&Options{Client: o.Client}).client()
	e.timeout, e.maxBatch = cmp.Or(o.Timeout, defaultTimeout), cmp.Or(o.MaxBatch, openAIMaxBatch)
	return e, nil
}

type openAI struct {
	remote
	url                   string
	organization, project string
	azure                 bool
	dimensions            int // sent if not 0
	encoding              string
}

func (e *openAI) Embed(ctx context.Context, text string) ([]float32, error) {
	return one(ctx, e.EmbedBatch, text)
}

func (e *openAI) EmbedBatch(ctx context.Context, texts []string) ([][]float32, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	if len(texts) > e.maxBatch {
		return nil, e.fail(ErrBatchSize, fmt.Errorf("%d texts, at most %d", len(texts), e.maxBatch))
	}
	body := struct {
		Model      string   `json:"model"`
		Input      []string `json:"input"`
		Dimensions int      `json:"dimensions,omitempty"`
		Encoding   string   `json:"encoding_format,omitempty"`
	}{e.model, texts, e.dimensions, e.encoding}
	var reply struct {
		Data []struct {
			Index     *int   `json:"index"`
			Embedding vector `json:"embedding"`
		} `json:"data"`
	}
	if err := e.post(ctx, e.url, e.header, body, e.replyLimit(len(texts)), &reply); err != nil {
		return nil, err
	}
	if len(reply.Data) != len(texts) {
		return nil, e.fail(ErrInvalidResponse, fmt.Errorf("%d vectors for %d texts", len(reply.Data), len(texts)))
	}
	vecs := make([][]float32, len(texts))
	for i, d := range reply.Data {
		if d.Index != nil {
			i = *d.Index
		}
		if i < 0 || i >= len(vecs) || vecs[i] != nil {
			return nil, e.fail(ErrInvalidResponse, fmt.Errorf("index %d is out of range or repeated", i))
		}
		vecs[i] = d.Embedding
	}
	if err := e.check(vecs, len(texts)); err != nil {
		return nil, err
	}
	return vecs, nil
}

func (e *openAI) header(h http.Header, key string) {
	if e.azure {
		h.Set("Api-Key", key)
	} else if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
	if e.organization != "" {
		h.Set("OpenAI-Organization", e.organization)
	}
	if e.project != "" {
		h.Set("OpenAI-Project", e.project)
	}
}

func openAIBuiltin() Provider {
	text := func(description string) *Schema { return &Schema{Type: "string", Description: description} }
	return Provider{
		Name:         openAIProvider,
		Description:  "OpenAI, Azure, or any server with the same protocol",
		Models:       slices.Sorted(maps.Keys(openAIDimensions)),
		Capabilities: Capabilities{Network: true, Secret: true, Dimensions: true, MaxBatch: openAIMaxBatch},
		Settings: &Schema{Type: "object", Closed: true, Properties: map[string]*Schema{
			"api_base":        {Type: "string", Format: "uri", Description: "URL before /embeddings; for Azure, of the resource", Default: openAIBase},
			"azure":           {Type: "boolean", Description: "the server is Azure OpenAI"},
			"api_version":     text("Azure's API version; " + azureAPIVersion + " if empty"),
			"deployment":      text("Azure's name of the deployment; the model if empty"),
			"org_id":          text("organization"),
			"project":         text("project"),
			"send_dimensions": {Type: "boolean", Description: "send the dimension; models named " + openAIAdjustable + "… always get it"},
			"base64":          {Type: "boolean", Description: "ask for vectors in base64"},
			"max_batch":       {Type: "integer", Description: "texts per request", Default: openAIMaxBatch, Minimum: limit(1), Maximum: limit(openAIMaxBatch)},
			"timeout_secs":    timeoutSchema(),
			"api_key_env":     keySchema(openAIKey + ", or " + azureKey + " for Azure"),
		}},
		Open: func(_ context.Context, c Config, opts *Options) (Embedder, error) {
			s := struct {
				*OpenAIOptions
				common
			}{OpenAIOptions: &OpenAIOptions{Client: opts.given()}}
			if err := decode(c, &s); err != nil {
				return nil, err
			}
			key := openAIKey
			if s.Azure {
				key = azureKey
			}
			s.Timeout, s.keyName = s.timeout(), cmp.Or(s.KeyEnv, key)
			s.Secret = opts.secret(s.keyName)
			return OpenAI(c.Model, c.Dimensions, s.OpenAIOptions)
		},
	}
}
