package engine

import (
	"encoding/binary"
	"sync/atomic"
)

// KnownIDs caches the ids of documents that were hits, so that queries for ids
// alone need not read meta.bolt. The id of a DocNum never changes and DocNums
// are never reused, so an id is evicted only for space, never invalidated.
// Adjacent DocNums map to different slots.
type KnownIDs struct {
	slots atomic.Pointer[[IDSlots]idSlot] // by DocNum; nil before the first
}

// The cache holds IDSlots ids of at most IDLongest bytes, in 8 MiB.
const (
	IDSlots   = 1 << 17
	IDLongest = 8 * idWords
	idWords   = 6
)

// An idSlot fills one cache line and holds no pointers: a hit waits for one line, and the garbage
// collector for none. It is a sequence lock (Lameter, "Effective synchronization on Linux/NUMA
// systems", 2005): readers take what they read if the state was even and has not changed.
type idSlot struct {
	state atomic.Uint64 // odd while the slot is written, another number after each time
	num   atomic.Uint64 // DocNum in the upper 58 bits, length of the id below
	text  [idWords]atomic.Uint64
}

const idLength = 1<<6 - 1 // bits of num that hold the length

// read appends the id of a document to dst, if the slot has it.
func (s *idSlot) read(dst []byte, num uint64) ([]byte, bool) {
	state, key := s.state.Load(), s.num.Load()
	if state%2 != 0 || key>>6 != num || key&idLength == 0 {
		return dst, false
	}
	n := len(dst)
	for i := 0; 8*i < int(key&idLength); i++ {
		dst = binary.LittleEndian.AppendUint64(dst, s.text[i].Load())
	}
	if s.state.Load() != state {
		return dst[:n], false
	}
	return dst[:n+int(key&idLength)], true
}

// Get returns the id of a document, or "" if it is not known.
func (k *KnownIDs) Get(num uint64) string {
	if slots := k.slots.Load(); slots != nil {
		var text [IDLongest]byte
		if id, ok := slots[num%IDSlots].read(text[:0], num); ok {
			return string(id)
		}
	}
	return ""
}

// GetAll calls set for each of n documents whose id is known. num returns the DocNum of one.
// Their ids share memory.
func (k *KnownIDs) GetAll(n int, num func(i int) uint64, set func(i int, id string)) {
	slots := k.slots.Load()
	if slots == nil {
		return
	}
	const some = 16
	for lo := 0; lo < n; lo += some {
		var nums [some]uint64
		var ends [some]int
		var text [some * IDLongest]byte
		hi := min(lo+some, n)
		for i := lo; i < hi; i++ {
			nums[i-lo] = num(i)
		}
		for _, num := range nums[:hi-lo] { // so that all wait together
			slots[num%IDSlots].state.Load()
		}
		all := text[:0]
		for i, num := range nums[:hi-lo] {
			all, _ = slots[num%IDSlots].read(all, num)
			ends[i] = len(all)
		}
		ids, start := string(all), 0
		for i, end := range ends[:hi-lo] {
			if end > start {
				set(lo+i, ids[start:end])
			}
			start = end
		}
	}
}

// Put adds an id to the cache.
func (k *KnownIDs) Put(num uint64, id string) {
	if id == "" || len(id) > IDLongest || num >= 1<<58 {
		return
	}
	slots := k.slots.Load()
	if slots == nil {
		k.slots.CompareAndSwap(nil, new([IDSlots]idSlot))
		slots = k.slots.Load()
	}
	s, key := &slots[num%IDSlots], num<<6|uint64(len(id))
	state := s.state.Load()
	if s.num.Load() == key || state%2 != 0 || !s.state.CompareAndSwap(state, state+1) {
		return // known, or another goroutine is at it
	}
	s.num.Store(key)
	var text [IDLongest]byte
	copy(text[:], id)
	for i := range s.text {
		s.text[i].Store(binary.LittleEndian.Uint64(text[8*i:]))
	}
	s.state.Store(state + 2)
}
