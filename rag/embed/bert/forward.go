package bert

import (
	"errors"
	"math"
	"runtime"
	"sync"

	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/simd"
)

// A sequence is a text in tokens, at least one. Tokens from index second on belong to the second
// segment.
type sequence struct {
	ids    []int
	second int
	at     int // row of the first token
}

// A product is a linear map, packed for the kernels: of float32, or of codes of one byte.
type product struct {
	floats simd.Matrix
	codes  *simd.CodeMatrix // instead of floats, unless nil
	bias   []float32
}

// A block is a layer, packed.
type block struct {
	qkv, attention, up, down *product
	norm1, norm2             norm
}

func newBlock(l layer, kind func([]simd.Rows) (product, error)) (*block, error) {
	b := &block{norm1: l.norm1, norm2: l.norm2}
	for _, p := range []struct {
		to   **product
		from []stored
	}{{&b.qkv, l.qkv}, {&b.attention, l.attention}, {&b.up, l.up}, {&b.down, l.down}} {
		var parts []simd.Rows
		var bias []float32
		for _, s := range p.from {
			w, err := s.w.View()
			if err != nil {
				return nil, err
			}
			parts = append(parts, simd.Rows{Data: w, N: s.w.Shape[0], Dim: s.w.Shape[1], Stride: s.w.Shape[1]})
			bias = append(bias, s.b...)
		}
		made, err := kind(parts)
		if err != nil {
			return nil, err
		}
		made.bias = bias
		*p.to = &made
	}
	return b, nil
}

// newFloats packs a linear map of some matrices, one below the other. It copies them.
func newFloats(parts []simd.Rows) (p product, err error) {
	p.floats.Pack(parts...)
	return p, nil
}

// newCodes is newFloats with codes of one byte.
func newCodes(parts []simd.Rows) (p product, err error) {
	for _, w := range parts {
		if !simd.Finite(w.Data) {
			return p, errNotFinite
		}
	}
	p.codes = simd.NewCodeMatrix(parts...)
	return p, nil
}

var errNotFinite = errors.New("there are weights that are not finite")

// A scratch is the memory of one run.
type scratch struct {
	x, y, mid factor
	qkv       simd.Rows
	heads     sync.Pool // of *head
}

// A factor is the left factor of products: a row per token. A quantised model has its codes, too.
type factor struct {
	simd.Rows
	codes simd.CodeRows
}

func (f *factor) reset(n, dim int, coded bool) {
	f.Resize(n, dim)
	if coded {
		f.codes.Reset(n, dim)
	}
}

// A head is the memory of one head of attention.
type head struct {
	keys, values simd.Matrix
	score        simd.Rows
}

// A pass is one run of the model over some texts. Their tokens are rows of the same matrices, one
// text after the other, without padding: only attention tells texts apart. So the rows of a text
// have the same bits whatever texts run with it.
type pass struct {
	*scratch
	model  *Model
	layers []*block
	coded  bool // the layers are codes
	texts  []sequence
	rows   int
}

// run runs the model over texts, at least one, on some threads, and calls finish with the rows of
// the last layer of each text. It fails if the file of the model cannot be read.
func (m *Model) run(texts []sequence, threads int, finish func(i int, x simd.Rows)) error {
	layers, err := m.blocks()
	if err != nil {
		return err
	}
	s, _ := m.scratch.Get().(*scratch)
	if s == nil {
		s = &scratch{}
	}
	p := &pass{scratch: s, model: m, layers: layers, coded: layers[0].up.codes != nil, texts: texts}
	for i := range texts {
		texts[i].at = p.rows
		p.rows += len(texts[i].ids)
	}
	h := m.cfg.Hidden
	s.x.reset(p.rows, h, p.coded)
	s.y.reset(p.rows, h, p.coded)
	s.mid.reset(p.rows, m.cfg.Intermediate, p.coded)
	s.qkv.Resize(p.rows, 3*h)
	// Only the embeddings of tokens are read from the file: all other weights are packed.
	err = vfs.Guard("weights", func() error {
		p.start()
		runtime.KeepAlive(m.file)
		return nil
	})
	if err != nil {
		return err
	}
	run(threads, p.forward)
	for i, t := range texts {
		finish(i, s.x.Slice(t.at, t.at+len(t.ids)))
	}
	m.scratch.Put(s)
	return nil
}

// Numbers of parts that steps are divided into for each thread: so many that threads end at about
// the same time, and so few that counting costs nothing.
const (
	partsOfProduct = 64
	partsOfRows    = 2
)

// forward is the work of one thread. It touches the scratch in parts of steps only, because a
// thread that is late may be here when the scratch serves another run.
func (p *pass) forward(w *worker) {
	c := p.model.cfg
	for _, b := range p.layers {
		p.multiply(w, b.qkv, func() simd.Rows { return p.qkv }, &p.x, nil)
		w.do(len(p.texts)*c.Heads, partsOfProduct, func(from, to int) {
			s, _ := p.heads.Get().(*head)
			if s == nil {
				s = &head{}
			}
			for i := from; i < to; i++ {
				p.attend(s, p.texts[i/c.Heads], i%c.Heads)
			}
			p.heads.Put(s)
		})
		p.encode(w, &p.y)
		out := func() simd.Rows { return p.qkv.Columns(0, c.Hidden) }
		p.multiply(w, b.attention, out, &p.y, nil)
		p.addNorm(w, out, b.norm1)
		p.multiply(w, b.up, func() simd.Rows { return p.mid.Rows }, &p.x, activation(c.Activation))
		p.encode(w, &p.mid)
		y := func() simd.Rows { return p.y.Rows }
		p.multiply(w, b.down, y, &p.mid, nil)
		p.addNorm(w, y, b.norm2)
	}
}

// start sets the rows to the embeddings of their tokens.
func (p *pass) start() {
	m, h := p.model, p.model.cfg.Hidden
	for _, t := range p.texts {
		for i, id := range t.ids {
			x := p.x.Row(t.at + i)
			copy(x, m.tokens[id*h:][:h])
			if i >= t.second {
				add(x, m.second)
			}
			simd.AddNorm(x, m.places[i*h:][:h], m.norm.w, m.norm.b, float32(m.cfg.Epsilon))
			p.set(&p.x, t.at+i)
		}
	}
}

// set sets the codes of a row, if the layers have codes.
func (p *pass) set(f *factor, i int) {
	if p.coded {
		f.codes.Set(i, f.Row(i))
	}
}

// encode sets the codes of all rows, if the layers have codes.
func (p *pass) encode(w *worker, f *factor) {
	if !p.coded {
		return
	}
	w.do(p.rows, partsOfRows, func(from, to int) {
		for i := from; i < to; i++ {
			p.set(f, i)
		}
	})
}

// addNorm adds y to all rows, applies a norm, and sets their codes.
func (p *pass) addNorm(w *worker, y func() simd.Rows, n norm) {
	w.do(p.rows, partsOfRows, func(from, to int) {
		y := y()
		for i := from; i < to; i++ {
			simd.AddNorm(p.x.Row(i), y.Row(i), n.w, n.b, float32(p.model.cfg.Epsilon))
			p.set(&p.x, i)
		}
	})
}

// multiply computes a product, and applies f to it.
func (p *pass) multiply(w *worker, by *product, dst func() simd.Rows, x *factor, f func([]float32)) {
	if p.coded {
		w.do(by.codes.Panels(), partsOfProduct, func(from, to int) {
			dst := dst()
			by.codes.Mul(dst, &x.codes, by.bias, from, to)
			p.apply(f, dst, from, to)
		})
		return
	}
	w.do(by.floats.Panels(), partsOfProduct, func(from, to int) {
		const cached = 96 << 10 // floats of x that stay in the second cache while the panels pass
		dst, rows := dst(), max(32, cached/x.Dim)
		for i := 0; i < x.N; i += rows {
			end := min(i+rows, x.N)
			by.floats.Mul(dst.Slice(i, end), x.Slice(i, end), by.bias, from, to)
			p.apply(f, dst.Slice(i, end), from, to)
		}
	})
}

// apply applies f to the columns of some panels.
func (p *pass) apply(f func([]float32), x simd.Rows, from, to int) {
	if f == nil || from == to {
		return
	}
	x = x.Columns(from*simd.PanelColumns, min(to*simd.PanelColumns, x.Dim))
	for i := range x.N {
		f(x.Row(i))
	}
}

// attend computes softmax(q·kᵀ/√d)·v of one head of a text into y.
func (p *pass) attend(s *head, t sequence, index int) {
	c, n := p.model.cfg, len(t.ids)
	h, d := c.Hidden, c.Hidden/c.Heads
	rows := p.qkv.Slice(t.at, t.at+n)
	part := func(i int) simd.Rows { return rows.Columns(i*h+index*d, i*h+(index+1)*d) }
	q, out := part(0), p.y.Slice(t.at, t.at+n).Columns(index*d, (index+1)*d)
	s.keys.Pack(part(1))
	s.values.PackColumns(part(2))
	scale := float32(1 / math.Sqrt(float64(d)))
	const queries = 56
	s.score.Resize(min(n, queries), n)
	for i := 0; i < n; i += queries {
		end := min(i+queries, n)
		score := s.score.Slice(0, end-i)
		s.keys.Mul(score, q.Slice(i, end), nil, 0, s.keys.Panels())
		for r := range score.N {
			simd.Softmax(score.Row(r), scale)
		}
		s.values.Mul(out.Slice(i, end), score, nil, 0, s.values.Panels())
	}
}

// activation returns the activation function of a name.
func activation(name string) func([]float32) {
	switch name {
	case "relu":
		return func(x []float32) {
			for i, v := range x {
				x[i] = max(0, v)
			}
		}
	case "gelu_tanh":
		return simd.GELUTanh
	default:
		return simd.GELU
	}
}
