package meta

import (
	"bytes"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/vecbolt/vecbolt/internal/fileformat"
)

const (
	arenaSize = 256 << 10 // bytes of values allocated at once

	// Document numbers ascend, so the left half of a split page never grows again.
	fillDocuments = 0.95
	// Ids come in any order, but are often ascending.
	fillIDs = 0.7
)

// Tx is a transaction of a Store. One goroutine may use it, until the function that received it
// returns.
type Tx struct {
	store    *Store
	bolt     *bbolt.Tx
	writable bool
	pages    pages // in a transaction that reads
	buckets  tree  // of these pages

	global [len(bucketNames)]*table // by tag; nil or without a bucket until opened
	colls  map[uint32]*collection
	one    collection  // the first one of a transaction that reads, which seldom uses another
	last   *collection // the most recently used collection
	key    []byte      // reused
	arena  []byte      // rest of the memory for values, which bbolt needs unchanged until the commit

	// Only in an Update. Counts and digests change in memory and are written once, before the
	// commit.
	state State
	dirty bool // the State record must be written
}

// A collection holds the buckets and the record of a collection in a transaction.
type collection struct {
	id        uint32
	docs, ids table
	known     bool // whether it exists; only in an Update
	rec       Collection
	dirty     bool // its record must be written
}

// A table is a bucket whose values carry checksums and, in an Update, are tallied.
type table struct {
	tx       *Tx
	tag      uint8
	coll     uint32
	seed     uint32        // of checksums
	tree     tree          // in a transaction that reads
	bucket   *bbolt.Bucket // in one that reads, nil until it is needed: see iterate
	cursor   *bbolt.Cursor // reused
	verified verifiedRange // of cursor
	tally    tally
	dirty    bool // the tally has changed
}

// begin prepares an Update.
func (tx *Tx) begin() (err error) {
	var tallies [len(globalTags)]tally
	tx.state, tallies, err = tx.readState()
	for i, tag := range globalTags {
		tx.global[tag] = &table{tally: tallies[i]}
	}
	return err
}

// readState reads the State record and its tallies.
func (tx *Tx) readState() (s State, tallies [len(globalTags)]tally, err error) {
	system, err := tx.table(tagSystem)
	if err != nil {
		return s, tallies, err
	}
	b, ok, err := system.get(keyState)
	if err == nil && !ok {
		err = system.corrupt(keyState, fmt.Errorf("%w: missing", fileformat.ErrFormat))
	}
	if err != nil {
		return s, tallies, err
	}
	if s, tallies, err = decodeState(b); err != nil {
		err = system.corrupt(keyState, err)
	}
	return s, tallies, err
}

// finish writes the records that depend on all other changes.
func (tx *Tx) finish() error {
	for _, c := range tx.colls {
		if !c.known || !c.dirty && !c.docs.dirty && !c.ids.dirty {
			continue
		}
		c.update()
		if err := tx.putRecord(tagCollections, appendU32(nil, c.id), c.rec.encode()); err != nil {
			return err
		}
	}
	var tallies [len(globalTags)]tally
	for i, tag := range globalTags {
		tallies[i] = tx.global[tag].tally
		tx.dirty = tx.dirty || tx.global[tag].dirty
	}
	if !tx.dirty {
		return nil
	}
	return tx.putRecord(tagSystem, keyState, encodeState(&tx.state, &tallies))
}

func (tx *Tx) putRecord(tag uint8, key, payload []byte) error {
	t, err := tx.table(tag)
	if err != nil {
		return err
	}
	return t.put(key, payload)
}

// table returns a bucket that exists once in every store.
func (tx *Tx) table(tag uint8) (*table, error) {
	t := tx.global[tag]
	if t == nil {
		t = new(table)
		tx.global[tag] = t
	}
	if t.tx == nil {
		ok, err := t.open(tx, tag, 0)
		if err == nil && !ok {
			err = tx.store.corrupt("%w: bucket %s is missing", fileformat.ErrFormat, bucketNames[tag])
		}
		if err != nil {
			return nil, err
		}
	}
	return t, nil
}

// open sets all fields except the tally. ok is false if there is no such bucket.
func (t *table) open(tx *Tx, tag uint8, coll uint32) (ok bool, err error) {
	tx.key = appendBucketName(tx.key[:0], tag, coll)
	if tx.writable {
		if t.bucket = tx.bolt.Bucket(tx.key); t.bucket == nil {
			return false, nil
		}
		t.cursor = t.bucket.Cursor()
	} else {
		if t.tree, ok, err = tx.buckets.bucket(tx.key); !ok {
			return false, err
		}
		t.verified = verifiedRange{tree: &t.tree}
	}
	t.tx, t.tag, t.coll, t.seed = tx, tag, coll, seedOf(tag, coll)
	return true, nil
}

// empty reports whether a transaction that reads sees at once that the bucket has no records.
func (t *table) empty() bool { return !t.tx.writable && t.tree.root == 0 && t.tree.inline.count() == 0 }

// iterate returns the bucket to iterate over.
func (t *table) iterate() *bbolt.Bucket {
	if t.bucket == nil {
		t.bucket = t.tx.bolt.Bucket(appendBucketName(nil, t.tag, t.coll)) // t.tree says that it exists
	}
	return t.bucket
}

// seek moves the cursor.
func (t *table) seek(key []byte) (k, v []byte, err error) {
	if err := t.verified.extendTo(key); err != nil {
		return nil, nil, err
	}
	if t.cursor == nil {
		t.cursor = t.iterate().Cursor()
	}
	k, v = t.cursor.Seek(key)
	return k, v, nil
}

// corrupt returns a fileformat.CorruptError that names bucket and key.
func (t *table) corrupt(key []byte, err error) error {
	return t.tx.store.corrupt("bucket %s, key %s: %w", bucketName(t.tag, t.coll), showKey(t.tag, key), err)
}

// find returns the stored value of key, not verified, or nil. In an Update, the cursor stays at the
// key.
func (t *table) find(key []byte) (v []byte, err error) {
	if !t.tx.writable {
		v, bucket, err := t.tree.get(key)
		return v, t.refuseBucket(key, bucket, err)
	}
	k, v, err := t.seek(key)
	if err != nil || k == nil || !bytes.Equal(k, key) {
		return nil, err
	}
	return v, t.refuseBucket(key, v == nil, nil)
}

// refuseBucket returns the error of a lookup, which fails if it has found a bucket.
func (t *table) refuseBucket(key []byte, bucket bool, err error) error {
	if err == nil && bucket {
		return t.corrupt(key, fmt.Errorf("%w: a bucket", fileformat.ErrFormat))
	}
	return err
}

// get returns the payload of key.
func (t *table) get(key []byte) (payload []byte, ok bool, err error) {
	v, err := t.find(key)
	if v == nil {
		return nil, false, err
	}
	payload, err = t.verify(key, v)
	return payload, err == nil, err
}

// verify returns the payload of a stored value.
func (t *table) verify(key, value []byte) ([]byte, error) {
	payload, err := payloadOf(t.seed, key, value)
	if err != nil {
		return nil, t.corrupt(key, err)
	}
	return payload, nil
}

// put stores a copy of payload. The old value need not be intact, because only its checksum enters
// the tally.
func (t *table) put(key, payload []byte) error {
	if !t.tx.writable {
		return errReadOnly
	}
	old, err := t.find(key)
	if err != nil {
		return err
	}
	value := appendValue(t.tx.alloc(len(payload)+valueOverhead), t.seed, key, payload)
	if old != nil {
		t.tally.remove(key, old)
	}
	t.tally.add(key, value)
	t.dirty = true
	return t.bucket.Put(key, value)
}

// delete removes a record, intact or damaged, and reports whether it existed.
func (t *table) delete(key []byte) (bool, error) {
	if !t.tx.writable {
		return false, errReadOnly
	}
	old, err := t.find(key)
	if old == nil {
		return false, err
	}
	t.tally.remove(key, old)
	t.dirty = true
	return true, t.cursor.Delete()
}

// alloc returns exclusive memory for n bytes, of length 0.
func (tx *Tx) alloc(n int) []byte {
	if n > arenaSize/8 {
		return make([]byte, 0, n)
	}
	if n > len(tx.arena) {
		tx.arena = make([]byte, arenaSize)
	}
	b := tx.arena[:0:n]
	tx.arena = tx.arena[n:]
	return b
}

// scan calls fn with the verified records whose keys begin with prefix, in order from a key, until
// fn returns false or an error. fn must not change the bucket.
func (t *table) scan(from, prefix []byte, fn func(key, payload []byte) (more bool, err error)) error {
	c, verified := t.iterate().Cursor(), t.verified // copies, because fn may look up other keys
	verified.known, verified.from = false, nil
	if err := verified.extendTo(from); err != nil {
		return err
	}
	for k, v := c.Seek(from); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
		if err := verified.advance(k); err != nil {
			return err
		}
		if v == nil {
			return t.corrupt(k, fmt.Errorf("%w: a bucket", fileformat.ErrFormat))
		}
		payload, err := t.verify(k, v)
		if err != nil {
			return err
		}
		if more, err := fn(k, payload); err != nil || !more {
			return err
		}
	}
	return nil
}

// drain removes the records whose keys begin with prefix. It calls fn, if not nil, before each.
func (t *table) drain(prefix []byte, fn func(key []byte) error) error {
	key := slices.Clone(prefix)
	for {
		// Continue at the last key: seeking the prefix would pass all pages emptied so far.
		k, _ := t.cursor.Seek(key)
		if k == nil || !bytes.HasPrefix(k, prefix) {
			return nil
		}
		key = append(key[:0], k...)
		if fn != nil {
			if err := fn(key); err != nil {
				return err
			}
		}
		if _, err := t.delete(key); err != nil {
			return err
		}
	}
}

// collection returns the collection with an id, existing or not.
func (tx *Tx) collection(id uint32) (*collection, error) {
	if tx.last != nil && tx.last.id == id {
		return tx.last, nil
	}
	c := tx.colls[id]
	if !tx.writable && (tx.one.id == id || tx.last == nil) {
		c, tx.one.id = &tx.one, id
	}
	if c == nil {
		c = &collection{id: id}
		if tx.writable {
			if err := tx.load(c); err != nil {
				return nil, err
			}
		}
		if tx.colls == nil {
			tx.colls = make(map[uint32]*collection)
		}
		tx.colls[id] = c
	}
	tx.last = c
	return c, nil
}

// load reads the record of a collection; an Update needs its tallies.
func (tx *Tx) load(c *collection) error {
	rec, ok, err := tx.record(c.id)
	if err != nil || !ok {
		return err
	}
	c.known, c.rec = true, rec
	c.docs.tally = tally{rec.Documents, rec.DocDigest}
	c.ids.tally = tally{rec.IDs, rec.IDDigest}
	return nil
}

// record returns the stored record of a collection.
func (tx *Tx) record(id uint32) (rec Collection, ok bool, err error) {
	t, err := tx.table(tagCollections)
	if err != nil {
		return rec, false, err
	}
	key := appendU32(nil, id)
	b, ok, err := t.get(key)
	if err != nil || !ok {
		return rec, false, err
	}
	if rec, err = decodeCollection(id, b); err != nil {
		return rec, false, t.corrupt(key, err)
	}
	return rec, true, nil
}

// update sets the tallies in the record.
func (c *collection) update() {
	c.rec.Documents, c.rec.DocDigest = c.docs.tally.count, c.docs.tally.digest
	c.rec.IDs, c.rec.IDDigest = c.ids.tally.count, c.ids.tally.digest
}

// documents and identifiers return the two buckets of a collection, nil if the collection does not
// exist.
func (tx *Tx) documents(id uint32) (*table, error) {
	c, err := tx.collection(id)
	if err != nil {
		return nil, err
	}
	return tx.owned(c, &c.docs, tagDocuments, fillDocuments)
}

func (tx *Tx) identifiers(id uint32) (*table, error) {
	c, err := tx.collection(id)
	if err != nil {
		return nil, err
	}
	return tx.owned(c, &c.ids, tagIDs, fillIDs)
}

func (tx *Tx) owned(c *collection, t *table, tag uint8, fill float64) (*table, error) {
	if t.tx != nil {
		return t, nil
	}
	ok, err := t.open(tx, tag, c.id)
	if err != nil {
		return nil, err
	}
	if ok {
		if tx.writable {
			t.bucket.FillPercent = fill
		}
		return t, nil
	}
	known := c.known
	if !tx.writable {
		if _, known, err = tx.record(c.id); err != nil {
			return nil, err
		}
	}
	if known {
		return nil, tx.store.corrupt("%w: bucket %s is missing", fileformat.ErrFormat, bucketName(tag, c.id))
	}
	return nil, nil
}

// change returns a bucket of a collection that must exist.
func (tx *Tx) change(open func(*Tx, uint32) (*table, error), coll uint32) (*table, error) {
	if !tx.writable {
		return nil, errReadOnly
	}
	t, err := open(tx, coll)
	if err == nil && t == nil {
		err = fmt.Errorf("%w: %d", errNoCollection, coll)
	}
	return t, err
}
