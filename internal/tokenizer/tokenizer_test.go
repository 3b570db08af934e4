package tokenizer_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/internal/tokenizer"
)

const models = "../../../../shared/data/models"

// model reads a file below the models that are not part of the project.
func model(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(models, filepath.FromSlash(name)))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("skipped: no %s in %s", name, models)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func parse(t *testing.T, b []byte) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

type golden struct {
	Text string
	IDs  []int
}

func readGolden(t *testing.T, name string) []golden {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []golden
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var g golden
		if err := json.Unmarshal(lines.Bytes(), &g); err != nil {
			t.Fatal(err)
		}
		all = append(all, g)
	}
	if len(all) < 20 {
		t.Fatalf("%s: %d lines", name, len(all))
	}
	return all
}

// The expected numbers were made by npm's @huggingface/tokenizers 0.2.0 from
// the same files.
func TestGolden(t *testing.T) {
	for golden, file := range map[string]string{
		"minilm.jsonl":  "tokenizer-all-MiniLM-L6-v2/tokenizer.json",
		"unigram.jsonl": "model2vec_fixtures/tests/fixtures/test-model-vocab-quantized/tokenizer.json",
	} {
		tok := parse(t, model(t, file))
		for _, g := range readGolden(t, golden) {
			if got := tok.Encode(g.Text); !slices.Equal(got, g.IDs) {
				t.Errorf("%s: %q\n got %v\nwant %v", golden, g.Text, got, g.IDs)
			}
		}
	}
}

// Every character of the planes in use is cleaned, folded, separated and split as the original
// does; testdata/characters.py made the hashes.
func TestCharacters(t *testing.T) {
	tok := parse(t, model(t, "tokenizer-all-MiniLM-L6-v2/tokenizer.json"))
	want, err := os.ReadFile("testdata/characters.txt")
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	for line := range strings.Lines(string(want)) {
		var begin rune
		var sum string
		if _, err := fmt.Sscanf(line, "%x %s", &begin, &sum); err != nil {
			t.Fatal(err)
		}
		blocks++
		h := sha256.New()
		for c := begin; c < begin+0x1000; c++ {
			if c >= 0xd800 && c < 0xe000 {
				continue
			}
			ids := fmt.Sprint(tok.Encode(fmt.Sprintf("ab%ccd %c e%c", c, c, c)))
			fmt.Fprintln(h, strings.Trim(ids, "[]"))
		}
		if got := hex.EncodeToString(h.Sum(nil)[:16]); got != sum {
			t.Errorf("characters from %U: tokens differ", begin)
		}
	}
	if blocks != 65 {
		t.Errorf("%d blocks, want 65", blocks)
	}
}

// vocab.txt and tokenizer.json of a model are the same tokenizer.
func TestVocabulary(t *testing.T) {
	vocab := tokenizer.ReadVocab(model(t, "tokenizer-all-MiniLM-L6-v2/vocab.txt"))
	tok, err := tokenizer.BERT(vocab, true)
	if err != nil {
		t.Fatal(err)
	}
	if tok.Len() != 30522 {
		t.Error(tok.Len())
	}
	for _, g := range readGolden(t, "minilm.jsonl") {
		if got := tok.Encode(g.Text); !slices.Equal(got, g.IDs) {
			t.Errorf("%q: %v, want %v", g.Text, got, g.IDs)
		}
	}
}

const wordPiece = `{"added_tokens":[{"id":0,"content":"[UNK]"},{"id":1,"content":"[CLS]"},{"id":2,"content":"[SEP]"},{"id":9,"content":"<new>"}],
	"normalizer":{"type":"BertNormalizer"},"pre_tokenizer":{"type":"BertPreTokenizer"},
	"post_processor":{"type":"BertProcessing","sep":["[SEP]",2],"cls":["[CLS]",1]},
	"model":{"type":"WordPiece","unk_token":"[UNK]","vocab":{"[UNK]":0,"[CLS]":1,"[SEP]":2,"un":3,"##aff":4,"##able":5,"a":6,"##a":7,",":8}}}`

func TestWordPiece(t *testing.T) {
	tok := parse(t, []byte(wordPiece))
	for text, want := range map[string][]int{
		"":                            {},
		"unaffable":                   {3, 4, 5},
		"UNAFFABLE,a":                 {3, 4, 5, 8, 6},
		"unaffablex a":                {0, 6}, // all of the word or nothing
		"a[SEP]un":                    {6, 2, 3},
		"<new><new>a<new":             {9, 9, 6, 0, 0},
		strings.Repeat("a", 100):      append([]int{6}, slices.Repeat([]int{7}, 99)...),
		strings.Repeat("a", 101):      {0},
		"a\xffa un":                   {6, 7, 3},
		strings.Repeat("[SEP]", 9999): slices.Repeat([]int{2}, 9999),
	} {
		if got := tok.EncodePlain(text); !slices.Equal(got, want) {
			t.Errorf("%.40q: %v, want %v", text, got, want)
		}
		if got := tok.Encode(text); !slices.Equal(got, slices.Concat([]int{1}, want, []int{2})) {
			t.Errorf("%.40q: %v", text, got)
		}
		if tok.Count(text) != len(want) {
			t.Errorf("%.40q: %d tokens", text, tok.Count(text))
		}
	}
	for most, want := range map[int][]int{5: {1, 3, 4, 5, 2}, 4: {1, 3, 4, 2}, 2: {1, 2}, 100: {1, 3, 4, 5, 2}} {
		if got := tok.EncodeMax("unaffable", most); !slices.Equal(got, want) {
			t.Errorf("at most %d: %v", most, got)
		}
	}
	for _, tt := range []struct {
		a, b   string
		most   int
		want   []int
		second int
	}{
		{"unaffable", "a,", 100, []int{1, 3, 4, 5, 2, 6, 8, 2}, 5},
		{"", "", 100, []int{1, 2, 2}, 2},
		{"unaffable", "a,", 7, []int{1, 3, 4, 2, 6, 8, 2}, 4},
		{"a", "unaffable", 6, []int{1, 6, 2, 3, 4, 2}, 3},
		{"unaffable", "unaffable", 7, []int{1, 3, 4, 2, 3, 4, 2}, 4},
		{"unaffable", "unaffable", 1, []int{1, 2, 2}, 2},
	} {
		got, second := tok.EncodePair(tt.a, tt.b, tt.most)
		if !slices.Equal(got, tt.want) || second != tt.second {
			t.Errorf("%q and %q: %v from %d, want %v from %d", tt.a, tt.b, got, second, tt.want, tt.second)
		}
	}
	id, ok := tok.ID("##aff")
	unknown, hasUnknown := tok.Unknown()
	if id != 4 || !ok || unknown != 0 || !hasUnknown || tok.Len() != 10 {
		t.Error(id, ok, unknown, hasUnknown, tok.Len())
	}
	n := 0
	for token, id := range tok.Tokens() {
		if got, ok := tok.ID(token); !ok || got != id {
			t.Error(token, id, got)
		}
		n++
	}
	if n != 10 {
		t.Error(n)
	}
}

// wordLevel replaces a part of a tokenizer that splits at spaces into words.
func wordLevel(part, value string) string {
	parts := map[string]string{"normalizer": "null", "pre_tokenizer": `{"type":"WhitespaceSplit"}`, "post_processor": "null"}
	if part != "" {
		parts[part] = value
	}
	return `{"normalizer":` + parts["normalizer"] + `,"pre_tokenizer":` + parts["pre_tokenizer"] + `,"post_processor":` + parts["post_processor"] + `,
		"model":{"type":"WordLevel","unk_token":"?","vocab":{"?":0,"a":1,"b":2,"é":3,"▁a":4,"▁b":5,"-":6,"a-b":7,"e":8,"A":9,"▁":10,"x":11,"ab":12}}}`
}

func TestComponents(t *testing.T) {
	for _, tt := range []struct {
		part, value, text string
		want              []int
	}{
		{"", "", "a  b\t\u2003a-b c", []int{1, 2, 7, 0}},
		{"normalizer", `{"type":"Lowercase"}`, "A B", []int{1, 2}},
		{"normalizer", `{"type":"NFC"}`, "e\u0301", []int{3}},
		{"normalizer", `{"type":"Sequence","normalizers":[{"type":"NFD"},{"type":"StripAccents"}]}`, "é", []int{8}},
		{"normalizer", `{"type":"StripAccents"}`, "a\u0903\u0301\u20dd", []int{1}},
		{"normalizer", `{"type":"NFKC"}`, "Ａ", []int{9}},
		{"normalizer", `{"type":"NFKD"}`, "ａ", []int{1}},
		{"normalizer", `{"type":"Prepend","prepend":"x "}`, "a", []int{11, 1}},
		{"normalizer", `{"type":"Replace","pattern":{"String":"-"},"content":" "}`, "a-b", []int{1, 2}},
		{"normalizer", `{"type":"Replace","pattern":{"Regex":"\\s+"},"content":"-"}`, "a\u2003 b", []int{7}},
		{"normalizer", `{"type":"BertNormalizer","lowercase":false}`, "É A", []int{0, 9}},
		{"normalizer", `{"type":"BertNormalizer","lowercase":true,"strip_accents":false}`, "É A", []int{3, 1}},
		{"pre_tokenizer", `{"type":"Whitespace"}`, "a-b  a", []int{1, 6, 2, 1}},
		{"pre_tokenizer", `{"type":"BertPreTokenizer"}`, "a-b", []int{1, 6, 2}},
		{"pre_tokenizer", `{"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},{"type":"Punctuation"}]}`, "a-b a", []int{1, 6, 2, 1}},
		{"pre_tokenizer", `{"type":"Metaspace"}`, "a b", []int{4, 5}},
		{"pre_tokenizer", `{"type":"Metaspace","prepend_scheme":"never"}`, "a b", []int{1, 5}},
		{"pre_tokenizer", `{"type":"Metaspace","add_prefix_space":false}`, "a b", []int{1, 5}},
		{"pre_tokenizer", `{"type":"Metaspace","prepend_scheme":"first"}`, "  a", []int{10, 4}},
		{"pre_tokenizer", `null`, "ab", []int{12}},
		{"post_processor", `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"s"}},{"Sequence":{"id":"A"}},{"SpecialToken":{"id":"e"}}],"special_tokens":{"s":{"ids":[20,21]},"e":{"ids":[22]}}}`, "a", []int{20, 21, 1, 22}},
		{"post_processor", `{"type":"Sequence","processors":[{"type":"ByteLevel"},{"type":"RobertaProcessing","sep":["e",8],"cls":["x",11]}]}`, "a", []int{11, 1, 8}},
	} {
		if got := parse(t, []byte(wordLevel(tt.part, tt.value))).Encode(tt.text); !slices.Equal(got, tt.want) {
			t.Errorf("%s of %q: %v, want %v", tt.value, tt.text, got, tt.want)
		}
	}
	strip := `{"normalizer":{"type":"Strip"},"model":{"type":"WordLevel","unk_token":"?","vocab":{"?":0,"a b":1}}}`
	if got := parse(t, []byte(strip)).EncodePlain(" a b\n"); !slices.Equal(got, []int{1}) {
		t.Error(got)
	}
}

func TestUnigram(t *testing.T) {
	tok := parse(t, []byte(`{"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["a",-1],["b",-1],["ab",-1.5],["abc",-9],["bc",-2]]}}`))
	for text, want := range map[string][]int{
		"":      {},
		"ab":    {3},
		"abc":   {1, 5},
		"aab":   {1, 3},
		"xyab":  {0, 3}, // unknowns in a row are one
		"xaé日b": {0, 1, 0, 2},
		"\xff":  {0},
	} {
		if got := tok.EncodePlain(text); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, file := range []string{
		``, `[]`, `{}`, `{"model":{"type":"BPE","vocab":{}}}`,
		`{"model":{"type":"WordPiece","vocab":{"a":0},"unk_token":"[UNK]"}}`,
		`{"model":{"type":"WordPiece","vocab":{"[UNK]":-1},"unk_token":"[UNK]"}}`,
		`{"model":{"type":"WordPiece","vocab":["[UNK]"],"unk_token":"[UNK]"}}`,
		`{"model":{"type":"Unigram","vocab":[["a",0]],"unk_id":1}}`,
		`{"model":{"type":"Unigram","vocab":[["a",0]]}}`,
		`{"model":{"type":"Unigram","vocab":[["a"]],"unk_id":0}}`,
		`{"model":{"type":"Unigram","vocab":[["a",0]],"unk_id":0,"byte_fallback":true}}`,
		wordLevel("normalizer", `{"type":"Precompiled"}`),
		wordLevel("normalizer", `{"type":"Sequence","normalizers":[{"type":"Nmt"}]}`),
		wordLevel("normalizer", `{"type":"Replace","pattern":{"Regex":"(?<=a)b"},"content":""}`),
		wordLevel("normalizer", `{"type":"Replace","pattern":{},"content":""}`),
		wordLevel("pre_tokenizer", `{"type":"ByteLevel"}`),
		wordLevel("pre_tokenizer", `{"type":"Punctuation","behavior":"Removed"}`),
		wordLevel("pre_tokenizer", `{"type":"Sequence","pretokenizers":[{"type":"Digits"}]}`),
		wordLevel("post_processor", `{"type":"Other"}`),
		wordLevel("post_processor", `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"s"}}]}`),
		wordLevel("post_processor", `{"type":"BertProcessing","sep":["e",-8],"cls":["x",11]}`),
		strings.Replace(wordPiece, `"id":9`, `"id":-9`, 1),
	} {
		if _, err := tokenizer.Parse([]byte(file)); !errors.Is(err, tokenizer.ErrFormat) {
			t.Errorf("%s: %v", file, err)
		}
	}
	if _, err := tokenizer.BERT([]string{"[UNK]", "[CLS]"}, true); !errors.Is(err, tokenizer.ErrFormat) {
		t.Error(err)
	}
}
