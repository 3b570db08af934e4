package bert

import (
	"context"
	"runtime"
	"sync/atomic"

	"github.com/vecbolt/vecbolt/internal/vfs"
)

// EmbedBatch returns the vectors of texts, in order, on at most threads threads; 0 means the number
// of cores. Texts run together without padding, so that their order does not matter and lengths may
// differ. A vector has the same bits as by Embed, whatever texts are beside it and however many
// threads. It fails if ctx ends, or if the file of the model can no longer be read.
func (m *Model) EmbedBatch(ctx context.Context, texts []string, threads int) ([][]float32, error) {
	if most := runtime.GOMAXPROCS(0); threads < 1 || threads > most {
		threads = most
	}
	all := make([]sequence, len(texts))
	err := each(ctx, threads, len(texts), func(i int) error {
		all[i] = m.sequence(texts[i])
		return nil
	})
	if err != nil {
		return nil, err
	}
	groups := split(all, threads)
	inner := 1 // threads of a group
	if len(groups) < threads {
		threads, inner = 1, threads
	}
	vecs := make([][][]float32, len(groups))
	err = each(ctx, threads, len(groups), func(i int) (err error) {
		vecs[i], err = m.embed(groups[i], inner)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make([][]float32, 0, len(texts))
	for _, v := range vecs {
		out = append(out, v...)
	}
	return out, nil
}

// each calls f for 0 to n-1 on some threads, until one call fails or ctx ends, and returns that
// error.
func each(ctx context.Context, threads, n int, f func(i int) error) error {
	var next atomic.Int64
	var group vfs.Group
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	for range min(threads, n) {
		group.Go("weights", func() error {
			for inner.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := f(i); err != nil {
					cancel()
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// Numbers of tokens that run together: so many that weights are read from memory seldom, and so few
// that the rows stay in the caches and all threads have work.
const (
	leastTokens = 64
	mostTokens  = 256
)

// split divides texts, in order, into groups of like size, as many as threads or a multiple of
// them. A few short texts are one group, which all threads share.
func split(texts []sequence, threads int) [][]sequence {
	total := 0
	for _, t := range texts {
		total += len(t.ids)
	}
	groups := (total + mostTokens - 1) / mostTokens
	groups = (groups + threads - 1) / threads * threads
	groups = min(groups, max(1, total/leastTokens))
	var out [][]sequence
	seen, last := 0, -1
	for i := range texts {
		n := len(texts[i].ids)
		if g := (2*seen + n) * groups / (2 * total); g != last { // where the middle of the text lies
			out = append(out, texts[i:i:len(texts)])
			last = g
		}
		seen += n
		end := &out[len(out)-1]
		*end = append(*end, texts[i])
	}
	return out
}
