package db

import "sync/atomic"

// knownIDs caches the ids of documents that were hits, so that queries for ids
// alone need not read meta.bolt. The id of a DocNum never changes and DocNums
// are never reused, so an id is evicted only for space, never invalidated.
// Adjacent DocNums map to different slots.
type knownIDs struct {
	slots atomic.Pointer[[idSlots]atomic.Pointer[knownID]] // by DocNum; nil before the first
}

type knownID struct {
	num uint64
	id  string
}

// The cache holds idSlots ids of at most idLongest bytes: 6 MiB if they are
// short, 13 MiB at most.
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

// put adds an id to the cache.
func (k *knownIDs) put(num uint64, id string) {
	if len(id) > idLongest || k.get(num) != "" {
		return
	}
	if k.slots.Load() == nil {
		k.slots.CompareAndSwap(nil, new([idSlots]atomic.Pointer[knownID]))
	}
	k.slots.Load()[num%idSlots].Store(&knownID{num, id})
}
