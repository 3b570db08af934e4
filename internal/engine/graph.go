package engine

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/segment/graph"
)

// GraphSize is the number of rows times dimensions from which a segment gets a graph. With fewer a
// beam search saves little or nothing: 3,000 rows of 768 dimensions are scanned as fast.
const GraphSize = 3_000_000

// wantsGraph reports whether the segment is large enough for a graph.
func (s *OpenSegment) wantsGraph() bool {
	size := int64(s.Info.Dim) * int64(s.Info.Rows)
	return size > 0 && size >= s.engine.Opts.GraphSize
}

// graphOf returns the graph of a segment. While it is absent, and where it
// would not pay, queries scan all rows that match.
func (e *Engine) graphOf(s *OpenSegment) *Derived[graph.Graph] {
	ident := s.CodesIdent()
	return &Derived[graph.Graph]{
		engine: e, Name: derivedName(s.Info.ID, "graph"), when: ByCompact,
		parse:  func(b []byte) (*graph.Graph, error) { return graph.Parse(b, ident, s.Codes.peek()) },
		verify: (*graph.Graph).Verify,
		deep: func(ctx context.Context, g *graph.Graph) error {
			err := g.Compare(ctx, s.Rows)
			if errors.Is(err, graph.ErrCodes) {
				return nil // the check of the codes reports it
			}
			return err
		},
		write: func(ctx context.Context, w io.WriterAt) error { return e.writeGraph(ctx, w, s) },
		newer: fileformat.ErrVersion,
		lacks: graph.ErrCodes,
		stale: func(g *graph.Graph) bool { return g.Codes() != nil && g.Codes() != s.Codes.peek() },

		outdated: func(g *graph.Graph) bool { return g.Outdated(s.index() == IndexSmall) },
		unwanted: func() bool { return s.index() == IndexNone },
		dropped: func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.dropBase(s)
		},
	}
}

// DistrustGraph stops the use of a damaged graph, or of the codes that it shares if these are
// damaged: then there is no graph until they have been rebuilt.
func (s *OpenSegment) DistrustGraph(g *graph.Graph, err error) {
	if errors.Is(err, graph.ErrCodes) {
		s.Codes.distrustOf(g.Codes(), err)
	} else {
		s.Graph.Distrust(err)
	}
}

// codesToShare returns the codes of a segment, which its graph may share, and builds them if they
// are absent. It returns nil if there are none.
func (s *OpenSegment) codesToShare(ctx context.Context) *codes.Codes {
	if s.Codes == nil {
		return nil
	}
	s.engine.makeNow(ctx, s.Codes)
	return s.Codes.Get()
}

// writeGraph builds the graph of a segment. It extends the graph of the base, if there is one.
func (e *Engine) writeGraph(ctx context.Context, w io.WriterAt, s *OpenSegment) error {
	opts := graph.Options{Workers: e.Opts.Workers, QuickSize: e.Opts.QuickSize,
		Small: s.index() == IndexSmall, Planned: !e.Opts.WalkAlways, Trials: e.Opts.Trials}
	if y := yielderOf(ctx); y != nil {
		opts.Yield, opts.Alone = y.yield, y.alone
	}
	// Inserting the rows takes most of the time. The rest, above all the calibration, counts as a
	// quarter more.
	rows := int64(s.Info.Rows)
	left := rows + rows/4
	if progress := ProgressOf(ctx); progress != nil {
		progress.Expect(left)
		opts.Progress = func(n int) {
			part := min(int64(n), left)
			left -= part
			progress.Add(part)
		}
		defer func() { progress.Add(left) }() // duplicates are not inserted
	}
	e.mu.Lock()
	base := s.base
	if base != nil {
		opts.Rows = s.baseRows
		base.sets++ // Close may drop it during the build
	}
	e.mu.Unlock()
	if base != nil {
		opts.Base = base.Graph.Get()
	}
	opts.Codes = s.codesToShare(ctx)
	_, err := graph.Write(ctx, w, s.CodesIdent(), s.Rows, opts)
	if errors.Is(err, graph.ErrCodes) {
		s.Codes.distrustOf(opts.Codes, err)
		opts.Codes = s.codesToShare(ctx)
		_, err = graph.Write(ctx, w, s.CodesIdent(), s.Rows, opts)
	}
	if opts.Base != nil && errors.Is(err, fileformat.ErrDamaged) && !errors.Is(err, graph.ErrCodes) {
		base.Graph.Distrust(err)
		opts.Base = nil
		_, err = graph.Write(ctx, w, s.CodesIdent(), s.Rows, opts)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if base != nil {
		e.letGo(base)
	}
	if err == nil {
		e.dropBase(s)
	}
	return err
}

// graphBase returns the victim whose graph the new segment's graph extends: the
// victim with most live rows, if it has a graph and at least half of the new
// segment's rows. Otherwise it returns nil.
func graphBase(victims []victim, rows int) *OpenSegment {
	most := slices.MaxFunc(victims, func(a, b victim) int { return a.live() - b.live() })
	if most.Graph.Get() == nil || most.index() == IndexNone || 2*most.live() < rows {
		return nil
	}
	return most.OpenSegment
}

// keepBase keeps base open until the graph of s is built, although the database
// no longer uses it. rows gives, for each row of base, its row in s.
func (e *Engine) keepBase(s, base *OpenSegment, rows []uint32) {
	s.baseRows = make([]int32, len(rows))
	for i, row := range rows {
		s.baseRows[i] = int32(row) // terms.Dropped becomes -1
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s.base = base
	base.sets++
}

// dropBase releases the base of a segment; mu is held.
func (e *Engine) dropBase(s *OpenSegment) {
	if base := s.base; base != nil {
		s.base, s.baseRows = nil, nil
		e.letGo(base)
	}
}

// letGo releases one reference to a segment; mu is held.
func (e *Engine) letGo(s *OpenSegment) {
	if s.sets--; s.sets == 0 {
		e.shut(s)
	}
}

// RaiseBy is the factor of one raise of the beam width.
const RaiseBy = 1.5

// Raise returns the factor on the calibrated setting of the graph.
func (s *OpenSegment) Raise() float64 { return math.Pow(RaiseBy, float64(s.Raised.Load())) }
