package bert

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/viterin/vek"

	"github.com/vecbolt/vecbolt/internal/tokenizer"
	"github.com/vecbolt/vecbolt/internal/weights"
	"github.com/vecbolt/vecbolt/simd"
)

// A pooling combines the vectors of all tokens into one.
type pooling uint8

// Poolings.
const (
	meanPooling  pooling = iota // the mean of all tokens, special tokens included
	firstPooling                // the first token, which is [CLS]
	lastPooling                 // the last token
)

// A config is the shape of a model.
type config struct {
	Layers, Heads        int
	Hidden, Intermediate int     // components
	Positions            int     // number of positions that the model was trained for
	Epsilon              float64 // of layer norms
	Activation           string  // "gelu", "gelu_tanh" or "relu"
	Pooling              pooling
	Normalize            bool
	MaxTokens            int // tokens per text, special ones included; the rest is cut off
}

// A linear is a map x·wᵀ+b, with w row by row.
type linear struct{ w, b []float32 }

// A norm is a layer norm.
type norm struct{ w, b []float32 }

// A stored is a linear map with weights in the file of the model.
type stored struct {
	w weights.Tensor
	b []float32
}

// A layer is a layer of the file. Several maps of the same input are applied as one, with all their
// outputs.
type layer struct {
	qkv, attention []stored // queries, keys and values
	norm1          norm
	up, down       []stored
	norm2          norm
}

// A Model is a sentence encoder. It is safe for concurrent use.
type Model struct {
	cfg    config
	tok    *tokenizer.Tokenizer
	file   *weights.File // of tokens
	tokens []float32     // a row per token
	places []float32     // a row per position, plus the embedding of the first segment
	second []float32     // difference from the first segment to the second; nil: no second segment
	norm   norm

	stored []layer
	packed sync.Mutex
	layers atomic.Pointer[[]*block] // packed; nil: not yet

	scratch sync.Pool // of *scratch
}

// Dim returns the number of components of a vector.
func (m *Model) Dim() int { return m.cfg.Hidden }

// Quantize replaces the weights of linear maps by codes of one byte with a scale per output, a
// quarter of the memory. Their inputs are then rounded to one byte with a scale and a zero per
// token, and products are exact integers (Dettmers et al., LLM.int8(), 2022, call this vector-wise
// quantisation). Other numbers stay float32. Vectors change a little: of all-MiniLM-L6-v2, their
// cosine with those before is above 0.995. Quantize fails, and changes nothing, if a weight is not
// finite or cannot be read. It must not be called while m is in use.
func (m *Model) Quantize() error {
	if layers := m.layers.Load(); layers != nil && (*layers)[0].up.codes != nil {
		return nil
	}
	layers, err := m.pack(newCodes)
	if err == nil {
		m.layers.Store(&layers)
	}
	return err
}

// blocks returns the layers, packed. The first call reads them.
func (m *Model) blocks() ([]*block, error) {
	if layers := m.layers.Load(); layers != nil {
		return *layers, nil
	}
	m.packed.Lock()
	defer m.packed.Unlock()
	if layers := m.layers.Load(); layers != nil {
		return *layers, nil
	}
	layers, err := m.pack(newFloats)
	if err != nil {
		return nil, err
	}
	m.layers.Store(&layers)
	return layers, nil
}

// pack packs the matrices of all layers, on all cores.
func (m *Model) pack(kind func([]simd.Rows) (product, error)) ([]*block, error) {
	layers := make([]*block, len(m.stored))
	err := each(context.Background(), runtime.GOMAXPROCS(0), len(layers), func(i int) (err error) {
		if layers[i], err = newBlock(m.stored[i], kind); err != nil {
			err = fmt.Errorf("layer %d: %w", i, err)
		}
		return err
	})
	m.file.Forget()
	return layers, err
}

// Embed returns the vector of a text. It runs on one core. It panics if the file of a model that is
// open can no longer be read.
func (m *Model) Embed(text string) []float32 {
	v, err := m.embed([]sequence{m.sequence(text)}, 1)
	if err != nil {
		panic(err)
	}
	return v[0]
}

// Close unmaps the file of a model that Open has read. The model must not be used after it. Without
// Close, that happens when nothing refers to the model any longer.
func (m *Model) Close() error { return m.file.Close() }

// sequence returns the tokens of a text.
func (m *Model) sequence(text string) sequence {
	ids := m.tok.EncodeMax(text, m.cfg.MaxTokens)
	return sequence{ids: ids, second: len(ids)}
}

// embed returns the vectors of texts that run together on some threads.
func (m *Model) embed(texts []sequence, threads int) ([][]float32, error) {
	vecs := make([][]float32, len(texts))
	err := m.run(texts, threads, func(i int, x simd.Rows) { vecs[i] = m.pool(x) })
	return vecs, err
}

// tile is the number of weight bytes that are applied to all rows before the next ones: well below
// the size of a core's L1 cache.
const tile = 24 << 10

// apply computes n rows.
func (l *linear) apply(dst, src []float32, n int) {
	out := len(l.b)
	in := len(l.w) / out
	step := max(1, tile/4/in)
	for j := 0; j < out; j += step {
		k := min(step, out-j)
		w := l.w[j*in : (j+k)*in]
		for t := range n {
			simd.DotRows(dst[t*out+j:][:k], src[t*in:][:in], w)
		}
	}
	for t := range n {
		add(dst[t*out:][:out], l.b)
	}
}

// add adds b to a.
func add(a, b []float32) {
	b = b[:len(a)]
	for i := range a {
		a[i] += b[i]
	}
}

// pool combines the rows of a text into one vector.
func (m *Model) pool(x simd.Rows) []float32 {
	v := make([]float32, m.cfg.Hidden)
	switch m.cfg.Pooling {
	case firstPooling:
		copy(v, x.Row(0))
	case lastPooling:
		copy(v, x.Row(x.N-1))
	default:
		sums, wide := make([]float64, len(v)), make([]float64, len(v))
		for t := range x.N {
			vek.Add_Inplace(sums, vek.FromFloat32_Into(wide, x.Row(t)))
		}
		for j, sum := range sums {
			v[j] = float32(sum / float64(x.N))
		}
	}
	if m.cfg.Normalize {
		square := 0.0
		for _, c := range v {
			square += float64(c) * float64(c)
		}
		norm := cmp.Or(math.Sqrt(square), 1)
		for j := range v {
			v[j] = float32(float64(v[j]) / norm)
		}
	}
	return v
}
