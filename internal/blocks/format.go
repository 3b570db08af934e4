package blocks

import (
	"fmt"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// Constants of all these formats. They never change.
const (
	HeaderSize = fileformat.HeaderSize // bytes of the header page; the content follows
	Size       = 65536                 // bytes of a block; the last one may have fewer
	CRCSize    = 4                     // bytes of a checksum
)

// A Format is a kind of file.
type Format struct {
	Magic   string // 8 bytes
	Version uint32
	Name    string // prefix of error texts
}

// Header returns an encoder for the header page that holds magic and version.
// fileformat.SealHeader completes the page.
func (f *Format) Header() *codec.Encoder { return fileformat.NewHeader(f.Magic, f.Version) }

// Open verifies magic, checksum and version of the file b and returns a decoder for the header
// after these fields.
func (f *Format) Open(b []byte) (*codec.Decoder, error) {
	version, d, off, err := fileformat.OpenHeader(f.Magic, b)
	if err != nil {
		return nil, f.Corrupt(off, "header: %v", err)
	}
	if version != f.Version {
		return nil, fmt.Errorf("%s: %w: %d", f.Name, fileformat.ErrVersion, version)
	}
	return d, nil
}

// Corrupt returns the error for damage at an offset.
func (f *Format) Corrupt(off int64, format string, args ...any) error {
	return fmt.Errorf("%s: %w: offset %d: %s", f.Name, fileformat.ErrDamaged, off, fmt.Sprintf(format, args...))
}

// Count returns the number of blocks in content that ends at the file offset end, which is at least
// HeaderSize.
func Count(end int64) int64 { return (end - HeaderSize + Size - 1) / Size }

// TableSize returns the bytes of the checksums of the blocks of content that ends at end.
func TableSize(end int64) int64 { return Count(end) * CRCSize }

// block returns the number of the block that holds the file offset off.
func block(off int64) int64 { return (off - HeaderSize) / Size }

// End returns the file offset where the block that holds off ends, as if it were full.
func End(off int64) int64 { return HeaderSize + (block(off)+1)*Size }
