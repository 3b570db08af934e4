package embed

import (
	"context"
	"fmt"
	"math"
	"math/bits"
)

// Names of the default model, and its dimension unless a Config says another.
const (
	TrigramProvider   = "hash"
	TrigramModel      = "trigram-v1"
	TrigramDimensions = 384
)

// Trigram returns an embedder of the model trigram-v1, which the package
// comment defines, with vectors of dim components; 0 means TrigramDimensions.
func Trigram(dim int) (Embedder, error) {
	if dim == 0 {
		dim = TrigramDimensions
	}
	if dim < 1 || dim > MaxDimensions {
		return nil, &Error{Kind: ErrConfig, Provider: TrigramProvider, Err: fmt.Errorf("%d dimensions are outside 1..%d", dim, MaxDimensions)}
	}
	return trigram{TrigramProvider, dim}, nil
}

type trigram struct {
	name string
	dim  int
}

func (t trigram) Provider() string { return t.name }
func (t trigram) Model() string    { return TrigramModel }
func (t trigram) Dimensions() int  { return t.dim }

func (t trigram) EmbedBatch(ctx context.Context, texts []string) ([][]float32, error) {
	vecs := make([][]float32, len(texts))
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, &Error{Kind: contextKind(err), Provider: t.name, Model: TrigramModel, Err: err}
		}
		vecs[i] = t.embed(text)
	}
	return vecs, nil
}

func (t trigram) Embed(ctx context.Context, text string) ([]float32, error) {
	return one(ctx, t.EmbedBatch, text)
}

func (t trigram) embed(text string) []float32 {
	count := map[string]int{}
	word := []byte{' '}
	for i := 0; i <= len(text); i++ {
		if i < len(text) {
			if c := fold(text[i]); c != ' ' {
				word = append(word, c)
				continue
			}
		}
		if len(word) > 1 {
			word = append(word, ' ')
			for j := 0; j+3 <= len(word); j++ {
				count[string(word[j:j+3])]++
			}
			if len(word) > 5 {
				count[string(word)]++
			}
			word = word[:1]
		}
	}
	sums := make([]int64, t.dim)
	for feature, n := range count {
		weight := int64(bits.Len(uint(n)))
		if len(feature) > 3 {
			weight *= 2
		}
		h := hash(feature)
		if h>>63 == 1 {
			weight = -weight
		}
		sums[h%uint64(t.dim)] += weight
	}
	square := int64(0)
	for _, c := range sums {
		square += c * c
	}
	vec := make([]float32, t.dim)
	if square == 0 {
		return vec
	}
	norm := math.Sqrt(float64(square))
	for i, c := range sums {
		vec[i] = float32(float64(c) / norm)
	}
	return vec
}

// fold returns the lower-case form of a byte of a word, and a space for any
// other.
func fold(c byte) byte {
	switch {
	case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c >= 0x80:
		return c
	case c >= 'A' && c <= 'Z':
		return c + 'a' - 'A'
	}
	return ' '
}

// hash is FNV-1a (Fowler, Noll and Vo) with the finalizer of MurmurHash3
// (Appleby), which spreads short strings over all bits.
func hash(s string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
