package bert

import (
	"cmp"
	"math"
	"sync"

	"github.com/vecbolt/vecbolt/rag/embed/tokenizer"
	"github.com/vecbolt/vecbolt/simd"
)

// A Pooling combines the vectors of all tokens into one.
type Pooling uint8

// Poolings.
const (
	Mean  Pooling = iota // the mean of all tokens, special tokens included
	First                // the first token, which is [CLS]
	Last                 // the last token
)

// A Config is the shape of a model.
type Config struct {
	Layers, Heads        int
	Hidden, Intermediate int     // components
	Positions            int     // number of positions that the model was trained for
	Epsilon              float64 // of layer norms
	Activation           string  // "gelu", "gelu_tanh" or "relu"
	Pooling              Pooling
	Normalize            bool
	MaxTokens            int // tokens per text, special ones included; the rest is cut off
}

// A linear is a map x·wᵀ+b, with w row by row.
type linear struct{ w, b []float32 }

// A norm is a layer norm.
type norm struct{ w, b []float32 }

type layer struct {
	qkv, attention linear // queries, keys and values in one
	norm1          norm
	up, down       linear
	norm2          norm
}

// A Model is a sentence encoder. It is safe for concurrent use.
type Model struct {
	cfg    Config
	tok    *tokenizer.Tokenizer
	tokens []float32 // a row per token
	places []float32 // a row per position, plus the embedding of the first segment
	second []float32 // difference from the first segment to the second; nil: no second segment
	norm   norm
	layers []layer

	scratch sync.Pool // of *scratch
}

// Config returns the shape of the model.
func (m *Model) Config() Config { return m.cfg }

// Dim returns the number of components of a vector.
func (m *Model) Dim() int { return m.cfg.Hidden }

// Tokenizer returns the tokenizer of the model.
func (m *Model) Tokenizer() *tokenizer.Tokenizer { return m.tok }

// A scratch is the memory of one run.
type scratch struct {
	x, y, qkv, mid      []float32 // a row per token
	keys, values, score []float32 // of one head; values transposed
}

// grow returns a slice of n floats, aligned to a cache line.
func grow(s []float32, n int) []float32 {
	if cap(s) < n {
		return simd.Make(n)
	}
	return s[:n]
}

// Embed returns the vector of a text. It runs on one core.
func (m *Model) Embed(text string) []float32 {
	ids := m.tok.EncodeMax(text, true, m.cfg.MaxTokens)
	return m.run(ids, len(ids), m.pool)
}

// run runs the model over tokens, at least one. Tokens from index second on belong to the second
// segment. It returns the result of finish, which gets the rows of the last layer.
func (m *Model) run(ids []int, second int, finish func(x []float32, n int) []float32) []float32 {
	c, n := m.cfg, len(ids)
	s, _ := m.scratch.Get().(*scratch)
	if s == nil {
		s = &scratch{}
	}
	defer m.scratch.Put(s)
	h := c.Hidden
	s.x, s.y = grow(s.x, n*h), grow(s.y, n*h)
	for i, id := range ids {
		x, word, place := s.x[i*h:][:h], m.tokens[id*h:][:h], m.places[i*h:][:h]
		for j := range x {
			x[j] = word[j] + place[j]
		}
		if i >= second {
			add(x, m.second)
		}
	}
	m.norm.apply(s.x, c.Epsilon)
	for i := range m.layers {
		m.layers[i].run(s, n, c)
	}
	return finish(s.x, n)
}

// run replaces s.x, which has n rows, by the output of the layer.
func (l *layer) run(s *scratch, n int, c Config) {
	h := c.Hidden
	s.qkv = grow(s.qkv, n*3*h)
	l.qkv.apply(s.qkv, s.x, n)
	attend(s, n, c)
	l.attention.apply(s.qkv[:n*h], s.y, n)
	add(s.x, s.qkv)
	l.norm1.apply(s.x, c.Epsilon)

	s.mid = grow(s.mid, n*c.Intermediate)
	l.up.apply(s.mid, s.x, n)
	activate(s.mid, c.Activation)
	l.down.apply(s.y, s.mid, n)
	add(s.x, s.y)
	l.norm2.apply(s.x, c.Epsilon)
}

// attend computes softmax(q·kᵀ/√d)·v for each head into s.y.
func attend(s *scratch, n int, c Config) {
	h, d := c.Hidden, c.Hidden/c.Heads
	s.keys, s.values, s.score = grow(s.keys, n*d), grow(s.values, n*d), grow(s.score, n)
	scale := 1 / math.Sqrt(float64(d))
	for head := range c.Heads {
		for t := range n {
			row := s.qkv[t*3*h+head*d:]
			copy(s.keys[t*d:], row[h:h+d])
			for j, v := range row[2*h : 2*h+d] {
				s.values[j*n+t] = v
			}
		}
		for t := range n {
			simd.DotRows(s.score, s.qkv[t*3*h+head*d:][:d], s.keys)
			softmax(s.score, scale)
			simd.DotRows(s.y[t*h+head*d:][:d], s.score, s.values)
		}
	}
}

// softmax replaces x by exp(scale·x), divided by the sum of these values.
func softmax(x []float32, scale float64) {
	most := float64(x[0])
	for _, v := range x {
		most = max(most, float64(v))
	}
	sum := 0.0
	for i, v := range x {
		e := math.Exp(scale * (float64(v) - most))
		sum += e
		x[i] = float32(e)
	}
	for i := range x {
		x[i] = float32(float64(x[i]) / sum)
	}
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

// apply normalises each row of x and applies the weights of the norm.
func (l *norm) apply(x []float32, epsilon float64) {
	for h := len(l.w); len(x) > 0; x = x[h:] {
		row := x[:h]
		sum, square := 0.0, 0.0
		for _, v := range row {
			sum += float64(v)
		}
		mean := sum / float64(h)
		for _, v := range row {
			d := float64(v) - mean
			square += d * d
		}
		scale := 1 / math.Sqrt(square/float64(h)+epsilon)
		for i, v := range row {
			row[i] = float32((float64(v)-mean)*scale)*l.w[i] + l.b[i]
		}
	}
}

// activate applies the activation function. Hendrycks and Gimpel, Gaussian
// Error Linear Units, 2016.
func activate(x []float32, name string) {
	switch name {
	case "relu":
		for i, v := range x {
			x[i] = max(0, v)
		}
	case "gelu_tanh":
		for i, v := range x {
			z := float64(v)
			x[i] = float32(z / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(z+0.044715*z*z*z))))
		}
	default:
		for i, v := range x {
			z := float64(v)
			x[i] = float32(z / 2 * (1 + math.Erf(z/math.Sqrt2)))
		}
	}
}

// pool combines n rows into one vector.
func (m *Model) pool(x []float32, n int) []float32 {
	h := m.cfg.Hidden
	v := make([]float32, h)
	switch m.cfg.Pooling {
	case First:
		copy(v, x)
	case Last:
		copy(v, x[(n-1)*h:])
	default:
		for j := range v {
			sum := 0.0
			for t := range n {
				sum += float64(x[t*h+j])
			}
			v[j] = float32(sum / float64(n))
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
