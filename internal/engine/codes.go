package engine

import (
	"context"
	"io"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment/codes"
)

// codedBytes is the size of the vectors from which a segment gets codes: one byte per
// component, with error bounds, which a scan reads instead of the vectors. Smaller
// segments gain nothing.
const CodedBytes = 1 << 20

// wantsCodes reports whether the segment is large enough for codes.
func (s *OpenSegment) wantsCodes() bool {
	size := 4 * int64(s.Info.Dim) * int64(s.Info.Rows)
	return size > 0 && size >= s.engine.Opts.CodedBytes
}

// codesOf returns the codes of a segment. While they are absent, scans read the vectors.
func (e *Engine) codesOf(s *OpenSegment) *Derived[codes.Codes] {
	ident := s.CodesIdent()
	return &Derived[codes.Codes]{
		engine: e, Name: derivedName(s.Info.ID, "codes"), when: ByClose,
		parse:  func(b []byte) (*codes.Codes, error) { return codes.Parse(b, ident) },
		verify: (*codes.Codes).Verify,
		deep:   s.compareCodes,
		write: func(ctx context.Context, w io.WriterAt) error {
			yield, write := yielderOf(ctx), codes.Write
			if s.index() == IndexSmall {
				write = codes.WriteSmall
			}
			_, err := write(w, ident, func(lo, hi int) ([]float32, error) {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				yield.yield()
				return s.Rows(lo, hi)
			})
			return err
		},
		newer:    fileformat.ErrVersion,
		outdated: func(c *codes.Codes) bool { return c.Outdated(s.index() == IndexSmall) },
	}
}

// SketchSegments makes the sketches of segments that have codes and wait for their graph, and drops
// sketches that are no longer needed.
func (e *Engine) SketchSegments(ctx context.Context) error {
	ver := e.Current() // keeps the segments mapped
	defer e.Drop(ver)
	for _, s := range ver.Files.Segments {
		if s.Codes == nil || s.Graph == nil {
			continue
		}
		err := vfs.Catch(s.Codes.File(), func() error {
			return e.Guard(func() error { return s.sketch(ctx) })
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil { // scans do without
			e.Opts.Logger.Warn("cannot sketch rows", append(reasons(err), "segment", s.Info.ID)...)
		}
	}
	return nil
}

func (s *OpenSegment) sketch(ctx context.Context) error {
	c := s.Codes.Get()
	switch {
	case c == nil:
		return nil
	case s.index() == IndexNone || s.Graph.Get() != nil:
		c.DropSketches()
		return nil
	}
	yield := yielderOf(ctx)
	return c.Sketch(func() error {
		yield.yield()
		return ctx.Err()
	})
}

// CodesIdent identifies a segment in the files derived from its vectors.
func (s *OpenSegment) CodesIdent() codes.Ident {
	return codes.Ident{DB: s.engine.Identity, Segment: s.Info.ID, Rows: s.Info.Rows, Dim: s.Info.Dim,
		Metric: s.metric, CRC: s.Info.CRC}
}
