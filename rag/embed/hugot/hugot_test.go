package hugot_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/embed/hugot"
)

// A message is a protocol buffer that is written field by field.
type message []byte

func (m message) number(field, value uint64) message {
	return binary.AppendUvarint(binary.AppendUvarint(m, field<<3), value)
}

func (m message) bytes(field uint64, value []byte) message {
	m = binary.AppendUvarint(binary.AppendUvarint(m, field<<3|2), uint64(len(value)))
	return append(m, value...)
}

func (m message) str(field uint64, value string) message { return m.bytes(field, []byte(value)) }

// value describes an input or an output with dimensions of any size, and a
// last one if it is not 0.
func value(name string, kind, last uint64, dims ...string) message {
	var shape message
	for _, d := range dims {
		shape = shape.bytes(1, message{}.str(2, d))
	}
	if last != 0 {
		shape = shape.bytes(1, message{}.number(1, last))
	}
	tensor := message{}.number(1, kind).bytes(2, shape)
	return message{}.str(1, name).bytes(2, message{}.bytes(1, tensor))
}

// table is an ONNX model of one node, the vector of a token is its row, with
// inputs of any names.
func table(rows [][]float32, inputs ...string) []byte {
	var raw []byte
	for _, row := range rows {
		for _, x := range row {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
		}
	}
	const float, int64s = 1, 7
	dim := uint64(len(rows[0]))
	weights := message{}.number(1, uint64(len(rows))).number(1, dim).number(2, float).str(8, "table").bytes(9, raw)
	node := message{}.str(1, "table").str(1, "input_ids").str(2, "last_hidden_state").str(3, "gather").str(4, "Gather")
	graph := message{}.bytes(1, node).str(2, "graph").bytes(5, weights).
		bytes(12, value("last_hidden_state", float, dim, "batch", "sequence"))
	for _, name := range inputs {
		graph = graph.bytes(11, value(name, int64s, 0, "batch", "sequence"))
	}
	return message{}.number(1, 8).bytes(7, graph).bytes(8, message{}.str(1, "").number(2, 13))
}

const tokenizer = `{"version":"1.0","truncation":null,"padding":null,"added_tokens":[
	{"id":0,"content":"[PAD]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
	{"id":1,"content":"[UNK]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
	{"id":2,"content":"[CLS]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
	{"id":3,"content":"[SEP]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],
	"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true},
	"pre_tokenizer":{"type":"BertPreTokenizer"},
	"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"[SEP]","type_id":0}}],
		"pair":[],"special_tokens":{"[CLS]":{"id":"[CLS]","ids":[2],"tokens":["[CLS]"]},"[SEP]":{"id":"[SEP]","ids":[3],"tokens":["[SEP]"]}}},
	"decoder":{"type":"WordPiece","prefix":"##","cleanup":true},
	"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,
		"vocab":{"[PAD]":0,"[UNK]":1,"[CLS]":2,"[SEP]":3,"tea":4,"cup":5,"##s":6,"a":7}}}`

// write makes a model directory.
func write(t *testing.T, rows [][]float32, inputs ...string) string {
	t.Helper()
	if len(inputs) == 0 {
		inputs = []string{"input_ids", "attention_mask", "token_type_ids"}
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{
		"model.onnx": table(rows, inputs...), "tokenizer.json": []byte(tokenizer),
		"config.json": []byte(`{"model_type":"bert","max_position_embeddings":32}`), "special_tokens_map.json": []byte(`{"sep_token":"[SEP]"}`),
		"tokenizer_config.json": []byte(`{"tokenizer_class":"BertTokenizer","do_lower_case":true,"pad_token":"[PAD]","unk_token":"[UNK]","cls_token":"[CLS]","sep_token":"[SEP]"}`),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var rows = [][]float32{{100, 100}, {50, 0}, {1, 0}, {0, 1}, {4, 8}, {2, 0}, {0, 6}, {1, 1}}

func TestONNX(t *testing.T) {
	r := embed.NewRegistry(append(embed.Builtin(), hugot.Provider())...)
	dir := write(t, rows)
	e, err := r.Open(t.Context(), embed.Config{Provider: "onnx", Model: "table", Dimensions: 2, Settings: map[string]any{"model_path": dir}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if e.Provider() != "onnx" || e.Model() != "table" || e.Dimensions() != 2 {
		t.Error(e.Provider(), e.Model(), e.Dimensions())
	}
	// Texts of different lengths in one batch: padding must not count.
	texts := []string{"Tea", "tea cups a tea cups", "", "cup"}
	vecs, err := e.EmbedBatch(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	for i, ids := range [][]int{{2, 4, 3}, {2, 4, 5, 6, 7, 4, 5, 6, 3}, {2, 3}, {2, 5, 3}} {
		for j := range 2 {
			sum := 0.0
			for _, id := range ids {
				sum += float64(rows[id][j])
			}
			if want := sum / float64(len(ids)); math.Abs(float64(vecs[i][j])-want) > 1e-5 {
				t.Errorf("%q: %v, want %v at %d", texts[i], vecs[i], want, j)
			}
		}
	}
	if vecs, err := e.EmbedBatch(t.Context(), nil); len(vecs) != 0 || err != nil {
		t.Error(vecs, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Embed(ctx, "tea"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestErrors(t *testing.T) {
	if _, err := hugot.Open(t.Context(), t.TempDir(), nil); !errors.Is(err, embed.ErrConfig) {
		t.Error(err)
	}
	if _, err := hugot.Open(t.Context(), write(t, rows), &hugot.Options{Output: "none"}); !errors.Is(err, embed.ErrConfig) {
		t.Error(err)
	}
	if _, err := hugot.Open(t.Context(), write(t, rows, "input_ids"), nil); !errors.Is(err, embed.ErrConfig) {
		t.Error(err)
	}
	bad := write(t, [][]float32{{0, 0}, {0, 0}, {0, float32(math.NaN())}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}})
	if _, err := hugot.Open(t.Context(), bad, nil); !errors.Is(err, embed.ErrInvalidResponse) {
		t.Error(err)
	}
	e, err := hugot.Open(t.Context(), write(t, rows), &hugot.Options{File: "model.onnx", Output: "last_hidden_state"})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
