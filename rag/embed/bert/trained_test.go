package bert_test

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/vecbolt/vecbolt/internal/weights"
	"github.com/vecbolt/vecbolt/rag/embed/bert"
)

var (
	reference = flag.String("reference", "", "Python with the packages of testdata/reference.py: compare with it on all texts")
	longer    = flag.Int("longer", 1, "with -reference: of texts of more than 1,000 characters, take every one of so many")
	update    = flag.Bool("update", false, "with -reference: write the golden files")
)

// trainedModels are the models of tools/models/fetch.py, with the SHA-256 of their weights.
var trainedModels = []struct{ name, weights, sum string }{
	{"all-MiniLM-L6-v2", "model.safetensors", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"},
	{"bge-small-en-v1.5", "model.onnx", "828e1496d7fabb79cfa4dcd84fa38625c0d3d21da474a00f08db0f559940cf35"},
}

// trained returns the directory of a model, or skips the test.
func trained(t *testing.T, name, weights, sum string) string {
	t.Helper()
	folder := os.Getenv("VECBOLT_TEST_MODELS")
	if folder == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			t.Skipf("skipped: %v", err)
		}
		folder = filepath.Join(base, "vecbolt-models")
	}
	dir := filepath.Join(folder, name)
	f, err := os.Open(filepath.Join(dir, weights))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("skipped: no %s in %s; tools/models/fetch.py fetches it", weights, dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != sum {
		t.Fatalf("%s: SHA-256 is %s, want %s", f.Name(), got, sum)
	}
	return dir
}

// scripts are texts that are rare in English collections.
var scripts = []string{
	"", " ", "\n\t ", "a", "word", "I", "?", "...", "42", "3.14159265358979", "1,234,567.89 €",
	"The quick brown fox jumps over the lazy dog.", "UPPER lower MiXeD", "don't can't won't it's", "naïve café résumé Ångström",
	"Grüße aus Ulm! Äpfel, Öl und Übermut; Straße und STRASSE", "À l'été, l'élève fêta Noël à Besançon.", "¿Dónde está el baño? ¡Mañana!",
	"Zażółć gęślą jaźń", "Příliš žluťoučký kůň úpěl ďábelské ódy", "Árvíztűrő tükörfúrógép", "Pijamalı hasta yağız şoföre çabucak güvendi. İstanbul ırmak",
	"Широкая электрификация южных губерний", "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία", "בְּרֵאשִׁית בָּרָא אֱלֹהִים", "نص حكيم له سر قاطع وذو شأن عظيم", "قِفَا نَبْكِ",
	"ऋषियों को सताने वाले दुष्ट राक्षसों", "நான் தமிழ் பேசுகிறேன்", "กินข้าวหรือยัง", "ကြက်ဥ", "ខ្ញុំស្រឡាញ់", "한국어 문장입니다. 안녕하세요!",
	"日本語の文章です。カタカナとひらがな、漢字。ﾊﾝｶｸ", "我能吞下玻璃而不伤身体。", "中文 mixed with English 和 numbers 123", "𠀀𠀁 𪚥 㐀 豈", "ქართული ენა", "Հայերեն", "ᚠᛇᚻ ᛒᛦᚦ", "🜁🜂 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚𝟛",
	"😀 😃 👍🏽 👨‍👩‍👧‍👦 🇩🇪 ❤️ ☃ ✈️", "I ❤️ Go 🐹!!!", "zero\u200bwidth\u200djoin\ufeffbom\u00adsoft", "nul\x00bell\x07esc\x1b[31m\x7f\u0085\u009f", "tab\tnew\nline\rreturn\vvt\ffeed\u2028ls\u2029ps\u00a0nbsp\u3000wide",
	"\ufffd replacement", "e\u0301 versus é; A\u030a versus Å; ﬁ ligature ﬀ", "Ｆｕｌｌｗｉｄｔｈ ｔｅｘｔ １２３", "\U0010ffff\U000e0001 \ue000 private", "-- --- – — … ‚‘’‛ „“”‟ «» ‹› † ‡ • ‰ ′ ″ ⁂",
	"[CLS] in the text [SEP] and [MASK] [PAD] [UNK] [unused1]", "[cls] [Mask]", "##ing ##ed #hashtag @mention", "a.b.c.d:8080/path?query=1&b=2#frag", "user@example.com, https://example.com/a/b_c-d.html",
	"C:\\Windows\\System32 /usr/local/bin ~/.config", "x = y**2 + 3*z; // comment", "for (int i = 0; i < n; ++i) { a[i] += b[i] >> 2; }", "func (m *Model) Embed(text string) []float32 {\n\treturn nil\n}",
	"SELECT id, name FROM users WHERE age >= 18 AND name LIKE '%son' ORDER BY 2 DESC;", "<html><body class=\"x\">&amp; &lt;tag&gt;</body></html>", "{\"key\": [1, 2.5e-3, null, true], \"n\\u00fcll\": \"\\n\"}",
	"0xDEADBEEF 1e-10 0b1010 1_000_000", "\\frac{a}{b} \\sum_{i=0}^{n} x_i^2", "∀x∈ℝ: ∃y ≥ x² ∧ ¬(a ⊕ b) ≠ ∅ ∑∏∫√∞ ±×÷", "Antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis",
	strings.Repeat("x", 99), strings.Repeat("y", 100), strings.Repeat("z", 101), strings.Repeat("ab", 5000), strings.Repeat("é", 100), strings.Repeat("🙂", 300), strings.Repeat("!", 600),
	strings.Repeat("word ", 126), strings.Repeat("word ", 253), strings.Repeat("word ", 254), strings.Repeat("word ", 255), strings.Repeat("word ", 256), strings.Repeat("word ", 509), strings.Repeat("word ", 510), strings.Repeat("word ", 511),
	strings.Repeat("word ", 10000), strings.Repeat("The log is written before memory. ", 1700), strings.Repeat("日本", 400), "what are “durable writes”", "how does HNSW choose the entry point?",
}

// paragraphs returns pieces of the project's documents and sources.
func paragraphs(t *testing.T, pattern string, most int) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatal(err, pattern)
	}
	var texts []string
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range strings.Split(string(b), "\n\n") {
			if p = strings.TrimSpace(p); len(p) > 40 && i%3 == 0 {
				texts = append(texts, p)
			}
		}
	}
	for len(texts) > most {
		texts = append(texts[:len(texts)/3], texts[len(texts)/3+1:]...)
	}
	return texts
}

// collected returns thousands of texts, where the collections are there.
func collected(t *testing.T) []string {
	texts := append([]string(nil), scripts...)
	for _, pattern := range []string{"../../../docs/*.md", "../../../docs/*/*.md", "../../../db/*.go", "../../../rag/*/*.go"} {
		texts = append(texts, paragraphs(t, pattern, 150)...)
	}
	for name, every := range map[string]int{"cranfield/corpus.jsonl": 3, "cranfield/queries.jsonl": 1, "bgemicro_ml_384/rows.jsonl": 70, "emb-cache-ada002/texts.jsonl": 1} {
		f, err := os.Open(filepath.Join("../../../../shared/data", filepath.FromSlash(name)))
		if err != nil {
			t.Log("left out:", err)
			continue
		}
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<24)
		for i := 0; lines.Scan(); i++ {
			var row struct{ Text string }
			if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
				t.Fatal(name, err)
			}
			if i%every == 0 {
				texts = append(texts, row.Text)
			}
		}
		f.Close()
	}
	rng := rand.New(rand.NewPCG(7, 7))
	for range 200 {
		var b strings.Builder
		for range rng.IntN(60) {
			from := []rune{' ', 0x20, 0x20, 0xa0, 0x250, 0x370, 0x590, 0x900, 0x1e00, 0x2000, 0x3040, 0x4e00, 0xac00, 0x1f300}[rng.IntN(14)]
			b.WriteRune(from + rune(rng.IntN(96)))
		}
		texts = append(texts, b.String())
	}
	return texts
}

// An embedding is what the reference returned for a text.
type embedding struct {
	IDs    []int  `json:"ids"`
	Vector string `json:"vector"` // float32 in base64
}

func (e embedding) floats(t *testing.T) []float64 {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(e.Vector)
	if err != nil {
		t.Fatal(err)
	}
	v := make([]float64, len(b)/4)
	for i := range v {
		v[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
	}
	return v
}

// askReference embeds texts with testdata/reference.py.
func askReference(t *testing.T, dir string, texts []string) (madeWith string, all []embedding) {
	t.Helper()
	var in, out bytes.Buffer
	for _, text := range texts {
		if err := json.NewEncoder(&in).Encode(text); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command(*reference, "testdata/reference.py", dir)
	c.Stdin, c.Stdout, c.Stderr = &in, &out, os.Stderr
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(&out)
	var head struct {
		MadeWith string `json:"made_with"`
	}
	err := d.Decode(&head)
	for err == nil {
		var e embedding
		if err = d.Decode(&e); err == nil {
			all = append(all, e)
		}
	}
	if err != io.EOF || len(all) != len(texts) {
		t.Fatalf("%d of %d texts: %v", len(all), len(texts), err)
	}
	return head.MadeWith, all
}

// A closeness is how far embeddings are from those of the reference.
type closeness struct {
	texts         int
	cosine, worst float64 // the least cosine, the largest difference of a component
}

func (c *closeness) check(t *testing.T, text string, got []float32, want []float64) {
	t.Helper()
	worst := 0.0
	for i := range want {
		worst = max(worst, math.Abs(float64(got[i])-want[i]))
	}
	cos := cosine(got, want)
	if len(got) != len(want) || !(cos >= 0.99999) || !(worst <= 1e-4) {
		t.Errorf("%.60q: cosine %.8f, off by %.2g", text, cos, worst)
	}
	if c.texts++; c.texts == 1 || cos < c.cosine {
		c.cosine = cos
	}
	c.worst = max(c.worst, worst)
}

// withSafetensors returns a directory with the model, whose weights are a safetensors file:
// Sentence Transformers does not read the weights of ONNX files.
func withSafetensors(t *testing.T, dir, weightFile string) string {
	t.Helper()
	if weightFile == "model.safetensors" {
		return dir
	}
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	m := readTrained(t, dir, weightFile)
	for name, b := range map[string][]byte{"model.safetensors": m.safetensors(t, same), "vocab.txt": []byte(strings.Join(m.vocab, "\n") + "\n")} {
		if err := os.WriteFile(filepath.Join(to, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(to, filepath.FromSlash(weightFile))); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestReference compares every token and every embedding of thousands of texts with the
// reference. It runs with -reference.
func TestReference(t *testing.T) {
	if *reference == "" {
		t.Skip("skipped: the flag -reference names a Python with the packages of testdata/reference.py")
	}
	long := 0
	texts := slices.DeleteFunc(collected(t), func(text string) bool {
		if utf8.RuneCountInString(text) <= 1000 {
			return false
		}
		long++
		return (long-1)%*longer > 0
	})
	for _, tt := range trainedModels {
		t.Run(tt.name, func(t *testing.T) {
			dir := trained(t, tt.name, tt.weights, tt.sum)
			m := open(t, dir)
			madeWith, all := askReference(t, withSafetensors(t, dir, tt.weights), texts)
			vectors, err := m.EmbedBatch(t.Context(), texts, 0)
			if err != nil {
				t.Fatal(err)
			}
			var c closeness
			for i, e := range all {
				ids := m.Tokenizer().EncodeMax(texts[i], m.Config().MaxTokens)
				if fmt.Sprint(ids) != fmt.Sprint(e.IDs) {
					t.Errorf("%.60q: tokens %v, want %v", texts[i], ids, e.IDs)
				}
				c.check(t, texts[i], vectors[i], e.floats(t))
			}
			t.Logf("%d texts, least cosine %.9f, largest difference of a component %.2g; %s", c.texts, c.cosine, c.worst, madeWith)
		})
	}
}

// A goldenText is a line of a golden file. Vector has int16, in units of Scale/32767: half a unit
// is a twentieth of the tolerance at most.
type goldenText struct {
	Text   string  `json:"text"`
	IDs    string  `json:"ids"` // beginning of the SHA-256
	Scale  float64 `json:"scale"`
	Vector string  `json:"vector"`
}

func hashIDs(ids []int) string {
	sum := sha256.Sum256([]byte(fmt.Sprint(ids)))
	return hex.EncodeToString(sum[:8])
}

func (g goldenText) floats(t *testing.T) []float64 {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(g.Vector)
	if err != nil {
		t.Fatal(err)
	}
	v := make([]float64, len(b)/2)
	for i := range v {
		v[i] = float64(int16(binary.LittleEndian.Uint16(b[2*i:]))) / 32767 * g.Scale
	}
	return v
}

func writeGolden(t *testing.T, name, dir string, texts []string) {
	t.Helper()
	madeWith, all := askReference(t, dir, texts)
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	e := json.NewEncoder(z)
	err = e.Encode(map[string]string{"made_with": madeWith})
	for i, text := range texts {
		v := all[i].floats(t)
		g := goldenText{Text: text, IDs: hashIDs(all[i].IDs)}
		for _, x := range v {
			g.Scale = max(g.Scale, math.Abs(x))
		}
		var b []byte
		for _, x := range v {
			b = binary.LittleEndian.AppendUint16(b, uint16(int16(math.Round(x/g.Scale*32767))))
		}
		g.Vector = base64.StdEncoding.EncodeToString(b)
		err = cmp.Or(err, e.Encode(g))
	}
	if err := cmp.Or(err, z.Close(), os.WriteFile(name, out.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// readGoldenTexts yields the lines of a golden file.
func readGoldenTexts(t *testing.T, name string) (all []goldenText) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(z)
	var head map[string]string
	if err := d.Decode(&head); err != nil {
		t.Fatal(err)
	}
	t.Log(head["made_with"])
	for {
		var g goldenText
		if err := d.Decode(&g); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, g)
	}
	if len(all) < 150 {
		t.Fatalf("%s has %d texts", name, len(all))
	}
	return all
}

// TestTrained compares trained models with the golden files, which the reference wrote.
func TestTrained(t *testing.T) {
	for _, tt := range trainedModels {
		t.Run(tt.name, func(t *testing.T) {
			dir := trained(t, tt.name, tt.weights, tt.sum)
			name := filepath.Join("testdata", tt.name+".golden.gz")
			if *update {
				writeGolden(t, name, dir, append(append(scripts[:len(scripts):len(scripts)],
					paragraphs(t, "../../../docs/*.md", 50)...), paragraphs(t, "../../../db/*.go", 25)...))
			}
			m := open(t, dir)
			var c closeness
			for _, g := range readGoldenTexts(t, name) {
				ids := m.Tokenizer().EncodeMax(g.Text, m.Config().MaxTokens)
				if hashIDs(ids) != g.IDs {
					t.Errorf("%.60q: tokens %v differ", g.Text, ids)
				}
				c.check(t, g.Text, m.Embed(g.Text), g.floats(t))
			}
			t.Logf("%d texts, least cosine %.9f, largest difference of a component %.2g", c.texts, c.cosine, c.worst)
		})
	}
}

// readTrained returns the tensors of a model with the settings that a GGUF file needs.
func readTrained(t *testing.T, dir, weightFile string) *made {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, weightFile))
	if err != nil {
		t.Fatal(err)
	}
	file, err := weights.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	model := open(t, dir)
	m := &made{cfg: model.Config(), tensors: map[string]tensor{}, vocab: make([]string, model.Tokenizer().Len())}
	for token, id := range model.Tokenizer().Tokens() {
		m.vocab[id] = token
	}
	for name, tt := range file.Tensors {
		if !strings.HasPrefix(name, "embeddings.") && !strings.HasPrefix(name, "encoder.") || strings.HasSuffix(name, "position_ids") {
			continue
		}
		v, err := tt.Float32()
		if err != nil {
			t.Fatal(err)
		}
		m.tensors[name] = tensor{tt.Shape, v}
	}
	return m
}

// TestTrainedGGUF writes trained models as GGUF files. In float32 they give the same vectors, with
// matrices of halves nearly the same.
func TestTrainedGGUF(t *testing.T) {
	for _, tt := range trainedModels {
		t.Run(tt.name, func(t *testing.T) {
			dir := trained(t, tt.name, tt.weights, tt.sum)
			m, model := readTrained(t, dir, tt.weights), open(t, dir)
			for _, half := range []bool{false, true} {
				name := filepath.Join(t.TempDir(), "model.gguf")
				b := m.gguf(func(values map[string]any) {
					values["general.file_type"] = uint32(0)
					if half {
						values["general.file_type"] = uint32(1)
					}
					values["bert.pooling_type"] = uint32(m.cfg.Pooling) + 1
				})
				if err := os.WriteFile(name, b, 0o600); err != nil {
					t.Fatal(err)
				}
				gguf, least, texts := open(t, name), 1.0, 0
				for _, text := range scripts {
					ids := gguf.Tokenizer().Encode(text)
					if len(ids) > 100 { // the file does not say where Sentence Transformers cuts off
						continue
					}
					if want := model.Tokenizer().Encode(text); !slices.Equal(ids, want) {
						t.Errorf("%q: tokens %v, want %v", text, ids, want)
					}
					got, want := gguf.Embed(text), model.Embed(text)
					if !half && !slices.Equal(got, want) {
						t.Errorf("%q: vectors differ", text)
					}
					wide := make([]float64, len(want))
					for i, x := range want {
						wide[i] = float64(x)
					}
					least = min(least, cosine(got, wide))
					texts++
				}
				if least < 0.99999 || texts < 40 {
					t.Errorf("halves %v: %d texts, least cosine %v", half, texts, least)
				}
				t.Logf("halves %v: %d texts, least cosine %.9f", half, texts, least)
			}
		})
	}
}

// TestReferenceCross compares scores of pairs with those of transformers. The model has the layers
// of all-MiniLM-L6-v2 and a head with random weights, because no package with a trained
// cross-encoder was found. It runs with -reference.
func TestReferenceCross(t *testing.T) {
	if *reference == "" {
		t.Skip("skipped: the flag -reference names a Python with the packages of testdata/reference.py")
	}
	tt := trainedModels[0]
	m := readTrained(t, trained(t, tt.name, tt.weights, tt.sum), tt.weights)
	rng := rand.New(rand.NewPCG(3, 4))
	for name, shape := range map[string][]int{"bert.pooler.dense.weight": {384, 384}, "bert.pooler.dense.bias": {384}, "classifier.weight": {1, 384}, "classifier.bias": {1}} {
		v := tensor{shape, make([]float32, shape[0])}
		if len(shape) == 2 {
			v.data = make([]float32, shape[0]*shape[1])
		}
		for i := range v.data {
			v.data[i] = float32(rng.NormFloat64() / 10)
		}
		m.tensors[name] = v
	}
	weights := m.safetensors(t, func(name string) string {
		if strings.HasPrefix(name, "embeddings.") || strings.HasPrefix(name, "encoder.") {
			return "bert." + name
		}
		return name
	})
	dir := m.dir(t, map[string]string{"model.safetensors": string(weights)})
	cross, err := bert.OpenCross(dir)
	if err != nil {
		t.Fatal(err)
	}
	var pairs [][2]string
	long := strings.Repeat("The log is written before memory. ", 200)
	for _, text := range scripts {
		if len(text) < 300 {
			pairs = append(pairs, [2]string{"when is the log written?", text})
		}
	}
	pairs = append(pairs, [2]string{long, long}, [2]string{long + long, long}, [2]string{long, long + long}, [2]string{long, "word"}, [2]string{"", ""})
	var in, out bytes.Buffer
	for _, pair := range pairs {
		if err := json.NewEncoder(&in).Encode(pair); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command(*reference, "testdata/cross.py", dir)
	c.Stdin, c.Stdout, c.Stderr = &in, &out, os.Stderr
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	d, worst := json.NewDecoder(&out), 0.0
	tok := open(t, dir).Tokenizer()
	for _, pair := range pairs {
		var want struct {
			IDs    []int
			Second int
			Score  float64
		}
		if err := d.Decode(&want); err != nil {
			t.Fatal(err)
		}
		ids, second := tok.EncodePair(pair[0], pair[1], 512)
		if !slices.Equal(ids, want.IDs) || second != want.Second {
			t.Errorf("%.40q: %d tokens, the second text from %d; want %d from %d", pair, len(ids), second, len(want.IDs), want.Second)
		}
		difference := math.Abs(cross.Score(pair[0], pair[1]) - want.Score)
		if !(difference <= 1e-4) {
			t.Errorf("%.40q: score is off by %g", pair, difference)
		}
		worst = max(worst, difference)
	}
	t.Logf("%d pairs, largest difference %.2g", len(pairs), worst)
}
