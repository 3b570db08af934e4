package meta

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/vecbolt/vecbolt/internal/boltcheck"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// A Wreck is a damaged file with readable records. The checksum of a record proves which bucket it
// belongs to, so records are accepted wherever they are found.
type Wreck struct {
	// Problems locate the damage.
	Problems []error
	// Stale reports that some records may be outdated: deleted or replaced records may reappear.
	Stale bool
	// Nameless counts, by collection, the documents whose collection is unknown. WriteTo sets it.
	Nameless map[uint32]int

	fs    *vfs.FS
	name  string
	size  int64
	seeds []bucketSeed   // of all possible buckets
	freed map[uint8]bool // buckets whose records in free pages are used, because more records are missing than remain
}

type bucketSeed struct {
	tag  uint8
	coll uint32
	seed uint32
}

// maxCollections limits the search for collections beyond the ones found.
const maxCollections = 1 << 12

// Examine looks for records in a file that Open refuses. It returns an error if the file cannot be
// read, or has no State record, without which no store can be built, or if ctx has ended.
func Examine(ctx context.Context, fsys *vfs.FS, name string) (*Wreck, error) {
	size, err := fsys.Size(name)
	if err != nil {
		return nil, err
	}
	w := &Wreck{fs: fsys, name: name, size: size, freed: map[uint8]bool{}, Nameless: map[uint32]int{}}
	for _, tag := range append(globalTags[:], tagSystem) {
		w.seeds = append(w.seeds, bucketSeed{tag, 0, seedOf(tag, 0)})
	}
	// The first pass finds the collections and the missing records.
	colls, present := map[uint32]bool{}, map[uint8]map[string]bool{}
	var tallies [len(globalTags)]tally // of the current version; zero if it was not found
	found, next := false, uint32(1)
	listed, err := w.each(ctx, func(from boltcheck.Origin, b bucketSeed, key, payload, _ []byte) error {
		switch {
		case b.tag == tagSystem && string(key) == string(keyState):
			if s, t, err := decodeState(payload); err == nil {
				if found = true; from == boltcheck.Reached {
					tallies = t
				}
				next = max(next, min(s.NextCollection, maxCollections))
			}
		case b.tag == tagCollections && len(key) == 4:
			colls[binary.BigEndian.Uint32(key)] = true
		}
		if from != boltcheck.Freed && (b.tag == tagCollections || b.tag == tagSegments || b.tag == tagDead) {
			if present[b.tag] == nil {
				present[b.tag] = map[string]bool{}
			}
			present[b.tag][string(key)] = true
		}
		return nil
	}, func(err error) { w.Problems = append(w.Problems, err) })
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, &fileformat.CorruptError{File: name, Offset: -1,
			Err: errors.Join(append(w.Problems, fmt.Errorf("%w: no state record is found in any page",
				fileformat.ErrFormat))...)}
	}
	known := tallies != [len(globalTags)]tally{}
	w.freed[tagSystem] = !known
	for i, tag := range globalTags {
		w.freed[tag] = (tag == tagCollections || tag == tagSegments || tag == tagDead) &&
			(!known || uint64(len(present[tag])) < tallies[i].count)
		w.Stale = w.Stale || w.freed[tag]
	}
	w.Stale = w.Stale || !listed || !known
	for id := uint32(1); id < next; id++ {
		colls[id] = true
	}
	for _, id := range slices.Sorted(maps.Keys(colls)) {
		for _, tag := range []uint8{tagDocuments, tagIDs} {
			w.seeds = append(w.seeds, bucketSeed{tag, id, seedOf(tag, id)})
		}
	}
	return w, nil
}

// each calls fn with all records of known buckets. payload is nil for a damaged value, whose bucket
// is known from the path to its page only.
func (w *Wreck) each(ctx context.Context,
	fn func(from boltcheck.Origin, b bucketSeed, key, payload, value []byte) error,
	problem func(error)) (listed bool, err error) {
	f, err := w.fs.Open(w.name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	named := map[string]int{}
	for i, b := range w.seeds {
		named[bucketName(b.tag, b.coll)] = i
	}
	last, seen := 0, 0 // last: neighbours are mostly in one bucket
	bad, listed, err := boltcheck.Salvage(f, w.size, func(from boltcheck.Origin, bucket, key, value []byte) error {
		if seen++; seen%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if i, ok := named[string(bucket)]; ok {
			payload, err := payloadOf(w.seeds[i].seed, key, value)
			if err != nil && w.seeds[i].coll == 0 {
				return nil
			}
			return fn(from, w.seeds[i], key, payload, value) // a damaged document does not count as missing
		}
		for n := range w.seeds {
			i := (last + n) % len(w.seeds)
			if payload, err := payloadOf(w.seeds[i].seed, key, value); err == nil {
				last = i
				return fn(from, w.seeds[i], key, payload, value)
			}
		}
		return nil
	})
	for _, e := range bad {
		problem(&fileformat.CorruptError{File: w.name, Offset: e.Offset, Err: e})
	}
	return listed, err
}

// WriteTo writes the records to a new store in another directory, as consistent as Lenient
// requires. Of several records for a key it keeps the one of the current version; otherwise the id
// with the newer document, the union of dead rows, and the later State. The end of ctx
// ends it, with a part of the store in place.
func (w *Wreck) WriteTo(ctx context.Context, to *vfs.FS, name string) (err error) {
	f, err := to.Create(name)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	s := &Store{fs: to, name: name}
	if err := s.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	s.bolt.NoSync, s.bolt.NoGrowSync = true, true // the copy need not survive a crash of this process
	tx, err := s.bolt.Begin(true)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // of the last transaction, unless committed
	reached := map[string]bool{}         // keys of the global buckets, which are few
	held := 0
	_, err = w.each(ctx, func(from boltcheck.Origin, b bucketSeed, key, payload, value []byte) error {
		if from == boltcheck.Freed && !w.freed[b.tag] {
			return nil // deleted
		}
		if b.tag == tagDocuments {
			w.Nameless[b.coll]++
		}
		if held += len(key) + len(value); held > rewriteTx {
			if err := tx.Commit(); err != nil {
				return err
			}
			if tx, err = s.bolt.Begin(true); err != nil {
				return err
			}
			held = 0
		}
		bucket, err := tx.CreateBucketIfNotExists(appendBucketName(nil, b.tag, b.coll))
		if err != nil {
			return err
		}
		if from != boltcheck.Reached {
			if reached[string(b.tag)+string(key)] {
				return nil
			}
			if old := bucket.Get(key); old != nil {
				if value = newer(b, key, old, payload, value); value == nil {
					return nil
				}
			}
		} else if b.tag == tagSystem || b.tag == tagCollections || b.tag == tagSegments || b.tag == tagDead {
			reached[string(b.tag)+string(key)] = true
		}
		return bucket.Put(slices.Clone(key), slices.Clone(value))
	}, func(error) {})
	if err != nil {
		return err
	}
	for _, b := range w.seeds {
		if _, err := tx.CreateBucketIfNotExists(appendBucketName(nil, b.tag, b.coll)); err != nil {
			return err
		}
		if b.tag == tagDocuments && tx.Bucket([]byte(bucketNames[tagCollections])).Get(appendU32(nil, b.coll)) != nil {
			delete(w.Nameless, b.coll)
		}
	}
	value := appendValue(nil, seedOf(tagSystem, 0), keyFormat, encodeFormat())
	if err := tx.Bucket([]byte(bucketNames[tagSystem])).Put(keyFormat, value); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	return s.bolt.Update(func(*bbolt.Tx) error { return nil }) // writes the other root, as in create
}

// newer merges two values of a key: it returns nil to keep the old value, the new value, or a union
// of both.
func newer(b bucketSeed, key, old, payload, value []byte) []byte {
	have, err := payloadOf(b.seed, key, old)
	if err != nil {
		return value
	}
	switch b.tag {
	case tagIDs:
		was, _ := number(have)
		if is, err := number(payload); err == nil && is > was {
			return value
		}
	case tagSystem:
		was, _, _ := decodeState(have)
		if is, _, err := decodeState(payload); err == nil &&
			(is.Applied > was.Applied || is.Applied == was.Applied && is.NextDoc > was.NextDoc) {
			return value
		}
	case tagDead:
		was, err := decodeChunk(have)
		is, err2 := decodeChunk(payload)
		if err != nil || err2 != nil {
			return nil
		}
		for i, w := range is {
			was[i] |= w
		}
		return appendValue(nil, b.seed, key, encodeChunk(was))
	}
	return nil
}
