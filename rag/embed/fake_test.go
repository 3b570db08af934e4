package embed_test

import (
	"context"
	"sync"
)

// A fake is an embedder that counts its calls.
type fake struct {
	dim int
	vec func(text string) []float32 // nil: the length of the text
	err func(call int) error        // called with 0, 1, …

	mu      sync.Mutex
	batches [][]string
}

func (f *fake) Provider() string { return "fake" }
func (f *fake) Model() string    { return "length" }
func (f *fake) Dimensions() int  { return f.dim }

func (f *fake) EmbedBatch(_ context.Context, texts []string) ([][]float32, error) {
	f.mu.Lock()
	call := len(f.batches)
	f.batches = append(f.batches, texts)
	f.mu.Unlock()
	if f.err != nil {
		if err := f.err(call); err != nil {
			return nil, err
		}
	}
	vecs := make([][]float32, len(texts))
	for i, text := range texts {
		if f.vec != nil {
			vecs[i] = f.vec(text)
			continue
		}
		vecs[i] = make([]float32, f.dim)
		vecs[i][0] = float32(len(text))
	}
	return vecs, nil
}

func (f *fake) Embed(ctx context.Context, text string) ([]float32, error) {
	vecs, err := f.EmbedBatch(ctx, []string{text})
	if err != nil {
		return nil, err
	}
	return vecs[0], nil
}
