package engine

import (
	"sync/atomic"
)

// KnownIDs caches the ids of documents that were hits, so that queries for ids
// alone need not read meta.bolt. The id of a DocNum never changes and DocNums
// are never reused, so an id is evicted only for space, never invalidated.
// Adjacent DocNums map to different slots.
type KnownIDs struct {
	slots atomic.Pointer[[IDSlots]atomic.Pointer[knownID]] // by DocNum; nil before the first
}

type knownID struct {
	num uint64
	id  string
}

// The cache holds idSlots ids of at most idLongest bytes: 6 MiB if they are
// short, 13 MiB at most.
const (
	IDSlots   = 1 << 17
	IDLongest = 64
)

// Get returns the id of a document, or "" if it is not known.
func (k *KnownIDs) Get(num uint64) string {
	if slots := k.slots.Load(); slots != nil {
		if e := slots[num%IDSlots].Load(); e != nil && e.num == num {
			return e.id
		}
	}
	return ""
}

// Put adds an id to the cache.
func (k *KnownIDs) Put(num uint64, id string) {
	if len(id) > IDLongest || k.Get(num) != "" {
		return
	}
	if k.slots.Load() == nil {
		k.slots.CompareAndSwap(nil, new([IDSlots]atomic.Pointer[knownID]))
	}
	k.slots.Load()[num%IDSlots].Store(&knownID{num, id})
}
