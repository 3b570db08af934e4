package share

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
)

// encodeOps appends ops: all vectors, so that the reader finds them aligned, all documents, then
// the ops themselves. decided says that one definition or drop may stand alone.
func encodeOps(e *codec.Encoder, ops []engine.Op, decided bool) error {
	components, documents, size := 0, 0, 0
	for i := range ops {
		if err := checkOp(&ops[i], decided && len(ops) == 1); err != nil {
			return err
		}
		components += len(ops[i].Vec)
		documents += len(ops[i].Doc)
		size += opSize(&ops[i])
	}
	if err := checkSize(size, decided); err != nil {
		return err
	}
	if 4*components > largePayload {
		return fmt.Errorf("%w: vectors of %d components", errTooLarge, components)
	}
	e.B = slices.Grow(e.B, 4*components+documents+64+16*len(ops)) // other parts are mostly small
	e.U32(uint32(components))
	for i := range ops {
		e.F32s(ops[i].Vec)
	}
	e.Uvarint(uint64(documents))
	for i := range ops {
		e.Raw(ops[i].Doc)
	}
	names := namesOf(ops)
	e.Uvarint(uint64(len(names)))
	index := make(map[string]int, len(names))
	for i, name := range names {
		e.String(name)
		index[name] = i
	}
	e.Uvarint(uint64(len(ops)))
	for i := range ops {
		if err := encodeOp(e, &ops[i], index); err != nil {
			return err
		}
	}
	return nil
}

// namesOf returns the names of the collections that ops name, in order of their first use.
func namesOf(ops []engine.Op) (names []string) {
	seen := map[string]bool{}
	last := ""
	for i := range ops {
		name := ops[i].Collection
		if !named(&ops[i]) || name == last && len(names) > 0 {
			continue
		}
		if last = name; !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

// named reports whether an op gives its collection by name.
func named(o *engine.Op) bool {
	return !o.Bound && (o.Kind == engine.OpPut || o.Kind == engine.OpDelete)
}

// decodeOps is the inverse. It also returns the size of the batch.
func decodeOps(d *codec.Decoder, decided bool) (ops []engine.Op, size int) {
	total := d.Len()
	in := opDecoder{Decoder: d}
	in.vectors = codec.F32sFromBytes(d.Raw(4 * int(d.U32())))
	in.documents = bytes.Clone(d.Bytes())
	in.readNames()
	n := d.Count(minOp)
	if n > 0 {
		ops = make([]engine.Op, 0, capacity(n, total))
	}
	for range n {
		o := in.op()
		if d.Err() == nil {
			d.Fail(checkOp(&o, decided && n == 1))
		}
		if d.Err() != nil {
			return nil, 0
		}
		size += opSize(&o)
		ops = append(ops, o)
	}
	if d.Err() == nil && (len(in.vectors)+len(in.documents) > 0 || in.used < len(in.names)) {
		d.Fail(fmt.Errorf("%d components, %d bytes of documents and %d names belong to no write",
			len(in.vectors), len(in.documents), len(in.names)-in.used))
	}
	d.Fail(checkSize(size, decided))
	return ops, size
}

// opSize returns the bytes by which package db limits a batch.
func opSize(o *engine.Op) int {
	if o.Kind == engine.OpDelete {
		return len(o.ID)
	}
	return len(o.Doc) + 4*len(o.Vec)
}

// checkSize limits a batch. The writes of a decision, which are deletes of any number, are limited
// by the frame.
func checkSize(size int, decided bool) error {
	if size > maxOps && !decided {
		return document.Invalidf("batch is larger than %d bytes", maxOps)
	}
	return nil
}

// checkOp returns an error for an op that package db does not write: what a sender may send, and
// what a receiver takes. It leaves out the content of documents and definitions, which is checked
// where they are decoded. alone says that o is the only op of a decision.
func checkOp(o *engine.Op, alone bool) error {
	switch o.Kind {
	case engine.OpPut:
		switch {
		case (o.Patch == nil) == (len(o.Doc) == 0):
			return errors.New("a put has a document or a patch")
		case o.Patch != nil && o.Insert:
			return errors.New("a patch of a document that must not exist")
		case o.Def != nil:
			return errors.New("a put has a definition")
		}
		if err := document.ValidateID(o.ID); err != nil {
			return err
		}
		if p := o.Patch; p != nil && p.Text != nil {
			if err := document.ValidateText(o.ID, *p.Text); err != nil {
				return err
			}
		}
		return document.ValidateVector(o.ID, o.Vec)
	case engine.OpDelete:
		if o.Insert || o.Vec != nil || len(o.Doc) > 0 || o.Patch != nil || o.Def != nil {
			return errors.New("a delete has an id alone")
		}
		return document.ValidateID(o.ID)
	case engine.OpDefine, engine.OpDrop:
		switch {
		case !alone:
			return errors.New("a definition or a drop is the only write of a decision")
		case o.Insert || o.Bound || o.Collection != "" || o.ID != "" || o.Vec != nil || len(o.Doc) > 0 ||
			o.Patch != nil:
			return errors.New("a definition or a drop has parts of a put")
		case (o.Kind == engine.OpDefine) != (o.Def != nil) || o.Def != nil && o.Def.ID != o.Coll:
			return fmt.Errorf("collection %d has no definition, or another's", o.Coll)
		case o.Def != nil && o.Def.Schema.Text != nil && o.Def.Schema.Text.Language == "":
			return errors.New("a text index without a language")
		case o.Def != nil:
			return engine.ValidateName(o.Def.Name)
		}
		return nil
	}
	return fmt.Errorf("write of kind %d", o.Kind)
}

// flagsOf returns the flags of an op.
func flagsOf(o *engine.Op) (flags uint8) {
	set := func(flag uint8, v bool) {
		if v {
			flags |= flag
		}
	}
	set(flagInsert, o.Insert)
	set(flagBound, o.Bound)
	set(flagVector, o.Vec != nil)
	if p := o.Patch; p != nil {
		set(flagPatch, true)
		set(flagText, p.Text != nil)
		set(flagSet, p.Set != nil)
		set(flagUnset, p.Unset != nil)
	}
	return flags
}

// encodeOp appends an op without its vector and document. index numbers the names of collections.
func encodeOp(e *codec.Encoder, o *engine.Op, index map[string]int) error {
	e.U8(o.Kind)
	e.U8(flagsOf(o))
	if named(o) {
		e.Uvarint(uint64(index[o.Collection]))
	} else {
		e.U32(o.Coll)
	}
	switch o.Kind {
	case engine.OpDelete:
		e.String(o.ID)
	case engine.OpDefine:
		b, err := o.Def.Encode()
		if err == nil && len(b) > maxDefinition {
			err = fmt.Errorf("%w: definition of %d bytes, the limit is %d", errTooLarge, len(b), maxDefinition)
		}
		if err != nil {
			return err
		}
		e.Bytes(b)
	case engine.OpPut:
		if o.Vec != nil {
			e.Uvarint(uint64(len(o.Vec)))
		}
		if o.Patch != nil {
			e.String(o.ID)
			return encodePatch(e, o.ID, o.Patch)
		}
		id, err := document.DecodeID(o.Doc)
		if err == nil && id != o.ID {
			err = fmt.Errorf("document %q is put as %q", id, o.ID)
		}
		if err != nil {
			return err
		}
		e.Uvarint(uint64(len(o.Doc)))
	}
	return nil
}

func encodePatch(e *codec.Encoder, id string, p *engine.Patch) error {
	if p.Text != nil {
		e.String(*p.Text)
	}
	if p.Set != nil {
		b, err := document.EncodeMetadata(p.Set)
		if err != nil {
			return fmt.Errorf("document %q: %w", id, err) // as the engine says it
		}
		e.Bytes(b)
	}
	if p.Unset != nil {
		e.Uvarint(uint64(len(p.Unset)))
		for _, field := range p.Unset {
			e.String(field)
		}
	}
	return nil
}

// An opDecoder reads ops, and takes their vectors and documents off the front of the slices.
type opDecoder struct {
	*codec.Decoder
	vectors   []float32
	documents []byte
	names     []string // of collections
	used      int      // names that ops so far have
}

// readNames reads the names of collections. A name may be any string, because db takes any: it is
// looked up, and never stored.
func (d *opDecoder) readNames() {
	n := d.Count(1)
	seen := make(map[string]bool, capacity(n, d.Len()))
	for range n {
		name := d.String()
		if seen[name] {
			d.Fail(fmt.Errorf("name %.200q is there twice", name))
		}
		if d.Err() != nil {
			return
		}
		seen[name] = true
		d.names = append(d.names, name)
	}
}

// name reads the number of a name. The names are in order of their first use.
func (d *opDecoder) name() string {
	i := d.Uvarint()
	if d.Err() != nil {
		return ""
	}
	if i > uint64(d.used) || i >= uint64(len(d.names)) {
		d.Fail(fmt.Errorf("name %d of %d, after %d", i, len(d.names), d.used))
		return ""
	}
	d.used = max(d.used, int(i)+1)
	return d.names[i]
}

func (d *opDecoder) op() (o engine.Op) {
	o.Kind = d.U8()
	flags := d.U8()
	o.Insert, o.Bound = flags&flagInsert != 0, flags&flagBound != 0
	if named(&o) {
		o.Collection = d.name()
	} else {
		o.Coll = d.U32()
	}
	switch o.Kind {
	case engine.OpDelete:
		o.ID = d.String()
	case engine.OpDefine:
		o.Def = d.definition(o.Coll)
	case engine.OpPut:
		if flags&flagVector != 0 {
			o.Vec = d.vector()
		}
		if flags&flagPatch != 0 {
			o.ID = d.String()
			o.Patch = d.patch(flags)
		} else {
			o.Doc = d.document()
			if d.Err() == nil {
				var err error
				o.ID, err = document.Verify(o.Doc)
				d.Fail(err)
			}
		}
	}
	if d.Err() == nil && flagsOf(&o) != flags {
		d.Fail(fmt.Errorf("flags %#x of a write of kind %d", flags, o.Kind))
	}
	return o
}

func (d *opDecoder) vector() []float32 {
	n := d.Uvarint()
	if n > uint64(len(d.vectors)) {
		d.Fail(fmt.Errorf("vector of %d components, %d are left", n, len(d.vectors)))
		return nil
	}
	v := d.vectors[:n:n]
	d.vectors = d.vectors[n:]
	if v == nil {
		v = []float32{}
	}
	return v
}

func (d *opDecoder) document() []byte {
	n := d.Uvarint()
	if n > uint64(len(d.documents)) {
		d.Fail(fmt.Errorf("document of %d bytes, %d are left", n, len(d.documents)))
		return nil
	}
	b := d.documents[:n:n]
	d.documents = d.documents[n:]
	return b
}

// definition reads a definition that Definition.Encode can have written.
func (d *opDecoder) definition(coll uint32) *engine.Definition {
	b := d.Bytes()
	if d.Err() != nil {
		return nil
	}
	if len(b) > maxDefinition {
		d.Fail(fmt.Errorf("definition of %d bytes, the limit is %d", len(b), maxDefinition))
		return nil
	}
	if d.Fail(document.Bounded(b)); d.Err() != nil { // the library of msgpack does not limit depth
		return nil
	}
	def, err := engine.DecodeDefinition(coll, b)
	var again []byte
	if err == nil {
		again, err = def.Encode()
	}
	if err == nil && !bytes.Equal(again, b) {
		err = fmt.Errorf("collection %d is defined in another form", coll)
	}
	d.Fail(err)
	return def
}

func (d *opDecoder) patch(flags uint8) *engine.Patch {
	p := &engine.Patch{}
	if flags&flagText != 0 {
		p.Text = new(d.String())
	}
	if flags&flagSet != 0 {
		b := d.Bytes()
		if d.Err() == nil {
			var err error
			p.Set, err = document.VerifyMetadata(b)
			d.Fail(err)
		}
		if p.Set == nil {
			p.Set = map[string]any{}
		}
	}
	if flags&flagUnset != 0 {
		n := d.Count(1)
		p.Unset = make([]string, 0, capacity(n, d.Len()))
		for range n {
			field := d.String()
			if d.Err() != nil {
				break
			}
			p.Unset = append(p.Unset, field)
		}
	}
	return p
}
