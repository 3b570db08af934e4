package bert

import (
	"errors"
	"fmt"
	"math"

	"github.com/vecbolt/vecbolt/internal/tokenizer"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/internal/weights"
	"github.com/vecbolt/vecbolt/simd"
)

// A CrossEncoder scores how well a text fits a question, reading both together as the rerankers of
// MS MARCO do. It is safe for concurrent use.
type CrossEncoder struct {
	model        *Model
	pooler, head linear
}

// OpenCross reads a cross-encoder from a directory of Hugging Face: a BertForSequenceClassification
// with one label.
func OpenCross(dir string) (*CrossEncoder, error) {
	file, tok, cfg, err := readDir(dir)
	var c *CrossEncoder
	if err == nil {
		err = vfs.Guard(dir, func() (err error) {
			c, err = newCross(file, tok, cfg)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("bert: open %q: %w", dir, err)
	}
	return c, nil
}

// newCross returns a cross-encoder from tensors and a tokenizer.
func newCross(file *weights.File, tok *tokenizer.Tokenizer, cfg config) (*CrossEncoder, error) {
	m, err := newModel(file, tok, cfg)
	if err != nil {
		return nil, err
	}
	if m.second == nil {
		return nil, errors.New("the model has no second segment")
	}
	if ids, _ := tok.EncodePair("", "", 0); len(ids) > m.cfg.MaxTokens {
		return nil, fmt.Errorf("%d special tokens around two texts, of %d tokens at most", len(ids), m.cfg.MaxTokens)
	}
	l, h := &loader{file: file}, cfg.Hidden
	c := &CrossEncoder{m, l.linear(-1, "pooler.dense", h, h), l.linear(-1, "classifier", 1, h)}
	return c, l.err
}

// Quantize replaces the weights of the layers by codes of one byte; see Model.Quantize. It must not
// be called while c is in use.
func (c *CrossEncoder) Quantize() error { return c.model.Quantize() }

// Close unmaps the file that OpenCross has read; see Model.Close.
func (c *CrossEncoder) Close() error { return c.model.Close() }

// Score returns how well a text fits a question: a logit, of which only the order is meaningful.
// 1/(1+exp(-score)) lies between 0 and 1. It runs on one core. It panics
// if the file of the model can no longer be read.
func (c *CrossEncoder) Score(question, text string) float64 {
	m := c.model
	ids, second := m.tok.EncodePair(question, text, m.cfg.MaxTokens)
	score := make([]float32, 1)
	err := m.run([]sequence{{ids: ids, second: second}}, 1, func(_ int, x simd.Rows) {
		pooled := make([]float32, m.cfg.Hidden)
		c.pooler.apply(pooled, x.Row(0), 1)
		for i, v := range pooled {
			pooled[i] = float32(math.Tanh(float64(v)))
		}
		c.head.apply(score, pooled, 1)
	})
	if err != nil {
		panic(err)
	}
	return float64(score[0])
}
