package db

import (
	"fmt"
	"slices"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
)

// MaxBatchLen is the limit of one batch, in bytes of its stored form (documents and
// vectors). A patch counts as the whole document that it makes.
const MaxBatchLen = 512 << 20

// A Batch is a list of writes to any number of collections. It takes effect as a whole or
// not at all. The zero Batch is empty and ready to use. A Batch takes no lock and is not
// safe for concurrent use. The first invalid write sticks: later ones are not added, Err
// and DB.Apply return its error, and Apply writes nothing.
//
// Vectors are not copied: they must not change before Apply returns. Everything else is copied.
type Batch struct {
	ops    []engine.Op
	wheres []deletion
	buf    []byte // stored documents of all puts, end to end
	len    int    // bytes of documents and vectors
	err    error
}

// A deletion removes the documents of a collection that match.
type deletion struct {
	collection string
	bound      bool // coll names the collection, and collection is ignored
	coll       uint32
	where      filter.Expr
}

// A Patch changes parts of one document and leaves the rest as it is.
type Patch struct {
	ID     string
	Text   *string   // nil keeps the text
	Vector []float32 // nil keeps the vector, an empty one removes it
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
	if b.fail(document.ValidateID(p.ID)) || b.fail(document.ValidateVector(p.ID, p.Vector)) {
		return
	}
	if p.Text != nil && b.fail(document.ValidateText(p.ID, *p.Text)) {
		return
	}
	set, err := document.Canonical(p.Set)
	if err != nil {
		b.fail(fmt.Errorf("document %q: %w", p.ID, err))
		return
	}
	patch, size := &engine.Patch{Set: set, Unset: slices.Clone(p.Unset)}, 4*len(p.Vector)
	if p.Text != nil {
		patch.Text = new(*p.Text)
		size += len(*p.Text)
	}
	b.ops = append(b.ops, engine.Op{Kind: engine.OpPut, Collection: collection, ID: p.ID, Vec: p.Vector, Patch: patch})
	b.grow(size)
}

// Delete removes documents from the named collection. IDs that do not exist
// are no error.
func (b *Batch) Delete(collection string, ids ...string) {
	for _, id := range ids {
		if b.fail(document.ValidateID(id)) {
			return
		}
		b.ops = append(b.ops, engine.Op{Kind: engine.OpDelete, Collection: collection, ID: id})
		b.grow(len(id))
	}
}

// DeleteWhere removes the documents of the named collection that match when the batch is applied,
// also documents that other writers add before. It comes before all other writes of the batch. So a
// batch can replace a group, such as the passages of a file. If two batches replace the same group
// at the same time, readers see all of one or all of the other. A nil filter is an error: to remove
// everything, use filter.And(). All writers wait while the documents that match are found.
func (b *Batch) DeleteWhere(collection string, where filter.Expr) {
	if where == nil {
		b.fail(invalidf("a nil filter would delete everything"))
	} else if err := filter.Validate(where); err != nil {
		b.fail(invalidf("where: %v", err))
	}
	if b.err == nil {
		b.wheres = append(b.wheres, deletion{collection: collection, where: filter.Simplify(where)})
	}
}

// Len returns the number of writes. A batch without writes may have an error.
func (b *Batch) Len() int { return len(b.ops) + len(b.wheres) }

// Size returns the size of the writes in bytes. The limit of a batch is MaxBatchLen.
func (b *Batch) Size() int { return b.len }

// Err returns the error of the first invalid write, or nil. So a document can be checked
// before it is written, in a batch of its own. What depends on the collection is checked by
// Apply: the dimension of vectors, and for Insert and Patch whether the id exists.
func (b *Batch) Err() error { return b.err }

// IDs returns the ids of the writes in order, including the ids generated for documents
// that came without one. A DeleteWhere adds no id.
func (b *Batch) IDs() []string {
	ids := make([]string, len(b.ops))
	for i := range b.ops {
		ids[i] = b.ops[i].ID
	}
	return ids
}

// collections returns the names of the collections that the batch writes to, in order of their
// first use.
func (b *Batch) collections() (names []string) {
	note := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for i := range b.ops {
		note(b.ops[i].Collection)
	}
	for i := range b.wheres {
		note(b.wheres[i].collection)
	}
	return names
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
	b.ops = append(b.ops, engine.Op{
		Kind: engine.OpPut, Collection: collection, ID: d.ID, Insert: insert,
		Start: start, End: len(b.buf), Vec: d.Vector,
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
