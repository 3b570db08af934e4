package bert

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vecbolt/vecbolt/internal/tokenizer"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/internal/weights"
)

// weightFiles are the names of weights in a directory, in the order in which they are looked for.
var weightFiles = []string{"model.safetensors", "model.onnx", "onnx/model.onnx"}

// Open reads a model from a GGUF file or a directory. It maps the weights, and the first text that
// is embedded reads them, so that opening takes little more than reading the vocabulary. Files must
// not be changed while the model is open; they may be replaced or, except on Windows, removed.
func Open(path string) (*Model, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	var m *Model
	if info.IsDir() {
		m, err = openDir(path)
	} else {
		m, err = openGGUF(path)
	}
	if err != nil {
		return nil, fmt.Errorf("bert: open %q: %w", path, err)
	}
	return m, nil
}

func openDir(dir string) (*Model, error) {
	file, tok, cfg, err := readDir(dir)
	if err != nil {
		return nil, err
	}
	var m *Model
	err = vfs.Guard(dir, func() (err error) {
		m, err = newModel(file, tok, cfg)
		return err
	})
	return m, err
}

func readDir(dir string) (*weights.File, *tokenizer.Tokenizer, config, error) {
	cfg, err := readConfig(dir)
	if err != nil {
		return nil, nil, cfg, err
	}
	tok, err := openTokenizer(dir)
	if err != nil {
		return nil, nil, cfg, err
	}
	file, err := openWeights(dir)
	return file, tok, cfg, err
}

func openWeights(dir string) (*weights.File, error) {
	var missing error
	for _, name := range weightFiles {
		file, err := weights.Open(filepath.Join(dir, filepath.FromSlash(name)))
		if errors.Is(err, fs.ErrNotExist) {
			missing = cmp.Or(missing, err)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return file, nil
	}
	return nil, missing
}

func readConfig(dir string) (cfg config, err error) {
	var c struct {
		Type         string  `json:"model_type"`
		Hidden       int     `json:"hidden_size"`
		Intermediate int     `json:"intermediate_size"`
		Layers       int     `json:"num_hidden_layers"`
		Heads        int     `json:"num_attention_heads"`
		Positions    int     `json:"max_position_embeddings"`
		Epsilon      float64 `json:"layer_norm_eps"`
		Activation   string  `json:"hidden_act"`
		Position     string  `json:"position_embedding_type"`
	}
	if found, err := readJSON(dir, "config.json", &c); err != nil || !found {
		return cfg, cmp.Or(err, errors.New("there is no config.json"))
	}
	if c.Type != "bert" || c.Position != "" && c.Position != "absolute" {
		return cfg, fmt.Errorf("models of type %q with positions %q are not supported", c.Type, c.Position)
	}
	cfg = config{
		Layers: c.Layers, Heads: c.Heads, Hidden: c.Hidden, Intermediate: c.Intermediate, Positions: c.Positions,
		Epsilon: cmp.Or(c.Epsilon, 1e-12), Activation: c.Activation, MaxTokens: c.Positions,
	}
	return cfg, sentenceTransformers(dir, &cfg)
}

// sentenceTransformers reads pooling and other settings from the files that Sentence Transformers
// puts beside a model.
func sentenceTransformers(dir string, cfg *config) error {
	var modules []struct {
		Path string `json:"path"`
		Type string `json:"type"`
	}
	if _, err := readJSON(dir, "modules.json", &modules); err != nil {
		return err
	}
	for _, m := range modules {
		switch m.Type[strings.LastIndex(m.Type, ".")+1:] {
		case "Normalize":
			cfg.Normalize = true
		case "Pooling":
			if !filepath.IsLocal(m.Path) {
				return fmt.Errorf("modules.json: path %q leads out of the model", m.Path)
			}
			var p map[string]any
			if _, err := readJSON(filepath.Join(dir, filepath.FromSlash(m.Path)), "config.json", &p); err != nil {
				return err
			}
			set := 0
			for name, pooling := range map[string]pooling{"pooling_mode_mean_tokens": meanPooling, "pooling_mode_cls_token": firstPooling, "pooling_mode_lasttoken": lastPooling} {
				if p[name] == true {
					cfg.Pooling = pooling
					set++
				}
			}
			if set != 1 {
				return fmt.Errorf("%s/config.json: want one of the poolings mean, cls and lasttoken", m.Path)
			}
		case "Transformer":
		default:
			return fmt.Errorf("modules.json: module %q is not supported", m.Type)
		}
	}
	var s struct {
		Most int `json:"max_seq_length"`
	}
	_, err := readJSON(dir, "sentence_bert_config.json", &s)
	if s.Most > 0 {
		cfg.MaxTokens = min(cfg.MaxTokens, s.Most)
	}
	return err
}

func openTokenizer(dir string) (*tokenizer.Tokenizer, error) {
	b, err := vfs.ReadFile(filepath.Join(dir, "tokenizer.json"))
	if err == nil {
		tok, err := tokenizer.Parse(b)
		if err != nil {
			return nil, fmt.Errorf("tokenizer.json: %w", err)
		}
		return tok, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	b, err = vfs.ReadFile(filepath.Join(dir, "vocab.txt"))
	if err != nil {
		return nil, err
	}
	c := struct {
		Lower *bool `json:"do_lower_case"`
	}{}
	if _, err := readJSON(dir, "tokenizer_config.json", &c); err != nil {
		return nil, err
	}
	tok, err := tokenizer.BERT(tokenizer.ReadVocab(b), c.Lower == nil || *c.Lower)
	if err != nil {
		return nil, fmt.Errorf("vocab.txt: %w", err)
	}
	return tok, nil
}

// readJSON reads an optional file.
func readJSON(dir, name string, into any) (found bool, err error) {
	b, err := vfs.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		if err = json.Unmarshal(b, into); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
	}
	return true, err
}

func openGGUF(name string) (*Model, error) {
	file, err := weights.Open(name)
	if err != nil {
		return nil, err
	}
	var m *Model
	err = vfs.Guard(name, func() (err error) {
		m, err = newGGUF(file)
		return err
	})
	return m, err
}

// newGGUF returns the model of a GGUF file, which contains its configuration and its vocabulary.
func newGGUF(file *weights.File) (*Model, error) {
	v := file.Values
	if arch := v["general.architecture"]; arch != "bert" {
		return nil, fmt.Errorf("models of the architecture %v are not supported", arch)
	}
	number := func(key string) int {
		n, _ := v["bert."+key].(uint64)
		return int(min(n, math.MaxInt32))
	}
	cfg := config{
		Layers: number("block_count"), Heads: number("attention.head_count"), Hidden: number("embedding_length"),
		Intermediate: number("feed_forward_length"), Positions: number("context_length"), MaxTokens: number("context_length"),
		Activation: "gelu", Normalize: true,
	}
	cfg.Epsilon, _ = v["bert.attention.layer_norm_epsilon"].(float64)
	switch p := v["bert.pooling_type"]; p {
	case nil, uint64(1):
	case uint64(2):
		cfg.Pooling = firstPooling
	case uint64(3):
		cfg.Pooling = lastPooling
	default:
		return nil, fmt.Errorf("pooling type %v is not supported", p)
	}
	if m := v["tokenizer.ggml.model"]; m != "bert" {
		return nil, fmt.Errorf("tokenizer %v is not supported", m)
	}
	list, _ := v["tokenizer.ggml.tokens"].([]any)
	vocab := make([]string, len(list))
	for i, t := range list {
		s, ok := t.(string)
		if !ok {
			return nil, fmt.Errorf("token %d is not a string", i)
		}
		// llama.cpp marks the beginnings of words; BERT marks their continuations.
		word, begins := strings.CutPrefix(s, "▁")
		switch {
		case begins:
			s = word
		case !strings.HasPrefix(s, "[") || !strings.HasSuffix(s, "]"):
			s = "##" + s
		}
		vocab[i] = s
	}
	tok, err := tokenizer.BERT(vocab, true)
	if err != nil {
		return nil, err
	}
	return newModel(file, tok, cfg)
}

// Names of tensors: in Hugging Face files, and in GGUF.
var names = map[string]string{
	"embeddings.word_embeddings":       "token_embd",
	"embeddings.position_embeddings":   "position_embd",
	"embeddings.token_type_embeddings": "token_types",
	"embeddings.LayerNorm":             "token_embd_norm",
	"attention.self.query":             "attn_q",
	"attention.self.key":               "attn_k",
	"attention.self.value":             "attn_v",
	"attention.output.dense":           "attn_output",
	"attention.output.LayerNorm":       "attn_output_norm",
	"intermediate.dense":               "ffn_up",
	"output.dense":                     "ffn_down",
	"output.LayerNorm":                 "layer_output_norm",
}

// A loader takes tensors from a file. After the first error it does nothing.
type loader struct {
	file *weights.File
	err  error
}

// find returns a tensor of a layer, or of a tensor outside of the layers if layer is -1. The tensor
// must have the given shape; 0 stands for any dimension. Its numbers are not read.
func (l *loader) find(layer int, name, suffix string, shape ...int) (t weights.Tensor) {
	if l.err != nil {
		return t
	}
	hf, gguf := name, names[name]
	if layer >= 0 {
		hf, gguf = fmt.Sprintf("encoder.layer.%d.%s", layer, name), fmt.Sprintf("blk.%d.%s", layer, gguf)
	}
	old := map[string]string{"weight": "gamma", "bias": "beta"}[suffix] // names of layer norms in old files
	found := false
	for _, full := range []string{hf + "." + suffix, "bert." + hf + "." + suffix, gguf + "." + suffix, hf + "." + old, "bert." + hf + "." + old} {
		if t, found = l.file.Tensors[full]; found {
			break
		}
	}
	if !found {
		l.err = fmt.Errorf("tensor %q is missing", hf+"."+suffix)
		return t
	}
	ok := len(t.Shape) == len(shape)
	for i := range min(len(t.Shape), len(shape)) {
		ok = ok && t.Shape[i] > 0 && (t.Shape[i] == shape[i] || shape[i] == 0)
	}
	switch {
	case !ok:
		l.err = fmt.Errorf("tensor %q has shape %v, want %v", hf+"."+suffix, t.Shape, shape)
	case !t.Readable():
		l.err = fmt.Errorf("tensor %q has numbers of the type %s, which cannot be read", hf+"."+suffix, t.Type)
	}
	return t
}

// get returns a copy of a tensor.
func (l *loader) get(layer int, name, suffix string, shape ...int) []float32 {
	return slices.Clone(l.view(layer, name, suffix, shape...))
}

// view is get without a copy, if that is possible: the tensor must not be changed.
func (l *loader) view(layer int, name, suffix string, shape ...int) []float32 {
	t := l.find(layer, name, suffix, shape...)
	if l.err != nil {
		return nil
	}
	v, err := t.View()
	l.err = err
	return v
}

// stored returns a linear map whose weights are read later.
func (l *loader) stored(layer int, name string, out, in int) stored {
	return stored{l.find(layer, name, "weight", out, in), l.get(layer, name, "bias", out)}
}

// linear returns a copy of a linear map.
func (l *loader) linear(layer int, name string, out, in int) linear {
	return linear{l.get(layer, name, "weight", out, in), l.get(layer, name, "bias", out)}
}

func (l *loader) norm(layer int, name string, h int) norm {
	return norm{l.get(layer, name, "weight", h), l.get(layer, name, "bias", h)}
}

// newModel returns a model from tensors, named as in Hugging Face files or in GGUF, and a
// tokenizer. The matrices of the layers are only looked up: the first text that is embedded reads
// them, and fails if that is not possible.
func newModel(file *weights.File, tok *tokenizer.Tokenizer, cfg config) (*Model, error) {
	switch cfg.Activation {
	case "gelu", "relu", "gelu_tanh":
	case "gelu_new", "gelu_pytorch_tanh":
		cfg.Activation = "gelu_tanh"
	default:
		return nil, fmt.Errorf("activation %q is not supported", cfg.Activation)
	}
	const most = 1 << 20
	for _, n := range []int{cfg.Layers, cfg.Heads, cfg.Hidden, cfg.Intermediate, cfg.Positions} {
		if n < 1 || n > most {
			return nil, fmt.Errorf("shape %+v is not possible", cfg)
		}
	}
	if cfg.Hidden%cfg.Heads != 0 || !(cfg.Epsilon >= 0 && cfg.Epsilon < 1) {
		return nil, fmt.Errorf("shape %+v is not possible", cfg)
	}
	if cfg.MaxTokens < 1 || cfg.MaxTokens > cfg.Positions {
		cfg.MaxTokens = cfg.Positions
	}
	around := len(tok.Encode(""))
	if around == 0 || around > cfg.MaxTokens {
		return nil, fmt.Errorf("the tokenizer puts %d special tokens around a text, want 1 to %d", around, cfg.MaxTokens)
	}
	l, h := &loader{file: file}, cfg.Hidden
	m := &Model{cfg: cfg, tok: tok, file: file}
	m.tokens = l.view(-1, "embeddings.word_embeddings", "weight", 0, h)
	m.places = l.get(-1, "embeddings.position_embeddings", "weight", cfg.Positions, h)
	segment := l.get(-1, "embeddings.token_type_embeddings", "weight", 0, h)
	m.norm = l.norm(-1, "embeddings.LayerNorm", h)
	for i := 0; i < cfg.Layers && l.err == nil; i++ {
		self := func(name string) stored { return l.stored(i, "attention.self."+name, h, h) }
		m.stored = append(m.stored, layer{
			qkv:       []stored{self("query"), self("key"), self("value")},
			attention: []stored{l.stored(i, "attention.output.dense", h, h)},
			norm1:     l.norm(i, "attention.output.LayerNorm", h),
			up:        []stored{l.stored(i, "intermediate.dense", cfg.Intermediate, h)},
			down:      []stored{l.stored(i, "output.dense", h, cfg.Intermediate)},
			norm2:     l.norm(i, "output.LayerNorm", h),
		})
	}
	if l.err != nil {
		return nil, l.err
	}
	for p := range cfg.Positions {
		add(m.places[p*h:][:h], segment)
	}
	if len(segment) >= 2*h {
		m.second = segment[h : 2*h]
		for i := range m.second {
			m.second[i] -= segment[i]
		}
	}
	for token, id := range tok.Tokens() {
		if id >= len(m.tokens)/h {
			return nil, fmt.Errorf("token %q has number %d, the table ends at %d", token, id, len(m.tokens)/h)
		}
	}
	for _, id := range tok.Encode("") {
		if id >= len(m.tokens)/h {
			return nil, fmt.Errorf("a special token has number %d, the table ends at %d", id, len(m.tokens)/h)
		}
	}
	return m, nil
}
