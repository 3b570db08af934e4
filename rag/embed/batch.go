package embed

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
)

// BatchOptions tune Batches. The zero value, like nil, is the default.
type BatchOptions struct {
	Size     int // texts per request; 0 or less means 100
	Parallel int // requests at the same time; 0 or less means 4
}

// Batches returns an embedder that splits texts into requests of limited size and sends several at
// the same time. Vectors are in the order of the texts. The first error stops further requests,
// cancels those in flight, and is returned.
func Batches(e Embedder, opts *BatchOptions) Embedder {
	if opts == nil {
		opts = &BatchOptions{}
	}
	return &batches{e, cmp.Or(max(opts.Size, 0), defaultBatchSize), cmp.Or(max(opts.Parallel, 0), 4)}
}

type batches struct {
	Embedder
	size, parallel int
}

func (b *batches) Unwrap() Embedder { return b.Embedder }

func (b *batches) Queries() Embedder {
	if q := queries(b.Embedder); q != nil {
		return &batches{q, b.size, b.parallel}
	}
	return nil
}

func (b *batches) EmbedBatch(ctx context.Context, texts []string) ([][]float32, error) {
	vecs := make([][]float32, len(texts))
	err := b.each(ctx, texts, func(at int, part [][]float32) { copy(vecs[at:], part) })
	if err == nil {
		err = sameDimension(b, vecs)
	}
	if err != nil {
		return nil, err
	}
	return vecs, nil
}

// each calls done with the vectors of each batch and the index of its first text. Calls are
// concurrent and in any order, and happen even if another batch fails.
func (b *batches) each(ctx context.Context, texts []string, done func(at int, vecs [][]float32)) error {
	if len(texts) == 0 {
		return nil
	}
	n := (len(texts)-1)/b.size + 1
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	var next, completed atomic.Int64
	var once sync.Once
	var failure error
	work := func() {
		for inner.Err() == nil {
			i := int(next.Add(1)) - 1
			if i >= n {
				return
			}
			at := i * b.size
			part := texts[at:min(at+b.size, len(texts))]
			vecs, err := b.Embedder.EmbedBatch(inner, part)
			if err == nil {
				if err = checkReply(vecs, len(part), b.Dimensions()); err != nil {
					err = &Error{Kind: ErrInvalidResponse, Provider: b.Provider(), Model: b.Model(), Err: err}
				}
			}
			if err != nil {
				once.Do(func() { failure = err })
				cancel()
				return
			}
			done(at, vecs)
			completed.Add(1)
		}
	}
	var wg sync.WaitGroup
	for range min(b.parallel, n) {
		wg.Go(work)
	}
	wg.Wait()
	if err := ctx.Err(); failure == nil && err != nil && completed.Load() < int64(n) {
		return &Error{Kind: contextKind(err), Provider: b.Provider(), Model: b.Model(), Err: err}
	}
	return failure
}

// sameDimension checks that vectors of several requests have the same dimension.
func sameDimension(e Embedder, vecs [][]float32) error {
	for _, v := range vecs {
		if len(v) != len(vecs[0]) {
			return &Error{Kind: ErrInvalidResponse, Provider: e.Provider(), Model: e.Model(), Err: &DimensionError{Expected: len(vecs[0]), Got: len(v)}}
		}
	}
	return nil
}
