package engine

import (
	"context"
	"errors"
	"io/fs"
	"runtime"
	"time"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment"
	"github.com/vecbolt/vecbolt/segment/columns"
	"github.com/vecbolt/vecbolt/segment/terms"
)

// newSegmentID returns an unused segment number. metaMu is held. The next commit records
// the number; until then its file is a leftover, which the next Open removes.
func (e *Engine) newSegmentID() uint64 {
	id := e.state.NextSegment
	e.state.NextSegment++
	return id
}

// createSegment writes a new segment. newID returns its number, fill writes its rows, and
// finish gives the open segment its derived files. If anything fails, by an error, a
// fault of mapped memory or a panic, no file stays behind. If a foreign file has the
// name, createSegment takes the next number.
func (e *Engine) createSegment(newID func() uint64, coll uint32, dim int, metric fileformat.Metric,
	fill func(w *segment.Writer) (docs [16]byte, err error), finish func(s *OpenSegment)) (s *OpenSegment, err error) {
	var w *segment.Writer
	var id uint64
	for range 1000 {
		id = newID()
		if w, err = segment.Create(e.FS, e.Identity, id, coll, dim); !errors.Is(err, fs.ErrExist) {
			break
		}
		e.Opts.Logger.Warn("cannot create segment, taking the next number", "segment", id, "error", err)
	}
	if err != nil {
		return nil, err
	}
	done := false
	defer func() {
		if done {
			return
		}
		_ = w.Abort() // removeFiles tries again, and removeLitter keeps trying
		if s != nil {
			e.unmap(s)
			s = nil
		}
		e.removeFiles(id, TmpDir, SegDir)
	}()
	docs, err := fill(w)
	if err != nil {
		return nil, err
	}
	info, err := w.Finish()
	if err != nil {
		return nil, err
	}
	info.Docs = docs
	if s, err = e.openSegment(info, metric, nil); err != nil {
		return nil, err
	}
	s.made = time.Now()
	finish(s)
	done = true
	return s, nil
}

// writeSegment writes the live rows of a head part, vectors and columns.
func (e *Engine) writeSegment(def *Definition, p *Part, newID func() uint64) (*OpenSegment, error) {
	cols := columns.NewBuilder()
	live := p.Alive()
	return e.createSegment(newID, def.ID, p.Dim, def.Schema.Metric,
		func(w *segment.Writer) ([16]byte, error) {
			return fillSegment(w, cols, p, live)
		}, func(s *OpenSegment) {
			s.keepColumns(cols)
			if def.Analysis != nil {
				s.keepTerms(def.Analysis, p, live)
			}
		})
}

// yieldRows is the number of rows after which a flush offers its processor to others. They take it
// a tenth of a millisecond, as long as a quick sync of the log. Writers may wait for its end, so it
// must not come after other background work.
const yieldRows = 32

// fillSegment writes the live rows of a head part and collects their columns.
func fillSegment(w *segment.Writer, cols *columns.Builder, p *Part, live bitset.Set) ([16]byte, error) {
	docs := newSourceDigest("flush")
	rows := 0
	for row := range live.All() {
		if row%yieldRows == 0 {
			runtime.Gosched()
		}
		vec, err := []float32(nil), error(nil)
		if p.Dim > 0 {
			vec, err = p.Source.Vectors(row, row+1)
		}
		switch {
		case err != nil:
		case p.Inv[row] == 0: // also the value for a vector that is not finite, which Append refuses
			err = w.Append(p.Nums[row], vec)
		default:
			err = w.AppendRows(p.Nums[row:row+1], p.Inv[row:row+1], vec)
		}
		var m map[string]any
		if err == nil {
			m, err = document.MetadataOf(p.docs[row])
		}
		if err == nil {
			err = cols.Add(rows, m)
		}
		if err != nil {
			return [16]byte{}, err
		}
		docs.document(p.Nums[row], p.docs[row])
		rows++
	}
	return docs.sum(), nil
}

// keepTerms writes the full-text index of a segment made from the live rows of a head
// part.
func (s *OpenSegment) keepTerms(a *Analysis, p *Part, live bitset.Set) {
	src, err := p.Terms(context.Background(), a)
	if err != nil {
		s.engine.Opts.Logger.Warn("cannot index texts", "segment", s.Info.ID, "error", err)
		return
	}
	in := terms.Input{Source: src, Rows: make([]uint32, p.N)}
	next := uint32(0)
	for row := range in.Rows {
		in.Rows[row] = terms.Dropped
		if live.Has(row) {
			in.Rows[row] = next
			next++
		}
	}
	s.Terms.Keep(a, []terms.Input{in})
}
