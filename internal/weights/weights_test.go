package weights_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/internal/weights"
)

// safetensors makes a file of a header and data.
func safetensors(header, data string) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), data...)
}

func floats(t *testing.T, f *weights.File, name string) []float32 {
	t.Helper()
	v, err := f.Tensors[name].Float32()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSafetensors(t *testing.T) {
	header := `{"__metadata__":{"format":"pt"},
		"f32":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
		"f16":{"dtype":"F16","shape":[2,4],"data_offsets":[8,24]},
		"bf16":{"dtype":"BF16","shape":[1],"data_offsets":[24,26]},
		"i8":{"dtype":"I8","shape":[1,2],"data_offsets":[26,28]},
		"f64":{"dtype":"F64","shape":[],"data_offsets":[28,36]},
		"i32":{"dtype":"I32","shape":[1],"data_offsets":[36,40]},
		"i64":{"dtype":"I64","shape":[1],"data_offsets":[40,48]},
		"i16":{"dtype":"I16","shape":[1],"data_offsets":[48,50]},
		"none":{"dtype":"F32","shape":[0,7],"data_offsets":[50,50]},
		"odd":{"dtype":"F4","shape":[999999999,999999999],"data_offsets":[50,50]}}`
	var data []byte
	le := binary.LittleEndian
	for _, x := range []float32{-0.1, math.MaxFloat32} {
		data = le.AppendUint32(data, math.Float32bits(x))
	}
	// 1, -2, the largest, infinity, the smallest, the largest subnormal, -0, 1/3
	for _, h := range []uint16{0x3c00, 0xc000, 0x7bff, 0x7c00, 0x0001, 0x03ff, 0x8000, 0x3555} {
		data = le.AppendUint16(data, h)
	}
	data = le.AppendUint16(data, 0xbfc0)
	data = append(data, 0x80, 0x7f)
	data = le.AppendUint64(data, math.Float64bits(0.1))
	data = le.AppendUint32(data, 0xfffffffe)
	data = le.AppendUint64(data, 1<<40)
	data = le.AppendUint16(data, 0xffff)
	f, err := weights.Parse(safetensors(header, string(data)))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]float32{
		"f32":  {-0.1, math.MaxFloat32},
		"f16":  {1, -2, 65504, float32(math.Inf(1)), 1.0 / (1 << 24), 1023.0 / (1 << 24), float32(math.Copysign(0, -1)), 0.333251953125},
		"bf16": {-1.5}, "i8": {-128, 127}, "f64": {0.1}, "none": {},
	} {
		if got := floats(t, f, name); !cmp.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	for name, want := range map[string]int64{"i32": -2, "i64": 1 << 40, "i16": -1} {
		if got, err := f.Tensors[name].Ints(); err != nil || got[0] != want {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
	if got, err := f.Tensors["i8"].Ints(); err != nil || !cmp.Equal(got, []int64{-128, 127}) {
		t.Error(got, err)
	}
	if _, err := f.Tensors["odd"].Float32(); err == nil {
		t.Error("a type that nobody knows")
	}
	if _, err := f.Tensors["odd"].Ints(); err == nil {
		t.Error("a type that nobody knows")
	}
	if _, err := f.Tensors["i64"].Float32(); err == nil {
		t.Error("integers that float32 does not hold")
	}
	if f.Values["format"] != "pt" || !cmp.Equal(f.Tensors["f16"].Shape, []int{2, 4}) || math.Signbit(float64(floats(t, f, "f16")[6])) != true {
		t.Errorf("%v", f.Values)
	}
}

// Every half is what its definition says.
func TestHalf(t *testing.T) {
	var data []byte
	for h := range 1 << 16 {
		data = binary.LittleEndian.AppendUint16(data, uint16(h))
	}
	f, err := weights.Parse(safetensors(`{"h":{"dtype":"F16","shape":[65536],"data_offsets":[0,131072]}}`, string(data)))
	if err != nil {
		t.Fatal(err)
	}
	for h, got := range floats(t, f, "h") {
		exp, frac := h>>10&31, float64(h&1023)
		want := math.Ldexp(1+frac/1024, exp-15)
		if exp == 0 {
			want = math.Ldexp(frac/1024, -14)
		}
		if exp == 31 {
			want = math.Inf(1)
			if frac != 0 {
				want = math.NaN()
			}
		}
		if h>>15 == 1 {
			want = -want
		}
		if float64(got) != want && !(math.IsNaN(want) && math.IsNaN(float64(got))) {
			t.Fatalf("%#x: %v, want %v", h, got, want)
		}
	}
}

// A ggufFile is written piece by piece.
type ggufFile struct{ b []byte }

func (f *ggufFile) u32(x uint32) *ggufFile { f.b = binary.LittleEndian.AppendUint32(f.b, x); return f }
func (f *ggufFile) u64(x uint64) *ggufFile { f.b = binary.LittleEndian.AppendUint64(f.b, x); return f }
func (f *ggufFile) str(s string) *ggufFile { f.u64(uint64(len(s))); f.b = append(f.b, s...); return f }
func (f *ggufFile) raw(b ...byte) *ggufFile {
	f.b = append(f.b, b...)
	return f
}

func gguf(tensors, values uint64) *ggufFile {
	return (&ggufFile{b: []byte("GGUF")}).u32(3).u64(tensors).u64(values)
}

func (f *ggufFile) tensor(name string, kind uint32, offset uint64, dims ...uint64) *ggufFile {
	f.str(name).u32(uint32(len(dims)))
	for _, d := range dims {
		f.u64(d)
	}
	return f.u32(kind).u64(offset)
}

func (f *ggufFile) pad(n int) *ggufFile {
	for len(f.b)%n != 0 {
		f.b = append(f.b, 0xee)
	}
	return f
}

func TestGGUF(t *testing.T) {
	f := gguf(7, 14)
	f.str("general.alignment").u32(4).u32(64)
	f.str("u8").u32(0).raw(200)
	f.str("i8").u32(1).raw(200)
	f.str("u16").u32(2).raw(0xff, 0xff)
	f.str("i16").u32(3).raw(0xff, 0xff)
	f.str("i32").u32(5).u32(0xffffffff)
	f.str("f32").u32(6).u32(math.Float32bits(1e-12))
	f.str("bool").u32(7).raw(1)
	f.str("str").u32(8).str("Grüße")
	f.str("list").u32(9).u32(8).u64(2).str("a").str("")
	f.str("lists").u32(9).u32(9).u64(1).u32(4).u64(1).u32(7)
	f.str("u64").u32(10).u64(1 << 63)
	f.str("i64").u32(11).u64(math.MaxUint64)
	f.str("f64").u32(12).u64(math.Float64bits(0.1))
	// Q8_0: scale 0.5; Q4_0: scale 2; Q4_1: scale 1, minimum -3; Q5_0, Q5_1 likewise with a fifth
	// bit for every third number.
	f.tensor("f32", 0, 0, 2, 1).tensor("q8", 8, 64, 32).tensor("q4_0", 2, 128, 32).tensor("q4_1", 3, 192, 32).
		tensor("q5_0", 6, 256, 32).tensor("q5_1", 7, 320, 32, 1).tensor("odd", 99, 0, 1<<62)
	f.pad(64)
	f.u32(math.Float32bits(1)).u32(math.Float32bits(2)).pad(64)
	half, two, one, minus3 := []byte{0x00, 0x38}, []byte{0x00, 0x40}, []byte{0x00, 0x3c}, []byte{0x00, 0xc2}
	f.raw(half...)
	for i := range 32 {
		f.raw(byte(int8(-16 + i)))
	}
	f.pad(64)
	nibbles := func() {
		for i := range 16 {
			f.raw(byte(i | (15-i)<<4))
		}
		f.pad(64)
	}
	const thirds = 0b01001001001001001001001001001001
	f.raw(two...)
	nibbles()
	f.raw(one...).raw(minus3...)
	nibbles()
	f.raw(two...).u32(thirds)
	nibbles()
	f.raw(one...).raw(minus3...).u32(thirds)
	nibbles()

	file, err := weights.Parse(f.b)
	if err != nil {
		t.Fatal(err)
	}
	q := func(i int) float32 { // the number of four bits
		if i < 16 {
			return float32(i)
		}
		return float32(31 - i)
	}
	fifth := func(i int) float32 { return float32(uint32(thirds) >> i & 1 * 16) }
	for name, want := range map[string]func(i int) float32{
		"q8":   func(i int) float32 { return float32(i-16) / 2 },
		"q4_0": func(i int) float32 { return (q(i) - 8) * 2 },
		"q4_1": func(i int) float32 { return q(i) - 3 },
		"q5_0": func(i int) float32 { return (q(i) + fifth(i) - 16) * 2 },
		"q5_1": func(i int) float32 { return q(i) + fifth(i) - 3 },
	} {
		got := floats(t, file, name)
		for i := range 32 {
			if got[i] != want(i) {
				t.Errorf("%s: number %d is %v, want %v", name, i, got[i], want(i))
			}
		}
	}
	if got := floats(t, file, "f32"); !cmp.Equal(got, []float32{1, 2}) || !cmp.Equal(file.Tensors["f32"].Shape, []int{1, 2}) {
		t.Error(got, file.Tensors["f32"].Shape)
	}
	if _, err := file.Tensors["odd"].Float32(); err == nil || !strings.Contains(err.Error(), "ggml 99") {
		t.Error(err)
	}
	want := map[string]any{
		"general.alignment": uint64(64), "u8": uint64(200), "i8": int64(-56), "u16": uint64(65535), "i16": int64(-1), "i32": int64(-1),
		"f32": float64(float32(1e-12)), "bool": true, "str": "Grüße", "list": []any{"a", ""}, "lists": []any{[]any{uint64(7)}},
		"u64": uint64(1 << 63), "i64": int64(-1), "f64": 0.1,
	}
	if diff := cmp.Diff(want, file.Values); diff != "" {
		t.Error(diff)
	}
	for n := range len(f.b) - 64 { // cut off anywhere but in the last padding
		if _, err := weights.Parse(f.b[:n]); !errors.Is(err, weights.ErrFormat) {
			t.Fatalf("cut off at %d: %v", n, err)
		}
	}
}

// The data may be missing if it is empty.
func TestTensorWithoutNumbers(t *testing.T) {
	f, err := weights.Parse(gguf(1, 0).tensor("t", 0, 0, 0).b)
	if err != nil || len(floats(t, f, "t")) != 0 {
		t.Error(f, err)
	}
}

func TestMalformed(t *testing.T) {
	deep := gguf(0, 1).str("k").u32(9)
	for range 1000 {
		deep.u32(9).u64(1)
	}
	for name, b := range map[string][]byte{
		"empty":             nil,
		"short":             []byte("1234567"),
		"header too long":   binary.LittleEndian.AppendUint64(nil, 1<<40),
		"header beyond":     append(binary.LittleEndian.AppendUint64(nil, 3), "{}"...),
		"not JSON":          safetensors("{", ""),
		"not an object":     safetensors("[]", ""),
		"tensor no object":  safetensors(`{"a":1}`, ""),
		"metadata":          safetensors(`{"__metadata__":{"a":1}}`, ""),
		"negative offset":   safetensors(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}`, "1234"),
		"offsets turned":    safetensors(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}`, "1234"),
		"offset beyond":     safetensors(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, "1234"),
		"shape too small":   safetensors(`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,8]}}`, "12345678"),
		"shape too large":   safetensors(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, "1234"),
		"shape negative":    safetensors(`{"a":{"dtype":"F32","shape":[-1,-1],"data_offsets":[0,4]}}`, "1234"),
		"shape overflows":   safetensors(`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, ""),
		"shape overflows 2": safetensors(`{"a":{"dtype":"F32","shape":[9223372036854775807,0],"data_offsets":[0,0]}}`, ""),
		"version":           (&ggufFile{b: []byte("GGUF")}).u32(1).u64(0).u64(0).b,
		"values claimed":    gguf(0, math.MaxUint64).b,
		"tensors claimed":   gguf(math.MaxUint64, 0).b,
		"string claimed":    gguf(0, 1).u64(math.MaxUint64).b,
		"list claimed":      gguf(0, 1).str("k").u32(9).u32(4).u64(math.MaxUint64).b,
		"type of a value":   gguf(0, 1).str("k").u32(13).u64(0).b,
		"arrays of arrays":  deep.b,
		"dimensions":        gguf(1, 0).str("t").u32(5).b,
		"alignment":         gguf(0, 1).str("general.alignment").u32(4).u32(3).b,
		"alignment type":    gguf(0, 1).str("general.alignment").u32(8).str("x").b,
		"alignment zero":    gguf(0, 1).str("general.alignment").u32(4).u32(0).b,
		"tensor beyond":     gguf(1, 0).tensor("t", 0, 0, 100).pad(32).b,
		"tensor far":        gguf(1, 0).tensor("t", 0, math.MaxUint64, 1).pad(32).u64(0).b,
		"half a block":      gguf(1, 0).tensor("t", 8, 0, 16).pad(32).raw(make([]byte, 64)...).b,
		"tensor overflows":  gguf(1, 0).tensor("t", 0, 0, 1<<62, 1<<62).pad(32).b,
		"tensor overflow 2": gguf(1, 0).tensor("t", 0, 0, math.MaxUint64, 0).pad(32).b,
	} {
		if _, err := weights.Parse(b); !errors.Is(err, weights.ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A claim costs nothing: what is allocated depends on the bytes that are
// there.
func TestClaimsAreNotBelieved(t *testing.T) {
	b := gguf(0, 1).str("k").u32(9).u32(0).u64(1<<40).raw(1, 2, 3).b
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		if _, err := weights.Parse(b); err == nil {
			t.Fatal("accepted")
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / 100; each > 10_000 {
		t.Errorf("%d bytes for a file of %d", each, len(b))
	}
}

// field appends a field of a message of Protocol Buffers, with a number or with bytes.
func field(b []byte, number int, value any) []byte {
	if n, ok := value.(int); ok {
		return binary.AppendUvarint(binary.AppendUvarint(b, uint64(number)<<3), uint64(n))
	}
	bytes := []byte(fmt.Sprintf("%s", value))
	return append(binary.AppendUvarint(binary.AppendUvarint(b, uint64(number)<<3|2), uint64(len(bytes))), bytes...)
}

// onnx returns a model with a graph of parts: nodes are strings of an operation, its inputs and its
// output, tensors are messages.
func onnx(parts ...any) []byte {
	var graph []byte
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			words := strings.Fields(p)
			var node []byte
			for _, in := range words[1 : len(words)-1] {
				node = field(node, 1, in)
			}
			graph = field(graph, 1, field(field(node, 2, words[len(words)-1]), 4, words[0]))
		case []byte:
			graph = field(graph, 5, p)
		}
	}
	return field(field(field(nil, 1, 8), 2, "test"), 7, graph)
}

func onnxTensor(name string, kind int, data string, shape ...int) []byte {
	var b []byte
	for _, d := range shape {
		b = field(b, 1, d)
	}
	return field(field(field(b, 2, kind), 8, name), 9, data)
}

func TestONNX(t *testing.T) {
	packed := field(field(field(nil, 1, []byte{2, 1}), 2, 1), 8, "packed")
	packed = field(packed, 4, "\x00\x00\x80\x3f\x00\x00\x00\x40")
	f, err := weights.Parse(onnx(
		onnxTensor("onnx::MatMul_7", 10, "\x00\x3c\x00\x40\x00\x42\x00\x44\x00\x45\x00\x46", 2, 3),
		onnxTensor("a.bias", 1, strings.Repeat("\x00", 12), 3),
		onnxTensor("taken.weight", 1, "\x00\x00\x80\x3f", 1, 1), onnxTensor("taken.bias", 1, "\x00\x00\x80\x3f", 1),
		onnxTensor("number", 7, "\x05\x00\x00\x00\x00\x00\x00\x00"), packed,
		field(field(field(nil, 1, 3), 2, 6), 8, "a list of integers"), onnxTensor("strings", 8, "", 1),
		"MatMul x onnx::MatMul_7 y", "Add a.bias y z", "MatMul z taken.weight u", "Add u taken.bias v", "MatMul v v w", "Relu w o",
	))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]float32{
		"onnx::MatMul_7": {1, 2, 3, 4, 5, 6}, "a.weight": {1, 4, 2, 5, 3, 6}, "taken.weight": {1}, "packed": {1, 2},
	} {
		if got := floats(t, f, name); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if shape := f.Tensors["a.weight"].Shape; !slices.Equal(shape, []int{3, 2}) {
		t.Error(shape)
	}
	if n, err := f.Tensors["number"].Ints(); err != nil || !slices.Equal(n, []int64{5}) {
		t.Error(n, err)
	}
	for _, name := range []string{"a list of integers", "strings"} {
		if _, err := f.Tensors[name].Float32(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestONNXMalformed(t *testing.T) {
	whole := onnx(onnxTensor("a", 1, "\x00\x00\x80\x3f", 1, 1), "MatMul x a y", "Add y b z")
	for end := 9; end < len(whole); end++ {
		if _, err := weights.Parse(whole[:end]); !errors.Is(err, weights.ErrFormat) {
			t.Errorf("first %d bytes: %v", end, err)
		}
	}
	for name, b := range map[string][]byte{
		"shape too large":  onnx(onnxTensor("a", 1, "\x00\x00\x80\x3f", 2)),
		"shape overflows":  onnx(onnxTensor("a", 1, "\x00\x00\x80\x3f", 1<<32, 1<<32)),
		"negative":         onnx(onnxTensor("a", 1, "\x00\x00\x80\x3f", -1)),
		"other file":       onnx(field(onnxTensor("a", 1, "", 1), 14, 1)),
		"packed shape":     onnx(field(field(nil, 1, []byte{0x80}), 2, 1)),
		"field zero":       append(onnx(), 0, 0),
		"wire type":        append(onnx(), 1<<3|3),
		"number cut":       append(onnx(), 1<<3, 0x80),
		"eight bytes cut":  append(onnx(), 1<<3|1, 0),
		"four bytes cut":   append(onnx(), 1<<3|5, 0),
		"length too large": append(onnx(), 1<<3|2, 0xff, 0xff, 0xff, 0xff, 0x0f),
	} {
		if _, err := weights.Parse(b); !errors.Is(err, weights.ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
