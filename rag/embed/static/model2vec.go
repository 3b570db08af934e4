package static

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/viterin/vek"

	"github.com/vecbolt/vecbolt/internal/tokenizer"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/internal/weights"
)

// maxTokens is the number of tokens of a text that count, as in the original.
const maxTokens = 512

// A Model is a Model2Vec model. It is safe for concurrent use.
type Model struct {
	tok       *tokenizer.Tokenizer
	dim       int
	rows      []float32 // nil if small is set
	small     []byte    // rows of signed bytes
	row       []int     // row of each token; nil: its id
	weight    []float32 // weight of each token; nil: 1
	normalize bool
	most      int // maximum number of characters of a text that count
}

// Open reads a Model2Vec directory.
func Open(dir string) (*Model, error) {
	m, err := open(dir)
	if err != nil {
		return nil, fmt.Errorf("static: open %q: %w", dir, err)
	}
	return m, nil
}

func open(dir string) (*Model, error) {
	sub := dir
	if _, err := os.Stat(filepath.Join(dir, "model.safetensors")); errors.Is(err, fs.ErrNotExist) {
		sub = filepath.Join(dir, "0_StaticEmbedding") // as Sentence Transformers writes it
	}
	b, err := vfs.ReadFile(filepath.Join(sub, "model.safetensors"))
	if err != nil {
		return nil, err
	}
	tokens, err := vfs.ReadFile(filepath.Join(sub, "tokenizer.json"))
	if err != nil {
		return nil, err
	}
	m, err := New(b, tokens)
	if err != nil {
		return nil, err
	}
	m.normalize, err = normalizes(dir)
	return m, err
}

// normalizes reports whether vectors are scaled to the length 1, which is the default.
func normalizes(dir string) (bool, error) {
	for _, name := range []string{"config.json", "config_sentence_transformers.json"} {
		var c struct {
			Normalize *bool `json:"normalize"`
		}
		if found, err := readJSON(filepath.Join(dir, name), &c); err != nil || found && c.Normalize != nil {
			return c.Normalize != nil && *c.Normalize, err
		}
	}
	var modules []struct {
		Type string `json:"type"`
	}
	found, err := readJSON(filepath.Join(dir, "modules.json"), &modules)
	for _, m := range modules {
		if strings.HasSuffix(m.Type, ".Normalize") {
			return true, err
		}
	}
	return !found, err
}

// readJSON reads an optional file.
func readJSON(name string, into any) (found bool, err error) {
	b, err := vfs.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		if err = json.Unmarshal(b, into); err != nil {
			err = fmt.Errorf("%s: %w", filepath.Base(name), err)
		}
	}
	return true, err
}

// New returns the model of the bytes of a model.safetensors, such as a program embeds, and of its
// tokens: a tokenizer.json, or the vocabulary of an uncased BERT, a token per line. Vectors are
// scaled to the length 1. New keeps the bytes of the table, which must not be changed.
func New(table, tokens []byte) (*Model, error) {
	file, err := weights.Parse(table)
	if err != nil {
		return nil, fmt.Errorf("model.safetensors: %w", err)
	}
	var tok *tokenizer.Tokenizer
	if bytes.HasPrefix(bytes.TrimSpace(tokens), []byte("{")) {
		if tok, err = tokenizer.Parse(tokens); err != nil {
			return nil, fmt.Errorf("tokenizer.json: %w", err)
		}
	} else if tok, err = tokenizer.BERT(tokenizer.ReadVocab(tokens), true); err != nil {
		return nil, fmt.Errorf("vocab.txt: %w", err)
	}
	return newModel(file, tok)
}

func newModel(file *weights.File, tok *tokenizer.Tokenizer) (*Model, error) {
	m := &Model{tok: tok, normalize: true}
	table, ok := file.Tensors["embeddings"]
	if !ok {
		table, ok = file.Tensors["embedding.weight"]
	}
	if !ok || len(table.Shape) != 2 || table.Shape[1] == 0 {
		return nil, errors.New(`there is no matrix "embeddings" or "embedding.weight"`)
	}
	var err error
	m.dim = table.Shape[1]
	_, weighted := file.Tensors["weights"]
	if table.Type == "I8" && m.dim%block == 0 && !weighted {
		m.small = table.Bytes()
	} else if m.rows, err = table.Float32(); err != nil {
		return nil, fmt.Errorf("embeddings: %w", err)
	}
	size := table.Shape[0] // number of token ids
	if t, ok := file.Tensors["mapping"]; ok {
		rows, err := t.Ints()
		if err != nil {
			return nil, fmt.Errorf("mapping: %w", err)
		}
		for i, r := range rows {
			if r < 0 || r >= int64(size) {
				return nil, fmt.Errorf("mapping: token %d has row %d of %d", i, r, size)
			}
			m.row = append(m.row, int(r))
		}
		size = len(rows)
	}
	if t, ok := file.Tensors["weights"]; ok {
		if m.weight, err = t.Float32(); err != nil {
			return nil, fmt.Errorf("weights: %w", err)
		}
		size = min(size, len(m.weight))
	}
	var lengths []int
	for token, id := range tok.Tokens() {
		if id >= size {
			return nil, fmt.Errorf("token %q has number %d, the table ends at %d", token, id, size)
		}
		lengths = append(lengths, utf8.RuneCountInString(token))
	}
	if len(lengths) > 0 {
		slices.Sort(lengths)
		m.most = maxTokens * (lengths[len(lengths)/2] + lengths[(len(lengths)-1)/2]) / 2
	}
	return m, nil
}

// Dim returns the number of components of a vector.
func (m *Model) Dim() int { return m.dim }

// Embed returns the vector of a text: the weighted mean of the vectors of its tokens, without
// unknown and surrounding special tokens. It is zero without tokens. Only the first 512 tokens
// count.
func (m *Model) Embed(text string) []float32 {
	ids := m.tok.EncodePlain(cutRunes(text, m.most))
	if unknown, ok := m.tok.Unknown(); ok {
		ids = slices.DeleteFunc(ids, func(id int) bool { return id == unknown })
	}
	ids = ids[:min(len(ids), maxTokens)]
	sum := make([]float64, m.dim)
	if m.small != nil {
		if m.row != nil {
			for i, id := range ids {
				ids[i] = m.row[id]
			}
		}
		addBytes(sum, m.small, ids)
		return mean(sum, float64(len(ids)), m.normalize)
	}
	wide := make([]float64, m.dim)
	for _, id := range ids {
		r, w := id, 1.0
		if m.row != nil {
			r = m.row[id]
		}
		if m.weight != nil {
			w = float64(m.weight[id])
		}
		vek.FromFloat32_Into(wide, m.rows[r*m.dim:][:m.dim])
		vek.MulNumber_Inplace(wide, w)
		vek.Add_Inplace(sum, wide)
	}
	return mean(sum, float64(len(ids)), m.normalize)
}

// cutRunes returns the first n characters of a text.
func cutRunes(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}

// mean divides a sum by n, or by its length if normalize is set.
func mean(sum []float64, n float64, normalize bool) []float32 {
	if normalize {
		n = 0
		for _, x := range sum {
			n += x * x
		}
		n = math.Sqrt(n)
	}
	v := make([]float32, len(sum))
	for i, x := range sum {
		if n != 0 { // true for NaN, which stays visible
			v[i] = float32(x / n)
		}
	}
	return v
}
