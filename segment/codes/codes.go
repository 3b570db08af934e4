package codes

import (
	"fmt"
	"sync/atomic"

	"github.com/vecbolt/vecbolt/internal/blocks"
	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/simd"
)

// Codes are the codes of one segment.
type Codes struct {
	file    *blocks.Content
	head    header
	lay     layout
	codes   []byte // and the padding
	mean    []float32
	scales  []float32
	levels  []float32
	resids  []float32
	squares []uint32
	nibbles []byte // and the padding; nil: none
	coarse  []float32
	root    *Codes // of blocks with one mean, the first

	rowsSeen atomic.Bool              // see RowsVerified
	sketches atomic.Pointer[sketches] // nil: none
}

// Parse opens the code file b for the segment ident. It verifies header, checksums of blocks and
// the mean; every other block when it is first used. b is kept: it must stay readable and unchanged
// while the Codes are used. Its address must be a multiple of 4, as mappings have it; otherwise,
// and on big-endian machines, everything except the codes is copied. Unverified bytes are copied
// too, and verified in b before use. The error wraps fileformat.ErrDamaged, fileformat.ErrVersion
// or fileformat.ErrMismatch.
func Parse(b []byte, ident Ident) (*Codes, error) {
	h, l, err := decodeHeader(b)
	if err != nil {
		return nil, err
	}
	if h.ident != ident {
		return nil, fmt.Errorf("codes: %w: have %+v, want %+v", fileformat.ErrMismatch, h.ident, ident)
	}
	content, err := format.Content(b, l.table, h.tableCRC)
	if err != nil {
		return nil, err
	}
	n := int64(ident.Rows) * wordSize
	c := &Codes{
		file: content, head: h, lay: l,
		codes:   b[headerSize:l.mean:l.mean],
		mean:    codec.F32sFromBytes(b[l.mean:][:ident.Dim*wordSize]),
		scales:  codec.F32sFromBytes(b[l.scales:][:n]),
		levels:  codec.F32sFromBytes(b[l.levels:][:n]),
		resids:  codec.F32sFromBytes(b[l.resids:][:n]),
		squares: codec.U32sFromBytes(b[l.squares:][:n]),
	}
	if h.nibbles {
		c.nibbles = b[l.nibbles:l.coarse:l.coarse]
		c.coarse = codec.F32sFromBytes(b[l.coarse:][:n])
	}
	if err := c.file.Touch(l.mean, l.scales); err != nil {
		return nil, err
	}
	if !simd.Finite(c.mean) {
		return nil, corrupt(l.mean, "mean is not finite")
	}
	return c, nil
}

// Len returns the number of rows.
func (c *Codes) Len() int { return c.head.ident.Rows }

// Dim returns the components per vector.
func (c *Codes) Dim() int { return c.head.ident.Dim }

// HasNibbles reports whether there are nibbles, which a scan reads before the codes.
func (c *Codes) HasNibbles() bool { return c.nibbles != nil }

// Outdated reports whether another file should replace this one: one of WriteSmall, if small, or
// one of Write. Where nibbles do not pay, the files are the same.
func (c *Codes) Outdated(small bool) bool {
	if small {
		return c.HasNibbles()
	}
	return c.head.small
}

// Ident returns the segment that the codes belong to.
func (c *Codes) Ident() Ident { return c.head.ident }

// Mean returns the mean that the codes refer to.
func (c *Codes) Mean() []float32 { return c.mean }

// Bytes returns the codes of all rows, Dim bytes each, and 64 bytes or more behind the last row.
// TouchRow must verify a row before its codes are used.
func (c *Codes) Bytes() []byte { return c.codes }

// TouchRow verifies the blocks that hold the codes of a row.
func (c *Codes) TouchRow(row int) error { return c.touchCodes(row, row+1) }

// ReachRow returns the memory that TouchRow and a reader of a row's codes touch.
func (c *Codes) ReachRow(row int) []byte {
	at := headerSize + int64(row)*int64(c.Dim())
	return c.file.Reach(at, at+int64(c.Dim()))
}

// VerifyOneRow verifies a block of codes that was not verified yet, if one is in memory.
func (c *Codes) VerifyOneRow() error { return c.file.VerifyOne(headerSize, c.lay.mean-sectionEnd) }

// RowsVerified reports whether all codes are verified, so that TouchRow is not needed. Unlike the
// other parts of the file, all readers need these.
func (c *Codes) RowsVerified() bool {
	if !c.rowsSeen.Load() {
		if !c.file.Touched(headerSize, c.lay.mean-sectionEnd) {
			return false
		}
		c.rowsSeen.Store(true)
	}
	return true
}

// Evicted reports whether the system has taken parts of the file out of memory.
func (c *Codes) Evicted() bool { return c.file.Evicted() }

// Checksum returns a checksum of the mean and the codes of all rows, the same with and without
// nibbles. It reads the checksums of blocks, and one block at most.
func (c *Codes) Checksum() (uint32, error) { return c.file.Checksum(c.lay.scales) }

// Verify compares all checksums that were not compared yet.
func (c *Codes) Verify() error { return c.file.Verify() }

// touchRows verifies the blocks of rows lo to hi-1, lo < hi.
func (c *Codes) touchRows(lo, hi int) error {
	if c.file.Verified() {
		return nil
	}
	if err := c.touchCodes(lo, hi); err != nil {
		return err
	}
	for _, section := range c.words() {
		if err := c.file.Touch(section+int64(lo)*wordSize, section+int64(hi)*wordSize); err != nil {
			return err
		}
	}
	return nil
}

func (c *Codes) touchCodes(lo, hi int) error {
	dim := int64(c.Dim())
	return c.file.Touch(headerSize+int64(lo)*dim, headerSize+int64(hi)*dim)
}

// words returns where the sections with a word for each row begin.
func (c *Codes) words() [4]int64 {
	return [...]int64{c.lay.scales, c.lay.levels, c.lay.resids, c.lay.squares}
}

// touchAt is touchRows for rows here and there. Many of them share the blocks of their words.
func (c *Codes) touchAt(rows []int32) error {
	if c.file.Verified() {
		return nil
	}
	first, end := 0, 0 // rows whose words were verified
	for _, r := range rows {
		row := int(r)
		if row >= first && row < end {
			if err := c.touchCodes(row, row+1); err != nil {
				return err
			}
			continue
		}
		if err := c.touchRows(row, row+1); err != nil {
			return err
		}
		first, end = row, c.Len()
		for _, section := range c.words() {
			end = min(end, int((blocks.End(section+int64(row)*wordSize)-section)/wordSize))
		}
	}
	return nil
}

// touchNibbles verifies the blocks that a scan of the nibbles of rows lo to hi-1 reads.
func (c *Codes) touchNibbles(lo, hi int) error {
	if c.file.Verified() {
		return nil
	}
	width := stride(c.Dim())
	if err := c.file.Touch(c.lay.nibbles+int64(lo)*width, c.lay.nibbles+int64(hi)*width); err != nil {
		return err
	}
	for _, section := range [...]int64{c.lay.coarse, c.lay.levels} {
		if err := c.file.Touch(section+int64(lo)*wordSize, section+int64(hi)*wordSize); err != nil {
			return err
		}
	}
	return nil
}
