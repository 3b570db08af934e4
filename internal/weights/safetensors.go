package weights

import (
	"encoding/binary"
	"encoding/json"
)

// maxHeader is the longest header that the format allows, in bytes.
const maxHeader = 100_000_000

var safetensorsKinds = map[string]kind{
	"F64": f64, "F32": f32, "F16": f16, "BF16": bf16,
	"I64": i64, "I32": i32, "I16": i16, "I8": i8, "U8": u8, "BOOL": u8,
}

func parseSafetensors(b []byte) (*File, error) {
	if len(b) < 8 {
		return nil, formatf("%d bytes are neither GGUF, safetensors nor ONNX", len(b))
	}
	n := binary.LittleEndian.Uint64(b)
	if n > maxHeader || n > uint64(len(b)-8) {
		return nil, formatf("header of %d bytes in a file of %d", n, len(b))
	}
	var header map[string]json.RawMessage
	if err := json.Unmarshal(b[8:8+n], &header); err != nil {
		return nil, formatf("header: %w", err)
	}
	data := b[8+n:]
	f := &File{Tensors: make(map[string]Tensor, len(header)), Values: map[string]any{}}
	for name, raw := range header {
		if name == "__metadata__" {
			var values map[string]string
			if err := json.Unmarshal(raw, &values); err != nil {
				return nil, formatf("metadata: %w", err)
			}
			for k, v := range values {
				f.Values[k] = v
			}
			continue
		}
		var info struct {
			Type    string    `json:"dtype"`
			Shape   []int     `json:"shape"`
			Offsets [2]uint64 `json:"data_offsets"`
		}
		if err := json.Unmarshal(raw, &info); err != nil {
			return nil, formatf("tensor %q: %w", name, err)
		}
		k, known := safetensorsKinds[info.Type]
		from, to := info.Offsets[0], info.Offsets[1]
		switch {
		case from > to || to > uint64(len(data)):
			return nil, formatf("tensor %q: bytes %d to %d of %d", name, from, to, len(data))
		case known && k.size(info.Shape, len(data)) != int(to-from):
			return nil, formatf("tensor %q: %d bytes for shape %v of type %s", name, to-from, info.Shape, info.Type)
		}
		f.Tensors[name] = Tensor{Type: info.Type, Shape: info.Shape, kind: k, data: data[from:to]}
	}
	return f, nil
}
