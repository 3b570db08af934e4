package db

import (
	"context"
	"io"

	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/segment/columns"
)

// columnsOf returns the metadata columns of a segment. They are written with the segment;
// if they are lost, the next filter rebuilds them.
func (db *DB) columnsOf(s *openSegment) *derived[columns.Columns] {
	return &derived[columns.Columns]{
		db: db, name: derivedName(s.info.ID, "cols"), when: onDemand,
		parse: func(b []byte) (*columns.Columns, error) { return columns.Parse(b, s.columnsIdent()) },
		write: func(ctx context.Context, w io.WriterAt) error {
			b, err := s.gatherColumns(ctx)
			if err == nil {
				err = s.writeColumns(w, b)
			}
			return err
		},
		deep:  s.compareColumns,
		newer: fileformat.ErrVersion,
	}
}

func (s *openSegment) columnsIdent() columns.Ident {
	return columns.Ident{DB: s.db.state.DB, Segment: s.info.ID, Rows: s.info.Rows, CRC: s.info.CRC, Docs: s.info.Docs}
}

func (s *openSegment) writeColumns(w io.WriterAt, b *columns.Builder) error {
	_, err := w.WriteAt(b.Bytes(s.info.Rows, s.columnsIdent()), 0)
	return err
}

// keepColumns writes the columns of a new segment.
func (s *openSegment) keepColumns(b *columns.Builder) {
	err := s.cols.keep(func(w io.WriterAt) error { return s.writeColumns(w, b) })
	if err != nil { // costs time later, not data
		s.db.opts.Logger.Warn("cannot keep derived file", "file", s.cols.name, "error", err)
	}
}

// gatherColumns reads the metadata of all rows from meta.bolt. Rows without a document
// stay empty: a newer version replaced the document, so they are dead.
func (s *openSegment) gatherColumns(ctx context.Context) (*columns.Builder, error) {
	b := columns.NewBuilder()
	return b, s.eachMetadata(ctx, func(row int, m Metadata) error { return b.Add(row, m) })
}

// eachMetadata calls fn with the metadata of all rows whose document is in
// meta.bolt.
func (s *openSegment) eachMetadata(ctx context.Context, fn func(row int, m Metadata) error) error {
	const perTx = 1024 // short transactions: a long one keeps pages from reuse
	nums := s.DocNums()
	for lo := 0; lo < len(nums); lo += perTx {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := s.documents(func(tx *meta.Tx) error {
			for row := lo; row < min(lo+perTx, len(nums)); row++ {
				doc, ok, err := tx.Document(s.info.Collection, nums[row])
				if err != nil {
					return err
				}
				if !ok {
					continue
				}
				m, err := document.MetadataOf(doc)
				if err != nil {
					return err
				}
				if err := fn(row, m); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
