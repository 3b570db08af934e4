package blocks

import (
	"encoding/binary"
	"fmt"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// Numbers of all these formats. They never change.
const (
	HeaderSize = 4096  // bytes of the header page; content begins here
	CRCOffset  = 4092  // of the header's own checksum, the same in every version of every format
	Size       = 65536 // bytes of a block; the last one may have fewer
	CRCSize    = 4     // bytes of a checksum

	magicSize = 8
)

// A Format is a kind of file.
type Format struct {
	Magic   string // 8 bytes
	Version uint32
	Name    string // starts the text of errors
}

// Header returns an encoder for the header page, in which magic and version are written. Seal ends
// the page.
func (f *Format) Header() *codec.Encoder {
	e := &codec.Encoder{B: make([]byte, 0, HeaderSize)}
	e.Raw([]byte(f.Magic))
	e.U32(f.Version)
	return e
}

// Seal returns the whole header page: what e has, zeros, and the checksum.
func Seal(e *codec.Encoder) []byte {
	e.B = e.B[:CRCOffset]
	e.U32(codec.CRC(e.B))
	return e.B
}

// Open verifies magic, checksum and version of the file b and returns a decoder for what follows
// them in the header.
func (f *Format) Open(b []byte) (*codec.Decoder, error) {
	if len(b) < HeaderSize || string(b[:magicSize]) != f.Magic {
		return nil, f.Corrupt(0, "no header")
	}
	// The checksum comes first: it has this place in every version.
	if got, want := codec.CRC(b[:CRCOffset]), binary.LittleEndian.Uint32(b[CRCOffset:]); got != want {
		return nil, f.Corrupt(CRCOffset, "checksum %08x instead of %08x", got, want)
	}
	d := codec.NewDecoder(b[magicSize:CRCOffset])
	if v := d.U32(); v != f.Version {
		return nil, fmt.Errorf("%s: %w: %d", f.Name, fileformat.ErrVersion, v)
	}
	return d, nil
}

// Corrupt returns the error that says what is wrong at an offset.
func (f *Format) Corrupt(off int64, format string, args ...any) error {
	return fmt.Errorf("%s: %w: offset %d: %s", f.Name, fileformat.ErrDamaged, off, fmt.Sprintf(format, args...))
}

// Count returns how many blocks there are in content that ends at the file offset end, which is not
// before HeaderSize.
func Count(end int64) int64 { return (end - HeaderSize + Size - 1) / Size }

// TableSize returns the bytes of the checksums of these blocks.
func TableSize(end int64) int64 { return Count(end) * CRCSize }

// block returns the number of the block that holds the file offset off.
func block(off int64) int64 { return (off - HeaderSize) / Size }

// End returns the file offset where that block ends, had it all its bytes.
func End(off int64) int64 { return HeaderSize + (block(off)+1)*Size }
