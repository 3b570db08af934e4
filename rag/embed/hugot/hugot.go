package hugot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/knights-analytics/hugot"
	"github.com/knights-analytics/hugot/backends"
	"github.com/knights-analytics/hugot/pipelines"

	"github.com/vecbolt/vecbolt/rag/embed"
)

// name is the name of the provider.
const name = "onnx"

// Options tune Open. The zero value, like nil, is the default.
type Options struct {
	Model  string // name of the model; empty means the last element of the path
	File   string // the .onnx file; needed if there are several
	Output string // the model output to use; empty means the first
}

// An Embedder runs an ONNX model. It is safe for concurrent use: it computes the texts of a call
// together, and calls one after the other.
type Embedder struct {
	model string
	dim   int

	mu      sync.Mutex
	session *hugot.Session
	run     *pipelines.FeatureExtractionPipeline
}

// Open reads the model in a directory. If the model returns a vector per token, the vector of a
// text is their mean.
func Open(ctx context.Context, dir string, opts *Options) (*Embedder, error) {
	if opts == nil {
		opts = &Options{}
	}
	e := &Embedder{model: cmp.Or(opts.Model, filepath.Base(dir))}
	var err error
	if e.session, err = hugot.NewGoSession(ctx); err != nil {
		return nil, e.fail(embed.ErrOther, err)
	}
	config := hugot.FeatureExtractionConfig{ModelPath: dir, Name: "embed", OnnxFilename: opts.File}
	if opts.Output != "" {
		config.Options = append(config.Options, pipelines.WithOutputName(opts.Output))
	}
	if e.run, err = hugot.NewPipeline(e.session, config); err != nil {
		return nil, e.fail(embed.ErrConfig, errors.Join(err, e.session.Destroy()))
	}
	masked := slices.ContainsFunc(e.run.GetModel().InputsMeta, func(in backends.InputOutputInfo) bool { return in.Name == "attention_mask" })
	if !masked { // without it hugot would return the first token's vector
		return nil, e.fail(embed.ErrConfig, errors.Join(errors.New(`the model has no input "attention_mask"`), e.session.Destroy()))
	}
	v, err := e.Embed(ctx, "a") // finds the dimension
	if err != nil {
		return nil, errors.Join(err, e.session.Destroy())
	}
	e.dim = len(v)
	return e, nil
}

func (e *Embedder) fail(kind, err error) error {
	return &embed.Error{Kind: kind, Provider: name, Model: e.model, Err: err}
}

// Provider returns "onnx".
func (e *Embedder) Provider() string { return name }

// Model returns the name of the model.
func (e *Embedder) Model() string { return e.model }

// Dimensions returns the number of components of a vector.
func (e *Embedder) Dimensions() int { return e.dim }

// Embed returns the vector of a text.
func (e *Embedder) Embed(ctx context.Context, text string) ([]float32, error) {
	vecs, err := e.EmbedBatch(ctx, []string{text})
	if err != nil {
		return nil, err
	}
	return vecs[0], nil
}

// EmbedBatch returns the vectors of texts, in their order.
func (e *Embedder) EmbedBatch(ctx context.Context, texts []string) ([][]float32, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := ctx.Err(); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, e.fail(embed.ErrTimeout, err)
		}
		return nil, e.fail(embed.ErrOther, err)
	}
	out, err := e.run.RunPipeline(ctx, texts)
	if err != nil {
		return nil, e.fail(embed.ErrOther, err)
	}
	if len(out.Embeddings) != len(texts) {
		return nil, e.fail(embed.ErrInvalidResponse, fmt.Errorf("%d vectors for %d texts", len(out.Embeddings), len(texts)))
	}
	for i, v := range out.Embeddings {
		if len(v) == 0 || e.dim != 0 && len(v) != e.dim {
			return nil, e.fail(embed.ErrInvalidResponse, fmt.Errorf("vector %d: %w", i, &embed.DimensionError{Expected: e.dim, Got: len(v)}))
		}
		for j, x := range v {
			if x-x != 0 { // NaN or infinite
				return nil, e.fail(embed.ErrInvalidResponse, fmt.Errorf("vector %d: component %d is %v", i, j, x))
			}
		}
	}
	return out.Embeddings, nil
}

// Close releases the model, which must not be used afterwards.
func (e *Embedder) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.session.Destroy()
}

// Provider returns the provider for a registry. Its embedders are never closed.
func Provider() embed.Provider {
	text := func(description string) *embed.Schema { return &embed.Schema{Type: "string", Description: description} }
	return embed.Provider{
		Name:         name,
		Description:  "any ONNX model, from a directory",
		Capabilities: embed.Capabilities{Files: true},
		Settings: &embed.Schema{Type: "object", Closed: true, Required: []string{"model_path"}, Properties: map[string]*embed.Schema{
			"model_path": text("directory of the model"),
			"onnx_file":  text("name of the .onnx file, if there are several"),
			"output":     text("name of the output; the first if empty"),
		}},
		Open: func(ctx context.Context, c embed.Config, _ *embed.Options) (embed.Embedder, error) {
			get := func(name string) string {
				s, _ := c.Settings[name].(string) // a valid configuration has a string here
				return s
			}
			e, err := Open(ctx, get("model_path"), &Options{Model: c.Model, File: get("onnx_file"), Output: get("output")})
			if err != nil {
				return nil, err
			}
			return e, nil
		},
	}
}
