package embed

import (
	"context"
	"fmt"
	"math"
	"math/bits"
)

// Names of the default model, and its default dimension.
const (
	trigramProvider   = "hash"
	trigramModel      = "trigram-v1"
	TrigramDimensions = 384
)

// Trigram returns an embedder of the model trigram-v1, defined in the package comment, with vectors
// of dim components; 0 means TrigramDimensions.
func Trigram(dim int) (Embedder, error) {
	if dim == 0 {
		dim = TrigramDimensions
	}
	if dim < 1 || dim > maxDimensions {
		return nil, &Error{Kind: ErrConfig, Provider: trigramProvider, Err: fmt.Errorf("%d dimensions are outside 1..%d", dim, maxDimensions)}
	}
	return trigram{trigramProvider, dim}, nil
}

type trigram struct {
	name string
	dim  int
}

func (t trigram) Provider() string { return t.name }
func (t trigram) Model() string    { return trigramModel }
func (t trigram) Dimensions() int  { return t.dim }
func (t trigram) normalized()      {}

func (t trigram) EmbedBatch(ctx context.Context, texts []string) ([][]float32, error) {
	vecs := make([][]float32, len(texts))
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, &Error{Kind: contextKind(err), Provider: t.name, Model: trigramModel, Err: err}
		}
		vecs[i] = t.embed(text)
	}
	return vecs, nil
}

func (t trigram) Embed(ctx context.Context, text string) ([]float32, error) {
	return one(ctx, t.EmbedBatch, text)
}

func (t trigram) embed(text string) []float32 {
	threes := map[uint32]int{} // three bytes in one number
	words := map[string]*int{}
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
				threes[uint32(word[j])<<16|uint32(word[j+1])<<8|uint32(word[j+2])]++
			}
			if len(word) > 5 {
				n := words[string(word)]
				if n == nil {
					n = new(int)
					words[string(word)] = n
				}
				*n++
			}
			word = word[:1]
		}
	}
	sums := make([]int64, t.dim)
	add := func(feature []byte, n, weight int) {
		weight *= bits.Len(uint(n))
		h := hash(feature)
		if h>>63 == 1 {
			weight = -weight
		}
		sums[h%uint64(t.dim)] += int64(weight)
	}
	for three, n := range threes {
		add([]byte{byte(three >> 16), byte(three >> 8), byte(three)}, n, 1)
	}
	for word, n := range words {
		add([]byte(word), *n, 2)
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

// fold returns the lower-case form of a byte of a word, and a space for any other byte.
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
func hash(feature []byte) uint64 {
	h := uint64(0xcbf29ce484222325)
	for _, b := range feature {
		h = (h ^ uint64(b)) * 0x100000001b3
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
