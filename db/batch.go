package db

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/document"
)

// MaxBatchLen is the limit of one batch, in bytes of its stored form
// (documents and vectors).
const MaxBatchLen = 512 << 20

// A Batch is a list of writes to any number of collections. It takes effect as a whole or
// not at all. The zero Batch is empty and ready to use. A Batch takes no lock and is not
// safe for concurrent use. The first invalid write sticks: DB.Apply returns its error and
// writes nothing.
//
// Vectors are not copied: they must not change before Apply returns.
type Batch struct {
	ops []op
	buf []byte // stored documents of all puts, end to end
	len int    // bytes of documents and vectors
	err error
}

// A Patch changes parts of one document and leaves the rest as it is.
type Patch struct {
	ID     string
	Text   *string   // nil keeps the text
	Vector []float32 // nil keeps the vector
	Set    Metadata  // top-level fields to add or replace
	Unset  []string  // top-level fields to remove, before Set is applied
}

// Upsert adds d to the named collection, replacing any document with the same id.
func (b *Batch) Upsert(collection string, d Document) { b.put(collection, d, false) }

// Insert adds d to the named collection. Apply fails with ErrExists, and writes nothing,
// if the id is taken.
func (b *Batch) Insert(collection string, d Document) { b.put(collection, d, true) }

// Patch changes a document of the named collection. Apply fails with ErrNotFound, and
// writes nothing, if the document does not exist.
func (b *Batch) Patch(collection string, p Patch) {
	o := op{kind: opPut, collection: collection, id: p.ID, vec: p.Vector, patch: &p}
	if b.fail(document.ValidateID(p.ID)) || b.fail(document.ValidateVector(p.ID, p.Vector)) {
		return
	}
	b.ops = append(b.ops, o)
	b.grow(4 * len(p.Vector))
}

// Delete removes documents from the named collection. Ids that do not exist
// are no error.
func (b *Batch) Delete(collection string, ids ...string) {
	for _, id := range ids {
		if b.fail(document.ValidateID(id)) {
			return
		}
		b.ops = append(b.ops, op{kind: opDelete, collection: collection, id: id})
		b.grow(len(id))
	}
}

// Len returns the number of writes.
func (b *Batch) Len() int { return len(b.ops) }

// IDs returns the ids of the writes in order, including the ids generated for documents
// that came without one.
func (b *Batch) IDs() []string {
	ids := make([]string, len(b.ops))
	for i := range b.ops {
		ids[i] = b.ops[i].id
	}
	return ids
}

// Reset empties the batch and clears its error.
func (b *Batch) Reset() { *b = Batch{} }

// expect makes room for documents that are about to be added.
func (b *Batch) expect(docs []Document) {
	n := 0
	for i := range docs {
		d := &docs[i]
		n += 8 + len(d.ID) + 16*len(d.Metadata) + len(d.Text)
	}
	b.ops = slices.Grow(b.ops, len(docs))
	b.buf = slices.Grow(b.buf, min(n, MaxBatchLen))
}

func (b *Batch) put(collection string, d Document, insert bool) {
	if d.ID == "" {
		id, err := document.NewID()
		if b.fail(err) {
			return
		}
		d.ID = id
	}
	if b.fail(document.ValidateVector(d.ID, d.Vector)) {
		return
	}
	start := len(b.buf)
	var err error
	if b.buf, err = document.Append(b.buf, d.stored()); b.fail(err) {
		return
	}
	b.ops = append(b.ops, op{
		kind: opPut, collection: collection, id: d.ID, insert: insert,
		start: start, end: len(b.buf), vec: d.Vector,
	})
	b.grow(len(b.buf) - start + 4*len(d.Vector))
}

func (b *Batch) fail(err error) bool {
	if b.err == nil {
		b.err = err
	}
	return b.err != nil
}

func (b *Batch) grow(n int) {
	if b.len += n; b.len > MaxBatchLen {
		b.fail(invalidf("batch is larger than %d bytes", MaxBatchLen))
	}
}

// The kinds of writes. The numbers are stored in the WAL.
const (
	opPut    = 1 // a document, with or without its vector
	opDelete = 2 // by id
	opDefine = 3 // creates a collection or replaces its definition
	opDrop   = 4 // removes a collection
)

// An op is one write. A batch fills the upper fields; resolving the op against the state
// it will be applied to fills the lower ones.
type op struct {
	kind       uint8
	insert     bool   // the id must be free
	collection string // its name, unless bound
	bound      bool   // coll is set already
	id         string
	start, end int // range of the stored document in the batch's buffer
	vec        []float32
	patch      *Patch
	def        *definition // opDefine

	coll uint32
	doc  []byte // stored document
	num  uint64 // DocNum of a put
	old  uint64 // DocNum of the version that this write replaces, 0 if none
}

// A WAL record is the resolved form of one batch:
//
//	version u8 | first DocNum u64 | ops u32 | op …
//
//	put     1 u8 | collection u32 | document length u32 | dim u32 | document | dim × float32
//	delete  2 u8 | collection u32 | id length u32 | id
//	define  3 u8 | collection u32 | definition length u32 | definition
//	drop    4 u8 | collection u32
//
// Puts take DocNums in order from the first. All integers are little-endian.
const recordVersion = 1

// encodeRecord returns the record as consecutive pieces, so that vectors are not copied.
func encodeRecord(first uint64, ops []op) ([][]byte, error) {
	head := codec.Encoder{B: make([]byte, 0, 13+len(ops)*16)}
	parts := make([][]byte, 0, 1+2*len(ops))
	flushed := 0 // start of the bytes of head.B that are not in parts yet
	emit := func(b []byte) {
		parts = append(parts, head.B[flushed:len(head.B):len(head.B)])
		flushed = len(head.B)
		if len(b) > 0 {
			parts = append(parts, b)
		}
	}
	head.U8(recordVersion)
	head.U64(first)
	head.U32(uint32(len(ops)))
	for i := range ops {
		o := &ops[i]
		head.U8(o.kind)
		head.U32(o.coll)
		switch o.kind {
		case opPut:
			head.U32(uint32(len(o.doc)))
			head.U32(uint32(len(o.vec)))
			emit(o.doc)
			if len(o.vec) > 0 {
				parts = append(parts, codec.BytesFromF32s(o.vec))
			}
		case opDelete:
			head.U32(uint32(len(o.id)))
			head.Raw([]byte(o.id))
		case opDefine:
			b, err := o.def.encode()
			if err != nil {
				return nil, err
			}
			head.U32(uint32(len(b)))
			head.Raw(b)
		}
	}
	if flushed < len(head.B) {
		emit(nil)
	}
	return parts, nil
}

// decodeRecord is the inverse. The result shares no memory with b.
func decodeRecord(b []byte) (first uint64, ops []op, err error) {
	d := codec.NewDecoder(b)
	if v := d.U8(); d.Err() == nil && v != recordVersion {
		return 0, nil, fmt.Errorf("%w: record version %d", ErrVersion, v)
	}
	first = d.U64()
	n := int(d.U32())
	next := first
	for range n {
		o := op{kind: d.U8(), coll: d.U32()}
		switch o.kind {
		case opPut:
			size, dim := int(d.U32()), int(d.U32())
			o.doc = bytes.Clone(d.Raw(size))
			if dim > MaxDim {
				d.Fail(fmt.Errorf("dimension %d", dim))
			}
			o.vec = d.F32s(dim)
			if d.Err() == nil {
				o.id, err = document.DecodeID(o.doc)
				d.Fail(err)
			}
			o.num = next
			next++
		case opDelete:
			o.id = string(d.Raw(int(d.U32())))
		case opDefine:
			raw := d.Raw(int(d.U32()))
			if d.Err() == nil {
				o.def, err = decodeDefinition(o.coll, raw)
				d.Fail(err)
			}
		case opDrop:
		default:
			d.Fail(fmt.Errorf("unknown kind %d", o.kind))
		}
		if d.Err() != nil {
			break
		}
		ops = append(ops, o)
	}
	if d.Err() == nil && d.Len() > 0 {
		d.Fail(fmt.Errorf("%d bytes left over", d.Len()))
	}
	return first, ops, d.Err()
}
