package fuzz_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/vecbolt/vecbolt/internal/tokenizer"
	"github.com/vecbolt/vecbolt/internal/weights"
	"github.com/vecbolt/vecbolt/rag/embed/bert"
	"github.com/vecbolt/vecbolt/rag/embed/static"
)

func safetensorsFile(header, data string) []byte {
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), data...)
}

// FuzzWeights reads any bytes as a model. What tensors hold must not be more
// than the file can justify: a block of 32 numbers takes 18 bytes.
func FuzzWeights(f *testing.F) {
	f.Add([]byte{})
	for _, kind := range []string{"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL", "F4"} {
		f.Add(safetensorsFile(`{"a":{"dtype":"`+kind+`","shape":[1],"data_offsets":[0,8]}}`, "12345678"))
		f.Add(safetensorsFile(`{"a":{"dtype":"`+kind+`","shape":[2,2],"data_offsets":[0,8]},"__metadata__":{"k":"v"}}`, "12345678"))
	}
	for _, shape := range []string{"[]", "[-1,-8]", "[0]", "[4294967296,4294967296]", "[9223372036854775807,0]", "[1e3]", "null", "[8,1]", "[1,1,1,1,1,8]"} {
		f.Add(safetensorsFile(`{"a":{"dtype":"I8","shape":`+shape+`,"data_offsets":[0,8]}}`, "12345678"))
	}
	le := binary.LittleEndian
	for kind := range uint32(31) {
		b := append([]byte("GGUF"), 3, 0, 0, 0)
		b = le.AppendUint64(le.AppendUint64(b, 1), 1)
		b = append(le.AppendUint64(b, 1), 'k')
		b = le.AppendUint64(le.AppendUint32(b, kind%13), 1) // a value of any type, as far as eight bytes go
		b = append(le.AppendUint64(b, 1), 't')
		b = le.AppendUint64(le.AppendUint32(b, 1), 32)
		b = le.AppendUint64(le.AppendUint32(b, kind), 0)
		f.Add(append(b, make([]byte, 300)...))
	}
	// An ONNX graph: y = x·a, z = y + b.bias, and the tensors a and b.bias.
	f.Add([]byte("\x08\x08\x12\x01p\x3a\x44\x0a\x11\x0a\x01x\x0a\x01a\x12\x01y\x22\x06MatMul\x0a\x13\x0a\x01y\x0a\x06b.bias\x12\x01z\x22\x03Add" +
		"\x2a\x0d\x08\x01\x08\x01\x10\x01\x42\x01a\x4a\x02\x00\x00\x2a\x0b\x08\x01\x10\x01\x42\x06b.bias"))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := weights.Parse(b)
		if err != nil {
			return
		}
		for name, tensor := range file.Tensors {
			v, err := tensor.Float32()
			ints, intErr := tensor.Ints()
			if err == nil && (len(v) != tensor.Len() || len(v) > 2*len(b)) || intErr == nil && len(ints) > len(b) {
				t.Fatalf("%q: %d floats and %d integers of %d bytes", name, len(v), len(ints), len(b))
			}
		}
	})
}

// FuzzTokenizer reads any bytes as a tokenizer.json and splits a text with it.
func FuzzTokenizer(f *testing.F) {
	const text = "Grüße, [CLS] a-b\u3000日本 e\u0301\xff\x00."
	models := []string{
		`{"type":"WordPiece","unk_token":"?","vocab":{"?":0,"a":1,"##b":2}}`,
		`{"type":"WordLevel","unk_token":"?","vocab":{"?":0,"a":1}}`,
		`{"type":"Unigram","unk_id":0,"vocab":[["?",0],["a",-1],["ü",-2.5],["",1]]}`,
	}
	parts := []string{
		`"normalizer":{"type":"BertNormalizer"}`,
		`"normalizer":{"type":"Sequence","normalizers":[{"type":"NFKD"},{"type":"StripAccents"},{"type":"Strip"},{"type":"Prepend","prepend":"x"}]}`,
		`"normalizer":{"type":"Replace","pattern":{"Regex":"\\s+"},"content":" "}`,
		`"normalizer":{"type":"Replace","pattern":{"String":""},"content":"aaaaaaaa"}`,
		`"pre_tokenizer":{"type":"BertPreTokenizer"}`,
		`"pre_tokenizer":{"type":"Whitespace"}`,
		`"pre_tokenizer":{"type":"Metaspace","prepend_scheme":"first","replacement":""}`,
		`"pre_tokenizer":{"type":"Metaspace","split":false}`,
		`"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"a"}},{"Sequence":{}}],"special_tokens":{"a":{"ids":[1]}}}`,
		`"post_processor":{"type":"BertProcessing","sep":["a",1,2],"cls":[]}`,
		`"added_tokens":[{"id":5,"content":"[CLS]"},{"id":6,"content":""}]`,
	}
	for _, m := range models {
		for _, p := range parts {
			f.Add([]byte(`{`+p+`,"model":`+m+`}`), text)
			for _, b := range variants([]byte(`{`+p+`,"model":`+m+`}`), 1+len(m)%2) {
				f.Add(b, text)
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, text string) {
		tok, err := tokenizer.Parse(b)
		if err != nil || len(text) > 1000 {
			return
		}
		for _, id := range tok.Encode(text) {
			if id < 0 {
				t.Fatalf("%q: number %d", text, id)
			}
		}
		if n := len(tok.EncodeMax(text, 3)); n > 3 && n > len(tok.Encode("")) {
			t.Fatalf("%q: %d tokens", text, n)
		}
	})
}

// FuzzEncoder reads any bytes as a sentence encoder and runs it.
func FuzzEncoder(f *testing.F) {
	tiny, err := os.ReadFile("../rag/embed/bert/testdata/tiny.gguf")
	if err != nil {
		f.Fatal(err)
	}
	for i := 0; i < len(tiny); i += 40 {
		b := append([]byte(nil), tiny...)
		b[i] ^= 1 << (i / 40 % 8)
		f.Add(b, "a cup of tea, unable")
	}
	f.Add(tiny, "")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte, text string) {
		if len(text) > 1000 {
			return
		}
		name := filepath.Join(dir, "model.gguf")
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := bert.Open(name)
		if err != nil {
			return
		}
		defer m.Close()
		if m.Dim() > 1000 {
			return
		}
		if v := m.Embed(text); len(v) != m.Dim() {
			t.Fatalf("%d components, want %d", len(v), m.Dim())
		}
	})
}

// FuzzStatic reads any bytes as the two files of a static model and runs it.
func FuzzStatic(f *testing.F) {
	tokens := []byte(`{"pre_tokenizer":{"type":"WhitespaceSplit"},"model":{"type":"WordLevel","unk_token":"?","vocab":{"?":0,"a":1}}}`)
	for _, header := range []string{
		`{"embeddings":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}`,
		`{"embedding.weight":{"dtype":"I8","shape":[4,4],"data_offsets":[0,16]}}`,
		`{"embeddings":{"dtype":"I8","shape":[1,4],"data_offsets":[0,4]},"mapping":{"dtype":"I32","shape":[2],"data_offsets":[8,16]}}`,
		`{"embeddings":{"dtype":"I8","shape":[4,1],"data_offsets":[0,4]},"weights":{"dtype":"F16","shape":[2],"data_offsets":[4,8]},"mapping":{"dtype":"I8","shape":[2],"data_offsets":[8,10]}}`,
		`{"embeddings":{"dtype":"I8","shape":[1,4],"data_offsets":[0,4]},"mapping":{"dtype":"I32","shape":[2],"data_offsets":[0,8]}}`,
		`{"embeddings":{"dtype":"F32","shape":[0,2],"data_offsets":[0,0]}}`,
	} {
		f.Add(safetensorsFile(header, "\x01\x02\x03\x04\x05\x06\x07\x08\x00\x00\x00\x00\x00\x00\x00\x00"), tokens, "a b a")
		for _, b := range variants([]byte(header), 8) {
			f.Add(safetensorsFile(string(b), "\x01\x02\x03\x04\x05\x06\x07\x08"), tokens, "a b a")
		}
	}
	f.Fuzz(func(t *testing.T, table, tokens []byte, text string) {
		if len(text) > 1000 {
			return
		}
		m, err := static.New(table, tokens)
		if err != nil {
			return
		}
		if v := m.Embed(text); len(v) != m.Dim() {
			t.Fatalf("%d components, want %d", len(v), m.Dim())
		}
	})
}
