package engine

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
func (e *Engine) columnsOf(s *OpenSegment) *Derived[columns.Columns] {
	return &Derived[columns.Columns]{
		engine: e, Name: derivedName(s.Info.ID, "cols"), when: onDemand,
		parse: func(b []byte) (*columns.Columns, error) { return columns.Parse(b, s.ColumnsIdent()) },
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

func (s *OpenSegment) ColumnsIdent() columns.Ident {
	return columns.Ident{
		DB: s.engine.Identity, Segment: s.Info.ID, Rows: s.Info.Rows, CRC: s.Info.CRC, Docs: s.Info.Docs,
	}
}

func (s *OpenSegment) writeColumns(w io.WriterAt, b *columns.Builder) error {
	_, err := w.WriteAt(b.Bytes(s.Info.Rows, s.ColumnsIdent()), 0)
	return err
}

// keepColumns writes the columns of a new segment.
func (s *OpenSegment) keepColumns(b *columns.Builder) {
	err := s.Cols.keep(func(w io.WriterAt) error { return s.writeColumns(w, b) })
	if err != nil { // costs time later, not data
		s.engine.Opts.Logger.Warn("cannot keep derived file", "file", s.Cols.Name, "error", err)
	}
}

// gatherColumns reads the metadata of all rows from meta.bolt. Rows without a document
// stay empty: a newer version replaced the document, so they are dead.
func (s *OpenSegment) gatherColumns(ctx context.Context) (*columns.Builder, error) {
	b := columns.NewBuilder()
	return b, s.EachMetadata(ctx, func(row int, m map[string]any) error { return b.Add(row, m) })
}

// docsPerTx is the number of documents that one transaction reads when a derived file is built: a
// long transaction keeps pages from reuse.
const docsPerTx = 1024

// EachMetadata calls fn with the metadata of all rows whose document is in
// meta.bolt.
func (s *OpenSegment) EachMetadata(ctx context.Context, fn func(row int, m map[string]any) error) error {
	nums := s.DocNums()
	for lo := 0; lo < len(nums); lo += docsPerTx {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := s.documents(func(tx *meta.Tx) error {
			for row := lo; row < min(lo+docsPerTx, len(nums)); row++ {
				doc, ok, err := tx.Document(s.Info.Collection, nums[row])
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
