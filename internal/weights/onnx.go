package weights

import (
	"encoding/binary"
	"math"
	"strings"
)

// Numbers of ONNX's data types.
var onnxKinds = map[uint64]struct {
	name string
	kind kind
}{
	1: {"F32", f32}, 2: {"U8", u8}, 3: {"I8", i8}, 5: {"I16", i16}, 6: {"I32", i32}, 7: {"I64", i64},
	9: {"BOOL", u8}, 10: {"F16", f16}, 11: {"F64", f64}, 16: {"BF16", bf16},
}

// isONNX reports whether b may be an ONNX model: it begins with field 1, the version of the format,
// and another field, and not with the length and the brace of safetensors.
func isONNX(b []byte) bool {
	return len(b) > 8 && b[0] == 1<<3 && b[1] > 0 && b[1] < 64 && b[2]>>3 >= 2 && b[2]>>3 <= 20 && (b[7] != 0 || b[8] != '{')
}

// A matMul is a node of the graph that multiplies by a tensor.
type matMul struct{ weight, output string }

// parseONNX reads the initializers of a graph. PyTorch's exporter gives the weights of a linear map
// numbers for names and stores them transposed. Their node adds a bias that has kept its name to
// the product: the weight of "x.bias" gets the name "x.weight" and the shape that it has in other
// formats.
func parseONNX(b []byte) (*File, error) {
	f := &File{Tensors: map[string]Tensor{}, Values: map[string]any{}}
	var products []matMul
	var sums [][]string // inputs of additions
	err := protobuf(b, func(field uint64, _ uint64, model []byte) error {
		if field != 7 {
			return nil
		}
		return protobuf(model, func(field uint64, _ uint64, part []byte) error {
			switch field {
			case 1:
				op, inputs, outputs, err := onnxNode(part)
				switch {
				case op == "MatMul" && len(inputs) == 2 && len(outputs) == 1:
					products = append(products, matMul{inputs[1], outputs[0]})
				case op == "Add":
					sums = append(sums, inputs)
				}
				return err
			case 5:
				name, t, err := onnxTensor(part)
				f.Tensors[name] = t
				return err
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	bias := map[string]string{} // by product
	for _, in := range sums {
		if len(in) == 2 {
			bias[in[0]], bias[in[1]] = in[1], in[0]
		}
	}
	for _, p := range products {
		t, known := f.Tensors[p.weight]
		name, ok := strings.CutSuffix(bias[p.output], ".bias")
		if _, taken := f.Tensors[name+".weight"]; !known || !ok || taken || len(t.Shape) != 2 {
			continue
		}
		t.Shape, t.transposed = []int{t.Shape[1], t.Shape[0]}, true
		f.Tensors[name+".weight"] = t
	}
	return f, nil
}

// onnxNode reads a NodeProto.
func onnxNode(b []byte) (op string, inputs, outputs []string, err error) {
	err = protobuf(b, func(field, _ uint64, value []byte) error {
		switch field {
		case 1:
			inputs = append(inputs, string(value))
		case 2:
			outputs = append(outputs, string(value))
		case 4:
			op = string(value)
		}
		return nil
	})
	return op, inputs, outputs, err
}

// onnxTensor reads a TensorProto.
func onnxTensor(b []byte) (name string, t Tensor, err error) {
	external := false
	var number uint64
	err = protobuf(b, func(field, n uint64, value []byte) error {
		switch field {
		case 1: // dims, packed or not
			if value == nil {
				t.Shape = append(t.Shape, int(min(n, math.MaxInt)))
				return nil
			}
			for len(value) > 0 {
				d, k := binary.Uvarint(value)
				if k <= 0 {
					return formatf("shape of a tensor is cut off")
				}
				t.Shape, value = append(t.Shape, int(min(d, math.MaxInt))), value[k:]
			}
		case 2:
			number = n
		case 4: // float_data, packed
			if number == 1 {
				t.data = value
			}
		case 8:
			name = string(value)
		case 9: // raw_data
			t.data = value
		case 14:
			external = n == 1
		}
		return nil
	})
	k, known := onnxKinds[number]
	switch {
	case err != nil:
		return name, t, err
	case external:
		return name, t, formatf("tensor %q is in another file", name)
	case known && k.kind.size(t.Shape, len(t.data)) != len(t.data):
		if k.kind.decode != nil && number != 2 && number != 3 && number != 9 {
			return name, t, formatf("tensor %q: %d bytes for shape %v of type %s", name, len(t.data), t.Shape, k.name)
		}
		known = false // a list of integers, which has no fixed size
	}
	if !known {
		return name, Tensor{Type: "ONNX", Shape: t.Shape}, nil
	}
	t.Type, t.kind = k.name, k.kind
	return name, t, nil
}

// protobuf calls visit for each field of a message, with a number, or with the bytes of a string,
// message or packed list, which are not nil.
func protobuf(b []byte, visit func(field, n uint64, value []byte) error) error {
	size := len(b)
	for len(b) > 0 {
		key, k := binary.Uvarint(b)
		if k <= 0 || key>>3 == 0 {
			return formatf("field at byte %d of %d of a message", size-len(b), size)
		}
		b = b[k:]
		var n uint64
		var value []byte
		switch key & 7 {
		case 0:
			if n, k = binary.Uvarint(b); k <= 0 {
				return formatf("number at byte %d of %d of a message", size-len(b), size)
			}
		case 1:
			k = 8
		case 2:
			length, used := binary.Uvarint(b)
			if used <= 0 || length > uint64(len(b)-used) {
				return formatf("field %d at byte %d of %d of a message is cut off", key>>3, size-len(b), size)
			}
			k = used + int(length)
			value = b[used:k:k]
		case 5:
			k = 4
		default:
			return formatf("field %d has the wire type %d", key>>3, key&7)
		}
		if k > len(b) {
			return formatf("field %d at byte %d of %d of a message is cut off", key>>3, size-len(b), size)
		}
		if err := visit(key>>3, n, value); err != nil {
			return err
		}
		b = b[k:]
	}
	return nil
}
