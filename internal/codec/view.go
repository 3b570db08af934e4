package codec

import (
	"encoding/binary"
	"unsafe"
)

// number is the constraint of the array element types in files.
type number interface {
	~uint16 | ~uint32 | ~uint64 | ~float32
}

// nativeOrder tells whether this machine keeps numbers in the order of our files.
var nativeOrder = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// F32sFromBytes returns the little-endian float32 values in b. If b is aligned and the machine
// little-endian, the result shares b's memory and must not be written to; otherwise it is a decoded
// copy. Bytes beyond the last whole element are ignored.
func F32sFromBytes(b []byte) []float32 { return view[float32](b) }

// U64sFromBytes is F32sFromBytes for uint64.
func U64sFromBytes(b []byte) []uint64 { return view[uint64](b) }

// U32sFromBytes is F32sFromBytes for uint32.
func U32sFromBytes(b []byte) []uint32 { return view[uint32](b) }

// U16sFromBytes is F32sFromBytes for uint16.
func U16sFromBytes(b []byte) []uint16 { return view[uint16](b) }

// CopyF32s sets dst to the little-endian float32 values at the start of b, any bits.
func CopyF32s(dst []float32, b []byte) { reorder(raw(dst), b, 4) }

// BytesFromF32s returns the little-endian bytes of v: on a little-endian machine v's own memory,
// which must not be written to, otherwise an encoded copy.
func BytesFromF32s(v []float32) []byte { return unview(v) }

// BytesFromU64s is BytesFromF32s for uint64.
func BytesFromU64s(v []uint64) []byte { return unview(v) }

// BytesFromU32s is BytesFromF32s for uint32.
func BytesFromU32s(v []uint32) []byte { return unview(v) }

// BytesFromU16s is BytesFromF32s for uint16.
func BytesFromU16s(v []uint16) []byte { return unview(v) }

func view[T number](b []byte) []T {
	var zero T
	size := unsafe.Sizeof(zero)
	n := len(b) / int(size)
	if n == 0 {
		return nil
	}
	if p := unsafe.Pointer(unsafe.SliceData(b)); nativeOrder && uintptr(p)%unsafe.Alignof(zero) == 0 {
		return unsafe.Slice((*T)(p), n)
	}
	v := make([]T, n)
	reorder(raw(v), b, int(size))
	return v
}

func unview[T number](v []T) []byte {
	if nativeOrder || len(v) == 0 {
		return raw(v)
	}
	b := make([]byte, len(raw(v)))
	reorder(b, raw(v), len(b)/len(v))
	return b
}

// raw returns the memory of v.
func raw[T number](v []T) []byte {
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), uintptr(len(v))*unsafe.Sizeof(zero))
}

// reorder copies len(dst) bytes between file order and machine order, in elements of size bytes.
func reorder(dst, src []byte, size int) {
	if nativeOrder {
		copy(dst, src)
		return
	}
	for i := range dst {
		dst[i] = src[i-i%size+size-1-i%size]
	}
}

// OffsetIn returns the offset in b of the byte at the memory address addr, and whether it is there
// at all. It turns the address of a fault in a mapped file into a file offset.
func OffsetIn(b []byte, addr uintptr) (offset int64, ok bool) {
	start := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	if addr < start || addr-start >= uintptr(len(b)) {
		return 0, false
	}
	return int64(addr - start), true
}
