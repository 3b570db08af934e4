package bitset

import (
	"iter"
	"maps"
	"math/bits"
	"slices"
)

const (
	// ChunkBits is the number of bits in one chunk of a [Cow].
	ChunkBits = 32768
	// ChunkWords is the number of 64-bit words in one chunk: 4096 bytes.
	ChunkWords = ChunkBits / 64
)

type chunk [ChunkWords]uint64

// Cow is an immutable set of non-negative integers. Adding bits gives a new Cow which shares every
// chunk that did not change with the old one. The zero value and a nil *Cow are empty sets. Safe
// for concurrent use.
type Cow struct {
	chunks []*chunk // nil: no bit of the chunk is set
	count  int
}

// FromChunks returns the set made of the given chunks: word 0 of chunk c holds the 64 bits from
// c*ChunkBits on. The words are copied; of a chunk shorter than ChunkWords the rest is zero. It
// panics on a negative index and on a longer chunk. Memory is proportional to the largest index:
// callers that read indexes from disk check them first.
func FromChunks(m map[int][]uint64) *Cow {
	if len(m) == 0 {
		return &Cow{}
	}
	c := &Cow{chunks: make([]*chunk, slices.Max(slices.Collect(maps.Keys(m)))+1)}
	for i, words := range m {
		if n := Set(words).Count(); n != 0 {
			c.chunks[i] = new(chunk)
			copy(c.chunks[i][:len(words)], words)
			c.count += n
		}
	}
	return c
}

// Has reports whether i is in the set.
func (c *Cow) Has(i int) bool {
	ch := c.chunk(i / ChunkBits)
	return i >= 0 && ch != nil && Set(ch[:]).Has(i%ChunkBits)
}

// With returns the union of c and bits, copying only the chunks that gain a bit. It returns c
// itself when all bits are there already. It panics on a negative bit.
func (c *Cow) With(bits ...int) *Cow {
	next := c
	for _, i := range bits {
		if next.Has(i) {
			continue
		}
		if next == c {
			next = c.clone()
		}
		k := i / ChunkBits
		if k >= len(next.chunks) {
			next.chunks = append(next.chunks, make([]*chunk, k+1-len(next.chunks))...)
		}
		switch old := c.chunk(k); {
		case next.chunks[k] == nil:
			next.chunks[k] = new(chunk)
		case next.chunks[k] == old:
			own := *old
			next.chunks[k] = &own
		}
		Set(next.chunks[k][:]).Set(i % ChunkBits)
		next.count++
	}
	return next
}

// Count returns the number of members, without counting.
func (c *Cow) Count() int {
	if c == nil {
		return 0
	}
	return c.count
}

// CountRange returns the number of members in [lo, hi).
func (c *Cow) CountRange(lo, hi int) int {
	n := 0
	for k, words := range c.Chunks() {
		base := k * ChunkBits
		if base >= hi {
			break
		}
		n += Set(words).CountRange(lo-base, hi-base)
	}
	return n
}

// AndNotInto removes the members of c from dst. Members past the end of dst are ignored.
func (c *Cow) AndNotInto(dst Set) {
	for k, words := range c.Chunks() {
		if k*ChunkWords >= len(dst) {
			return
		}
		dst[k*ChunkWords:].AndNot(words)
	}
}

// Chunks yields the non-empty chunks in ascending order: the index and all ChunkWords words, which
// must not be written.
func (c *Cow) Chunks() iter.Seq2[int, []uint64] {
	return func(yield func(int, []uint64) bool) {
		if c == nil {
			return
		}
		for k, ch := range c.chunks {
			if ch != nil && !yield(k, ch[:]) {
				return
			}
		}
	}
}

// All yields the members in ascending order.
func (c *Cow) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for k, words := range c.Chunks() {
			for w, x := range words {
				for ; x != 0; x &= x - 1 {
					if !yield(k*ChunkBits + w*64 + bits.TrailingZeros64(x)) {
						return
					}
				}
			}
		}
	}
}

// Changed returns, in ascending order, the indexes of the chunks that c does not share with old.
// When c was derived from old by [Cow.With] these are exactly the chunks that differ.
func (c *Cow) Changed(old *Cow) []int {
	n := 0
	for _, x := range []*Cow{c, old} {
		if x != nil {
			n = max(n, len(x.chunks))
		}
	}
	var changed []int
	for k := range n {
		if c.chunk(k) != old.chunk(k) {
			changed = append(changed, k)
		}
	}
	return changed
}

// Chunk returns the words of chunk k, which must not be written, or nil when the chunk is empty.
func (c *Cow) Chunk(k int) []uint64 {
	if ch := c.chunk(k); ch != nil {
		return ch[:]
	}
	return nil
}

func (c *Cow) chunk(k int) *chunk {
	if c == nil || uint(k) >= uint(len(c.chunks)) {
		return nil
	}
	return c.chunks[k]
}

func (c *Cow) clone() *Cow {
	if c == nil {
		return &Cow{}
	}
	return &Cow{chunks: slices.Clone(c.chunks), count: c.count}
}
