package fileformat

import (
	"encoding/binary"
	"fmt"

	"github.com/vecbolt/vecbolt/internal/codec"
)

// A header page begins with a magic of 8 bytes and a version, and ends with its own checksum. These
// numbers are the same in every version of every format that has one.
const (
	HeaderSize = 4096 // bytes of the page; the content follows
	HeaderCRC  = 4092 // offset of the checksum of the bytes before it

	magicSize = 8
)

// NewHeader returns an encoder for a header page, after the magic and the version. SealHeader
// completes the page.
func NewHeader(magic string, version uint32) *codec.Encoder {
	e := &codec.Encoder{B: make([]byte, 0, HeaderSize)}
	e.Raw([]byte(magic))
	e.U32(version)
	return e
}

// SealHeader returns the whole header page: the bytes of e, zeros, and the checksum.
func SealHeader(e *codec.Encoder) []byte {
	e.B = e.B[:HeaderCRC]
	e.U32(codec.CRC(e.B))
	return e.B
}

// OpenHeader verifies the magic and the checksum of the header page that b begins with, and returns
// its version and a decoder for the bytes after the version. The checksum comes before the version,
// because only the checksum is the same in every version. An error wraps ErrFormat or ErrChecksum;
// off is then the offset of the damage.
func OpenHeader(magic string, b []byte) (version uint32, d *codec.Decoder, off int64, err error) {
	if len(b) < HeaderSize {
		return 0, nil, 0, fmt.Errorf("%w: no header in %d bytes", ErrFormat, len(b))
	}
	if got := b[:magicSize]; string(got) != magic {
		return 0, nil, 0, fmt.Errorf("%w: magic %q", ErrFormat, got)
	}
	if codec.CRC(b[:HeaderCRC]) != binary.LittleEndian.Uint32(b[HeaderCRC:]) {
		return 0, nil, HeaderCRC, ErrChecksum
	}
	d = codec.NewDecoder(b[magicSize:HeaderCRC])
	return d.U32(), d, 0, nil
}
