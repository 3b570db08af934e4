package meta

import (
	"encoding/binary"
	"fmt"

	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// SalvageDocuments calls fn with every intact document of a collection, ascending, and bad with the
// number of each document that fails its checksum. Unlike Documents it continues after damage. An
// error of fn ends it.
func (tx *Tx) SalvageDocuments(coll uint32, fn func(doc uint64, payload []byte) error,
	bad func(doc uint64, err error)) error {
	t, err := tx.documents(coll)
	if t == nil {
		return err
	}
	return t.salvage(func(key, payload []byte, err error) error {
		switch {
		case len(key) != 8:
			bad(0, t.corrupt(key, fmt.Errorf("%w: key of %d bytes", fileformat.ErrFormat, len(key))))
		case err != nil:
			bad(binary.BigEndian.Uint64(key), err)
		default:
			return fn(binary.BigEndian.Uint64(key), payload)
		}
		return nil
	})
}

// SalvageIDs calls fn with every intact id of a collection and its document, in byte order, and bad
// with each id that fails its checksum. An error of fn ends it.
func (tx *Tx) SalvageIDs(coll uint32, fn func(id string, doc uint64) error, bad func(id string, err error)) error {
	t, err := tx.identifiers(coll)
	if t == nil {
		return err
	}
	return t.salvage(func(key, payload []byte, err error) error {
		doc := uint64(0)
		if err == nil {
			doc, err = number(payload)
		}
		if err != nil {
			bad(string(key), err)
			return nil
		}
		return fn(string(key), doc)
	})
}

// salvage calls fn with every record, and the error of a damaged record.
func (t *table) salvage(fn func(key, payload []byte, err error) error) error {
	c := t.iterate().Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		payload, err := t.verify(k, v)
		if err := fn(k, payload, err); err != nil {
			return err
		}
	}
	return nil
}
