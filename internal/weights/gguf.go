package weights

import (
	"encoding/binary"
	"fmt"
	"math"
)

const (
	ggufMagic     = "GGUF"
	ggufAlignment = 32 // of the data, unless the file has another
	maxDims       = 4
	maxDepth      = 4 // of arrays of arrays
)

// ggufKinds are the supported tensor types, by number. Other types of ggml have only a name here.
var ggufKinds = map[uint32]struct {
	name string
	kind kind
}{
	0: {"F32", f32}, 1: {"F16", f16}, 28: {"F64", f64}, 30: {"BF16", bf16},
	24: {"I8", i8}, 25: {"I16", i16}, 26: {"I32", i32}, 27: {"I64", i64},
	2: {"Q4_0", kind{32, 18, blocks(18, q4(false))}}, 3: {"Q4_1", kind{32, 20, blocks(20, q4(true))}},
	6: {"Q5_0", kind{32, 22, blocks(22, q5(false))}}, 7: {"Q5_1", kind{32, 24, blocks(24, q5(true))}},
	8: {"Q8_0", kind{32, 34, blocks(34, q8)}},
}

// blocks decodes blocks of 32 numbers.
func blocks(bytes int, block func(dst []float32, src []byte)) func([]float32, []byte) {
	return func(dst []float32, src []byte) {
		for ; len(dst) >= 32; dst, src = dst[32:], src[bytes:] {
			block(dst[:32], src[:bytes])
		}
	}
}

func halfAt(src []byte) float32 { return half(binary.LittleEndian.Uint16(src)) }

// q8 decodes a scale and 32 bytes.
func q8(dst []float32, src []byte) {
	d := halfAt(src)
	for i := range dst {
		dst[i] = d * float32(int8(src[2+i]))
	}
}

// q4 decodes a scale, an optional minimum and 16 bytes: the low halves are the first 16 numbers,
// the high halves the last 16.
func q4(minimum bool) func(dst []float32, src []byte) {
	return func(dst []float32, src []byte) {
		d, m, src := scale(src, minimum, 8)
		for i, b := range src[:16] {
			dst[i] = float32(b&15)*d + m
			dst[i+16] = float32(b>>4)*d + m
		}
	}
}

// q5 is q4 with the fifth bits of all numbers in four bytes before the low bits.
func q5(minimum bool) func(dst []float32, src []byte) {
	return func(dst []float32, src []byte) {
		d, m, src := scale(src, minimum, 16)
		high := binary.LittleEndian.Uint32(src)
		for i, b := range src[4:20] {
			dst[i] = float32(uint32(b&15)|high>>i&1<<4)*d + m
			dst[i+16] = float32(uint32(b>>4)|high>>(i+16)&1<<4)*d + m
		}
	}
}

// scale reads the scale of a block and its offset: the minimum, or the offset that makes numbers
// signed.
func scale(src []byte, minimum bool, zero float32) (d, m float32, rest []byte) {
	d = halfAt(src)
	if minimum {
		return d, halfAt(src[2:]), src[4:]
	}
	return d, -zero * d, src[2:]
}

func parseGGUF(b []byte) (*File, error) {
	r := &reader{b: b, at: 4}
	version := r.u32()
	if r.err == nil && version != 2 && version != 3 {
		return nil, formatf("version %d of GGUF", version)
	}
	tensors, values := r.u64(), r.u64()
	f := &File{Tensors: map[string]Tensor{}, Values: map[string]any{}}
	for range values {
		key := r.str()
		v := r.value(r.u32(), 0)
		if r.err != nil {
			return nil, r.err
		}
		f.Values[key] = v
	}
	type info struct {
		name   string
		tensor Tensor
		offset uint64
	}
	var infos []info
	for range tensors {
		in := info{name: r.str()}
		dims := r.u32()
		if dims > maxDims {
			return nil, formatf("tensor %q has %d dimensions", in.name, dims)
		}
		in.tensor.Shape = make([]int, dims)
		for i := range dims {
			in.tensor.Shape[dims-1-i] = int(min(r.u64(), math.MaxInt))
		}
		number := r.u32()
		in.offset = r.u64()
		if r.err != nil {
			return nil, r.err
		}
		k, known := ggufKinds[number]
		if !known {
			k.name = fmt.Sprintf("ggml %d", number)
		}
		in.tensor.Type, in.tensor.kind = k.name, k.kind
		infos = append(infos, in)
	}
	align := uint64(ggufAlignment)
	if v, ok := f.Values["general.alignment"]; ok {
		a, isInt := v.(uint64)
		if !isInt || a == 0 || a > 1<<20 || a&(a-1) != 0 {
			return nil, formatf("alignment %v", v)
		}
		align = a
	}
	if r.err != nil {
		return nil, r.err
	}
	data := b[min((uint64(r.at)+align-1)/align*align, uint64(len(b))):]
	for _, in := range infos {
		t := in.tensor
		if t.kind.bytes > 0 {
			size := t.kind.size(t.Shape, len(data))
			if size < 0 || in.offset > uint64(len(data)) || uint64(size) > uint64(len(data))-in.offset {
				return nil, formatf("tensor %q: shape %v of type %s at %d does not fit into %d bytes", in.name, t.Shape, t.Type, in.offset, len(data))
			}
			t.data = data[in.offset:][:size]
		}
		f.Tensors[in.name] = t
	}
	return f, nil
}

// A reader reads numbers. After the first error it does nothing.
type reader struct {
	b   []byte
	at  int
	err error
}

func (r *reader) next(n uint64) []byte {
	if r.err == nil && n > uint64(len(r.b)-r.at) {
		r.err = formatf("cut off at byte %d: %d more are needed", r.at, n)
	}
	if r.err != nil {
		return nil
	}
	r.at += int(n)
	return r.b[r.at-int(n) : r.at]
}

func (r *reader) u32() uint32 {
	if b := r.next(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.next(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) str() string { return string(r.next(r.u64())) }

// value reads a value; number is its type.
func (r *reader) value(number uint32, depth int) any {
	fixed := func(n uint64) uint64 {
		var b [8]byte
		copy(b[:], r.next(n))
		return binary.LittleEndian.Uint64(b[:])
	}
	switch number {
	case 0:
		return fixed(1)
	case 1:
		return int64(int8(fixed(1)))
	case 2:
		return fixed(2)
	case 3:
		return int64(int16(fixed(2)))
	case 4:
		return fixed(4)
	case 5:
		return int64(int32(fixed(4)))
	case 6:
		return float64(math.Float32frombits(uint32(fixed(4))))
	case 7:
		return fixed(1) != 0
	case 8:
		return r.str()
	case 9:
		inner, n := r.u32(), r.u64()
		if depth == maxDepth {
			r.err = formatf("arrays are nested too deeply at byte %d", r.at)
			return nil
		}
		var list []any // grows with the data, not with the claimed length
		for i := uint64(0); i < n && r.err == nil; i++ {
			list = append(list, r.value(inner, depth+1))
		}
		return list
	case 10:
		return fixed(8)
	case 11:
		return int64(fixed(8))
	case 12:
		return math.Float64frombits(fixed(8))
	}
	if r.err == nil {
		r.err = formatf("type %d of a value at byte %d", number, r.at)
	}
	return nil
}
