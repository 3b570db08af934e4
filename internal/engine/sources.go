package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"slices"

	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/segment"
)

// Columns and terms are built from documents, which the vector file of a
// segment does not identify: after a backup was restored, a segment can have
// the number, the DocNums and the vectors of another segment, with other
// documents. Therefore meta.bolt keeps a digest of the documents of each
// segment, and every file that is built from them carries it.
//
// A flush has the documents at hand and digests them. A compaction does not
// read them: its rows come from its victims, so the digests of the victims and
// the remaining DocNums identify the documents.

// A sourceDigest computes segment.Info.Docs.
type sourceDigest struct {
	h   hash.Hash
	buf []byte
}

// newSourceDigest begins a digest; kind keeps digests of different origins
// apart.
func newSourceDigest(kind string) *sourceDigest {
	d := &sourceDigest{h: sha256.New()}
	d.bytes([]byte(kind))
	return d
}

func (d *sourceDigest) number(n uint64) {
	d.buf = binary.LittleEndian.AppendUint64(d.buf[:0], n)
	d.h.Write(d.buf)
}

// bytes adds b with its length.
func (d *sourceDigest) bytes(b []byte) {
	d.number(uint64(len(b)))
	d.h.Write(b)
}

// document adds a row of a flush.
func (d *sourceDigest) document(num uint64, doc []byte) {
	d.number(num)
	d.bytes(doc)
}

func (d *sourceDigest) sum() (sum [16]byte) {
	copy(sum[:], d.h.Sum(nil))
	return sum
}

// mergedDigest begins the digest of a merged segment; the DocNums of its rows
// must follow.
func mergedDigest(victims []victim) *sourceDigest {
	digests := make([]string, len(victims))
	for i, v := range victims {
		digests[i] = string(v.Info.Docs[:])
	}
	slices.Sort(digests)
	d := newSourceDigest("merge")
	d.number(uint64(len(digests)))
	for _, sum := range digests {
		d.bytes([]byte(sum))
	}
	return d
}

// upgrade brings the meta.bolt of an earlier release up to date: its segments
// get digests. Reading all documents would take too long and is not needed,
// because meta.bolt's digest of all documents of the collection covers the
// documents of the segment.
func (e *Engine) upgrade() error {
	if !e.store.Old() {
		return nil
	}
	if err := e.Leftovers().readLog(); err != nil {
		return err // do not change a database that cannot be opened
	}
	e.metaMu.Lock()
	defer e.metaMu.Unlock()
	err := e.commitMeta(nil, func(tx *meta.Tx) error {
		colls, err := tx.Collections()
		if err != nil {
			return err
		}
		for _, s := range e.segments {
			at := slices.IndexFunc(colls, func(c meta.Collection) bool { return c.ID == s.Info.Collection })
			s.Info.Docs = collectionDigest(colls[at], s.Info)
			if err := tx.PutSegment(s.Info); err != nil {
				return err
			}
		}
		return tx.Upgrade()
	})
	if err != nil {
		return fmt.Errorf("upgrade %s: %w", MetaName, err)
	}
	return nil
}

// collectionDigest covers all documents of a collection, and identifies the
// rows that a segment has.
func collectionDigest(c meta.Collection, info segment.Info) [16]byte {
	d := newSourceDigest("collection")
	for _, n := range []uint64{info.ID, uint64(info.CRC), info.MinDoc, info.MaxDoc,
		c.Documents, c.DocDigest[0], c.DocDigest[1], c.IDs, c.IDDigest[0], c.IDDigest[1]} {
		d.number(n)
	}
	return d.sum()
}
