package engine

import (
	"context"
	"sync"

	"github.com/vecbolt/vecbolt/segment/codes"
)

// Rows of the head get codes in blocks, when a search has met a full block: then searches scan a
// quarter of the bytes, and rows need not be flushed to be found quickly. The background makes
// them, or without it the search. The codes stay in memory and are dropped with the head. All
// blocks of a table share one mean, so that a query is prepared once.

// A block has at least the rows of a word of a set, and at most so many that their codes take
// little time.
const (
	minBlockRows = 64
	maxBlockRows = 4096
)

// maxNewBlocks is the largest number of blocks that one search codes, which takes it about as long
// as scanning the vectors of thirty blocks each. The head of a log that was replayed gets its codes
// from several searches.
const maxNewBlocks = 2

// tableCodes has the codes of the full blocks of a table.
type tableCodes struct {
	building sync.Mutex // held while blocks are made; taken before mu
	mu       sync.Mutex
	blocks   []*codes.Codes // grows at the end only
}

func (t *tableCodes) get() []*codes.Codes {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.blocks
}

// blockRows returns the number of rows of a block of codes: a power of two with about as many bytes
// of vectors as make codes pay for a segment.
func (e *Engine) blockRows(dim int) int {
	rows := minBlockRows
	for 2*rows <= maxBlockRows && int64(2*rows)*int64(dim)*4 <= e.Opts.CodedBytes {
		rows *= 2
	}
	return rows
}

// HeadCodes are the codes of the first rows of a part of the head, in blocks of Rows rows.
type HeadCodes struct {
	Rows   int
	Blocks []*codes.Codes
}

// Len returns the number of rows that have codes.
func (h *HeadCodes) Len() int { return h.Rows * len(h.Blocks) }

// HeadCodes returns the codes that a part of the head has. With add, missing codes are built, by
// the background if it compacts, and otherwise by this call, unless another call is building them.
func (e *Engine) HeadCodes(v *View, p *Part, add bool) HeadCodes {
	if p.table == nil || p.Dim == 0 {
		return HeadCodes{}
	}
	t, h := p.table.codes, HeadCodes{Rows: e.blockRows(p.Dim)}
	full := p.N / h.Rows
	h.Blocks = t.get()
	switch {
	case !add || len(h.Blocks) >= full:
	case e.background.code != nil && e.Opts.Compaction:
		wake(e.background.code)
	case t.building.TryLock():
		h.Blocks = e.codeBlocks(v, p, maxNewBlocks, nil)
		t.building.Unlock()
	}
	h.Blocks = h.Blocks[:min(full, len(h.Blocks))]
	return h
}

// codeHeads makes the codes of all full blocks of the heads.
func (e *Engine) codeHeads(ctx context.Context) error {
	ver := e.Current()
	defer e.Drop(ver)
	yield := yielderOf(ctx)
	for _, v := range ver.Views {
		for _, p := range v.Parts {
			if p.table == nil || p.Dim == 0 {
				continue
			}
			t, full := p.table.codes, p.N/e.blockRows(p.Dim)
			for done := -1; done < len(t.get()) && len(t.get()) < full; {
				if err := ctx.Err(); err != nil {
					return err
				}
				done = len(t.get())
				t.building.Lock()
				e.codeBlocks(v, p, 1, yield)
				t.building.Unlock()
			}
		}
	}
	return nil
}

// codeBlocks makes codes of up to most more full blocks of p and returns all there are. building is
// held.
func (e *Engine) codeBlocks(v *View, p *Part, most int, yield *yielder) []*codes.Codes {
	t, rows := p.table.codes, e.blockRows(p.Dim)
	full := p.N / rows
	blocks := t.get() // nobody else adds to them
	var like *codes.Codes
	if len(blocks) > 0 {
		like = blocks[0]
	}
	var buf []float32
	for n := 0; n < most && len(blocks) < full; n++ {
		first := len(blocks) * rows
		block, err := codes.NewBlock(v.Def.Schema.Metric, p.Dim, rows, func(lo, hi int) (_ []float32, err error) {
			yield.yield()
			buf, err = p.appendVectors(buf[:0], first+lo, first+hi)
			return buf, err
		}, like)
		if err != nil { // the vectors are scanned
			e.Opts.Logger.Warn("cannot code rows in memory", "error", err)
			break
		}
		if v.Def.Schema.Index != IndexNone {
			err = block.Sketch(func() error {
				yield.yield()
				return nil
			})
		}
		if err != nil {
			e.Opts.Logger.Warn("cannot sketch rows in memory", "error", err)
		}
		if like == nil {
			like = block
		}
		blocks = append(blocks, block)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.blocks = blocks
	return blocks
}

// appendVectors appends the vectors of rows [lo, hi).
func (p *Part) appendVectors(dst []float32, lo, hi int) ([]float32, error) {
	for lo < hi {
		end := min(hi, p.Source.Run(lo))
		x, err := p.Source.Vectors(lo, end)
		if err != nil {
			return nil, err
		}
		dst, lo = append(dst, x...), end
	}
	return dst, nil
}

// Uncoded returns the number of live rows with a vector that a search compares in full, because
// neither a graph nor codes have them. It must be called inside Guard.
func (e *Engine) Uncoded(v *View, p *Part) int {
	switch {
	case p.Dim == 0:
		return 0
	case p.Segment == nil:
		h := e.HeadCodes(v, p, false)
		n := p.N - h.Len()
		for row := range p.Dead.All() {
			if row >= h.Len() {
				n--
			}
		}
		return n
	case p.Segment.Codes.Get() != nil || v.Def.Schema.Index != IndexNone && p.Segment.Graph.Get() != nil:
		return 0
	}
	return p.Live()
}
