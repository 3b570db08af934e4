package db

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/meta"
)

// A version is the whole database at one moment. It is immutable, shared by
// every reader that started while it was current, and counted, so that its
// files are removed only when nobody can read them.
type version struct {
	lsn     uint64            // the last batch in it
	applied uint64            // the last batch in meta.bolt and the segments when it was made
	nextNum uint64            // DocNums from here on are not in it
	names   map[string]uint32 // never written to once published
	views   map[uint32]*view  // likewise
	files   *fileSet

	headBytes int64 // approximate memory of the heads when it was made

	refs int // guarded by DB.mu; the current version holds one
}

// read runs fn in a read transaction on the documents of the version.
func (v *version) read(fn func(tx *meta.Tx) error) error { return v.files.store.View(fn) }

// A view is one collection in one version.
type view struct {
	def   *definition
	parts []*part
	heads []headView // newest first
	count int        // live documents
}

// headView is the prefix of a head that a view includes.
type headView struct {
	coll    *collHead
	entries int
}

// A part is a sorted list of rows, each one version of a document, all with
// vectors of the same dimension or all without (dimension 0). It lies in a
// segment or in the head.
type part struct {
	source  source
	segment *openSegment // nil for a part of the head
	table   *table       // nil for a segment
	n, dim  int
	nums    []uint64  // DocNums, ascending
	inv     []float32 // inverse norms
	maxNorm float32   // no vector is longer
	docs    [][]byte  // stored documents, if the head has them
	dead    *bitset.Cow
}

// source reads the rows of a part.
type source interface {
	// vectors returns rows [lo, hi), which must not cross a run. The memory
	// must not be written to, nor kept beyond the version's release.
	vectors(lo, hi int) ([]float32, error)
	// run returns the end of the range of rows around row that vectors can
	// return at once; it may lie beyond the last row.
	run(row int) int
	// match evaluates a filter on every row, dead or alive.
	// It ends early with ctx.
	match(ctx context.Context, e filter.Expr, dst bitset.Set) error
}

// live returns how many rows are not dead.
func (p *part) live() int { return p.n - p.dead.Count() }

// row returns the row of a DocNum.
func (p *part) row(num uint64) (int, bool) {
	if p.n == 0 || num < p.nums[0] || num > p.nums[p.n-1] {
		return 0, false
	}
	return slices.BinarySearch(p.nums[:p.n], num)
}

// vector returns a copy of one vector.
func (p *part) vector(row int) ([]float32, error) {
	if p.dim == 0 {
		return nil, nil
	}
	v, err := p.source.vectors(row, row+1)
	if err != nil {
		return nil, err
	}
	return slices.Clone(v), nil
}

// alive returns the live rows.
func (p *part) alive() bitset.Set {
	set := bitset.New(p.n)
	set.Fill(p.n)
	p.dead.AndNotInto(set)
	return set
}

// rows evaluates where on the live rows.
func (p *part) rows(ctx context.Context, where filter.Expr) (bitset.Set, error) {
	if where == nil {
		return p.alive(), nil
	}
	set := bitset.New(p.n)
	if err := p.source.match(ctx, where, set); err != nil {
		return nil, err
	}
	p.dead.AndNotInto(set)
	return set, nil
}

// locate finds the row of a DocNum.
func (v *view) locate(num uint64) (*part, int, bool) {
	for _, p := range v.parts {
		if row, ok := p.row(num); ok {
			return p, row, true
		}
	}
	return nil, 0, false
}

// kill marks the rows of nums as dead. It skips unknown DocNums: a compaction
// has dropped them already.
func (v *view) kill(nums []uint64) {
	if len(nums) == 0 {
		return
	}
	dead := make(map[int][]int)
	for _, num := range nums {
		for i, p := range v.parts {
			if row, ok := p.row(num); ok {
				dead[i] = append(dead[i], row)
				break
			}
		}
	}
	for i, rows := range dead {
		p := *v.parts[i]
		p.dead = p.dead.With(rows...)
		v.parts[i] = &p
	}
}

// vectors returns how many live rows have a vector.
func (v *view) vectors() (n int) {
	for _, p := range v.parts {
		if p.dim > 0 {
			n += p.live()
		}
	}
	return n
}

// clone returns a copy whose parts can be replaced.
func (v *view) clone() *view {
	c := *v
	c.parts = slices.Clone(v.parts)
	c.heads = slices.Clone(v.heads)
	return &c
}

// sortedViews returns the collections in order of name.
func (v *version) sortedViews() []*view {
	views := make([]*view, 0, len(v.views))
	for _, w := range v.views {
		views = append(views, w)
	}
	sort.Slice(views, func(i, j int) bool { return views[i].def.name < views[j].def.name })
	return views
}

// num returns the DocNum of id in this version, 0 if there is none. The
// transaction may be newer than the version: the history has the changes since.
func (ver *version) num(tx *meta.Tx, v *view, id string) (uint64, error) {
	for _, h := range v.heads {
		if num, found := h.coll.find(id, h.entries); found {
			return num, nil
		}
	}
	old, changed, err := tx.History(v.def.id, id, ver.applied)
	if err != nil {
		return 0, err
	}
	num := old
	if !changed {
		if num, _, err = tx.ID(v.def.id, id); err != nil {
			return 0, err
		}
	}
	if num >= ver.nextNum {
		return 0, nil // put after this version
	}
	return num, nil
}

// stored returns the stored form of a document, valid until the end of the
// transaction.
func (v *view) stored(tx *meta.Tx, p *part, row int) ([]byte, error) {
	if p.docs != nil {
		return p.docs[row], nil
	}
	b, ok, err := tx.Document(v.def.id, p.nums[row])
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, missingDocument(v.def.name, p.nums[row])
	}
	return b, nil
}

// idAt returns the id of the document at a row.
func (v *view) idAt(tx *meta.Tx, p *part, row int) (string, error) {
	b, err := v.stored(tx, p, row)
	if err != nil {
		return "", err
	}
	id, err := document.DecodeID(b)
	if err != nil {
		return "", corruptDocument(p.nums[row], err)
	}
	return id, nil
}

// corruptDocument is the error for a document with a valid checksum and
// impossible content.
func corruptDocument(num uint64, err error) error {
	return &CorruptError{File: metaName, Offset: -1, Err: fmt.Errorf("document %d: %w", num, err)}
}
