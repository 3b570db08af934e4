package meta

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// Document returns the payload of a document; ok is false if the document or the collection does
// not exist. The payload is valid until the end of the transaction.
func (tx *Tx) Document(coll uint32, doc uint64) (payload []byte, ok bool, err error) {
	t, err := tx.documents(coll)
	if t == nil {
		return nil, false, err
	}
	tx.key = appendU64(tx.key[:0], doc)
	return t.get(tx.key)
}

// Payloads sets payloads[i] to the payload of docs[i], as Document returns it, nil if it does not
// exist. A lookup waits for memory several times; here the lookups of many documents wait together.
// It is for transactions that read.
func (tx *Tx) Payloads(coll uint32, docs []uint64, payloads [][]byte) error {
	t, err := tx.documents(coll)
	if t == nil {
		clear(payloads)
		return err
	}
	var leaves [together]node
	for len(docs) > 0 {
		n := min(together, len(docs))
		if err := t.tree.leaves(docs[:n], &leaves); err != nil {
			return err
		}
		for i, doc := range docs[:n] {
			tx.key = appendU64(tx.key[:0], doc)
			v, bucket, err := t.tree.in(leaves[i], tx.key)
			if err = t.refuseBucket(tx.key, bucket, err); err == nil && v != nil {
				v, err = t.verify(tx.key, v)
			}
			if err != nil {
				return err
			}
			payloads[i] = v
		}
		docs, payloads = docs[n:], payloads[n:]
	}
	return nil
}

// PutDocument stores a copy of payload. Ascending numbers are fastest.
func (tx *Tx) PutDocument(coll uint32, doc uint64, payload []byte) error {
	t, err := tx.change((*Tx).documents, coll)
	if err != nil {
		return err
	}
	tx.key = appendU64(tx.key[:0], doc)
	return t.put(tx.key, payload)
}

// DeleteDocument removes a document, intact or damaged; a missing document is no error.
func (tx *Tx) DeleteDocument(coll uint32, doc uint64) error {
	t, err := tx.change((*Tx).documents, coll)
	if err != nil {
		return err
	}
	tx.key = appendU64(tx.key[:0], doc)
	_, err = t.delete(tx.key)
	return err
}

// Documents calls fn with the documents of a collection in ascending order, beginning at a number,
// until fn returns false or an error. The payload is valid until the end of the transaction. fn may
// use the transaction, but must not change documents.
func (tx *Tx) Documents(coll uint32, from uint64, fn func(doc uint64, payload []byte) (more bool, err error)) error {
	t, err := tx.documents(coll)
	if t == nil {
		return err
	}
	return t.scan(appendU64(nil, from), nil, func(key, payload []byte) (bool, error) {
		if len(key) != 8 {
			return false, t.corrupt(key, fmt.Errorf("%w: key of %d bytes", fileformat.ErrFormat, len(key)))
		}
		return fn(binary.BigEndian.Uint64(key), payload)
	})
}

// ID returns the document that an id names; ok is false if the id or the collection does not exist.
func (tx *Tx) ID(coll uint32, id string) (doc uint64, ok bool, err error) {
	t, err := tx.identifiers(coll)
	if t == nil {
		return 0, false, err
	}
	tx.key = append(tx.key[:0], id...)
	b, ok, err := t.get(tx.key)
	if !ok {
		return 0, false, err
	}
	if doc, err = number(b); err != nil {
		return 0, false, t.corrupt(tx.key, err)
	}
	return doc, true, nil
}

// PutID makes id name a document. Ids in ascending order are fastest.
func (tx *Tx) PutID(coll uint32, id string, doc uint64) error {
	if !validID(id) {
		return errTooLong
	}
	t, err := tx.change((*Tx).identifiers, coll)
	if err != nil {
		return err
	}
	tx.key = append(tx.key[:0], id...)
	return t.putNumber(tx.key, doc)
}

func validID(id string) bool { return len(id) > 0 && len(id) <= maxID }

func (t *table) putNumber(key []byte, v uint64) error {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	return t.put(key, b[:])
}

// DeleteID removes an id, intact or damaged; a missing id is no error. The document stays.
func (tx *Tx) DeleteID(coll uint32, id string) error {
	t, err := tx.change((*Tx).identifiers, coll)
	if err != nil {
		return err
	}
	tx.key = append(tx.key[:0], id...)
	_, err = t.delete(tx.key)
	return err
}

// IDs calls fn with the ids of a collection and their documents, in byte order from an id
// (inclusive or exclusive), until fn returns false or an error. fn may use the transaction, but
// must not change ids.
func (tx *Tx) IDs(coll uint32, from string, inclusive bool,
	fn func(id string, doc uint64) (more bool, err error)) error {
	t, err := tx.identifiers(coll)
	if t == nil {
		return err
	}
	return t.scan([]byte(from), nil, func(key, payload []byte) (bool, error) {
		if !inclusive && string(key) == from {
			return true, nil
		}
		doc, err := number(payload)
		if err != nil {
			return false, t.corrupt(key, err)
		}
		return fn(string(key), doc)
	})
}

// PutHistory notes that before lsn the id named the document old; 0 means no document. Readers of
// an earlier version of the database find it there. PurgeHistory removes the note together with the
// document. There is at most one note per id and LSN.
func (tx *Tx) PutHistory(coll uint32, id string, lsn, old uint64) error {
	if !validID(id) {
		return errTooLong
	}
	if _, err := tx.change((*Tx).documents, coll); err != nil { // must exist, because PurgeHistory deletes from it
		return err
	}
	history, purge, err := tx.histories()
	if err != nil {
		return err
	}
	tx.key = appendU64(appendOwner(tx.key[:0], coll, id), lsn)
	if err := history.putNumber(tx.key, old); err != nil {
		return err
	}
	tx.key = appendOwner(appendU64(tx.key[:0], lsn), coll, id)
	return purge.putNumber(tx.key, old)
}

// histories returns the two buckets of the notes: ordered by id and by LSN.
func (tx *Tx) histories() (history, purge *table, err error) {
	if history, err = tx.table(tagHistory); err != nil {
		return nil, nil, err
	}
	purge, err = tx.table(tagPurge)
	return history, purge, err
}

// History returns the document that id named once all changes up to the LSN after were applied: the
// document in the note with the smallest LSN above after. ok is false without such a note; then ID
// gives the answer.
func (tx *Tx) History(coll uint32, id string, after uint64) (old uint64, ok bool, err error) {
	t, err := tx.table(tagHistory)
	if err != nil || !validID(id) || after+1 == 0 {
		return 0, false, err
	}
	if t.empty() {
		return 0, false, nil
	}
	tx.key = appendOwner(tx.key[:0], coll, id)
	owner := len(tx.key)
	tx.key = appendU64(tx.key, after+1)
	k, v, err := t.seek(tx.key)
	if err != nil {
		return 0, false, err
	}
	if len(k) != len(tx.key) || !bytes.Equal(k[:owner], tx.key[:owner]) {
		return 0, false, nil
	}
	b, err := t.verify(k, v)
	if err != nil {
		return 0, false, err
	}
	if old, err = number(b); err != nil {
		return 0, false, t.corrupt(k, err)
	}
	return old, true, nil
}

// PurgeHistory removes the notes with an LSN of at most upTo and the documents that they name. It
// returns the number of removed notes.
func (tx *Tx) PurgeHistory(upTo uint64) (n int, err error) {
	if !tx.writable {
		return 0, errReadOnly
	}
	history, purge, err := tx.histories()
	if err != nil {
		return 0, err
	}
	var key []byte
	for {
		// Continue at the last key: seeking from the start would pass the pages emptied so far.
		k, v := purge.cursor.Seek(key)
		if k == nil {
			return n, nil
		}
		key = append(key[:0], k...)
		payload, err := purge.verify(key, v)
		if err != nil {
			return n, err
		}
		old, err := number(payload)
		if err == nil && (len(key) < 8 || !validOwner(key[8:])) {
			err = fmt.Errorf("%w: key of %d bytes", fileformat.ErrFormat, len(key))
		}
		if err != nil {
			return n, purge.corrupt(key, err)
		}
		if binary.BigEndian.Uint64(key) > upTo {
			return n, nil
		}
		if old != 0 {
			docs, err := tx.documents(binary.BigEndian.Uint32(key[8:]))
			if docs != nil {
				tx.key = appendU64(tx.key[:0], old)
				_, err = docs.delete(tx.key)
			}
			if err != nil {
				return n, err
			}
		}
		tx.key = append(append(tx.key[:0], key[8:]...), key[:8]...)
		if _, err := history.delete(tx.key); err != nil {
			return n, err
		}
		if _, err := purge.delete(key); err != nil {
			return n, err
		}
		n++
	}
}
