package engine

import (
	"context"
	"iter"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/score"
	"github.com/vecbolt/vecbolt/segment"
	"github.com/vecbolt/vecbolt/segment/columns"
)

// A head holds in memory the rows that are in the WAL and not yet in meta.bolt
// and the segments. One head serves all collections. Only the goroutine that
// holds Engine.commitMu adds to it; readers use the prefix that their version of
// the database names.
type head struct {
	colls map[uint32]*collHead
	bytes int64 // approximate memory
	// logged is about how many bytes its batches take in the log.
	logged int64
	vecs   int64     // bytes of vectors
	first  time.Time // of the first batch
	freed  int64     // bytes of the segments of collections that it drops
	drop   time.Time // of the last of these
	// watched says that FlushIdle will be called again.
	watched bool
}

func newHead() *head { return &head{colls: map[uint32]*collHead{}} }

// collHead is the part of a head that belongs to one collection.
type collHead struct {
	vec  *table // rows with vectors; nil until the first
	bare *table // rows without; nil until the first

	mu      sync.RWMutex
	latest  latest
	entries []entry
}

// An entry is a put or a delete of one id. Entries of the same id are chained
// from the newest to the oldest.
type entry struct {
	id   string
	num  uint64 // DocNum of the put; 0 is a delete
	prev int32  // the entry before it of the same id, -1 if none
}

func (h *head) coll(id uint32) *collHead {
	c := h.colls[id]
	if c == nil {
		c = &collHead{}
		h.colls[id] = c
	}
	return c
}

func (h *head) empty() bool { return len(h.colls) == 0 }

// dropped notes that the collection of v was dropped.
func (h *head) dropped(id uint32, v *View) {
	c := h.coll(id) // so that the flush includes the drop
	if v == nil {
		return // created by the same group
	}
	for _, p := range v.Parts {
		switch {
		case p.Segment != nil:
			h.freed += p.Segment.Info.Size
		case p.table != c.vec && p.table != c.bare: // of the frozen head: it becomes a segment
			h.freed += segmentBytes(p.N, p.Dim)
		default:
			continue
		}
		h.drop = time.Now()
	}
}

const (
	leastSegment = 8 << 10 // about the bytes of a segment beside its rows
	rowBytes     = 12      // of a row beside its vector
)

// segmentBytes returns about the bytes of a segment.
func segmentBytes(rows, dim int) int64 { return leastSegment + int64(rows*(4*dim+rowBytes)) }

// frees reports whether a flush frees more than it writes: the collections that the head drops have
// larger segments than it makes. v is the newest version.
func (h *head) frees(v *Version) bool {
	if h.freed == 0 {
		return false
	}
	written := int64(0)
	for id, c := range h.colls {
		if v.Views[id] == nil {
			continue
		}
		for _, t := range []*table{c.vec, c.bare} {
			if t != nil {
				written += segmentBytes(len(t.nums), t.dim)
			}
		}
	}
	return h.freed >= written
}

// record notes that id is now num, or deleted if num is 0.
func (c *collHead) record(id string, num uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	prev := c.latest.put(id, c.entries)
	c.entries = append(doubled(c.entries), entry{id: id, num: num, prev: prev})
}

// find returns the DocNum of id as of the first n entries; found is false if
// they do not mention it.
func (c *collHead) find(id string, n int) (num uint64, found bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e := c.latest.get(id, c.entries)
	for ; e >= 0; e = c.entries[e].prev {
		if int(e) < n {
			return c.entries[e].num, true
		}
	}
	return 0, false
}

// IDs yields every id that the first n entries mention, with its DocNum as of
// then, the newest first. It holds no lock: entries never change, and a commit
// would wait for a reader that visits many.
func (c *collHead) IDs(n int) iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		c.mu.RLock()
		entries := c.entries[:n]
		c.mu.RUnlock()
		replaced := bitset.New(n)
		for i := n - 1; i >= 0; i-- {
			e := &entries[i]
			if e.prev >= 0 {
				replaced.Set(int(e.prev))
			}
			if !replaced.Has(i) && !yield(e.id, e.num) {
				return
			}
		}
	}
}

// put appends a document to the table for its dimension.
func (h *head) put(coll uint32, o *Op) {
	c := h.coll(coll)
	t, dim := &c.bare, o.dim()
	if dim > 0 {
		t = &c.vec
	}
	if *t == nil {
		*t = newTable(dim)
	}
	(*t).append(o)
	c.record(o.ID, o.Num)
	h.bytes += int64(len(o.Doc)+4*dim+len(o.ID)) + entryOverhead
	h.vecs += int64(4 * dim)
}

// entryOverhead is the approximate memory of a row besides its bytes: slice
// header, DocNum, norm, map slot.
const entryOverhead = 120

// A table is an append-only list of rows in memory. Because it grows at the end
// only, a reader that keeps its slice headers keeps seeing the same rows.
type table struct {
	dim     int
	nums    []uint64
	docs    [][]byte
	inv     []float32
	chunks  [][]float32 // per rows each
	per     int
	maxNorm float32
	cols    *tableColumns
	terms   *tableTerms
	codes   *tableCodes
}

// ChunkBytes is the size of the pieces in which vectors are allocated and
// scanned: a fraction of the second-level cache.
const ChunkBytes = 256 << 10

func newTable(dim int) *table {
	per := 1
	if dim > 0 {
		for per < 4096 && 2*per*dim*4 <= ChunkBytes {
			per *= 2
		}
	}
	return &table{dim: dim, per: per, cols: &tableColumns{}, terms: &tableTerms{}, codes: &tableCodes{}}
}

// append adds the document of a put. The op then shares the vector of the row.
func (t *table) append(o *Op) {
	t.nums = append(doubled(t.nums), o.Num)
	t.docs = append(doubled(t.docs), o.Doc)
	if t.dim == 0 {
		o.raw = nil
		t.inv = append(doubled(t.inv), 0)
		return
	}
	vec := t.row(len(t.nums) - 1)
	if o.raw != nil {
		codec.CopyF32s(vec, o.raw)
	} else {
		copy(vec, o.Vec)
	}
	o.Vec, o.raw = vec, nil
	inv := segment.InvNorm(vec)
	t.inv = append(doubled(t.inv), inv)
	t.maxNorm = max(t.maxNorm, score.NormBound(inv))
}

// doubled returns s with room for another element: twice as much if it is full. append adds a
// quarter to a large slice, so one that grows to n elements writes 5n to new memory instead of 2n.
func doubled[T any](s []T) []T {
	if len(s) < cap(s) {
		return s
	}
	return slices.Grow(s, max(len(s), 1))
}

// row makes room for the vector of row n, which is the next one.
func (t *table) row(n int) []float32 {
	if last := len(t.chunks) - 1; n == len(t.chunks)*t.per || last < 0 {
		// The first chunk starts small, because most collections are small.
		rows := t.per
		if last < 0 {
			rows = min(t.per, 8)
		}
		t.chunks = append(t.chunks, make([]float32, rows*t.dim))
	} else if at := (n - last*t.per) * t.dim; at == len(t.chunks[last]) {
		// Readers hold the outer slice: replace it, do not write into it.
		grown := make([]float32, min(2*len(t.chunks[last]), t.per*t.dim))
		copy(grown, t.chunks[last])
		t.chunks = slices.Clone(t.chunks)
		t.chunks[last] = grown
	}
	last := len(t.chunks) - 1
	at := (n - last*t.per) * t.dim
	return t.chunks[last][at : at+t.dim]
}

// part returns the present rows as a part.
func (t *table) part() *Part {
	return &Part{
		N: len(t.nums), Dim: t.dim,
		Nums: t.nums, Inv: t.inv, MaxNorm: t.maxNorm, docs: t.docs, table: t,
		Source: &tableRows{chunks: t.chunks, per: t.per, dim: t.dim, docs: t.docs, cols: t.cols},
	}
}

// tableRows reads a prefix of a table.
type tableRows struct {
	chunks [][]float32
	per    int
	dim    int
	docs   [][]byte
	cols   *tableColumns
}

func (r *tableRows) Run(row int) int { return (row/r.per + 1) * r.per }

func (r *tableRows) Vectors(lo, hi int) ([]float32, error) {
	first := lo / r.per * r.per
	chunk := r.chunks[lo/r.per]
	return chunk[(lo-first)*r.dim : (hi-first)*r.dim], nil
}

func (r *tableRows) Match(ctx context.Context, e filter.Expr, dst bitset.Set) error {
	n := len(r.docs)
	full := n / ColumnRows
	for b := range full {
		cols, err := r.cols.block(b, r.docs)
		if err != nil {
			return err
		}
		const words = ColumnRows / 64
		if err := cols.EvalContext(ctx, e, dst[b*words:(b+1)*words]); err != nil {
			return err
		}
	}
	for row := full * ColumnRows; row < n; row++ {
		if row%64 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		m, err := document.MetadataOf(r.docs[row])
		if err != nil {
			return err
		}
		if filter.Match(e, func(path string) (any, bool) { return filter.Lookup(m, path) }) {
			dst.Set(row)
		} else {
			dst.Clear(row)
		}
	}
	return nil
}

// ColumnRows is the number of head rows that share column files in memory;
// rows beyond the last full block are matched one by one.
const ColumnRows = 1024

// tableColumns builds the columns of full blocks of a table when a filter first
// needs them.
type tableColumns struct {
	mu     sync.Mutex
	blocks []*columns.Columns
}

func (t *tableColumns) block(i int, docs [][]byte) (*columns.Columns, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.blocks) <= i {
		t.blocks = append(t.blocks, nil)
	}
	if t.blocks[i] == nil {
		cols, err := buildColumns(docs[i*ColumnRows : (i+1)*ColumnRows])
		if err != nil {
			return nil, err
		}
		t.blocks[i] = cols
	}
	return t.blocks[i], nil
}

// buildColumns builds columns of stored documents in memory.
func buildColumns(docs [][]byte) (*columns.Columns, error) {
	b := columns.NewBuilder()
	for row, doc := range docs {
		m, err := document.MetadataOf(doc)
		if err != nil {
			return nil, err
		}
		if err := b.Add(row, m); err != nil {
			return nil, err
		}
	}
	ident := columns.Ident{Rows: len(docs)}
	return columns.Parse(b.Bytes(len(docs), ident), ident)
}

// NegInf is the score below all scores.
var NegInf = math.Inf(-1)
