package codec

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestCRC(t *testing.T) {
	const want uint32 = 0xe3069283 // the published check value of CRC-32C
	if got := CRC([]byte("123456789")); got != want {
		t.Errorf("CRC = %#x, want %#x", got, want)
	}
	if got := CRC([]byte("1234"), nil, []byte("56789")); got != want {
		t.Errorf("CRC of parts = %#x, want %#x", got, want)
	}
	if got := Update(Update(0, []byte("12")), []byte("3456789")); got != want {
		t.Errorf("Update = %#x, want %#x", got, want)
	}
}

func TestEncoding(t *testing.T) {
	var e Encoder
	e.U8(1)
	e.U16(0x0203)
	e.U32(0x04050607)
	e.U64(0x08090a0b0c0d0e0f)
	e.Uvarint(300)
	e.F64(1)
	e.Bytes([]byte("ab"))
	e.String("c")
	e.Raw([]byte("d"))
	e.F32s([]float32{1, -2})
	want := []byte{
		1, 3, 2, 7, 6, 5, 4, 15, 14, 13, 12, 11, 10, 9, 8, 0xac, 2,
		0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 2, 'a', 'b', 1, 'c', 'd', 0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0,
	}
	if diff := cmp.Diff(want, e.B); diff != "" {
		t.Fatal(diff)
	}

	d := NewDecoder(e.B)
	got := []any{d.U8(), d.U16(), d.U32(), d.U64(), d.Uvarint(), d.F64(), d.Bytes(), d.String(), d.Raw(1), d.F32s(2)}
	if diff := cmp.Diff([]any{
		uint8(1), uint16(0x0203), uint32(0x04050607), uint64(0x08090a0b0c0d0e0f), uint64(300), 1.0,
		[]byte("ab"), "c", []byte("d"), []float32{1, -2},
	}, got); diff != "" {
		t.Error(diff)
	}
	if d.Err() != nil || d.Len() != 0 || d.Offset() != len(e.B) {
		t.Errorf("at the end: err %v, %d left, offset %d", d.Err(), d.Len(), d.Offset())
	}
	for n := range e.B {
		d := NewDecoder(e.B[:n])
		d.U8()
		d.U16()
		d.U32()
		d.U64()
		d.Uvarint()
		d.F64()
		d.Bytes()
		_ = d.String()
		d.Raw(1)
		d.F32s(2)
		if !errors.Is(d.Err(), ErrShort) {
			t.Errorf("truncated to %d bytes: %v", n, d.Err())
		}
	}
}

func TestDecoderRefuses(t *testing.T) {
	huge := binary.AppendUvarint(nil, 1<<63)
	for _, c := range []struct {
		name string
		in   []byte
		read func(*Decoder)
		want error
		msg  string
	}{
		{"empty uvarint", nil, func(d *Decoder) { d.Uvarint() }, ErrShort, "offset 0: input too short"},
		{"cut uvarint", []byte{0x80}, func(d *Decoder) { d.Uvarint() }, ErrShort, ""},
		{"long uvarint", slices.Repeat([]byte{0xff}, 11), func(d *Decoder) { d.Uvarint() }, ErrValue, ""},
		{"padded uvarint", []byte{0x81, 0}, func(d *Decoder) { d.Uvarint() }, ErrValue, "offset 0: invalid value: uvarint"},
		{"length 2^63", huge, func(d *Decoder) { d.Bytes() }, ErrShort, ""},
		{"length 5 of 1", []byte{5, 1}, func(d *Decoder) { _ = d.String() }, ErrShort, "offset 0: length 5: input too short"},
		{"count 2^63", huge, func(d *Decoder) { d.Count(1) }, ErrShort, ""},
		{"count 2 x 4 in 7", []byte{2, 1, 2, 3, 4, 5, 6, 7}, func(d *Decoder) { d.Count(4) }, ErrShort, ""},
		{"negative raw", []byte{1}, func(d *Decoder) { d.Raw(-1) }, ErrValue, ""},
		{"negative floats", []byte{1}, func(d *Decoder) { d.F32s(-1) }, ErrValue, ""},
		{"most floats", []byte{1}, func(d *Decoder) { d.F32s(math.MaxInt) }, ErrShort, ""},
		{"own reason", []byte{1, 2}, func(d *Decoder) { d.U8(); d.Fail(ErrValue) }, ErrValue, "offset 1: invalid value"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := NewDecoder(c.in)
			d.Fail(nil)
			c.read(d)
			first := d.Err()
			if !errors.Is(first, c.want) || c.msg != "" && first.Error() != c.msg {
				t.Fatalf("err = %v, want %v %q", first, c.want, c.msg)
			}
			d.Fail(errors.New("later"))
			if d.U8() != 0 || d.U16() != 0 || d.U32() != 0 || d.U64() != 0 || d.Uvarint() != 0 || d.F64() != 0 ||
				d.Count(1) != 0 || d.Bytes() != nil || d.String() != "" || d.Raw(0) != nil || d.F32s(0) != nil ||
				d.Rest() != nil || d.Len() != 0 || d.Err() != first {
				t.Error("the failure does not stick")
			}
		})
	}
	d := NewDecoder([]byte{2, 1, 2, 3, 4, 5, 6, 7, 8})
	if n := d.Count(4); n != 2 || d.Err() != nil {
		t.Errorf("Count = %d, %v", n, d.Err())
	}
}

func TestUvarintRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Uint64().Draw(t, "v")
		var e Encoder
		e.Uvarint(v)
		d := NewDecoder(e.B)
		if got := d.Uvarint(); got != v || d.Err() != nil || d.Len() != 0 {
			t.Fatalf("got %d, %v", got, d.Err())
		}
	})
}

// otherOrder runs fn natively, then through the portable conversion for the opposite byte order.
func otherOrder(t *testing.T, fn func(t *testing.T)) {
	t.Run("native", fn)
	defer func(v bool) { nativeOrder = v }(nativeOrder)
	nativeOrder = !nativeOrder
	t.Run("other", fn)
}

func TestViews(t *testing.T) {
	buf := make([]byte, 8*8)
	otherOrder(t, func(t *testing.T) {
		for off := range 9 {
			for n := range 20 {
				b := buf[off : off+n]
				for i := range b {
					b[i] = byte(i*37 + 1)
				}
				checkView(t, b, U16sFromBytes(b), BytesFromU16s)
				checkView(t, b, U32sFromBytes(b), BytesFromU32s)
				checkView(t, b, U64sFromBytes(b), BytesFromU64s)
				checkView(t, b, F32sFromBytes(b), BytesFromF32s)
			}
		}
	})
	b := []byte{1, 2, 3, 4, 5, 6, 7, 8}
	if got := U16sFromBytes(b); got[0] != 0x0201 || got[3] != 0x0807 {
		t.Errorf("U16s = %x", got)
	}
	if got := U32sFromBytes(b); got[0] != 0x04030201 || got[1] != 0x08070605 {
		t.Errorf("U32s = %x", got)
	}
	if got := U64sFromBytes(b); got[0] != 0x0807060504030201 {
		t.Errorf("U64s = %x", got)
	}
	if got := F32sFromBytes([]byte{0, 0, 0x80, 0x3f}); got[0] != 1 {
		t.Errorf("F32s = %v", got)
	}
}

// checkView tests that v are the whole elements of b, and that they give those bytes back.
func checkView[T number](t *testing.T, b []byte, v []T, bytes func([]T) []byte) {
	t.Helper()
	size := binary.Size(T(0))
	if len(v) != len(b)/size {
		t.Fatalf("%d elements of %d bytes from %d bytes", len(v), size, len(b))
	}
	if got := bytes(v); !slices.Equal(got, b[:len(v)*size]) {
		t.Fatalf("%d bytes: %x came back as %x", size, b, got)
	}
}

func TestViewSharesMemory(t *testing.T) {
	if !nativeOrder {
		t.Skip("a big-endian machine copies")
	}
	v := []float32{1, 2, 3}
	if got := F32sFromBytes(BytesFromF32s(v)); &got[0] != &v[0] {
		t.Error("an aligned view is a copy")
	}
	if n := testing.AllocsPerRun(10, func() { F32sFromBytes(BytesFromF32s(v)) }); n != 0 {
		t.Errorf("%v allocations per view", n)
	}
}

func TestOffsetIn(t *testing.T) {
	b := make([]byte, 10)
	if off, ok := OffsetIn(b, 0); ok {
		t.Errorf("address 0 is found at %d", off)
	}
	start := uintptr(unsafe.Pointer(&b[0]))
	for i := range b {
		if off, ok := OffsetIn(b, start+uintptr(i)); !ok || off != int64(i) {
			t.Errorf("byte %d found at %d, %v", i, off, ok)
		}
	}
	if _, ok := OffsetIn(b, start+10); ok {
		t.Error("an address behind the slice is found")
	}
	if _, ok := OffsetIn(nil, start); ok {
		t.Error("an address is found in nothing")
	}
}
