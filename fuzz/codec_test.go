package fuzz_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/vecbolt/vecbolt/internal/codec"
)

// FuzzDecoder reads arbitrary bytes by an arbitrary sequence of reads. Whatever was read, encoding
// it again gives the bytes that were consumed: there is one spelling of each value.
func FuzzDecoder(f *testing.F) {
	for i := range byte(64) {
		ops := []byte{i, i + 1, i * 7, 4, 5, i / 3, 9}
		var e codec.Encoder
		for _, op := range ops {
			switch op % 11 {
			case 4:
				e.Uvarint(1 << (i % 64))
			case 6, 7:
				e.Bytes(bytes.Repeat([]byte{i}, int(i)))
			default:
				e.U64(uint64(i) * 0x0101010101010101)
			}
		}
		f.Add(ops, e.B[:len(e.B)-int(i)%3])
	}
	f.Fuzz(func(t *testing.T, ops, data []byte) {
		d := codec.NewDecoder(data)
		var e codec.Encoder
		for _, op := range ops {
			if d.Offset()+d.Len() != len(data) || len(d.Rest()) != d.Len() {
				t.Fatalf("offset %d and %d left of %d bytes", d.Offset(), d.Len(), len(data))
			}
			before := len(e.B)
			switch op % 11 {
			case 0:
				e.U8(d.U8())
			case 1:
				e.U16(d.U16())
			case 2:
				e.U32(d.U32())
			case 3:
				e.U64(d.U64())
			case 4:
				e.Uvarint(d.Uvarint())
			case 5:
				e.F64(d.F64())
			case 6:
				e.Bytes(d.Bytes())
			case 7:
				e.String(d.String())
			case 8:
				e.Raw(d.Raw(int(op)))
			case 9:
				e.F32s(d.F32s(int(op / 11)))
			case 10:
				n := d.Count(4)
				if n > d.Len()/4 {
					t.Fatalf("count %d of 4 bytes each in %d bytes", n, d.Len())
				}
				e.Uvarint(uint64(n))
			}
			if err := d.Err(); err != nil {
				if !errors.Is(err, codec.ErrShort) && !errors.Is(err, codec.ErrValue) {
					t.Fatalf("unexpected error %v", err)
				}
				if d.Offset() != before || d.Len() != 0 {
					t.Fatalf("offset %d after a failure at %d, %d left", d.Offset(), before, d.Len())
				}
				e.B = e.B[:before]
				break
			}
		}
		if !bytes.Equal(e.B, data[:d.Offset()]) {
			t.Fatalf("read %x, encoded again %x", data[:d.Offset()], e.B)
		}
	})
}

// FuzzViews compares the views of bytes as numbers, at any alignment, with encoding/binary.
func FuzzViews(f *testing.F) {
	for n := range 56 {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(i*i + n)
		}
		f.Add(b, uint8(n%9))
	}
	f.Fuzz(func(t *testing.T, data []byte, skip uint8) {
		b := data[min(int(skip), len(data)):]
		u16, u32, u64, f32 := codec.U16sFromBytes(b), codec.U32sFromBytes(b), codec.U64sFromBytes(b), codec.F32sFromBytes(b)
		if len(u16) != len(b)/2 || len(u32) != len(b)/4 || len(u64) != len(b)/8 || len(f32) != len(b)/4 {
			t.Fatalf("%d bytes gave %d, %d, %d, %d elements", len(b), len(u16), len(u32), len(u64), len(f32))
		}
		for i, v := range u16 {
			if v != binary.LittleEndian.Uint16(b[2*i:]) {
				t.Fatalf("uint16 %d is %#x", i, v)
			}
		}
		for i, v := range u32 {
			if want := binary.LittleEndian.Uint32(b[4*i:]); v != want || math.Float32bits(f32[i]) != want {
				t.Fatalf("uint32 %d is %#x, as float %#x", i, v, math.Float32bits(f32[i]))
			}
		}
		for i, v := range u64 {
			if v != binary.LittleEndian.Uint64(b[8*i:]) {
				t.Fatalf("uint64 %d is %#x", i, v)
			}
		}
		for _, back := range [][]byte{codec.BytesFromU16s(u16), codec.BytesFromU32s(u32), codec.BytesFromU64s(u64), codec.BytesFromF32s(f32)} {
			if !bytes.Equal(back, b[:len(back)]) {
				t.Fatalf("%x came back as %x", b, back)
			}
		}
	})
}
