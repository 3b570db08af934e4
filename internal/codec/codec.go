// Package codec turns values into the bytes of Vecbolt's files and back. [Encoder] appends,
// [Decoder] reads with a sticky error, [CRC] is the one checksum of every format, and the FromBytes
// functions view mapped memory as numbers without copying where the machine allows it.
//
// Everything is little-endian. A Decoder accepts any bytes: it never panics, and never allocates
// more than its input is long. No type here is safe for concurrent use; the functions are.
package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

var (
	// ErrShort is returned when the input ends before the value does.
	ErrShort = errors.New("input too short")
	// ErrValue is returned when the bytes are there but cannot be a value of the wanted kind.
	ErrValue = errors.New("invalid value")
)

// Castagnoli is the table of CRC-32C (polynomial 0x1EDC6F41, iSCSI, RFC 3720), which amd64 and
// arm64 compute in hardware.
var Castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CRC returns the CRC-32C of the concatenation of parts.
func CRC(parts ...[]byte) uint32 {
	var crc uint32
	for _, p := range parts {
		crc = Update(crc, p)
	}
	return crc
}

// Update extends crc by b: it returns the CRC-32C of the bytes under crc followed by b. The CRC of
// nothing is 0.
func Update(crc uint32, b []byte) uint32 { return crc32.Update(crc, Castagnoli, b) }

// Encoder appends values to B. The zero value is ready; setting B = B[:0] reuses the memory.
type Encoder struct {
	B []byte
}

// U8 appends one byte.
func (e *Encoder) U8(v uint8) { e.B = append(e.B, v) }

// U16 appends 2 bytes.
func (e *Encoder) U16(v uint16) { e.B = binary.LittleEndian.AppendUint16(e.B, v) }

// U32 appends 4 bytes.
func (e *Encoder) U32(v uint32) { e.B = binary.LittleEndian.AppendUint32(e.B, v) }

// U64 appends 8 bytes.
func (e *Encoder) U64(v uint64) { e.B = binary.LittleEndian.AppendUint64(e.B, v) }

// Uvarint appends v in base 128, low bits first: 1 to 10 bytes.
func (e *Encoder) Uvarint(v uint64) { e.B = binary.AppendUvarint(e.B, v) }

// F64 appends the 8 bytes of an IEEE 754 double.
func (e *Encoder) F64(v float64) { e.U64(math.Float64bits(v)) }

// Bytes appends the length of b as a Uvarint, then b.
func (e *Encoder) Bytes(b []byte) {
	e.Uvarint(uint64(len(b)))
	e.Raw(b)
}

// String appends s as Bytes does.
func (e *Encoder) String(s string) {
	e.Uvarint(uint64(len(s)))
	e.B = append(e.B, s...)
}

// Raw appends b without a length.
func (e *Encoder) Raw(b []byte) { e.B = append(e.B, b...) }

// F32s appends 4 bytes per element, without a length.
func (e *Encoder) F32s(v []float32) { e.Raw(BytesFromF32s(v)) }

// Decoder reads values from a byte slice. The first failure sticks: every later read returns zero,
// and Err reports it.
type Decoder struct {
	b   []byte
	off int
	err error
}

// NewDecoder returns a Decoder that reads b from its start.
func NewDecoder(b []byte) *Decoder { return &Decoder{b: b} }

// Err returns the first failure with its offset, or nil. It wraps ErrShort, ErrValue or the error
// given to Fail.
func (d *Decoder) Err() error { return d.err }

// Offset returns the number of bytes read so far; after a failure, where the value that failed
// begins.
func (d *Decoder) Offset() int { return d.off }

// Len returns the number of bytes not read yet; 0 after a failure.
func (d *Decoder) Len() int { return len(d.Rest()) }

// Rest returns the bytes not read yet, a subslice of the input; nil after a failure.
func (d *Decoder) Rest() []byte {
	if d.err != nil {
		return nil
	}
	return d.b[d.off:]
}

// Fail records err at the current offset unless there is a failure already. A nil err is ignored.
func (d *Decoder) Fail(err error) {
	if d.err == nil && err != nil {
		d.err = fmt.Errorf("offset %d: %w", d.off, err)
	}
}

// take returns the next n bytes, or nil after recording ErrShort.
func (d *Decoder) take(n uint64) []byte {
	if d.err != nil {
		return nil
	}
	if n > uint64(len(d.b)-d.off) {
		d.Fail(ErrShort)
		return nil
	}
	end := d.off + int(n)
	b := d.b[d.off:end:end]
	d.off = end
	return b
}

// U8 reads one byte.
func (d *Decoder) U8() uint8 {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

// U16 reads 2 bytes.
func (d *Decoder) U16() uint16 {
	if b := d.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

// U32 reads 4 bytes.
func (d *Decoder) U32() uint32 {
	if b := d.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// U64 reads 8 bytes.
func (d *Decoder) U64() uint64 {
	if b := d.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Uvarint reads what Encoder.Uvarint wrote. Only the shortest spelling of a value is accepted.
func (d *Decoder) Uvarint() uint64 {
	v, n := binary.Uvarint(d.Rest())
	switch {
	case d.err != nil:
		return 0
	case n == 0:
		d.Fail(ErrShort)
		return 0
	case n < 0 || n > 1 && d.b[d.off+n-1] == 0:
		d.Fail(fmt.Errorf("%w: uvarint", ErrValue))
		return 0
	}
	d.off += n
	return v
}

// F64 reads the 8 bytes of an IEEE 754 double.
func (d *Decoder) F64() float64 { return math.Float64frombits(d.U64()) }

// Count reads a Uvarint that counts elements of at least size bytes each, size >= 1. It fails
// unless that many fit into the rest of the input, so the result may be used as a capacity.
func (d *Decoder) Count(size int) int {
	start := d.off
	n := d.Uvarint()
	if n > uint64(d.Len()/size) {
		d.off = start
		d.Fail(fmt.Errorf("count %d: %w", n, ErrShort))
		return 0
	}
	return int(n)
}

// Bytes reads a length and that many bytes. The result is a subslice of the input.
func (d *Decoder) Bytes() []byte {
	start := d.off
	n := d.Uvarint()
	if n > uint64(d.Len()) {
		d.off = start
		d.Fail(fmt.Errorf("length %d: %w", n, ErrShort))
		return nil
	}
	return d.take(n)
}

// String reads what Encoder.String wrote, as a copy. Any bytes are accepted, UTF-8 or not.
func (d *Decoder) String() string { return string(d.Bytes()) }

// Raw reads n bytes. The result is a subslice of the input.
func (d *Decoder) Raw(n int) []byte {
	if n < 0 {
		d.Fail(fmt.Errorf("%w: length %d", ErrValue, n))
		return nil
	}
	return d.take(uint64(n))
}

// F32s reads n float32 values, any bits, into a new slice.
func (d *Decoder) F32s(n int) []float32 {
	if n < 0 {
		d.Fail(fmt.Errorf("%w: length %d", ErrValue, n))
		return nil
	}
	b := d.take(uint64(n) * 4) // an int times 4 cannot wrap in 64 bits
	if b == nil {
		return nil
	}
	v := make([]float32, n)
	CopyF32s(v, b)
	return v
}
