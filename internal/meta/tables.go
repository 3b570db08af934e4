package meta

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment"
)

// identify returns an error unless this release understands the store.
func (tx *Tx) identify() error {
	system, err := tx.table(tagSystem)
	if err != nil {
		return err
	}
	b, ok, err := system.get(keyFormat)
	if err != nil {
		return err
	}
	if !ok {
		return system.corrupt(keyFormat, fmt.Errorf("%w: missing", fileformat.ErrFormat))
	}
	v, err := decodeFormat(b)
	if err != nil {
		return system.corrupt(keyFormat, err)
	}
	tx.store.old = v < version
	st, _, err := tx.readState()
	tx.store.identity = st.DB
	return err
}

// State returns the State of the database, including changes of this Update. The caller may keep
// it.
func (tx *Tx) State() (State, error) {
	if !tx.writable {
		s, _, err := tx.readState()
		return s, err
	}
	s := tx.state
	s.Obsolete = slices.Clone(s.Obsolete)
	return s, nil
}

// SetState replaces the State. The identity cannot change.
func (tx *Tx) SetState(s State) error {
	switch {
	case !tx.writable:
		return errReadOnly
	case s.DB != tx.state.DB:
		return fmt.Errorf("meta: %s: identity %x cannot become %x", tx.store.name, tx.state.DB, s.DB)
	}
	tx.state, tx.dirty = s, true
	tx.state.Obsolete = slices.Clone(s.Obsolete)
	return nil
}

// Collections returns all collections by number, including changes of this Update. The caller may
// keep them.
func (tx *Tx) Collections() ([]Collection, error) {
	t, err := tx.table(tagCollections)
	if err != nil {
		return nil, err
	}
	var all []Collection
	err = t.scan(nil, nil, func(key, payload []byte) (bool, error) {
		if len(key) != 4 {
			return false, t.corrupt(key, fmt.Errorf("%w: key of %d bytes", fileformat.ErrFormat, len(key)))
		}
		rec, err := decodeCollection(binary.BigEndian.Uint32(key), payload)
		if err != nil {
			return false, t.corrupt(key, err)
		}
		if c := tx.colls[rec.ID]; c != nil && c.known {
			c.update()
			rec = c.rec
			rec.Schema = slices.Clone(rec.Schema)
		}
		all = append(all, rec)
		return true, nil
	})
	return all, err
}

// PutCollection creates a collection, or renames it and replaces its schema, which is opaque here.
func (tx *Tx) PutCollection(id uint32, name string, schema []byte) error {
	if !tx.writable {
		return errReadOnly
	}
	c, err := tx.collection(id)
	if err != nil {
		return err
	}
	if !c.known {
		for _, tag := range []uint8{tagDocuments, tagIDs} {
			if _, err := tx.bolt.CreateBucket([]byte(bucketName(tag, id))); err != nil {
				return tx.store.corrupt("bucket %s: %w", bucketName(tag, id), err)
			}
		}
	}
	c.known, c.dirty = true, true
	c.update()
	c.rec.ID, c.rec.Name, c.rec.Schema = id, name, slices.Clone(schema)
	return tx.putRecord(tagCollections, appendU32(nil, id), c.rec.encode())
}

// DropCollection removes a collection with its documents, ids and history. Its segments stay.
func (tx *Tx) DropCollection(id uint32) error {
	if _, err := tx.change((*Tx).documents, id); err != nil {
		return err
	}
	t, err := tx.table(tagCollections)
	if err != nil {
		return err
	}
	history, purge, err := tx.histories()
	if err != nil {
		return err
	}
	var mirror []byte
	err = history.drain(appendU32(nil, id), func(key []byte) error {
		if len(key) < 8 {
			return history.corrupt(key, fmt.Errorf("%w: key of %d bytes", fileformat.ErrFormat, len(key)))
		}
		owner := len(key) - 8
		mirror = append(append(mirror[:0], key[owner:]...), key[:owner]...)
		_, err := purge.delete(mirror)
		return err
	})
	if err != nil {
		return err
	}
	for _, tag := range []uint8{tagDocuments, tagIDs} {
		if err := tx.bolt.DeleteBucket([]byte(bucketName(tag, id))); err != nil {
			return tx.store.corrupt("bucket %s: %w", bucketName(tag, id), err)
		}
	}
	*tx.colls[id] = collection{id: id}
	_, err = t.delete(appendU32(nil, id))
	return err
}

// Upgrade marks the file as the current format version. The caller must put the digest of the
// documents of each segment, which version 1 does not have. See Store.Old.
func (tx *Tx) Upgrade() error {
	if !tx.writable {
		return errReadOnly
	}
	tx.dirty = true
	return tx.putRecord(tagSystem, keyFormat, encodeFormat())
}

// Segments returns all segments by number.
func (tx *Tx) Segments() ([]segment.Info, error) {
	t, err := tx.table(tagSegments)
	if err != nil {
		return nil, err
	}
	var all []segment.Info
	err = t.scan(nil, nil, func(key, payload []byte) (bool, error) {
		info, err := segmentOf(key, payload)
		if err != nil {
			return false, t.corrupt(key, err)
		}
		all = append(all, info)
		return true, nil
	})
	return all, err
}

func segmentOf(key, payload []byte) (segment.Info, error) {
	if len(key) != 8 {
		return segment.Info{}, fmt.Errorf("%w: key of %d bytes", fileformat.ErrFormat, len(key))
	}
	return decodeSegment(binary.BigEndian.Uint64(key), payload)
}

// PutSegment adds a segment, or replaces its record.
func (tx *Tx) PutSegment(info segment.Info) error {
	return tx.putRecord(tagSegments, appendU64(nil, info.ID), encodeSegment(&info))
}

// DeleteSegment removes a segment and its dead rows; a missing segment is no error.
func (tx *Tx) DeleteSegment(id uint64) error {
	t, err := tx.table(tagSegments)
	if err != nil {
		return err
	}
	dead, err := tx.table(tagDead)
	if err != nil {
		return err
	}
	if _, err := t.delete(appendU64(nil, id)); err != nil {
		return err
	}
	return dead.drain(appendU64(nil, id), nil)
}

// DeadChunks returns the dead rows of a segment: bit i of chunk c, which has 512 words, is row
// 32768c + i. Chunks without dead rows are absent. The caller may keep them.
func (tx *Tx) DeadChunks(seg uint64) (map[int][]uint64, error) {
	t, err := tx.table(tagDead)
	if err != nil {
		return nil, err
	}
	chunks := make(map[int][]uint64)
	prefix := appendU64(nil, seg)
	err = t.scan(prefix, prefix, func(key, payload []byte) (bool, error) {
		_, chunk, words, err := chunkOf(key, payload)
		if err != nil {
			return false, t.corrupt(key, err)
		}
		chunks[chunk] = words
		return true, nil
	})
	return chunks, err
}

// maxChunks is the number of chunks of a segment with MaxRows rows.
const maxChunks = (segment.MaxRows + chunkRows - 1) / chunkRows

func chunkOf(key, payload []byte) (seg uint64, chunk int, words []uint64, err error) {
	if len(key) != 12 {
		return 0, 0, nil, fmt.Errorf("%w: key of %d bytes", fileformat.ErrFormat, len(key))
	}
	n := binary.BigEndian.Uint32(key[8:])
	if n >= maxChunks {
		return 0, 0, nil, fmt.Errorf("%w: chunk %d", fileformat.ErrFormat, n)
	}
	words, err = decodeChunk(payload)
	return binary.BigEndian.Uint64(key), int(n), words, err
}

// PutDeadChunk replaces the dead rows of a chunk. words has at most 512 words as in DeadChunks, and
// is copied.
func (tx *Tx) PutDeadChunk(seg uint64, chunk int, words []uint64) error {
	t, err := tx.table(tagDead)
	if err != nil {
		return err
	}
	if chunk < 0 || chunk >= maxChunks || len(words) > chunkWords {
		return fmt.Errorf("%w: chunk %d of %d words", fileformat.ErrFormat, chunk, len(words))
	}
	key := appendU32(appendU64(nil, seg), uint32(chunk))
	payload := encodeChunk(words)
	if payload == nil {
		_, err := t.delete(key)
		return err
	}
	return t.put(key, payload)
}
