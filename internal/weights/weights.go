package weights

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/vecbolt/vecbolt/internal/vfs"
)

// ErrFormat is matched by errors about malformed files.
var ErrFormat = errors.New("malformed model file")

func formatf(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrFormat, fmt.Errorf(format, args...))
}

// A File holds the tensors of a model by name. They refer to the parsed bytes, which must not
// change.
type File struct {
	Tensors map[string]Tensor

	// Values are the metadata. GGUF has uint64, int64, float64, bool, string and lists []any of
	// these; safetensors has strings.
	Values map[string]any

	mapping *vfs.Mapping // of Open
}

// Parse reads a file of any of the formats.
func Parse(b []byte) (*File, error) {
	switch {
	case len(b) >= 4 && string(b[:4]) == ggufMagic:
		return parseGGUF(b)
	case isONNX(b):
		return parseONNX(b)
	}
	return parseSafetensors(b)
}

// A Tensor is an array of numbers with the last dimension innermost.
type Tensor struct {
	Type  string // in the format's notation: "F32", "BF16", "Q8_0", …
	Shape []int

	kind       kind
	data       []byte
	transposed bool // data has the dimensions of a matrix in reverse
}

// Len returns the number of elements.
func (t Tensor) Len() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Readable reports whether Float32 and View can read the elements.
func (t Tensor) Readable() bool { return t.kind.decode != nil }

// Float32 returns the elements, converted and dequantized.
func (t Tensor) Float32() ([]float32, error) {
	if t.kind.decode == nil {
		return nil, fmt.Errorf("tensor of type %s cannot be read", t.Type)
	}
	out := make([]float32, t.Len())
	t.kind.decode(out, t.data)
	if t.transposed {
		out = transpose(out, t.Shape[0], t.Shape[1])
	}
	return out, nil
}

// Bytes returns the elements in the encoding and the order of the file. They must not be changed.
func (t Tensor) Bytes() []byte { return t.data }

// transpose returns a matrix of rows by columns from one of columns by rows.
func transpose(m []float32, rows, columns int) []float32 {
	out := make([]float32, len(m))
	for i := range rows {
		for j := range columns {
			out[i*columns+j] = m[j*rows+i]
		}
	}
	return out
}

// Ints returns the elements of a tensor of signed integers.
func (t Tensor) Ints() ([]int64, error) {
	var at func(i int) int64
	switch le := binary.LittleEndian; t.Type {
	case "I8":
		at = func(i int) int64 { return int64(int8(t.data[i])) }
	case "I16":
		at = func(i int) int64 { return int64(int16(le.Uint16(t.data[2*i:]))) }
	case "I32":
		at = func(i int) int64 { return int64(int32(le.Uint32(t.data[4*i:]))) }
	case "I64":
		at = func(i int) int64 { return int64(le.Uint64(t.data[8*i:])) }
	default:
		return nil, fmt.Errorf("tensor of type %s holds no signed integers", t.Type)
	}
	out := make([]int64, t.Len())
	for i := range out {
		out[i] = at(i)
	}
	return out, nil
}

// A kind is the layout of numbers: blocks with a number of elements and bytes.
type kind struct {
	elements, bytes int
	decode          func(dst []float32, src []byte) // nil: not supported
}

// size returns the number of bytes of a shape, or -1 if the shape is invalid: negative, not in
// whole blocks along the last dimension, or larger than most.
func (k kind) size(shape []int, most int) int {
	n := uint64(1)
	for _, d := range shape {
		if d < 0 || uint64(d) > math.MaxInt32 && d > most {
			return -1
		}
		if d != 0 && n > uint64(math.MaxInt64)/uint64(d) {
			return -1
		}
		n *= uint64(d)
	}
	if k.elements > 1 && (len(shape) == 0 || shape[len(shape)-1]%k.elements != 0) {
		return -1
	}
	n /= uint64(k.elements)
	if n > uint64(most)/uint64(k.bytes) {
		return -1
	}
	return int(n) * k.bytes
}

var (
	f64 = kind{1, 8, func(dst []float32, src []byte) {
		for i := range dst {
			dst[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:])))
		}
	}}
	f32 = kind{1, 4, func(dst []float32, src []byte) {
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	}}
	f16 = kind{1, 2, func(dst []float32, src []byte) {
		for i := range dst {
			dst[i] = half(binary.LittleEndian.Uint16(src[2*i:]))
		}
	}}
	bf16 = kind{1, 2, func(dst []float32, src []byte) {
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
		}
	}}
	i8 = kind{1, 1, func(dst []float32, src []byte) {
		for i := range dst {
			dst[i] = float32(int8(src[i]))
		}
	}}
	u8 = kind{1, 1, func(dst []float32, src []byte) {
		for i := range dst {
			dst[i] = float32(src[i])
		}
	}}
	i16 = kind{1, 2, nil}
	i32 = kind{1, 4, nil}
	i64 = kind{1, 8, nil}
)

// half converts an IEEE 754 half to single precision.
func half(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10)&0x1f, uint32(h)&0x3ff
	switch exp {
	case 0:
		f := float32(frac) / (1 << 24) // exact: zero or subnormal
		if sign != 0 {
			f = -f
		}
		return f
	case 0x1f:
		return math.Float32frombits(sign | 0xff<<23 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
}
