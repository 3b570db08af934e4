package bert_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/internal/tokenizer"
	"github.com/vecbolt/vecbolt/internal/weights"
	"github.com/vecbolt/vecbolt/rag/embed/bert"
)

// A tensor of a model that is made up.
type tensor struct {
	shape []int
	data  []float32
}

// A made model has random weights, under the names of Hugging Face.
type made struct {
	cfg     bert.Config
	vocab   []string
	tensors map[string]tensor
}

func newMade(layers, heads, hidden, intermediate, positions int, vocab []string) *made {
	m := &made{
		cfg: bert.Config{Layers: layers, Heads: heads, Hidden: hidden, Intermediate: intermediate, Positions: positions,
			Epsilon: 1e-12, Activation: "gelu", MaxTokens: positions},
		vocab: vocab, tensors: map[string]tensor{},
	}
	rng := rand.New(rand.NewPCG(1, 2))
	put := func(name string, around, spread float64, shape ...int) {
		n := 1
		for _, d := range shape {
			n *= d
		}
		t := tensor{shape, make([]float32, n)}
		for i := range t.data {
			t.data[i] = float32(around + spread*rng.NormFloat64())
		}
		m.tensors[name] = t
	}
	linear := func(name string, out, in int) {
		put(name+".weight", 0, 1/math.Sqrt(float64(in)), out, in)
		put(name+".bias", 0, 0.1, out)
	}
	norm := func(name string) {
		put(name+".weight", 1, 0.1, hidden)
		put(name+".bias", 0, 0.1, hidden)
	}
	put("embeddings.word_embeddings.weight", 0, 1, len(vocab), hidden)
	put("embeddings.position_embeddings.weight", 0, 0.5, positions, hidden)
	put("embeddings.token_type_embeddings.weight", 0, 0.5, 2, hidden)
	norm("embeddings.LayerNorm")
	for i := range layers {
		p := fmt.Sprintf("encoder.layer.%d.", i)
		linear(p+"attention.self.query", hidden, hidden)
		linear(p+"attention.self.key", hidden, hidden)
		linear(p+"attention.self.value", hidden, hidden)
		linear(p+"attention.output.dense", hidden, hidden)
		norm(p + "attention.output.LayerNorm")
		linear(p+"intermediate.dense", intermediate, hidden)
		linear(p+"output.dense", hidden, intermediate)
		norm(p + "output.LayerNorm")
	}
	return m
}

var words = strings.Fields("[PAD] [UNK] [CLS] [SEP] [MASK] the a tea cup of ##s ##cup un ##able , . green ü ß")

func small() *made { return newMade(2, 4, 48, 80, 24, words) }

// safetensors writes the tensors, each name changed by rename.
func (m *made) safetensors(t testing.TB, rename func(string) string) []byte {
	t.Helper()
	type info struct {
		Type    string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	header, data := map[string]any{"__metadata__": map[string]string{"format": "pt"}}, []byte(nil)
	for _, name := range slices.Sorted(maps.Keys(m.tensors)) {
		from := len(data)
		for _, x := range m.tensors[name].data {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
		}
		header[rename(name)] = info{"F32", m.tensors[name].shape, [2]int{from, len(data)}}
	}
	h, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(h))), h, data)
}

func same(name string) string { return name }

// dir writes a model directory.
func (m *made) dir(t testing.TB, files map[string]string) string {
	t.Helper()
	c := m.cfg
	config := fmt.Sprintf(`{"model_type":"bert","hidden_size":%d,"intermediate_size":%d,"num_hidden_layers":%d,"num_attention_heads":%d,
		"max_position_embeddings":%d,"layer_norm_eps":%g,"hidden_act":%q,"position_embedding_type":"absolute"}`,
		c.Hidden, c.Intermediate, c.Layers, c.Heads, c.Positions, c.Epsilon, c.Activation)
	all := map[string]string{"config.json": config, "vocab.txt": strings.Join(m.vocab, "\n") + "\n", "model.safetensors": string(m.safetensors(t, same))}
	maps.Copy(all, files)
	dir := t.TempDir()
	for name, content := range all {
		if content == "" {
			continue
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func open(t testing.TB, path string) *bert.Model {
	t.Helper()
	m, err := bert.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

type matrix [][]float64

// reference computes the vector of tokens in float64.
func (m *made) reference(ids []int) []float64 {
	c, n, x := m.cfg, len(ids), m.lastLayer(ids, len(ids))
	out := make([]float64, c.Hidden)
	switch c.Pooling {
	case bert.First:
		copy(out, x[0])
	case bert.Last:
		copy(out, x[n-1])
	default:
		for i := range x {
			for j := range out {
				out[j] += x[i][j] / float64(n)
			}
		}
	}
	if c.Normalize {
		length := 0.0
		for _, v := range out {
			length = math.Hypot(length, v)
		}
		for j := range out {
			out[j] /= length
		}
	}
	return out
}

// lastLayer computes the rows of tokens in float64, matrix by matrix, as the
// paper writes it down. From second on, they are of the second segment.
func (m *made) lastLayer(ids []int, second int) matrix {
	c := m.cfg
	n := len(ids)
	get := func(name string) tensor {
		t, ok := m.tensors[name]
		if !ok {
			panic(name)
		}
		return t
	}
	row := func(t tensor, i int) []float64 {
		w := t.shape[len(t.shape)-1]
		out := make([]float64, w)
		for j := range out {
			out[j] = float64(t.data[i*w+j])
		}
		return out
	}
	linear := func(x matrix, name string) matrix {
		w, b := get(name+".weight"), row(get(name+".bias"), 0)
		out := make(matrix, len(x))
		for i := range x {
			for o := range w.shape[0] {
				sum := b[o]
				for j, v := range row(w, o) {
					sum += v * x[i][j]
				}
				out[i] = append(out[i], sum)
			}
		}
		return out
	}
	norm := func(x matrix, name string) matrix {
		w, b := row(get(name+".weight"), 0), row(get(name+".bias"), 0)
		out := make(matrix, len(x))
		for i := range x {
			mean, variance := 0.0, 0.0
			for _, v := range x[i] {
				mean += v / float64(len(x[i]))
			}
			for _, v := range x[i] {
				variance += (v - mean) * (v - mean) / float64(len(x[i]))
			}
			for j, v := range x[i] {
				out[i] = append(out[i], (v-mean)/math.Sqrt(variance+c.Epsilon)*w[j]+b[j])
			}
		}
		return out
	}
	plus := func(a, b matrix) matrix {
		out := make(matrix, len(a))
		for i := range a {
			for j := range a[i] {
				out[i] = append(out[i], a[i][j]+b[i][j])
			}
		}
		return out
	}
	x := make(matrix, n)
	for i, id := range ids {
		word, place, segment := row(get("embeddings.word_embeddings.weight"), id), row(get("embeddings.position_embeddings.weight"), i), row(get("embeddings.token_type_embeddings.weight"), 0)
		if i >= second {
			segment = row(get("embeddings.token_type_embeddings.weight"), 1)
		}
		for j := range word {
			x[i] = append(x[i], word[j]+place[j]+segment[j])
		}
	}
	x = norm(x, "embeddings.LayerNorm")
	d := c.Hidden / c.Heads
	for l := range c.Layers {
		p := fmt.Sprintf("encoder.layer.%d.", l)
		q, k, v := linear(x, p+"attention.self.query"), linear(x, p+"attention.self.key"), linear(x, p+"attention.self.value")
		mixed := make(matrix, n)
		for i := range n {
			mixed[i] = make([]float64, c.Hidden)
			for head := range c.Heads {
				e, total := make([]float64, n), 0.0
				for j := range n {
					dot := 0.0
					for a := head * d; a < (head+1)*d; a++ {
						dot += q[i][a] * k[j][a]
					}
					e[j] = math.Exp(dot / math.Sqrt(float64(d)))
					total += e[j]
				}
				for j := range n {
					for a := head * d; a < (head+1)*d; a++ {
						mixed[i][a] += e[j] / total * v[j][a]
					}
				}
			}
		}
		x = norm(plus(x, linear(mixed, p+"attention.output.dense")), p+"attention.output.LayerNorm")
		y := linear(x, p+"intermediate.dense")
		for i := range y {
			for j, z := range y[i] {
				switch c.Activation {
				case "gelu":
					y[i][j] = z * 0.5 * math.Erfc(-z/math.Sqrt2)
				case "relu":
					y[i][j] = math.Max(z, 0)
				default:
					y[i][j] = z / (1 + math.Exp(-2*math.Sqrt(2/math.Pi)*(z+0.044715*math.Pow(z, 3))))
				}
			}
		}
		x = norm(plus(x, linear(y, p+"output.dense")), p+"output.LayerNorm")
	}
	return x
}

func cosine(a []float32, b []float64) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab += float64(a[i]) * b[i]
		aa += float64(a[i]) * float64(a[i])
		bb += b[i] * b[i]
	}
	return ab / math.Sqrt(aa*bb)
}

// compare fails unless got is want within what float32 may lose.
func compare(t *testing.T, name string, got []float32, want []float64, tolerance float64) {
	t.Helper()
	worst := 0.0
	for i := range want {
		worst = max(worst, math.Abs(float64(got[i])-want[i]))
	}
	if len(got) != len(want) || !(worst <= tolerance) {
		t.Errorf("%s: off by %g, cosine %.9f", name, worst, cosine(got, want))
	}
}

func modules(pooling string, normalize bool) map[string]string {
	list := `[{"idx":0,"path":"","type":"sentence_transformers.models.Transformer"},{"idx":1,"path":"1_Pooling","type":"sentence_transformers.models.Pooling"}`
	if normalize {
		list += `,{"idx":2,"path":"2_Normalize","type":"sentence_transformers.models.Normalize"}`
	}
	return map[string]string{"modules.json": list + "]", "1_Pooling/config.json": `{"word_embedding_dimension":48,"pooling_mode_cls_token":false,"pooling_mode_max_tokens":false,` +
		`"pooling_mode_mean_tokens":false,"` + pooling + `":true}`}
}

// The arithmetic of the paper.
func TestAgainstFloat64(t *testing.T) {
	texts := []string{"", "tea", "the green teacups, unable", "the cup of tea. a cup of green tea. a cup of teas"}
	for _, tt := range []struct {
		name       string
		activation string
		files      map[string]string
		pooling    bert.Pooling
		normalize  bool
	}{
		{"plain", "gelu", nil, bert.Mean, false},
		{"mean", "gelu", modules("pooling_mode_mean_tokens", true), bert.Mean, true},
		{"first", "gelu", modules("pooling_mode_cls_token", false), bert.First, false},
		{"last", "gelu", modules("pooling_mode_lasttoken", true), bert.Last, true},
		{"tanh", "gelu_new", nil, bert.Mean, false},
		{"relu", "relu", nil, bert.Mean, false},
	} {
		m := small()
		m.cfg.Activation, m.cfg.Pooling, m.cfg.Normalize = tt.activation, tt.pooling, tt.normalize
		model := open(t, m.dir(t, tt.files))
		for _, text := range texts {
			ids := model.Tokenizer().Encode(text)
			compare(t, tt.name+" "+text, model.Embed(text), m.reference(ids), 1e-5)
		}
		if model.Dim() != 48 || model.Config().Pooling != tt.pooling || model.Config().Normalize != tt.normalize {
			t.Errorf("%s: %+v", tt.name, model.Config())
		}
	}
}

// Shapes around the tiles of the matrix product.
func TestShapes(t *testing.T) {
	for _, shape := range [][4]int{{1, 1, 1, 1}, {1, 3, 9, 700}, {2, 2, 130, 31}, {3, 12, 384, 64}} {
		m := newMade(shape[0], shape[1], shape[2], shape[3], 70, words)
		model := open(t, m.dir(t, nil))
		text := strings.Repeat("tea ", 60)
		compare(t, fmt.Sprint(shape), model.Embed(text), m.reference(model.Tokenizer().Encode(text)), 2e-5)
	}
}

func TestLongTextsAreCut(t *testing.T) {
	m := small()
	text := strings.Repeat("green tea ", 50)
	model := open(t, m.dir(t, nil))
	ids := model.Tokenizer().Encode(text)
	compare(t, "24 tokens", model.Embed(text), m.reference(append(ids[:23:23], ids[len(ids)-1])), 1e-5)
	model = open(t, m.dir(t, map[string]string{"sentence_bert_config.json": `{"max_seq_length":8,"do_lower_case":false}`}))
	compare(t, "8 tokens", model.Embed(text), m.reference(append(ids[:7:7], ids[len(ids)-1])), 1e-5)
}

func TestNamesOfOldFiles(t *testing.T) {
	m := small()
	want := open(t, m.dir(t, nil)).Embed("a cup of tea")
	for name, rename := range map[string]func(string) string{
		"bert.": func(s string) string { return "bert." + s },
		"gamma": func(s string) string {
			return strings.ReplaceAll(strings.ReplaceAll(s, "LayerNorm.weight", "LayerNorm.gamma"), "LayerNorm.bias", "LayerNorm.beta")
		},
	} {
		got := open(t, m.dir(t, map[string]string{"model.safetensors": string(m.safetensors(t, rename))})).Embed("a cup of tea")
		if !cmp.Equal(got, want) {
			t.Errorf("%s: other vectors", name)
		}
	}
}

func TestTokenizerFiles(t *testing.T) {
	m := small()
	vocab := map[string]int{}
	for i, w := range words {
		vocab[w] = i
	}
	b, err := json.Marshal(vocab)
	if err != nil {
		t.Fatal(err)
	}
	file := `{"normalizer":{"type":"BertNormalizer"},"pre_tokenizer":{"type":"BertPreTokenizer"},"post_processor":{"type":"BertProcessing","sep":["[SEP]",3],"cls":["[CLS]",2]},
		"model":{"type":"WordPiece","unk_token":"[UNK]","vocab":` + string(b) + `}}`
	want := open(t, m.dir(t, nil)).Embed("Green TEACUPS")
	if got := open(t, m.dir(t, map[string]string{"tokenizer.json": file, "vocab.txt": ""})).Embed("Green TEACUPS"); !cmp.Equal(got, want) {
		t.Error("tokenizer.json gives other vectors than vocab.txt")
	}
	if got := open(t, m.dir(t, map[string]string{"tokenizer_config.json": `{"do_lower_case":false}`})).Embed("Green TEACUPS"); cmp.Equal(got, want) {
		t.Error("a cased model folds case")
	}
}

// toHalf rounds to half precision, to even.
func toHalf(x float32) uint16 {
	b := math.Float32bits(x)
	sign, b := uint16(b>>16)&0x8000, b&0x7fffffff
	if b < (127-14)<<23 {
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(b))*(1<<24)))
	}
	b += 0xfff + b>>13&1
	return sign | uint16((b-(127-15)<<23)>>13)
}

// gguf writes the model as llama.cpp does, with matrices in a type.
func (m *made) gguf(change func(values map[string]any)) []byte {
	le := binary.LittleEndian
	tokens := []any{}
	for _, w := range m.vocab {
		if rest, ok := strings.CutPrefix(w, "##"); ok {
			w = rest
		} else if !strings.HasPrefix(w, "[") || !strings.HasSuffix(w, "]") {
			w = "▁" + w
		}
		tokens = append(tokens, w)
	}
	c := m.cfg
	values := map[string]any{
		"general.architecture": "bert", "bert.block_count": uint32(c.Layers), "bert.context_length": uint32(c.Positions), "bert.embedding_length": uint32(c.Hidden),
		"bert.feed_forward_length": uint32(c.Intermediate), "bert.attention.head_count": uint32(c.Heads), "bert.attention.layer_norm_epsilon": float32(c.Epsilon),
		"bert.attention.causal": false, "bert.pooling_type": uint32(1), "tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": tokens,
	}
	if change != nil {
		change(values)
	}
	str := func(b []byte, s string) []byte { return append(le.AppendUint64(b, uint64(len(s))), s...) }
	b := le.AppendUint32([]byte("GGUF"), 3)
	b = le.AppendUint64(le.AppendUint64(b, uint64(len(m.tensors))), uint64(len(values)))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		b = str(b, key)
		switch v := values[key].(type) {
		case uint32:
			b = le.AppendUint32(le.AppendUint32(b, 4), v)
		case float32:
			b = le.AppendUint32(le.AppendUint32(b, 6), math.Float32bits(v))
		case bool:
			b = append(le.AppendUint32(b, 7), 0)
		case string:
			b = str(le.AppendUint32(b, 8), v)
		case []any:
			b = le.AppendUint64(le.AppendUint32(le.AppendUint32(b, 9), 8), uint64(len(v)))
			for _, s := range v {
				b = str(b, s.(string))
			}
		}
	}
	rename := strings.NewReplacer("embeddings.word_embeddings", "token_embd", "embeddings.position_embeddings", "position_embd", "embeddings.token_type_embeddings", "token_types",
		"embeddings.LayerNorm", "token_embd_norm", "encoder.layer.", "blk.", "attention.self.query", "attn_q", "attention.self.key", "attn_k", "attention.self.value", "attn_v",
		"attention.output.dense", "attn_output", "attention.output.LayerNorm", "attn_output_norm", "intermediate.dense", "ffn_up", "output.dense", "ffn_down", "output.LayerNorm", "layer_output_norm")
	half := values["general.file_type"] == uint32(1)
	var data []byte
	for _, name := range slices.Sorted(maps.Keys(m.tensors)) {
		t := m.tensors[name]
		b = le.AppendUint32(str(b, rename.Replace(name)), uint32(len(t.shape)))
		for _, d := range slices.Backward(t.shape) {
			b = le.AppendUint64(b, uint64(d))
		}
		kind := uint32(0)
		switch _, exact := values["general.file_type"]; {
		case half && len(t.shape) == 2:
			kind = 1
		case !exact && len(t.shape) == 2 && t.shape[1]%32 == 0:
			kind = 8
		}
		b = le.AppendUint64(le.AppendUint32(b, kind), uint64(len(data)))
		switch kind {
		case 0:
			for _, x := range t.data {
				data = le.AppendUint32(data, math.Float32bits(x))
			}
		case 1:
			for _, x := range t.data {
				data = le.AppendUint16(data, toHalf(x))
			}
		default:
			for block := range slices.Chunk(t.data, 32) {
				most := 0.0
				for _, x := range block {
					most = max(most, math.Abs(float64(x)))
				}
				// A scale that is a power of two is a half without loss.
				e := math.Ceil(math.Log2(most / 127))
				data = le.AppendUint16(data, uint16(e+15)<<10)
				for _, x := range block {
					data = append(data, byte(int8(math.Round(float64(x)/math.Exp2(e)))))
				}
			}
		}
		for len(data)%32 != 0 {
			data = append(data, 0)
		}
	}
	for len(b)%32 != 0 {
		b = append(b, 0)
	}
	return append(b, data...)
}

func TestGGUF(t *testing.T) {
	for _, hidden := range []int{48, 64} { // of 64, matrices have the type Q8_0
		m := newMade(2, 4, hidden, 2*hidden-hidden%32, 24, words)
		m.cfg.Normalize = true
		tolerance, least := 1e-5, 0.999999
		if hidden == 64 {
			tolerance, least = 0.02, 0.999
		}
		name := filepath.Join(t.TempDir(), "model.gguf")
		if err := os.WriteFile(name, m.gguf(nil), 0o600); err != nil {
			t.Fatal(err)
		}
		model := open(t, name)
		for _, text := range []string{"", "the green teacups, unable", "Grün ü ß [MASK]"} {
			ids := model.Tokenizer().Encode(text)
			want := m.reference(ids)
			got := model.Embed(text)
			compare(t, text, got, want, tolerance)
			if c := cosine(got, want); c < least {
				t.Errorf("%d, %q: cosine %v", hidden, text, c)
			}
		}
		dir := open(t, m.dir(t, nil))
		if a, b := dir.Tokenizer().Encode("the unable teacups!"), model.Tokenizer().Encode("the unable teacups!"); !slices.Equal(a, b) {
			t.Errorf("%v and %v", a, b)
		}
	}
}

// onnx writes the tensors as PyTorch exports them: weights of linear maps have numbers for names
// and are transposed.
func (m *made) onnx() []byte {
	bytes := func(b []byte, number int, value []byte) []byte {
		return append(binary.AppendUvarint(binary.AppendUvarint(b, uint64(number)<<3|2), uint64(len(value))), value...)
	}
	number := func(b []byte, number, value int) []byte {
		return binary.AppendUvarint(binary.AppendUvarint(b, uint64(number)<<3), uint64(value))
	}
	node := func(op, a, b, out string) []byte {
		return bytes(bytes(bytes(bytes(nil, 1, []byte(a)), 1, []byte(b)), 2, []byte(out)), 4, []byte(op))
	}
	var graph []byte
	for i, name := range slices.Sorted(maps.Keys(m.tensors)) {
		t := m.tensors[name]
		at := func(k int) float32 { return t.data[k] }
		shape := t.shape
		if base, ok := strings.CutSuffix(name, ".weight"); ok && len(shape) == 2 && !strings.HasPrefix(name, "embeddings.") {
			shape = []int{t.shape[1], t.shape[0]}
			at = func(k int) float32 { return t.data[k%shape[1]*shape[0]+k/shape[1]] }
			name = fmt.Sprintf("onnx::MatMul_%d", i)
			graph = bytes(graph, 1, node("MatMul", "x", name, base+"/product"))
			graph = bytes(graph, 1, node("Add", base+".bias", base+"/product", base+"/sum"))
		}
		var b, data []byte
		for _, d := range shape {
			b = number(b, 1, d)
		}
		for k := range t.data {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(at(k)))
		}
		graph = bytes(graph, 5, bytes(bytes(number(b, 2, 1), 8, []byte(name)), 9, data))
	}
	return bytes(bytes(number(nil, 1, 8), 2, []byte("test")), 7, graph)
}

// A directory with model.onnx is the same model as one with model.safetensors.
func TestONNX(t *testing.T) {
	m := small()
	want := open(t, m.dir(t, nil)).Embed("the green teacups, unable")
	for _, name := range []string{"model.onnx", "onnx/model.onnx"} {
		got := open(t, m.dir(t, map[string]string{"model.safetensors": "", name: string(m.onnx())})).Embed("the green teacups, unable")
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// testdata/tiny.gguf was written by gguf, for tests elsewhere.
func TestTinyFile(t *testing.T) {
	m := newMade(1, 2, 4, 8, 8, words)
	m.cfg.Normalize = true
	model := open(t, "testdata/tiny.gguf")
	compare(t, "tiny", model.Embed("a cup of tea"), m.reference(model.Tokenizer().Encode("a cup of tea")), 1e-4)
}

func TestErrors(t *testing.T) {
	m := small()
	without := func(name string) string {
		return string(m.safetensors(t, func(s string) string {
			if s == name {
				return "x"
			}
			return s
		}))
	}
	config := func(from, to string) map[string]string {
		b, err := os.ReadFile(filepath.Join(m.dir(t, nil), "config.json"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(b), from) {
			t.Fatalf("%s is not in %s", from, b)
		}
		return map[string]string{"config.json": strings.Replace(string(b), from, to, 1)}
	}
	pooling := modules("pooling_mode_max_tokens", true)
	pooling["1_Pooling/config.json"] = strings.Replace(pooling["1_Pooling/config.json"], `"pooling_mode_max_tokens":false,`, "", 1)
	for want, files := range map[string]map[string]string{
		"there is no config.json":  {"config.json": ""},
		"config.json: unexpected":  {"config.json": "{"},
		`models of type "roberta"`: config(`"bert"`, `"roberta"`),
		`positions "relative"`:     config(`"absolute"`, `"relative"`),
		`activation "silu"`:        config(`"gelu"`, `"silu"`),
		`Hidden:0`:                 config(`"hidden_size":48`, `"hidden_size":0`),
		`Heads:5`:                  config(`"num_attention_heads":4`, `"num_attention_heads":5`),
		`Layers:-1`:                config(`"num_hidden_layers":2`, `"num_hidden_layers":-1`),
		`Epsilon:7`:                config(`"layer_norm_eps":1e-12`, `"layer_norm_eps":7`),
		`tensor "encoder.layer.2.attention.self.query.weight"`: config(`"num_hidden_layers":2`, `"num_hidden_layers":999999`),
		`has shape [24 48], want [25 48]`:                      config(`"max_position_embeddings":24`, `"max_position_embeddings":25`),
		`has shape [19 48], want [0 96]`:                       config(`"hidden_size":48`, `"hidden_size":96`),
		"vocab.txt":                                            {"vocab.txt": ""},
		"vocab.txt: tokenizer":                                 {"vocab.txt": "a\nb\n"},
		"tokenizer.json: ":                                     {"tokenizer.json": "{"},
		"tokenizer_config.json: ":                              {"tokenizer_config.json": "{"},
		`"zz" has number 19, the table ends at 19`:             {"vocab.txt": strings.Join(words, "\n") + "\nzz\n"},
		"model.safetensors":                                    {"model.safetensors": ""},
		"model.safetensors: malformed":                         {"model.safetensors": "xxxxxxxxx"},
		`"embeddings.LayerNorm.bias" is missing`:               {"model.safetensors": without("embeddings.LayerNorm.bias")},
		`"encoder.layer.1.output.dense.weight" is missing`:     {"model.safetensors": without("encoder.layer.1.output.dense.weight")},
		"want one of the poolings":                             pooling,
		"modules.json: module":                                 {"modules.json": `[{"type":"sentence_transformers.models.Dense"}]`},
		"leads out of the model":                               {"modules.json": `[{"type":"sentence_transformers.models.Pooling","path":"../x"}]`},
		"modules.json: json":                                   {"modules.json": `{}`},
		"sentence_bert_config.json: ":                          {"sentence_bert_config.json": `[]`},
		"special tokens around a text, want 1 to 1":            config(`"max_position_embeddings":24`, `"max_position_embeddings":1`),
	} {
		if _, err := bert.Open(m.dir(t, files)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := bert.Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// Numbers that cannot be read are an error of Open, though the weights are read later.
func TestUnreadableNumbers(t *testing.T) {
	m := small()
	name := "encoder.layer.1.output.dense.weight"
	b := bytes.Replace(m.safetensors(t, same), []byte(name+`":{"dtype":"F32"`), []byte(name+`":{"dtype":"I32"`), 1)
	_, err := bert.Open(m.dir(t, map[string]string{"model.safetensors": string(b)}))
	if err == nil || !strings.Contains(err.Error(), `"`+name+`" has numbers of the type I32`) {
		t.Error(err)
	}
}

// The first text reads the weights. If the file has become shorter, that is an error, of each text.
func TestFileBecomesShorter(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a mapped file cannot be made shorter")
	}
	m := newMade(2, 2, 64, 256, 24, words)
	dir := m.dir(t, nil)
	unread, codes := open(t, dir), open(t, dir)
	if err := os.Truncate(filepath.Join(dir, "model.safetensors"), 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := unread.EmbedBatch(t.Context(), []string{"tea"}, 2); err == nil || !strings.Contains(err.Error(), "could not be read") {
			t.Errorf("unread: %v", err)
		}
		if err := codes.Quantize(); err == nil || !strings.Contains(err.Error(), "could not be read") {
			t.Errorf("codes: %v", err)
		}
	}
}

func TestGGUFErrors(t *testing.T) {
	m := small()
	for want, change := range map[string]func(map[string]any){
		"architecture llama":   func(v map[string]any) { v["general.architecture"] = "llama" },
		"architecture <nil>":   func(v map[string]any) { delete(v, "general.architecture") },
		"pooling type 4":       func(v map[string]any) { v["bert.pooling_type"] = uint32(4) },
		"tokenizer gpt2":       func(v map[string]any) { v["tokenizer.ggml.model"] = "gpt2" },
		"[UNK] is not":         func(v map[string]any) { delete(v, "tokenizer.ggml.tokens") },
		"Heads:0":              func(v map[string]any) { delete(v, "bert.attention.head_count") },
		"Hidden:0":             func(v map[string]any) { v["bert.embedding_length"] = "48" },
		"want [4294967295 48]": func(v map[string]any) { v["bert.context_length"] = uint32(math.MaxUint32) },
		`blk`:                  func(v map[string]any) { v["bert.block_count"] = uint32(3) },
		"has number 19, the table": func(v map[string]any) {
			v["tokenizer.ggml.tokens"] = append(v["tokenizer.ggml.tokens"].([]any), "▁zz")
		},
	} {
		file, err := weights.Parse(m.gguf(change))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bert.NewGGUF(file); err == nil {
			t.Errorf("accepted, want %q", want)
		} else {
			t.Logf("%v", err)
		}
	}
}

func TestConcurrently(t *testing.T) {
	m := small()
	model := open(t, m.dir(t, nil))
	texts := []string{"tea", "the green teacups, unable", ""}
	var want [][]float32
	for _, text := range texts {
		want = append(want, model.Embed(text))
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				for i, text := range texts {
					if got := model.Embed(text); !slices.Equal(got, want[i]) {
						t.Errorf("%q: another vector", text)
					}
				}
			}
		})
	}
	wg.Wait()
}

func TestCrossEncoder(t *testing.T) {
	m := small()
	rng := rand.New(rand.NewPCG(3, 4))
	for name, shape := range map[string][]int{"pooler.dense.weight": {48, 48}, "pooler.dense.bias": {48}, "classifier.weight": {1, 48}, "classifier.bias": {1}} {
		n := 1
		for _, d := range shape {
			n *= d
		}
		data := make([]float32, n)
		for i := range data {
			data[i] = float32(rng.NormFloat64() / 5)
		}
		m.tensors[name] = tensor{shape, data}
	}
	c, err := bert.OpenCross(m.dir(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	tok := open(t, m.dir(t, nil)).Tokenizer()
	for _, pair := range [][2]string{{"green tea", "a cup of green tea."}, {"", ""}, {"tea", strings.Repeat("the unable cup ", 30)}} {
		ids, second := tok.EncodePair(pair[0], pair[1], 24)
		first := m.lastLayer(ids, second)[0]
		want := float64(m.tensors["classifier.bias"].data[0])
		for o := range 48 {
			sum := float64(m.tensors["pooler.dense.bias"].data[o])
			for j, v := range first {
				sum += v * float64(m.tensors["pooler.dense.weight"].data[48*o+j])
			}
			want += math.Tanh(sum) * float64(m.tensors["classifier.weight"].data[o])
		}
		if got := c.Score(pair[0], pair[1]); math.Abs(got-want) > 1e-5 {
			t.Errorf("%q: %v, want %v", pair, got, want)
		}
	}
	float := c.Score("green tea", "a cup of green tea.")
	if err := c.Quantize(); err != nil {
		t.Fatal(err)
	}
	if got := c.Score("green tea", "a cup of green tea."); got == float || math.Abs(got-float) > 0.05 {
		t.Errorf("with weights of one byte: %v, want about %v", got, float)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	delete(m.tensors, "classifier.bias")
	if _, err := bert.OpenCross(m.dir(t, nil)); err == nil || !strings.Contains(err.Error(), "classifier.bias") {
		t.Error(err)
	}
	if _, err := bert.OpenCross(t.TempDir()); err == nil {
		t.Error("an empty directory")
	}
	types := m.tensors["embeddings.token_type_embeddings.weight"]
	m.tensors["embeddings.token_type_embeddings.weight"] = tensor{[]int{1, 48}, types.data[:48]}
	if _, err := bert.OpenCross(m.dir(t, nil)); err == nil || !strings.Contains(err.Error(), "segment") {
		t.Error(err)
	}
}

// BenchmarkMiniLM runs texts through a model of the shape of all-MiniLM-L6-v2 with random weights:
// a question of 15 tokens, and 32 passages of 64 to 192. The metrics are of the fastest run, which
// can be compared on a machine that does other things as well.
func BenchmarkMiniLM(b *testing.B) {
	vocab := slices.Clone(words)
	for i := len(vocab); i < 30522; i++ {
		vocab = append(vocab, fmt.Sprintf("word%d", i))
	}
	m := newMade(6, 12, 384, 1536, 512, vocab)
	tok, err := tokenizer.BERT(vocab, true)
	if err != nil {
		b.Fatal(err)
	}
	file, err := weights.Parse(m.safetensors(b, same))
	if err != nil {
		b.Fatal(err)
	}
	model, err := bert.New(file, tok, m.cfg)
	if err != nil {
		b.Fatal(err)
	}
	question := []string{strings.Repeat("tea ", 13)}
	var passages []string
	for i := range 32 {
		passages = append(passages, strings.Repeat("tea ", 62+i*128/31))
	}
	for _, texts := range [][]string{question, passages} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%dtexts/%dthreads", len(texts), threads), func(b *testing.B) {
				best := time.Hour
				for b.Loop() {
					start := time.Now()
					if _, err := model.EmbedBatch(b.Context(), texts, threads); err != nil {
						b.Fatal(err)
					}
					best = min(best, time.Since(start))
				}
				b.ReportMetric(best.Seconds()*1e3, "best-ms")
			})
		}
	}
}
