package engine

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// The kinds of writes. The numbers are stored in the WAL.
const (
	OpPut    = 1 // a document, with or without its vector
	OpDelete = 2 // by id
	OpDefine = 3 // creates a collection or replaces its definition
	OpDrop   = 4 // removes a collection
)

// An Op is one write. A batch fills the upper fields; resolving the op against the state
// it will be applied to fills the lower ones.
type Op struct {
	Kind       uint8
	Insert     bool   // the id must be free
	Bound      bool   // Coll is set already
	Coll       uint32 // a lower field, if it is not bound
	Collection string // its name, unless bound
	ID         string
	Start, End int // range of the stored document in the batch's buffer
	Vec        []float32
	Patch      *Patch
	Def        *Definition // OpDefine

	Doc []byte // stored document
	Num uint64 // DocNum of a put
	old uint64 // DocNum of the version that this write replaces, 0 if none
	raw []byte // the vector as in a record, in place of Vec
}

// dim returns the dimension of the vector of a put, 0 without one.
func (o *Op) dim() int {
	if o.raw != nil {
		return len(o.raw) / 4
	}
	return len(o.Vec)
}

// A Patch changes parts of a stored document. Its vector, if it has one, is the vector of the op.
type Patch struct {
	Text  *string
	Set   map[string]any
	Unset []string
}

// A Batch is the content of a record.
type Batch struct {
	First   uint64 // DocNum of the first put
	Ops     []Op
	Request RequestID // zero if no other process followed
}

// Deleted returns how many documents the deletes of a resolved batch remove: each names one that
// exists.
func (b *Batch) Deleted() (n int) {
	for i := range b.Ops {
		if b.Ops[i].Kind == OpDelete {
			n++
		}
	}
	return n
}

// defines reports whether a batch changes the collections.
func (b *Batch) defines() bool {
	return slices.ContainsFunc(b.Ops, func(o Op) bool { return o.Kind == OpDefine || o.Kind == OpDrop })
}

// A WAL record is the resolved form of one batch:
//
//	version u8 | first DocNum u64 | ops u32 | op …
//	version u8 | writer 16 bytes | request u64 | first DocNum u64 | ops u32 | op …
//
// The second form is for a batch that was written while several processes shared the database.
//
//	put     1 u8 | collection u32 | document length u32 | dim u32 | document | dim × float32
//	delete  2 u8 | collection u32 | id length u32 | id
//	define  3 u8 | collection u32 | definition length u32 | definition
//	drop    4 u8 | collection u32
//
// Puts take DocNums in order from the first. All integers are little-endian.
const (
	RecordVersion  = 1
	RequestVersion = 2 // of a batch with an id
)

// EncodeRecord returns the record as consecutive pieces, so that vectors are not copied.
func EncodeRecord(b Batch) ([][]byte, error) {
	ops := b.Ops
	head := codec.Encoder{B: make([]byte, 0, 37+len(ops)*16)}
	parts := make([][]byte, 0, 1+2*len(ops))
	flushed := 0 // start of the bytes of head.B that are not in parts yet
	emit := func(b []byte) {
		parts = append(parts, head.B[flushed:len(head.B):len(head.B)])
		flushed = len(head.B)
		if len(b) > 0 {
			parts = append(parts, b)
		}
	}
	if b.Request.zero() {
		head.U8(RecordVersion)
	} else {
		head.U8(RequestVersion)
		head.Raw(b.Request.Writer[:])
		head.U64(b.Request.Number)
	}
	head.U64(b.First)
	head.U32(uint32(len(ops)))
	for i := range ops {
		o := &ops[i]
		head.U8(o.Kind)
		head.U32(o.Coll)
		switch o.Kind {
		case OpPut:
			head.U32(uint32(len(o.Doc)))
			head.U32(uint32(len(o.Vec)))
			emit(o.Doc)
			if len(o.Vec) > 0 {
				parts = append(parts, codec.BytesFromF32s(o.Vec))
			}
		case OpDelete:
			head.U32(uint32(len(o.ID)))
			head.Raw([]byte(o.ID))
		case OpDefine:
			b, err := o.Def.Encode()
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

// DecodeRecord is the inverse. The result shares no memory with record.
func DecodeRecord(record []byte) (Batch, error) {
	b, err := readRecord(record, nil)
	for i := range b.Ops {
		o := &b.Ops[i]
		o.Doc = bytes.Clone(o.Doc)
		if o.raw != nil {
			o.Vec = make([]float32, o.dim())
			codec.CopyF32s(o.Vec, o.raw)
			o.raw = nil
		}
	}
	return b, err
}

// readRecord is DecodeRecord without copies: documents and vectors share the memory of record. The
// ops are in room, if they fit there.
func readRecord(record []byte, room []Op) (b Batch, err error) {
	d := codec.NewDecoder(record)
	switch v := d.U8(); {
	case d.Err() != nil || v == RecordVersion:
	case v == RequestVersion:
		copy(b.Request.Writer[:], d.Raw(len(b.Request.Writer)))
		b.Request.Number = d.U64()
		if d.Err() == nil && b.Request.zero() {
			d.Fail(errors.New("a request of nobody"))
		}
	default:
		return Batch{}, fmt.Errorf("%w: record version %d", fileformat.ErrVersion, v)
	}
	b.First = d.U64()
	n := int(d.U32())
	next := b.First
	b.Ops = room[:0]
	for range n {
		o := Op{Kind: d.U8(), Coll: d.U32()}
		switch o.Kind {
		case OpPut:
			size, dim := int(d.U32()), int(d.U32())
			o.Doc = d.Raw(size)
			if dim > document.MaxDim {
				d.Fail(fmt.Errorf("dimension %d", dim))
			}
			o.raw = d.Raw(4 * dim)
			if d.Err() == nil {
				o.ID, err = document.DecodeID(o.Doc)
				d.Fail(err)
			}
			o.Num = next
			next++
		case OpDelete:
			o.ID = string(d.Raw(int(d.U32())))
		case OpDefine:
			raw := d.Raw(int(d.U32()))
			if d.Err() == nil {
				o.Def, err = DecodeDefinition(o.Coll, raw)
				d.Fail(err)
			}
		case OpDrop:
		default:
			d.Fail(fmt.Errorf("unknown kind %d", o.Kind))
		}
		if d.Err() != nil {
			break
		}
		b.Ops = append(b.Ops, o)
	}
	if d.Err() == nil && d.Len() > 0 {
		d.Fail(fmt.Errorf("%d bytes left over", d.Len()))
	}
	b.Ops = slices.Clip(b.Ops)
	return b, d.Err()
}
