package engine

import "hash/maphash"

// A latest finds the newest entry of each id in a head: a hash table with linear probing. Its slots
// hold hashes and places of entries, and the entries hold the ids. So a new id touches one cache
// line, where a map touches several, and no id is read when the table grows. A process that follows
// puts every write of all others into one.
type latest struct {
	seed  maphash.Seed
	slots []slot // a power of two, a quarter of them free at least
	used  int
}

// A slot is empty if next is 0.
type slot struct {
	hash uint32
	next uint32 // place of the entry, plus one
}

// leastSlots is the size of the first table.
const leastSlots = 8

// hash returns the hash of an id.
func (l *latest) hash(id string) uint32 { return uint32(maphash.String(l.seed, id)) }

// find returns the slot of an id, or the empty one where it belongs. There are slots.
func (l *latest) find(hash uint32, id string, entries []entry) *slot {
	mask := uint32(len(l.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &l.slots[i]
		if s.next == 0 || s.hash == hash && entries[s.next-1].id == id {
			return s
		}
	}
}

// get returns the place of the newest entry of an id, or -1.
func (l *latest) get(id string, entries []entry) int32 {
	if l.used == 0 {
		return -1
	}
	return int32(l.find(l.hash(id), id, entries).next) - 1
}

// put notes that the next entry is of an id, and returns the place of the entry before it, or -1.
func (l *latest) put(id string, entries []entry) (before int32) {
	if 4*(l.used+1) > 3*len(l.slots) {
		l.grow()
	}
	hash := l.hash(id)
	s := l.find(hash, id, entries)
	before = int32(s.next) - 1
	if before < 0 {
		l.used++
	}
	*s = slot{hash, uint32(len(entries)) + 1}
	return before
}

// grow doubles the slots.
func (l *latest) grow() {
	old := l.slots
	if len(old) == 0 {
		l.seed = maphash.MakeSeed()
	}
	l.slots = make([]slot, max(leastSlots, 2*len(old)))
	mask := uint32(len(l.slots) - 1)
	for _, s := range old {
		if s.next == 0 {
			continue
		}
		i := s.hash & mask
		for l.slots[i].next != 0 {
			i = (i + 1) & mask
		}
		l.slots[i] = s
	}
}
