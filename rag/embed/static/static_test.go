package static_test

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/rag/embed/static"
)

const fixtures = "../../../../shared/data/models/model2vec_fixtures/tests/fixtures"

func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	return ab / math.Sqrt(aa*bb)
}

// Real models give the vectors that Python's model2vec gave.
func TestModel2VecReferences(t *testing.T) {
	if _, err := os.Stat(fixtures); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("skipped: no models in %s", fixtures)
	}
	long := strings.TrimSpace(strings.Repeat("hello ", 1000))
	for _, tt := range []struct{ model, reference, text string }{
		{"test-model-float32", "embeddings_short.json", "hello world"},
		{"test-model-float32", "embeddings_long.json", long},
		{"test-model-float16", "embeddings_short.json", "hello world"},
		{"test-model-float16", "embeddings_long.json", long},
		{"test-model-int8", "embeddings_short.json", "hello world"},
		{"test-model-sentence-transformers", "embeddings_short.json", "hello world"},
		{"test-model-sentence-transformers", "embeddings_long.json", long},
		{"test-model-vocab-quantized", "embeddings_vocab_quantized.json", long},
	} {
		m, err := static.Open(filepath.Join(fixtures, tt.model))
		if err != nil {
			t.Error(err)
			continue
		}
		b, err := os.ReadFile(filepath.Join(fixtures, tt.reference))
		if err != nil {
			t.Fatal(err)
		}
		var want [][]float32
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatal(err)
		}
		got := m.Embed(tt.text)
		if len(got) != len(want[0]) || m.Dim() != len(got) {
			t.Fatalf("%s: %d components, want %d", tt.model, len(got), len(want[0]))
		}
		c := cosine(got, want[0])
		t.Logf("%s, %s: cosine %.9f", tt.model, tt.reference, c)
		if c < 0.9999 {
			t.Errorf("%s, %s: cosine %v", tt.model, tt.reference, c)
		}
		if n := cosine(got, got); math.Abs(n-1) > 1e-6 {
			t.Error(n)
		}
	}
}

// write makes a model directory.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
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

const tokens = `{"pre_tokenizer":{"type":"WhitespaceSplit"},"model":{"type":"WordLevel","unk_token":"?","vocab":{"?":0,"a":1,"b":2,"c":3}}}`

func safetensors(header string, numbers ...float32) string {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	b = append(b, header...)
	for _, x := range numbers {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return string(b)
}

// table has a as (1, 0), b as (0, 2) and c as (3, 4).
var table = safetensors(`{"embeddings":{"dtype":"F32","shape":[4,2],"data_offsets":[0,32]}}`, 9, 9, 1, 0, 0, 2, 3, 4)

func TestModel2Vec(t *testing.T) {
	raw := `{"normalize":false}`
	for _, tt := range []struct {
		name  string
		files map[string]string
		text  string
		want  []float32
	}{
		{"mean", map[string]string{"model.safetensors": table, "tokenizer.json": tokens, "config.json": raw}, "a b", []float32{0.5, 1}},
		{"unknown", map[string]string{"model.safetensors": table, "tokenizer.json": tokens, "config.json": raw}, "a x b y", []float32{0.5, 1}},
		{"none", map[string]string{"model.safetensors": table, "tokenizer.json": tokens, "config.json": raw}, "x", []float32{0, 0}},
		{"normal", map[string]string{"model.safetensors": table, "tokenizer.json": tokens}, "c c", []float32{0.6, 0.8}},
		{"normal, none", map[string]string{"model.safetensors": table, "tokenizer.json": tokens}, "", []float32{0, 0}},
		{"modules with", map[string]string{"model.safetensors": table, "tokenizer.json": tokens, "config.json": `{}`,
			"modules.json": `[{"type":"x.StaticEmbedding"},{"type":"sentence_transformers.models.Normalize"}]`}, "c", []float32{0.6, 0.8}},
		{"modules without", map[string]string{"model.safetensors": table, "tokenizer.json": tokens, "modules.json": `[{"type":"x.StaticEmbedding"}]`}, "c", []float32{3, 4}},
		{"sentence transformers", map[string]string{"0_StaticEmbedding/model.safetensors": safetensors(
			`{"embedding.weight":{"dtype":"F32","shape":[4,2],"data_offsets":[0,32]}}`, 9, 9, 1, 0, 0, 2, 3, 4),
			"0_StaticEmbedding/tokenizer.json": tokens, "modules.json": `[]`}, "c", []float32{3, 4}},
		{"weights and mapping", map[string]string{"tokenizer.json": tokens, "config.json": raw, "model.safetensors": safetensors(
			`{"embeddings":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"weights":{"dtype":"F32","shape":[4],"data_offsets":[16,32]},"mapping":{"dtype":"I32","shape":[4],"data_offsets":[32,48]}}`,
			1, 0, 0, 1, 1, 2, 4, 8, 0, 0, math.Float32frombits(1), math.Float32frombits(1))}, "a b c", []float32{2.0 / 3, 4}},
		{"as much as counts", map[string]string{"model.safetensors": table, "tokenizer.json": tokens, "config.json": raw},
			strings.Repeat("a ", 256) + strings.Repeat("b ", 1000), []float32{1, 0}},
	} {
		m, err := static.Open(write(t, tt.files))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got := m.Embed(tt.text); !cmp.Equal(got, tt.want) || m.Dim() != 2 {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestModel2VecErrors(t *testing.T) {
	for _, tt := range []struct {
		want  string
		files map[string]string
	}{
		{"no such file", nil},
		{"no such file", map[string]string{"model.safetensors": table}},
		{"tokenizer.json: ", map[string]string{"model.safetensors": table, "tokenizer.json": "{"}},
		{"model.safetensors: malformed", map[string]string{"model.safetensors": "x", "tokenizer.json": tokens}},
		{`config.json: `, map[string]string{"model.safetensors": table, "tokenizer.json": tokens, "config.json": "{"}},
		{`modules.json: `, map[string]string{"model.safetensors": table, "tokenizer.json": tokens, "modules.json": "{}"}},
		{`no matrix`, map[string]string{"model.safetensors": safetensors(`{}`), "tokenizer.json": tokens}},
		{`no matrix`, map[string]string{"model.safetensors": safetensors(`{"embeddings":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 1, 2), "tokenizer.json": tokens}},
		{`the table ends at 1`, map[string]string{"model.safetensors": safetensors(`{"embeddings":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}`, 1, 2), "tokenizer.json": tokens}},
		{`mapping: token 0 has row 1 of 1`, map[string]string{"tokenizer.json": tokens, "model.safetensors": safetensors(
			`{"embeddings":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"mapping":{"dtype":"I32","shape":[1],"data_offsets":[8,12]}}`, 1, 2, math.Float32frombits(1))}},
		{`mapping: `, map[string]string{"tokenizer.json": tokens, "model.safetensors": safetensors(
			`{"embeddings":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"mapping":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}`, 1, 2, 3)}},
		{`weights: `, map[string]string{"tokenizer.json": tokens, "model.safetensors": safetensors(
			`{"embeddings":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"weights":{"dtype":"I32","shape":[1],"data_offsets":[8,12]}}`, 1, 2, 3)}},
		{`embeddings: `, map[string]string{"tokenizer.json": tokens, "model.safetensors": safetensors(
			`{"embeddings":{"dtype":"I32","shape":[1,2],"data_offsets":[0,8]}}`, 1, 2)}},
	} {
		if _, err := static.Open(write(t, tt.files)); err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "The system cannot find the", "no such"), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
}

const glove = "the 1 0\nof 0 1\n. . . 0 5\nTea 3 4\nthe 7 7\n"

func TestWords(t *testing.T) {
	for _, header := range []string{"", "5 2\n", "\n"} {
		w, err := static.ReadWords(strings.NewReader(header+glove), &static.WordsOptions{Mean: true})
		if err != nil {
			t.Fatal(err)
		}
		if w.Len() != 4 || w.Dim() != 2 || !cmp.Equal(w.Vector(". . ."), []float32{0, 5}) || !cmp.Equal(w.Vector("the"), []float32{1, 0}) || w.Vector("x") != nil {
			t.Error(w.Len(), w.Dim(), w.Vector(". . ."))
		}
		for text, want := range map[string][]float32{
			"Tea!":       {0.6, 0.8},
			"THE":        {1, 0},
			"tea":        {0, 0}, // the file has it with a capital only
			"the, of":    {math.Sqrt2 / 2, math.Sqrt2 / 2},
			"the the of": {float32(2 / math.Sqrt(5)), float32(1 / math.Sqrt(5))},
			"":           {0, 0},
		} {
			if got := w.Embed(text); !cmp.Equal(got, want) {
				t.Errorf("%q: %v, want %v", text, got, want)
			}
		}
	}
}

// Frequent words count less, unless told otherwise.
func TestWordsByFrequency(t *testing.T) {
	w, err := static.ReadWords(strings.NewReader("the 1 0\nof 0 1\ntea 0 1\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if v := w.Embed("the tea"); v[0] <= 0 || v[1] < 2*v[0] {
		t.Error(v)
	}
	if w, err = static.ReadWords(strings.NewReader(glove), &static.WordsOptions{Most: 2}); err != nil || w.Len() != 2 || w.Vector("Tea") != nil {
		t.Error(w, err)
	}
}

func TestWordsErrors(t *testing.T) {
	for in, want := range map[string]string{
		"":                                    "no words",
		"3 2\n":                               "no words",
		"the\n":                               "line 1: 0 numbers",
		"the 1 0\nof 1\n":                     "line 2: 1 numbers are missing",
		"the 1 0\nof 1 x":                     `line 2: number 2 is "x"`,
		"the 1 NaN\n":                         `line 1: number 2 is "NaN"`,
		"the 1 Inf\n":                         `line 1: number 2 is "Inf"`,
		"the 1 1e99\n":                        `line 1: number 2`,
		"the 1 0\nof 1  0":                    `line 2: number 1 is ""`,
		"the" + strings.Repeat(" 1", 1<<16+1): "numbers after the word",
		"the 1 0\n" + strings.Repeat("x", 5<<20) + "\n": "line 2: bufio.Scanner: token too long",
	} {
		if _, err := static.ReadWords(strings.NewReader(in), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v", in, err)
		}
	}
	if _, err := static.ReadWords(io.MultiReader(strings.NewReader("the 1 0\n"), broken{}), nil); !errors.Is(err, errBroken) {
		t.Error(err)
	}
	if _, err := static.OpenWords(filepath.Join(t.TempDir(), "none"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errBroken }

// Real word vectors, written as GloVe writes them, come back bit by bit.
func TestGloVe(t *testing.T) {
	root := "../../../../shared/data/glove100k"
	vectors, err := os.Open(filepath.Join(root, "base.fvecs"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("skipped: no word vectors in %s", root)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer vectors.Close()
	words, err := os.ReadFile(filepath.Join(root, "base.txt"))
	if err != nil {
		t.Fatal(err)
	}
	const dim, n = 100, 5_000
	var text strings.Builder
	var rows [][]float32
	list := strings.Split(string(words), "\n")[:n]
	in := bufio.NewReader(vectors)
	row := make([]byte, 4+4*dim)
	for _, word := range list {
		if _, err := io.ReadFull(in, row); err != nil {
			t.Fatal(err)
		}
		text.WriteString(word)
		v := make([]float32, dim)
		for i := range v {
			v[i] = math.Float32frombits(binary.LittleEndian.Uint32(row[4+4*i:]))
			fmt.Fprintf(&text, " %v", v[i])
		}
		text.WriteByte('\n')
		rows = append(rows, v)
	}
	name := filepath.Join(t.TempDir(), "glove.txt")
	if err := os.WriteFile(name, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := static.OpenWords(name, nil)
	if err != nil || w.Len() != n || w.Dim() != dim {
		t.Fatal(err)
	}
	for i, word := range list {
		if !slices.Equal(w.Vector(word), rows[i]) {
			t.Fatalf("%q: %v", word, w.Vector(word))
		}
		if c := cosine(w.Vector(word), rows[i]); c < 0.9999 {
			t.Fatal(word, c)
		}
	}
	tea, coffee, engine := w.Embed("a cup of tea"), w.Embed("drinking coffee"), w.Embed("the engine of the car")
	if near, far := cosine(tea, coffee), cosine(tea, engine); near < far+0.1 {
		t.Errorf("near %.3f, far %.3f", near, far)
	}
}
