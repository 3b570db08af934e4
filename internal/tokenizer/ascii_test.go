package tokenizer_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/vecbolt/vecbolt/internal/tokenizer"
)

// general returns the tokenizer of BERT as tokenizer.json describes it, which runs as a pipeline.
func general(t testing.TB, vocab []string, lower bool) *tokenizer.Tokenizer {
	t.Helper()
	ids := map[string]int{}
	for i, token := range vocab {
		if _, twice := ids[token]; !twice {
			ids[token] = i
		}
	}
	var added []map[string]any
	for _, token := range []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"} {
		if id, ok := ids[token]; ok {
			added = append(added, map[string]any{"id": id, "content": token, "special": true})
		}
	}
	b, err := json.Marshal(map[string]any{
		"added_tokens":  added,
		"normalizer":    map[string]any{"type": "BertNormalizer", "lowercase": lower},
		"pre_tokenizer": map[string]any{"type": "BertPreTokenizer"},
		"post_processor": map[string]any{"type": "BertProcessing",
			"cls": []any{"[CLS]", ids["[CLS]"]}, "sep": []any{"[SEP]", ids["[SEP]"]}},
		"model": map[string]any{"type": "WordPiece", "unk_token": "[UNK]", "vocab": ids},
	})
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

var smallVocab = []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c", "ab", "##a", "##b", "##ab", "##cab", "A", "Ab", "##B", "1", "##1",
	"-", "[", "]", "ä", "##ä", "中", "é", "e", "##e", "#", "##", "ab", "c-"}

// The pass over ASCII gives the ids of the pipeline.
func TestASCII(t *testing.T) {
	for _, lower := range []bool{true, false} {
		fast, err := tokenizer.BERT(smallVocab, lower)
		if err != nil {
			t.Fatal(err)
		}
		slow := general(t, smallVocab, lower)
		equal := func(text string) bool {
			got, want := fast.Encode(text), slow.Encode(text)
			if !slices.Equal(got, want) {
				t.Errorf("lower %v: %q: %v, want %v", lower, text, got, want)
			}
			return slices.Equal(got, want)
		}
		for _, n := range []int{99, 100, 101, 250} {
			equal(strings.Repeat("a", n) + " b")
			equal(strings.Repeat("ä", n) + " b")
		}
		rapid.Check(t, func(r *rapid.T) {
			parts := rapid.SliceOf(rapid.SampledFrom([]string{"a", "b", "c", "ab", "A", "B", "Z", "1", "-", "[", "]", "[SEP]", "[CLS", "#", " ", "\t",
				"\n", "\v", "\x00", "\x7f", "\x80", "\xff", "ä", "é", "e\u0301", "\u0301", "中", "\u00a0", "\u2028", "\ufffd", "ß", "ſ", "K", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"})).Draw(r, "parts")
			if !equal(strings.Join(parts, "")) {
				r.Fail()
			}
		})
	}
}

func FuzzASCII(f *testing.F) {
	fast, err := tokenizer.BERT(smallVocab, true)
	if err != nil {
		f.Fatal(err)
	}
	slow := general(f, smallVocab, true)
	for _, text := range []string{"", "Ab-cab [SEP] ä", "a\u0301b\x00c", "#b ##"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, want := fast.EncodePlain(text), slow.EncodePlain(text); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	})
}

// Both tokenizers of a real vocabulary agree on real texts.
func TestASCIIVocabulary(t *testing.T) {
	vocab := tokenizer.ReadVocab(model(t, "tokenizer-all-MiniLM-L6-v2/vocab.txt"))
	fast, err := tokenizer.BERT(vocab, true)
	if err != nil {
		t.Fatal(err)
	}
	slow := general(t, vocab, true)
	texts := []string{wordPiece}
	for _, g := range readGolden(t, "minilm.jsonl") {
		texts = append(texts, g.Text)
	}
	for _, text := range texts {
		if got, want := fast.EncodePlain(text), slow.EncodePlain(text); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func BenchmarkBERT(b *testing.B) {
	text := strings.Repeat("An unaffordable Cab, built 1811; ", 40)
	for _, bb := range []struct {
		name string
		tok  func() *tokenizer.Tokenizer
	}{
		{"ascii", func() *tokenizer.Tokenizer {
			tok, err := tokenizer.BERT(smallVocab, true)
			if err != nil {
				b.Fatal(err)
			}
			return tok
		}},
		{"pipeline", func() *tokenizer.Tokenizer { return general(b, smallVocab, true) }},
	} {
		tok := bb.tok()
		b.Run(bb.name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				tok.EncodePlain(text)
			}
		})
	}
}
