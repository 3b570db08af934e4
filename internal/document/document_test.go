package document

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"
)

// msgpackValue reads a value with the library and converts it to the types of documents.
func msgpackValue(b []byte) (v any, rest int, err error) {
	in := bytes.NewReader(b)
	if v, err = msgpack.NewDecoder(in).DecodeInterface(); err != nil {
		return nil, 0, err
	}
	return widened(v), in.Len(), nil
}

func widened(v any) any {
	switch v := v.(type) {
	case int8:
		return int64(v)
	case int16:
		return int64(v)
	case int32:
		return int64(v)
	case uint8:
		return int64(v)
	case uint16:
		return int64(v)
	case uint32:
		return int64(v)
	case uint64:
		return int64(v)
	case float32:
		return float64(v)
	case []any:
		for i := range v {
			v[i] = widened(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = widened(v[k])
		}
	}
	return v
}

// drawValue writes a value in one of its encodings in msgpack.
func drawValue(t *rapid.T, e *msgpack.Encoder, depth int) error {
	kinds := 11
	if depth == 4 {
		kinds = 9
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return e.EncodeNil()
	case 1:
		return e.EncodeBool(rapid.Bool().Draw(t, "bool"))
	case 2:
		return e.EncodeInt(rapid.Int64().Draw(t, "int"))
	case 3:
		return e.EncodeInt8(rapid.Int8().Draw(t, "int8"))
	case 4:
		return e.EncodeInt32(rapid.Int32().Draw(t, "int32"))
	case 5:
		return e.EncodeUint(rapid.Uint64().Draw(t, "uint"))
	case 6:
		return e.EncodeFloat32(rapid.Float32().Draw(t, "float32"))
	case 7:
		return e.EncodeFloat64(rapid.Float64().Draw(t, "float64"))
	case 8:
		return e.EncodeString(rapid.StringN(0, 300, -1).Draw(t, "string"))
	case 9:
		n := rapid.IntRange(0, 20).Draw(t, "list")
		if err := e.EncodeArrayLen(n); err != nil {
			return err
		}
		for range n {
			if err := drawValue(t, e, depth+1); err != nil {
				return err
			}
		}
	default:
		n := rapid.IntRange(0, 20).Draw(t, "map")
		if err := e.EncodeMapLen(n); err != nil {
			return err
		}
		for range n {
			if err := e.EncodeString(rapid.StringN(0, 40, -1).Draw(t, "key")); err != nil {
				return err
			}
			if err := drawValue(t, e, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestDecoderIsMsgpack compares the reader with the library on values that the library writes:
// whole, cut, and with a changed byte. The reader may refuse values that no document holds. Then
// the library does not get them: a changed byte can claim a list of 2^32 values, for which it
// allocates the memory at once.
func TestDecoderIsMsgpack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var buf bytes.Buffer
		if err := drawValue(t, msgpack.NewEncoder(&buf), 0); err != nil {
			t.Fatal(err)
		}
		b := buf.Bytes()
		damaged := rapid.Bool().Draw(t, "damaged")
		if damaged {
			b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
			b = b[:rapid.IntRange(1, len(b)).Draw(t, "length")]
		}
		r, s := reader{b: b}, reader{b: b}
		got := r.value(0)
		s.skip(0)
		if r.err == nil && (s.err != nil || len(s.b) != len(r.b)) {
			t.Fatalf("% x: a value ends %d bytes before the end, skipped %d: %v", b, len(r.b), len(s.b), s.err)
		}
		if r.err != nil && damaged {
			return
		}
		want, rest, err := msgpackValue(b)
		switch {
		case r.err != nil || err != nil:
			t.Fatalf("% x: reader: %v; library: %v", b, r.err, err)
		case rest != len(r.b):
			t.Fatalf("% x: %d bytes left, library leaves %d", b, len(r.b), rest)
		case !cmp.Equal(got, want, cmpopts.EquateNaNs(), cmpopts.EquateEmpty()):
			t.Fatalf("% x: %s", b, cmp.Diff(want, got))
		}
	})
}

// TestStoredFormIsMsgpack compares a writer with the library, byte by byte, and reads the bytes
// back.
func TestStoredFormIsMsgpack(t *testing.T) {
	values := []any{nil, true, false, 0.0, -1.5, math.MaxFloat64, math.Copysign(0, -1)}
	for bits := range 64 {
		for _, d := range []int64{-1, 0, 1} {
			v := int64(1)<<bits + d
			values = append(values, v, -v)
		}
	}
	for _, n := range []int{0, 1, 15, 16, 31, 32, 255, 256, 65535, 65536} {
		values = append(values, strings.Repeat("x", n))
		list, object := make([]any, n), make(map[string]any, n)
		for i := range list {
			list[i], object[fmt.Sprint("k", i)] = true, nil
		}
		values = append(values, list, object)
	}
	for _, v := range values {
		var want bytes.Buffer
		enc := msgpack.NewEncoder(&want)
		enc.UseCompactInts(true)
		enc.SetSortMapKeys(true)
		d := Document{ID: "an id", Text: strings.Repeat("t", 300), Metadata: map[string]any{"v": v}}
		if err := enc.Encode([]any{d.ID, d.Metadata, d.Text}); err != nil {
			t.Fatal(err)
		}
		got, err := Append(nil, &d)
		if err != nil {
			t.Fatalf("%.60v: %v", v, err)
		}
		if !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%.60v: % .60x, want % .60x", v, got, want.Bytes())
		}
		back, err := Decode(got, All)
		if err != nil || !cmp.Equal(back, d) {
			t.Errorf("%.60v: read back %.200v, %v", v, back, err)
		}
	}
}
