package embed

import (
	"context"
	"fmt"
	"math"
)

// maxDimensions is the largest dimension that a vector may have.
const maxDimensions = 1 << 16

// An Embedder computes vectors of texts. Its methods are safe for concurrent
// use.
type Embedder interface {
	// Provider returns the provider as named in a Config.
	Provider() string

	// Model returns the model as named in a Config.
	Model() string

	// Dimensions returns the number of components of every vector. It is 0 while it is unknown:
	// some providers show it only with the first vector.
	Dimensions() int

	// EmbedBatch returns one vector per text, in order, each finite and of the same dimension, or
	// an error for the whole batch. Without texts it returns no vectors and sends no request.
	EmbedBatch(ctx context.Context, texts []string) ([][]float32, error)

	// Embed returns the vector of one text.
	Embed(ctx context.Context, text string) ([]float32, error)
}

// An asymmetric embedder embeds questions and passages differently. Its own methods embed passages.
type asymmetric interface {
	Embedder

	// Queries returns the embedder of questions, or nil if it would be the same.
	Queries() Embedder
}

// Queries returns the embedder of questions to search passages that were embedded by e. It is e
// itself unless e has a method
//
//	Queries() Embedder
//
// that returns another one. The embedders of models on disk do if the model has prompts, and so do
// the embedders that wrap them here. The method returns nil if questions are embedded like
// passages.
func Queries(e Embedder) Embedder {
	if q := queries(e); q != nil {
		return q
	}
	return e
}

// queries returns the embedder of questions, or nil if it is e.
func queries(e Embedder) Embedder {
	if a, ok := e.(asymmetric); ok {
		return a.Queries()
	}
	return nil
}

// one implements Embed by EmbedBatch.
func one(ctx context.Context, batch func(context.Context, []string) ([][]float32, error), text string) ([]float32, error) {
	vecs, err := batch(ctx, []string{text})
	if err != nil {
		return nil, err
	}
	return vecs[0], nil
}

// A normalized embedder has vectors of the length 1 by its definition. Scaling them again would
// change last digits.
type normalized interface{ normalized() }

// A unit scales the vectors of an embedder to the length 1. A zero vector stays zero.
type unit struct{ Embedder }

func (u unit) Unwrap() Embedder { return u.Embedder }

func (u unit) Queries() Embedder {
	if q := queries(u.Embedder); q != nil {
		return unit{q}
	}
	return nil
}

func (u unit) EmbedBatch(ctx context.Context, texts []string) ([][]float32, error) {
	vecs, err := u.Embedder.EmbedBatch(ctx, texts)
	for _, v := range vecs {
		normalize(v)
	}
	return vecs, err
}

func (u unit) Embed(ctx context.Context, text string) ([]float32, error) {
	v, err := u.Embedder.Embed(ctx, text)
	normalize(v)
	return v, err
}

// normalize scales a finite vector to the length 1, unless it is zero.
func normalize(v []float32) {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 {
		return
	}
	norm := math.Sqrt(sum)
	for i, x := range v {
		v[i] = float32(float64(x) / norm)
	}
}

// checkReply checks the answer to n texts. If dim is 0, any dimension is valid that all vectors
// share.
func checkReply(vecs [][]float32, n, dim int) error {
	if len(vecs) != n {
		return fmt.Errorf("%d vectors for %d texts", len(vecs), n)
	}
	for i, v := range vecs {
		if dim == 0 {
			dim = len(v)
		}
		if len(v) == 0 || len(v) > maxDimensions {
			return fmt.Errorf("vector %d has %d components", i, len(v))
		}
		if len(v) != dim {
			return fmt.Errorf("vector %d: %w", i, &DimensionError{Expected: dim, Got: len(v)})
		}
		for j, x := range v {
			if d := x - x; d != 0 { // NaN or infinite
				return fmt.Errorf("vector %d: component %d is %v", i, j, x)
			}
		}
	}
	return nil
}

// withPrompt returns texts with a prompt before each.
func withPrompt(prompt string, texts []string) []string {
	longer := make([]string, len(texts))
	for i, text := range texts {
		longer[i] = prompt + text
	}
	return longer
}
