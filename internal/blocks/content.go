package blocks

import (
	"math/bits"
	"sync/atomic"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// Content is the content of a file. Its methods may be used concurrently.
type Content struct {
	format *Format
	b      []byte // the file
	end    int64  // end of the content
	table  []uint32
	seen   []atomic.Uint64 // bit i: block i was verified
	left   atomic.Int64    // blocks not verified yet
	sweep  atomic.Int64    // the word of seen that VerifyOne looks at next
}

// Content returns the content of the file b. It ends at the offset end, and the checksums of its
// blocks follow up to the end of the file. crc is the checksum of these checksums. b must stay
// readable and unchanged.
func (f *Format) Content(b []byte, end int64, crc uint32) (*Content, error) {
	if codec.CRC(b[end:]) != crc {
		return nil, f.Corrupt(end, "checksum of checksums")
	}
	n := Count(end)
	c := &Content{format: f, b: b, end: end, table: codec.U32sFromBytes(b[end:]),
		seen: make([]atomic.Uint64, (n+63)/64)}
	c.left.Store(n)
	return c, nil
}

// Touch verifies the blocks of the file range [start, end) unless they were verified before.
// Several goroutines may verify the same block at once without harm.
func (c *Content) Touch(start, end int64) error {
	if start >= end {
		return nil
	}
	for i := block(start); i <= block(end-1); i++ {
		word, bit := &c.seen[i/64], uint64(1)<<(i%64)
		if word.Load()&bit != 0 {
			continue
		}
		from := HeaderSize + i*Size
		if got := codec.CRC(c.b[from:min(from+Size, c.end)]); got != c.table[i] {
			return c.format.Corrupt(from, "checksum %08x instead of %08x", got, c.table[i])
		}
		if word.Or(bit)&bit == 0 {
			c.left.Add(-1)
		}
	}
	return nil
}

// Touched reports whether the blocks of the file range [start, end) are verified.
func (c *Content) Touched(start, end int64) bool {
	if c.Verified() || start >= end {
		return true
	}
	for i := block(start); i <= block(end-1); i++ {
		if c.seen[i/64].Load()>>(i%64)&1 == 0 {
			return false
		}
	}
	return true
}

// Checksum returns a checksum of the content up to the offset end, whatever follows there. It reads
// the checksums of whole blocks, and verifies the rest.
func (c *Content) Checksum(end int64) (uint32, error) {
	rest := end - (end-HeaderSize)%Size
	if err := c.Touch(rest, end); err != nil {
		return 0, err
	}
	return codec.CRC(c.b[c.end:][:(rest-HeaderSize)/Size*CRCSize], c.b[rest:end]), nil
}

// Reach returns the memory that a reader of the file range [start, end) touches: the range, with
// the rest of its blocks while these are to be verified.
func (c *Content) Reach(start, end int64) []byte {
	if !c.Verified() && start < end {
		first, last := block(start), block(end-1)
		if c.seen[first/64].Load()>>(first%64)&1 == 0 {
			start = HeaderSize + first*Size
		}
		if c.seen[last/64].Load()>>(last%64)&1 == 0 {
			end = min(HeaderSize+(last+1)*Size, c.end)
		}
	}
	return c.b[start:end]
}

// VerifyOne verifies a block of the file range [start, end) that was not verified yet and that the
// system has at hand. Readers that all use the same few blocks so come to the end of verifying.
func (c *Content) VerifyOne(start, end int64) error {
	if c.Verified() || start >= end {
		return nil
	}
	first, last := block(start), block(end-1)
	for range last/64 - first/64 + 1 {
		word := first/64 + c.sweep.Load()%(last/64-first/64+1)
		for open := ^c.seen[word].Load(); open != 0; open &= open - 1 {
			i := word*64 + int64(bits.TrailingZeros64(open))
			if i < first || i > last || !vfs.Resident(c.b[HeaderSize+i*Size:]) {
				continue
			}
			from := HeaderSize + i*Size
			return c.Touch(from, min(from+Size, c.end))
		}
		c.sweep.Add(1)
	}
	return nil
}

// Evicted looks for a sample of the verified blocks, and says yes if three of them are gone.
const (
	sampled = 32
	gone    = 3
)

// Evicted reports whether the system has taken parts of the file out of memory again: a tenth of a
// sample of the verified blocks, which were in memory once.
func (c *Content) Evicted() bool {
	step := max(1, (Count(c.end)-c.left.Load())/sampled)
	verified, absent := int64(0), 0
	for i := range c.seen {
		for word := c.seen[i].Load(); word != 0; word &= word - 1 {
			block := int64(i)*64 + int64(bits.TrailingZeros64(word))
			if verified%step == 0 && !vfs.Resident(c.b[HeaderSize+block*Size:]) {
				if absent++; absent == gone {
					return true
				}
			}
			verified++
		}
	}
	return false
}

// Verified reports whether all blocks are verified, so that Touch is not needed.
func (c *Content) Verified() bool { return c.left.Load() == 0 }

// Verify verifies all remaining blocks.
func (c *Content) Verify() error { return c.Touch(HeaderSize, c.end) }
