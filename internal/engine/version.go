package engine

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/meta"
)

// A Version is the whole database at one moment. It is immutable, shared by
// every reader that started while it was current, and counted, so that its
// files are removed only when nobody can read them.
type Version struct {
	LSN     uint64            // the last batch in it
	ahead   uint64            // see Number
	Applied uint64            // the last batch in meta.bolt and the segments when it was made
	nextNum uint64            // DocNums from here on are not in it
	Names   map[string]uint32 // never written to once published
	Views   map[uint32]*View  // likewise
	Files   *fileSet

	HeadBytes int64 // approximate memory of the heads when it was made

	refs int // guarded by Engine.mu; the current version holds one
}

// Number returns a number that grows with every batch. A published folder may go on with a database
// that was restored, whose batches have the numbers of earlier ones: Number grows then as well, so
// that no two versions of a process with other documents have the same number.
func (v *Version) Number() uint64 { return v.LSN + v.ahead }

// Read runs fn in a read transaction on the documents of the version.
func (v *Version) Read(fn func(tx *meta.Tx) error) error { return v.Files.Store.View(fn) }

// Read runs fn in a read transaction for a version, and turns faults of mapped
// files into errors.
func (e *Engine) Read(ver *Version, fn func(tx *meta.Tx) error) error {
	return e.Guard(func() error { return ver.Read(fn) })
}

// MissingRow is the error for an id whose document is in no segment.
func MissingRow(collection, id string, num uint64) error {
	return &fileformat.CorruptError{File: MetaName, Offset: -1,
		Err: fmt.Errorf("document %q of collection %q points to docnum %d, which no segment has", id, collection, num)}
}

// MissingDocument is the error for a row without its document.
func MissingDocument(collection string, num uint64) error {
	return &fileformat.CorruptError{File: MetaName, Offset: -1,
		Err: fmt.Errorf("document %d of collection %q is missing", num, collection)}
}

// A View is one collection in one version.
type View struct {
	Def   *Definition
	Parts []*Part
	Heads []headView // newest first
	Count int        // live documents
}

// headView is the prefix of a head that a view includes.
type headView struct {
	Coll    *collHead
	Entries int
}

// A Part is a sorted list of rows, each one version of a document, all with
// vectors of the same dimension or all without (dimension 0). It lies in a
// segment or in the head.
type Part struct {
	Source  source
	Segment *OpenSegment // nil for a part of the head
	table   *table       // nil for a segment
	N, Dim  int
	Nums    []uint64  // DocNums, ascending
	Inv     []float32 // inverse norms
	MaxNorm float32   // no vector is longer
	docs    [][]byte  // stored documents, if the head has them
	Dead    *bitset.Cow
}

// source reads the rows of a part.
type source interface {
	// Vectors returns rows [lo, hi), which must not cross a run. The memory
	// must not be written to, nor kept beyond the version's release.
	Vectors(lo, hi int) ([]float32, error)
	// Run returns the end of the range of rows around row that Vectors can
	// return at once; it may lie beyond the last row.
	Run(row int) int
	// Match evaluates a filter on every row, dead or alive.
	// It ends early with ctx.
	Match(ctx context.Context, e filter.Expr, dst bitset.Set) error
}

// Live returns how many rows are not dead.
func (p *Part) Live() int { return p.N - p.Dead.Count() }

// Row returns the row of a DocNum.
func (p *Part) Row(num uint64) (int, bool) {
	if p.N == 0 || num < p.Nums[0] || num > p.Nums[p.N-1] {
		return 0, false
	}
	return slices.BinarySearch(p.Nums[:p.N], num)
}

// Vector returns a copy of one vector.
func (p *Part) Vector(row int) ([]float32, error) {
	if p.Dim == 0 {
		return nil, nil
	}
	v, err := p.Source.Vectors(row, row+1)
	if err != nil {
		return nil, err
	}
	return slices.Clone(v), nil
}

// Alive returns the live rows.
func (p *Part) Alive() bitset.Set {
	set := bitset.New(p.N)
	set.Fill(p.N)
	p.Dead.AndNotInto(set)
	return set
}

// Rows evaluates where on the live rows.
func (p *Part) Rows(ctx context.Context, where filter.Expr) (bitset.Set, error) {
	if where == nil {
		return p.Alive(), nil
	}
	set := bitset.New(p.N)
	if err := p.Source.Match(ctx, where, set); err != nil {
		return nil, err
	}
	p.Dead.AndNotInto(set)
	return set, nil
}

// Locate finds the row of a DocNum.
func (v *View) Locate(num uint64) (*Part, int, bool) {
	for _, p := range v.Parts {
		if row, ok := p.Row(num); ok {
			return p, row, true
		}
	}
	return nil, 0, false
}

// kill marks the rows of nums as dead. It skips unknown DocNums: a compaction
// has dropped them already.
func (v *View) kill(nums []uint64) {
	if len(nums) == 0 {
		return
	}
	dead := make(map[int][]int)
	for _, num := range nums {
		for i, p := range v.Parts {
			if row, ok := p.Row(num); ok {
				dead[i] = append(dead[i], row)
				break
			}
		}
	}
	for i, rows := range dead {
		p := *v.Parts[i]
		p.Dead = p.Dead.With(rows...)
		v.Parts[i] = &p
	}
}

// Vectors returns how many live rows have a vector.
func (v *View) Vectors() (n int) {
	for _, p := range v.Parts {
		if p.Dim > 0 {
			n += p.Live()
		}
	}
	return n
}

// clone returns a copy whose parts can be replaced.
func (v *View) clone() *View {
	c := *v
	c.Parts = slices.Clone(v.Parts)
	c.Heads = slices.Clone(v.Heads)
	return &c
}

// SortedViews returns the collections in order of name.
func (v *Version) SortedViews() []*View {
	views := make([]*View, 0, len(v.Views))
	for _, w := range v.Views {
		views = append(views, w)
	}
	sort.Slice(views, func(i, j int) bool { return views[i].Def.Name < views[j].Def.Name })
	return views
}

// Num returns the DocNum of id in this version, 0 if it has no such document. The
// transaction may be newer than the version: the history has the changes since.
func (ver *Version) Num(tx *meta.Tx, v *View, id string) (uint64, error) {
	for _, h := range v.Heads {
		if num, found := h.Coll.find(id, h.Entries); found {
			return num, nil
		}
	}
	old, changed, err := tx.History(v.Def.ID, id, ver.Applied)
	if err != nil {
		return 0, err
	}
	num := old
	if !changed {
		if num, _, err = tx.ID(v.Def.ID, id); err != nil {
			return 0, err
		}
	}
	if num >= ver.nextNum {
		return 0, nil // put after this version
	}
	return num, nil
}

// Stored returns the stored form of a document, valid until the end of the
// transaction.
func (v *View) Stored(tx *meta.Tx, p *Part, row int) ([]byte, error) {
	if p.docs != nil {
		return p.docs[row], nil
	}
	b, ok, err := tx.Document(v.Def.ID, p.Nums[row])
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, MissingDocument(v.Def.Name, p.Nums[row])
	}
	return b, nil
}

// StoredAll returns the stored forms of n documents, valid until the end of the transaction. place
// returns where the i-th one is. It is faster than Stored for each: see meta.Tx.Payloads.
func (v *View) StoredAll(tx *meta.Tx, n int, place func(i int) (p *Part, row int)) ([][]byte, error) {
	all := make([][]byte, n)
	nums, where := make([]uint64, 0, n), make([]int, 0, n) // of documents in meta.bolt
	for i := range all {
		if p, row := place(i); p.docs != nil {
			all[i] = p.docs[row]
		} else {
			nums, where = append(nums, p.Nums[row]), append(where, i)
		}
	}
	found := make([][]byte, len(nums))
	if err := tx.Payloads(v.Def.ID, nums, found); err != nil {
		return nil, err
	}
	for i, b := range found {
		if b == nil {
			return nil, MissingDocument(v.Def.Name, nums[i])
		}
		all[where[i]] = b
	}
	return all, nil
}

// IDAt returns the id of the document at a row.
func (v *View) IDAt(tx *meta.Tx, p *Part, row int) (string, error) {
	b, err := v.Stored(tx, p, row)
	if err != nil {
		return "", err
	}
	id, err := document.DecodeID(b)
	if err != nil {
		return "", CorruptDocument(p.Nums[row], err)
	}
	return id, nil
}

// CorruptDocument is the error for a document with a valid checksum and
// impossible content.
func CorruptDocument(num uint64, err error) error {
	return &fileformat.CorruptError{File: MetaName, Offset: -1, Err: fmt.Errorf("document %d: %w", num, err)}
}
