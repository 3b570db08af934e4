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
	"github.com/vecbolt/vecbolt/segment"
)

// checkTallies compares all counts and digests with the records. With verify it also verifies the
// checksum of each record, and the error names the id and the collection of a damaged one.
func (tx *Tx) checkTallies(ctx context.Context, verify bool) error {
	_, tallies, err := tx.readState()
	if err != nil {
		return err
	}
	for i, tag := range globalTags {
		t, err := tx.table(tag)
		if err == nil {
			err = t.checkTally(ctx, tallies[i], verify)
		}
		if err != nil {
			return err
		}
	}
	colls, err := tx.Collections()
	if err != nil {
		return err
	}
	for _, c := range colls {
		docs, err := tx.documents(c.ID)
		if err == nil {
			err = docs.checkTally(ctx, tally{c.Documents, c.DocDigest}, verify)
		}
		if err != nil {
			return err
		}
		ids, err := tx.identifiers(c.ID)
		if err == nil {
			err = ids.checkTally(ctx, tally{c.IDs, c.IDDigest}, verify)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *table) checkTally(ctx context.Context, want tally, verify bool) error {
	var sum tally
	cur := t.iterate().Cursor()
	for k, v := cur.First(); k != nil; k, v = cur.Next() {
		if sum.add(k, v); sum.count%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if !verify {
			continue
		}
		if _, err := payloadOf(t.seed, k, v); err != nil {
			return t.blame(k, err)
		}
	}
	if sum != want {
		return t.tx.store.corrupt("bucket %s: %w: %d records and their digest, want %d and theirs",
			bucketName(t.tag, t.coll),
			fileformat.ErrChecksum, sum.count, want.count)
	}
	return nil
}

// blame is corrupt, and names the collection and the id of a document, if they can be read.
func (t *table) blame(key []byte, err error) error {
	err = t.corrupt(key, err)
	var bad *fileformat.CorruptError
	rec, ok, unread := t.tx.record(t.coll)
	if unread != nil || !ok || !errors.As(err, &bad) {
		return err
	}
	switch {
	case t.tag == tagIDs:
		bad.Err = fmt.Errorf("id %q of collection %q: %w", key, rec.Name, bad.Err)
	case t.tag == tagDocuments && len(key) == 8:
		if whose := t.tx.ownerOf(t.coll, binary.BigEndian.Uint64(key)); whose != "" {
			bad.Err = fmt.Errorf("%s of collection %q: %w", whose, rec.Name, bad.Err)
		}
	}
	return err
}

// errFound ends a search.
var errFound = errors.New("found")

// ownerOf says which id names a document, or named it once. It reads all ids until it finds it,
// and returns "" if it finds none.
func (tx *Tx) ownerOf(coll uint32, doc uint64) (owner string) {
	found := func(format, id string, at uint64) error {
		if at != doc {
			return nil
		}
		owner = fmt.Sprintf(format, id)
		return errFound
	}
	err := tx.SalvageIDs(coll, func(id string, at uint64) error { return found("document %q", id, at) },
		func(string, error) {})
	if err != nil {
		return owner
	}
	history, err := tx.table(tagHistory)
	if err != nil {
		return ""
	}
	_ = history.salvage(func(key, payload []byte, err error) error {
		end := len(key) - 8
		if err != nil || end < 0 || !validOwner(key[:end]) || binary.BigEndian.Uint32(key) != coll {
			return nil
		}
		at, err := number(payload)
		if err != nil {
			return nil
		}
		return found("an earlier version of document %q", string(key[6:end]), at)
	})
	return owner
}

// checkEvery is the number of records between two checks of the context.
const checkEvery = 1024

// Check reads the whole file and reports damage: pages, checksums, digests, counts, and broken
// references between ids and documents, segments and dead rows, and unused numbers. bucket and key
// are empty and offset is -1 where they do not apply. It returns an error if the check could not be
// completed, or ctx has ended. View continues during a check; Update waits.
//
// A damaged root page is reported although the other root replaces it. A crash may leave such a
// page, until the next Update.
func (s *Store) Check(ctx context.Context, report func(file string, offset int64, bucket, key, detail string)) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.bolt == nil {
		return errClosed
	}
	c := &checker{store: s, ctx: ctx, report: report}
	whole, err := c.pages()
	if err != nil || !whole {
		return err // bbolt must not walk a damaged file
	}
	err = s.transact(false, func(b *bbolt.Tx) error {
		c.tx = s.reader(b, nil)
		return c.records()
	})
	var bad *fileformat.CorruptError
	if errors.As(err, &bad) {
		c.report(s.name, -1, "", "", bad.Err.Error())
		return nil
	}
	return err
}

type checker struct {
	store  *Store
	ctx    context.Context
	report func(file string, offset int64, bucket, key, detail string)
	tx     *Tx
	seen   int

	state   State
	tallies [len(globalTags)]tally
	colls   map[uint32]Collection
	rows    map[uint64]segment.Info
	refs    map[uint32]*tally // by collection: the documents that history refers to
}

// pages verifies the structure below bbolt, unless another process writes the file, by pread:
// whether bbolt can walk the file, and whether both roots are intact. bbolt's own check would find
// nothing more, and it reads the mapped file in a goroutine of its own, where an unreadable page
// would end the process.
func (c *checker) pages() (whole bool, err error) {
	if c.store.views != nil {
		return true, nil
	}
	name := c.store.name
	f := c.store.file // the name may be another file's by now
	st, err := f.Stat()
	if err != nil {
		return false, err
	}
	size := st.Size()
	var bad *boltcheck.Error
	roots, _, err := boltcheck.Roots(f, size)
	if err == nil {
		for i := range roots {
			if roots[i].Err != nil {
				c.report(name, -1, "", "", fmt.Sprintf("root in page %d: %v", i, roots[i].Err))
			}
		}
		err = boltcheck.Check(&cancelled{c.ctx, f}, size)
	}
	if p := c.store.sums.Load(); p != nil && err == nil {
		var errs []*fileformat.CorruptError
		errs, err = p.bad()
		for _, bad := range errs {
			c.report(bad.File, bad.Offset, "", "", bad.Err.Error())
		}
	}
	if errors.As(err, &bad) {
		c.report(name, -1, "", "", err.Error())
		return false, nil
	}
	return err == nil, damage(name, err)
}

// bad reports a record.
func (c *checker) bad(t *table, key []byte, format string, args ...any) {
	c.report(c.store.name, -1, bucketName(t.tag, t.coll), showKey(t.tag, key), fmt.Sprintf(format, args...))
}

// pause returns the error of the context, checked every checkEvery calls.
func (c *checker) pause() error {
	if c.seen++; c.seen%checkEvery == 0 {
		return c.ctx.Err()
	}
	return nil
}

// each calls fn with the intact records of a bucket. It reports damaged records, and a tally that
// differs from want.
func (c *checker) each(t *table, want *tally, fn func(key, payload []byte) error) error {
	var sum tally
	cur := t.iterate().Cursor()
	for k, v := cur.First(); k != nil; k, v = cur.Next() {
		if err := c.pause(); err != nil {
			return err
		}
		if v == nil {
			c.bad(t, k, "a bucket where a record belongs")
			continue
		}
		sum.add(k, v)
		payload, err := payloadOf(t.seed, k, v)
		if err == nil {
			err = fn(k, payload)
		}
		if err != nil {
			c.bad(t, k, "%v", err)
		}
	}
	switch {
	case want == nil:
	case sum.count != want.count:
		c.report(c.store.name, -1, bucketName(t.tag, t.coll), "",
			fmt.Sprintf("%d records, want %d", sum.count, want.count))
	case sum.digest != want.digest:
		c.report(c.store.name, -1, bucketName(t.tag, t.coll), "",
			"records are not those that were written: digest mismatch")
	}
	return nil
}

// global checks a bucket whose tally is in the State record.
func (c *checker) global(tag uint8, fn func(key, payload []byte) error) error {
	t, err := c.tx.table(tag)
	if err != nil {
		return err
	}
	return c.each(t, &c.tallies[slices.Index(globalTags[:], tag)], fn)
}

func (c *checker) records() error {
	c.colls, c.rows, c.refs = map[uint32]Collection{}, map[uint64]segment.Info{}, map[uint32]*tally{}
	for _, step := range []func() error{c.system, c.collections, c.buckets, c.segments, c.dead,
		c.history, c.documents} {
		if err := step(); err != nil {
			return err
		}
	}
	return c.ctx.Err()
}

func (c *checker) system() error {
	t, err := c.tx.table(tagSystem)
	if err != nil {
		return err
	}
	intact := map[string]bool{}
	err = c.each(t, nil, func(key, payload []byte) (err error) {
		switch string(key) {
		case string(keyFormat):
			_, err = decodeFormat(payload)
		case string(keyState):
			c.state, c.tallies, err = decodeState(payload)
		default:
			return errUnknown
		}
		intact[string(key)] = err == nil
		return err
	})
	for _, key := range [][]byte{keyFormat, keyState} {
		if err == nil && !intact[string(key)] {
			// Without this record there are no tallies to compare with.
			return t.corrupt(key, fmt.Errorf("%w: missing or damaged", fileformat.ErrFormat))
		}
	}
	return err
}

var errUnknown = fmt.Errorf("%w: unknown key", fileformat.ErrFormat)

func (c *checker) collections() error {
	return c.global(tagCollections, func(key, payload []byte) error {
		if len(key) != 4 {
			return errUnknown
		}
		rec, err := decodeCollection(binary.BigEndian.Uint32(key), payload)
		if err != nil {
			return err
		}
		c.colls[rec.ID] = rec
		if rec.ID >= c.state.NextCollection {
			return fmt.Errorf("%w: the next unused number is %d", fileformat.ErrFormat, c.state.NextCollection)
		}
		return nil
	})
}

// buckets reports unknown buckets. Missing buckets are found by the checks that read them.
func (c *checker) buckets() error {
	known := map[string]bool{bucketNames[tagSystem]: true}
	for _, tag := range globalTags {
		known[bucketNames[tag]] = true
	}
	for id := range c.colls {
		known[bucketName(tagDocuments, id)], known[bucketName(tagIDs, id)] = true, true
	}
	return c.tx.bolt.ForEach(func(name []byte, _ *bbolt.Bucket) error {
		if !known[string(name)] {
			c.report(c.store.name, -1, string(name), "", "unknown bucket")
		}
		return nil
	})
}

func (c *checker) segments() error {
	return c.global(tagSegments, func(key, payload []byte) error {
		info, err := segmentOf(key, payload)
		if err != nil {
			return err
		}
		c.rows[info.ID] = info
		_, exists := c.colls[info.Collection]
		switch {
		case !exists:
			return fmt.Errorf("%w: of collection %d, which does not exist", fileformat.ErrFormat, info.Collection)
		case info.ID >= c.state.NextSegment:
			return fmt.Errorf("%w: the next unused number is %d", fileformat.ErrFormat, c.state.NextSegment)
		case info.MaxDoc >= c.state.NextDoc || info.MinDoc > info.MaxDoc:
			return fmt.Errorf("%w: documents %d to %d, the next unused number is %d",
				fileformat.ErrFormat, info.MinDoc, info.MaxDoc,
				c.state.NextDoc)
		}
		return nil
	})
}

func (c *checker) dead() error {
	return c.global(tagDead, func(key, payload []byte) error {
		seg, chunk, words, err := chunkOf(key, payload)
		if err != nil {
			return err
		}
		info, ok := c.rows[seg]
		switch {
		case !ok:
			return fmt.Errorf("%w: segment %d does not exist", fileformat.ErrFormat, seg)
		case (chunk+1)*chunkRows <= info.Rows:
			return nil
		}
		for i, w := range words {
			for bit := range 64 {
				if row := chunk*chunkRows + 64*i + bit; w>>bit&1 != 0 && row >= info.Rows {
					return fmt.Errorf("%w: row %d of %d", fileformat.ErrFormat, row, info.Rows)
				}
			}
		}
		return nil
	})
}

// history checks that both orders of the history hold the same notes, and collects the documents
// that they name.
func (c *checker) history() error {
	_, purge, err := c.tx.histories()
	if err != nil {
		return err
	}
	err = c.global(tagHistory, func(key, payload []byte) error {
		old, err := number(payload)
		owner := len(key) - 8
		if owner < 0 || !validOwner(key[:owner]) {
			return errUnknown
		}
		mirror := slices.Concat(key[owner:], key[:owner])
		b, ok, perr := purge.get(mirror)
		if same, nerr := number(b); perr == nil && (!ok || nerr != nil || same != old) {
			return fmt.Errorf("%w: differs from its mirror in bucket purge", fileformat.ErrFormat)
		}
		if old != 0 && err == nil {
			c.refer(binary.BigEndian.Uint32(key), old)
		}
		return err
	})
	if err != nil {
		return err
	}
	// Equal counts, and each note of history has its mirror: the buckets are equal.
	return c.global(tagPurge, func(key, payload []byte) error {
		if len(key) < 8 || !validOwner(key[8:]) {
			return errUnknown
		}
		_, err := number(payload)
		return err
	})
}

// refer records a reference to a document. It adds to a tally, because a set of all references
// would not fit into memory.
func (c *checker) refer(coll uint32, doc uint64) {
	if c.refs[coll] == nil {
		c.refs[coll] = &tally{}
	}
	c.refs[coll].add(appendU64(nil, doc), nil)
}

func (c *checker) documents() error {
	for _, id := range slices.Sorted(maps.Keys(c.colls)) {
		rec := c.colls[id]
		docs, err := c.tx.documents(id)
		if err != nil {
			return err
		}
		ids, err := c.tx.identifiers(id)
		if err != nil {
			return err
		}
		var there tally
		err = c.each(docs, &tally{rec.Documents, rec.DocDigest}, func(key, _ []byte) error {
			if len(key) != 8 {
				return errUnknown
			}
			there.add(key, nil)
			if doc := binary.BigEndian.Uint64(key); doc == 0 || doc >= c.state.NextDoc {
				return fmt.Errorf("%w: the next unused number is %d", fileformat.ErrFormat, c.state.NextDoc)
			}
			return nil
		})
		if err != nil {
			return err
		}
		err = c.each(ids, &tally{rec.IDs, rec.IDDigest}, func(_, payload []byte) error {
			doc, err := number(payload)
			if err != nil {
				return err
			}
			c.refer(id, doc)
			if v, err := docs.find(appendU64(nil, doc)); v == nil || err != nil {
				return fmt.Errorf("%w: names document %d, which does not exist", fileformat.ErrFormat, doc)
			}
			return nil
		})
		if err != nil {
			return err
		}
		var refs tally
		if c.refs[id] != nil {
			refs = *c.refs[id]
		}
		if refs != there {
			c.report(c.store.name, -1, bucketName(tagDocuments, id), "",
				fmt.Sprintf("%d documents, but ids and history name %d, not each one once", there.count, refs.count))
		}
	}
	return nil
}
