package db

import (
	"context"
	"io"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment/codes"
)

// codedBytes is the size of the vectors from which a segment gets codes: one byte per
// component, with error bounds, which a scan reads instead of the vectors. Smaller
// segments gain nothing.
const codedBytes = 1 << 20

// wantsCodes reports whether the segment is large enough for codes.
func (s *openSegment) wantsCodes() bool {
	size := 4 * int64(s.info.Dim) * int64(s.info.Rows)
	return size > 0 && size >= s.db.opts.codedBytes
}

// codesOf returns the codes of a segment. While they are absent, scans read the vectors.
func (db *DB) codesOf(s *openSegment) *derived[codes.Codes] {
	ident := s.codesIdent()
	return &derived[codes.Codes]{
		db: db, name: derivedName(s.info.ID, "codes"), when: byClose,
		parse:  func(b []byte) (*codes.Codes, error) { return codes.Parse(b, ident) },
		verify: (*codes.Codes).Verify,
		deep:   s.compareCodes,
		write: func(ctx context.Context, w io.WriterAt) error {
			_, err := codes.Write(w, ident, func(lo, hi int) ([]float32, error) {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				return s.Rows(lo, hi)
			})
			return err
		},
		newer: fileformat.ErrVersion,
	}
}

// codesIdent identifies a segment in the files derived from its vectors.
func (s *openSegment) codesIdent() codes.Ident {
	return codes.Ident{DB: s.db.state.DB, Segment: s.info.ID, Rows: s.info.Rows, Dim: s.info.Dim,
		Metric: map[Metric]codes.Metric{Cosine: codes.Cosine, Dot: codes.Dot, L2: codes.L2}[s.metric], CRC: s.info.CRC}
}
