package db

import "sync/atomic"

// knownIDs remembers ids of documents that were hits, so that hits of which
// nothing else is wanted need no look at meta.bolt. What a DocNum has as its
// id never changes, and DocNums are never used again: nothing has to be
// forgotten but for want of room. Of DocNums that are near each other none
// takes the place of another.
type knownIDs struct {
	slots atomic.Pointer[[idSlots]atomic.Pointer[knownID]] // by DocNum; nil before the first
}

type knownID struct {
	num uint64
	id  string
}

// A database remembers idSlots ids of at most idLongest bytes: that takes 6 MiB
// if they are short, and 13 at most.
const (
	idSlots   = 1 << 17
	idLongest = 64
)

// get returns the id of a document, or "" if it is not known.
func (k *knownIDs) get(num uint64) string {
	if slots := k.slots.Load(); slots != nil {
		if e := slots[num%idSlots].Load(); e != nil && e.num == num {
			return e.id
		}
	}
	return ""
}

// put makes an id known.
func (k *knownIDs) put(num uint64, id string) {
	if len(id) > idLongest || k.get(num) != "" {
		return
	}
	if k.slots.Load() == nil {
		k.slots.CompareAndSwap(nil, new([idSlots]atomic.Pointer[knownID]))
	}
	k.slots.Load()[num%idSlots].Store(&knownID{num, id})
}
