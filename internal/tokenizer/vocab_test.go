package tokenizer

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// The quick reader of vocabularies and encoding/json agree, or the quick one gives up.
func TestPlainVocab(t *testing.T) {
	for s, quick := range map[string]bool{
		`{}`:                              true,
		`{"a":0}`:                         true,
		" {\n \"a\" : 1 ,\t\"b\":2\r\n} ": true,
		`{"a":1,"a":2}`:                   true,
		`{"\"":1,"\\":2,"\\\"":3}`:        true,
		`{"\u00e9":1,"é":2,"\ud83d\ude00":3,"日本":4}`: true,
		`{"\ud800":1}`:               true,
		"{\"\xff\":1}":               true,
		`{"a":01}`:                   false,
		`{"a":0}x`:                   true,
		`{"a":1}`:                    true,
		"{\"\x01\":1}":               false,
		`{"a\x":1}`:                  false,
		`{"a":1,}`:                   false,
		`{,}`:                        false,
		`{"a":-1}`:                   false,
		`{"a":1.0}`:                  false,
		`{"a":1e2}`:                  false,
		`{"a":2147483647}`:           true,
		`{"a":2147483648}`:           false,
		`{"a":null}`:                 false,
		`{"a":"1"}`:                  false,
		`{"a":{"b":1}}`:              false,
		`[["a",1]]`:                  false,
		`null`:                       false,
		`"a"`:                        false,
		`1`:                          false,
		`{"a":99999999999999999999}`: false,
	} {
		checkVocab(t, s)
		if got, _ := plainVocab(s); got != nil != quick {
			t.Errorf("%s: read quickly: %v, want %v", s, got, quick)
		}
	}
}

func checkVocab(t interface{ Errorf(string, ...any) }, s string) {
	got, n := plainVocab(s)
	if got == nil {
		return
	}
	var want map[string]int
	if err := json.Unmarshal([]byte(s[:n]), &want); err != nil || !maps.Equal(got, want) {
		t.Errorf("%q: %v, want %v, %v", s, got, want, err)
	}
}

func TestPlainVocabRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.MapOf(rapid.OneOf(rapid.String(), rapid.StringMatching(`["\\/bu0-9#]{0,6}`)), rapid.IntRange(0, 1<<31-1)).Draw(t, "ids")
		var b []byte
		var err error
		if rapid.Bool().Draw(t, "indent") {
			b, err = json.MarshalIndent(ids, " ", "\t")
		} else {
			b, err = json.Marshal(ids)
		}
		if err != nil {
			t.Fatal(err)
		}
		checkVocab(t, string(b))
		if got, n := plainVocab(string(b) + "x"); len(got) != len(ids) || got == nil || n != len(b) {
			t.Fatalf("%s: %v of %d bytes", b, got, n)
		}
	})
}

func FuzzPlainVocab(f *testing.F) {
	for _, s := range []string{`{"a":1, "\\u0041": 2}`, `{"\"":0}`, `{"a":1}}`, `{"a":1,}`, `{,}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		checkVocab(t, s)
	})
}

// The vocabulary is found wherever it stands, and a key of the same name elsewhere is not mistaken
// for it.
func TestParseVocab(t *testing.T) {
	const rest = `"type": "WordLevel", "unk_token": "u"`
	for text, want := range map[string]string{
		`{"model": {"vocab": {"u": 0, "a": 7}, ` + rest + `}}`:                                       "7",
		`{"model": {` + rest + `, "vocab" : {"u": 0, "a": 7}}}`:                                      "7",
		`{"other": {"vocab": {"u": 1, "a": 2}}, "model": {"vocab": {"u": 0, "a": 7}, ` + rest + `}}`: "7",
		`{"model": {"vocab": {"u": 0, "a": 5}, "vocab": {"a": 7}, ` + rest + `}}`:                    "",
		`{"model": {"vocab": {"u": 0, "a": 7.0}, ` + rest + `}}`:                                     "",
		`{"model": {"vocab": {"u": 0, "a": 7}x, ` + rest + `}}`:                                      "",
		`{"model": {"vocab": {"u": 0, "a": 7}, ` + rest + `}`:                                        "",
		`{"model": {"vocab`:   "",
		`{"model": {"vocab":`: "",
	} {
		tok, err := Parse([]byte(text))
		got := ""
		if err == nil {
			id, _ := tok.ID("a")
			got = fmt.Sprint(id)
		}
		if got != want {
			t.Errorf("%s: %q, want %q: %v", text, got, want, err)
		}
	}
}

// BenchmarkParse reads a vocabulary of the size of BERT's.
func BenchmarkParse(b *testing.B) {
	ids := map[string]int{"[UNK]": 0, "[CLS]": 1, "[SEP]": 2}
	for i := range 30_000 {
		ids[fmt.Sprintf("##%x", i*i)] = i + 3
	}
	text, err := json.Marshal(map[string]any{
		"model": map[string]any{"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "vocab": ids},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := Parse(text); err != nil {
			b.Fatal(err)
		}
	}
}
