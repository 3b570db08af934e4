// Package bitset holds sets of row numbers. [Set] is a plain mutable bit vector, the currency of
// filters and scans: a selection of the rows of one part. [Cow] is an immutable set in chunks that
// share memory between versions, for the dead rows of a part: a snapshot keeps one version while
// writers derive the next.
//
// Bit i is bit i%64 of word i/64. Nothing here locks: a Set belongs to one goroutine at a time, a
// Cow may be read by any number of them.
package bitset

import (
	"iter"
	"math/bits"
)

// Set is a bit vector of fixed length, a multiple of 64. Bits past the number of rows that it
// stands for stay zero; [Set.Fill] and [Set.Not] take care of that, the others preserve it.
type Set []uint64

// Words returns the number of words that hold n bits.
func Words(n int) int { return (n + 63) / 64 }

// New returns an empty set with room for the bits [0, n).
func New(n int) Set { return make(Set, Words(n)) }

// Set puts i into the set. It panics when there is no room for i.
func (s Set) Set(i int) { s[uint(i)/64] |= 1 << (uint(i) % 64) }

// Clear takes i out of the set. It panics when there is no room for i.
func (s Set) Clear(i int) { s[uint(i)/64] &^= 1 << (uint(i) % 64) }

// Has reports whether i is in the set; an i without room is not.
func (s Set) Has(i int) bool {
	w := uint(i) / 64
	return w < uint(len(s)) && s[w]>>(uint(i)%64)&1 != 0
}

// Half returns the bits [32i, 32i+32), as far as there is room for them, the first one lowest.
func (s Set) Half(i int) uint32 {
	if w := uint(i) / 2; w < uint(len(s)) {
		return uint32(s[w] >> (uint(i) % 2 * 32))
	}
	return 0
}

// Fill makes s the set of all i in [0, n).
func (s Set) Fill(n int) {
	full := n / 64
	for i := range s[:full] {
		s[i] = ^uint64(0)
	}
	clear(s[full:])
	if n%64 != 0 {
		s[full] = 1<<(n%64) - 1
	}
}

// Reset empties the set.
func (s Set) Reset() { clear(s) }

// And keeps the bits that are also in o. A shorter o stands for a set padded with zeros.
func (s Set) And(o Set) {
	n := min(len(s), len(o))
	clear(s[n:])
	o = o[:n]
	for i, w := range o {
		s[i] &= w
	}
}

// Or adds the bits of o, which must not be longer than s.
func (s Set) Or(o Set) {
	s = s[:len(o)]
	for i, w := range o {
		s[i] |= w
	}
}

// AndNot removes the bits of o. What o holds past the end of s is ignored.
func (s Set) AndNot(o Set) {
	n := min(len(s), len(o))
	s, o = s[:n], o[:n]
	for i, w := range o {
		s[i] &^= w
	}
}

// Not replaces s by its complement within [0, n); bits from n on become zero.
func (s Set) Not(n int) {
	full := n / 64
	for i, w := range s[:full] {
		s[i] = ^w
	}
	if n%64 != 0 {
		s[full] = ^s[full] & (1<<(n%64) - 1)
		full++
	}
	clear(s[full:])
}

// Count returns the number of bits set.
func (s Set) Count() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// CountRange returns the number of bits set in [lo, hi). Bounds beyond the room of s are cut to it.
func (s Set) CountRange(lo, hi int) int {
	lo, hi = max(lo, 0), min(hi, len(s)*64)
	if lo >= hi {
		return 0
	}
	first, last := lo/64, (hi-1)/64
	head := ^uint64(0) << (lo % 64)
	tail := ^uint64(0) >> (63 - (hi-1)%64)
	if first == last {
		return bits.OnesCount64(s[first] & head & tail)
	}
	n := bits.OnesCount64(s[first]&head) + bits.OnesCount64(s[last]&tail)
	return n + s[first+1:last].Count()
}

// NextSet returns the smallest member >= i, or -1.
func (s Set) NextSet(i int) int {
	i = max(i, 0)
	w := i / 64
	if w >= len(s) {
		return -1
	}
	if x := s[w] >> (i % 64); x != 0 {
		return i + bits.TrailingZeros64(x)
	}
	for w++; w < len(s); w++ {
		if s[w] != 0 {
			return w*64 + bits.TrailingZeros64(s[w])
		}
	}
	return -1
}

// All yields the members in ascending order. Changes made to the word being visited are not seen.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for w, x := range s {
			for ; x != 0; x &= x - 1 {
				if !yield(w*64 + bits.TrailingZeros64(x)) {
					return
				}
			}
		}
	}
}
